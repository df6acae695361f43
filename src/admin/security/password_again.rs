//! Asks for the password again before a secret is shown or somebody's rights change: whoever finds a browser
//! that somebody left open gets no further (docs/security.md B3; ASVS 7.5.1 and 7.5.3).

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::StatusCode;

use crate::admin::bare::draw_with;
use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::field::{Field, Problem, mark};
use crate::admin::forms::form::{Form, Refusal};
use crate::admin::frame::Frame;
use crate::admin::security::client::Client;
use crate::admin::security::csrf;
use crate::admin::security::own_password::{
    Denied, PASSWORD_FIELD, knows_password, password_field,
};
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;

/// How long a sign-in, or the password typed again, is enough: as long as one sitting at such a task takes,
/// and half of what ends an idle session.
pub(crate) const CONFIRMED_FOR: Duration = Duration::from_secs(15 * 60);

/// Lets a form pass if the password was typed lately, or is in it.
pub(crate) async fn ask(
    State(site): State<Arc<Site>>,
    client: Client,
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
    if !form.has(PASSWORD_FIELD) {
        return Ok(draw(&visitor, &form, None));
    }
    match knows_password(&site, &visitor, &client, form.raw(PASSWORD_FIELD)).await? {
        Ok(()) => {
            visitor.confirm().await?;
            Ok(next.run(Request::from_parts(parts, body.into())).await)
        }
        Err(Denied::TooOften(answer)) => Ok(answer),
        Err(Denied::Wrong(refusal)) => Ok(draw(&visitor, &form, Some(refusal))),
    }
}

#[derive(Template)]
#[template(path = "pages/password_again.html")]
struct PasswordAgainPage<'a> {
    frame: Frame,
    action: &'a str,
    /// Minutes for which it is not asked again.
    minutes: u64,
    problem: Option<Problem>,
    field: [Field; 1],
    /// What was in the form, to be sent along.
    others: Vec<(&'a str, &'a str)>,
}

fn draw(visitor: &Visitor, form: &Form, refusal: Option<Refusal>) -> Response {
    let mut field = [password_field()];
    let others = form.fields().filter(|(name, _)| *name != PASSWORD_FIELD);
    let page = PasswordAgainPage {
        frame: Frame::new(visitor, "Confirm your password"),
        action: &visitor.path,
        minutes: CONFIRMED_FOR.as_secs() / 60,
        problem: mark(field.iter_mut(), refusal),
        others: others.collect(),
        field,
    };
    // Nothing has been done yet.
    draw_with(StatusCode::FORBIDDEN, &page)
}
