//! Publishing.

use serde_json::{Value, json};

use crate::api::ApiOptions;
use crate::api::publish::namespace::{self, API_VERSIONS};
use crate::api::publish::{self, API_VERSION};
use crate::api::routes::route::{Access, Area, Route, options, post};
use crate::api::routes::schema::{
    Schema, anything, either, header, list, moment, named, object, query, schemas, text, words,
};
use crate::model::limits::{
    NAMESPACE_EXTENSION_NAME_MAX, NAMESPACE_PUBLISH_EVENTS_MAX, PUBLISH_EVENTS_MAX,
    REQUEST_ID_WINDOW,
};

const EVENT: &str = "application/cloudevents+json";
const BATCH: &str = "application/cloudevents-batch+json";

pub(crate) fn area(options: &ApiOptions) -> Area {
    Area {
        name: "Publishing",
        description: "Applications send events here. A success says that the disk has the events and all of \
            their deliveries.",
        routes: routes(options.publish_bytes_max),
        schemas: schemas([
            ("EventGridEvent", event_grid_event()),
            ("CloudEvent", cloud_event()),
        ]),
    }
}

fn routes(bytes_max: usize) -> Vec<Route> {
    let doors = [
        (
            "/topics/{topic}/api/events",
            "publish",
            "The topic is named in the path.",
        ),
        (
            "/{topic}/api/events",
            "publishByShortPath",
            "The same as under `/topics/{topic}/api/events`.",
        ),
        (
            "/eventGrid/api/events",
            "publishByAzurePath",
            "The topic is told by the first label of the host (`orders.anything`), else by the key, if \
             it opens one topic alone.",
        ),
        (
            "/api/events",
            "publishByHost",
            "The topic is told by the first label of the host (`orders.anything`), else by the key, if \
             it opens one topic alone.",
        ),
    ];
    let of_topics = doors.into_iter().flat_map(|(path, id, which)| {
        let answers = options(path, publish::options)
            .doc(format!("{id}Options"), "Ask for the methods")
            .says("Answers preflight requests; nobody has to say who they are.")
            .answers_nothing(200, "The methods are in `Allow`.")
            .with_headers(&[("Allow", "The methods.")]);
        let summary = match path.contains("{topic}") {
            true => "Publish events to a topic",
            false => "Publish events to the topic of a host or key",
        };
        let publishes = match path.contains("{topic}") {
            true => post(path, Access::Key, publish::to_topic),
            false => post(path, Access::Key, publish::to_host),
        };
        let publishes = publishes.doc(id, summary);
        let publishes = publishes.rejects(404, "There is no such topic.");
        [to_topic(publishes, which, bytes_max), answers]
    });
    let of_namespaces = [
        (
            post("/topics/{topic}:publish", Access::Key, namespace::by_topic)
                .matched_as("/topics/{topic}"),
            "publishByTopic",
            "The namespace is told by the first label of the host (`shop.anything`), else by the key or \
             signature, if it opens one topic of that name alone, else by there being one topic of that \
             name alone.",
        ),
        (
            post(
                "/namespaces/{namespace}/topics/{topic}:publish",
                Access::Key,
                namespace::by_path,
            )
            .matched_as("/namespaces/{namespace}/topics/{topic}"),
            "publishInNamespace",
            "Namespace and topic are named in the path.",
        ),
    ];
    let of_namespaces =
        of_namespaces.map(|(route, id, which)| in_namespace(route, id, which, bytes_max));
    of_topics.chain(of_namespaces).collect()
}

