//! Read-only queries for lists and pages: bounded, newest first, paged by key.

mod attempts;
pub(super) mod dead_letter_filter;
mod dead_letters;
pub(super) mod event_filter;
mod event_types;
mod events;
mod last_day;
mod lineage;
mod messages;
mod pull_queue;

use std::collections::HashMap;
use std::time::Duration;

pub use attempts::RecentAttempt;
pub use dead_letters::{
    DeadLetterGroup, DeadLetterQuery, GroupBy, GroupedDeadLetters, Groups, NUMBERS_MAX,
};
pub use event_types::RecentTypes;
pub use events::{EventQuery, EventRow, EventSearch, SearchProgress};
pub use last_day::{HOURS, SubscriptionDay, TopicDay};
pub use lineage::{LINEAGE_MAX, Lineage, LineageRow};
pub use messages::{MessageCounts, SESSION_COUNTED_MAX, SessionRow};
pub use pull_queue::{PullQueue, PullQueueState, QUEUE_COUNTED_MAX};
use rusqlite::{Connection, Params, Row, params};
use tokio::sync::watch;

use crate::base::Timestamp;
use crate::model::dead_letter::{DeadLetterDetails, DeadLetterReason};
use crate::model::delivery::{
    AttemptResult, DeliveryAttempt, DeliveryId, DeliveryState, HttpResponse, LateResponse, Outcome,
};
use crate::model::event::{EventKey, StoredEvent};
use crate::model::name::TopicName;
use crate::model::registry::Registry;
use crate::model::replay::{ReplayJob, ReplayJobId};
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;
use crate::store::accounts::Role;
use crate::store::engine::db::Db;
use crate::store::error::StoreError;
use crate::store::ledger::{Ledger, exports, fan_out};
use crate::store::sql::{Sql, as_json};
use crate::store::views::event_filter::IS_SHOWN;
use crate::store::{replay, row};
use lineage::{made_by, resubmissions};

pub use crate::store::inspectors::InspectedQuery;
pub use crate::store::ledger::exports::ExportHistory;
pub use crate::store::ledger::traffic::{
    Bound, DeliveryTotals, Latency, SLOTS_MAX, TotalsQuery, TrafficOf, TrafficQuery, TrafficSlot,
};
pub use crate::store::rejections::RejectionQuery;
pub use crate::store::replay::results::{REPLAY_RESULTS_MAX, ReplayResults};
use crate::wire::dead_letter::{DeadLetterFacts, RecordOf};

/// The most rows on one page of a list.
pub const PAGE_ROWS_MAX: usize = 200;

/// The number of event ids that one [`ReadBack`] scans, including events of other topics.
const READ_BACK_SPAN: i64 = 10_000;

/// Queries for lists and pages.
#[derive(Clone)]
pub struct Views {
    pub(super) db: Db,
    /// The ledger, which counts deliveries.
    pub(super) ledger: Ledger,
}

/// Selects the events of a topic to read in full.
#[derive(Clone, Copy, Debug)]
pub struct ReadBack {
    pub topic: TopicId,
    /// Only events older than this one.
    pub before: Option<EventKey>,
    pub limit: usize,
    /// The size in bytes at which the page ends. The event that exceeds it is still included.
    pub bytes_max: usize,
}

/// A page of a list, and the key from which the next page continues.
#[derive(Clone, Debug)]
pub struct PageOf<T, K> {
    pub rows: Vec<T>,
    pub next_before: Option<K>,
}

impl<T, K> PageOf<T, K> {
    /// Makes a page of `rows`. The caller reads one row more than `limit` to find out if there is a next page.
    pub(super) fn of(mut rows: Vec<T>, limit: usize, key: impl Fn(&T) -> K) -> Self {
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        let next_before = rows.last().filter(|_| has_more).map(key);
        Self { rows, next_before }
    }
}

/// An empty last page.
impl<T, K> Default for PageOf<T, K> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            next_before: None,
        }
    }
}

/// An event with its deliveries and its lineage.
#[derive(Clone, Debug)]
pub struct EventDetail {
    pub topic: String,
    pub topic_id: TopicId,
    pub stored: StoredEvent,
    pub matched: u64,
    /// Is true while deliveries of the event are still to be created.
    pub is_fanning_out: bool,
    pub deliveries: Vec<DeliveryDetail>,
    pub lineage: Lineage,
}

