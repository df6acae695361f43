//! The list of dead letters: what they are about together, and each of them.

use crate::admin::forms::filled::Filled;
use crate::admin::lists::filter::{of_options, search_label};
use crate::admin::lists::recipe::command;
use crate::admin::page::*;
use crate::admin::pages::dead_letters::actions::RESUBMIT_SELECTED;
use crate::admin::pages::dead_letters::asked::Asked;
use crate::admin::pages::dead_letters::groups;
use crate::admin::pages::dead_letters::groups::GroupText;
use crate::admin::pages::traffic::DeadLetterChart;
use crate::admin::paths::dead_letter_page;
use crate::admin::widgets::{hint, response};
use crate::model::dead_letter::DeadLetterReason;
use crate::model::dead_letter_filter::DeadLetterFilter;
use crate::model::delivery::Outcome;
use crate::model::registry::Registry;
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;
use crate::store::StoreError;
use crate::store::views::{DeadLetterGroup, DeliveryRow, GroupBy, Page, TrafficOf};

pub(crate) const LIST: &str = "/admin/dead-letters";

/// Rows of one page.
const ROWS: usize = 50;

/// Groups told above them; the rest is counted.
const GROUPS_SHOWN: usize = 12;

/// Groups of these that are seen at once, so that the list itself begins on the first screen of a laptop; the
/// rest is folded away, unless somebody has asked for groups.
const GROUPS_FIRST: usize = 3;

#[derive(Template)]
#[template(path = "pages/dead_letters.html")]
struct DeadLettersPage {
    frame: Frame,
    list: List,
    form: Filled<Asked>,
    of: Vec<(String, String)>,
    reasons: Vec<(String, String)>,
    outcomes: Vec<(String, String)>,
    groupings: Vec<(String, String)>,
    sees_data: bool,
    /// How many there are, whatever is asked for.
    all: u64,
    groups: GroupTable,
    /// New ones over the last day; `None` where the page is about others.
    chart: Option<DeadLetterChart>,
    bulk: Bulk,
    rows: Vec<DeliveryRow>,
    empty: Empty,
}

/// What dead letters have in common.
struct GroupTable {
    title: &'static str,
    head: &'static str,
    rows: Vec<GroupText>,
    /// Those that are folded away.
    folded: Vec<GroupText>,
    /// Groups beyond those that are shown.
    more: usize,
    /// Whether older dead letters were not looked at.
    is_partial: bool,
}

/// What can be done with all that are meant.
struct Bulk {
    resubmit_selected: String,
    resubmit: String,
    purge: String,
    ndjson: String,
    json: String,
}

impl Bulk {
    fn new(asked: &Asked) -> Self {
        let path = LIST;
        let file = |form: &str| {
            let path = asked.at(&format!("{path}/export"));
            let sign = if path.contains('?') { '&' } else { '?' };
            format!("{path}{sign}form={form}")
        };
        Self {
            resubmit_selected: format!("{path}/resubmit"),
            resubmit: asked.at(&format!("{path}/resubmit-all")),
            purge: asked.at(&format!("{path}/purge")),
            ndjson: file("ndjson"),
            json: file("json"),
        }
    }
}

impl DeadLettersPage {
    fn page(row: &DeliveryRow) -> String {
        dead_letter_page(row.id)
    }

    /// What the receiver said about it, or what the last attempt came to and what the reason means.
    fn reason(row: &DeliveryRow) -> String {
        let reason = match (&row.dead_letter.description, row.dead_letter_reason) {
            (Some(own), _) => print::visible(own),
            (None, reason) => reason.map_or_else(String::new, response::of_reason),
        };
        match row.last_status.map(response::of_status) {
            Some(status) if status != reason => format!("{reason}: {status}"),
            Some(_) | None => reason,
        }
    }

    fn search_label(&self) -> &'static str {
        search_label(self.sees_data)
    }
}

/// Dead letters, newest first.
pub(crate) async fn list(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(asked): Query<Asked>,
) -> PageResult {
    let registry = &visitor.standing.registry;
    let form = Filled::with(asked);
    let (found, form) = match form.values.query(registry, &visitor, ROWS) {
        Ok(query) => (site.views.dead_letters(query).await?, form),
        Err(unknown) => (Page::default(), form.with_faults([unknown.fault()])),
    };
    let asked = &form.values;
    let next = found.next_before.map(|id| id.to_string());
    let bulk = Bulk::new(asked);
    let mut list = List::new(LIST, &form).with_older(next, &form);
    let summary = site.views.dead_letter_groups().await?;
    let matching = asked.filter(registry, &visitor).ok();
    let matching = matching.and_then(|filter| count(&filter, &summary, registry));
    list.shown = shown(found.rows.len() as u64, matching);
    list.recipe = recipe(&site, asked);
    if visitor.may_open(&bulk.ndjson) && !found.rows.is_empty() {
        list.export = Some(bulk.ndjson.clone());
    }
    if visitor.may_open(&bulk.resubmit_selected) && !found.rows.is_empty() {
        list.bulk = vec![RESUBMIT_SELECTED.offer()];
        let all = matching.map_or_else(String::new, |count| format!(" {}", print::count(count)));
        let label = format!("Resubmit all{all} that match…");
        list.all = Some((bulk.resubmit.clone(), label));
    }
    let topics = registry.made_topics();
    let since = topics.map(|each| each.topic.created_at).min();
    let since = since.unwrap_or(visitor.now);
    let chart = match asked.is_later_page() || asked.group().is_some() {
        true => None,
        false => Some(DeadLetterChart::read(&site, traffic_of(asked, registry), since).await?),
    };
    let rows = found.rows.into_iter().map(|row| row.seen_by(visitor.role));
    Ok(draw(&DeadLettersPage {
        frame: Frame::new(&visitor, "Dead letters"),
        of: of_options(registry, "All topics"),
        reasons: options(
            "Any reason",
            DeadLetterReason::ALL.map(|each| (each.name(), hint::for_reason(each))),
        ),
        outcomes: options("Any", Outcome::ALL.map(|each| (each.name(), each.name()))),
        groupings: options(
            "Reason and subscription",
            GroupBy::ALL.map(|by| match by {
                GroupBy::Source => (by.name(), "Source"),
                GroupBy::Reason => (by.name(), "Reason"),
                GroupBy::EventType => (by.name(), "Event type"),
                GroupBy::Day => (by.name(), "Day"),
            }),
        ),
        sees_data: visitor.sees_data(),
        all: visitor.standing.dead_letters(),
        groups: groups(&site, asked, &visitor, &summary).await?,
        chart,
        bulk,
        rows: rows.collect(),
        empty: empty(&list),
        list,
        form,
    }))
}

