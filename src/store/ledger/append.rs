//! Storing events with their deliveries.

use std::ops::Range;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, Params, params, params_from_iter};

use crate::base::Timestamp;
use crate::model::audit::AuditEntry;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::delivery::{Delivery, DeliveryId, Settlement};
use crate::model::event::{Event, EventKey, StoredEvent};
use crate::model::limits::RULE_COPIES_MAX;
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;
use crate::store::engine::checksum;
use crate::store::engine::db::WriteTx;
use crate::store::engine::queue::Lane;
use crate::store::error::StoreError;
use crate::store::ledger::counters::{DeliveryChange, DeliveryVersion};
use crate::store::ledger::duplicates;
use crate::store::ledger::fan_out::{self, FanOut};
use crate::store::ledger::forward::{self, ForwardMark};
use crate::store::ledger::notices::{self, NoticeMark};
use crate::store::ledger::request_marks::RequestMark;
use crate::store::ledger::sessions;
use crate::store::ledger::settle::{CountedFor, SettlementRecord, settle};
use crate::store::row;
use crate::store::sql::Sql;

/// Number of data bytes that take the writer about as long as one row.
const ROW_BYTES: usize = 8_192;

/// Returns the approximate number of rows that take the writer as long as `bytes` of data.
pub(super) fn rows_of(bytes: usize) -> usize {
    bytes / ROW_BYTES
}

/// A request to store events of one topic together, with the subscriptions that they match.
#[derive(Debug)]
pub struct AppendRequest {
    pub topic: TopicId,
    pub received_at: Timestamp,
    pub events: Vec<NewEvent>,
    /// Further subscriptions that get the events. [`super::Ledger::fan_out`] creates their deliveries later. If set,
    /// the targets of the events are only subscriptions in `measured`.
    pub fan_out: Option<FanOut>,
    /// The mark that is stored with the deliveries, if the messages were forwarded by a queue or are to be forwarded.
    pub forwarded: Option<Box<ForwardMark>>,
    /// The subscriptions, ordered by id, whose deliveries are messages and are counted with their bytes.
    pub measured: Arc<[SubscriptionId]>,
    /// The requirements of the queues that the events go into.
    pub intake: QueueIntake,
    /// Identifies the publish request, if the client gave it an id.
    pub request: Option<RequestMark>,
    /// The audit entry for storing the events; `None` for publishers, which are not audited.
    pub audit: Option<AuditEntry>,
    /// The marks of the notices that are published as these events.
    pub notified: Vec<NoticeMark>,
}

/// An event to store, with the subscriptions that get it.
#[derive(Clone, Debug)]
pub struct NewEvent {
    pub event: Event,
    pub targets: Vec<SubscriptionId>,
    /// When its deliveries are due, if not at once. They are created in one change with the event.
    pub due_at: Option<Timestamp>,
    /// The time to live that a message has of its own.
    pub own_life: Option<Duration>,
    /// The session of a message, if a queue of the request requires sessions.
    pub session: Option<String>,
    /// The problem for which its deliveries are dead-lettered when they are stored.
    pub problem: Option<EventProblem>,
    pub made_from: MadeFrom,
    /// The number that was promised to the message, if this is the first event that was made from it.
    pub promised: Option<PromisedNumber>,
}

/// The reason that rules cannot make a copy of a message. The original is stored in its place, as a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventProblem {
    /// A rule cannot be evaluated, with a description.
    Unevaluated(String),
    /// An action makes the copy too large.
    Oversized,
}

/// The message that an event was made from. In a topic with rules, several events may be made from one message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MadeFrom {
    /// The event is the message.
    #[default]
    Itself,
    /// The event is the first one that was made from this message.
    First {
        message_id: String,
        is_scheduled: bool,
    },
    /// The event was made from the same message as the event before it.
    SameAsBefore,
}

impl NewEvent {
    /// Returns an event that is due at once.
    pub fn new(event: Event, targets: Vec<SubscriptionId>) -> Self {
        Self {
            event,
            targets,
            due_at: None,
            own_life: None,
            session: None,
            problem: None,
            made_from: MadeFrom::default(),
            promised: None,
        }
    }
}

