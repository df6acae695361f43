//! Rows of what was deleted: they go when no delivery, event or other row names them any more.

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
    /// In the order in which they go: a subscription names its topic, and that its namespace.
    pub const ALL: [Self; 3] = [Self::Subscription, Self::Topic, Self::Namespace];

    fn table(self) -> &'static str {
        match self {
            Self::Subscription => "event_subscription",
            Self::Topic => "topic",
            Self::Namespace => "namespace",
        }
    }

    /// A query for the ids of those to look at, behind `?1`.
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

    /// The condition that nothing names one of them.
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

    /// The condition that one of them may have events without deliveries, which go by their age alone.
    fn has_events(self) -> &'static str {
        match self {
            Self::Topic => "EXISTS (SELECT 1 FROM topic_rollup WHERE topic_id = topic.id)",
            Self::Subscription | Self::Namespace => "FALSE",
        }
    }
}

/// Which rows to delete.
#[derive(Clone, Copy, Debug)]
pub struct ForgetRequest {
    pub kind: DeletedKind,
    /// The last id that was looked at.
    pub after: i64,
    /// They were deleted before this moment, so requests that knew them have ended.
    pub deleted_before: Timestamp,
    /// Events from before this moment are pruned, unless they have deliveries.
    pub pruned_before: Timestamp,
    /// How many rows to look at, and after how many deleted ones to stop.
    pub limit: usize,
}

/// Looks at the next ones. Returns those that may go, and the last one that was looked at, if there was any.
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

/// Tables that have rows of a subscription for as long as it has its own.
const OF_SUBSCRIPTION: [&str; 4] = [
    "subscription_total",
    "dead_letter_total",
    "dead_letter_notice",
    "storage_outage",
];

/// Deletes the first of them, about `limit` rows. Returns the last one that it deleted, if it did not come to the end.
pub(in crate::store) fn forget(
    tx: &WriteTx,
    kind: DeletedKind,
    gone: &[i64],
    limit: usize,
) -> Result<Option<i64>, StoreError> {
    let mut rows = 0;
    for id in gone {
        rows += match kind {
            // Its transfer queue has its id, negated.
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

/// Deletes what a subscription has beside its own row. Returns how many rows that were.
fn forget_counts(tx: &WriteTx, of: i64) -> rusqlite::Result<usize> {
    tx.counts().forget(of);
    let mut rows = rollups::release(tx, &rollups::SUBSCRIPTIONS, of)?;
    for table in OF_SUBSCRIPTION {
        let delete = format!("DELETE FROM {table} WHERE subscription_id = ?1");
        rows += tx.run(&delete, [of])?;
    }
    Ok(rows)
}
