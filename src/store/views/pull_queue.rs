//! The queue of a pull subscription: its available, locked and released deliveries.

use rusqlite::{Connection, params};

use super::{DeliveryRow, Views, deliveries};
use crate::base::Timestamp;
use crate::model::subscription::SubscriptionId;
use crate::store::error::StoreError;
use crate::store::sql::Sql;

/// The most deliveries that are counted of the due ones, and of the others, so that a long queue stays cheap to show.
pub const QUEUE_COUNTED_MAX: usize = 10_000;

/// The pending deliveries of a pull subscription by state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullQueueState {
    /// Can be received now.
    pub waiting: u64,
    /// Locked by receivers.
    pub locked: u64,
    /// Released, to be received later.
    pub released: u64,
    /// The publish time of the oldest counted delivery.
    pub oldest_at: Option<Timestamp>,
    /// True if a count has reached [`QUEUE_COUNTED_MAX`] and may be incomplete. The limit applies to the due
    /// deliveries, and separately to the others.
    pub is_partial: bool,
}

/// The pending deliveries of a pull subscription.
#[derive(Clone, Debug)]
pub struct PullQueue {
    pub state: PullQueueState,
    /// Locked deliveries, sorted by the end of the lock.
    pub locked: Vec<DeliveryRow>,
    /// The next deliveries to be received, in the order of receipt.
    pub next: Vec<DeliveryRow>,
}

impl Views {
    /// The queue of `subscription` at `now`, with at most `limit` rows of each kind.
    pub async fn pull_queue(
        &self,
        subscription: SubscriptionId,
        now: Timestamp,
        limit: usize,
    ) -> Result<PullQueue, StoreError> {
        self.db
            .read(move |tx| {
                let values = params![subscription, now, limit];
                Ok(PullQueue {
                    state: state(tx, subscription, now)?,
                    locked: deliveries(tx, LOCKED, values)?,
                    next: deliveries(tx, NEXT, values)?,
                })
            })
            .await
    }
}

// `next_attempt_at` of a locked delivery is the end of its lock, so locked deliveries follow due ones in the index.
const NEXT: &str = "WHERE delivery.subscription_id = ?1 AND delivery.state = 'Pending' \
     AND delivery.next_attempt_at <= ?2 ORDER BY delivery.next_attempt_at, delivery.id LIMIT ?3";
const LOCKED: &str = "WHERE delivery.subscription_id = ?1 AND delivery.state = 'Pending' \
     AND delivery.next_attempt_at > ?2 AND delivery.locked_until > ?2 \
     ORDER BY delivery.next_attempt_at, delivery.id LIMIT ?3";

const COUNT: &str = "WITH pending AS ( \
         SELECT * FROM (SELECT published_at, 0 AS kind FROM delivery \
             WHERE subscription_id = ?1 AND state = 'Pending' AND next_attempt_at <= ?2 \
             ORDER BY next_attempt_at, id LIMIT ?3) \
         UNION ALL \
         SELECT * FROM (SELECT published_at, iif(locked_until > ?2, 1, 2) FROM delivery \
             WHERE subscription_id = ?1 AND state = 'Pending' AND next_attempt_at > ?2 \
             ORDER BY next_attempt_at, id LIMIT ?3)) \
     SELECT kind, count(*), min(published_at) FROM pending GROUP BY kind";

fn state(
    tx: &Connection,
    subscription: SubscriptionId,
    now: Timestamp,
) -> Result<PullQueueState, StoreError> {
    let mut state = PullQueueState::default();
    tx.all(
        COUNT,
        params![subscription, now, QUEUE_COUNTED_MAX],
        |row| {
            let count = row.get(1)?;
            match row.get(0)? {
                0 => state.waiting = count,
                1 => state.locked = count,
                _ => state.released = count,
            }
            let published_at: Timestamp = row.get(2)?;
            let oldest = state.oldest_at.unwrap_or(published_at);
            state.oldest_at = Some(oldest.min(published_at));
            Ok(())
        },
    )?;
    let most = QUEUE_COUNTED_MAX as u64;
    state.is_partial = state.waiting >= most || state.locked + state.released >= most;
    Ok(state)
}
