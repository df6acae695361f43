//! How an event fares with a filter, clause by clause.

use crate::admin::page::*;
use crate::model::explanation::Explanation;
use crate::model::filter::{FilterResult, PartResult};
use crate::wire::explanation::{unmet, why_not};

/// The answer ready to print.
#[derive(Template)]
#[template(path = "widgets/verdict.html")]
pub(crate) struct VerdictText {
    matched: Badge,
    /// Why not, or what is to be said besides.
    said: String,
    rows: Vec<ClauseRow>,
}

part!(VerdictText);

/// One part of the filter.
struct ClauseRow {
    /// Its path in the filter.
    clause: String,
    wanted: String,
    saw: String,
    held: Badge,
    /// What is not plain from the values.
    remark: &'static str,
}

impl VerdictText {
    /// Of a filter that belongs to nobody.
    pub(crate) fn of_filter(verdict: &FilterResult) -> Self {
        let said = verdict.first_failed().map(unmet);
        Self::new(verdict, verdict.matched(), said)
    }

    /// Of an event subscription as it is.
    pub(crate) fn of_subscription(explanation: &Explanation) -> Self {
        Self::new(
            &explanation.verdict,
            explanation.matched(),
            why_not(explanation),
        )
    }

    fn new(verdict: &FilterResult, matched: bool, why_not: Option<String>) -> Self {
        let asks_nothing = "The filter asks for nothing, so every event matches.";
        let said = match (why_not, verdict.parts.is_empty()) {
            (Some(why), _) => why,
            (None, true) => asks_nothing.to_owned(),
            (None, false) => "Every part of the filter holds.".to_owned(),
        };
        Self {
            matched: match matched {
                true => Badge::new(Tone::Good, "Matches"),
                false => Badge::new(Tone::Bad, "Does not match"),
            },
            said: print::visible(&said),
            rows: verdict.parts.iter().map(ClauseRow::new).collect(),
        }
    }
}

impl ClauseRow {
    fn new(part: &PartResult) -> Self {
        Self {
            clause: part.part.to_string(),
            wanted: print::visible(&part.wanted),
            saw: print::visible(part.saw_or_nothing()),
            held: match part.holds {
                true => Badge::new(Tone::Good, "Holds"),
                false => Badge::new(Tone::Bad, "Fails"),
            },
            remark: part.remark.unwrap_or_default(),
        }
    }
}
