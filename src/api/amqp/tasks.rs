//! The tasks of links. Each task handles the work of its link in order, and batches work that has accumulated.

use std::collections::{HashMap, HashSet};
use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, OptionFuture};
use futures_util::stream::{FuturesOrdered, FuturesUnordered, StreamExt};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::api::amqp::claims::ClaimSet;
use crate::api::amqp::container::{
    Container, IncomingLink, KnownEntity, OutgoingLink, OutgoingMessage, ReceiverRequest,
    Transaction,
};
use crate::api::amqp::event::{DeliveredMessage, LinkId};
use crate::api::amqp::limits::{
    ANSWERING_BYTES, READ_IN_A_ROW_MAX, REQUEST_PARTS_FACTOR, STORING_BYTES, TAKE_MAX,
    UNSETTLED_MAX,
};
use crate::api::amqp::order::{Behind, Turn};
use crate::api::amqp::receipt::{Receipt, WriteReport};
use crate::api::amqp::session::{Acceptance, HandedOutMessage};
use crate::api::amqp::settled_locks::{SettledLock, SettledLocks};
use crate::api::amqp::transactions::{Enlisted, OpenPart};
use crate::api::authority::{Authority, Demand};
use crate::base::budget::{BeyondTurn, MemoryAccount, TakenBytes};
use crate::base::request_memory::{MEMORY_CHECK, MEMORY_WAIT};
use crate::base::{Clock, Timestamp};
use crate::model::audit::Actor;
use crate::model::limits::{LOCK_BYTES_MAX, SENT_MESSAGE_BYTES};
use crate::model::shared_access::Right;
use crate::wire::amqp::address::Address;
use crate::wire::amqp::condition::{
    AmqpError, DECODE_ERROR, SERVER_BUSY, SESSION_LOCK_LOST, UNAUTHORIZED_ACCESS,
};
use crate::wire::amqp::message::{Message, MessageProperties};
use crate::wire::amqp::outcome::ReceiverOutcome;
use crate::wire::amqp::state::DeliveryState;
use crate::wire::amqp::value::{Map, Value};
use crate::wire::amqp::{batch, management};
use crate::wire::service_bus::entity::EntityAddress;

/// .NET counts tenths of microseconds from the year 1.
const TICKS_AT_EPOCH: i64 = 621_355_968_000_000_000;
const TICKS_IN_MS: i64 = 10_000;

/// A command of a task to its connection.
pub(super) enum Command {
    Accept(LinkId, Acceptance),
    Detach(LinkId, AmqpError),
    SettleIncoming(LinkId, Vec<(u32, DeliveryState)>),
    SettleOutgoing(LinkId, Vec<(u64, DeliveryState)>),
    /// A request takes part in its transaction.
    TakePart(Box<PreparedRequest>),
    /// Reports the result of checking the locks that a peer settles in a transaction.
    Enlist(LocksChecked),
    /// Reports that a part of the transaction with this id was prepared.
    PartEnded(Bytes),
    Discharged(DischargeResult),
    /// Reports that the locks of the deliveries with these tags have expired, so that the deliveries need no
    /// settlement.
    Forget(LinkId, HashSet<Bytes>),
    Deliver(Deliver),
    /// Reports that a draining peer got all available messages, and that its credit is used up to this delivery count.
    Drained(LinkId, u32),
    Reply(TaskReply),
}

/// A request that was prepared as a part of a transaction.
pub(super) struct PreparedRequest {
    pub(super) transaction: Bytes,
    /// The changes of the request when the transaction is committed, and the immediate reply.
    pub(super) prepared: Result<(Transaction, management::ManagementReply), AmqpError>,
    /// The number of bytes that the request counts for in its transaction.
    pub(super) bytes: usize,
    /// The memory of the request and of its answer, held until the connection has handled the request.
    pub(super) _memory: [TakenBytes; 2],
    pub(super) asked: MessageProperties,
    /// The link and the delivery of the request.
    pub(super) link: LinkId,
    pub(super) delivery: u32,
}

/// Locks that a peer settles in a transaction, with the result of the check of each lock.
pub(super) struct LocksChecked {
    pub(super) link: LinkId,
    pub(super) part: OpenPart,
    pub(super) outcome: ReceiverOutcome,
    pub(super) checked: Vec<(DeliveredMessage, Result<(), AmqpError>)>,
}

/// How a transaction has ended.
pub(super) struct DischargeResult {
    /// The link over which the discharge arrived.
    pub(super) link: LinkId,
    pub(super) delivery: u32,
    pub(super) enlisted: Vec<Enlisted>,
    pub(super) committed: Result<(), AmqpError>,
}

