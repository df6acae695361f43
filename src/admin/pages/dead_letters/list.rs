//! The list of dead letters: a summary in groups, and each dead letter.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use axum::extract::Query;

use super::bulk::all;
use super::{DeadLetterKey, LIST, RESUBMIT_SELECTED};
use crate::admin::action::Call;
use crate::admin::error::PageResult;
use crate::admin::forms::filled::FilledForm;
use crate::admin::lists::bulk::Selectable;
use crate::admin::lists::link;
use crate::admin::lists::list::{ListPage, ROWS, cursor};
use crate::admin::lists::recipe::Recipe;
use crate::admin::pages::answer;
use crate::admin::pages::search::SearchForm;
use crate::admin::pages::subscriptions::Subscription;
use crate::admin::pages::traffic::{RangeChoice, TrafficCharts};
use crate::admin::paths;
use crate::admin::standing::DAY;
use crate::admin::widgets::{Empty, Icon, Time, filters, print, response};
use crate::base::Timestamp;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::dead_letter_filter::DeadLetterFilter;
use crate::model::delivery::{DeliveryId, Outcome};
use crate::model::registry::Registry;
use crate::store::StoreError;
use crate::store::views::{DeadLetterGroup, DeliveryRow, GroupBy, PageOf, TrafficOf};

/// Maximum number of groups shown above the list. Further groups are only counted.
const GROUPS_SHOWN: usize = 12;

/// Number of groups that are visible at first, so that the list itself begins on the first screen of a laptop. Further
/// groups are collapsed, unless the reader has chosen a grouping.
const GROUPS_FIRST: usize = 3;

#[derive(Default)]
struct GroupTable {
    rows: Vec<GroupRow>,
    folded: Vec<GroupRow>,
    /// Number of groups that are not shown.
    more: usize,
    /// Is true if older dead letters were not looked at.
    is_partial: bool,
}

struct GroupRow {
    name: String,
    /// The subscription of the dead letters, if all belong to one.
    of: String,
    hint: &'static str,
    code: String,
    count: u64,
    /// The query that selects the dead letters of the group; `None` if no filter can.
    query: Option<String>,
    /// Time of the newest dead letter, or its day if only that is known.
    newest: Time,
}

pub(crate) async fn list(Query(search): Query<SearchForm>, call: Call) -> PageResult {
    let visitor = &call.visitor;
    let registry = &visitor.standing.registry;
    let (filter, form) = FilledForm::with(search).read(|search| search.dead_letters(visitor));
    let search = &form.values;
    let found = match filter.clone() {
        None => PageOf::default(),
        Some(filter) => {
            let mut query = all(filter, ROWS);
            query.before = cursor(&search.before).map(DeliveryId);
            call.views.dead_letters(query).await?
        }
    };
    let summary = call.views.dead_letter_groups().await?;
    let meant = filter.as_ref();
    let matching = meant.and_then(|filter| count(filter, &summary, registry));
    let mut list = ListPage::new(LIST, &form).with_older(found.next_before, &form);
    // Grouping alone does not count as a filter, since it hides no rows.
    list.is_filtered = !search.query().is_empty();
    let rows = found.rows.len() as u64;
    list.shown = match matching.filter(|all| *all > rows) {
        Some(all) => format!("{} of {}", print::count(rows), print::count(all)),
        None => print::plural(rows, "dead letter", "dead letters"),
    };
    list.of_rows(found.rows.len());
    let is_all = list.is_first() && list.older.is_none();
    let counted = matching.or_else(|| is_all.then_some(rows));
    list.of_matching(
        counted,
        Some(visitor.standing.dead_letters()),
        DeadLetterKey::NOUNS.1,
    );
    let flags = search.flags(visitor.now);
    list.recipe = Recipe::list(&call, "deadLetters", "dead-letters list", &flags);
    let resubmit = format!("{LIST}/resubmit-all{}", search.query());
    if visitor.opens(&resubmit) && rows > 0 {
        list.export = Some(export(search, "ndjson"));
        list.bulk = vec![RESUBMIT_SELECTED.offer()];
        let all = matching.map_or_else(String::new, |count| format!(" {}", print::count(count)));
        list.all = Some((resubmit, format!("Resubmit all{all} that match…")));
    }
    let by = GroupBy::from_name(&search.group);
    let groups = match (&filter, by) {
        (Some(filter), Some(by)) => grouped(&call, filter, by, search).await?,
        // The summary by subscription is for the whole list only: a reader who filters knows the subject already.
        (Some(_), None) if list.is_whole() => by_subscription(&summary, &found.rows, registry),
        (Some(_) | None, _) => GroupTable::default(),
    };
    let chart = match filter {
        // Charts do not distinguish reasons.
        Some(of) if list.is_first() && rows > 0 && is_counted(&of) && of.reason.is_none() => {
            Some(chart(&call, &of).await?)
        }
        _ => None,
    };
    let rows = found.rows.into_iter().map(|row| row.seen_by(visitor.role));
    answer!("pages/dead_letters.html", visitor, "Dead letters", {
        rows: Vec<DeliveryRow> = rows.collect(),
        groups: GroupTable = groups,
        // Chart of new dead letters over the last day; `None` if it would not match the rows of the page.
        chart: Option<TrafficCharts> = chart,
        list: ListPage = list,
        form: FilledForm<SearchForm> = form,
    })
}

