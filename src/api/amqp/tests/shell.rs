//! Connections with their tasks, over a pipe instead of a network.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::FutureExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::super::limits::{
    ANSWERING_BYTES, CLOSE_DEADLINE, CONNECTION_BYTES, DELIVERY_BYTES, ENDING_TASKS_MAX,
    FRAME_STEPS_MAX, LINK_STEPS, LINK_TASK_BYTES, REQUESTS_AT_ONCE_MAX, SESSION_BYTES,
    WAITING_REQUEST_BYTES,
};
use super::*;
use crate::api::amqp::entities::{signature, unproven};
use crate::api::amqp::{
    ConnectionMemory, Container, IncomingLink, KnownEntity, OutgoingLink, OutgoingMessage,
    ReceiverRequest, SharedServer, Storing, Transaction, TransactionSend, serve,
};
use crate::api::authority::{Authority, AuthorityScope, KeyGrant, ShownSignature};
use crate::api::memory::Memory;
use crate::base::Clock;
use crate::base::budget::{MemoryAccount, TakenBytes};
use crate::base::seldom::SeldomLine;
use crate::model::access::Secret;
use crate::model::audit::Actor;
use crate::model::limits::{LOCK_BYTES_MAX, SENT_MESSAGE_BYTES};
use crate::model::session::HeldSession;
use crate::model::shared_access::Rights;
use crate::wire::amqp::AmqpError;
use crate::wire::amqp::batch::BATCH_FORMAT;
use crate::wire::amqp::cbs::PutToken;
use crate::wire::amqp::condition::{
    CONNECTION_FORCED, MESSAGE_LOCK_LOST, NOT_ALLOWED, NOT_FOUND, RESOURCE_LIMIT_EXCEEDED,
    SERVER_BUSY, UNAUTHORIZED_ACCESS,
};
use crate::wire::amqp::management::{EntityOperation, ManagementReply};
use crate::wire::amqp::message::{Message, MessageProperties};
use crate::wire::amqp::outcome::ReceiverOutcome;
use crate::wire::amqp::sasl::Plain;
use crate::wire::amqp::state::Transactional;
use crate::wire::amqp::value::{ElementType, get};
use crate::wire::service_bus::entity::EntityAddress;
use crate::wire::service_bus::sas;

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A lock that has lapsed.
const LOST: Uuid = Uuid::max();

/// One queue, whose store is as quick as the test lets it.
#[derive(Clone)]
struct Fake(Arc<State>);

pub(super) struct State {
    clock: Clock,
    /// Messages that may be committed.
    commits: Semaphore,
    /// Messages that are being stored, or were.
    begun: Mutex<usize>,
    stored: Mutex<Vec<Message>>,
    waiting: Mutex<VecDeque<Uuid>>,
    arrived: Notify,
    taken: Mutex<usize>,
    /// Requests that were begun to be answered, and how many may be.
    asked: Mutex<usize>,
    answers: Semaphore,
    /// Links over which messages are handed out that may be opened.
    opens: Semaphore,
    /// Locks that were renewed.
    renewed: Mutex<Vec<Uuid>>,
    /// Requests to settle that may end.
    settles: Semaphore,
    settled: Mutex<Vec<(Uuid, ReceiverOutcome)>>,
    /// Whether the client left in order, for each receiver that was closed.
    closed: Mutex<Vec<bool>>,
    /// True if the key of all rules was regenerated.
    is_revoked: AtomicBool,
    /// True if the queue was deleted.
    is_gone: AtomicBool,
    /// True if all locks have lapsed.
    has_lapsed: AtomicBool,
    /// True if the store cannot say which locks are held.
    is_busy: AtomicBool,
}

impl State {
    pub(super) fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            clock,
            commits: Semaphore::new(0),
            begun: Mutex::default(),
            stored: Mutex::default(),
            waiting: Mutex::default(),
            arrived: Notify::new(),
            taken: Mutex::default(),
            asked: Mutex::default(),
            answers: Semaphore::new(10_000),
            opens: Semaphore::new(10_000),
            settles: Semaphore::new(100),
            settled: Mutex::default(),
            renewed: Mutex::default(),
            closed: Mutex::default(),
            is_revoked: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
            has_lapsed: AtomicBool::new(false),
            is_busy: AtomicBool::new(false),
        })
    }
}

#[async_trait]
impl Container for Fake {
    fn plain(&self, _: &Plain) -> Option<Authority> {
        None
    }

    fn token(&self, request: &PutToken) -> Result<Authority, AmqpError> {
        let shown = ShownSignature {
            token: signature(request)?,
            hosts: &["host"],
        };
        let verified = Authority::verify(shown, self.0.clock.now(), |rule, _| {
            let rights = match rule {
                "all" => Rights::ALL,
                "listen" => Rights {
                    listen: true,
                    ..Rights::default()
                },
                "send" => Rights {
                    send: true,
                    ..Rights::default()
                },
                _ => return None,
            };
            Some(KeyGrant {
                keys: vec![(Secret::new("key"), None)],
                rights,
                scope: AuthorityScope::Namespace,
                actor: Actor::ManagementToken,
            })
        });
        let verified = verified.map_err(|denied| unproven(request, &denied))?;
        Ok(verified.authority)
    }

    fn still_holds(&self, _: &Authority) -> bool {
        !self.0.is_revoked.load(Ordering::Relaxed)
    }

    async fn open_incoming(
        &self,
        entity: &EntityAddress,
        _: Option<&KnownEntity>,
    ) -> Result<Box<dyn IncomingLink>, AmqpError> {
        match entity.topic_or_queue.as_str() {
            "orders" => Ok(Box::new(self.clone())),
            _ => Err(AmqpError::new(NOT_FOUND, "no such queue")),
        }
    }

    async fn open_outgoing(
        &self,
        _: ReceiverRequest,
        _: &CancellationToken,
    ) -> Result<Box<dyn OutgoingLink>, AmqpError> {
        self.0.opens.acquire().await.expect("open").forget();
        Ok(Box::new(self.clone()))
    }

    fn identity(&self, entity: &EntityAddress, role: Option<LinkRole>) -> Result<i64, AmqpError> {
        let is_gone = self.0.is_gone.load(Ordering::Relaxed);
        let is_there = !is_gone && (role.is_some() || entity.topic_or_queue == "orders");
        is_there
            .then_some(1)
            .ok_or_else(|| AmqpError::new(NOT_FOUND, "no such queue"))
    }

    async fn manage(
        &self,
        _: &KnownEntity,
        _: EntityOperation,
        _: &Actor,
    ) -> Result<ManagementReply, AmqpError> {
        *self.0.asked.lock().unwrap() += 1;
        self.0.answers.acquire().await.expect("open").forget();
        Ok(ManagementReply::Scheduled(vec![7]))
    }

    async fn prepare(
        &self,
        entity: &KnownEntity,
        asked: EntityOperation,
        _: &Actor,
    ) -> Result<(Transaction, ManagementReply), AmqpError> {
        let EntityOperation::Schedule(messages) = asked else {
            unreachable!("something to schedule");
        };
        let send = TransactionSend {
            to: entity.clone(),
            transfer_to: None,
            messages,
            promised: Vec::new(),
        };
        let changes = Transaction {
            sends: vec![send],
            ..Transaction::default()
        };
        self.0.settles.acquire().await.expect("open").forget();
        Ok((changes, ManagementReply::Scheduled(vec![7])))
    }

    async fn check_locks(
        &self,
        _: &EntityAddress,
        tokens: Vec<Uuid>,
    ) -> Vec<Result<(), AmqpError>> {
        if self.0.is_busy.load(Ordering::Relaxed) {
            let busy = AmqpError::new(SERVER_BUSY, "try again in a moment");
            return vec![Err(busy); tokens.len()];
        }
        let has_lapsed = self.0.has_lapsed.load(Ordering::Relaxed);
        let is_held = |token: &Uuid| *token != LOST && !has_lapsed;
        let lost = || AmqpError::new(MESSAGE_LOCK_LOST, "the lock has lapsed");
        let checked = tokens.iter().map(|token| is_held(token).then_some(()));
        checked.map(|each| each.ok_or_else(lost)).collect()
    }

    async fn commit(&self, changes: Transaction) -> Result<(), AmqpError> {
        let messages = changes.sends.into_iter().flat_map(|each| each.messages);
        self.0.stored.lock().unwrap().extend(messages);
        let settled = changes.settles.into_iter();
        let settled = settled.map(|each| (each.token, each.outcome));
        self.0.settled.lock().unwrap().extend(settled);
        Ok(())
    }
}

#[async_trait]
impl IncomingLink for Fake {
    fn message_bytes_max(&self) -> u64 {
        100_000
    }

