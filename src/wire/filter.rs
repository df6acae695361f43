//! The `filter` of an event subscription as JSON (spec 4).

use serde_json::{Map, Value, json};

use crate::model::filter::Filter;

/// Why a JSON object is no filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct InvalidFilter {
    /// Where, seen from the filter: `advancedFilters[2].values`.
    pub path: String,
    pub problem: String,
}

/// Reads the filter object. Names are read in any letter case; `null` counts as left out.
pub fn parse(filter: &Map<String, Value>) -> Result<Filter, InvalidFilter> {
    let advanced = "advancedFilters";
    if field(filter, advanced).is_some_and(|list| list.as_array().is_none_or(|l| !l.is_empty())) {
        return Err(invalid(advanced, "advanced filters are not supported yet"));
    }
    Ok(Filter {
        included_event_types: included_event_types(filter)?,
        subject_begins_with: text(filter, "subjectBeginsWith")?,
        subject_ends_with: text(filter, "subjectEndsWith")?,
        subject_case_sensitive: flag(filter, "isSubjectCaseSensitive")?,
    })
}

/// Writes the filter object; [`parse`] reads it back as the same filter.
pub fn render(filter: &Filter) -> Value {
    json!({
        "includedEventTypes": filter.included_event_types,
        "subjectBeginsWith": filter.subject_begins_with.as_str(),
        "subjectEndsWith": filter.subject_ends_with.as_str(),
        "isSubjectCaseSensitive": filter.subject_case_sensitive,
    })
}

/// `None` stands for every type: nothing listed, or `All` among the types (spec 4.1).
fn included_event_types(filter: &Map<String, Value>) -> Result<Option<Vec<String>>, InvalidFilter> {
    let name = "includedEventTypes";
    let types: Vec<String> = match field(filter, name) {
        None => return Ok(None),
        Some(Value::Array(types)) => types
            .iter()
            .enumerate()
            .map(|(index, each)| string(each, format!("{name}[{index}]")))
            .collect::<Result<_, _>>()?,
        Some(_) => return Err(invalid(name, "it must be a list of event types")),
    };
    let every = types.is_empty() || types.iter().any(|each| each == "All");
    Ok((!every).then_some(types))
}

fn text(filter: &Map<String, Value>, name: &str) -> Result<String, InvalidFilter> {
    field(filter, name).map_or(Ok(String::new()), |value| string(value, name))
}

/// Azure's pages call the flag a string, its clients send a boolean (spec 4.1).
fn flag(filter: &Map<String, Value>, name: &str) -> Result<bool, InvalidFilter> {
    match field(filter, name) {
        None => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(true),
        Some(Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(false),
        Some(_) => Err(invalid(name, "it must be true or false")),
    }
}

fn string(value: &Value, path: impl Into<String>) -> Result<String, InvalidFilter> {
    let text = value.as_str().map(str::to_owned);
    text.ok_or_else(|| invalid(path, "it must be a string"))
}

fn field<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let found = object
        .iter()
        .find(|(each, _)| each.eq_ignore_ascii_case(name));
    found
        .map(|(_, value)| value)
        .filter(|value| !value.is_null())
}

fn invalid(path: impl Into<String>, problem: impl Into<String>) -> InvalidFilter {
    InvalidFilter {
        path: path.into(),
        problem: problem.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The filter written back, or the path of what is wrong with it.
    fn read_and_write(filter: &str) -> Result<String, String> {
        let filter = parse(&serde_json::from_str(filter).expect("test JSON"));
        filter
            .map(|filter| render(&filter).to_string())
            .map_err(|error| error.path)
    }

    fn check(filter: &str, expected: Result<&str, &str>) {
        let written = read_and_write(filter);
        assert_eq!(
            written.as_deref().map_err(String::as_str),
            expected,
            "{filter}"
        );
        if let Ok(written) = written {
            assert_eq!(read_and_write(&written), Ok(written.clone()), "{filter}");
        }
    }

    #[test]
    fn basic_filters_are_read_and_written() {
        let every = r#"{"includedEventTypes":null,"isSubjectCaseSensitive":false,"subjectBeginsWith":"","subjectEndsWith":""}"#;
        check("{}", Ok(every));
        check(
            r#"{"includedEventTypes":["A","All"],"advancedFilters":[]}"#,
            Ok(every),
        );
        check(
            r#"{"IncludedEventTypes":["A","a"],"subjectbeginswith":"/X","isSubjectCaseSensitive":"True"}"#,
            Ok(
                r#"{"includedEventTypes":["A","a"],"isSubjectCaseSensitive":true,"subjectBeginsWith":"/X","subjectEndsWith":""}"#,
            ),
        );
        check(r#"{"includedEventTypes":"A"}"#, Err("includedEventTypes"));
        check(
            r#"{"includedEventTypes":["A",1]}"#,
            Err("includedEventTypes[1]"),
        );
        check(r#"{"subjectEndsWith":1}"#, Err("subjectEndsWith"));
        check(
            r#"{"isSubjectCaseSensitive":"yes"}"#,
            Err("isSubjectCaseSensitive"),
        );
    }
}
