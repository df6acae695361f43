//! The task of a connection. Moves bytes between a stream and the state of the connection, and passes answers between
//! that state and the tasks of links.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::api::amqp::claims::ClaimSet;
use crate::api::amqp::connection::Connection;
use crate::api::amqp::container::{
    Container, KnownEntity, ReceiverRequest, Transaction, TransactionSend, TransactionSettlement,
    deleted,
};
use crate::api::amqp::event::{
    ConnectionEvent, Decision, DeliveredMessage, LinkId, PartOfTransaction,
};
use crate::api::amqp::limits::{
    CONNECTION_BYTES, COORDINATOR_BYTES_MAX, DELIVERY_BYTES, ENDING_TASKS_MAX, EXPIRY_LOOK,
    HURRIED_CLOSE_DEADLINE, LINK_TASK_BYTES, LINKS_MAX, MESSAGE_BYTES, OUTPUT_BYTES_MAX,
    READ_BYTES_MAX, READ_BYTES_MIN, REQUEST_BYTES_MAX, REQUESTS_AT_ONCE_MAX,
    STRANGER_OUTPUT_BYTES_MAX, TAKES_MAX, TASK_BYTES, TOKEN_BYTES_MAX, TOKEN_DEADLINE,
    TOKEN_LINKS_MAX, TOLD_WITHIN, WAITING_REQUEST_BYTES, WRITE_DEADLINE,
};
use crate::api::amqp::order::FrameOrder;
use crate::api::amqp::receipt::Unwritten;
use crate::api::amqp::replies::ReplyLinks;
use crate::api::amqp::session::{
    Acceptance, HandedOutMessage, named_bytes, nothing_left, too_many_links,
};
use crate::api::amqp::settled_locks::SettledLocks;
use crate::api::amqp::task_set::{AttachedLink, TaskSet};
use crate::api::amqp::tasks::{
    Arrived, Command, Credit, Deliver, DischargeResult, LocksChecked, PreparedRequest, Settle,
    Task, TaskReply, Work, answer_requests, authorized, hand_out, store_messages, token,
};
use crate::api::amqp::transactions::{
    Discharge, EndedTransaction, Enlisted, HeldTransaction, OpenPart, Transactions,
};
use crate::api::authority::Authority;
use crate::api::memory::Memory;
use crate::base::budget::{MemoryAccount, NothingLeft, TakenBytes};
use crate::base::seldom::SeldomLine;
use crate::base::{Clock, Stopwatch, Timestamp};
use crate::model::audit::Actor;
use crate::model::shared_access::Right;
use crate::wire::amqp::address::Address;
use crate::wire::amqp::cbs::{self, PutToken};
use crate::wire::amqp::condition::{
    AmqpError, CONNECTION_FORCED, ILLEGAL_STATE, NOT_ALLOWED, NOT_FOUND, NOT_IMPLEMENTED,
    RESOURCE_LIMIT_EXCEEDED, SESSION_LOCK_LOST, TRANSACTION_ROLLBACK, UNAUTHORIZED_ACCESS,
};
use crate::wire::amqp::management::{self, status_of};
use crate::wire::amqp::outcome::ReceiverOutcome;
use crate::wire::amqp::performative::{Attach, LinkRole, SenderSettles};
use crate::wire::amqp::state::{DeliveryState, Transactional};
use crate::wire::amqp::terminus::{LinkSource, LinkTarget};
use crate::wire::amqp::transaction;
use crate::wire::amqp::value::{Value, get};
use crate::wire::service_bus::entity::EntityAddress;

/// The parts that all connections share.
pub struct SharedServer {
    /// Returns the container for a client at this address.
    pub container: Box<dyn Fn(IpAddr) -> Arc<dyn Container> + Send + Sync>,
    pub clock: Clock,
    /// The AMQP container id of this process.
    pub container_id: String,
    /// Changes whenever authorization rules, keys or the management token may have changed.
    pub access: watch::Receiver<u64>,
    /// The memory that all connections keep for their clients.
    pub memory: Memory,
    /// Ends all connections.
    pub stop: CancellationToken,
    /// The rate-limited log line about connections of authenticated clients that end early.
    pub early_ends: Arc<SeldomLine>,
}

/// The memory that a connection has taken before it is served.
pub struct ConnectionMemory {
    pub own: TakenBytes,
    /// The account of the HTTP connection on which a WebSocket was opened. Its remaining memory counts for the key
    /// presented over the WebSocket.
    pub http: Option<MemoryAccount>,
}

impl From<TakenBytes> for ConnectionMemory {
    fn from(own: TakenBytes) -> Self {
        Self { own, http: None }
    }
}

/// Serves the connection of `client` until it ends and the tasks of its links have ended.
pub async fn serve<S>(
    stream: S,
    client: IpAddr,
    server: &SharedServer,
    memory: impl Into<ConnectionMemory>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let ConnectionMemory { own, http } = memory.into();
    let (commands, queue) = mpsc::unbounded_channel();
    let now = server.clock.now();
    let account = own.account().clone();
    if account.take(CONNECTION_BYTES).is_err() {
        tracing::debug!(%client, "there is no memory left for another AMQP connection");
        return;
    }
    let mut shell = Shell {
        server,
        container: (server.container)(client),
        is_known: false,
        own,
        http,
        output: account.nothing(),
        claims_kept: account.nothing(),
        settled_locks: Arc::new(SettledLocks::new(&account)),
        connection: Connection::new(server.container_id.clone(), account, now),
        links: HashMap::new(),
        replies: ReplyLinks::default(),
        token_links: 0,
        claims: watch::channel(ClaimSet::default()).0,
        looked_at: now,
        access: server.access.clone(),
        transactions: Transactions::default(),
        order: FrameOrder::new(),
        commands,
        held: VecDeque::new(),
        takes: Arc::new(Semaphore::new(TAKES_MAX)),
        requests: Arc::new(Semaphore::new(REQUESTS_AT_ONCE_MAX)),
        tasks: TaskSet::default(),
        token_deadline: Some(now + TOKEN_DEADLINE),
        written_at: now,
        heard: Stopwatch::begin(),
    };
    if let Err(cause) = shell.run(stream, queue).await {
        // Unauthenticated clients must not use up the log line of authenticated ones.
        if shell.is_known
            && let Some(unlogged) = server.early_ends.take(server.clock.now())
        {
            tracing::info!(
                %client,
                %cause,
                unlogged,
                "an AMQP connection ended early; further ones within a minute are only counted"
            );
        } else {
            tracing::debug!(%client, %cause, "an AMQP connection ended early");
        }
    }
    Box::pin(shell.end()).await; // a connection that lasts has no room for it
}

