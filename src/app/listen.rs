//! Accepts connections, with limits on their number per client and in total, on the time until a request, and on the
//! time at shutdown.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use axum::BoxError;
use axum::extract::ConnectInfo;
use axum::http::header::{RETRY_AFTER, UPGRADE};
use axum::http::{Request, Response, StatusCode, Version};
use axum::response::IntoResponse;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, lazy};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::{Builder, UpgradeableConnection};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::{Memory, amqp, client_of};
use crate::app::forwarded::TrustedProxies;
use crate::app::heads::{Buffers, HeadBytes, HeadStream, HeadWatch, HeadsProgress};
use crate::app::mistakes::{Mistake, Mistakes};
use crate::app::paced_body::PacedBody;
use crate::app::paced_stream::{PaceWatch, PacedStream};
use crate::app::tls::{self, SecureStream, Tls};
use crate::app::unread::{Streams, watched};
use crate::base::Live;
use crate::base::budget::{MemoryAccount, NothingLeft};
use crate::base::request_memory::RequestMemory;
use crate::base::seldom::SeldomLine;
use crate::broker::diagnostics::{ConnectionSlot, Connections};
use crate::broker::people::ByTrustedProxy;

/// Bytes that every connection counts for, in any protocol: its task, its counters, and its entry among the
/// connections that the system watches.
const STREAM_BYTES: usize = 4 * 1_024;

/// Additional bytes that a TLS connection counts for: its buffer for an incomplete message.
const TLS_BYTES: usize = tls::HANDSHAKE_BYTES_MAX;

/// Additional bytes that an HTTP connection counts for: its state, its read buffer for heads, which grows when the
/// client sends more, its write buffer, and with HTTP/2 header tables. An HTTP/1 connection that has answered a
/// request was measured at 18 KiB in all. (Its buffers have 24 KiB, but only the parts that were written to use
/// memory.)
const BUFFERS: Buffers = Buffers {
    small: 8 * 1_024,
    http1: HeadBytes {
        least: 14 * 1_024,
        most: 14 * 1_024 + HEADER_BYTES_MAX,
    },
    http2: HeadBytes {
        least: 28 * 1_024,
        most: 20 * 1_024 + HEADER_BYTES_MAX,
    },
};

/// Bytes that a request counts for besides its connection, until its whole answer has been dropped: a usual head, its
/// futures, its task, and its stream. A request that waits for a message was measured at 50 KiB, with 40 KiB of it
/// for operations that the request does not perform. Each operation has a future of its own, which is made when the
/// operation runs.
const REQUEST_BYTES: usize = 16 * 1_024;

/// Size of a usual request head in bytes, as it is counted.
const USUAL_HEAD_BYTES: usize = 4 * 1_024;

/// Bytes that a header counts for besides its name and its value: its entry in the header map, whose entries take
/// twice the memory when the map grows.
const EACH_HEADER_BYTES: usize = 256;

/// Bytes that a request counts for when there is no memory for it: its stream, and the head of the answer.
const REJECTION_BYTES: usize = 2 * 1_024;

/// Maximum number of unread answers to requests without memory; then the connection is closed. A client that reads
/// leaves one or two.
const REJECTIONS_MAX: usize = 8;

/// Number of consecutive requests without memory after which a connection is closed: ten times the maximum number of
/// concurrent HTTP/2 streams. A client that waits for the `Retry-After` time stays below it.
const IN_VAIN_MAX: usize = 10 * STREAMS_MAX as usize;

/// Maximum number of bytes of an HTTP/2 answer that wait in the buffers of its stream.
const UNSENT_BYTES_MAX: usize = 16 * 1_024;

/// Bytes that are read from a TLS connection to detect its protocol.
const FIRST_BYTES: usize = 512;

/// How long a client may take to send the head of a request.
const HEADER_DEADLINE: Duration = Duration::from_secs(10);

/// Time that a new connection waits for a place while other connections are asked to close. Connections that arrive
/// meanwhile wait too.
const PLACE_WAIT: Duration = Duration::from_millis(500);

/// Interval at which a waiting connection asks again for a place.
const PLACE_CHECK: Duration = Duration::from_millis(10);

/// Maximum size of a request head in bytes, the same as in Node's servers, and of a single read: each connection has
/// a buffer of this size.
const HEADER_BYTES_MAX: usize = 16 * 1_024;

/// Maximum number of headers of a request.
const HEADERS_MAX: usize = 100;

/// Maximum number of streams of one HTTP/2 connection.
const STREAMS_MAX: u32 = 100;

/// Time for which an HTTP/2 connection may be silent before it is pinged. (HTTP/1 has the deadline for the next
/// head.) Shorter than the minutes after which firewalls drop an idle connection.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// Time limit for the answer to the ping.
const PING_DEADLINE: Duration = Duration::from_secs(20);

/// Pause after an accept that failed, so that a process out of file descriptors does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Interval at which the log reports the number of broken connections: no peer causes a line of its own.
const BROKEN_TOLD_EVERY: Duration = Duration::from_secs(60);

/// How long open connections may take to end their requests at a stop.
const GOODBYE: Duration = Duration::from_secs(2);

