//! Removal of the rows of deleted resources. A row is removed when no delivery, event or other row refers to it any
//! more.

use rusqlite::{Connection, params};

use crate::base::Timestamp;
use crate::store::engine::db::WriteTx;
use crate::store::error::StoreError;
use crate::store::retention::rollups;
use crate::store::sql::Sql;

/// A kind of resource whose row stays for a while after it is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletedKind {
    Subscription,
    Topic,
    Namespace,
}

impl DeletedKind {
    /// All kinds in the order of removal. A subscription refers to its topic, and a topic to its namespace.
    pub const ALL: [Self; 3] = [Self::Subscription, Self::Topic, Self::Namespace];

    fn table(self) -> &'static str {
        match self {
            Self::Subscription => "event_subscription",
            Self::Topic => "topic",
            Self::Namespace => "namespace",
        }
    }

    /// Returns the query for the ids of deleted resources greater than `?1`.
    fn deleted(self) -> String {
        match self {
            Self::Subscription => "SELECT subscription_id AS id FROM subscription_total \
                 WHERE deleted = 1 AND kept <= 0 AND subscription_id > ?1 ORDER BY 1"
                .to_owned(),
            Self::Topic | Self::Namespace => format!(
                "SELECT id FROM {} WHERE deleted_at IS NOT NULL AND id > ?1 ORDER BY id",
                self.table()
            ),
        }
    }

    /// Returns the condition that no row refers to the resource.
    fn is_unnamed(self) -> &'static str {
        match self {
            Self::Subscription => {
                "NOT EXISTS (SELECT 1 FROM subscription_total \
                     WHERE subscription_id IN (event_subscription.id, -event_subscription.id) AND kept > 0) \
                 AND NOT EXISTS (SELECT 1 FROM message_session \
                     WHERE subscription_id IN (event_subscription.id, -event_subscription.id)) \
                 AND NOT EXISTS (SELECT 1 FROM fan_out \
                     WHERE fan_out.topic_id = event_subscription.topic_id AND next_event_id <= last_event_id)"
            }
            Self::Topic => {
                "NOT EXISTS (SELECT 1 FROM event_subscription WHERE topic_id = topic.id) \
                 AND topic.id NOT IN (SELECT topic_id FROM rejection)"
            }
            Self::Namespace => "NOT EXISTS (SELECT 1 FROM topic WHERE namespace_id = namespace.id)",
        }
    }

    /// Returns the condition that the resource may have events without deliveries. Such events are pruned by age alone.
    fn has_events(self) -> &'static str {
        match self {
            Self::Topic => "EXISTS (SELECT 1 FROM topic_rollup WHERE topic_id = topic.id)",
            Self::Subscription | Self::Namespace => "FALSE",
        }
    }
}

/// A request to find rows of deleted resources that can be removed.
#[derive(Clone, Copy, Debug)]
pub struct ForgetRequest {
    pub kind: DeletedKind,
    /// The last id that was looked at.
    pub after: i64,
    /// The time before which a resource must have been deleted. Requests that used it have ended since.
    pub deleted_before: Timestamp,
    /// The time before which all events without deliveries are pruned.
    pub pruned_before: Timestamp,
    /// The number of rows to look at, and the number of deleted rows after which to stop.
    pub limit: usize,
}

/// Looks at the next deleted resources. Returns the ids whose rows can be removed, and the last id that was looked at,
/// if there was one.
pub(in crate::store) fn find(
    tx: &Connection,
    request: &ForgetRequest,
) -> Result<(Vec<i64>, Option<i64>), StoreError> {
    let kind = request.kind;
    let (table, deleted) = (kind.table(), kind.deleted());
    let find = format!(
        "SELECT looked_at.id, coalesce({table}.deleted_at < iif({}, min(?3, ?4), ?3) AND {}, 0) \
         FROM ({deleted} LIMIT ?2) AS looked_at LEFT JOIN {table} ON {table}.id = looked_at.id \
         ORDER BY looked_at.id",
        kind.has_events(),
        kind.is_unnamed()
    );
    let values = params![
        request.after,
        request.limit,
        request.deleted_before,
        request.pruned_before
    ];
    let looked_at: Vec<(i64, bool)> =
        tx.all(&find, values, |row| Ok((row.get(0)?, row.get(1)?)))?;
    let last = looked_at.last().map(|(id, _)| *id);
    let gone = looked_at.into_iter().filter(|(_, is_gone)| *is_gone);
    Ok((gone.map(|(id, _)| id).collect(), last))
}

/// The tables whose rows of a subscription are deleted together with the row of the subscription.
const OF_SUBSCRIPTION: [&str; 4] = [
    "subscription_total",
    "dead_letter_total",
    "dead_letter_notice",
    "storage_outage",
];

/// Deletes the rows of the resources `gone`, and stops after about `limit` rows. Returns the id of the last deleted
/// resource if it has stopped at the limit.
pub(in crate::store) fn forget(
    tx: &WriteTx,
    kind: DeletedKind,
    gone: &[i64],
    limit: usize,
) -> Result<Option<i64>, StoreError> {
    let mut rows = 0;
    for id in gone {
        rows += match kind {
            // Includes the transfer queue of the subscription, whose id is the negated id of the subscription.
            DeletedKind::Subscription => forget_counts(tx, *id)? + forget_counts(tx, -id)?,
            DeletedKind::Topic => rollups::release(tx, &rollups::TOPICS, *id)?,
            DeletedKind::Namespace => 0,
        };
        let delete = format!("DELETE FROM {} WHERE id = ?1", kind.table());
        rows += tx.run(&delete, [id])?;
        if rows >= limit {
            return Ok(Some(*id));
        }
    }
    Ok(None)
}

/// Deletes the counters and other rows of a subscription, except its own row. Returns the number of deleted rows.
fn forget_counts(tx: &WriteTx, of: i64) -> rusqlite::Result<usize> {
    tx.counts().forget(of);
    let mut rows = rollups::release(tx, &rollups::SUBSCRIPTIONS, of)?;
    for table in OF_SUBSCRIPTION {
        let delete = format!("DELETE FROM {table} WHERE subscription_id = ?1");
        rows += tx.run(&delete, [of])?;
    }
    Ok(rows)
}
