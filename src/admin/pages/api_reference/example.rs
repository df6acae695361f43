//! A request of the API as a command of curl.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};

use crate::admin::lists::recipe::quoted;
use crate::admin::pages::api_reference::document::entries;

/// What stands in a query as it is.
const IN_QUERY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b':')
    .remove(b'/');

/// What is to be asked.
pub(crate) struct Call<'a> {
    pub(crate) server: &'a str,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) parameters: &'a [&'a Value],
    /// The first of the credentials that open it.
    pub(crate) credential: Option<&'a Map<String, Value>>,
    /// OpenAPI's `requestBody`.
    pub(crate) body: &'a Value,
}

/// The command.
pub(crate) fn curl(call: &Call<'_>) -> String {
    let url = quoted(&format!("{}{}", call.server, target(call)));
    let mut lines = vec![match call.method {
        "GET" => format!("curl {url}"),
        method => format!("curl -X {method} {url}"),
    }];
    if let Some(header) = credential(call) {
        lines.push(format!("  -H \"{header}\""));
    }
    if let Some((kind, content)) = preferred(call.body) {
        lines.push(format!("  -H \"Content-Type: {kind}\""));
        lines.push(format!("  -d {}", quoted(&pretty(&content["example"]))));
    }
    lines.join(" \\\n")
}

/// JSON as people read it.
pub(crate) fn pretty(json: &Value) -> String {
    serde_json::to_string_pretty(json).unwrap_or_default()
}

/// The content type that needs least to be said.
fn preferred(body: &Value) -> Option<(&String, &Value)> {
    let json = entries(&body["content"]).find(|(kind, _)| *kind == "application/json");
    json.or_else(|| entries(&body["content"]).next())
}

/// Path and query, with an example for every parameter that must be there.
fn target(call: &Call<'_>) -> String {
    let mut path = call.path.to_owned();
    let mut query = Vec::new();
    for parameter in call.parameters {
        let name = parameter["name"].as_str().unwrap_or_default();
        let value = example(parameter);
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

fn example(parameter: &Value) -> String {
    let given = [&parameter["example"], &parameter["schema"]["examples"][0]];
    match given.into_iter().find(|given| !given.is_null()) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => parameter["name"]
            .as_str()
            .unwrap_or_default()
            .to_uppercase(),
    }
}

fn credential(call: &Call<'_>) -> Option<&'static str> {
    match call.credential?.keys().next()?.as_str() {
        "token" => Some("Authorization: Bearer $TOKEN"),
        "accessKey" => Some("aeg-sas-key: $KEY"),
        _ => Some("Authorization: $SIGNATURE"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_are_commands() {
        let topic = json!({ "in": "path", "name": "topic", "example": "orders" });
        let code = json!({ "in": "query", "name": "code", "required": true, "schema": {} });
        let limit = json!({ "in": "query", "name": "limit", "schema": {} });
        let token = json!({ "token": [] });
        let body = json!({ "content": {
            "application/cloudevents+json": { "example": 1 },
            "application/json": { "example": { "a": "it's" } },
        } });
        let call = Call {
            server: "http://h",
            method: "PUT",
            path: "/topics/{topic}",
            parameters: &[&topic, &code, &limit],
            credential: token.as_object(),
            body: &body,
        };
        let expected = "curl -X PUT 'http://h/topics/orders?code=CODE' \\\n  \
            -H \"Authorization: Bearer $TOKEN\" \\\n  \
            -H \"Content-Type: application/json\" \\\n  \
            -d '{\n  \"a\": \"it'\\''s\"\n}'";
        assert_eq!(curl(&call), expected);
    }

    #[test]
    fn what_is_open_takes_nothing() {
        let call = Call {
            server: "http://h",
            method: "GET",
            path: "/healthz",
            parameters: &[],
            credential: None,
            body: &Value::Null,
        };
        assert_eq!(curl(&call), "curl 'http://h/healthz'");
    }
}
