//! What clients receive from and ask about: a queue, the subscription of a topic, or the dead letters of either.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::api::ApiState;
use crate::api::amqp::nodes::{Receiver, ReceiverRequest, Taken};
use crate::api::amqp::sessions::Sessions;
use crate::api::amqp::topic::{ToTopic, busy, of_cancelled};
use crate::api::service_bus::runtime::message_of;
use crate::base::Timestamp;
use crate::broker::{self, Broker, ErrorKind, ManageError, Put, ReceiveError, ReceiveRequest};
use crate::model::audit::{Actor, AuditAction, AuditEntry, Caller, Target};
use crate::model::dead_letter::{DeadLetterDetails, DeadLetterReason};
use crate::model::delivery::Delivery;
use crate::model::destination::DeliveryMode;
use crate::model::event::StoredEvent;
use crate::model::lease::{
    Disposition, LockChange, LockError, LockOf, LockToken, NEVER, QueueRef, SubQueue,
};
use crate::model::limits::{LOCK_DURATION, RECEIVE_WAIT_MAX, SESSION_WAIT};
use crate::model::name::{RuleName, SubscriptionName, TopicName};
use crate::model::registry::{SubscriptionKind, TopicEntry};
use crate::model::rule::Rule;
use crate::model::session::{
    HeldSession, SessionAnswer, SessionChange, SessionError, SessionSelection,
};
use crate::model::subscription::EventSubscription;
use crate::store::{DeadLetter, LockSelection, Locked, Origin, Peeked};
use crate::wire;
use crate::wire::amqp::AmqpError;
use crate::wire::amqp::condition::{
    ARGUMENT_ERROR, ENTITY_ALREADY_EXISTS, ENTITY_DISABLED, MESSAGE_LOCK_LOST, MESSAGE_NOT_FOUND,
    NOT_ALLOWED, NOT_FOUND, RESOURCE_LIMIT_EXCEEDED, SERVER_BUSY, SESSION_CANNOT_BE_LOCKED,
    SESSION_LOCK_LOST, TIMEOUT,
};
use crate::wire::amqp::management::{Operation, Reply};
use crate::wire::amqp::message::{Message, encoded};
use crate::wire::amqp::outcome::{Changes, Outcome};
use crate::wire::service_bus::message::{self, MessageState};

/// Messages that one request deletes, as in Azure's premium tier.
const DELETED_MAX: usize = 4_000;

/// One of them.
#[derive(Clone)]
pub(in crate::api) struct Queue {
    pub(super) state: ApiState,
    /// Who is connected.
    pub(super) client: Option<IpAddr>,
    /// By which rule; the audit log names it.
    pub(super) actor: Actor,
    pub(in crate::api) topic: Arc<TopicEntry>,
    pub(in crate::api) subscription: Arc<EventSubscription>,
    pub(super) sub_queue: SubQueue,
    /// Those of the client's connection.
    pub(super) sessions: Arc<Sessions>,
}

impl Queue {
    /// As somebody sees it who is not connected for longer.
    pub(in crate::api) fn of_request(
        state: &ApiState,
        caller: &Caller,
        (topic, subscription): broker::Queue,
        sub_queue: SubQueue,
    ) -> Self {
        Self {
            state: state.clone(),
            client: caller.address,
            actor: caller.actor.clone(),
            topic,
            subscription,
            sub_queue,
            sessions: Arc::default(),
        }
    }

    /// What its senders send to.
    pub(in crate::api) fn sender(&self) -> Result<ToTopic, AmqpError> {
        if self.sub_queue == SubQueue::DeadLetters {
            return Err(nobody_sends());
        }
        if self.topic.subscription_kind(&self.subscription) != SubscriptionKind::OfQueue {
            let problem = "Cannot create a message sender for a subscription; send to its topic.";
            return Err(AmqpError::new(NOT_ALLOWED, problem));
        }
        ToTopic::of(&self.state, Arc::clone(&self.topic))
    }

