//! Who reads the page that is drawn: what its smallest parts need to know to say things in the reader's way.
//!
//! Every part of every page may need it, so it goes with the request's task and not through every signature.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

use crate::admin::security::client::cookie;
use crate::admin::sitemap::SiteMap;
use crate::admin::theme::{self, Theme};
use crate::admin::zone::Zone;
use crate::base::{Clock, Timestamp};
use crate::store::accounts::Role;

/// Holds the zone of the browser, which its script writes down.
const ZONE_COOKIE: &str = "everpost_zone";

tokio::task_local! {
    static READER: Arc<Reader>;
}

/// What a request tells of its reader.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    pub(crate) theme: Theme,
    pub(crate) zone: Zone,
    pub(crate) now: Timestamp,
    /// `None` for a stranger.
    pub(crate) user: Option<ReadingUser>,
}

/// What somebody who is signed in may do.
#[derive(Clone, Debug)]
pub(crate) struct ReadingUser {
    pub(crate) role: Role,
    /// The token for forms.
    pub(crate) csrf: String,
    pub(crate) map: &'static SiteMap,
}

impl Reader {
    /// The one of this request.
    pub(crate) fn current() -> Arc<Self> {
        let nobody = || Self {
            theme: theme::SYSTEM,
            zone: Zone::utc(),
            now: Timestamp::default(),
            user: None,
        };
        READER
            .try_with(Arc::clone)
            .unwrap_or_else(|_| Arc::new(nobody()))
    }

    /// Has what `next` answers drawn for this reader.
    pub(crate) async fn reads<T>(self, next: impl Future<Output = T>) -> T {
        READER.scope(Arc::new(self), next).await
    }

    /// Whether a link to the page at `path` leads somewhere.
    pub(crate) fn may_open(&self, path: &str) -> bool {
        let user = self.user.as_ref();
        user.is_some_and(|user| user.map.opens(path, user.role))
    }

    /// Whether the form at `path` would be taken.
    pub(crate) fn may_send(&self, path: &str) -> bool {
        let user = self.user.as_ref();
        user.is_some_and(|user| user.map.sends(path, user.role))
    }
}

/// Has pages drawn in the zone and the colours of the browser that asks for them.
pub(crate) async fn know(State(clock): State<Clock>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let zone = cookie(headers, ZONE_COOKIE).and_then(|name| Zone::named(&name));
    let reader = Reader {
        theme: theme::chosen(headers),
        zone: zone.unwrap_or_else(Zone::utc),
        now: clock.now(),
        user: None,
    };
    reader.reads(next.run(request)).await
}