/// Messages for the peer.
pub(super) struct Deliver {
    pub(super) link: LinkId,
    pub(super) messages: Vec<HandedOutMessage>,
    /// Receives the messages that could not be delivered for lack of link credit.
    pub(super) undelivered: oneshot::Sender<Vec<HandedOutMessage>>,
    /// The memory of the messages until they are written to the output buffer.
    pub(super) memory: TakenBytes,
}

/// An answer to a request.
pub(super) struct TaskReply {
    /// The link over which the request arrived.
    pub(super) request: LinkId,
    /// The reply-to address of the request.
    pub(super) to: Option<String>,
    pub(super) message: Vec<u8>,
    /// The bytes that it counts for.
    pub(super) memory: TakenBytes,
}

/// Work that a connection gives to a task.
pub(super) enum Work {
    Message(Arrived),
    Settle(Settle),
    /// These messages need no settlement by the task: the peer has settled them in a transaction, or their settlement
    /// failed.
    Settled(Vec<DeliveredMessage>),
    /// The peer has detached the link. Messages that it received over the link can still be settled.
    Detached,
}

/// A settlement by the peer of messages that were delivered to it.
pub(super) struct Settle {
    pub(super) deliveries: Vec<DeliveredMessage>,
    pub(super) outcome: ReceiverOutcome,
    /// The peer waits for an answer.
    pub(super) answer: bool,
    /// The memory of the deliveries and of the properties that the settlement sets.
    pub(super) memory: TakenBytes,
    /// Held until the settlement is done, so that later requests wait for it.
    pub(super) turn: Turn,
}

/// A message that the peer has sent.
pub(super) struct Arrived {
    pub(super) delivery: u32,
    pub(super) format: u32,
    pub(super) payload: Bytes,
    /// The memory of the message, held until the message is committed.
    pub(super) memory: TakenBytes,
    /// For a request: completes when the earlier settlements of the peer are done.
    pub(super) behind: Option<Behind>,
    /// For a request in a transaction: the open part, which delays the discharge, or the reason why there is none.
    pub(super) part: Option<Result<OpenPart, AmqpError>>,
}

impl Arrived {
    /// Returns the memory that the first message takes while it is stored, and the memory of the other messages of a
    /// batch.
    fn bytes_while_stored(&self) -> (usize, usize) {
        let others = batch::count(self.format, &self.payload) - 1;
        (
            STORING_BYTES + self.payload.len(),
            others * SENT_MESSAGE_BYTES,
        )
    }

    /// Parses the payload, which holds one message or a batch.
    pub(super) fn messages(&self) -> Result<Vec<Message>, AmqpError> {
        batch::messages(self.format, &self.payload).map_err(|error| {
            let problem = format!("the message cannot be read: {error}");
            AmqpError::new(error.condition(), problem)
        })
    }

    /// Parses the payload as a request, which is never a batch.
    pub(super) fn request(&self) -> Result<Message, AmqpError> {
        Message::parse(&self.payload).map_err(|error| {
            let problem = format!("the request cannot be read: {error}");
            AmqpError::new(DECODE_ERROR, problem)
        })
    }
}

/// The link credit of the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Credit {
    /// The delivery count up to which the peer accepts messages.
    pub(super) limit: u32,
    pub(super) drain: bool,
}

/// The state that all kinds of link tasks share.
pub(super) struct Task {
    pub(super) link: LinkId,
    pub(super) entity: EntityAddress,
    pub(super) container: Arc<dyn Container>,
    /// Channel to the connection. Commands and work are boxed, since a channel allocates room for many items at once,
    /// and most links are idle.
    pub(super) commands: mpsc::UnboundedSender<Box<Command>>,
    pub(super) inbox: mpsc::UnboundedReceiver<Box<Work>>,
    /// The memory account of everything that the task keeps for the client.
    pub(super) account: MemoryAccount,
    /// The locks that were settled over any link of the connection.
    pub(super) settled_locks: Arc<SettledLocks>,
    /// Cancelled when the link is gone.
    pub(super) gone: CancellationToken,
}

impl Task {
    fn say(&self, command: Command) {
        // A connection that is gone needs nothing any more.
        let _ = self.commands.send(Box::new(command));
    }

    fn accept(&self, with: Acceptance) {
        self.say(Command::Accept(self.link, with));
    }

    fn detach(&self, error: AmqpError) {
        self.say(Command::Detach(self.link, error));
    }

    /// Settles the `first` message and all following messages that are already stored.
    fn settle_incoming(&self, first: Settled, storing: &mut MessagesStoring) {
        let mut settled = vec![first];
        while let Some(Some(next)) = storing.next().now_or_never() {
            settled.push(next);
        }
        self.say(Command::SettleIncoming(self.link, settled));
    }

