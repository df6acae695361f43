//! Queues of messages (rule S1): counts of their messages, and their sessions.

use rusqlite::{Connection, params};

use super::{PageOf, QueueDepth, Views, depth};
use crate::base::Timestamp;
use crate::model::limits::SESSIONS_LISTED_MAX;
use crate::model::queue::QueueCounts;
use crate::model::subscription::SubscriptionId;
use crate::store::error::StoreError;
use crate::store::sql::{Sql, as_json};

/// The maximum number of messages of a session that are counted.
pub const SESSION_COUNTED_MAX: u64 = 1_000;

/// The number of messages that one read looks at to count those of several queues. A single queue may exceed it.
const COUNTED_AT_ONCE: u64 = 10_000;

/// The messages of a queue by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCounts {
    pub depth: QueueDepth,
    /// Messages locked by receivers.
    pub locked: u64,
    /// Deferred messages, which are received by sequence number only.
    pub deferred: u64,
    pub scheduled: u64,
    /// Messages that are forwarded to another entity, because they were sent to that entity via this one.
    pub transfers: u64,
    pub transfer_dead_letters: u64,
    /// Is true if the limit was reached, so that more messages may be locked, deferred or scheduled than were counted.
    pub is_partial: bool,
}

impl MessageCounts {
    /// Returns the number of messages that can be received in order, now or after their lock ends.
    pub fn active(&self) -> u64 {
        let others = self.deferred + self.scheduled;
        self.depth.pending.saturating_sub(others)
    }

    /// Returns the counts in the form shown outside of the admin pages. `bytes` is the size of all messages.
    pub fn told(&self, bytes: u64) -> QueueCounts {
        QueueCounts {
            active: self.depth.pending.saturating_sub(self.scheduled),
            scheduled: self.scheduled,
            dead_letters: self.depth.dead_letters,
            transfers: self.transfers,
            transfer_dead_letters: self.transfer_dead_letters,
            bytes,
        }
    }
}

/// A session of a queue in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    pub name: String,
    /// The number of messages of the session, at most [`SESSION_COUNTED_MAX`].
    pub messages: u64,
    /// The size of the session state in bytes, and the time at which it was set.
    pub state: Option<(u64, Timestamp)>,
    /// The end of the newest lock of the session, which may have expired.
    pub locked_until: Option<Timestamp>,
}

impl Views {
    /// Returns the message counts of several queues, in the order of `queues`. At most `most` messages that cannot be
    /// received now are looked at in each queue.
    pub async fn message_counts(
        &self,
        queues: Vec<SubscriptionId>,
        now: Timestamp,
        most: u64,
    ) -> Result<Vec<MessageCounts>, StoreError> {
        let mut counts = Vec::with_capacity(queues.len());
        for some in queues.chunks(counted_together(most)) {
            let wanted = as_json(some.iter().map(|id| id.0));
            let count = move |tx: &_| message_counts(tx, &wanted, now, most);
            let of = some.first().copied();
            counts.extend(self.db.read_in_turn(of, count).await?);
        }
        Ok(counts)
    }

    /// Returns the number of messages that are scheduled in a topic with the given subscriptions. A message is counted
    /// once, regardless of its number of waiting copies. At most `most` copies are looked at.
    pub async fn scheduled_in(
        &self,
        subscriptions: Vec<SubscriptionId>,
        now: Timestamp,
        most: u64,
    ) -> Result<u64, StoreError> {
        let wanted = as_json(subscriptions.iter().map(|id| id.0));
        let count = move |tx: &Connection| {
            tx.one(SCHEDULED, params![wanted, now, most], |row| Ok(row.get(0)?))
        };
        let of = subscriptions.first().copied();
        self.db.read_in_turn(of, count).await
    }

