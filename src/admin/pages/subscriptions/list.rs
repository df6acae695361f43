//! The list of all event subscriptions, and of those among them that fit a filter.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::admin::forms::filled::Filled;
use crate::admin::lists::filter::topic_options;
use crate::admin::page::*;
use crate::admin::pages::subscriptions::table::{ROWS, Rank, rank};
use crate::admin::pages::subscriptions::{
    PAUSE_SELECTED, RESUME_SELECTED, Subscription, SubscriptionTable,
};
use crate::admin::paths::topic_page;
use crate::admin::standing::{Standing, State as Stand};
use crate::model::subscription::SubscriptionStatus;

pub(crate) const PATH: &str = "/admin/subscriptions";

/// What the address asks for.
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

#[derive(Template)]
#[template(path = "pages/subscriptions.html")]
struct SubscriptionsPage {
    frame: Frame,
    list: List,
    filter: Filled<SubscriptionFilter>,
    topics: Vec<(String, String)>,
    labels: Vec<(String, String)>,
    all: usize,
    topic_count: usize,
    needing_attention: usize,
    table: SubscriptionTable,
}

/// All event subscriptions, or those that fit.
pub(crate) async fn list(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(filter): Query<SubscriptionFilter>,
) -> PageResult {
    let filter = Filled::with(filter);
    let standing = &visitor.standing;
    let (fitting, rows, next) = filter.values.page(standing);
    let mut list = List::new(PATH, &filter)
        .with_tabs(
            ("State", "state"),
            TABS.map(|(value, title)| (value, title, Some(count(standing, value)))),
            &filter,
        )
        .with_older(next, &filter);
    list.turns = ("First", "Next");
    let frame = Frame::new(&visitor, "Subscriptions");
    let empty = empty(&visitor, &list);
    let mut table = SubscriptionTable::read(&site, &visitor, rows, empty).await?;
    let may_change = frame.opens(format!("{PATH}/pause")) && !table.rows.is_empty();
    if may_change {
        table = table.with_boxes();
        list.bulk = vec![PAUSE_SELECTED.offer(), RESUME_SELECTED.offer()];
    }
    list.shown = format!("{} of {fitting}", table.rows.len());
    list.recipe = Recipe::everpost_alone("everpost subscriptions list");
    Ok(draw(&SubscriptionsPage {
        topics: topic_options(&standing.registry, "All topics"),
        labels: labels(standing),
        topic_count: standing
            .registry
            .topics()
            .filter(|each| !each.subscriptions.is_empty())
            .count(),
        needing_attention: standing.needing_attention(),
        all: standing.all().count(),
        list,
        filter,
        table,
        frame,
    }))
}

impl SubscriptionFilter {
    /// How many fit, those of one page, the worst first, and the last of these if more follow.
    fn page(&self, standing: &Standing) -> (usize, Vec<Subscription>, Option<String>) {
        let fitting = standing
            .all()
            .filter(|(topic, state)| self.fits(topic, state));
        let fitting = fitting.filter_map(|(topic, state)| {
            let subscription = topic.subscription(&state.subscription.name)?.clone();
            let topic = topic.clone();
            Some(Subscription {
                topic,
                subscription,
            })
        });
        let mut ranked: Vec<_> = fitting.map(|each| (rank(&each, standing), each)).collect();
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

    fn fits(&self, topic: &TopicEntry, state: &Stand<'_>) -> bool {
        let definition = &state.subscription.definition;
        let of = topic.topic.name.as_str();
        let text = format!(
            "{of}/{} {}",
            state.subscription.name,
            definition.destination.brief()
        );
        let mode = definition.destination.delivery_mode().name();
        let is = |wanted: &str, given: &str| wanted.is_empty() || wanted == given;
        is_in_tab(&self.state, state)
            && is(&self.topic, of)
            && is(&self.delivery, mode)
            && (self.label.is_empty() || definition.labels.contains(&self.label))
            && text
                .to_lowercase()
                .contains(&self.text.trim().to_lowercase())
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
    let count = u64::try_from(fitting.count()).unwrap_or(u64::MAX);
    match tab {
        "attention" => (count, Tone::Bad),
        _ => (count, Tone::Rest),
    }
}

/// All labels there are, and none of them.
fn labels(standing: &Standing) -> Vec<(String, String)> {
    let labels = standing
        .all()
        .flat_map(|(_, state)| state.subscription.definition.labels.clone());
    let labels: BTreeSet<String> = labels.collect();
    let options = labels.into_iter().map(|label| (label.clone(), label));
    let none = (String::new(), "All labels".to_owned());
    std::iter::once(none).chain(options).collect()
}

fn empty(visitor: &Visitor, list: &List) -> Empty {
    if !list.is_whole() {
        return Empty::no_match("No subscription matches this filter.", PATH);
    }
    let empty = Empty::new(
        "subscriptions",
        "No subscriptions yet.",
        "A subscription sends the events of a topic to an endpoint, or keeps them for receivers.",
    );
    let has_topic = visitor.standing.registry.made_topics().next().is_some();
    empty.leading_to(match has_topic {
        true => visitor.step("/admin/new-subscription", "New subscription"),
        false => visitor.step("/admin/new-topic", "New topic"),
    })
}

#[derive(Deserialize)]
pub(crate) struct ChosenTopic {
    #[serde(default)]
    topic: String,
}

#[derive(Template)]
#[template(path = "pages/choose_topic.html")]
struct ChooseTopicPage {
    frame: Frame,
    topics: Vec<(String, String)>,
    form: Filled<SubscriptionFilter>,
}

/// Asks of which topic a new subscription is to be, and leads to the form for it.
pub(crate) async fn choose_topic(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(ChosenTopic { topic }): Query<ChosenTopic>,
) -> PageResult {
    if topic.is_empty() {
        return Ok(draw(&ChooseTopicPage {
            frame: Frame::new(&visitor, "New subscription"),
            topics: topic_options(&visitor.standing.registry, ""),
            form: Filled::with(SubscriptionFilter::default()),
        }));
    }
    let topic = site.topic(&topic)?;
    let page = topic_page(topic.topic.name.as_str());
    Ok(Redirect::to(&format!("{page}/new-subscription")).into_response())
}
