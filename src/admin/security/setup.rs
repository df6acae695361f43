//! The first run: a link that is printed once, and lets whoever holds it make the first account.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use serde::Deserialize;
use tower_sessions::Session;

use crate::admin::bare::{Bare, draw_with};
use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::form::{Form, Refusal};
use crate::admin::security::client::Client;
use crate::admin::security::open_form::{Purpose, fault};
use crate::admin::security::session;
use crate::admin::site::Site;
use crate::model::audit::Caller;

/// What a link carries.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Token {
    pub(crate) token: String,
}

pub(crate) async fn show(
    State(site): State<Arc<Site>>,
    Query(Token { token }): Query<Token>,
) -> PageResult {
    Ok(if site.is_claimed().await? {
        used_link()
    } else if site.setup.admits(&token) {
        draw_form(&token, &Form::default(), None)
    } else {
        invalid_link()
    })
}

pub(crate) async fn submit(
    State(site): State<Arc<Site>>,
    session: Session,
    client: Client,
    form: Form,
) -> PageResult {
    let token = form.raw("token");
    if !site.is_claimed().await? && !site.setup.admits(token) {
        return Ok(invalid_link());
    }
    let (name, password) = (form.text("name"), form.raw("password"));
    let by = Caller::user(name, client.address, site.people.now());
    let user = match site.people.claim(by, name, password).await {
        Ok(Some(user)) => site.people.accounts().user(user).await?,
        Ok(None) => return Ok(used_link()),
        Err(error) => return Ok(draw_form(token, &form, Some(fault(error)?))),
    };
    let user = user.ok_or(PageError::SignedOut)?;
    let address = client.address;
    session::sign_in(&site, &session, &user, client).await?;
    site.throttle.succeeded(&user.name, address).await?;
    Ok(Redirect::to("/admin").into_response())
}

fn draw_form(token: &str, form: &Form, refusal: Option<Refusal>) -> Response {
    Purpose::SetUp.draw(token, form.raw("name"), refusal)
}

/// How the link stands.
#[derive(Template)]
#[template(path = "pages/setup_link.html")]
struct LinkPage {
    bare: Bare,
    /// Why there is no account yet; `None` where there is one.
    why: Option<&'static str>,
}

fn say(status: StatusCode, title: &'static str, why: Option<&'static str>) -> Response {
    let bare = Bare::new(title);
    draw_with(status, &LinkPage { bare, why })
}

/// What every page says while nobody has an account.
pub(crate) fn unclaimed() -> Response {
    let why = "Nobody has an account on this appliance yet.";
    say(StatusCode::FORBIDDEN, "Not set up yet", Some(why))
}

/// What the link says once there is an account, so that nobody wonders why it asks for a password.
fn used_link() -> Response {
    say(StatusCode::GONE, "This link has been used", None)
}

fn invalid_link() -> Response {
    let why = "The link is incomplete, older than half an hour, or from an earlier start of the appliance.";
    say(StatusCode::FORBIDDEN, "This link does not work", Some(why))
}
