//! Lists of what has a name, in the order of names.

use crate::admin::forms::filled::Filled;
use crate::admin::lists::list::{List, ROWS, cursor};
use crate::admin::outside::*;
use crate::admin::widgets::print;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct NameFilter {
    /// In the name.
    text: String,
    /// The name behind which the page begins.
    before: String,
}

impl NameFilter {
    /// Whether something is listed whose name has this key.
    pub(crate) fn fits(&self, key: &str) -> bool {
        key.contains(&self.text.trim().to_lowercase())
    }

    fn is_ahead(&self, key: &str) -> bool {
        let before = cursor(&self.before).map(|it: String| it.to_lowercase());
        before.is_none_or(|before| *key > *before)
    }
}

impl List {
    /// A page of those that are `found`, by the keys of their names, and what is around it.
    pub(crate) fn by_name<T>(
        path: &'static str,
        filter: &Filled<NameFilter>,
        (mut found, key): (Vec<T>, impl Fn(&T) -> String),
        (all, many): (usize, &str),
    ) -> (Self, Vec<T>) {
        let fitting = found.len() as u64;
        found.retain(|each| filter.values.is_ahead(&key(each)));
        let has_more = found.len() > ROWS;
        found.truncate(ROWS);
        let next = found.last().filter(|_| has_more).map(key);
        let mut list = Self::new(path, filter).with_older(next, filter);
        list.turns = ["First", "Previous", "Next"];
        list.is_blank = all == 0;
        if fitting > 0 {
            list.shown = format!("{} of {}", found.len(), print::count(fitting));
        }
        list.of_matching(Some(fitting), Some(all as u64), many);
        (list, found)
    }
}
