//! Deleting a namespace, after a question.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect};

use crate::admin::action::Confirm;
use crate::admin::bare::draw;
use crate::admin::error::PageResult;
use crate::admin::frame::Frame;
use crate::admin::pages::namespaces::Content;
use crate::admin::pages::queue_depths::QueueDepths;
use crate::admin::paths::namespace_page;
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
    Path(name): Path<String>,
) -> PageResult {
    let entry = site.namespace(&name)?;
    let registry = site.broker.registry();
    let depths = QueueDepths::of_all(&site, &registry).await?;
    let content = Content::of(&entry, &registry, &depths);
    let topics = print::plural(content.topics, "topic", "topics");
    let subscriptions = print::plural(
        content.subscriptions,
        "event subscription",
        "event subscriptions",
    );
    let pending = print::plural(
        content.pending,
        "delivery that still waits",
        "deliveries that still wait",
    );
    let dead = print::plural(content.dead_letters, "dead letter", "dead letters");
    let name = entry.namespace.name.as_str();
    Ok(draw(&Confirm {
        frame: Frame::new(&visitor, format!("Delete namespace {name}?")),
        consequences: vec![
            format!("{topics} with {subscriptions} would be deleted with it."),
            format!("{pending} would be dropped, with a record."),
            format!("{dead} would stay for reading, but could not be resubmitted any more."),
            "Publishers and receivers would be rejected: all of its keys are gone for good."
                .to_owned(),
        ],
        button: "Delete",
        dangerous: true,
        back: namespace_page(name),
        action: visitor.path.clone(),
    }))
}

/// Deletes.
pub(crate) async fn delete(
    State(site): State<Arc<Site>>,
    Path(name): Path<String>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let entry = site.namespace(&name)?;
    let name = &entry.namespace.name;
    site.broker
        .delete_namespace(&visitor.caller, name, OnDelete::Discard)
        .await?;
    visitor
        .flash(Flash::done(format!("Namespace {name} has been deleted.")))
        .await?;
    Ok(Redirect::to("/admin/namespaces").into_response())
}
