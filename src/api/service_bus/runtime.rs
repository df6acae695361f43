//! Sending and receiving by Azure Service Bus' REST runtime API (rule S8): queues, topics and subscriptions, and the
//! dead letters of every event subscription (rule S4).
//!
//! It stands in front of the other routes, because its paths come in any letter case, and because whoever
//! waits here and hangs up must not be served after that: what is locked for nobody only comes back a minute
//! later.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::authorize;
use super::refusal::Refusal;
use crate::api::ApiState;
use crate::api::amqp::{Queue, ToTopic, no_queue};
use crate::api::auth::query_value;
use crate::api::authority::Demand;
use crate::base::Timestamp;
use crate::broker::ReceiveRequest;
use crate::model::audit::{AuditAction, Caller, Target};
use crate::model::dead_letter::DeadLetterReason;
use crate::model::delivery::{Delivery, DeliveryId};
use crate::model::event::StoredEvent;
use crate::model::lease::{Disposition, LockChange, LockError, LockOf, LockToken, SubQueue};
use crate::model::limits::{MESSAGE_BYTES_MAX, RECEIVE_WAIT, RECEIVE_WAIT_MAX};
use crate::model::name::{SubscriptionName, TopicName};
use crate::model::registry::TopicEntry;
use crate::model::shared_access::Right;
use crate::store::{DeadLetter, LockSelection, Locked};
use crate::wire;
use crate::wire::amqp::message::Message as Encoded;
use crate::wire::service_bus::address::{Address, Claim, Operation};
use crate::wire::service_bus::entity;
use crate::wire::service_bus::http;
use crate::wire::service_bus::message::{Message, of_event};

/// Answers what is for a queue, a topic or a subscription, and lets everything else through.
pub(in crate::api) async fn intercept(
    State(state): State<ApiState>,
    request: Request,
    next: Next,
) -> Response {
    let address = match Address::parse(request.uri().path()) {
        None => return next.run(request).await,
        Some(Err(error)) => return Refusal::not_found(format!("{error}.")).into_response(),
        Some(Ok(address)) => address,
    };
    match address.operation(request.method()) {
        None if !address.is_dead_letters() => next.run(request).await,
        operation => answer(&state, &address, operation, request)
            .await
            .unwrap_or_else(Refusal::into_response),
    }
}

async fn answer(
    state: &ApiState,
    address: &Address,
    operation: Option<Operation>,
    request: Request,
) -> Result<Response, Refusal> {
    let right = match operation {
        Some(Operation::Send) => Right::Send,
        _ => Right::Listen,
    };
    let demand = Demand {
        right: Some(right),
        topic_or_queue: Some(&address.entity.topic_or_queue),
        path: request.uri().path(),
    };
    let (_, caller) = authorize(state, &request, demand)?;
    let (parts, body) = request.into_parts();
    let (method, uri) = (&parts.method, &parts.uri);
    let operation = operation.ok_or_else(|| {
        Refusal::not_found(format!("There is nothing at {method} {}.", uri.path()))
    })?;
    let entity = &address.entity;
    if operation == Operation::Send && entity.subscription.is_none() && !address.is_dead_letters() {
        let topic = state
            .broker
            .topic(&TopicName::parse(&entity.topic_or_queue)?)?;
        return send(state, topic, &parts.headers, body).await;
    }
    let queue = EntityHandler::find(state, caller, address)?;
    match operation {
        Operation::PeekLock => queue.peek_lock(wait(uri)?).await,
        Operation::ReceiveAndDelete => queue.receive_and_delete(wait(uri)?).await,
        Operation::Unlock(claim) => queue.settle(&claim, Disposition::Abandon).await,
        Operation::Complete(claim) => queue.settle(&claim, Disposition::Complete).await,
        Operation::RenewLock(claim) => {
            let renew = Disposition::Renew {
                lock_for: queue.lock_duration(),
                within: None,
            };
            queue.settle(&claim, renew).await
        }
        Operation::Send => Err(queue.queue.sender().map_or_else(Refusal::from, |_| {
            Refusal::bad_request("Send to the queue, or to the topic.")
        })),
    }
}

