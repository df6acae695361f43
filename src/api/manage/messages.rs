//! Peeks and receives messages of queues and of subscriptions of Service Bus topics over HTTP, without a Service Bus
//! client (an extension).

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::lists::List;
use crate::api::manage::messaging::{Found, MessagingPath};
use crate::api::manage::people::read;
use crate::api::memory::AnswerMemory;
use crate::api::parameters::RequestParameters;
use crate::base::stint::Stint;
use crate::broker::MessageReceiver;
use crate::model::audit::Caller;
use crate::model::lease::SubQueue;
use crate::model::limits::LOCKS_PER_REQUEST_MAX;
use crate::wire::amqp::message::Message;
use crate::wire::service_bus::shown::ShownMessage;

/// Default number of messages in one answer.
const SHOWN: usize = 20;

/// Which messages are shown.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PeekParameters {
    /// The sequence number from which on messages are shown.
    from: Option<i64>,
    /// How many at most.
    #[schemars(range(min = 1, max = LOCKS_PER_REQUEST_MAX), extend("default" = SHOWN))]
    limit: Option<usize>,
    /// The session whose messages alone are shown.
    session: Option<String>,
    /// The dead letters in place of the messages.
    #[serde(default)]
    dead_letters: bool,
}

/// A request to receive messages.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct ReceiveMessages {
    /// How many messages at most.
    #[schemars(range(min = 1, max = LOCKS_PER_REQUEST_MAX))]
    limit: usize,
    /// The dead letters in place of the messages.
    dead_letters: bool,
}

impl Default for ReceiveMessages {
    fn default() -> Self {
        Self {
            limit: 1,
            dead_letters: false,
        }
    }
}

/// `GET /queues/{queue}/messages`, and the same for a subscription of a topic
pub(crate) async fn peek(
    State(state): State<ApiState>,
    Path(path): Path<MessagingPath>,
    memory: AnswerMemory,
    RequestParameters(asked): RequestParameters<PeekParameters>,
) -> Result<Json<List<ShownMessage>>, ApiError> {
    let receiver = receiver(&state, &path, asked.dead_letters)?;
    let limit = asked.limit.unwrap_or(SHOWN).clamp(1, LOCKS_PER_REQUEST_MAX);
    let from = asked.from.unwrap_or(0);
    let bytes_max = |limit| receiver.locked_bytes_max(limit);
    let most = memory.reserve_for(limit, bytes_max).await?;
    let peeked = receiver.peek(from, most, asked.session).await?;
    memory.note_read(peeked.iter().map(|each| each.event.event.data.len()).sum());
    let mut shown = Showing::default();
    for each in &peeked {
        shown.add(receiver.encode_peeked(each)).await?;
    }
    Ok(Json(shown.messages.into_iter().collect()))
}

/// `POST /queues/{queue}/receive`, and the same for a subscription of a topic: removes the messages it returns.
pub(crate) async fn receive(
    State(state): State<ApiState>,
    by: Caller,
    Path(path): Path<MessagingPath>,
    memory: AnswerMemory,
    body: Bytes,
) -> Result<Json<List<ShownMessage>>, ApiError> {
    let ReceiveMessages {
        limit,
        dead_letters,
    } = read(&body)?;
    let receiver = receiver(&state, &path, dead_letters)?;
    receiver.check_receivable()?;
    let most = limit.clamp(1, LOCKS_PER_REQUEST_MAX);
    let locked = memory.receive(&receiver, most).await?;
    let received = receiver.complete(&by, locked).await;
    let mut shown = Showing::default();
    for each in &received {
        shown.add(receiver.encode(each, false)).await?;
    }
    Ok(Json(shown.messages.into_iter().collect()))
}

fn receiver(
    state: &ApiState,
    path: &MessagingPath,
    dead_letters: bool,
) -> Result<MessageReceiver, ApiError> {
    let found = match path.entity()?.find(state)? {
        Found::Queue(found) | Found::Subscription(found) => found,
        Found::Topic(_) | Found::Rule(..) => {
            return Err(ApiError::not_found("It has no messages of its own."));
        }
    };
    let sub_queue = if dead_letters {
        SubQueue::DeadLetter
    } else {
        SubQueue::Active
    };
    Ok(MessageReceiver::of(&state.broker, found, sub_queue))
}

/// The messages of an answer under construction.
#[derive(Default)]
struct Showing {
    messages: Vec<ShownMessage>,
    stint: Stint,
}

impl Showing {
    /// Adds an encoded message, and yields to other tasks after every few messages.
    async fn add(&mut self, encoded: Vec<u8>) -> Result<(), ApiError> {
        let bytes = encoded.len();
        let message = Message::parse(&encoded.into());
        let shown = message.and_then(|message| ShownMessage::of(&message));
        self.messages.push(shown.map_err(|error| {
            ApiError::bad_request(format!("A message cannot be read: {error}."))
        })?);
        self.stint.did(bytes).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;

    use super::*;
    use crate::wire::amqp::message::MessageProperties;

    #[tokio::test]
    async fn others_get_their_turn_while_many_messages_are_shown() {
        let body = vec![0; 16 * 1_024];
        let message = Message::of_data(&MessageProperties::default(), Vec::new(), body).to_bytes();
        let mut making = pin!(async {
            let mut shown = Showing::default();
            for _ in 0..8 {
                shown.add(message.clone()).await?;
            }
            Ok::<_, ApiError>(shown.messages.len())
        });
        let mut turns = 0;
        let made = poll_fn(|context| {
            turns += 1;
            making.as_mut().poll(context)
        });
        assert_eq!(made.await.ok(), Some(8));
        assert_eq!(turns, 3);
    }
}
