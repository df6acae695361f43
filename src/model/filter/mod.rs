//! Filters: which events a subscription gets (rule 4).

mod clause;
mod key;
mod number;
mod operator;
mod seen_keys;
mod text;
mod value;
mod view;

use std::fmt;

pub use clause::{Clause, Conditions, Operand};
pub use key::{FilterKey, InvalidKey};
pub use number::Decimal;
pub use operator::{Operator, OperatorRow, Takes};
pub use seen_keys::SeenKeys;
pub use text::Text;
use text::fold;
pub use view::EventView;

use value::show_text;

/// Steps for a filter itself, in addition to the steps for its values: roughly the work to find the filter and read its
/// parts.
const FILTER_STEPS: usize = 20;

/// The remark on a filter text with `*`, which a user may have meant as a wildcard.
pub const STAR: &str = "* is an ordinary character and no wildcard";

/// The rules that a filter follows where custom topics (rule 4) and namespace topics (rule N4) differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    #[default]
    Basic,
    /// Event types match in any letter case, and `NumberNotInRange` does not pass without a key.
    Namespace,
}

/// The filter of an event subscription. All of its parts must match (rule 4.1).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Filter {
    pub dialect: Dialect,
    /// `None` means every type. In a filter of a custom topic, the entry `All` means every type, too.
    pub included_event_types: Option<Vec<String>>,
    pub subject_begins_with: Text,
    pub subject_ends_with: Text,
    /// Applies only to `subject_begins_with` and `subject_ends_with`.
    pub subject_case_sensitive: bool,
    pub advanced: Conditions,
}

/// The result of every part of a filter for an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterResult {
    pub parts: Vec<PartResult>,
}

/// The result of one part of a filter for an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartResult {
    pub part: FilterPart,
    /// The condition: `data.total is greater than 100`.
    pub wanted: String,
    /// The event's value, as JSON, shortened if it is long; `None` if there is none.
    pub saw: Option<String>,
    pub holds: bool,
    /// An explanation, if the values alone do not explain the result.
    pub remark: Option<&'static str>,
    /// Is true if the part reads the data of the event, which not every user may see.
    pub is_of_data: bool,
}

/// A part of a filter; written as its path in the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterPart {
    IncludedEventTypes,
    SubjectBeginsWith,
    SubjectEndsWith,
    /// An advanced filter, by its position.
    Advanced(usize),
    /// An advanced filter in a namespace, where the list has another name, by its position.
    Configured(usize),
}

impl Dialect {
    /// Returns the advanced filter at `index`, by the name of the list in this dialect.
    fn part(self, index: usize) -> FilterPart {
        match self {
            Self::Basic => FilterPart::Advanced(index),
            Self::Namespace => FilterPart::Configured(index),
        }
    }

    fn passes_without_key(self, operator: Operator) -> bool {
        let is_exception = self == Self::Namespace && operator == Operator::NumberNotInRange;
        operator.row().passes_without_key && !is_exception
    }
}

impl fmt::Display for FilterPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IncludedEventTypes => f.write_str("includedEventTypes"),
            Self::SubjectBeginsWith => f.write_str("subjectBeginsWith"),
            Self::SubjectEndsWith => f.write_str("subjectEndsWith"),
            Self::Advanced(index) => write!(f, "advancedFilters[{index}]"),
            Self::Configured(index) => write!(f, "filters[{index}]"),
        }
    }
}

impl FilterResult {
    /// Returns whether every part matches.
    pub fn matched(&self) -> bool {
        self.first_failed().is_none()
    }

    /// The first part that does not match.
    pub fn first_failed(&self) -> Option<&PartResult> {
        self.parts.iter().find(|part| !part.holds)
    }
}

/// The text that is shown instead of a value to users who may not see it.
const UNSEEN: &str = "data that only operators see";

impl FilterResult {
    /// Hides, for users who may not see the data of events, the values of data and whether there are any.
    pub fn without_data(mut self) -> Self {
        for part in self.parts.iter_mut().filter(|part| part.is_of_data) {
            part.saw = Some(UNSEEN.to_owned());
            part.remark = None;
        }
        self
    }
}

impl PartResult {
    /// The event's value, for people.
    pub fn saw_or_nothing(&self) -> &str {
        self.saw.as_deref().unwrap_or("nothing there")
    }
}

impl Filter {
    /// Returns whether `event` passes. Stops at the first part that fails.
    pub fn matches(&self, event: &EventView<'_>) -> bool {
        event.add_steps(self.steps());
        self.type_matches(event.event_type())
            && self.subject_begins(event)
            && self.subject_ends(event)
            && self.advanced.hold(event, self.dialect)
    }

