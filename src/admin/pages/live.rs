//! Live pages: an event stream that says when something has changed, and nothing else. The page's script
//! then reads the page again, so that there is one way to draw a page, with and without the script.

use crate::admin::page::*;
use std::convert::Infallible;
use std::pin::Pin;

use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Sleep;

/// The pause between two notices: a busy appliance changes all the time.
const PAUSE: Duration = Duration::from_secs(1);

/// How long a stream lasts. The browser asks for the next one by itself, if its session still lives.
const LIFE_MAX: Duration = Duration::from_secs(10 * 60);

/// Tells of changes until somebody stops.
pub(crate) async fn stream(_: Visitor, State(site): State<Arc<Site>>) -> Response {
    let Ok(permit) = Arc::clone(&site.streams).try_acquire_owned() else {
        let busy = "Too many pages are live already.";
        return (StatusCode::SERVICE_UNAVAILABLE, busy).into_response();
    };
    let live = Live {
        changes: site.views.changes(),
        end: Box::pin(tokio::time::sleep(LIFE_MAX)),
        _permit: permit,
        site,
    };
    let notices = stream::unfold(live, |mut live| async move {
        live.next_change().await.then(|| (changed(), live))
    });
    Sse::new(notices)
        .keep_alive(KeepAlive::default())
        .into_response()
}

fn changed() -> Result<Event, Infallible> {
    Ok(Event::default().event("changed").data("now"))
}

/// One stream.
struct Live {
    site: Arc<Site>,
    changes: watch::Receiver<()>,
    end: Pin<Box<Sleep>>,
    _permit: OwnedSemaphorePermit,
}

impl Live {
    /// Waits for the next change. Returns whether there was one; if not, the stream is over.
    async fn next_change(&mut self) -> bool {
        let changed = tokio::select! {
            changed = self.changes.changed() => changed.is_ok(),
            () = &mut self.end => false,
            () = self.site.broker.stopping() => false,
        };
        changed
            && tokio::select! {
                () = tokio::time::sleep(PAUSE) => true,
                () = self.site.broker.stopping() => false,
            }
    }
}