    /// Whether anybody may receive from it.
    pub(in crate::api) fn check_receivable(&self) -> Result<(), AmqpError> {
        let mode = self.subscription.definition.destination.delivery_mode();
        if (self.sub_queue, mode) == (SubQueue::Pending, DeliveryMode::Push) {
            return Err(refused(ReceiveError::Pushed(
                self.subscription.name.clone(),
            )));
        }
        if self.sub_queue == SubQueue::Pending && !self.subscription.lets_receive() {
            let name = self.subscription.name.clone();
            return Err(refused(ReceiveError::ReceiveDisabled(name)));
        }
        match self.forwards() {
            true => Err(forwarded()),
            false => Ok(()),
        }
    }

    /// A client that receives from it, once it has the session that it wants.
    pub(super) async fn receiver(
        self,
        request: &ReceiverRequest,
        gone: &CancellationToken,
    ) -> Result<FromQueue, AmqpError> {
        self.check_receivable()?;
        let session = match (&request.session, self.has_sessions()) {
            (None, false) => None,
            (None, true) => return Err(needs_session()),
            (Some(_), false) => return Err(no_sessions()),
            (Some(which), true) => Some(self.accept(which, request.session_wait, gone).await?),
        };
        Ok(FromQueue {
            queue: self,
            session,
            lock: request.lock,
            in_vain: AtomicBool::new(false),
        })
    }

    async fn accept(
        &self,
        which: &SessionSelection,
        wait: Option<Duration>,
        gone: &CancellationToken,
    ) -> Result<HeldSession, AmqpError> {
        let wait = wait.unwrap_or(SESSION_WAIT).min(RECEIVE_WAIT_MAX);
        let give_up = tokio::time::timeout(wait, gone.cancelled()).map(drop);
        let accepted = self
            .broker()
            .accept_session(&self.subscription, which, give_up);
        let held = accepted.await.map_err(refused)?;
        self.sessions.put(held.clone());
        Ok(held)
    }

    /// Whether messages are received in sessions. Dead letters are not.
    fn has_sessions(&self) -> bool {
        self.sub_queue == SubQueue::Pending && self.subscription.has_sessions()
    }

    /// Whether what lies here goes on to another queue.
    fn forwards(&self) -> bool {
        let pulled = self.subscription.definition.destination.pull_queue();
        pulled.is_some_and(|pulled| match self.sub_queue {
            SubQueue::Pending => pulled.receiving.forward_to.is_some(),
            SubQueue::DeadLetters => pulled.receiving.forward_dead_letters_to.is_some(),
        })
    }

    /// The session of that name, if the client holds it.
    fn held(&self, name: &str) -> Result<HeldSession, AmqpError> {
        let held = self.sessions.find(self.subscription.id, name);
        held.ok_or_else(|| refused(SessionError::LockLost.into()))
    }

    /// The session that a request names, as far as it has to name one.
    fn named(&self, session: Option<String>) -> Result<Option<String>, AmqpError> {
        match (session, self.has_sessions()) {
            (None, true) => Err(needs_session()),
            (session, true) => Ok(session),
            (_, false) => Ok(None),
        }
    }

    /// The session that a request names, which the client holds.
    fn held_by(&self, session: Option<String>) -> Result<Option<HeldSession>, AmqpError> {
        let name = self.named(session)?;
        name.map(|name| self.held(&name)).transpose()
    }

    pub(in crate::api) fn of(&self) -> QueueRef {
        QueueRef {
            subscription: self.subscription.id,
            queue: self.sub_queue,
        }
    }

    fn broker(&self) -> &Broker {
        &self.state.broker
    }

    /// That of a queue; dead letters of what is pushed have the usual one.
    pub(in crate::api) fn lock_duration(&self) -> Duration {
        let own = self.broker().lock_duration(&self.subscription);
        own.unwrap_or(LOCK_DURATION)
    }

