//! The events that a search means, as a file.

use axum::body::Bytes;

use crate::admin::lists::download::{Batches, NDJSON, line, streamed};
use crate::admin::page::*;
use crate::admin::pages::events::filter::EventForm;
use crate::store::StoreError;
use crate::store::views::EventQuery;
use crate::wire::stored_event::StoredEventBody;

/// Events that one file has at most: as many as an editor still opens.
pub(crate) const FILE_EVENTS_MAX: usize = 10_000;

/// Searches without a full page after which a file ends: a million events looked at, some seconds of reading.
const BARREN_SEARCHES_MAX: usize = 50;

/// Events read at once: they bound the memory together with the size of an event.
const FILE_BITE: usize = 20;

/// Events on their way into a file.
struct Writing {
    site: Arc<Site>,
    query: EventQuery,
    events: usize,
    barren_searches: usize,
    is_over: bool,
}

/// The newest events that are meant, each on a line as the management API shows it.
pub(crate) async fn export(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(form): Query<EventForm>,
) -> PageResult {
    let query = form.query(&visitor, FILE_BITE).map_err(|faults| {
        let problems = faults.into_iter().map(|fault| fault.problem);
        PageError::Unreadable(problems.collect::<Vec<_>>().join(" "))
    });
    let writing = Writing {
        query: query?,
        site,
        events: 0,
        barren_searches: 0,
        is_over: false,
    };
    Ok(streamed("events.ndjson", NDJSON, writing))
}

impl Batches for Writing {
    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        if self.is_over {
            return Ok(None);
        }
        let views = &self.site.views;
        let found = views.events(self.query.clone()).await?;
        let mut out = Vec::new();
        for row in found.rows.iter().take(FILE_EVENTS_MAX - self.events) {
            // What has gone meanwhile is left out.
            if let Some(event) = views.event(row.key).await? {
                let body = StoredEventBody::new(&event.stored, &event.topic, event.matched);
                out.extend(line(&body));
            }
        }
        self.events += found.rows.len();
        self.barren_searches += usize::from(found.progress.is_some());
        self.query.before = found.next_before;
        self.is_over = found.next_before.is_none()
            || self.events >= FILE_EVENTS_MAX
            || self.barren_searches >= BARREN_SEARCHES_MAX;
        Ok(Some(out.into()))
    }
}