/// Time for which a connection may begin its first request during shutdown. A client that has just connected is about
/// to send a request.
const FIRST_REQUEST_GRACE: Duration = Duration::from_millis(100);

/// First byte of AMQP. No HTTP method that is served begins with it, nor does HTTP/2.
const AMQP: u8 = b'A';

/// Answer that tells an AMQP client to use TLS: the protocol header that it must begin with (AMQP 1.0, section
/// 5.2.1).
const TLS_IS_SPOKEN: &[u8] = b"AMQP\x02\x01\x00\x00";

/// Answer that tells a TLS client that the server has no TLS: the fatal alert `handshake_failure` (RFC 8446, section
/// 6).
const NO_TLS_IS_SPOKEN: &[u8] = &[21, 3, 1, 0, 2, 2, 40];

/// The response to a client that sends plain HTTP to a server with TLS.
const HTTPS_IS_SPOKEN: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n\
    This server speaks HTTPS: use https:// in the URL.\n";

/// Connection with or without TLS. The TLS state is boxed: it is larger than everything else that a connection has.
type Stream = Either<PacedTcp, Box<BufReader<SecureStream<PacedTcp>>>>;

type PacedTcp = PacedStream<TcpStream>;

/// Limits on the connections that are served at once.
#[derive(Clone, Debug)]
pub(super) struct ConnectionLimits {
    /// Over all clients; for each further one, another is closed.
    pub(super) overall: Connections,
    /// From one client address; more of them are closed, so that nobody takes all places.
    pub(super) per_client: Live<usize>,
    /// Proxies, which many clients share, so that `per_client` does not apply to them.
    pub(super) proxies: TrustedProxies,
    /// The memory that is kept for all of them.
    pub(super) memory: Memory,
}

/// Takes a place for a connection. If none is free, connections of clients that have not shown a key are asked to
/// close: a silent connection prevents no other from being accepted, and no client that has shown a key is closed for
/// it. Returns `None` if no connection can be closed, or if no place becomes free in time: later connections wait
/// meanwhile.
async fn place(overall: &Connections, own: &MemoryAccount) -> Option<ConnectionSlot> {
    let asking = async {
        while own.ask_for_a_place() {
            tokio::time::sleep(PLACE_CHECK).await;
        }
    };
    tokio::select! {
        biased; // nobody is asked where a place is free
        slot = overall.enter() => Some(slot),
        () = asking => None,
        () = tokio::time::sleep(PLACE_WAIT) => None,
    }
}

