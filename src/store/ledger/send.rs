//! Delivering a stored event to a subscription that did not get it.

use rusqlite::{Connection, OptionalExtension, params};

use crate::base::Timestamp;
use crate::model::audit::AuditEntry;
use crate::model::delivery::DeliveryId;
use crate::model::event::EventKey;
use crate::model::subscription::SubscriptionId;
use crate::store::error::StoreError;
use crate::store::ledger::Deliveries;

/// The result of delivering a stored event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The new delivery.
    As(DeliveryId),
    /// The delivery that the subscription has already.
    Already(DeliveryId),
    /// The event or the subscription is gone.
    Missing,
}

impl Deliveries {
    /// Creates a delivery of an event, unless the subscription has one. The event counts as matched by one
    /// subscription more.
    pub async fn send(
        &self,
        event: EventKey,
        subscription: SubscriptionId,
        audit: AuditEntry,
        now: Timestamp,
    ) -> Result<Sent, StoreError> {
        self.db
            .write_audited(move |tx| {
                let sent = send(tx, event, subscription, now)?;
                let is_new = matches!(sent, Sent::As(_));
                Ok((sent, is_new.then_some(audit)))
            })
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
