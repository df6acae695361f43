//! Lists in answers, and how many rows a page has.

use schemars::JsonSchema;
use serde::Serialize;

use crate::store::views::PAGE_ROWS_MAX;
use crate::wire::query::{PAGE_ROWS, Paging};

/// A whole list.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct List<R> {
    value: Vec<R>,
}

impl<R> FromIterator<R> for List<R> {
    fn from_iter<I: IntoIterator<Item = R>>(rows: I) -> Self {
        let value = rows.into_iter().collect();
        Self { value }
    }
}

/// A page of a list.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub(crate) struct Page<R> {
    value: Vec<R>,
    /// Give it as `before` for the next page; null at the end.
    next_before: Option<i64>,
}

impl<R> Page<R> {
    pub(crate) fn new(rows: impl IntoIterator<Item = R>, next_before: Option<i64>) -> Self {
        let value = rows.into_iter().collect();
        Self { value, next_before }
    }
}

impl Paging {
    pub(crate) fn limit(&self) -> usize {
        self.limit.unwrap_or(PAGE_ROWS).clamp(1, PAGE_ROWS_MAX)
    }
}
