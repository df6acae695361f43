//! Sending and receiving by Azure Service Bus' REST runtime API (rule S8): queues, topics and subscriptions, and the
//! dead letters of every event subscription (rule S4).
//!
//! The middleware runs before the other routes because paths may be in any letter case, and because a client that hangs
//! up while it waits must not be served afterwards: a message locked for a lost client becomes available only a minute
//! later.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::administration::is_administration;
use super::authorize;
use super::error_response::ErrorResponse;
use crate::api::ApiState;
use crate::api::auth::query_value;
use crate::api::authority::Demand;
use crate::api::base_url::BaseUrl;
use crate::api::intake::read_body;
use crate::api::memory::AnswerMemory;
use crate::api::receive::waiting::{kept_while_waiting, receive_while_allowed};
use crate::api::run_to_completion::completed;
use crate::base::Timestamp;
use crate::broker::{MessageReceiver, MessageSender, MessageView, MessagingEntity, MessagingError};
use crate::model::audit::Caller;
use crate::model::lease::{Disposition, LockChange, LockError, LockOf, LockToken};
use crate::model::limits::{RECEIVE_WAIT, RECEIVE_WAIT_MAX, SENT_MESSAGE_BYTES};
use crate::model::shared_access::Right;
use crate::store::Locked;
use crate::wire;
use crate::wire::amqp::message::Message as Encoded;
use crate::wire::service_bus::address::{Claim, EntityPath, QueueOperation};
use crate::wire::service_bus::http::{self, BadMessage};
use crate::wire::service_bus::message::of_event;

/// Answers requests to a queue, a topic or a subscription, and passes all other requests on.
pub(in crate::api) async fn intercept(
    State(state): State<ApiState>,
    request: Request,
    next: Next,
) -> Response {
    let address = match EntityPath::parse(request.uri().path()) {
        None => return next.run(request).await,
        Some(Err(error)) => return ErrorResponse::not_found(format!("{error}.")).into_response(),
        Some(Ok(address)) => address,
    };
    let is_managed = address.is_entity() && is_administration(&request);
    match address.operation(request.method()) {
        None if is_managed || !address.is_dead_letters() => next.run(request).await,
        operation => Box::pin(answer(&state, &address, operation, request))
            .await
            .unwrap_or_else(ErrorResponse::into_response),
    }
}

async fn answer(
    state: &ApiState,
    address: &EntityPath,
    operation: Option<QueueOperation>,
    request: Request,
) -> Result<Response, ErrorResponse> {
    let right = match operation {
        Some(QueueOperation::Send) => Right::Send,
        _ => Right::Listen,
    };
    let (parts, body) = request.into_parts();
    let base = BaseUrl::of(state, &parts.headers, &parts.uri, &parts.extensions);
    let came = Request::from_parts(parts, ());
    let (request, body) = match right {
        Right::Send => (came, body),
        Right::Listen | Right::Manage => {
            let kept = kept_while_waiting(&came);
            drop((came, body)); // they would be kept as long as a receiver waits
            (kept, Body::empty())
        }
    };
    let demand = Demand {
        right: Some(right),
        topic_or_queue: Some(&address.entity.topic_or_queue),
        path: request.uri().path(),
    };
    let authorized = || authorize(state, &request, demand);
    let (_, caller) = authorized()?;
    let check = || authorized().map(drop).map_err(ErrorResponse::from);
    let (method, uri) = (request.method(), request.uri());
    let named_operation = operation.ok_or_else(|| {
        ErrorResponse::not_found(format!("There is nothing at {method} {}.", uri.path()))
    })?;
    let entity = state.broker.resolve(&address.entity)?;
    let handler = |entity: MessagingEntity| {
        entity.receiver().map(|receiver| ReceiverHandler {
            base,
            caller,
            address,
            check: &check,
            memory: AnswerMemory::of(request.extensions()),
            receiver,
        })
    };
    match named_operation {
        QueueOperation::Send => {
            let memory = AnswerMemory::of(request.extensions());
            Box::pin(send(entity.sender()?, request.headers(), body, memory)).await
        }
        QueueOperation::PeekLock => handler(entity)?.peek_lock(wait(uri)?).await,
        QueueOperation::ReceiveAndDelete => handler(entity)?.receive_and_delete(wait(uri)?).await,
        QueueOperation::Unlock(claim) => {
            handler(entity)?.settle(&claim, Disposition::Abandon).await
        }
        QueueOperation::Complete(claim) => {
            handler(entity)?.settle(&claim, Disposition::Complete).await
        }
        QueueOperation::RenewLock(claim) => {
            let handler = handler(entity)?;
            let renewal = handler.receiver.renewal();
            handler.settle(&claim, renewal).await
        }
    }
}

/// Stores one message or several, all or none. If the client hangs up, a send that has begun goes on, and its memory is
/// counted until the messages are stored.
async fn send(
    sender: MessageSender,
    headers: &HeaderMap,
    body: Body,
    memory: AnswerMemory,
) -> Result<Response, ErrorResponse> {
    let bytes_max = sender.bytes_max();
    let body = read_body(body, usize::try_from(bytes_max).unwrap_or(usize::MAX));
    let body_bytes = body.await.map_err(|why| {
        let detail = format!("A message, or a batch of them, has up to {bytes_max} bytes.");
        ErrorResponse::of_body(why, ErrorResponse::new(StatusCode::FORBIDDEN, detail))
    })?;
    memory.hold_anyway(body_bytes.len()); // while it waits
    // Messages have their own copies of the body. The overhead of the first message is counted with the request.
    let copies = 2 * body_bytes.len();
    let bytes = move |messages: usize| copies + (messages - 1) * SENT_MESSAGE_BYTES;
    let most = http::messages_max(headers, body_bytes.len());
    memory.hold(bytes(most)).await?;
    let steps = http::steps(headers, body_bytes.len());
    let owned = headers.clone();
    let read = sender.read(steps, move || http::read(&owned, &body_bytes));
    let messages = read.await.map_err(|error| unreadable(&error))?;
    memory.hold_anyway(bytes(messages.len()));
    let sending = async move {
        let sent = sender.send(messages).await;
        drop(memory);
        sent
    };
    completed(sending).await?;
    Ok(StatusCode::CREATED.into_response())
}

