//! Resubmission of deliveries, and where events and deliveries come from.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use crate::base::Timestamp;
use crate::model::audit::AuditEntry;
use crate::model::delivery::{DeliveryAttempt, DeliveryId, DeliveryState};
use crate::model::destination::EndpointUrl;
use crate::model::event::{Event, EventKey, StoredEvent};
use crate::model::replay::ReplayJobId;
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;
use crate::store::engine::db::Db;
use crate::store::error::StoreError;
use crate::store::ledger::append::insert_event;
use crate::store::ledger::lease::load_event;
use crate::store::ledger::settle::record;
use crate::store::row;

/// Resubmissions.
#[derive(Clone)]
pub struct Resubmissions {
    pub(in crate::store) db: Db,
}

/// A delivery that may be resubmitted.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub delivery: DeliveryId,
    pub state: DeliveryState,
    pub subscription: SubscriptionId,
    pub topic: TopicId,
    pub attempts: u32,
    /// The end of its newest lock, which may have lapsed.
    pub locked_until: Option<Timestamp>,
    /// How many resubmissions led to it.
    pub generation: u32,
    /// `None` if it was not asked for, or cannot be read.
    pub event: Option<Arc<StoredEvent>>,
}

/// A delivery to resubmit, unless it has changed since it was read.
#[derive(Clone, Debug)]
pub struct Resubmission {
    pub of: Candidate,
    pub to: ResubmitTarget,
}

/// Where a delivery is resubmitted to.
#[derive(Clone, Debug)]
pub enum ResubmitTarget {
    /// A new delivery to its own subscription, perhaps of an edited event.
    Subscription { edited: Option<Event> },
    /// A new event of a topic, for these subscriptions.
    Topic {
        topic: TopicId,
        event: Event,
        targets: Vec<SubscriptionId>,
    },
    /// The endpoint accepted it, in this attempt.
    Url {
        url: EndpointUrl,
        attempt: Arc<DeliveryAttempt>,
        edited: Option<Event>,
    },
    /// The endpoint did not accept it: only the attempt is recorded.
    Rejected { attempt: Arc<DeliveryAttempt> },
}

/// The result of a resubmission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resubmitted {
    /// The new delivery to its own subscription.
    pub delivery: Option<DeliveryId>,
    /// The event that was sent: a new one if it was edited or published anew.
    pub event: EventKey,
    /// The topic that it was published to.
    pub topic: Option<TopicId>,
    /// The subscriptions that have new deliveries.
    pub subscriptions: Vec<SubscriptionId>,
}

/// A resubmission in the lineage of an event or a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineageRow {
    pub delivery: DeliveryId,
    pub event: EventKey,
    pub as_delivery: Option<DeliveryId>,
    pub as_event: Option<EventKey>,
    /// The topic of that event; `None` also if the event is deleted.
    pub as_topic: Option<String>,
    /// Without its query.
    pub url: Option<String>,
    pub replay_job: Option<ReplayJobId>,
    pub resubmitted_at: Timestamp,
}

/// Where an event comes from, and how it was resubmitted.
#[derive(Clone, Debug, Default)]
pub struct Lineage {
    /// The resubmission that made it.
    pub made_by: Option<LineageRow>,
    /// Its own, oldest first, at most [`LINEAGE_MAX`].
    pub resubmissions: Vec<LineageRow>,
}

/// Resubmissions of one event that are listed.
pub const LINEAGE_MAX: usize = 100;

impl Resubmissions {
    /// These deliveries, each with its event if that is readable; missing ones are left out.
    pub async fn candidates(&self, ids: Vec<DeliveryId>) -> Result<Vec<Candidate>, StoreError> {
        self.db
            .read(move |tx| {
                let mut found = Vec::new();
                for id in ids {
                    found.extend(candidate(tx, id)?);
                }
                Ok(found)
            })
            .await
    }

    /// Resubmits deliveries in one transaction. `None` stands for one that has changed since it was read, and
    /// stays as it is.
    pub async fn resubmit(
        &self,
        resubmissions: Vec<Resubmission>,
        audit: AuditEntry,
        now: Timestamp,
    ) -> Result<Vec<Option<Resubmitted>>, StoreError> {
        self.db
            .write_audited(move |tx| {
                let is_taken =
                    |each: &Resubmission| !matches!(each.to, ResubmitTarget::Rejected { .. });
                let mut done = Vec::with_capacity(resubmissions.len());
                let mut taken = 0;
                for each in resubmissions {
                    let is_taken = is_taken(&each);
                    done.push(resubmit(tx, each, None, now)?);
                    taken += usize::from(is_taken && done.last().is_some_and(Option::is_some));
                }
                Ok((done, audit.of_dead_letters(taken)))
            })
            .await
    }
}

/// The columns of a [`Candidate`] without its event, and the event's key.
pub(in crate::store) const CANDIDATE_COLUMNS: &str = "delivery.id, delivery.state, \
     delivery.subscription_id, event.topic_id, delivery.attempts, \
     max(coalesce((SELECT max(generation) FROM resubmission WHERE as_delivery_id = delivery.id), 0), \
         coalesce((SELECT max(generation) FROM resubmission WHERE as_event_id = event.id), 0)), \
     event.id, delivery.locked_until";

