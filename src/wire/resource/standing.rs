//! Where an event subscription stands, for which Azure has no place: the property `everpost`.

use serde_json::{Value, json};

use crate::base::Timestamp;
use crate::model::export::Outage;
use crate::model::probation::{Health, Probation};
use crate::model::subscription::{Disabled, EventSubscription, SubscriptionStatus};

/// `properties.everpost`: the state in a word and a sentence, the handshake, and what has been seen of
/// the receiver.
pub(super) fn render(subscription: &EventSubscription, health: &Health, now: Timestamp) -> Value {
    let validation = &subscription.validation;
    json!({
        "state": subscription.standing(health, now).name(),
        "stateReason": standing_reason(subscription, health, now),
        "validatedOnce": validation.validated_once,
        "validationExpiresAt": validation.expires_at.map(|at| at.to_string()),
        "validationFailure": validation.failure,
        "allowedRequestsPerMinute": validation.allowed_rate,
        "probation": health.probation.map(|probation| render_probation(&probation, health)),
        "gone": gone_since(subscription, health).map(|at| json!({
            "since": at.to_string(),
            "reason": GONE,
        })),
    })
}

/// Storage for dead letters that is away; `null` for storage that is not.
pub fn render_outage(outage: Option<&Outage>) -> Value {
    outage.map_or(Value::Null, |outage| {
        json!({
            "unavailableSince": outage.since.to_string(),
            "failures": outage.failures,
            "nextTryAt": outage.next_try_at.to_string(),
            "error": outage.error,
        })
    })
}

const GONE: &str = "the receiver answers 410 (Gone)";

fn render_probation(probation: &Probation, health: &Health) -> Value {
    json!({
        "cause": probation.cause.name(),
        "since": probation.since.to_string(),
        "until": probation.until.to_string(),
        "failures": health.failures,
    })
}

fn gone_since(subscription: &EventSubscription, health: &Health) -> Option<Timestamp> {
    match subscription.definition.disabled {
        Some(Disabled::Gone { at }) => Some(at),
        Some(Disabled::ByOperator) | None => health.gone_since,
    }
}

/// Why a subscription stands where it does, in plain words; `None` for one that simply delivers.
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
            Some("paused; it goes on matching, and its events wait".to_owned())
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