fn unreadable(error: &BadMessage) -> ErrorResponse {
    match error {
        BadMessage::TooMany => MessagingError::BatchTooLarge.into(),
        BadMessage::Property(..)
        | BadMessage::Properties
        | BadMessage::Batch(_)
        | BadMessage::Unreadable(_) => ErrorResponse::bad_request(format!("{error}.")),
    }
}

/// Reads the parameter `timeout`: the number of seconds to wait for a message.
fn wait(uri: &Uri) -> Result<Duration, ErrorResponse> {
    let Some(text) = query_value(uri, "timeout") else {
        return Ok(RECEIVE_WAIT);
    };
    let seconds: u64 = text.parse().map_err(|_| {
        let detail = format!("The parameter timeout must be a number of seconds, not {text:?}.");
        ErrorResponse::new(StatusCode::BAD_REQUEST, detail)
    })?;
    Ok(Duration::from_secs(seconds).min(RECEIVE_WAIT_MAX))
}

/// Receives from one entity for one request.
struct ReceiverHandler<'a> {
    base: BaseUrl,
    caller: Caller,
    address: &'a EntityPath,
    /// Checks again that the client may receive.
    check: &'a (dyn Fn() -> Result<(), ErrorResponse> + Sync),
    memory: AnswerMemory,
    receiver: MessageReceiver,
}

impl ReceiverHandler<'_> {
    async fn peek_lock(&self, wait: Duration) -> Result<Response, ErrorResponse> {
        let Some(locked) = self.receive(wait).await? else {
            return Ok(StatusCode::NO_CONTENT.into_response());
        };
        let number = locked.delivery.number;
        let path = self.address.lock_path(number, &locked.token.to_string());
        let location = format!("{}{path}", self.base);
        let (mut headers, body) = self.message(&locked, Some((locked.token, locked.until)));
        if let Ok(location) = HeaderValue::from_str(&location) {
            headers.insert(header::LOCATION, location);
        }
        Ok((StatusCode::CREATED, headers, body).into_response())
    }

    async fn receive_and_delete(&self, wait: Duration) -> Result<Response, ErrorResponse> {
        let Some(locked) = self.receive(wait).await? else {
            return Ok(StatusCode::NO_CONTENT.into_response());
        };
        let complete = self.receiver.change(locked.token, Disposition::Complete);
        self.change(complete).await?;
        let (headers, body) = self.message(&locked, None);
        Ok((StatusCode::OK, headers, body).into_response())
    }

    async fn receive(&self, wait: Duration) -> Result<Option<Locked>, ErrorResponse> {
        let by = &self.caller.actor;
        let (receiver, memory) = (&self.receiver, &self.memory);
        let received = receive_while_allowed(receiver, by, 1, wait, self.check, memory).await?;
        Ok(received.into_iter().next())
    }

    async fn settle(
        &self,
        claim: &Claim,
        disposition: Disposition,
    ) -> Result<Response, ErrorResponse> {
        let lost = |_| MessagingError::from(LockError::LockLost);
        let token = claim.token.parse().map_err(lost)?;
        let change = self.receiver.change(token, disposition);
        let of = LockOf {
            message: Some(claim.number_or_id.clone()),
            ..change.of
        };
        self.change(LockChange { of, ..change }).await?;
        Ok(StatusCode::OK.into_response())
    }

    async fn change(&self, change: LockChange) -> Result<(), MessagingError> {
        let settled = Box::pin(self.receiver.settle(&self.caller, vec![change])).await;
        settled.into_iter().collect()
    }

    /// Returns the headers and the body of a message as it was sent, or of an event in the subscription's delivery
    /// schema. Dead letters include the reason for dead-lettering.
    fn message(
        &self,
        locked: &Locked,
        lock: Option<(LockToken, Timestamp)>,
    ) -> (HeaderMap, Vec<u8>) {
        let mut described = MessageView::from(locked).described(lock);
        if of_event(&locked.event.event).is_some() {
            // The delivery count of Service Bus includes the current delivery.
            let before = locked.delivery.attempts;
            described.delivery_count = before + u32::from(locked.dead_letter.is_none());
            let encoded = Encoded::parse(&self.receiver.encode(locked, false).into());
            let answer = encoded.and_then(|encoded| http::answer(&described, &encoded));
            if let Ok(answer) = answer {
                return answer;
            }
        }
        let mut headers = described.headers();
        let MessageReceiver {
            topic,
            subscription,
            ..
        } = &self.receiver;
        let schema = subscription.definition.delivery_schema;
        let payload = wire::encode_message(schema, &topic.resource_id, &locked.event);
        let kind = HeaderValue::from_static(payload.content_type);
        headers.insert(header::CONTENT_TYPE, kind);
        (headers, payload.body)
    }
}
