//! What can be done with event subscriptions.

use crate::admin::lists::bulk::Bulk;
use crate::admin::page::*;
use crate::admin::pages::subscriptions::Subscription;
use crate::admin::pages::topics::dropped;
use crate::admin::paths::topic_page;
use crate::model::destination::DeliveryMode;
use crate::model::subscription::{OnDelete, ValidationState};

/// Asks the endpoint again whether it wants events.
pub(crate) async fn validate(call: Call<Subscription>) -> PageResult<Done> {
    let (topic, name) = call.of.names();
    let (_, validated) = call.broker.validate_again(call.by(), topic, name).await?;
    Ok(match validated.validation.state {
        ValidationState::Succeeded if !call.of.subscription.validation.validated_once => {
            Done::well(
                "The endpoint agreed to receive events. Events published before that were not kept \
             for it; each can be sent to it from its own page.",
            )
        }
        ValidationState::Succeeded => Done::well("The endpoint agreed to receive events."),
        ValidationState::Failed => Done::failed("Validation failed."),
        ValidationState::Creating
        | ValidationState::Updating
        | ValidationState::AwaitingManualAction => {
            Done::well("A validation request was sent to the endpoint.")
        }
    })
}

/// Stops the deliveries for a while; what is matched meanwhile is held.
pub(crate) async fn pause(call: Call<Subscription>) -> PageResult<Done> {
    let (topic, name) = call.of.names();
    call.broker
        .pause_subscription(call.by(), topic, name)
        .await?;
    Ok(Done::well(
        "Paused. Events are held, and their time to live goes on.",
    ))
}

/// Lets the deliveries of a paused or disabled subscription go on.
pub(crate) async fn resume(call: Call<Subscription>) -> PageResult<Done> {
    let (topic, name) = call.of.names();
    call.broker
        .resume_subscription(call.by(), topic, name)
        .await?;
    Ok(Done::well("Resumed."))
}

/// Makes one attempt now, on probation its probe.
pub(crate) async fn retry_now(call: Call<Subscription>) -> PageResult<Done> {
    if !call.of.subscription.may_send() {
        return Ok(Done::failed("Nothing is sent to this endpoint now."));
    }
    let id = call.of.subscription.id;
    let is_made = call.broker.retry_subscription_now(call.by(), id).await?;
    Ok(if is_made {
        Done::well("One attempt is made now. If it succeeds, the others follow.")
    } else {
        Done::failed("Nothing is pending.")
    })
}

pub(crate) async fn ask_to_delete(call: Call<Subscription>) -> PageResult<Question> {
    let subscription = &call.of.subscription;
    let depths = call.views.depths(vec![subscription.id]).await?;
    let depth = depths.first().copied().unwrap_or_default();
    let dead = print::plural(depth.dead_letters, "dead letter", "dead letters");
    Ok(
        Question::new(format!("Delete event subscription {}?", subscription.name))
            .would(dropped(depth.pending))
            .would(format!(
                "{dead} would stay readable, but could not be resubmitted."
            ))
            .would(lost(subscription.definition.destination.delivery_mode()))
            .dangerously(),
    )
}

pub(crate) async fn delete(call: Call<Subscription>) -> PageResult<Done> {
    let (topic, name) = call.of.names();
    let deleted = call
        .broker
        .delete_subscription(call.by(), topic, name, OnDelete::Discard);
    deleted.await?;
    let said = format!("Event subscription {name} has been deleted.");
    Ok(Done::well(said).leading_to(topic_page(topic.as_str())))
}

/// What nobody would get any more.
fn lost(mode: DeliveryMode) -> &'static str {
    match mode {
        DeliveryMode::Push => "New events of the topic would not be sent to its endpoint.",
        DeliveryMode::Queue => "New events of the topic would not be kept for its receivers.",
    }
}

/// Pauses those that are selected.
pub(crate) static PAUSE_SELECTED: Bulk<Subscription> = Bulk {
    key: "pause",
    verb: "Pause",
    label: "Pause selected",
    changes: |each| !each.subscription.definition.paused,
    consequence: "Their events are held, and their time to live goes on.",
};

/// Resumes those that are selected.
pub(crate) static RESUME_SELECTED: Bulk<Subscription> = Bulk {
    key: "resume",
    verb: "Resume",
    label: "Resume selected",
    changes: |each| {
        let definition = &each.subscription.definition;
        definition.paused || definition.disabled.is_some()
    },
    consequence: "What is held is delivered.",
};
