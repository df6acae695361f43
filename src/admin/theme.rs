//! Light, dark, or as the reader's system says: a choice of one browser, kept in a cookie, so that a page
//! has the right colours from its first byte on.

use http::HeaderMap;

use crate::admin::security::client::cookie;

/// Holds the choice.
pub(crate) const COOKIE: &str = "everpost_theme";

/// The colours of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Theme {
    /// In forms and in the cookie.
    pub(crate) name: &'static str,
    /// What the switch calls it.
    pub(crate) label: &'static str,
    /// What the browser may draw with.
    pub(crate) schemes: &'static str,
}

/// As the reader's system says.
pub(crate) const SYSTEM: Theme = theme("system", "System", "light dark");

pub(crate) const THEMES: [Theme; 3] = [
    SYSTEM,
    theme("light", "Light", "light"),
    theme("dark", "Dark", "dark"),
];

const fn theme(name: &'static str, label: &'static str, schemes: &'static str) -> Theme {
    Theme {
        name,
        label,
        schemes,
    }
}

pub(crate) fn named(name: &str) -> Option<Theme> {
    THEMES.into_iter().find(|theme| theme.name == name)
}

/// What the browser has chosen that sends `headers`.
pub(crate) fn chosen(headers: &HeaderMap) -> Theme {
    let chosen = cookie(headers, COOKIE).and_then(|name| named(&name));
    chosen.unwrap_or(SYSTEM)
}
