//! Resubmission of deliveries, one at a time or as a batch of a replay job, and delivery of stored events to
//! subscriptions that did not get them.

use std::sync::Arc;

use rusqlite::{Connection, Row, params};

use crate::base::Timestamp;
use crate::model::audit::AuditEntry;
use crate::model::delivery::{DeliveryAttempt, DeliveryId, DeliveryState};
use crate::model::destination::EndpointUrl;
use crate::model::event::{Event, EventKey, StoredEvent};
use crate::model::replay::{NotResubmitted, ReplayJob, ReplayJobId};
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;
use crate::store::engine::db::WriteTx;
use crate::store::engine::encryption::Encryption;
use crate::store::error::StoreError;
use crate::store::ledger::append::{About, MessageFacts, insert_delivery, insert_event};
use crate::store::ledger::counters::counted;
use crate::store::ledger::fan_out;
use crate::store::ledger::lease::load_event;
use crate::store::ledger::settle::record_attempt;
use crate::store::replay;
use crate::store::sql::Sql;

/// A delivery that may be resubmitted.
#[derive(Clone, Debug)]
pub struct ResubmitCandidate {
    pub delivery: DeliveryId,
    pub state: DeliveryState,
    pub subscription: SubscriptionId,
    pub topic: TopicId,
    pub attempts: u32,
    /// The end of the newest lock of the delivery, which may have passed.
    pub locked_until: Option<Timestamp>,
    /// The number of resubmissions that led to this delivery.
    pub generation: u32,
    /// The message session of the delivery.
    pub session: Option<String>,
    /// The event of the delivery; `None` if it was not requested or cannot be read.
    pub event: Option<Arc<StoredEvent>>,
}

/// Deliveries to resubmit together.
#[derive(Clone, Debug)]
pub struct ResubmitRequest {
    pub resubmissions: Vec<ResubmittedDelivery>,
    /// The step of a replay job that these resubmissions belong to, if there is one.
    pub step: Option<ReplayStep>,
    /// The audit entry of the user who resubmits the deliveries. It is recorded with the number of resubmitted
    /// deliveries, if any are resubmitted.
    pub audit: Option<AuditEntry>,
    pub now: Timestamp,
}

/// A delivery to resubmit, unless it has changed since it was read.
#[derive(Clone, Debug)]
pub struct ResubmittedDelivery {
    pub of: ResubmitCandidate,
    pub to: ResubmitTarget,
}

/// The target of a resubmission.
#[derive(Clone, Debug)]
pub enum ResubmitTarget {
    /// A new delivery to its own subscription, perhaps of an edited event, in the same message session.
    Subscription { edited: Option<Event> },
    /// A new event of a topic, for these subscriptions.
    Topic {
        topic: TopicId,
        event: Event,
        targets: Vec<SubscriptionId>,
        /// The target that is a queue, if there is one, with the facts of the event as a message of this queue.
        queue: Option<(SubscriptionId, MessageFacts)>,
    },
    /// An endpoint that accepted the event in this attempt.
    Url {
        url: EndpointUrl,
        attempt: Arc<DeliveryAttempt>,
        edited: Option<Event>,
    },
    /// An endpoint that did not accept the event. Only the attempt is recorded.
    Rejected {
        attempt: Arc<DeliveryAttempt>,
        /// The reason, in plain words.
        error: String,
    },
}

/// The progress of a replay job that one batch makes.
#[derive(Clone, Debug)]
pub struct ReplayStep {
    pub job: ReplayJobId,
    /// The cursor that the job must have for the batch to be stored.
    pub from: DeliveryId,
    pub to: DeliveryId,
    pub skipped: Vec<(DeliveryId, NotResubmitted)>,
    /// Is true if the job ends with this step.
    pub completes: bool,
}

/// The result of a [`ResubmitRequest`].
#[derive(Clone, Debug, Default)]
pub struct ResubmitDone {
    /// The outcome of each resubmission, in the order of the request.
    pub outcomes: Vec<ResubmitOutcome>,
    /// The replay job afterwards.
    pub job: Option<ReplayJob>,
}

