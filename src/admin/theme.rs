//! Light, dark, or as the reader's system says: a choice of one browser, kept in a cookie, so that a page
//! has the right colours from its first byte on.
//!
//! Every page needs it, refusals included, and no page does anything else with it, so it goes with the
//! request's task and not through every signature.

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::post;
use http::HeaderMap;
use http::header::SET_COOKIE;
use time::Duration;
use tower_sessions::cookie::{Cookie, SameSite};

use crate::admin::client::cookie;
use crate::admin::error::{PageError, PageResult};
use crate::admin::form::Form;
use crate::admin::setup::OPEN_FORM_BYTES_MAX;
use crate::admin::view::part;
use crate::admin::{Site, gate};

const COOKIE: &str = "everpost_theme";

/// How long a choice is remembered: browsers keep no cookie longer (RFC 6265bis, 5.5).
const KEPT: Duration = Duration::days(400);

tokio::task_local! {
    static CHOSEN: Theme;
}

/// The colours of pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Theme {
    /// As the reader's system says.
    #[default]
    System,
    Light,
    Dark,
}

impl Theme {
    pub(super) const ALL: [Self; 3] = [Self::System, Self::Light, Self::Dark];

    /// Its name in forms and in the cookie.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// What the browser may draw with.
    pub(super) fn schemes(self) -> &'static str {
        match self {
            Self::System => "light dark",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// What the switch calls it.
    fn label(self) -> &'static str {
        match self {
            Self::System => "As the system",
            Self::Light => "Light",
            Self::Dark => "Dark",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|theme| theme.name() == name)
    }

    /// What the browser of this request has chosen.
    pub(super) fn chosen() -> Self {
        CHOSEN.try_with(|theme| *theme).unwrap_or_default()
    }
}

/// Has the pages of this request drawn as its browser has chosen.
pub(super) async fn remember(request: Request, next: Next) -> Response {
    CHOSEN.scope(of(request.headers()), next.run(request)).await
}

fn of(headers: &HeaderMap) -> Theme {
    let chosen = cookie(headers, COOKIE);
    chosen
        .and_then(|name| Theme::named(&name))
        .unwrap_or_default()
}

/// The switch, with the page to come back to.
#[derive(Clone, Debug, askama::Template)]
#[template(path = "admin/parts/theme_switch.html")]
pub(super) struct ThemeSwitch {
    back: String,
    chosen: Theme,
}

part!(ThemeSwitch);

impl ThemeSwitch {
    pub(super) fn new(back: String) -> Self {
        Self {
            back,
            chosen: Theme::chosen(),
        }
    }
}

pub(super) fn router() -> Router<Arc<Site>> {
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
