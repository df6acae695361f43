//! An event subscription: its definition, its validation and its status.

use std::time::Duration;

use crate::base::Timestamp;
use crate::base::named::{ids, named_enum};
use crate::model::access::Secret;
use crate::model::as_written::AsWritten;
use crate::model::batch::BatchPolicy;
use crate::model::blob_storage::BlobStorage;
use crate::model::credentials::Credentials;
use crate::model::destination::{DeliveryMode, Destination, EndpointUrl, PullSettings, WebHook};
use crate::model::entity_status::EntityStatus;
use crate::model::filter::Filter;
use crate::model::name::SubscriptionName;
use crate::model::pace::{Rate, ReceiverLimits};
use crate::model::probation::Health;
use crate::model::retry::{DeliveryProfile, RetryPolicy};
use crate::model::topic::{DeliverySchema, TopicId};

ids! {
    /// The id of an event subscription.
    SubscriptionId,
}

impl SubscriptionId {
    /// Returns the id of the transfer queue of a queue or a subscription. The transfer queue contains messages sent via
    /// its owner and messages that could not be forwarded. It is not in the catalog and exists as long as its owner.
    pub fn transfers(self) -> Self {
        Self(-self.0)
    }

    /// Returns the id of the subscription that a transfer queue belongs to; any other id is returned unchanged.
    pub fn owner(self) -> Self {
        Self(self.0.abs())
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

/// The settings of an event subscription that the operator chooses (rule 3.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionDefinition {
    pub destination: Destination,
    pub filter: Filter,
    pub delivery_schema: DeliverySchema,
    pub retry_policy: RetryPolicy,
    pub dead_letter: DeadLetterDestination,
    pub options: SubscriptionOptions,
    /// The time from which the subscription matches nothing. Events matched earlier are still delivered.
    pub expires_at: Option<Timestamp>,
    /// Extension: a disabled subscription matches and delivers nothing; its pending deliveries wait.
    pub disabled: Option<Disabled>,
    pub as_written: AsWritten,
}

/// The properties of an event subscription that are documents of their own values. All have defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionOptions {
    pub labels: Vec<String>,
    /// Extension: a paused subscription delivers nothing but continues to match events.
    pub paused: bool,
    /// Extension: a 410 disables the subscription (section A).
    pub disable_on_gone: bool,
}

/// Creates a placeholder for a webhook whose definition cannot be read.
fn unknown_webhook() -> WebHook {
    WebHook {
        endpoint_url: EndpointUrl::parse("https://unreadable.invalid/").expect("it is a URL"),
        batch: BatchPolicy::default(),
        pace: ReceiverLimits::default(),
        attribute_mappings: Vec::new(),
        credentials: Credentials::default(),
        skip_validation: false,
    }
}

impl SubscriptionDefinition {
    /// Creates a placeholder for a stored definition that can no longer be read. It matches and delivers nothing, and
    /// pending deliveries wait.
    pub fn unreadable(is_of_messages: bool) -> Self {
        let (destination, profile) = if is_of_messages {
            let mut pull = PullSettings::of_events(Duration::from_secs(60));
            pull.upkeep.status = EntityStatus::Disabled;
            (pull.into(), DeliveryProfile::Namespace)
        } else {
            (unknown_webhook().into(), DeliveryProfile::Basic)
        };
        Self {
            destination,
            filter: Filter::default(),
            delivery_schema: DeliverySchema::CloudEventSchemaV1_0,
            retry_policy: RetryPolicy::of(profile),
            dead_letter: DeadLetterDestination::BuiltInQueue,
            options: SubscriptionOptions::default(),
            expires_at: None,
            disabled: Some(Disabled::ByOperator),
            as_written: AsWritten::default(),
        }
    }
}

/// Who disabled a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disabled {
    ByOperator,
    /// The appliance, when the receiver responded 410.
    Gone {
        at: Timestamp,
    },
}

/// The treatment of the pending deliveries of a deleted subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDelete {
    /// They are dropped, with a record.
    #[default]
    Discard,
    /// They become dead letters in the built-in queue, wherever else the subscription's dead letters go.
    DeadLetter,
}

/// The treatment of deliveries that finally fail (rule A, "No dead-letter destination").
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeadLetterDestination {
    /// They go to the subscription's queue inside the appliance: the default.
    BuiltInQueue,
    /// They are dropped, and the drop is counted and shown.
    Drop,
    /// `StorageBlob`: kept in the built-in queue until they are exported to the named container.
    StorageBlob {
        resource_id: String,
        container: String,
        storage: BlobStorage,
    },
}

