//! What can be done with event subscriptions.

use super::*;
use crate::admin::pages::topics::losing;

pub(crate) async fn validate(call: Call<Subscription>) -> PageResult<Done> {
    let (topic, name) = call.of.names();
    let (_, validated) = call.broker.validate_again(call.by(), topic, name).await?;
    Ok(match validated.validation.state {
        ValidationState::Failed => Done::failed("Validation failed."),
        ValidationState::Succeeded if call.of.subscription.validation.validated_once => {
            Done::well("The endpoint agreed to receive events.")
        }
        ValidationState::Succeeded => Done::well(
            "The endpoint agreed to receive events. Events published before that were not kept for it; \
             each can be sent to it from its own page.",
        ),
        ValidationState::Creating
        | ValidationState::Updating
        | ValidationState::AwaitingManualAction => {
            Done::well("A validation request was sent to the endpoint.")
        }
    })
}

/// Stops the deliveries for a while; what is matched meanwhile is held.
pub(crate) async fn pause(call: Call<Subscription>) -> PageResult<Done> {
    let (broker, (topic, name)) = (&call.broker, call.of.names());
    broker.pause_subscription(call.by(), topic, name).await?;
    Ok(Done::well(
        "Paused. Events are held, and their time to live goes on.",
    ))
}

/// Lets the deliveries of a paused or disabled subscription go on.
pub(crate) async fn resume(call: Call<Subscription>) -> PageResult<Done> {
    let (broker, (topic, name)) = (&call.broker, call.of.names());
    broker.resume_subscription(call.by(), topic, name).await?;
    Ok(Done::well("Resumed."))
}

/// Makes one attempt now, on probation its probe.
pub(crate) async fn retry_now(call: Call<Subscription>) -> PageResult<Done> {
    let of = &call.of.subscription;
    if !of.may_send() {
        return Ok(Done::failed("Nothing is sent to this endpoint now."));
    }
    if !call.broker.retry_subscription_now(call.by(), of.id).await? {
        return Ok(Done::failed("Nothing is pending."));
    }
    Ok(Done::well(
        "One attempt is made now. If it succeeds, the others follow.",
    ))
}

pub(crate) async fn ask_to_delete(call: Call<Subscription>) -> PageResult<Question> {
    let of = &call.of.subscription;
    let depth = call.views.depths(vec![of.id]).await?;
    let depth = depth.first().copied().unwrap_or_default();
    let lost = match of.definition.destination.delivery_mode() {
        DeliveryMode::Push => "New events of the topic are not sent to its endpoint any more.",
        DeliveryMode::Queue => "New events of the topic are not kept for its receivers any more.",
    };
    let question = Question::new(format!("Delete event subscription {}?", of.name));
    let question = question.would(lost);
    Ok(losing(question, depth))
}

pub(crate) async fn delete(call: Call<Subscription>) -> PageResult<Done> {
    let (broker, (topic, name)) = (&call.broker, call.of.names());
    let deleted = broker.delete_subscription(call.by(), topic, name, OnDelete::Discard);
    deleted.await?;
    let said = format!("Event subscription {name} has been deleted.");
    Ok(Done::well(said).leading_to(paths::topic_page(topic.as_str())))
}

pub(crate) static PAUSE_SELECTED: Bulk<Subscription> = Bulk {
    key: "pause",
    verb: "Pause",
    changes: |each| !each.subscription.definition.paused,
    consequence: "Their events are held, and their time to live goes on.",
};

pub(crate) static RESUME_SELECTED: Bulk<Subscription> = Bulk {
    key: "resume",
    verb: "Resume",
    changes: |each| {
        let definition = &each.subscription.definition;
        definition.paused || definition.disabled.is_some()
    },
    consequence: "What is held is delivered.",
};
