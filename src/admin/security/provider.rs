//! Signing in with an OpenID Connect provider: the redirect to the provider and the callback (docs/security.md B3).

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use axum::response::{IntoResponse, Redirect, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{HOST, SET_COOKIE};
use tower_sessions::cookie::{Cookie, SameSite};

use crate::admin::error::{PageError, PageResult};
use crate::admin::lists::link;
use crate::admin::paths;
use crate::admin::security::client::cookie;
use crate::admin::security::open_form::Stranger;
use crate::admin::security::{external, login, session};
use crate::admin::site::Site;
use crate::admin::widgets::print;
use crate::broker::people::sign_ins::{LIFE, SignIn};
use crate::model::identity::Identity;
use crate::outbound::identity_provider::{IdentityProvider, ProviderError};

const COOKIE: &str = "everpost_sign_in";
const COOKIE_OF_HOST: &str = "__Host-everpost_sign_in";

/// The maximum size in bytes of the return page in the cookie.
const NEXT_BYTES_MAX: usize = 2_000;

/// Returns the address that starts a sign-in and leads to the page `next` at the end.
pub(crate) fn path(next: &str) -> String {
    link("/admin/login/provider", &[("next", next.to_owned())])
}

/// Returns the address at which a signed-in user confirms their identity with the provider, and then goes to `next`.
pub(crate) fn path_again(next: &str) -> String {
    let parameters = [("next", next.to_owned()), ("again", "1".to_owned())];
    link("/admin/login/provider", &parameters)
}

/// Redirects to the provider.
pub(crate) async fn begin(from: Stranger) -> PageResult {
    let (site, form) = (&from.site, &from.form);
    let provider = provider(site)?;
    let secret = || site.broker.entropy().secret();
    let next = paths::or_overview(form.raw("next"));
    let attempt = SignIn {
        state: secret(),
        nonce: secret(),
        verifier: secret(),
        next: Some(next)
            .filter(|next| next.len() <= NEXT_BYTES_MAX)
            .unwrap_or("/admin")
            .to_owned(),
        since_ms: site.people.now().as_ms(),
        again: form.has("again"),
    };
    let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, attempt.verifier.as_bytes()));
    match provider
        .authorization_url(attempt.secrets(&challenge), &redirect_url(site))
        .await
    {
        Ok(url) => {
            let cookie = set_cookie(site, &site.sign_ins.sign(&attempt), LIFE);
            Ok(([(SET_COOKIE, cookie)], Redirect::to(url.as_str())).into_response())
        }
        Err(error) => Ok(rejected(&from, &problem(site, &error))),
    }
}

/// Handles the callback from the provider.
pub(crate) async fn end(from: Stranger) -> PageResult {
    let site = Arc::clone(&from.site);
    // This check comes before the sign-in attempt is consumed, so that the user can continue later.
    may_guess(&from).await?;
    let identified = match returned(&from) {
        Ok(attempt) => identify(&from, attempt).await?,
        Err(problem) => Err(problem),
    };
    let ended = match identified {
        Ok((attempt, identity)) => external::admit(&site, &from.client, &identity)
            .await?
            .map(|user| (user, attempt.next, identity.authenticated_at)),
        Err(problem) => Err(problem),
    };
    let mut response = match ended {
        Ok((user, next, at)) => {
            session::sign_in(&site, &from.session, &user, &from.client, at).await?;
            Redirect::to(paths::or_overview(&next)).into_response()
        }
        Err(problem) => rejected(&from, &problem),
    };
    let gone = set_cookie(&site, "", Duration::ZERO)
        .parse()
        .expect("a cookie is a header");
    response.headers_mut().append(SET_COOKIE, gone);
    Ok(response)
}

/// Redirects to the sign-out page of the provider.
pub(crate) async fn sign_out(from: Stranger) -> PageResult {
    match provider(&from.site)?.end_session_url().await {
        Ok(Some(url)) => Ok(Redirect::to(url.as_str()).into_response()),
        Ok(None) => {
            let name = from.site.sign_in.provider_name();
            Ok(rejected(
                &from,
                &format!("{name} has no page to sign out at."),
            ))
        }
        Err(error) => Ok(rejected(&from, &problem(&from.site, &error))),
    }
}

