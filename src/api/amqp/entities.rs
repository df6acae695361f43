//! What the addresses of clients stand for: queues, topics and event subscriptions, the same ones that the other faces
//! of the appliance serve.

use std::fmt::Display;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::api::ApiState;
use crate::api::amqp::claims::Claims;
use crate::api::amqp::nodes::{Nodes, Receiver, ReceiverRequest, Sender, Transaction};
use crate::api::amqp::queue::Queue;
use crate::api::amqp::sessions::Sessions;
use crate::api::amqp::topic::ToTopic;
use crate::api::service_bus::access::Grant;
use crate::model::audit::{Actor, AuditEntry, Target};
use crate::model::lease::SubQueue;
use crate::model::name::{SubscriptionName, TopicName};
use crate::model::registry::TopicEntry;
use crate::model::shared_access::{ROOT_RULE, Rights};
use crate::wire::amqp::AmqpError;
use crate::wire::amqp::address::{self, EntityAddress};
use crate::wire::amqp::cbs::PutToken;
use crate::wire::amqp::condition::{NOT_ALLOWED, NOT_FOUND, TRANSACTION_ROLLBACK};
use crate::wire::amqp::management::{Operation, Reply};
use crate::wire::amqp::sasl::Plain;

/// All of them, as a client sees them.
pub(in crate::api) struct Entities {
    state: ApiState,
    client: IpAddr,
    sessions: Arc<Sessions>,
    /// Who has shown a key, for the audit log: stock clients show the keys of one rule.
    actor: Mutex<Actor>,
}

enum Entity {
    /// What can be received from.
    Queue(Queue),
    /// What can only be sent to.
    Topic(Arc<TopicEntry>),
}

impl Entities {
    /// What a client at this address sees.
    pub(in crate::api) fn new(state: ApiState, client: IpAddr) -> Self {
        Self {
            state,
            client,
            sessions: Arc::default(),
            actor: Mutex::new(Actor::ManagementToken),
        }
    }

    fn find(&self, entity: &EntityAddress) -> Result<Entity, AmqpError> {
        let found = match entity.sub_queue {
            address::SubQueue::Active => self.find_at(&entity.path, SubQueue::Pending),
            address::SubQueue::DeadLetter => self.find_at(&entity.path, SubQueue::DeadLetters),
            address::SubQueue::TransferDeadLetter => {
                Err("nothing is transferred here, so nothing fails to be".to_owned())
            }
        };
        found.map_err(|problem| not_found(&self.state, entity, problem))
    }

    fn note_denial(&self, what: &str) {
        let now = self.state.broker.clock().now();
        self.state.denials.note(Some(self.client), what, now);
    }

    /// What a rule grants whose key is shown as it is. No resource comes with it: it is for what the rule is for.
    fn claims_of(&self, Plain { rule, key }: &Plain) -> Option<Claims> {
        if rule.eq_ignore_ascii_case(ROOT_RULE) {
            let is_right = self.state.token.admits(key);
            return is_right.then(|| Claims::new("", Rights::ALL, None));
        }
        let registry = self.state.broker.registry();
        let mut named = registry.access_rules().filter(|each| {
            each.name.own().eq_ignore_ascii_case(rule) && each.keys.find(key.reveal()).is_some()
        });
        let found = named.next()?;
        let resource = found.name.entity().map(|entity| entity.to_string());
        *self.actor.lock().unwrap() = Actor::AccessRule(found.name.to_string());
        Some(Claims::new(
            &resource.unwrap_or_default(),
            found.rights,
            None,
        ))
    }

    fn sender(&self, entity: &EntityAddress) -> Result<ToTopic, AmqpError> {
        match self.find(entity)? {
            Entity::Queue(queue) => queue.sender(),
            Entity::Topic(topic) => ToTopic::of(&self.state, topic),
        }
    }

