//! Publishing.

use axum::http::Method;
use serde_json::{Value, json};

use crate::api::ApiOptions;
use crate::api::publish;
use crate::api::routes::bodies::{
    CloudEvent, NamespaceVersion, Nothing, Published, PublishedInNamespace, TopicVersion,
};
use crate::api::routes::route::{Area, Route, RouteAccess, before_others, options};
use crate::model::limits::{NAMESPACE_PUBLISH_EVENTS_MAX, PUBLISH_EVENTS_MAX, REQUEST_ID_WINDOW};

/// The content type of one CloudEvent.
pub(crate) const CLOUD_EVENT: &str = "application/cloudevents+json";
const BATCH: &str = "application/cloudevents-batch+json";

pub(crate) fn area(options: &ApiOptions) -> Area {
    Area {
        name: "Publishing",
        description: "Applications send events here. A success says that the disk has the events and all of \
            their deliveries.",
        routes: routes(options.publish_bytes_max),
    }
}

fn routes(bytes_max: usize) -> Vec<Route> {
    let paths = [
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
    let of_topics = paths.into_iter().flat_map(|(path, id, which)| {
        let answers = options(path, publish::options)
            .doc(format!("{id}Options"), "List the allowed methods")
            .says("Answers preflight requests; needs no credentials.")
            .answers_nothing(200, "The methods are in `Allow`.")
            .with_headers(&[("Allow", "The methods.")]);
        let summary = if path.contains("{topic}") {
            "Publish events to a topic"
        } else {
            "Publish events to the topic of a host or key"
        };
        let publishes = before_others(Method::POST, path, RouteAccess::Key)
            .doc(id, summary)
            .rejects(404, "There is no such topic.");
        [to_topic(publishes, which, bytes_max), answers]
    });
    let of_namespaces = [
        (
            "/topics/{topic}:publish",
            "publishByTopic",
            "The namespace is told by the first label of the host (`shop.anything`), else by the key or \
             signature, if it opens one topic of that name alone, else by there being one topic of that \
             name alone.",
        ),
        (
            "/namespaces/{namespace}/topics/{topic}:publish",
            "publishInNamespace",
            "Namespace and topic are named in the path.",
        ),
    ];
    let of_namespaces =
        of_namespaces.map(|(path, id, which)| in_namespace(path, id, which, bytes_max));
    of_topics.chain(of_namespaces).collect()
}

fn to_topic(route: Route, which: &str, bytes_max: usize) -> Route {
    publishing(route.query::<TopicVersion>())
        .says(format!(
            "{which} What a topic takes is its `inputSchema`: an array of Event Grid events, an array of \
             events of its own form, or CloudEvents: one as `{CLOUD_EVENT}` or `application/json`, a batch as \
             `{BATCH}`, or one in headers that start with `ce-` and the body. At most {bytes_max} bytes \
             and {PUBLISH_EVENTS_MAX} events; all are taken or none."
        ))
        .takes::<Published>(json!([event_grid_example()]))
        .takes_as::<CloudEvent>(CLOUD_EVENT, cloud_example())
        .takes_as::<Vec<CloudEvent>>(BATCH, json!([cloud_example()]))
        .answers_nothing(200, "All events are stored.")
}

fn in_namespace(path: &str, id: &str, which: &str, bytes_max: usize) -> Route {
    let route = before_others(Method::POST, path, RouteAccess::Key);
    let summary = "Publish events to a topic of a namespace";
    publishing(route.doc(id, summary).query::<NamespaceVersion>())
        .says(format!(
            "{which} Takes CloudEvents: one or an array, in any of the content types, or one in headers \
             that start with `ce-` and the body. At most {bytes_max} bytes and \
             {NAMESPACE_PUBLISH_EVENTS_MAX} events; all are taken or none."
        ))
        .takes::<PublishedInNamespace>(cloud_example())
        .takes_as::<PublishedInNamespace>(CLOUD_EVENT, cloud_example())
        .takes_as::<PublishedInNamespace>(BATCH, json!([cloud_example()]))
        .answers::<Nothing>(200, "All events are stored.")
}

fn publishing(route: Route) -> Route {
    let minutes = REQUEST_ID_WINDOW.as_secs() / 60;
    let repeats = format!(
        "A repeat of the same body with the same id within {minutes} minutes is answered as a success and not \
         stored again."
    );
    route
        .header("x-ms-client-request-id", "string", repeats)
        .rejects(
            415,
            "The body is compressed, or of a content type that the topic does not take.",
        )
        .rejects(
            503,
            "More is being published than can be taken in right now. `Retry-After` says when to try again.",
        )
}

/// An event as topics of the schema of Event Grid take it.
fn event_grid_example() -> Value {
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
