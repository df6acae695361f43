//! Forms over documents of the management API. A field is named after a property, by the end of its path that tells it
//! from others: `maxDeliveryAttempts`, `authentication.type`, `deliveryAttributeMappings[0].name`. Where that property is
//! and what it is, the schema says that the API's reader checks the document with.

use std::collections::VecDeque;
use std::time::Duration;

use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use crate::admin::form_error::{all_of, of_fields};
use crate::admin::forms::form::{ELEMENTS_MAX, Form, FormError, number};
use crate::admin::reader::PageReader;
use crate::base::human;
use crate::wire::duration;
use crate::wire::resource::places::{lookup, properties, prune, slot};
use crate::wire::resource::{InvalidResource, places, schema_of};

/// Fields that are not written as plain text, numbers or comma-separated lists, with their formats.
const WRITTEN: [(&str, WrittenField); 5] = [
    ("includedEventTypes", WrittenField::Lines),
    ("inboundIpRules", WrittenField::Each("ipMask")),
    ("responseHeaders", WrittenField::Pairs(": ")),
    ("tags", WrittenField::Pairs("=")),
    ("correlationFilter.properties", WrittenField::Typed),
];

const BODY: &str = "responseBody";

#[derive(Clone, Copy)]
enum WrittenField {
    /// Strings that may contain commas, one per line.
    Lines,
    /// Objects, one per line, of which the line holds this property.
    Each(&'static str),
    /// Pairs of a name and a value, one a line, with this text between the two.
    Pairs(&'static str),
    /// Pairs of a name and a value, one a line, whose values may have other types than string.
    Typed,
}

fn written(name: &str) -> Option<WrittenField> {
    let mut ways = WRITTEN.into_iter();
    ways.find_map(|(field, way)| (field == name).then_some(way))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) schema: &'static Value,
    /// A property of other kinds alone; empty for none.
    pub(crate) without: &'static str,
}

impl Shape {
    /// The path and the schema of the property that a field is named after, the nearest to the top.
    pub(crate) fn find(&self, name: &str) -> Option<(String, &'static Value)> {
        places::find(self.schema, name, self.without, ELEMENTS_MAX)
    }

    pub(crate) fn of<T: JsonSchema + 'static>() -> Self {
        let (schema, without) = (schema_of::<T>(), "name");
        Self { schema, without }
    }

    /// Fills the form into the document and parses it with `parse`. Returns all errors, at the fields that have the
    /// last part of the name of their property.
    pub(crate) fn define<T>(
        &self,
        form: &Form,
        mut document: Value,
        parse: impl FnOnce(&Value) -> Result<T, InvalidResource>,
    ) -> Result<T, Vec<FormError>> {
        let unread = self.fill(form, &mut document);
        let parsed = parse(&document).map_err(|invalid| of_fields(&invalid));
        all_of(unread, parsed)
    }

    /// Fills the form into the document and removes properties that do not apply to objects of its kind. Returns the
    /// errors of fields that cannot be read.
    pub(crate) fn write(&self, form: &Form, document: &mut Value) -> Vec<FormError> {
        let unread = self.fill(form, document);
        prune(document, self.schema);
        unread
    }

    /// Fills the form into the document. Returns the errors of fields that cannot be read.
    fn fill(&self, form: &Form, document: &mut Value) -> Vec<FormError> {
        let mut unread = Vec::new();
        for (name, _) in form.fields() {
            let Some((path, schema)) = self.find(name) else {
                continue;
            };
            match read(form, name, schema) {
                Ok(Some(value)) => *slot(document, &path) = value,
                Ok(None) => {}
                Err(problem) => unread.push(FormError::of(name, problem)),
            }
        }
        unread
    }

    /// Returns a form filled in from the document, without its secrets.
    pub(crate) fn form(&self, document: &Value) -> Form {
        let (mut form, mut next) = (Form::default(), VecDeque::from([self.schema]));
        while let Some(schema) = next.pop_front() {
            for (name, schema) in properties(schema).filter(|(_, schema)| !is_kept(schema)) {
                form.set(name, self.text(name, document));
                next.push_back(schema);
            }
        }
        form
    }

    pub(crate) fn text(&self, name: &str, document: &Value) -> String {
        let found = self.find(name);
        let schema = found.as_ref().map_or(&Value::Null, |(_, schema)| schema);
        let value = found.and_then(|(path, _)| lookup(document, &path));
        let own = |text: &Value| text.as_str().unwrap_or_default().to_owned();
        let joined = |texts: Vec<String>, between: &str| texts.join(between);
        match (value, written(name)) {
            (Some(Value::Bool(true)), _) => "on".to_owned(),
            (Some(Value::Array(list)), Some(WrittenField::Each(property))) => {
                joined(list.iter().map(|each| own(&each[property])).collect(), "\n")
            }
            (Some(Value::Array(list)), written) => {
                let between = if written.is_some() { "\n" } else { ", " };
                let text = |each: &Value| in_words(&own(each), &schema["items"]);
                joined(list.iter().map(text).collect(), between)
            }
            (Some(Value::Object(pairs)), Some(WrittenField::Pairs(sign))) => {
                let line = |(name, value): (&String, _)| format!("{name}{sign}{}", own(value));
                joined(pairs.iter().map(line).collect(), "\n")
            }
            (Some(Value::Object(pairs)), Some(WrittenField::Typed)) => {
                let line = |(name, value): (&String, _)| typed_line(name, value);
                joined(pairs.iter().map(line).collect(), "\n")
            }
            (Some(Value::String(text)), _) => in_words(text, schema),
            (Some(Value::Number(number)), _) if number.as_u64() != Some(0) => number.to_string(),
            _ => String::new(),
        }
    }
}

