//! The container whose nodes are queues, topics and event subscriptions. The other APIs serve the same entities.

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::api::ApiState;
use crate::api::amqp::container::{
    Container, IncomingLink, KnownEntity, OutgoingLink, ReceiverRequest, Transaction,
    TransactionSend, TransactionSettlement, deleted,
};
use crate::api::amqp::error::rolled_back;
use crate::api::amqp::management;
use crate::api::amqp::receiver::{LockDecisions, ReceiverLink, check_locks};
use crate::api::amqp::sessions::HeldSessions;
use crate::api::authority::{AccessDenied, Authority, ShownSignature};
use crate::broker::{MessageSender, MessagingEntity, MessagingError, MessagingTransaction};
use crate::model::audit::{Actor, Caller};
use crate::wire::amqp::AmqpError;
use crate::wire::amqp::cbs::{PutToken, SCHEME, TokenKind};
use crate::wire::amqp::condition::{AUTH_FAILED, UNAUTHORIZED_ACCESS};
use crate::wire::amqp::management::{EntityOperation, ManagementReply};
use crate::wire::amqp::performative::LinkRole;
use crate::wire::amqp::sasl::Plain;
use crate::wire::service_bus::entity::EntityAddress;

/// The broker's entities as seen by the client of one connection.
pub(in crate::api) struct EntityContainer {
    state: ApiState,
    client: IpAddr,
    sessions: Arc<HeldSessions>,
}

impl EntityContainer {
    /// Returns the container for a client at this address.
    pub(in crate::api) fn new(state: ApiState, client: IpAddr) -> Self {
        Self {
            state,
            client,
            sessions: Arc::default(),
        }
    }

    fn find(&self, entity: &EntityAddress) -> Result<MessagingEntity, MessagingError> {
        self.state.broker.resolve(entity)
    }

    /// Finds a known entity again. Fails if the entity is gone, even if another one has its name.
    fn find_again(&self, entity: &KnownEntity) -> Result<MessagingEntity, AmqpError> {
        let found = self.find(&entity.address)?;
        if found.id() == entity.id {
            return Ok(found);
        }
        Err(deleted(&entity.address))
    }

    /// Returns a sender to `entity`, or by way of it to `transfer_to`.
    fn sender(
        &self,
        entity: &MessagingEntity,
        transfer_to: Option<&KnownEntity>,
    ) -> Result<MessageSender, AmqpError> {
        Ok(match transfer_to {
            Some(onward) => entity.sender_to(&self.find_again(onward)?)?,
            None => entity.sender()?,
        })
    }

    /// Returns the caller for an action of `by` at the current time.
    fn caller(&self, by: &Actor) -> Caller {
        Caller {
            actor: by.clone(),
            address: Some(self.client),
            at: self.state.broker.clock().now(),
        }
    }

    fn note_denial(&self, what: &str) {
        let now = self.state.broker.clock().now();
        self.state.denials.note(Some(self.client), what, now);
    }
}

#[async_trait]
impl Container for EntityContainer {
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

    async fn open_incoming(
        &self,
        entity: &EntityAddress,
        transfer_to: Option<&KnownEntity>,
    ) -> Result<Box<dyn IncomingLink>, AmqpError> {
        let found = self.find(entity)?;
        Ok(Box::new(self.sender(&found, transfer_to)?))
    }

    async fn open_outgoing(
        &self,
        request: ReceiverRequest,
        gone: &CancellationToken,
    ) -> Result<Box<dyn OutgoingLink>, AmqpError> {
        let receiver = self.find(&request.entity)?.receiver()?;
        let (by, sessions) = (self.caller(&request.by), Arc::clone(&self.sessions));
        let opened = ReceiverLink::open(receiver, by, sessions, &request, gone);
        Ok(Box::new(opened.await?))
    }

    fn identity(&self, entity: &EntityAddress, role: Option<LinkRole>) -> Result<i64, AmqpError> {
        let found = self.find(entity)?;
        let id = found.id();
        match role {
            Some(LinkRole::Sender) => found.sender().map(drop)?,
            Some(LinkRole::Receiver) => found.receiver()?.check_receivable()?,
            None => {}
        }
        Ok(id)
    }

    async fn manage(
        &self,
        entity: &KnownEntity,
        asked: EntityOperation,
        by: &Actor,
    ) -> Result<ManagementReply, AmqpError> {
        let (found, by) = (self.find_again(entity)?, self.caller(by));
        management::answer(found, &by, &self.sessions, asked).await
    }

    async fn prepare(
        &self,
        entity: &KnownEntity,
        asked: EntityOperation,
        by: &Actor,
    ) -> Result<(Transaction, ManagementReply), AmqpError> {
        let found = self.find_again(entity)?;
        management::prepare(found, entity, by, &self.sessions, asked).await
    }

    async fn check_locks(
        &self,
        entity: &EntityAddress,
        tokens: Vec<Uuid>,
    ) -> Vec<Result<(), AmqpError>> {
        let found = self.find(entity).and_then(MessagingEntity::receiver);
        match found {
            Ok(receiver) => check_locks(&receiver, tokens).await,
            Err(error) => vec![Err(error.into()); tokens.len()],
        }
    }

    async fn commit(&self, changes: Transaction) -> Result<(), AmqpError> {
        let mut transaction = MessagingTransaction::default();
        for TransactionSend {
            to,
            transfer_to,
            messages,
            promised,
        } in changes.sends
        {
            let sender = self.sender(&self.find_again(&to)?, transfer_to.as_ref())?;
            transaction.send(&sender, messages, promised).await?;
        }
        for (of, numbers) in changes.cancels {
            let sender = self.find_again(&of)?.sender()?;
            let cancelled = transaction.cancel(&sender, numbers).await;
            cancelled.map_err(|error| rolled_back(&error))?;
        }
        for (_, held, state) in changes.states {
            transaction.set_state(held, state.map(|state| state.to_vec()));
        }
        let mut decisions = LockDecisions::default();
        for TransactionSettlement {
            of,
            token,
            outcome,
            by,
            ..
        } in changes.settles
        {
            let receiver = self.find(&of)?.receiver()?;
            let change = decisions.change(&receiver, token, &outcome)?;
            transaction.settle(&self.caller(&by), &receiver, change);
        }
        let committed = self.state.broker.commit(transaction).await;
        committed.map_err(|error| rolled_back(&error))
    }
}

/// Returns the host in the audience of a token.
fn host_of(audience: &str) -> &str {
    let rest = audience.split_once("://").map_or("", |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default()
}

/// Returns the shared access signature in a request, without the scheme prefix.
pub(super) fn signature(request: &PutToken) -> Result<&str, AmqpError> {
    match request.kind {
        TokenKind::SharedAccessSignature => {
            let text = request.token.reveal();
            Ok(text.strip_prefix(SCHEME).unwrap_or(text))
        }
        TokenKind::Other(_) => {
            let problem = "only shared access signatures are taken (type \
                           servicebus.windows.net:sastoken)";
            Err(AmqpError::new(UNAUTHORIZED_ACCESS, problem))
        }
    }
}

/// Returns the error for a token that grants nothing. Programs compare the beginning of its description.
pub(super) fn unproven(request: &PutToken, denied: &AccessDenied) -> AmqpError {
    let audience = &request.audience;
    let problem = format!("{denied}. The token was shown for {audience}.");
    AmqpError::new(AUTH_FAILED, problem)
}