    /// Waits until there is memory for a received transfer, before it is parsed. A link may always store one message,
    /// even without free memory. The other messages of a batch wait for memory, or for a turn to exceed the limit. The
    /// caller holds the turn until the messages are stored.
    async fn room_to_store(
        &self,
        sent: &mut Arrived,
        storing: &mut MessagesStoring,
    ) -> Option<BeyondTurn> {
        let (first, others) = sent.bytes_while_stored();
        let (account, memory) = (&self.account, &mut sent.memory);
        while !account.has_room(first + others)
            && let Some(stored) = storing.next().await
        {
            self.settle_incoming(stored, storing);
        }
        memory.add_anyway(first);
        let mut turn = std::pin::pin!(account.turn_beyond());
        loop {
            if others == 0 || (account.has_room(others) && memory.add(others).is_ok()) {
                return None;
            }
            tokio::select! {
                biased;
                Some(stored) = storing.next() => self.settle_incoming(stored, storing),
                turn = &mut turn, if storing.is_empty() => {
                    memory.add_anyway(others);
                    return Some(turn);
                }
                () = tokio::time::sleep(MEMORY_CHECK) => {}
            }
        }
    }
}

/// Stores the messages that a client sends, in the entity of the link, or via it in `transfer_to` if that is given.
pub(super) async fn store_messages(mut task: Task, transfer_to: Option<KnownEntity>) {
    let opened = task
        .container
        .open_incoming(&task.entity, transfer_to.as_ref());
    let sender = match opened.await {
        Ok(sender) => sender,
        Err(error) => return task.detach(error),
    };
    task.accept(Acceptance::of_messages(sender.message_bytes_max()));
    // Messages are stored concurrently, up to the link credit of the client and as far as memory allows.
    let mut storing = FuturesOrdered::new();
    let (mut gathered, mut read) = (Vec::new(), 0);
    loop {
        tokio::select! {
            biased;
            count = task.inbox.recv_many(&mut gathered, TAKE_MAX) => {
                if count == 0 {
                    break;
                }
                for mut each in gathered.drain(..).filter_map(|work| arrived(*work)) {
                    let turn = task.room_to_store(&mut each, &mut storing).await;
                    read += each.payload.len();
                    storing.push_back(begin_to_store(&*sender, each, turn).await);
                    if read >= READ_IN_A_ROW_MAX {
                        tokio::task::yield_now().await;
                        read = 0;
                    }
                }
            }
            Some(first) = storing.next() => task.settle_incoming(first, &mut storing),
        }
    }
    while let Some(first) = storing.next().await {
        task.settle_incoming(first, &mut storing);
    }
}

/// The delivery id and the final state of a message that the client has sent.
type Settled = (u32, DeliveryState);

/// The messages of a link that are being stored, in their order.
type MessagesStoring = FuturesOrdered<BoxFuture<'static, Settled>>;

async fn begin_to_store(
    sender: &dyn IncomingLink,
    arrived: Arrived,
    turn: Option<BeyondTurn>,
) -> BoxFuture<'static, Settled> {
    let messages = arrived.messages();
    let Arrived {
        delivery,
        payload,
        memory,
        ..
    } = arrived;
    drop(payload); // it would be kept beside the events that are made of it
    let begun = match messages {
        Ok(messages) => sender.send(messages).await,
        Err(error) => Err(error),
    };
    Box::pin(async move {
        let _kept = (memory, turn);
        let stored = match begun {
            Ok(storing) => storing.await,
            Err(error) => Err(error),
        };
        let state = match stored {
            Ok(()) => DeliveryState::Accepted,
            Err(error) => DeliveryState::Rejected(Some(error)),
        };
        (delivery, state)
    })
}

/// Answers the management requests of a client about an entity. Each request takes a permit of `places`, which the
/// connection shares.
pub(super) async fn answer_requests(
    mut task: Task,
    claims: watch::Receiver<ClaimSet>,
    clock: Clock,
    message_bytes_max: u64,
    places: Arc<Semaphore>,
) {
    let entity = match task.container.identity(&task.entity, None) {
        Ok(id) => KnownEntity {
            address: task.entity.clone(),
            id,
        },
        Err(error) => return task.detach(error),
    };
    task.accept(Acceptance::of_requests(message_bytes_max));
    while let Some(work) = task.inbox.recv().await {
        let Some(mut request) = arrived(*work) else {
            continue;
        };
        if let Some(behind) = request.behind.take() {
            behind.wait().await;
        }
        let _place = places.acquire().await; // it is never closed
        let parts = REQUEST_PARTS_FACTOR * request.payload.len();
        let answering = memory_within(&task.account, ANSWERING_BYTES + parts).await;
        let state = match request.request() {
            Ok(message) => {
                let asked = match &answering {
                    Some(_) => authorized_request(&task, &message, &claims, &clock),
                    None => Err(no_memory()),
                };
                match (request.part.take(), asked) {
                    (Some(Ok(part)), Ok(asked)) if asked.operation.takes_part() => {
                        let held = answering.unwrap_or_else(|| task.account.nothing());
                        take_part(&task, &entity, request, held, &part, &message, asked).await;
                        continue;
                    }
                    (Some(Err(error)), Ok(asked)) if asked.operation.takes_part() => {
                        answer(&task, &entity, &message, Err(error)).await;
                    }
                    (_, asked) => answer(&task, &entity, &message, asked).await,
                }
                DeliveryState::Accepted
            }
            Err(error) => DeliveryState::Rejected(Some(error)),
        };
        let settled = vec![(request.delivery, state)];
        task.say(Command::SettleIncoming(task.link, settled));
    }
}

