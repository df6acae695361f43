//! The container that clients connect to, in AMQP's words: its nodes are entities, and links end at them.
//!
//! A connection knows frames, links and credit. The broker knows where messages are kept and what a lock means, behind
//! these traits. Their functions return when what they report is durable, since clients get what they return.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::api::authority::Authority;
use crate::broker::PromisedNumber;
use crate::model::audit::Actor;
use crate::model::session::{HeldSession, SessionSelection};
use crate::wire::amqp::AmqpError;
use crate::wire::amqp::cbs::PutToken;
use crate::wire::amqp::condition::NOT_FOUND;
use crate::wire::amqp::management::{EntityOperation, ManagementReply};
use crate::wire::amqp::message::Message;
use crate::wire::amqp::outcome::ReceiverOutcome;
use crate::wire::amqp::performative::LinkRole;
use crate::wire::amqp::sasl::Plain;
use crate::wire::service_bus::entity::EntityAddress;

/// The container as one connection sees it. Its nodes are messaging entities.
#[async_trait]
pub trait Container: Send + Sync + 'static {
    /// Finds what the rule opens, if the key is its key.
    fn plain(&self, credentials: &Plain) -> Option<Authority>;

    /// Finds what the token opens.
    fn token(&self, request: &PutToken) -> Result<Authority, AmqpError>;

    /// Returns whether nothing was taken from it since it was shown.
    fn still_holds(&self, authority: &Authority) -> bool;

    /// Attaches a link over which a client sends; to another entity by way of this one, if there is one.
    async fn open_incoming(
        &self,
        entity: &EntityAddress,
        transfer_to: Option<&KnownEntity>,
    ) -> Result<Box<dyn IncomingLink>, AmqpError>;

    /// Attaches a link over which a client receives. One that wants the next session may wait for it, unless it is `gone`.
    async fn open_outgoing(
        &self,
        request: ReceiverRequest,
        gone: &CancellationToken,
    ) -> Result<Box<dyn OutgoingLink>, AmqpError>;

    /// Returns what an entity is known by, if clients can attach to it now in the role that is named; another one that is
    /// made under its name later has another number.
    fn identity(&self, entity: &EntityAddress, role: Option<LinkRole>) -> Result<i64, AmqpError>;

    /// Answers a request. That the client may make it was checked.
    async fn manage(
        &self,
        entity: &KnownEntity,
        asked: EntityOperation,
        by: &Actor,
    ) -> Result<ManagementReply, AmqpError>;

    /// Prepares what a request does at the end of its transaction, and the answer that it has at once. That the client may
    /// make it was checked.
    async fn prepare(
        &self,
        entity: &KnownEntity,
        asked: EntityOperation,
        by: &Actor,
    ) -> Result<(Transaction, ManagementReply), AmqpError>;

    /// Says of each lock whether it is held now.
    async fn check_locks(
        &self,
        entity: &EntityAddress,
        tokens: Vec<Uuid>,
    ) -> Vec<Result<(), AmqpError>>;

    /// Does all of it or nothing. That the client may was checked. Runs to its end even if the client is gone.
    async fn commit(&self, changes: Transaction) -> Result<(), AmqpError>;
}

/// An entity as it was found: what is done later is done to it, and to no other one that has its name then.
#[derive(Clone, Debug)]
pub struct KnownEntity {
    pub address: EntityAddress,
    /// See [`Container::identity`].
    pub id: i64,
}

/// Says that an entity is gone, though there may be another one of its name.
pub(super) fn deleted(entity: &EntityAddress) -> AmqpError {
    let problem = format!("The messaging entity '{entity}' was deleted.");
    AmqpError::new(NOT_FOUND, problem)
}

/// Holds all that a transaction does.
#[derive(Debug, Default)]
pub struct Transaction {
    pub sends: Vec<TransactionSend>,
    /// Scheduled messages that are cancelled, by their numbers, each time with their entity.
    pub cancels: Vec<(KnownEntity, Vec<i64>)>,
    pub settles: Vec<TransactionSettlement>,
    /// The states that are kept with sessions, with the entity of each.
    pub states: Vec<(EntityAddress, HeldSession, Option<Bytes>)>,
}

