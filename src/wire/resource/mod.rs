//! The management documents of Azure Resource Manager for namespaces, topics and event subscriptions, to
//! the model and back (rule 3, rule N1).
//!
//! Each resource has one set of types ([`document`]). Their schema is what requests are checked against
//! ([`reader`]) and what the OpenAPI document publishes. The store keeps the same documents with their
//! secrets ([`secret`]), and reads them without the checks, so that a definition once accepted stays
//! readable.

mod access_rule;
mod alert;
mod as_written;
pub mod configuration;
mod credentials;
mod dead_letter_destination;
mod destination;
mod document;
mod envelope;
mod filter;
mod inspector;
mod mirror;
mod namespace;
mod namespace_subscription;
mod namespace_topic;
mod network;
mod queue;
mod reader;
mod replay;
mod rules;
mod secret;
mod service_bus;
mod signing;
mod standing;
mod subscription;
#[cfg(test)]
mod tests;
mod topic;
mod values;

use std::fmt;

/// The types of requests and answers, for the schemas of the API's document.
pub(crate) mod bodies {
    pub(crate) use super::envelope::ResourceList;
    pub(crate) use super::namespace::{NamespaceRequest, ShownNamespace};
    pub(crate) use super::namespace_subscription::NamespaceEventSubscription;
    pub(crate) use super::namespace_topic::NamespaceTopic;
    pub(crate) use super::queue::{QueueRequest, ShownQueue};
    pub(crate) use super::replay::{Replay, ReplayTargetDocument};
    pub(crate) use super::service_bus::{
        RuleRequest, ServiceBusSubscriptionRequest, ServiceBusTopicRequest, ShownRule,
        ShownServiceBusSubscription, ShownServiceBusTopic,
    };
    pub(crate) use super::signing::{
        RegenerateKey, RotatedSigningSecret, ShownKeys, SigningSecrets,
    };
    pub(crate) use super::subscription::{
        DeliveryAttributes, FullUrl, ShownNamespaceSubscription, ShownSubscription,
        SubscriptionProperties,
    };
    pub(crate) use super::topic::{ShownNamespaceTopic, ShownTopic, TopicRequest};
    pub(crate) type EventSubscriptionRequest = super::envelope::Envelope<SubscriptionProperties>;
    pub(crate) type NamespaceEventSubscriptionRequest =
        super::envelope::Envelope<NamespaceEventSubscription>;
}

pub use access_rule::{ShownAccessRule, parse_access_rule, render_access_rule};
pub use alert::{
    ShownAlert, ShownAlertChannel, ShownAlertMessage, ShownAlertRule, alert_channel_from_text,
    alert_channel_to_text, alert_rule_from_text, alert_rule_to_text, parse_alert_channel,
    parse_alert_rule, render_alert_definition,
};
pub use destination::INVALID_URL;
pub use document::read_body as read;
pub(super) use filter::render_clause;
pub use filter::{parse_filter, render_filter};
pub use inspector::{
    InspectedRow, ShownInspector, ShownRequest, inspector_from_text, inspector_to_text,
    parse_inspector, render_inspector_definition,
};
pub use namespace::{
    namespace_from_text, namespace_to_text, parse_namespace, patch_namespace, render_namespace,
    whole_namespace,
};
pub use namespace_topic::parse_namespace_topic;
pub use queue::{in_tier, parse_queue, queue_document, render_queue};
pub use reader::Fault;
pub(crate) use reader::{places, schema_of};
pub use replay::{
    ReplayContext, ReplayFates, ReplayRequest, ShownReplay, parse_replay, parse_target,
    render_replay,
};
pub use service_bus::{
    filter_text, parse_rule, parse_service_bus_subscription, parse_service_bus_topic, render_rule,
    render_service_bus_subscription, render_service_bus_topic, rule_from_text, rule_to_text,
    service_bus_subscription_document, service_bus_topic_document,
};
pub use signing::{
    Rotation, parse_key_name, parse_rotation, render_keys, render_rotated, render_signing_secrets,
};
pub use standing::standing_reason;
pub use subscription::{
    Observed, SubscriptionContext, parse_subscription, patch_subscription,
    render_delivery_attributes, render_full_url, render_subscription, subscription_from_text,
    subscription_schema, subscription_to_text, whole_subscription,
};
pub use topic::{
    event_types, parse_topic, patch_topic, render_topic, topic_from_text, topic_to_text,
    whole_entity,
};

/// All faults of a document: the answer is 400.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidResource {
    /// The faults, of which there is at least one.
    pub faults: Vec<Fault>,
}

impl InvalidResource {
    /// Makes the error of one fault, in the property at `path`.
    pub fn of(path: &str, problem: impl Into<String>) -> Self {
        let (path, problem) = (path.to_owned(), problem.into());
        Self {
            faults: vec![Fault { path, problem }],
        }
    }

    /// Extends the paths of the faults, where the document is the property `name` of another.
    pub fn inside(mut self, name: &str) -> Self {
        for fault in &mut self.faults {
            fault.path = reader::join(name, &fault.path);
        }
        self
    }

    /// Returns the fault to begin with.
    pub fn first(&self) -> &Fault {
        &self.faults[0]
    }
}

impl Fault {
    /// Azure's error code.
    pub fn code(&self) -> &'static str {
        match self.path.as_str() {
            "location" => "LocationRequired",
            _ => "InvalidRequest",
        }
    }
}

/// Faults that a message names; the others it counts.
const FAULTS_NAMED: usize = 5;

impl fmt::Display for InvalidResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.faults.iter().take(FAULTS_NAMED).enumerate() {
            let space = if at == 0 { "" } else { " " };
            write!(f, "{space}{fault}")?;
        }
        match self.faults.len().saturating_sub(FAULTS_NAMED) {
            0 => Ok(()),
            more => write!(f, " There are {more} more faults."),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => write!(f, "{}.", self.problem),
            path => write!(f, "{path}: {}.", self.problem),
        }
    }
}

impl std::error::Error for InvalidResource {}
