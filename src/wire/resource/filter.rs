//! The filter of an event subscription, in both of its shapes (rule 4, rule N4).
//!
//! A name that means nothing is rejected: a misspelt condition must not let every event through.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Number, Value, json};

use super::InvalidResource;
use super::document;
use super::mirror::documents;
use super::rules::{Context, Judged};
use crate::model::filter::{
    Clause, Conditions, Decimal, Dialect, Filter, Key, Operand, Operator, Takes, Text,
};
use crate::model::limits::{FILTER_STRING_MAX, FILTER_VALUES_MAX, FILTERS_MAX};
use crate::wire::bad_input::shortened;

documents! {
    Clause => AdvancedFilter;
}

/// The filter of a custom topic's subscription. All parts must hold.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Filter", rename_all = "camelCase")]
#[schemars(rename = "Filter", deny_unknown_fields, extend("x-rule" = "filter"))]
pub(super) struct BasicFilter {
    #[serde(skip)]
    dialect: Dialect,
    /// Types to be delivered; null, an empty list, or `All` in it, for every type.
    #[serde(deserialize_with = "read_types", default)]
    included_event_types: Option<Vec<String>>,
    #[serde(default)]
    #[schemars(extend("x-answered" = true))]
    subject_begins_with: Text,
    #[serde(default)]
    #[schemars(extend("x-answered" = true))]
    subject_ends_with: Text,
    #[serde(rename = "isSubjectCaseSensitive", default)]
    #[schemars(extend("x-answered" = true))]
    subject_case_sensitive: bool,
    #[serde(flatten, with = "BasicConditions")]
    advanced: Conditions,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Conditions")]
struct BasicConditions {
    #[serde(rename = "advancedFilters", default)]
    #[schemars(length(max = FILTERS_MAX), extend("x-noun" = "filters"))]
    clauses: Vec<Clause>,
    #[serde(rename = "enableAdvancedFilteringOnArrays", default)]
    on_arrays: bool,
}

/// The filter of a namespace topic's subscription. Conditions on the subject are filters like any other
/// (rule N4).
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Filter", rename_all = "camelCase")]
#[schemars(rename = "FiltersConfiguration", deny_unknown_fields, extend("x-rule" = "filter"))]
pub(super) struct FiltersConfiguration {
    #[serde(skip, default = "namespace_dialect")]
    dialect: Dialect,
    /// Types to be delivered; null or an empty list for every type.
    #[serde(deserialize_with = "read_types", default)]
    included_event_types: Option<Vec<String>>,
    #[serde(skip)]
    subject_begins_with: Text,
    #[serde(skip)]
    subject_ends_with: Text,
    #[serde(skip)]
    subject_case_sensitive: bool,
    #[serde(flatten, with = "ConfiguredConditions")]
    advanced: Conditions,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Conditions")]
struct ConfiguredConditions {
    #[serde(rename = "filters", default)]
    #[schemars(length(max = FILTERS_MAX), extend("x-noun" = "filters"))]
    clauses: Vec<Clause>,
    /// Arrays are always looked into.
    #[serde(skip, default = "always")]
    on_arrays: bool,
}

fn namespace_dialect() -> Dialect {
    Dialect::Namespace
}

fn always() -> bool {
    true
}

/// An empty list stands for every type (rule 4.1).
fn read_types<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    let types: Option<Vec<String>> = Option::deserialize(deserializer)?;
    Ok(types.filter(|types| !types.is_empty()))
}

/// An operator, where it looks, and what it compares with.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Clause")]
#[schemars(rename = "AdvancedFilter", deny_unknown_fields, extend("x-rule" = "advancedFilter"))]
struct AdvancedFilter {
    #[schemars(length(max = FILTER_STRING_MAX), example = "data.order.total")]
    key: Key,
    #[serde(rename = "operatorType")]
    #[schemars(extend("x-formerly" = "operator"))] // in 2018 (rule 4.2)
    operator: Operator,
    #[serde(flatten, with = "operand")]
    #[schemars(with = "Values")]
    operand: Operand,
}

#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
struct Values {
    /// The value, for operators that take one.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
    /// The values, for operators that take several.
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<Value>,
}

mod operand {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::{Value, json};

