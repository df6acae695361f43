//! Live pages: an event stream that says when something has changed, and nothing else. The page's script
//! then reads the page again, so that there is one way to draw a page, with and without the script.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use http::StatusCode;
use tokio::time::sleep;

use crate::admin::security::session::Visitor;
use crate::admin::site::Site;

/// The pause between two notices: a busy appliance changes all the time.
const PAUSE: Duration = Duration::from_secs(1);

/// How long a stream lasts. The browser asks for the next one by itself, if its session still lives.
const LIFE_MAX: Duration = Duration::from_secs(10 * 60);

pub(crate) async fn stream(_: Visitor, State(site): State<Arc<Site>>) -> Response {
    let Ok(permit) = Arc::clone(&site.streams).try_acquire_owned() else {
        let busy = "Too many pages are live already.";
        return (StatusCode::SERVICE_UNAVAILABLE, busy).into_response();
    };
    let live = (site.views.changes(), site, permit);
    let notices = stream::unfold(live, move |(mut changes, site, permit)| async move {
        let change = async {
            changes.changed().await.ok()?;
            sleep(PAUSE).await;
            Some(Event::default().event("changed").data("now"))
        };
        let notice = tokio::select! {
            notice = change => notice?,
            () = site.broker.stopping() => return None,
        };
        Some((Ok::<_, Infallible>(notice), (changes, site, permit)))
    });
    let bounded_notices = notices.take_until(Box::pin(sleep(LIFE_MAX)));
    let notices = Sse::new(bounded_notices).keep_alive(KeepAlive::default());
    notices.into_response()
}