/// The sequence number that is assigned to a message before the message is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromisedNumber {
    /// The ids that the deliveries of the message will get.
    ids: Range<i64>,
    /// The sequence number of a message in a queue; `None` in a topic, where the first id is the number.
    in_queue: Option<i64>,
}

impl PromisedNumber {
    /// Returns the sequence number of the message.
    pub fn number(&self) -> i64 {
        self.in_queue.unwrap_or(self.ids.start)
    }
}

/// Reserves numbers for messages that will be sent to a queue, or to a topic with rules. The number of a message that
/// is not sent is not used again.
pub(super) fn promise(
    tx: &WriteTx,
    queue: Option<SubscriptionId>,
    count: usize,
) -> Result<Vec<PromisedNumber>, StoreError> {
    let each = (0..count).map(|_| {
        let (first, copies) = (tx.ids().next_delivery(tx)?.0, RULE_COPIES_MAX as i64);
        let in_queue = queue.map(|queue| {
            let number = tx.next_number(queue);
            tx.counts().numbers(queue, 1);
            number
        });
        let ids = match in_queue {
            Some(_) => first..first + 1,
            None => first..first + copies,
        };
        tx.ids().skip_deliveries(ids.end);
        Ok(PromisedNumber { ids, in_queue })
    });
    let promised = each.collect::<Result<_, StoreError>>()?;
    tx.ids().store(tx)?;
    Ok(promised)
}

/// The requirements of queues for the events that go into them. Such events are stored together with their deliveries.
#[derive(Debug, Default)]
pub struct QueueIntake {
    /// The subscriptions that require sessions. A delivery without a session is dead-lettered.
    pub with_sessions: Vec<SubscriptionId>,
    /// Time for which message ids are remembered for duplicate detection; `None` without it. A message with a
    /// remembered id is dropped.
    pub remembers_for: Option<Duration>,
}

impl QueueIntake {
    /// Reports whether the queues have no requirements.
    pub fn is_empty(&self) -> bool {
        self.with_sessions.is_empty() && self.remembers_for.is_none()
    }

    /// Returns the session of a delivery of a message in `session`, `None` if the subscription requires no sessions.
    pub fn session<'a>(
        &self,
        subscription: SubscriptionId,
        session: Option<&'a str>,
    ) -> Option<&'a str> {
        session.filter(|_| self.with_sessions.contains(&subscription))
    }

    /// Returns the reason that a delivery is dead-lettered when it is stored, `None` if it is not.
    pub fn ended(
        &self,
        subscription: SubscriptionId,
        session: Option<&str>,
        problem: Option<&EventProblem>,
    ) -> Option<DeadLetterReason> {
        match problem {
            Some(EventProblem::Unevaluated(_)) => Some(DeadLetterReason::FilterEvaluationFailed),
            Some(EventProblem::Oversized) => Some(DeadLetterReason::HeaderSizeExceeded),
            None => {
                let lacks_session = session.is_none() && self.with_sessions.contains(&subscription);
                lacks_session.then_some(DeadLetterReason::SessionIdMissing)
            }
        }
    }

    /// Reports whether the topic already remembers the id of the message. Otherwise remembers the id, unless the
    /// message is dead-lettered when it is stored.
    fn is_repeated(
        &self,
        tx: &WriteTx,
        topic: TopicId,
        first: &NewEvent,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let Some(remembers_for) = self.remembers_for else {
            return Ok(false);
        };
        let id = match &first.made_from {
            MadeFrom::First { message_id, .. } => message_id,
            MadeFrom::Itself | MadeFrom::SameAsBefore => {
                let (session, problem) = (first.session.as_deref(), first.problem.as_ref());
                let mut targets = first.targets.iter();
                if targets.any(|of| self.ended(*of, session, problem).is_some()) {
                    return Ok(false);
                }
                &first.event.id
            }
        };
        let is_new = duplicates::remember(tx, topic, id, now, now + remembers_for)?;
        Ok(!is_new)
    }
}

/// The message to which the current event belongs. In a topic with rules, several events may be made from one message.
#[derive(Default)]
struct CurrentMessage {
    is_repeated: bool,
    is_scheduled: bool,
    /// The promised number of the message, or the number of its first copy.
    number: Option<DeliveryId>,
    /// Is true if the number was already added to the numbers in the answer.
    is_numbered: bool,
    promised: Option<PromisedNumber>,
}

