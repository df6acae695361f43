//! The ledger: events come in, deliveries fall due, are attempted and are settled.
//!
//! Leases of our own dispatcher live in its memory alone: the row stays due, so a crash needs no
//! healing. What has just been published is kept in memory as well (bounded), so that the usual
//! delivery is sent without reading its event back.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};

use rusqlite::{Connection, Row, Savepoint, params};

use crate::base::Timestamp;
use crate::model::dead_letter::{DeadLetterDetails, DeadLetterReason};
use crate::model::delivery::{
    Delivery, DeliveryAttempt, DeliveryId, DeliveryState, LateResponse, Outcome, Settlement,
};
use crate::model::event::{Event, EventKey, StoredEvent};
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;
use crate::store::db::Db;
use crate::store::error::StoreError;
use crate::store::row;

/// Bytes of events kept in memory after their publication. A few seconds of a busy appliance.
const RECENT_BYTES_MAX: usize = 8 * 1_024 * 1_024;

/// What an event costs in memory beyond its texts.
const RECENT_OVERHEAD: usize = 512;

/// The book of events and deliveries.
#[derive(Clone)]
pub struct Deliveries {
    pub(super) db: Db,
    pub(super) recent: Arc<Mutex<RecentEvents>>,
}

/// A publish request that has been checked and matched, ready to be stored whole.
#[derive(Debug)]
pub struct AppendRequest {
    pub topic: TopicId,
    pub received_at: Timestamp,
    pub events: Vec<(Event, Vec<SubscriptionId>)>,
    /// How a repetition of the request is recognised, if the client gave it an id.
    pub request: Option<RequestMark>,
}

/// Recognises a repeated publish request (rule A, `x-ms-client-request-id`).
#[derive(Clone, Copy, Debug)]
pub struct RequestMark {
    pub fingerprint: [u8; 32],
    pub body_hash: [u8; 32],
    /// Requests from before this moment are not recognised any more.
    pub since: Timestamp,
}

/// What storing a publish request came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Appended {
    Stored {
        events: Vec<EventKey>,
    },
    /// The same request was stored before; nothing was stored again.
    Repeated,
}

/// A request for due deliveries.
#[derive(Clone, Debug)]
pub struct LeaseRequest {
    pub subscription: SubscriptionId,
    pub now: Timestamp,
    pub limit: usize,
    /// Bytes of events past which no further delivery is added; the first one always is.
    pub bytes_max: usize,
    /// Already leased by the caller.
    pub held: HashSet<DeliveryId>,
}

/// What a [`LeaseRequest`] found.
#[derive(Clone, Debug, Default)]
pub struct Leased {
    /// Oldest first.
    pub deliveries: Vec<(Delivery, Arc<StoredEvent>)>,
    /// Those whose events cannot be read, and why.
    pub unreadable: Vec<(Delivery, String)>,
    /// When the next delivery of the subscription falls due that was neither returned nor held.
    pub next_due: Option<Timestamp>,
}

/// The end of a lease.
#[derive(Clone, Debug)]
pub struct SettlementRecord {
    pub delivery: DeliveryId,
    /// `None` where a delivery was given up without another attempt.
    pub attempt: Option<Arc<DeliveryAttempt>>,
    pub settlement: Settlement,
}

/// The late answer to an attempt (rule 7.2).
#[derive(Clone, Copy, Debug)]
pub struct Late {
    pub delivery: DeliveryId,
    /// The attempt that it belongs to.
    pub attempt: u32,
    pub answer: LateResponse,
    /// Whether it completes the delivery, if that still waits for the next attempt.
    pub completes: bool,
}

/// What became of pending deliveries of deleted subscriptions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndedPending {
    pub dropped: usize,
    pub dead_lettered: usize,
}

impl EndedPending {
    /// All of them.
    pub fn count(self) -> usize {
        self.dropped + self.dead_lettered
    }
}

impl Deliveries {
    pub(super) fn new(db: Db) -> Self {
        Self {
            db,
            recent: Arc::default(),
        }
    }

    /// Stores the events of a request with all their deliveries, whole or not at all. They are on disk
    /// when this returns.
    pub async fn append(&self, accepted: AppendRequest) -> Result<Appended, StoreError> {
        let Some(stored) = self
            .db
            .write_in_group(move |tx| append(tx, accepted))
            .await?
        else {
            return Ok(Appended::Repeated);
        };
        let events = stored.iter().map(|event| event.key).collect();
        self.recent.lock().unwrap().remember(stored);
        Ok(Appended::Stored { events })
    }

