//! Leases of due deliveries.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use rusqlite::{Connection, Row, params};

use crate::base::Timestamp;
use crate::model::delivery::{Delivery, DeliveryId};
use crate::model::event::{EventKey, StoredEvent};
use crate::model::lease::QueueRef;
use crate::model::subscription::SubscriptionId;
use crate::store::engine::checksum;
use crate::store::engine::read_again::read_again;
use crate::store::error::StoreError;
use crate::store::row;
use crate::store::sql::Sql;

/// A request to lease due deliveries of a subscription.
#[derive(Clone, Debug)]
pub struct LeaseRequest {
    pub subscription: SubscriptionId,
    pub now: Timestamp,
    pub limit: usize,
    /// A delivery that is leased before all others, if it is due.
    pub first: Option<DeliveryId>,
    /// The number of bytes of events after which no more deliveries are added. The first delivery is always added.
    pub bytes_max: usize,
    /// Deliveries that the caller has leased already.
    pub held: HashSet<DeliveryId>,
    /// Is true if the events are loaded too, not only the deliveries.
    pub bodies: bool,
}

/// The result of a [`LeaseRequest`].
#[derive(Clone, Debug, Default)]
pub struct Leased {
    /// The leased deliveries, oldest first, except that [`LeaseRequest::first`] comes before all others.
    pub deliveries: Vec<Delivery>,
    /// The events of `deliveries`, in the same order; empty if [`LeaseRequest::bodies`] is false.
    pub events: Vec<Arc<StoredEvent>>,
    /// Deliveries whose events cannot be read, with the error.
    pub unreadable: Vec<(Delivery, String)>,
    /// The due time of the next delivery that was neither returned nor held.
    pub next_due: Option<Timestamp>,
}

/// A queue, and the due time of its first delivery, which may have passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    pub queue: QueueRef,
    pub at: Timestamp,
}

/// The columns that [`delivery`] reads. The start of the first attempt is looked up only if there was an attempt.
pub(super) const DELIVERY_COLUMNS: &str = "id, coalesce(number, id), event_id, attempts, published_at, \
     CASE WHEN attempts > 0 THEN (SELECT started_at FROM delivery_attempt \
     WHERE delivery_id = delivery.id AND attempt = 1) END";

/// Selects the pending deliveries of a subscription. The text is built once, since every lease runs the query.
static FIND: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {DELIVERY_COLUMNS}, next_attempt_at, batch_max FROM delivery \
         WHERE subscription_id = ?1 AND state = 'Pending' ORDER BY next_attempt_at, id LIMIT ?2"
    )
});

pub(super) fn lease(tx: &Connection, request: &LeaseRequest) -> Result<Leased, StoreError> {
    let mut find = tx.prepare_cached(&FIND)?;
    // Held deliveries are due too, and come first. One extra row gives the due time of the next delivery, and one may
    // be the delivery of `request.first`.
    let limit = request.limit + request.held.len() + 2;
    let due = find.query_map(params![request.subscription, limit], with_due)?;
    let first = first_of(tx, request)?;
    let led_by = first.as_ref().map(|(delivery, _)| delivery.id);
    let rows = due.filter(|row| !matches!(row, Ok((each, _)) if Some(each.id) == led_by));
    let mut leased = Leased::default();
    let mut bytes = 0;
    for row in first.into_iter().map(Ok).chain(rows) {
        let (delivery, due_at) = row?;
        if request.held.contains(&delivery.id) {
            continue;
        }
        let found = leased.deliveries.len() + leased.unreadable.len();
        if due_at > request.now || found == request.limit || bytes > request.bytes_max {
            leased.next_due = Some(due_at);
            break;
        }
        if request.bodies {
            match load_event(tx, delivery.event, delivery.id)? {
                Ok(event) => {
                    bytes += event.event.size();
                    leased.events.push(Arc::new(event));
                }
                // An unreadable event must not stop the others.
                Err(reason) => {
                    leased.unreadable.push((delivery, reason));
                    continue;
                }
            }
        }
        leased.deliveries.push(delivery);
    }
    Ok(leased)
}

fn first_of(
    tx: &Connection,
    request: &LeaseRequest,
) -> Result<Option<(Delivery, Timestamp)>, StoreError> {
    let Some(first) = request.first else {
        return Ok(None);
    };
    let find = format!(
        "SELECT {DELIVERY_COLUMNS}, next_attempt_at, batch_max FROM delivery WHERE id = ?1 \
         AND subscription_id = ?2 AND state = 'Pending' AND next_attempt_at <= ?3"
    );
    let of = params![first, request.subscription, request.now];
    tx.first(&find, of, |row| Ok(with_due(row)?))
}

/// Reads a delivery with its maximum batch size, which is set if its batch was split, and its due time, which may have
/// passed.
fn with_due(row: &Row<'_>) -> rusqlite::Result<(Delivery, Timestamp)> {
    let leased = Delivery {
        batch_max: row.get(7)?,
        ..delivery(row)?
    };
    Ok((leased, row.get(6)?))
}

/// Reads a row that begins with [`DELIVERY_COLUMNS`]. `batch_max` stays `None`, since receivers get no batches.
pub(super) fn delivery(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    Ok(Delivery {
        id: row.get(0)?,
        number: row.get(1)?,
        event: row.get(2)?,
        attempts: row.get(3)?,
        published_at: row.get(4)?,
        first_attempt_at: row.get(5)?,
        batch_max: None,
    })
}

/// The query of [`load_event`].
static LOAD: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {}, (SELECT {} FROM delivery WHERE id = ?2) FROM event WHERE id = ?1",
        row::EVENT_COLUMNS,
        checksum::DELIVERY.is_sound()
    )
});

/// Loads the event of a delivery. The inner error says why the event cannot be read, or that the row of the delivery is
/// damaged. A damaged delivery may in fact belong to another subscription.
pub(super) fn load_event(
    tx: &Connection,
    key: EventKey,
    of: DeliveryId,
) -> Result<Result<StoredEvent, String>, StoreError> {
    let load = |tx: &Connection| {
        tx.first(&LOAD, params![key, of], |row| {
            if row.get::<_, Option<bool>>(row::EVENT_WIDTH)? != Some(true) {
                return Err(row::damaged_delivery());
            }
            row::event(row)
        })
    };
    let loaded = match load(tx) {
        Ok(Some(event)) => Ok(event),
        Ok(None) => return Ok(Err(format!("event {key} is missing"))),
        Err(error) if error.is_unreadable() => read_again(tx, error, load),
        Err(error) => Err(error),
    };
    match loaded {
        Ok(event) => Ok(Ok(event)),
        Err(error) if error.is_unreadable() => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}

/// Returns the due time of the first delivery of a queue, which may have passed.
pub(in crate::store) fn next_due(
    tx: &Connection,
    of: QueueRef,
) -> Result<Option<Timestamp>, StoreError> {
    // The state is a literal, since SQLite uses a partial index only if the value is in the text of the query.
    let first = format!(
        "SELECT min(next_attempt_at) FROM delivery WHERE subscription_id = ?1 AND state = '{}'",
        of.queue.state().name()
    );
    tx.value(&first, [of.subscription])
}
