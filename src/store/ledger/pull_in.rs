//! Moments that only a wrong clock can have planned: a machine whose clock was years ahead planned attempts,
//! locks and dead letters for then. They are due at once.

use rusqlite::{Connection, params};

use crate::base::Timestamp;
use crate::model::lease::{NEVER, SubQueue};
use crate::model::retry::WAIT_MAX;
use crate::model::subscription::SubscriptionId;
use crate::store::engine::db::WriteTx;
use crate::store::error::StoreError;
use crate::store::sql::Sql;

/// The queues that have a delivery planned for longer than anything waits. Costs one search in an index for
/// each subscription.
pub(super) fn find(
    tx: &Connection,
    now: Timestamp,
) -> Result<Vec<(SubscriptionId, SubQueue)>, StoreError> {
    let mut found = Vec::new();
    for queue in [SubQueue::Active, SubQueue::DeadLetter] {
        let state = queue.state().name();
        let select = format!(
            "SELECT id FROM event_subscription WHERE EXISTS (SELECT 1 FROM delivery \
             WHERE subscription_id = event_subscription.id AND state = '{state}' \
             AND next_attempt_at > ?1 AND next_attempt_at < ?2)"
        );
        let latest = now + WAIT_MAX;
        tx.all(&select, params![latest, NEVER], |row| {
            found.push((row.get(0)?, queue));
            Ok(())
        })?;
    }
    Ok(found)
}

/// Makes up to `limit` of them due. Returns how many there were.
pub(super) fn pull_in(
    tx: &WriteTx,
    (subscription, queue): (SubscriptionId, SubQueue),
    now: Timestamp,
    limit: usize,
) -> Result<usize, StoreError> {
    let state = queue.state().name();
    let update = format!(
        "UPDATE delivery SET next_attempt_at = ?1 WHERE id IN (SELECT id FROM delivery \
         WHERE subscription_id = ?2 AND state = '{state}' AND next_attempt_at > ?3 AND next_attempt_at < ?4 \
         LIMIT ?5)"
    );
    let latest = now + WAIT_MAX;
    Ok(tx.run(&update, params![now, subscription, latest, NEVER, limit])?)
}