struct Shell<'a> {
    server: &'a SharedServer,
    container: Arc<dyn Container>,
    /// True once the peer has presented a valid key or token.
    is_known: bool,
    /// The memory taken for the stream.
    own: TakenBytes,
    /// See [`ConnectionMemory`].
    http: Option<MemoryAccount>,
    /// The memory taken for the output and the read buffer.
    output: TakenBytes,
    /// The memory taken for the claims.
    claims_kept: TakenBytes,
    connection: Connection,
    links: HashMap<LinkId, ServedLink>,
    /// The links over which the peer receives replies.
    replies: ReplyLinks,
    /// The number of links over which the peer presents tokens.
    token_links: usize,
    /// The rights of the peer from the keys and tokens that it has presented.
    claims: watch::Sender<ClaimSet>,
    /// The time of the last check for expired claims.
    looked_at: Timestamp,
    access: watch::Receiver<u64>,
    transactions: Transactions,
    order: FrameOrder,
    commands: mpsc::UnboundedSender<Box<Command>>,
    /// Messages that wait until earlier output has been sent.
    held: VecDeque<Deliver>,
    takes: Arc<Semaphore>,
    settled_locks: Arc<SettledLocks>,
    /// Limits the number of requests that are answered concurrently.
    requests: Arc<Semaphore>,
    tasks: TaskSet,
    /// The deadline for the first valid token; `None` once one was presented.
    token_deadline: Option<Timestamp>,
    /// The last time at which the peer accepted output, or there was none.
    written_at: Timestamp,
    /// Measures the time since the peer last sent something.
    heard: Stopwatch,
}

/// A link that was attached.
struct ServedLink {
    address: Address,
    /// The right that the peer needs at the address while the link lasts.
    right: Option<Right>,
    /// The actor that has this right, for the audit log.
    by: Actor,
    /// The id of the entity when the link was attached, if the entity existed.
    entity: Option<i64>,
    /// The entity to which messages of the link are forwarded, as it was when the link was attached.
    transfer_to: Option<KnownEntity>,
    end: ConnectionEnd,
}

impl ServedLink {
    /// Returns the entity as it was when the link was attached.
    fn known_entity(&self) -> Option<KnownEntity> {
        let address = self.address.entity()?.clone();
        let id = self.entity?;
        Some(KnownEntity { address, id })
    }
}

enum ConnectionEnd {
    /// A task serves the link.
    Task {
        inbox: mpsc::UnboundedSender<Box<Work>>,
        credit: watch::Sender<Credit>,
        /// Cancelled when the link is gone.
        gone: CancellationToken,
        _attached: AttachedLink,
    },
    /// The peer presents tokens.
    Tokens,
    /// The peer declares and discharges transactions.
    Coordinator,
    /// The peer receives replies of the node.
    Replies {
        /// The reply address that requests name.
        to: Option<String>,
        waiting: VecDeque<Bytes>,
        /// The memory taken for the waiting replies.
        memory: TakenBytes,
    },
}

/// Writes part of `output` and returns the number of bytes written. Flushes if `output` is empty, because a WebSocket
/// holds back unflushed bytes.
async fn write_or_flush(
    writer: &mut (impl AsyncWrite + Unpin),
    output: &[u8],
) -> io::Result<usize> {
    if output.is_empty() {
        writer.flush().await.map(|()| 0)
    } else {
        writer.write(output).await
    }
}

