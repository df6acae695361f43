//! The second step of signing in: a code from an app, or a recovery code.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use tower_sessions::Session;

use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::form::{Form, Refusal};
use crate::admin::security::client::Client;
use crate::admin::security::open_form::Purpose;
use crate::admin::security::session::Awaited;
use crate::admin::security::{csrf, login, session};
use crate::admin::site::Site;

pub(crate) async fn show(State(site): State<Arc<Site>>, session: Session) -> PageResult {
    let awaited = session::awaited(&site, &session).await?;
    Ok(awaited.map_or_else(start_again, |awaited| draw_form(&awaited, None)))
}

pub(crate) async fn submit(
    State(site): State<Arc<Site>>,
    session: Session,
    client: Client,
    form: Form,
) -> PageResult {
    let Some(awaited) = session::awaited(&site, &session).await? else {
        return Ok(start_again());
    };
    if !csrf::is_token(form.raw("csrf"), &awaited.csrf) {
        return Err(PageError::BadToken);
    }
    let user = site.people.accounts().user(awaited.user()).await?;
    let Some(user) = user.filter(|user| user.disabled_at.is_none()) else {
        return Ok(start_again());
    };
    // Counted apart from passwords: whoever knows the password must not start these afresh.
    let account = format!("second factor of {}", user.id.0);
    let (throttle, now) = (&site.throttle, site.broker.clock().now());
    throttle.begin(&account, client.address, now).await?;
    let code = form.text("code");
    if !site.people.passes_second_factor(&user, code).await? {
        tracing::warn!(
            user.name = user.name,
            "a sign-in failed by its second factor"
        );
        let refusal = Refusal::of("code", "This is not the code, or it was used already.");
        return Ok(draw_form(&awaited, Some(refusal)));
    }
    throttle.succeeded(&account, client.address).await?;
    session::sign_in(&site, &session, &user, client).await?;
    Ok(Redirect::to(login::after_login(&awaited.next)).into_response())
}

fn start_again() -> Response {
    Redirect::to("/admin/login").into_response()
}

fn draw_form(awaited: &Awaited, refusal: Option<Refusal>) -> Response {
    Purpose::SecondFactor.draw(&awaited.csrf, "", refusal)
}
