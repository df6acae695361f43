//! Rejected publish requests, bounded in number and age.

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::base::Timestamp;
use crate::model::rejection::{Rejection, RejectionId, StoredRejection};
use crate::model::topic::TopicId;
use crate::store::engine::db::Db;
use crate::store::error::StoreError;
use crate::store::row;
use crate::store::views::{PAGE_ROWS_MAX, Page, Views};

/// Rejected publish requests.
#[derive(Clone)]
pub struct Rejections {
    pub(super) db: Db,
}

/// Which rejected requests to list.
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
    /// Stores these, and deletes all but the newest `most`.
    pub async fn keep(&self, rejections: Vec<Rejection>, most: usize) -> Result<(), StoreError> {
        self.db
            .write(move |tx| {
                for each in &rejections {
                    insert(tx, each)?;
                }
                let most = i64::try_from(most).unwrap_or(i64::MAX);
                let excess = "DELETE FROM rejection WHERE id <= \
                     (SELECT id FROM rejection ORDER BY id DESC LIMIT 1 OFFSET ?1)";
                tx.prepare_cached(excess)?.execute([most])?;
                Ok(())
            })
            .await
    }

    /// Deletes those from before `since`. Returns how many.
    pub async fn forget(&self, since: Timestamp) -> Result<usize, StoreError> {
        self.db
            .write(move |tx| {
                let forget = "DELETE FROM rejection WHERE received_at < ?1";
                Ok(tx.prepare_cached(forget)?.execute([since.as_ms()])?)
            })
            .await
    }
}

impl Views {
    /// Rejected publish requests, newest first.
    pub async fn rejections(
        &self,
        query: RejectionQuery,
    ) -> Result<Page<StoredRejection, RejectionId>, StoreError> {
        self.db.read(move |tx| list(tx, &query)).await
    }

    /// How many rejected publish requests since `since` are stored.
    pub async fn count_rejections(&self, since: Timestamp) -> Result<u64, StoreError> {
        self.db
            .read(move |tx| {
                let count = "SELECT count(*) FROM rejection WHERE received_at >= ?1";
                let mut count = tx.prepare_cached(count)?;
                let count: i64 = count.query_row([since.as_ms()], |row| row.get(0))?;
                Ok(count.unsigned_abs())
            })
            .await
    }

    /// One rejected publish request.
    pub async fn rejection(&self, id: RejectionId) -> Result<Option<StoredRejection>, StoreError> {
        self.db
            .read(move |tx| {
                let mut select = tx.prepare_cached(&format!("{ROW} WHERE rejection.id = ?1"))?;
                Ok(select.query_row([id.0], rejection).optional()?)
            })
            .await
    }
}

fn insert(tx: &Connection, rejection: &Rejection) -> Result<(), StoreError> {
    let insert = "INSERT INTO rejection (topic_id, received_at, status, code, reason, content_type, \
         body_bytes, body_start) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    tx.prepare_cached(insert)?.execute(params![
        rejection.topic,
        rejection.received_at.as_ms(),
        rejection.status,
        rejection.code,
        rejection.reason,
        rejection.content_type,
        i64::try_from(rejection.bytes).unwrap_or(i64::MAX),
        rejection.body_start,
    ])?;
    Ok(())
}

fn list(
    tx: &Connection,
    query: &RejectionQuery,
) -> Result<Page<StoredRejection, RejectionId>, StoreError> {
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
    let values = params![
        newest,
        query.topic,
        query.reason,
        i64::try_from(limit).unwrap_or(i64::MAX)
    ];
    let mut select = tx.prepare_cached(&select)?;
    let rows = select
        .query_map(values, rejection)?
        .collect::<Result<Vec<_>, _>>()?;
    let next_before = rows
        .last()
        .filter(|_| rows.len() == limit)
        .map(|last| last.id);
    Ok(Page { rows, next_before })
}

fn rejection(row: &Row<'_>) -> rusqlite::Result<StoredRejection> {
    Ok(StoredRejection {
        id: RejectionId(row.get(0)?),
        topic: row.get(1)?,
        rejection: Rejection {
            topic: TopicId(row.get(2)?),
            received_at: row::timestamp(row, 3)?,
            status: row.get(4)?,
            code: row.get(5)?,
            reason: row.get(6)?,
            content_type: row.get(7)?,
            bytes: usize::try_from(row.get::<_, i64>(8)?).unwrap_or_default(),
            body_start: row.get(9)?,
        },
    })
}