    pub(super) async fn manage(&self, operation: Operation) -> Result<Reply, AmqpError> {
        Ok(match operation {
            Operation::Peek {
                from,
                count,
                session,
                omit_body,
            } => {
                let session = self.named(session)?;
                let messages = self.peek(from, count, session).await?.into_iter();
                let messages = messages.map(Bytes::from);
                Reply::Peeked(match omit_body {
                    true => messages.map(|each| without_body(&each)).collect(),
                    false => messages.collect(),
                })
            }
            Operation::RenewLocks(tokens) => Reply::LocksRenewed(self.renew(tokens).await?),
            Operation::ReceiveNumbers {
                numbers,
                lock,
                session,
            } => {
                let session = self.held_by(session)?;
                let received = self.receive_deferred(numbers, lock, session.as_ref());
                Reply::Received(received.await?)
            }
            Operation::Settle { tokens, outcome } => {
                let locks = tokens.into_iter().map(|token| (token, outcome.clone()));
                let settled = self.settle(locks.collect()).await;
                settled.into_iter().collect::<Result<Vec<()>, _>>()?;
                Reply::Done
            }
            Operation::DeleteBatch {
                count,
                enqueued_before,
                session,
            } => {
                let session = self.held_by(session)?;
                let deleted = self.delete_batch(count, enqueued_before, session.as_ref());
                Reply::Deleted(deleted.await?)
            }
            Operation::Schedule(messages) => self.sender()?.schedule(messages).await?,
            Operation::CancelScheduled(numbers) => {
                let (broker, queue) = (self.broker(), &self.subscription);
                of_cancelled(broker.cancel_scheduled(&self.topic, queue, numbers).await)?
            }
            Operation::RenewSession(name) => {
                Reply::SessionRenewed(self.renew_session(&name).await?)
            }
            Operation::SessionState(name) => {
                let state = self.change_session(&name, SessionChange::ReadState).await?;
                match state {
                    SessionAnswer::State(state) => Reply::SessionState(state.map(Bytes::from)),
                    SessionAnswer::Done => Reply::SessionState(None),
                }
            }
            Operation::SetSessionState { session, state } => {
                let state = state.map(|state| state.to_vec());
                let set = SessionChange::SetState(state);
                self.change_session(&session, set).await?;
                Reply::Done
            }
            Operation::Sessions {
                state_set_since,
                skip,
                top,
            } => {
                let of = self.subscription.id;
                let names = self.broker().sessions(of, state_set_since, skip, top);
                let names = names.await.map_err(|error| busy(&error))?;
                let skip = skip + names.len();
                Reply::Sessions { skip, names }
            }
            Operation::AddRule(rule) => {
                self.add_rule(*rule).await?;
                Reply::Done
            }
            Operation::RemoveRule(name) => {
                self.remove_rule(&name).await?;
                Reply::Done
            }
            Operation::Rules { skip, top } => Reply::Rules(self.rules(skip, top)?),
        })
    }

    /// Messages from a number on, of one session or all, without taking them.
    pub(in crate::api) async fn peek(
        &self,
        from: i64,
        count: usize,
        session: Option<String>,
    ) -> Result<Vec<Vec<u8>>, AmqpError> {
        let peeked = self.broker().peek(self.of(), session, from, count);
        let peeked = peeked.await.map_err(|error| busy(&error))?;
        Ok(peeked.iter().map(|each| self.peeked(each)).collect())
    }

    /// Takes what can be received now, for good.
    pub(in crate::api) async fn receive_and_delete(
        &self,
        limit: usize,
    ) -> Result<Vec<Vec<u8>>, AmqpError> {
        self.check_receivable()?;
        let taken = self.receive(LockSelection::Due, limit, false, None).await?;
        let messages = taken.iter().map(|each| self.locked(each, false).message);
        Ok(messages.collect())
    }

    async fn change_session(
        &self,
        name: &str,
        change: SessionChange,
    ) -> Result<SessionAnswer, AmqpError> {
        let changed = self.broker().change_session(self.held(name)?, change);
        changed.await.map_err(refused)
    }