impl ResubmitDone {
    /// Returns the number of deliveries that were resubmitted.
    pub fn count(&self) -> usize {
        let is_done = |each: &&ResubmitOutcome| matches!(each, ResubmitOutcome::Resubmitted(_));
        self.outcomes.iter().filter(is_done).count()
    }
}

/// The outcome of one [`ResubmittedDelivery`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResubmitOutcome {
    Resubmitted(Resubmitted),
    /// The endpoint did not accept the event, for this reason.
    Rejected(String),
    /// The delivery has changed since it was read, and stays as it is.
    Stale,
}

/// The result of a resubmission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resubmitted {
    /// The new delivery to its own subscription.
    pub delivery: Option<DeliveryId>,
    /// The event that was sent. It is a new event if it was edited or published again.
    pub event: EventKey,
    /// The topic that the event was published to.
    pub topic: Option<TopicId>,
    /// The subscriptions that have new deliveries.
    pub subscriptions: Vec<SubscriptionId>,
}

/// The result of delivering a stored event to a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentOutcome {
    /// The new delivery.
    As(DeliveryId),
    /// The delivery of the event that the subscription already has.
    Already(DeliveryId),
    /// The deliveries of the event are still being created.
    TooEarly,
    /// The event or the subscription is gone.
    Missing,
}

/// The columns of a [`ResubmitCandidate`] without its event, and the key of the event.
pub(in crate::store) const CANDIDATE_COLUMNS: &str = "delivery.id, delivery.state, \
     delivery.subscription_id, event.topic_id, delivery.attempts, \
     max(coalesce((SELECT max(generation) FROM resubmission WHERE as_delivery_id = delivery.id), 0), \
         coalesce((SELECT max(generation) FROM resubmission WHERE as_event_id = event.id), 0)), \
     delivery.locked_until, event.id, delivery.session";

/// Reads a row of [`CANDIDATE_COLUMNS`]. Loads its event if `with_event` is true.
pub(in crate::store) fn candidate(
    tx: &Connection,
    row: &Row<'_>,
    with_event: bool,
) -> Result<ResubmitCandidate, StoreError> {
    let event = if with_event {
        load_event(tx, row.get(7)?, row.get(0)?)?.ok().map(Arc::new)
    } else {
        None
    };
    Ok(ResubmitCandidate {
        delivery: row.get(0)?,
        state: row.get(1)?,
        subscription: row.get(2)?,
        topic: row.get(3)?,
        attempts: row.get(4)?,
        generation: row.get(5)?,
        locked_until: row.get(6)?,
        session: row.get(8)?,
        event,
    })
}

/// Returns the deliveries with these ids. Ids without a delivery are left out.
pub(in crate::store) fn candidates(
    tx: &Connection,
    ids: &[DeliveryId],
) -> Result<Vec<ResubmitCandidate>, StoreError> {
    let find = format!(
        "SELECT {CANDIDATE_COLUMNS} FROM delivery JOIN event ON event.id = delivery.event_id \
         WHERE delivery.id = ?1"
    );
    let one = |id| tx.first(&find, [id], |row| candidate(tx, row, true));
    ids.iter().filter_map(|id| one(id).transpose()).collect()
}

/// Resubmits the deliveries of a request. Returns `None` and stores nothing if the replay job was paused, cancelled or
/// advanced meanwhile.
pub(super) fn resubmit_all(
    tx: &WriteTx,
    encryption: &Encryption,
    request: ResubmitRequest,
) -> Result<Option<ResubmitDone>, StoreError> {
    let ResubmitRequest {
        resubmissions,
        step,
        now,
        ..
    } = request;
    let mut job = match &step {
        None => None,
        Some(step) => match replay::at(tx, encryption, step.job, step.from)? {
            None => return Ok(None),
            job => job,
        },
    };
    if let (Some(job), Some(step)) = (&mut job, &step) {
        for (delivery, reason) in &step.skipped {
            job.progress.skip(*delivery, *reason);
        }
    }
    let id = job.as_ref().map(|job| job.id);
    let mut done = ResubmitDone::default();
    for resubmission in resubmissions {
        let delivery = resubmission.of.delivery;
        let outcome = resubmit(tx, resubmission, id, now)?;
        if let Some(job) = &mut job {
            match &outcome {
                ResubmitOutcome::Resubmitted(_) => job.progress.resubmitted += 1,
                ResubmitOutcome::Rejected(error) => job.progress.fail(delivery, error),
                ResubmitOutcome::Stale => {
                    job.progress.skip(delivery, NotResubmitted::NotDeadLettered);
                }
            }
        }
        done.outcomes.push(outcome);
    }
    if let (Some(mut job), Some(step)) = (job, step) {
        job.cursor = step.to;
        replay::advance(tx, &mut job, step.completes, now)?;
        done.job = Some(job);
    }
    Ok(Some(done))
}

