//! Who reads the page that is drawn: what its smallest parts need to know to say things in the reader's way.
//!
//! Every part of every page may need it, so it goes with the request's task and not through every signature.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

use crate::admin::security::client::cookie;
use crate::admin::sitemap::SiteMap;
use crate::base::zone::Zone;
use crate::base::{Clock, Timestamp};
use crate::store::accounts::Role;

/// Holds the zone of the browser, which its script writes down.
const ZONE_COOKIE: &str = "everpost_zone";

/// Holds the choice of colours, so that a page has the right ones from its first byte on.
pub(crate) const THEME_COOKIE: &str = "everpost_theme";

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

pub(crate) const SYSTEM: Theme = THEMES[0];

pub(crate) fn theme_named(name: &str) -> Option<Theme> {
    THEMES.into_iter().find(|theme| theme.name == name)
}

tokio::task_local! {
    static READER: Arc<PageReader>;
}

#[derive(Clone, Debug)]
pub(crate) struct PageReader {
    pub(crate) theme: Theme,
    pub(crate) zone: Zone,
    pub(crate) now: Timestamp,
    /// `None` for a stranger.
    pub(crate) user: Option<ReadingUser>,
}

#[derive(Clone, Debug)]
pub(crate) struct ReadingUser {
    pub(crate) role: Role,
    pub(crate) csrf: String,
    pub(crate) map: &'static SiteMap,
}

impl PageReader {
    pub(crate) fn current() -> Arc<Self> {
        let nobody = || Self {
            theme: SYSTEM,
            zone: Zone::utc(),
            now: Timestamp::default(),
            user: None,
        };
        let current = READER.try_with(Arc::clone);
        current.unwrap_or_else(|_| Arc::new(nobody()))
    }

    pub(crate) async fn reads<T>(self, next: impl Future<Output = T>) -> T {
        READER.scope(Arc::new(self), next).await
    }
}

/// Has pages drawn in the zone and the colours of the browser that asks for them.
pub(crate) async fn know(State(clock): State<Clock>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let zone = cookie(headers, ZONE_COOKIE).and_then(|name| Zone::named(&name));
    let theme = cookie(headers, THEME_COOKIE).and_then(|name| theme_named(&name));
    let reader = PageReader {
        theme: theme.unwrap_or(SYSTEM),
        zone: zone.unwrap_or_else(Zone::utc),
        now: clock.now(),
        user: None,
    };
    reader.reads(next.run(request)).await
}
