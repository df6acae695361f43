//! The choice of colours.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Redirect};
use http::header::SET_COOKIE;
use time::Duration;
use tower_sessions::cookie::{Cookie, SameSite};

use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::form::Form;
use crate::admin::paths;
use crate::admin::reader::{SYSTEM, THEME_COOKIE, theme_named};
use crate::admin::site::Site;

/// How long a choice is remembered: browsers keep no cookie longer (RFC 6265bis, 5.5).
const KEPT: Duration = Duration::days(400);

/// Nothing but colours is at stake, and what another site sends is rejected already, so the form needs no
/// token and nobody to be signed in.
pub(crate) async fn choose(State(site): State<Arc<Site>>, form: Form) -> PageResult {
    let problem = "The field theme must be system, light or dark.";
    let unknown = || PageError::Unreadable(problem.to_owned());
    let theme = theme_named(form.text("theme")).ok_or_else(unknown)?;
    let (value, kept) = match theme {
        SYSTEM => ("", Duration::ZERO), // which deletes it
        theme => (theme.name, KEPT),
    };
    let set_cookie = Cookie::build((THEME_COOKIE, value))
        .path("/admin")
        .max_age(kept)
        .http_only(true)
        .secure(site.is_https())
        .same_site(SameSite::Lax)
        .to_string();
    let back = Redirect::to(paths::or_overview(form.text("back")));
    Ok(([(SET_COOKIE, set_cookie)], back).into_response())
}
