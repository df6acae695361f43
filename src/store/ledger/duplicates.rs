//! Duplicate detection: what queues and topics remember of the messages that they took (rule S6).

use aws_lc_rs::digest::{SHA256, digest};
use rusqlite::{Connection, params};

use crate::base::Timestamp;
use crate::model::limits::DUPLICATE_IDS_MAX;
use crate::model::topic::TopicId;
use crate::store::error::StoreError;
use crate::store::sql::Sql;

const REMEMBER: &str = "INSERT INTO message_id (topic_id, fingerprint, number, forgotten_at) \
     SELECT ?1, ?2, coalesce(max(number), 0) + 1, ?4 FROM message_id WHERE topic_id = ?1 \
     ON CONFLICT (topic_id, fingerprint) \
     DO UPDATE SET number = excluded.number, forgotten_at = excluded.forgotten_at WHERE forgotten_at <= ?3";
const FORGET_OLDEST: &str = "DELETE FROM message_id WHERE topic_id = ?1 \
     AND number <= (SELECT max(number) FROM message_id WHERE topic_id = ?1) - ?2";

/// Remembers the id of a message until `forgotten_at`. Returns `false` if it is remembered already.
pub(super) fn remember(
    tx: &Connection,
    of: TopicId,
    id: &str,
    now: Timestamp,
    forgotten_at: Timestamp,
) -> Result<bool, StoreError> {
    let hash = digest(&SHA256, id.as_bytes());
    let fingerprint = &hash.as_ref()[..16];
    if tx.run(REMEMBER, params![of, fingerprint, now, forgotten_at])? == 0 {
        return Ok(false);
    }
    tx.run(FORGET_OLDEST, params![of, DUPLICATE_IDS_MAX])?;
    Ok(true)
}

/// Forgets up to `limit` ids that have been remembered for long enough. Returns how many.
pub(super) fn tidy(tx: &Connection, now: Timestamp, limit: usize) -> Result<usize, StoreError> {
    let forget = "DELETE FROM message_id WHERE (topic_id, number) IN \
         (SELECT topic_id, number FROM message_id WHERE forgotten_at <= ?1 LIMIT ?2)";
    Ok(tx.run(forget, params![now, limit])?)
}
