//! The choice of colours.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::post;
use http::header::SET_COOKIE;
use time::Duration;
use tower_sessions::cookie::{Cookie, SameSite};

use crate::admin::page::*;
use crate::admin::security::gate;
use crate::admin::security::setup::OPEN_FORM_BYTES_MAX;
use crate::admin::theme::{COOKIE, Theme};

/// How long a choice is remembered: browsers keep no cookie longer (RFC 6265bis, 5.5).
const KEPT: Duration = Duration::days(400);

pub(crate) fn router() -> Router<Arc<Site>> {
    let choice = post(choose).layer(DefaultBodyLimit::max(OPEN_FORM_BYTES_MAX));
    Router::new().route("/theme", choice)
}

/// Nothing but colours is at stake, and what another site sends is refused already, so the form needs no
/// token and nobody to be signed in.
async fn choose(State(site): State<Arc<Site>>, form: Form) -> PageResult {
    let theme = Theme::named(form.text("theme")).ok_or_else(|| {
        let problem = "The field theme must be system, light or dark.";
        PageError::Unreadable(problem.to_owned())
    })?;
    let (value, kept) = match theme {
        Theme::System => ("", Duration::ZERO), // which deletes it
        Theme::Light | Theme::Dark => (theme.name(), KEPT),
    };
    let set_cookie = Cookie::build((COOKIE, value))
        .path("/admin")
        .max_age(kept)
        .http_only(true)
        .secure(site.is_https())
        .same_site(SameSite::Lax)
        .to_string();
    let back = match form.text("back") {
        back if gate::is_page(back) => back,
        _ => "/admin",
    };
    Ok(([(SET_COOKIE, set_cookie)], Redirect::to(back)).into_response())
}