/// The validation of the destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validation {
    pub state: ValidationState,
    /// Is true after the first successful validation. Such a subscription continues to match events while a changed
    /// endpoint is validated, and its deliveries wait. A subscription that was never validated matches nothing.
    pub validated_once: bool,
    /// The secret of the validation URL and the callback; `None` if no handshake is open.
    pub code: Option<Secret>,
    /// When the open handshake fails.
    pub expires_at: Option<Timestamp>,
    /// Why the last handshake failed, in plain words.
    pub failure: Option<String>,
    /// Requests per minute that the receiver allowed in a CloudEvents handshake (rule A).
    pub allowed_rate: Option<u32>,
}

named_enum! {
    /// The state of the handshake; Azure's `provisioningState`.
    pub enum ValidationState {
        /// The endpoint of a new subscription is being validated.
        Creating,
        /// The endpoint of a changed subscription is being validated.
        Updating,
        /// The endpoint responded without agreeing; its owner can still open the validation URL.
        AwaitingManualAction,
        Succeeded,
        Failed,
    }
}

impl Validation {
    /// Creates the validation of a destination that needs no handshake or has passed it.
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

/// The status of a subscription: the first of these that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionStatus {
    /// `expirationTimeUtc` has passed.
    Expired,
    Disabled(Disabled),
    Paused,
    /// Its destination is not validated.
    NotValidated(ValidationState),
    OnProbation,
    /// The newest response was 410.
    Gone,
    Active,
}

impl SubscriptionStatus {
    /// The name in responses; Azure's own while the destination is not validated.
    pub fn name(self) -> &'static str {
        match self {
            Self::Expired => "Expired",
            Self::Disabled(_) => "Disabled",
            Self::Paused => "Paused",
            Self::NotValidated(state) => state.name(),
            Self::OnProbation => "OnProbation",
            Self::Gone => "Gone",
            Self::Active => "Active",
        }
    }
}

/// Why a subscription does not match events, whatever its filter says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// The event is older than the subscription.
    CreatedLater,
    /// Its destination was never validated.
    NotValidated(ValidationState),
    Disabled(Disabled),
    Expired,
    /// The subscription has rules, which select messages when they are sent.
    HasRules,
}

impl SkipReason {
    /// The name in responses.
    pub fn name(self) -> &'static str {
        match self {
            Self::CreatedLater => "CreatedLater",
            Self::NotValidated(_) => "NotValidated",
            Self::Disabled(_) => "Disabled",
            Self::Expired => "Expired",
            Self::HasRules => "HasRules",
        }
    }
}

impl EventSubscription {
    /// A subscription that is not stored, only shown.
    pub fn unstored(definition: SubscriptionDefinition, now: Timestamp) -> Self {
        Self {
            id: SubscriptionId(0),
            topic_id: TopicId(0),
            name: SubscriptionName::parse("example").expect("it is a name"),
            definition,
            validation: Validation::succeeded(None),
            created_at: now,
            updated_at: now,
        }
    }

    /// Returns whether the subscription can match events published at `now`.
    pub fn takes_events(&self, now: Timestamp) -> bool {
        self.abstains(now).is_none()
    }

    /// The reason why the subscription matches no events published at `now`; `None` if it can match.
    pub fn abstains(&self, now: Timestamp) -> Option<SkipReason> {
        let validation = &self.validation;
        match self.definition.disabled {
            _ if !validation.validated_once => Some(SkipReason::NotValidated(validation.state)),
            Some(disabled) => Some(SkipReason::Disabled(disabled)),
            None => self.is_expired(now).then_some(SkipReason::Expired),
        }
    }

    /// Returns whether the destination is validated.
    pub fn has_agreed(&self) -> bool {
        self.validation.state == ValidationState::Succeeded
    }

    /// Returns whether deliveries may be sent or received. An expired subscription finishes what it matched before.
    pub fn may_deliver(&self) -> bool {
        self.has_agreed() && !self.definition.options.paused && self.definition.disabled.is_none()
    }

    /// Returns whether the status lets receivers have messages; dead letters can always be received.
    pub fn lets_receive(&self) -> bool {
        let pulled = self.definition.destination.pull_queue();
        pulled.is_none_or(|pulled| pulled.upkeep.status.lets_receive())
    }

    /// Returns whether messages are received in sessions (rule S6).
    pub fn has_sessions(&self) -> bool {
        let pulled = self.definition.destination.pull_queue();
        pulled.is_some_and(|pulled| pulled.receiving.has_sessions)
    }

    /// Returns whether the dispatcher may send the deliveries. Deliveries of a queue are pulled, not sent.
    pub fn may_send(&self) -> bool {
        match self.definition.destination.delivery_mode() {
            DeliveryMode::Push => self.may_deliver(),
            DeliveryMode::Queue => false,
        }
    }

