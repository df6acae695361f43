//! What the addresses of clients stand for: queues, topics and event subscriptions, the same ones that the other faces
//! of the appliance serve.

use std::fmt::Display;
use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::api::ApiState;
use crate::api::amqp::nodes::{Nodes, Receiver, ReceiverRequest, Sender, Transaction};
use crate::api::amqp::queue::Queue;
use crate::api::amqp::sessions::Sessions;
use crate::api::amqp::topic::ToTopic;
use crate::api::authority::{AccessDenied, Authority, ShownSignature};
use crate::model::audit::{Actor, AuditEntry, Target};
use crate::model::lease::SubQueue;
use crate::model::name::{SubscriptionName, TopicName};
use crate::model::registry::TopicEntry;
use crate::wire::amqp::AmqpError;
use crate::wire::amqp::cbs::{PutToken, SCHEME, TokenKind};
use crate::wire::amqp::condition::{
    AUTH_FAILED, NOT_ALLOWED, NOT_FOUND, NOT_IMPLEMENTED, TRANSACTION_ROLLBACK,
};
use crate::wire::amqp::management::{Operation, Reply};
use crate::wire::amqp::sasl::Plain;
use crate::wire::service_bus::entity::{self, EntityAddress};

/// All of them, as a client sees them.
pub(in crate::api) struct Entities {
    state: ApiState,
    client: IpAddr,
    sessions: Arc<Sessions>,
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
        }
    }

    fn find(&self, entity: &EntityAddress, by: &Actor) -> Result<Entity, AmqpError> {
        let found = match entity.sub_queue {
            entity::SubQueue::Active => self.find_at(entity, SubQueue::Pending, by),
            entity::SubQueue::DeadLetter => self.find_at(entity, SubQueue::DeadLetters, by),
            entity::SubQueue::TransferDeadLetter => {
                Err("nothing is transferred here, so nothing fails to be".to_owned())
            }
        };
        found.map_err(|problem| not_found(&self.state, entity, problem))
    }

    fn note_denial(&self, what: &str) {
        let now = self.state.broker.clock().now();
        self.state.denials.note(Some(self.client), what, now);
    }

    /// Finds where to send to. The audit log has nothing of what is sent, so it does not matter who sends.
    fn sender(&self, entity: &EntityAddress) -> Result<ToTopic, AmqpError> {
        match self.find(entity, &Actor::Appliance)? {
            Entity::Queue(queue) => queue.sender(),
            Entity::Topic(topic) => ToTopic::of(&self.state, topic),
        }
    }

    fn find_at(
        &self,
        entity: &EntityAddress,
        sub_queue: SubQueue,
        by: &Actor,
    ) -> Result<Entity, String> {
        let name = TopicName::parse(&entity.topic_or_queue).map_err(|error| error.to_string())?;
        let broker = &self.state.broker;
        let (topic, subscription) = match &entity.subscription {
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
                match (topic.own.clone(), sub_queue) {
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
            actor: by.clone(),
            topic,
            subscription,
            sub_queue,
            sessions: Arc::clone(&self.sessions),
        }))
    }
}

#[async_trait]
impl Nodes for Entities {
    fn plain(&self, credentials: &Plain) -> Option<Authority> {
        let found = Authority::of_password(&self.state, credentials, Some(self.client));
        found
            .inspect_err(|_| self.note_denial(&credentials.rule))
            .ok()
    }

    fn token(&self, request: &PutToken) -> Result<Authority, AmqpError> {
        let options = self.state.broker.options();
        let hosts = [host_of(&request.audience), options.public_host()];
        let found = signature(request).and_then(|token| {
            let shown = ShownSignature {
                token,
                hosts: &hosts,
            };
            let found = Authority::of_signature(&self.state, shown, Some(self.client));
            found.map_err(|denied| unproven(request, &denied))
        });
        found.inspect_err(|_| self.note_denial(&request.audience))
    }

    fn still_holds(&self, authority: &Authority) -> bool {
        authority.still_holds(&self.state)
    }

    async fn open_sender(&self, entity: &EntityAddress) -> Result<Box<dyn Sender>, AmqpError> {
        Ok(Box::new(self.sender(entity)?))
    }

    async fn open_receiver(
        &self,
        request: ReceiverRequest,
        gone: &CancellationToken,
    ) -> Result<Box<dyn Receiver>, AmqpError> {
        match self.find(&request.entity, &request.by)? {
            Entity::Queue(queue) => Ok(Box::new(queue.receiver(&request, gone).await?)),
            Entity::Topic(_) => Err(no_queue()),
        }
    }

    async fn open_management(&self, entity: &EntityAddress) -> Result<(), AmqpError> {
        self.find(entity, &Actor::Appliance).map(drop)
    }

    async fn manage(
        &self,
        entity: &EntityAddress,
        asked: Operation,
        by: &Actor,
    ) -> Result<Reply, AmqpError> {
        match self.find(entity, by)? {
            Entity::Queue(queue) => queue.manage(asked).await,
            Entity::Topic(topic) => ToTopic::of(&self.state, topic)?.manage(asked).await,
        }
    }

    async fn commit(&self, changes: Transaction) -> Result<(), AmqpError> {
        let sends = changes.sends.into_iter();
        let sends = sends.map(|(to, messages)| self.sender(&to)?.checked(messages));
        let sends = sends.collect::<Result<_, _>>()?;
        let (mut settles, mut audits) = (Vec::new(), Vec::new());
        for settlement in changes.settles {
            let Entity::Queue(queue) = self.find(&settlement.of, &settlement.by)? else {
                return Err(no_queue());
            };
            let change = queue.settlement(settlement.token, &settlement.outcome)?;
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

/// The host that a client names in the audience of a token.
fn host_of(audience: &str) -> &str {
    let rest = audience.split_once("://").map_or("", |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default()
}

/// The signature in a request, without its scheme.
pub(super) fn signature(request: &PutToken) -> Result<&str, AmqpError> {
    match request.kind {
        TokenKind::SharedAccessSignature => {
            let text = request.token.reveal();
            Ok(text.strip_prefix(SCHEME).unwrap_or(text))
        }
        TokenKind::Other(_) => {
            let problem = "only shared access signatures are taken (type \
                           servicebus.windows.net:sastoken)";
            Err(AmqpError::new(NOT_IMPLEMENTED, problem))
        }
    }
}

/// The answer to a token that opens nothing.
pub(super) fn unproven(request: &PutToken, denied: &AccessDenied) -> AmqpError {
    let audience = &request.audience;
    AmqpError::new(AUTH_FAILED, format!("the token for {audience}: {denied}"))
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