    /// The due deliveries of one subscription, oldest first.
    pub async fn lease(&self, request: LeaseRequest) -> Result<Leased, StoreError> {
        let recent = Arc::clone(&self.recent);
        self.db.read(move |tx| lease(tx, &request, &recent)).await
    }

    /// The due deliveries of one subscription without their events, oldest first, at most `limit`: for
    /// those that are only looked at.
    pub async fn oldest_due(
        &self,
        subscription: SubscriptionId,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Delivery>, StoreError> {
        self.db
            .read(move |tx| {
                let limit = i64::try_from(limit).unwrap_or(i64::MAX);
                let mut find = tx.prepare_cached(&find_due())?;
                let mut rows = find.query(params![subscription, limit])?;
                let mut due = Vec::new();
                while let Some(row) = rows.next()? {
                    if row::timestamp(row, 5)? > now {
                        break;
                    }
                    due.push(delivery(row)?);
                }
                Ok(due)
            })
            .await
    }

    /// Ends leases: records the attempts and moves the deliveries on. A delivery that has ended
    /// meanwhile (its subscription was deleted) stays as it is.
    pub async fn settle(
        &self,
        settled: Vec<SettlementRecord>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.db
            .write_in_group(move |tx| settled.iter().try_for_each(|each| settle(tx, each, now)))
            .await
    }

    /// Records late answers with their attempts, and completes the deliveries that they complete, unless
    /// those have ended, or have been attempted again, meanwhile. Returns the completed ones.
    pub async fn settle_late(
        &self,
        late: Vec<Late>,
        now: Timestamp,
    ) -> Result<Vec<DeliveryId>, StoreError> {
        self.db
            .write_in_group(move |tx| {
                let mut completed = Vec::new();
                for each in late {
                    if settle_late(tx, &each, now)? {
                        completed.push(each.delivery);
                    }
                }
                Ok(completed)
            })
            .await
    }

    /// When the first pending delivery of each of these subscriptions falls due, where there is one.
    pub async fn agenda(
        &self,
        subscriptions: Vec<SubscriptionId>,
    ) -> Result<Vec<(SubscriptionId, Timestamp)>, StoreError> {
        self.db
            .read(move |tx| {
                let mut agenda = Vec::new();
                for subscription in subscriptions {
                    agenda.extend(next_due(tx, subscription)?.map(|at| (subscription, at)));
                }
                Ok(agenda)
            })
            .await
    }

    /// Ends up to `limit` pending deliveries of deleted subscriptions, as it was said when those were
    /// deleted, with a record.
    pub async fn end_pending_of_deleted(
        &self,
        limit: usize,
        now: Timestamp,
    ) -> Result<EndedPending, StoreError> {
        self.db
            .write(move |tx| end_pending_of_deleted(tx, limit, now))
            .await
    }
}

const FIND_REQUEST: &str =
    "SELECT 1 FROM publish_request WHERE fingerprint = ?1 AND body_hash = ?2 AND received_at >= ?3";
const MARK_REQUEST: &str = "INSERT OR REPLACE INTO publish_request (fingerprint, body_hash, received_at) VALUES (?1, ?2, ?3)";
const INSERT_EVENT: &str = "INSERT INTO event (topic_id, received_at, event_id, event_type, source, \
     subject, event_time, data_version, attributes, data_kind, data, matched) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
const INSERT_DELIVERY: &str = "INSERT INTO delivery (event_id, subscription_id, next_attempt_at, \
     published_at) VALUES (?1, ?2, ?3, ?3)";

/// `None` for a request that is a repetition.
pub(super) fn append(
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
    let (data_kind, data) = row::data_columns(&event.data);
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
        data_kind,
        data,
        i64::try_from(matched).unwrap_or(i64::MAX),
    ])?;
    Ok(EventKey(tx.last_insert_rowid()))
}

/// What [`delivery`] reads. A delivery that has not been attempted costs no look at the attempts.
pub(super) const DELIVERY_COLUMNS: &str = "id, event_id, attempts, published_at, \
     CASE WHEN attempts > 0 THEN (SELECT started_at FROM delivery_attempt \
     WHERE delivery_id = delivery.id AND attempt = 1) END";