/// Serves on `listeners` until `stop`: AMQP connections by `amqp`, if it is present, and every other connection by a
/// service of its own. With `tls`, all connections use TLS.
pub(super) async fn serve<S, B>(
    listeners: Vec<TcpListener>,
    tls: Option<Tls>,
    limits: ConnectionLimits,
    stop: CancellationToken,
    service_for: impl Fn(SocketAddr, OfRequests) -> S,
    amqp: Option<Arc<amqp::SharedServer>>,
) where
    S: Service<Request<Incoming>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    let clients = Arc::new(ClientConnections::default());
    let open = TaskTracker::new();
    let broken = Arc::new(AtomicU64::new(0));
    let mistakes = Arc::new(Mistakes::default());
    let bodies_end = CancellationToken::new();
    let mut turn = 0;
    tokio::spawn(
        stop.clone()
            .run_until_cancelled_owned(tell_of(Arc::clone(&broken))),
    );
    while let Some((stream, address)) = accept(&listeners, &mut turn, &stop).await {
        let is_proxy = limits.proxies.contain(address.ip());
        let per_client = if is_proxy {
            usize::MAX
        } else {
            *limits.per_client.get()
        };
        let Some(of_client) = clients.enter(address.ip(), per_client) else {
            tracing::debug!(%address, "a client has too many connections");
            continue;
        };
        let bytes = match &tls {
            Some(_) => TLS_BYTES + STREAM_BYTES,
            None => STREAM_BYTES,
        };
        let client = (!is_proxy).then(|| address.ip());
        let Ok(mut own) = limits.memory.enter(client, bytes) else {
            tracing::debug!(%address, "there is no memory left for another connection");
            continue;
        };
        let Some(slot) = place(&limits.overall, own.account()).await else {
            tracing::debug!(%address, "there is no place left for another connection");
            continue;
        };
        let requested = Arc::new(Notify::new());
        let has_requested = Arc::clone(&requested);
        let of_requests = OfRequests::new(limits.memory.connection(client), bodies_end.clone());
        let service = service_for(address, of_requests.clone());
        let slot = amqp::ServedConnection(Arc::new((slot, of_client)));
        let slot_of_requests = slot.clone();
        let progress = Arc::clone(&of_requests.progress);
        let service = service_fn(move |mut request: Request<Incoming>| {
            has_requested.notify_one();
            progress.note_head();
            if request.headers().contains_key(UPGRADE) {
                request.extensions_mut().insert(slot_of_requests.clone());
            }
            service.call(request)
        });
        let (amqp, tls) = (amqp.clone(), tls.clone());
        let (stop, broken) = (stop.clone(), Arc::clone(&broken));
        let mistakes = Arc::clone(&mistakes);
        let serving = async move {
            let asked_to_close = own.account().asked_to_close().clone();
            let begin = async {
                let begun = begin(stream, tls.as_ref()).await;
                begun.unwrap_or_else(|mistake| {
                    mistakes.note(address.ip(), &mistake);
                    None
                })
            };
            let begun = tokio::select! {
                begun = tokio::time::timeout(HEADER_DEADLINE, begin) => begun.ok().flatten(),
                () = grace(&stop) => None,
                () = asked_to_close.cancelled() => None,
            };
            match (begun, &amqp) {
                (None, _) => {}
                (Some((AMQP, stream)), Some(amqp)) => {
                    Box::pin(amqp::serve(stream, address.ip(), amqp, own)).await;
                }
                (Some((_, stream)), _) => {
                    let OfRequests {
                        account,
                        progress,
                        streams,
                        rejections: _,
                        in_vain: _,
                        bodies_end: _,
                    } = of_requests;
                    own.move_to(&account);
                    let Ok(watch) = HeadWatch::new(BUFFERS, progress, own) else {
                        tracing::debug!(%address, "there is no memory left for what it speaks");
                        return;
                    };
                    let heads = HeadStream::new(stream, watch);
                    let server = server(streams);
                    let connection =
                        server.serve_connection_with_upgrades(TokioIo::new(heads), service);
                    // A client that hangs up or sends invalid data affects only its own connection.
                    let boxed = Box::pin(connection.into_owned());
                    let attended = attend(boxed, &requested, &stop);
                    let asked_to_close = account.asked_to_close();
                    let attended = asked_to_close.run_until_cancelled(Box::pin(attended)).await;
                    account.stay(); // a WebSocket has an account of its own, and closes by that
                    if let Some(Err(cause)) = attended {
                        tracing::debug!(%cause, %address, "a connection was broken");
                        broken.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            drop(slot);
        };
        open.spawn(serving);
    }
    open.close();
    let _ = tokio::time::timeout(GOODBYE, open.wait()).await;
    bodies_end.cancel();
}

fn paced(stream: TcpStream) -> PacedTcp {
    PacedStream::new(stream, PaceWatch::default())
}

/// The first byte that a client sends, which stays to be read; `None` if there is none.
async fn begin(stream: TcpStream, tls: Option<&Tls>) -> Result<Option<(u8, Stream)>, Mistake> {
    let mut first = [0];
    if stream.peek(&mut first).await.unwrap_or(0) == 0 {
        return Ok(None);
    }
    let [first] = first;
    let (mistake, answer) = match (tls, first) {
        (Some(tls), tls::HANDSHAKE) => {
            let accepted = Box::pin(tls.accept(paced(stream))).await;
            let secured = accepted.map_err(Mistake::Handshake)?;
            let mut stream = Box::new(BufReader::with_capacity(FIRST_BYTES, secured));
            let read = stream.fill_buf().await.ok();
            let first = read.and_then(|read| read.first().copied());
            return Ok(first.map(|first| (first, Either::Right(stream))));
        }
        (None, tls::HANDSHAKE) => (Mistake::Tls, NO_TLS_IS_SPOKEN),
        (None, _) => return Ok(Some((first, Either::Left(paced(stream))))),
        (Some(_), AMQP) => (Mistake::PlainAmqp, TLS_IS_SPOKEN),
        (Some(_), _) => (Mistake::Plain, HTTPS_IS_SPOKEN),
    };
    tell(stream, answer).await;
    Err(mistake)
}

/// Tells a client which protocol is spoken here. Reads the received bytes before closing: unread bytes would reset
/// the connection and lose the answer.
async fn tell(mut stream: TcpStream, answer: &[u8]) {
    let told = async {
        stream.write_all(answer).await?;
        stream.shutdown().await?;
        let mut rest = stream.take(HEADER_BYTES_MAX as u64);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    let _: io::Result<_> = told.await;
}

/// State that the requests of one connection share.
#[derive(Clone)]
pub(super) struct OfRequests {
    account: MemoryAccount,
    progress: Arc<HeadsProgress>,
    streams: Streams,
    /// Permits for answers that report that there is no memory.
    rejections: Arc<Semaphore>,
    /// Number of consecutive requests for which there was no memory.
    in_vain: Arc<AtomicUsize>,
    /// Token that is cancelled at shutdown, when request bodies are no longer awaited.
    bodies_end: CancellationToken,
}

impl OfRequests {
    fn new(account: MemoryAccount, bodies_end: CancellationToken) -> Self {
        Self {
            account,
            bodies_end,
            progress: Arc::default(),
            streams: Streams::default(),
            rejections: Arc::new(Semaphore::new(REJECTIONS_MAX)),
            in_vain: Arc::default(),
        }
    }

    /// Notes that there was memory for a request.
    fn note_room(&self) {
        self.in_vain.store(0, Ordering::Relaxed);
    }

    /// Answers that there is no memory for a request. The memory for this answer exists already and is counted.
    fn overloaded(
        &self,
        version: Version,
    ) -> impl Future<Output = Response<axum::body::Body>> + use<> {
        let place = Arc::clone(&self.rejections).try_acquire_owned().ok();
        let before = self.in_vain.fetch_add(1, Ordering::Relaxed);
        if place.is_none() || before >= IN_VAIN_MAX {
            self.account.asked_to_close().cancel();
        }
        let mut taken = self.account.nothing();
        taken.add_anyway(REJECTION_BYTES);
        self.streams.next_is_answered();
        lazy(move |_| overloaded(version).map(|body| watched(body, (taken, place))))
    }
}

/// Makes the service of one connection, in which `answer` handles each request.
pub(super) fn answered(
    answer: impl Fn(Request<axum::body::Body>) -> BoxFuture<'static, Response<axum::body::Body>>
    + Send
    + 'static,
    address: SocketAddr,
    proxies: TrustedProxies,
    memory: Memory,
    shared: OfRequests,
) -> impl Service<
    Request<Incoming>,
    Response = Response<axum::body::Body>,
    Error = Infallible,
    Future: Send + 'static,
> + Send
+ 'static {
    service_fn(move |mut request: Request<Incoming>| {
        let version = request.version();
        let asked = AnswerTo {
            version,
            is_safe: request.method().is_safe(),
        };
        let is_by_proxy = proxies.contain(address.ip());
        if is_by_proxy {
            request.extensions_mut().insert(ByTrustedProxy);
        }
        let client = proxies.client(address.ip(), request.headers());
        let of_proxy = client
            .as_ref()
            .ok()
            .filter(|_| is_by_proxy)
            .map(|client| memory.requests(*client));
        let bytes = request_bytes(&request);
        let taken = match &of_proxy {
            None => RequestMemory::take(&shared.account, bytes),
            Some(own) => RequestMemory::take_over(Some(shared.account.clone()), own, bytes),
        };
        if taken.is_ok() || is_by_proxy {
            shared.note_room(); // clients of a proxy share its connections
        }
        // Each future is boxed, so that a connection reserves no room for it, and a stream none for one that has
        // ended.
        let answered = match (taken, client) {
            (Err(NothingLeft), _) => Either::Left(shared.overloaded(version).boxed()),
            (Ok(taken), Ok(client)) => {
                request.extensions_mut().insert(taken.clone());
                let client = SocketAddr::new(client, address.port());
                let progress = Arc::clone(&shared.progress);
                let answer = answer(prepared(request, client, &shared));
                Either::Right(async move {
                    let answered = unless_needed(answer, of_proxy.as_ref(), version).await;
                    if version < Version::HTTP_2 && progress.has_left_body() {
                        // The connection looks first whether the rest has come. If it has not, it closes, and the answer says so.
                        tokio::task::yield_now().await;
                    }
                    counted(answered, taken, asked)
                })
            }
            (Ok(taken), Err(ambiguous)) => {
                let rejected = (StatusCode::BAD_REQUEST, ambiguous.to_string());
                let answer = lazy(move |_| counted(rejected.into_response(), taken, asked));
                Either::Left(answer.boxed())
            }
        };
        answered.map(Ok)
    })
}

/// Returns the answer to a request; `account` is its own account, if it has one. If others need the memory of the
/// account before the answer is ready, the request is dropped, as if its client had hung up.
async fn unless_needed(
    answer: BoxFuture<'static, Response<axum::body::Body>>,
    account: Option<&MemoryAccount>,
    version: Version,
) -> Response<axum::body::Body> {
    let Some(account) = account else {
        return answer.await;
    };
    let answered = account.asked_to_close().run_until_cancelled(answer).await;
    account.stay();
    answered.unwrap_or_else(|| overloaded(version))
}

/// Returns the bytes that a request counts for, including the part of its head that exceeds a usual one.
fn request_bytes<B>(request: &Request<B>) -> usize {
    let uri = request.uri();
    let path = uri.path_and_query().map_or(0, |path| path.as_str().len());
    let host = uri.authority().map_or(0, |host| host.as_str().len());
    let each = request.headers().iter().map(|(name, value)| {
        let texts = name.as_str().len() + value.len();
        texts + EACH_HEADER_BYTES
    });
    let head = path + host + each.sum::<usize>();
    REQUEST_BYTES + head.saturating_sub(USUAL_HEAD_BYTES)
}

/// Properties of the request that an answer belongs to.
#[derive(Clone, Copy)]
struct AnswerTo {
    version: Version,
    /// True if the request changes nothing, by its method.
    is_safe: bool,
}

/// Returns an answer that counts until it has been dropped in full. If there is no memory for it, a client that has
/// only read is told to ask again; any other answer may hold data that exists nowhere else, such as a removed message
/// or a new key.
fn counted(
    answer: Response<axum::body::Body>,
    request: RequestMemory,
    asked: AnswerTo,
) -> Response<axum::body::Body> {
    let size = answer.body().size_hint();
    let bytes = usize::try_from(size.lower()).unwrap_or(usize::MAX);
    let is_written = size.exact().is_some();
    let answer = match request.answer(bytes) {
        Err(NothingLeft) if asked.is_safe => overloaded(asked.version),
        Err(NothingLeft) => {
            request.answer_anyway(bytes);
            answer
        }
        Ok(()) if is_written => answer,
        Ok(()) => answer.map(|body| written_meanwhile(body, &request)),
    };
    answer.map(|body| watched(body, request))
}

/// Returns the body of an answer that is produced while it is sent, such as an export: only the last piece counts.
fn written_meanwhile(body: axum::body::Body, of: &RequestMemory) -> axum::body::Body {
    let request = of.clone();
    axum::body::Body::new(body.map_frame(move |frame| {
        request.answer_anyway(frame.data_ref().map_or(0, Bytes::len));
        frame
    }))
}

/// Returns the answer for a lack of memory. Over HTTP/2 it has no body, since a body would wait for a window.
fn overloaded(version: Version) -> Response<axum::body::Body> {
    let problem = "The memory for requests is in use; try again in a moment.\n";
    let (status, retry) = (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")]);
    if version == Version::HTTP_2 {
        (status, retry).into_response()
    } else {
        (status, retry, problem).into_response()
    }
}

/// Counts connections per client. Holds no entry for a client without connections.
#[derive(Default)]
struct ClientConnections(Mutex<HashMap<IpAddr, usize>>);

/// Entry of one connection of a client, which is removed on drop.
struct ClientConnection {
    clients: Arc<ClientConnections>,
    client: IpAddr,
}

impl ClientConnections {
    /// Returns `None` for a client that already has `most` connections.
    fn enter(self: &Arc<Self>, address: IpAddr, most: usize) -> Option<ClientConnection> {
        let client = client_of(address);
        let mut open = self.0.lock().unwrap();
        let count = open.get(&client).copied().unwrap_or(0);
        (count < most).then(|| {
            open.insert(client, count + 1);
            ClientConnection {
                clients: Arc::clone(self),
                client,
            }
        })
    }
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        let mut open = self.clients.0.lock().unwrap();
        match open.get_mut(&self.client) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                open.remove(&self.client);
            }
        }
    }
}