/// An operation that a client has requested and is authorized for.
struct AuthorizedRequest {
    operation: management::EntityOperation,
    by: Actor,
}

/// Returns the requested operation and its actor, if the client is authorized for it.
fn authorized_request(
    task: &Task,
    message: &Message,
    claims: &watch::Receiver<ClaimSet>,
    clock: &Clock,
) -> Result<AuthorizedRequest, AmqpError> {
    let operation = management::EntityOperation::parse(message)?;
    // The token of the client may be for the management node or for the entity above it.
    let node = Address::Management(task.entity.clone());
    let right = Some(operation.right());
    let by = authorized(&claims.borrow(), &node, right, clock.now(), |_| true)?;
    Ok(AuthorizedRequest { operation, by })
}

/// Prepares a request as a part of its transaction.
async fn take_part(
    task: &Task,
    entity: &KnownEntity,
    request: Arrived,
    answering: TakenBytes,
    part: &OpenPart,
    message: &Message,
    asked: AuthorizedRequest,
) {
    let AuthorizedRequest { operation, by } = asked;
    let prepared = task.container.prepare(entity, operation, &by).await;
    task.say(Command::TakePart(Box::new(PreparedRequest {
        transaction: part.transaction.clone(),
        prepared,
        bytes: request.payload.len(),
        _memory: [request.memory, answering],
        asked: message.properties().unwrap_or_default(),
        link: task.link,
        delivery: request.delivery,
    })));
}

async fn answer(
    task: &Task,
    entity: &KnownEntity,
    message: &Message,
    asked: Result<AuthorizedRequest, AmqpError>,
) {
    let properties = message.properties().unwrap_or_default();
    let mut memory = task.account.nothing();
    let answer = match asked {
        Ok(AuthorizedRequest { mut operation, by }) => {
            match memory_for(&operation, &task.account).await {
                Some(taken) => {
                    memory = taken;
                    if let management::EntityOperation::Settle { tokens, outcome } = &mut operation
                    {
                        task.settled_locks.take_out(tokens, outcome);
                    }
                    task.container.manage(entity, operation, &by).await
                }
                None => Err(no_memory()),
            }
        }
        Err(error) => Err(error),
    };
    let message = management::reply(properties.message_id, &answer);
    memory.resize_anyway(message.len());
    task.say(Command::Reply(TaskReply {
        request: task.link,
        to: properties.reply_to,
        message,
        memory,
    }));
}

/// Reserves memory for the messages that a request schedules, or for its answer. Returns `None` after `MEMORY_WAIT`.
async fn memory_for(
    asked: &management::EntityOperation,
    account: &MemoryAccount,
) -> Option<TakenBytes> {
    let bytes = match asked {
        management::EntityOperation::Peek { .. }
        | management::EntityOperation::ReceiveNumbers { .. }
        | management::EntityOperation::SessionState(_)
        | management::EntityOperation::Rules { .. }
        | management::EntityOperation::Sessions { .. } => LOCK_BYTES_MAX,
        management::EntityOperation::Schedule(messages) => messages.len() * SENT_MESSAGE_BYTES,
        management::EntityOperation::RenewLocks(_)
        | management::EntityOperation::Settle { .. }
        | management::EntityOperation::DeleteBatch { .. }
        | management::EntityOperation::CancelScheduled(_)
        | management::EntityOperation::RenewSession(_)
        | management::EntityOperation::SetSessionState { .. }
        | management::EntityOperation::AddRule(_)
        | management::EntityOperation::RemoveRule(_) => 0,
    };
    memory_within(account, bytes).await
}

fn no_memory() -> AmqpError {
    let problem = "there is no memory left for this request; try again in a moment";
    AmqpError::new(SERVER_BUSY, problem)
}

/// Waits up to `MEMORY_WAIT` for this amount of memory. Returns `None` if it did not become available.
async fn memory_within(account: &MemoryAccount, bytes: usize) -> Option<TakenBytes> {
    let taken = tokio::time::timeout(MEMORY_WAIT, memory_of(account, bytes));
    taken.await.ok()
}

