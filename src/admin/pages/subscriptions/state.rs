//! Where an event subscription stands, in a word and a sentence.

use crate::admin::widgets::print::sentence;
use crate::admin::widgets::{Badge, Tone};
use crate::base::Timestamp;
use crate::model::probation::Health;
use crate::model::subscription::{
    Disabled, EventSubscription, SubscriptionStatus, ValidationState,
};
use crate::wire::resource::standing_reason;

/// The state ready to print.
pub(crate) struct State {
    pub(crate) badge: Badge,
    /// Why it does not deliver; empty when it does.
    pub(crate) why: String,
}

/// Where `subscription` stands at `now`, its receiver having been seen like this.
pub(crate) fn state(subscription: &EventSubscription, health: &Health, now: Timestamp) -> State {
    let standing = subscription.standing(health, now);
    let said = standing_reason(subscription, health, now);
    State {
        badge: Badge::new(tone(standing), word(standing)),
        why: said.map_or_else(|| unsaid(standing).to_owned(), |said| sentence(&said)),
    }
}

fn tone(standing: SubscriptionStatus) -> Tone {
    match standing {
        SubscriptionStatus::Active => Tone::Good,
        SubscriptionStatus::Expired
        | SubscriptionStatus::Disabled(Disabled::ByOperator)
        | SubscriptionStatus::Paused => Tone::Neutral,
        SubscriptionStatus::Disabled(Disabled::Gone { .. })
        | SubscriptionStatus::Gone
        | SubscriptionStatus::OnProbation
        | SubscriptionStatus::NotValidated(ValidationState::Failed) => Tone::Bad,
        SubscriptionStatus::NotValidated(
            ValidationState::Succeeded
            | ValidationState::Creating
            | ValidationState::Updating
            | ValidationState::AwaitingManualAction,
        ) => Tone::Waiting,
    }
}

/// What is to be said of a validation that has left nothing to say.
fn unsaid(standing: SubscriptionStatus) -> &'static str {
    match standing {
        SubscriptionStatus::NotValidated(ValidationState::Creating | ValidationState::Updating) => {
            "The webhook is being asked whether it wants events."
        }
        SubscriptionStatus::NotValidated(
            ValidationState::AwaitingManualAction
            | ValidationState::Succeeded
            | ValidationState::Failed,
        )
        | SubscriptionStatus::Expired
        | SubscriptionStatus::Disabled(_)
        | SubscriptionStatus::Paused
        | SubscriptionStatus::OnProbation
        | SubscriptionStatus::Gone
        | SubscriptionStatus::Active => "",
    }
}

/// The words for all states there are, the good one first.
pub(crate) const WORDS: [&str; 9] = [
    "Active",
    "Paused",
    "Disabled",
    "On probation",
    "Gone",
    "Validating",
    "Awaits confirmation",
    "Validation failed",
    "Expired",
];

/// The state in words of ours, one of [`WORDS`]; Azure's are on the page of the subscription.
pub(crate) fn word(standing: SubscriptionStatus) -> &'static str {
    match standing {
        SubscriptionStatus::Expired => "Expired",
        SubscriptionStatus::Disabled(_) => "Disabled",
        SubscriptionStatus::Paused => "Paused",
        SubscriptionStatus::NotValidated(ValidationState::AwaitingManualAction) => {
            "Awaits confirmation"
        }
        SubscriptionStatus::NotValidated(ValidationState::Failed) => "Validation failed",
        SubscriptionStatus::NotValidated(
            ValidationState::Creating | ValidationState::Updating | ValidationState::Succeeded,
        ) => "Validating",
        SubscriptionStatus::OnProbation => "On probation",
        SubscriptionStatus::Gone => "Gone",
        SubscriptionStatus::Active => "Active",
    }
}