/// Returns the sign-in attempt that the callback belongs to, or the reason for its rejection.
fn returned(from: &Stranger) -> Result<SignIn, String> {
    let (site, form) = (&from.site, &from.form);
    let provider = provider(site).map_err(|error| error.to_string())?;
    let brought = cookie(&from.headers, cookie_name(site)).unwrap_or_default();
    let now = site.people.now();
    let Some(attempt) = site.sign_ins.open(&brought, form.raw("state"), now) else {
        return Err(format!(
            "This sign-in has expired, was begun in another browser, or has ended already. Begin it again{}.",
            elsewhere(from)
        ));
    };
    let name = provider.name();
    if form.has("iss") && !provider.is_issuer(form.raw("iss")) {
        return Err(format!("The answer is not from {name}. Begin again."));
    }
    if form.has("error") {
        let (code, text) = (form.raw("error"), form.raw("error_description"));
        let said: String = format!("{code} {text}").chars().take(200).collect();
        if let Some(unlogged) = site.sign_ins.line_of_failure(now) {
            tracing::warn!(
                error = said,
                unlogged,
                "the sign-in provider did not sign somebody in"
            );
        }
        let said = print::visible(said.trim());
        return Err(format!("{name} did not sign you in: {said}."));
    }
    Ok(attempt)
}

/// Fails while the client's network has to wait before another guess.
async fn may_guess(from: &Stranger) -> PageResult<()> {
    let waits = from
        .site
        .people
        .wait_before_guess(None, from.client.address);
    match waits.await? {
        Some(wait) => Err(wait.into()),
        None => Ok(()),
    }
}

/// Returns the identity of the user, or the reason for the rejection. Wrong codes count as guesses.
async fn identify(
    from: &Stranger,
    attempt: SignIn,
) -> PageResult<Result<(SignIn, Identity), String>> {
    let (site, address) = (&from.site, from.client.address);
    let provider = provider(site)?;
    let Some(_exchange) = site.sign_ins.exchange(address).await else {
        let problem = "Too many people are signing in. Begin again in a moment.";
        return Ok(Err(problem.to_owned()));
    };
    may_guess(from).await?; // others of its network may have guessed while it waited
    let redirect_url = redirect_url(site);
    let secrets = attempt.secrets(&attempt.verifier);
    let identified = provider.identify(from.form.raw("code"), secrets, &redirect_url);
    match identified.await {
        Ok(identity) => Ok(Ok((attempt, identity))),
        Err(error) => {
            if matches!(error, ProviderError::WrongCode(_)) {
                site.people.guessed_wrong(address).await?;
            }
            Ok(Err(problem(site, &error)))
        }
    }
}

/// Returns the redirect URL that the provider sends users back to.
fn redirect_url(site: &Site) -> String {
    site.management_url("/admin/login/callback")
}

fn provider(site: &Site) -> PageResult<&IdentityProvider> {
    let provider = site.sign_in.provider.as_ref();
    provider.ok_or_else(|| PageError::NotFound("sign-in provider: set oidc.issuer".to_owned()))
}

/// Logs why a sign-in failed, and returns a shorter text for the user.
fn problem(site: &Site, error: &ProviderError) -> String {
    if let Some(unlogged) = site.sign_ins.line_of_failure(site.people.now()) {
        tracing::warn!(%error, unlogged, "a sign-in with the provider failed");
    }
    let (name, url) = (site.sign_in.provider_name(), site.public_url());
    let or_password = if site.sign_in.hides_password {
        ""
    } else {
        ", or sign in with a password"
    };
    match error {
        ProviderError::Unreachable(_) => {
            format!("{name} cannot be reached from {url}. Try again in a moment{or_password}.")
        }
        ProviderError::Answer(_) | ProviderError::WrongCode(_) => {
            format!(
                "{name} did not answer as it should; the log of Everpost says more. Try again{or_password}."
            )
        }
        ProviderError::Token(error) => format!("{name} signed you in, but {error}. Begin again."),
        ProviderError::NoName(_) | ProviderError::Unverified => {
            format!("{name} signed you in, but {error}.")
        }
    }
}

/// Returns text with the address to start at, for a user on another host than the public URL; otherwise empty.
fn elsewhere(from: &Stranger) -> String {
    let host = from.headers.get(HOST).and_then(|host| host.to_str().ok());
    let url = from.site.public_url();
    let is_there = host.is_none_or(|host| url.ends_with(&format!("//{host}")));
    if is_there {
        String::new()
    } else {
        format!(" at {url}/admin")
    }
}

fn rejected(from: &Stranger, problem: &str) -> Response {
    login::draw_form(from, Some(problem))
}

fn cookie_name(site: &Site) -> &'static str {
    if site.is_https() {
        COOKIE_OF_HOST
    } else {
        COOKIE
    }
}

fn set_cookie(site: &Site, value: &str, life: Duration) -> String {
    let life = time::Duration::try_from(life).unwrap_or_default();
    Cookie::build((cookie_name(site), value))
        .path(if site.is_https() { "/" } else { "/admin/login" })
        .http_only(true)
        .secure(site.is_https())
        // The callback is a request from another site.
        .same_site(SameSite::Lax)
        .max_age(life)
        .to_string()
}
