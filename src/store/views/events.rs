//! Searches for events, newest first.

use std::collections::HashMap;

use rusqlite::Connection;

use crate::base::Timestamp;
use crate::model::delivery::DeliveryState;
use crate::model::event::EventKey;
use crate::model::event_filter::EventFilter;
use crate::store::error::StoreError;
use crate::store::row;
use crate::store::sql::{Sql, as_json};
use crate::store::views::event_filter::{FilterValues, IS_SHOWN, asks_for_deliveries, conditions};
use crate::store::views::{PAGE_ROWS_MAX, Views, ends};

/// The maximum number of events that a search looks at, if it reads only columns of the event other than its data. The
/// limits of a search are chosen to take a tenth of a second on a small machine.
const SEARCH_MAX: u64 = 50_000;

/// The maximum number of events that a search looks at, if it reads their data or their deliveries.
const SEARCH_CLOSELY_MAX: u64 = 20_000;

/// The maximum number of bytes of event data that a search reads. The event that exceeds the limit is still looked at.
const SEARCH_BYTES_MAX: u64 = 8 << 20;

/// The maximum number of deliveries in an indexed state for a search to begin with the deliveries. Larger numbers are
/// so frequent among the events that a search through the events finds them as fast.
const INDEXED_MAX: i64 = 5_000;

/// A query for a page of events.
#[derive(Clone, Debug, Default)]
pub struct EventQuery {
    pub filter: EventFilter,
    /// Only events older than this one.
    pub before: Option<EventKey>,
    pub limit: usize,
}

/// A page of events.
#[derive(Clone, Debug, Default)]
pub struct EventSearch {
    pub rows: Vec<EventRow>,
    /// The key of the next page.
    pub next_before: Option<EventKey>,
    /// Set if the search stopped before the page was full and before the oldest event.
    pub progress: Option<SearchProgress>,
}

/// The progress of a search that stopped early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchProgress {
    /// The number of events that the search looked at.
    pub events: u64,
    /// The time at which the last event that was looked at was received.
    pub to: Timestamp,
}

/// An event in a list.
#[derive(Clone, Debug)]
pub struct EventRow {
    pub key: EventKey,
    pub topic: String,
    pub received_at: Timestamp,
    pub id: String,
    pub event_type: String,
    pub subject: Option<String>,
    /// Bytes of its data.
    pub data_bytes: u64,
    /// Event subscriptions that matched it.
    pub matched: u64,
    /// Its deliveries by state, in the order of [`DeliveryState::ALL`].
    pub deliveries: Vec<(DeliveryState, u64)>,
}

impl Views {
    /// Searches for events, newest first. A search looks at a bounded number of events and reports its progress.
    pub async fn events(&self, query: EventQuery) -> Result<EventSearch, StoreError> {
        let query = EventQuery {
            limit: query.limit.clamp(1, PAGE_ROWS_MAX),
            ..query
        };
        self.db.read(move |tx| events(tx, &query)).await
    }
}

fn events(tx: &Connection, query: &EventQuery) -> Result<EventSearch, StoreError> {
    let found = search(tx, query)?;
    let rows = event_rows(tx, &found.keys)?;
    let (next_before, progress) = match (found.keys.last(), found.stopped_at) {
        (Some(last), _) if found.keys.len() == query.limit => (Some(*last), None),
        (_, None) => (None, None),
        (_, Some((key, to))) => {
            let events = found.looked_at;
            (Some(key), Some(SearchProgress { events, to }))
        }
    };
    Ok(EventSearch {
        rows,
        next_before,
        progress,
    })
}

/// The state of a search.
#[derive(Default)]
struct SearchState {
    keys: Vec<EventKey>,
    looked_at: u64,
    /// Bytes of data that were read.
    bytes: u64,
    /// The event at which the search stopped at a limit, with the time at which it was received. `None` if no limit was
    /// reached.
    stopped_at: Option<(EventKey, Timestamp)>,
}

fn search(tx: &Connection, query: &EventQuery) -> Result<SearchState, StoreError> {
    let filter = &query.filter;
    let filter_values = FilterValues::of(filter);
    let (newest, oldest) = id_range(tx, query)?;
    let looks_closely = filter.text.is_some() || asks_for_deliveries(filter);
    let looked_at_max = if looks_closely {
        SEARCH_CLOSELY_MAX
    } else {
        SEARCH_MAX
    };
    let bytes = match &filter.text {
        Some(text) if text.in_data => "coalesce(octet_length(event.data), 0)",
        Some(_) | None => "0",
    };
    // AND and OR in a CASE stop at the first part that decides, so that the data is rarely read.
    let select = format!(
        "SELECT event.id, event.received_at, {bytes}, CASE WHEN {} THEN 1 ELSE 0 END FROM event {} \
         AND event.id <= :newest AND event.id >= :oldest ORDER BY event.id DESC",
        conditions(filter),
        candidates(tx, filter)?
    );
    let values = filter_values.in_sql(&select, &[(":newest", &newest), (":oldest", &oldest)]);
    let mut select = tx.prepare_cached(&select)?;
    let mut rows = select.query(values.as_slice())?;
    let mut search = SearchState::default();
    while search.keys.len() < query.limit
        && let Some(row) = rows.next()?
    {
        let key = row.get(0)?;
        search.looked_at += 1;
        search.bytes += row.get::<_, u64>(2)?;
        if row.get(3)? {
            search.keys.push(key);
        }
        if search.looked_at >= looked_at_max || search.bytes >= SEARCH_BYTES_MAX {
            search.stopped_at = Some((key, row.get(1)?));
            break;
        }
    }
    Ok(search)
}

