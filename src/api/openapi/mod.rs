//! The OpenAPI document of the API, made from the table of routes and the schemas of their types.

mod path;
mod schemas;

use axum::Json;
use axum::extract::State;
use serde_json::{Map, Value, json};

use crate::api::base_url::BaseUrl;
use crate::api::routes::{Area, Route, RouteAccess, RouteParameters, areas};
use crate::api::{ApiOptions, ApiState, arm};
pub(crate) use schemas::Schemas;

/// The version of OpenAPI that the document is written in.
const OPENAPI: &str = "3.1.0";

/// `GET /openapi.json`
pub(crate) async fn show(State(state): State<ApiState>, base: BaseUrl) -> Json<Value> {
    Json(document(&state.options, base.as_ref()))
}

/// Returns the OpenAPI document of an appliance with `options` that is reached at `public_url`.
pub fn document(options: &ApiOptions, public_url: &str) -> Value {
    let mut schemas = Schemas::new();
    let (mut tags, mut paths) = (Vec::new(), Map::new());
    for Area {
        name,
        description,
        routes,
    } in areas(options)
    {
        tags.push(json!({ "name": name, "description": description }));
        for route in routes {
            add(&mut paths, name, &route, &mut schemas);
        }
    }
    let mut document = json!({
        "openapi": OPENAPI,
        "info": {
            "title": "Everpost",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Self-hosted event delivery",
            "description": ABOUT,
            "license": { "name": "MIT or Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": public_url }],
        "tags": tags,
        "paths": paths,
        "components": { "securitySchemes": security_schemes() },
    });
    document["components"]["schemas"] = schemas.finish(&mut document).into();
    document
}

const ABOUT: &str = "Everything that this appliance serves to programs. Topics, event subscriptions and \
    namespaces are managed as in Azure Resource Manager, under its paths or under short ones; \
    `api-version` is passed over there. Names are compared in any letter case, and `null` stands for a property that is left out, where it means nothing else. What only Everpost has is \
    under `/everpost`.\n\nErrors have Azure's shape: `error.code`, `error.message`, `error.details`, and \
    `error.target` where one property is at fault. A 429 or 503 says in `Retry-After` when to come back.";

/// Adds a route under its short path and, if there is one, under its Azure Resource Manager path.
fn add(paths: &mut Map<String, Value>, area: &str, route: &Route, schemas: &mut Schemas) {
    let operation = operation(area, route, schemas);
    let mut put = |path: String, operation: Value| {
        let parameters = path::parameters(&path);
        let place = paths.entry(path).or_insert_with(|| json!({}));
        if !parameters.is_empty() {
            place["parameters"] = parameters.into();
        }
        place[route.method.as_str().to_ascii_lowercase()] = operation;
    };
    if matches!(route.access, RouteAccess::Role(_))
        && let Some(long) = arm::long_path(&route.path)
    {
        let mut own_operation = operation.clone();
        own_operation["operationId"] = format!("{}ByResourceId", route.id).into();
        put(long, own_operation);
    }
    put(route.path.clone(), operation);
}

/// Returns the operation object that describes a route in the document.
fn operation(area: &str, route: &Route, schemas: &mut Schemas) -> Value {
    let parameters = route.parameters.iter().flat_map(|each| match each {
        RouteParameters::Query(parameters) => parameters(schemas),
        RouteParameters::Header(parameter) => vec![parameter.clone()],
    });
    let mut operation = json!({
        "operationId": route.id,
        "tags": [area],
        "summary": route.summary,
        "description": route.description,
        "parameters": parameters.collect::<Vec<_>>(),
        "responses": responses(route, schemas),
        "security": security(route.access),
    });
    if !route.bodies.is_empty() {
        let mut content = Map::new();
        for body in &route.bodies {
            let schema = (body.schema)(schemas);
            let shown = json!({ "schema": schema, "example": body.example });
            content.insert(body.content_type.to_owned(), shown);
        }
        operation["requestBody"] =
            json!({ "required": !route.is_body_optional, "content": content });
    }
    if let RouteAccess::Role(role) = route.access {
        operation["x-everpost-role"] = role.name().into();
    }
    operation
}

fn responses(route: &Route, schemas: &mut Schemas) -> Map<String, Value> {
    let mut responses = Map::new();
    for answer in &route.answers {
        let mut response = json!({ "description": answer.description });
        for (content_type, body) in &answer.content {
            response["content"][content_type]["schema"] = body(schemas);
        }
        for (name, description) in &answer.headers {
            response["headers"][name] =
                json!({ "description": description, "schema": { "type": "string" } });
        }
        responses.insert(answer.status.to_string(), response);
    }
    for (status, description) in common_errors(route) {
        let error = || {
            let (content_type, schema) = route.error();
            let schema = schema(schemas);
            json!({ "description": description, "content": { content_type: { "schema": schema } } })
        };
        responses.entry(status.to_string()).or_insert_with(error);
    }
    responses
}

