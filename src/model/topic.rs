//! A topic: its definition and its schemas.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;

use crate::base::Timestamp;
use crate::base::named::{ids, named_enum};
use crate::model::access::AccessKeys;
use crate::model::as_written::AsWritten;
use crate::model::name::TopicName;
use crate::model::queue::{SendRules, ServiceBusTopic};
use crate::model::system_topic::SystemTopic;

ids! {
    /// The id of a topic.
    TopicId,
}

/// A topic, of whatever kind, or a queue, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    pub id: TopicId,
    /// The Service Bus namespace in which the name is unique.
    pub service_bus_namespace: ServiceBusNamespace,
    pub name: TopicName,
    pub kind: TopicKind,
    /// `None` for a built-in topic, to which only the appliance publishes.
    pub keys: Option<AccessKeys>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The Service Bus namespace that scopes the names of entities. It is not a namespace of Event Grid: a topic in an
/// Event Grid namespace has its name, like every other entity, in the default Service Bus namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceBusNamespace(Cow<'static, str>);

impl ServiceBusNamespace {
    /// The only Service Bus namespace.
    pub const DEFAULT: Self = Self(Cow::Borrowed("default"));

    /// Returns the namespace that the store names.
    pub fn stored(name: String) -> Self {
        Self(Cow::Owned(name))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The kind of a topic, with the settings that are particular to it. Code that depends on the kind matches on every
/// variant, so that the compiler reports each place that a new kind affects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicKind {
    /// A topic of events that belongs to no namespace.
    Custom(CustomTopic),
    /// A topic of a namespace of Event Grid, which decides who may publish.
    Namespace {
        /// How long deliveries may live at most.
        event_retention: Duration,
    },
    /// A Service Bus queue. Its other settings are in its own subscription, from which receivers pull.
    Queue(SendRules),
    /// A topic of Service Bus.
    ServiceBus(ServiceBusTopic),
    /// A topic that is built in, so that only the appliance publishes to it.
    System(SystemTopic),
}

named_enum! {
    /// The kinds of topics by their names.
    pub enum TopicKindName {
        Custom,
        Namespace,
        Queue,
        ServiceBus,
        System,
    }
}

impl TopicKind {
    pub fn name(&self) -> TopicKindName {
        match self {
            Self::Custom(_) => TopicKindName::Custom,
            Self::Namespace { .. } => TopicKindName::Namespace,
            Self::Queue(_) => TopicKindName::Queue,
            Self::ServiceBus(_) => TopicKindName::ServiceBus,
            Self::System(_) => TopicKindName::System,
        }
    }

    /// Returns the kind of entity that a topic of this kind is called in messages and in the management API.
    pub fn entity(&self) -> EntityKind {
        match self {
            Self::Custom(_) | Self::Namespace { .. } | Self::System(_) => EntityKind::Topic,
            Self::Queue(_) => EntityKind::Queue,
            Self::ServiceBus(_) => EntityKind::ServiceBusTopic,
        }
    }

    /// Returns the schema of the events that publishers send over HTTP.
    pub fn input_schema(&self) -> &InputSchema {
        match self {
            Self::Custom(topic) => &topic.input_schema,
            Self::Namespace { .. } | Self::Queue(_) | Self::ServiceBus(_) => {
                &InputSchema::CloudEventSchemaV1_0
            }
            Self::System(_) => &InputSchema::EventGridSchema,
        }
    }

    /// Returns how long a topic of a namespace keeps events; others leave that to their subscriptions.
    pub fn event_retention(&self) -> Option<Duration> {
        match self {
            Self::Namespace { event_retention } => Some(*event_retention),
            Self::Custom(_) | Self::Queue(_) | Self::ServiceBus(_) | Self::System(_) => None,
        }
    }

    /// Returns how long deliveries live at most, whatever their subscriptions say.
    pub fn time_to_live_max(&self) -> Option<Duration> {
        match self {
            Self::Namespace { event_retention } => Some(*event_retention),
            Self::ServiceBus(topic) => Some(topic.time_to_live),
            Self::Custom(_) | Self::Queue(_) | Self::System(_) => None,
        }
    }

    /// Says whether keys and SAS tokens are rejected, so that only bearer tokens publish.
    pub fn disables_local_auth(&self) -> bool {
        match self {
            Self::Custom(topic) => topic.disable_local_auth,
            Self::Namespace { .. } | Self::Queue(_) | Self::ServiceBus(_) | Self::System(_) => {
                false
            }
        }
    }