/// Reads the value of a field; `None` for an empty one. Text that only the parser of the API can check is returned as
/// it is.
fn read(form: &Form, name: &str, schema: &Value) -> Result<Option<Value>, String> {
    // Browsers end lines as HTTP does.
    let typed = form.raw(name).replace("\r\n", "\n");
    let text = if keeps_space(name, schema) || typed.trim().contains('\n') {
        typed.as_str()
    } else {
        typed.trim()
    };
    let inner = || properties(schema).chain(properties(&schema["items"]));
    Ok(Some(match (written(name), schema["type"].as_str()) {
        _ if text.is_empty() => return Ok(None),
        (Some(WrittenField::Pairs(sign)), _) => pairs(text, sign, |text| text.into())?.into(),
        (Some(WrittenField::Typed), _) => typed_pairs(text)?.into(),
        (Some(WrittenField::Each(property)), _) => {
            let each = |line| json!({ (property): line });
            words(text, '\n').into_iter().map(each).collect()
        }
        (Some(WrittenField::Lines), _) => json!(words(text, '\n')),
        _ if inner().next().is_some() => return Ok(None),
        (_, Some("boolean")) => json!(true),
        (_, Some("integer" | "number")) => number(text),
        (_, Some("array")) => match words(text, ',') {
            none if none.is_empty() => return Ok(None),
            texts if is_duration(&schema["items"]) => texts
                .into_iter()
                .map(iso)
                .collect::<Result<Value, String>>()?,
            texts => json!(texts),
        },
        _ if is_duration(schema) => iso(text)?,
        _ => match PageReader::current()
            .zone
            .moment(text)
            .filter(|_| schema["format"] == "date-time")
        {
            Some(at) => json!(at.to_string()),
            None => json!(text), // no moment stays as it is, too
        },
    }))
}

/// Formats a duration that was typed as ISO 8601, the format of the documents.
fn iso(text: &str) -> Result<Value, String> {
    let problem = || format!("{text:?} is not a duration: enter one such as 30 s, 10 min or 14 d.");
    let span = duration_of(text).ok_or_else(problem)?;
    Ok(duration::format(span).into())
}

/// Reports whether the value of a field may begin or end with white space, as passwords, bodies and the values of
/// headers may.
fn keeps_space(name: &str, schema: &Value) -> bool {
    let is_header = schema["x-check"] == "headerValue";
    name == BODY || is_header && (is_kept(schema) || name.ends_with(".value"))
}

/// Reports whether the property is a secret, which is never shown and keeps its value if the field is left empty.
pub(crate) fn is_kept(schema: &Value) -> bool {
    schema.get("x-kept").is_some()
}

pub(crate) fn words(text: &str, separator: char) -> Vec<&str> {
    let words = text.split(separator).map(str::trim);
    words.filter(|word| !word.is_empty()).collect()
}

fn pairs(text: &str, between: &str, read: fn(&str) -> Value) -> Result<Map<String, Value>, String> {
    let sign = between.trim();
    let pair = |line: &str| {
        let incomplete = || format!("{line:?} is incomplete: write a name, {sign} and a value.");
        let (name, value) = line.split_once(sign).ok_or_else(incomplete)?;
        Ok((name.trim().to_owned(), read(value.trim())))
    };
    words(text, '\n').into_iter().map(pair).collect()
}

/// Parses application properties, one per line. Fails with the problem of the first invalid line.
pub(crate) fn typed_pairs(text: &str) -> Result<Map<String, Value>, String> {
    pairs(text, "=", typed)
}

/// Parses a typed value: valid JSON as its JSON type, so that a value in quotes is always a string; anything else as a
/// string.
fn typed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

pub(crate) fn typed_line(name: &str, value: &Value) -> String {
    let plain = value.as_str().filter(|text| typed(text) == *value);
    match plain {
        Some(text) => format!("{name} = {text}"),
        None => format!("{name} = {value}"),
    }
}

/// Parses a duration in ISO 8601, as in Azure, or in words, such as `10 min`.
pub(crate) fn duration_of(text: &str) -> Option<Duration> {
    let iso = duration::parse(text).ok();
    iso.or_else(|| human::parse_span(text))
}