/// Reads a row of [`CANDIDATE_COLUMNS`].
pub(in crate::store) fn candidate_of(row: &Row<'_>) -> Result<(Candidate, EventKey), StoreError> {
    let candidate = Candidate {
        delivery: DeliveryId(row.get(0)?),
        state: row::state(row, 1)?,
        subscription: SubscriptionId(row.get(2)?),
        topic: TopicId(row.get(3)?),
        attempts: row.get(4)?,
        generation: row.get(5)?,
        locked_until: row::timestamp_or_null(row, 7)?,
        event: None,
    };
    Ok((candidate, EventKey(row.get(6)?)))
}

fn candidate(tx: &Connection, id: DeliveryId) -> Result<Option<Candidate>, StoreError> {
    let find = format!(
        "SELECT {CANDIDATE_COLUMNS} FROM delivery JOIN event ON event.id = delivery.event_id \
         WHERE delivery.id = ?1"
    );
    let mut find = tx.prepare_cached(&find)?;
    let mut rows = find.query([id])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let (candidate, event) = candidate_of(row)?;
    let event = readable(tx, event)?;
    Ok(Some(Candidate { event, ..candidate }))
}

/// Loads an event; `None` if it is damaged.
pub(in crate::store) fn readable(
    tx: &Connection,
    key: EventKey,
) -> Result<Option<Arc<StoredEvent>>, StoreError> {
    match load_event(tx, key) {
        Ok(event) => Ok(Some(Arc::new(event))),
        Err(StoreError::Unreadable(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The event of a delivery that is unchanged and not locked, and whether its subscription exists.
const FIND_UNCHANGED: &str = "SELECT delivery.event_id, event_subscription.deleted_at IS NULL \
     FROM delivery JOIN event_subscription ON event_subscription.id = delivery.subscription_id \
     WHERE delivery.id = ?1 AND delivery.state = ?2 AND delivery.attempts = ?3 \
     AND (delivery.locked_until IS NULL OR delivery.locked_until <= ?4)";
const INSERT_AFRESH: &str = "INSERT INTO delivery (event_id, subscription_id, next_attempt_at, \
     published_at, resubmission_of) VALUES (?1, ?2, ?3, ?3, ?4)";
const INSERT_NEW: &str = "INSERT INTO delivery (event_id, subscription_id, next_attempt_at, \
     published_at) VALUES (?1, ?2, ?3, ?3)";
const REPLACE: &str = "UPDATE delivery SET state = ?2, resubmitted_as = ?3, lock_token = NULL, \
     locked_at = NULL, locked_until = NULL WHERE id = ?1";
const FOLLOW: &str = "UPDATE delivery SET resubmitted_as = ?2 WHERE id = ?1";
const INSERT_LINE: &str = "INSERT INTO resubmission (delivery_id, event_id, as_delivery_id, \
     as_event_id, url, generation, replay_job_id, resubmitted_at) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
const NOTE_ATTEMPT: &str = "UPDATE delivery SET attempts = ?2, last_attempt_at = ?3, \
     last_outcome = ?4, last_status = ?5 WHERE id = ?1";

/// The rows that a resubmission adds.
#[derive(Default)]
struct Added {
    delivery: Option<DeliveryId>,
    event: Option<EventKey>,
    url: Option<String>,
    topic: Option<TopicId>,
    subscriptions: Vec<SubscriptionId>,
}

/// Resubmits one delivery. Checks everything before it writes anything.
pub(in crate::store) fn resubmit(
    tx: &Connection,
    resubmission: Resubmission,
    job: Option<ReplayJobId>,
    now: Timestamp,
) -> Result<Option<Resubmitted>, StoreError> {
    let of = resubmission.of;
    let found = tx
        .prepare_cached(FIND_UNCHANGED)?
        .query_row(
            params![of.delivery, of.state, of.attempts, now.as_ms()],
            |row| Ok((row.get(0).map(EventKey)?, row.get::<_, bool>(1)?)),
        )
        .optional()?;
    let Some((event, subscription_is_there)) = found else {
        return Ok(None);
    };
    let added = match resubmission.to {
        ResubmitTarget::Subscription { .. } if !subscription_is_there => return Ok(None),
        ResubmitTarget::Subscription { edited } => to_subscription(tx, &of, event, edited, now)?,
        ResubmitTarget::Topic {
            topic,
            event,
            targets,
        } => to_topic(tx, topic, &event, targets, now)?,
        ResubmitTarget::Url {
            url,
            attempt,
            edited,
        } => {
            note_attempt(tx, of.delivery, &attempt)?;
            let edited = edited.map(|edited| insert_event(tx, of.topic, now, &edited, 1));
            Added {
                url: Some(url.base()),
                event: edited.transpose()?,
                ..Added::default()
            }
        }
        ResubmitTarget::Rejected { attempt } => {
            note_attempt(tx, of.delivery, &attempt)?;
            return Ok(Some(Resubmitted {
                delivery: None,
                event,
                topic: None,
                subscriptions: Vec::new(),
            }));
        }
    };
    link(tx, &of, event, &added, job, now)?;
    Ok(Some(Resubmitted {
        delivery: added.delivery,
        event: added.event.unwrap_or(event),
        topic: added.topic,
        subscriptions: added.subscriptions,
    }))
}

fn to_subscription(
    tx: &Connection,
    of: &Candidate,
    event: EventKey,
    edited: Option<Event>,
    now: Timestamp,
) -> Result<Added, StoreError> {
    let edited = edited
        .map(|edited| insert_event(tx, of.topic, now, &edited, 1))
        .transpose()?;
    tx.prepare_cached(INSERT_AFRESH)?.execute(params![
        edited.unwrap_or(event),
        of.subscription,
        now.as_ms(),
        of.delivery
    ])?;
    Ok(Added {
        delivery: Some(DeliveryId(tx.last_insert_rowid())),
        event: edited,
        subscriptions: vec![of.subscription],
        ..Added::default()
    })
}

fn to_topic(
    tx: &Connection,
    topic: TopicId,
    event: &Event,
    targets: Vec<SubscriptionId>,
    now: Timestamp,
) -> Result<Added, StoreError> {
    let key = insert_event(tx, topic, now, event, targets.len())?;
    let mut insert = tx.prepare_cached(INSERT_NEW)?;
    for target in &targets {
        insert.execute(params![key, target, now.as_ms()])?;
    }
    Ok(Added {
        event: Some(key),
        topic: Some(topic),
        subscriptions: targets,
        ..Added::default()
    })
}

fn note_attempt(
    tx: &Connection,
    id: DeliveryId,
    attempt: &DeliveryAttempt,
) -> Result<(), StoreError> {
    tx.prepare_cached(NOTE_ATTEMPT)?.execute(params![
        id,
        attempt.attempt,
        attempt.started_at.as_ms(),
        attempt.result.outcome.name(),
        attempt.result.status
    ])?;
    record(tx, id, attempt)
}

/// Ends a dead letter that was resubmitted, and stores the resubmission. A delivered one stays delivered.
fn link(
    tx: &Connection,
    of: &Candidate,
    event: EventKey,
    added: &Added,
    job: Option<ReplayJobId>,
    now: Timestamp,
) -> Result<(), StoreError> {
    if of.state == DeliveryState::DeadLettered {
        let resubmitted = DeliveryState::Resubmitted;
        tx.prepare_cached(REPLACE)?
            .execute(params![of.delivery, resubmitted, added.delivery])?;
    } else if added.delivery.is_some() {
        tx.prepare_cached(FOLLOW)?
            .execute(params![of.delivery, added.delivery])?;
    }
    tx.prepare_cached(INSERT_LINE)?.execute(params![
        of.delivery,
        event,
        added.delivery,
        added.event,
        added.url,
        of.generation + 1,
        job.map(|job| job.0),
        now.as_ms()
    ])?;
    Ok(())
}

const LINE: &str = "SELECT delivery_id, event_id, as_delivery_id, as_event_id, url, \
     replay_job_id, resubmitted_at, (SELECT topic.name FROM event \
     JOIN topic ON topic.id = event.topic_id WHERE event.id = as_event_id) FROM resubmission";

/// Where an event comes from, and how it was resubmitted.
pub(in crate::store) fn lineage(tx: &Connection, event: EventKey) -> Result<Lineage, StoreError> {
    Ok(Lineage {
        made_by: lines(tx, "as_event_id = ?1", params![event])?.pop(),
        resubmissions: lines(tx, "event_id = ?1", params![event])?,
    })
}

/// The resubmission that made a delivery.
pub(in crate::store) fn origin(
    tx: &Connection,
    delivery: DeliveryId,
) -> Result<Option<LineageRow>, StoreError> {
    Ok(lines(tx, "as_delivery_id = ?1", params![delivery])?.pop())
}

/// The resubmissions of a delivery of `event`, oldest first, at most [`LINEAGE_MAX`].
pub(in crate::store) fn resubmissions_of(
    tx: &Connection,
    event: EventKey,
    delivery: DeliveryId,
) -> Result<Vec<LineageRow>, StoreError> {
    let condition = "event_id = ?1 AND delivery_id = ?2";
    lines(tx, condition, params![event, delivery])
}

fn lines(
    tx: &Connection,
    condition: &str,
    values: &[&dyn ToSql],
) -> Result<Vec<LineageRow>, StoreError> {
    let select = format!("{LINE} WHERE {condition} ORDER BY id LIMIT {LINEAGE_MAX}");
    let mut select = tx.prepare_cached(&select)?;
    let rows = select.query_map(values, |row| {
        Ok(LineageRow {
            delivery: DeliveryId(row.get(0)?),
            event: EventKey(row.get(1)?),
            as_delivery: row::delivery_id(row, 2)?,
            as_event: row.get::<_, Option<i64>>(3)?.map(EventKey),
            as_topic: row.get(7)?,
            url: row.get(4)?,
            replay_job: row.get::<_, Option<i64>>(5)?.map(ReplayJobId),
            resubmitted_at: row::timestamp(row, 6)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