/// The pending deliveries of a subscription, and when each is due.
fn find_due() -> String {
    format!(
        "SELECT {DELIVERY_COLUMNS}, next_attempt_at FROM delivery \
         WHERE subscription_id = ?1 AND state = 0 ORDER BY next_attempt_at, id LIMIT ?2"
    )
}

fn lease(
    tx: &Connection,
    request: &LeaseRequest,
    recent: &Mutex<RecentEvents>,
) -> Result<Leased, StoreError> {
    let mut find = tx.prepare_cached(&find_due())?;
    // What is held is due as well and comes first; one more tells when to look again.
    let limit = i64::try_from(request.limit + request.held.len() + 1).unwrap_or(i64::MAX);
    let mut rows = find.query(params![request.subscription, limit])?;
    let mut leased = Leased::default();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let delivery = delivery(row)?;
        if request.held.contains(&delivery.id) {
            continue;
        }
        let due_at = row::timestamp(row, 5)?;
        let found = leased.deliveries.len() + leased.unreadable.len();
        let enough = found == request.limit || bytes > request.bytes_max;
        if due_at > request.now || enough {
            leased.next_due = Some(due_at);
            break;
        }
        let known = recent.lock().unwrap().get(delivery.event);
        match known.map_or_else(|| load_event(tx, delivery.event).map(Arc::new), Ok) {
            Ok(event) => {
                bytes += event.event.size();
                leased.deliveries.push((delivery, event));
            }
            // One event that cannot be read must not keep the others.
            Err(StoreError::Unreadable(why)) => leased.unreadable.push((delivery, why)),
            Err(error) => return Err(error),
        }
    }
    Ok(leased)
}

/// A row that begins with [`DELIVERY_COLUMNS`].
pub(super) fn delivery(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    Ok(Delivery {
        id: DeliveryId(row.get(0)?),
        event: EventKey(row.get(1)?),
        attempts: row.get(2)?,
        published_at: row::timestamp(row, 3)?,
        first_attempt_at: row::timestamp_or_null(row, 4)?,
    })
}

pub(super) fn load_event(tx: &Connection, key: EventKey) -> Result<StoredEvent, StoreError> {
    let select = format!("SELECT {} FROM event WHERE id = ?1", row::EVENT_COLUMNS);
    let mut select = tx.prepare_cached(&select)?;
    let mut rows = select.query([key])?;
    let row = rows
        .next()?
        .ok_or_else(|| StoreError::Unreadable(format!("event {key} is missing")))?;
    row::event(row)
}

fn next_due(
    tx: &Connection,
    subscription: SubscriptionId,
) -> Result<Option<Timestamp>, StoreError> {
    let first =
        "SELECT min(next_attempt_at) FROM delivery WHERE subscription_id = ?1 AND state = 0";
    let at: Option<i64> = tx
        .prepare_cached(first)?
        .query_row([subscription], |row| row.get(0))?;
    Ok(at.map(Timestamp::from_ms))
}

const RETRY: &str = "UPDATE delivery SET next_attempt_at = ?2, attempts = ?3, last_attempt_at = ?4, \
     last_outcome = ?5, last_status = ?6, lock_token = NULL, locked_at = NULL, locked_until = NULL \
     WHERE id = ?1 AND state = 0";
const RETRY_UNATTEMPTED: &str = "UPDATE delivery SET next_attempt_at = ?2, lock_token = NULL, \
     locked_at = NULL, locked_until = NULL WHERE id = ?1 AND state = 0";
// What ends is due once more, as a dead letter; whoever held it has lost it.
const END: &str = "UPDATE delivery SET state = ?2, ended_at = ?3, next_attempt_at = ?3, \
     dead_letter_reason = ?4, attempts = ?5, last_attempt_at = ?6, last_outcome = ?7, \
     last_status = ?8, lock_token = NULL, locked_at = NULL, locked_until = NULL, \
     deferred = 0 WHERE id = ?1 AND state = 0";
const END_UNATTEMPTED: &str = "UPDATE delivery SET state = ?2, ended_at = ?3, \
     next_attempt_at = ?3, dead_letter_reason = ?4, lock_token = NULL, locked_at = NULL, \
     locked_until = NULL, deferred = 0 WHERE id = ?1 AND state = 0";
const EXPLAIN: &str = "UPDATE delivery SET dead_letter_own_reason = ?2, \
     dead_letter_description = ?3, dead_letter_properties = ?4 WHERE id = ?1";