    /// Renews locks. They last a little longer than is told.
    async fn renew(&self, tokens: Vec<Uuid>) -> Result<Vec<Timestamp>, AmqpError> {
        if self.has_sessions() {
            let problem =
                "The locks of messages in sessions end with that of their session; renew that.";
            return Err(AmqpError::new(NOT_ALLOWED, problem));
        }
        let lock_for = self.lock_duration();
        let until = self.broker().clock().now() + lock_for;
        let renew = Disposition::Renew {
            lock_for,
            within: None,
        };
        let changes = tokens
            .iter()
            .map(|token| self.lock_change(*token, renew.clone()));
        let renewed = self.change(changes.collect()).await.into_iter();
        renewed.map(|each| each.map(|()| until)).collect()
    }

    /// Until when the lock lasts then.
    async fn renew_session(&self, name: &str) -> Result<Timestamp, AmqpError> {
        let (broker, held) = (self.broker(), self.held(name)?);
        let renewed = broker.renew_session(&self.subscription, held).await;
        let renewed = renewed.map_err(refused)?;
        let until = renewed.until;
        self.sessions.put(renewed);
        Ok(until)
    }

    async fn receive(
        &self,
        which: LockSelection,
        limit: usize,
        lock: bool,
        session: Option<&HeldSession>,
    ) -> Result<Vec<Locked>, AmqpError> {
        let request = ReceiveRequest {
            of: self.of(),
            which,
            limit,
            lock: self.lock_duration(),
            session: session.cloned(),
        };
        let locked = self.broker().receive(&request).await.map_err(refused)?;
        Ok(match lock {
            true => locked,
            false => self.complete(locked).await,
        })
    }

    /// Ends deliveries. Returns those that were still locked.
    async fn complete(&self, mut locked: Vec<Locked>) -> Vec<Locked> {
        let completed = self.change_all(&locked, &Disposition::Complete).await;
        let mut completed = completed.into_iter();
        locked.retain(|_| completed.next().is_some_and(|each| each.is_ok()));
        locked
    }

    /// Unlocks messages as if they had not been received.
    async fn give_back(&self, locked: &[Locked]) {
        self.change_all(locked, &Disposition::Uncount).await;
    }

    async fn change_all(
        &self,
        locked: &[Locked],
        disposition: &Disposition,
    ) -> Vec<Result<(), AmqpError>> {
        if locked.is_empty() {
            return Vec::new();
        }
        let tokens = locked.iter().map(|each| uuid_of(each.token));
        let changes = tokens.map(|token| self.lock_change(token, disposition.clone()));
        self.change(changes.collect()).await
    }

    async fn receive_deferred(
        &self,
        numbers: Vec<i64>,
        lock: bool,
        session: Option<&HeldSession>,
    ) -> Result<Vec<(Uuid, Bytes)>, AmqpError> {
        let (wanted, which) = (numbers.len(), LockSelection::Deferred(numbers));
        let mut locked = self.receive(which, wanted, true, session).await?;
        if locked.len() < wanted {
            self.give_back(&locked).await;
            let problem = "at least one of the sequence numbers is not that of a deferred message";
            return Err(AmqpError::new(MESSAGE_NOT_FOUND, problem));
        }
        if !lock {
            locked = self.complete(locked).await;
        }
        let messages = locked.iter().map(|each| {
            let taken = self.locked(each, lock);
            (taken.token, taken.message.into())
        });
        Ok(messages.collect())
    }

    /// Deletes the oldest messages that nobody holds. Returns how many.
    async fn delete_batch(
        &self,
        count: usize,
        enqueued_before: Timestamp,
        session: Option<&HeldSession>,
    ) -> Result<usize, AmqpError> {
        self.check_receivable()?;
        let (count, mut deleted) = (count.min(DELETED_MAX), 0);
        while deleted < count {
            let due = LockSelection::Due;
            let locked = self.receive(due, count - deleted, true, session).await?;
            let is_older = |each: &Locked| each.delivery.published_at < enqueued_before;
            let (older, newer): (Vec<_>, Vec<_>) = locked.into_iter().partition(is_older);
            let is_last = older.is_empty() || !newer.is_empty();
            self.give_back(&newer).await;
            deleted += self.complete(older).await.len();
            if is_last {
                break;
            }
        }
        Ok(deleted)
    }