fn to_topic(route: Route, which: &str, bytes_max: usize) -> Route {
    let many = |event: &str| list(named(event)).elements(&(0..=PUBLISH_EVENTS_MAX));
    let body = either([
        many("EventGridEvent"),
        list(object([]).open()),
        named("CloudEvent"),
    ]);
    publishing(route, &[API_VERSION])
        .says(format!(
            "{which} What a topic takes is its `inputSchema`: an array of Event Grid events, an array of \
             events of its own form, or CloudEvents: one as `{EVENT}` or `application/json`, a batch as \
             `{BATCH}`, or one in headers that start with `ce-` and the body. At most {bytes_max} bytes \
             and {PUBLISH_EVENTS_MAX} events; all are taken or none."
        ))
        .takes_schema(body, json!([event_grid_example()]))
        .takes_schema_as(EVENT, named("CloudEvent"), cloud_example())
        .takes_schema_as(BATCH, many("CloudEvent"), json!([cloud_example()]))
        .answers_nothing(200, "All events are stored.")
}

fn in_namespace(route: Route, id: &str, which: &str, bytes_max: usize) -> Route {
    let summary = "Publish events to a topic of a namespace";
    let many = || list(named("CloudEvent")).elements(&(0..=NAMESPACE_PUBLISH_EVENTS_MAX));
    let body = || either([named("CloudEvent"), many()]);
    publishing(route.doc(id, summary), &API_VERSIONS)
        .says(format!(
            "{which} Takes CloudEvents: one or an array, in any of the content types, or one in headers \
             that start with `ce-` and the body. At most {bytes_max} bytes and \
             {NAMESPACE_PUBLISH_EVENTS_MAX} events; all are taken or none."
        ))
        .takes_schema(body(), cloud_example())
        .takes_schema_as(EVENT, body(), cloud_example())
        .takes_schema_as(BATCH, body(), json!([cloud_example()]))
        .answers_schema(200, "All events are stored.", object([]))
}

fn publishing(route: Route, versions: &[&str]) -> Route {
    let minutes = REQUEST_ID_WINDOW.as_secs() / 60;
    route
        .with([
            api_version(versions),
            header(
                "x-ms-client-request-id",
                text(),
                &format!(
                    "A repeat of the same body with the same id within {minutes} minutes is answered as \
                     a success and not stored again."
                ),
            ),
        ])
        .rejects(415, "The body is compressed, or of a content type that the topic does not take.")
        .rejects(429, "More is being published than can be taken in right now.")
}

pub(crate) fn api_version(versions: &[&str]) -> Value {
    let says = "The version of the data plane; may be left out.";
    query("api-version", words(versions.iter().copied()), says)
}

fn event_grid_event() -> Schema {
    object([
        ("id", text().says("The publisher's id of the event.")),
        ("subject", text()),
        ("eventType", text()),
        ("eventTime", moment()),
        ("data", anything().optional()),
        ("dataVersion", text().optional()),
        ("metadataVersion", words(["1"]).optional()),
        (
            "topic",
            text()
                .says("The resource id of the topic; best left out.")
                .optional(),
        ),
    ])
    .says("An event in the schema of Event Grid.")
}

fn cloud_event() -> Schema {
    object([
        ("specversion", words(["1.0"])),
        ("id", text()),
        ("source", text()),
        ("type", text()),
        ("subject", text().or_null().optional()),
        ("time", moment().or_null().optional()),
        ("datacontenttype", text().or_null().optional()),
        ("dataschema", text().or_null().optional()),
        ("data", anything().optional()),
        ("data_base64", text().says("Binary data, in the place of `data`.").optional()),
    ])
    .open()
    .says(format!(
        "A CloudEvent 1.0. Other attributes are extensions: names of lower-case letters and digits, of up \
         to {NAMESPACE_EXTENSION_NAME_MAX} characters in namespaces, with texts, numbers or booleans."
    ))
}

/// An event as topics of the schema of Event Grid take it.
pub(crate) fn event_grid_example() -> Value {
    json!({
        "id": "a-1",
        "subject": "/orders/7",
        "eventType": "Order.Paid",
        "eventTime": "2026-11-21T06:40:53Z",
        "dataVersion": "1.0",
        "data": { "total": 12.5 },
    })
}

fn cloud_example() -> Value {
    json!({
        "specversion": "1.0",
        "id": "a-1",
        "source": "/shop",
        "type": "Order.Paid",
        "subject": "/orders/7",
        "data": { "total": 12.5 },
    })
}