fn prepared(
    mut request: Request<Incoming>,
    address: SocketAddr,
    shared: &OfRequests,
) -> Request<axum::body::Body> {
    request.extensions_mut().insert(ConnectInfo(address));
    let (progress, end) = (Arc::clone(&shared.progress), shared.bodies_end.clone());
    request.map(|body| axum::body::Body::new(PacedBody::new(body, progress, end)))
}

/// HTTP connection with its buffers, boxed because they are large: a task that waits for it holds only a pointer.
type BoxedConnection<S> =
    Pin<Box<UpgradeableConnection<'static, TokioIo<HeadStream<Stream>>, S, Streams>>>;

/// Serves a connection to its end, or at shutdown until the requests that it has begun have ended, unless its first
/// request is late. The HTTP server's own deadline for heads starts only when the version of HTTP is known, which a
/// silent client never reveals.
async fn attend<S, B>(
    mut connection: BoxedConnection<S>,
    requested: &Notify,
    stop: &CancellationToken,
) -> Result<(), BoxError>
where
    S: Service<Request<Incoming>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    tokio::select! {
        ended = &mut connection => return ended,
        first = tokio::time::timeout(HEADER_DEADLINE, requested.notified()) => match first {
            Ok(()) => {}
            Err(_) => return Ok(()),
        },
        () = grace(stop) => return Ok(()),
    }
    tokio::select! {
        ended = &mut connection => return ended,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    connection.await
}