    async fn settle(&self, locks: Vec<(Uuid, Outcome)>) -> Vec<Result<(), AmqpError>> {
        let wanted = locks.into_iter();
        let wanted: Vec<_> = wanted
            .map(|(token, outcome)| self.settlement(token, &outcome))
            .collect();
        let changes = wanted.iter().flatten().cloned().collect();
        let mut settled = self.change(changes).await.into_iter();
        let results = wanted.into_iter().map(|wanted| {
            wanted?;
            let lost = || Err(self.unsettled(LockError::LockLost));
            settled.next().unwrap_or_else(lost)
        });
        results.collect()
    }

    /// Adds a rule, which must not be there.
    async fn add_rule(&self, rule: Rule) -> Result<(), AmqpError> {
        let (topic, name) = self.with_rules()?;
        let (broker, caller) = (self.broker(), self.caller());
        let entity = self.topic.queue_address(&self.subscription);
        let exists = format!(
            "The messaging entity '{entity}/Rules/{}' already exists.",
            rule.name
        );
        let added = broker
            .put_rule(&caller, topic, name, rule, Put::Create)
            .await;
        match added {
            Ok(_) => Ok(()),
            Err(ManageError::Exists(_)) => Err(AmqpError::new(ENTITY_ALREADY_EXISTS, exists)),
            Err(error) => Err(self.unmanaged(&error)),
        }
    }

    async fn remove_rule(&self, rule: &str) -> Result<(), AmqpError> {
        let (topic, name) = self.with_rules()?;
        let missing = || {
            let entity = self.topic.queue_address(&self.subscription);
            let problem =
                format!("The messaging entity '{entity}/Rules/{rule}' could not be found.");
            AmqpError::new(NOT_FOUND, problem)
        };
        let rule = RuleName::parse(rule).map_err(|_| missing())?;
        let (broker, caller) = (self.broker(), self.caller());
        let removed = broker.delete_rule(&caller, topic, name, &rule).await;
        match removed.map_err(|error| self.unmanaged(&error))? {
            true => Ok(()),
            false => Err(missing()),
        }
    }

    fn rules(&self, skip: usize, top: usize) -> Result<Vec<Rule>, AmqpError> {
        let (topic, name) = self.with_rules()?;
        let found = self.broker().service_bus_subscription(topic, name);
        let found = found.map_err(|error| self.unmanaged(&error))?;
        let rules = self.broker().rules(&found).into_iter();
        let page = rules.skip(skip).take(top);
        Ok(page.map(|rule| Rule::clone(&rule)).collect())
    }

    /// The subscription of Service Bus that it is.
    fn with_rules(&self) -> Result<(&TopicName, &SubscriptionName), AmqpError> {
        let has_rules = self.topic.has_rules(&self.subscription);
        if has_rules && self.sub_queue == SubQueue::Pending {
            return Ok((&self.topic.topic.name, &self.subscription.name));
        }
        let problem = "Only the subscriptions of Service Bus topics have rules.";
        Err(AmqpError::new(NOT_ALLOWED, problem))
    }

    fn unmanaged(&self, error: &ManageError) -> AmqpError {
        let condition = match (error.kind(), error) {
            (ErrorKind::Unavailable, ManageError::Store(error)) => return busy(error),
            (_, ManageError::RuleTooLarge(_)) | (ErrorKind::Limit, _) => RESOURCE_LIMIT_EXCEEDED,
            (ErrorKind::NotFound, _) => NOT_FOUND,
            (
                ErrorKind::Exists
                | ErrorKind::Conflict
                | ErrorKind::Invalid
                | ErrorKind::Forbidden
                | ErrorKind::Unavailable,
                _,
            ) => NOT_ALLOWED,
        };
        let entity = self.topic.queue_address(&self.subscription);
        let problem = format!("The rules of '{entity}' are as they were: {error}.");
        AmqpError::new(condition, problem)
    }

    /// Who acts by this connection.
    fn caller(&self) -> Caller {
        Caller {
            actor: self.actor.clone(),
            address: self.client,
            at: self.broker().clock().now(),
        }
    }

