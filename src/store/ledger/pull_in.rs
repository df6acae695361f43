//! Correction of times that only a wrong clock can have set: a machine whose clock was years ahead set the due times of
//! attempts and dead letters and the ends of locks to years from now. Such deliveries become due at once.
//!
//! The time that a sender has scheduled is kept in a column of its own, `scheduled_at`, and is not changed, however far
//! in the future it lies.

use rusqlite::{Connection, params};

use crate::base::Timestamp;
use crate::model::lease::{NEVER, SubQueue};
use crate::model::retry::WAIT_MAX;
use crate::model::subscription::SubscriptionId;
use crate::store::engine::checksum;
use crate::store::error::StoreError;
use crate::store::sql::Sql;

/// Returns a SELECT for the ids of deliveries that are due or locked too far in the future, in the given queue of the
/// subscription whose id is the SQL expression `own`: due after `?1` and before `?2`, or locked until after `?1`.
/// Pending messages of a session are left out of the search by lock: the session holds their lock. Each of the two
/// searches uses an index.
fn too_late(own: &str, queue: SubQueue) -> String {
    let state = queue.state().name();
    let is_planned_so = match queue {
        SubQueue::Active => "next_attempt_at IS NOT scheduled_at",
        SubQueue::DeadLetter => "TRUE",
    };
    format!(
        "SELECT id FROM delivery WHERE subscription_id = {own} AND state = '{state}' \
             AND next_attempt_at > ?1 AND next_attempt_at < ?2 AND {is_planned_so} \
         UNION ALL SELECT id FROM delivery WHERE subscription_id = {own} AND state = '{state}' \
             AND lock_token IS NOT NULL AND (session IS NULL OR state <> 'Pending') AND locked_until > ?1"
    )
}

/// Returns the queues with deliveries that are due or locked too far in the future. Deleted subscriptions are left out:
/// their pending deliveries are ended regardless of their due times.
pub(super) fn find(
    tx: &Connection,
    now: Timestamp,
) -> Result<Vec<(SubscriptionId, SubQueue)>, StoreError> {
    let mut found = Vec::new();
    for queue in [SubQueue::Active, SubQueue::DeadLetter] {
        // A subscription also has a transfer queue, whose id is the negated id of the subscription.
        for own in ["event_subscription.id", "-event_subscription.id"] {
            let too_late = too_late(own, queue);
            let select = format!(
                "SELECT {own} FROM event_subscription WHERE deleted_at IS NULL AND EXISTS ({too_late})"
            );
            tx.all(&select, params![now + WAIT_MAX, NEVER], |row| {
                found.push((row.get(0)?, queue));
                Ok(())
            })?;
        }
    }
    Ok(found)
}