impl Shell<'_> {
    async fn run<S>(
        &mut self,
        stream: S,
        mut queue: mpsc::UnboundedReceiver<Box<Command>>,
    ) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let mut is_flushed = true;
        let mut buffer = ReadBuffer::new();
        let mut output = Bytes::new();
        let mut unwritten: Option<Unwritten> = None;
        let mut is_stopping = false;
        loop {
            self.give_turns().await;
            self.handle_events();
            self.deliver_held(output.len());
            // Output with receipts is flushed before more output is taken.
            let is_written = output.is_empty() && (is_flushed || unwritten.is_none());
            if is_written {
                output = self.connection.take_output(self.now()).into();
                unwritten = Unwritten::new(self.connection.take_receipts(), &self.order);
                self.written_at = self.now();
            }
            if self.connection.is_closed() && is_written && output.is_empty() {
                break;
            }
            let unsent = output.len() + self.connection.output_bytes();
            self.output.resize_anyway(unsent + buffer.bytes.len());
            let has_room = unsent < self.output_bytes_max();
            // Commands and ends of link tasks are handled before more input is read.
            self.tasks.join_ended();
            let reads = has_room && queue.is_empty() && !self.is_ending_too_much();
            let asked_to_close = self.connection.account().asked_to_close().clone();
            let is_writing = !output.is_empty() || !is_flushed;
            let deadline = self.deadline(is_writing);
            let waits_for_flush = !is_flushed && unwritten.is_some();
            let writable: &[u8] = if waits_for_flush { &[] } else { &output };
            tokio::select! {
                read = reader.read(&mut buffer.bytes), if reads && self.connection.wants_input() => {
                    match read? {
                        0 => self.connection.end(),
                        count => {
                            self.heard = Stopwatch::begin();
                            self.connection.receive(&buffer.bytes[..count], self.now());
                            buffer.fit(count);
                        }
                    }
                }
                written = write_or_flush(&mut writer, writable), if is_writing => {
                    let count = written?;
                    is_flushed = count == 0;
                    if is_flushed {
                        unwritten = unwritten.and_then(Unwritten::flushed);
                    } else if let Some(unwritten) = &mut unwritten {
                        unwritten.wrote(count);
                    }
                    let _ = output.split_to(count);
                    self.written_at = self.now();
                }
                () = tokio::task::yield_now(), if reads && self.connection.can_proceed() => {
                    self.connection.proceed(self.now());
                }
                Some(command) = queue.recv() => self.obey(*command),
                Some(()) = self.tasks.join_next() => {}
                Ok(()) = self.access.changed() => self.review(),
                () = tokio::time::sleep(deadline) => self.tick(is_writing)?,
                () = asked_to_close.cancelled(), if !is_stopping => {
                    is_stopping = true;
                    if is_writing && self.now() >= self.written_at + TOLD_WITHIN {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    let problem = "others need the memory that is kept for this connection";
                    let error = AmqpError::new(RESOURCE_LIMIT_EXCEEDED, problem);
                    self.held.clear();
                    // The memory of an unauthenticated client is freed at once.
                    let within = if self.is_known { HURRIED_CLOSE_DEADLINE } else { Duration::ZERO };
                    self.connection.close_within(within, error, self.now());
                }
                () = self.server.stop.cancelled(), if !is_stopping => {
                    is_stopping = true;
                    let error = AmqpError::new(CONNECTION_FORCED, "the server stops");
                    self.connection.close(error, self.now());
                }
            }
        }
        tokio::time::timeout(self.connection.closing_takes(), writer.shutdown()).await??;
        Ok(())
    }

    /// Yields to other tasks according to the cost of the processed frames, since one read may bring thousands of
    /// frames.
    async fn give_turns(&mut self) {
        for _ in 0..self.connection.take_cost() {
            tokio::task::coop::consume_budget().await;
        }
    }

    /// Ends all links, and waits until their tasks have finished.
    async fn end(mut self) {
        self.connection.end();
        self.handle_events();
        self.links.clear();
        self.held.clear();
        drop(self.connection.take_receipts());
        while self.tasks.join_next().await.is_some() {}
    }

    /// Returns whether more than `ENDING_TASKS_MAX` tasks of ended links are still running.
    fn is_ending_too_much(&self) -> bool {
        self.tasks.ending() > ENDING_TASKS_MAX
    }

    fn now(&self) -> Timestamp {
        self.server.clock.now()
    }

    fn output_bytes_max(&self) -> usize {
        if self.is_known {
            OUTPUT_BYTES_MAX
        } else {
            STRANGER_OUTPUT_BYTES_MAX
        }
    }

    /// Marks the peer as authenticated by `by`, and moves its memory to the account of the client. Fails if that
    /// account has no room.
    fn become_known(&mut self, by: &Authority) -> Result<(), AmqpError> {
        if self.is_known {
            return Ok(());
        }
        let account = self.server.memory.client(by);
        let room = account.take(self.connection.account().taken());
        drop(room.map_err(|NothingLeft| nothing_left("another connection"))?);
        self.is_known = true;
        if let Some(http) = &self.http {
            http.note_key(|| by.shown_key());
        }
        self.connection.move_to(&account);
        for kept in [&mut self.own, &mut self.output, &mut self.claims_kept] {
            kept.move_to(&account);
        }
        for link in self.links.values_mut() {
            if let ConnectionEnd::Replies { memory, .. } = &mut link.end {
                memory.move_to(&account);
            }
        }
        Ok(())
    }

    /// Returns the deadline for the peer to accept more output.
    fn write_by(&self) -> Timestamp {
        let by = self.written_at + WRITE_DEADLINE;
        let close_by = self.connection.close_by();
        close_by.map_or(by, |close_by| by.min(close_by))
    }

    /// Returns the time until the next timer is due.
    fn deadline(&self, is_writing: bool) -> Duration {
        let expiry = self.next_expiry();
        let written = is_writing.then(|| self.write_by());
        let all = [self.token_deadline, expiry, written];
        let others = all.into_iter().flatten();
        let first = others.fold(self.connection.deadline(), Timestamp::min);
        first.since(self.now()) + Duration::from_millis(1)
    }

    fn tick(&mut self, is_writing: bool) -> io::Result<()> {
        let now = self.now();
        self.connection.note_silence(self.heard.took(), now);
        if self.is_ending_too_much() {
            self.connection.note_unread(now);
        }
        self.connection.tick(now);
        for late in self.transactions.tick(now) {
            self.roll_back(late);
        }
        if is_writing && now >= self.write_by() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let has_expired = self.next_expiry().is_some_and(|at| now >= at);
        if has_expired {
            self.looked_at = now;
            self.claims
                .send_modify(|claims| claims.retain(|each| each.is_valid(now)));
        }
        if self.token_deadline.is_some_and(|deadline| now >= deadline) {
            self.token_deadline = None;
            let problem = "no valid token was shown in time";
            self.connection
                .close(AmqpError::new(UNAUTHORIZED_ACCESS, problem), now);
        }
        if has_expired {
            self.detach_unauthorized();
        }
        Ok(())
    }

    /// Returns the time of the next check for expired or lost claims. Checks are rate-limited, since each one visits
    /// all links.
    fn next_expiry(&self) -> Option<Timestamp> {
        let first = self.claims.borrow().look_at()?;
        Some(first.max(self.looked_at + EXPIRY_LOOK))
    }

    /// Ends the links that no remaining claim authorizes.
    fn detach_unauthorized(&mut self) {
        let now = self.now();
        let mut detached = Vec::new();
        for (id, link) in &mut self.links {
            let claims = self.claims.borrow();
            let may = |place: &Address| may_use(&claims, place, link.right, now, |_| true);
            let to = link.transfer_to.as_ref();
            let onward = to.map(|known| Address::Messages(known.address.clone()));
            let allowed = onward.as_ref().map_or(Ok(()), |place| may(place).map(drop));
            match allowed.and_then(|()| may(&link.address)) {
                Ok(by) => link.by = by,
                Err(error) => detached.push((*id, error)),
            }
        }
        for (link, error) in detached {
            self.connection.detach(link, error);
        }
    }

    /// Checks the peer's claims again after a change of rules, keys or tokens. Closes the connection if no claim is
    /// left.
    fn review(&mut self) {
        let had_any = !self.claims.borrow().is_empty();
        let container = Arc::clone(&self.container);
        self.claims
            .send_modify(|claims| claims.retain(|each| container.still_holds(each)));
        if had_any && self.claims.borrow().is_empty() {
            let problem =
                "the rule, key or token that opened this connection is gone or has changed";
            let error = AmqpError::new(UNAUTHORIZED_ACCESS, problem);
            self.connection.close(error, self.now());
        }
        self.detach_unauthorized();
        self.detach_gone();
    }

    /// Ends the links to entities that are gone, or that no longer allow the link's role.
    fn detach_gone(&mut self) {
        let mut detached = Vec::new();
        for (id, link) in &self.links {
            let role = link.right.map(|right| match right {
                Right::Send => LinkRole::Sender,
                Right::Listen | Right::Manage => LinkRole::Receiver,
            });
            let own = link.address.entity().zip(link.entity);
            let gone = own.and_then(|(entity, known)| self.gone(entity, known, role));
            let onward = link.transfer_to.as_ref();
            let onward_gone =
                || onward.and_then(|to| self.gone(&to.address, to.id, Some(LinkRole::Sender)));
            detached.extend(gone.or_else(onward_gone).map(|error| (*id, error)));
        }
        for (link, error) in detached {
            self.connection.detach(link, error);
        }
    }

    /// Returns the error with which links to the entity with the id `known` have to end; `None` while they can stay.
    fn gone(
        &self,
        entity: &EntityAddress,
        known: i64,
        role: Option<LinkRole>,
    ) -> Option<AmqpError> {
        match self.container.identity(entity, role) {
            Ok(now) if now == known => None,
            Ok(_) => Some(deleted(entity)),
            Err(error) => Some(error),
        }
    }

    /// Returns the actor that may use `address` with `right`, by the claims that still hold.
    fn check(&self, address: &Address, right: Option<Right>) -> Result<Actor, AmqpError> {
        let holds = |each: &Authority| self.container.still_holds(each);
        may_use(&self.claims.borrow(), address, right, self.now(), holds)
    }

    fn handle_events(&mut self) {
        while let Some(event) = self.connection.next_event() {
            self.handle(event);
        }
    }

    fn handle(&mut self, event: ConnectionEvent) {
        match event {
            ConnectionEvent::Plain(plain) => {
                let claims = self.container.plain(&plain);
                let is_right = claims.is_some_and(|claims| self.claim(claims).is_ok());
                let now = self.now();
                self.connection.authenticated(is_right, now);
            }
            ConnectionEvent::Attached { link, attach } => {
                if let Err(error) = self.attach(link, &attach) {
                    self.connection.detach(link, error);
                }
            }
            ConnectionEvent::Message {
                link,
                delivery,
                format,
                payload,
                transaction,
                taken,
            } => {
                let arrived = Arrived {
                    delivery,
                    format,
                    payload,
                    memory: taken,
                    behind: None,
                    part: None,
                };
                self.on_message(link, arrived, transaction);
            }
            ConnectionEvent::Credit { link, limit, drain } => self.on_credit(link, limit, drain),
            ConnectionEvent::Disposition {
                link,
                deliveries,
                decision,
                settled,
            } => match decision {
                Decision::None => {}
                Decision::Now(outcome) => self.settle(link, deliveries, outcome, !settled),
                Decision::InTransaction(part) => self.settle_in(&part, link, deliveries, settled),
            },
            ConnectionEvent::Detaching { link } => {
                if let Some(link) = self.links.get(&link) {
                    link.end.work(Work::Detached);
                }
            }
            ConnectionEvent::Detached { link, by_peer } => self.on_detached(link, by_peer),
        }
    }

    /// Passes a settlement to the task of the link. The memory for the outcome's properties is taken for each message
    /// until it is settled.
    fn settle(
        &mut self,
        link: LinkId,
        deliveries: Vec<DeliveredMessage>,
        outcome: ReceiverOutcome,
        answer: bool,
    ) {
        let Some(attached) = self.links.get(&link) else {
            return;
        };
        let bytes = outcome.bytes() * deliveries.len();
        match self.connection.account().take(bytes) {
            Ok(mut memory) => {
                // Deliveries that the peer has settled itself are no longer counted by their session.
                memory.add_anyway(deliveries.len() * DELIVERY_BYTES);
                attached.end.work(Work::Settle(Settle {
                    deliveries,
                    outcome,
                    answer,
                    memory,
                    turn: self.order.turn(),
                }));
            }
            Err(NothingLeft) => {
                let error = nothing_left("the properties of so many messages");
                let state = DeliveryState::Rejected(Some(error));
                let rejected = deliveries.iter().map(|each| (each.id, state.clone()));
                let answers = rejected.collect();
                attached.end.work(Work::Settled(deliveries));
                self.connection.settle_outgoing(link, answers);
            }
        }
    }

    fn on_detached(&mut self, id: LinkId, by_peer: bool) {
        let Some(link) = self.links.remove(&id) else {
            return;
        };
        match &link.end {
            ConnectionEnd::Coordinator => {
                for open in self.transactions.end_of(id) {
                    self.roll_back(open);
                }
            }
            ConnectionEnd::Replies { to, .. } => {
                let node = link.address.to_string();
                self.replies.remove(&node, to.as_deref(), id);
            }
            ConnectionEnd::Tokens => self.token_links -= 1,
            ConnectionEnd::Task { .. } => {}
        }
        if by_peer {
            link.end.work(Work::Detached);
        }
        if let ConnectionEnd::Task { gone, .. } = link.end {
            gone.cancel();
        }
    }

    fn attach(&mut self, link: LinkId, attach: &Attach) -> Result<(), AmqpError> {
        check_offered(attach)?;
        let (named, other) = match (attach.role, &attach.target) {
            (LinkRole::Sender, Some(LinkTarget::Node { address, .. })) => {
                (address.as_deref(), None)
            }
            (LinkRole::Sender, Some(LinkTarget::Coordinator) | None) => (None, None),
            (LinkRole::Receiver, to) => {
                let source = attach.source.as_ref();
                let to = match to {
                    Some(LinkTarget::Node { address, .. }) => address.clone(),
                    Some(LinkTarget::Coordinator) | None => None,
                };
                (source.and_then(|source| source.address.as_deref()), to)
            }
        };
        let address = match (attach.role, &attach.target) {
            (LinkRole::Sender, Some(LinkTarget::Coordinator)) => Address::Coordinator,
            _ => find(named.filter(|name| !name.is_empty()).ok_or_else(|| {
                let problem = "the link names no address; nodes are not made for clients";
                AmqpError::new(NOT_IMPLEMENTED, problem)
            })?)?,
        };
        let right = match (&address, attach.role) {
            (Address::Messages(_), LinkRole::Sender) => Some(Right::Send),
            (Address::Messages(_), LinkRole::Receiver) => Some(Right::Listen),
            (Address::Tokens | Address::Coordinator | Address::Management(_), _) => None,
        };
        let by = self.check(&address, right)?;
        if !self.is_known && address != Address::Tokens {
            let problem = "no valid token was shown yet";
            return Err(AmqpError::new(UNAUTHORIZED_ACCESS, problem));
        }
        let transfer_to = self.transfer_destination(attach, right)?;
        let end = match (&address, attach.role) {
            (Address::Tokens, LinkRole::Sender) => {
                self.check_token_links(attach.role)?;
                self.connection
                    .accept(link, Acceptance::of_requests(TOKEN_BYTES_MAX));
                ConnectionEnd::Tokens
            }
            (Address::Coordinator, _) => {
                self.connection
                    .accept(link, Acceptance::up_to(COORDINATOR_BYTES_MAX));
                ConnectionEnd::Coordinator
            }
            (Address::Tokens | Address::Management(_), LinkRole::Receiver) => {
                if address == Address::Tokens {
                    self.check_token_links(attach.role)?;
                }
                self.connection.accept(link, Acceptance::default());
                ConnectionEnd::Replies {
                    to: other,
                    waiting: VecDeque::new(),
                    memory: self.connection.account().nothing(),
                }
            }
            (Address::Management(entity), LinkRole::Sender) => {
                let (claims, clock) = (self.claims.subscribe(), self.server.clock.clone());
                let places = self.requests.clone();
                self.spawn(link, attach, entity, |task, _| {
                    answer_requests(task, claims, clock, REQUEST_BYTES_MAX, places)
                })?
            }
            (Address::Messages(entity), LinkRole::Sender) => {
                let onward = transfer_to.clone();
                self.spawn(link, attach, entity, |task, _| store_messages(task, onward))?
            }
            (Address::Messages(entity), LinkRole::Receiver) => {
                let request = receiver_request(entity, attach, by.clone());
                let (takes, clock) = (self.takes.clone(), self.server.clock.clone());
                self.spawn(link, attach, entity, |task, credit| {
                    hand_out(task, request, credit, takes, clock)
                })?
            }
        };
        let role = right.map(|_| attach.role);
        let identity = |entity| self.container.identity(entity, role).ok();
        let entity = address.entity().and_then(identity);
        let attached = ServedLink {
            address,
            right,
            by,
            entity,
            transfer_to,
            end,
        };
        match &attached.end {
            ConnectionEnd::Replies { to, .. } => {
                let node = attached.address.to_string();
                self.replies.add(&node, to.as_deref(), link);
            }
            ConnectionEnd::Tokens => self.token_links += 1,
            ConnectionEnd::Task { .. } | ConnectionEnd::Coordinator => {}
        }
        self.links.insert(link, attached);
        Ok(())
    }

    /// Returns the entity to which messages of a link are forwarded, if the peer names one. Fails if the peer may not
    /// send there.
    fn transfer_destination(
        &self,
        attach: &Attach,
        right: Option<Right>,
    ) -> Result<Option<KnownEntity>, AmqpError> {
        let named = attach.transfer_destination();
        let Some(named) = named.filter(|_| right == Some(Right::Send)) else {
            return Ok(None);
        };
        let place = find(named)?;
        self.check(&place, right)?;
        match place {
            Address::Messages(address) => {
                let id = self.container.identity(&address, Some(LinkRole::Sender))?;
                Ok(Some(KnownEntity { address, id }))
            }
            Address::Management(_) | Address::Tokens | Address::Coordinator => {
                let problem = format!("messages go on to queues and topics, and not to {named}");
                Err(AmqpError::new(NOT_ALLOWED, problem))
            }
        }
    }

    /// Rejects a `$cbs` link beyond the limit, with Azure's condition. Go's client then opens a new connection, but
    /// gives up at any other condition.
    fn check_token_links(&self, role: LinkRole) -> Result<(), AmqpError> {
        let most = if self.is_known { TOKEN_LINKS_MAX } else { 1 };
        let links = match role {
            LinkRole::Sender => self.token_links,
            LinkRole::Receiver => self.replies.count(&Address::Tokens.to_string()),
        };
        if links < most {
            return Ok(());
        }
        let problem = format!("a connection has at most {most} links to and from $cbs now");
        Err(AmqpError::new(NOT_ALLOWED, problem))
    }

    fn spawn<F>(
        &mut self,
        link: LinkId,
        attach: &Attach,
        entity: &EntityAddress,
        run: impl FnOnce(Task, watch::Receiver<Credit>) -> F,
    ) -> Result<ConnectionEnd, AmqpError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // Tasks of ended links count until they have ended, too.
        if self.tasks.len() >= LINKS_MAX {
            return Err(too_many_links());
        }
        let bytes = LINK_TASK_BYTES + 3 * named_bytes(attach);
        let room = self.connection.account().take(bytes);
        let held = room.map_err(|NothingLeft| nothing_left("another link"))?;
        let (inbox, work) = mpsc::unbounded_channel();
        let (credit, credit_of) = watch::channel(Credit::default());
        let gone = CancellationToken::new();
        let task = Task {
            link,
            entity: entity.clone(),
            container: Arc::clone(&self.container),
            commands: self.commands.clone(),
            inbox: work,
            account: self.connection.account().clone(),
            settled_locks: Arc::clone(&self.settled_locks),
            gone: gone.clone(),
        };
        self.tasks.spawn(held, run(task, credit_of));
        Ok(ConnectionEnd::Task {
            inbox,
            credit,
            gone,
            _attached: self.tasks.attached(),
        })
    }

    fn on_message(&mut self, link: LinkId, mut arrived: Arrived, transaction: Option<Bytes>) {
        let Some(attached) = self.links.get(&link) else {
            return;
        };
        if let Address::Management(_) = attached.address {
            arrived.behind = Some(self.order.behind());
            arrived.memory.add_anyway(WAITING_REQUEST_BYTES);
        }
        match (&attached.end, transaction) {
            (ConnectionEnd::Task { .. }, None) => attached.end.work(Work::Message(arrived)),
            (ConnectionEnd::Task { .. }, Some(transaction)) => {
                if let Address::Management(_) = attached.address {
                    let part = self.transactions.begin_part(&transaction, &self.commands);
                    arrived.part = Some(part);
                    attached.end.work(Work::Message(arrived));
                } else {
                    self.send_in(transaction, link, &arrived);
                }
            }
            (ConnectionEnd::Tokens, _) => self.on_token(link, &arrived),
            (ConnectionEnd::Coordinator, _) => self.on_coordination(link, &arrived),
            // The peer is the receiver of such a link, so the connection rejects messages over it.
            (ConnectionEnd::Replies { .. }, _) => {}
        }
    }

    fn on_token(&mut self, link: LinkId, arrived: &Arrived) {
        let state = match arrived.request() {
            Ok(message) => {
                let properties = message.properties().unwrap_or_default();
                let claimed = PutToken::parse(&message).and_then(|request| {
                    let claims = self.container.token(&request)?;
                    self.claim(claims.clone())?;
                    self.check_named(&request.audience, &claims)
                });
                let (status, description) = match &claimed {
                    // Azure answers 202; the Rust client accepts no other status.
                    Ok(()) => (202, "Accepted"),
                    Err(error) => (status_of(error), error.description.as_str()),
                };
                let message = cbs::reply(properties.message_id, status, description);
                let mut memory = self.connection.account().nothing();
                memory.add_anyway(message.len());
                self.reply(TaskReply {
                    request: link,
                    to: properties.reply_to,
                    message,
                    memory,
                });
                DeliveryState::Accepted
            }
            Err(error) => DeliveryState::Rejected(Some(error)),
        };
        let settled = vec![(arrived.delivery, state)];
        self.connection.settle_incoming(link, settled);
    }

    /// Fails if the entity of a token is missing, for a peer that detects this by the reply to its token. Succeeds if
    /// the token does not cover the entity's address.
    fn check_named(&self, audience: &str, claims: &Authority) -> Result<(), AmqpError> {
        let named =
            Address::parse(audience).filter(|_| self.connection.reads_missing_from_tokens());
        let Some(entity) = named.as_ref().and_then(Address::entity) else {
            return Ok(());
        };
        let place = Address::Messages(entity.clone());
        let mut own = ClaimSet::default();
        own.add(claims.clone());
        match may_use(&own, &place, None, self.now(), |_| true) {
            Ok(_) => self.container.identity(entity, None).map(drop),
            Err(_) => Ok(()),
        }
    }

    /// Answers a request to the transaction coordinator.
    fn on_coordination(&mut self, link: LinkId, arrived: &Arrived) {
        let delivery = arrived.delivery;
        let request = arrived.request();
        let asked = request.and_then(|message| transaction::CoordinatorRequest::parse(&message));
        let done = asked.and_then(|asked| match asked {
            transaction::CoordinatorRequest::Declare => {
                let now = self.now();
                let account = self.connection.account();
                let id = self.transactions.declare(link, account, now)?;
                Ok(Some(DeliveryState::Declared(id)))
            }
            transaction::CoordinatorRequest::Discharge { transaction, fail } => {
                let discharge = Discharge {
                    transaction,
                    fail,
                    link,
                    delivery,
                };
                match self.transactions.postpone(discharge) {
                    Some(discharge) => self.discharge(&discharge),
                    None => Ok(None),
                }
            }
        });
        self.coordinated(link, delivery, done);
    }

    fn coordinated(
        &mut self,
        link: LinkId,
        delivery: u32,
        done: Result<Option<DeliveryState>, AmqpError>,
    ) {
        let state = done.unwrap_or_else(|error| Some(DeliveryState::Rejected(Some(error))));
        if let Some(state) = state {
            self.connection
                .settle_incoming(link, vec![(delivery, state)]);
        }
    }

    /// Ends a transaction. Returns the outcome, or `None` if the outcome follows after the commit.
    fn discharge(&mut self, discharge: &Discharge) -> Result<Option<DeliveryState>, AmqpError> {
        let found = self.transactions.discharge(&discharge.transaction);
        if discharge.fail {
            if let Ok(ended) = found {
                self.roll_back(ended);
            }
            return Ok(Some(DeliveryState::Accepted));
        }
        let mut ended = found?;
        if let Some(AmqpError { description, .. }) = ended.failed.take() {
            self.roll_back(ended);
            return Err(AmqpError::new(TRANSACTION_ROLLBACK, description));
        }
        if let Err(error) = self.check_transaction(&ended.changes) {
            self.roll_back(ended);
            return Err(AmqpError::new(TRANSACTION_ROLLBACK, error.description));
        }
        self.commit(discharge.link, discharge.delivery, ended);
        Ok(None)
    }

    /// Checks that the peer is still authorized for all changes of a transaction. Rights may have been lost since the
    /// changes were added.
    fn check_transaction(&self, changes: &Transaction) -> Result<(), AmqpError> {
        let sends = changes
            .sends
            .iter()
            .map(|each| (&each.to.address, Right::Send));
        let transfers = changes
            .sends
            .iter()
            .filter_map(|each| Some((&each.transfer_to.as_ref()?.address, Right::Send)));
        let cancels = changes
            .cancels
            .iter()
            .map(|(of, _)| (&of.address, Right::Send));
        let settles = changes.settles.iter().map(|each| (&each.of, Right::Listen));
        let states = changes.states.iter().map(|(of, ..)| (of, Right::Listen));
        let mut checked = HashSet::new();
        let all = sends.chain(transfers).chain(cancels);
        for (entity, right) in all.chain(settles).chain(states) {
            if checked.insert((entity, right == Right::Send)) {
                self.check(&Address::Messages(entity.clone()), Some(right))?;
            }
        }
        Ok(())
    }

    /// Commits a transaction that was discharged over `link`.
    fn commit(&mut self, link: LinkId, delivery: u32, mut ended: EndedTransaction) {
        let (container, commands) = (Arc::clone(&self.container), self.commands.clone());
        let given_back = ended.given_back();
        let changes = std::mem::take(&mut ended.changes);
        let (HeldTransaction { taken, one }, enlisted) = (ended.held, ended.enlisted);
        self.tasks.spawn(taken, async move {
            let committed = container.commit(changes).await;
            if committed.is_err() {
                give_back(&*container, given_back).await;
            }
            drop(one);
            // A connection that is gone needs nothing any more.
            let discharged = Command::Discharged(DischargeResult {
                link,
                delivery,
                enlisted,
                committed,
            });
            let _ = commands.send(Box::new(discharged));
        });
    }

    /// Sends the peer the outcome of a transaction, and settles the enlisted deliveries.
    fn end_transaction(&mut self, end: DischargeResult) {
        let state = match end.committed {
            Ok(()) => {
                for each in end.enlisted {
                    let settled = vec![(each.delivery.id, each.outcome)];
                    if let Some(link) = self.links.get(&each.link) {
                        link.end.work(Work::Settled(vec![each.delivery]));
                    }
                    self.connection.settle_outgoing(each.link, settled);
                }
                DeliveryState::Accepted
            }
            Err(error) => {
                self.reopen(&end.enlisted);
                DeliveryState::Rejected(Some(error))
            }
        };
        let settled = vec![(end.delivery, state)];
        self.connection.settle_incoming(end.link, settled);
    }

    /// Rolls back a transaction. Unlocks the messages that the peer has already settled; the peer can settle the others
    /// again.
    fn roll_back(&mut self, ended: EndedTransaction) {
        self.reopen(&ended.enlisted);
        let (given_back, container) = (ended.given_back(), Arc::clone(&self.container));
        if !given_back.is_empty() {
            let HeldTransaction { taken, one } = ended.held;
            self.tasks.spawn(taken, async move {
                give_back(&*container, given_back).await;
                drop(one);
            });
        }
    }

    fn reopen(&mut self, enlisted: &[Enlisted]) {
        for each in enlisted {
            self.connection.reopen(each.link, each.delivery.id);
        }
    }

    /// Adds the changes of a request to its transaction, and answers the request.
    fn take_part(&mut self, part: PreparedRequest) {
        let done = part.prepared.and_then(|(changes, reply)| {
            self.transactions
                .add(&part.transaction, changes, part.bytes)?;
            Ok(reply)
        });
        let message = management::reply(part.asked.message_id, &done);
        let mut memory = self.connection.account().nothing();
        memory.add_anyway(message.len());
        self.reply(TaskReply {
            request: part.link,
            to: part.asked.reply_to,
            message,
            memory,
        });
        let accepted = vec![(part.delivery, DeliveryState::Accepted)];
        self.connection.settle_incoming(part.link, accepted);
    }

    /// Adds a message to its transaction.
    fn send_in(&mut self, transaction: Bytes, link: LinkId, arrived: &Arrived) {
        let kept = arrived.messages().and_then(|messages| {
            let attached = self.links.get(&link);
            let send = TransactionSend {
                to: self.target(link)?,
                transfer_to: attached.and_then(|link| link.transfer_to.clone()),
                messages,
                promised: Vec::new(),
            };
            let changes = Transaction {
                sends: vec![send],
                ..Transaction::default()
            };
            let bytes = arrived.payload.len();
            self.transactions.add(&transaction, changes, bytes)
        });
        let state = match kept {
            Ok(()) => DeliveryState::Transactional(Transactional {
                transaction,
                outcome: Some(Box::new(DeliveryState::Accepted)),
            }),
            Err(error) => DeliveryState::Rejected(Some(error)),
        };
        let settled = vec![(arrived.delivery, state)];
        self.connection.settle_incoming(link, settled);
    }

    /// Adds settlements to a transaction. The peer is answered once the locks of the messages have been checked.
    fn settle_in(
        &mut self,
        part: &PartOfTransaction,
        link: LinkId,
        deliveries: Vec<DeliveredMessage>,
        settled: bool,
    ) {
        // An unsettled disposition needs an answer, and a task that checks the locks first.
        let taken = (!settled).then(|| self.connection.account().take(TASK_BYTES));
        let room = taken.transpose();
        let held = room.map_err(|NothingLeft| nothing_left("what a transaction settles"));
        let kept = held.and_then(|held| {
            let (entity, outcome) = self.keep_settlements(part, link, &deliveries, settled)?;
            Ok((entity, outcome, held))
        });
        let checks = kept.and_then(|(entity, outcome, held)| {
            let open = held.map(|held| {
                let begun = self
                    .transactions
                    .begin_part(&part.transaction, &self.commands);
                begun.map(|begun| (begun, held))
            });
            Ok(open.transpose()?.map(|open| (entity, outcome, open)))
        });
        match checks {
            Ok(Some((entity, outcome, (begun, held)))) => {
                self.check_locks(link, deliveries, entity, outcome, begun, held);
            }
            Ok(None) => self.note_settled(link, deliveries), // the peer waits for no answer
            Err(error) => {
                let state = DeliveryState::Rejected(Some(error));
                let ids = deliveries.iter().map(|each| each.id);
                let answers = ids.map(|id| (id, state.clone())).collect();
                self.note_settled(link, deliveries);
                if !settled {
                    self.connection.settle_outgoing(link, answers);
                }
            }
        }
    }

    fn keep_settlements(
        &mut self,
        part: &PartOfTransaction,
        link: LinkId,
        deliveries: &[DeliveredMessage],
        is_settled: bool,
    ) -> Result<(EntityAddress, ReceiverOutcome), AmqpError> {
        let outcome = part.outcome.clone().ok_or_else(|| {
            let problem = "what a transaction settles needs an outcome";
            AmqpError::new(ILLEGAL_STATE, problem)
        })?;
        let entity = self.entity(link)?.clone();
        let by = &self.links[&link].by;
        let tokens = deliveries.iter().filter_map(|each| token(&each.tag));
        let settles: Vec<_> = tokens
            .map(|token| TransactionSettlement {
                of: entity.clone(),
                token,
                outcome: outcome.clone(),
                by: by.clone(),
                is_settled,
            })
            .collect();
        let bytes = outcome.bytes() * settles.len();
        let changes = Transaction {
            settles,
            ..Transaction::default()
        };
        self.transactions.add(&part.transaction, changes, bytes)?;
        Ok((entity, outcome))
    }

    /// Starts a task that checks which of the messages are still locked.
    fn check_locks(
        &mut self,
        link: LinkId,
        deliveries: Vec<DeliveredMessage>,
        entity: EntityAddress,
        outcome: ReceiverOutcome,
        part: OpenPart,
        held: TakenBytes,
    ) {
        let (container, commands) = (Arc::clone(&self.container), self.commands.clone());
        let turn = self.order.turn();
        self.tasks.spawn(held, async move {
            let tokens = deliveries.iter().filter_map(|each| token(&each.tag));
            let checked = container.check_locks(&entity, tokens.collect()).await;
            let has_token = |each: &DeliveredMessage| token(&each.tag).is_some();
            let with_tokens = deliveries.into_iter().filter(has_token);
            // A connection that is gone needs nothing any more.
            let enlist = Command::Enlist(LocksChecked {
                link,
                part,
                outcome,
                checked: with_tokens.zip(checked).collect(),
            });
            let _ = commands.send(Box::new(enlist));
            drop(turn);
        });
    }

    /// Answers settlements in a transaction. Messages that are still locked wait for the end of the transaction; the
    /// others are rejected.
    fn enlist(&mut self, locks: LocksChecked) {
        let LocksChecked {
            link,
            part,
            outcome,
            checked,
        } = locks;
        let mut lost = HashSet::new();
        let (mut enlisted, mut rejected) = (Vec::new(), Vec::new());
        for (delivery, result) in checked {
            match result {
                Ok(()) => enlisted.push(Enlisted {
                    link,
                    delivery,
                    outcome: outcome.confirmation(),
                }),
                Err(error) => {
                    lost.extend(token(&delivery.tag));
                    rejected.push((delivery, error));
                }
            }
        }
        if let Err(error) = self.transactions.withdraw(&part.transaction, &lost) {
            let gone = enlisted.drain(..);
            rejected.extend(gone.map(|each: Enlisted| (each.delivery, error.clone())));
        }
        let state = DeliveryState::Transactional(Transactional {
            transaction: part.transaction.clone(),
            outcome: Some(Box::new(outcome.confirmation())),
        });
        let answers = enlisted
            .iter()
            .map(|each| (each.delivery.id, state.clone()));
        self.connection.enlist_outgoing(link, answers.collect());
        self.transactions
            .enlist(&part.transaction, enlisted.into_iter());
        for (delivery, error) in rejected {
            // Clients detect a lost session lock only by the end of the link.
            if error.condition == SESSION_LOCK_LOST {
                self.connection.detach(link, error);
                continue;
            }
            let answer = vec![(delivery.id, DeliveryState::Rejected(Some(error)))];
            self.note_settled(link, vec![delivery]);
            self.connection.settle_outgoing(link, answer);
        }
    }

    /// Tells the task of a link that these messages are settled.
    fn note_settled(&self, link: LinkId, deliveries: Vec<DeliveredMessage>) {
        if let Some(link) = self.links.get(&link) {
            link.end.work(Work::Settled(deliveries));
        }
    }

    /// Returns the entity that a link sends to, as it was when the link was attached.
    fn target(&self, link: LinkId) -> Result<KnownEntity, AmqpError> {
        let entity = self.entity(link)?;
        let known = self.links.get(&link).and_then(ServedLink::known_entity);
        known.ok_or_else(|| {
            let problem = format!("The messaging entity '{entity}' could not be found.");
            AmqpError::new(NOT_FOUND, problem)
        })
    }

    /// Returns the entity whose messages a link transfers.
    fn entity(&self, link: LinkId) -> Result<&EntityAddress, AmqpError> {
        match self.links.get(&link).map(|link| &link.address) {
            Some(Address::Messages(entity)) => Ok(entity),
            _ => {
                let problem = "only messages can be part of a transaction";
                Err(AmqpError::new(NOT_ALLOWED, problem))
            }
        }
    }

    /// Adds the authority of a key or token to the claims. The oldest claim is dropped if there are too many.
    fn claim(&mut self, claims: Authority) -> Result<(), AmqpError> {
        self.become_known(&claims)?;
        self.token_deadline = None;
        let room = self.claims_kept.add(claims.bytes());
        room.map_err(|NothingLeft| nothing_left("another token"))?;
        self.claims.send_modify(|held| held.add(claims));
        let bytes = self.claims.borrow().bytes();
        self.claims_kept.resize_anyway(bytes);
        Ok(())
    }

    fn on_credit(&mut self, link: LinkId, limit: u32, drain: bool) {
        let Some(attached) = self.links.get_mut(&link) else {
            return;
        };
        match &mut attached.end {
            ConnectionEnd::Task { credit, .. } => {
                credit.send_replace(Credit { limit, drain });
            }
            ConnectionEnd::Replies { .. } => {
                self.send_replies(link, None);
                if drain {
                    self.connection.drained(link, limit);
                }
            }
            ConnectionEnd::Tokens | ConnectionEnd::Coordinator => {}
        }
    }

    /// Sends a reply over the link with its reply address, otherwise over the first reply link of its node.
    fn reply(&mut self, reply: TaskReply) {
        let Some(request) = self.links.get(&reply.request) else {
            return;
        };
        let node = request.address.to_string();
        if let Some(link) = self.replies.find(&node, reply.to.as_deref()) {
            self.send_replies(link, Some(reply));
        }
    }

    /// Adds `reply` to the waiting replies, if there is one, and sends as many as the credit allows.
    fn send_replies(&mut self, link: LinkId, reply: Option<TaskReply>) {
        let Some(ServedLink {
            end: ConnectionEnd::Replies {
                waiting, memory, ..
            },
            ..
        }) = self.links.get_mut(&link)
        else {
            return;
        };
        if let Some(reply) = reply {
            drop(reply.memory); // it counts here from now on
            if memory.add(reply.message.len() + MESSAGE_BYTES).is_err() {
                waiting.clear();
                memory.resize_anyway(0);
                let error = nothing_left("the replies that wait for credit");
                return self.connection.detach(link, error);
            }
            waiting.push_back(Bytes::from(reply.message));
        }
        let credit = self.connection.credit(link).min(waiting.len());
        if credit == 0 {
            return;
        }
        let messages: Vec<HandedOutMessage> = waiting
            .drain(..credit)
            .map(|message| HandedOutMessage {
                tag: Bytes::new(),
                message,
                settled: true,
                receipt: None,
            })
            .collect();
        let sent = messages
            .iter()
            .map(|each| each.message.len() + MESSAGE_BYTES);
        memory.give_back(sent.sum());
        self.connection.deliver(link, messages);
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Accept(link, with) => self.connection.accept(link, with),
            Command::Detach(link, error) => self.connection.detach(link, error),
            Command::SettleIncoming(link, settled) => {
                self.connection.settle_incoming(link, settled);
            }
            Command::SettleOutgoing(link, settled) => {
                self.connection.settle_outgoing(link, settled);
            }
            Command::TakePart(part) => self.take_part(*part),
            Command::Enlist(locks) => self.enlist(locks),
            Command::PartEnded(transaction) => {
                if let Some(discharge) = self.transactions.end_part(&transaction) {
                    let done = self.discharge(&discharge);
                    self.coordinated(discharge.link, discharge.delivery, done);
                }
            }
            Command::Discharged(end) => self.end_transaction(end),
            Command::Forget(link, tags) => self.connection.forget(link, &tags),
            Command::Deliver(deliver) => self.held.push_back(deliver),
            Command::Drained(link, limit) => self.connection.drained(link, limit),
            Command::Reply(reply) => self.reply(reply),
        }
    }

    /// Hands out held messages while there is room in the output.
    fn deliver_held(&mut self, unsent: usize) {
        while unsent + self.connection.unsent_bytes() < OUTPUT_BYTES_MAX
            && let Some(deliver) = self.held.pop_front()
        {
            drop(deliver.memory); // what is delivered counts as output from now on
            let rest = self.connection.deliver(deliver.link, deliver.messages);
            // The send fails if the task has ended, which then needs no messages back.
            let _ = deliver.undelivered.send(rest);
        }
    }
}