    /// Returns whether `expirationTimeUtc` has passed.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.definition.expires_at.is_some_and(|at| at <= now)
    }

    /// The status of the subscription at `now`, given the health of its receiver.
    pub fn standing(&self, health: &Health, now: Timestamp) -> SubscriptionStatus {
        let definition = &self.definition;
        match (definition.disabled, self.validation.state) {
            _ if self.is_expired(now) => SubscriptionStatus::Expired,
            (Some(disabled), _) => SubscriptionStatus::Disabled(disabled),
            _ if definition.options.paused => SubscriptionStatus::Paused,
            (None, ValidationState::Succeeded) => match (health.probation, health.gone_since) {
                (Some(_), _) => SubscriptionStatus::OnProbation,
                (None, Some(_)) => SubscriptionStatus::Gone,
                (None, None) => SubscriptionStatus::Active,
            },
            (None, state) => SubscriptionStatus::NotValidated(state),
        }
    }

    /// The maximum rate of requests to the receiver: the lower of the configured rate and the rate that the destination
    /// allowed in the handshake (section A); `None` for no limit.
    pub fn rate(&self) -> Option<Rate> {
        let granted = self.validation.allowed_rate.map(Rate::per_minute);
        let own = self.definition.destination.pace().rate;
        granted.into_iter().chain(own).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::delivery::Outcome;
    use crate::model::probation::{Observation, ProbationRules};

    const NOW: Timestamp = Timestamp::from_ms(1_000_000);

    fn subscription() -> EventSubscription {
        EventSubscription {
            id: SubscriptionId(1),
            topic_id: TopicId(1),
            name: SubscriptionName::parse("billing").expect("a name"),
            definition: SubscriptionDefinition {
                destination: unknown_webhook().into(),
                filter: Filter::default(),
                delivery_schema: DeliverySchema::EventGridSchema,
                retry_policy: RetryPolicy::default(),
                dead_letter: DeadLetterDestination::BuiltInQueue,
                options: SubscriptionOptions::default(),
                expires_at: None,
                disabled: None,
                as_written: AsWritten::default(),
            },
            validation: Validation::succeeded(None),
            created_at: NOW,
            updated_at: NOW,
        }
    }

    /// One failure after which a receiver answers 410, which is also enough for a probation.
    fn gone() -> Health {
        let rules = ProbationRules {
            failures: 1,
            ..ProbationRules::default()
        };
        let seen = Observation {
            outcome: Outcome::GenericError,
            is_gone: Some(true),
            status: Some(410),
            is_probe: false,
        };
        Health::default().observed(seen, &rules, NOW, crate::base::TimeScale::REAL)
    }

    #[test]
    fn each_standing_matches_and_delivers_as_it_says() {
        let only_gone = Health {
            probation: None,
            ..gone()
        };
        let failed = ValidationState::Failed;
        let of = |change: &dyn Fn(&mut EventSubscription)| {
            let mut subscription = subscription();
            change(&mut subscription);
            subscription
        };
        let disabled = Disabled::Gone { at: NOW };
        for (subscription, health, standing, takes, delivers) in [
            (
                of(&|_| ()),
                Health::default(),
                SubscriptionStatus::Active,
                true,
                true,
            ),
            (
                of(&|_| ()),
                gone(),
                SubscriptionStatus::OnProbation,
                true,
                true,
            ),
            (of(&|_| ()), only_gone, SubscriptionStatus::Gone, true, true),
            (
                of(&|each| each.validation.state = failed),
                gone(),
                SubscriptionStatus::NotValidated(failed),
                true,
                false,
            ),
            (
                of(&|each| each.definition.options.paused = true),
                gone(),
                SubscriptionStatus::Paused,
                true,
                false,
            ),
            (
                of(&|each| {
                    each.definition.disabled = Some(disabled);
                    each.definition.options.paused = true;
                }),
                gone(),
                SubscriptionStatus::Disabled(disabled),
                false,
                false,
            ),
            (
                of(&|each| each.definition.expires_at = Some(NOW)),
                gone(),
                SubscriptionStatus::Expired,
                false,
                true,
            ),
        ] {
            assert_eq!(subscription.standing(&health, NOW), standing);
            assert_eq!(subscription.takes_events(NOW), takes, "{standing:?}");
            assert_eq!(subscription.may_deliver(), delivers, "{standing:?}");
        }
        let mut early = subscription();
        early.definition.expires_at = Some(NOW + Duration::from_millis(1));
        assert!(early.takes_events(NOW));
    }

    #[test]
    fn the_lower_rate_holds() {
        for (own, granted, expected) in [
            (None, None, None),
            (Some(500), None, Some(500)),
            (None, Some(120), Some(2_000)),
            (Some(500), Some(120), Some(500)),
            (Some(5_000), Some(120), Some(2_000)),
        ] {
            let mut subscription = subscription();
            let webhook = subscription.definition.destination.webhook_mut();
            webhook.expect("a webhook").pace.rate = own.and_then(Rate::per_1000_s);
            subscription.validation.allowed_rate = granted;
            let rate = subscription.rate().map(Rate::in_1000_s);
            assert_eq!(rate, expected, "{own:?} {granted:?}");
        }
    }
}
