//! How an event subscription is doing, for which Azure has no place: the property `everpost`.

use schemars::JsonSchema;
use serde::Serialize;

use super::subscription::Observed;
use crate::base::Timestamp;
use crate::model::export::Outage;
use crate::model::probation::Health;
use crate::model::subscription::{Disabled, EventSubscription, SubscriptionStatus};

/// The state in a word and a sentence, the handshake, and what has been seen of the receiver.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SubscriptionStanding {
    state: &'static str,
    state_reason: Option<String>,
    validated_once: bool,
    validation_expires_at: Option<Timestamp>,
    validation_failure: Option<String>,
    allowed_requests_per_minute: Option<u32>,
    probation: Option<ProbationPause>,
    gone: Option<Gone>,
    dead_letter_storage: Option<StorageOutage>,
}

/// A pause after failures in a row.
#[derive(Serialize, JsonSchema)]
struct ProbationPause {
    cause: &'static str,
    since: Timestamp,
    until: Timestamp,
    failures: u32,
}

/// A receiver that answers 410.
#[derive(Serialize, JsonSchema)]
struct Gone {
    since: Timestamp,
    reason: &'static str,
}

/// Storage for dead letters that is unavailable.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct StorageOutage {
    unavailable_since: Timestamp,
    failures: u32,
    next_try_at: Timestamp,
    error: String,
}

const GONE: &str = "the receiver answers 410 (Gone)";

impl SubscriptionStanding {
    pub(super) fn of(subscription: &EventSubscription, observed: Observed<'_>) -> Self {
        let Observed {
            health,
            outage,
            now,
        } = observed;
        let validation = &subscription.validation;
        Self {
            state: subscription.standing(health, now).name(),
            state_reason: standing_reason(subscription, health, now),
            validated_once: validation.validated_once,
            validation_expires_at: validation.expires_at,
            validation_failure: validation.failure.clone(),
            allowed_requests_per_minute: validation.allowed_rate,
            probation: health.probation.map(|probation| ProbationPause {
                cause: probation.cause.name(),
                since: probation.since,
                until: probation.until,
                failures: health.failures,
            }),
            gone: gone_since(subscription, health).map(|since| Gone {
                since,
                reason: GONE,
            }),
            dead_letter_storage: outage.map(StorageOutage::of),
        }
    }
}

impl StorageOutage {
    fn of(outage: &Outage) -> Self {
        Self {
            unavailable_since: outage.since,
            failures: outage.failures,
            next_try_at: outage.next_try_at,
            error: outage.error.clone(),
        }
    }
}

fn gone_since(subscription: &EventSubscription, health: &Health) -> Option<Timestamp> {
    match subscription.definition.disabled {
        Some(Disabled::Gone { at }) => Some(at),
        Some(Disabled::ByOperator) | None => health.gone_since,
    }
}

/// Why a subscription is in its state, in plain words; `None` for one that simply delivers.
pub fn standing_reason(
    subscription: &EventSubscription,
    health: &Health,
    now: Timestamp,
) -> Option<String> {
    match subscription.standing(health, now) {
        SubscriptionStatus::Expired => subscription.definition.expires_at.map(|at| {
            format!("it has matched nothing since {at}; what it matched before is still delivered")
        }),
        SubscriptionStatus::Disabled(Disabled::ByOperator) => {
            Some("disabled by its definition; it neither matches nor delivers".to_owned())
        }
        SubscriptionStatus::Disabled(Disabled::Gone { at }) => Some(format!(
            "the receiver answered 410 (Gone) at {at}; it neither matches nor delivers until it is \
             resumed"
        )),
        SubscriptionStatus::Paused => {
            Some("paused; it still matches events, and they are pending".to_owned())
        }
        SubscriptionStatus::NotValidated(_) => subscription.validation.failure.clone(),
        SubscriptionStatus::OnProbation => health.probation.map(|probation| {
            format!(
                "{} failures in a row, the last one {}; held until {}",
                health.failures,
                probation.cause.name(),
                probation.until
            )
        }),
        SubscriptionStatus::Gone => Some(GONE.to_owned()),
        SubscriptionStatus::Active => None,
    }
}