impl Transaction {
    /// Adds what another part does.
    pub(super) fn add(&mut self, part: Self) {
        let Self {
            sends,
            cancels,
            settles,
            states,
        } = part;
        self.sends.extend(sends);
        self.cancels.extend(cancels);
        self.settles.extend(settles);
        self.states.extend(states);
    }

    /// Returns how many messages and states it is about.
    pub(super) fn count(&self) -> usize {
        let sent = self.sends.iter().map(|each| each.messages.len());
        let cancelled = self.cancels.iter().map(|(_, numbers)| numbers.len());
        let others = self.settles.len() + self.states.len();
        sent.chain(cancelled).sum::<usize>() + others
    }
}

/// Messages that are sent at the end of a transaction.
#[derive(Debug)]
pub struct TransactionSend {
    pub to: KnownEntity,
    /// The entity that they go on to from there.
    pub transfer_to: Option<KnownEntity>,
    pub messages: Vec<Message>,
    /// The numbers that scheduled ones were promised.
    pub promised: Vec<PromisedNumber>,
}

/// A settlement of a message at the end of a transaction.
#[derive(Clone, Debug)]
pub struct TransactionSettlement {
    /// The entity that the message was received from.
    pub of: EntityAddress,
    /// The lock.
    pub token: Uuid,
    pub outcome: ReceiverOutcome,
    /// Who may receive there, for the audit log.
    pub by: Actor,
    /// The client has settled it already, and cannot do so again.
    pub is_settled: bool,
}

/// How a client wants to receive.
#[derive(Clone, Debug)]
pub struct ReceiverRequest {
    pub entity: EntityAddress,
    /// The name of the link.
    pub link: String,
    /// Who receives, for the audit log.
    pub by: Actor,
    /// The client settles messages. Otherwise they are removed once they are written.
    pub lock: bool,
    pub session: Option<SessionSelection>,
    /// How long it waits for a session.
    pub session_wait: Option<Duration>,
}

/// Stores what was accepted, from its first poll on. Ready when it is durable.
pub type Storing = BoxFuture<'static, Result<(), AmqpError>>;

/// The end of a link over which a client sends.
#[async_trait]
pub trait IncomingLink: Send + Sync {
    /// Bytes of a message or batch, as the client is told.
    fn message_bytes_max(&self) -> u64;

    /// Accepts messages, which are stored whole or not at all, in the order in which they were accepted. What is stored
    /// runs to its end even if the client is gone.
    async fn send(&self, messages: Vec<Message>) -> Result<Storing, AmqpError>;
}

/// The end of a link over which a client receives.
#[async_trait]
pub trait OutgoingLink: Send + Sync {
    /// The session that is held.
    fn session(&self) -> Option<&HeldSession>;

    /// Returns how long messages are locked.
    fn lock_duration(&self) -> Duration;

    /// Waits until the lock on the session has ended, and returns that as the reason for the link's end. For ever without a
    /// session. May be dropped while it waits.
    async fn ended(&self) -> AmqpError;

    /// Waits until something can be taken. May be dropped while it waits. An error ends the link.
    async fn arrival(&self) -> Result<(), AmqpError>;

    /// Returns the bytes that up to `limit` messages may have.
    fn bytes_max(&self, limit: usize) -> usize;

    /// Locks up to `limit` messages; none if somebody was quicker. Runs to its end even if the client is gone.
    /// An error ends the link.
    async fn take(&self, limit: usize) -> Result<Vec<OutgoingMessage>, AmqpError>;

    /// Renews the locks of messages that are not written yet. One that has lapsed stays so.
    async fn renew(&self, locks: Vec<Uuid>);

    /// Settles locks. Each has its own result, in the same order. Runs to its end even if the client is gone.
    async fn settle(&self, locks: Vec<(Uuid, ReceiverOutcome)>) -> Vec<Result<(), AmqpError>>;

    /// The link is gone: a session is free again. What it has of messages counts as received in vain unless the client
    /// has left in order. Other locks stay until they expire.
    async fn close(&self, in_order: bool);
}

/// A message on its way to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingMessage {
    /// The token of its lock.
    pub token: Uuid,
    /// Encoded, as the client is to have it.
    pub message: Vec<u8>,
}
