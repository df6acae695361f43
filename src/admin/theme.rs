//! Light, dark, or as the reader's system says: a choice of one browser, kept in a cookie, so that a page
//! has the right colours from its first byte on.
//!
//! Every page needs it, refusals included, and no page does anything else with it, so it goes with the
//! request's task and not through every signature.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::HeaderMap;

use crate::admin::security::client::cookie;
use crate::admin::widgets::part;

/// Holds the choice.
pub(crate) const COOKIE: &str = "everpost_theme";

tokio::task_local! {
    static CHOSEN: Theme;
}

/// The colours of pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Theme {
    /// As the reader's system says.
    #[default]
    System,
    Light,
    Dark,
}

impl Theme {
    pub(crate) const ALL: [Self; 3] = [Self::System, Self::Light, Self::Dark];

    /// Its name in forms and in the cookie.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// What the browser may draw with.
    pub(crate) fn schemes(self) -> &'static str {
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

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|theme| theme.name() == name)
    }

    /// What the browser of this request has chosen.
    pub(crate) fn chosen() -> Self {
        CHOSEN.try_with(|theme| *theme).unwrap_or_default()
    }
}

/// Has the pages of this request drawn as its browser has chosen.
pub(crate) async fn remember(request: Request, next: Next) -> Response {
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
pub(crate) struct ThemeSwitch {
    back: String,
    chosen: Theme,
}

part!(ThemeSwitch);

impl ThemeSwitch {
    pub(crate) fn new(back: String) -> Self {
        Self {
            back,
            chosen: Theme::chosen(),
        }
    }
}
