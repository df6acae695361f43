//! What can be done with event subscriptions.

use crate::admin::action::{Action, Done, Question};
use crate::admin::lists::bulk::Bulk;
use crate::admin::page::*;
use crate::admin::pages::subscriptions::Subscription;
use crate::admin::pages::topics::dropped;
use crate::admin::paths::topic_page;
use crate::model::destination::DeliveryMode;
use crate::model::subscription::{OnDelete, ValidationState};

/// Asks the endpoint again whether it wants events.
pub(crate) static VALIDATE: Action<Subscription> = Action {
    key: "validate",
    label: "Validate again",
    role: Role::Operator,
    ask: None,
    run: |call| {
        Box::pin(async move {
            let had_agreed = call.of.subscription.validation.validated_once;
            let (topic, name) = call.of.names();
            let (_, validated) = call
                .site
                .broker
                .validate_again(&call.visitor.caller, topic, name)
                .await?;
            Ok(match validated.validation.state {
                ValidationState::Succeeded if !had_agreed => Done::well(
                    "The endpoint agreed to receive events. Events published before that were not \
                     kept for it; each can be sent to it from its own page.",
                ),
                ValidationState::Succeeded => Done::well("The endpoint agreed to receive events."),
                ValidationState::Failed => Done::failed("Validation failed."),
                ValidationState::Creating
                | ValidationState::Updating
                | ValidationState::AwaitingManualAction => {
                    Done::well("A validation request was sent to the endpoint.")
                }
            })
        })
    },
};

/// Stops the deliveries for a while; what is matched meanwhile is held.
pub(crate) static PAUSE: Action<Subscription> = Action {
    key: "pause",
    label: "Pause",
    role: Role::Operator,
    ask: None,
    run: |call| {
        Box::pin(async move {
            let (topic, name) = call.of.names();
            call.site
                .broker
                .pause_subscription(&call.visitor.caller, topic, name)
                .await?;
            Ok(Done::well(
                "Paused. Events are held, and their time to live goes on.",
            ))
        })
    },
};

/// Lets the deliveries of a paused or disabled subscription go on.
pub(crate) static RESUME: Action<Subscription> = Action {
    key: "resume",
    label: "Resume",
    role: Role::Operator,
    ask: None,
    run: |call| {
        Box::pin(async move {
            let (topic, name) = call.of.names();
            call.site
                .broker
                .resume_subscription(&call.visitor.caller, topic, name)
                .await?;
            Ok(Done::well("Resumed."))
        })
    },
};

/// Makes one attempt now, on probation its probe.
pub(crate) static RETRY_NOW: Action<Subscription> = Action {
    key: "retry-now",
    label: "Retry now",
    role: Role::Operator,
    ask: None,
    run: |call| {
        Box::pin(async move {
            let id = call.of.subscription.id;
            if !call.of.subscription.may_send() {
                return Ok(Done::failed("Nothing is sent to this endpoint now."));
            }
            let by = &call.visitor.caller;
            Ok(
                match call.site.broker.retry_subscription_now(by, id).await? {
                    true => {
                        Done::well("One attempt is made now. If it succeeds, the others follow.")
                    }
                    false => Done::failed("Nothing is pending."),
                },
            )
        })
    },
};

/// Deletes it, after a question that counts what would be lost.
pub(crate) static DELETE: Action<Subscription> = Action {
    key: "delete",
    label: "Delete",
    role: Role::Admin,
    ask: Some(|call| {
        Box::pin(async move {
            let subscription = &call.of.subscription;
            let depths = call.site.views.depths(vec![subscription.id]).await?;
            let depth = depths.first().copied().unwrap_or_default();
            let dead = print::plural(depth.dead_letters, "dead letter", "dead letters");
            Ok(Question {
                title: format!("Delete event subscription {}?", subscription.name),
                consequences: vec![
                    dropped(depth.pending),
                    format!("{dead} would stay readable, but could not be resubmitted."),
                    lost(subscription.definition.destination.delivery_mode()).to_owned(),
                ],
                dangerous: true,
            })
        })
    }),
    run: |call| {
        Box::pin(async move {
            let (topic, name) = call.of.names();
            let deleted = call.site.broker.delete_subscription(
                &call.visitor.caller,
                topic,
                name,
                OnDelete::Discard,
            );
            deleted.await?;
            let said = format!("Event subscription {name} has been deleted.");
            Ok(Done::well(said).leading_to(topic_page(topic.as_str())))
        })
    },
};

/// What nobody would get any more.
fn lost(mode: DeliveryMode) -> &'static str {
    match mode {
        DeliveryMode::Push => "New events of the topic would not be sent to its endpoint.",
        DeliveryMode::Queue => "New events of the topic would not be kept for its receivers.",
    }
}

/// Pauses those that are selected.
pub(crate) static PAUSE_SELECTED: Bulk<Subscription> = Bulk {
    action: &PAUSE,
    label: "Pause selected",
    changes: |each| !each.subscription.definition.paused,
    consequence: "Their events are held, and their time to live goes on.",
};

/// Resumes those that are selected.
pub(crate) static RESUME_SELECTED: Bulk<Subscription> = Bulk {
    action: &RESUME,
    label: "Resume selected",
    changes: |each| {
        let definition = &each.subscription.definition;
        definition.paused || definition.disabled.is_some()
    },
    consequence: "What is held is delivered.",
};
