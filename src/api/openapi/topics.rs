//! What is told of topics.

use axum::http::Method;
use serde_json::{Value, json};

use super::operation::{Area, Operation, on, query};
use super::schema::{
    Schema, flag, list, map, moment, named, object, resources, schemas, text, url, words,
};
use crate::model::limits::INBOUND_IP_RULES_MAX;

const INPUT_SCHEMAS: [&str; 3] = [
    "EventGridSchema",
    "CloudEventSchemaV1_0",
    "CustomEventSchema",
];

pub(super) fn area() -> Area {
    Area {
        name: "Topics",
        says: "What publishers send to. Two topics are built in: `dead-letter-storage` and \
            `everpost-system`; they can be read and subscribed to, and nothing else.",
        operations: operations(),
        schemas: schemas([
            ("Topic", topic()),
            ("TopicDefinition", definition()),
            ("TopicUpdate", update()),
            ("InputSchemaMapping", mapping()),
            ("InboundIpRule", ip_rule()),
            ("SystemData", system_data()),
            ("AccessKeys", object([("key1", text()), ("key2", text())])),
            (
                "KeyName",
                object([("keyName", words(["key1", "key2"]))]).open(),
            ),
        ]),
    }
}

fn operations() -> Vec<Operation> {
    let path = "/topics/{topic}";
    vec![
        on(Method::GET, "/topics", "listTopics", "List topics")
            .says("All topics that belong to no namespace.")
            .gives(200, "The topics.", resources("Topic")),
        on(Method::GET, path, "getTopic", "Get a topic")
            .says("The topic with the URL to publish to.")
            .gives(200, "The topic.", named("Topic")),
        on(Method::PUT, path, "putTopic", "Create or replace a topic")
            .says("Its keys stay, and so does what it takes: `inputSchema` cannot be changed.")
            .takes(named("TopicDefinition"), put_example())
            .gives(201, "The topic, whether it was there before or not.", named("Topic")),
        on(Method::PATCH, path, "patchTopic", "Change a topic")
            .says(
                "A property that is given replaces its whole old value, `null` restores its default, \
                 the others stay.",
            )
            .takes(named("TopicUpdate"), json!({ "tags": { "team": "shop" } }))
            .gives(200, "The topic.", named("Topic")),
        deletion(
            on(Method::DELETE, path, "deleteTopic", "Delete a topic"),
            "With its event subscriptions.",
        ),
        list_keys(path, "listTopicKeys"),
        regenerate_key(path, "regenerateTopicKey"),
    ]
}

/// Deleting something with what still waits to be delivered.
pub(super) fn deletion(operation: Operation, says: &str) -> Operation {
    let fates = words(["discard", "deadLetter"]).by_default("discard");
    let pending = query(
        "pending",
        fates,
        "What becomes of what is still to be delivered.",
    );
    operation
        .says(format!("{says} Nothing happens if it is not there."))
        .with([pending])
        .gives_nothing(204, "It is gone.")
}

pub(super) fn list_keys(of: &str, id: &str) -> Operation {
    on(
        Method::POST,
        format!("{of}/listKeys"),
        id,
        "Show the access keys",
    )
    .says("Two keys, so that one can be changed while the other is in use.")
    .gives(200, "The keys.", named("AccessKeys"))
}

pub(super) fn regenerate_key(of: &str, id: &str) -> Operation {
    on(
        Method::POST,
        format!("{of}/regenerateKey"),
        id,
        "Replace an access key",
    )
    .says("The old key, and signatures that were made with it, end at once.")
    .takes(named("KeyName"), json!({ "keyName": "key2" }))
    .gives(200, "Both keys.", named("AccessKeys"))
}

/// What every resource has in answers.
pub(super) fn resource(kind: &str) -> Schema {
    object([
        ("id", text()),
        ("name", text()),
        ("type", words([kind])),
        ("systemData", named("SystemData")),
    ])
}

fn topic() -> Schema {
    let properties = object([
        ("inputSchema", words(INPUT_SCHEMAS)),
        ("inputSchemaMapping", named("InputSchemaMapping").or_null()),
        ("disableLocalAuth", flag()),
        ("provisioningState", words(["Succeeded"])),
        ("metricResourceId", text()),
        (
            "endpoint",
            url()
                .says("Where to publish; built-in topics have none.")
                .optional(),
        ),
        ("builtIn", flag().optional()),
        ("minimumTlsVersionAllowed", tls_version().optional()),
        ("dataResidencyBoundary", residency().optional()),
        ("eventTypeInfo", object([]).open().optional()),
    ]);
    resource("Microsoft.EventGrid/topics").with([
        ("location", text()),
        ("tags", map(text())),
        ("identity", object([]).open().optional()),
        ("sku", object([]).open().optional()),
        ("properties", properties.with(network())),
    ])
}