fn export(search: &SearchForm, form: &str) -> String {
    let query = search.query();
    let sign = if query.is_empty() { '?' } else { '&' };
    format!("{LIST}/export{query}{sign}form={form}")
}

/// Reports whether the store keeps a count for this filter: it does for all dead letters, those of a topic and those of
/// an event subscription, each for one reason or for all.
fn is_counted(filter: &DeadLetterFilter) -> bool {
    let plain = DeadLetterFilter {
        topic: filter.topic,
        subscription: filter.subscription,
        reason: filter.reason.clone(),
        ..DeadLetterFilter::default()
    };
    *filter == plain
}

async fn chart(call: &Call, filter: &DeadLetterFilter) -> Result<TrafficCharts, StoreError> {
    let topics = &call.visitor.standing.registry;
    let first_at = topics.made_topics().map(|each| each.topic.created_at).min();
    let of = match (filter.topic, filter.subscription) {
        (_, Some(id)) => TrafficOf::Subscription(id),
        (Some(id), None) => TrafficOf::Topic(id),
        (None, None) => TrafficOf::Everything,
    };
    let since = first_at.unwrap_or(call.visitor.now);
    TrafficCharts::read(call, of, &RangeChoice::default(), "", since).await
}

/// Returns the number of dead letters that match a filter, if it is known without a search.
fn count(filter: &DeadLetterFilter, all: &[DeadLetterGroup], registry: &Registry) -> Option<u64> {
    let (own, reason) = (filter.subscription, filter.reason.as_ref());
    let meant = all.iter().filter(|group| {
        let of = registry.subscription(group.subscription);
        own.is_none_or(|id| id == group.subscription)
            && (filter.topic.is_none() || filter.topic == of.map(|(topic, _)| topic.topic.id))
            && reason.is_none_or(|reason| *reason == group.reason)
    });
    is_counted(filter).then(|| meant.map(|group| group.dead_letters).sum())
}

