//! The dead-letter queues of event subscriptions, as nodes: the same queues, locks and numbers that the REST face
//! of Service Bus serves.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::api::ApiState;
use crate::api::amqp::claims::Claims;
use crate::api::amqp::nodes::{HeldSession, Nodes, Receiver, ReceiverRequest, Sender, Taken};
use crate::api::receive::service_bus::message_of;
use crate::base::Timestamp;
use crate::broker::{ManageError, ReceiveError, ReceiveRequest};
use crate::model::audit::{Actor, AuditAction, Caller, Target};
use crate::model::delivery::{Delivery, DeliveryId};
use crate::model::event::StoredEvent;
use crate::model::lease::{Disposition, LockChange, LockError, LockOf, LockToken, QueueRef};
use crate::model::limits::LOCK_DURATION;
use crate::model::name::{SubscriptionName, TopicName};
use crate::model::registry::TopicEntry;
use crate::model::shared_access::Rights;
use crate::model::subscription::EventSubscription;
use crate::store::{DeadLetter, LockSelection, Locked, Peeked, StoreError};
use crate::wire;
use crate::wire::amqp::AmqpError;
use crate::wire::amqp::address::EntityAddress;
use crate::wire::amqp::cbs::PutToken;
use crate::wire::amqp::condition::{
    MESSAGE_LOCK_LOST, MESSAGE_NOT_FOUND, NOT_ALLOWED, NOT_FOUND, NOT_IMPLEMENTED, SERVER_BUSY,
};
use crate::wire::amqp::management::{Operation, Reply, Request};
use crate::wire::amqp::outcome::Outcome;
use crate::wire::amqp::sasl::Plain;
use crate::wire::service_bus::address::Address;
use crate::wire::service_bus::sas::RULE;

/// All dead-letter queues. The key of their one rule is the management token.
pub(in crate::api) struct DeadLetterQueues {
    pub(in crate::api) state: ApiState,
    /// Who is connected.
    pub(in crate::api) client: IpAddr,
}

/// One of them.
#[derive(Clone)]
struct Queue {
    state: ApiState,
    client: IpAddr,
    topic: Arc<TopicEntry>,
    subscription: Arc<EventSubscription>,
}

impl DeadLetterQueues {
    fn find(&self, entity: &EntityAddress) -> Result<Queue, AmqpError> {
        let not_found = |problem: String| {
            let problem = format!("The messaging entity '{entity}' could not be found: {problem}.");
            AmqpError::new(NOT_FOUND, problem)
        };
        let none = || not_found("only event subscriptions have queues here".to_owned());
        let address = Address::parse(&format!("/{entity}")).ok_or_else(none)?;
        let address = address.map_err(|error| not_found(error.to_string()))?;
        let topic = TopicName::parse(&address.topic);
        let topic = topic.map_err(|error| not_found(error.to_string()))?;
        let name = SubscriptionName::parse(&address.subscription);
        let name = name.map_err(|error| not_found(error.to_string()))?;
        let found = self.state.broker.subscription(&topic, &name);
        let (topic, subscription) =
            found.map_err(|error: ManageError| not_found(error.to_string()))?;
        let state = self.state.clone();
        Ok(Queue {
            state,
            client: self.client,
            topic,
            subscription,
        })
    }
}

#[async_trait]
impl Nodes for DeadLetterQueues {
    fn plain(&self, credentials: &Plain) -> Option<Claims> {
        let is_right = credentials.rule.eq_ignore_ascii_case(RULE)
            && self.state.token.admits(&credentials.key);
        is_right.then(|| Claims::new("", Rights::ALL, None))
    }

    fn token(&self, request: &PutToken) -> Result<Claims, AmqpError> {
        let now = self.state.broker.clock().now();
        Claims::of_token(request, now, |rule, _| {
            let is_known = rule.eq_ignore_ascii_case(RULE);
            is_known.then(|| (self.state.token.secret(), Rights::ALL))
        })
    }

    async fn open_sender(&self, entity: &EntityAddress) -> Result<Box<dyn Sender>, AmqpError> {
        self.find(entity)?;
        let problem = "Nobody sends to a dead-letter queue: events come into it when they cannot be \
                       delivered. Publish to the topic instead.";
        Err(AmqpError::new(NOT_ALLOWED, problem))
    }

