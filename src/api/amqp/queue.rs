//! What clients receive from and ask about: a queue, the subscription of a topic, or the dead letters of either.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use uuid::Uuid;

use crate::api::ApiState;
use crate::api::amqp::nodes::{Receiver, Taken};
use crate::api::amqp::topic::{ToTopic, busy};
use crate::api::receive::service_bus::message_of;
use crate::base::Timestamp;
use crate::broker::{Broker, ReceiveError, ReceiveRequest};
use crate::model::audit::{Actor, AuditAction, Caller, Target};
use crate::model::dead_letter::{DeadLetterDetails, DeadLetterReason};
use crate::model::delivery::{Delivery, DeliveryId};
use crate::model::destination::DeliveryMode;
use crate::model::event::StoredEvent;
use crate::model::lease::{
    Disposition, LockChange, LockError, LockOf, LockToken, QueueRef, SubQueue,
};
use crate::model::limits::LOCK_DURATION;
use crate::model::registry::TopicEntry;
use crate::model::subscription::EventSubscription;
use crate::store::{DeadLetter, LockSelection, Locked, Peeked};
use crate::wire;
use crate::wire::amqp::AmqpError;
use crate::wire::amqp::condition::{
    ARGUMENT_ERROR, MESSAGE_LOCK_LOST, MESSAGE_NOT_FOUND, NOT_ALLOWED, NOT_FOUND,
    RESOURCE_LIMIT_EXCEEDED, SERVER_BUSY,
};
use crate::wire::amqp::management::{Operation, Reply};
use crate::wire::amqp::message::encoded;
use crate::wire::amqp::outcome::{Changes, Outcome};
use crate::wire::service_bus::message::{self, MessageState};

/// One of them.
#[derive(Clone)]
pub(super) struct Queue {
    pub(super) state: ApiState,
    /// Who is connected.
    pub(super) client: IpAddr,
    pub(super) topic: Arc<TopicEntry>,
    pub(super) subscription: Arc<EventSubscription>,
    pub(super) sub_queue: SubQueue,
}

impl Queue {
    /// What its senders send to.
    pub(super) fn sender(&self) -> Result<ToTopic, AmqpError> {
        if self.sub_queue == SubQueue::DeadLetters {
            return Err(nobody_sends());
        }
        let is_queue = self
            .topic
            .queue()
            .is_some_and(|own| own.id == self.subscription.id);
        if !is_queue {
            let problem = "Cannot create a message sender for a subscription; send to its topic.";
            return Err(AmqpError::new(NOT_ALLOWED, problem));
        }
        Ok(ToTopic {
            state: self.state.clone(),
            topic: Arc::clone(&self.topic),
        })
    }

    /// A client that receives from it.
    pub(super) fn receiver(self, lock: bool) -> Result<FromQueue, AmqpError> {
        let mode = self.subscription.definition.destination.delivery_mode();
        if (self.sub_queue, mode) == (SubQueue::Pending, DeliveryMode::Push) {
            return Err(refused(ReceiveError::Pushed(
                self.subscription.name.clone(),
            )));
        }
        Ok(FromQueue {
            queue: self,
            lock,
            in_vain: AtomicBool::new(false),
        })
    }

    fn of(&self) -> QueueRef {
        QueueRef {
            subscription: self.subscription.id,
            queue: self.sub_queue,
        }
    }

    fn broker(&self) -> &Broker {
        &self.state.broker
    }

    /// That of a queue; dead letters of what is pushed have the usual one.
    fn lock_duration(&self) -> Duration {
        let own = self.broker().lock_duration(&self.subscription);
        own.unwrap_or(LOCK_DURATION)
    }

