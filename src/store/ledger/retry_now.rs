//! Retrying a pending delivery now.

use rusqlite::{Connection, OptionalExtension, params};

use crate::base::Timestamp;
use crate::model::audit::AuditEntry;
use crate::model::delivery::{DeliveryId, DeliveryState};
use crate::model::subscription::SubscriptionId;
use crate::store::error::StoreError;
use crate::store::ledger::Deliveries;
use crate::store::row;

/// The result of retrying a delivery now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetriedNow {
    /// It is due now.
    Due(SubscriptionId),
    /// It is locked or deferred.
    Held,
    /// It has ended.
    Ended(DeliveryState),
    Missing,
}

impl Deliveries {
    /// Makes a pending delivery due now. One that is on the wire is due already; its result sets the next
    /// moment.
    pub async fn retry_now(
        &self,
        id: DeliveryId,
        audit: AuditEntry,
        now: Timestamp,
    ) -> Result<RetriedNow, StoreError> {
        self.db
            .write_audited(move |tx| {
                let retried = retry_now(tx, id, now)?;
                let is_due = matches!(retried, RetriedNow::Due(_));
                Ok((retried, is_due.then_some(audit)))
            })
            .await
    }
}

fn retry_now(tx: &Connection, id: DeliveryId, now: Timestamp) -> Result<RetriedNow, StoreError> {
    let update = "UPDATE delivery SET next_attempt_at = min(next_attempt_at, ?2) WHERE id = ?1 \
         AND state = 'Pending' AND deferred = 0 AND (locked_until IS NULL OR locked_until <= ?2) \
         RETURNING subscription_id";
    let mut update = tx.prepare_cached(update)?;
    let hastened = update
        .query_row(params![id, now.as_ms()], |row| row.get(0))
        .optional()?;
    if let Some(subscription) = hastened {
        return Ok(RetriedNow::Due(SubscriptionId(subscription)));
    }
    let mut select = tx.prepare_cached("SELECT state FROM delivery WHERE id = ?1")?;
    let mut rows = select.query([id])?;
    let Some(found) = rows.next()? else {
        return Ok(RetriedNow::Missing);
    };
    let state = row::state(found, 0)?;
    Ok(match state == DeliveryState::Pending {
        true => RetriedNow::Held,
        false => RetriedNow::Ended(state),
    })
}
