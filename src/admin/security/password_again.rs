//! Asks for the password again before a secret is shown or a user's rights change, so that an unattended browser gives
//! no access to these (docs/security.md B3; ASVS 7.5.1 and 7.5.3).

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request, State};
use axum::middleware::Next;
use http::StatusCode;

use crate::admin::bare::draw_with;
use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::filled::FilledForm;
use crate::admin::forms::form::{Form, FormError};
use crate::admin::frame::PageFrame;
use crate::admin::security::session::Visitor;
use crate::admin::security::{csrf, provider};
use crate::admin::site::Site;
use crate::admin::widgets::filters;
use crate::model::identity::UserSource;

/// The time for which a sign-in or a retyped password counts as recent: long enough for one session of such tasks, and
/// half of the idle timeout of a session.
pub(crate) const CONFIRMED_FOR: Duration = Duration::from_secs(15 * 60);

/// The field for the present password in forms that also have another password field.
pub(crate) const PASSWORD_FIELD: &str = "own-password";

/// Rejects the form if its field does not hold the visitor's password.
pub(crate) async fn check_password(
    site: &Site,
    visitor: &Visitor,
    form: &Form,
    field: &str,
) -> PageResult<()> {
    let (user, address) = (&visitor.user, visitor.caller.address);
    let known = site
        .people
        .knows_password::<PageError>(user, form.raw(field), address);
    if known.await? {
        return Ok(());
    }
    Err(FormError::of(field, "This is not your password.").into())
}

/// Accepts a form if the password was typed recently or is in the form.
pub(crate) async fn ask(
    State(site): State<Arc<Site>>,
    visitor: Visitor,
    request: Request,
    next: Next,
) -> PageResult {
    let is_confirmed = || visitor.now.since(visitor.confirmed_at) < CONFIRMED_FOR;
    // A reverse proxy authenticates every request, and cannot be asked for a new confirmation.
    let is_vouched_for = visitor.source == UserSource::Proxy;
    if request.method().is_safe() || is_vouched_for || is_confirmed() {
        return Ok(next.run(request).await);
    }
    let (parts, body) = request.into_parts();
    let body = Bytes::from_request(Request::from_parts(parts.clone(), body), &())
        .await
        .map_err(|error| PageError::of_body(error.body_text()))?;
    let sent = Request::from_parts(parts.clone(), body.clone().into());
    let form = Form::from_request(sent, &()).await?;
    csrf::check(&form, &visitor.csrf)?;
    let is_external = visitor.source != UserSource::Local;
    let elsewhere = is_external.then(|| {
        let name = site.sign_in.provider_name().to_owned();
        (provider::path_again(&visitor.path), name)
    });
    let mut form_errors = Vec::new();
    if form.has(PASSWORD_FIELD) && !is_external {
        match check_password(&site, &visitor, &form, PASSWORD_FIELD).await {
            Ok(()) => {
                visitor.confirm().await?;
                return Ok(next.run(Request::from_parts(parts, body.into())).await);
            }
            Err(error) => form_errors = error.in_form()?,
        }
    }
    let title = if is_external {
        "Confirm that it is you"
    } else {
        "Confirm your password"
    };
    let page = PasswordAgainPage {
        frame: PageFrame::new(&visitor, title),
        elsewhere,
        form: FilledForm::with(()).with_faults(form_errors),
        sent: &form,
    };
    // No change has been made at this point.
    Ok(draw_with(StatusCode::FORBIDDEN, &page))
}

#[derive(Template)]
#[template(path = "pages/password_again.html")]
struct PasswordAgainPage<'a> {
    frame: PageFrame,
    /// The address and label of another way to sign in again, for a user without a password here.
    elsewhere: Option<(String, String)>,
    form: FilledForm<()>,
    sent: &'a Form,
}
