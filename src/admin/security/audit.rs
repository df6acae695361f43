//! Notes in the audit log what a visitor changes.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::LOCATION;

use crate::admin::security::client::Client;
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::broker::trail::{Deed, Made};
use crate::model::audit::Actor;

/// Says in an answer's extensions that there is nothing to note: a form was only drawn again, or whoever
/// answers has noted what was done.
#[derive(Clone, Copy)]
pub(crate) struct NothingToNote;

/// Notes what a visitor changes.
pub(crate) async fn note(
    State(site): State<Arc<Site>>,
    visitor: Visitor,
    client: Client,
    request: Request,
    next: Next,
) -> Response {
    if request.method().is_safe() {
        return next.run(request).await;
    }
    let deed = deed(
        &visitor.name,
        &client,
        request.method().as_str(),
        &visitor.path,
    );
    // What a form for something new stands below is not what it makes.
    let before = match is_for_new(&deed.path) {
        true => None,
        false => site.trail.look(&deed.path).await,
    };
    let response = next.run(request).await;
    let status = response.status();
    let is_to_note = response.extensions().get::<NothingToNote>().is_none();
    if is_to_note && (status.is_success() || status.is_redirection()) {
        let subject = made(&deed.path, &response).unwrap_or_else(|| deed.path.clone());
        let after = site.trail.look(&subject).await;
        site.trail.note(deed, before, after).await;
    }
    response
}

/// The page of what a form has made: a form for something new leads to it.
fn made(path: &str, response: &Response) -> Option<String> {
    if let Some(Made(path)) = response.extensions().get() {
        return Some(path.clone());
    }
    let leads_to = response.headers().get(LOCATION);
    let leads_to = leads_to.filter(|_| is_for_new(path))?;
    leads_to.to_str().ok().map(str::to_owned)
}

/// Whether the page at `path` has a form for something new.
fn is_for_new(path: &str) -> bool {
    let last = path.rsplit('/').next();
    last.is_some_and(|last| last.starts_with("new-"))
}

/// What the user of that name does.
pub(crate) fn deed(user: &str, client: &Client, method: &str, path: &str) -> Deed {
    Deed {
        actor: Actor::User(user.to_owned()),
        address: client.address.map(|address| address.to_string()),
        method: method.to_owned(),
        path: path.to_owned(),
    }
}