impl CurrentMessage {
    /// Returns the message whose first event is `first`.
    fn of(first: &mut NewEvent, is_repeated: bool) -> Self {
        let promised = first.promised.take();
        let in_topic = promised.as_ref().filter(|each| each.in_queue.is_none());
        Self {
            number: in_topic.map(|each| DeliveryId(each.number())),
            is_repeated,
            is_scheduled: matches!(
                first.made_from,
                MadeFrom::First {
                    is_scheduled: true,
                    ..
                }
            ),
            is_numbered: false,
            promised,
        }
    }

    /// Returns the next promised delivery id of the message, and its promised number in a queue.
    fn promised(&mut self) -> Option<(DeliveryId, Option<i64>)> {
        let promised = self.promised.as_mut()?;
        Some((DeliveryId(promised.ids.next()?), promised.in_queue))
    }

    /// Assigns the number of a scheduled message, and stores it in the delivery `copy` if there is one. Returns the
    /// number on the first call for the message, and `None` on later calls or if the message is not scheduled.
    fn number(
        &mut self,
        tx: &WriteTx,
        copy: Option<DeliveryId>,
    ) -> rusqlite::Result<Option<DeliveryId>> {
        if !self.is_scheduled {
            return Ok(None);
        }
        let is_first = !std::mem::replace(&mut self.is_numbered, true);
        let number = match (self.number, copy) {
            (Some(number), _) | (None, Some(number)) => number,
            (None, None) => tx.ids().next_delivery(tx)?,
        };
        self.number = Some(number);
        if let Some(copy) = copy {
            tx.run(NUMBER, params![copy, number])?;
            seal(tx, copy)?;
        }
        Ok(is_first.then_some(number))
    }
}

impl AppendRequest {
    /// Returns a request to store events of a topic, none of which is a message of a queue.
    pub fn new(topic: TopicId, received_at: Timestamp, events: Vec<NewEvent>) -> Self {
        Self {
            topic,
            received_at,
            events,
            fan_out: None,
            forwarded: None,
            measured: Arc::default(),
            intake: QueueIntake::default(),
            request: None,
            audit: None,
            notified: Vec::new(),
        }
    }

    /// Adds an event.
    pub fn push(&mut self, mut new: NewEvent) {
        if let Some(later) = &mut self.fan_out {
            later.push(&take_deferrable(&self.measured, &mut new.targets));
        }
        self.events.push(new);
    }

    /// Assigns promised numbers to the messages, in the order of the messages.
    pub fn promise(&mut self, promised: Vec<PromisedNumber>) {
        let events = self.events.iter_mut();
        let first = events.filter(|new| new.made_from != MadeFrom::SameAsBefore);
        for (new, promised) in first.zip(promised) {
            new.promised = Some(promised);
        }
    }

    /// Returns the number of events that no subscription gets.
    pub fn unmatched(&self) -> usize {
        let later = |place| self.fan_out.as_ref().map_or(0, |it| it.matched(place));
        let places = self.events.iter().enumerate();
        places
            .filter(|(place, new)| new.targets.is_empty() && later(*place) == 0)
            .count()
    }

    /// Reports whether queues have requirements on the events, or rules have problems with them.
    pub fn has_requirements(&self) -> bool {
        !self.intake.is_empty() || self.events.iter().any(|new| new.problem.is_some())
    }

    /// Reports whether the messages are stored in a transfer queue, to be forwarded to another entity.
    pub fn is_transfer(&self) -> bool {
        let mark = self.forwarded.as_ref();
        mark.is_some_and(|mark| mark.transfer_to.is_some())
    }

    /// Returns the approximate number of rows that are stored at once. Data counts as the number of rows that take the
    /// writer as long.
    pub(super) fn rows(&self) -> usize {
        let rows = self.events.iter().map(|new| {
            let bytes = usize::try_from(new.event.data_bytes()).unwrap_or(usize::MAX);
            1 + new.targets.len() + rows_of(bytes)
        });
        rows.sum()
    }

