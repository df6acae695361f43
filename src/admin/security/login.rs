//! Signing in and out.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::Router;
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use http::header::{RETRY_AFTER, SET_COOKIE};
use http::{HeaderMap, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use tower_sessions::Session;
use tower_sessions::cookie::{Cookie, SameSite};

use crate::admin::bare::Bare;
use crate::admin::bare::Message;
use crate::admin::bare::draw_with;
use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::field::{Field, Problem, mark};
use crate::admin::forms::form::{Form, Refusal};
use crate::admin::security::client::{Client, cookie};
use crate::admin::security::csrf::Submitted;
use crate::admin::security::setup;
use crate::admin::security::setup::OPEN_FORM_BYTES_MAX;
use crate::admin::security::{csrf, gate, session};
use crate::admin::site::Site;
use crate::broker::people::NAME_CHARACTERS_MAX;
use crate::store::accounts::User;

/// Holds the token of the login form: there is no session yet that could.
const TOKEN_COOKIE: &str = "everpost_login";

pub(crate) fn router() -> Router<Arc<Site>> {
    let login = get(show)
        .post(submit)
        .layer(DefaultBodyLimit::max(OPEN_FORM_BYTES_MAX));
    Router::new().route("/login", login)
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    next: String,
    /// Not of a known kind: nothing is said.
    #[serde(default)]
    news: String,
    /// Whom the form is filled in for.
    #[serde(default)]
    name: String,
}

/// What somebody is told who finds the form instead of what they expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    SignedOut,
    /// A page was asked for with a session that has ended.
    SessionEnded,
    /// A form came without a session.
    NotSent,
    PasswordSet,
}

impl News {
    const ALL: [Self; 4] = [
        Self::SignedOut,
        Self::SessionEnded,
        Self::NotSent,
        Self::PasswordSet,
    ];

    /// In the address.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::SignedOut => "signed-out",
            Self::SessionEnded => "session-ended",
            Self::NotSent => "not-sent",
            Self::PasswordSet => "password-set",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::SignedOut => "You are signed out.",
            Self::SessionEnded => "Your session has ended. Sign in to go on where you were.",
            Self::NotSent => {
                "You were not signed in any more, so what you sent was not carried out. Sign in, go \
                 back to the form and send it again."
            }
            Self::PasswordSet => "Your password is set. Sign in with it.",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|news| news.name() == name)
    }

    /// To the login form, which says so.
    pub(crate) fn flash(self) -> Response {
        Redirect::to(&self.path()).into_response()
    }

    /// The same with the name of `user` filled in.
    pub(crate) fn tell_to(self, user: &str) -> Response {
        let user = utf8_percent_encode(user, NON_ALPHANUMERIC);
        Redirect::to(&format!("{}&name={user}", self.path())).into_response()
    }

    fn path(self) -> String {
        format!("/admin/login?news={}", self.name())
    }
}

/// The answer to somebody who has guessed too often.
pub(crate) fn wait(wait: Duration) -> Response {
    let page = Message::new("Not now", too_many(wait)).draw(StatusCode::TOO_MANY_REQUESTS);
    ([(RETRY_AFTER, seconds(wait).to_string())], page).into_response()
}

fn too_many(wait: Duration) -> String {
    format!("Too many tries. Try again in {} s.", seconds(wait))
}

fn seconds(wait: Duration) -> u128 {
    wait.as_millis().div_ceil(1_000)
}

async fn show(
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
    Ok(draw_form(&site, &headers, &form, StatusCode::OK, None))
}

async fn submit(
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
    match authenticate(&site, &form, client.address).await? {
        Ok(user) if user.has_second_factor => {
            session::await_code(&site, &session, user.id, form.raw("next")).await?;
            Ok(Redirect::to("/admin/login/code").into_response())
        }
        Ok(user) => {
            session::sign_in(&site, &session, &user, client).await?;
            Ok(Redirect::to(after_login(form.raw("next"))).into_response())
        }
        Err(refused) => Ok(refused.draw(&site, &headers, &form)),
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
    session::forget(&session).await?;
    Ok(News::SignedOut.flash())
}

/// Why nobody was signed in.
enum Refused {
    Wrong,
    TooOften(Duration),
}

impl Refused {
    fn draw(&self, site: &Site, headers: &HeaderMap, form: &Form) -> Response {
        match self {
            Self::Wrong => {
                // Which of the two is wrong stays our secret.
                let refusal = Refusal::whole("Name or password is wrong.");
                draw_form(site, headers, form, StatusCode::UNAUTHORIZED, Some(refusal))
            }
            Self::TooOften(wait) => {
                let refusal = Some(Refusal::whole(too_many(*wait)));
                let status = StatusCode::TOO_MANY_REQUESTS;
                let page = draw_form(site, headers, form, status, refusal);
                ([(RETRY_AFTER, seconds(*wait).to_string())], page).into_response()
            }
        }
    }
}

/// The user whose password is in the form.
async fn authenticate(
    site: &Site,
    form: &Form,
    address: Option<IpAddr>,
) -> Result<Result<User, Refused>, PageError> {
    let name = form.text("name");
    let now = site.broker.clock().now();
    if let Some(wait) = site.throttle.begin(name, address, now).await? {
        return Ok(Err(Refused::TooOften(wait)));
    }
    let user = site.people.authenticate(name, form.raw("password")).await?;
    let Some(user) = user else {
        // Without the name: people type their password into the wrong field.
        tracing::warn!(
            client.address = address.map(tracing::field::display),
            "a sign-in failed"
        );
        return Ok(Err(Refused::Wrong));
    };
    site.throttle.succeeded(name, address).await?;
    Ok(Ok(user))
}

pub(crate) fn after_login(next: &str) -> &str {
    if gate::is_page(next) { next } else { "/admin" }
}

#[derive(Template)]
#[template(path = "pages/login.html")]
struct LoginPage {
    bare: Bare,
    token: String,
    next: String,
    news: &'static str,
    problem: Option<Problem>,
    fields: [Field; 2],
}

fn draw_form(
    site: &Site,
    headers: &HeaderMap,
    form: &Form,
    status: StatusCode,
    refusal: Option<Refusal>,
) -> Response {
    let mut fields = [
        Field::line("name", "Name", form)
            .autocomplete("username")
            .required(),
        Field::password("password", "Password", "current-password").required(),
    ];
    // A token that is out already stays, so that a second window spoils nothing.
    let token = cookie(headers, TOKEN_COOKIE).unwrap_or_else(|| site.broker.entropy().secret());
    let set_cookie = Cookie::build((TOKEN_COOKIE, token.clone()))
        .path("/admin/login")
        .http_only(true)
        .secure(site.is_https())
        .same_site(SameSite::Strict)
        .to_string();
    let page = LoginPage {
        bare: Bare::new("Sign in"),
        token,
        next: form.raw("next").to_owned(),
        news: News::named(form.raw("news")).map_or("", News::text),
        problem: mark(fields.iter_mut(), refusal),
        fields,
    };
    ([(SET_COOKIE, set_cookie)], draw_with(status, &page)).into_response()
}
