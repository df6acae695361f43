//! One HTTP request and its answer. The only HTTP client in the tree is in here, behind the egress
//! policy.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Method};
use url::Url;

use crate::base::Clock;
use crate::model::credentials::TlsMaterial;
use crate::model::limits::{LATE_ANSWER_WINDOW, RESPONSE_READ_MAX};
use crate::outbound::clients::{Clients, read_authorities};
use crate::outbound::connect_watch::ConnectWatch;
use crate::outbound::egress::{Denied, EgressPolicy};
use crate::outbound::late_response::{LateResponseSlot, PendingResponse};
use crate::outbound::resolver::{Guard, LOOKUP_DEADLINE, Lookup, ResolveError, system_lookup};

#[cfg(test)]
mod tests;

/// How the appliance names itself.
pub(super) const USER_AGENT: &str = concat!("Everpost/", env!("CARGO_PKG_VERSION"));

/// How long TCP and TLS may take to connect, on top of the look-up (docs/security.md B2).
pub(super) const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// How long an unused connection is kept. Shorter than receivers keep theirs (Node.js: 5 s), so that a
/// request hardly ever runs into a connection that is being closed and counts as a failed attempt.
pub(super) const IDLE_KEPT: Duration = Duration::from_secs(4);

/// Bytes of an answer's header block over HTTP/2 (docs/security.md B2). Over HTTP/1 the client itself stops
/// at 100 headers.
pub(super) const HEADER_BLOCK_MAX: u32 = 16_384;

/// Bytes of an error's text: certificates can be talkative.
const ERROR_TEXT_MAX: usize = 500;

/// One HTTP request.
#[derive(Clone)]
pub struct TransportRequest {
    pub method: Method,
    /// Its query may hold a secret: never shown, neither here nor in errors.
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// From now to the answer's last byte.
    pub deadline: Duration,
    /// Where the conversation is left if nothing came by then; without one the connection is closed.
    pub late: Option<LateResponseSlot>,
    /// The caller's own part in TLS; its connections are not shared with other callers.
    pub tls: Option<Arc<TlsMaterial>>,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportResponse {
    pub status: u16,
    pub headers: HeaderMap,
    /// As much of the body as arrived in time, at most [`RESPONSE_READ_MAX`] bytes.
    pub body: Vec<u8>,
    pub remote_address: Option<SocketAddr>,
}

/// Why there is no answer. The text never holds the URL's query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    #[error("no answer within the deadline")]
    TimedOut,
    /// The host's name leads nowhere.
    #[error("{0}")]
    Resolution(String),
    /// No connection, or a broken one, or what came over it was no HTTP.
    #[error("{0}")]
    Socket(String),
    /// No agreement on TLS, or a certificate that is not trusted.
    #[error("TLS failed: {0}")]
    Tls(String),
    /// The caller's credentials need a token, and there is none.
    #[error("no access token: {0}")]
    Token(String),
    /// The egress policy forbids the request.
    #[error("not called: {0}")]
    Denied(#[from] Denied),
}

/// Makes requests. Cheap to clone.
#[derive(Clone)]
pub enum HttpTransport {
    /// Over the network.
    Network(NetworkTransport),
    /// By a script, for simulations and tests.
    Scripted(Arc<dyn Responder>),
    /// By receivers inside the appliance where the host is theirs, else as before.
    Inside(Inside),
}

/// Receivers inside the appliance. No connection is made to them, so that the egress policy has nothing
/// to open for them, and nobody outside can reach them.
#[derive(Clone)]
pub struct Inside {
    /// The host of their URLs, which is never looked up.
    pub host: &'static str,
    pub receivers: Arc<dyn Responder>,
    /// Whatever else is called.
    pub outside: Box<HttpTransport>,
}

/// Answers in the world's place.
#[async_trait]
pub trait Responder: Send + Sync {
    /// The answer to `request`, once it is there.
    async fn respond(
        &self,
        request: &TransportRequest,
    ) -> Result<TransportResponse, TransportError>;

