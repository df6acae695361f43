//! Accepting connections: bounded in number, in the time they take to ask, and at a stop.

use std::fmt::Display;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use tower_http::timeout::TimeoutBody;

use crate::api::rewrite_arm_path;

/// How long a client may take to send the head of a request.
const HEADER_DEADLINE: Duration = Duration::from_secs(10);

/// How long a client may pause within the body of a request.
const BODY_PAUSE_MAX: Duration = Duration::from_secs(30);

/// Bytes of a request's head.
const HEADER_BYTES_MAX: usize = 32 * 1_024;

/// Headers of a request.
const HEADERS_MAX: usize = 100;

/// Streams of one HTTP/2 connection.
const STREAMS_MAX: u32 = 100;

/// Pause after an accept that failed, so that a process out of file descriptors does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long open connections may take to end their requests at a stop.
const GOODBYE: Duration = Duration::from_secs(2);

/// Serves `router` on `listener` until `stop`.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    connections_max: usize,
    stop: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(connections_max));
    let server = server();
    let graceful = GracefulShutdown::new();
    while let Some((stream, address)) = accept(&listener, &stop).await {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            break;
        };
        let asked = Arc::new(Notify::new());
        let has_asked = Arc::clone(&asked);
        let service = TowerToHyperService::new(router.clone().map_request(move |request| {
            has_asked.notify_one();
            prepared(request, address)
        }));
        let connection = server
            .serve_connection(TokioIo::new(stream), service)
            .into_owned();
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            attend(connection, &asked, address).await;
            drop(place);
        });
    }
    let _ = tokio::time::timeout(GOODBYE, graceful.shutdown()).await;
}

fn prepared(mut request: Request<Incoming>, address: SocketAddr) -> Request<TimeoutBody<Incoming>> {
    if let Some(short) = rewrite_arm_path(request.uri()) {
        *request.uri_mut() = short;
    }
    request.extensions_mut().insert(ConnectInfo(address));
    request.map(|body| TimeoutBody::new(BODY_PAUSE_MAX, body))
}

/// Serves a connection to its end, unless its first request (`asked`) is late. The server's own deadline
/// for heads begins only once it is clear which version of HTTP is spoken, which a silent client leaves
/// open.
async fn attend<E: Display>(
    connection: impl Future<Output = Result<(), E>>,
    asked: &Notify,
    address: SocketAddr,
) {
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        asked = tokio::time::timeout(HEADER_DEADLINE, asked.notified()) => match asked {
            Ok(()) => connection.await,
            Err(_) => return,
        },
    };
    // A client that hangs up or talks nonsense concerns nobody but itself.
    if let Err(cause) = ended {
        tracing::debug!(%cause, %address, "a connection ended early");
    }
}

fn server() -> Builder<TokioExecutor> {
    let mut server = Builder::new(TokioExecutor::new());
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_DEADLINE)
        .max_buf_size(HEADER_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX as u32);
    server
}

/// The next connection; `None` at a stop.
async fn accept(
    listener: &TcpListener,
    stop: &CancellationToken,
) -> Option<(TcpStream, SocketAddr)> {
    loop {
        let accepted: io::Result<_> = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return None,
        };
        match accepted {
            Ok((stream, address)) => {
                let _ = stream.set_nodelay(true);
                return Some((stream, address));
            }
            Err(cause) => {
                tracing::warn!(%cause, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;
    use axum::routing::post;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Says `said` and then nothing; whether it is still listened to after a minute.
    async fn check(said: &str, expected: &str) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let stop = CancellationToken::new();
        let router = Router::new().route("/", post(|_: Bytes| async {}));
        tokio::spawn(serve(listener, router, 1, stop.clone()));
        let mut client = TcpStream::connect(address).await.expect("a connection");
        client.write_all(said.as_bytes()).await.expect("sent");
        let mut heard = String::new();
        let closed = client.read_to_string(&mut heard);
        let closed = tokio::time::timeout(Duration::from_secs(60), closed).await;
        assert!(closed.is_ok(), "after {said:?} the connection is kept");
        assert!(heard.starts_with(expected), "{said:?}: {heard:?}");
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
