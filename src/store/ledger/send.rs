//! Delivering a stored event to an event subscription that has not got it.

use rusqlite::{Connection, OptionalExtension, params};

use crate::base::Timestamp;
use crate::model::delivery::DeliveryId;
use crate::model::event::EventKey;
use crate::model::subscription::SubscriptionId;
use crate::store::error::StoreError;
use crate::store::ledger::Deliveries;

/// What became of the wish that an event be delivered after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// There is a new delivery, which is due.
    As(DeliveryId),
    /// The subscription has got it, in this delivery.
    Already(DeliveryId),
    /// The event or the subscription is gone.
    Missing,
}

impl Deliveries {
    /// Makes a delivery of an event, unless the subscription has one. The event counts one subscription
    /// more that wanted it.
    pub async fn send(
        &self,
        event: EventKey,
        subscription: SubscriptionId,
        now: Timestamp,
    ) -> Result<Sent, StoreError> {
        self.db
            .write(move |tx| send(tx, event, subscription, now))
            .await
    }
}

fn send(
    tx: &Connection,
    event: EventKey,
    subscription: SubscriptionId,
    now: Timestamp,
) -> Result<Sent, StoreError> {
    let find = "SELECT id FROM delivery WHERE event_id = ?1 AND subscription_id = ?2 LIMIT 1";
    let found: Option<i64> = tx
        .prepare_cached(find)?
        .query_row(params![event, subscription], |row| row.get(0))
        .optional()?;
    if let Some(id) = found {
        return Ok(Sent::Already(DeliveryId(id)));
    }
    let count = "UPDATE event SET matched = matched + 1 WHERE id = ?1 AND EXISTS \
         (SELECT 1 FROM event_subscription WHERE id = ?2 AND deleted_at IS NULL)";
    let counted = tx
        .prepare_cached(count)?
        .execute(params![event, subscription])?;
    if counted == 0 {
        return Ok(Sent::Missing);
    }
    let insert = "INSERT INTO delivery (event_id, subscription_id, next_attempt_at, published_at) \
         VALUES (?1, ?2, ?3, ?3)";
    tx.prepare_cached(insert)?
        .execute(params![event, subscription, now.as_ms()])?;
    Ok(Sent::As(DeliveryId(tx.last_insert_rowid())))
}