/// Values with what they are called, behind one that chooses none of them.
fn options<const N: usize>(
    none: &str,
    words: [(&'static str, &'static str); N],
) -> Vec<(String, String)> {
    let all = std::iter::once(("", none)).chain(words);
    all.map(|(value, text)| (value.to_owned(), text.to_owned()))
        .collect()
}

fn empty(list: &List) -> Empty {
    match list.is_whole() {
        false => Empty::no_match("No dead letters match this filter.", LIST),
        true => Empty::new(
            "ok",
            "No dead letters.",
            "A delivery that fails for good is kept here, to be looked at and resubmitted.",
        ),
    }
}

/// How many a filter means, where that is known without looking for them.
fn count(
    filter: &DeadLetterFilter,
    summary: &[DeadLetterGroup],
    registry: &Registry,
) -> Option<u64> {
    let plain = DeadLetterFilter {
        topic: filter.topic,
        subscription: filter.subscription,
        reason: filter.reason.clone(),
        ..DeadLetterFilter::default()
    };
    let is_of_topic = |topic: TopicId, of: SubscriptionId| {
        let found = registry.subscription(of);
        found.is_some_and(|(entry, _)| entry.topic.id == topic)
    };
    (*filter == plain).then(|| {
        groups::count(summary, |group| {
            filter
                .subscription
                .is_none_or(|id| id == group.subscription)
                && filter
                    .topic
                    .is_none_or(|id| is_of_topic(id, group.subscription))
                && filter
                    .reason
                    .as_ref()
                    .is_none_or(|reason| *reason == group.reason)
        })
    })
}

/// `50 of 1,394`.
fn shown(rows: u64, matching: Option<u64>) -> String {
    match matching {
        Some(all) if all > rows => format!("{} of {}", print::count(rows), print::count(all)),
        Some(_) | None => print::plural(rows, "dead letter", "dead letters"),
    }
}

/// Whose dead letters the chart draws.
fn traffic_of(asked: &Asked, registry: &Registry) -> TrafficOf {
    let of = asked.of(registry).unwrap_or_default();
    match (of.topic, of.subscription) {
        (_, Some(id)) => TrafficOf::Subscription(id),
        (Some(id), None) => TrafficOf::Topic(id),
        (None, None) => TrafficOf::Everything,
    }
}

async fn groups(
    site: &Site,
    asked: &Asked,
    visitor: &Visitor,
    summary: &[DeadLetterGroup],
) -> Result<GroupTable, StoreError> {
    let registry = site.broker.registry();
    let (title, head) = match asked.group() {
        None => ("By reason", "Reason"),
        Some(GroupBy::Source) => ("By source", "Source"),
        Some(GroupBy::Reason) => ("By reason", "Reason"),
        Some(GroupBy::EventType) => ("By event type", "Event type"),
        Some(GroupBy::Day) => ("By day", "Day (UTC)"),
    };
    let mut table = GroupTable {
        title,
        head,
        rows: Vec::new(),
        folded: Vec::new(),
        more: 0,
        is_partial: false,
    };
    match (asked.group(), asked.filter(&registry, visitor)) {
        (Some(by), Ok(filter)) => {
            let found = site.views.group_dead_letters(filter, by).await?;
            table.is_partial = found.is_partial;
            table.rows = groups::by_key(found.groups, by, asked);
        }
        // Who looks for something knows what it is about.
        (None, Ok(_)) if !asked.is_filtered() && !asked.is_later_page() => {
            table.rows = groups::by_subscription(summary, &registry);
            table.more = table.rows.len().saturating_sub(GROUPS_SHOWN);
            table.rows.truncate(GROUPS_SHOWN);
            table.folded = table.rows.split_off(table.rows.len().min(GROUPS_FIRST));
        }
        (None, Ok(_)) | (_, Err(_)) => {}
    }
    Ok(table)
}

fn recipe(site: &Site, asked: &Asked) -> Recipe {
    let flags = asked.flags();
    let path = link("/everpost/deadLetters", &flags);
    Recipe::get(&site.management_url(&path)).everpost(command("everpost dead-letters list", &flags))
}
