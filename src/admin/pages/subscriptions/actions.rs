//! The actions on event subscriptions.

use super::Subscription;
use crate::admin::action::{Call, Deletable, Question};
use crate::admin::error::PageResult;
use crate::admin::lists::bulk::Bulk;
use crate::admin::pages::delivery::came_of;
use crate::admin::pages::topics::{DELIVERIES, losing};
use crate::admin::widgets::Flash;
use crate::model::destination::DeliveryMode;
use crate::model::subscription::{OnDelete, ValidationState};

pub(crate) async fn validate(call: Call<Subscription>) -> PageResult<Flash> {
    let (topic, name) = call.of.names();
    let (_, validated) = call.broker.validate_again(call.by(), topic, name).await?;
    Ok(match validated.validation.state {
        ValidationState::Failed => Flash::failed("Validation failed."),
        ValidationState::Succeeded if call.of.subscription.validation.validated_once => {
            Flash::done("Validation succeeded.")
        }
        ValidationState::Succeeded => Flash::done(
            "Validation succeeded. Events published before that were not kept for it; \
             each can be sent to it from its own page.",
        ),
        ValidationState::Creating
        | ValidationState::Updating
        | ValidationState::AwaitingManualAction => {
            Flash::done("A validation request was sent to the endpoint.")
        }
    })
}

/// Pauses the deliveries of an event subscription. Events that match during the pause are held.
pub(crate) async fn pause(call: Call<Subscription>) -> PageResult<Flash> {
    let (broker, (topic, name)) = (&call.broker, call.of.names());
    broker.pause_subscription(call.by(), topic, name).await?;
    Ok(Flash::done(format!("{name} is paused.")))
}

/// Resumes the deliveries of a paused or disabled event subscription.
pub(crate) async fn resume(call: Call<Subscription>) -> PageResult<Flash> {
    let (broker, (topic, name)) = (&call.broker, call.of.names());
    broker.resume_subscription(call.by(), topic, name).await?;
    Ok(Flash::done(format!("{name} is resumed.")))
}

/// Makes one delivery attempt now. If the endpoint is on probation, the attempt is its probe.
pub(crate) async fn retry_now(call: Call<Subscription>) -> PageResult<Flash> {
    let (of, since) = (&call.of.subscription, call.broker.clock().now());
    if !of.may_send() {
        return Ok(Flash::failed("Nothing is sent to this endpoint now."));
    }
    let tried = call.broker.retry_subscription_now(call.by(), of.id).await?;
    let Some(first) = tried else {
        return Ok(Flash::failed("Nothing is pending."));
    };
    came_of(&call, of.id, first, since).await
}

impl Deletable for Subscription {
    const NOUN: &'static str = "event subscription";

    async fn losing(call: &Call<Self>, question: Question) -> PageResult<Question> {
        let of = &call.of.subscription;
        let lost = match of.definition.destination.delivery_mode() {
            DeliveryMode::Push => "New events of the topic are not sent to its endpoint any more.",
            DeliveryMode::Queue => {
                "New events of the topic are not kept for its receivers any more."
            }
        };
        let depth = call.depth(of.id).await?;
        Ok(losing(question.would(lost), depth, &DELIVERIES))
    }

    async fn delete(call: &Call<Self>) -> PageResult<bool> {
        let (broker, (topic, name)) = (&call.broker, call.of.names());
        let deleted = broker.delete_subscription(call.by(), topic, name, OnDelete::Discard);
        Ok(deleted.await?)
    }
}

pub(crate) static PAUSE_SELECTED: Bulk<Subscription> = Bulk {
    key: "pause",
    verb: "Pause",
    changes: |each| !each.subscription.definition.options.paused,
    consequence: "Their deliveries are held, and their time to live keeps running.",
    otherwise: "Nothing to pause. All of the selected subscriptions are paused.",
};

pub(crate) static RESUME_SELECTED: Bulk<Subscription> = Bulk {
    key: "resume",
    verb: "Resume",
    changes: |each| {
        let definition = &each.subscription.definition;
        definition.options.paused || definition.disabled.is_some()
    },
    consequence: "What is held is delivered at once.",
    otherwise: "Nothing to resume. None of the selected subscriptions is paused or disabled.",
};
