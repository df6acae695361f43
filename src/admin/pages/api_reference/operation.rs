//! The operations of the API: the purpose of one method at one path, and a request for it.

use serde_json::Value;

use super::{elements, entries, said, shown};
use crate::admin::lists::link;
use crate::admin::lists::recipe::quoted;

/// The HTTP methods of a path, in the order in which they are shown.
const METHODS: [&str; 6] = ["get", "put", "patch", "post", "delete", "options"];

/// The ending of the operation ids of those operations that have a second path, that of Azure Resource Manager.
pub(super) const SECOND_PATH: &str = "ByResourceId";

/// An operation, with its place in the OpenAPI document.
#[derive(Clone, Copy)]
pub(super) struct DocumentedOperation<'a> {
    pub(super) path: &'a str,
    item: &'a Value,
    method: &'static str,
    pub(super) json: &'a Value,
}

pub(super) fn all(document: &Value) -> impl Iterator<Item = DocumentedOperation<'_>> {
    entries(&document["paths"]).flat_map(|(path, item)| {
        METHODS.into_iter().filter_map(move |method| {
            let json = item.get(method)?;
            Some(DocumentedOperation {
                path,
                item,
                method,
                json,
            })
        })
    })
}

impl<'a> DocumentedOperation<'a> {
    pub(super) fn id(&self) -> &'a str {
        self.json["operationId"].as_str().unwrap_or_default()
    }

    pub(super) fn area(&self) -> &'a str {
        self.json["tags"][0].as_str().unwrap_or_default()
    }

    pub(super) fn method(&self) -> String {
        self.method.to_uppercase()
    }

    pub(super) fn parameters(&self) -> impl Iterator<Item = &'a Value> {
        elements(&self.item["parameters"]).chain(elements(&self.json["parameters"]))
    }

    /// Describes who may call the operation.
    pub(super) fn takes(&self) -> &'a str {
        let is_open = elements(&self.json["security"]).next().is_none();
        let otherwise = if is_open { "none" } else { "key or operator" };
        self.json["x-everpost-role"].as_str().unwrap_or(otherwise)
    }

    /// Returns the text that a search looks into, in lower case.
    pub(super) fn searched(&self) -> String {
        let [summary, description] = ["summary", "description"].map(|name| said(&self.json[name]));
        let names = [self.method, self.path, self.id(), self.area(), self.takes()].join(" ");
        format!("{names} {summary} {description}").to_lowercase()
    }

    /// Returns the path and query, with an example value for every required parameter.
    fn target(&self) -> String {
        let (mut path, mut query) = (self.path.to_owned(), Vec::new());
        for parameter in self.parameters() {
            let name = parameter["name"].as_str().unwrap_or_default();
            let given = [&parameter["example"], &parameter["schema"]["examples"][0]]
                .into_iter()
                .find(|given| !given.is_null());
            let value = given.map_or_else(|| name.to_uppercase(), shown);
            match parameter["in"].as_str() {
                Some("path") => path = path.replace(&format!("{{{name}}}"), &value),
                Some("query") if parameter["required"] == true => query.push((name, value)),
                _ => {}
            }
        }
        link(&path, &query)
    }
}

pub(super) fn curl(server: &str, operation: &DocumentedOperation<'_>) -> String {
    let url = quoted(&format!("{server}{}", operation.target()));
    let mut command = match &*operation.method() {
        "GET" => format!("curl {url}"),
        method => format!("curl -X {method} {url}"),
    };
    let mut add = |flag: &str| command += &format!(" \\\n  {flag}");
    // The example uses the first credential that the operation accepts.
    if let Some((name, _)) = entries(&operation.json["security"][0]).next() {
        add(match name.as_str() {
            "token" => "-H \"Authorization: Bearer $TOKEN\"",
            "accessKey" => "-H \"aeg-sas-key: $KEY\"",
            _ => "-H \"Authorization: $SIGNATURE\"",
        });
    }
    // JSON is preferred, since it needs the least explanation.
    let contents = || entries(&operation.json["requestBody"]["content"]);
    let json = contents().find(|(kind, _)| *kind == "application/json");
    if let Some((kind, content)) = json.or_else(|| contents().next()) {
        add(&format!("-H \"Content-Type: {kind}\""));
        let example = &content["example"];
        let text = example
            .as_str()
            .map(str::to_owned)
            .unwrap_or_else(|| format!("{example:#}"));
        add(&format!("-d {}", quoted(&text)));
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(path: &str, method: &str, described: &Value, expected: &str) {
        let item = json!({ method: described });
        let document = json!({ "paths": { path: item } });
        let operation = all(&document).next().expect("an operation");
        assert_eq!(curl("http://h", &operation), expected);
    }

    #[test]
    fn requests_are_commands() {
        let described = json!({
            "parameters": [
                { "in": "path", "name": "topic", "example": "orders" },
                { "in": "query", "name": "code", "required": true, "schema": {} },
                { "in": "query", "name": "limit", "schema": {} },
            ],
            "security": [{ "token": [] }],
            "requestBody": { "content": {
                "application/cloudevents+json": { "example": 1 },
                "application/json": { "example": { "a": "it's" } },
            } },
        });
        let expected = "curl -X PUT 'http://h/topics/orders?code=CODE' \\\n  \
            -H \"Authorization: Bearer $TOKEN\" \\\n  \
            -H \"Content-Type: application/json\" \\\n  \
            -d '{\n  \"a\": \"it'\\''s\"\n}'";
        check("/topics/{topic}", "put", &described, expected);
    }

    #[test]
    fn what_is_open_takes_nothing() {
        check("/healthz", "get", &json!({}), "curl 'http://h/healthz'");
    }
}
