//! One HTTP request and its response. The only HTTP client of the appliance, behind the egress policy.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Method, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpInfo;
use rustls::pki_types::CertificateDer;
use url::Url;

use crate::base::{Clock, Live};
use crate::model::credentials::TlsMaterial;
use crate::model::limits::LATE_ANSWER_WINDOW;
use crate::outbound::clients::{Client, Clients, read_authorities};
use crate::outbound::connect_watch::ConnectWatch;
use crate::outbound::connector::ConnectTimeout;
use crate::outbound::egress::{Denied, EgressPolicy};
use crate::outbound::late_response::{LateResponseSlot, PendingResponse};
use crate::outbound::resolver::{Guard, Lookup, ResolveError, system_lookup};
use crate::outbound::tls_failure;
use crate::outbound::unanswered::UnansweredBytes;

#[cfg(test)]
mod tests;

/// The user agent.
pub(super) const USER_AGENT: &str = concat!("Everpost/", env!("CARGO_PKG_VERSION"));

/// How long an idle connection is kept: shorter than receivers keep theirs (Node.js: 5 s), so that a request
/// hardly ever fails because the connection is being closed.
pub(super) const IDLE_KEPT: Duration = Duration::from_secs(4);

/// Bytes of the head of a response (docs/security.md B2). Over HTTP/1 the client itself stops at 100 headers, too.
pub(super) const HEADER_BLOCK_MAX: u32 = 16_384;

/// Bytes of an error message: those about certificates can be long.
const ERROR_TEXT_MAX: usize = 500;

/// One HTTP request.
#[derive(Clone)]
pub struct TransportRequest {
    pub method: Method,
    /// Its query may hold a secret: never shown, neither here nor in errors.
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// From now to the last byte of the response.
    pub deadline: Duration,
    /// Bytes of the response's body that are read; the rest is dropped with the connection.
    pub body_max: usize,
    /// Where the pending response is left after the deadline; without it the connection is closed.
    pub late: Option<LateResponseSlot>,
    /// The caller's TLS settings; its connections are not shared with other callers.
    pub tls: Option<Arc<TlsMaterial>>,
}

/// The response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportResponse {
    pub status: u16,
    pub headers: HeaderMap,
    /// The body, as far as it arrived in time, at most as much of it as the request wants.
    pub body: Vec<u8>,
    pub remote_address: Option<SocketAddr>,
}

/// Why there is no response. Messages never contain the URL's query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    #[error("no answer within the deadline")]
    TimedOut,
    /// The host name cannot be resolved.
    #[error("{0}")]
    Resolution(String),
    /// The host name has not been looked up.
    #[error("not sent: {}", ResolveError::NoPlace)]
    NoPlace,
    /// No connection, or a broken one, or a response that is not HTTP.
    #[error("{0}")]
    Socket(String),
    /// TLS failed, or a certificate is not trusted.
    #[error("TLS failed: {0}")]
    Tls(String),
    /// No access token could be fetched.
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
    /// To receivers inside the appliance if the host is theirs, else as before.
    Inside(Inside),
}

/// Receivers inside the appliance. No connection is made to them, so the egress policy need not allow
/// anything, and nobody outside can reach them.
#[derive(Clone)]
pub struct Inside {
    /// The host of their URLs, which is never resolved.
    pub host: &'static str,
    pub receivers: Arc<dyn Responder>,
    /// For all other hosts.
    pub outside: Box<HttpTransport>,
}

/// Responds instead of the network.
#[async_trait]
pub trait Responder: Send + Sync {
    /// The response to `request`.
    async fn respond(
        &self,
        request: &TransportRequest,
    ) -> Result<TransportResponse, TransportError>;

    /// The response that may still come after `request` has timed out.
    fn late_response(&self, _request: &TransportRequest) -> Option<PendingResponse> {
        None
    }
}