    /// Returns the rules for messages that are sent to it; `None` for topics of events.
    pub fn sending(&self) -> Option<&SendRules> {
        match self {
            Self::Queue(sending) => Some(sending),
            Self::ServiceBus(topic) => Some(&topic.sending),
            Self::Custom(_) | Self::Namespace { .. } | Self::System(_) => None,
        }
    }

    /// Returns the definition of a topic of Service Bus; `None` for others.
    pub fn service_bus(&self) -> Option<&ServiceBusTopic> {
        match self {
            Self::ServiceBus(topic) => Some(topic),
            Self::Custom(_) | Self::Namespace { .. } | Self::Queue(_) | Self::System(_) => None,
        }
    }

    /// Says whether messages can be sent and forwarded to it.
    pub fn takes_messages(&self) -> bool {
        self.sending().is_some()
    }

    /// Says whether only the appliance publishes to it.
    pub fn is_built_in(&self) -> bool {
        match self {
            Self::System(_) => true,
            Self::Custom(_) | Self::Namespace { .. } | Self::Queue(_) | Self::ServiceBus(_) => {
                false
            }
        }
    }

    /// Returns whether a topic of the kind `now` may be redefined as this kind: only with an unchanged kind and input
    /// schema.
    pub fn may_replace(&self, now: &Self) -> bool {
        self.name() == now.name() && self.input_schema() == now.input_schema()
    }
}

/// The kinds of entities whose names are unique among all of them. Each kind has its own path in the management API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntityKind {
    /// A topic of events: custom, of a namespace, or built in.
    Topic,
    Queue,
    ServiceBusTopic,
}

impl EntityKind {
    /// Returns the name of the kind as it is written in a sentence.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Topic => "topic",
            Self::Queue => "queue",
            Self::ServiceBusTopic => "Service Bus topic",
        }
    }

    /// Returns the path of the management API under which all entities of this kind are.
    pub fn path(self) -> &'static str {
        match self {
            Self::Topic => "/topics",
            Self::Queue => "/queues",
            Self::ServiceBusTopic => "/serviceBusTopics",
        }
    }
}

/// The definition of a custom topic (rule 3.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomTopic {
    /// Azure's region. Without effect here, but every client sends and expects one.
    pub location: String,
    pub tags: BTreeMap<String, String>,
    pub input_schema: InputSchema,
    /// Rejects keys and SAS tokens, so that only bearer tokens publish.
    pub disable_local_auth: bool,
    pub network_access: NetworkAccess,
    /// Properties that are stored and shown but have no effect here, as JSON by their names:
    /// `minimumTlsVersionAllowed`, `dataResidencyBoundary`, `eventTypeInfo`, `identity`, `sku`.
    pub inert: BTreeMap<String, String>,
    pub as_written: AsWritten,
}

/// The Azure region of a resource for which none was given.
pub const LOCATION: &str = "local";

/// Returns the definition that responses show in place of that of a built-in topic.
impl Default for CustomTopic {
    fn default() -> Self {
        Self {
            location: LOCATION.to_owned(),
            tags: BTreeMap::new(),
            input_schema: InputSchema::EventGridSchema,
            disable_local_auth: false,
            network_access: NetworkAccess::default(),
            inert: BTreeMap::new(),
            as_written: AsWritten::default(),
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
    /// Admits everybody.
    pub const EVERYBODY: Self = Self {
        disabled: false,
        allowed: Vec::new(),
    };

    /// Returns whether a publisher at `address` may publish.
    pub fn admits(&self, address: IpAddr) -> bool {
        let canonical = address.to_canonical();
        !self.disabled
            && (self.allowed.is_empty() || self.allowed.iter().any(|net| net.contains(&canonical)))
    }
}

/// The schema of the events that publishers send (rule 1.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputSchema {
    EventGridSchema,
    CloudEventSchemaV1_0,
    CustomEventSchema(Box<InputMapping>),
}

impl InputSchema {
    /// Returns the schema's name in Azure's API.
    pub fn name(&self) -> &'static str {
        match self {
            Self::EventGridSchema => "EventGridSchema",
            Self::CloudEventSchemaV1_0 => "CloudEventSchemaV1_0",
            Self::CustomEventSchema(_) => "CustomEventSchema",
        }
    }

    /// Returns whether publishers send objects of any shape, whose properties filters can name without `data.`.
    pub fn is_of_any_shape(&self) -> bool {
        match self {
            Self::EventGridSchema | Self::CloudEventSchemaV1_0 => false,
            Self::CustomEventSchema(_) => true,
        }
    }
}

named_enum! {
    /// The schema of the events that webhooks receive (rule 2.1).
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

    /// Returns whether events of the schema `input` can be delivered in this schema (rule 2.1).
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
