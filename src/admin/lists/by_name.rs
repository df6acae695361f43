//! Lists of what has a name, in the order of names.

use crate::admin::forms::filled::Filled;
use crate::admin::lists::list::{List, ROWS, cursor};
use crate::admin::outside::*;
use crate::admin::widgets::print;

/// The query of such a list.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct NameFilter {
    /// The text that names must contain.
    text: String,
    /// The name behind which the page begins.
    before: String,
}

impl NameFilter {
    /// Returns those of `all` whose names match; `key` returns a name in lower case.
    pub(crate) fn matching<T>(&self, mut all: Vec<T>, key: impl Fn(&T) -> String) -> Vec<T> {
        let text = self.text.trim().to_lowercase();
        all.retain(|each| key(each).contains(&text));
        all
    }
}

impl List {
    /// A page of those of `all` that match, which are called `many`, and what is around it.
    pub(crate) fn by_name<T>(
        path: &'static str,
        filter: &Filled<NameFilter>,
        all: Vec<T>,
        key: impl Fn(&T) -> String,
        many: &str,
    ) -> (Self, Vec<T>) {
        let stored = all.len() as u64;
        let mut found = filter.values.matching(all, &key);
        let fitting = found.len() as u64;
        let before = cursor(&filter.values.before).map(|it: String| it.to_lowercase());
        found.retain(|each| before.as_ref().is_none_or(|before| key(each) > *before));
        let has_more = found.len() > ROWS;
        found.truncate(ROWS);
        let next = found.last().filter(|_| has_more).map(key);
        let mut list = Self::new(path, filter).with_older(next, filter);
        list.turns = ["First", "Previous", "Next"];
        list.is_blank = stored == 0;
        if fitting > 0 {
            list.shown = format!("{} of {}", found.len(), print::count(fitting));
        }
        list.of_matching(Some(fitting), Some(stored), many);
        (list, found)
    }
}