    async fn send(&self, messages: Vec<Message>) -> Result<Storing, AmqpError> {
        let node = self.clone();
        let storing = async move {
            *node.0.begun.lock().unwrap() += messages.len();
            node.0.commits.acquire().await.expect("open").forget();
            node.0.stored.lock().unwrap().extend(messages);
            Ok(())
        };
        Ok(storing.boxed())
    }
}

#[async_trait]
impl OutgoingLink for Fake {
    fn session(&self) -> Option<&HeldSession> {
        None
    }

    fn lock_duration(&self) -> Duration {
        Duration::from_secs(30)
    }

    async fn ended(&self) -> AmqpError {
        std::future::pending().await
    }

    async fn arrival(&self) -> Result<(), AmqpError> {
        while self.0.waiting.lock().unwrap().is_empty() {
            self.0.arrived.notified().await;
        }
        Ok(())
    }

    fn bytes_max(&self, limit: usize) -> usize {
        if limit > 1 {
            LOCK_BYTES_MAX
        } else {
            64 * 1_024
        }
    }

    async fn take(&self, limit: usize) -> Result<Vec<OutgoingMessage>, AmqpError> {
        let mut waiting = self.0.waiting.lock().unwrap();
        let count = limit.min(waiting.len());
        *self.0.taken.lock().unwrap() += count;
        let message = Message::of(&MessageProperties::default(), Map::new(), "x".into()).to_bytes();
        let taken = waiting.drain(..count).map(|token| OutgoingMessage {
            token,
            message: message.clone(),
        });
        Ok(taken.collect())
    }

    async fn renew(&self, locks: Vec<Uuid>) {
        self.0.renewed.lock().unwrap().extend(locks);
    }

    async fn settle(&self, locks: Vec<(Uuid, ReceiverOutcome)>) -> Vec<Result<(), AmqpError>> {
        let results = locks.iter().map(|(token, _)| match *token == LOST {
            true => Err(AmqpError::new(MESSAGE_LOCK_LOST, "lost")),
            false => Ok(()),
        });
        let results = results.collect();
        self.0.settles.acquire().await.expect("open").forget();
        self.0.settled.lock().unwrap().extend(locks);
        results
    }

    async fn close(&self, in_order: bool) {
        self.0.closed.lock().unwrap().push(in_order);
    }
}

/// A server of the queue.
fn server(state: &Arc<State>, access: &watch::Sender<u64>) -> SharedServer {
    SharedServer {
        container: Box::new({
            let state = Arc::clone(state);
            move |_| Arc::new(Fake(Arc::clone(&state)))
        }),
        clock: state.clock.clone(),
        container_id: "server".to_owned(),
        access: access.subscribe(),
        memory: Memory::default(),
        stop: CancellationToken::new(),
        early_ends: Arc::default(),
    }
}

pub(super) struct Client {
    stream: DuplexStream,
    input: BytesMut,
    serving: JoinHandle<()>,
    state: Arc<State>,
    access: watch::Sender<u64>,
    stop: CancellationToken,
    memory: Memory,
    /// The account of HTTP, as of a WebSocket.
    http: MemoryAccount,
}

impl Client {
    async fn connected(pipe_bytes: usize) -> Self {
        let state = State::new(Clock::simulated(NOW));
        let access = watch::channel(0).0;
        let server = server(&state, &access);
        Self::of(server, state, access, pipe_bytes, &open(FRAME_BYTES_MAX)).await
    }

    /// A client of `server` that has opened its connection, and begun a session.
    pub(super) async fn of(
        server: SharedServer,
        state: Arc<State>,
        access: watch::Sender<u64>,
        pipe_bytes: usize,
        open: &Performative,
    ) -> Self {
        let (stream, theirs) = tokio::io::duplex(pipe_bytes);
        let (memory, stop) = (server.memory.clone(), server.stop.clone());
        let http = memory.connection(Some(CLIENT));
        let kept = ConnectionMemory {
            own: memory.enter(Some(CLIENT), 0).expect("memory"),
            http: Some(http.clone()),
        };
        let serving = tokio::spawn(async move { serve(theirs, CLIENT, &server, kept).await });
        let mut client = Self {
            stream,
            input: BytesMut::new(),
            serving,
            state,
            access,
            stop,
            memory,
            http,
        };
        let mut bytes = Protocol::Amqp.header().to_vec();
        frame(&mut bytes, 0, open);
        frame(&mut bytes, 0, &begin(1_000_000));
        client.stream.write_all(&bytes).await.expect("sent");
        let mut header = [0; 8];
        client
            .stream
            .read_exact(&mut header)
            .await
            .expect("a header");
        assert!(matches!(client.next().await, Some(Performative::Open(_))));
        assert!(matches!(client.next().await, Some(Performative::Begin(_))));
        client
    }

    /// A client that has shown a token of `rule` for everything.
    async fn authorized(rule: &str) -> Self {
        Self::authorized_over(1 << 20, rule).await
    }

    async fn authorized_over(pipe_bytes: usize, rule: &str) -> Self {
        let mut client = Self::connected(pipe_bytes).await;
        assert_eq!(
            client
                .show_token(rule, NOW + Duration::from_secs(600))
                .await,
            202
        );
        client
    }

    async fn show_token(&mut self, rule: &str, expires_at: Timestamp) -> i128 {
        let token = sas::sign("sb://host/", rule, expires_at, &Secret::new("key"));
        self.show(&token, "sb://host/orders").await
    }

    /// Shows a signature for an audience. Returns the status of the answer.
    pub(super) async fn show(&mut self, token: &str, audience: &str) -> i128 {
        self.show_as("servicebus.windows.net:sastoken", token, audience)
            .await
    }

    /// Shows a token of such a kind for an audience. Returns the status of the answer.
    pub(super) async fn show_as(&mut self, kind: &str, token: &str, audience: &str) -> i128 {
        for (handle, role) in [(100, LinkRole::Receiver), (101, LinkRole::Sender)] {
            self.attach_at(handle, role, "$cbs").await;
        }
        self.send(&grant(100, 0, 10)).await;
        for _ in ["attach", "attach", "flow"] {
            assert!(self.next().await.is_some());
        }
        let operation = vec![
            ("operation".into(), "put-token".into()),
            ("type".into(), kind.into()),
            ("name".into(), audience.into()),
        ];
        let request = Message::of(&MessageProperties::default(), operation, token.into());
        self.send(&Performative::Transfer(transfer(
            101,
            0,
            request.to_bytes(),
        )))
        .await;
        let reply = into_transfer(self.next().await.expect("a reply"));
        assert_eq!((reply.handle, reply.settled), (100, Some(true)));
        let reply = Message::parse(&reply.payload).expect("a message");
        let properties = reply.application_properties().expect("properties");
        assert!(matches!(
            self.next().await,
            Some(Performative::Disposition(_))
        ));
        for handle in [100, 101] {
            self.send(&detach(handle)).await;
            assert!(matches!(self.next().await, Some(Performative::Detach(_))));
        }
        get(&properties, "status-code")
            .and_then(Value::as_integer)
            .expect("a status")
    }

    pub(super) async fn send(&mut self, performative: &Performative) {
        let mut bytes = Vec::new();
        frame(&mut bytes, 0, performative);
        self.stream.write_all(&bytes).await.expect("sent");
    }

    /// The next frame; `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Option<Performative> {
        loop {
            match next_frame(&mut self.input, FRAME_BYTES_MAX).expect("frames") {
                Some(frame) if frame.body.is_empty() => {}
                Some(frame) => return Some(Performative::decode(frame.body).expect("one")),
                None => {
                    let read = self.stream.read_buf(&mut self.input).await;
                    if read.is_ok_and(|count| count == 0) {
                        return None;
                    }
                }
            }
        }
    }

    async fn attach(&mut self, handle: u32, role: LinkRole) {
        self.attach_at(handle, role, "orders").await;
    }

    pub(super) async fn attach_at(&mut self, handle: u32, role: LinkRole, address: &str) {
        let address = Some(address.to_owned());
        let attach = Attach {
            source: Some(LinkSource {
                address: address.clone(),
                ..LinkSource::default()
            }),
            target: Some(LinkTarget::Node {
                address,
                dynamic: false,
            }),
            ..attach(handle, role)
        };
        self.send(&Performative::Attach(Box::new(attach))).await;
    }

    /// Whether nothing comes until everybody waits.
    async fn is_quiet(&mut self) -> bool {
        tokio::time::timeout(Duration::from_millis(10), self.next())
            .await
            .is_err()
    }

    /// Has so many messages stored, each in its turn, while the client takes the answers.
    async fn all_are_stored(&mut self, all: usize) {
        self.state.commits.add_permits(10_000);
        for _ in 0..3 * all {
            if self.state.stored.lock().unwrap().len() == all {
                break;
            }
            self.is_quiet().await;
        }
        assert_eq!(self.state.stored.lock().unwrap().len(), all);
    }

    fn offer(&self, tokens: impl IntoIterator<Item = Uuid>) {
        self.state.waiting.lock().unwrap().extend(tokens);
        self.state.arrived.notify_waiters();
    }
}