/// A delivery in a list.
#[derive(Clone, Debug)]
pub struct DeliveryRow {
    pub id: DeliveryId,
    /// See [`Delivery::number`](crate::model::delivery::Delivery::number).
    pub number: i64,
    pub event: EventKey,
    pub event_id: String,
    pub event_type: String,
    pub subject: Option<String>,
    pub topic: String,
    pub subscription: String,
    pub subscription_id: SubscriptionId,
    pub state: DeliveryState,
    pub attempts: u32,
    /// The time of the next attempt; `None` if the delivery has ended or is deferred.
    pub next_attempt_at: Option<Timestamp>,
    pub published_at: Timestamp,
    pub last_attempt_at: Option<Timestamp>,
    pub last_outcome: Option<Outcome>,
    pub last_status: Option<u16>,
    pub dead_letter_reason: Option<DeadLetterReason>,
    /// The receiver's explanation, if the receiver dead-lettered the event itself.
    pub dead_letter: DeadLetterDetails,
    pub ended_at: Option<Timestamp>,
    /// When a dead letter was removed from its queue.
    pub removed_at: Option<Timestamp>,
    /// The end of the delivery's newest lock, which may have expired.
    pub locked_until: Option<Timestamp>,
    /// True while the delivery is deferred by a receiver.
    pub deferred: bool,
    /// The name of the blob to which the dead letter was exported.
    pub blob: Option<String>,
    pub resubmission_of: Option<DeliveryId>,
    pub resubmitted_as: Option<DeliveryId>,
}

impl DeliveryRow {
    /// Returns the part of the delivery that `role` may see. The description and properties of a dead letter are
    /// hidden, because a receiver may quote the event in them. The reason stays visible, since it names a kind of
    /// failure.
    pub fn seen_by(mut self, role: Role) -> Self {
        if !role.sees_data() {
            self.dead_letter.description = None;
            self.dead_letter.properties.clear();
        }
        self
    }

    /// Returns the contents of the delivery's dead-letter record without the event; `None` if the delivery was never
    /// dead-lettered or dropped.
    pub fn dead_letter_facts(&self) -> Option<DeadLetterFacts> {
        Some(DeadLetterFacts {
            reason: self.dead_letter_reason?,
            details: self.dead_letter.clone(),
            attempts: self.attempts,
            last_outcome: self.last_outcome,
            last_status: self.last_status,
            publish_time: self.published_at,
            last_attempt_at: self.last_attempt_at,
        })
    }

    /// Returns the dead-letter record that Azure would have written to storage; `None` if the delivery was never
    /// dead-lettered or dropped.
    pub fn record(&self, event: &StoredEvent, registry: &Registry) -> Option<Vec<u8>> {
        let topic = TopicName::parse(&self.topic).ok()?;
        let subscription = registry.subscription(self.subscription_id);
        let found = registry.topic(&topic);
        let of = RecordOf {
            is_in_namespace: found.map_or_else(
                || topic.namespace().is_some(),
                |found| found.namespace.is_some(),
            ),
            topic_resource_id: &registry.resource_id(&topic),
            definition: subscription.map(|(_, each)| &each.definition),
        };
        Some(of.write(event, &self.dead_letter_facts()?))
    }

    /// Returns the name of the dead-letter reason: the receiver's own, otherwise Azure's.
    pub fn reason(&self) -> Option<&str> {
        let own = self.dead_letter.reason.as_deref();
        own.or(self.dead_letter_reason.map(DeadLetterReason::name))
    }

    /// Returns the description of the dead-letter reason: the receiver's own, otherwise Azure's.
    pub fn reason_description(&self) -> Option<&str> {
        let own = self.dead_letter.description.as_deref();
        own.or(self.dead_letter_reason.map(DeadLetterReason::description))
    }
}

/// A delivery with its attempts, oldest first, the resubmission that created it, and its own resubmissions.
#[derive(Clone, Debug)]
pub struct DeliveryDetail {
    pub row: DeliveryRow,
    pub attempts: Vec<DeliveryAttempt>,
    /// The resubmission that created this delivery.
    pub made_by: Option<LineageRow>,
    /// The resubmissions of this delivery, oldest first, at most [`LINEAGE_MAX`].
    pub resubmissions: Vec<LineageRow>,
}

impl DeliveryDetail {
    /// Returns the part of the delivery that `role` may see. Responses of receivers may contain the data of the event.
    pub fn seen_by(mut self, role: Role) -> Self {
        let attempts = self.attempts.iter_mut().filter(|_| !role.sees_data());
        for response in attempts.filter_map(|attempt| attempt.result.response.as_mut()) {
            response.headers.clear();
            response.body.clear();
        }
        let row = self.row.seen_by(role);
        Self { row, ..self }
    }
}