/// Corrects up to `limit` deliveries of a queue that are due or locked too far in the future, and returns their number.
/// Each becomes due now, or at its scheduled time if that is later, and its lock ends now at the latest. The due time
/// of a deferred delivery is not changed.
pub(super) fn pull_in(
    tx: &Connection,
    subscription: SubscriptionId,
    queue: SubQueue,
    now: Timestamp,
    limit: usize,
) -> Result<usize, StoreError> {
    // The scheduled time of a message has no effect once the message is a dead letter.
    let due_at = match queue {
        SubQueue::Active => "coalesce(max(scheduled_at, ?3), ?3)",
        SubQueue::DeadLetter => "?3",
    };
    let published_at = format!("min(published_at, {due_at})");
    let checksum = checksum::DELIVERY.resealed("published_at", &published_at);
    let update = format!(
        "UPDATE delivery SET locked_until = min(locked_until, ?3), \
             next_attempt_at = CASE WHEN deferred THEN next_attempt_at ELSE {due_at} END, \
             published_at = {published_at}, checksum = {checksum}, \
             expires_at = expires_at + {published_at} - published_at \
         WHERE id IN (SELECT id FROM ({}) LIMIT ?5)",
        too_late("?4", queue)
    );
    let values = params![now + WAIT_MAX, NEVER, now, subscription, limit];
    Ok(tx.run(&update, values)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::engine::{db, migrate};

    const NOW: i64 = 1_000;
    const DAY: i64 = 86_400_000;

    /// Deliveries of the subscription 1, each with a name; what a column is not given is empty.
    fn with(deliveries: &[(&str, &str)]) -> Connection {
        let mut connection = db::open_in_memory().expect("a database");
        migrate::migrate(&mut connection).expect("a schema");
        let fill = "INSERT INTO topic (id, name, kind, definition, key1, key2, created_at, updated_at)
                 VALUES (1, 'orders', 'Queue', '', '', '', 0, 0);
             INSERT INTO event_subscription (id, topic_id, name, definition, validation_state, validated_once,
                 created_at, updated_at) VALUES (1, 1, 'orders', '', 'Succeeded', 1, 0, 0);";
        connection.execute_batch(fill).expect("a queue");
        for (number, (name, columns)) in deliveries.iter().enumerate() {
            let id = number + 1;
            let add = format!(
                "INSERT INTO event (id, topic_id, received_at, event_id, event_type, matched, checksum)
                     VALUES ({id}, 1, 0, '{name}', '', 1, 0);
                 INSERT INTO delivery (id, event_id, subscription_id, published_at, next_attempt_at, checksum)
                     VALUES ({id}, {id}, 1, 0, 0, 0);
                 UPDATE delivery SET {columns} WHERE id = {id};"
            );
            connection.execute_batch(&add).expect("a delivery");
        }
        connection
    }

    /// Returns when each is due after all that a wrong clock has planned is pulled in, and when its lock ends.
    fn pulled_in(connection: &Connection) -> Vec<(String, i64, Option<i64>)> {
        let now = Timestamp::from_ms(NOW);
        while let Some((subscription, queue)) = find(connection, now).expect("queues").first() {
            pull_in(connection, *subscription, *queue, now, 1).expect("changed");
        }
        let all = "SELECT event.event_id, next_attempt_at, locked_until FROM delivery \
             JOIN event ON event.id = delivery.event_id ORDER BY delivery.id";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        connection.all(all, [], read).expect("deliveries")
    }

    #[test]
    fn what_is_scheduled_stays_so_at_any_distance_and_what_a_wrong_clock_planned_is_due() {
        let (week, year, millennium) = (7 * DAY, 365 * DAY, 365_250 * DAY);
        let locked = |until: i64| {
            format!("lock_token = randomblob(16), locked_at = 0, locked_until = {until}")
        };
        let rows = [
            (
                "scheduled",
                format!("scheduled_at = {week}, next_attempt_at = {week}, published_at = {week}"),
            ),
            (
                "far",
                format!("scheduled_at = {millennium}, next_attempt_at = {millennium}"),
            ),
            ("retried", format!("next_attempt_at = {year}")),
            (
                "scheduled in the past",
                format!("scheduled_at = 5, next_attempt_at = {year}"),
            ),
            (
                "scheduled, and taken too early",
                format!(
                    "scheduled_at = {week}, next_attempt_at = {year}, {}",
                    locked(year)
                ),
            ),
            ("soon", format!("next_attempt_at = {DAY}")),
            (
                "deferred",
                format!("deferred = 1, next_attempt_at = {}", NEVER.as_ms()),
            ),
            (
                "deferred and locked",
                format!(
                    "deferred = 1, next_attempt_at = {}, {}",
                    NEVER.as_ms(),
                    locked(year)
                ),
            ),
            (
                "locked",
                format!("next_attempt_at = 60000, {}", locked(60_000)),
            ),
            (
                "in a transfer queue",
                format!("subscription_id = -1, next_attempt_at = {year}"),
            ),
            (
                "dead",
                format!(
                    "state = 'DeadLettered', ended_at = 1, dead_letter_reason = 'Application', \
                     next_attempt_at = {year}, scheduled_at = {year}"
                ),
            ),
        ];
        let rows: Vec<_> = rows
            .iter()
            .map(|(name, columns)| (*name, &columns[..]))
            .collect();
        let expected = [
            ("scheduled", week, None),
            ("far", millennium, None),
            ("retried", NOW, None),
            ("scheduled in the past", NOW, None),
            ("scheduled, and taken too early", week, Some(NOW)),
            ("soon", DAY, None),
            ("deferred", NEVER.as_ms(), None),
            ("deferred and locked", NEVER.as_ms(), Some(NOW)),
            ("locked", 60_000, Some(60_000)),
            ("in a transfer queue", NOW, None),
            ("dead", NOW, None),
        ];
        let expected = expected.map(|(name, due_at, until)| (name.to_owned(), due_at, until));
        assert_eq!(pulled_in(&with(&rows)), expected);
    }

    #[test]
    fn a_time_to_live_begins_no_later_than_now() {
        let year = 365 * DAY;
        let columns = format!(
            "published_at = {year}, next_attempt_at = {year}, expires_at = {}",
            year + 60_000
        );
        let connection = with(&[("ahead", &columns)]);
        pulled_in(&connection);
        let begins = "SELECT published_at FROM delivery";
        assert_eq!(connection.value::<i64>(begins, []), Ok(NOW));
        let ends = "SELECT expires_at FROM delivery";
        assert_eq!(connection.value::<i64>(ends, []), Ok(NOW + 60_000));
    }
}
