//! A scriptable webhook: gives the answers of its script, keeps the requests, agrees to both handshakes.
//!
//! Used by `everpost receive`, the demonstration and the tests.

mod log;
mod request;
#[cfg(test)]
mod tests;
mod turns;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use self::request::ReceivedRequest;

use self::log::RequestLog;
use self::turns::AnswerCounts;
use crate::api::Memory;
use crate::app::forwarded::TrustedProxies;
use crate::app::listen::{self, ConnectionLimits};
use crate::base::{Clock, Live, Timestamp};
use crate::broker::diagnostics::Connections;
use crate::model::response_script::{ResponseScript, ScriptedResponse};
use crate::model::signing::SigningSecret;
use crate::wire::received::{self, RequestKind};
use crate::wire::signature::{self, NotSigned};

/// Bytes of a request's body: a batch of the largest size, and then some.
const BODY_MAX: usize = 8 * 1_024 * 1_024;

/// Connections that are served at once; more of them wait to be accepted.
const CONNECTIONS_MAX: usize = 1_024;

/// How a receiver behaves.
#[derive(Clone, Debug)]
pub struct ReceiverOptions {
    /// Port 0 takes a free one.
    pub listen: SocketAddr,
    pub answers: ResponseScript,
    /// Passes before each answer, handshakes included.
    pub delay: Duration,
    /// Sent as `Retry-After`, in seconds, with every 429 and 503.
    pub retry_after_s: Option<u32>,
    /// Every event goes through the answers on its own.
    pub per_event: bool,
    /// Secrets that requests are to be signed by; none leaves signatures alone.
    pub signing_secrets: Vec<SigningSecret>,
    /// Tells when requests came.
    pub clock: Clock,
}

impl ReceiverOptions {
    /// A receiver on a free port of this machine that answers every request with `answers`.
    pub fn scripted(answers: ResponseScript) -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            answers,
            delay: Duration::ZERO,
            retry_after_s: None,
            per_event: false,
            signing_secrets: Vec::new(),
            clock: Clock::system(),
        }
    }
}

/// A running webhook. Dropping it stops it at once; [`Receiver::stop`] does so with grace.
#[derive(Debug)]
pub struct WebhookReceiver {
    address: SocketAddr,
    log: Arc<RequestLog>,
    stopping: CancellationToken,
    serving: JoinHandle<()>,
}

impl WebhookReceiver {
    /// Starts to listen and to answer.
    pub async fn bind(options: ReceiverOptions) -> io::Result<Self> {
        let listener = TcpListener::bind(options.listen).await?;
        let address = listener.local_addr()?;
        let log = Arc::new(RequestLog::new());
        let stopping = CancellationToken::new();
        let answering = Arc::new(Answering {
            turns: Mutex::new(AnswerCounts::new(options.per_event)),
            options,
            log: Arc::clone(&log),
            stopping: stopping.clone(),
        });
        let limits = ConnectionLimits {
            overall: Connections::of_at_most(CONNECTIONS_MAX),
            per_client: Live::new(CONNECTIONS_MAX),
            proxies: TrustedProxies::default(),
            memory: Memory::default(),
        };
        let service = move |peer, _| {
            let answering = Arc::clone(&answering);
            service_fn(move |request| Arc::clone(&answering).answer(request, peer))
        };
        let serving = listen::serve(
            vec![listener],
            None,
            limits,
            stopping.clone(),
            service,
            None,
        );
        Ok(Self {
            address,
            log,
            stopping,
            serving: tokio::spawn(serving),
        })
    }

    /// Where it listens, with the port that it got.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://ADDRESS:PORT`, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The newest requests, oldest first; at most 10,000 of them and 64 MiB.
    pub fn requests(&self) -> Vec<Arc<ReceivedRequest>> {
        self.log.after(0)
    }

    /// Waits for requests with numbers above `number` and returns those that are kept, oldest first.
    pub async fn requests_after(&self, number: u64) -> Vec<Arc<ReceivedRequest>> {
        self.log.grown_past(number).await;
        self.log.after(number)
    }