/// A delivery that is unchanged and not locked.
struct Unchanged {
    event: EventKey,
    subscription_exists: bool,
    /// The number of bytes of the message as it was sent; `None` if the delivery is not a message of a queue.
    /// Properties that receivers have set do not count, since a new delivery has none.
    bytes: Option<u32>,
    published_at: Timestamp,
    /// The time at which the message's own time to live ends.
    expires_at: Option<Timestamp>,
}

const FIND_UNCHANGED: &str = "SELECT delivery.event_id, event_subscription.deleted_at IS NULL, \
         CASE WHEN delivery.bytes IS NOT NULL THEN \
             coalesce((SELECT octet_length(data) FROM event WHERE event.id = delivery.event_id), 0) END, \
         delivery.published_at, delivery.expires_at \
     FROM delivery JOIN event_subscription ON event_subscription.id = delivery.subscription_id \
     WHERE delivery.id = ?1 AND delivery.state = ?2 AND delivery.attempts = ?3 \
     AND (delivery.locked_until IS NULL OR delivery.locked_until <= ?4)";

/// The rows that a resubmission adds.
#[derive(Default)]
struct ResubmittedRows {
    delivery: Option<DeliveryId>,
    event: Option<EventKey>,
    url: Option<String>,
    topic: Option<TopicId>,
    subscriptions: Vec<SubscriptionId>,
}

/// Resubmits one delivery. Makes all checks before the first write.
fn resubmit(
    tx: &WriteTx,
    resubmission: ResubmittedDelivery,
    job: Option<ReplayJobId>,
    now: Timestamp,
) -> Result<ResubmitOutcome, StoreError> {
    let of = resubmission.of;
    let unchanged = params![of.delivery, of.state, of.attempts, now];
    let found = tx.first(FIND_UNCHANGED, unchanged, |row| {
        Ok(Unchanged {
            event: row.get(0)?,
            subscription_exists: row.get(1)?,
            bytes: row.get(2)?,
            published_at: row.get(3)?,
            expires_at: row.get(4)?,
        })
    })?;
    let Some(Unchanged {
        event,
        subscription_exists,
        bytes,
        published_at,
        expires_at,
    }) = found
    else {
        return Ok(ResubmitOutcome::Stale);
    };
    let insert_edited = |edited: Option<Event>| {
        let insert = |edited: Event| insert_event(tx, of.topic, now, &edited, 1);
        edited.map(insert).transpose()
    };
    let added = match resubmission.to {
        ResubmitTarget::Subscription { .. } if !subscription_exists => {
            return Ok(ResubmitOutcome::Stale);
        }
        ResubmitTarget::Subscription { edited } => {
            let edited_bytes = edited.as_ref().map(Event::data_bytes);
            let edited = insert_edited(edited)?;
            let (event, to) = (edited.unwrap_or(event), of.subscription);
            let about = About {
                session: of.session.as_deref(),
                bytes: bytes.map(|bytes| edited_bytes.unwrap_or(bytes)),
                own_life: expires_at.map(|at| at.since(published_at)),
                is_scheduled: false,
                promised: None,
                resubmission_of: Some(of.delivery),
            };
            let (delivery, _) = insert_delivery(tx, event, to, now, about)?;
            ResubmittedRows {
                delivery: Some(delivery),
                event: edited,
                subscriptions: vec![to],
                ..ResubmittedRows::default()
            }
        }
        ResubmitTarget::Topic {
            topic,
            event,
            targets,
            queue,
        } => {
            let key = insert_event(tx, topic, now, &event, targets.len())?;
            for target in &targets {
                let about = queue
                    .as_ref()
                    .filter(|(of, _)| of == target)
                    .map(|(_, facts)| About::message(facts))
                    .unwrap_or_default();
                insert_delivery(tx, key, *target, now, about)?;
            }
            ResubmittedRows {
                event: Some(key),
                topic: Some(topic),
                subscriptions: targets,
                ..ResubmittedRows::default()
            }
        }
        ResubmitTarget::Url {
            url,
            attempt,
            edited,
        } => {
            note_attempt(tx, of.delivery, &attempt)?;
            ResubmittedRows {
                url: Some(url.base().to_owned()),
                event: insert_edited(edited)?,
                ..ResubmittedRows::default()
            }
        }
        ResubmitTarget::Rejected { attempt, error } => {
            note_attempt(tx, of.delivery, &attempt)?;
            return Ok(ResubmitOutcome::Rejected(error));
        }
    };
    link(tx, &of, event, &added, job, now)?;
    Ok(ResubmitOutcome::Resubmitted(Resubmitted {
        delivery: added.delivery,
        event: added.event.unwrap_or(event),
        topic: added.topic,
        subscriptions: added.subscriptions,
    }))
}