/// Waits until there is memory for `wanted` messages, or for one message, so that a client with little memory gets
/// messages one by one. Reserves the maximum size of these messages, since their actual size is not known yet. Also
/// returns the number of messages that the memory is for.
pub(super) async fn memory_to_take(
    account: &MemoryAccount,
    wanted: usize,
    bytes_max: impl Fn(usize) -> usize,
) -> (TakenBytes, usize) {
    loop {
        let of_all = bytes_max(wanted);
        let limit = if account.has_room(of_all) { wanted } else { 1 };
        if let Ok(taken) = account.take_for_a_moment(bytes_max(limit).min(of_all)) {
            return (taken, limit);
        }
        tokio::time::sleep(MEMORY_CHECK).await;
    }
}

/// Waits until this amount of memory is available.
async fn memory_of(account: &MemoryAccount, bytes: usize) -> TakenBytes {
    loop {
        if let Ok(taken) = account.take_for_a_moment(bytes) {
            return taken;
        }
        tokio::time::sleep(MEMORY_CHECK).await;
    }
}

/// Returns the actor of a claim of the client that grants this right on a node, or any right for `None`.
pub(super) fn authorized(
    shown: &ClaimSet,
    node: &Address,
    right: Option<Right>,
    now: Timestamp,
    holds: impl Fn(&Authority) -> bool,
) -> Result<Actor, AmqpError> {
    let path = node.to_string();
    let demand = Demand {
        right,
        topic_or_queue: node.entity().map(|entity| &*entity.topic_or_queue),
        path: &path,
    };
    let allows = |each: &Authority| each.check(demand, now).is_ok() && holds(each);
    let found = shown.find(&path, allows);
    found.map(|found| found.actor().clone()).ok_or_else(|| {
        let problem = match right {
            Some(right) => format!(
                "Unauthorized access. '{right:?}' claim(s) are required to perform this operation. \
                 No valid token grants that on {path:?}"
            ),
            None => format!("no valid token grants anything on {path:?}"),
        };
        AmqpError::new(UNAUTHORIZED_ACCESS, problem)
    })
}

/// Delivers messages to a client, and applies its settlements.
pub(super) async fn hand_out(
    task: Task,
    request: ReceiverRequest,
    credit: watch::Receiver<Credit>,
    takes: Arc<Semaphore>,
    clock: Clock,
) {
    let settled = !request.lock;
    let receiver = match task.container.open_outgoing(request, &task.gone).await {
        Ok(receiver) => receiver,
        Err(error) => return task.detach(error),
    };
    task.accept(acceptance(&*receiver));
    let mut handing = HandingOut {
        task,
        // For a session, the store limits the unsettled messages, regardless of who settles them.
        unsettled_max: receiver.session().map_or(UNSETTLED_MAX, |_| usize::MAX),
        receiver: receiver.into(),
        clock,
        settled,
        credit,
        takes,
        taking: None,
        settling: FuturesUnordered::new(),
        reports: mpsc::unbounded_channel(),
        limit: 0,
        sent: 0,
        unsettled: HashMap::new(),
        is_detached: false,
    };
    if let Err(error) = handing.run().await {
        handing.task.detach(error);
    }
    handing.finish_writing().await;
    while handing.settling.next().await.is_some() {}
    handing.receiver.close(handing.is_detached).await;
}

/// Returns the attach properties: clients read the id of the locked session and the end of its lock from them.
fn acceptance(receiver: &dyn OutgoingLink) -> Acceptance {
    let Some(held) = receiver.session() else {
        return Acceptance::default();
    };
    let ticks = held.until.as_ms() * TICKS_IN_MS + TICKS_AT_EPOCH;
    let until = (
        Value::symbol("com.microsoft:locked-until-utc"),
        Value::Long(ticks),
    );
    Acceptance {
        session: Some(held.name.clone()),
        properties: Map::from([until]),
        ..Acceptance::default()
    }
}

struct HandingOut {
    task: Task,
    receiver: Arc<dyn OutgoingLink>,
    clock: Clock,
    /// Messages are sent settled (receive and delete): they are removed once they are written.
    settled: bool,
    credit: watch::Receiver<Credit>,
    takes: Arc<Semaphore>,
    /// The messages that are being taken from the store and delivered. Settlements proceed concurrently.
    taking: Option<BoxFuture<'static, Result<HandedOut, AmqpError>>>,
    /// The running settlements. Each resolves to an error if the link has to end because of it.
    settling: FuturesUnordered<BoxFuture<'static, Option<AmqpError>>>,
    /// Reports whether messages that are sent settled were written.
    reports: (
        mpsc::UnboundedSender<WriteReport>,
        mpsc::UnboundedReceiver<WriteReport>,
    ),
    /// The delivery count up to which the client has given credit.
    limit: u32,
    /// The delivery count of the messages that were sent, advanced to `limit` by draining.
    sent: u32,
    /// The delivery tags of locked messages that the client has not settled, each with the end of its lock at delivery.
    /// If messages are sent settled: the tags of messages that are not written yet.
    unsettled: HashMap<Bytes, Timestamp>,
    unsettled_max: usize,
    /// The client has detached the link, and may still settle messages that were delivered to it.
    is_detached: bool,
}