    pub(super) async fn manage(&self, operation: Operation) -> Result<Reply, AmqpError> {
        Ok(match operation {
            Operation::Peek { from, count } => {
                let peeked = self.broker().peek(self.of(), DeliveryId(from), count);
                let peeked = peeked.await.map_err(|error| busy(&error))?;
                let messages = peeked.iter().map(|each| self.peeked(each).into());
                Reply::Peeked(messages.collect())
            }
            Operation::RenewLocks(tokens) => Reply::LocksRenewed(self.renew(tokens).await?),
            Operation::ReceiveNumbers { numbers, lock } => {
                Reply::Received(self.receive_deferred(numbers, lock).await?)
            }
            Operation::Settle { tokens, outcome } => {
                let locks = tokens.into_iter().map(|token| (token, outcome.clone()));
                let settled = self.settle(locks.collect()).await;
                settled.into_iter().collect::<Result<Vec<()>, _>>()?;
                Reply::Done
            }
            Operation::Schedule(messages) => {
                let numbers = self.sender()?.store(messages).await?;
                Reply::Scheduled(numbers.into_iter().map(|id| id.0).collect())
            }
            Operation::CancelScheduled(numbers) => {
                self.cancel(numbers).await?;
                Reply::Done
            }
        })
    }

    async fn cancel(&self, numbers: Vec<i64>) -> Result<(), AmqpError> {
        let ids = numbers.into_iter().map(DeliveryId).collect();
        let cancelled = self
            .broker()
            .cancel_scheduled(&self.topic, &self.subscription, ids);
        match cancelled.await.map_err(|error| busy(&error))? {
            true => Ok(()),
            false => {
                let problem =
                    "at least one of the sequence numbers is not that of a scheduled message";
                Err(AmqpError::new(MESSAGE_NOT_FOUND, problem))
            }
        }
    }

