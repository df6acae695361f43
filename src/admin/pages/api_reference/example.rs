//! A request of the API as a command of curl.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::admin::lists::recipe::quoted;
use crate::admin::pages::api_reference::operation::Operation;
use crate::admin::pages::api_reference::schema::entries;

/// What stands in a query as it is.
const IN_QUERY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b':')
    .remove(b'/');

/// The command.
pub(super) fn curl(document: &Value, operation: &Operation<'_>) -> String {
    let server = document["servers"][0]["url"].as_str().unwrap_or_default();
    let url = quoted(&format!("{server}{}", target(operation)));
    let mut lines = vec![match &*operation.method() {
        "GET" => format!("curl {url}"),
        method => format!("curl -X {method} {url}"),
    }];
    // The first of the credentials that open it.
    let credential = entries(&operation.json["security"][0]).next();
    lines.extend(credential.map(|(name, _)| match name.as_str() {
        "token" => "  -H \"Authorization: Bearer $TOKEN\"".to_owned(),
        "accessKey" => "  -H \"aeg-sas-key: $KEY\"".to_owned(),
        _ => "  -H \"Authorization: $SIGNATURE\"".to_owned(),
    }));
    // JSON needs least to be said.
    let contents = || entries(&operation.json["requestBody"]["content"]);
    let json = contents().find(|(kind, _)| *kind == "application/json");
    if let Some((kind, content)) = json.or_else(|| contents().next()) {
        lines.push(format!("  -H \"Content-Type: {kind}\""));
        lines.push(format!(
            "  -d {}",
            quoted(&format!("{:#}", content["example"]))
        ));
    }
    lines.join(" \\\n")
}

/// Path and query, with an example for every parameter that must be there.
fn target(operation: &Operation<'_>) -> String {
    let mut path = operation.path.to_owned();
    let mut query = Vec::new();
    for parameter in operation.parameters() {
        let name = parameter["name"].as_str().unwrap_or_default();
        let given = [&parameter["example"], &parameter["schema"]["examples"][0]];
        let value = match given.into_iter().find(|given| !given.is_null()) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => name.to_uppercase(),
        };
        match parameter["in"].as_str() {
            Some("path") => path = path.replace(&format!("{{{name}}}"), &value),
            Some("query") if parameter["required"] == true => {
                let value = utf8_percent_encode(&value, IN_QUERY);
                query.push(format!("{name}={value}"));
            }
            _ => {}
        }
    }
    match query.as_slice() {
        [] => path,
        query => format!("{path}?{}", query.join("&")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admin::pages::api_reference::operation;

    fn check(path: &str, method: &str, described: &Value, expected: &str) {
        let item = json!({ method: described });
        let document = json!({ "servers": [{ "url": "http://h" }], "paths": { path: item } });
        let operation = operation::all(&document).next().expect("an operation");
        assert_eq!(curl(&document, &operation), expected);
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
