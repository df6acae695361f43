//! Deleting a topic, after a question.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect};

use crate::admin::action::Confirm;
use crate::admin::bare::draw;
use crate::admin::error::PageResult;
use crate::admin::frame::Frame;
use crate::admin::pages::queue_depths::QueueDepths;
use crate::admin::paths::topic_page;
use crate::admin::security::csrf::Submitted;
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::widgets::Flash;
use crate::admin::widgets::print;
use crate::model::subscription::OnDelete;

/// Asks, with what would be lost.
pub(crate) async fn ask_to_delete(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path(topic): Path<String>,
) -> PageResult {
    let topic = site.made_topic(&topic)?;
    let name = &topic.topic.name;
    let pending = QueueDepths::of_topic(&site, &topic)
        .await?
        .topic(&topic)
        .pending;
    let subscriptions = u64::try_from(topic.subscriptions.size()).unwrap_or(u64::MAX);
    let subscriptions = print::plural(subscriptions, "event subscription", "event subscriptions");
    let pending = print::plural(
        pending,
        "delivery that still waits",
        "deliveries that still wait",
    );
    Ok(draw(&Confirm {
        frame: Frame::new(&visitor, format!("Delete topic {name}?")),
        consequences: vec![
            format!("{subscriptions} would be deleted with it."),
            format!("{pending} would be dropped, with a record."),
            "Publishers would be rejected: its keys are gone for good.".to_owned(),
            "Events and dead letters stay where they are, for reading.".to_owned(),
        ],
        button: "Delete",
        dangerous: true,
        back: topic_page(name.as_str()),
        action: visitor.path.clone(),
    }))
}

/// Deletes.
pub(crate) async fn delete(
    State(site): State<Arc<Site>>,
    Path(topic): Path<String>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let topic = site.made_topic(&topic)?;
    let name = &topic.topic.name;
    site.broker
        .delete_topic(&visitor.caller, name, OnDelete::Discard)
        .await?;
    visitor
        .flash(Flash::done(format!("Topic {name} has been deleted.")))
        .await?;
    Ok(Redirect::to("/admin/topics").into_response())
}