/// The read buffer. Small for a peer that sends little, so that thousands of idle peers need little memory.
struct ReadBuffer {
    bytes: Vec<u8>,
}

impl ReadBuffer {
    fn new() -> Self {
        Self {
            bytes: vec![0; READ_BYTES_MIN],
        }
    }

    /// Doubles the buffer if a read filled it, and halves it if the read was less than an eighth of it.
    fn fit(&mut self, read: usize) {
        let bytes = self.bytes.len();
        let wanted = if read == bytes {
            2 * bytes
        } else if read < bytes / 8 {
            bytes / 2
        } else {
            bytes
        };
        let fitting = wanted.clamp(READ_BYTES_MIN, READ_BYTES_MAX);
        if fitting != bytes {
            self.bytes = vec![0; fitting];
        }
    }
}

impl ConnectionEnd {
    fn work(&self, work: Work) {
        if let Self::Task { inbox, .. } = self {
            // The send fails if the task has ended; its link is about to be detached.
            let _ = inbox.send(Box::new(work));
        }
    }
}

/// Rejects an attach that requests an unsupported feature.
fn check_offered(attach: &Attach) -> Result<(), AmqpError> {
    let source = attach.source.as_ref();
    if let Some(problem) = source.and_then(|source| source.not_offered.as_deref()) {
        return Err(AmqpError::new(NOT_IMPLEMENTED, problem));
    }
    let is_dynamic = match attach.role {
        LinkRole::Sender => matches!(attach.target, Some(LinkTarget::Node { dynamic: true, .. })),
        LinkRole::Receiver => source.is_some_and(|source| source.dynamic),
    };
    if is_dynamic {
        let problem = "dynamic nodes are not offered; name a queue, a topic or a subscription";
        return Err(AmqpError::new(NOT_IMPLEMENTED, problem));
    }
    Ok(())
}