impl HttpTransport {
    /// Makes one request, exactly once: it is never repeated, and redirects are not followed.
    pub async fn send(
        &self,
        request: TransportRequest,
    ) -> Result<TransportResponse, TransportError> {
        match self {
            Self::Network(network) => network.current.get().send(request).await,
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
    /// Has the network obey another policy. A script has none.
    pub(super) fn set_policy(&self, policy: &EgressPolicy) -> Result<(), NetworkError> {
        match self {
            Self::Network(network) => network.set_policy(policy),
            Self::Scripted(_) => Ok(()),
            Self::Inside(inside) => inside.outside.set_policy(policy),
        }
    }

    /// The network of a request to `url`; `None` if it is served without one.
    pub(super) fn network(&self, url: &Url) -> Option<Arc<Network>> {
        match self {
            Self::Inside(inside) if url.host_str() == Some(inside.host) => None,
            Self::Network(_) | Self::Scripted(_) | Self::Inside(_) => self.outside(),
        }
    }

    /// The network of what is served by nobody inside; `None` without one.
    pub(super) fn outside(&self) -> Option<Arc<Network>> {
        match self {
            Self::Network(network) => Some(network.current.get()),
            Self::Scripted(_) => None,
            Self::Inside(inside) => inside.outside.outside(),
        }
    }
}

impl Inside {
    /// The response of a receiver inside, which may be late like any other.
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

/// The network, behind the egress policy. Cheap to clone; clones share connections, and the policy.
#[derive(Clone)]
pub struct NetworkTransport {
    current: Live<Network>,
    clock: Clock,
    lookup: Lookup,
    authorities: Vec<CertificateDer<'static>>,
}

/// The network under one policy. Another policy has connections and look-ups of its own, so that none outlives the rule
/// that allowed it.
pub(super) struct Network {
    policy: EgressPolicy,
    guard: Guard,
    clients: Clients,
}

/// A response whose body is still to be read.
struct Opened {
    response: TransportResponse,
    raw: Incoming,
    body_max: usize,
    /// The count of its connection.
    unanswered: UnansweredBytes,
}

/// Options of a [`NetworkTransport`].
pub struct NetworkOptions {
    pub egress: EgressPolicy,
    pub clock: Clock,
    /// Certificates of additional trusted authorities, as PEM; empty for none.
    pub extra_authorities: Vec<u8>,
}

/// Why there is no HTTP client.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    #[error("the additional certificate authorities are no PEM certificates: {0}")]
    Authorities(String),
    #[error("the HTTP client cannot be set up: {0}")]
    Client(String),
}

impl NetworkTransport {
    /// Fails if the system has no certificate authorities at all, or the additional ones are not PEM.
    pub fn new(options: NetworkOptions) -> Result<Self, NetworkError> {
        Self::with_lookup(options, system_lookup())
    }

    pub(super) fn with_lookup(
        options: NetworkOptions,
        lookup: Lookup,
    ) -> Result<Self, NetworkError> {
        let NetworkOptions {
            egress,
            clock,
            extra_authorities,
        } = options;
        let authorities = read_authorities(&extra_authorities)?;
        let network = Network::new(egress, &clock, &lookup, &authorities)?;
        Ok(Self {
            current: Live::new(network),
            clock,
            lookup,
            authorities,
        })
    }

    /// Obeys another policy from the next request on.
    fn set_policy(&self, policy: &EgressPolicy) -> Result<(), NetworkError> {
        if self.current.get().policy == *policy {
            return Ok(()); // the connections stay
        }
        let (clock, lookup, authorities) = (&self.clock, &self.lookup, &self.authorities);
        let network = Network::new(policy.clone(), clock, lookup, authorities)?;
        self.current.set(network);
        Ok(())
    }
}

impl Network {
    fn new(
        policy: EgressPolicy,
        clock: &Clock,
        lookup: &Lookup,
        authorities: &[CertificateDer<'static>],
    ) -> Result<Self, NetworkError> {
        let guard = Guard::new(policy.clone(), clock.clone(), Arc::clone(lookup));
        Ok(Self {
            policy,
            clients: Clients::new(guard.clone(), authorities.to_vec())?,
            guard,
        })
    }

    pub(super) fn policy(&self) -> &EgressPolicy {
        &self.policy
    }

    pub(super) fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The status decides the outcome, so once it has arrived there is a response, even if the deadline or a
    /// broken connection cuts the body short.
    async fn send(
        self: Arc<Self>,
        request: TransportRequest,
    ) -> Result<TransportResponse, TransportError> {
        let (deadline, late) = (request.deadline, request.late.clone());
        let mut over = pin!(tokio::time::sleep(deadline));
        let mut opening = Box::pin(self.open(request));
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

    async fn open(self: Arc<Self>, request: TransportRequest) -> Result<Opened, TransportError> {
        let found = self.clients.find(request.tls.as_ref());
        let client = found.map_err(|error| TransportError::Tls(error.to_string()))?;
        self.open_by(&client, request).await
    }

    /// Only the head of the response, over a new connection that is measured.
    pub(super) async fn send_afresh(
        &self,
        request: TransportRequest,
        watch: ConnectWatch,
    ) -> Result<TransportResponse, TransportError> {
        let made = self.clients.fresh(watch);
        let client = made.map_err(|error| TransportError::Tls(error.to_string()))?;
        let deadline = request.deadline;
        let opened = tokio::time::timeout(deadline, self.open_by(&client, request)).await;
        Ok(opened.map_err(|_| TransportError::TimedOut)??.response)
    }

    async fn open_by(
        &self,
        client: &Client,
        request: TransportRequest,
    ) -> Result<Opened, TransportError> {
        // The client connects to literal addresses without the resolver, hence this check of every request;
        // the one afterwards would only find a bug.
        self.policy.check_url(&request.url)?;
        let body_max = request.body_max;
        let answered = client.request(prepared(request)?).await;
        let response = answered.map_err(|error| cause(&error))?;
        let (head, raw) = response.into_parts();
        let counted = head.extensions.get::<UnansweredBytes>().cloned();
        let unanswered = counted.unwrap_or_default();
        unanswered.forget();
        let connection = head.extensions.get::<HttpInfo>();
        let remote_address = connection.map(HttpInfo::remote_addr);
        if let Some(address) = remote_address
            && let Err(denied) = self.policy.check_address(address.ip())
        {
            tracing::error!(%address, "a denied address was called: a bug in the egress policy");
            return Err(denied.into());
        }
        let response = TransportResponse {
            status: head.status.as_u16(),
            headers: head.headers,
            body: Vec::new(),
            remote_address,
        };
        Ok(Opened {
            response,
            raw,
            body_max,
            unanswered,
        })
    }
}

impl Opened {
    async fn read_until(mut self, over: impl Future<Output = ()>) -> TransportResponse {
        tokio::select! {
            () = self.read_body() => {}
            () = over => {}
        }
        self.response
    }

    /// Reads to the end, so that the connection can be reused, but not past the limit.
    async fn read_body(&mut self) {
        let body = &mut self.response.body;
        while let Some(Ok(frame)) = self.raw.frame().await {
            let Ok(chunk) = frame.into_data() else {
                continue;
            };
            if !chunk.is_empty() {
                self.unanswered.forget();
            }
            body.extend_from_slice(&chunk);
            if body.len() > self.body_max {
                body.truncate(self.body_max);
                return;
            }
        }
    }
}

/// The response, if it comes within `rest`.
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

fn prepared(request: TransportRequest) -> Result<http::Request<Full<Bytes>>, TransportError> {
    let uri = Uri::try_from(request.url.as_str())
        // A URL that is no URI: its own text would show the query.
        .map_err(|error| TransportError::Socket(error.to_string()))?;
    let mut prepared = http::Request::new(Full::new(request.body));
    *prepared.method_mut() = request.method;
    *prepared.uri_mut() = uri;
    *prepared.headers_mut() = request.headers;
    for (name, value) in [(ACCEPT, "*/*"), (http::header::USER_AGENT, USER_AGENT)] {
        let value = HeaderValue::from_static(value);
        prepared.headers_mut().entry(name).or_insert(value);
    }
    Ok(prepared)
}

/// The meaning of the client's error, from its sources: its own text would show the URL.
fn cause(error: &legacy::Error) -> TransportError {
    if let Some(unresolved) = sources(error).find_map(|each| each.downcast_ref::<ResolveError>()) {
        return match unresolved {
            ResolveError::Denied(denied) => TransportError::Denied(denied.clone()),
            ResolveError::Failed(text) => TransportError::Resolution(text.clone()),
            ResolveError::NoPlace => TransportError::NoPlace,
        };
    }
    if let Some(late) = sources(error).find_map(|each| each.downcast_ref::<ConnectTimeout>()) {
        return TransportError::Socket(late.to_string());
    }
    match sources(error).find_map(innermost_io) {
        Some(failure) if error.is_connect() => connect_failure(failure),
        // A server that needs a client certificate says so only after its own part of the handshake.
        Some(failure) if is_tls(failure) => TransportError::Tls(tls_in_words(failure)),
        Some(failure) => TransportError::Socket(in_words(failure)),
        None => TransportError::Socket(innermost(error)),
    }
}

/// While connecting, two kinds of errors come only from TLS: invalid data, and an end in the middle of the
/// handshake.
fn connect_failure(failure: &io::Error) -> TransportError {
    if failure.kind() == io::ErrorKind::InvalidData {
        return TransportError::Tls(tls_in_words(failure));
    }
    if failure.kind() == io::ErrorKind::UnexpectedEof {
        let text = "the connection was closed during the handshake";
        return TransportError::Tls(text.to_owned());
    }
    TransportError::Socket(in_words(failure))
}

fn is_tls(failure: &io::Error) -> bool {
    tls_failure_of(failure).is_some()
}

fn tls_failure_of(failure: &io::Error) -> Option<&rustls::Error> {
    failure.get_ref()?.downcast_ref()
}

fn tls_in_words(failure: &io::Error) -> String {
    let words = tls_failure_of(failure).and_then(tls_failure::in_words);
    words.unwrap_or_else(|| innermost(failure))
}

fn in_words(failure: &io::Error) -> String {
    common(failure).map_or_else(|| innermost(failure), str::to_owned)
}

/// Returns a description of the error if it is one of the most common failures.
pub(super) fn common(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let kind = sources(error).find_map(innermost_io)?.kind();
    let words = WORDS.iter().find(|(each, _)| *each == kind);
    words.map(|(_, words)| *words)
}

/// The most common failures, without the system's error numbers.
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
