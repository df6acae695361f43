//! What is told of namespaces and their topics.

use axum::http::Method;
use serde_json::json;

use super::operation::{Area, Operation, on};
use super::schema::{
    Schema, flag, integer, map, named, object, resources, schemas, text, url, words,
};
use super::topics::{
    INERT, deletion, list_keys, network, network_request, regenerate_key, resource, tls_version,
};
use crate::model::limits::{
    EVENT_RETENTION_DAYS_MAX, NAMESPACES_MAX, THROUGHPUT_UNITS_MAX, TOPICS_PER_UNIT_MAX,
};

pub(super) fn area() -> Area {
    Area {
        name: "Namespaces",
        says: "Topics of CloudEvents that share two keys and network rules, and whose events can be pulled.",
        operations: operations(),
        schemas: schemas([
            ("Namespace", namespace()),
            (
                "NamespaceDefinition",
                definition(text().says("A region; any name will do.")),
            ),
            ("NamespaceUpdate", definition(text().optional())),
            ("NamespaceTopic", topic()),
            ("NamespaceTopicDefinition", topic_definition()),
        ]),
    }
}

fn operations() -> Vec<Operation> {
    let (path, topics) = ("/namespaces/{namespace}", "/namespaces/{namespace}/topics");
    let topic = "/namespaces/{namespace}/topics/{topic}";
    vec![
        on(Method::GET, "/namespaces", "listNamespaces", "List namespaces")
            .says("All namespaces.")
            .gives(200, "The namespaces.", resources("Namespace")),
        on(Method::GET, path, "getNamespace", "Get a namespace")
            .says("The namespace with the host that publishers find it at.")
            .gives(200, "The namespace.", named("Namespace")),
        on(Method::PUT, path, "putNamespace", "Create or replace a namespace")
            .says(format!("There may be {NAMESPACES_MAX}. Its keys and topics stay."))
            .takes(
                named("NamespaceDefinition"),
                json!({ "location": "local", "sku": { "name": "Standard", "capacity": 1 } }),
            )
            .gives(201, "The namespace, whether it was there before or not.", named("Namespace"))
            .refuses(409, "There are as many namespaces as there may be."),
        on(Method::PATCH, path, "patchNamespace", "Change a namespace")
            .says(
                "A property that is given replaces its whole old value, `null` restores its default, \
                 the others stay.",
            )
            .takes(named("NamespaceUpdate"), json!({ "tags": { "team": "shop" } }))
            .gives(200, "The namespace.", named("Namespace")),
        deletion(
            on(Method::DELETE, path, "deleteNamespace", "Delete a namespace"),
            "With its topics and their event subscriptions.",
        ),
        list_keys(path, "listNamespaceKeys"),
        regenerate_key(path, "regenerateNamespaceKey"),
        on(Method::GET, topics, "listNamespaceTopics", "List the topics of a namespace")
            .says("All topics of the namespace.")
            .gives(200, "The topics.", resources("NamespaceTopic")),
        on(Method::GET, topic, "getNamespaceTopic", "Get a topic of a namespace")
            .says("The topic with the URL to publish to.")
            .gives(200, "The topic.", named("NamespaceTopic")),
        on(Method::PUT, topic, "putNamespaceTopic", "Create or replace a topic of a namespace")
            .says(format!(
                "There may be {TOPICS_PER_UNIT_MAX} for each throughput unit of the namespace."
            ))
            .takes(
                named("NamespaceTopicDefinition"),
                json!({ "properties": { "eventRetentionInDays": 7 } }),
            )
            .gives(201, "The topic, whether it was there before or not.", named("NamespaceTopic"))
            .refuses(409, "There are as many topics as there may be."),
        on(Method::PATCH, topic, "patchNamespaceTopic", "Change a topic of a namespace")
            .says("A property that is given replaces its old value, the others stay.")
            .takes(
                named("NamespaceTopicDefinition"),
                json!({ "properties": { "eventRetentionInDays": 1 } }),
            )
            .gives(200, "The topic.", named("NamespaceTopic")),
        deletion(
            on(Method::DELETE, topic, "deleteNamespaceTopic", "Delete a topic of a namespace"),
            "With its event subscriptions.",
        ),
        list_keys(topic, "listNamespaceTopicKeys"),
        regenerate_key(topic, "regenerateNamespaceTopicKey"),
    ]
}

fn capacity() -> Schema {
    integer()
        .up_to(THROUGHPUT_UNITS_MAX)
        .says("Throughput units: they bound the number of topics, and no rates.")
}

fn namespace() -> Schema {
    let topics = object([("hostname", text())]);
    let properties = object([
        ("provisioningState", words(["Succeeded"])),
        ("topicsConfiguration", topics),
        ("minimumTlsVersionAllowed", tls_version().optional()),
        ("isZoneRedundant", flag().optional()),
    ]);
    resource("Microsoft.EventGrid/namespaces").with([
        ("location", text()),
        ("tags", map(text())),
        ("identity", object([]).open().optional()),
        (
            "sku",
            object([("name", words(["Standard"])), ("capacity", capacity())]),
        ),
        ("properties", properties.with(network())),
    ])
}

fn definition(location: Schema) -> Schema {
    let sku = object([
        ("name", words(["Standard"]).optional()),
        ("capacity", capacity().by_default(1).optional()),
    ]);
    let properties = object([
        (
            "minimumTlsVersionAllowed",
            tls_version().says(INERT).or_null().optional(),
        ),
        ("isZoneRedundant", flag().says(INERT).or_null().optional()),
    ]);
    object([
        ("location", location),
        ("tags", map(text()).or_null().optional()),
        (
            "identity",
            object([]).open().says(INERT).or_null().optional(),
        ),
        ("sku", sku.open().or_null().optional()),
        (
            "properties",
            properties
                .with(network_request())
                .open()
                .or_null()
                .optional(),
        ),
    ])
    .open()
}

fn retention() -> Schema {
    integer().up_to(EVENT_RETENTION_DAYS_MAX)
}

fn topic() -> Schema {
    let properties = object([
        ("publisherType", words(["Custom"])),
        ("inputSchema", words(["CloudEventSchemaV1_0"])),
        ("eventRetentionInDays", retention()),
        ("provisioningState", words(["Succeeded"])),
        ("metricResourceId", text()),
        ("endpoint", url().says("Where to publish.")),
    ]);
    resource("Microsoft.EventGrid/namespaces/topics").with([("properties", properties)])
}

fn topic_definition() -> Schema {
    let properties = object([
        ("publisherType", words(["Custom"]).or_null().optional()),
        (
            "inputSchema",
            words(["CloudEventSchemaV1_0"]).or_null().optional(),
        ),
        (
            "eventRetentionInDays",
            retention()
                .by_default(1)
                .says("For how long events are kept and tried.")
                .or_null()
                .optional(),
        ),
    ]);
    object([("properties", properties.open().or_null().optional())]).open()
}