/// Unlocks messages in separate transactions, since some of the locks may have expired.
async fn give_back(container: &dyn Container, settlements: Vec<TransactionSettlement>) {
    for settlement in settlements {
        let given_back = Transaction {
            settles: vec![settlement],
            ..Transaction::default()
        };
        if let Err(error) = container.commit(given_back).await {
            tracing::debug!(%error, "a message was not given back; its lock has to lapse");
        }
    }
}

/// Returns the address of the node that a client names.
fn find(named: &str) -> Result<Address, AmqpError> {
    Address::parse(named).ok_or_else(|| {
        let problem = format!("The messaging entity {named:?} could not be found.");
        AmqpError::new(NOT_FOUND, problem)
    })
}

/// Returns the actor that may use a link. Any client may use `$cbs` and the transaction coordinator. The changes of a
/// transaction are checked at their own links and at the end of the transaction.
fn may_use(
    shown: &ClaimSet,
    address: &Address,
    right: Option<Right>,
    now: Timestamp,
    holds: impl Fn(&Authority) -> bool,
) -> Result<Actor, AmqpError> {
    match address {
        Address::Tokens | Address::Coordinator => Ok(Actor::Appliance),
        Address::Messages(_) | Address::Management(_) => {
            authorized(shown, address, right, now, holds)
        }
    }
}

fn receiver_request(entity: &EntityAddress, attach: &Attach, by: Actor) -> ReceiverRequest {
    let wait = get(&attach.properties, "com.microsoft:timeout")
        .and_then(Value::as_integer)
        .and_then(|ms| u64::try_from(ms).ok());
    ReceiverRequest {
        entity: entity.clone(),
        link: attach.name.clone(),
        by,
        lock: attach.sender_settles != SenderSettles::Settled,
        session: attach.source.as_ref().and_then(LinkSource::session),
        session_wait: wait.map(Duration::from_millis),
    }
}