    /// Returns the lane in which the request waits for the writer.
    pub(super) fn lane(&self) -> Lane {
        Lane::Append {
            to: self.topic,
            rows: self.rows(),
        }
    }

    /// Returns how many deliveries may be created later.
    pub fn deferrable(&self) -> usize {
        let targets = self.events.iter().flat_map(|new| &new.targets);
        targets
            .filter(|of| is_deferrable(&self.measured, **of))
            .count()
    }

    /// Defers the creation of all deliveries that may be created later. Deliveries of messages may not: when the sender
    /// gets the answer, all receivers must see the message, together with all messages that were sent with it.
    pub fn defer_deliveries(&mut self) {
        if self.fan_out.is_some() || self.forwarded.is_some() || self.has_requirements() {
            return;
        }
        if self.events.iter().any(|new| new.due_at.is_some()) {
            return;
        }
        let mut fan_out = FanOut::default();
        for new in &mut self.events {
            fan_out.push(&take_deferrable(&self.measured, &mut new.targets));
        }
        self.fan_out = Some(fan_out);
    }
}

fn is_deferrable(measured: &[SubscriptionId], of: SubscriptionId) -> bool {
    measured.binary_search(&of).is_err()
}

/// Removes from `targets` the subscriptions whose deliveries may be created later, and returns them.
fn take_deferrable(
    measured: &[SubscriptionId],
    targets: &mut Vec<SubscriptionId>,
) -> Vec<SubscriptionId> {
    if measured.is_empty() {
        return std::mem::take(targets); // as with every topic of events
    }
    targets
        .extract_if(.., |of| is_deferrable(measured, *of))
        .collect()
}

/// The result of an [`AppendRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Appended {
    Stored {
        events: Vec<EventKey>,
        /// The numbers of the messages of a queue, 0 for each message that was dropped as a duplicate. For scheduled
        /// messages in a topic with rules, the id of each message's first delivery.
        numbers: Vec<i64>,
    },
    /// Nothing is stored, because the request or the notice was stored before.
    Repeated,
}

/// A newly stored delivery with its event, so that neither has to be read from the database.
#[derive(Clone, Debug)]
pub struct HandedOver {
    pub subscription: SubscriptionId,
    pub delivery: Delivery,
    pub event: Arc<StoredEvent>,
    /// The reason that the delivery was dead-lettered when it was stored; `None` if it was not.
    pub ended: Option<DeadLetterReason>,
}

/// The events and deliveries that an [`AppendRequest`] has stored.
#[derive(Debug, Default)]
pub(in crate::store) struct StoredRows {
    events: Vec<EventKey>,
    handed_over: Vec<HandedOver>,
    /// The numbers of the deliveries to the queue itself, if the topic is a queue.
    numbers: Vec<i64>,
    /// The numbers of scheduled messages in a topic with rules.
    scheduled: Vec<DeliveryId>,
}

impl StoredRows {
    /// Passes the stored deliveries to `then` and returns the result of the request. `None` stands for a repeated
    /// request or notice.
    pub(super) fn announce(stored: Option<Self>, then: impl FnOnce(Vec<HandedOver>)) -> Appended {
        let Some(Self {
            events,
            handed_over,
            numbers,
            scheduled,
        }) = stored
        else {
            return Appended::Repeated;
        };
        let numbers = if scheduled.is_empty() {
            numbers
        } else {
            scheduled.iter().map(|id| id.0).collect()
        };
        then(handed_over);
        Appended::Stored { events, numbers }
    }
}

/// Additional rows that are stored in one transaction with a change of the catalog.
#[derive(Debug, Default)]
pub struct Effects {
    pub audit: Option<AuditEntry>,
    /// The notice of the change.
    pub notice: Option<AppendRequest>,
}