/// Waits until no client can be about to send a first request.
async fn grace(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(FIRST_REQUEST_GRACE).await;
}

/// Reports at intervals in the log how many connections were broken.
async fn tell_of(broken: Arc<AtomicU64>) {
    loop {
        tokio::time::sleep(BROKEN_TOLD_EVERY).await;
        let connections = broken.swap(0, Ordering::Relaxed);
        if connections > 0 {
            tracing::info!(
                connections,
                "clients broke connections in the last minute: reset, or not HTTP"
            );
        }
    }
}

fn server(streams: Streams) -> Builder<Streams> {
    let mut server = Builder::new(streams);
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_DEADLINE)
        .max_buf_size(HEADER_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_DEADLINE)
        .max_concurrent_streams(STREAMS_MAX)
        .max_local_error_reset_streams(STREAMS_MAX as usize)
        .max_send_buf_size(UNSENT_BYTES_MAX)
        .max_header_list_size(HEADER_BYTES_MAX as u32);
    server
}

/// Returns the next connection; `None` at shutdown. The listeners take turns at being polled first.
async fn accept(
    listeners: &[TcpListener],
    turn: &mut usize,
    stop: &CancellationToken,
) -> Option<(TcpStream, SocketAddr)> {
    static LINE: SeldomLine = SeldomLine::new();
    loop {
        *turn = turn.wrapping_add(1);
        let first = *turn;
        let next = poll_fn(|context| {
            for place in 0..listeners.len() {
                let listener = &listeners[first.wrapping_add(place) % listeners.len()];
                if let Poll::Ready(accepted) = listener.poll_accept(context) {
                    return Poll::Ready(accepted);
                }
            }
            Poll::Pending
        });
        let accepted: io::Result<_> = tokio::select! {
            accepted = next => accepted,
            () = stop.cancelled() => return None,
        };
        match accepted {
            Ok((stream, address)) => {
                let _ = stream.set_nodelay(true);
                return Some((stream, address));
            }
            Err(cause) => {
                if let Some(unlogged) = LINE.take_now() {
                    tracing::warn!(
                        %cause,
                        unlogged,
                        "a connection could not be accepted; further ones within a minute are only counted"
                    );
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use axum::routing::post;
    use axum::{Extension, Router};
    use futures_util::stream;
    use tower::ServiceExt;

    use super::*;
    use crate::app::unread::PATIENCE;
    use crate::base::budget::{Budget, PresentedKey};

    fn routed(
        router: Router,
        address: SocketAddr,
        proxies: TrustedProxies,
        shared: OfRequests,
    ) -> impl Service<
        Request<Incoming>,
        Response = Response<axum::body::Body>,
        Error = Infallible,
        Future: Send + 'static,
    > + Send
    + 'static {
        let answer = move |request: Request<axum::body::Body>| {
            let router = router.clone();
            async move { router.oneshot(request).await.expect("an answer") }.boxed()
        };
        answered(answer, address, proxies, Memory::default(), shared)
    }

    const READS: AnswerTo = AnswerTo {
        version: Version::HTTP_11,
        is_safe: true,
    };

    const CHANGES: AnswerTo = AnswerTo {
        is_safe: false,
        ..READS
    };

    #[test]
    fn answers_count_until_nothing_of_them_is_left_and_need_room() {
        let account = Budget::of(1_000_000).account([None, None], 30_500);
        let answer = || Response::new(axum::body::Body::from("x".repeat(9_000)));
        let taken = || RequestMemory::take(&account, 1_000).expect("room");
        let first = counted(answer(), taken(), READS);
        assert_eq!((first.status(), account.taken()), (StatusCode::OK, 10_000));
        let second = counted(answer(), taken(), READS);
        let third = counted(answer(), taken(), READS);
        assert_eq!(third.status(), StatusCode::OK);
        drop(second);
        assert_eq!(account.taken(), 20_000);
        let fourth = taken();
        let fifth = counted(answer(), taken(), READS);
        assert_eq!(fifth.status(), StatusCode::SERVICE_UNAVAILABLE);
        drop((first, third, fourth, fifth));
        assert_eq!(account.taken(), 0);
    }

    #[test]
    fn a_request_counts_for_a_head_that_is_no_usual_one() {
        let with = |headers: usize, value: &str| {
            let begun = Request::get("/topics/orders");
            let head = (0..headers).fold(begun, |head, number| {
                head.header(format!("x-{number}"), value)
            });
            request_bytes(&head.body(()).expect("a request"))
        };
        assert_eq!(with(5, &"x".repeat(200)), REQUEST_BYTES);
        let long = with(1, &"x".repeat(15_000));
        assert!(long > REQUEST_BYTES + 10_000, "{long}");
        let many = with(400, "");
        assert!(many > REQUEST_BYTES + 80_000, "{many}");
        let path = format!("/{}", "x".repeat(12_000));
        let request = Request::get(path).body(()).expect("a request");
        assert!(request_bytes(&request) > REQUEST_BYTES + 7_000);
    }

    #[test]
    fn an_answer_to_what_has_changed_something_is_kept_and_counts_without_room_for_it() {
        let account = Budget::of(1_000_000).account([None, None], 5_000);
        let request = || RequestMemory::take(&account, 1_000);
        let key = Response::new(axum::body::Body::from("x".repeat(9_000)));
        let answer = counted(key, request().expect("room"), CHANGES);
        assert_eq!((answer.status(), account.taken()), (StatusCode::OK, 10_000));
        assert!(request().is_err(), "others have to wait for it");
        drop(answer);
        assert_eq!(account.taken(), 0);
        assert!(request().is_ok());
    }

    #[tokio::test]
    async fn what_was_made_last_of_a_long_answer_counts() {
        let account = Budget::of(1_000_000).account([None, None], usize::MAX);
        let batches = [9_000, 5_000].map(|length| Ok::<_, Infallible>(vec![0_u8; length]));
        let body = axum::body::Body::from_stream(stream::iter(batches));
        let request = RequestMemory::take(&account, 1_000).expect("room");
        let answer = counted(Response::new(body), request, READS);
        let mut body = answer.into_body();
        assert_eq!(account.taken(), 1_000, "nothing is made yet");
        let mut counts = Vec::new();
        while let Some(piece) = body.frame().await {
            drop(piece.expect("a piece"));
            counts.push(account.taken());
        }
        counts.dedup();
        assert_eq!(counts, [10_000, 6_000]);
        drop(body);
        assert_eq!(account.taken(), 0);
    }

    #[tokio::test]
    async fn a_connection_that_leaves_rejections_untaken_is_closed() {
        let account = Budget::of(0).closable_account([None, None], usize::MAX);
        let shared = OfRequests::new(account.clone(), CancellationToken::new());
        let reject = || shared.overloaded(Version::HTTP_11);
        for _ in 0..100 {
            drop(reject().await); // it is taken
        }
        let mut untaken = Vec::new();
        for _ in 0..REJECTIONS_MAX {
            untaken.push(reject().await);
        }
        assert_eq!(account.taken(), REJECTIONS_MAX * REJECTION_BYTES);
        assert!(!account.asked_to_close().is_cancelled());
        untaken.push(reject().await);
        assert!(account.asked_to_close().is_cancelled());
        drop(untaken);
        assert_eq!(account.taken(), 0);
    }

    #[tokio::test]
    async fn a_connection_whose_requests_are_all_in_vain_is_closed() {
        let account = Budget::of(0).closable_account([None, None], usize::MAX);
        let shared = OfRequests::new(account.clone(), CancellationToken::new());
        let ask = async |count: usize| {
            for _ in 0..count {
                drop(shared.overloaded(Version::HTTP_11).await); // it is taken
            }
            account.asked_to_close().is_cancelled()
        };
        assert!(!ask(IN_VAIN_MAX).await);
        shared.note_room();
        assert!(!ask(IN_VAIN_MAX).await);
        assert!(ask(1).await);
    }

    fn limits(overall: usize, per_client: usize) -> ConnectionLimits {
        ConnectionLimits {
            overall: Connections::of_at_most(overall),
            per_client: Live::new(per_client),
            proxies: TrustedProxies::default(),
            memory: Memory::default(),
        }
    }

    /// Answers each `POST /`.
    fn router() -> Router {
        Router::new().route("/", post(|_: Bytes| async {}))
    }

    const EMPTY_POST: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";

    async fn bind() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("its address");
        (listener, address)
    }

    /// Serves until the token is cancelled.
    fn begin_serving(
        listeners: Vec<TcpListener>,
        router: Router,
        limits: ConnectionLimits,
    ) -> CancellationToken {
        let stop = CancellationToken::new();
        let service = move |address, shared| {
            routed(router.clone(), address, TrustedProxies::default(), shared)
        };
        tokio::spawn(serve(listeners, None, limits, stop.clone(), service, None));
        stop
    }

    #[tokio::test]
    async fn a_connection_of_a_proxy_is_known_once_it_has_passed_on_a_key() {
        let shows = async |Extension(memory): Extension<RequestMemory>| {
            memory.note_key(|| PresentedKey::alone("queue".to_owned()));
        };
        let router = router().route("/key", post(shows));
        let network = "127.0.0.0/8".parse().expect("a network");
        let proxies = TrustedProxies(Arc::new([network]));
        let limits = ConnectionLimits {
            proxies: proxies.clone(),
            ..limits(1, 1)
        };
        let account = Arc::new(OnceLock::new());
        let of_connection = Arc::clone(&account);
        let service = move |address, shared: OfRequests| {
            of_connection.get_or_init(|| shared.account.clone());
            routed(router.clone(), address, proxies.clone(), shared)
        };
        let (listener, address) = bind().await;
        let stop = CancellationToken::new();
        tokio::spawn(serve(
            vec![listener],
            None,
            limits,
            stop.clone(),
            service,
            None,
        ));
        let mut proxy = TcpStream::connect(address).await.expect("a connection");
        for (path, is_known) in [("/", false), ("/key", true), ("/", true)] {
            let asked = format!(
                "POST {path} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1\r\nContent-Length: 0\r\n\r\n"
            );
            proxy.write_all(asked.as_bytes()).await.expect("sent");
            let mut heard = vec![0; 1_024];
            let read = proxy.read(&mut heard).await.expect("an answer");
            assert!(heard[..read].starts_with(b"HTTP/1.1 200"), "{path}");
            let account = account.get().expect("that of the connection");
            assert_eq!(account.is_known(), is_known, "{path}");
        }
        stop.cancel();
    }

    async fn check_answer(mut client: TcpStream) {
        client.write_all(EMPTY_POST).await.expect("sent");
        let mut heard = [0; 12];
        client.read_exact(&mut heard).await.expect("an answer");
        assert_eq!(&heard, b"HTTP/1.1 200", "{client:?}");
    }

    async fn check(said: impl AsRef<[u8]>, expected: &str) {
        let said = said.as_ref();
        let heard = heard(said).await;
        let said = String::from_utf8_lossy(said);
        assert!(heard.starts_with(expected), "{said:?}: {heard:?}");
    }

    /// Says `said` and then nothing, and returns what it hears until the connection is closed, which is within a minute.
    async fn heard(said: &[u8]) -> String {
        let (listener, address) = bind().await;
        let stop = begin_serving(vec![listener], router(), limits(1, 1));
        let mut client = TcpStream::connect(address).await.expect("a connection");
        client.write_all(said).await.expect("sent");
        let mut heard = Vec::new();
        let closed = client.read_to_end(&mut heard);
        let closed = tokio::time::timeout(Duration::from_secs(60), closed).await;
        let said = String::from_utf8_lossy(said);
        assert!(closed.is_ok(), "after {said:?} the connection is kept");
        stop.cancel();
        String::from_utf8_lossy(&heard).into_owned()
    }

    #[tokio::test]
    async fn an_answer_says_that_its_connection_closes_before_a_body_has_come() {
        let first = "POST /elsewhere HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n";
        let last = "GET /elsewhere HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        for (said, answers) in [(first.to_owned(), 1), (format!("{first}12345{last}"), 2)] {
            let heard = heard(said.as_bytes()).await;
            let count = |text: &str| heard.matches(text).count();
            assert_eq!(count("HTTP/1.1 404 Not Found"), answers, "{heard}");
            assert_eq!(count("connection: close"), 1, "{heard}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_http2_client_is_asked_for_a_sign_of_life() {
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        // A whole request, GET http://a/, after which nothing more is said.
        let request = [0, 0, 6, 1, 5, 0, 0, 0, 1, 0x82, 0x86, 0x84, 0x41, 1, b'a'];
        check([&preface[..], &settings, &request].concat(), "").await;
    }

    #[tokio::test]
    async fn who_begins_tls_where_none_is_spoken_is_told() {
        let hello = [tls::HANDSHAKE, 3, 1, 0, 5, 1, 0, 0, 1, 0];
        let alert = String::from_utf8_lossy(NO_TLS_IS_SPOKEN);
        check(hello, &alert).await;
    }

    #[tokio::test]
    async fn whoever_is_silent_makes_place_for_others() {
        let (listener, address) = bind().await;
        let limits = limits(2, 10);
        let places = limits.overall.clone();
        let stop = begin_serving(vec![listener], router(), limits);
        let silent = async || TcpStream::connect(address).await.expect("a connection");
        let _silent = (silent().await, silent().await);
        while places.open() < 2 {
            tokio::task::yield_now().await;
        }
        let elsewhere = tokio::net::TcpSocket::new_v4().expect("a socket");
        let other = SocketAddr::from(([127, 0, 0, 2], 0));
        elsewhere.bind(other).expect("an address");
        let client = elsewhere.connect(address).await.expect("a connection");
        check_answer(client).await;
        stop.cancel();
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_does_not_go_holds_up_a_new_connection_for_a_moment_only() {
        let overall = Connections::of_at_most(1);
        let _slot = overall.enter().await;
        let budget = Budget::of(1_000);
        let account = || budget.closable_account([None, None], usize::MAX);
        let (stuck, new) = (account(), account());
        let _kept = stuck.take(100).expect("room");
        let begun = tokio::time::Instant::now();
        assert!(place(&overall, &new).await.is_none());
        assert!(stuck.has_to_close());
        assert!(begun.elapsed() < 2 * PLACE_WAIT);
    }

    #[tokio::test]
    async fn every_address_is_served() {
        let bound = [bind().await, bind().await, bind().await];
        let (listeners, addresses): (Vec<_>, Vec<_>) = bound.into_iter().unzip();
        let stop = begin_serving(listeners, router(), limits(10, 10));
        for address in addresses.iter().chain(&addresses) {
            let client = TcpStream::connect(address).await.expect("a connection");
            check_answer(client).await;
        }
        stop.cancel();
    }

    #[tokio::test]
    async fn one_client_cannot_take_every_place() {
        let (listener, address) = bind().await;
        let stop = begin_serving(vec![listener], router(), limits(10, 2));
        let connect = async || TcpStream::connect(address).await.expect("a connection");
        let ask = async |client: &mut TcpStream| {
            let mut heard = [0; 1_024];
            let asked = client.write_all(EMPTY_POST).await;
            asked.is_ok() && client.read(&mut heard).await.is_ok() && &heard[9..12] == b"200"
        };
        let (mut first, mut second) = (connect().await, connect().await);
        assert!(ask(&mut first).await && ask(&mut second).await);
        assert!(
            !ask(&mut connect().await).await,
            "a third connection is closed"
        );
        assert!(ask(&mut first).await, "the others go on");
        drop(second);
        while !ask(&mut connect().await).await {
            tokio::task::yield_now().await; // until the appliance has seen the end of the second
        }
        stop.cancel();
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_over_http1_that_nobody_takes_is_given_up() {
        const ANSWER_BYTES: usize = 32 * 1_024 * 1_024; // more than the buffers of the system take
        let (listener, address) = bind().await;
        let router = Router::new().route("/", post(async || vec![0_u8; ANSWER_BYTES]));
        let stop = begin_serving(vec![listener], router, limits(1, 1));
        let mut client = TcpStream::connect(address).await.expect("a connection");
        client.write_all(EMPTY_POST).await.expect("sent");
        tokio::time::sleep(PATIENCE * 2).await;
        let mut heard = Vec::new();
        let _: io::Result<_> = client.read_to_end(&mut heard).await;
        assert!(heard.starts_with(b"HTTP/1.1 200"));
        assert!(heard.len() < ANSWER_BYTES, "all of it was kept");
        stop.cancel();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_go_on_is_not_waited_for() {
        check("", "").await;
        check("PRI * HTTP/2.0\r\n", "").await;
        check("POST / HTTP/1.1\r\nHost: a\r\n", "").await;
        let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n";
        check(head, "HTTP/1.1 400").await;
    }
}
