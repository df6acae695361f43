//! Queues in memory behind the appliance's AMQP connections, for clients to be tried against: prints its port and
//! serves until it is killed.
//!
//! What a queue does is in its name: `session…` needs sessions, `short…` locks for two seconds, `missing…` is not
//! there, `missing-session…` neither. Every other queue is there as soon as it is named.

mod queue;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use everpost::api::amqp::{
    Claims, HeldSession, Nodes, Receiver, ReceiverRequest, Sender, Server, Taken, serve,
};
use everpost::base::{Clock, Timestamp};
use everpost::model::access::Secret;
use everpost::model::shared_access::Rights;
use everpost::wire::amqp::AmqpError;
use everpost::wire::amqp::address::{EntityAddress, SubQueue};
use everpost::wire::amqp::cbs::PutToken;
use everpost::wire::amqp::condition::{
    NOT_ALLOWED, NOT_FOUND, SESSION_CANNOT_BE_LOCKED, SESSION_LOCK_LOST, TIMEOUT,
};
use everpost::wire::amqp::management::{Operation, Reply, Request};
use everpost::wire::amqp::message::Message;
use everpost::wire::amqp::outcome::Outcome;
use everpost::wire::amqp::sasl::Plain;
use everpost::wire::amqp::terminus::SessionFilter;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use queue::{Queue, Session};

const RULE: &str = "RootManageSharedAccessKey";
const KEY: &str = "c2VjcmV0";
const MESSAGE_BYTES_MAX: u64 = 1_024 * 1_024;
const SESSION_WAIT: Duration = Duration::from_secs(5);

#[derive(Clone)]
struct Memory {
    clock: Clock,
    queues: Arc<Mutex<HashMap<String, Arc<Shared>>>>,
}

/// A queue with its dead-letter queue.
struct Shared {
    clock: Clock,
    queue: Mutex<Queue>,
    dead: Option<Arc<Shared>>,
    changed: Notify,
    needs_session: bool,
}

impl Shared {
    fn new(name: &str, clock: &Clock, dead: Option<Arc<Shared>>) -> Arc<Self> {
        let seconds = if name.contains("short") { 2 } else { 30 };
        Arc::new(Self {
            clock: clock.clone(),
            queue: Mutex::new(Queue::new(Duration::from_secs(seconds))),
            needs_session: dead.is_some() && name.starts_with("session"),
            dead,
            changed: Notify::new(),
        })
    }

    /// Changes the queue, and wakes who waits for a change.
    fn with<T>(&self, act: impl FnOnce(&mut Queue, Timestamp) -> T) -> T {
        let done = self.look(act);
        self.changed.notify_waiters();
        done
    }

    /// Looks at the queue as it is now, once what has died is moved.
    fn look<T>(&self, act: impl FnOnce(&mut Queue, Timestamp) -> T) -> T {
        let now = self.clock.now();
        let mut queue = self.queue.lock().unwrap();
        queue.sweep(now);
        let done = act(&mut queue, now);
        let died = queue.take_dead(self.dead.is_some());
        drop(queue);
        if let Some(dead) = &self.dead
            && !died.is_empty()
        {
            dead.queue.lock().unwrap().bury(died);
            dead.changed.notify_waiters();
        }
        done
    }
}

impl Memory {
    fn find(&self, entity: &EntityAddress) -> Result<Arc<Shared>, AmqpError> {
        let name = entity.path.to_lowercase();
        if name.starts_with("missing") {
            let problem = format!("The messaging entity '{name}' could not be found.");
            return Err(AmqpError::new(NOT_FOUND, problem));
        }
        let mut queues = self.queues.lock().unwrap();
        let queue = queues.entry(name.clone()).or_insert_with(|| {
            let dead = Shared::new(&name, &self.clock, None);
            Shared::new(&name, &self.clock, Some(dead))
        });
        match (entity.sub_queue, &queue.dead) {
            (SubQueue::DeadLetter, Some(dead)) => Ok(Arc::clone(dead)),
            (SubQueue::Active, _) => Ok(Arc::clone(queue)),
            (SubQueue::DeadLetter | SubQueue::TransferDeadLetter, _) => Err(AmqpError::new(
                NOT_FOUND,
                "The messaging entity could not be found.",
            )),
        }
    }
}

#[async_trait]
impl Nodes for Memory {
    fn plain(&self, credentials: &Plain) -> Option<Claims> {
        let is_right = credentials.rule == RULE && credentials.key.reveal() == KEY;
        is_right.then(|| Claims::new("", Rights::ALL, None))
    }

