//! Asks for the password again before a secret is shown or somebody's rights change: whoever finds a browser
//! that somebody left open gets no further (docs/security.md B3; ASVS 7.5.1 and 7.5.3).

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request, State};
use axum::middleware::Next;
use http::StatusCode;

use crate::admin::bare::draw_with;
use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::filled::Filled;
use crate::admin::forms::form::{Form, Refusal};
use crate::admin::frame::Frame;
use crate::admin::security::csrf;
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;

/// How long a sign-in, or the password typed again, is enough: as long as one sitting at such a task takes,
/// and half of what ends an idle session.
pub(crate) const CONFIRMED_FOR: Duration = Duration::from_secs(15 * 60);

/// The field for the present password in forms that have another one as well.
pub(crate) const PASSWORD_FIELD: &str = "own-password";

/// What is wrong with the own password in a form, if anything is.
pub(crate) async fn wrong_password(
    site: &Site,
    visitor: &Visitor,
    form: &Form,
) -> PageResult<Option<Refusal>> {
    let (name, address) = (&visitor.name, visitor.caller.address);
    site.throttle.begin(name, address, visitor.now).await?;
    let password = form.raw(PASSWORD_FIELD);
    if !site.people.knows_password(&visitor.user, password).await {
        let refusal = Refusal::of(PASSWORD_FIELD, "This is not your password.");
        return Ok(Some(refusal));
    }
    site.throttle.succeeded(name, address).await?;
    Ok(None)
}

/// Lets a form pass if the password was typed lately, or is in it.
pub(crate) async fn ask(
    State(site): State<Arc<Site>>,
    visitor: Visitor,
    request: Request,
    next: Next,
) -> PageResult {
    if request.method().is_safe() || visitor.now.since(visitor.confirmed_at) < CONFIRMED_FOR {
        return Ok(next.run(request).await);
    }
    let (parts, body) = request.into_parts();
    let body = Bytes::from_request(Request::from_parts(parts.clone(), body), &()).await;
    let body = body.map_err(|error| PageError::Unreadable(error.body_text()))?;
    let form = Form::read(&parts.headers, &body)?;
    if !csrf::is_token(form.raw("csrf"), &visitor.csrf) {
        return Err(PageError::BadToken);
    }
    let refusal = if form.has(PASSWORD_FIELD) {
        let refusal = wrong_password(&site, &visitor, &form).await?;
        if refusal.is_none() {
            visitor.confirm().await?;
            return Ok(next.run(Request::from_parts(parts, body.into())).await);
        }
        refusal
    } else {
        None
    };
    let page = PasswordAgainPage {
        frame: Frame::new(&visitor, "Confirm your password"),
        form: Filled::with(()).with_faults(refusal),
        sent: &form,
    };
    // Nothing has been done yet.
    Ok(draw_with(StatusCode::FORBIDDEN, &page))
}

#[derive(Template)]
#[template(path = "pages/password_again.html")]
struct PasswordAgainPage<'a> {
    frame: Frame,
    form: Filled<()>,
    /// Sent along.
    sent: &'a Form,
}