    async fn open_receiver(
        &self,
        request: ReceiverRequest,
        _: &CancellationToken,
    ) -> Result<Box<dyn Receiver>, AmqpError> {
        let queue = self.find(&request.entity)?;
        if request.session.is_some() {
            let problem = "A dead-letter queue has no sessions; receive without one.";
            return Err(AmqpError::new(NOT_ALLOWED, problem));
        }
        Ok(Box::new(DeadLetters {
            queue,
            lock: request.lock,
            in_vain: AtomicBool::new(false),
        }))
    }

    async fn open_management(&self, entity: &EntityAddress) -> Result<(), AmqpError> {
        self.find(entity).map(drop)
    }

    async fn manage(&self, entity: &EntityAddress, request: Request) -> Result<Reply, AmqpError> {
        self.find(entity)?.manage(request.operation).await
    }
}

impl Queue {
    fn queue(&self) -> QueueRef {
        QueueRef::dead_letters(self.subscription.id)
    }

    async fn manage(&self, operation: Operation) -> Result<Reply, AmqpError> {
        Ok(match operation {
            Operation::Peek { from, count, .. } => {
                let broker = &self.state.broker;
                let peeked =
                    broker.peek_dead_letters(self.subscription.id, DeliveryId(from), count);
                let peeked = peeked.await.map_err(|error| busy(&error))?;
                let messages = peeked.iter().map(|each| self.peeked(each).into());
                Reply::Peeked(messages.collect())
            }
            Operation::RenewLocks(tokens) => {
                // The locks last a little longer than is told.
                let until = self.state.broker.clock().now() + LOCK_DURATION;
                let renew = Disposition::Renew {
                    lock_for: LOCK_DURATION,
                    within: None,
                };
                let changes = tokens.iter().map(|token| (*token, renew.clone()));
                let renewed = self.change(changes.collect()).await;
                renewed.into_iter().collect::<Result<Vec<()>, _>>()?;
                Reply::LocksRenewed(vec![until; tokens.len()])
            }
            Operation::ReceiveNumbers { numbers, lock, .. } => {
                Reply::Received(self.receive_deferred(numbers, lock).await?)
            }
            Operation::Settle {
                tokens, outcome, ..
            } => {
                let locks = tokens.into_iter().map(|token| (token, outcome.clone()));
                let settled = self.settle(locks.collect()).await;
                settled.into_iter().collect::<Result<Vec<()>, _>>()?;
                Reply::Done
            }
            Operation::Schedule(_) | Operation::CancelScheduled(_) => {
                let problem = "Nobody sends to a dead-letter queue.";
                return Err(AmqpError::new(NOT_ALLOWED, problem));
            }
            Operation::RenewSession(_)
            | Operation::SessionState(_)
            | Operation::SetSessionState { .. }
            | Operation::Sessions { .. } => {
                let problem = "A dead-letter queue has no sessions.";
                return Err(AmqpError::new(NOT_ALLOWED, problem));
            }
            Operation::DeleteMessages { .. } => {
                let problem = "Dead letters are purged over the management API.";
                return Err(AmqpError::new(NOT_IMPLEMENTED, problem));
            }
        })
    }

    async fn receive(
        &self,
        which: LockSelection,
        limit: usize,
        lock: bool,
    ) -> Result<Vec<Locked>, AmqpError> {
        let request = ReceiveRequest {
            of: self.queue(),
            which,
            limit,
            lock: LOCK_DURATION,
        };
        let mut locked = self.state.broker.receive(&request).await.map_err(refused)?;
        if !lock && !locked.is_empty() {
            let tokens = locked.iter().map(|each| uuid_of(each.token));
            let complete = tokens.map(|token| (token, Disposition::Complete)).collect();
            let mut completed = self.change(complete).await.into_iter();
            locked.retain(|_| completed.next().is_some_and(|each| each.is_ok()));
        }
        Ok(locked)
    }