/// The result of delivering messages that were taken from the store.
#[derive(Default)]
struct HandedOut {
    /// The delivery tags of the messages that were passed to the connection for sending.
    delivered: Vec<Bytes>,
    /// The time at which the locks of the delivered messages expire.
    locked_until: Timestamp,
    /// The messages that were not delivered for lack of link credit.
    returned: Vec<HandedOutMessage>,
}

impl HandingOut {
    /// Hands out messages until the link is gone.
    async fn run(&mut self) -> Result<(), AmqpError> {
        let (mut gathered, mut reported) = (Vec::new(), Vec::new());
        self.credit.mark_changed(); // what came before there was a receiver
        loop {
            let may_take = self.taking.is_none() && self.wanted() > 0;
            let lapse = self.next_lapse();
            let session = self.receiver.session();
            let ended = OptionFuture::from(session.map(|_| self.receiver.ended()));
            let taking = OptionFuture::from(self.taking.as_mut());
            tokio::select! {
                biased; // what was handed out is counted before it is settled
                Some(handed_out) = taking => self.handed_out(handed_out?),
                count = self.task.inbox.recv_many(&mut gathered, TAKE_MAX) => {
                    if count == 0 {
                        break;
                    }
                    self.settle(gathered.drain(..).map(|work| *work));
                    if self.is_over() {
                        break;
                    }
                }
                _ = self.reports.1.recv_many(&mut reported, TAKE_MAX) => {
                    self.settle_written(reported.drain(..));
                }
                Some(lost) = self.settling.next() => {
                    if let Some(error) = lost {
                        return Err(error);
                    }
                }
                Some(error) = ended => return Err(error),
                () = tokio::time::sleep(lapse.unwrap_or_default()), if lapse.is_some() => {
                    self.forget_lapsed().await;
                    if self.is_over() {
                        break;
                    }
                }
                changed = self.credit.changed() => {
                    if changed.is_err() {
                        break;
                    }
                    self.limit = self.credit.borrow_and_update().limit;
                    if self.credit.borrow().drain {
                        self.drain().await?;
                    }
                }
                arrival = self.receiver.arrival(), if may_take => {
                    arrival?;
                    self.begin_to_take();
                }
            }
        }
        self.finish_taking().await.map(drop)
    }

    /// Returns how many messages can be taken now, limited by link credit and by the number of unsettled messages.
    fn wanted(&self) -> usize {
        let credit = self.limit.wrapping_sub(self.sent);
        let credit = if credit > u32::MAX / 2 {
            0
        } else {
            credit as usize
        };
        if self.is_detached {
            return 0;
        }
        let left = self.unsettled_max.saturating_sub(self.unsettled.len());
        credit.min(left).min(TAKE_MAX)
    }

    /// Returns whether the client has detached and cannot settle any more messages. A session receiver releases its
    /// messages when it detaches, so it has none left.
    fn is_over(&self) -> bool {
        self.is_detached && (self.unsettled.is_empty() || self.receiver.session().is_some())
    }

    /// Returns the time until expired locks have to be checked, or `None` if no check is needed.
    fn next_lapse(&self) -> Option<Duration> {
        if self.settled {
            let first = self.unsettled.values().min()?;
            let left = first.since(self.clock.now());
            return Some(left.saturating_sub(self.receiver.lock_duration() / 2));
        }
        let waits = self.is_detached || self.unsettled.len() >= self.unsettled_max;
        let first = self.unsettled.values().min().filter(|_| waits)?;
        Some(first.since(self.clock.now()) + Duration::from_millis(1))
    }

    /// Removes messages whose locks have expired, so that others can be delivered. The store decides which locks have
    /// expired, since clients may renew locks over other links. If messages are sent settled, the locks of unwritten
    /// messages are renewed instead, so that no other receiver gets them.
    async fn forget_lapsed(&mut self) {
        if self.settled {
            return self.renew_unwritten();
        }
        let now = self.clock.now();
        let over = self.unsettled.iter().filter(|(_, until)| **until <= now);
        let locks = over.filter_map(|(tag, _)| Some((tag.clone(), token(tag)?)));
        let (tags, tokens): (Vec<Bytes>, Vec<Uuid>) = locks.unzip();
        if tags.is_empty() {
            return;
        }
        let entity = &self.task.entity;
        let checked = self.task.container.check_locks(entity, tokens).await;
        let mut lapsed = HashSet::new();
        for (tag, result) in tags.into_iter().zip(checked) {
            // If the store was too busy to answer, the lock is checked again later.
            if result.is_err_and(|error| error.condition != SERVER_BUSY) {
                self.unsettled.remove(&tag);
                lapsed.insert(tag);
            } else {
                let until = now + self.receiver.lock_duration();
                self.unsettled.insert(tag, until);
            }
        }
        if !lapsed.is_empty() {
            self.task.say(Command::Forget(self.task.link, lapsed));
        }
    }

