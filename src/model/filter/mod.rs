//! Which events a subscription wants (spec 4).

mod clause;
mod key;
mod number;
mod operator;
mod text;
mod value;
mod view;

pub use clause::{Clause, Conditions, Operand};
pub use key::{InvalidKey, Key};
pub use number::Decimal;
pub use operator::{Operator, OperatorRow, Takes};
pub use text::Text;
pub use view::EventView;

use value::show_text;

/// The filter of an event subscription; all of its parts must agree (spec 4.1).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Filter {
    /// `None` means every type.
    pub included_event_types: Option<Vec<String>>,
    pub subject_begins_with: Text,
    pub subject_ends_with: Text,
    /// Of the two parts above alone.
    pub subject_case_sensitive: bool,
    pub advanced: Conditions,
}

/// Whether an event passes a filter, and if not, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Matched,
    NotMatched {
        /// The first part of the filter that the event fails:
        /// `advancedFilters[1] NumberGreaterThan data.total 100`.
        clause: String,
        /// What the event has there, as JSON text shortened where it is long, or `missing`.
        saw: String,
    },
}

/// The part of a filter that an event fails.
enum Failed {
    EventType,
    SubjectStart,
    SubjectEnd,
    Advanced(usize),
}

impl Filter {
    /// Whether `event` passes.
    pub fn matches(&self, event: &EventView<'_>) -> bool {
        self.first_failed(event).is_none()
    }

    /// Whether `event` passes, and which part of the filter it fails first.
    pub fn explain(&self, event: &EventView<'_>) -> Verdict {
        self.first_failed(event)
            .map_or(Verdict::Matched, |failed| self.describe(&failed, event))
    }

    fn first_failed(&self, event: &EventView<'_>) -> Option<Failed> {
        let (for_start, start) = self.comparable(event, &self.subject_begins_with);
        let (for_end, end) = self.comparable(event, &self.subject_ends_with);
        if !self.type_matches(event.event_type()) {
            Some(Failed::EventType)
        } else if !for_start.starts_with(start) {
            Some(Failed::SubjectStart)
        } else if !for_end.ends_with(end) {
            Some(Failed::SubjectEnd)
        } else {
            self.advanced.first_failed(event).map(Failed::Advanced)
        }
    }

    /// Ordinal equality with one of the types (spec A).
    fn type_matches(&self, event_type: &str) -> bool {
        self.included_event_types
            .as_ref()
            .is_none_or(|types| types.iter().any(|included| included == event_type))
    }

    /// The subject and the part that it is asked for, in the forms that are compared.
    fn comparable<'c>(&self, event: &'c EventView<'_>, part: &'c Text) -> (&'c str, &'c str) {
        if part.as_str().is_empty() {
            ("", "")
        } else if self.subject_case_sensitive {
            (event.subject().unwrap_or(""), part.as_str())
        } else {
            (event.folded_subject(), part.folded())
        }
    }

    fn describe(&self, failed: &Failed, event: &EventView<'_>) -> Verdict {
        let subject = || event.subject().map_or_else(missing, show_text);
        let (clause, saw) = match failed {
            Failed::EventType => (self.show_types(), show_text(event.event_type())),
            Failed::SubjectStart => {
                let start = show_text(self.subject_begins_with.as_str());
                (format!("subjectBeginsWith {start}"), subject())
            }
            Failed::SubjectEnd => {
                let end = show_text(self.subject_ends_with.as_str());
                (format!("subjectEndsWith {end}"), subject())
            }
            Failed::Advanced(index) => {
                let clause = &self.advanced.clauses[*index];
                let saw = clause.shown_in(event).unwrap_or_else(missing);
                (format!("advancedFilters[{index}] {clause}"), saw)
            }
        };
        Verdict::NotMatched { clause, saw }
    }

    fn show_types(&self) -> String {
        let types = self.included_event_types.iter().flatten();
        let types: Vec<String> = types.map(|each| show_text(each)).collect();
        format!("includedEventTypes [{}]", types.join(","))
    }
}

fn missing() -> String {
    "missing".to_owned()
}

#[cfg(test)]
mod tests;