/// Stores one message or several, all or none.
async fn send(
    state: &ApiState,
    topic: Arc<TopicEntry>,
    headers: &HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let to = ToTopic::of(state, topic)?;
    let body = to_bytes(body, MESSAGE_BYTES_MAX as usize)
        .await
        .map_err(|_| {
            let detail =
                format!("A message, or a batch of them, has up to {MESSAGE_BYTES_MAX} bytes.");
            Refusal::new(StatusCode::FORBIDDEN, detail)
        })?;
    let messages =
        http::read(headers, &body).map_err(|error| Refusal::bad_request(format!("{error}.")))?;
    to.store(messages).await?;
    Ok(StatusCode::CREATED.into_response())
}

/// `?timeout=`: seconds to wait for something to take.
fn wait(uri: &Uri) -> Result<Duration, Refusal> {
    let Some(text) = query_value(uri, "timeout") else {
        return Ok(RECEIVE_WAIT);
    };
    let seconds: u64 = text.parse().map_err(|_| {
        let detail = format!("The parameter timeout must be a number of seconds, not {text:?}.");
        Refusal::new(StatusCode::BAD_REQUEST, detail)
    })?;
    Ok(Duration::from_secs(seconds).min(RECEIVE_WAIT_MAX))
}

/// What is received from.
struct EntityHandler<'a> {
    state: &'a ApiState,
    caller: Caller,
    address: &'a Address,
    queue: Queue,
}

impl<'a> EntityHandler<'a> {
    fn find(state: &'a ApiState, caller: Caller, address: &'a Address) -> Result<Self, Refusal> {
        let name = TopicName::parse(&address.entity.topic_or_queue)?;
        let (topic, subscription) = match &address.entity.subscription {
            Some(own) => state
                .broker
                .subscription(&name, &SubscriptionName::parse(own)?)?,
            None => {
                let topic = state.broker.topic(&name)?;
                let own = topic.own.clone();
                let own = own.ok_or_else(|| Refusal::not_found(no_queue().description))?;
                (topic, own)
            }
        };
        let sub_queue = match address.entity.sub_queue {
            entity::SubQueue::Active => SubQueue::Pending,
            entity::SubQueue::DeadLetter => SubQueue::DeadLetters,
            entity::SubQueue::TransferDeadLetter => {
                let problem = "Nothing is transferred here, so nothing fails to be.";
                return Err(Refusal::not_found(problem));
            }
        };
        let queue = Queue::of_request(state, &caller, (topic, subscription), sub_queue);
        Ok(Self {
            state,
            caller,
            address,
            queue,
        })
    }

    async fn peek_lock(&self, wait: Duration) -> Result<Response, Refusal> {
        let Some(locked) = self.receive(wait).await? else {
            return Ok(StatusCode::NO_CONTENT.into_response());
        };
        let number = locked.delivery.number;
        let path = self.address.lock_path(number, &locked.token.to_string());
        let location = format!("{}{path}", self.state.broker.options().public_url);
        let (mut headers, body) = self.message(&locked, Some((locked.token, locked.until)));
        if let Ok(location) = HeaderValue::from_str(&location) {
            headers.insert(header::LOCATION, location);
        }
        Ok((StatusCode::CREATED, headers, body).into_response())
    }

    async fn receive_and_delete(&self, wait: Duration) -> Result<Response, Refusal> {
        let Some(locked) = self.receive(wait).await? else {
            return Ok(StatusCode::NO_CONTENT.into_response());
        };
        let complete = Disposition::Complete;
        self.change(locked.token, None, complete).await?;
        let (headers, body) = self.message(&locked, None);
        Ok((StatusCode::OK, headers, body).into_response())
    }

    async fn receive(&self, wait: Duration) -> Result<Option<Locked>, Refusal> {
        self.queue.check_receivable()?;
        let request = ReceiveRequest {
            of: self.queue.of(),
            which: LockSelection::Due,
            limit: 1,
            lock: self.lock_duration(),
            session: None,
        };
        let received = self.state.broker.receive_within(&request, wait).await?;
        Ok(received.into_iter().next())
    }

