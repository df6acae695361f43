//! Signing in, by a password and, with a second factor, by a code; and signing out.

use axum::response::{IntoResponse, Redirect, Response};
use http::header::SET_COOKIE;
use tower_sessions::Session;
use tower_sessions::cookie::{Cookie, SameSite};

use crate::admin::action::Call;
use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::form::FormError;
use crate::admin::lists::link;
use crate::admin::paths;
use crate::admin::security::client::cookie;
use crate::admin::security::open_form::{Purpose, Stranger};
use crate::admin::security::{csrf, provider, session, setup};
use crate::base::seldom::SeldomLine;
use crate::model::identity::UserSource;
use crate::store::accounts::{User, UserId};

/// The cookie with the token of the login form, which is needed because there is no session yet.
const TOKEN_COOKIE: &str = "everpost_login";

/// Redirects to the login form, which shows the message `news` and has `name` filled in.
pub(crate) fn told(news: &str, name: &str) -> Response {
    let parameters = [("news", news.to_owned()), ("name", name.to_owned())];
    Redirect::to(&link("/admin/login", &parameters)).into_response()
}

pub(crate) async fn show(from: Stranger) -> PageResult {
    if !from.site.is_claimed().await? {
        return Ok(setup::unclaimed());
    }
    let (session, nowhere) = (from.session.clone(), String::new());
    let visitor = session::visitor(&from.site, session, nowhere, &from.client, true);
    if visitor.await?.is_none() {
        let Some(user) = local_user(&from).await? else {
            let is_leaving = !from.form.raw("news").is_empty();
            if from.proxied.is_none() || is_leaving {
                return Ok(draw_form(&from, None));
            }
            // The page itself signs in the user that the proxy names.
            return Ok(Redirect::to(paths::or_overview(from.form.raw("next"))).into_response());
        };
        session::sign_in(&from.site, &from.session, &user, &from.client, None).await?;
    }
    Ok(Redirect::to(paths::or_overview(from.form.raw("next"))).into_response())
}

/// Returns the user who needs no password: a developer on this machine.
async fn local_user(from: &Stranger) -> PageResult<Option<User>> {
    let is_here = from.client.address.is_some_and(|it| it.is_loopback());
    match from.site.local_user.clone().filter(|_| is_here) {
        Some(name) => Ok(from.site.people.accounts().find(name).await?),
        None => Ok(None),
    }
}

pub(crate) async fn submit(from: Stranger) -> PageResult {
    let token = cookie(&from.headers, TOKEN_COOKIE).ok_or(PageError::BadToken)?;
    csrf::check(&from.form, &token)?;
    if from.site.sign_in.hides_password {
        return Err(PageError::NoSuchAction);
    }
    let next = from.form.raw("next");
    match authenticate(&from).await {
        Ok(Some(user)) if user.has_second_factor => {
            session::await_code(&from.site, &from.session, user.id, next).await?;
            Ok(Redirect::to("/admin/login/code").into_response())
        }
        Ok(Some(user)) => {
            session::sign_in(&from.site, &from.session, &user, &from.client, None).await?;
            Ok(Redirect::to(paths::or_overview(next)).into_response())
        }
        // The response does not reveal which of the two is wrong.
        Ok(None) => Ok(draw_form(&from, Some("Name or password is wrong."))),
        Err(error @ (PageError::TooOften(_) | PageError::Unavailable(_))) => {
            let page = draw_form(&from, Some(&error.to_string()));
            Ok((error.kind().0, error.retry_after(), page).into_response())
        }
        Err(error) => Err(error),
    }
}

pub(crate) async fn log_out(session: Session, call: Call) -> PageResult {
    if let Some(key) = call.visitor.session_key() {
        let accounts = call.people.accounts();
        accounts.sign_out(key, call.by().clone()).await?;
    }
    session.flush().await?;
    Ok(match call.visitor.source {
        UserSource::Oidc => told("signed-out-here", ""),
        UserSource::Local | UserSource::Proxy => told("signed-out", ""),
    })
}

