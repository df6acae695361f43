//! The `filter` of an event subscription as JSON (rule 4).

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value, json};

use crate::model::filter::{
    Clause, Conditions, Decimal, Dialect, Filter, Key, Operand, Operator, Takes, Text,
};
use crate::model::limits::{FILTER_STRING_MAX, FILTER_VALUES_MAX, FILTERS_MAX};
use crate::wire::bad_input::{quoted, shortened};

/// Why a JSON object is no filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct InvalidFilter {
    /// Where, seen from the filter: `advancedFilters[2].values`.
    pub path: String,
    /// What is wrong, and what would be right.
    pub problem: String,
}

/// What may stand in a filter.
const FILTER_NAMES: &[&str] = &[
    "includedEventTypes",
    "subjectBeginsWith",
    "subjectEndsWith",
    "isSubjectCaseSensitive",
    "enableAdvancedFilteringOnArrays",
    "advancedFilters",
];

/// What may stand in the `filtersConfiguration` of a namespace topic's subscription.
const CONFIGURATION_NAMES: &[&str] = &["includedEventTypes", "filters"];

/// What may stand in an advanced filter.
const CLAUSE_NAMES: &[&str] = &["operatorType", "key", "value", "values"];

/// Reads the filter object. Names are read in any letter case, `null` counts as left out, and a name
/// that means nothing is refused: a misspelt condition must not let every event through.
///
/// Numbers are what the JSON reader makes of them: integers of 64 bits exactly, others as doubles.
pub fn parse(filter: &Map<String, Value>) -> Result<Filter, InvalidFilter> {
    let fields = Fields::read(filter, "", FILTER_NAMES)?;
    let types = included_event_types(&fields)?;
    let every = types.iter().any(|each| each == "All");
    Ok(Filter {
        dialect: Dialect::Basic,
        included_event_types: (!every && !types.is_empty()).then_some(types),
        subject_begins_with: subject_part(&fields, "subjectBeginsWith")?,
        subject_ends_with: subject_part(&fields, "subjectEndsWith")?,
        subject_case_sensitive: flag(&fields, "isSubjectCaseSensitive")?,
        advanced: Conditions {
            clauses: clauses(&fields, "advancedFilters")?,
            on_arrays: flag(&fields, "enableAdvancedFilteringOnArrays")?,
        },
    })
}

/// Writes the filter object; [`parse`] reads it back as the same filter.
pub fn render(filter: &Filter) -> Value {
    let clauses: Vec<Value> = filter.advanced.clauses.iter().map(render_clause).collect();
    json!({
        "includedEventTypes": filter.included_event_types,
        "subjectBeginsWith": filter.subject_begins_with.as_str(),
        "subjectEndsWith": filter.subject_ends_with.as_str(),
        "isSubjectCaseSensitive": filter.subject_case_sensitive,
        "enableAdvancedFilteringOnArrays": filter.advanced.on_arrays,
        "advancedFilters": clauses,
    })
}

/// Reads the `filtersConfiguration` of a namespace topic's subscription. There arrays are always looked
/// into, and conditions on the subject are filters like any other (rule N4).
pub fn parse_configuration(filter: &Map<String, Value>) -> Result<Filter, InvalidFilter> {
    let fields = Fields::read(filter, "", CONFIGURATION_NAMES)?;
    let types = included_event_types(&fields)?;
    Ok(Filter {
        dialect: Dialect::Namespace,
        included_event_types: (!types.is_empty()).then_some(types),
        advanced: Conditions {
            clauses: clauses(&fields, "filters")?,
            on_arrays: true,
        },
        ..Filter::default()
    })
}

/// Writes the `filtersConfiguration`; [`parse_configuration`] reads it back as the same filter.
pub fn render_configuration(filter: &Filter) -> Value {
    let clauses: Vec<Value> = filter.advanced.clauses.iter().map(render_clause).collect();
    json!({ "includedEventTypes": filter.included_event_types, "filters": clauses })
}

/// The listed types; an empty list stands for every type, and so does `All` in it (rule 4.1), though not
/// in namespaces.
fn included_event_types(fields: &Fields<'_>) -> Result<Vec<String>, InvalidFilter> {
    let name = "includedEventTypes";
    match fields.get(name) {
        None => Ok(Vec::new()),
        Some(Value::Array(types)) => each(types, &fields.path_of(name), text),
        Some(value) => Err(wrong(fields.path_of(name), "a list of event types", value)),
    }
}

fn subject_part(fields: &Fields<'_>, name: &str) -> Result<Text, InvalidFilter> {
    match fields.get(name) {
        None => Ok(Text::default()),
        Some(value) => text(value, &fields.path_of(name)).map(Text::from),
    }
}

