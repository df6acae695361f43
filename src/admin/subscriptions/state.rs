//! Where an event subscription stands, in a word and a sentence.

use crate::admin::error::sentence;
use crate::admin::view::{Badge, Tone};
use crate::base::Timestamp;
use crate::model::probation::Health;
use crate::model::subscription::{Disabled, EventSubscription, Standing, ValidationState};
use crate::wire::resource::standing_reason;

/// The state ready to print.
pub(in crate::admin) struct State {
    pub(in crate::admin) badge: Badge,
    /// Why it does not deliver; empty when it does.
    pub(in crate::admin) why: String,
}

/// Where `subscription` stands at `now`, its receiver having been seen like this.
pub(in crate::admin) fn state(
    subscription: &EventSubscription,
    health: &Health,
    now: Timestamp,
) -> State {
    let standing = subscription.standing(health, now);
    let said = standing_reason(subscription, health, now);
    State {
        badge: Badge::new(tone(standing), word(standing)),
        why: said.map_or_else(|| unsaid(standing).to_owned(), |said| sentence(&said)),
    }
}

fn tone(standing: Standing) -> Tone {
    match standing {
        Standing::Active => Tone::Good,
        Standing::Expired | Standing::Disabled(Disabled::ByOperator) | Standing::Paused => {
            Tone::Neutral
        }
        Standing::Disabled(Disabled::Gone { .. })
        | Standing::Gone
        | Standing::OnProbation
        | Standing::NotValidated(ValidationState::Failed) => Tone::Bad,
        Standing::NotValidated(
            ValidationState::Succeeded
            | ValidationState::Creating
            | ValidationState::Updating
            | ValidationState::AwaitingManualAction,
        ) => Tone::Waiting,
    }
}

/// What is to be said of a validation that has left nothing to say.
fn unsaid(standing: Standing) -> &'static str {
    match standing {
        Standing::NotValidated(ValidationState::Creating | ValidationState::Updating) => {
            "The webhook is being asked whether it wants events."
        }
        Standing::NotValidated(
            ValidationState::AwaitingManualAction
            | ValidationState::Succeeded
            | ValidationState::Failed,
        )
        | Standing::Expired
        | Standing::Disabled(_)
        | Standing::Paused
        | Standing::OnProbation
        | Standing::Gone
        | Standing::Active => "",
    }
}

/// The words for all states there are, the good one first.
pub(super) const WORDS: [&str; 9] = [
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
pub(super) fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Expired => "Expired",
        Standing::Disabled(_) => "Disabled",
        Standing::Paused => "Paused",
        Standing::NotValidated(ValidationState::AwaitingManualAction) => "Awaits confirmation",
        Standing::NotValidated(ValidationState::Failed) => "Validation failed",
        Standing::NotValidated(
            ValidationState::Creating | ValidationState::Updating | ValidationState::Succeeded,
        ) => "Validating",
        Standing::OnProbation => "On probation",
        Standing::Gone => "Gone",
        Standing::Active => "Active",
    }
}
