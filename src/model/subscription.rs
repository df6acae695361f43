//! An event subscription: who wants which events of a topic, how, and whether they have agreed.

use std::fmt;

use crate::base::Timestamp;
use crate::model::access::Secret;
use crate::model::destination::Destination;
use crate::model::filter::Filter;
use crate::model::name::SubscriptionName;
use crate::model::retry::RetryPolicy;
use crate::model::topic::{DeliverySchema, TopicId};

/// The appliance's own number of an event subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionId(pub i64);

impl fmt::Display for SubscriptionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An event subscription as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSubscription {
    pub id: SubscriptionId,
    pub topic_id: TopicId,
    pub name: SubscriptionName,
    pub definition: SubscriptionDefinition,
    pub validation: Validation,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// What the operator decides about an event subscription (spec 3.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionDefinition {
    pub destination: Destination,
    pub filter: Filter,
    pub delivery_schema: DeliverySchema,
    pub retry_policy: RetryPolicy,
    pub dead_letter: DeadLetterDestination,
    pub labels: Vec<String>,
    /// From this moment on the subscription matches nothing.
    pub expires_at: Option<Timestamp>,
}

/// What becomes of the pending deliveries of a subscription that is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PendingFate {
    /// They are dropped, with a record.
    #[default]
    Discard,
    /// They are kept as dead letters, wherever else the subscription's dead letters go.
    DeadLetter,
}

/// What becomes of deliveries that are given up (spec A, "No dead-letter destination").
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeadLetterDestination {
    /// The subscription's own queue inside the appliance: the default.
    BuiltInQueue,
    /// `"deadLetterDestination": null`: they are dropped, and the drop is counted and shown.
    Drop,
    /// `StorageBlob`: kept in the built-in queue; the named container is remembered.
    StorageBlob {
        resource_id: String,
        container: String,
    },
}

/// Whether the destination has agreed to receive events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validation {
    pub state: ValidationState,
    /// Once validated, a subscription goes on matching events while a changed endpoint is validated;
    /// the events wait. Before, it matches nothing.
    pub validated_once: bool,
    /// Guards the validation URL and the callback; `None` when no handshake is open.
    pub code: Option<Secret>,
    /// When the open handshake ends, failing that.
    pub expires_at: Option<Timestamp>,
    /// Why the last handshake failed, in plain words.
    pub failure: Option<String>,
    /// Requests per minute that the receiver allowed in a CloudEvents handshake (spec A).
    pub allowed_rate: Option<u32>,
}

/// Where the handshake stands; Azure's `provisioningState`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValidationState {
    /// The receiver of a new subscription is being asked.
    Creating,
    /// The receiver of a changed subscription is being asked.
    Updating,
    /// The receiver answered without agreeing; it may still call the validation URL.
    AwaitingManualAction,
    Succeeded,
    Failed,
}

impl ValidationState {
    /// All states.
    pub const ALL: [ValidationState; 5] = [
        Self::Creating,
        Self::Updating,
        Self::AwaitingManualAction,
        Self::Succeeded,
        Self::Failed,
    ];

    /// Azure's spelling.
    pub fn name(self) -> &'static str {
        match self {
            Self::Creating => "Creating",
            Self::Updating => "Updating",
            Self::AwaitingManualAction => "AwaitingManualAction",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }
}

impl Validation {
    /// A destination that needs no handshake, or has passed it.
    pub fn succeeded(allowed_rate: Option<u32>) -> Self {
        Self {
            state: ValidationState::Succeeded,
            validated_once: true,
            code: None,
            expires_at: None,
            failure: None,
            allowed_rate,
        }
    }
}

impl EventSubscription {
    /// Whether events published at `now` are for this subscription at all, its filter aside.
    pub fn takes_events(&self, now: Timestamp) -> bool {
        self.validation.validated_once && !self.is_expired(now)
    }

    /// Whether its deliveries may be sent.
    pub fn may_deliver(&self) -> bool {
        self.validation.state == ValidationState::Succeeded
    }

    /// Whether `expirationTimeUtc` has passed.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.definition.expires_at.is_some_and(|at| at <= now)
    }
}
