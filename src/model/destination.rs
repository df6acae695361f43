//! Where a subscription's events go, and what each kind of destination must carry.

use std::time::Duration;

use url::Url;

use crate::model::access::Secret;
use crate::model::batch::BatchPolicy;
use crate::model::credentials::Credentials;
use crate::model::pace::ReceiverLimits;

/// How an event subscription of a namespace topic hands over its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryMode {
    /// Receivers come and take them.
    Queue,
    /// They are sent to a destination.
    Push,
}

impl DeliveryMode {
    /// Both modes.
    pub const ALL: [DeliveryMode; 2] = [Self::Queue, Self::Push];

    /// Azure's spelling.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queue => "Queue",
            Self::Push => "Push",
        }
    }
}

/// The target of an event subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each subscription, and nearly all of them are webhooks"
)]
pub enum Destination {
    WebHook(WebHook),
    /// Nowhere: receivers come and take the events, of namespace topics alone.
    Queue(PullQueue),
}

/// The paces of what is sent nowhere.
static NO_PACE: ReceiverLimits = ReceiverLimits {
    response_deadline: None,
    in_flight_max: None,
    rate: None,
};

/// What the appliance asks of any destination. How events get there is the business of `outbound`, how
/// it is written that of `wire`.
impl Destination {
    /// Whether events are sent there, or fetched.
    pub fn delivery_mode(&self) -> DeliveryMode {
        match self {
            Self::WebHook(_) => DeliveryMode::Push,
            Self::Queue(_) => DeliveryMode::Queue,
        }
    }

    /// The receiver that events are sent to, if they are sent.
    pub fn webhook(&self) -> Option<&WebHook> {
        match self {
            Self::WebHook(webhook) => Some(webhook),
            Self::Queue(_) => None,
        }
    }

    /// The queue that receivers take events from, if they do.
    pub fn queue(&self) -> Option<&PullQueue> {
        match self {
            Self::WebHook(_) => None,
            Self::Queue(queue) => Some(queue),
        }
    }

    /// How many events it takes at once.
    pub fn batch(&self) -> BatchPolicy {
        match self {
            Self::WebHook(webhook) => webhook.batch,
            Self::Queue(_) => BatchPolicy::default(),
        }
    }

    /// How fast it wants to be served.
    pub fn pace(&self) -> &ReceiverLimits {
        match self {
            Self::WebHook(webhook) => &webhook.pace,
            Self::Queue(_) => &NO_PACE,
        }
    }

    /// What goes along with each request; events of one request have the same values.
    pub fn attribute_mappings(&self) -> &[DeliveryAttributeMapping] {
        match self {
            Self::WebHook(webhook) => &webhook.attribute_mappings,
            Self::Queue(_) => &[],
        }
    }

    /// Whether it is taken without being asked whether it wants events.
    pub fn skips_validation(&self) -> bool {
        match self {
            Self::WebHook(webhook) => webhook.skip_validation,
            Self::Queue(_) => true, // there is nobody to ask
        }
    }

    /// Whether whoever agreed to the one gets the events of the other.
    pub fn is_same_receiver(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::WebHook(one), Self::WebHook(other)) => one.endpoint_url == other.endpoint_url,
            (Self::Queue(_), Self::Queue(_)) => true,
            (Self::WebHook(_), Self::Queue(_)) | (Self::Queue(_), Self::WebHook(_)) => false,
        }
    }

    /// In a few words without secrets, for lists.
    pub fn brief(&self) -> &str {
        match self {
            Self::WebHook(webhook) => webhook.endpoint_url.authority(),
            Self::Queue(_) => "pulled by receivers",
        }
    }
}

/// How events are handed to receivers that come for them (rule N5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PullQueue {
    /// How long a receiver holds an event unless it renews its lock.
    pub lock_duration: Duration,
}

/// An HTTP receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebHook {
    pub endpoint_url: EndpointUrl,
    pub batch: BatchPolicy,
    pub pace: ReceiverLimits,
    pub attribute_mappings: Vec<DeliveryAttributeMapping>,
    /// Extension: what it is shown besides.
    pub credentials: Credentials,
    /// Extension: takes the destination without a handshake, for receivers that the operator owns.
    pub skip_validation: bool,
}

/// The URL of a webhook. Its query may hold a secret, so only [`EndpointUrl::base`] is for showing.
#[derive(Clone, PartialEq, Eq)]
pub struct EndpointUrl(Url);

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
    /// Parses an absolute http or https URL. What is stored is what will be called: the normalised form.
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
        Ok(Self(url))
    }

    /// The whole URL, query included: for calling and for `getFullUrl`.
    pub fn reveal(&self) -> &Url {
        &self.0
    }

    /// The URL without its query (`endpointBaseUrl`, rule 3.3).
    pub fn base(&self) -> String {
        let mut base = self.0.clone();
        base.set_query(None);
        base.into()
    }

    /// The whole URL where it has no query, and so hides nothing.
    pub fn without_query(&self) -> Option<&str> {
        match self.0.query() {
            None => Some(self.0.as_str()),
            Some(_) => None,
        }
    }

    /// Host and port, for lists.
    pub fn authority(&self) -> &str {
        self.0.authority()
    }

    /// Whether the receiver is called over TLS.
    pub fn is_https(&self) -> bool {
        self.0.scheme() == "https"
    }
}

impl std::fmt::Debug for EndpointUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.base())
    }
}

/// A header of one's own on every delivery (rule 6.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryAttributeMapping {
    pub name: String,
    pub value: AttributeValue,
}

/// Where a header's value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// Always the same; `is_secret` hides it in answers.
    Static { value: Secret, is_secret: bool },
    /// A path into the event; the header is left out where it leads to nothing, or to something that
    /// is no string, number or boolean.
    Dynamic { source_field: String },
}
