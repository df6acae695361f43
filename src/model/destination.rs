//! Destinations of a subscription's events, and their settings.

use std::mem::discriminant;
use std::time::Duration;

use url::Url;

use crate::base::named::named_enum;
use crate::model::access::Secret;
use crate::model::batch::BatchPolicy;
use crate::model::credentials::Credentials;
use crate::model::name::{InvalidName, TopicName};
use crate::model::pace::ReceiverLimits;
use crate::model::queue::{EntityUpkeep, ReceiveRules};
use crate::model::signing::Signing;
use crate::model::topic::EntityKind;

named_enum! {
    /// How an event subscription delivers its events.
    pub enum DeliveryMode {
        /// Receivers pull them.
        Queue,
        /// They are pushed to a destination.
        Push,
    }
}

/// The destination of an event subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each subscription, and nearly all of them are webhooks"
)]
pub enum Destination {
    WebHook(WebHook),
    /// A queue of this appliance, in which each event becomes a message.
    ServiceBusQueue(ServiceBusEntity),
    /// A Service Bus topic of this appliance, in which each event becomes a message.
    ServiceBusTopic(ServiceBusEntity),
    /// Pull delivery: receivers fetch the events. Only for namespace topics, and for queues.
    Queue(PullQueue),
}

/// The limits of a destination that nothing is sent to.
static NO_PACE: ReceiverLimits = ReceiverLimits {
    response_deadline: None,
    in_flight_max: None,
    rate: None,
};

/// The properties that every destination has. Outside of this block, only `wire`, which writes destinations, and
/// `outbound`, which sends to them, name the variants, so that the compiler lists here what a new variant affects.
impl Destination {
    /// Push or pull.
    pub fn delivery_mode(&self) -> DeliveryMode {
        match self {
            Self::WebHook(_) | Self::ServiceBusQueue(_) | Self::ServiceBusTopic(_) => {
                DeliveryMode::Push
            }
            Self::Queue(_) => DeliveryMode::Queue,
        }
    }

    /// Returns the receiver of its requests; `None` where no HTTP request is sent.
    pub fn webhook(&self) -> Option<&WebHook> {
        match self {
            Self::WebHook(webhook) => Some(webhook),
            Self::ServiceBusQueue(_) | Self::ServiceBusTopic(_) | Self::Queue(_) => None,
        }
    }

    /// Returns the receiver of its requests, to change it.
    pub fn webhook_mut(&mut self) -> Option<&mut WebHook> {
        match self {
            Self::WebHook(webhook) => Some(webhook),
            Self::ServiceBusQueue(_) | Self::ServiceBusTopic(_) | Self::Queue(_) => None,
        }
    }

    /// Returns the queue or the topic of this appliance that its events go to; `None` where they leave it.
    pub fn entity(&self) -> Option<DestinationEntity<'_>> {
        let (kind, to) = match self {
            Self::ServiceBusQueue(to) => (EntityKind::Queue, to),
            Self::ServiceBusTopic(to) => (EntityKind::ServiceBusTopic, to),
            Self::WebHook(_) | Self::Queue(_) => return None,
        };
        Some(DestinationEntity { kind, to })
    }

    /// Returns how its events are pulled; `None` where they are pushed.
    pub fn pull_queue(&self) -> Option<&PullQueue> {
        match self {
            Self::WebHook(_) | Self::ServiceBusQueue(_) | Self::ServiceBusTopic(_) => None,
            Self::Queue(queue) => Some(queue),
        }
    }

    /// Returns the custom headers; the events of one request have the same values.
    pub fn attribute_mappings(&self) -> &[DeliveryAttributeMapping] {
        match self {
            Self::WebHook(webhook) => &webhook.attribute_mappings,
            Self::ServiceBusQueue(to) | Self::ServiceBusTopic(to) => &to.attribute_mappings,
            Self::Queue(_) => &[],
        }
    }

    /// Returns the URL that its requests are sent to.
    pub fn endpoint_url(&self) -> Option<&EndpointUrl> {
        self.webhook().map(|webhook| &webhook.endpoint_url)
    }

    /// Returns the secrets that sign its requests.
    pub fn signing(&self) -> Option<&Signing> {
        self.webhook().map(|webhook| &webhook.credentials.signing)
    }

    /// Returns how many events it accepts at once.
    pub fn batch(&self) -> BatchPolicy {
        self.webhook()
            .map_or_else(BatchPolicy::default, |webhook| webhook.batch)
    }

    /// Returns the limits of the receiver.
    pub fn pace(&self) -> &ReceiverLimits {
        self.webhook().map_or(&NO_PACE, |webhook| &webhook.pace)
    }

    /// Says whether it needs no validation: where there is nobody to ask, it needs none.
    pub fn skips_validation(&self) -> bool {
        self.webhook().is_none_or(|webhook| webhook.skip_validation)
    }

    /// Returns whether the validation of one destination holds for the other.
    pub fn is_same_receiver(&self, other: &Self) -> bool {
        // Nobody is asked about those without a URL.
        let url = |of: &Self| of.endpoint_url().map(|endpoint| endpoint.url.clone());
        discriminant(self) == discriminant(other) && url(self) == url(other)
    }

    /// Returns where events go, without secrets, or what becomes of them.
    pub fn brief(&self) -> &str {
        match self {
            Self::WebHook(webhook) => webhook.endpoint_url.authority(),
            Self::ServiceBusQueue(to) | Self::ServiceBusTopic(to) => to.entity.name().as_str(),
            Self::Queue(_) => "pulled by receivers",
        }
    }
}

