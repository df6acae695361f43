//! Sending messages to queues (rule S2), with the requirements of queues on their messages (rule S6).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::broker::background::{MatchingRun, in_background};
use crate::broker::manage::target;
use crate::broker::messaging::MessagingError;
use crate::broker::publish::rules::MadeCopies;
use crate::broker::publish::{
    Arrival, PublishError, STEPS_AT_ONCE_MAX, STEPS_OF_A_TURN_MAX, empty,
};
use crate::model::audit::{AuditAction, Caller};
use crate::model::dead_letter::DeadLetterReason;
use crate::model::delivery::{DeliveryId, Settlement};
use crate::model::event::Event;
use crate::model::limits::RULE_COPIES_MAX;
use crate::model::registry::{FanOutPart, TopicEntry};
use crate::model::subscription::{EventSubscription, SubscriptionId};
use crate::model::topic::TopicId;
use crate::store::{
    AppendRequest, Appended, ForwardMark, FreeChanges, FreeSettled, HandedOver, NewEvent,
    NumberedQuery, QueueIntake,
};
use crate::wire::service_bus::message::{self, ReadMessage};
use crate::wire::service_bus::readable::readable;

/// A message to send, with those of its properties that its queue needs.
#[derive(Clone, Debug)]
pub struct NewMessage {
    pub(in crate::broker) event: Event,
    /// The scheduled enqueue time, if it is in the future.
    pub(in crate::broker) scheduled_at: Option<Timestamp>,
    /// The time to live that the message specifies.
    pub(in crate::broker) time_to_live: Option<Duration>,
    pub(in crate::broker) session: Option<String>,
}

impl NewMessage {
    /// Returns the event that the message is stored as.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Returns the message with another scheduled enqueue time.
    pub fn scheduled(self, scheduled_at: Option<Timestamp>) -> Self {
        Self {
            scheduled_at,
            ..self
        }
    }
}

/// An event or a message whose subscriptions are to be found.
pub(in crate::broker) trait ToMatch: Into<NewMessage> {
    /// Reports whether its deliveries are due at once.
    fn is_due(&self) -> bool;
}

impl ToMatch for Event {
    fn is_due(&self) -> bool {
        true
    }
}

impl ToMatch for NewMessage {
    fn is_due(&self) -> bool {
        self.scheduled_at.is_none()
    }
}

impl From<Event> for NewMessage {
    /// Returns a message that is enqueued at once. An event that is no message has neither a time to live nor a session.
    fn from(event: Event) -> Self {
        Self {
            scheduled_at: None,
            time_to_live: message::time_to_live(&event),
            session: message::session(&event),
            event,
        }
    }
}

impl From<ReadMessage> for NewMessage {
    fn from(read: ReadMessage) -> Self {
        let ReadMessage {
            event,
            scheduled_at,
            time_to_live,
            session,
        } = read;
        Self {
            event,
            scheduled_at,
            time_to_live,
            session,
        }
    }
}

/// Messages that were accepted for a queue or a topic.
pub(in crate::broker) struct AcceptedMessages {
    /// The queue or topic in which the messages are stored, as it is now.
    pub(in crate::broker) at: Arc<TopicEntry>,
    pub(in crate::broker) messages: Vec<NewMessage>,
    /// The transfer of the messages to another entity, if they are sent by way of a queue.
    pub(in crate::broker) route: Option<TransferRoute>,
}

/// The route of messages that are sent to an entity by way of a queue (rule S10).
#[derive(Clone, Copy, Debug)]
pub(in crate::broker) struct TransferRoute {
    /// The transfer queue, which keeps the messages until they are forwarded.
    pub(in crate::broker) by: SubscriptionId,
    /// The id of the destination entity. Another entity may have its name when the messages are forwarded.
    pub(in crate::broker) to: TopicId,
}

impl TransferRoute {
    /// Returns the store request for messages on this route. The destination entity decides when they are enqueued.
    fn request(self, at: &TopicEntry, messages: Vec<NewMessage>, now: Timestamp) -> AppendRequest {
        let Self { by, to } = self;
        let events = messages.into_iter();
        AppendRequest {
            events: events
                .map(|each| NewEvent::new(each.event, vec![by]))
                .collect(),
            forwarded: Some(Box::new(ForwardMark::of_transfer(to))),
            ..empty(at, now)
        }
    }
}

/// Returns the session of an event in a queue with sessions: `Some(None)` if the event has no session id. Returns
/// `None` for subscriptions without sessions.
pub(in crate::broker) fn session_at(
    subscription: &EventSubscription,
    event: &Event,
) -> Option<Option<String>> {
    let session = || message::session(event);
    subscription.has_sessions().then(session)
}

/// Returns the subscriptions whose filters match an event, starting at index `from` among the subscriptions. Filters
/// see the readable form of a message.
fn targets(
    topic: &TopicEntry,
    event: &Event,
    now: Timestamp,
    from: usize,
    steps_max: usize,
) -> FanOutPart {
    // A queue without other subscriptions has no filters to evaluate. Its transfer queue is not one of its
    // subscriptions.
    let own = topic.measured.len() - usize::from(topic.own.is_some());
    let is_asked = topic.subscriptions.size() > own;
    if is_asked && message::is_message(event) {
        topic.fan_out_part(&readable(event), now, from, steps_max)
    } else {
        topic.fan_out_part(event, now, from, steps_max)
    }
}

