//! Deleting an event subscription, after a question.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect};

use crate::admin::bare::draw;
use crate::admin::error::PageResult;
use crate::admin::frame::Frame;
use crate::admin::pages::confirm::Confirm;
use crate::admin::paths::{subscription_page, topic_page};
use crate::admin::security::csrf::Submitted;
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::widgets::Flash;
use crate::admin::widgets::print;
use crate::model::destination::DeliveryMode;
use crate::model::subscription::OnDelete;

/// Asks, with what would be lost.
pub(crate) async fn ask_to_delete(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path((topic, name)): Path<(String, String)>,
) -> PageResult {
    let (topic, subscription) = site.subscription(&topic, &name)?;
    let depths = site.views.depths(vec![subscription.id]).await?;
    let depth = depths.first().copied().unwrap_or_default();
    let pending = depth.pending;
    let pending = print::plural(
        pending,
        "delivery that still waits",
        "deliveries that still wait",
    );
    let dead = print::plural(depth.dead_letters, "dead letter", "dead letters");
    let name = subscription.name.as_str();
    Ok(draw(&Confirm {
        frame: Frame::new(&visitor, format!("Delete event subscription {name}?")),
        consequences: vec![
            format!("{pending} would be dropped, with a record."),
            format!("{dead} would stay for reading, but could not be resubmitted any more."),
            lost(subscription.definition.destination.delivery_mode()).to_owned(),
        ],
        button: "Delete",
        dangerous: true,
        back: subscription_page(topic.topic.name.as_str(), name),
        action: visitor.path.clone(),
    }))
}

/// What nobody would get any more.
fn lost(mode: DeliveryMode) -> &'static str {
    match mode {
        DeliveryMode::Push => "New events of the topic would not be sent to its webhook.",
        DeliveryMode::Queue => "New events of the topic would not wait for its receivers.",
    }
}

/// Deletes.
pub(crate) async fn delete(
    State(site): State<Arc<Site>>,
    Path((topic, name)): Path<(String, String)>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let (topic, subscription) = site.subscription(&topic, &name)?;
    let (topic, name) = (&topic.topic.name, &subscription.name);
    site.broker
        .delete_subscription(&visitor.caller, topic, name, OnDelete::Discard)
        .await?;
    visitor
        .tell(Flash::done(format!(
            "Event subscription {name} has been deleted."
        )))
        .await?;
    Ok(Redirect::to(&topic_page(topic.as_str())).into_response())
}