    /// Returns the sessions of a queue in the order of their names, starting after `after`.
    pub async fn message_sessions(
        &self,
        queue: SubscriptionId,
        after: String,
        limit: usize,
    ) -> Result<PageOf<SessionRow, String>, StoreError> {
        let bounded_limit = limit.min(SESSIONS_LISTED_MAX);
        self.db
            .read(move |tx| {
                let rows = sessions(tx, queue, &after, bounded_limit + 1)?;
                Ok(PageOf::of(rows, bounded_limit, |row| row.name.clone()))
            })
            .await
    }
}

/// Returns the number of queues to count in one read, if the read looks at up to `most` messages of each.
fn counted_together(most: u64) -> usize {
    let queues = COUNTED_AT_ONCE / most.max(1);
    usize::try_from(queues).unwrap_or(usize::MAX).max(1)
}

// The `next_attempt_at` of a message is in the future as long as the message cannot be received.
const COUNTS: &str = "SELECT coalesce(own.pending, 0), coalesce(own.dead_letters, 0), \
     (SELECT min(next_attempt_at) FROM delivery \
         WHERE delivery.subscription_id = wanted.value AND state = 'Pending'), \
     (SELECT json_array(count(*), count(*) FILTER (WHERE locked_until > ?2 AND NOT deferred), \
             count(*) FILTER (WHERE deferred), count(*) FILTER (WHERE scheduled_at > ?2)) \
         FROM (SELECT locked_until, deferred, scheduled_at FROM delivery \
             WHERE delivery.subscription_id = wanted.value AND state = 'Pending' \
             AND next_attempt_at > ?2 ORDER BY next_attempt_at, id LIMIT ?3)), \
     coalesce(transfers.pending, 0), coalesce(transfers.dead_letters, 0) \
     FROM json_each(?1) AS wanted LEFT JOIN subscription_total AS own ON own.subscription_id = wanted.value \
     LEFT JOIN subscription_total AS transfers ON transfers.subscription_id = -wanted.value \
     ORDER BY wanted.key";

const SCHEDULED: &str = "SELECT count(DISTINCT first_number) FROM (SELECT first_number FROM delivery \
         WHERE subscription_id IN (SELECT value FROM json_each(?1)) AND state = 'Pending' \
         AND next_attempt_at > ?2 AND published_at > ?2 LIMIT ?3)";

const SESSIONS: &str = "SELECT name, (SELECT count(*) FROM (SELECT 1 FROM delivery \
         WHERE delivery.subscription_id = ?1 AND delivery.session = message_session.name \
         AND delivery.state = 'Pending' LIMIT ?4)), length(state), state_set_at, locked_until \
     FROM message_session WHERE subscription_id = ?1 AND name > ?2 ORDER BY name LIMIT ?3";

fn message_counts(
    tx: &Connection,
    wanted: &str,
    now: Timestamp,
    most: u64,
) -> Result<Vec<MessageCounts>, StoreError> {
    tx.all(COUNTS, params![wanted, now, most], |row| {
        let counts: String = row.get(3)?;
        let counts: [u64; 4] = serde_json::from_str(&counts).unwrap_or_default();
        let [looked_at, locked, deferred, scheduled] = counts;
        Ok(MessageCounts {
            depth: depth(row)?,
            locked,
            deferred,
            scheduled,
            transfers: row.get(4)?,
            transfer_dead_letters: row.get(5)?,
            is_partial: looked_at >= most,
        })
    })
}

fn sessions(
    tx: &Connection,
    queue: SubscriptionId,
    after: &str,
    limit: usize,
) -> Result<Vec<SessionRow>, StoreError> {
    let values = params![queue, after, limit, SESSION_COUNTED_MAX];
    tx.all(SESSIONS, values, |row| {
        let (bytes, set_at): (Option<u64>, Option<Timestamp>) = (row.get(2)?, row.get(3)?);
        Ok(SessionRow {
            name: row.get(0)?,
            messages: row.get(1)?,
            state: bytes.zip(set_at),
            locked_until: row.get(4)?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_read_counts_as_many_queues_as_it_may_look_at_messages() {
        for (most, queues) in [(0, 10_000), (1_000, 10), (6_000, 1), (100_000, 1)] {
            assert_eq!(counted_together(most), queues, "{most}");
        }
    }
}
