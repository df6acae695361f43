//! A topic: its definition and its schemas.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;

use crate::base::Timestamp;
use crate::base::named::{ids, named_enum};
use crate::model::access::AccessKeys;
use crate::model::entity_status::EntityStatus;
use crate::model::limits::{DUPLICATE_WINDOW, QUEUE_MEGABYTES};
use crate::model::name::TopicName;
use crate::model::system_topic::SystemTopic;

ids! {
    /// The id of a topic.
    TopicId,
}

/// A topic as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    pub id: TopicId,
    pub name: TopicName,
    pub definition: TopicDefinition,
    /// `None` for a built-in topic, to which only the appliance publishes.
    pub keys: Option<AccessKeys>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Topic {
    /// Whether it is built in, so that only the appliance publishes to it.
    pub fn is_built_in(&self) -> bool {
        SystemTopic::of(self.id).is_some()
    }
}

/// The nouns that share one space of names. Each has a part of the management API of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntityKind {
    /// A topic of events: custom, of a namespace, or built in.
    Topic,
    Queue,
    ServiceBusTopic,
}

impl EntityKind {
    /// Its name in a sentence.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Topic => "topic",
            Self::Queue => "queue",
            Self::ServiceBusTopic => "Service Bus topic",
        }
    }

    /// The part of the management API that has all of the kind.
    pub fn path(self) -> &'static str {
        match self {
            Self::Topic => "/topics",
            Self::Queue => "/queues",
            Self::ServiceBusTopic => "/serviceBusTopics",
        }
    }
}

/// The definition of a topic (rule 3.2). A namespace topic only has an event retention of its own; its
/// namespace decides who may publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicDefinition {
    /// Azure's region. Without effect here, but every client sends and expects one.
    pub location: String,
    pub tags: BTreeMap<String, String>,
    pub input_schema: InputSchema,
    /// Rejects keys and SAS tokens, so that only bearer tokens publish.
    pub disable_local_auth: bool,
    pub network_access: NetworkAccess,
    /// How long deliveries of a namespace topic may live at most; `None` for custom topics, where each
    /// subscription has its own limit.
    pub event_retention: Option<Duration>,
    /// How long messages of a Service Bus topic may live at most (rule S7); `None` for topics of events.
    pub message_time_to_live: Option<Duration>,
    /// Of a Service Bus topic: whether a message whose id it remembers is accepted and dropped.
    pub detects_duplicates: bool,
    /// For how long it does.
    pub duplicate_window: Duration,
    /// Of a Service Bus topic: mebibytes that the messages of its subscriptions may have together.
    pub megabytes_max: u32,
    /// Of a Service Bus topic: how long it may be idle before it is deleted; `None` for ever.
    pub delete_on_idle: Option<Duration>,
    /// Of a Service Bus topic: whether messages can be sent to it.
    pub status: EntityStatus,
    /// Properties that are stored and shown but have no effect here, as JSON by their names:
    /// `minimumTlsVersionAllowed`, `dataResidencyBoundary`, `eventTypeInfo`, `identity`, `sku`.
    pub inert: BTreeMap<String, String>,
}

impl TopicDefinition {
    /// The property in which one of a Service Bus topic differs from what it is now, and which cannot be changed: what
    /// was sent before would not be known.
    pub fn fixed_change(&self, now: &Self) -> Option<&'static str> {
        let is_same = self.detects_duplicates == now.detects_duplicates;
        (!is_same).then_some("requiresDuplicateDetection")
    }

    /// That of a new queue, or of a Service Bus topic, whose messages live so long at most.
    pub fn of_messages(time_to_live: Option<Duration>) -> Self {
        Self {
            location: "local".to_owned(),
            tags: BTreeMap::new(),
            input_schema: InputSchema::CloudEventSchemaV1_0,
            disable_local_auth: false,
            network_access: NetworkAccess::default(),
            event_retention: None,
            message_time_to_live: time_to_live,
            detects_duplicates: false,
            duplicate_window: DUPLICATE_WINDOW,
            megabytes_max: QUEUE_MEGABYTES,
            delete_on_idle: None,
            status: EntityStatus::Active,
            inert: BTreeMap::new(),
        }
    }
}

/// Who may publish, by network address (rule 3.2).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NetworkAccess {
    /// `publicNetworkAccess: Disabled`: nobody publishes, since there are no private endpoints here.
    pub disabled: bool,
    /// `inboundIpRules`; empty allows everybody.
    pub allowed: Vec<IpNet>,
}

impl NetworkAccess {
    /// Whether a publisher at `address` may publish.
    pub fn admits(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        !self.disabled
            && (self.allowed.is_empty() || self.allowed.iter().any(|net| net.contains(&address)))
    }
}

/// What publishers send (rule 1.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputSchema {
    EventGridSchema,
    CloudEventSchemaV1_0,
    CustomEventSchema(Box<InputMapping>),
}

impl InputSchema {
    /// Azure's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::EventGridSchema => "EventGridSchema",
            Self::CloudEventSchemaV1_0 => "CloudEventSchemaV1_0",
            Self::CustomEventSchema(_) => "CustomEventSchema",
        }
    }

    /// Whether publishers send objects of any shape, whose properties filters can name without `data.`.
    pub fn is_of_any_shape(&self) -> bool {
        match self {
            Self::EventGridSchema | Self::CloudEventSchemaV1_0 => false,
            Self::CustomEventSchema(_) => true,
        }
    }
}

named_enum! {
    /// What webhooks receive (rule 2.1).
    pub enum DeliverySchema {
        EventGridSchema,
        CloudEventSchemaV1_0,
        CustomInputSchema,
    }
}

impl DeliverySchema {
    /// The default of a subscription: the topic's own schema (rule A).
    pub fn default_for(input: &InputSchema) -> Self {
        match input {
            InputSchema::EventGridSchema => Self::EventGridSchema,
            InputSchema::CloudEventSchemaV1_0 => Self::CloudEventSchemaV1_0,
            InputSchema::CustomEventSchema(_) => Self::CustomInputSchema,
        }
    }

    /// Whether events of the schema `input` can be delivered like this (rule 2.1).
    pub fn can_express(self, input: &InputSchema) -> bool {
        match (input, self) {
            (InputSchema::EventGridSchema, Self::EventGridSchema | Self::CloudEventSchemaV1_0)
            | (InputSchema::CloudEventSchemaV1_0, Self::CloudEventSchemaV1_0)
            | (InputSchema::CustomEventSchema(_), _) => true,
            (InputSchema::EventGridSchema, Self::CustomInputSchema)
            | (
                InputSchema::CloudEventSchemaV1_0,
                Self::EventGridSchema | Self::CustomInputSchema,
            ) => false,
        }
    }
}

/// The properties of a custom event that hold the parts of the envelope (rule 2.4). Source fields may be
/// dotted paths.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct InputMapping {
    pub id: Option<String>,
    pub topic: Option<String>,
    pub event_time: Option<String>,
    pub event_type: MappedField,
    pub subject: MappedField,
    pub data_version: MappedField,
}

/// The source of a part of the envelope: a field of the event, else the default.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct MappedField {
    pub source_field: Option<String>,
    pub default_value: Option<String>,
}
