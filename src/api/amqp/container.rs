//! The AMQP container that clients connect to. Its nodes are messaging entities, at which links end.
//!
//! The connection handles frames, links and credit. The broker behind these traits handles message storage and locks.
//! The functions of the traits return only after the reported result is durable, since it is passed on to clients.

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

/// The container as seen by one connection.
#[async_trait]
pub trait Container: Send + Sync + 'static {
    /// Returns the authority of an authorization rule, if the key in `credentials` is a key of the rule.
    fn plain(&self, credentials: &Plain) -> Option<Authority>;

    /// Returns the authority that a token grants.
    fn token(&self, request: &PutToken) -> Result<Authority, AmqpError>;

    /// Returns whether the rule of an authority still has the key and the rights that it had when presented.
    fn still_holds(&self, authority: &Authority) -> bool;

    /// Attaches a link over which a client sends to `entity`, or by way of it to `transfer_to`.
    async fn open_incoming(
        &self,
        entity: &EntityAddress,
        transfer_to: Option<&KnownEntity>,
    ) -> Result<Box<dyn IncomingLink>, AmqpError>;

    /// Attaches a link over which a client receives. A request for the next session may wait for one, until `gone` is
    /// cancelled.
    async fn open_outgoing(
        &self,
        request: ReceiverRequest,
        gone: &CancellationToken,
    ) -> Result<Box<dyn OutgoingLink>, AmqpError>;

    /// Returns the id of an entity, if clients can attach to it now in `role`. An entity that is created later under
    /// the same name has another id.
    fn identity(&self, entity: &EntityAddress, role: Option<LinkRole>) -> Result<i64, AmqpError>;

    /// Answers a management request. The caller has checked that the client is authorized.
    async fn manage(
        &self,
        entity: &KnownEntity,
        asked: EntityOperation,
        by: &Actor,
    ) -> Result<ManagementReply, AmqpError>;

    /// Prepares the changes that a request makes at the end of its transaction, and the immediate reply. The caller has
    /// checked that the client is authorized.
    async fn prepare(
        &self,
        entity: &KnownEntity,
        asked: EntityOperation,
        by: &Actor,
    ) -> Result<(Transaction, ManagementReply), AmqpError>;

    /// Checks for each lock that it is held now.
    async fn check_locks(
        &self,
        entity: &EntityAddress,
        tokens: Vec<Uuid>,
    ) -> Vec<Result<(), AmqpError>>;

    /// Commits all changes of a transaction or none. The caller has checked that the client is authorized. Runs to
    /// completion even if the client is gone.
    async fn commit(&self, changes: Transaction) -> Result<(), AmqpError>;
}

/// An entity by address and id. Later operations apply to this entity only, not to another one with the same name.
#[derive(Clone, Debug)]
pub struct KnownEntity {
    pub address: EntityAddress,
    /// See [`Container::identity`].
    pub id: i64,
}

/// Returns the error for a deleted entity. Another entity may have its name by now.
pub(super) fn deleted(entity: &EntityAddress) -> AmqpError {
    let problem = format!("The messaging entity '{entity}' was deleted.");
    AmqpError::new(NOT_FOUND, problem)
}

/// The changes of a transaction.
#[derive(Debug, Default)]
pub struct Transaction {
    pub sends: Vec<TransactionSend>,
    /// The numbers of cancelled scheduled messages, each list with its entity.
    pub cancels: Vec<(KnownEntity, Vec<i64>)>,
    pub settles: Vec<TransactionSettlement>,
    /// Session states to set, each with the entity of its session.
    pub states: Vec<(EntityAddress, HeldSession, Option<Bytes>)>,
}

impl Transaction {
    /// Adds the changes of another part of the transaction.
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

    /// Returns the number of messages and session states in the transaction.
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
    /// The entity to which the messages are forwarded from `to`.
    pub transfer_to: Option<KnownEntity>,
    pub messages: Vec<Message>,
    /// The numbers promised to scheduled messages.
    pub promised: Vec<PromisedNumber>,
}

/// A settlement of a message at the end of a transaction.
#[derive(Clone, Debug)]
pub struct TransactionSettlement {
    /// The entity that the message was received from.
    pub of: EntityAddress,
    /// The token of the message's lock.
    pub token: Uuid,
    pub outcome: ReceiverOutcome,
    /// The actor that has the right to receive from the entity, for the audit log.
    pub by: Actor,
    /// True if the client has already settled the message, and so cannot settle it again.
    pub is_settled: bool,
}

/// A client's request to receive.
#[derive(Clone, Debug)]
pub struct ReceiverRequest {
    pub entity: EntityAddress,
    /// The name of the link.
    pub link: String,
    /// The receiving actor, for the audit log.
    pub by: Actor,
    /// True if messages are locked until the client settles them. Otherwise messages are removed once they are written.
    pub lock: bool,
    pub session: Option<SessionSelection>,
    /// The time that the client waits for a session.
    pub session_wait: Option<Duration>,
}

/// Stores accepted messages. Starts when first polled, and completes when the messages are durable.
pub type Storing = BoxFuture<'static, Result<(), AmqpError>>;

/// The end of a link over which a client sends.
#[async_trait]
pub trait IncomingLink: Send + Sync {
    /// Returns the largest size of a message or batch in bytes, as announced to the client.
    fn message_bytes_max(&self) -> u64;

    /// Accepts messages. All of them are stored or none, in the order of acceptance. Storing runs to completion even if
    /// the client is gone.
    async fn send(&self, messages: Vec<Message>) -> Result<Storing, AmqpError>;
}

/// The end of a link over which a client receives.
#[async_trait]
pub trait OutgoingLink: Send + Sync {
    /// Returns the session that the link holds, if it has one.
    fn session(&self) -> Option<&HeldSession>;

    /// Returns the lock duration of messages.
    fn lock_duration(&self) -> Duration;

    /// Waits until the session lock has ended, and returns the error with which the link ends. Never completes for a
    /// link without a session. Can be cancelled.
    async fn ended(&self) -> AmqpError;

    /// Waits until a message can be taken. Can be cancelled. An error ends the link.
    async fn arrival(&self) -> Result<(), AmqpError>;

    /// Returns the largest total size of up to `limit` messages in bytes.
    fn bytes_max(&self, limit: usize) -> usize;

    /// Locks up to `limit` messages. Returns none if another receiver was quicker. Runs to completion even if the
    /// client is gone. An error ends the link.
    async fn take(&self, limit: usize) -> Result<Vec<OutgoingMessage>, AmqpError>;

    /// Renews the locks of messages that are not written yet. An expired lock stays expired.
    async fn renew(&self, locks: Vec<Uuid>);

    /// Settles messages by their locks. Returns one result per lock, in the same order. Runs to completion even if the
    /// client is gone.
    async fn settle(&self, locks: Vec<(Uuid, ReceiverOutcome)>) -> Vec<Result<(), AmqpError>>;

    /// Closes the link and releases its session. If `in_order` is true, the messages locked in the session go back as
    /// if not received; otherwise they count as received without success. Locks without a session stay until they
    /// expire.
    async fn close(&self, in_order: bool);
}

/// A message on its way to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingMessage {
    /// The token of the message's lock.
    pub token: Uuid,
    /// The encoded message.
    pub message: Vec<u8>,
}
