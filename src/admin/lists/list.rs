//! The parts of a list around its rows; `templates/list.html` draws them.

use std::fmt::Display;
use std::str::FromStr;

use crate::admin::forms::filled::FilledForm;
use crate::admin::lists::link;
use crate::admin::lists::recipe::Recipe;
use crate::admin::widgets::{Tone, print};

pub(crate) const ROWS: usize = 50;

/// The query parameter for the position at which a page of a list begins.
const BEFORE: &str = "before";

/// Separator in the query parameter between the position of a page and the positions of the pages before it.
const BEHIND: &str = "*";

/// Maximum number of previous pages that an address remembers, which keeps it short. Beyond them, the link leads to the
/// first page.
const NEWER_PAGES_MAX: usize = 20;

#[derive(Default)]
pub(crate) struct ListPage {
    pub(crate) path: &'static str,
    pub(crate) tabs: Vec<Tab>,
    pub(crate) tabs_label: &'static str,
    /// Query parameters that stay when the filter changes: the tab.
    pub(crate) kept: Vec<(&'static str, String)>,
    pub(crate) is_filtered: bool,
    /// Is true if the list is empty even without a filter, so that there is nothing to filter.
    pub(crate) is_blank: bool,
    pub(crate) faults: Vec<String>,
    /// Actions on the ticked rows: the end of the address and the verb of each.
    pub(crate) bulk: Vec<(&'static str, &'static str)>,
    /// The action on all rows that match, on other pages too: its address and its label.
    pub(crate) all: Option<(String, String)>,
    pub(crate) shown: String,
    /// The heading of a filtered list, in place of the one for all rows.
    pub(crate) lead: Option<String>,
    /// The labels of the links to the first, the previous and the next page.
    pub(crate) turns: [&'static str; 3],
    pub(crate) first: Option<String>,
    pub(crate) newer: Option<String>,
    /// The page number, from 1; `None` if it cannot be told from the address.
    page: Option<usize>,
    pub(crate) older: Option<String>,
    pub(crate) export: Option<String>,
    pub(crate) export_note: String,
    pub(crate) recipe: Recipe,
}

/// A tab of a list, which shows the rows in one state.
pub(crate) struct Tab {
    pub(crate) title: &'static str,
    pub(crate) href: String,
    pub(crate) current: bool,
    pub(crate) count: Option<(String, Tone)>,
}

impl ListPage {
    pub(crate) fn new<T>(path: &'static str, filter: &FilledForm<T>) -> Self {
        let before = filter.value(BEFORE);
        let newer = before.split_once(BEHIND).map(|(_, newer)| newer);
        let first = || changed(path, filter, BEFORE, "");
        Self {
            path,
            turns: ["Newest", "Newer", "Older"],
            faults: filter.faults().problems().map(str::to_owned).collect(),
            is_filtered: filter.pairs().iter().any(|(name, _)| *name != BEFORE),
            first: (!before.is_empty() && newer != Some("")).then(first),
            newer: newer.map(|newer| changed(path, filter, BEFORE, newer)),
            page: (before.is_empty() || before.ends_with(BEHIND))
                .then(|| before.split(BEHIND).count()),
            ..Self::default()
        }
    }

    /// Makes a list that has all rows on one page.
    pub(crate) fn whole(count: usize, [one, many]: [&str; 2], recipe: Recipe) -> Self {
        Self {
            shown: match count {
                0 => String::new(),
                _ => print::plural(count, one, many),
            },
            recipe,
            ..Self::default()
        }
    }

    pub(crate) fn with_tabs<T>(
        mut self,
        label: &'static str,
        name: &'static str,
        tabs: impl IntoIterator<Item = (&'static str, &'static str, Option<(u64, Tone)>)>,
        filter: &FilledForm<T>,
    ) -> Self {
        let chosen = filter.value(name);
        let drawn_tabs = tabs.into_iter().map(|(value, title, count)| Tab {
            title,
            href: changed(self.path, filter, name, value),
            current: value == chosen,
            count: count.map(|(count, tone)| {
                let tone = if count == 0 { Tone::Rest } else { tone };
                (print::count(count), tone)
            }),
        });
        self.tabs = drawn_tabs.collect();
        self.tabs_label = label;
        let pairs = filter.pairs();
        let mut others = pairs.iter().map(|(other, _)| *other);
        self.is_filtered = others.any(|other| other != name && other != BEFORE);
        if !chosen.is_empty() {
            self.kept = vec![(name, chosen.to_owned())];
        }
        self
    }

    pub(crate) fn with_older<T>(mut self, next: Option<impl Display>, of: &FilledForm<T>) -> Self {
        let older = |next| changed(self.path, of, BEFORE, &behind(next, of.value(BEFORE)));
        self.older = next.map(older);
        self
    }

    /// Sets the number of rows on this page.
    pub(crate) fn of_rows(&mut self, count: usize) {
        self.is_blank = count == 0 && self.is_whole();
        if count == 0 {
            self.shown.clear();
        }
    }

    /// Sets the heading that tells how many of `all` rows match the filter, if there is one. Each number may be
    /// unknown.
    pub(crate) fn of_matching(&mut self, count: Option<u64>, all: Option<u64>, many: &str) {
        if !self.faults.is_empty() {
            self.lead = Some("The filter is not valid.".to_owned());
            return;
        }
        let of_all = all.map_or_else(String::new, |all| format!("of {} ", print::count(all)));
        let lead = match count {
            Some(1) => format!("1 {of_all}{many} matches this filter."),
            Some(count) => format!("{} {of_all}{many} match this filter.", print::count(count)),
            None => print::sentence(&format!("{many} that match this filter, newest first")),
        };
        let is_part = self.is_filtered || self.tabs.iter().skip(1).any(|tab| tab.current);
        self.lead = is_part.then_some(lead);
    }

    /// Sets the number of rows on this page for a list without a known total. If there is only one page, its rows are
    /// the total.
    pub(crate) fn of_page(&mut self, count: usize, [one, many]: [&str; 2]) {
        let is_all = self.is_first() && self.older.is_none();
        self.of_matching(is_all.then_some(count as u64), None, many);
        self.shown = print::plural(count, one, many);
        if let Some(page) = self.page.filter(|_| !is_all) {
            self.shown.push_str(&format!(", page {page}"));
            if page == 1 && count > 0 && self.lead.is_some() {
                self.lead = Some(format!("{count} or more {many} match this filter."));
            }
        }
        self.of_rows(count);
    }

    pub(crate) fn is_whole(&self) -> bool {
        !self.is_filtered && self.kept.is_empty() && self.is_first()
    }

    pub(crate) fn is_first(&self) -> bool {
        self.first.is_none() && self.newer.is_none()
    }

    /// Returns the links to other pages: the link relation (`rel`), the address and the label of each.
    pub(crate) fn links(&self) -> impl Iterator<Item = (&'static str, &str, &'static str)> {
        let [first, newer, older] = self.turns;
        let links = [
            ("first", &self.first, first),
            ("prev", &self.newer, newer),
            ("next", &self.older, older),
        ];
        links
            .into_iter()
            .filter_map(|(rel, href, title)| Some((rel, href.as_deref()?, title)))
    }
}

/// Returns the position at which a page begins, from the query parameter of its address.
pub(crate) fn cursor<T: FromStr>(before: &str) -> Option<T> {
    before.split(BEHIND).next()?.parse().ok()
}

/// Returns the query parameter of the page that begins at `next`, with the positions of the pages before it.
fn behind(next: impl Display, before: &str) -> String {
    let front = before.split(BEHIND).take(NEWER_PAGES_MAX);
    format!("{next}{BEHIND}{}", Vec::from_iter(front).join(BEHIND))
}

/// Returns the address of the first page for `filter` with one parameter changed.
fn changed<T>(path: &str, filter: &FilledForm<T>, name: &str, value: &str) -> String {
    let pairs = filter.pairs().into_iter();
    let others = pairs.filter(|(other, _)| *other != name && *other != BEFORE);
    let pairs: Vec<_> = others.chain([(name, value.to_owned())]).collect();
    link(path, &pairs)
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Clone, Debug, Default, Serialize, Deserialize)]
    #[serde(default)]
    struct Filter {
        state: String,
        text: String,
        before: String,
    }