    use super::{Operand, Takes, Text, Values, number, read_operand};

    pub(super) fn serialize<S: Serializer>(
        operand: &Operand,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let range = |(low, high): &(_, _)| json!([number(low), number(high)]);
        let (value, values) = match operand {
            Operand::Nothing => (None, None),
            Operand::Number(value) => (Some(number(value)), None),
            Operand::Bool(value) => (Some(json!(value)), None),
            Operand::Numbers(values) => (None, Some(values.iter().map(number).collect())),
            Operand::Ranges(ranges) => (None, Some(ranges.iter().map(range).collect())),
            Operand::Texts(texts) => (None, Some(texts.iter().map(Text::as_str).collect())),
        };
        Values { value, values }.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Operand, D::Error> {
        let Values { value, values } = Values::deserialize(deserializer)?;
        let first = values.as_ref().map(|values| &values[0]);
        let takes = match (&value, first) {
            (None, None) => Takes::Nothing,
            (Some(Value::Bool(_)), _) => Takes::Bool,
            (Some(_), _) => Takes::Number,
            (None, Some(Value::Number(_))) => Takes::Numbers,
            (None, Some(Value::Array(_))) => Takes::Ranges,
            (None, Some(_)) => Takes::Texts,
        };
        let operand = read_operand(takes, value.as_ref(), values.as_ref());
        operand.map_err(|(_, problem)| D::Error::custom(problem))
    }
}

fn number(number: &Decimal) -> Value {
    let number: Result<Number, _> = number.to_string().parse();
    number.expect("a filter's numbers come from JSON").into()
}

/// The place in an advanced filter, and what is wrong there.
type Wrong = (String, String);

fn wrong<T>(place: &str, problem: impl Into<String>) -> Result<T, Wrong> {
    Err((place.to_owned(), problem.into()))
}

fn read_operand(
    takes: Takes,
    value: Option<&Value>,
    values: Option<&Value>,
) -> Result<Operand, Wrong> {
    match takes {
        Takes::Nothing => match (value, values) {
            (None, None) => Ok(Operand::Nothing),
            (Some(_), _) => wrong("value", "this operator takes no value"),
            (None, Some(_)) => wrong("values", "this operator takes no value"),
        },
        Takes::Number => one(value, values, read_number).map(Operand::Number),
        Takes::Numbers => several(value, values, read_number).map(Operand::Numbers),
        Takes::Ranges => several(value, values, read_range).map(Operand::Ranges),
        Takes::Bool => one(value, values, read_flag).map(Operand::Bool),
        Takes::Texts => {
            let texts = several(value, values, read_text)?;
            Ok(Operand::Texts(texts.into_iter().map(Text::from).collect()))
        }
    }
}

/// How one value at a place is read.
type Read<T> = fn(&Value, &str) -> Result<T, Wrong>;

fn one<T>(value: Option<&Value>, values: Option<&Value>, read: Read<T>) -> Result<T, Wrong> {
    match (value, values) {
        (_, Some(_)) => wrong("values", "this operator takes one `value`"),
        (None, None) => wrong("value", "it is missing"),
        (Some(value), None) => read(value, "value"),
    }
}

/// The `values`; a `value` in their place counts as the only one (rule 4.2).
fn several<T>(
    value: Option<&Value>,
    values: Option<&Value>,
    read: Read<T>,
) -> Result<Vec<T>, Wrong> {
    match (value, values) {
        (Some(_), Some(_)) => wrong("values", "give either `value` or `values`"),
        (Some(value), None) => Ok(vec![read(value, "value")?]),
        (None, Some(Value::Array(values))) if !values.is_empty() => values
            .iter()
            .enumerate()
            .map(|(at, value)| read(value, &format!("values[{at}]")))
            .collect(),
        (None, _) => wrong("values", "it must be a list with at least one value"),
    }
}

fn unexpected<T>(place: &str, expected: &str, value: &Value) -> Result<T, Wrong> {
    let found = shortened(&value.to_string());
    wrong(place, format!("it must be {expected}, but it is {found}"))
}

fn read_text(value: &Value, place: &str) -> Result<String, Wrong> {
    let Value::String(text) = value else {
        return unexpected(place, "a string", value);
    };
    match text.chars().count() {
        0..=FILTER_STRING_MAX => Ok(text.clone()),
        count => {
            let problem =
                format!("its {count} characters are too many: at most {FILTER_STRING_MAX}");
            wrong(place, problem)
        }
    }
}

fn read_flag(value: &Value, place: &str) -> Result<bool, Wrong> {
    value
        .as_bool()
        .map_or_else(|| unexpected(place, "true or false", value), Ok)
}

/// Numbers are what the JSON reader makes of them: integers of 64 bits exactly, others as doubles.
fn read_number(value: &Value, place: &str) -> Result<Decimal, Wrong> {
    let number = value
        .as_number()
        .map(Number::to_string)
        .and_then(|text| Decimal::parse(&text));
    number.map_or_else(|| unexpected(place, "a number", value), Ok)
}

fn read_range(value: &Value, place: &str) -> Result<(Decimal, Decimal), Wrong> {
    let Some([low, high]) = value.as_array().map(Vec::as_slice) else {
        return unexpected(place, "a range such as [1, 10]", value);
    };
    let low = read_number(low, &format!("{place}[0]"))?;
    let high = read_number(high, &format!("{place}[1]"))?;
    if low > high {
        wrong(
            place,
            format!("the lower end {low} is above the upper end {high}"),
        )
    } else {
        Ok((low, high))
    }
}

/// Checks the values against what the operator takes; one in the place of several becomes a list.
pub(super) fn judge_advanced_filter(it: &mut Judged<'_>) {
    let Some(operator) = it.text("operatorType").and_then(Operator::from_name) else {
        return;
    };
    let takes = operator.row().takes;
    match read_operand(takes, it.object.get("value"), it.object.get("values")) {
        Err((place, problem)) => it.fault(place, problem),
        Ok(Operand::Numbers(_) | Operand::Ranges(_) | Operand::Texts(_)) => {
            if let Some(value) = it.object.remove("value") {
                it.object.insert("values".to_owned(), json!([value]));
            }
        }
        Ok(Operand::Nothing | Operand::Number(_) | Operand::Bool(_)) => {}
    }
}

pub(super) fn judge_filter(it: &mut Judged<'_>) {
    for name in ["advancedFilters", "filters"] {
        let count_of = |filter: &Value| match filter["values"].as_array() {
            Some(values) => values.len(),
            None => usize::from(filter.get("value").is_some()),
        };
        let count: usize = it.list(name).iter().map(count_of).sum();
        if count > FILTER_VALUES_MAX {
            let problem = format!(
                "all filters together have {count} values: at most {FILTER_VALUES_MAX} are allowed"
            );
            it.fault(name, problem);
        }
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
struct Basic(#[serde(with = "BasicFilter")] Filter);

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
struct Configured(#[serde(with = "FiltersConfiguration")] Filter);

/// Reads a filter in the shape of a dialect.
pub fn parse_filter(dialect: Dialect, filter: &Value) -> Result<Filter, InvalidResource> {
    match dialect {
        Dialect::Basic => document::read::<Basic>(filter, &Context::NONE).map(|read| read.0),
        Dialect::Namespace => {
            document::read::<Configured>(filter, &Context::NONE).map(|read| read.0)
        }
    }
}

/// Writes a filter in the shape of its dialect; [`parse_filter`] reads it back as the same filter.
pub fn render_filter(filter: &Filter) -> Value {
    match filter.dialect {
        Dialect::Basic => json!(Basic(filter.clone())),
        Dialect::Namespace => json!(Configured(filter.clone())),
    }
}

/// Writes one advanced filter.
pub(in crate::wire) fn render_clause(clause: &Clause) -> Value {
    json!(clause)
}
