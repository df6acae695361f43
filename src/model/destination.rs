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
    /// Pull delivery: receivers fetch the events. Only for namespace topics and for queues.
    Queue(PullSettings),
}

/// The limits of a destination without a webhook.
static NO_PACE: ReceiverLimits = ReceiverLimits {
    response_deadline: None,
    in_flight_max: None,
    rate: None,
};

/// The properties that every destination has. Outside of this block, only `wire`, which writes destinations, and
/// `outbound`, which sends to them, name the variants, so that the compiler lists here what a new variant affects.
impl Destination {
    /// Returns the delivery mode of the destination.
    pub fn delivery_mode(&self) -> DeliveryMode {
        match self {
            Self::WebHook(_) | Self::ServiceBusQueue(_) | Self::ServiceBusTopic(_) => {
                DeliveryMode::Push
            }
            Self::Queue(_) => DeliveryMode::Queue,
        }
    }

    /// Returns the webhook of the destination; `None` if the destination is not a webhook.
    pub fn webhook(&self) -> Option<&WebHook> {
        match self {
            Self::WebHook(webhook) => Some(webhook),
            Self::ServiceBusQueue(_) | Self::ServiceBusTopic(_) | Self::Queue(_) => None,
        }
    }

    /// Returns a mutable reference to the webhook of the destination, if it is one.
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

    /// Returns the settings of pull delivery; `None` for push delivery.
    pub fn pull_queue(&self) -> Option<&PullSettings> {
        match self {
            Self::WebHook(_) | Self::ServiceBusQueue(_) | Self::ServiceBusTopic(_) => None,
            Self::Queue(queue) => Some(queue),
        }
    }

    /// Returns the custom headers. All events of one request have the same values for them.
    pub fn attribute_mappings(&self) -> &[DeliveryAttributeMapping] {
        match self {
            Self::WebHook(webhook) => &webhook.attribute_mappings,
            Self::ServiceBusQueue(to) | Self::ServiceBusTopic(to) => &to.attribute_mappings,
            Self::Queue(_) => &[],
        }
    }

    /// Returns the URL of the webhook, if the destination is one.
    pub fn endpoint_url(&self) -> Option<&EndpointUrl> {
        self.webhook().map(|webhook| &webhook.endpoint_url)
    }

    /// Returns the signing settings of the webhook, if the destination is one.
    pub fn signing(&self) -> Option<&Signing> {
        self.webhook().map(|webhook| &webhook.credentials.signing)
    }

    /// Returns the batch settings of the destination.
    pub fn batch(&self) -> BatchPolicy {
        self.webhook()
            .map_or_else(BatchPolicy::default, |webhook| webhook.batch)
    }

    /// Returns the limits of the receiver.
    pub fn pace(&self) -> &ReceiverLimits {
        self.webhook().map_or(&NO_PACE, |webhook| &webhook.pace)
    }

    /// Reports whether the destination needs no validation. Only a webhook can need validation.
    pub fn skips_validation(&self) -> bool {
        self.webhook().is_none_or(|webhook| webhook.skip_validation)
    }

    /// Returns whether the validation of one destination holds for the other.
    pub fn is_same_receiver(&self, other: &Self) -> bool {
        // A destination without a URL is not validated.
        let url = |of: &Self| of.endpoint_url().map(|endpoint| endpoint.url.clone());
        discriminant(self) == discriminant(other) && url(self) == url(other)
    }

    /// Returns a short text for the destination without secrets.
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

impl From<PullSettings> for Destination {
    fn from(queue: PullSettings) -> Self {
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

/// A reference to a Service Bus queue or topic of this appliance: a resource id as used by Azure or by this appliance's
/// responses, a URL, or a name. The original text is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityId {
    text: String,
    name: TopicName,
}

/// The segments of a resource id that can precede the name, in any letter case.
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
            // A name can contain slashes, so the name is everything after the first collection segment.
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

    /// Returns the name of the queue or topic.
    pub fn name(&self) -> &TopicName {
        &self.name
    }
}

/// Settings of pull delivery (rule N5, S1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullSettings {
    /// The duration of a receiver's lock on an event unless the receiver renews the lock.
    pub lock_duration: Duration,
    pub receiving: ReceiveRules,
    /// Is true if messages of a subscription with rules become dead letters when a rule cannot be evaluated for them.
    /// Otherwise such a rule does not match.
    pub keeps_unevaluated: bool,
    pub upkeep: EntityUpkeep,
}

impl PullSettings {
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
    /// Extension: skips the validation handshake, for the operator's own receivers.
    pub skip_validation: bool,
}

/// The URL of a webhook. Its query may hold a secret, so only [`EndpointUrl::base`] is shown.
#[derive(Clone, PartialEq, Eq)]
pub struct EndpointUrl {
    /// The URL that is called.
    url: Url,
    text: Box<str>,
}

/// The reason why a text is not a valid webhook URL.
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
    /// Parses an absolute http or https URL. Requests use its normalized form, and responses show the original text.
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
        // The URL parser removes whitespace and control characters, so the normalized form is shown instead.
        let is_plain = !text.contains(|c: char| c.is_whitespace() || c.is_control());
        let shown = if is_plain { text } else { url.as_str() };
        Ok(Self {
            text: shown.into(),
            url,
        })
    }

    /// Returns the whole URL with its query, for requests.
    pub fn reveal(&self) -> &Url {
        &self.url
    }

    /// Returns the original text of the URL with its query, for the store and for `getFullUrl`.
    pub fn reveal_text(&self) -> &str {
        &self.text
    }

    /// Returns the URL without its query (`endpointBaseUrl`, rule 3.3).
    pub fn base(&self) -> &str {
        self.text
            .split_once('?')
            .map_or(&*self.text, |(base, _)| base)
    }

    /// Returns the normalized URL without its query.
    pub fn called_base(&self) -> Url {
        let mut base = self.url.clone();
        base.set_query(None);
        base
    }

    /// Reports whether the URL is also a valid URI and can be called. The host of a URL may have characters that are
    /// not allowed in a URI.
    pub fn is_uri(&self) -> bool {
        http::Uri::try_from(self.url.as_str()).is_ok()
    }

    /// Reports whether this URL equals `other` without its query.
    pub fn is_base_of(&self, other: &Self) -> bool {
        self.url == other.called_base()
    }

    /// Returns the whole URL if it has no query and therefore no secret.
    pub fn without_query(&self) -> Option<&str> {
        self.url.query().is_none().then_some(&*self.text)
    }

    /// Returns host and port, for lists.
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