    #[test]
    fn pages_and_tabs_keep_what_is_filtered() {
        let filter = FilledForm::with(Filter {
            state: "Pending".to_owned(),
            text: "a b".to_owned(),
            before: "7*9*".to_owned(),
        });
        let tabs = [
            ("", "All", None),
            ("Pending", "Pending", Some((1_394, Tone::Warn))),
        ];
        let list = ListPage::new("/admin/events", &filter)
            .with_tabs("State", "state", tabs, &filter)
            .with_older(Some("3".to_owned()), &filter);
        assert_eq!(list.tabs[0].href, "/admin/events?text=a+b");
        assert_eq!(list.tabs[1].href, "/admin/events?text=a+b&state=Pending");
        assert_eq!(list.tabs[1].count, Some(("1,394".to_owned(), Tone::Warn)));
        assert!(list.tabs[1].current && !list.tabs[0].current);
        assert_eq!(
            list.first.as_deref(),
            Some("/admin/events?state=Pending&text=a+b")
        );
        let older = "/admin/events?state=Pending&text=a+b&before=3*7*9*";
        assert_eq!(list.older.as_deref(), Some(older));
        let newer = "/admin/events?state=Pending&text=a+b&before=9*";
        assert_eq!(list.newer.as_deref(), Some(newer));
        assert_eq!(cursor::<i64>("7*9*"), Some(7));
        assert!(list.is_filtered && !list.is_whole());
    }
}
