//! Light, dark, or as the reader's system says: a choice of one browser, kept in a cookie, so that a page
//! has the right colours from its first byte on.

use http::HeaderMap;

use crate::admin::security::client::cookie;

pub(crate) const COOKIE: &str = "everpost_theme";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Theme {
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    pub(crate) schemes: &'static str,
}

#[rustfmt::skip] // a table
pub(crate) const THEMES: [Theme; 3] = [
    Theme { name: "system", label: "System", schemes: "light dark" },
    Theme { name: "light", label: "Light", schemes: "light" },
    Theme { name: "dark", label: "Dark", schemes: "dark" },
];

/// As the reader's system says.
pub(crate) const SYSTEM: Theme = THEMES[0];

pub(crate) fn named(name: &str) -> Option<Theme> {
    THEMES.into_iter().find(|theme| theme.name == name)
}

/// What the browser has chosen that sends `headers`.
pub(crate) fn chosen(headers: &HeaderMap) -> Theme {
    let chosen = cookie(headers, COOKIE).and_then(|name| named(&name));
    chosen.unwrap_or(SYSTEM)
}
