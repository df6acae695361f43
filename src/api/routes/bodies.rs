//! Bodies and parameters that are read and written byte by byte, for their schemas alone.

use schemars::JsonSchema;
use serde_json::{Map, Value};

use crate::api::publish::{API_VERSION, namespace};
use crate::api::service_bus::administration::TOP_MAX;
use crate::base::Timestamp;
use crate::model::limits::{
    NAMESPACE_PUBLISH_EVENTS_MAX, PUBLISH_EVENTS_MAX, PULL_WAIT, RECEIVE_EVENTS, RECEIVE_WAIT,
    RECEIVE_WAIT_MAX, RECEIVE_WAIT_SECONDS, RELEASE_DELAYS_S,
};

/// An event in the schema of Event Grid.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub(crate) struct EventGridEvent {
    /// The publisher's id of the event.
    id: String,
    subject: String,
    event_type: String,
    event_time: Timestamp,
    data: Option<Value>,
    data_version: Option<String>,
    #[schemars(extend("enum" = ["1"]))]
    metadata_version: Option<String>,
    /// The resource id of the topic; best left out.
    topic: Option<String>,
}

/// A CloudEvent 1.0. Other attributes are extensions: names of lower-case letters and digits, of up to
/// 20 characters in namespaces, with texts, numbers or booleans.
#[derive(JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
pub(crate) struct CloudEvent {
    /// The version of CloudEvents.
    #[schemars(extend("enum" = ["1.0"]))]
    specversion: String,
    /// Unique for its source.
    id: String,
    /// The origin of the event, as a URI.
    source: String,
    /// The kind of event, such as `Order.Created`.
    r#type: String,
    /// The subject of the event within its source.
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    /// When it happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<Timestamp>,
    /// The media type of `data`; JSON unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    datacontenttype: Option<String>,
    /// The URI of the schema of `data`.
    #[serde(skip_serializing_if = "Option::is_none")]
    dataschema: Option<String>,
    /// The payload of the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
    /// Binary data, in the place of `data`.
    #[serde(skip_serializing_if = "Option::is_none")]
    data_base64: Option<String>,
}

/// The events of a publish request. The `inputSchema` of the topic says in which form it takes them.
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
pub(crate) enum Published {
    EventGrid(#[schemars(length(max = PUBLISH_EVENTS_MAX))] Vec<EventGridEvent>),
    Custom(#[schemars(length(max = PUBLISH_EVENTS_MAX))] Vec<Map<String, Value>>),
    Cloud(CloudEvent),
}

#[derive(JsonSchema)]
#[schemars(untagged, inline)]
pub(crate) enum PublishedInNamespace {
    One(CloudEvent),
    Several(#[schemars(length(max = NAMESPACE_PUBLISH_EVENTS_MAX))] Vec<CloudEvent>),
}

/// An event in the hands of a receiver.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub(crate) struct ReceivedEvent {
    broker_properties: BrokerProperties,
    event: CloudEvent,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", inline)]
pub(crate) struct BrokerProperties {
    lock_token: String,
    /// Counted from 1.
    delivery_count: u32,
}

#[derive(JsonSchema)]
pub(crate) struct TopicVersion {
    /// The version of the data plane; may be left out.
    #[schemars(rename = "api-version", extend("enum" = [API_VERSION]))]
    version: Option<String>,
}

#[derive(JsonSchema)]
pub(crate) struct NamespaceVersion {
    /// The version of the data plane; may be left out.
    #[schemars(rename = "api-version", extend("enum" = namespace::API_VERSIONS))]
    version: Option<String>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub(crate) struct Receiving {
    /// How many at most.
    #[schemars(range(min = *RECEIVE_EVENTS.start(), max = *RECEIVE_EVENTS.end()))]
    #[schemars(extend("default" = *RECEIVE_EVENTS.start()))]
    max_events: Option<usize>,
    /// Seconds to wait for the first one.
    #[schemars(range(min = *RECEIVE_WAIT_SECONDS.start(), max = *RECEIVE_WAIT_SECONDS.end()))]
    #[schemars(extend("default" = PULL_WAIT.as_secs()))]
    max_wait_time: Option<u64>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub(crate) struct Releasing {
    /// For how long they are held back.
    #[schemars(extend("enum" = RELEASE_DELAYS_S, "default" = RELEASE_DELAYS_S[0]))]
    release_delay_in_seconds: Option<u64>,
}

#[derive(JsonSchema)]
pub(crate) struct QueueWait {
    /// Seconds to wait for something to take.
    #[schemars(range(max = RECEIVE_WAIT_MAX.as_secs()))]
    #[schemars(extend("default" = RECEIVE_WAIT.as_secs()))]
    timeout: Option<u64>,
}

#[derive(JsonSchema)]
pub(crate) struct HandshakeCode {
    /// The code of the handshake.
    code: String,
}

/// An answer without properties.
#[derive(JsonSchema)]
#[schemars(inline)]
pub(crate) struct Nothing {}

/// `<Error><Code>404</Code><Detail>…</Detail></Error>`
#[derive(JsonSchema)]
pub(crate) struct ServiceBusError(String);

/// An entry or a feed of Atom. A description of a queue, topic, subscription or rule is the content of its entry.
#[derive(JsonSchema)]
pub(crate) struct AtomDocument(String);

#[derive(JsonSchema)]
pub(crate) struct AtomApiVersion {
    /// The version of the API, such as `2021-05`.
    #[schemars(rename = "api-version", extend("pattern" = "^\\d{4}-\\d{2}$", "examples" = ["2021-05"]))]
    version: String,
}

#[derive(JsonSchema)]
pub(crate) struct AtomPage {
    #[schemars(flatten)]
    version: AtomApiVersion,
    /// How many entries to leave out.
    #[schemars(rename = "$skip")]
    skip: Option<usize>,
    /// How many entries at most.
    #[schemars(rename = "$top", extend("maximum" = TOP_MAX, "default" = TOP_MAX))]
    top: Option<usize>,
}