    async fn receive_deferred(
        &self,
        numbers: Vec<i64>,
        lock: bool,
    ) -> Result<Vec<(Uuid, bytes::Bytes)>, AmqpError> {
        let ids: Vec<DeliveryId> = numbers.into_iter().map(DeliveryId).collect();
        let (wanted, which) = (ids.len(), LockSelection::Deferred(ids));
        let locked = self.receive(which, wanted, lock).await?;
        if lock && locked.len() < wanted {
            let tokens = locked.iter().map(|each| uuid_of(each.token));
            let back = tokens.map(|token| (token, Disposition::Abandon));
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
        let wanted: Vec<_> = locks
            .into_iter()
            .map(|(token, outcome)| disposition(&outcome).map(|wanted| (token, wanted)))
            .collect();
        let changes = wanted.iter().flatten().cloned().collect();
        let mut settled = self.change(changes).await.into_iter();
        let results = wanted.into_iter().map(|wanted| match wanted {
            Ok(_) => settled.next().unwrap_or_else(|| Err(lost())),
            Err(error) => Err(error),
        });
        results.collect()
    }

    async fn change(&self, changes: Vec<(Uuid, Disposition)>) -> Vec<Result<(), AmqpError>> {
        let count = changes.len();
        let completes = |(_, wanted): &(Uuid, Disposition)| *wanted == Disposition::Complete;
        let audit = changes.iter().any(completes).then(|| {
            let caller = Caller {
                actor: Actor::ManagementToken, // the signature of what was shown was made with it
                address: Some(self.client),
                at: self.state.broker.clock().now(),
            };
            let completed = AuditAction::CompleteDeadLetters { dead_letters: 0 };
            let target = Target::subscription(&self.topic.topic.name, &self.subscription.name);
            caller.did(completed, target)
        });
        let changes = changes.into_iter().map(|(token, disposition)| LockChange {
            token: LockToken::from_bytes(*token.as_bytes()),
            of: LockOf::any_of(self.queue()),
            disposition,
        });
        let changes = changes.collect();
        match self.state.broker.settle_locks(changes, audit).await {
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
        let Locked {
            delivery,
            event,
            dead_letter,
            ..
        } = locked;
        let dead = dead_letter.as_ref();
        Taken {
            token: uuid_of(locked.token),
            message: self.encoded(delivery, event, dead, held, locked.deferred),
        }
    }

    fn peeked(&self, peeked: &Peeked) -> Vec<u8> {
        let dead = peeked.dead_letter.as_ref();
        self.encoded(&peeked.delivery, &peeked.event, dead, None, peeked.deferred)
    }

    /// The event in the subscription's delivery schema, and why it lies here.
    fn encoded(
        &self,
        delivery: &Delivery,
        event: &StoredEvent,
        dead: Option<&DeadLetter>,
        lock: Option<(LockToken, Timestamp)>,
        deferred: bool,
    ) -> Vec<u8> {
        let schema = self.subscription.definition.delivery_schema;
        let payload = wire::encode_message(schema, &self.topic.resource_id, event);
        let message = message_of(delivery, event, dead, lock);
        message.encode(payload.content_type, payload.body, deferred)
    }
}

/// A client that receives dead letters.
struct DeadLetters {
    queue: Queue,
    lock: bool,
    /// Nothing could be taken although something seemed to be there.
    in_vain: AtomicBool,
}

#[async_trait]
impl Receiver for DeadLetters {
    fn session(&self) -> Option<HeldSession> {
        None
    }

    async fn arrival(&self) -> Result<(), AmqpError> {
        let in_vain = self.in_vain.load(Ordering::Relaxed);
        let due = self
            .queue
            .state
            .broker
            .await_due(self.queue.queue(), in_vain);
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

    async fn close(&self) {}
}

/// What an outcome does to an event, which has no properties of the receiver's.
fn disposition(outcome: &Outcome) -> Result<Disposition, AmqpError> {
    match outcome {
        Outcome::Complete => Ok(Disposition::Complete),
        // Nothing is counted in a dead-letter queue.
        Outcome::Release => Ok(Disposition::Abandon),
        Outcome::Abandon(changes) | Outcome::Defer(changes) if !changes.is_empty() => {
            let problem = "The properties of a dead-lettered event cannot be changed.";
            Err(AmqpError::new(NOT_IMPLEMENTED, problem))
        }
        Outcome::Abandon(_) => Ok(Disposition::Abandon),
        Outcome::Defer(_) => Ok(Disposition::Defer),
        Outcome::DeadLetter(_) => Err(unsettled(LockError::IsDeadLetter)),
    }
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

fn busy(error: &StoreError) -> AmqpError {
    tracing::warn!(%error, "a dead-letter queue could not be served");
    let problem = "The appliance cannot answer right now; try again in a moment.";
    AmqpError::new(SERVER_BUSY, problem)
}
