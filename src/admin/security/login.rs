//! Signing in and out.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use http::HeaderMap;
use http::header::SET_COOKIE;
use serde::Deserialize;
use tower_sessions::Session;
use tower_sessions::cookie::{Cookie, SameSite};

use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::form::{Form, Refusal};
use crate::admin::lists::link;
use crate::admin::security::client::{Client, cookie};
use crate::admin::security::csrf::Submitted;
use crate::admin::security::open_form::Purpose;
use crate::admin::security::{csrf, gate, session, setup};
use crate::admin::site::Site;
use crate::broker::people::NAME_CHARACTERS_MAX;
use crate::store::accounts::User;

/// Holds the token of the login form: there is no session yet that could.
const TOKEN_COOKIE: &str = "everpost_login";

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Asked {
    next: String,
    news: String,
    /// Whom the form is filled in for.
    name: String,
}

/// To the form, which says these news, and is filled in for somebody of that name.
pub(crate) fn told(news: &str, name: &str) -> Response {
    let parameters = [("news", news.to_owned()), ("name", name.to_owned())];
    Redirect::to(&link("/admin/login", &parameters)).into_response()
}

pub(crate) async fn show(
    State(site): State<Arc<Site>>,
    session: Session,
    client: Client,
    headers: HeaderMap,
    Query(Asked { next, news, name }): Query<Asked>,
) -> PageResult {
    if !site.is_claimed().await? {
        return Ok(setup::unclaimed());
    }
    let visitor = session::visitor(&site, session, String::new(), &client, true);
    if visitor.await?.is_some() {
        return Ok(Redirect::to("/admin").into_response());
    }
    let name = name.chars().take(NAME_CHARACTERS_MAX).collect();
    let form = Form::of([("next", next), ("news", news), ("name", name)]);
    Ok(draw_form(&site, &headers, &form, None))
}

pub(crate) async fn submit(
    State(site): State<Arc<Site>>,
    client: Client,
    session: Session,
    headers: HeaderMap,
    form: Form,
) -> PageResult {
    let token = cookie(&headers, TOKEN_COOKIE).ok_or(PageError::BadToken)?;
    if !csrf::is_token(form.raw("csrf"), &token) {
        return Err(PageError::BadToken);
    }
    match authenticate(&site, &form, client.address).await {
        Ok(Some(user)) if user.has_second_factor => {
            session::await_code(&site, &session, user.id, form.raw("next")).await?;
            Ok(Redirect::to("/admin/login/code").into_response())
        }
        Ok(Some(user)) => {
            session::sign_in(&site, &session, &user, client).await?;
            Ok(Redirect::to(after_login(form.raw("next"))).into_response())
        }
        // Which of the two is wrong stays our secret.
        Ok(None) => {
            let refusal = Refusal::whole("Name or password is wrong.");
            Ok(draw_form(&site, &headers, &form, Some(refusal)))
        }
        Err(error @ PageError::TooOften(_)) => {
            let refusal = Refusal::whole(error.to_string());
            let page = draw_form(&site, &headers, &form, Some(refusal));
            Ok((error.status(), error.retry_after(), page).into_response())
        }
        Err(error) => Err(error),
    }
}

/// Signs out.
pub(crate) async fn log_out(
    State(site): State<Arc<Site>>,
    session: Session,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    if let Some(key) = visitor.session_key() {
        let accounts = site.people.accounts();
        accounts.sign_out(key, visitor.caller).await?;
    }
    session.flush().await?;
    Ok(told("signed-out", ""))
}

/// The user whose name and password are in the form.
async fn authenticate(
    site: &Site,
    form: &Form,
    address: Option<IpAddr>,
) -> PageResult<Option<User>> {
    let (name, now) = (form.text("name"), site.broker.clock().now());
    site.throttle.begin(name, address, now).await?;
    let user = site.people.authenticate(name, form.raw("password")).await?;
    match user {
        Some(_) => site.throttle.succeeded(name, address).await?,
        // Without the name: people type their password into the wrong field.
        None => tracing::warn!(
            client.address = address.map(tracing::field::display),
            "a sign-in failed"
        ),
    }
    Ok(user)
}

pub(crate) fn after_login(next: &str) -> &str {
    if gate::is_page(next) { next } else { "/admin" }
}

fn draw_form(site: &Site, headers: &HeaderMap, form: &Form, refusal: Option<Refusal>) -> Response {
    // A token that is out already stays, so that a second window spoils nothing.
    let token = cookie(headers, TOKEN_COOKIE).unwrap_or_else(|| site.broker.entropy().secret());
    let set_cookie = Cookie::build((TOKEN_COOKIE, token.as_str()))
        .path("/admin/login")
        .http_only(true)
        .secure(site.is_https())
        .same_site(SameSite::Strict)
        .to_string();
    let purpose = Purpose::SignIn {
        next: form.raw("next"),
        news: form.raw("news"),
    };
    let page = purpose.draw(&token, form.raw("name"), refusal);
    ([(SET_COOKIE, set_cookie)], page).into_response()
}