/// Stores the events and deliveries of a request. Returns `None` for a repeated request or notice.
pub(in crate::store) fn append(
    tx: &WriteTx,
    request: AppendRequest,
) -> Result<Option<StoredRows>, StoreError> {
    if !notices::mark_notified(tx, &request.notified)? {
        return Ok(None);
    }
    let AppendRequest {
        topic, received_at, ..
    } = request;
    if let Some(mark) = request.request
        && !tx.marks().mark(tx, &mark, received_at)?
    {
        return Ok(None);
    }
    let (intake, later) = (&request.intake, request.fan_out.as_ref());
    let deliveries = request.events.iter().map(|new| new.targets.len()).sum();
    let mut stored = StoredRows {
        events: Vec::with_capacity(request.events.len()),
        handed_over: Vec::with_capacity(deliveries),
        numbers: Vec::with_capacity(deliveries),
        scheduled: Vec::new(),
    };
    let marked = request.forwarded.as_ref().map_or(0, |mark| mark.bytes());
    let mut current = CurrentMessage::default();
    for (place, mut new) in request.events.into_iter().enumerate() {
        if new.made_from != MadeFrom::SameAsBefore {
            stored.scheduled.extend(current.number(tx, None)?);
            let is_repeated = intake.is_repeated(tx, topic, &new, received_at)?;
            current = CurrentMessage::of(&mut new, is_repeated);
        }
        if current.is_repeated {
            stored.numbers.push(0);
            continue;
        }
        let matched = new.targets.len() + later.map_or(0, |later| later.matched(place));
        let key = insert_event(tx, topic, received_at, &new.event, matched)?;
        let (problem, session) = (new.problem.as_ref(), new.session.as_deref());
        let event = Arc::new(StoredEvent {
            key,
            received_at,
            event: new.event,
        });
        let due_at = new.due_at.unwrap_or(received_at);
        for subscription in new.targets {
            let is_measured = request.measured.binary_search(&subscription).is_ok();
            let bytes = is_measured.then(|| event.event.data_bytes().saturating_add(marked));
            let about = About {
                session: intake.session(subscription, session),
                bytes,
                own_life: new.own_life.filter(|_| is_measured),
                is_scheduled: new.due_at.is_some(),
                promised: if is_measured {
                    current.promised()
                } else {
                    None
                },
                resubmission_of: None,
            };
            let (id, number) = insert_delivery(tx, key, subscription, due_at, about)?;
            stored.scheduled.extend(current.number(tx, Some(id))?);
            if is_measured || request.measured.is_empty() {
                stored.numbers.push(number);
            }
            if let Some(mark) = &request.forwarded {
                forward::mark(tx, id, mark)?;
            }
            let ended = intake.ended(subscription, session, problem);
            if let Some(reason) = ended {
                let known = (subscription, due_at, bytes);
                end_at_once(tx, id, known, reason, problem, received_at)?;
            }
            stored.handed_over.push(HandedOver {
                subscription,
                delivery: Delivery {
                    id,
                    number,
                    event: key,
                    attempts: 0,
                    published_at: due_at,
                    first_attempt_at: None,
                    batch_max: None,
                },
                event: Arc::clone(&event),
                ended,
            });
        }
        stored.events.push(key);
    }
    stored.scheduled.extend(current.number(tx, None)?);
    if let (Some(later), Some(first)) = (&request.fan_out, stored.events.first()) {
        fan_out::insert(tx, topic, received_at, *first, later)?;
    }
    Ok(Some(stored))
}

/// Inserts an event. The lists of this and of the delivery statement have no spaces, because the statement cache copies
/// the text at each execution. The columns that the checksum covers come first, in the order of the checksum.
const INSERT_EVENT: &str = "INSERT INTO event (id,received_at,event_id,event_type,source,subject,event_time,\
     data_version,attributes,data,topic_id,matched,checksum) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13)";
const NUMBER: &str = "UPDATE delivery SET first_number = ?2 WHERE id = ?1";
const PLAN: &str = "UPDATE delivery SET scheduled_at = ?2, expires_at = ?3 WHERE id = ?1";
const INSERT_DELIVERY: &str = "INSERT INTO delivery (id,event_id,subscription_id,published_at,resubmission_of,\
     session,bytes,number,next_attempt_at,checksum) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?4,?9)";

const HIGHEST_NUMBER: &str = "SELECT max(\
     coalesce((SELECT max(number) FROM delivery WHERE subscription_id = ?1 AND state = 'Pending' \
         AND number IS NOT NULL), 0), \
     coalesce((SELECT max(number) FROM delivery WHERE subscription_id = ?1 AND state = 'DeadLettered' \
         AND number IS NOT NULL), 0))";