    /// What an outcome does to a lock.
    pub(super) fn settlement(
        &self,
        token: Uuid,
        outcome: &Outcome,
    ) -> Result<LockChange, AmqpError> {
        let (disposition, properties) = wanted(outcome)?;
        Ok(LockChange {
            properties,
            ..self.lock_change(token, disposition)
        })
    }

    fn lock_change(&self, token: Uuid, disposition: Disposition) -> LockChange {
        LockChange {
            token: LockToken::from_bytes(*token.as_bytes()),
            of: LockOf::any_of(self.of()),
            disposition,
            properties: Vec::new(),
        }
    }

    async fn change(&self, changes: Vec<LockChange>) -> Vec<Result<(), AmqpError>> {
        let count = changes.len();
        let audit = changes.iter().find_map(|change| self.audit(change));
        match self.broker().settle_locks(changes, audit).await {
            Ok(settled) => {
                let each = settled.into_iter();
                each.map(|each| each.map(drop).map_err(|error| self.unsettled(error)))
                    .collect()
            }
            Err(error) => vec![Err(busy(&error)); count],
        }
    }

    /// What is recorded of a change: that dead letters leave their queue.
    pub(super) fn audit(&self, change: &LockChange) -> Option<AuditEntry> {
        let is_dead = self.sub_queue == SubQueue::DeadLetters;
        (is_dead && change.disposition == Disposition::Complete).then(|| {
            let completed = AuditAction::CompleteDeadLetters { dead_letters: 0 };
            let target = Target::subscription(&self.topic.topic.name, &self.subscription.name);
            self.caller().did(completed, target)
        })
    }

    fn unsettled(&self, error: LockError) -> AmqpError {
        let condition = match error {
            LockError::LockLost if self.has_sessions() => SESSION_LOCK_LOST,
            LockError::LockLost => MESSAGE_LOCK_LOST,
            LockError::TooManyProperties => RESOURCE_LIMIT_EXCEEDED,
            LockError::IsDeadLetter | LockError::HeldLongEnough => NOT_ALLOWED,
        };
        AmqpError::new(condition, format!("{error}."))
    }

    pub(in crate::api) fn locked(&self, locked: &Locked, lock: bool) -> Taken {
        // A message of a session has no end of its own.
        let until = if self.has_sessions() {
            NEVER
        } else {
            locked.until
        };
        let held = lock.then_some((locked.token, until));
        let told = message_of(
            &locked.delivery,
            &locked.event,
            locked.dead_letter.as_ref(),
            locked.properties.as_deref(),
            held,
        );
        let told = from(&told, &locked.origin);
        let state = match locked.deferred {
            true => MessageState::Deferred,
            false => MessageState::Active,
        };
        Taken {
            token: uuid_of(locked.token),
            message: self.encoded(
                &locked.delivery,
                &locked.event,
                locked.dead_letter.as_ref(),
                &told,
                state,
            ),
        }
    }

    fn peeked(&self, peeked: &Peeked) -> Vec<u8> {
        let is_scheduled = peeked.delivery.published_at > self.broker().clock().now();
        let state = match (peeked.deferred, is_scheduled) {
            (true, _) => MessageState::Deferred,
            (false, true) => MessageState::Scheduled,
            (false, false) => MessageState::Active,
        };
        let Peeked {
            delivery,
            event,
            dead_letter,
            properties,
            origin,
            ..
        } = peeked;
        let dead = dead_letter.as_ref();
        let told = message_of(delivery, event, dead, properties.as_deref(), None);
        let told = from(&told, origin);
        self.encoded(delivery, event, dead, &told, state)
    }