pub(super) fn settle(
    tx: &Connection,
    settled: &SettlementRecord,
    now: Timestamp,
) -> Result<(), StoreError> {
    let changed = match (settled.settlement, settled.attempt.as_deref()) {
        (Settlement::Retry { at }, Some(attempt)) => {
            let last = LastAttempt::of(attempt);
            tx.prepare_cached(RETRY)?.execute(params![
                settled.delivery,
                at.as_ms(),
                last.attempt,
                last.at,
                last.outcome,
                last.status
            ])?
        }
        (Settlement::Retry { at }, None) => tx
            .prepare_cached(RETRY_UNATTEMPTED)?
            .execute(params![settled.delivery, at.as_ms()])?,
        (Settlement::Complete, attempt) => end(
            tx,
            settled.delivery,
            DeliveryState::Delivered,
            None,
            attempt,
            now,
        )?,
        (Settlement::DeadLetter(reason), attempt) => end(
            tx,
            settled.delivery,
            DeliveryState::DeadLettered,
            Some(reason),
            attempt,
            now,
        )?,
        (Settlement::Drop(reason), attempt) => end(
            tx,
            settled.delivery,
            DeliveryState::Dropped,
            Some(reason),
            attempt,
            now,
        )?,
    };
    match settled.attempt.as_deref() {
        Some(attempt) if changed > 0 => record(tx, settled.delivery, attempt),
        _ => Ok(()),
    }
}

fn end(
    tx: &Connection,
    id: DeliveryId,
    state: DeliveryState,
    reason: Option<DeadLetterReason>,
    attempt: Option<&DeliveryAttempt>,
    now: Timestamp,
) -> rusqlite::Result<usize> {
    let (state, reason) = (row::state_number(state), reason.map(DeadLetterReason::name));
    let Some(attempt) = attempt else {
        let values = params![id, state, now.as_ms(), reason];
        return tx.prepare_cached(END_UNATTEMPTED)?.execute(values);
    };
    let last = LastAttempt::of(attempt);
    let changed = tx.prepare_cached(END)?.execute(params![
        id,
        state,
        now.as_ms(),
        reason,
        last.attempt,
        last.at,
        last.outcome,
        last.status
    ])?;
    match attempt.answer.dead_letter.as_deref() {
        Some(details) if changed > 0 => explain(tx, id, details)?,
        _ => {}
    }
    Ok(changed)
}

/// Keeps what a receiver said with its dead letter.
fn explain(tx: &Connection, id: DeliveryId, details: &DeadLetterDetails) -> rusqlite::Result<()> {
    let properties = &details.properties;
    let properties = (!properties.is_empty()).then(|| row::pairs_column(properties));
    let values = params![id, details.reason, details.description, properties];
    tx.prepare_cached(EXPLAIN)?.execute(values)?;
    Ok(())
}

/// What a delivery itself remembers of its newest attempt.
struct LastAttempt {
    attempt: u32,
    at: i64,
    outcome: &'static str,
    status: Option<u16>,
}

impl LastAttempt {
    fn of(attempt: &DeliveryAttempt) -> Self {
        Self {
            attempt: attempt.attempt,
            at: attempt.started_at.as_ms(),
            outcome: Outcome::name(attempt.answer.outcome),
            status: attempt.answer.status,
        }
    }
}

const RECORD: &str = "INSERT OR REPLACE INTO delivery_attempt (delivery_id, attempt, started_at, \
     duration_ms, outcome, status, error, remote_address, response_headers, response_body) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
const RECORD_LATE: &str = "UPDATE delivery_attempt SET late_status = ?3, late_ms = ?4 \
     WHERE delivery_id = ?1 AND attempt = ?2";
const COMPLETE_LATE: &str = "UPDATE delivery SET state = ?3, ended_at = ?4, last_outcome = ?5, \
     lock_token = NULL, locked_at = NULL, locked_until = NULL, last_status = ?6 WHERE id = ?1 AND state = 0 AND attempts = ?2";

/// Says whether the delivery is complete by it.
fn settle_late(tx: &Connection, late: &Late, now: Timestamp) -> Result<bool, StoreError> {
    let after_ms = i64::try_from(late.answer.after.as_millis()).unwrap_or(i64::MAX);
    tx.prepare_cached(RECORD_LATE)?.execute(params![
        late.delivery,
        late.attempt,
        late.answer.status,
        after_ms
    ])?;
    if !late.completes {
        return Ok(false);
    }
    let completed = tx.prepare_cached(COMPLETE_LATE)?.execute(params![
        late.delivery,
        late.attempt,
        row::state_number(DeliveryState::Delivered),
        now.as_ms(),
        Outcome::Delivered.name(),
        late.answer.status
    ])?;
    Ok(completed > 0)
}

