//! Advanced filters: one key, one operator, the values to compare with.

use std::fmt;
use std::slice;

use crate::model::filter::key::FilterKey;
use crate::model::filter::number::Decimal;
use crate::model::filter::operator::{Operator, Takes};
use crate::model::filter::text::Text;
use crate::model::filter::value::{FilterValue, Node, Scalar, show_text};
use crate::model::filter::view::EventView;
use crate::model::filter::{Dialect, PartResult, remark_on_star};

/// The remark on a value whose type the operator does not take: it counts as missing (rule A).
const OF_ANOTHER_TYPE: &str = "a value of another type than the operator takes counts as missing";

/// The remark on a key that is not found in the event but is found in its data.
const IS_IN_DATA: &str = "its data has one of that name: write `data.` before the key";

/// An advanced filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clause {
    pub key: FilterKey,
    pub operator: Operator,
    pub operand: Operand,
}

/// The values to compare with. An operand of another kind than the operator's matches nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    Nothing,
    Number(Decimal),
    Numbers(Vec<Decimal>),
    /// Lower and upper end, both included.
    Ranges(Vec<(Decimal, Decimal)>),
    Bool(bool),
    Texts(Vec<Text>),
}

/// Advanced filters, all of which must match. Every kind of subscription uses this type. Only the place of the filters
/// in its definition differs.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Conditions {
    pub clauses: Vec<Clause>,
    /// Is true if filters match elements of arrays; otherwise an array fails (rule 4.2).
    pub on_arrays: bool,
}

impl Conditions {
    /// Returns whether `event` passes all clauses.
    pub(super) fn hold(&self, event: &EventView<'_>, dialect: Dialect) -> bool {
        let mut clauses = self.clauses.iter();
        clauses.all(|clause| {
            let found = clause.key.find(event);
            event.add_steps(clause.steps(found));
            clause.passes(found, self.on_arrays, dialect)
        })
    }

    /// Returns the result of every clause for `event`.
    pub(super) fn explain(
        &self,
        event: &EventView<'_>,
        dialect: Dialect,
    ) -> impl Iterator<Item = PartResult> {
        let clauses = self.clauses.iter().enumerate();
        clauses.map(move |(index, clause)| {
            let found = clause.key.find(event);
            event.add_steps(clause.steps(found));
            let holds = clause.passes(found, self.on_arrays, dialect);
            let remark = match found {
                Some(found) => clause.remark(found, self.on_arrays),
                None => clause.key.is_in_data(event).then_some(IS_IN_DATA),
            };
            PartResult {
                part: dialect.part(index),
                wanted: clause.to_string(),
                saw: found.map(Node::shown),
                holds,
                remark: remark.or_else(|| remark_on_star(holds, clause.operand.texts())),
                is_of_data: clause.key.reads_data(event),
            }
        })
    }
}

impl Clause {
    /// Returns the number of steps that it takes to compare the value at the key.
    fn steps(&self, found: Option<&Node<'_>>) -> usize {
        let values = self.operand.value_count().max(1);
        found.map_or(1, |found| found.value().steps() * values)
    }