/// The length of a subscription's queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueDepth {
    pub pending: u64,
    pub dead_letters: u64,
    /// The earliest time at which a pending delivery is due; may lie in the past.
    pub next_attempt_at: Option<Timestamp>,
}

impl QueueDepth {
    /// Returns the time since the first pending delivery became due; `None` if none is due.
    pub fn overdue(&self, now: Timestamp) -> Option<Duration> {
        let due = self.next_attempt_at.filter(|at| *at < now);
        due.map(|at| now.since(at))
    }

    /// Returns the sums of both depths, with the earlier next attempt.
    pub fn plus(self, other: Self) -> Self {
        let due = [self.next_attempt_at, other.next_attempt_at];
        Self {
            pending: self.pending + other.pending,
            dead_letters: self.dead_letters + other.dead_letters,
            next_attempt_at: due.into_iter().flatten().min(),
        }
    }
}

impl Views {
    /// Returns a receiver that is notified of every commit.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.db.changes()
    }

    /// Reads some events of a topic, newest first. A page may be short or even empty without being the last.
    pub async fn read_back(
        &self,
        query: ReadBack,
    ) -> Result<PageOf<StoredEvent, EventKey>, StoreError> {
        self.db.read(move |tx| read_back(tx, &query)).await
    }

    /// One event.
    pub async fn event(&self, key: EventKey) -> Result<Option<EventDetail>, StoreError> {
        self.db.read(move |tx| event(tx, key)).await
    }

    /// One delivery with its attempts.
    pub async fn delivery(&self, id: DeliveryId) -> Result<Option<DeliveryDetail>, StoreError> {
        self.db
            .read(move |tx| {
                let found = deliveries(tx, "WHERE delivery.id = ?1", [id])?;
                let Some(event) = found.first().map(|row| row.event) else {
                    return Ok(None);
                };
                let resubmitted = resubmissions(tx, "event_id = ?1", [event])?;
                Ok(with_lives(tx, found, &resubmitted)?.pop())
            })
            .await
    }

    /// Returns the queue lengths of `subscriptions`, in the order of the argument.
    pub async fn depths(
        &self,
        subscriptions: Vec<SubscriptionId>,
    ) -> Result<Vec<QueueDepth>, StoreError> {
        let wanted = as_json(subscriptions.iter().map(|id| id.0));
        self.db
            .read(move |tx| tx.all(DEPTHS, [wanted], depth))
            .await
    }

    /// See [`Ledger::totals`].
    pub async fn totals(&self, query: TotalsQuery) -> Result<Vec<DeliveryTotals>, StoreError> {
        self.ledger.totals(query).await
    }

    /// See [`Ledger::traffic`].
    pub async fn traffic(&self, query: TrafficQuery) -> Result<Vec<TrafficSlot>, StoreError> {
        self.ledger.traffic(query).await
    }

    /// The history of a subscription's exports.
    pub async fn export_history(
        &self,
        subscription: SubscriptionId,
    ) -> Result<ExportHistory, StoreError> {
        self.db
            .read(move |tx| exports::history(tx, subscription))
            .await
    }

    /// One replay job.
    pub async fn replay_job(&self, id: ReplayJobId) -> Result<Option<ReplayJob>, StoreError> {
        let encryption = self.ledger.encryption.clone();
        self.db
            .read(move |tx| replay::load(tx, &encryption, id))
            .await
    }

    /// Replay jobs, newest first.
    pub async fn replay_jobs(
        &self,
        before: Option<ReplayJobId>,
        limit: usize,
    ) -> Result<PageOf<ReplayJob, ReplayJobId>, StoreError> {
        let encryption = self.ledger.encryption.clone();
        self.db
            .read(move |tx| {
                let below = before.map_or(i64::MAX, |before| before.0);
                let condition = "WHERE id < ?1 ORDER BY id DESC LIMIT ?2";
                let rows = replay::jobs(tx, &encryption, condition, params![below, limit + 1])?;
                Ok(PageOf::of(rows, limit, |job| job.id))
            })
            .await
    }
}