async fn authenticate(from: &Stranger) -> PageResult<Option<User>> {
    static LINE: SeldomLine = SeldomLine::new();
    let (site, form, address) = (&from.site, &from.form, from.client.address);
    let (name, password) = (form.text("name"), form.raw("password"));
    let known = site
        .people
        .authenticate::<PageError>(name, password, address);
    let user = known.await?;
    if user.is_none()
        && let Some(unlogged) = LINE.take(site.people.now())
    {
        // The name is not logged, because people type their password into the wrong field.
        tracing::warn!(
            client.address = address.map(tracing::field::display),
            unlogged,
            "a sign-in failed; further ones within a minute are only counted"
        );
    }
    Ok(user)
}

/// Returns the ways to sign in besides the password, each with its address and its label.
fn others(from: &Stranger) -> Vec<(String, String)> {
    let (site, next) = (&from.site, from.form.raw("next"));
    let provider = site.sign_in.provider.as_ref();
    let name = provider.map(|provider| provider.name());
    let with_provider = name.map(|name| (provider::path(next), format!("Sign in with {name}")));
    let proxied = from.proxied.as_ref().map(|proxied| {
        let next = paths::or_overview(next).to_owned();
        (next, format!("Continue as {}", proxied.name))
    });
    with_provider.into_iter().chain(proxied).collect()
}

pub(crate) fn draw_form(from: &Stranger, problem: Option<&str>) -> Response {
    let Stranger { site, form, .. } = from;
    // An existing token is kept, so that a second window does not invalidate the first.
    let token =
        cookie(&from.headers, TOKEN_COOKIE).unwrap_or_else(|| site.broker.entropy().secret());
    let set_cookie = Cookie::build((TOKEN_COOKIE, token.as_str()))
        .path("/admin/login")
        .http_only(true)
        .secure(site.is_https())
        .same_site(SameSite::Strict)
        .to_string();
    let (next, news) = (form.raw("next"), form.raw("news"));
    let form_errors = problem.into_iter().map(FormError::whole).collect();
    let purpose = Purpose::SignIn {
        next,
        news,
        others: others(from),
        has_form: !site.sign_in.hides_password,
    };
    let page = purpose.draw(&token, form.raw("name"), form_errors);
    ([(SET_COOKIE, set_cookie)], page).into_response()
}

pub(crate) async fn ask_code(Stranger { site, session, .. }: Stranger) -> PageResult {
    let awaited = session::awaited(&site, &session).await?;
    Ok(awaited.map_or_else(start_again, |awaited| {
        Purpose::SecondFactor.draw(&awaited.csrf, "", Vec::new())
    }))
}

pub(crate) async fn submit_code(from: Stranger) -> PageResult {
    let (site, session, address) = (from.site, from.session, from.client.address);
    let Some(awaited) = session::awaited(&site, &session).await? else {
        return Ok(start_again());
    };
    csrf::check(&from.form, &awaited.csrf)?;
    let user = site.people.accounts().user(UserId(awaited.user)).await?;
    let Some(user) = user.filter(|user| user.disabled_at.is_none()) else {
        return Ok(start_again());
    };
    // Attempts are counted separately from passwords: a correct password must not reset this count.
    let account = format!("second factor of {}", user.id.0);
    let code = from.form.text("code");
    let passes = site.people.passes_second_factor(&user, code);
    let passes = async { PageResult::Ok(passes.await?.then_some(())) };
    let passed = site.people.guess(Some(&account), address, passes);
    if passed.await?.is_none() {
        static LINE: SeldomLine = SeldomLine::new();
        let name = &user.name;
        if let Some(unlogged) = LINE.take(site.people.now()) {
            tracing::warn!(
                user.name = name,
                unlogged,
                "a sign-in failed at its second factor; further ones within a minute are only counted"
            );
        }
        let form_error = FormError::of("code", "This is not the code, or it was used already.");
        return Ok(Purpose::SecondFactor.draw(&awaited.csrf, "", vec![form_error]));
    }
    session::sign_in(&site, &session, &user, &from.client, None).await?;
    Ok(Redirect::to(paths::or_overview(&awaited.next)).into_response())
}

fn start_again() -> Response {
    Redirect::to("/admin/login").into_response()
}