    fn token(&self, request: &PutToken) -> Result<Claims, AmqpError> {
        Claims::of_token(request, self.clock.now(), |rule, _| {
            (rule == RULE).then(|| (Secret::new(KEY), Rights::ALL))
        })
    }

    async fn open_sender(&self, entity: &EntityAddress) -> Result<Box<dyn Sender>, AmqpError> {
        if entity.sub_queue != SubQueue::Active {
            let problem = "Messages cannot be sent to a dead-letter queue.";
            return Err(AmqpError::new(NOT_ALLOWED, problem));
        }
        Ok(Box::new(ToQueue(self.find(entity)?)))
    }

    async fn open_receiver(
        &self,
        request: ReceiverRequest,
        gone: &CancellationToken,
    ) -> Result<Box<dyn Receiver>, AmqpError> {
        let queue = self.find(&request.entity)?;
        let session = match (&request.session, queue.needs_session) {
            (None, true) => {
                let problem = "It is not possible for an entity that requires sessions to create a \
                               non-sessionful message receiver.";
                return Err(AmqpError::new(NOT_ALLOWED, problem));
            }
            (None, false) => None,
            (Some(filter), _) => {
                let wait = request.session_timeout.unwrap_or(SESSION_WAIT);
                Some(accept(&queue, filter, wait, gone).await?)
            }
        };
        Ok(Box::new(FromQueue {
            queue,
            session,
            lock: request.lock,
        }))
    }

    async fn open_management(&self, entity: &EntityAddress) -> Result<(), AmqpError> {
        self.find(entity).map(drop)
    }

    async fn manage(&self, entity: &EntityAddress, request: Request) -> Result<Reply, AmqpError> {
        let queue = self.find(entity)?;
        if queue.needs_session
            && let Operation::Peek { session: None, .. } = request.operation
        {
            let problem = "It is not possible for an entity that requires sessions to create a \
                           non-sessionful message receiver.";
            return Err(AmqpError::new(NOT_ALLOWED, problem));
        }
        queue.with(|queue, now| answer(queue, request.operation, now))
    }
}

fn answer(queue: &mut Queue, operation: Operation, now: Timestamp) -> Result<Reply, AmqpError> {
    Ok(match operation {
        Operation::RenewLocks(tokens) => {
            let ends = tokens.iter().map(|token| queue.renew(*token, now));
            Reply::LocksRenewed(ends.collect::<Result<_, _>>()?)
        }
        Operation::Peek {
            from,
            count,
            session,
        } => Reply::Peeked(queue.peek(from, count, session.as_deref())),
        Operation::ReceiveNumbers { numbers, lock, .. } => {
            Reply::Received(queue.receive_deferred(&numbers, lock, now)?)
        }
        Operation::Settle {
            tokens, outcome, ..
        } => {
            for token in tokens {
                queue.settle(token, &outcome)?;
            }
            Reply::Done
        }
        Operation::Schedule(messages) => {
            let numbers = messages.into_iter().map(|each| queue.add(each, now));
            Reply::Scheduled(numbers.collect())
        }
        Operation::CancelScheduled(numbers) => {
            queue.cancel(&numbers)?;
            Reply::Done
        }
        Operation::RenewSession(session) => {
            Reply::SessionRenewed(queue.renew_session(&session, now)?)
        }
        Operation::SessionState(session) => {
            Reply::SessionState(queue.session(&session).state.clone())
        }
        Operation::SetSessionState { session, state } => {
            queue.session(&session).state = state;
            Reply::Done
        }
        Operation::Sessions { skip, top, .. } => {
            let ids: Vec<String> = queue.sessions().skip(skip).take(top).collect();
            let skip = skip + ids.len();
            Reply::Sessions { skip, ids }
        }
        Operation::DeleteMessages {
            count,
            enqueued_before,
            ..
        } => Reply::Deleted(queue.delete(count, enqueued_before)),
    })
}

