//! Accepting connections: bounded in number, in the time they take to ask, and at a stop.

use std::io;
use std::net::SocketAddr;
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
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::api::rewrite_arm_path;

/// How long a client may take to send the head of a request.
const HEADER_DEADLINE: Duration = Duration::from_secs(10);

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
        let service = TowerToHyperService::new(router.clone().map_request(
            move |mut request: Request<Incoming>| {
                if let Some(short) = rewrite_arm_path(request.uri()) {
                    *request.uri_mut() = short;
                }
                request.extensions_mut().insert(ConnectInfo(address));
                request
            },
        ));
        let connection = server
            .serve_connection(TokioIo::new(stream), service)
            .into_owned();
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // A client that hangs up or talks nonsense concerns nobody but itself.
            if let Err(cause) = connection.await {
                tracing::debug!(%cause, %address, "a connection ended early");
            }
            drop(place);
        });
    }
    let _ = tokio::time::timeout(GOODBYE, graceful.shutdown()).await;
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