    fn renew_unwritten(&mut self) {
        let lock_duration = self.receiver.lock_duration();
        let now = self.clock.now();
        let mut locks = Vec::new();
        for (tag, until) in &mut self.unsettled {
            if until.since(now) <= lock_duration / 2 {
                *until = now + lock_duration;
                locks.extend(token(tag));
            }
        }
        let receiver = Arc::clone(&self.receiver);
        let renew = async move {
            receiver.renew(locks).await;
            None
        };
        self.settling.push(renew.boxed());
    }

    /// Completes the messages that were written, and releases the others.
    fn settle_written(&mut self, reports: impl Iterator<Item = WriteReport>) {
        let (mut locks, mut turns) = (Vec::new(), Vec::new());
        for WriteReport { token, written } in reports {
            self.unsettled.remove(&tag(token));
            let outcome = if written.is_some() {
                ReceiverOutcome::Complete
            } else {
                ReceiverOutcome::Release
            };
            locks.push((token, outcome));
            turns.extend(written);
        }
        let receiver = Arc::clone(&self.receiver);
        let settle = async move {
            let results = receiver.settle(locks).await;
            drop(turns);
            for error in results.into_iter().filter_map(Result::err) {
                tracing::debug!(%error, "a message that a client got may be handed out again");
            }
            None
        };
        self.settling.push(settle.boxed());
    }

    /// Waits until all messages that are sent settled were reported as written or not written.
    async fn finish_writing(&mut self) {
        self.taking = None;
        self.reports.0 = mpsc::unbounded_channel().0;
        let mut reported = Vec::new();
        while self.reports.1.recv_many(&mut reported, TAKE_MAX).await > 0 {
            self.settle_written(reported.drain(..));
        }
    }

    /// Delivers the available messages within the credit, and tells the client that the credit is drained.
    async fn drain(&mut self) -> Result<(), AmqpError> {
        self.finish_taking().await?;
        while self.wanted() > 0 {
            self.begin_to_take();
            if self.finish_taking().await? == 0 {
                break;
            }
        }
        self.sent = self.limit;
        self.task.say(Command::Drained(self.task.link, self.limit));
        Ok(())
    }

    /// Begins to take one batch of messages and to deliver it. Only one batch is in progress at a time.
    fn begin_to_take(&mut self) {
        let (receiver, takes) = (Arc::clone(&self.receiver), Arc::clone(&self.takes));
        let (link, commands) = (self.task.link, self.task.commands.clone());
        let limit = self.wanted();
        let reports = self.settled.then(|| self.reports.0.clone());
        let clock = self.clock.clone();
        let (account, gone) = (self.task.account.clone(), self.task.gone.clone());
        let take = async move {
            let turn = async {
                let permit = takes.acquire().await;
                let bytes_max = |limit| receiver.bytes_max(limit);
                (permit, memory_to_take(&account, limit, bytes_max).await)
            };
            // The task of a link that is gone does not wait for others, since they may wait for data that the peer has
            // yet to send.
            let taking = gone.run_until_cancelled(turn).await;
            let Some((Ok(_permit), (mut memory, most))) = taking else {
                return Ok(HandedOut::default());
            };
            let locked_until = clock.now() + receiver.lock_duration();
            let taken = receiver.take(most).await?;
            memory.resize_anyway(taken.iter().map(|each| each.message.len()).sum());
            if taken.is_empty() {
                return Ok(HandedOut::default());
            }
            let messages: Vec<HandedOutMessage> = taken
                .into_iter()
                .map(|each| handout(each, reports.as_ref()))
                .collect();
            let tags: Vec<Bytes> = messages.iter().map(|each| each.tag.clone()).collect();
            let (undelivered, returned) = oneshot::channel();
            // A connection that is gone reports nothing. Its messages stay locked until their locks expire.
            let deliver = Command::Deliver(Deliver {
                link,
                messages,
                undelivered,
                memory,
            });
            let _ = commands.send(Box::new(deliver));
            let given_back = returned.await.unwrap_or_default();
            let mut delivered = tags;
            // The last messages of the batch were returned for lack of credit.
            delivered.truncate(delivered.len() - given_back.len());
            Ok(HandedOut {
                delivered,
                locked_until,
                returned: given_back,
            })
        };
        self.taking = Some(take.boxed());
    }