    fn find_at(&self, path: &str, sub_queue: SubQueue) -> Result<Entity, String> {
        let (topic, subscription) = address::split(path);
        let name = TopicName::parse(topic).map_err(|error| error.to_string())?;
        let broker = &self.state.broker;
        let (topic, subscription) = match subscription {
            Some(subscription) => {
                let own =
                    SubscriptionName::parse(subscription).map_err(|error| error.to_string())?;
                broker
                    .subscription(&name, &own)
                    .map_err(|error| error.to_string())?
            }
            None => {
                let missing = |_| format!("there is no queue or topic {name}");
                let topic = broker.topic(&name).map_err(missing)?;
                match (topic.queue().cloned(), sub_queue) {
                    (Some(own), _) => (topic, own),
                    (None, SubQueue::Pending) => return Ok(Entity::Topic(topic)),
                    (None, SubQueue::DeadLetters) => {
                        return Err(
                            "the dead letters of a topic are those of its subscriptions".to_owned()
                        );
                    }
                }
            }
        };
        Ok(Entity::Queue(Queue {
            state: self.state.clone(),
            client: Some(self.client),
            actor: self.actor.lock().unwrap().clone(),
            topic,
            subscription,
            sub_queue,
            sessions: Arc::clone(&self.sessions),
        }))
    }
}

#[async_trait]
impl Nodes for Entities {
    fn plain(&self, credentials: &Plain) -> Option<Claims> {
        let claims = self.claims_of(credentials);
        if claims.is_none() {
            self.note_denial(&credentials.rule);
        }
        claims
    }

    fn token(&self, request: &PutToken) -> Result<Claims, AmqpError> {
        let now = self.state.broker.clock().now();
        let find = |rule: &str, resource: &str| Grant::find(&self.state, rule, resource);
        let granted = Claims::of_token(request, now, find);
        let (claims, rule, key) = granted.inspect_err(|_| self.note_denial(&request.audience))?;
        rule.note_use(&self.state, key);
        *self.actor.lock().unwrap() = rule.actor;
        Ok(claims)
    }

    async fn open_sender(&self, entity: &EntityAddress) -> Result<Box<dyn Sender>, AmqpError> {
        Ok(Box::new(self.sender(entity)?))
    }

    async fn open_receiver(
        &self,
        request: ReceiverRequest,
        gone: &CancellationToken,
    ) -> Result<Box<dyn Receiver>, AmqpError> {
        match self.find(&request.entity)? {
            Entity::Queue(queue) => Ok(Box::new(queue.receiver(&request, gone).await?)),
            Entity::Topic(_) => Err(no_queue()),
        }
    }

    async fn open_management(&self, entity: &EntityAddress) -> Result<(), AmqpError> {
        self.find(entity).map(drop)
    }

    async fn manage(&self, entity: &EntityAddress, asked: Operation) -> Result<Reply, AmqpError> {
        match self.find(entity)? {
            Entity::Queue(queue) => queue.manage(asked).await,
            Entity::Topic(topic) => ToTopic::of(&self.state, topic)?.manage(asked).await,
        }
    }

    async fn commit(&self, changes: Transaction) -> Result<(), AmqpError> {
        let sends = changes.sends.into_iter();
        let sends = sends.map(|(to, messages)| self.sender(&to)?.checked(messages));
        let sends = sends.collect::<Result<_, _>>()?;
        let (mut settles, mut audits) = (Vec::new(), Vec::new());
        for (of, token, outcome) in changes.settles {
            let Entity::Queue(queue) = self.find(&of)? else {
                return Err(no_queue());
            };
            let change = queue.settlement(token, &outcome)?;
            audits.extend(queue.audit(&change));
            settles.push(change);
        }
        let done = self.state.broker.commit(sends, settles, of_all(audits));
        let done = done.await;
        done.map_err(|error| {
            let problem = format!("the transaction was rolled back: {error}");
            AmqpError::new(TRANSACTION_ROLLBACK, problem)
        })
    }
}

/// One entry for all of these: about the queue, or about the appliance if they are about several.
fn of_all(mut entries: Vec<AuditEntry>) -> Option<AuditEntry> {
    let last = entries.pop()?;
    Some(
        match entries.iter().all(|each| each.target == last.target) {
            true => last,
            false => AuditEntry {
                target: Target::appliance(),
                ..last
            },
        },
    )
}

/// In Azure's words, which clients look for.
pub(super) fn not_found(
    state: &ApiState,
    entity: impl Display,
    problem: impl Display,
) -> AmqpError {
    let options = state.broker.options();
    let url = format!("sb://{}/{entity}", options.public_host());
    let problem = format!("The messaging entity '{url}' could not be found. Reason: {problem}.");
    AmqpError::new(NOT_FOUND, problem)
}

pub(in crate::api) fn no_queue() -> AmqpError {
    let problem = "The messages of a topic are received from its subscriptions.";
    AmqpError::new(NOT_ALLOWED, problem)
}