/// `publicNetworkAccess` and `inboundIpRules`, of topics and namespaces.
pub(super) fn network() -> [(&'static str, Schema); 2] {
    let rules = list(named("InboundIpRule")).elements(&(0..=INBOUND_IP_RULES_MAX));
    [
        (
            "publicNetworkAccess",
            words(["Enabled", "Disabled"]).says("`Disabled` refuses every publisher."),
        ),
        (
            "inboundIpRules",
            rules.says("Where publishers may be; empty for anywhere."),
        ),
    ]
}

/// The same where they may be left out or restored.
pub(super) fn network_request() -> [(&'static str, Schema); 2] {
    network().map(|(name, schema)| (name, schema.or_null().optional()))
}

fn update() -> Schema {
    let properties = object([
        (
            "disableLocalAuth",
            flag()
                .says("Takes bearer tokens alone, no keys or signatures.")
                .or_null()
                .optional(),
        ),
        (
            "minimumTlsVersionAllowed",
            tls_version().says(INERT).or_null().optional(),
        ),
        (
            "dataResidencyBoundary",
            residency().says(INERT).or_null().optional(),
        ),
        (
            "eventTypeInfo",
            object([]).open().says(INERT).or_null().optional(),
        ),
    ]);
    object([
        ("tags", map(text()).or_null().optional()),
        (
            "identity",
            object([]).open().says(INERT).or_null().optional(),
        ),
        ("sku", object([]).open().says(INERT).or_null().optional()),
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

fn definition() -> Schema {
    let schema = words(INPUT_SCHEMAS).by_default("EventGridSchema");
    let mapping = named("InputSchemaMapping").or_null();
    let properties = object([
        (
            "inputSchema",
            schema.says("What publishers send; for good.").optional(),
        ),
        (
            "inputSchemaMapping",
            mapping.says("With `CustomEventSchema` alone.").optional(),
        ),
        ("disableLocalAuth", flag().by_default(false).optional()),
        (
            "minimumTlsVersionAllowed",
            tls_version().says(INERT).optional(),
        ),
        ("dataResidencyBoundary", residency().says(INERT).optional()),
        ("eventTypeInfo", object([]).open().says(INERT).optional()),
    ]);
    object([
        ("location", text().says("A region; any name will do.")),
        ("tags", map(text()).optional()),
        ("identity", object([]).open().says(INERT).optional()),
        ("sku", object([]).open().says(INERT).optional()),
        (
            "properties",
            properties.with(network_request()).open().optional(),
        ),
    ])
    .open()
}

/// What is said of properties that Azure has.
pub(super) const INERT: &str = "Kept and shown without effect.";

pub(super) fn tls_version() -> Schema {
    words(["1.0", "1.1", "1.2"])
}

fn residency() -> Schema {
    words(["WithinGeopair", "WithinRegion"])
}

fn ip_rule() -> Schema {
    object([
        (
            "ipMask",
            text()
                .such_as("10.1.0.0/16")
                .says("An address or a network."),
        ),
        ("action", words(["Allow"]).optional()),
    ])
}

fn system_data() -> Schema {
    object([("createdAt", moment()), ("lastModifiedAt", moment())])
}

fn mapping() -> Schema {
    let source = || object([("sourceField", text().or_null().optional())]);
    let field = || {
        source()
            .with([("defaultValue", text().or_null().optional())])
            .says("At least one of both.")
    };
    let fields = object([
        ("id", source().optional()),
        ("topic", source().optional()),
        ("eventTime", source().optional()),
        ("eventType", field()),
        ("subject", field()),
        ("dataVersion", field()),
    ]);
    object([
        ("inputSchemaMappingType", words(["Json"]).optional()),
        ("properties", fields),
    ])
    .says("Which properties of an event of one's own are those of the envelope.")
}

fn put_example() -> Value {
    json!({ "location": "local", "properties": { "inputSchema": "EventGridSchema" } })
}