    /// What may still come after `request` has timed out.
    fn late_response(&self, _request: &TransportRequest) -> Option<PendingResponse> {
        None
    }
}

impl HttpTransport {
    /// Makes one request, exactly once: nothing is repeated and no redirect is followed.
    pub async fn send(
        &self,
        request: TransportRequest,
    ) -> Result<TransportResponse, TransportError> {
        match self {
            Self::Network(network) => network.send(request).await,
            Self::Scripted(script) => script.respond(&request).await.inspect_err(|error| {
                if let (TransportError::TimedOut, Some(inbox)) = (error, &request.late)
                    && let Some(late) = script.late_response(&request)
                {
                    inbox.put(late);
                }
            }),
            Self::Inside(inside) if request.url.host_str() == Some(inside.host) => {
                inside.respond(request).await
            }
            Self::Inside(inside) => Box::pin(inside.outside.send(request)).await,
        }
    }
}

impl HttpTransport {
    /// The network that a request to `url` goes over; `None` where it is answered without one.
    pub(super) fn network(&self, url: &Url) -> Option<&NetworkTransport> {
        match self {
            Self::Network(network) => Some(network),
            Self::Scripted(_) => None,
            Self::Inside(inside) if url.host_str() == Some(inside.host) => None,
            Self::Inside(inside) => inside.outside.network(url),
        }
    }
}

impl Inside {
    /// The answer of a receiver inside, which may come late like any other.
    async fn respond(
        &self,
        request: TransportRequest,
    ) -> Result<TransportResponse, TransportError> {
        let (deadline, late) = (request.deadline, request.late.clone());
        let receivers = Arc::clone(&self.receivers);
        let mut answering = Box::pin(async move { receivers.respond(&request).await });
        if let Ok(response) = tokio::time::timeout(deadline, &mut answering).await {
            return response;
        }
        if let Some(inbox) = late {
            let rest = LATE_ANSWER_WINDOW.saturating_sub(deadline);
            inbox.put(PendingResponse::new(async move {
                tokio::time::timeout(rest, answering).await.ok()?.ok()
            }));
        }
        Err(TransportError::TimedOut)
    }
}

/// The network, behind the egress policy. Cheap to clone; clones share connections. A changed policy
/// needs a new one, so that no connection outlives the rule that allowed it.
#[derive(Clone)]
pub struct NetworkTransport {
    policy: Arc<EgressPolicy>,
    guard: Guard,
    clients: Arc<Clients>,
}

/// An answer whose body is still to be read.
struct Opened {
    response: TransportResponse,
    raw: reqwest::Response,
}

/// What a [`NetworkTransport`] is made of.
pub struct NetworkOptions {
    pub egress: EgressPolicy,
    pub clock: Clock,
    /// Certificates of authorities to trust besides the system's, as PEM; empty for none.
    pub extra_authorities: Vec<u8>,
}

/// Why there can be no HTTP client.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    #[error("the additional certificate authorities are no PEM certificates: {0}")]
    Authorities(String),
    #[error("the HTTP client cannot be set up: {0}")]
    Client(String),
}

impl NetworkTransport {
    /// Fails if the system has no certificate authorities at all, or the additional ones are no PEM.
    pub fn new(options: NetworkOptions) -> Result<Self, NetworkError> {
        Self::with_lookup(options, system_lookup())
    }

    pub(super) fn with_lookup(
        options: NetworkOptions,
        lookup: Lookup,
    ) -> Result<Self, NetworkError> {
        let guard = Guard::new(options.egress.clone(), options.clock, lookup);
        let authorities = read_authorities(&options.extra_authorities)?;
        Ok(Self {
            policy: Arc::new(options.egress),
            clients: Arc::new(Clients::new(guard.clone(), authorities)?),
            guard,
        })
    }

    pub(super) fn policy(&self) -> &EgressPolicy {
        &self.policy
    }

    pub(super) fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The status decides what an exchange was worth, so from its arrival on there is an answer, even
    /// if the deadline or a broken connection cuts the body short.
    async fn send(&self, request: TransportRequest) -> Result<TransportResponse, TransportError> {
        let (deadline, late) = (request.deadline, request.late.clone());
        let mut over = pin!(tokio::time::sleep(deadline));
        let mut opening = Box::pin(self.clone().open(request));
        let opened = tokio::select! {
            biased;
            opened = &mut opening => opened?,
            () = &mut over => {
                if let Some(inbox) = late {
                    let rest = LATE_ANSWER_WINDOW.saturating_sub(deadline);
                    inbox.put(PendingResponse::new(answer_within(rest, opening)));
                }
                return Err(TransportError::TimedOut);
            }
        };
        Ok(opened.read_until(over).await)
    }

    async fn open(self, request: TransportRequest) -> Result<Opened, TransportError> {
        let client = self.clients.find(request.tls.as_ref());
        let client = client.map_err(|error| TransportError::Tls(error.to_string()))?;
        self.open_by(&client, request).await
    }

    /// The answer's head alone, over a connection that is made for it and watched.
    pub(super) async fn send_afresh(
        &self,
        request: TransportRequest,
        watch: ConnectWatch,
    ) -> Result<TransportResponse, TransportError> {
        let client = self.clients.fresh(watch);
        let client = client.map_err(|error| TransportError::Tls(error.to_string()))?;
        let deadline = request.deadline;
        let opened = tokio::time::timeout(deadline, self.open_by(&client, request)).await;
        Ok(opened.map_err(|_| TransportError::TimedOut)??.response)
    }

    async fn open_by(
        &self,
        client: &reqwest::Client,
        request: TransportRequest,
    ) -> Result<Opened, TransportError> {
        // The client dials literal addresses without asking the resolver, hence the check at every
        // request; the one afterwards would only ever find a defect.
        self.policy.check_url(&request.url)?;
        let raw = client.execute(prepared(request)).await;
        let mut raw = raw.map_err(|error| cause(&error))?;
        let remote_address = raw.remote_addr();
        if let Some(address) = remote_address
            && let Err(denied) = self.policy.check_address(address.ip())
        {
            tracing::error!(%address, "a forbidden address has been called: the egress guard leaks");
            return Err(denied.into());
        }
        let response = TransportResponse {
            status: raw.status().as_u16(),
            headers: std::mem::take(raw.headers_mut()),
            body: Vec::new(),
            remote_address,
        };
        Ok(Opened { response, raw })
    }
}

