//! Light, dark, or as the reader's system says: a choice of one browser, kept in a cookie, so that a page
//! has the right colours from its first byte on.

use http::HeaderMap;

use crate::admin::security::client::cookie;

/// Holds the choice.
pub(crate) const COOKIE: &str = "everpost_theme";

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

    /// What the switch calls it.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::System => "System",
            Self::Light => "Light",
            Self::Dark => "Dark",
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

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|theme| theme.name() == name)
    }

    /// What the browser has chosen that sends `headers`.
    pub(crate) fn chosen(headers: &HeaderMap) -> Self {
        let chosen = cookie(headers, COOKIE);
        let chosen = chosen.and_then(|name| Self::named(&name));
        chosen.unwrap_or_default()
    }
}