/// Recomputes the checksum of a delivery.
static SEAL_DELIVERY: LazyLock<String> = LazyLock::new(|| checksum::DELIVERY.seal());

/// Values of the delivery columns that the checksum covers and that are null in a new delivery.
const EMPTY_AT_FIRST: [ValueRef<'_>; 8] = [ValueRef::Null; 8];

/// Selects whether a delivery matches its checksum.
static IS_SOUND: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT {} FROM delivery WHERE id = ?1",
        checksum::DELIVERY.is_sound()
    )
});

/// Recomputes the checksum of a new delivery after a change of a column that the checksum covers.
pub(super) fn seal(tx: &Connection, delivery: DeliveryId) -> rusqlite::Result<()> {
    tx.run(&SEAL_DELIVERY, [delivery]).map(drop)
}

/// Runs `update` on columns of a stored delivery that the checksum covers, and recomputes the checksum. The checksum of
/// a damaged delivery is not recomputed, so the damage stays detectable.
pub(super) fn change_sealed(
    tx: &Connection,
    delivery: DeliveryId,
    update: &str,
    values: impl Params,
) -> Result<(), StoreError> {
    let was_sound: Option<bool> = tx.find(&IS_SOUND, [delivery])?;
    tx.run(update, values)?;
    if was_sound == Some(true) {
        seal(tx, delivery)?;
    }
    Ok(())
}

pub(super) fn insert_event(
    tx: &WriteTx,
    topic: TopicId,
    received_at: Timestamp,
    event: &Event,
    matched: usize,
) -> rusqlite::Result<EventKey> {
    let key = tx.ids().next_event(tx)?;
    let attributes = row::attributes_column(&event.attributes);
    let sealed: [ValueRef<'_>; 11] = [
        ValueRef::Integer(key.0),
        ValueRef::Integer(received_at.as_ms()),
        event.id.as_str().into(),
        event.event_type.as_str().into(),
        event.source.as_deref().into(),
        event.subject.as_deref().into(),
        event.time.as_deref().into(),
        event.data_version.as_deref().into(),
        attributes.as_deref().into(),
        row::data_column(&event.data),
        ValueRef::Integer(topic.0),
    ];
    let others = [as_number(matched), checksum::of_values(sealed)];
    let values = sealed.into_iter().chain(others.map(ValueRef::Integer));
    tx.run(
        INSERT_EVENT,
        params_from_iter(values.map(ToSqlOutput::Borrowed)),
    )?;
    tx.counts()
        .event(topic, received_at, matched, event.data.len());
    Ok(key)
}

pub(super) fn as_number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Dead-letters a new delivery for `reason`, with the description of the `problem` if it has one.
pub(super) fn end_at_once(
    tx: &WriteTx,
    delivery: DeliveryId,
    counted_for: CountedFor,
    reason: DeadLetterReason,
    problem: Option<&EventProblem>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let end = SettlementRecord {
        delivery,
        counted_for: Some(counted_for),
        attempts: 0,
        attempt: None,
        late: None,
        settlement: Some(Settlement::DeadLetter(reason)),
    };
    settle(tx, &end, now)?;
    if let Some(EventProblem::Unevaluated(problem)) = problem {
        let tell = "UPDATE delivery SET receiver_description = ?2 WHERE id = ?1";
        tx.run(tell, params![delivery, problem])?;
        seal(tx, delivery)?;
    }
    Ok(())
}

/// The properties of a message that a queue keeps in the row of its delivery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageFacts {
    /// The message session that it belongs to.
    pub session: Option<String>,
    /// The size of the message; `None` if the delivery is not a message of a queue.
    pub bytes: Option<u32>,
    /// The message's own time to live.
    pub own_life: Option<Duration>,
}

impl<'a> About<'a> {
    /// Returns the properties of a message that is due at once.
    pub(super) fn message(facts: &'a MessageFacts) -> Self {
        Self {
            session: facts.session.as_deref(),
            bytes: facts.bytes,
            own_life: facts.own_life,
            ..Self::default()
        }
    }
}