/// Azure's pages call the flag a string, its clients send a boolean (rule 4.1).
fn flag(fields: &Fields<'_>, name: &str) -> Result<bool, InvalidFilter> {
    match fields.get(name) {
        None => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(true),
        Some(Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(false),
        Some(value) => Err(wrong(fields.path_of(name), "true or false", value)),
    }
}

fn clauses(fields: &Fields<'_>, name: &str) -> Result<Vec<Clause>, InvalidFilter> {
    let list = match fields.get(name) {
        None => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(value) => return Err(wrong(fields.path_of(name), "a list of filters", value)),
    };
    if list.len() > FILTERS_MAX {
        let problem = format!("{} are too many: at most {FILTERS_MAX}", list.len());
        return Err(fields.invalid(name, problem));
    }
    let clauses = each(list, &fields.path_of(name), clause)?;
    let values: usize = clauses.iter().map(|each| each.operand.value_count()).sum();
    if values > FILTER_VALUES_MAX {
        let problem = format!(
            "all filters together have {values} values: at most {FILTER_VALUES_MAX} are allowed"
        );
        return Err(fields.invalid(name, problem));
    }
    Ok(clauses)
}

fn clause(value: &Value, path: &str) -> Result<Clause, InvalidFilter> {
    let Value::Object(object) = value else {
        return Err(wrong(
            path,
            "an object with operatorType, key and values",
            value,
        ));
    };
    let fields = Fields::read(object, path, CLAUSE_NAMES)?;
    let operator = operator(&fields)?;
    Ok(Clause {
        key: key(&fields)?,
        operator,
        operand: operand(operator, &fields)?,
    })
}

fn operator(fields: &Fields<'_>) -> Result<Operator, InvalidFilter> {
    let (value, path) = fields.require("operatorType")?;
    let name = text(value, &path)?;
    Operator::from_name(&name).ok_or_else(|| {
        let known: Vec<&str> = Operator::ALL.iter().map(|row| row.name).collect();
        invalid(
            path,
            format!(
                "there is no operator {}; it must be one of {}",
                quoted(&name),
                known.join(", ")
            ),
        )
    })
}

fn key(fields: &Fields<'_>) -> Result<Key, InvalidFilter> {
    let (value, path) = fields.require("key")?;
    let text = short_text(value, &path)?;
    Key::parse(&text).map_err(|error| invalid(path, error.to_string()))
}

fn operand(operator: Operator, fields: &Fields<'_>) -> Result<Operand, InvalidFilter> {
    match operator.row().takes {
        Takes::Nothing => none(fields).map(|()| Operand::Nothing),
        Takes::Number => one(fields, number).map(Operand::Number),
        Takes::Numbers => list(fields, number).map(Operand::Numbers),
        Takes::Ranges => list(fields, range).map(Operand::Ranges),
        Takes::Bool => one(fields, boolean).map(Operand::Bool),
        Takes::Texts => {
            let texts = list(fields, short_text)?;
            Ok(Operand::Texts(texts.into_iter().map(Text::from).collect()))
        }
    }
}

/// How one value is read; the second argument is its path.
type Read<T> = fn(&Value, &str) -> Result<T, InvalidFilter>;

fn none(fields: &Fields<'_>) -> Result<(), InvalidFilter> {
    let mut names = ["value", "values"].iter();
    match names.find(|name| fields.get(name).is_some()) {
        None => Ok(()),
        Some(name) => Err(fields.invalid(name, "this operator takes no value")),
    }
}

fn one<T>(fields: &Fields<'_>, read: Read<T>) -> Result<T, InvalidFilter> {
    if fields.get("values").is_some() {
        return Err(fields.invalid("values", "this operator takes one `value`"));
    }
    let (value, path) = fields.require("value")?;
    read(value, &path)
}

/// The `values`; a `value` in their place counts as the only one (rule 4.2).
fn list<T>(fields: &Fields<'_>, read: Read<T>) -> Result<Vec<T>, InvalidFilter> {
    let name = "values";
    match (fields.get(name), fields.get("value")) {
        (Some(_), Some(_)) => Err(fields.invalid(name, "give either `value` or `values`")),
        (None, Some(value)) => Ok(vec![read(value, &fields.path_of("value"))?]),
        (Some(Value::Array(values)), None) if !values.is_empty() => {
            each(values, &fields.path_of(name), read)
        }
        (_, None) => Err(fields.invalid(name, "it must be a list with at least one value")),
    }
}

fn each<T>(values: &[Value], path: &str, read: Read<T>) -> Result<Vec<T>, InvalidFilter> {
    let values = values.iter().enumerate();
    values
        .map(|(index, value)| read(value, &format!("{path}[{index}]")))
        .collect()
}

fn text(value: &Value, path: &str) -> Result<String, InvalidFilter> {
    let text = value.as_str().map(str::to_owned);
    text.ok_or_else(|| wrong(path, "a string", value))
}

fn short_text(value: &Value, path: &str) -> Result<String, InvalidFilter> {
    let text = text(value, path)?;
    let length = text.chars().count();
    if length > FILTER_STRING_MAX {
        let problem = format!("its {length} characters are too many: at most {FILTER_STRING_MAX}");
        return Err(invalid(path, problem));
    }
    Ok(text)
}

fn boolean(value: &Value, path: &str) -> Result<bool, InvalidFilter> {
    let boolean = value.as_bool();
    boolean.ok_or_else(|| wrong(path, "true or false", value))
}

fn number(value: &Value, path: &str) -> Result<Decimal, InvalidFilter> {
    let number = value.as_number().map(Number::to_string);
    let number = number.and_then(|number| Decimal::parse(&number));
    number.ok_or_else(|| wrong(path, "a number", value))
}

fn range(value: &Value, path: &str) -> Result<(Decimal, Decimal), InvalidFilter> {
    let Some([low, high]) = value.as_array().map(Vec::as_slice) else {
        return Err(wrong(path, "a range such as [1, 10]", value));
    };
    let low = number(low, &format!("{path}[0]"))?;
    let high = number(high, &format!("{path}[1]"))?;
    if low > high {
        let problem = format!("the lower end {low} is above the upper end {high}");
        return Err(invalid(path, problem));
    }
    Ok((low, high))
}

/// Writes one advanced filter.
pub(super) fn render_clause(clause: &Clause) -> Value {
    let mut object = json!({
        "operatorType": clause.operator.name(),
        "key": clause.key.as_str(),
    });
    match &clause.operand {
        Operand::Nothing => {}
        Operand::Number(value) => object["value"] = render_number(value),
        Operand::Numbers(values) => object["values"] = values.iter().map(render_number).collect(),
        Operand::Ranges(ranges) => {
            let ranges = ranges.iter();
            object["values"] = ranges
                .map(|(low, high)| json!([render_number(low), render_number(high)]))
                .collect();
        }
        Operand::Bool(value) => object["value"] = json!(value),
        Operand::Texts(texts) => object["values"] = texts.iter().map(Text::as_str).collect(),
    }
    object
}

fn render_number(number: &Decimal) -> Value {
    let number: Result<Number, _> = number.to_string().parse();
    number.expect("a filter's numbers come from JSON").into()
}

/// The members of an object by today's names; `null` counts as left out.
struct Fields<'a> {
    path: &'a str,
    values: BTreeMap<&'static str, &'a Value>,
}

