//! Forms over documents of the management API. A field is named after a property, by the end of its path that tells it
//! from others: `maxDeliveryAttempts`, `authentication.type`, `deliveryAttributeMappings[0].name`. Where that property is
//! and what it is, the schema says that the API's reader checks the document with.

use std::collections::VecDeque;

use serde_json::{Map, Number, Value, json};

use crate::admin::forms::form::{ELEMENTS_MAX, Form};
use crate::admin::reader::Reader;

/// Lists of texts that may have commas in them: one stands on each line.
const LINED: [&str; 1] = ["includedEventTypes"];

/// The kinds of documents that a form is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) schema: &'static Value,
    /// A property of other kinds alone; empty for none.
    pub(crate) without: &'static str,
}

impl Shape {
    /// The path and the schema of the property that a field is named after, the nearest to the top.
    pub(crate) fn find(&self, name: &str) -> Option<(String, &'static Value)> {
        let (pattern, index) = match name.split_once('[') {
            None => (name.to_owned(), String::new()),
            Some((list, rest)) => {
                let (index, rest) = rest.split_once(']')?;
                let at: usize = index.parse().ok()?;
                (at < ELEMENTS_MAX).then(|| (format!("{list}[]{rest}"), format!("[{at}]")))?
            }
        };
        let is_named = |path: &str| {
            let before = path.strip_suffix(pattern.as_str());
            before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
                && path.contains("[]") == pattern.contains("[]")
        };
        let mut next = VecDeque::from([(String::new(), self.schema)]);
        while let Some((path, schema)) = next.pop_front() {
            if is_named(&path) {
                return Some((path.replace("[]", &index), schema));
            }
            let inner = properties(schema).filter(|(name, _)| *name != self.without);
            next.extend(inner.map(|(name, schema)| (join(&path, name), schema)));
            let items = schema.get("items");
            next.extend(items.map(|items| (format!("{path}[]"), items)));
        }
        None
    }

    /// Puts what is filled in into the document.
    pub(crate) fn write(&self, form: &Form, document: &mut Value) {
        for (name, _) in form.fields() {
            if let Some((path, schema)) = self.find(name)
                && let Some(value) = read(form, name, schema)
            {
                *slot(document, &path) = value;
            }
        }
        prune(document, self.schema);
    }

    /// What a field holds where the document is this.
    pub(crate) fn text(&self, name: &str, document: &Value) -> String {
        let found = self.find(name);
        match found.and_then(|(path, _)| lookup(document, &path)) {
            Some(Value::Bool(true)) => "on".to_owned(),
            Some(Value::Array(list)) => {
                let between = if LINED.contains(&name) { "\n" } else { ", " };
                let texts: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
                texts.join(between)
            }
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            Some(Value::Bool(false) | Value::Null | Value::Object(_)) | None => String::new(),
        }
    }
}

/// What a field is filled in with; `None` for nothing. What only the API's reader can judge stays as it is.
fn read(form: &Form, name: &str, schema: &Value) -> Option<Value> {
    // Browsers end lines as HTTP does.
    let typed = form.raw(name).replace("\r\n", "\n");
    let text = match keeps_space(name, schema) || typed.trim().contains('\n') {
        true => typed.as_str(),
        false => typed.trim(),
    };
    let number = || match text.parse::<i64>() {
        Ok(whole) => whole.into(),
        Err(_) => text
            .parse::<Number>()
            .map_or_else(|_| text.into(), Value::Number),
    };
    let is_object = properties(schema)
        .chain(properties(&schema["items"]))
        .next()
        .is_some();
    match schema["type"].as_str() {
        _ if text.is_empty() || is_object => None,
        Some("boolean") => Some(json!(true)),
        Some("integer" | "number") => Some(number()),
        Some("array") => {
            let between = if LINED.contains(&name) { '\n' } else { ',' };
            let texts = words(text, between);
            (!texts.is_empty()).then(|| json!(texts))
        }
        _ if schema["format"] == "date-time" => Some(json!(in_utc(text))),
        _ => Some(json!(text)),
    }
}

/// Whether white space may be a part of what is typed: of passwords and of the values of headers.
fn keeps_space(name: &str, schema: &Value) -> bool {
    schema["x-check"] == "headerValue" && (is_kept(schema) || name.ends_with(".value"))
}

/// Whether it is a secret, which is never shown and need not be given again.
pub(crate) fn is_kept(schema: &Value) -> bool {
    schema.get("x-kept").is_some()
}

/// The texts between separators, without white space around them.
pub(crate) fn words(text: &str, separator: char) -> Vec<&str> {
    let words = text.split(separator).map(str::trim);
    words.filter(|word| !word.is_empty()).collect()
}

