//! The list of event subscriptions, complete or filtered.

use std::collections::BTreeSet;

use axum::extract::Query;
use axum::response::{IntoResponse, Redirect};
use serde::{Deserialize, Serialize};

use super::{PAUSE_SELECTED, RESUME_SELECTED, Subscription, SubscriptionTable, rank};
use crate::admin::action::{Call, Names, Subject, name_of};
use crate::admin::error::PageResult;
use crate::admin::forms::filled::FilledForm;
use crate::admin::lists::bulk::Selectable;
use crate::admin::lists::list::{ListPage, ROWS, cursor};
use crate::admin::lists::recipe::Recipe;
use crate::admin::pages::answer;
use crate::admin::security::session::Visitor;
use crate::admin::standing::{StandingView, State as Stand};
use crate::admin::widgets::{Empty, Tone, filters};

pub(crate) const PATH: &str = "/admin/subscriptions";

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SubscriptionFilter {
    /// Text in the name of the subscription, of its topic or of its endpoint.
    text: String,
    /// One of [`TABS`].
    state: String,
    topic: String,
    /// `Push` or `Queue`.
    delivery: String,
    label: String,
    /// The number of rows before the page.
    before: String,
}

/// Parts of the list by state: the value, the label, and the tone of the entries.
const TABS: [(&str, &str, Tone); 4] = [
    ("", "All", Tone::Rest),
    ("attention", "Needs attention", Tone::Bad),
    ("healthy", "Healthy", Tone::Rest),
    ("inactive", "Paused or disabled", Tone::Rest),
];

pub(crate) async fn list(Query(filter): Query<SubscriptionFilter>, call: Call) -> PageResult {
    let (filter, visitor) = (FilledForm::with(filter), &call.visitor);
    let standing = &visitor.standing;
    let (fitting, rows, next) = filter.values.page(standing);
    let tabs = TABS.map(|(value, title, tone)| {
        let fitting = standing.all().filter(|(_, state)| is_in_tab(value, state));
        (value, title, Some((fitting.count() as u64, tone)))
    });
    let mut list = ListPage::new(PATH, &filter)
        .with_tabs("State", "state", tabs, &filter)
        .with_older(next, &filter);
    list.turns = ["First", "Previous", "Next"];
    let mut table = SubscriptionTable::read(&call, rows, empty(visitor, &list)).await?;
    table.with_boxes = visitor.opens("/admin/subscriptions/pause") && !table.rows.is_empty();
    if table.with_boxes {
        list.bulk = vec![PAUSE_SELECTED.offer(), RESUME_SELECTED.offer()];
    }
    if fitting > 0 {
        list.shown = format!("{} of {fitting}", table.rows.len());
    }
    let all = standing.all().count() as u64;
    list.of_matching(Some(fitting as u64), Some(all), Subscription::NOUNS.1);
    list.of_rows(table.rows.len());
    list.recipe = Recipe::everpost_alone("everpost subscriptions list");
    let topics = standing.registry.topics();
    answer!("pages/subscriptions.html", visitor, "Subscriptions", {
        // Topics that have subscriptions.
        topics: usize = topics.filter(|it| !it.subscriptions.is_empty()).count(),
        list: ListPage = list,
        filter: FilledForm<SubscriptionFilter> = filter,
        table: SubscriptionTable = table,
    })
}

impl SubscriptionFilter {
    /// Returns the number of matching subscriptions, those of one page with the worst first, and the start of the next
    /// page if there is one.
    fn page(&self, standing: &StandingView) -> (usize, Vec<Subscription>, Option<usize>) {
        let all = standing.registry.subscriptions().map(Subscription::of);
        let fitting = all.filter(|of| self.fits(of, &standing.of(&of.subscription)));
        let mut fitting: Vec<_> = fitting.collect();
        fitting.sort_by_cached_key(|of| rank(of, standing));
        let (count, before) = (fitting.len(), cursor(&self.before).unwrap_or(0));
        let rows = fitting.into_iter().skip(before).take(ROWS).collect();
        let next = before.saturating_add(ROWS);
        (count, rows, Some(next).filter(|next| *next < count))
    }

    fn fits(&self, of: &Subscription, state: &Stand<'_>) -> bool {
        let definition = &of.subscription.definition;
        let destination = &definition.destination;
        let text = format!("{} {}", of.filter(), destination.brief()).to_lowercase();
        let is = |wanted: &str, given: &str| wanted.is_empty() || wanted == given;
        is_in_tab(&self.state, state)
            && is(&self.topic, of.topic.topic.name.as_str())
            && is(&self.delivery, destination.delivery_mode().name())
            && (self.label.is_empty() || definition.options.labels.contains(&self.label))
            && text.contains(&self.text.trim().to_lowercase())
    }
}

/// Reports whether the subscription belongs under the tab of that name; nothing belongs under an unknown one.
fn is_in_tab(tab: &str, state: &Stand<'_>) -> bool {
    match tab {
        "" => true,
        "attention" => state.needs_attention(),
        "healthy" => state.badge().tone == Tone::Good,
        "inactive" => state.badge().tone == Tone::Rest,
        _ => false,
    }
}

fn labels(standing: &StandingView) -> BTreeSet<&String> {
    let all = standing.all().map(|(_, state)| state.subscription);
    all.flat_map(|each| &each.definition.options.labels)
        .collect()
}

fn empty(visitor: &Visitor, list: &ListPage) -> Empty {
    if !list.is_whole() {
        return Empty::no_match("No subscription matches this filter.", PATH);
    }
    let has_topic = visitor.standing.registry.made_topics().next().is_some();
    let (text, step) = if has_topic {
        (
            "A subscription sends the events of a topic to an endpoint, or keeps them for receivers.",
            visitor.step("/admin/new-subscription", "New subscription"),
        )
    } else {
        (
            "A subscription belongs to a topic. Create a topic first.",
            visitor.step("/admin/new-topic", "New topic"),
        )
    };
    Empty::new("subscriptions", "No subscriptions yet.", text).leading_to(step)
}

/// Asks for the topic of a new subscription, and redirects to the form.
pub(crate) async fn choose_topic(Query(chosen): Query<Names>, call: Call) -> PageResult {
    let (topic, visitor) = (name_of(&chosen, "topic"), &call.visitor);
    if topic.is_empty() {
        return answer!("pages/choose_topic.html", visitor, "New subscription", {});
    }
    let page = call.topic(topic)?.page();
    Ok(Redirect::to(&format!("{page}/new-subscription")).into_response())
}