    /// Waits for the batch that is being delivered. Returns the number of delivered messages.
    async fn finish_taking(&mut self) -> Result<usize, AmqpError> {
        let Some(taking) = &mut self.taking else {
            return Ok(0);
        };
        let handed_out = taking.await?;
        let delivered = handed_out.delivered.len();
        self.handed_out(handed_out);
        Ok(delivered)
    }

    fn handed_out(&mut self, handed_out: HandedOut) {
        self.taking = None;
        self.sent = self.sent.wrapping_add(handed_out.delivered.len() as u32);
        let until = handed_out.locked_until;
        let delivered = handed_out.delivered.into_iter();
        self.unsettled.extend(delivered.map(|tag| (tag, until)));
        if self.settled {
            return; // their receipts report what was returned
        }
        let returned = handed_out.returned.into_iter();
        let locks = returned.filter_map(|each| Some((token(&each.tag)?, ReceiverOutcome::Release)));
        let locks: Vec<_> = locks.collect();
        if !locks.is_empty() {
            let receiver = Arc::clone(&self.receiver);
            let release = async move {
                drop(receiver.settle(locks).await);
                None
            };
            self.settling.push(release.boxed());
        }
    }

    fn settle(&mut self, gathered: impl Iterator<Item = Work>) {
        let (mut locks, mut answers, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        for work in gathered {
            let settle = match work {
                Work::Settle(settle) => settle,
                Work::Settled(deliveries) => {
                    for delivery in deliveries {
                        self.unsettled.remove(&delivery.tag);
                    }
                    continue;
                }
                Work::Detached => {
                    self.is_detached = true;
                    continue;
                }
                Work::Message(_) => continue,
            };
            for delivery in settle.deliveries {
                if let Some(token) = token(&delivery.tag) {
                    self.unsettled.remove(&delivery.tag);
                    locks.push((token, settle.outcome.clone()));
                    let confirmation = || (delivery.id, settle.outcome.confirmation());
                    answers.push(settle.answer.then(confirmation));
                }
            }
            kept.push((settle.memory, settle.turn));
        }
        if locks.is_empty() {
            return;
        }
        let (link, commands) = (self.task.link, self.task.commands.clone());
        let receiver = Arc::clone(&self.receiver);
        let settled_locks = Arc::clone(&self.task.settled_locks);
        let settle = async move {
            let of_kind =
                |(token, outcome): &(Uuid, ReceiverOutcome)| (*token, discriminant(outcome));
            let asked: Vec<SettledLock> = locks.iter().map(of_kind).collect();
            let results = receiver.settle(locks).await;
            let each = asked.into_iter().zip(&answers).zip(&results);
            // A client that waits for no answer does not repeat its settlement.
            let done = each.filter(|((_, answer), result)| answer.is_some() && result.is_ok());
            settled_locks.add(done.map(|((lock, _), _)| lock));
            drop(kept);
            let (mut settled, mut lost) = (Vec::new(), None);
            for (answer, result) in answers.into_iter().zip(results) {
                match (answer, result) {
                    // Clients notice a lost session lock only by the end of the link. The client for Go takes any other
                    // answer for success.
                    (_, Err(error)) if error.condition == SESSION_LOCK_LOST => lost = Some(error),
                    (Some((delivery, state)), Ok(())) => settled.push((delivery, state)),
                    (Some((delivery, _)), Err(error)) => {
                        settled.push((delivery, DeliveryState::Rejected(Some(error))));
                    }
                    (None, _) => {}
                }
            }
            // A connection that is gone needs no answer.
            let _ = commands.send(Box::new(Command::SettleOutgoing(link, settled)));
            lost
        };
        self.settling.push(settle.boxed());
    }
}

fn arrived(work: Work) -> Option<Arrived> {
    match work {
        Work::Message(arrived) => Some(arrived),
        Work::Settle(_) | Work::Settled(_) | Work::Detached => None,
    }
}

fn handout(
    taken: OutgoingMessage,
    reports: Option<&mpsc::UnboundedSender<WriteReport>>,
) -> HandedOutMessage {
    HandedOutMessage {
        tag: tag(taken.token),
        message: taken.message.into(),
        settled: reports.is_some(),
        receipt: reports.map(|reports| Receipt::new(taken.token, reports)),
    }
}

/// Clients read the tag as a GUID in .NET's byte order.
fn tag(token: Uuid) -> Bytes {
    Bytes::copy_from_slice(&token.to_bytes_le())
}

/// Returns the lock token of a delivered message, or `None` if the tag is not a GUID.
pub(super) fn token(tag: &Bytes) -> Option<Uuid> {
    Some(Uuid::from_bytes_le(tag.as_ref().try_into().ok()?))
}