/// Names and values, one pair per line.
pub(crate) fn pairs(text: &str, between: &str) -> Result<Value, String> {
    let sign = between.trim();
    let pair = |line: &str| {
        let pair = line.split_once(sign);
        let (name, value) = pair
            .ok_or_else(|| format!("{line:?} is incomplete: write a name, {sign} and a value."))?;
        Ok((name.trim().to_owned(), json!(value.trim())))
    };
    let pairs: Result<Map<_, _>, String> = words(text, '\n').into_iter().map(pair).collect();
    pairs.map(Value::Object)
}

/// What was typed by the clocks of the reader, in UTC; what is no moment stays as it is.
fn in_utc(text: &str) -> String {
    let at = Reader::current().zone.moment(text);
    at.map_or_else(|| text.to_owned(), |at| at.to_string())
}

/// Takes out what objects of the kind do not have, and those that have no kind; false for one of these.
fn prune(value: &mut Value, schema: &Value) -> bool {
    let object = match value {
        Value::Object(object) => object,
        Value::Array(list) => {
            list.iter_mut().for_each(|each| {
                prune(each, &schema["items"]);
            });
            return true;
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return true,
    };
    let kinds = schema["oneOf"].as_array().map_or(&[][..], Vec::as_slice);
    let is_tag = |(_, schema): &(&str, &Value)| schema.get("const").is_some();
    let tag = kinds
        .first()
        .and_then(|kind| own_properties(kind).find(is_tag));
    let kind = match tag {
        None => None,
        Some((tag, _)) => match object.get(tag) {
            None => return false,
            Some(word) => {
                let kind = kinds
                    .iter()
                    .find(|kind| kind["properties"][tag]["const"] == *word);
                // The reader says which words there are.
                let Some(kind) = kind else { return true };
                Some(kind)
            }
        },
    };
    let was_empty = object.is_empty();
    object.retain(|name, inner| {
        let mut parts = [Some(schema), kind].into_iter().flatten();
        let known = parts.find_map(|part| part["properties"].get(name));
        known.is_some_and(|schema| prune(inner, schema))
    });
    was_empty || !object.is_empty()
}

/// All that an object may have, whatever its kind.
fn properties(schema: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let kinds = schema["oneOf"].as_array().into_iter().flatten();
    own_properties(schema).chain(kinds.flat_map(own_properties))
}

fn own_properties(schema: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let properties: Option<&Map<_, _>> = schema["properties"].as_object();
    let properties = properties.into_iter().flatten();
    properties.map(|(name, schema)| (name.as_str(), schema))
}

fn join(at: &str, name: &str) -> String {
    match at {
        "" => name.to_owned(),
        at => format!("{at}.{name}"),
    }
}

/// What the document has at the path.
pub(crate) fn lookup<'a>(document: &'a Value, path: &str) -> Option<&'a Value> {
    let pointer = path.replace(['.', '['], "/").replace(']', "");
    document.pointer(&format!("/{pointer}"))
}

/// The place in the document; what leads there is made.
pub(crate) fn slot<'a>(document: &'a mut Value, path: &str) -> &'a mut Value {
    path.split('.').fold(document, |object, name| {
        let Some((list, at)) = name.trim_end_matches(']').split_once('[') else {
            return &mut object[name];
        };
        let list = &mut object[list];
        let at: usize = at.parse().unwrap_or_default();
        if !list.is_array() {
            *list = json!([]);
        }
        let elements = list.as_array_mut().expect("it is one");
        if elements.len() <= at {
            elements.resize(at + 1, json!({}));
        }
        &mut elements[at]
    })
}

/// A list of the document whose elements are groups of fields: `advancedFilters[2].key`.
pub(crate) struct Rows {
    /// The name of the list, and what buttons call an element.
    pub(crate) list: &'static str,
    pub(crate) noun: &'static str,
    /// A field that every element has.
    pub(crate) first: &'static str,
    pub(crate) most: usize,
}

impl Rows {
    /// Elements in the form.
    pub(crate) fn count(&self, form: &Form) -> usize {
        let has = |at: &usize| form.has(&format!("{}[{at}].{}", self.list, self.first));
        (0..ELEMENTS_MAX).take_while(has).count()
    }

    /// Does what one of their buttons says: `add-clause`, `remove-clause-2`; `None` if it is none of theirs.
    pub(crate) fn press(&self, button: &str, form: &mut Form) -> Option<()> {
        let (verb, rest) = button.split_once('-')?;
        match (verb, rest.strip_prefix(self.noun)?) {
            ("add", "") if self.count(form) >= self.most => {}
            ("add", "") => {
                form.set(
                    format!("{}[{}].{}", self.list, self.count(form), self.first),
                    "",
                );
            }
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

    const ROWS: Rows = Rows {
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