/// The sessions in which events of a request arrive, if queues have requirements on the events.
pub(super) struct TakenIn {
    /// A session is listed once for each event that arrives in it.
    sessions: Vec<(SubscriptionId, String)>,
}

impl TakenIn {
    /// Returns the sessions of the events of `request`. Returns `None` if the queues have no requirements on the
    /// events.
    pub(super) fn of(request: &AppendRequest) -> Option<Self> {
        if !request.has_requirements() {
            return None;
        }
        let (intake, mut sessions) = (&request.intake, Vec::new());
        for new in &request.events {
            let (session, problem) = (new.session.as_deref(), new.problem.as_ref());
            for of in &new.targets {
                if intake.ended(*of, session, problem).is_none() {
                    let session = intake.session(*of, session);
                    sessions.extend(session.map(|session| (*of, session.to_owned())));
                }
            }
        }
        Some(Self { sessions })
    }
}

impl Broker {
    /// Finds the subscriptions whose filters match an event. Long evaluations run in the background, in turns with
    /// other work.
    pub(in crate::broker) async fn targets(
        &self,
        topic: &Arc<TopicEntry>,
        event: Event,
        now: Timestamp,
        run: &mut MatchingRun,
    ) -> (Event, Vec<SubscriptionId>) {
        let mut part = targets(topic, &event, now, 0, STEPS_AT_ONCE_MAX);
        run.add(part.steps).await;
        let (mut event, mut found) = (event, part.targets);
        while let Some(next) = part.next {
            let topic = Arc::clone(topic);
            (event, part) = in_background(run.place().await, move || {
                let part = targets(&topic, &event, now, next, STEPS_OF_A_TURN_MAX);
                (event, part)
            })
            .await;
            found.append(&mut part.targets);
            run.add(part.steps).await;
        }
        (event, found)
    }

    /// Returns the requirements of the queues of the topic on their messages.
    pub(super) fn intake(&self, topic: &TopicEntry) -> QueueIntake {
        let sending = topic.topic.kind.sending();
        let remembering = sending.filter(|sending| sending.detects_duplicates);
        let queues = topic.ruled_queues.iter();
        let with_sessions = queues.filter(|queue| queue.has_sessions());
        QueueIntake {
            with_sessions: with_sessions.map(|queue| queue.id).collect(),
            remembers_for: remembering
                .map(|sending| self.time_scale().shrink(sending.duplicate_window)),
        }
    }

    /// Returns the time to live that a message specifies, shortened by the time scale.
    pub(in crate::broker) fn own_life(&self, event: &Event) -> Option<Duration> {
        let life = message::time_to_live(event)?;
        Some(self.time_scale().shrink(life))
    }

    /// Accepts messages, all or none. They are on disk when this function returns. Returns the sequence numbers of
    /// their deliveries, which are known only if one of the messages is scheduled.
    pub async fn send_messages(
        &self,
        topic: &Arc<TopicEntry>,
        messages: Vec<NewMessage>,
    ) -> Result<Vec<i64>, PublishError> {
        let accepted = AcceptedMessages {
            at: Arc::clone(topic),
            messages,
            route: None,
        };
        self.begin_to_send(accepted).await?.await
    }

    /// Accepts messages in the order of the calls. The returned future stores the messages when it is first polled.
    pub(in crate::broker) async fn begin_to_send(
        &self,
        accepted: AcceptedMessages,
    ) -> Result<impl Future<Output = Result<Vec<i64>, PublishError>> + use<>, PublishError> {
        let (mut alone, at) = (MadeCopies::default(), Arc::clone(&accepted.at));
        let request = self.request_of(accepted, &mut alone).await?;
        Ok(self.clone().store_messages(at, request))
    }

    /// Sends a manually entered message to a queue or a Service Bus topic, and records it in the audit log.
    pub async fn send_by_hand(
        &self,
        by: &Caller,
        topic: &Arc<TopicEntry>,
        message: NewMessage,
    ) -> Result<(), PublishError> {
        let audit = by.did(AuditAction::SendMessage, target(topic));
        let mut alone = MadeCopies::default();
        let accepted = AcceptedMessages {
            at: Arc::clone(topic),
            messages: vec![message],
            route: None,
        };
        let request = AppendRequest {
            audit: Some(audit),
            ..self.request_of(accepted, &mut alone).await?
        };
        let stored = self.clone().store_messages(Arc::clone(topic), request);
        stored.await.map(drop)
    }

    async fn store_messages(
        self,
        topic: Arc<TopicEntry>,
        accepted: AppendRequest,
    ) -> Result<Vec<i64>, PublishError> {
        match self.store_accepted(&topic, accepted).await? {
            Appended::Repeated => Ok(Vec::new()),
            Appended::Stored { numbers, .. } => Ok(numbers),
        }
    }