impl From<WebHook> for Destination {
    fn from(webhook: WebHook) -> Self {
        Self::WebHook(webhook)
    }
}

impl From<PullQueue> for Destination {
    fn from(queue: PullQueue) -> Self {
        Self::Queue(queue)
    }
}

/// A queue or a topic of this appliance that events go to.
#[derive(Clone, Copy, Debug)]
pub struct DestinationEntity<'a> {
    pub kind: EntityKind,
    pub to: &'a ServiceBusEntity,
}

/// A queue or a topic of Service Bus as a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceBusEntity {
    pub entity: EntityId,
    /// Application properties of its messages, or properties of Service Bus itself.
    pub attribute_mappings: Vec<DeliveryAttributeMapping>,
}

/// A reference to a queue or a topic of Service Bus in this appliance: its resource id in Azure or in the answers of
/// this appliance, its URL, or its name alone. It is kept as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityId {
    text: String,
    name: TopicName,
}

/// The parts of a resource id that can stand before the name, in any letter case.
const ENTITY_COLLECTIONS: [&str; 2] = ["queues", "topics"];

impl EntityId {
    /// Reads an id, a URL or a name.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        if let Some((_scheme, rest)) = text.split_once("://") {
            let path = rest.split_once('/').map_or("", |(_host, path)| path);
            let name = TopicName::of_service_bus_resource(path.trim_matches('/'))?;
            return Ok(Self {
                text: text.to_owned(),
                name,
            });
        }
        let is_collection = |part: &str| {
            let mut known = ENTITY_COLLECTIONS.into_iter();
            known.any(|known| part.eq_ignore_ascii_case(known))
        };
        let name = match text.strip_prefix('/') {
            None => text,
            // Names have slashes, too, so it is what follows the first such word.
            Some(path) => {
                let mut rest = path;
                loop {
                    match rest.split_once('/') {
                        Some((part, name)) if is_collection(part) => break name,
                        Some((_, after)) => rest = after,
                        None => break text,
                    }
                }
            }
        };
        let name = TopicName::of_service_bus_resource(name)?;
        Ok(Self {
            text: text.to_owned(),
            name,
        })
    }

    /// Returns the reference as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The name of the queue or the topic.
    pub fn name(&self) -> &TopicName {
        &self.name
    }
}

/// Settings of pull delivery (rule N5, S1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullQueue {
    /// How long a receiver locks an event unless it renews the lock.
    pub lock_duration: Duration,
    pub receiving: ReceiveRules,
    /// Is true if messages of a subscription with rules become dead letters when a rule cannot be evaluated for them.
    /// Otherwise such a rule does not match.
    pub keeps_unevaluated: bool,
    pub upkeep: EntityUpkeep,
}

impl PullQueue {
    /// Returns the settings of an event subscription whose events are pulled.
    pub fn of_events(lock_duration: Duration) -> Self {
        Self {
            lock_duration,
            receiving: ReceiveRules {
                keeps_expired: true,
                ..ReceiveRules::default()
            },
            keeps_unevaluated: false,
            upkeep: EntityUpkeep::default(),
        }
    }
}

/// An HTTP receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebHook {
    pub endpoint_url: EndpointUrl,
    pub batch: BatchPolicy,
    pub pace: ReceiverLimits,
    pub attribute_mappings: Vec<DeliveryAttributeMapping>,
    /// Extension: authentication.
    pub credentials: Credentials,
    /// Extension: skips the handshake, for receivers of the operator's own.
    pub skip_validation: bool,
}

