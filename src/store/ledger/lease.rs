//! Due deliveries.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use rusqlite::{Connection, Row, params};

use crate::base::Timestamp;
use crate::model::delivery::{Delivery, DeliveryId};
use crate::model::event::{EventKey, StoredEvent};
use crate::model::subscription::SubscriptionId;
use crate::store::error::StoreError;
use crate::store::ledger::Deliveries;
use crate::store::ledger::recent::RecentEvents;
use crate::store::row;

/// Which due deliveries to lease.
#[derive(Clone, Debug)]
pub struct LeaseRequest {
    pub subscription: SubscriptionId,
    pub now: Timestamp,
    pub limit: usize,
    /// Bytes of events after which no more is added; the first delivery always is.
    pub bytes_max: usize,
    /// Deliveries that the caller has leased already.
    pub held: HashSet<DeliveryId>,
}

/// The result of a [`LeaseRequest`].
#[derive(Clone, Debug, Default)]
pub struct Leased {
    /// Oldest first.
    pub deliveries: Vec<(Delivery, Arc<StoredEvent>)>,
    /// Deliveries whose events cannot be read, with the error.
    pub unreadable: Vec<(Delivery, String)>,
    /// When the next delivery falls due that was neither returned nor held.
    pub next_due: Option<Timestamp>,
}

impl Deliveries {
    /// The due deliveries of one subscription, oldest first.
    pub async fn lease(&self, request: LeaseRequest) -> Result<Leased, StoreError> {
        let recent = Arc::clone(&self.recent);
        self.db.read(move |tx| lease(tx, &request, &recent)).await
    }

    /// The due deliveries of one subscription without their events, oldest first, at most `limit`.
    pub async fn oldest_due(
        &self,
        subscription: SubscriptionId,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Delivery>, StoreError> {
        self.db
            .read(move |tx| {
                let limit = i64::try_from(limit).unwrap_or(i64::MAX);
                let mut find = tx.prepare_cached(&find_due())?;
                let mut rows = find.query(params![subscription, limit])?;
                let mut due = Vec::new();
                while let Some(row) = rows.next()? {
                    if row::timestamp(row, 5)? > now {
                        break;
                    }
                    due.push(delivery(row)?);
                }
                Ok(due)
            })
            .await
    }

    /// When the first pending delivery of each of these subscriptions falls due, without those that have
    /// none.
    pub async fn agenda(
        &self,
        subscriptions: Vec<SubscriptionId>,
    ) -> Result<Vec<(SubscriptionId, Timestamp)>, StoreError> {
        self.db
            .read(move |tx| {
                let mut agenda = Vec::new();
                for subscription in subscriptions {
                    agenda.extend(next_due(tx, subscription)?.map(|at| (subscription, at)));
                }
                Ok(agenda)
            })
            .await
    }
}

/// The columns that [`delivery`] reads. The first attempt is looked up only where there was one.
pub(super) const DELIVERY_COLUMNS: &str = "id, event_id, attempts, published_at, \
     CASE WHEN attempts > 0 THEN (SELECT started_at FROM delivery_attempt \
     WHERE delivery_id = delivery.id AND attempt = 1) END";

/// The pending deliveries of a subscription, in the order in which they fall due.
fn find_due() -> String {
    format!(
        "SELECT {DELIVERY_COLUMNS}, next_attempt_at FROM delivery \
         WHERE subscription_id = ?1 AND state = 'Pending' ORDER BY next_attempt_at, id LIMIT ?2"
    )
}

fn lease(
    tx: &Connection,
    request: &LeaseRequest,
    recent: &Mutex<RecentEvents>,
) -> Result<Leased, StoreError> {
    let mut find = tx.prepare_cached(&find_due())?;
    // Held deliveries are due too and come first. One row more tells when the next one falls due.
    let limit = i64::try_from(request.limit + request.held.len() + 1).unwrap_or(i64::MAX);
    let mut rows = find.query(params![request.subscription, limit])?;
    let mut leased = Leased::default();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let delivery = delivery(row)?;
        if request.held.contains(&delivery.id) {
            continue;
        }
        let due_at = row::timestamp(row, 5)?;
        let found = leased.deliveries.len() + leased.unreadable.len();
        let enough = found == request.limit || bytes > request.bytes_max;
        if due_at > request.now || enough {
            leased.next_due = Some(due_at);
            break;
        }
        let known = recent.lock().unwrap().get(delivery.event);
        match known.map_or_else(|| load_event(tx, delivery.event).map(Arc::new), Ok) {
            Ok(event) => {
                bytes += event.event.size();
                leased.deliveries.push((delivery, event));
            }
            // An unreadable event must not stop the others.
            Err(StoreError::Unreadable(reason)) => leased.unreadable.push((delivery, reason)),
            Err(error) => return Err(error),
        }
    }
    Ok(leased)
}

/// Reads a row that begins with [`DELIVERY_COLUMNS`].
pub(in crate::store) fn delivery(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    Ok(Delivery {
        id: DeliveryId(row.get(0)?),
        event: EventKey(row.get(1)?),
        attempts: row.get(2)?,
        published_at: row::timestamp(row, 3)?,
        first_attempt_at: row::timestamp_or_null(row, 4)?,
    })
}

pub(super) fn load_event(tx: &Connection, key: EventKey) -> Result<StoredEvent, StoreError> {
    let select = format!("SELECT {} FROM event WHERE id = ?1", row::EVENT_COLUMNS);
    let mut select = tx.prepare_cached(&select)?;
    let mut rows = select.query([key])?;
    let row = rows
        .next()?
        .ok_or_else(|| StoreError::Unreadable(format!("event {key} is missing")))?;
    row::event(row)
}

fn next_due(
    tx: &Connection,
    subscription: SubscriptionId,
) -> Result<Option<Timestamp>, StoreError> {
    let first = "SELECT min(next_attempt_at) FROM delivery WHERE subscription_id = ?1 AND state = 'Pending'";
    let at: Option<i64> = tx
        .prepare_cached(first)?
        .query_row([subscription], |row| row.get(0))?;
    Ok(at.map(Timestamp::from_ms))
}