fn read_back(
    tx: &Connection,
    query: &ReadBack,
) -> Result<PageOf<StoredEvent, EventKey>, StoreError> {
    let Some((oldest, newest)) = ends(tx)? else {
        return Ok(PageOf::default());
    };
    let newest = query
        .before
        .map_or(newest, |before| before.0 - 1)
        .min(newest);
    let floor = newest.saturating_sub(READ_BACK_SPAN);
    let select = format!(
        "SELECT {} FROM event WHERE id <= ?1 AND id > ?2 AND topic_id = ?3 ORDER BY id DESC",
        row::EVENT_COLUMNS
    );
    let mut select = tx.prepare_cached(&select)?;
    let mut rows = select.query(params![newest, floor, query.topic])?;
    let mut page = PageOf::default();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let stored = match row::event(row) {
            // A damaged event must not stop the others.
            Err(error) if error.is_unreadable() => continue,
            stored => stored?,
        };
        bytes += stored.event.size();
        let key = stored.key;
        page.rows.push(stored);
        if page.rows.len() >= query.limit || bytes >= query.bytes_max {
            page.next_before = Some(key);
            return Ok(page);
        }
    }
    page.next_before = (oldest <= floor).then_some(EventKey(floor + 1));
    Ok(page)
}

/// Returns the ids of the oldest and the newest event, if there are events. Uses two index look-ups, because one
/// statement with both `min` and `max` would scan the table.
fn ends(tx: &Connection) -> Result<Option<(i64, i64)>, StoreError> {
    let end = |which: &str| -> Result<Option<i64>, StoreError> {
        tx.value(&format!("SELECT {which}(id) FROM event"), [])
    };
    Ok(end("min")?.zip(end("max")?))
}

fn event(tx: &Connection, key: EventKey) -> Result<Option<EventDetail>, StoreError> {
    let select = format!(
        "SELECT {}, topic.name, topic.id, event.matched FROM event \
         JOIN topic ON topic.id = event.topic_id WHERE event.id = ?1",
        row::EVENT_COLUMNS
    );
    tx.first(&select, [key], |row| {
        let of_event = "WHERE delivery.event_id = ?1 ORDER BY delivery.id";
        let deliveries = deliveries(tx, of_event, [key])?;
        let resubmitted = resubmissions(tx, "event_id = ?1", [key])?;
        Ok(EventDetail {
            stored: row::event(row)?,
            topic: row.get(row::EVENT_WIDTH)?,
            topic_id: row.get(row::EVENT_WIDTH + 1)?,
            matched: row.get(row::EVENT_WIDTH + 2)?,
            is_fanning_out: fan_out::is_open(tx, key)?,
            deliveries: with_lives(tx, deliveries, &resubmitted)?,
            lineage: Lineage {
                made_by: resubmissions(tx, "as_event_id = ?1", [key])?.pop(),
                resubmissions: resubmitted,
            },
        })
    })
}

/// Selects deliveries with their subscriptions. A transfer queue has the negated id of its owner, so `abs` assigns its
/// deliveries to the owner.
const DELIVERY_ROW: &str = "SELECT delivery.id, delivery.event_id, event.event_id, \
     event.event_type, event.subject, topic.name, event_subscription.name, \
     event_subscription.id, delivery.state, delivery.attempts, delivery.next_attempt_at, \
     delivery.published_at, delivery.last_attempt_at, delivery.last_outcome, \
     delivery.last_status, delivery.dead_letter_reason, delivery.ended_at, \
     delivery.resubmission_of, delivery.resubmitted_as, delivery.receiver_reason, \
     delivery.receiver_description, delivery.receiver_properties, delivery.removed_at, \
     delivery.locked_until, delivery.deferred, (SELECT name FROM dead_letter_blob \
     WHERE id = delivery.blob_id AND stored_at IS NOT NULL), coalesce(delivery.number, delivery.id) \
     FROM delivery JOIN event ON event.id = delivery.event_id \
     JOIN event_subscription ON event_subscription.id = abs(delivery.subscription_id) \
     JOIN topic ON topic.id = event_subscription.topic_id";

fn deliveries(
    tx: &Connection,
    condition: &str,
    values: impl Params,
) -> Result<Vec<DeliveryRow>, StoreError> {
    let select = format!("{DELIVERY_ROW} AND {IS_SHOWN} {condition}");
    tx.all(&select, values, delivery_row)
}