async fn accept(
    queue: &Shared,
    filter: &SessionFilter,
    wait: Duration,
    gone: &CancellationToken,
) -> Result<String, AmqpError> {
    let deadline = tokio::time::sleep(wait);
    tokio::pin!(deadline);
    loop {
        let changed = queue.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        let found = queue.look(|queue, now| match filter {
            SessionFilter::Named(id) => {
                let is_locked = queue.lock_session(id, now);
                is_locked.then(|| id.clone()).ok_or(())
            }
            SessionFilter::Next => {
                let free = queue.free_session();
                free.inspect(|id| assert!(queue.lock_session(id, now)))
                    .ok_or(())
            }
        });
        match (found, filter) {
            (Ok(id), _) => return Ok(id),
            (Err(()), SessionFilter::Named(id)) => {
                let problem =
                    format!("The session {id:?} cannot be locked: another receiver holds it.");
                return Err(AmqpError::new(SESSION_CANNOT_BE_LOCKED, problem));
            }
            (Err(()), SessionFilter::Next) => {}
        }
        tokio::select! {
            () = &mut changed => {}
            () = tokio::time::sleep(Duration::from_millis(100)) => {}
            () = &mut deadline => return Err(AmqpError::new(TIMEOUT, "no session is free")),
            () = gone.cancelled() => return Err(AmqpError::new(TIMEOUT, "the client is gone")),
        }
    }
}

struct ToQueue(Arc<Shared>);

#[async_trait]
impl Sender for ToQueue {
    fn message_bytes_max(&self) -> u64 {
        MESSAGE_BYTES_MAX
    }

    async fn send(&self, batches: Vec<Vec<Message>>) -> Vec<Result<(), AmqpError>> {
        let needs_session = self.0.needs_session;
        self.0.with(|queue, now| {
            let each = batches.into_iter().map(|batch| {
                let is_without = |message: &Message| {
                    message.properties().is_ok_and(|found| found.group_id.is_none())
                };
                if needs_session && batch.iter().any(is_without) {
                    let problem = "The SessionId was not set on a message, and it cannot be sent to \
                                   the entity.";
                    return Err(AmqpError::new(NOT_ALLOWED, problem));
                }
                for message in batch {
                    queue.add(message, now);
                }
                Ok(())
            });
            each.collect()
        })
    }
}

struct FromQueue {
    queue: Arc<Shared>,
    session: Option<String>,
    lock: bool,
}

#[async_trait]
impl Receiver for FromQueue {
    fn session(&self) -> Option<HeldSession> {
        let id = self.session.clone()?;
        let locked_until = self
            .queue
            .look(|queue, _| queue.session(&id).locked_until)?;
        Some(HeldSession { id, locked_until })
    }

    async fn arrival(&self) -> Result<(), AmqpError> {
        loop {
            let changed = self.queue.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let session = self.session.as_deref();
            let (is_lost, is_there) = self.queue.look(|queue, _| {
                let is_lost = session.is_some_and(|id| queue.session(id).locked_until.is_none());
                (is_lost, queue.has_available(session))
            });
            if is_lost {
                let problem = "The session lock has expired.";
                return Err(AmqpError::new(SESSION_LOCK_LOST, problem));
            }
            if is_there {
                return Ok(());
            }
            tokio::select! {
                () = &mut changed => {}
                () = tokio::time::sleep(Duration::from_millis(100)) => {} // locks expire
            }
        }
    }

    async fn take(&self, limit: usize) -> Result<Vec<Taken>, AmqpError> {
        let session = self.session.as_deref();
        let taken = self
            .queue
            .with(|queue, now| queue.take(limit, session, self.lock, now));
        let taken = taken.into_iter();
        let taken = taken.map(|(token, message)| Taken { token, message });
        Ok(taken.collect())
    }

    async fn settle(&self, locks: Vec<(Uuid, Outcome)>) -> Vec<Result<(), AmqpError>> {
        self.queue.with(|queue, _| {
            let each = locks
                .iter()
                .map(|(token, outcome)| queue.settle(*token, outcome));
            each.collect()
        })
    }

    async fn close(&self) {
        if let Some(id) = &self.session {
            self.queue.with(|queue, _| {
                let Session { locked_until, .. } = queue.session(id);
                *locked_until = None;
                queue.release_session(id);
            });
        }
    }
}

#[tokio::main]
async fn main() {
    let clock = Clock::system();
    let nodes = Memory {
        clock: clock.clone(),
        queues: Arc::default(),
    };
    let server = Arc::new(Server {
        nodes: Box::new(move |_| Arc::new(nodes.clone())),
        clock,
        container_id: "memory".to_owned(),
        stop: CancellationToken::new(),
    });
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok());
    let address = ("127.0.0.1", port.unwrap_or(0));
    let listener = TcpListener::bind(address).await.expect("a port");
    println!(
        "listening on {}",
        listener.local_addr().expect("its address")
    );
    loop {
        let (stream, client) = listener.accept().await.expect("a connection");
        let server = Arc::clone(&server);
        let _ = stream.set_nodelay(true);
        tokio::spawn(async move { serve(stream, client.ip(), &server).await });
    }
}