    /// Stops listening, lets answers that are being given finish and gives up those that wait.
    pub async fn stop(mut self) {
        self.stopping.cancel();
        let ended = (&mut self.serving).await;
        ended.expect("the receiver's own loop does not panic");
    }
}

impl Drop for WebhookReceiver {
    fn drop(&mut self) {
        self.stopping.cancel();
    }
}

/// The state that all connections share.
struct Answering {
    options: ReceiverOptions,
    turns: Mutex<AnswerCounts>,
    log: Arc<RequestLog>,
    stopping: CancellationToken,
}

/// Ends a connection without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the receiver hangs up, as it was told")]
struct HangUp;

type Reply = Response<Full<Bytes>>;

impl Answering {
    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: SocketAddr,
    ) -> Result<Reply, HangUp> {
        let (head, body) = request.into_parts();
        let Ok(body) = Limited::new(body, BODY_MAX).collect().await else {
            return Ok(reply(StatusCode::PAYLOAD_TOO_LARGE));
        };
        let (kind, answer) = self.record(&head, body.to_bytes(), peer);
        tokio::select! {
            () = tokio::time::sleep(self.options.delay) => {}
            () = self.stopping.cancelled() => return Err(HangUp),
        }
        match received::agreement(&kind, &head.headers) {
            Some((headers, body)) => Ok(agreed(headers, body)),
            None => self.scripted(answer).await,
        }
    }

    /// Decides on the answer and keeps the request with it.
    fn record(
        &self,
        head: &Parts,
        body: Bytes,
        peer: SocketAddr,
    ) -> (RequestKind, ScriptedResponse) {
        let (kind, events) = received::understand(&head.method, &head.headers, &body);
        let answer = match &kind {
            RequestKind::Validation { .. } | RequestKind::AbuseProtection { .. } => {
                ScriptedResponse::Status(200)
            }
            RequestKind::Delivery => {
                let turn = self.turns.lock().unwrap().take(&events);
                self.options.answers.response(turn)
            }
        };
        let received_at = self.options.clock.now();
        self.log.push(ReceivedRequest {
            number: 0, // the log gives it
            received_at,
            signature: self.check_signature(head, &body, received_at),
            remote_address: peer,
            method: head.method.to_string(),
            path: path(head),
            headers: received::header_texts(&head.headers),
            body,
            kind: kind.clone(),
            events,
            answer,
        });
        (kind, answer)
    }

    /// Only POSTs are signed: the OPTIONS of a handshake has no body that could be.
    fn check_signature(
        &self,
        head: &Parts,
        body: &[u8],
        now: Timestamp,
    ) -> Option<Result<(), NotSigned>> {
        let secrets = &self.options.signing_secrets;
        let header = |name: &'static str| head.headers.get(name)?.to_str().ok();
        let is_expected = !secrets.is_empty() && head.method == Method::POST;
        is_expected.then(|| signature::verify(secrets, header, body, now))
    }

    async fn scripted(&self, answer: ScriptedResponse) -> Result<Reply, HangUp> {
        match answer {
            ScriptedResponse::Status(status) => Ok(self.status(status)),
            ScriptedResponse::Close => Err(HangUp),
            ScriptedResponse::Timeout => {
                self.stopping.cancelled().await;
                Err(HangUp)
            }
        }
    }

    fn status(&self, status: u16) -> Reply {
        let status = StatusCode::from_u16(status).expect("scripts hold statuses from 200 to 599");
        let mut reply = reply(status);
        if let (Some(seconds), 429 | 503) = (self.options.retry_after_s, status.as_u16()) {
            reply.headers_mut().insert("retry-after", seconds.into());
        }
        reply
    }
}

fn reply(status: StatusCode) -> Reply {
    let mut reply = Response::new(Full::default());
    *reply.status_mut() = status;
    reply
}

fn agreed(headers: HeaderMap, body: Vec<u8>) -> Reply {
    let mut reply = Response::new(Full::from(body));
    *reply.headers_mut() = headers;
    reply
}

fn path(head: &Parts) -> String {
    let path = head.uri.path_and_query();
    path.map_or_else(|| "/".to_owned(), ToString::to_string)
}