/// A client over a pipe of 4 KiB that settles nothing, with credit for 200 messages, all of which are there.
async fn removing(tokens: &[Uuid]) -> Client {
    let mut client = Client::authorized_over(4_096, "all").await;
    client
        .send(&Performative::Attach(Box::new(Attach {
            sender_settles: SenderSettles::Settled,
            ..attach(0, LinkRole::Receiver)
        })))
        .await;
    client.offer(tokens.iter().copied());
    assert!(matches!(client.next().await, Some(Performative::Attach(_))));
    client.send(&grant(0, 0, 200)).await;
    client
}

fn tokens(count: u128) -> Vec<Uuid> {
    (1..=count).map(Uuid::from_u128).collect()
}

#[tokio::test(start_paused = true)]
async fn messages_are_removed_once_they_are_written() {
    let tokens = tokens(200);
    let mut client = removing(&tokens).await;
    for _ in &tokens {
        let transfer = into_transfer(client.next().await.expect("a transfer"));
        assert_eq!(transfer.settled, Some(true));
    }
    assert!(client.is_quiet().await);
    let removed: Vec<_> = tokens
        .iter()
        .map(|each| (*each, ReceiverOutcome::Complete))
        .collect();
    assert_eq!(client.settled(), removed);
}

#[tokio::test(start_paused = true)]
async fn whoever_takes_nothing_is_gone_soon_after_it_was_closed() {
    let client = removing(&tokens(100)).await;
    // It reads no more.
    tokio::time::sleep(Duration::from_millis(1)).await;
    client.stop.cancel();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(
        !client.serving.is_finished(),
        "what it is told may still be taken"
    );
    client.state.clock.advance(CLOSE_DEADLINE);
    tokio::time::sleep(CLOSE_DEADLINE + Duration::from_millis(1)).await;
    assert!(client.serving.is_finished());
}

#[tokio::test(start_paused = true)]
async fn messages_that_were_not_written_are_handed_out_again() {
    let tokens = tokens(200);
    let mut client = removing(&tokens).await;
    let mut received = 0;
    while received < 10 {
        into_transfer(client.next().await.expect("a transfer"));
        received += 1;
    }
    // It reads no more. What waits for that stays locked.
    tokio::time::sleep(Duration::from_millis(1)).await;
    let clock = client.state.clock.clone();
    clock.advance(Duration::from_secs(15));
    tokio::time::sleep(Duration::from_secs(16)).await;
    assert!(!client.state.renewed.lock().unwrap().is_empty());
    let state = Arc::clone(&client.state);
    drop(client.stream);
    client.serving.await.expect("an end");
    let settled = state.settled.lock().unwrap().clone();
    let removed = settled
        .iter()
        .take_while(|each| each.1 == ReceiverOutcome::Complete);
    let removed = removed.count();
    assert!((received..200).contains(&removed), "{removed}");
    let outcomes = settled.iter().enumerate().map(|(place, (token, _))| {
        let outcome = if place < removed {
            ReceiverOutcome::Complete
        } else {
            ReceiverOutcome::Release
        };
        (*token, outcome)
    });
    assert_eq!(settled, outcomes.collect::<Vec<_>>());
    assert_eq!(settled.len(), 200);
}