    /// Explains why the value at the key gives another result than a user may expect.
    fn remark(&self, found: &Node<'_>, on_arrays: bool) -> Option<&'static str> {
        if self.operator.row().takes == Takes::Nothing {
            return None;
        }
        match found.value() {
            FilterValue::Null => Some("null counts as missing"),
            FilterValue::Object(_) => Some(OF_ANOTHER_TYPE),
            FilterValue::Scalar(value) if self.hits(value).is_none() => Some(OF_ANOTHER_TYPE),
            FilterValue::Array(_) if !on_arrays => {
                Some("an array fails unless enableAdvancedFilteringOnArrays is true")
            }
            FilterValue::Scalar(_) | FilterValue::Array(_) => None,
        }
    }

    fn passes(&self, found: Option<&Node<'_>>, on_arrays: bool, dialect: Dialect) -> bool {
        let row = self.operator.row();
        let without_key = dialect.passes_without_key(self.operator);
        match found.map(Node::value) {
            None | Some(FilterValue::Null) => without_key,
            Some(_) if row.takes == Takes::Nothing => !row.passes_without_key,
            // An operator that takes values takes no objects, so an object counts as missing.
            Some(FilterValue::Object(_)) => without_key,
            Some(FilterValue::Scalar(value)) => self
                .hits(value)
                .map_or(without_key, |hit| hit != row.negated),
            Some(FilterValue::Array(elements)) => {
                let hit = elements.iter().any(|each| self.hits(each) == Some(true));
                on_arrays && hit != row.negated
            }
        }
    }

    /// Returns whether `value` matches the operator without its negation; `None` if it is of another type.
    fn hits(&self, value: &Scalar) -> Option<bool> {
        let number = |test: fn(&Decimal, &Decimal) -> bool| {
            let found = value.number()?;
            Some(self.operand.numbers().iter().any(|each| test(found, each)))
        };
        let text = |test: fn(&str, &str) -> bool| {
            let found = value.text()?;
            let mut texts = self.operand.texts().iter();
            Some(texts.any(|each| test(found, each.folded())))
        };
        match self.operator {
            Operator::NumberIn | Operator::NumberNotIn => number(|value, each| value == each),
            Operator::NumberLessThan => number(|value, limit| value < limit),
            Operator::NumberGreaterThan => number(|value, limit| value > limit),
            Operator::NumberLessThanOrEquals => number(|value, limit| value <= limit),
            Operator::NumberGreaterThanOrEquals => number(|value, limit| value >= limit),
            Operator::NumberInRange | Operator::NumberNotInRange => {
                let found = value.number()?;
                let mut ranges = self.operand.ranges().iter();
                Some(ranges.any(|(low, high)| low <= found && found <= high))
            }
            Operator::BoolEquals => Some(self.operand == Operand::Bool(value.boolean()?)),
            Operator::StringContains | Operator::StringNotContains => {
                text(|value, part| value.contains(part))
            }
            Operator::StringBeginsWith | Operator::StringNotBeginsWith => {
                text(|value, start| value.starts_with(start))
            }
            Operator::StringEndsWith | Operator::StringNotEndsWith => {
                text(|value, end| value.ends_with(end))
            }
            Operator::StringIn | Operator::StringNotIn => text(|value, each| value == each),
            Operator::IsNullOrUndefined | Operator::IsNotNull => None,
        }
    }
}

impl Operand {
    /// Returns the number of values that count against the limit; a range is one value (rule 4.4).
    pub fn value_count(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Number(_) | Self::Bool(_) => 1,
            Self::Numbers(numbers) => numbers.len(),
            Self::Ranges(ranges) => ranges.len(),
            Self::Texts(texts) => texts.len(),
        }
    }

    /// Returns the values as text; a range is in brackets.
    pub fn values(&self) -> Vec<String> {
        let range = |(low, high): &(Decimal, Decimal)| format!("[{low},{high}]");
        match self {
            Self::Nothing => Vec::new(),
            Self::Number(number) => vec![number.to_string()],
            Self::Numbers(numbers) => numbers.iter().map(ToString::to_string).collect(),
            Self::Ranges(ranges) => ranges.iter().map(range).collect(),
            Self::Bool(value) => vec![value.to_string()],
            Self::Texts(texts) => texts.iter().map(|text| show_text(text.as_str())).collect(),
        }
    }

    fn numbers(&self) -> &[Decimal] {
        match self {
            Self::Number(number) => slice::from_ref(number),
            Self::Numbers(numbers) => numbers,
            Self::Nothing | Self::Ranges(_) | Self::Bool(_) | Self::Texts(_) => &[],
        }
    }

    fn ranges(&self) -> &[(Decimal, Decimal)] {
        match self {
            Self::Ranges(ranges) => ranges,
            Self::Nothing | Self::Number(_) | Self::Numbers(_) | Self::Bool(_) | Self::Texts(_) => {
                &[]
            }
        }
    }

    fn texts(&self) -> &[Text] {
        match self {
            Self::Texts(texts) => texts,
            Self::Nothing
            | Self::Number(_)
            | Self::Numbers(_)
            | Self::Ranges(_)
            | Self::Bool(_) => &[],
        }
    }
}

/// Writes the clause as text, such as `data.total is greater than 100`.
impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.key.as_str(), self.operator.row().meaning)?;
        let values = self.operand.values();
        if values.is_empty() {
            Ok(())
        } else {
            write!(f, " {}", values.join(", "))
        }
    }
}