/// The properties of a new delivery that most deliveries do not have.
#[derive(Clone, Copy, Default)]
pub(super) struct About<'a> {
    /// The message session that it belongs to.
    pub(super) session: Option<&'a str>,
    /// See [`MessageFacts::bytes`].
    pub(super) bytes: Option<u32>,
    /// See [`MessageFacts::own_life`].
    pub(super) own_life: Option<Duration>,
    /// Is true if the sender has chosen when the message is due.
    pub(super) is_scheduled: bool,
    /// The promised id of the delivery, and its promised number in a queue.
    pub(super) promised: Option<(DeliveryId, Option<i64>)>,
    pub(super) resubmission_of: Option<DeliveryId>,
}

/// Adds a delivery that is due at `at`. The time to live also begins at `at`. Returns the id and the number of the
/// delivery.
pub(super) fn insert_delivery(
    tx: &WriteTx,
    event: EventKey,
    subscription: SubscriptionId,
    at: Timestamp,
    about: About<'_>,
) -> rusqlite::Result<(DeliveryId, i64)> {
    let About {
        session,
        bytes,
        own_life,
        is_scheduled,
        promised,
        resubmission_of,
    } = about;
    let (id, known) = match promised {
        Some(promised) => promised,
        None => (tx.ids().next_delivery(tx)?, None),
    };
    let counted = bytes.map(|_| tx.next_number(subscription) - 1);
    let number = counted.map(|highest| known.unwrap_or(highest + 1));
    let insert = |number: Option<i64>| {
        let sealed = [
            ValueRef::Integer(id.0),
            ValueRef::Integer(event.0),
            ValueRef::Integer(subscription.0),
            ValueRef::Integer(at.as_ms()),
            resubmission_of.map_or(ValueRef::Null, |of| ValueRef::Integer(of.0)),
            session.into(),
            bytes.map_or(ValueRef::Null, |bytes| ValueRef::Integer(bytes.into())),
            number.map_or(ValueRef::Null, ValueRef::Integer),
        ];
        let checksum = checksum::of_values(sealed.into_iter().chain(EMPTY_AT_FIRST));
        let values = sealed.into_iter().chain([ValueRef::Integer(checksum)]);
        tx.run(
            INSERT_DELIVERY,
            params_from_iter(values.map(ToSqlOutput::Borrowed)),
        )
    };
    let number = match (insert(number), known) {
        (Err(error), None) if counted.is_some() && is_taken(&error) => {
            let free = skip_taken(tx, subscription)?;
            insert(Some(free))?;
            Some(free)
        }
        (inserted, _) => {
            inserted?;
            number
        }
    };
    if is_scheduled || own_life.is_some() {
        let scheduled_at = is_scheduled.then_some(at);
        tx.run(
            PLAN,
            params![id, scheduled_at, own_life.map(|life| at + life)],
        )?;
    }
    if let Some(session) = session {
        sessions::join(tx, subscription, session, at)?;
    }
    tx.counts().delivery(&DeliveryChange {
        id,
        subscription,
        published_at: at,
        last_attempt_at: None,
        bytes,
        old: None,
        new: Some(DeliveryVersion::pending(0)),
    });
    if let (Some(known), Some(highest)) = (known, counted) {
        // A promised number was counted when it was promised, so it is not counted again. If it was not counted, the
        // counter is raised to it, so that it is not used again.
        let uncounted = (known - highest).max(0);
        tx.counts().numbers(subscription, uncounted - 1);
    }
    Ok((id, number.unwrap_or(id.0)))
}

/// Reports whether an insert failed because another row has a value that must be unique.
fn is_taken(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
}

/// Raises the counter of a queue above the highest number of its stored messages, and returns the next free number.
/// Numbers that are used but not counted would make every later send to the queue fail.
fn skip_taken(tx: &WriteTx, queue: SubscriptionId) -> rusqlite::Result<i64> {
    let highest: i64 = tx.query_row(HIGHEST_NUMBER, [queue], |row| row.get(0))?;
    let next = tx.next_number(queue);
    let free = next.max(highest + 1);
    tx.counts().numbers(queue, free - next);
    Ok(free)
}