fn note_attempt(tx: &WriteTx, id: DeliveryId, attempt: &DeliveryAttempt) -> Result<(), StoreError> {
    let note = "UPDATE delivery SET attempts = ?2, last_attempt_at = ?3, last_outcome = ?4, \
         last_status = ?5 WHERE id = ?1";
    let result = &attempt.result;
    let (number, at) = (attempt.attempt, attempt.started_at);
    let values = params![id, number, at, result.outcome, result.status()];
    counted(tx, id, || Ok::<_, StoreError>(tx.run(note, values)?))?;
    Ok(record_attempt(tx, id, attempt)?)
}

/// Ends a dead letter that was resubmitted, and stores the resubmission. A delivered delivery stays delivered.
fn link(
    tx: &WriteTx,
    of: &ResubmitCandidate,
    event: EventKey,
    added: &ResubmittedRows,
    job: Option<ReplayJobId>,
    now: Timestamp,
) -> Result<(), StoreError> {
    if of.state == DeliveryState::DeadLettered {
        let replace = "UPDATE delivery SET state = 'Resubmitted', resubmitted_as = ?2, \
             lock_token = NULL, locked_at = NULL, locked_until = NULL WHERE id = ?1";
        let values = params![of.delivery, added.delivery];
        counted(tx, of.delivery, || {
            Ok::<_, StoreError>(tx.run(replace, values)?)
        })?;
    } else if added.delivery.is_some() {
        let follow = "UPDATE delivery SET resubmitted_as = ?2 WHERE id = ?1";
        tx.run(follow, params![of.delivery, added.delivery])?;
    }
    let insert = "INSERT INTO resubmission (delivery_id, event_id, as_delivery_id, as_event_id, url, \
         generation, replay_job_id, resubmitted_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    tx.run(
        insert,
        params![
            of.delivery,
            event,
            added.delivery,
            added.event,
            added.url,
            of.generation + 1,
            job,
            now
        ],
    )?;
    Ok(())
}

/// Creates a delivery of a stored event for a subscription that has no delivery of it. Increments the number of
/// subscriptions that the event matched.
pub(super) fn send(
    tx: &WriteTx,
    event: EventKey,
    subscription: SubscriptionId,
    about: About<'_>,
    now: Timestamp,
) -> Result<SentOutcome, StoreError> {
    let find = "SELECT id FROM delivery WHERE event_id = ?1 AND subscription_id = ?2 LIMIT 1";
    if let Some(id) = tx.find(find, params![event, subscription])? {
        return Ok(SentOutcome::Already(id));
    }
    if fan_out::is_open(tx, event)? {
        return Ok(SentOutcome::TooEarly);
    }
    let count = "UPDATE event SET matched = matched + 1 WHERE id = ?1 AND EXISTS \
         (SELECT 1 FROM event_subscription WHERE id = ?2 AND deleted_at IS NULL)";
    Ok(match tx.run(count, params![event, subscription])? {
        0 => SentOutcome::Missing,
        _ => SentOutcome::As(insert_delivery(tx, event, subscription, now, about)?.0),
    })
}
