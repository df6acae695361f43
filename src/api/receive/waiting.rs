//! Receivers that wait for a message over HTTP, as long as they may receive.

use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::http::{HeaderValue, Request, Uri};

use crate::api::memory::AnswerMemory;
use crate::base::request_memory::RequestMemory;
use crate::broker::{MessageReceiver, MessagingError};
use crate::model::audit::Actor;
use crate::store::Locked;

/// How often a waiting receiver is checked: whether it still has its right, and whether its queue or subscription is still there
/// and not disabled. That is well within the 5 s that are promised.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Headers by which a receiver is let in.
const RIGHTS: [&str; 4] = ["authorization", "host", "aeg-sas-key", "aeg-sas-token"];

/// Returns of a request what its sender is let in by while it waits, in memory of its own: the rest may be many times as much,
/// and any part of it keeps all that the connection has read with it.
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

/// Locks up to `limit` messages, and waits up to `wait` for the first one. Ends with the error of `check` when that
/// rejects the client meanwhile, and with that of the receiver when it may not go on. What is received counts for `memory`
/// before it is read.
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
        // Most who wait find nothing, and what they reserved would keep others waiting.
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