#[tokio::test(start_paused = true)]
async fn senders_hear_of_their_messages_when_these_are_stored() {
    let mut client = Client::authorized("all").await;
    client.attach(0, LinkRole::Sender).await;
    let Some(Performative::Attach(answer)) = client.next().await else {
        panic!("an attach");
    };
    assert_eq!(answer.max_message_size, Some(100_000));
    assert!(matches!(client.next().await, Some(Performative::Flow(_))));
    let message = Message::of(&MessageProperties::default(), Map::new(), "x".into()).to_bytes();
    for id in 0..3 {
        client
            .send(&Performative::Transfer(transfer(0, id, message.clone())))
            .await;
    }
    client
        .send(&Performative::Transfer(transfer(0, 3, "no message")))
        .await;
    assert!(client.is_quiet().await, "nothing is stored yet");
    // Whatever the grouping, each of them is answered, the broken one with a reason.
    client.state.commits.add_permits(3);
    let mut answers = Vec::new();
    while answers.len() < 4 {
        let Some(Performative::Disposition(each)) = client.next().await else {
            panic!("a disposition");
        };
        let last = each.last.unwrap_or(each.first);
        answers.extend((each.first..=last).map(|id| (id, each.state.clone())));
    }
    answers.sort_by_key(|(id, _)| *id);
    for (id, state) in answers {
        let is_accepted = state == Some(DeliveryState::Accepted);
        assert_eq!(is_accepted, id < 3, "{id}: {state:?}");
    }
    assert_eq!(client.state.stored.lock().unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn receivers_get_locks_and_settle_them() {
    let mut client = Client::authorized("listen").await;
    client.attach(0, LinkRole::Receiver).await;
    assert!(matches!(client.next().await, Some(Performative::Attach(_))));
    let token = Uuid::from_u128(0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f);
    client.offer([token, Uuid::max()]);
    assert!(client.is_quiet().await, "there is no credit");
    client.send(&grant(0, 0, 5)).await;
    let mut ids = Vec::new();
    for tag in [token.to_bytes_le(), [0xff; 16]] {
        let Some(Performative::Transfer(transfer)) = client.next().await else {
            panic!("a transfer");
        };
        assert_eq!(transfer.delivery_tag.as_deref(), Some(&tag[..]));
        ids.extend(transfer.delivery_id);
    }
    client
        .send(&disposition(ids[0], ids[1], DeliveryState::Accepted))
        .await;
    let mut states = Vec::new();
    for _ in &ids {
        let Some(Performative::Disposition(answer)) = client.next().await else {
            panic!("a disposition");
        };
        assert!(answer.settled && answer.role == LinkRole::Sender);
        states.push(answer.state);
    }
    assert_eq!(states[0], Some(DeliveryState::Accepted));
    let Some(DeliveryState::Rejected(Some(error))) = &states[1] else {
        panic!("{states:?}");
    };
    assert_eq!(error.condition, MESSAGE_LOCK_LOST);
    // Draining with nothing there.
    let Performative::Flow(flow) = grant(0, 2, 3) else {
        unreachable!("a flow");
    };
    client
        .send(&Performative::Flow(Flow {
            drain: true,
            ..flow
        }))
        .await;
    let Some(Performative::Flow(flow)) = client.next().await else {
        panic!("a flow");
    };
    assert_eq!(
        (flow.drain, flow.delivery_count, flow.link_credit),
        (true, Some(5), Some(0))
    );
    // One receiver leaves in order, the other one with its connection.
    client.attach(1, LinkRole::Receiver).await;
    assert!(matches!(client.next().await, Some(Performative::Attach(_))));
    client.send(&detach(0)).await;
    assert!(matches!(client.next().await, Some(Performative::Detach(_))));
    drop(client.stream);
    client.serving.await.expect("served");
    let mut closed = client.state.closed.lock().unwrap().clone();
    closed.sort_unstable();
    assert_eq!(closed, [false, true]);
}

#[tokio::test(start_paused = true)]
async fn no_message_waits_until_the_one_before_is_stored() {
    let mut client = Client::authorized("all").await;
    client.attach(0, LinkRole::Sender).await;
    assert!(matches!(client.next().await, Some(Performative::Attach(_))));
    assert!(matches!(client.next().await, Some(Performative::Flow(_))));
    let message = Message::of(&MessageProperties::default(), Map::new(), "x".into()).to_bytes();
    for id in 0..2 {
        let transfer = transfer(0, id, message.clone());
        client.send(&Performative::Transfer(transfer)).await;
        assert!(client.is_quiet().await, "nothing is stored yet");
    }
    assert_eq!(*client.state.begun.lock().unwrap(), 2);
    client.state.commits.add_permits(1);
    let Some(Performative::Disposition(first)) = client.next().await else {
        panic!("a disposition");
    };
    assert_eq!((first.first, first.last.unwrap_or(0)), (0, 0));
    // What was begun is stored even if the client leaves.
    drop(client.stream);
    client.state.commits.add_permits(1);
    client.serving.await.expect("served");
    assert_eq!(client.state.stored.lock().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn no_more_messages_are_being_stored_than_there_is_memory_for() {
    const LINKS: u32 = 12;
    const OF_EACH: u32 = 600;
    let mut client = Client::authorized("all").await;
    for handle in 0..LINKS {
        client.attach(handle, LinkRole::Sender).await;
        assert!(matches!(client.next().await, Some(Performative::Attach(_))));
        assert!(matches!(client.next().await, Some(Performative::Flow(_))));
    }
    let message = Message::of(&MessageProperties::default(), Map::new(), "x".into()).to_bytes();
    for id in 0..LINKS * OF_EACH {
        let transfer = transfer(id % LINKS, id, message.clone());
        client.send(&Performative::Transfer(transfer)).await;
    }
    while !client.is_quiet().await {} // the session has room for more now and then
    let (_, kept) = client.memory.taken();
    let begun = *client.state.begun.lock().unwrap();
    assert!(
        begun < 6_500,
        "{begun} messages take more than half of 96 MiB"
    );
    assert!(kept < 64 * 1_024 * 1_024, "{kept} bytes");
    client.all_are_stored((LINKS * OF_EACH) as usize).await;
}

#[tokio::test(start_paused = true)]
async fn batches_are_read_when_there_is_memory_for_all_of_their_messages() {
    const LINKS: u32 = 24;
    const OF_EACH: usize = 2_000;
    let mut client = Client::authorized("all").await;
    for handle in 0..LINKS {
        client.attach(handle, LinkRole::Sender).await;
        assert!(matches!(client.next().await, Some(Performative::Attach(_))));
        assert!(matches!(client.next().await, Some(Performative::Flow(_))));
    }
    // A data section with a message whose body is a text of one letter.
    let batch = b"\x00\x53\x75\xa0\x06\x00\x53\x77\xa1\x01\x61".repeat(OF_EACH);
    for handle in 0..LINKS {
        let transfer = Transfer {
            message_format: Some(BATCH_FORMAT),
            ..transfer(handle, handle, batch.clone())
        };
        client.send(&Performative::Transfer(transfer)).await;
    }
    while !client.is_quiet().await {}
    let (_, kept) = client.memory.taken();
    let begun = *client.state.begun.lock().unwrap();
    assert!(kept >= begun * SENT_MESSAGE_BYTES, "{kept} for {begun}");
    // Half of all, and the batch whose turn it is to have more than there is.
    let most = 48 * 1_024 * 1_024 + OF_EACH * SENT_MESSAGE_BYTES;
    let beside = 2 * 1_024 * 1_024;
    assert!(kept < most + beside, "{kept} for {begun}");
    let all = LINKS as usize * OF_EACH;
    assert!(begun < all, "{begun}");
    client.all_are_stored(all).await;
}

#[tokio::test(start_paused = true)]
async fn messages_that_are_scheduled_count_until_it_is_answered() {
    const COUNT: usize = 2_000;
    let mut client = Client::authorized("all").await;
    client.state.answers.forget_permits(10_000);
    client
        .attach_at(0, LinkRole::Sender, "orders/$management")
        .await;
    for _ in ["attach", "flow"] {
        assert!(client.next().await.is_some());
    }
    let sent = Bytes::from_static(b"\x00\x53\x77\xa1\x01\x61");
    let each = Value::Map(vec![("message".into(), Value::Binary(sent))]);
    let asked = Value::Map(vec![("messages".into(), Value::List(vec![each; COUNT]))]);
    let operation = vec![("operation".into(), "com.microsoft:schedule-message".into())];
    let request = Message::of(&MessageProperties::default(), operation, asked).to_bytes();
    client
        .send(&Performative::Transfer(transfer(0, 0, request)))
        .await;
    assert!(client.is_quiet().await, "it is not answered");
    assert_eq!(*client.state.asked.lock().unwrap(), 1);
    let (_, kept) = client.memory.taken();
    assert!(kept >= COUNT * SENT_MESSAGE_BYTES, "{kept} bytes");
    client.state.answers.add_permits(1);
    assert!(!client.is_quiet().await);
    let (_, left) = client.memory.taken();
    assert!(left < COUNT * SENT_MESSAGE_BYTES / 2, "{left} bytes");
}

#[tokio::test(start_paused = true)]
async fn messages_are_handed_out_while_others_are_being_settled() {
    let mut client = Client::authorized("listen").await;
    client.state.settles.forget_permits(100);
    client.attach(0, LinkRole::Receiver).await;
    assert!(matches!(client.next().await, Some(Performative::Attach(_))));
    client.send(&grant(0, 0, 2)).await;
    for number in 0..2 {
        client.offer([Uuid::from_u128(number)]);
        let Some(Performative::Transfer(transfer)) = client.next().await else {
            panic!("a transfer");
        };
        let id = transfer.delivery_id.expect("an id");
        let accepted = disposition(id, id, DeliveryState::Accepted);
        client.send(&accepted).await;
        assert!(client.is_quiet().await, "nothing is settled yet");
    }
    drop(client.stream);
    client.state.settles.add_permits(2);
    client.serving.await.expect("served");
    assert_eq!(client.state.settled.lock().unwrap().len(), 2);
}

async fn rejection(client: &mut Client, handle: u32, role: LinkRole) -> Option<String> {
    client.attach(handle, role).await;
    assert!(matches!(client.next().await, Some(Performative::Attach(_))));
    let Some(Performative::Detach(detached)) = client.next().await else {
        panic!("a detach");
    };
    client.send(&detach(handle)).await;
    detached.error.map(|error| error.condition.into_owned())
}

#[tokio::test(start_paused = true)]
async fn what_no_token_allows_is_rejected() {
    let mut client = Client::connected(1 << 20).await;
    for role in [LinkRole::Sender, LinkRole::Receiver] {
        let rejected = rejection(&mut client, 0, role).await;
        assert_eq!(rejected.as_deref(), Some(UNAUTHORIZED_ACCESS));
    }
    let later = NOW + Duration::from_secs(60);
    assert_eq!(client.show_token("unknown", later).await, 401);
    assert_eq!(client.show_token("all", NOW).await, 401, "it has expired");
    assert_eq!(client.show_token("listen", later).await, 202);
    let rejected = rejection(&mut client, 0, LinkRole::Sender).await;
    assert_eq!(rejected.as_deref(), Some(UNAUTHORIZED_ACCESS));
    client.attach(1, LinkRole::Receiver).await;
    assert!(matches!(client.next().await, Some(Performative::Attach(_))));
    // The link lasts as long as the token.
    client.state.clock.advance(Duration::from_secs(60));
    let Some(Performative::Detach(detached)) = client.next().await else {
        panic!("a detach");
    };
    let condition = detached.error.map(|error| error.condition.into_owned());
    assert_eq!(condition.as_deref(), Some(UNAUTHORIZED_ACCESS));
}

#[tokio::test(start_paused = true)]
async fn a_link_ends_with_the_token_that_another_one_replaces_which_allows_less() {
    let later = NOW + Duration::from_secs(60);
    let mut client = Client::authorized("listen").await;
    client.attach(1, LinkRole::Receiver).await;
    assert!(matches!(client.next().await, Some(Performative::Attach(_))));
    for rule in ["listen", "all", "listen"] {
        assert_eq!(client.show_token(rule, later).await, 202);
        client.state.clock.advance(Duration::from_secs(2));
        assert!(client.is_quiet().await, "{rule} lets it receive");
    }
    assert_eq!(client.show_token("send", later).await, 202);
    client.state.clock.advance(Duration::from_secs(1));
    let Some(Performative::Detach(detached)) = client.next().await else {
        panic!("a detach");
    };
    let condition = detached.error.map(|error| error.condition.into_owned());
    assert_eq!(condition.as_deref(), Some(UNAUTHORIZED_ACCESS));
}

#[tokio::test(start_paused = true)]
async fn a_connection_ends_with_the_key_that_opened_it() {
    let mut client = Client::authorized("all").await;
    client.attach(1, LinkRole::Receiver).await;
    assert!(matches!(client.next().await, Some(Performative::Attach(_))));
    client.access.send_modify(|version| *version += 1);
    assert!(client.is_quiet().await, "something else has changed");
    client.state.is_revoked.store(true, Ordering::Relaxed);
    let rejected = rejection(&mut client, 2, LinkRole::Receiver).await;
    assert_eq!(rejected.as_deref(), Some(UNAUTHORIZED_ACCESS));
    client.access.send_modify(|version| *version += 1);
    let Some(Performative::Close(Some(error))) = client.next().await else {
        panic!("a close");
    };
    assert_eq!(error.condition, UNAUTHORIZED_ACCESS);
}

#[tokio::test(start_paused = true)]
async fn whoever_shows_no_token_is_not_waited_for() {
    let mut client = Client::connected(1 << 20).await;
    client.state.clock.advance(Duration::from_secs(20));
    let Some(Performative::Close(Some(error))) = client.next().await else {
        panic!("a close");
    };
    assert_eq!(error.condition, UNAUTHORIZED_ACCESS);
    client.state.clock.advance(Duration::from_secs(5));
    assert_eq!(client.next().await, None);
    client.serving.await.expect("served");
}

/// Has a newcomer ask for the place of a connection.
fn ask_for_a_place(memory: &Memory) {
    let newcomer = memory.enter(None, 0).expect("memory");
    assert!(newcomer.account().ask_for_a_place());
}

#[tokio::test(start_paused = true)]
async fn who_takes_nothing_is_not_waited_for_where_others_need_its_memory() {
    for (before, after) in [(100, 0), (0, 2_000)] {
        let mut client = Client::connected(256).await;
        for channel in 1..20 {
            let mut bytes = Vec::new();
            frame(&mut bytes, channel, &begin(1_000));
            client.stream.write_all(&bytes).await.expect("sent");
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        client.state.clock.advance(Duration::from_millis(before));
        ask_for_a_place(&client.memory);
        tokio::time::sleep(Duration::from_millis(10)).await;
        client.state.clock.advance(Duration::from_millis(after));
        let served = tokio::time::timeout(Duration::from_secs(60), client.serving).await;
        assert!(served.is_ok(), "{before}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stranger_is_told_that_others_need_its_memory_and_not_waited_for() {
    let mut client = Client::connected(1 << 20).await;
    client.state.clock.advance(Duration::from_secs(10));
    ask_for_a_place(&client.memory);
    let Some(Performative::Close(Some(error))) = client.next().await else {
        panic!("a close");
    };
    assert_eq!(error.condition, RESOURCE_LIMIT_EXCEEDED);
    assert_eq!(client.next().await, None, "it has not answered");
    client.serving.await.expect("served");
}

#[tokio::test(start_paused = true)]
async fn what_http_keeps_for_a_websocket_counts_for_the_key_that_is_shown_over_it() {
    let mut client = Client::connected(1 << 20).await;
    assert!(!client.http.is_known());
    client
        .show_token("listen", NOW + Duration::from_secs(600))
        .await;
    assert!(client.http.is_known());
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_told() {
    let mut client = Client::authorized("all").await;
    client.stop.cancel();
    let Some(Performative::Close(Some(error))) = client.next().await else {
        panic!("a close");
    };
    assert_eq!(error.condition, CONNECTION_FORCED);
    client.send(&Performative::Close(None)).await;
    assert_eq!(client.next().await, None);
    client.serving.await.expect("served");
}

#[tokio::test(start_paused = true)]
async fn whoever_reads_nothing_is_handed_little_and_left() {
    let mut client = Client::authorized("listen").await;
    client.attach(0, LinkRole::Receiver).await;
    assert!(matches!(client.next().await, Some(Performative::Attach(_))));
    let wide = |handle| {
        let Performative::Flow(flow) = grant(handle, 0, u32::MAX / 2) else {
            unreachable!("a flow");
        };
        Performative::Flow(Flow {
            incoming_window: u32::MAX / 2,
            ..flow
        })
    };
    client.offer((0..1_000_000).map(Uuid::from_u128));
    client.send(&wide(0)).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let taken = *client.state.taken.lock().unwrap();
    assert!(taken <= super::super::limits::UNSETTLED_MAX, "{taken}");
    // Messages that need no settlement come as long as they are read.
    let mut settling = attach(1, LinkRole::Receiver);
    settling.sender_settles = SenderSettles::Settled;
    client.send(&Performative::Attach(Box::new(settling))).await;
    client.send(&wide(1)).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let taken = *client.state.taken.lock().unwrap();
    assert!((10_000..100_000).contains(&taken), "{taken}");
    client.state.clock.advance(Duration::from_secs(60));
    client.serving.await.expect("served");
}

#[tokio::test(start_paused = true)]
async fn requests_are_answered_where_their_answers_are_waited_for() {
    let mut client = Client::authorized("all").await;
    for (handle, role, to) in [
        (0, LinkRole::Receiver, "me"),
        (1, LinkRole::Receiver, "you"),
        (2, LinkRole::Sender, ""),
    ] {
        let mut attach = attach(handle, role);
        let node = Some("orders/$management".to_owned());
        let other = Some(to.to_owned());
        let (source, target) = match role {
            LinkRole::Receiver => (node, other),
            LinkRole::Sender => (other, node),
        };
        attach.source = Some(LinkSource {
            address: source,
            ..LinkSource::default()
        });
        attach.target = Some(LinkTarget::Node {
            address: target,
            dynamic: false,
        });
        client.send(&Performative::Attach(Box::new(attach))).await;
        assert!(matches!(client.next().await, Some(Performative::Attach(_))));
    }
    let properties = MessageProperties {
        message_id: Some(Value::Ulong(5)),
        reply_to: Some("me".to_owned()),
        ..MessageProperties::default()
    };
    let operation = vec![(
        "operation".into(),
        "com.microsoft:cancel-scheduled-message".into(),
    )];
    let numbers = vec![(
        "sequence-numbers".into(),
        Value::array(ElementType::LONG, vec![Value::Long(1)]),
    )];
    let request = Message::of(&properties, operation, Value::Map(numbers));
    assert!(matches!(client.next().await, Some(Performative::Flow(_))));
    client
        .send(&Performative::Transfer(transfer(2, 0, request.to_bytes())))
        .await;
    assert!(matches!(
        client.next().await,
        Some(Performative::Disposition(_))
    ));
    assert!(client.is_quiet().await, "the answer waits for credit");
    client.send(&grant(0, 0, 1)).await;
    let Some(Performative::Transfer(reply)) = client.next().await else {
        panic!("a transfer");
    };
    assert_eq!(reply.handle, 0);
    let reply = Message::parse(&reply.payload).expect("a message");
    assert_eq!(
        reply.properties().expect("properties").correlation_id,
        Some(Value::Ulong(5))
    );
}

#[tokio::test(start_paused = true)]
async fn links_for_tokens_are_few() {
    let mut client = Client::authorized("all").await;
    let mut rejected = Vec::new();
    for handle in 0..9 {
        client.attach_at(handle, LinkRole::Sender, "$cbs").await;
        assert!(matches!(client.next().await, Some(Performative::Attach(_))));
        match client.next().await {
            Some(Performative::Flow(_)) => {}
            answer => rejected.push((handle, answer)),
        }
    }
    let [(8, Some(Performative::Detach(detached)))] = &rejected[..] else {
        panic!("{rejected:?}");
    };
    let condition = detached
        .error
        .as_ref()
        .map(|error| error.condition.as_ref());
    assert_eq!(condition, Some(NOT_ALLOWED));
}

/// A request for a token with an id of so many bytes, whose answer repeats the id.
fn request_with_id(bytes: usize) -> Vec<u8> {
    let properties = MessageProperties {
        message_id: Some(Value::String("x".repeat(bytes))),
        ..MessageProperties::default()
    };
    Message::of(&properties, Map::new(), "no token".into()).to_bytes()
}

#[tokio::test(start_paused = true)]
async fn before_a_key_is_shown_there_is_one_link_each_way_and_nothing_else() {
    let mut client = Client::connected(1 << 20).await;
    client.attach_at(0, LinkRole::Receiver, "$cbs").await;
    client.attach_at(1, LinkRole::Sender, "$cbs").await;
    for _ in ["attach", "attach", "flow"] {
        assert!(client.next().await.is_some());
    }
    for (handle, role, address) in [
        (2, LinkRole::Receiver, "$cbs"),
        (3, LinkRole::Sender, "$cbs"),
        (4, LinkRole::Sender, "orders"),
        (5, LinkRole::Receiver, "orders/$management"),
    ] {
        client.attach_at(handle, role, address).await;
        assert!(matches!(client.next().await, Some(Performative::Attach(_))));
        let Some(Performative::Detach(detach)) = client.next().await else {
            panic!("a detach");
        };
        let condition = detach.error.expect("an error").condition;
        let expected = if address == "$cbs" {
            NOT_ALLOWED
        } else {
            UNAUTHORIZED_ACCESS
        };
        assert_eq!(condition, expected, "{address}");
    }
    let coordinator = Attach {
        target: Some(LinkTarget::Coordinator),
        ..attach(6, LinkRole::Sender)
    };
    client
        .send(&Performative::Attach(Box::new(coordinator)))
        .await;
    assert!(matches!(client.next().await, Some(Performative::Attach(_))));
    assert!(matches!(client.next().await, Some(Performative::Detach(_))));
}

#[tokio::test(start_paused = true)]
async fn replies_without_credit_are_counted_and_end_their_link() {
    let mut client = Client::connected(1 << 20).await;
    client.attach_at(0, LinkRole::Receiver, "$cbs").await;
    client.attach_at(1, LinkRole::Sender, "$cbs").await;
    for _ in ["attach", "attach", "flow"] {
        assert!(client.next().await.is_some());
    }
    let mut ended = None;
    for id in 0..100 {
        let request = transfer(1, id, request_with_id(5_000));
        client.send(&Performative::Transfer(request)).await;
        match client.next().await {
            Some(Performative::Disposition(_)) => {}
            Some(Performative::Detach(detach)) => {
                ended = Some(detach);
                break;
            }
            other => panic!("{other:?}"),
        }
        let (strangers, clients) = client.memory.taken();
        assert!(strangers < 84 * 1_024 && clients == 0, "{strangers}");
    }
    let error = ended.expect("an end").error.expect("an error");
    assert_eq!(error.condition, RESOURCE_LIMIT_EXCEEDED);
}

#[tokio::test]
async fn others_have_their_turn_after_so_many_frames_however_short_they_are() {
    use crate::api::amqp::limits::{FRAME_STEPS, FRAME_STEPS_MAX};

    const FRAMES: usize = 100_000;
    let mut bytes = Protocol::Amqp.header().to_vec();
    frame(&mut bytes, 0, &open(FRAME_BYTES_MAX));
    for _ in 0..FRAMES {
        write_frame(&mut bytes, FrameKind::Amqp, 0, |_| {});
    }
    let state = State::new(Clock::simulated(NOW));
    let access = watch::channel(0).0;
    let server = server(&state, &access);
    let own = server.memory.enter(Some(CLIENT), 0).expect("memory");
    let stream = tokio::io::join(&bytes[..], tokio::io::sink());
    let mut serving = pin!(serve(stream, CLIENT, &server, own));
    let mut polls = 0;
    let counted = poll_fn(|context| {
        polls += 1;
        serving.as_mut().poll(context)
    });
    counted.await;
    assert!(polls >= FRAMES * FRAME_STEPS / FRAME_STEPS_MAX, "{polls}");
}

#[tokio::test]
async fn a_connection_that_there_is_no_memory_for_is_closed() {
    let state = State::new(Clock::simulated(NOW));
    let access = watch::channel(0).0;
    let server = server(&state, &access);
    let mut kept = Vec::new();
    for host in 1..=20 {
        let other = Some(IpAddr::from([10, 0, 0, host]));
        let all_that_it_may = (10..27).rev().find_map(|power| {
            let entered = server.memory.enter(other, 1 << power);
            entered.ok()
        });
        kept.extend(all_that_it_may.inspect(|each: &TakenBytes| {
            each.account().note_known(); // a stranger would leave
        }));
    }
    let own = server.memory.enter(Some(CLIENT), 0).expect("nothing");
    let (_client, stream) = tokio::io::duplex(64);
    let served = serve(stream, CLIENT, &server, own).now_or_never();
    assert!(served.is_some(), "it is over");
    drop(kept);
    assert_eq!(server.memory.taken(), (0, 0));
}

#[test]
fn connections_hold_no_more_than_they_count_for() {
    const CONNECTIONS: usize = 20;
    // What one counts for before it is known that it speaks AMQP.
    const STREAM_BYTES: usize = 4 * 1_024;
    // Often enough for a connection to have nothing to do any more.
    const POLLS: usize = 20;

    let mut begun = Protocol::Amqp.header().to_vec();
    frame(&mut begun, 0, &open(FRAME_BYTES_MAX));
    frame(&mut begun, 0, &begin(1_000));
    let state = State::new(Clock::simulated(NOW));
    let access = watch::channel(0).0;
    let server = server(&state, &access);
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().expect("a runtime");
    let (mut clients, mut streams) = (Vec::new(), Vec::new());
    for _ in 0..CONNECTIONS {
        let (mut client, stream) = tokio::io::duplex(1_024);
        let sent = runtime.block_on(client.write_all(&begun));
        sent.expect("sent");
        clients.push(client);
        streams.push(tokio::io::join(stream, tokio::io::sink()));
    }
    let mut serving = Vec::with_capacity(CONNECTIONS);
    let measured = allocation_counter::measure(|| {
        runtime.block_on(async {
            for stream in streams {
                let own = server.memory.enter(Some(CLIENT), STREAM_BYTES);
                let served = serve(stream, CLIENT, &server, own.expect("memory"));
                let mut connection = Box::pin(served);
                for _ in 0..POLLS {
                    assert!(connection.as_mut().now_or_never().is_none(), "it goes on");
                    tokio::task::yield_now().await;
                }
                serving.push(connection);
            }
        });
    });
    let (counted, _) = server.memory.taken();
    let least = CONNECTIONS * (STREAM_BYTES + CONNECTION_BYTES + SESSION_BYTES);
    assert!(counted >= least, "{counted}: each has begun a session");
    let held = usize::try_from(measured.bytes_current).expect("bytes");
    assert!(held <= counted, "{held} of {counted}");
    drop((serving, clients));
    assert_eq!(server.memory.taken(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_is_given_back_at_the_end() {
    let mut client = Client::authorized("all").await;
    let (strangers, clients) = client.memory.taken();
    assert_eq!(strangers, 0, "whoever has shown a key is a client");
    client.attach(0, LinkRole::Receiver).await;
    assert!(matches!(client.next().await, Some(Performative::Attach(_))));
    client.offer((1..4).map(Uuid::from_u128));
    client.send(&grant(0, 0, 2)).await;
    for _ in 0..2 {
        assert!(matches!(
            client.next().await,
            Some(Performative::Transfer(_))
        ));
    }
    assert!(client.is_quiet().await);
    assert!(client.memory.taken().1 > clients);
    drop(client.stream);
    client.serving.await.expect("an end");
    assert_eq!(client.memory.taken(), (0, 0));
}

/// Reads until nothing comes. Returns how many links were detached.
async fn detaches(client: &mut Client) -> usize {
    let mut count = 0;
    while let Ok(next) = tokio::time::timeout(Duration::from_millis(10), client.next()).await {
        let frame = next.expect("a frame");
        count += usize::from(matches!(frame, Performative::Detach(_)));
    }
    count
}

#[tokio::test(start_paused = true)]
async fn links_that_are_gone_count_as_long_as_their_tasks_run() {
    const PAIRS: usize = 2_000;
    let mut client = Client::authorized("listen").await;
    client.state.opens.forget_permits(10_000);
    for pair in 1..=PAIRS {
        client.attach(0, LinkRole::Receiver).await;
        client.send(&detach(0)).await;
        if pair <= ENDING_TASKS_MAX {
            // It is answered at once, and its name and handle are free, whatever the store does.
            assert!(matches!(client.next().await, Some(Performative::Attach(_))));
            assert!(matches!(client.next().await, Some(Performative::Detach(_))));
            let (_, kept) = client.memory.taken();
            assert!(kept >= pair * LINK_TASK_BYTES, "{kept} bytes for {pair}");
        }
    }
    let answered = ENDING_TASKS_MAX + detaches(&mut client).await;
    let of_one_turn = FRAME_STEPS_MAX / LINK_STEPS;
    assert!(answered <= ENDING_TASKS_MAX + of_one_turn, "{answered}");
    let (_, kept) = client.memory.taken();
    assert!(kept >= answered * LINK_TASK_BYTES, "{kept} for {answered}");
    // The others have their turn as the store has.
    client.state.opens.add_permits(10_000);
    assert_eq!(answered + detaches(&mut client).await, PAIRS);
    let (_, left) = client.memory.taken();
    assert!(left < 16 * LINK_TASK_BYTES, "{left}");
    drop(client.stream);
    client.serving.await.expect("served");
    assert_eq!(client.memory.taken(), (0, 0));
}

#[test]
fn attaches_that_wait_keep_what_their_answers_need() {
    const LINKS: u32 = 50;
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime");
    let mut client = runtime.block_on(Client::authorized("listen"));
    client.state.opens.forget_permits(10_000);
    // A null has a byte on the way, and forty where it is read.
    let nulls = || vec![(Value::symbol("a"), Value::List(vec![Value::Null; 4_000]))];
    let measured = allocation_counter::measure(|| {
        runtime.block_on(async {
            for handle in 0..LINKS {
                let mut attach = attach(handle, LinkRole::Receiver);
                attach.properties = nulls();
                client.send(&Performative::Attach(Box::new(attach))).await;
            }
            assert!(client.is_quiet().await, "the store has answered none");
        });
    });
    let kept = measured.bytes_current;
    assert!(kept < i64::from(LINKS) * 40 * 1_024, "{kept} bytes");
}

#[tokio::test(start_paused = true)]
async fn requests_over_many_links_count_and_are_answered_a_few_at_once() {
    const LINKS: usize = 2 * REQUESTS_AT_ONCE_MAX;
    let mut client = Client::authorized("all").await;
    client.state.answers.forget_permits(10_000);
    let node = "orders/$management";
    for handle in 0..LINKS as u32 {
        client.attach_at(handle, LinkRole::Sender, node).await;
    }
    assert_eq!(detaches(&mut client).await, 0);
    let (_, idle) = client.memory.taken();
    let operation = vec![(
        "operation".into(),
        "com.microsoft:cancel-scheduled-message".into(),
    )];
    let numbers = vec![(
        "sequence-numbers".into(),
        Value::array(ElementType::LONG, vec![Value::Long(1)]),
    )];
    let request = Message::of(
        &MessageProperties::default(),
        operation,
        Value::Map(numbers),
    )
    .to_bytes();
    for handle in 0..LINKS as u32 {
        let asked = transfer(handle, handle + 1, request.clone());
        client.send(&Performative::Transfer(asked)).await;
    }
    assert!(client.is_quiet().await, "none is answered yet");
    let asked = |client: &Client| *client.state.asked.lock().unwrap();
    assert_eq!(asked(&client), REQUESTS_AT_ONCE_MAX);
    let (_, kept) = client.memory.taken();
    let least = REQUESTS_AT_ONCE_MAX * ANSWERING_BYTES + LINKS * WAITING_REQUEST_BYTES;
    assert!(kept >= idle + least, "{kept} bytes, of links {idle}");
    client.state.answers.add_permits(10_000);
    assert_eq!(detaches(&mut client).await, 0);
    assert_eq!(asked(&client), LINKS);
    let (_, left) = client.memory.taken();
    assert!(
        left < idle + ANSWERING_BYTES,
        "{left} bytes, of links {idle}"
    );
}

#[tokio::test(start_paused = true)]
async fn links_beyond_the_memory_are_rejected_until_tasks_have_ended() {
    let mut client = Client::authorized("listen").await;
    client.state.opens.forget_permits(10_000);
    let mut rejected = None;
    for handle in 0..10_000 {
        client.attach(handle, LinkRole::Receiver).await;
        if handle % 100 == 0 && !client.is_quiet().await {
            rejected = Some(handle);
            break;
        }
    }
    let links = rejected.expect("an end");
    assert!(links > 5_000, "{links} links are what clients may have");
    let (_, kept) = client.memory.taken();
    assert!(kept < 50 * 1_024 * 1_024, "half of all: {kept}");
    client.state.opens.add_permits(10_000);
    drop(client.stream);
    client.serving.await.expect("served");
    assert_eq!(client.memory.taken(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn what_a_client_has_settled_counts_until_it_is_stored() {
    const COUNT: usize = 1_000;
    let mut client = Client::authorized("listen").await;
    client.state.settles.forget_permits(100);
    client.attach(0, LinkRole::Receiver).await;
    assert!(matches!(client.next().await, Some(Performative::Attach(_))));
    client.offer((0..COUNT as u128).map(Uuid::from_u128));
    client.send(&grant(0, 0, COUNT as u32)).await;
    let mut last = 0;
    for _ in 0..COUNT {
        let transfer = into_transfer(client.next().await.expect("a transfer"));
        last = transfer.delivery_id.expect("an id");
    }
    let Performative::Disposition(all) = disposition(1, last, DeliveryState::Accepted) else {
        unreachable!("a disposition");
    };
    client
        .send(&Performative::Disposition(Disposition {
            settled: true,
            ..all
        }))
        .await;
    assert!(client.is_quiet().await);
    assert!(client.memory.taken().1 >= COUNT * DELIVERY_BYTES);
    client.state.settles.add_permits(100);
    assert!(client.is_quiet().await);
    assert!(client.memory.taken().1 < COUNT * DELIVERY_BYTES / 2);
    assert_eq!(client.settled().len(), COUNT);
}

#[tokio::test(start_paused = true)]
async fn links_end_with_their_entity() {
    let mut client = Client::authorized("all").await;
    for (handle, role) in [(1, LinkRole::Receiver), (2, LinkRole::Sender)] {
        client.attach(handle, role).await;
        assert!(matches!(client.next().await, Some(Performative::Attach(_))));
    }
    assert!(matches!(client.next().await, Some(Performative::Flow(_))));
    client
        .attach_at(3, LinkRole::Sender, "orders/$management")
        .await;
    for _ in ["attach", "flow"] {
        assert!(client.next().await.is_some());
    }
    client.state.is_gone.store(true, Ordering::Relaxed);
    client.access.send_modify(|version| *version += 1);
    let mut ended = Vec::new();
    for _ in 0..3 {
        let Some(Performative::Detach(detached)) = client.next().await else {
            panic!("a detach");
        };
        let condition = detached.error.expect("an error").condition.into_owned();
        ended.push((detached.handle, condition));
    }
    ended.sort();
    assert_eq!(
        ended,
        [1, 2, 3].map(|handle| (handle, NOT_FOUND.to_owned()))
    );
}

#[tokio::test(start_paused = true)]
async fn locks_that_lapse_make_room_for_others() {
    let mut client = Client::authorized("listen").await;
    client.attach(0, LinkRole::Receiver).await;
    assert!(matches!(client.next().await, Some(Performative::Attach(_))));
    let Performative::Flow(flow) = grant(0, 0, 10_000) else {
        unreachable!("a flow");
    };
    let most = super::super::limits::UNSETTLED_MAX as u128;
    client.offer((0..=most).map(Uuid::from_u128));
    client
        .send(&Performative::Flow(Flow {
            incoming_window: 100_000,
            ..flow
        }))
        .await;
    let mut first = None;
    for _ in 0..most {
        let Some(Performative::Transfer(transfer)) = client.next().await else {
            panic!("a transfer");
        };
        first = first.or(transfer.delivery_id);
    }
    let first = first.expect("an id");
    assert!(client.is_quiet().await, "so many are locked");
    for (is_busy, reason) in [
        (false, "another link has renewed them"),
        (true, "nobody knows"),
    ] {
        client.state.is_busy.store(is_busy, Ordering::Relaxed);
        client.state.clock.advance(Duration::from_secs(31));
        let next = tokio::time::timeout(Duration::from_secs(40), client.next());
        assert!(next.await.is_err(), "{reason}");
    }
    client.state.is_busy.store(false, Ordering::Relaxed);
    client.state.has_lapsed.store(true, Ordering::Relaxed);
    client.state.clock.advance(Duration::from_secs(31));
    let Some(Performative::Transfer(next)) = client.next().await else {
        panic!("a transfer");
    };
    // What is settled too late is answered.
    client
        .send(&disposition(first, first, DeliveryState::Accepted))
        .await;
    let Some(Performative::Disposition(late)) = client.next().await else {
        panic!("a disposition");
    };
    assert!(matches!(late.state, Some(DeliveryState::Rejected(Some(_)))));
    let id = next.delivery_id.expect("an id");
    client
        .send(&disposition(id, id, DeliveryState::Accepted))
        .await;
    let Some(Performative::Disposition(settled)) = client.next().await else {
        panic!("a disposition");
    };
    assert_eq!(settled.state, Some(DeliveryState::Accepted));
}

/// A client with a link to the coordinator at the handle 9 and a receiver at the handle 0, and the ids of the deliveries that
/// came over it, whose locks have these tokens.
async fn in_transactions(tokens: [Uuid; 2]) -> (Client, [u32; 2]) {
    let mut client = Client::authorized("all").await;
    let coordinator = Attach {
        target: Some(LinkTarget::Coordinator),
        ..attach(9, LinkRole::Sender)
    };
    client
        .send(&Performative::Attach(Box::new(coordinator)))
        .await;
    client.attach(0, LinkRole::Receiver).await;
    client.offer(tokens);
    for _ in ["attach", "flow", "attach"] {
        assert!(client.next().await.is_some());
    }
    client.send(&grant(0, 0, 2)).await;
    let mut ids = [0; 2];
    for id in &mut ids {
        let Some(Performative::Transfer(transfer)) = client.next().await else {
            panic!("a transfer");
        };
        *id = transfer.delivery_id.expect("an id");
    }
    (client, ids)
}

impl Client {
    /// Asks the coordinator. Returns its answer.
    pub(super) async fn coordinate(&mut self, id: u32, asked: Value) -> DeliveryState {
        let message = Message::of(&MessageProperties::default(), Map::new(), asked).to_bytes();
        self.send(&Performative::Transfer(transfer(9, id, message)))
            .await;
        loop {
            let next = self.next().await.expect("an answer");
            assert!(!matches!(next, Performative::Detach(_)), "{next:?}");
            if let Performative::Disposition(answer) = next
                && answer.role == LinkRole::Receiver
            {
                return answer.state.expect("a state");
            }
        }
    }

    pub(super) async fn declare(&mut self, id: u32) -> Bytes {
        let declare = Value::described(0x31, Value::List(Vec::new()));
        let DeliveryState::Declared(transaction) = self.coordinate(id, declare).await else {
            panic!("a transaction");
        };
        transaction
    }

    async fn settle_in(&mut self, transaction: &Bytes, delivery: u32, settled: bool) {
        let state = DeliveryState::Transactional(Transactional {
            transaction: transaction.clone(),
            outcome: Some(Box::new(DeliveryState::Accepted)),
        });
        let Performative::Disposition(disposition) = disposition(delivery, delivery, state) else {
            unreachable!("a disposition");
        };
        self.send(&Performative::Disposition(Disposition {
            settled,
            ..disposition
        }))
        .await;
    }

    fn settled(&self) -> Vec<(Uuid, ReceiverOutcome)> {
        self.state.settled.lock().unwrap().clone()
    }
}

pub(super) fn discharge(transaction: &Bytes, fail: bool) -> Value {
    let fields = vec![Value::Binary(transaction.clone()), Value::Bool(fail)];
    Value::described(0x32, Value::List(fields))
}

#[tokio::test(start_paused = true)]
async fn what_a_transaction_settles_waits_for_its_end() {
    let tokens = [Uuid::from_u128(1), Uuid::from_u128(2)];
    let (mut client, ids) = in_transactions(tokens).await;
    let transaction = client.declare(0).await;
    client.settle_in(&transaction, ids[0], false).await;
    let Some(Performative::Disposition(answer)) = client.next().await else {
        panic!("a disposition");
    };
    assert!(!answer.settled, "not before the discharge");
    client.settle_in(&transaction, ids[1], true).await;
    // What the client has settled goes back and counts; the other it can settle again.
    let discharged = client.coordinate(1, discharge(&transaction, true)).await;
    assert_eq!(discharged, DeliveryState::Accepted);
    assert!(client.is_quiet().await);
    let abandoned = (tokens[1], ReceiverOutcome::Abandon(Arc::new([])));
    assert_eq!(client.settled(), std::slice::from_ref(&abandoned));
    let transaction = client.declare(2).await;
    client.settle_in(&transaction, ids[0], false).await;
    assert!(client.next().await.is_some());
    client
        .send(&Performative::Transfer(transfer(
            9,
            3,
            Message::of(
                &MessageProperties::default(),
                Map::new(),
                discharge(&transaction, false),
            )
            .to_bytes(),
        )))
        .await;
    let mut answers = Vec::new();
    for _ in 0..2 {
        let Some(Performative::Disposition(each)) = client.next().await else {
            panic!("a disposition");
        };
        answers.push((each.role, each.settled, each.state));
    }
    let done = Some(DeliveryState::Accepted);
    assert!(answers.contains(&(LinkRole::Sender, true, done.clone())));
    assert!(answers.contains(&(LinkRole::Receiver, true, done)));
    assert_eq!(
        client.settled(),
        [abandoned, (tokens[0], ReceiverOutcome::Complete)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_transaction_is_told_of_a_lapsed_lock_and_goes_on_without_it() {
    let held = Uuid::from_u128(1);
    let (mut client, ids) = in_transactions([held, LOST]).await;
    let transaction = client.declare(0).await;
    client.settle_in(&transaction, ids[1], false).await;
    let Some(Performative::Disposition(answer)) = client.next().await else {
        panic!("a disposition");
    };
    assert!(answer.settled);
    let Some(DeliveryState::Rejected(Some(error))) = answer.state else {
        panic!("a rejection: {:?}", answer.state);
    };
    assert_eq!(error.condition, MESSAGE_LOCK_LOST);
    client.settle_in(&transaction, ids[0], false).await;
    let discharged = client.coordinate(1, discharge(&transaction, false)).await;
    assert_eq!(discharged, DeliveryState::Accepted);
    assert_eq!(client.settled(), [(held, ReceiverOutcome::Complete)]);
}

#[tokio::test(start_paused = true)]
async fn a_request_is_answered_in_its_transaction_and_done_at_the_end() {
    let (mut client, _) = in_transactions([Uuid::from_u128(1), Uuid::from_u128(2)]).await;
    client.state.settles.forget_permits(100);
    client
        .attach_at(1, LinkRole::Receiver, "orders/$management")
        .await;
    client
        .attach_at(2, LinkRole::Sender, "orders/$management")
        .await;
    for _ in ["attach", "attach", "flow"] {
        assert!(client.next().await.is_some());
    }
    client.send(&grant(1, 0, 9)).await;
    let transaction = client.declare(0).await;
    let operation = vec![("operation".into(), "com.microsoft:schedule-message".into())];
    let sent = Message::of(&MessageProperties::default(), Map::new(), "later".into()).to_bytes();
    let one = Value::Map(vec![("message".into(), Value::Binary(sent.into()))]);
    let asked = Value::Map(vec![("messages".into(), Value::List(vec![one]))]);
    let request = Message::of(&MessageProperties::default(), operation, asked).to_bytes();
    let within = DeliveryState::Transactional(Transactional {
        transaction: transaction.clone(),
        outcome: None,
    });
    client
        .send(&Performative::Transfer(Transfer {
            state: Some(within),
            ..transfer(2, 1, request)
        }))
        .await;
    // The discharge waits for it.
    let discharge = Message::of(
        &MessageProperties::default(),
        Map::new(),
        discharge(&transaction, false),
    );
    client
        .send(&Performative::Transfer(transfer(
            9,
            2,
            discharge.to_bytes(),
        )))
        .await;
    assert!(client.is_quiet().await);
    assert!(client.state.stored.lock().unwrap().is_empty());
    client.state.settles.add_permits(1);
    let mut answers = Vec::new();
    for _ in 0..3 {
        answers.extend(client.next().await);
    }
    let is_reply = |each: &Performative| matches!(each, Performative::Transfer(_));
    assert!(answers.iter().any(is_reply), "{answers:?}");
    assert_eq!(client.state.stored.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_ends_with_the_link_of_its_coordinator() {
    let tokens = [Uuid::from_u128(1), Uuid::from_u128(2)];
    let (mut client, ids) = in_transactions(tokens).await;
    let transaction = client.declare(0).await;
    client.settle_in(&transaction, ids[0], true).await;
    client.send(&detach(9)).await;
    assert!(matches!(client.next().await, Some(Performative::Detach(_))));
    assert!(client.is_quiet().await);
    let abandoned = (tokens[0], ReceiverOutcome::Abandon(Arc::new([])));
    assert_eq!(client.settled(), [abandoned]);
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_what_was_settled_before_them() {
    let mut client = Client::authorized("all").await;
    client.state.settles.forget_permits(100);
    client.attach(0, LinkRole::Receiver).await;
    client
        .attach_at(1, LinkRole::Receiver, "orders/$management")
        .await;
    client
        .attach_at(2, LinkRole::Sender, "orders/$management")
        .await;
    for _ in ["attach", "attach", "attach", "flow"] {
        assert!(client.next().await.is_some());
    }
    client.send(&grant(1, 0, 1)).await;
    client.offer([Uuid::from_u128(1)]);
    client.send(&grant(0, 0, 1)).await;
    let Some(Performative::Transfer(handed_out)) = client.next().await else {
        panic!("a transfer");
    };
    let id = handed_out.delivery_id.expect("an id");
    client
        .send(&disposition(id, id, DeliveryState::Accepted))
        .await;
    let operation = vec![(
        "operation".into(),
        "com.microsoft:cancel-scheduled-message".into(),
    )];
    let numbers = vec![(
        "sequence-numbers".into(),
        Value::array(ElementType::LONG, vec![Value::Long(1)]),
    )];
    let request = Message::of(
        &MessageProperties::default(),
        operation,
        Value::Map(numbers),
    );
    client
        .send(&Performative::Transfer(transfer(2, 0, request.to_bytes())))
        .await;
    assert!(client.is_quiet().await, "nothing is settled yet");
    client.state.settles.add_permits(1);
    let Some(Performative::Disposition(settled)) = client.next().await else {
        panic!("a disposition");
    };
    assert_eq!(settled.role, LinkRole::Sender);
    let mut others = Vec::new();
    for _ in 0..2 {
        others.extend(client.next().await);
    }
    let is_reply = |each: &Performative| matches!(each, Performative::Transfer(_));
    assert!(others.iter().any(is_reply), "{others:?}");
}

#[tokio::test]
async fn connections_that_break_have_one_line_a_minute() {
    let early_ends = Arc::<SeldomLine>::default();
    for _ in 0..3 {
        let state = State::new(Clock::simulated(NOW));
        let access = watch::channel(0).0;
        let server = SharedServer {
            early_ends: Arc::clone(&early_ends),
            ..server(&state, &access)
        };
        let opened = open(FRAME_BYTES_MAX);
        let mut client = Client::of(server, state, access, 512, &opened).await;
        let until = NOW + Duration::from_secs(600);
        assert_eq!(client.show_token("all", until).await, 202);
        let mut bytes = Vec::new();
        (1..200).for_each(|channel| frame(&mut bytes, channel, &begin(1_000_000)));
        client.stream.write_all(&bytes).await.expect("sent");
        drop(client.stream); // the answers are more than the pipe has room for
        client.serving.await.expect("an end");
    }
    let next_line = early_ends.take(NOW + Duration::from_secs(60));
    assert_eq!(next_line, Some(2), "two were counted");
}