/// The URL of a webhook. Its query may hold a secret, so only [`EndpointUrl::base`] is shown.
#[derive(Clone, PartialEq, Eq)]
pub struct EndpointUrl {
    /// The URL that is called.
    url: Url,
    text: Box<str>,
}

/// Why a text is not the URL of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEndpointUrl {
    #[error("it is not an absolute URL")]
    NotAbsolute,
    #[error("only http and https are supported")]
    Scheme,
    #[error("it has no host")]
    NoHost,
    #[error("user name and password do not belong into the URL")]
    UserInfo,
    #[error("a fragment is never sent, so it must be left out")]
    Fragment,
    #[error("port 0 cannot be called")]
    Port,
}

impl EndpointUrl {
    /// Parses an absolute http or https URL. Its normalised form is called, and it is shown as it was written.
    pub fn parse(text: &str) -> Result<Self, InvalidEndpointUrl> {
        let url = Url::parse(text).map_err(|_| InvalidEndpointUrl::NotAbsolute)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(InvalidEndpointUrl::Scheme);
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(InvalidEndpointUrl::NoHost);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(InvalidEndpointUrl::UserInfo);
        }
        if url.fragment().is_some() {
            return Err(InvalidEndpointUrl::Fragment);
        }
        if url.port() == Some(0) {
            return Err(InvalidEndpointUrl::Port);
        }
        // What is no part of a URL is dropped from it, and there is no reason to show it.
        let is_plain = !text.contains(|c: char| c.is_whitespace() || c.is_control());
        let shown = if is_plain { text } else { url.as_str() };
        Ok(Self {
            text: shown.into(),
            url,
        })
    }

    /// The whole URL, query included, for requests.
    pub fn reveal(&self) -> &Url {
        &self.url
    }

    /// The whole URL as it was written, query included, for the store and for `getFullUrl`.
    pub fn reveal_text(&self) -> &str {
        &self.text
    }

    /// The URL without its query (`endpointBaseUrl`, rule 3.3).
    pub fn base(&self) -> &str {
        self.text
            .split_once('?')
            .map_or(&*self.text, |(base, _)| base)
    }

    /// The URL without its query, in its normalised form.
    pub fn called_base(&self) -> Url {
        let mut base = self.url.clone();
        base.set_query(None);
        base
    }

    /// Says whether it can be called: hosts of URLs may have characters that those of URIs have not.
    pub fn is_uri(&self) -> bool {
        http::Uri::try_from(self.url.as_str()).is_ok()
    }

    /// Says whether it is the other one without its query.
    pub fn is_base_of(&self, other: &Self) -> bool {
        self.url == other.called_base()
    }

    /// The whole URL if it has no query, and so no secret.
    pub fn without_query(&self) -> Option<&str> {
        self.url.query().is_none().then_some(&*self.text)
    }

    /// Host and port, for lists.
    pub fn authority(&self) -> &str {
        self.url.authority()
    }

    /// Returns whether the receiver is called over TLS.
    pub fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }
}

impl std::fmt::Debug for EndpointUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.base())
    }
}

/// A custom header on every delivery (rule 6.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryAttributeMapping {
    pub name: String,
    pub value: AttributeValue,
}

/// The value of a custom header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// Constant; `is_secret` hides it in responses.
    Static { value: Secret, is_secret: bool },
    /// A path into the event. The header is left out if there is no string, number or boolean at that path.
    Dynamic { source_field: String },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_are_named_by_ids_of_azure_and_by_their_own() {
        let scope = "/subscriptions/s/resourceGroups/topics-of-g/providers";
        for (text, expected) in [
            ("jobs", "jobs"),
            ("billing.v2/jobs", "billing.v2/jobs"),
            (
                &format!("{scope}/Microsoft.ServiceBus/namespaces/n/queues/jobs"),
                "jobs",
            ),
            (
                &format!("{scope}/microsoft.servicebus/namespaces/n/Topics/a/topics"),
                "a/topics",
            ),
            (&format!("{scope}/Microsoft.EventGrid/topics/jobs"), "jobs"),
            ("sb://localhost:8080/jobs", "jobs"),
            ("https://h/jobs/", "jobs"),
            ("sb://h/a.b~c", "a.b/c"),
            ("a.b~c", "a.b/c"),
        ] {
            let id = EntityId::parse(text).expect(text);
            assert_eq!((id.name().as_str(), id.as_str()), (expected, text));
        }
        for text in [
            "",
            "/",
            "/jobs",
            "a b",
            "sb://jobs",
            "sb://h/a//b",
            &format!("{scope}/queues/"),
            &format!("{scope}/queues"),
        ] {
            assert!(EntityId::parse(text).is_err(), "{text}");
        }
    }
}
