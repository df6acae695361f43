//! What is told of one method at one path.

use axum::http::Method;
use serde_json::{Map, Value, json};

use super::schema::{Schema, Schemas};
use crate::api::routes::{Door, Served};

/// Operations that belong together, and the schemas that they need.
pub(super) struct Area {
    pub(super) name: &'static str,
    pub(super) says: &'static str,
    pub(super) operations: Vec<Operation>,
    pub(super) schemas: Schemas,
}

/// What one method at one path is for.
pub(super) struct Operation {
    pub(super) method: Method,
    pub(super) path: String,
    id: String,
    summary: &'static str,
    description: String,
    parameters: Vec<Value>,
    body: Option<Value>,
    answers: Map<String, Value>,
}

/// JSON, as nearly everything is.
const JSON: &str = "application/json";

/// Describes `method` at `path`, as clients see it.
pub(super) fn on(
    method: Method,
    path: impl Into<String>,
    id: impl Into<String>,
    summary: &'static str,
) -> Operation {
    Operation {
        method,
        path: path.into(),
        id: id.into(),
        summary,
        description: String::new(),
        parameters: Vec::new(),
        body: None,
        answers: Map::new(),
    }
}

/// A parameter in the query, which may be left out.
pub(super) fn query(name: &str, schema: Schema, says: &str) -> Value {
    parameter("query", name, schema, says)
}

/// A header, which may be left out.
pub(super) fn header(name: &str, schema: Schema, says: &str) -> Value {
    parameter("header", name, schema, says)
}

fn parameter(place: &str, name: &str, schema: Schema, says: &str) -> Value {
    json!({ "in": place, "name": name, "description": says, "schema": schema.into_json() })
}

/// A parameter that must be there.
pub(super) fn needed(mut parameter: Value) -> Value {
    parameter["required"] = true.into();
    parameter
}

impl Operation {
    pub(super) fn says(self, words: impl Into<String>) -> Self {
        Self {
            description: words.into(),
            ..self
        }
    }

    pub(super) fn with<const N: usize>(mut self, parameters: [Value; N]) -> Self {
        self.parameters.extend(parameters);
        self
    }

    /// A body of JSON with an example that works.
    pub(super) fn takes(self, schema: Schema, example: Value) -> Self {
        self.takes_as(JSON, schema, example)
    }

    /// The same, where the body may be left out.
    pub(super) fn may_take(self, schema: Schema, example: Value) -> Self {
        let mut taking = self.takes(schema, example);
        if let Some(body) = &mut taking.body {
            body["required"] = false.into();
        }
        taking
    }

    /// A body of that content type; one operation may take several.
    pub(super) fn takes_as(mut self, kind: &str, schema: Schema, example: Value) -> Self {
        let body = self
            .body
            .get_or_insert_with(|| json!({ "required": true, "content": {} }));
        body["content"][kind]["schema"] = schema.into_json();
        body["content"][kind]["example"] = example;
        self
    }

    /// An answer in JSON.
    pub(super) fn gives(self, status: u16, says: &str, schema: Schema) -> Self {
        self.gives_as(status, says, JSON, schema)
    }

    /// An answer of that content type; one status may have several.
    pub(super) fn gives_as(mut self, status: u16, says: &str, kind: &str, schema: Schema) -> Self {
        let answer = self
            .answers
            .entry(status.to_string())
            .or_insert_with(|| json!({ "description": says }));
        answer["content"][kind]["schema"] = schema.into_json();
        self
    }

    /// An answer without a body.
    pub(super) fn gives_nothing(self, status: u16, says: &str) -> Self {
        self.answers(status, json!({ "description": says }))
    }

    /// Headers of an answer that is described already.
    pub(super) fn tells<const N: usize>(
        mut self,
        status: u16,
        headers: [(&str, Schema, &str); N],
    ) -> Self {
        let answer = &mut self.answers[&status.to_string()];
        for (name, schema, says) in headers {
            answer["headers"][name] = json!({ "description": says, "schema": schema.into_json() });
        }
        self
    }

    /// A refusal of its own, beside those that every operation of its kind has.
    pub(super) fn refuses(self, status: u16, says: &str) -> Self {
        let schema = match self.is_of_service_bus() {
            true => (XML, "ServiceBusError"),
            false => (JSON, "Error"),
        };
        self.answers(status, refusal(says, schema))
    }

    fn answers(mut self, status: u16, answer: Value) -> Self {
        self.answers.insert(status.to_string(), answer);
        self
    }

    /// Clients of Service Bus read errors in XML.
    fn is_of_service_bus(&self) -> bool {
        self.path.contains("/$DeadLetterQueue/")
    }

    /// Adds what all operations with such a path, body and door have.
    pub(super) fn of(mut self, served: &Served) -> Self {
        for (status, says) in self.common_refusals(served.door) {
            if !self.answers.contains_key(&status.to_string()) {
                self = self.refuses(status, says);
            }
        }
        self
    }

    fn common_refusals(&self, door: Door) -> Vec<(u16, &'static str)> {
        let mut refusals = Vec::new();
        let has_name = self.path.contains('{');
        if has_name || !self.parameters.is_empty() || self.body.is_some() {
            refusals.push((
                400,
                "Something in the request is wrong; the message names it.",
            ));
        }
        if has_name {
            refusals.push((404, "There is nothing of that name."));
        }
        match door {
            Door::Open => {}
            Door::Key | Door::Queue | Door::Role(_) => refusals.extend([
                (
                    401,
                    "The request has no key, signature or token, or a wrong one.",
                ),
                (
                    403,
                    "The token's role does not suffice, or a rule forbids it.",
                ),
            ]),
        }
        if self.body.is_some() {
            refusals.push((413, "The body is too large."));
        }
        if !matches!(door, Door::Open) {
            refusals.extend([
                (
                    500,
                    "The appliance met a defect of its own; its log says more.",
                ),
                (
                    503,
                    "It cannot be done right now: stopping, too busy, or the disk is full.",
                ),
            ]);
        }
        refusals
    }

    /// The operation as OpenAPI has it. `area` groups it, and `place` is appended to its id where it
    /// stands at a second path.
    pub(super) fn render(&self, area: &str, door: Door, place: &str) -> Value {
        let mut shown = json!({
            "operationId": format!("{}{place}", self.id),
            "tags": [area],
            "summary": self.summary,
            "description": self.description,
            "parameters": self.parameters,
            "responses": self.answers,
            "security": security(door),
        });
        if let Some(body) = &self.body {
            shown["requestBody"] = body.clone();
        }
        if let Door::Role(access) = door {
            shown["x-everpost-role"] = access.needed(&self.method).name().into();
        }
        shown
    }
}

const XML: &str = "application/xml";

fn refusal(says: &str, (kind, schema): (&str, &str)) -> Value {
    let schema = json!({ "$ref": format!("#/components/schemas/{schema}") });
    json!({ "description": says, "content": { kind: { "schema": schema } } })
}

/// What opens a door, by the names of the security schemes.
fn security(door: Door) -> Value {
    let schemes: &[&str] = match door {
        Door::Open => &[],
        Door::Key => &[
            "accessKey",
            "accessKeyInQuery",
            "sharedAccessKey",
            "accessSignature",
            "sharedAccessSignature",
            "token",
        ],
        Door::Queue => &["serviceBusSignature", "token"],
        Door::Role(_) => &["token"],
    };
    schemes.iter().map(|name| json!({ *name: [] })).collect()
}
