//! Connects: TCP to an address that may be called, and TLS, within a deadline.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::{Connection as _, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tower::util::MapResponse;
use tower::{BoxError, Service};

use crate::base::Stopwatch;
use crate::outbound::connect_watch::ConnectWatch;
use crate::outbound::resolver::{Guard, LOOKUP_DEADLINE};
use crate::outbound::unanswered::{
    AnsweringStream, UNANSWERED_MAX, UNANSWERED_MAX_HTTP2, UnansweredBytes,
};

/// How long TCP and TLS may take to connect, on top of the look-up (docs/security.md B2).
pub(super) const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// The idle time of a connection before the first TCP keep-alive probe, and the interval between probes.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// The number of unanswered TCP keep-alive probes after which a connection is closed.
const KEEPALIVE_RETRIES: u32 = 3;

/// The maximum time that sent data may stay unacknowledged.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(30);

/// No connection was established before the deadline.
#[derive(Debug, thiserror::Error)]
#[error("no connection within {} s", (LOOKUP_DEADLINE + CONNECT_DEADLINE).as_secs())]
pub(super) struct ConnectTimeout;

/// A TCP stream that counts unanswered bytes. It counts below TLS, so the messages of TLS count too.
type Socket = TokioIo<AnsweringStream<TcpStream>>;

type Sockets = MapResponse<HttpConnector<Guard>, fn(TokioIo<TcpStream>) -> Socket>;

/// Connects to addresses that the guard allows.
#[derive(Clone)]
pub(super) struct Connector {
    https: HttpsConnector<Sockets>,
    watch: ConnectWatch,
}

impl Connector {
    /// `watch` measures the first connection.
    pub(super) fn new(guard: Guard, tls: ClientConfig, watch: ConnectWatch) -> Self {
        let mut http = HttpConnector::new_with_resolver(guard);
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_keepalive(Some(KEEPALIVE));
        http.set_keepalive_interval(Some(KEEPALIVE));
        http.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
        #[cfg(target_os = "linux")]
        http.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX));
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .enable_http2();
        Self {
            https: https.wrap_connector(Sockets::new(http, counted)),
            watch,
        }
    }
}

fn counted(stream: TokioIo<TcpStream>) -> Socket {
    let unanswered = UnansweredBytes::up_to(UNANSWERED_MAX);
    TokioIo::new(AnsweringStream::new(stream.into_inner(), unanswered))
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<Socket>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.https.poll_ready(context)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let (stopwatch, watch) = (Stopwatch::begin(), self.watch.clone());
        let connecting = self.https.call(to);
        Box::pin(async move {
            let deadline = LOOKUP_DEADLINE + CONNECT_DEADLINE;
            let ended = tokio::time::timeout(deadline, connecting).await;
            let connection = ended.map_err(|_| ConnectTimeout)??;
            watch.connected(stopwatch.took());
            let connected = connection.connected();
            let most = if connected.is_negotiated_h2() {
                UNANSWERED_MAX_HTTP2
            } else {
                UNANSWERED_MAX
            };
            if let Some(unanswered) = UnansweredBytes::of(&connected) {
                unanswered.begin(most);
            }
            Ok(connection)
        })
    }
}