/// Returns a text as it is displayed: a duration in words if the words express it exactly.
fn in_words(text: &str, schema: &Value) -> String {
    let span = duration::parse(text).ok().filter(|_| is_duration(schema));
    let words = span
        .map(human::span)
        .filter(|said| human::parse_span(said) == span);
    words.unwrap_or_else(|| text.to_owned())
}

fn is_duration(schema: &Value) -> bool {
    schema["format"] == "duration"
}

/// A list of the document whose elements are groups of fields: `advancedFilters[2].key`.
pub(crate) struct FieldGroups {
    /// The name of the list, and what buttons call an element.
    pub(crate) list: &'static str,
    pub(crate) noun: &'static str,
    pub(crate) first: &'static str,
    pub(crate) most: usize,
}

impl FieldGroups {
    pub(crate) fn count(&self, form: &Form) -> usize {
        let has = |at: &usize| form.has(&self.field(*at));
        (0..ELEMENTS_MAX).take_while(has).count()
    }

    fn field(&self, at: usize) -> String {
        format!("{}[{at}].{}", self.list, self.first)
    }

    /// Performs the action of a button, such as `add-clause` or `remove-clause-2`. Returns `None` if the button does
    /// not belong to these groups.
    pub(crate) fn press(&self, button: &str, form: &mut Form) -> Option<()> {
        let (verb, rest) = button.split_once('-')?;
        match (verb, rest.strip_prefix(self.noun)?) {
            ("add", "") if self.count(form) >= self.most => {}
            ("add", "") => form.set(self.field(self.count(form)), ""),
            ("remove", rest) => {
                form.remove_element(self.list, rest.strip_prefix('-')?.parse().ok()?);
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: FieldGroups = FieldGroups {
        list: "headers",
        noun: "header",
        first: "name",
        most: 2,
    };

    fn shape() -> Shape {
        let text = || json!({ "type": "string" });
        let kind = |word: &str, own: &str, schema: Value| json!({ "properties": { "type": { "const": word }, own: schema } });
        let secret = json!({ "type": "string", "x-check": "headerValue", "x-kept": [] });
        let login = json!({ "oneOf": [kind("Basic", "password", secret), kind("Bearer", "token", text())],
            "properties": { "user": text() } });
        let list = json!({ "type": "array", "items": text() });
        let headers = json!({ "type": "array", "items": { "type": "object", "properties": { "name": text() } } });
        let inner = json!({ "type": "object", "properties": {
            "count": { "type": "integer" }, "rate": { "type": "number" }, "login": login, "labels": list,
            "includedEventTypes": list, "open": { "type": "boolean" }, "headers": headers } });
        let schema = json!({ "properties": { "other": inner, "inner": inner } });
        Shape {
            schema: Box::leak(Box::new(schema)),
            without: "other",
        }
    }

    #[test]
    fn a_form_becomes_a_document_and_the_document_the_form_again() {
        let fields = [
            ("count", "2"),
            ("rate", "0.5"),
            ("login.type", "Basic"),
            ("login.password", " hush "),
            ("labels", "a, b"),
            ("includedEventTypes", "a, b\nc"),
            ("open", "on"),
            ("headers[1].name", "x"),
        ];
        let left_out = [("login.token", "typed before"), ("name", "no property")];
        let form = Form::of_pairs(fields.iter().chain(&left_out));
        let mut document = json!({});
        shape().write(&form, &mut document);
        let login = json!({ "type": "Basic", "password": " hush " });
        let inner = json!({ "count": 2, "rate": 0.5, "login": login, "labels": ["a", "b"],
            "includedEventTypes": ["a, b", "c"], "open": true, "headers": [{}, { "name": "x" }] });
        assert_eq!(document, json!({ "inner": inner }));
        for (name, value) in fields {
            assert_eq!(shape().text(name, &document), value, "{name}");
        }
    }

    #[test]
    fn what_has_no_kind_is_left_out_and_what_is_no_number_stays_a_text() {
        let typed = [
            ("login.user", "ann"),
            ("login.type", ""),
            ("count", "many"),
            ("rate", "inf"),
            ("labels", " ,"),
        ];
        let mut document = json!({});
        shape().write(&Form::of_pairs(typed.iter()), &mut document);
        assert_eq!(
            document,
            json!({ "inner": { "count": "many", "rate": "inf" } })
        );
        assert!(shape().find("headers[100000].name").is_none());
    }

    #[test]
    fn elements_are_added_up_to_the_most_and_removed() {
        let mut form = Form::default();
        for name in ["a", "b", "c"] {
            ROWS.press("add-header", &mut form).expect("a button");
            form.set(format!("headers[{}].name", ROWS.count(&form) - 1), name);
        }
        assert_eq!(ROWS.count(&form), 2);
        ROWS.press("remove-header-0", &mut form).expect("a button");
        assert_eq!((ROWS.count(&form), form.text("headers[0].name")), (1, "c"));
        ROWS.press("remove-header-7", &mut form)
            .expect("nothing to do");
        for button in ["remove-header", "remove-header-x", "add-clause", "dance"] {
            assert_eq!(ROWS.press(button, &mut form), None, "{button}");
        }
    }
}
