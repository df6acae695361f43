//! Forgetting the requests of an inspector, and deleting it, after a question.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};

use crate::admin::action::Confirm;
use crate::admin::bare::draw;
use crate::admin::error::PageResult;
use crate::admin::frame::Frame;
use crate::admin::paths::inspector_page;
use crate::admin::security::csrf::Submitted;
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::widgets::Flash;
use crate::admin::widgets::print;
use crate::model::inspector::Inspector;

/// Asks, with what would be lost.
pub(crate) async fn ask_to_clear(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path(name): Path<String>,
) -> PageResult {
    let inspector = site.inspector(&name).await?;
    let then = "Its answers would begin again with the first one.".to_owned();
    Ok(ask(&visitor, &inspector, "Clear", then))
}

/// Forgets its requests.
pub(crate) async fn clear(
    State(site): State<Arc<Site>>,
    Path(name): Path<String>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let name = site.inspector(&name).await?.name;
    let cleared = site.broker.clear_inspector(&visitor.caller, &name).await?;
    let cleared = u64::try_from(cleared).unwrap_or(u64::MAX);
    let message = print::plural(cleared, "request has been", "requests have been");
    visitor
        .flash(Flash::done(format!("{message} forgotten.")))
        .await?;
    Ok(Redirect::to(&inspector_page(&name)).into_response())
}

/// Asks, with what would be lost.
pub(crate) async fn ask_to_delete(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path(name): Path<String>,
) -> PageResult {
    let inspector = site.inspector(&name).await?;
    let subscriptions = site.broker.subscriptions_of_inspector(&inspector.name);
    let subscriptions = print::plural(
        u64::try_from(subscriptions.len()).unwrap_or(u64::MAX),
        "event subscription delivers to it and would",
        "event subscriptions deliver to it and would",
    );
    let then = format!("{subscriptions} be answered with 404 from then on.");
    Ok(ask(&visitor, &inspector, "Delete", then))
}

/// Deletes it.
pub(crate) async fn delete(
    State(site): State<Arc<Site>>,
    Path(name): Path<String>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let name = site.inspector(&name).await?.name;
    site.broker.delete_inspector(&visitor.caller, &name).await?;
    let message = format!("Inspector {name} has been deleted.");
    visitor.flash(Flash::done(message)).await?;
    Ok(Redirect::to("/admin/inspectors").into_response())
}

/// The question before `button`, with what happens besides that its requests are forgotten.
fn ask(visitor: &Visitor, inspector: &Inspector, button: &'static str, then: String) -> Response {
    let name = &inspector.name;
    draw(&Confirm {
        frame: Frame::new(visitor, format!("{button} inspector {name}?")),
        consequences: vec![forgotten(inspector), then],
        button,
        dangerous: true,
        back: inspector_page(name),
        action: visitor.path.clone(),
    })
}

fn forgotten(inspector: &Inspector) -> String {
    let kept = print::plural(inspector.kept, "request", "requests");
    format!("{kept} would be forgotten.")
}
