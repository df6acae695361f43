//! What dead letters have in common, as rows that lead to them.

use std::collections::BTreeMap;

use crate::admin::page::*;
use crate::admin::pages::dead_letters::asked::Asked;
use crate::admin::widgets::{hint, response};
use crate::model::dead_letter::DeadLetterReason;
use crate::model::registry::Registry;
use crate::store::views::{DeadLetterGroup, Group, GroupBy};

const PATH: &str = "/admin/dead-letters";

const RESUBMIT: &str = "/admin/dead-letters/resubmit-all";

/// A day.
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// A row of the table.
pub(crate) struct GroupText {
    pub(crate) name: String,
    pub(crate) sub: String,
    pub(crate) text: String,
    pub(crate) code: String,
    pub(crate) dead_letters: String,
    /// Empty where no filter means them.
    pub(crate) href: String,
    /// Where all of them are resubmitted; empty where no filter means them.
    pub(crate) resubmit: String,
    pub(crate) to: Time,
}

/// How many there are of whom and with which reason; days are taken together.
pub(crate) fn count(found: &[DeadLetterGroup], is_meant: impl Fn(&DeadLetterGroup) -> bool) -> u64 {
    let meant = found.iter().filter(|group| is_meant(group));
    meant.map(|group| group.dead_letters).sum()
}

/// By reason and subscription, the biggest first; days are taken together. Counted without looking at dead
/// letters.
pub(crate) fn by_subscription(found: &[DeadLetterGroup], registry: &Registry) -> Vec<GroupText> {
    let mut groups: BTreeMap<_, (u64, Timestamp)> = BTreeMap::new();
    for group in found {
        let key = (group.subscription, group.reason.as_str());
        let sum = groups.entry(key).or_insert((0, group.day));
        *sum = (sum.0 + group.dead_letters, sum.1.max(group.day));
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, (count, ..))| std::cmp::Reverse(*count));
    let text = |((id, reason), (count, to))| {
        let (topic, subscription) = registry.subscription(id)?;
        let (topic, name) = (&topic.topic.name, &subscription.name);
        let filters = [
            ("of", format!("{topic}/{name}")),
            ("reason", String::from(reason)),
        ];
        let known = DeadLetterReason::from_name(reason);
        Some(GroupText {
            resubmit: link(RESUBMIT, &filters),
            name: known.map_or_else(|| print::visible(reason), response::of_reason),
            sub: format!("{topic} / {name}"),
            text: known.map_or("", hint::before_resubmitting).to_owned(),
            code: String::from(reason),
            dead_letters: print::count(count),
            href: link(PATH, &filters),
            to: Time::day(to),
        })
    };
    groups.into_iter().filter_map(text).collect()
}

/// Of the dead letters that are asked for.
pub(crate) fn by_key(found: Vec<Group>, by: GroupBy, asked: &Asked) -> Vec<GroupText> {
    let text = |group: Group| {
        let (name, text, href) = match by {
            GroupBy::Source => (print::visible(&group.key), String::new(), String::new()),
            GroupBy::Reason => {
                let href = asked.with(PATH, "reason", group.key.clone());
                (print::visible(&group.key), explained(&group.key), href)
            }
            GroupBy::EventType => {
                let href = asked.with(PATH, "type", group.key.clone());
                (print::visible(&group.key), String::new(), href)
            }
            GroupBy::Day => day(&group.key, asked),
        };
        GroupText {
            name,
            sub: String::new(),
            text,
            code: String::new(),
            dead_letters: print::count(group.dead_letters),
            resubmit: href.replacen(PATH, RESUBMIT, 1),
            href,
            to: Time::day(group.to),
        }
    };
    found.into_iter().map(text).collect()
}

/// The day, and the way to its dead letters unless the address already bounds the time.
fn day(key: &str, asked: &Asked) -> (String, String, String) {
    let start = key.parse().unwrap_or_default();
    let [from, to] = [start, start + DAY_MS].map(Timestamp::from_ms);
    let name = from.to_string()[..10].to_owned();
    let mut filters = asked.filters().to_vec();
    filters.retain(|(name, _)| *name != "from" && *name != "to");
    filters.extend([("from", from.to_string()), ("to", to.to_string())]);
    (name, String::new(), link(PATH, &filters))
}

fn explained(reason: &str) -> String {
    let known = DeadLetterReason::from_name(reason);
    known.map_or("", hint::for_reason).to_owned()
}
