//! AMQP over WebSocket, for clients whose network allows outgoing HTTPS only.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use axum::Router;
use axum::extract::{ConnectInfo, Extension, Request, State};
use axum::http::header::{
    CONNECTION, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper_util::rt::TokioIo;

use crate::api::amqp::websocket_stream::WebSocketStream;
use crate::api::amqp::{ConnectionMemory, SharedServer, serve};
use crate::api::error::ApiError;
use crate::base::request_memory::RequestMemory;

/// The path that Service Bus uses for AMQP over WebSocket.
const PATH: &str = "/$servicebus/websocket";

/// The subprotocols in order of preference: the name that clients of Service Bus use, and `amqp` (AMQP WebSocket
/// binding 1.0, section 2.1).
const PROTOCOLS: [&str; 2] = ["AMQPWSB10", "amqp"];

/// The version of the WebSocket protocol (RFC 6455, section 4.1).
const VERSION: &str = "13";

/// The GUID that is appended to the key of a client before hashing (RFC 6455, section 1.3).
const KEY_SUFFIX: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The memory that is accounted for a connection: its buffers and its task.
const WEBSOCKET_BYTES: usize = 6 * 1_024;

/// Guard that counts a served connection until its last clone is dropped. It is passed along with requests, since a
/// WebSocket outlives the request that opened it.
#[derive(Clone)]
pub struct ServedConnection(pub Arc<dyn Any + Send + Sync>);

/// Returns the route that upgrades a request to an AMQP connection.
pub fn router(server: Arc<SharedServer>) -> Router {
    Router::new().route(PATH, get(upgrade)).with_state(server)
}

/// Normalizes the letter case and trailing slashes of the WebSocket path to the form of the route, since clients spell
/// it differently.
pub(in crate::api) fn enter(uri: &mut Uri) {
    let path = uri.path();
    let is_spelled = path.trim_end_matches('/').eq_ignore_ascii_case(PATH);
    if path.starts_with("/$") && is_spelled {
        *uri = Uri::from_static(PATH);
    }
}

async fn upgrade(
    State(server): State<Arc<SharedServer>>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    slot: Option<Extension<ServedConnection>>,
    mut request: Request,
) -> Result<Response, ApiError> {
    let accept = accept(request.headers())?;
    let protocol = protocol(request.headers());
    let entered = server.memory.enter(Some(client.ip()), WEBSOCKET_BYTES);
    let own = entered.map_err(|_| {
        let problem = "There is no memory left for another connection; try again in a moment.";
        ApiError::unavailable(problem)
    })?;
    let of_request = request.extensions().get::<RequestMemory>();
    let http = of_request.map(|memory| memory.account().clone());
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        match upgraded.await {
            Ok(upgraded) => {
                let stream = WebSocketStream::new(TokioIo::new(upgraded));
                let memory = ConnectionMemory { own, http };
                serve(stream, client.ip(), &server, memory).await;
            }
            Err(cause) => tracing::debug!(%cause, "a WebSocket could not be opened"),
        }
        drop(slot);
    });
    let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
    let headers = response.headers_mut();
    let mut put = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    put(CONNECTION, "upgrade");
    put(UPGRADE, "websocket");
    put(SEC_WEBSOCKET_ACCEPT, &accept);
    if let Some(protocol) = protocol {
        put(SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    Ok(response)
}

/// Returns the value of Sec-WebSocket-Accept for the key of a client, or an error if the request is no valid handshake.
fn accept(headers: &HeaderMap) -> Result<String, ApiError> {
    let has = |name: HeaderName, word: &str| {
        let values = headers.get_all(name).into_iter();
        let texts = values.filter_map(|value| value.to_str().ok());
        let mut words = texts.flat_map(|text| text.split(','));
        words.any(|each| each.trim().eq_ignore_ascii_case(word))
    };
    let key = headers.get(SEC_WEBSOCKET_KEY);
    let is_asked = has(CONNECTION, "upgrade") && has(UPGRADE, "websocket");
    match key {
        Some(key) if is_asked && has(SEC_WEBSOCKET_VERSION, VERSION) => {
            let text = [key.as_bytes(), KEY_SUFFIX].concat();
            let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, &text);
            Ok(STANDARD.encode(hash))
        }
        Some(_) | None => Err(ApiError::bad_request(format!(
            "This is where AMQP clients open a WebSocket of version {VERSION}, with the headers Connection: Upgrade, \
             Upgrade: websocket, Sec-WebSocket-Key and Sec-WebSocket-Version."
        ))),
    }
}

/// Selects a supported subprotocol from those that a client offers.
fn protocol(headers: &HeaderMap) -> Option<&'static str> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).into_iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    let offered: Vec<&str> = texts
        .flat_map(|text| text.split(','))
        .map(str::trim)
        .collect();
    PROTOCOLS.into_iter().find(|each| offered.contains(each))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_the_path_is_that_of_the_route() {
        for (path, is_found) in [
            ("/$servicebus/websocket", true),
            ("/$servicebus/websocket/", true),
            ("/$ServiceBus/WebSocket/?a=1", true),
            ("/servicebus/websocket", false),
            ("/$servicebus/websocket/more", false),
        ] {
            let mut uri: Uri = path.parse().expect("a path");
            enter(&mut uri);
            assert_eq!(uri == PATH, is_found, "{path}");
            assert_eq!(uri == path, !is_found || path == PATH, "{path}");
        }
    }

    #[test]
    fn a_websocket_is_opened_as_the_standard_has_it() {
        let headers = |lines: &[(&'static str, &str)]| -> HeaderMap {
            let lines = lines.iter();
            lines
                .map(|(name, value)| {
                    (
                        HeaderName::from_static(name),
                        value.parse().expect("a value"),
                    )
                })
                .collect()
        };
        let all = [
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        let accepted = accept(&headers(&all));
        assert_eq!(
            accepted.ok().as_deref(),
            Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
        );
        for left_out in 0..all.len() {
            let mut some = all.to_vec();
            some.remove(left_out);
            assert!(accept(&headers(&some)).is_err(), "{some:?}");
        }
        for (offered, expected) in [
            ("amqp", Some("amqp")),
            ("other, AMQPWSB10", Some("AMQPWSB10")),
            ("amqp, AMQPWSB10", Some("AMQPWSB10")),
            ("other", None),
        ] {
            let offered = headers(&[("sec-websocket-protocol", offered)]);
            assert_eq!(protocol(&offered), expected);
        }
    }
}