    async fn settle(&self, claim: &Claim, disposition: Disposition) -> Result<Response, Refusal> {
        let token = claim.token.parse().map_err(|_| LockError::LockLost)?;
        let message = Some(claim.number_or_id.clone());
        self.change(token, message, disposition).await?;
        Ok(StatusCode::OK.into_response())
    }

    /// Changes a lock of this queue; of the message with this number or id, if one is given.
    async fn change(
        &self,
        token: LockToken,
        message: Option<String>,
        disposition: Disposition,
    ) -> Result<DeliveryId, Refusal> {
        let completes = disposition == Disposition::Complete;
        let audit = (completes && self.address.is_dead_letters()).then(|| {
            let Queue {
                topic,
                subscription,
                ..
            } = &self.queue;
            let target = Target::subscription(&topic.topic.name, &subscription.name);
            let completed = AuditAction::CompleteDeadLetters { dead_letters: 0 };
            self.caller.did(completed, target)
        });
        let change = LockChange {
            token,
            of: LockOf {
                queue: Some(self.queue.of()),
                message,
            },
            disposition,
            properties: Vec::new(),
        };
        let settled = self.state.broker.settle_locks(vec![change], audit).await?;
        let settled = settled.into_iter().next();
        Ok(settled.unwrap_or(Err(LockError::LockLost))?)
    }

    fn lock_duration(&self) -> Duration {
        self.queue.lock_duration()
    }

    /// A message as it was sent; an event in the subscription's delivery schema. Both with why they lie among the dead
    /// letters.
    fn message(
        &self,
        locked: &Locked,
        lock: Option<(LockToken, Timestamp)>,
    ) -> (HeaderMap, Vec<u8>) {
        let Locked {
            delivery,
            event,
            dead_letter,
            ..
        } = locked;
        let mut told = message_of(delivery, event, dead_letter.as_ref(), None, lock);
        let Queue {
            topic,
            subscription,
            ..
        } = &self.queue;
        if of_event(&event.event).is_some() {
            // The first delivery counts here.
            told.delivery_count = delivery.attempts + u32::from(dead_letter.is_none());
            let encoded = Encoded::parse(&self.queue.locked(locked, false).message.into());
            let answer = encoded.and_then(|encoded| http::answer(&told, &encoded));
            if let Ok(answer) = answer {
                return answer;
            }
        }
        let mut headers = told.headers();
        let schema = subscription.definition.delivery_schema;
        let payload = wire::encode_message(schema, &topic.resource_id, event);
        let kind = HeaderValue::from_static(payload.content_type);
        headers.insert(header::CONTENT_TYPE, kind);
        (headers, payload.body)
    }
}

/// What Service Bus' clients see of a dead letter beside its body.
pub(in crate::api) fn message_of<'a>(
    delivery: &Delivery,
    event: &'a StoredEvent,
    dead: Option<&'a DeadLetter>,
    set: Option<&'a [u8]>,
    lock: Option<(LockToken, Timestamp)>,
) -> Message<'a> {
    let details = dead.map(|dead| &dead.details);
    let own_reason = details.and_then(|details| details.reason.as_deref());
    let own_description = details.and_then(|details| details.description.as_deref());
    // A receiver that gave no reason has none; everything else has ours.
    let given = dead.map(|dead| dead.reason);
    let given = given.filter(|reason| *reason != DeadLetterReason::Application);
    Message {
        sequence_number: delivery.number,
        first_number: None,
        dead_letter_source: None,
        message_id: &event.event.id,
        enqueued_at: delivery.published_at,
        delivery_count: delivery.attempts.max(1),
        lock,
        reason: own_reason.or(given.map(DeadLetterReason::name)),
        description: own_description.or(given.map(DeadLetterReason::description)),
        properties: details.map_or(&[], |details| &details.properties),
        set: set.unwrap_or_default(),
    }
}