impl<'a> Fields<'a> {
    fn read(
        object: &'a Map<String, Value>,
        path: &'a str,
        names: &[&'static str],
    ) -> Result<Self, InvalidFilter> {
        let mut fields = Self {
            path,
            values: BTreeMap::new(),
        };
        for (written, value) in object.iter().filter(|(_, value)| !value.is_null()) {
            let mut known = names.iter();
            let Some(name) = known.find(|name| name.eq_ignore_ascii_case(today(written))) else {
                let problem = format!("it is not known here; known are {}", names.join(", "));
                return Err(fields.invalid(&shortened(written), problem));
            };
            if fields.values.insert(name, value).is_some() {
                return Err(fields.invalid(name, "it is given twice"));
            }
        }
        Ok(fields)
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        self.values.get(name).copied()
    }

    /// The value with its path.
    fn require(&self, name: &str) -> Result<(&'a Value, String), InvalidFilter> {
        let missing = || self.invalid(name, "it is missing");
        Ok((self.get(name).ok_or_else(missing)?, self.path_of(name)))
    }

    fn path_of(&self, name: &str) -> String {
        let dot = if self.path.is_empty() { "" } else { "." };
        format!("{}{dot}{name}", self.path)
    }

    fn invalid(&self, name: &str, problem: impl Into<String>) -> InvalidFilter {
        invalid(self.path_of(name), problem)
    }
}

/// The name of `operatorType` was another in 2018 (rule 4.2); letter case aside, the rest is unchanged.
fn today(name: &str) -> &str {
    if name.eq_ignore_ascii_case("operator") {
        return "operatorType";
    }
    name
}

fn wrong(path: impl Into<String>, expected: &str, value: &Value) -> InvalidFilter {
    let found = shortened(&value.to_string());
    invalid(path, format!("it must be {expected}, not {found}"))
}

fn invalid(path: impl Into<String>, problem: impl Into<String>) -> InvalidFilter {
    InvalidFilter {
        path: path.into(),
        problem: problem.into(),
    }
}

#[cfg(test)]
mod tests;
