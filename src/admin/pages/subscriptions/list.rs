//! The list of all event subscriptions, and of those among them that fit a filter.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::*;
use crate::admin::lists::filter::options;

pub(crate) const PATH: &str = "/admin/subscriptions";

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SubscriptionFilter {
    /// In the name of the subscription, of its topic or of its endpoint.
    text: String,
    /// One of [`TABS`].
    state: String,
    topic: String,
    /// `Push` or `Queue`.
    delivery: String,
    label: String,
    /// The row behind which a page begins: its tone and name, such as `bad orders/billing`.
    before: String,
}

/// Parts of the list by state, the values and what they are called.
const TABS: [(&str, &str); 4] = [
    ("", "All"),
    ("attention", "Needs attention"),
    ("active", "Active"),
    ("paused", "Paused"),
];

pub(crate) async fn list(Query(filter): Query<SubscriptionFilter>, call: Call) -> PageResult {
    let (filter, visitor) = (Filled::with(filter), &call.visitor);
    let standing = &visitor.standing;
    let (fitting, rows, next) = filter.values.page(standing);
    let tabs = TABS.map(|(value, title)| (value, title, Some(count(standing, value))));
    let mut list = List::new(PATH, &filter)
        .with_tabs(("State", "state"), tabs, &filter)
        .with_older(next, &filter);
    list.turns = ("First", "Next");
    let mut table = SubscriptionTable::read(&call, visitor, rows, empty(visitor, &list)).await?;
    table.with_boxes = visitor.opens("/admin/subscriptions/pause") && !table.rows.is_empty();
    if table.with_boxes {
        list.bulk = vec![PAUSE_SELECTED.offer(), RESUME_SELECTED.offer()];
    }
    list.shown = format!("{} of {fitting}", table.rows.len());
    list.recipe = Recipe::everpost_alone("everpost subscriptions list");
    Ok(draw(
        &page!("pages/subscriptions.html", visitor, "Subscriptions", {
            list: List = list,
            filter: Filled<SubscriptionFilter> = filter,
            table: SubscriptionTable = table,
        }),
    ))
}

/// Topics that have any.
fn topic_count(registry: &Registry) -> usize {
    let topics = registry.topics();
    topics.filter(|it| !it.subscriptions.is_empty()).count()
}

impl SubscriptionFilter {
    /// How many fit, those of one page, the worst first, and the last of these if more follow.
    fn page(&self, standing: &Standing) -> (usize, Vec<Subscription>, Option<String>) {
        let all = standing.registry.subscriptions().map(Subscription::of);
        let fitting = all.filter(|of| self.fits(of, &standing.of(&of.subscription)));
        let mut ranked: Vec<_> = fitting.map(|of| (rank(&of, standing), of)).collect();
        let all = ranked.len();
        ranked.sort_by(|(one, _), (other, _)| one.cmp(other));
        if let Some(last) = self.last_seen() {
            ranked.retain(|(rank, _)| *rank > last);
        }
        let has_more = ranked.len() > ROWS;
        ranked.truncate(ROWS);
        let last = ranked.last().filter(|_| has_more);
        let next = last.map(|((tone, name), _)| format!("{} {name}", tone.0.name()));
        let rows = ranked.into_iter().map(|(_, each)| each).collect();
        (all, rows, next)
    }

    fn last_seen(&self) -> Option<Rank> {
        let (tone, name) = self.before.split_once(' ')?;
        let tone = Tone::ALL.into_iter().find(|each| each.name() == tone)?;
        Some((Reverse(tone), name.to_owned()))
    }

    fn fits(&self, of: &Subscription, state: &Stand<'_>) -> bool {
        let definition = &of.subscription.definition;
        let destination = &definition.destination;
        let text = format!("{} {}", of.filter(), destination.brief()).to_lowercase();
        let is = |wanted: &str, given: &str| wanted.is_empty() || wanted == given;
        is_in_tab(&self.state, state)
            && is(&self.topic, of.topic.topic.name.as_str())
            && is(&self.delivery, destination.delivery_mode().name())
            && (self.label.is_empty() || definition.labels.contains(&self.label))
            && text.contains(&self.text.trim().to_lowercase())
    }
}

/// Whether it belongs under the tab of that name; under one that is not known nothing does.
fn is_in_tab(tab: &str, state: &Stand<'_>) -> bool {
    match tab {
        "" => true,
        "attention" => state.needs_attention(),
        "active" => state.status == SubscriptionStatus::Active,
        "paused" => state.status == SubscriptionStatus::Paused,
        _ => false,
    }
}

fn count(standing: &Standing, tab: &str) -> (u64, Tone) {
    let fitting = standing.all().filter(|(_, state)| is_in_tab(tab, state));
    let tone = if tab == "attention" {
        Tone::Bad
    } else {
        Tone::Rest
    };
    (fitting.count() as u64, tone)
}

fn labels(standing: &Standing) -> Vec<(String, String)> {
    let all = standing
        .all()
        .flat_map(|(_, state)| &state.subscription.definition.labels);
    options("All labels", all.cloned().collect::<BTreeSet<_>>())
}

fn empty(visitor: &Visitor, list: &List) -> Empty {
    if !list.is_whole() {
        return Empty::no_match("No subscription matches this filter.", PATH);
    }
    let text =
        "A subscription sends the events of a topic to an endpoint, or keeps them for receivers.";
    let has_topic = visitor.standing.registry.made_topics().next().is_some();
    Empty::new("subscriptions", "No subscriptions yet.", text).leading_to(match has_topic {
        true => visitor.step("/admin/new-subscription", "New subscription"),
        false => visitor.step("/admin/new-topic", "New topic"),
    })
}

/// Asks of which topic a new subscription is to be, and leads to the form for it.
pub(crate) async fn choose_topic(Query(chosen): Query<Names>, call: Call) -> PageResult {
    let topic = name_of(&chosen, "topic");
    if topic.is_empty() {
        let form = Filled::with(SubscriptionFilter::default());
        return Ok(draw(
            &page!("pages/choose_topic.html", &call.visitor, "New subscription", {
                form: Filled<SubscriptionFilter> = form,
            }),
        ));
    }
    let page = paths::topic_page(call.topic(topic)?.topic.name.as_str());
    Ok(Redirect::to(&format!("{page}/new-subscription")).into_response())
}
