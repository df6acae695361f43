//! AMQP inside of a WebSocket, for clients whose network lets only HTTPS out.

use std::any::Any;
use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{ConnectInfo, Extension, State};
use axum::response::Response;
use axum::routing::get;
use axum::{Error, Router};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use tokio_util::io::{CopyToBytes, SinkWriter, StreamReader};

use crate::api::amqp::{Server, serve};

/// The path, as Service Bus has it.
const PATH: &str = "/$servicebus/websocket";

/// The subprotocol (AMQP WebSocket binding 1.0, section 2.1).
const PROTOCOL: &str = "amqp";

/// The name that Service Bus' clients use instead.
const PROTOCOL_OF_AZURE: &str = "AMQPWSB10";

/// Bytes of one message: a client may put several frames of AMQP into it.
const MESSAGE_BYTES_MAX: usize = 256 * 1_024;

/// Bytes that wait to be sent; then the connection waits.
const WAITING_BYTES_MAX: usize = 1_024 * 1_024;

/// Counts a connection among those that are served until its last copy is dropped. Requests bring it along, since a
/// WebSocket outlives the request that opened it.
#[derive(Clone)]
pub struct ConnectionSlot(pub Arc<dyn Any + Send + Sync>);

/// The route that turns a request into a connection of AMQP.
pub fn router(server: Arc<Server>) -> Router {
    Router::new().route(PATH, get(upgrade)).with_state(server)
}

async fn upgrade(
    State(server): State<Arc<Server>>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    slot: Option<Extension<ConnectionSlot>>,
    upgrade: WebSocketUpgrade,
) -> Response {
    upgrade
        .protocols([PROTOCOL_OF_AZURE, PROTOCOL])
        .max_message_size(MESSAGE_BYTES_MAX)
        .max_frame_size(MESSAGE_BYTES_MAX)
        .max_write_buffer_size(WAITING_BYTES_MAX)
        .on_upgrade(async move |socket| {
            serve(stream(socket), client.ip(), &server).await;
            drop(slot);
        })
}

/// The bytes of the messages in both directions, as one stream: messages need not end where frames of AMQP do.
fn stream(socket: WebSocket) -> impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin {
    let (sink, messages) = socket.split();
    let read = messages.filter_map(|message| {
        ready(match message {
            Ok(Message::Binary(bytes)) => Some(Ok(bytes)),
            Ok(_) => None,
            Err(error) => Some(Err(io::Error::other(error))),
        })
    });
    let write = sink
        .with(|bytes: Bytes| ready(Ok::<_, Error>(Message::Binary(bytes))))
        .sink_map_err(io::Error::other);
    let write = SinkWriter::new(CopyToBytes::new(write));
    tokio::io::join(StreamReader::new(read), write)
}