pub(super) fn record(
    tx: &Connection,
    id: DeliveryId,
    attempt: &DeliveryAttempt,
) -> Result<(), StoreError> {
    let answer = &attempt.answer;
    let headers = (!answer.headers.is_empty()).then(|| row::pairs_column(&answer.headers));
    tx.prepare_cached(RECORD)?.execute(params![
        id,
        attempt.attempt,
        attempt.started_at.as_ms(),
        i64::try_from(attempt.duration.as_millis()).unwrap_or(i64::MAX),
        answer.outcome.name(),
        answer.status,
        answer.error,
        answer.remote_address,
        headers,
        (!answer.body.is_empty()).then_some(&answer.body),
    ])?;
    Ok(())
}

/// So many (?2) pending deliveries of deleted subscriptions whose pending deliveries are kept, or are not
/// (?1).
const ORPHANS: &str = "SELECT delivery.id FROM event_subscription \
     CROSS JOIN delivery ON delivery.subscription_id = event_subscription.id \
         AND delivery.state = 0 \
     WHERE event_subscription.deleted_at IS NOT NULL \
         AND event_subscription.keeps_pending = ?1 LIMIT ?2";

fn end_pending_of_deleted(
    tx: &Savepoint<'_>,
    limit: usize,
    now: Timestamp,
) -> Result<EndedPending, StoreError> {
    let dropped = end_orphans_as(tx, DeliveryState::Dropped, limit, now)?;
    let rest = limit - dropped;
    Ok(EndedPending {
        dropped,
        dead_lettered: end_orphans_as(tx, DeliveryState::DeadLettered, rest, now)?,
    })
}

fn end_orphans_as(
    tx: &Savepoint<'_>,
    state: DeliveryState,
    limit: usize,
    now: Timestamp,
) -> Result<usize, StoreError> {
    let is_kept = state == DeliveryState::DeadLettered;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    // A receiver's lock ends with the subscription, and nobody says so later.
    let record = format!(
        "INSERT OR REPLACE INTO delivery_attempt (delivery_id, attempt, started_at, duration_ms, \
             outcome) \
         SELECT id, attempts, locked_at, max(0, min(locked_until, ?3) - locked_at), ?4 \
         FROM delivery WHERE lock_token IS NOT NULL AND id IN ({ORPHANS})"
    );
    let lost = Outcome::LockLost.name();
    let values = params![is_kept, limit, now.as_ms(), lost];
    tx.prepare_cached(&record)?.execute(values)?;
    let end = format!(
        "UPDATE delivery SET state = ?3, ended_at = ?4, next_attempt_at = ?4, \
             dead_letter_reason = ?5, lock_token = NULL, locked_at = NULL, locked_until = NULL, \
             deferred = 0, \
             last_outcome = CASE WHEN lock_token IS NULL THEN last_outcome ELSE ?6 END, \
             last_status = CASE WHEN lock_token IS NULL THEN last_status END \
         WHERE id IN ({ORPHANS})"
    );
    Ok(tx.prepare_cached(&end)?.execute(params![
        is_kept,
        limit,
        row::state_number(state),
        now.as_ms(),
        DeadLetterReason::SubscriptionDeleted.name(),
        lost,
    ])?)
}

/// Events that were published a moment ago, oldest first out.
#[derive(Default)]
pub(super) struct RecentEvents {
    events: HashMap<EventKey, Arc<StoredEvent>>,
    order: VecDeque<EventKey>,
    bytes: usize,
}

impl RecentEvents {
    fn remember(&mut self, stored: Vec<Arc<StoredEvent>>) {
        for event in stored {
            self.bytes += event.event.size() + RECENT_OVERHEAD;
            self.order.push_back(event.key);
            self.events.insert(event.key, event);
        }
        while self.bytes > RECENT_BYTES_MAX
            && let Some(oldest) = self.order.pop_front()
            && let Some(event) = self.events.remove(&oldest)
        {
            self.bytes -= event.event.size() + RECENT_OVERHEAD;
        }
    }

    pub(super) fn get(&self, key: EventKey) -> Option<Arc<StoredEvent>> {
        self.events.get(&key).cloned()
    }
}