    /// Returns the store request for messages, with the subscriptions that get them. Fails if the messages may not be
    /// sent, or if rules make too many copies of them in addition to the copies in `made`.
    pub(in crate::broker) async fn request_of(
        &self,
        accepted: AcceptedMessages,
        made: &mut MadeCopies,
    ) -> Result<AppendRequest, PublishError> {
        let AcceptedMessages {
            at,
            messages,
            route,
        } = accepted;
        self.may_publish(&at, messages.iter().map(|each| &each.event))?;
        let now = self.clock().now();
        if let Some(route) = route {
            return Ok(route.request(&at, messages, now));
        }
        let in_future = |each: NewMessage| {
            let later = each.scheduled_at.filter(|at| *at > now);
            each.scheduled(later)
        };
        let to_match: Vec<_> = messages.into_iter().map(in_future).collect();
        self.matched_beside(&at, to_match, None, made).await
    }

    /// Wakes the receivers that wait for sessions, and counts messages that are dead-lettered on arrival. Returns the
    /// arrival without the duplicates that a queue has dropped.
    pub(super) fn taken_in(
        &self,
        topic: &TopicEntry,
        taken: &TakenIn,
        arrival: Arrival,
        stored: &[HandedOver],
    ) -> Arrival {
        for (of, session) in &taken.sessions {
            self.announce_message(*of, session);
        }
        let mut ended: BTreeMap<SubscriptionId, Vec<Settlement>> = BTreeMap::new();
        for each in stored {
            if let Some(reason) = each.ended {
                let dead = Settlement::DeadLetter(reason);
                ended.entry(each.subscription).or_default().push(dead);
            }
        }
        let subscriptions = topic.subscriptions.values();
        for subscription in subscriptions {
            if let Some(ended) = ended.get(&subscription.id) {
                self.on_settled(topic, subscription, ended);
            }
        }
        let targets = stored.iter().map(|each| each.subscription);
        arrival.with_targets(targets.collect())
    }

    /// Cancels scheduled messages of a queue or a topic with rules, with all their copies. Returns `false` and
    /// cancels none if one of the messages cannot be cancelled. If one of many messages is enqueued during the call,
    /// others may already have been cancelled.
    pub async fn cancel_scheduled(
        &self,
        topic: &TopicEntry,
        numbers: Vec<i64>,
    ) -> Result<bool, MessagingError> {
        let Some(scheduled) = self.numbered(topic, numbers).await? else {
            return Ok(false);
        };
        let (ledger, now) = (&self.store().ledger, self.clock().now());
        let scheduled: Arc<[_]> = scheduled.into();
        if !ledger.can_cancel(Arc::clone(&scheduled), now).await? {
            return Ok(false);
        }
        for changes in FreeChanges::cancels(&scheduled, now) {
            let settled = ledger.settle_free(changes).await?;
            let is_done = settled
                .iter()
                .all(|each| matches!(each, FreeSettled::Done(_)));
            let cancelled = settled.into_iter().filter_map(|each| match each {
                FreeSettled::Done(of) => Some(of),
                FreeSettled::Held | FreeSettled::In(_) | FreeSettled::Missing => None,
            });
            self.on_cancelled(topic, cancelled);
            if !is_done {
                return Ok(false); // one is there no more since it was looked at
            }
        }
        Ok(true)
    }

    /// Finds the messages with these sequence numbers, with all their copies. Returns `None` if one of the messages
    /// is missing. Fails if there are more copies than can be scheduled together.
    pub(in crate::broker) async fn numbered(
        &self,
        topic: &TopicEntry,
        numbers: Vec<i64>,
    ) -> Result<Option<Vec<(DeliveryId, SubscriptionId)>>, MessagingError> {
        let given_numbers = numbers.into_iter().collect();
        let query = match &topic.own {
            Some(own) => NumberedQuery::Queue {
                queue: own.id,
                numbers: given_numbers,
            },
            None => NumberedQuery::Topic {
                subscriptions: Arc::clone(&topic.measured),
                numbers: given_numbers,
            },
        };
        let found = self.store().ledger.numbered(query).await?;
        if found
            .as_ref()
            .is_some_and(|found| found.len() > RULE_COPIES_MAX)
        {
            return Err(MessagingError::TransactionTooLarge);
        }
        Ok(found)
    }

    /// Counts cancelled messages by subscription. `cancelled` has one item for each message.
    pub(in crate::broker) fn on_cancelled(
        &self,
        topic: &TopicEntry,
        cancelled: impl Iterator<Item = SubscriptionId>,
    ) {
        let mut dropped: BTreeMap<SubscriptionId, Vec<Settlement>> = BTreeMap::new();
        for of in cancelled {
            let settlement = Settlement::Drop(DeadLetterReason::Cancelled);
            dropped.entry(of).or_default().push(settlement);
        }
        for subscription in topic.subscriptions.values() {
            if let Some(dropped) = dropped.get(&subscription.id) {
                self.on_settled(topic, subscription, dropped);
            }
        }
    }
}
