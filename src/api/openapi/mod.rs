//! The API as an OpenAPI document: made from the table of routes, with what is told of each of them in one
//! file for each area.
//!
//! Paths, methods and roles come from the table; limits are the constants that the code itself obeys. A
//! route that nobody describes, or a description without a route, fails a test.

mod appliance;
mod dead_letters;
mod destination_schemas;
mod events;
mod explain;
mod inspectors;
mod namespaces;
mod operation;
mod parameters;
mod people;
mod publish;
mod pull;
mod queues;
mod replays;
mod schema;
mod subscription_schemas;
mod subscriptions;
mod topics;

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use axum::http::Method;
use serde_json::{Map, Value, json};

use crate::api::arm;
use crate::api::routes::{self, Door, Served};
use crate::api::{ApiOptions, ApiState};
use operation::{Area, Operation};
use schema::{Schemas, list, object, schemas, text};

/// The version of OpenAPI that the document is written in.
const OPENAPI: &str = "3.1.0";

/// `GET /openapi.json`
pub(super) async fn show(State(state): State<ApiState>) -> Json<Value> {
    Json(document(&state.options, &state.broker.options().public_url))
}

/// The document of an appliance that behaves by `options` and is reached at `public_url`.
pub fn document(options: &ApiOptions, public_url: &str) -> Value {
    let areas = areas(options);
    let tags: Vec<Value> = areas
        .iter()
        .map(|area| json!({ "name": area.name, "description": area.says }))
        .collect();
    let mut all_schemas = common_schemas();
    let mut described = HashMap::new();
    for area in areas {
        all_schemas.extend(area.schemas);
        for operation in area.operations {
            let key = (operation.method.clone(), operation.path.clone());
            described.insert(key, (area.name, operation));
        }
    }
    json!({
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
        "paths": paths(options, described),
        "components": { "schemas": all_schemas, "securitySchemes": security_schemes() },
    })
}

const ABOUT: &str = "Everything that this appliance serves to programs. Topics, event subscriptions and \
    namespaces are managed as in Azure Resource Manager, under its paths or under short ones; \
    `api-version` is passed over there. Names are compared in any letter case. What only Everpost has is \
    under `/everpost`.\n\nErrors have Azure's shape: `error.code`, `error.message`, `error.details`, and \
    `error.target` where one property is at fault. A 429 or 503 says in `Retry-After` when to come back.";

/// All areas, in the order in which people meet them.
fn areas(options: &ApiOptions) -> Vec<Area> {
    vec![
        publish::area(options),
        topics::area(),
        subscriptions::area(),
        namespaces::area(),
        pull::area(),
        events::area(),
        explain::area(),
        dead_letters::area(),
        queues::area(),
        replays::area(),
        inspectors::area(),
        people::area(),
        appliance::area(),
    ]
}

type Described = HashMap<(Method, String), (&'static str, Operation)>;

fn paths(options: &ApiOptions, mut described: Described) -> Map<String, Value> {
    let mut paths = Map::new();
    for served in routes::served(options) {
        let key = (served.method.clone(), served.path.clone());
        let Some((area, operation)) = described.remove(&key) else {
            continue;
        };
        let operation = operation.of(&served);
        let Served { method, path, door } = served;
        if matches!(door, Door::Role(_))
            && let Some(long) = arm::long_path(&path)
        {
            let shown = operation.render(area, door, "ByResourceId");
            add(&mut paths, long, &method, shown);
        }
        let shown = operation.render(area, door, "");
        add(&mut paths, path, &method, shown);
    }
    paths
}

fn add(paths: &mut Map<String, Value>, path: String, method: &Method, operation: Value) {
    let parameters = parameters::of_path(&path);
    let place = paths.entry(path).or_insert_with(|| json!({}));
    if !parameters.is_empty() {
        place["parameters"] = parameters.into();
    }
    place[method.as_str().to_ascii_lowercase()] = operation;
}

fn common_schemas() -> Schemas {
    let detail = object([("code", text()), ("message", text())]);
    let error = detail.clone().with([
        ("details", list(detail)),
        ("target", text().says("The property at fault.").optional()),
    ]);
    schemas([("Error", object([("error", error)]))])
}

/// How clients say who they are.
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
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::model::limits::PUBLISH_BYTES_MAX;

    const OPTIONS: ApiOptions = ApiOptions {
        publish_bytes_max: PUBLISH_BYTES_MAX,
        require_https: false,
        metrics_public: false,
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
    fn every_route_is_described_and_nothing_else() {
        let shown = |method: &Method, path: &str| format!("{method} {path}");
        let served: BTreeSet<String> = routes::served(&OPTIONS)
            .iter()
            .map(|served| shown(&served.method, &served.path))
            .collect();
        let areas = areas(&OPTIONS);
        let described = areas.iter().flat_map(|area| &area.operations);
        let mut counts = BTreeMap::new();
        for operation in described {
            *counts
                .entry(shown(&operation.method, &operation.path))
                .or_insert(0) += 1;
        }
        let twice: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
        assert!(twice.is_empty(), "described twice: {twice:?}");
        let described: BTreeSet<String> = counts.into_keys().collect();
        let silent: Vec<_> = served.difference(&described).collect();
        let made_up: Vec<_> = described.difference(&served).collect();
        assert!(silent.is_empty(), "nothing is told of {silent:#?}");
        assert!(made_up.is_empty(), "there is no {made_up:#?}");
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
            ..OPTIONS
        };
        let document = super::document(&open, "http://127.0.0.1:8080");
        assert_eq!(document["paths"]["/metrics"]["get"]["security"], json!([]));
    }
}