/// Groups all dead letters by reason and subscription, with the biggest group first. The numbers come from counters;
/// when the newest one came is known only for those groups that have dead letters among the `newest` of all.
fn by_subscription(
    summary: &[DeadLetterGroup],
    newest: &[DeliveryRow],
    registry: &Registry,
) -> GroupTable {
    let mut sums: BTreeMap<_, (u64, Timestamp)> = BTreeMap::new();
    for group in summary {
        let key = (group.subscription, &group.reason);
        let sum = sums.entry(key).or_insert((0, group.day));
        *sum = (sum.0 + group.dead_letters, sum.1.max(group.day));
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, (count, _))| Reverse(*count));
    let more = sums.len().saturating_sub(GROUPS_SHOWN);
    let mut rows = Vec::new();
    for ((id, reason), (count, day)) in sums.into_iter().take(GROUPS_SHOWN) {
        let Some(of) = registry.subscription(id).map(Subscription::of) else {
            continue;
        };
        let is_own =
            |row: &&DeliveryRow| row.subscription_id == id && row.reason() == Some(reason.as_str());
        let came = newest.iter().find(is_own).and_then(|row| row.ended_at);
        let known = DeadLetterReason::from_name(reason);
        let meant = SearchForm {
            of: of.filter(),
            reason: reason.clone(),
            ..SearchForm::default()
        };
        rows.push(GroupRow {
            name: known.map_or_else(|| print::visible(reason), response::of_reason),
            of: of.title(),
            hint: known.map_or("", DeadLetterReason::advice),
            query: Some(meant.query()),
            code: meant.reason,
            count,
            newest: came.map_or_else(|| Time::by("%Y-%m-%d", day), Time::relative),
        });
    }
    GroupTable {
        folded: rows.split_off(rows.len().min(GROUPS_FIRST)),
        rows,
        more,
        is_partial: false,
    }
}

/// Groups the dead letters that match a filter by the chosen criterion.
async fn grouped(
    call: &Call,
    filter: &DeadLetterFilter,
    by: GroupBy,
    search: &SearchForm,
) -> Result<GroupTable, StoreError> {
    let found = call.views.group_dead_letters(filter.clone(), by).await?;
    let rows = found.groups.into_iter().map(|group| {
        let (mut name, mut hint, mut meant) = (print::visible(&group.key), "", search.clone());
        match by {
            GroupBy::Source => {}
            GroupBy::EventType => meant.event_type = group.key,
            GroupBy::Reason => {
                hint = DeadLetterReason::from_name(&group.key).map_or("", DeadLetterReason::title);
                meant.reason = group.key;
            }
            GroupBy::Day => {
                let from = Timestamp::from_ms(group.key.parse().unwrap_or_default());
                (meant.from, meant.to) = (from.to_string(), (from + DAY).to_string());
                name = meant.from[..10].to_owned();
            }
        }
        GroupRow {
            name,
            of: String::new(),
            hint,
            code: String::new(),
            count: group.dead_letters,
            query: (by != GroupBy::Source).then(|| meant.query()),
            newest: Time::relative(group.to),
        }
    });
    Ok(GroupTable {
        rows: rows.collect(),
        is_partial: found.is_partial,
        ..GroupTable::default()
    })
}

/// Returns the ways to group the list: the address, the label, and a flag for the chosen one.
fn groupings(search: &SearchForm) -> [(String, &'static str, bool); 4] {
    let ways = [
        ("", "Reason"),
        ("type", "Event type"),
        ("source", "Source"),
        ("day", "Day"),
    ];
    ways.map(|(group, title)| {
        let mut other = search.clone();
        (other.group, other.before) = (group.to_owned(), String::new());
        let is_chosen = grouped_by(search) == title;
        (
            link(LIST, &FilledForm::with(other).pairs()),
            title,
            is_chosen,
        )
    })
}

fn grouped_by(search: &SearchForm) -> &'static str {
    match GroupBy::from_name(&search.group) {
        None | Some(GroupBy::Reason) => "Reason",
        Some(GroupBy::Source) => "Source",
        Some(GroupBy::EventType) => "Event type",
        Some(GroupBy::Day) => "Day",
    }
}

/// Returns why an event was dead-lettered: in the words of the receiver, or by the status of the last attempt and the
/// meaning of the reason.
fn reason(row: &DeliveryRow) -> String {
    let own = row.dead_letter.description.as_deref().map(print::visible);
    let reason = own
        .or_else(|| row.dead_letter_reason.map(response::of_reason))
        .unwrap_or_default();
    match row.last_status.map(response::of_status) {
        Some(status) if status != reason => format!("{reason}: {status}"),
        Some(_) | None => reason,
    }
}
