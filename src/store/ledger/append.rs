//! Storing events with their deliveries.

use std::sync::Arc;

use rusqlite::{Connection, params};

use crate::base::Timestamp;
use crate::model::audit::AuditEntry;
use crate::model::event::{Event, EventKey, StoredEvent};
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;
use crate::store::error::StoreError;
use crate::store::ledger::Deliveries;
use crate::store::row;

/// Matched events of one topic, to be stored together.
#[derive(Debug)]
pub struct AppendRequest {
    pub topic: TopicId,
    pub received_at: Timestamp,
    pub events: Vec<(Event, Vec<SubscriptionId>)>,
    /// Identifies the publish request, if the client gave it an id.
    pub request: Option<RequestMark>,
    /// What somebody did to store them; publishers are not audited.
    pub audit: Option<AuditEntry>,
}

/// Identifies a publish request, so that a repeated one is stored once (rule A, `x-ms-client-request-id`).
#[derive(Clone, Copy, Debug)]
pub struct RequestMark {
    pub fingerprint: [u8; 32],
    pub body_hash: [u8; 32],
    /// Older requests are not recognised any more.
    pub since: Timestamp,
}

/// The result of an [`AppendRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Appended {
    Stored {
        events: Vec<EventKey>,
    },
    /// The same request was stored before, so nothing is stored again.
    Repeated,
}

impl Deliveries {
    /// Stores events with all their deliveries, all or nothing. They are on disk when this returns.
    pub async fn append(&self, mut accepted: AppendRequest) -> Result<Appended, StoreError> {
        let stored = match accepted.audit.take() {
            None => self.db.write_in_group(|tx| append(tx, accepted)).await?,
            Some(audit) => {
                self.db
                    .write_audited(|tx| {
                        let stored = append(tx, accepted)?;
                        let audit = stored.is_some().then_some(audit);
                        Ok::<_, StoreError>((stored, audit))
                    })
                    .await?
            }
        };
        let Some(stored) = stored else {
            return Ok(Appended::Repeated);
        };
        let events = stored.iter().map(|event| event.key).collect();
        self.recent.lock().unwrap().remember(stored);
        Ok(Appended::Stored { events })
    }
}

const FIND_REQUEST: &str =
    "SELECT 1 FROM publish_request WHERE fingerprint = ?1 AND body_hash = ?2 AND received_at >= ?3";
const MARK_REQUEST: &str = "INSERT OR REPLACE INTO publish_request (fingerprint, body_hash, received_at) VALUES (?1, ?2, ?3)";
const INSERT_EVENT: &str = "INSERT INTO event (topic_id, received_at, event_id, event_type, source, \
     subject, event_time, data_version, attributes, data, data_is_base64, matched) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
const INSERT_DELIVERY: &str = "INSERT INTO delivery (event_id, subscription_id, next_attempt_at, \
     published_at) VALUES (?1, ?2, ?3, ?3)";

/// Returns `None` for a repeated request.
pub(in crate::store) fn append(
    tx: &Connection,
    accepted: AppendRequest,
) -> Result<Option<Vec<Arc<StoredEvent>>>, StoreError> {
    if let Some(mark) = accepted.request {
        if is_repeated(tx, &mark)? {
            return Ok(None);
        }
        let at = accepted.received_at.as_ms();
        tx.prepare_cached(MARK_REQUEST)?
            .execute(params![mark.fingerprint, mark.body_hash, at])?;
    }
    let mut stored = Vec::with_capacity(accepted.events.len());
    for (event, targets) in accepted.events {
        let key = insert_event(
            tx,
            accepted.topic,
            accepted.received_at,
            &event,
            targets.len(),
        )?;
        let mut insert = tx.prepare_cached(INSERT_DELIVERY)?;
        for target in targets {
            insert.execute(params![key, target, accepted.received_at.as_ms()])?;
        }
        stored.push(Arc::new(StoredEvent {
            key,
            received_at: accepted.received_at,
            event,
        }));
    }
    Ok(Some(stored))
}

fn is_repeated(tx: &Connection, mark: &RequestMark) -> rusqlite::Result<bool> {
    tx.prepare_cached(FIND_REQUEST)?.exists(params![
        mark.fingerprint,
        mark.body_hash,
        mark.since.as_ms()
    ])
}

pub(super) fn insert_event(
    tx: &Connection,
    topic: TopicId,
    received_at: Timestamp,
    event: &Event,
    matched: usize,
) -> rusqlite::Result<EventKey> {
    let (data, data_is_base64) = row::data_columns(&event.data);
    tx.prepare_cached(INSERT_EVENT)?.execute(params![
        topic,
        received_at.as_ms(),
        event.id,
        event.event_type,
        event.source,
        event.subject,
        event.time,
        event.data_version,
        row::attributes_column(&event.attributes),
        data,
        data_is_base64,
        i64::try_from(matched).unwrap_or(i64::MAX),
    ])?;
    Ok(EventKey(tx.last_insert_rowid()))
}