    /// The message as it was sent; of an event, the event in the subscription's delivery schema. Both with why they
    /// lie among the dead letters.
    fn encoded(
        &self,
        delivery: &Delivery,
        event: &StoredEvent,
        dead: Option<&DeadLetter>,
        told: &message::Message<'_>,
        state: MessageState,
    ) -> Vec<u8> {
        let given = dead.filter(|dead| dead.reason != DeadLetterReason::Application);
        let system = given.map(|dead| message::system_reason(dead.reason, delivery.attempts));
        let system = system.as_ref();
        let told = message::Message {
            reason: system.map_or(told.reason, |(reason, _)| Some(*reason)),
            ..told.clone()
        };
        if let Some(sent) = message::of_event(&event.event) {
            let own = given.and_then(|dead| dead.details.description.as_deref());
            let described = system.map(|(_, description)| description.as_str());
            let told = message::Message {
                delivery_count: deliveries_before(delivery, dead),
                description: own.or(described).or(told.description),
                ..told.clone()
            };
            let is_received = matches!(state, MessageState::Active) && told.lock.is_some();
            let state = match is_received && was_scheduled(&sent, delivery) {
                true => MessageState::Scheduled,
                false => state,
            };
            if let Ok(message) = told.hand_out(&sent, state) {
                return message;
            }
        }
        let schema = self.subscription.definition.delivery_schema;
        let payload = wire::encode_message(schema, &self.topic.resource_id, event);
        told.encode(payload.content_type, payload.body, state)
    }
}

/// Whether a message had to wait for the moment that it names, which receivers see in its state.
fn was_scheduled(sent: &Message, delivery: &Delivery) -> bool {
    let at = sent.scheduled_enqueue_ms().ok().flatten();
    at.is_some_and(|at| at >= delivery.published_at.as_ms())
}

/// Deliveries that count: that after which a receiver dead-letters a message does not.
fn deliveries_before(delivery: &Delivery, dead: Option<&DeadLetter>) -> u32 {
    let is_by_receiver = dead.is_some_and(|dead| dead.reason == DeadLetterReason::Application);
    delivery.attempts.saturating_sub(u32::from(is_by_receiver))
}

fn without_body(message: &Bytes) -> Bytes {
    match Message::parse(message) {
        Ok(parsed) => parsed.without_body().to_bytes().into(),
        Err(_) => message.clone(),
    }
}

/// A client that receives from a queue.
pub(super) struct FromQueue {
    queue: Queue,
    /// As it was locked first.
    session: Option<HeldSession>,
    lock: bool,
    /// Nothing could be taken although something seemed to be there.
    in_vain: AtomicBool,
}

impl FromQueue {
    /// Until the lock on the session has ended; for ever without one. Whoever settles nothing renews nothing, so the lock
    /// of such a client is renewed for it.
    async fn session_ended(&self) {
        let Some(held) = &self.session else {
            return std::future::pending().await;
        };
        while let Some(until) = self.queue.sessions.end_of(held) {
            let left = until.since(self.queue.broker().clock().now());
            if left.is_zero() {
                return;
            }
            // At half of its time, however often this begins anew.
            let half = self.queue.lock_duration() / 2;
            tokio::time::sleep(if self.lock {
                left
            } else {
                left.saturating_sub(half)
            })
            .await;
            if !self.lock && self.queue.renew_session(&held.name).await.is_err() {
                return;
            }
        }
    }
}

#[async_trait]
impl Receiver for FromQueue {
    fn session(&self) -> Option<&HeldSession> {
        self.session.as_ref()
    }

    async fn arrival(&self) -> Result<(), AmqpError> {
        let in_vain = self.in_vain.load(Ordering::Relaxed);
        let (broker, session) = (self.queue.broker(), self.session.as_ref());
        tokio::select! {
            due = broker.await_due(self.queue.of(), session, in_vain) => due.map_err(refused),
            () = self.session_ended() => Err(refused(SessionError::LockLost.into())),
        }
    }

    async fn take(&self, limit: usize) -> Result<Vec<Taken>, AmqpError> {
        let (due, session) = (LockSelection::Due, self.session.as_ref());
        let locked = self.queue.receive(due, limit, self.lock, session).await?;
        self.in_vain.store(locked.is_empty(), Ordering::Relaxed);
        let taken = locked.iter().map(|each| self.queue.locked(each, self.lock));
        Ok(taken.collect())
    }

    async fn settle(&self, locks: Vec<(Uuid, Outcome)>) -> Vec<Result<(), AmqpError>> {
        self.queue.settle(locks).await
    }