fn delivery_row(row: &Row<'_>) -> Result<DeliveryRow, StoreError> {
    let (state, next_attempt_at) = (row.get(8)?, row.get(10)?);
    let deferred: bool = row.get(24)?;
    Ok(DeliveryRow {
        id: row.get(0)?,
        number: row.get(26)?,
        event: row.get(1)?,
        event_id: row::text(row, 2)?,
        event_type: row::text(row, 3)?,
        subject: row::text_or_null(row, 4)?,
        topic: row.get(5)?,
        subscription: row.get(6)?,
        subscription_id: row.get(7)?,
        state,
        attempts: row.get(9)?,
        next_attempt_at: (state == DeliveryState::Pending && !deferred).then_some(next_attempt_at),
        published_at: row.get(11)?,
        last_attempt_at: row.get(12)?,
        last_outcome: row.get(13)?,
        last_status: row.get(14)?,
        dead_letter_reason: row.get(15)?,
        ended_at: row.get(16)?,
        resubmission_of: row.get(17)?,
        resubmitted_as: row.get(18)?,
        dead_letter: row::details(row, 19)?,
        removed_at: row.get(22)?,
        locked_until: row.get(23)?,
        deferred,
        blob: row.get(25)?,
    })
}

/// The columns that [`attempt`] reads.
const ATTEMPT_COLUMNS: &str = "attempt, started_at, duration_ms, outcome, status, error, \
     remote_address, response_headers, response_body, late_outcome, late_status, late_ms, \
     warning";

/// Returns deliveries of one event, each with its attempts and its resubmissions out of `resubmitted`.
fn with_lives(
    tx: &Connection,
    rows: Vec<DeliveryRow>,
    resubmitted: &[LineageRow],
) -> Result<Vec<DeliveryDetail>, StoreError> {
    let these = as_json(rows.iter().map(|row| row.id.0));
    let select = format!(
        "SELECT {ATTEMPT_COLUMNS}, delivery_id FROM delivery_attempt \
         WHERE delivery_id IN (SELECT value FROM json_each(?1)) ORDER BY delivery_id, attempt"
    );
    let mut attempts: HashMap<DeliveryId, Vec<DeliveryAttempt>> = HashMap::new();
    tx.all(&select, [&these], |row| {
        let of = attempts.entry(row.get(13)?).or_default();
        of.push(attempt(row)?);
        Ok(())
    })?;
    let made = made_by(tx, &these)?;
    let lives = rows.into_iter().map(|row| DeliveryDetail {
        attempts: attempts.remove(&row.id).unwrap_or_default(),
        made_by: made
            .iter()
            .find(|each| each.as_delivery == Some(row.id))
            .cloned(),
        resubmissions: resubmitted
            .iter()
            .filter(|each| each.delivery == row.id)
            .cloned()
            .collect(),
        row,
    });
    Ok(lives.collect())
}

fn attempt(row: &Row<'_>) -> Result<DeliveryAttempt, StoreError> {
    let millis = |index| row.get::<_, Option<u64>>(index);
    let (status, late_status): (Option<u16>, Option<u16>) = (row.get(4)?, row.get(10)?);
    let late_outcome: Option<Outcome> = row.get(9)?;
    let response = status.map(|status| {
        let headers: Option<String> = row.get(7)?;
        Ok::<_, StoreError>(HttpResponse {
            status,
            headers: row::pairs_from(headers.as_deref())?,
            body: row.get::<_, Option<Vec<u8>>>(8)?.unwrap_or_default(),
            is_cut: headers.as_deref() == Some(row::CUT),
        })
    });
    Ok(DeliveryAttempt {
        attempt: row.get(0)?,
        started_at: row.get(1)?,
        duration: Duration::from_millis(millis(2)?.unwrap_or_default()),
        result: AttemptResult {
            response: response.transpose()?,
            error: row.get(5)?,
            remote_address: row.get(6)?,
            warning: row.get(12)?,
            // Retry-After is not stored. The receiver's explanation is part of the delivery.
            ..AttemptResult::of(row.get(3)?)
        },
        late: late_outcome
            .zip(millis(11)?)
            .map(|(outcome, ms)| LateResponse {
                outcome,
                status: late_status,
                after: Duration::from_millis(ms),
            }),
    })
}

/// Selects the counters of each subscription, and the first due time of its pending deliveries.
const DEPTHS: &str = "SELECT coalesce(pending, 0), coalesce(dead_letters, 0), \
     (SELECT min(next_attempt_at) FROM delivery \
         WHERE delivery.subscription_id = wanted.value AND state = 'Pending') \
     FROM json_each(?1) AS wanted LEFT JOIN subscription_total ON subscription_id = wanted.value \
     ORDER BY wanted.key";

fn depth(row: &Row<'_>) -> Result<QueueDepth, StoreError> {
    Ok(QueueDepth {
        pending: row.get(0)?,
        dead_letters: row.get(1)?,
        next_attempt_at: row.get(2)?,
    })
}
