//! Receivers that wait for a message over HTTP, as long as they may receive.

use std::time::Duration;

use crate::broker::{MessageReceiver, MessagingError};
use crate::model::audit::Actor;
use crate::store::Locked;

/// How often the right of a receiver that waits is looked at again: well within the 5 s that are promised.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Locks up to `limit` messages, and waits up to `wait` for the first one. Ends with the error of `check` when that
/// rejects the client meanwhile.
pub(in crate::api) async fn receive_while_allowed<E: From<MessagingError>>(
    receiver: &MessageReceiver,
    by: &Actor,
    limit: usize,
    wait: Duration,
    check: impl Fn() -> Result<(), E>,
) -> Result<Vec<Locked>, E> {
    let mut rejected = None;
    let rejection = async {
        while rejected.is_none() {
            tokio::time::sleep(LOOK_AGAIN).await;
            rejected = check().err();
        }
    };
    let received = receiver.receive_within(by, limit, wait, rejection).await?;
    rejected.map_or(Ok(received), Err)
}