    async fn close(&self, in_order: bool) {
        let Some(held) = &self.session else {
            return;
        };
        self.queue.sessions.remove(held);
        let end = match in_order {
            true => SessionChange::Release,
            false => SessionChange::Abandon,
        };
        let closed = self.queue.broker().change_session(held.clone(), end).await;
        if let Err(ReceiveError::Store(error)) = closed {
            tracing::warn!(%error, "a session could not be given back; its lock has to expire");
        }
    }
}

/// The message with where it comes from.
fn from<'a>(told: &message::Message<'a>, origin: &'a Origin) -> message::Message<'a> {
    message::Message {
        first_number: origin.first_number,
        dead_letter_source: origin.dead_letter_source.as_deref(),
        ..told.clone()
    }
}

/// What an outcome does to a message, and the properties that it sets.
fn wanted(outcome: &Outcome) -> Result<(Disposition, Vec<u8>), AmqpError> {
    Ok(match outcome {
        Outcome::Complete => (Disposition::Complete, Vec::new()),
        Outcome::Release => (Disposition::Uncount, Vec::new()),
        Outcome::Abandon(set) => (Disposition::Abandon, properties(set)),
        Outcome::Defer(set) => (Disposition::Defer, properties(set)),
        Outcome::DeadLetter(dead) => {
            let details = DeadLetterDetails {
                reason: dead.reason.clone(),
                description: dead.description.clone(),
                properties: Vec::new(),
            };
            let details = details.checked().map_err(|error| {
                let problem = format!("{error}.");
                AmqpError::new(ARGUMENT_ERROR, problem)
            })?;
            let dead_letter = Disposition::DeadLetter(Arc::new(details));
            (dead_letter, properties(&dead.properties))
        }
    })
}

fn properties(set: &Changes) -> Vec<u8> {
    if set.is_empty() {
        return Vec::new();
    }
    let each = set.iter();
    encoded(
        each.map(|(name, value)| (name.as_str().into(), value.clone()))
            .collect(),
    )
}

fn nobody_sends() -> AmqpError {
    let problem = "Nobody sends to a dead-letter queue: messages and events come into it when they cannot be \
                   delivered. Send to the queue, or publish to the topic, instead.";
    AmqpError::new(NOT_ALLOWED, problem)
}

fn uuid_of(token: LockToken) -> Uuid {
    Uuid::from_bytes(*token.as_bytes())
}

/// In Service Bus' own words.
fn needs_session() -> AmqpError {
    let problem = "It is not possible for an entity that requires sessions to create a non-sessionful message receiver.";
    AmqpError::new(NOT_ALLOWED, problem)
}

fn forwarded() -> AmqpError {
    let problem = "Cannot create a message receiver on an entity with auto-forwarding enabled.";
    AmqpError::new(NOT_ALLOWED, problem)
}

fn no_sessions() -> AmqpError {
    let problem = "A sessionful message receiver cannot be created on an entity that does not require sessions.";
    AmqpError::new(NOT_ALLOWED, problem)
}

fn refused(error: ReceiveError) -> AmqpError {
    let problem = format!("{error}.");
    match error {
        ReceiveError::SubscriptionDeleted => AmqpError::new(NOT_FOUND, problem),
        ReceiveError::Pushed(_) => AmqpError::new(NOT_ALLOWED, problem),
        ReceiveError::ReceiveDisabled(_) => AmqpError::new(ENTITY_DISABLED, problem),
        ReceiveError::NeedsSession(_) => needs_session(),
        ReceiveError::Session(error) => AmqpError::new(condition_of(error), problem),
        ReceiveError::TooManyWaiting => AmqpError::new(SERVER_BUSY, problem),
        ReceiveError::Store(error) => busy(&error),
    }
}

fn condition_of(error: SessionError) -> &'static str {
    match error {
        SessionError::Held => SESSION_CANNOT_BE_LOCKED,
        SessionError::NoneFree => TIMEOUT,
        SessionError::LockLost => SESSION_LOCK_LOST,
        SessionError::StateTooLarge | SessionError::TooManyStates => RESOURCE_LIMIT_EXCEEDED,
    }
}
