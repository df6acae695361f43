//! Where an event subscription stands, in a word and a sentence.

use crate::admin::error::sentence;
use crate::admin::view::{Badge, Tone};
use crate::base::Timestamp;
use crate::model::subscription::{EventSubscription, ValidationState};

/// The state ready to print.
pub(in crate::admin) struct State {
    pub(in crate::admin) badge: Badge,
    /// Why it does not deliver; empty when it does.
    pub(in crate::admin) why: String,
}

/// Where `subscription` stands at `now`.
pub(in crate::admin) fn state(subscription: &EventSubscription, now: Timestamp) -> State {
    if let Some(at) = subscription.definition.expires_at
        && subscription.is_expired(now)
    {
        return State {
            badge: Badge::new(Tone::Neutral, "Expired"),
            why: format!("It has matched nothing since {at}."),
        };
    }
    let validation = &subscription.validation;
    let said = validation.failure.as_deref();
    State {
        badge: Badge::new(tone(validation.state), word(validation.state)),
        why: said.map_or_else(|| unsaid(validation.state).to_owned(), sentence),
    }
}

fn tone(state: ValidationState) -> Tone {
    match state {
        ValidationState::Succeeded => Tone::Good,
        ValidationState::Failed => Tone::Bad,
        ValidationState::Creating
        | ValidationState::Updating
        | ValidationState::AwaitingManualAction => Tone::Waiting,
    }
}

/// What is to be said of a handshake that has left nothing to say.
fn unsaid(state: ValidationState) -> &'static str {
    match state {
        ValidationState::Creating | ValidationState::Updating => {
            "The webhook is being asked whether it wants events."
        }
        ValidationState::AwaitingManualAction
        | ValidationState::Succeeded
        | ValidationState::Failed => "",
    }
}

/// The state in words of ours; Azure's are on the page of the subscription.
fn word(state: ValidationState) -> &'static str {
    match state {
        ValidationState::Creating | ValidationState::Updating => "Validating",
        ValidationState::AwaitingManualAction => "Awaits confirmation",
        ValidationState::Succeeded => "Active",
        ValidationState::Failed => "Validation failed",
    }
}