    /// Returns the result of every part for `event`, consistent with [`Filter::matches`].
    pub fn explain(&self, event: &EventView<'_>) -> FilterResult {
        event.add_steps(self.steps());
        let basic = [
            self.explain_type(event),
            self.explain_beginning(event),
            self.explain_end(event),
        ];
        let advanced = self.advanced.explain(event, self.dialect);
        FilterResult {
            parts: basic.into_iter().flatten().chain(advanced).collect(),
        }
    }

    /// Returns the steps for this filter without the steps for its values, see [`EventView::steps`].
    fn steps(&self) -> usize {
        FILTER_STEPS + self.included_event_types.as_ref().map_or(0, Vec::len)
    }

    /// Returns whether `event_type` equals one of the included types: exactly (rule A), or in any letter case for a
    /// namespace topic.
    fn type_matches(&self, event_type: &str) -> bool {
        let is_type = |included: &String| match self.dialect {
            Dialect::Basic => included == event_type,
            Dialect::Namespace => fold(included) == fold(event_type),
        };
        self.types().is_none_or(|types| types.iter().any(is_type))
    }

    /// The types that match, unless every type does.
    pub fn types(&self) -> Option<&[String]> {
        const EVERY_TYPE: &str = "All";
        let types = self.included_event_types.as_deref()?;
        let has_all = self.dialect == Dialect::Basic && types.iter().any(|each| each == EVERY_TYPE);
        (!has_all).then_some(types)
    }

    fn subject_begins(&self, event: &EventView<'_>) -> bool {
        let (subject, start) = self.comparable(event, &self.subject_begins_with);
        subject.starts_with(start)
    }

    fn subject_ends(&self, event: &EventView<'_>) -> bool {
        let (subject, end) = self.comparable(event, &self.subject_ends_with);
        subject.ends_with(end)
    }

    /// The subject and the part that it is compared with, in comparable form.
    fn comparable<'c>(&self, event: &'c EventView<'_>, part: &'c Text) -> (&'c str, &'c str) {
        if part.as_str().is_empty() {
            ("", "")
        } else if self.subject_case_sensitive {
            (event.subject().unwrap_or(""), part.as_str())
        } else {
            (event.folded_subject(), part.folded())
        }
    }

    fn explain_type(&self, event: &EventView<'_>) -> Option<PartResult> {
        let types = self.types()?;
        let shown: Vec<String> = types.iter().map(|each| show_text(each)).collect();
        Some(PartResult {
            part: FilterPart::IncludedEventTypes,
            wanted: format!("eventType is one of {}", shown.join(", ")),
            saw: Some(show_text(event.event_type())),
            holds: self.type_matches(event.event_type()),
            remark: None,
            is_of_data: false,
        })
    }

    fn explain_beginning(&self, event: &EventView<'_>) -> Option<PartResult> {
        let start = self.show_asked("begins", &self.subject_begins_with)?;
        let holds = self.subject_begins(event);
        Some(PartResult {
            part: FilterPart::SubjectBeginsWith,
            wanted: start,
            saw: event.subject().map(show_text),
            holds,
            remark: remark_on_star(holds, [&self.subject_begins_with]),
            is_of_data: false,
        })
    }

    fn explain_end(&self, event: &EventView<'_>) -> Option<PartResult> {
        let end = self.show_asked("ends", &self.subject_ends_with)?;
        let holds = self.subject_ends(event);
        Some(PartResult {
            part: FilterPart::SubjectEndsWith,
            wanted: end,
            saw: event.subject().map(show_text),
            holds,
            remark: remark_on_star(holds, [&self.subject_ends_with]),
            is_of_data: false,
        })
    }

    /// A condition on the subject; `None` if there is none.
    fn show_asked(&self, verb: &str, part: &Text) -> Option<String> {
        let case = if self.subject_case_sensitive {
            " in this letter case"
        } else {
            ""
        };
        let text = part.as_str();
        (!text.is_empty()).then(|| format!("subject {verb} with {}{case}", show_text(text)))
    }
}

/// Returns [`STAR`] if the part does not match and one of `texts` contains `*`.
fn remark_on_star<'a>(
    holds: bool,
    texts: impl IntoIterator<Item = &'a Text>,
) -> Option<&'static str> {
    let has_star = texts.into_iter().any(|text| text.as_str().contains('*'));
    (!holds && has_star).then_some(STAR)
}

#[cfg(test)]
mod tests;
