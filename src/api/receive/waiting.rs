//! Receiving over HTTP: waits for a message as long as the client is authorized.

use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::http::{HeaderValue, Request, Uri};

use crate::api::memory::AnswerMemory;
use crate::base::request_memory::RequestMemory;
use crate::broker::{MessageReceiver, MessagingError};
use crate::model::audit::Actor;
use crate::store::Locked;

/// The interval at which a waiting receiver is checked: it must still be authorized, and its queue or subscription must
/// exist and not be disabled. The interval is well within the promised 5 s.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Request headers that the authorization of a receiver reads.
const RIGHTS: [&str; 4] = ["authorization", "host", "aeg-sas-key", "aeg-sas-token"];

/// Copies the parts of a request that its authorization reads, so that the request can be dropped while the receiver
/// waits. A request may be many times larger, and a reference to any part of it keeps the whole read buffer of the
/// connection in memory.
pub(in crate::api) fn kept_while_waiting(request: &Request<()>) -> Request<()> {
    let mut kept = Request::new(());
    let uri = Uri::try_from(request.uri().to_string());
    *kept.uri_mut() = uri.unwrap_or_else(|_| request.uri().clone());
    *kept.method_mut() = request.method().clone();
    for name in RIGHTS {
        let came = request.headers().get(name);
        let copied = came.and_then(|value| HeaderValue::from_bytes(value.as_bytes()).ok());
        if let Some(value) = copied {
            kept.headers_mut().insert(name, value);
        }
    }
    let extensions = kept.extensions_mut();
    if let Some(address) = request.extensions().get::<ConnectInfo<SocketAddr>>() {
        extensions.insert(*address);
    }
    if let Some(memory) = request.extensions().get::<RequestMemory>() {
        extensions.insert(memory.clone());
    }
    kept
}

/// Locks up to `limit` messages, and waits up to `wait` for the first one. Returns the error of `check` if `check`
/// rejects the client in the meantime, and the error of `receiver` if the receiver may not go on. The received messages
/// count for `memory` before they are read.
pub(in crate::api) async fn receive_while_allowed<E: From<MessagingError>>(
    receiver: &MessageReceiver,
    by: &Actor,
    limit: usize,
    wait: Duration,
    check: impl Fn() -> Result<(), E>,
    memory: &AnswerMemory,
) -> Result<Vec<Locked>, E> {
    let mut rejected = None;
    let rejection = async {
        while rejected.is_none() {
            tokio::time::sleep(LOOK_AGAIN).await;
            let checked = check().and_then(|()| receiver.check_again().map_err(E::from));
            rejected = checked.err();
        }
    };
    let receive = || async {
        // Memory is reserved only if a message is due: most receivers that wait find none, and their reservations
        // would keep other requests waiting.
        if receiver.is_due().await? {
            memory.receive(receiver, limit).await
        } else {
            receiver.receive(0, None).await // tells even so whether they may receive at all
        }
    };
    let receiving = receiver.receive_within(by, wait, rejection, receive);
    let received = receiving.await?;
    rejected.map_or(Ok(received), Err)
}
