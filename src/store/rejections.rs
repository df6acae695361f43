//! Rejected publish requests, bounded in number and age.

use rusqlite::{Connection, Row, params};

use crate::base::Timestamp;
use crate::model::rejection::{Rejection, RejectionId, StoredRejection};
use crate::model::topic::TopicId;
use crate::store::engine::db::Db;
use crate::store::error::StoreError;
use crate::store::sql::Sql;
use crate::store::views::{PAGE_ROWS_MAX, PageOf, Views};

/// Rejected publish requests.
#[derive(Clone)]
pub struct Rejections {
    pub(super) db: Db,
}

/// A query for rejected requests.
#[derive(Clone, Debug, Default)]
pub struct RejectionQuery {
    pub topic: Option<TopicId>,
    /// Part of the message to the publisher, in any ASCII letter case, or the whole error code.
    pub reason: Option<String>,
    /// Only requests older than this one.
    pub before: Option<RejectionId>,
    pub limit: usize,
}

const ROW: &str = "SELECT rejection.id, topic.name, rejection.topic_id, rejection.received_at, \
     rejection.status, rejection.code, rejection.reason, rejection.content_type, \
     rejection.body_bytes, rejection.body_start FROM rejection JOIN topic ON topic.id = rejection.topic_id";

impl Rejections {
    /// Stores rejected requests, then deletes all but the newest `most` of the stored ones.
    pub async fn keep(&self, rejections: Vec<Rejection>, most: usize) -> Result<(), StoreError> {
        self.db
            .write(move |tx| {
                for each in &rejections {
                    insert(tx, each)?;
                }
                let excess = "DELETE FROM rejection WHERE id <= \
                     (SELECT id FROM rejection ORDER BY id DESC LIMIT 1 OFFSET ?1)";
                tx.run(excess, [most])?;
                Ok(())
            })
            .await
    }

    /// Deletes rejected requests from before `since`. Returns the number deleted.
    pub async fn forget(&self, since: Timestamp) -> Result<usize, StoreError> {
        self.db
            .write(move |tx| {
                let forget = "DELETE FROM rejection WHERE received_at < ?1";
                Ok(tx.run(forget, [since])?)
            })
            .await
    }
}

impl Views {
    /// Returns a page of rejected publish requests, newest first.
    pub async fn rejections(
        &self,
        query: RejectionQuery,
    ) -> Result<PageOf<StoredRejection, RejectionId>, StoreError> {
        self.db.read(move |tx| list(tx, &query)).await
    }

    /// Returns the number of stored rejected publish requests since `since`.
    pub async fn count_rejections(&self, since: Timestamp) -> Result<u64, StoreError> {
        self.db
            .read(move |tx| {
                let count = "SELECT count(*) FROM rejection WHERE received_at >= ?1";
                tx.value(count, [since])
            })
            .await
    }

    /// Returns a rejected publish request by id.
    pub async fn rejection(&self, id: RejectionId) -> Result<Option<StoredRejection>, StoreError> {
        self.db
            .read(move |tx| tx.first(&format!("{ROW} WHERE rejection.id = ?1"), [id], rejection))
            .await
    }
}

fn insert(tx: &Connection, rejection: &Rejection) -> Result<(), StoreError> {
    let insert = "INSERT INTO rejection (topic_id, received_at, status, code, reason, content_type, \
         body_bytes, body_start) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let values = params![
        rejection.topic,
        rejection.received_at,
        rejection.status,
        rejection.code,
        rejection.reason,
        rejection.content_type,
        rejection.bytes,
        rejection.body_start,
    ];
    tx.run(insert, values)?;
    Ok(())
}

fn list(
    tx: &Connection,
    query: &RejectionQuery,
) -> Result<PageOf<StoredRejection, RejectionId>, StoreError> {
    let limit = query.limit.clamp(1, PAGE_ROWS_MAX);
    let newest = query
        .before
        .map_or(i64::MAX, |before| before.0.saturating_sub(1));
    let select = format!(
        "{ROW} WHERE rejection.id <= ?1 AND (?2 IS NULL OR rejection.topic_id = ?2) \
         AND (?3 IS NULL OR rejection.code = ?3 COLLATE NOCASE \
             OR instr(lower(rejection.reason), lower(?3))) \
         ORDER BY rejection.id DESC LIMIT ?4"
    );
    let values = params![newest, query.topic, query.reason, limit + 1];
    let rows = tx.all(&select, values, rejection)?;
    Ok(PageOf::of(rows, limit, |row| row.id))
}

fn rejection(row: &Row<'_>) -> Result<StoredRejection, StoreError> {
    Ok(StoredRejection {
        id: row.get(0)?,
        topic: row.get(1)?,
        rejection: Rejection {
            topic: row.get(2)?,
            received_at: row.get(3)?,
            status: row.get(4)?,
            code: row.get(5)?,
            reason: row.get(6)?,
            content_type: row.get(7)?,
            bytes: row.get(8)?,
            body_start: row.get(9)?,
        },
    })
}