/// Returns the errors that follow from the path, parameters, body and access of a route.
fn common_errors(route: &Route) -> Vec<(u16, &'static str)> {
    let has_name = route.path.contains('{');
    let has_body = !route.bodies.is_empty();
    let is_public = route.access == RouteAccess::Public;
    let mut errors = Vec::new();
    if has_name || has_body || !route.parameters.is_empty() {
        errors.push((
            400,
            "Something in the request is wrong; the message names it.",
        ));
    }
    if has_name {
        errors.push((404, "There is nothing of that name."));
    }
    if has_body {
        errors.push((413, "The body is too large."));
    }
    if !is_public {
        errors.extend([
            (
                401,
                "The request has no key, signature or token, or a wrong one.",
            ),
            (
                403,
                "The token's role does not suffice, or a rule forbids it.",
            ),
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
    errors
}

/// Returns the security schemes that a route with this access accepts.
fn security(access: RouteAccess) -> Value {
    let schemes: &[&str] = match access {
        RouteAccess::Public => &[],
        RouteAccess::Key => &[
            "accessKey",
            "accessKeyInQuery",
            "sharedAccessKey",
            "accessSignature",
            "sharedAccessSignature",
            "token",
        ],
        RouteAccess::Queue | RouteAccess::Manage => &["serviceBusSignature", "token"],
        RouteAccess::Role(_) => &["token"],
    };
    schemes.iter().map(|name| json!({ *name: [] })).collect()
}

/// Returns the security schemes of the API, by which clients authenticate.
fn security_schemes() -> Value {
    let key = |place: &str, name: &str, says: &str| json!({ "type": "apiKey", "in": place, "name": name, "description": says });
    json!({
        "token": {
            "type": "http",
            "scheme": "bearer",
            "description": "The management token (`everpost token` prints it) or an API token, whose role \
                decides what it opens. Publishing and receiving take the role operator.",
        },
        "accessKey": key("header", "aeg-sas-key", "A key of the topic, or of its namespace."),
        "accessKeyInQuery": key("query", "aeg-sas-key", "The same key in the query."),
        "sharedAccessKey": key("header", "Authorization", "The same key as `SharedAccessKey KEY`."),
        "accessSignature": key("header", "aeg-sas-token",
            "A shared access signature `r=RESOURCE&e=EXPIRY&s=SIGNATURE`, made with one of the keys."),
        "sharedAccessSignature": key("header", "Authorization",
            "The same signature as `SharedAccessSignature r=…`."),
        "serviceBusSignature": key("header", "Authorization",
            "A shared access signature of Service Bus, `SharedAccessSignature sr=…&sig=…&se=…&skn=…`; \
             `everpost dead-letters token` makes one."),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::model::limits::PUBLISH_BYTES_MAX;

    use crate::api::AzureScope;

    const OPTIONS: ApiOptions = ApiOptions {
        publish_bytes_max: PUBLISH_BYTES_MAX,
        metrics_public: false,
        dev: None,
        azure: AzureScope::ANY,
    };

    fn operations(document: &Value) -> impl Iterator<Item = (String, &Value)> {
        let paths = document["paths"].as_object().expect("paths");
        paths.iter().flat_map(|(path, item)| {
            let item = item.as_object().expect("a path item").iter();
            item.filter(|(name, _)| *name != "parameters")
                .map(move |(method, operation)| (format!("{method} {path}"), operation))
        })
    }

    #[test]
    fn every_operation_has_an_id_of_its_own_words_and_an_answer() {
        let document = document(&OPTIONS, "http://127.0.0.1:8080");
        let mut ids = BTreeSet::new();
        for (at, operation) in operations(&document) {
            let id = operation["operationId"].as_str().expect("an id");
            assert!(ids.insert(id.to_owned()), "{at}: {id} is there twice");
            for name in ["summary", "description"] {
                assert!(
                    !operation[name].as_str().expect(name).is_empty(),
                    "{at}: {name}"
                );
            }
            let answers = operation["responses"].as_object().expect("answers");
            assert!(
                answers.keys().any(|status| status < &"400".to_owned()),
                "{at}"
            );
        }
    }

    #[test]
    fn every_reference_leads_somewhere_and_every_schema_is_used() {
        let document = document(&OPTIONS, "http://127.0.0.1:8080");
        let schemas = document["components"]["schemas"].as_object();
        let known: BTreeSet<&str> = schemas
            .expect("schemas")
            .keys()
            .map(String::as_str)
            .collect();
        let text = document.to_string();
        let used = text.split("\"#/components/schemas/").skip(1);
        let used: BTreeSet<&str> = used.filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(known, used);
    }

    #[test]
    fn every_part_of_a_path_is_explained() {
        let document = document(&OPTIONS, "http://127.0.0.1:8080");
        for (path, item) in document["paths"].as_object().expect("paths") {
            let names = path
                .split('{')
                .skip(1)
                .filter_map(|rest| rest.split('}').next());
            let empty = Vec::new();
            let told = item["parameters"].as_array().unwrap_or(&empty);
            for name in names {
                let told = told.iter().find(|each| each["name"] == name);
                let says = told.and_then(|told| told["description"].as_str());
                assert!(says.is_some_and(|says| !says.is_empty()), "{path}: {name}");
            }
        }
    }

    #[test]
    fn roles_are_those_of_the_table() {
        let document = document(&OPTIONS, "http://127.0.0.1:8080");
        let role =
            |path: &str, method: &str| document["paths"][path][method]["x-everpost-role"].clone();
        assert_eq!(role("/topics", "get"), "viewer");
        assert_eq!(role("/topics/{topic}", "put"), "admin");
        assert_eq!(role("/everpost/events/{key}", "get"), "operator");
        assert_eq!(role("/healthz", "get"), Value::Null);
        assert_eq!(role("/metrics", "get"), "viewer");
        let open = ApiOptions {
            metrics_public: true,
            dev: None,
            azure: AzureScope::ANY,
            ..OPTIONS
        };
        let document = super::document(&open, "http://127.0.0.1:8080");
        assert_eq!(document["paths"]["/metrics"]["get"]["security"], json!([]));
    }
}