/// Returns the clauses for the events that a search looks at: those in an index, or all.
fn candidates(tx: &Connection, filter: &EventFilter) -> Result<String, StoreError> {
    if filter.unmatched {
        return Ok("INDEXED BY event_unmatched WHERE event.matched = 0".to_owned());
    }
    let Some(state) = filter.state.map(|each| each.state()).filter(is_indexed) else {
        return Ok("NOT INDEXED WHERE TRUE".to_owned());
    };
    // The state is a literal, because SQLite uses a partial index only if the value is part of the statement.
    let of = match filter.subscription {
        Some(_) => "delivery.subscription_id = :subscription",
        None => "TRUE",
    };
    let sought = format!(
        "FROM delivery WHERE delivery.state = '{}' AND {of}",
        state.name()
    );
    let count = format!("SELECT count(*) FROM (SELECT 1 {sought} LIMIT :most)");
    let most = INDEXED_MAX + 1;
    let filter_values = FilterValues::of(filter);
    let values = filter_values.in_sql(&count, &[(":most", &most)]);
    let count: i64 = tx.value(&count, values.as_slice())?;
    Ok(if count <= INDEXED_MAX {
        format!("WHERE event.id IN (SELECT delivery.event_id {sought})")
    } else {
        "NOT INDEXED WHERE TRUE".to_owned()
    })
}

/// Reports whether there is an index of the deliveries in this state.
fn is_indexed(state: &DeliveryState) -> bool {
    match state {
        DeliveryState::Pending | DeliveryState::DeadLettered => true,
        DeliveryState::Delivered
        | DeliveryState::Dropped
        | DeliveryState::Resubmitted
        | DeliveryState::Removed => false,
    }
}

/// Returns the newest and the oldest event id that can match.
fn id_range(tx: &Connection, query: &EventQuery) -> Result<(i64, i64), StoreError> {
    let mut newest = query
        .before
        .map_or(i64::MAX, |before| before.0.saturating_sub(1));
    let mut oldest = 0;
    if let Some(to) = query.filter.to {
        newest = newest.min(first_since(tx, to)?.saturating_sub(1));
    }
    if let Some(from) = query.filter.from {
        oldest = first_since(tx, from)?;
    }
    Ok((newest, oldest))
}

/// Returns the id of the first event received at `at` or later, or the id after the newest event if there is none.
/// There is no index by time, but ids ascend with time, because the clock never goes back while the appliance runs.
fn first_since(tx: &Connection, at: Timestamp) -> Result<i64, StoreError> {
    let Some((mut low, newest)) = ends(tx)? else {
        return Ok(0);
    };
    let mut high = newest.saturating_add(1);
    let select = "SELECT id, received_at FROM event WHERE id >= ?1 ORDER BY id LIMIT 1";
    // Binary search: events with ids below `low` were received before `at`, and events from `high` on were not.
    while low < high {
        let middle = low + (high - low) / 2;
        let found = tx.first(select, [middle], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let found: Option<(i64, Timestamp)> = found;
        match found {
            Some((id, received_at)) if received_at < at => low = id + 1,
            Some(_) | None => high = middle,
        }
    }
    Ok(low)
}

/// Returns the rows of the events with the given keys, newest first.
fn event_rows(tx: &Connection, keys: &[EventKey]) -> Result<Vec<EventRow>, StoreError> {
    let these = as_json(keys.iter().map(|key| key.0));
    let states = format!(
        "SELECT event_id, state, count(*) FROM delivery \
         WHERE event_id IN (SELECT value FROM json_each(?1)) AND {IS_SHOWN} GROUP BY event_id, state"
    );
    let mut deliveries: HashMap<EventKey, Vec<(DeliveryState, u64)>> = HashMap::new();
    tx.all(&states, [&these], |row| {
        let of = deliveries.entry(row.get(0)?).or_default();
        of.push((row.get(1)?, row.get(2)?));
        Ok(())
    })?;
    let select = "SELECT event.id, topic.name, event.received_at, event.event_id, event.event_type, \
         event.subject, coalesce(octet_length(event.data), 0), event.matched \
         FROM event JOIN topic ON topic.id = event.topic_id \
         WHERE event.id IN (SELECT value FROM json_each(?1)) ORDER BY event.id DESC";
    tx.all(select, [&these], |row| {
        let key = row.get(0)?;
        Ok(EventRow {
            key,
            topic: row.get(1)?,
            received_at: row.get(2)?,
            id: row::text(row, 3)?,
            event_type: row::text(row, 4)?,
            subject: row::text_or_null(row, 5)?,
            data_bytes: row.get(6)?,
            matched: row.get(7)?,
            deliveries: deliveries.remove(&key).unwrap_or_default(),
        })
    })
}