    /// Renews locks. They last a little longer than is told.
    async fn renew(&self, tokens: Vec<Uuid>) -> Result<Vec<Timestamp>, AmqpError> {
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

    async fn receive(
        &self,
        which: LockSelection,
        limit: usize,
        lock: bool,
    ) -> Result<Vec<Locked>, AmqpError> {
        let request = ReceiveRequest {
            of: self.of(),
            which,
            limit,
            lock: self.lock_duration(),
        };
        let mut locked = self.broker().receive(&request).await.map_err(refused)?;
        if !lock && !locked.is_empty() {
            let tokens = locked.iter().map(|each| uuid_of(each.token));
            let complete = tokens.map(|token| self.lock_change(token, Disposition::Complete));
            let mut completed = self.change(complete.collect()).await.into_iter();
            locked.retain(|_| completed.next().is_some_and(|each| each.is_ok()));
        }
        Ok(locked)
    }

    async fn receive_deferred(
        &self,
        numbers: Vec<i64>,
        lock: bool,
    ) -> Result<Vec<(Uuid, Bytes)>, AmqpError> {
        let ids: Vec<DeliveryId> = numbers.into_iter().map(DeliveryId).collect();
        let (wanted, which) = (ids.len(), LockSelection::Deferred(ids));
        let locked = self.receive(which, wanted, lock).await?;
        if lock && locked.len() < wanted {
            let tokens = locked.iter().map(|each| uuid_of(each.token));
            let back = tokens.map(|token| self.lock_change(token, Disposition::Uncount));
            self.change(back.collect()).await;
            let problem = "at least one of the sequence numbers is not that of a deferred message";
            return Err(AmqpError::new(MESSAGE_NOT_FOUND, problem));
        }
        let messages = locked.iter().map(|each| {
            let taken = self.locked(each, lock);
            (taken.token, taken.message.into())
        });
        Ok(messages.collect())
    }

    async fn settle(&self, locks: Vec<(Uuid, Outcome)>) -> Vec<Result<(), AmqpError>> {
        let wanted = locks.into_iter().map(|(token, outcome)| {
            let (disposition, properties) = wanted(&outcome)?;
            Ok(LockChange {
                properties,
                ..self.lock_change(token, disposition)
            })
        });
        let wanted: Vec<_> = wanted.collect();
        let changes = wanted.iter().flatten().cloned().collect();
        let mut settled = self.change(changes).await.into_iter();
        let results = wanted.into_iter().map(|wanted| {
            wanted?;
            settled.next().unwrap_or_else(|| Err(lost()))
        });
        results.collect()
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
        let completes = |change: &LockChange| change.disposition == Disposition::Complete;
        let is_dead = self.sub_queue == SubQueue::DeadLetters;
        let audit = (is_dead && changes.iter().any(completes)).then(|| {
            let caller = Caller {
                actor: Actor::ManagementToken, // the signature of what was shown was made with it
                address: Some(self.client),
                at: self.broker().clock().now(),
            };
            let completed = AuditAction::CompleteDeadLetters { dead_letters: 0 };
            let target = Target::subscription(&self.topic.topic.name, &self.subscription.name);
            caller.did(completed, target)
        });
        match self.broker().settle_locks(changes, audit).await {
            Ok(settled) => {
                let settled = settled.into_iter();
                settled
                    .map(|each| each.map(drop).map_err(unsettled))
                    .collect()
            }
            Err(error) => vec![Err(busy(&error)); count],
        }
    }

    fn locked(&self, locked: &Locked, lock: bool) -> Taken {
        let held = lock.then_some((locked.token, locked.until));
        let told = message_of(
            &locked.delivery,
            &locked.event,
            locked.dead_letter.as_ref(),
            locked.properties.as_deref(),
            held,
        );
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
            ..
        } = peeked;
        let dead = dead_letter.as_ref();
        let told = message_of(delivery, event, dead, properties.as_deref(), None);
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
        if let Some(sent) = message::of_event(&event.event) {
            let given = dead.filter(|dead| dead.reason != DeadLetterReason::Application);
            let system = given.map(|dead| message::system_reason(dead.reason, delivery.attempts));
            let system = system.as_ref();
            let told = message::Message {
                delivery_count: delivery.attempts,
                reason: system.map_or(told.reason, |(reason, _)| Some(*reason)),
                description: system.map_or(told.description, |(_, description)| {
                    Some(description.as_str())
                }),
                ..told.clone()
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

/// A client that receives from a queue.
pub(super) struct FromQueue {
    queue: Queue,
    lock: bool,
    /// Nothing could be taken although something seemed to be there.
    in_vain: AtomicBool,
}

#[async_trait]
impl Receiver for FromQueue {
    async fn arrival(&self) -> Result<(), AmqpError> {
        let in_vain = self.in_vain.load(Ordering::Relaxed);
        let due = self.queue.broker().await_due(self.queue.of(), in_vain);
        due.await.map_err(refused)
    }

    async fn take(&self, limit: usize) -> Result<Vec<Taken>, AmqpError> {
        let locked = self
            .queue
            .receive(LockSelection::Due, limit, self.lock)
            .await?;
        self.in_vain.store(locked.is_empty(), Ordering::Relaxed);
        let taken = locked.iter().map(|each| self.queue.locked(each, self.lock));
        Ok(taken.collect())
    }

    async fn settle(&self, locks: Vec<(Uuid, Outcome)>) -> Vec<Result<(), AmqpError>> {
        self.queue.settle(locks).await
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

fn lost() -> AmqpError {
    unsettled(LockError::LockLost)
}

fn unsettled(error: LockError) -> AmqpError {
    let condition = match error {
        LockError::LockLost => MESSAGE_LOCK_LOST,
        LockError::TooManyProperties => RESOURCE_LIMIT_EXCEEDED,
        LockError::IsDeadLetter | LockError::HeldLongEnough => NOT_ALLOWED,
    };
    AmqpError::new(condition, format!("{error}."))
}

fn refused(error: ReceiveError) -> AmqpError {
    let problem = format!("{error}.");
    match error {
        ReceiveError::SubscriptionDeleted => AmqpError::new(NOT_FOUND, problem),
        ReceiveError::Pushed(_) => AmqpError::new(NOT_ALLOWED, problem),
        ReceiveError::TooManyWaiting => AmqpError::new(SERVER_BUSY, problem),
        ReceiveError::Store(error) => busy(&error),
    }
}