impl Opened {
    async fn read_until(mut self, over: impl Future<Output = ()>) -> TransportResponse {
        tokio::select! {
            () = read_body(&mut self.raw, &mut self.response.body) => {}
            () = over => {}
        }
        self.response
    }
}

/// What is still answered within `rest`, if anything is.
async fn answer_within(
    rest: Duration,
    opening: impl Future<Output = Result<Opened, TransportError>>,
) -> Option<TransportResponse> {
    let mut over = pin!(tokio::time::sleep(rest));
    let opened = tokio::select! {
        opened = opening => opened.ok()?,
        () = &mut over => return None,
    };
    Some(opened.read_until(over).await)
}

fn prepared(request: TransportRequest) -> reqwest::Request {
    let mut prepared = reqwest::Request::new(request.method, request.url);
    *prepared.headers_mut() = request.headers;
    if !request.body.is_empty() {
        *prepared.body_mut() = Some(request.body.into());
    }
    prepared
}

/// Reads to the end, so that the connection can be used again, but no further than the limit.
async fn read_body(raw: &mut reqwest::Response, body: &mut Vec<u8>) {
    while let Ok(Some(chunk)) = raw.chunk().await {
        body.extend_from_slice(&chunk);
        if body.len() > RESPONSE_READ_MAX {
            body.truncate(RESPONSE_READ_MAX);
            return;
        }
    }
}

/// What the client's error means, found by its sources: its own text would show the URL.
fn cause(error: &reqwest::Error) -> TransportError {
    if let Some(unresolved) = sources(error).find_map(|each| each.downcast_ref::<ResolveError>()) {
        return match unresolved {
            ResolveError::Denied(denied) => TransportError::Denied(denied.clone()),
            ResolveError::Failed(text) => TransportError::Resolution(text.clone()),
        };
    }
    if error.is_connect() && error.is_timeout() {
        let waited = (LOOKUP_DEADLINE + CONNECT_DEADLINE).as_secs();
        return TransportError::Socket(format!("no connection within {waited} s"));
    }
    if error.is_timeout() {
        return TransportError::TimedOut;
    }
    match sources(error).find_map(innermost_io) {
        Some(failure) if error.is_connect() => connect_failure(failure),
        // A server that misses a client certificate says so only after its own part of the handshake.
        Some(failure) if is_tls(failure) => TransportError::Tls(innermost(failure)),
        Some(failure) => TransportError::Socket(in_words(failure)),
        None => TransportError::Socket(innermost(error)),
    }
}

/// While connecting, two kinds come from TLS alone: what it found wrong in what the other side sent,
/// and an end in the middle of the handshake.
fn connect_failure(failure: &io::Error) -> TransportError {
    if failure.kind() == io::ErrorKind::InvalidData {
        return TransportError::Tls(innermost(failure));
    }
    if failure.kind() == io::ErrorKind::UnexpectedEof {
        let text = "the connection was closed during the handshake";
        return TransportError::Tls(text.to_owned());
    }
    TransportError::Socket(in_words(failure))
}

fn is_tls(failure: &io::Error) -> bool {
    let inner = failure.get_ref();
    inner.is_some_and(|inner| inner.downcast_ref::<rustls::Error>().is_some())
}

fn in_words(failure: &io::Error) -> String {
    let words = WORDS.iter().find(|(kind, _)| *kind == failure.kind());
    words.map_or_else(|| innermost(failure), |(_, words)| (*words).to_owned())
}

/// The commonest failures, without the system's own numbers.
const WORDS: [(io::ErrorKind, &str); 5] = [
    (
        io::ErrorKind::ConnectionRefused,
        "the connection was refused",
    ),
    (io::ErrorKind::ConnectionReset, "the connection was reset"),
    (io::ErrorKind::BrokenPipe, "the connection was reset"),
    (io::ErrorKind::HostUnreachable, "the host cannot be reached"),
    (
        io::ErrorKind::NetworkUnreachable,
        "the network cannot be reached",
    ),
];

fn sources<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |each| (*each).source())
}

/// The I/O error at the bottom of nested ones; their `source` skips what they wrap.
fn innermost_io<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    let mut found = error.downcast_ref::<io::Error>()?;
    while let Some(wrapped) = found.get_ref().and_then(|each| each.downcast_ref()) {
        found = wrapped;
    }
    Some(found)
}

pub(super) fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut text = sources(error)
        .last()
        .map_or_else(String::new, ToString::to_string);
    text.truncate(text.floor_char_boundary(ERROR_TEXT_MAX));
    text
}
