//! The dead-letter queue of every event subscription, as Azure Service Bus' REST runtime API has it
//! (rule S4, 8).
//!
//! It stands in front of the other routes, because its paths come in any letter case, and because whoever
//! waits here and hangs up must not be served after that: what is locked for nobody only comes back a minute
//! later.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::api::ApiState;
use crate::api::auth::{Credential, address_of, check_operator, query_value};
use crate::api::publish::host_of;
use crate::base::Timestamp;
use crate::broker::{ManageError, ReceiveError, ReceiveRequest};
use crate::model::audit::{Actor, AuditAction, Caller, Target};
use crate::model::dead_letter::DeadLetterReason;
use crate::model::delivery::{Delivery, DeliveryId};
use crate::model::event::StoredEvent;
use crate::model::lease::{Disposition, LockChange, LockError, LockOf, LockToken, QueueRef};
use crate::model::limits::{LOCK_DURATION, RECEIVE_WAIT, RECEIVE_WAIT_MAX, RETRY_AFTER_BUSY_S};
use crate::model::name::{InvalidName, SubscriptionName, TopicName};
use crate::model::registry::TopicEntry;
use crate::model::subscription::EventSubscription;
use crate::store::{DeadLetter, LockSelection, Locked, StoreError};
use crate::wire;
use crate::wire::sas::resource_covers;
use crate::wire::service_bus::address::{Address, Claim, Operation, lock_path};
use crate::wire::service_bus::error_body;
use crate::wire::service_bus::message::Message;
use crate::wire::service_bus::sas::{RULE, Token, TokenError};

/// A refusal, as clients of Service Bus read it.
struct Refusal {
    status: StatusCode,
    detail: String,
}

impl Refusal {
    fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self { status, detail }
    }

    fn unauthorized(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, detail)
    }

    fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    fn unavailable() -> Self {
        let detail = "The appliance cannot answer right now; try again in a moment.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = error_body(self.status.as_u16(), &self.detail);
        let kind = (header::CONTENT_TYPE, "application/xml; charset=utf-8");
        let mut response = (self.status, [kind], body).into_response();
        let headers = response.headers_mut();
        if self.status == StatusCode::UNAUTHORIZED {
            let schemes = HeaderValue::from_static("SharedAccessSignature, Bearer");
            headers.insert(header::WWW_AUTHENTICATE, schemes);
        }
        if matches!(self.status.as_u16(), 429 | 503) {
            headers.insert(header::RETRY_AFTER, RETRY_AFTER_BUSY_S.into());
        }
        response
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        tracing::warn!(%error, "a dead-letter queue could not be served");
        Self::unavailable()
    }
}

impl From<InvalidName> for Refusal {
    fn from(error: InvalidName) -> Self {
        Self::not_found(format!("The messaging entity could not be found: {error}."))
    }
}

impl From<ManageError> for Refusal {
    fn from(error: ManageError) -> Self {
        match error {
            ManageError::Store(error) => error.into(),
            ManageError::NamespaceNotFound(_)
            | ManageError::TooManyNamespaces
            | ManageError::TooManyTopics(..)
            | ManageError::NotValidated { .. }
            | ManageError::TopicNotFound(_)
            | ManageError::SubscriptionNotFound(..)
            | ManageError::InputSchemaFixed
            | ManageError::DeliveryModeFixed(_)
            | ManageError::NothingSent(_)
            | ManageError::BuiltIn(_)
            | ManageError::QueueNotFound(_)
            | ManageError::TopicInTheWay(_)
            | ManageError::OfQueue(_)
            | ManageError::QueuePropertyFixed(_)
            | ManageError::NoForwardTarget(_)
            | ManageError::ServiceBusTopicNotFound(_)
            | ManageError::ServiceBusSubscriptionNotFound(..)
            | ManageError::RuleNotFound(..)
            | ManageError::NameInUse(_)
            | ManageError::OfServiceBus(_)
            | ManageError::EventSubscriptionInTheWay(..)
            | ManageError::RuleExists(..)
            | ManageError::TooManyRules(_)
            | ManageError::RuleTooLarge(_)
            | ManageError::TooManySubscriptions(_)
            | ManageError::TooManySecrets(_) => {
                Self::not_found(format!("The messaging entity could not be found: {error}."))
            }
        }
    }
}

impl From<ReceiveError> for Refusal {
    fn from(error: ReceiveError) -> Self {
        let detail = format!("{error}.");
        match error {
            ReceiveError::SubscriptionDeleted => Self::not_found(detail),
            ReceiveError::Pushed(_) | ReceiveError::NeedsSession(_) => {
                Self::new(StatusCode::BAD_REQUEST, detail)
            }
            ReceiveError::Session(_) => Self::new(StatusCode::CONFLICT, detail),
            ReceiveError::TooManyWaiting => Self::new(StatusCode::TOO_MANY_REQUESTS, detail),
            ReceiveError::Store(error) => error.into(),
        }
    }
}

impl From<LockError> for Refusal {
    fn from(refusal: LockError) -> Self {
        match refusal {
            LockError::LockLost => Self::not_found(format!("MessageLockLost: {refusal}.")),
            LockError::IsDeadLetter | LockError::TooManyProperties | LockError::HeldLongEnough => {
                Self::new(StatusCode::BAD_REQUEST, format!("{refusal}."))
            }
        }
    }
}

/// Answers what is for a dead-letter queue, and lets everything else through.
pub(crate) async fn intercept(
    State(state): State<ApiState>,
    request: Request,
    next: Next,
) -> Response {
    match Address::parse(request.uri().path()) {
        None => next.run(request).await,
        Some(Err(error)) => Refusal::not_found(format!("{error}.")).into_response(),
        Some(Ok(address)) => {
            let caller = match authorize(&state, &request) {
                Ok(caller) => caller,
                Err(refusal) => return refusal.into_response(),
            };
            let (parts, _) = request.into_parts(); // nobody sends a body here
            answer(&state, caller, &address, &parts.method, &parts.uri)
                .await
                .unwrap_or_else(Refusal::into_response)
        }
    }
}

async fn answer(
    state: &ApiState,
    caller: Caller,
    address: &Address,
    method: &Method,
    uri: &Uri,
) -> Result<Response, Refusal> {
    let topic = TopicName::parse(&address.topic)?;
    let name = SubscriptionName::parse(&address.subscription)?;
    let (topic, subscription) = state.broker.subscription(&topic, &name)?;
    let queue = EntityHandler {
        state,
        caller,
        topic: &topic,
        subscription: &subscription,
    };
    let operation = address.operation(method).ok_or_else(|| {
        Refusal::not_found(format!("There is nothing at {method} {}.", uri.path()))
    })?;
    match operation {
        Operation::PeekLock => queue.peek_lock(wait(uri)?).await,
        Operation::ReceiveAndDelete => queue.receive_and_delete(wait(uri)?).await,
        Operation::Unlock(claim) => queue.settle(&claim, Disposition::Abandon).await,
        Operation::Complete(claim) => queue.settle(&claim, Disposition::Complete).await,
        Operation::RenewLock(claim) => {
            let renew = Disposition::Renew {
                lock_for: LOCK_DURATION,
                within: None,
            };
            queue.settle(&claim, renew).await
        }
        Operation::Send => Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "Nobody sends to a dead-letter queue: events come into it when they cannot be \
             delivered. Publish to the topic instead.",
        )),
    }
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

fn authorize(state: &ApiState, request: &Request<Body>) -> Result<Caller, Refusal> {
    let address = address_of(request.extensions());
    match Credential::of(request.headers(), request.uri()) {
        Credential::Bearer(token) => check_operator(state, &token, address)
            .map_err(|error| Refusal::new(error.status, error.explanation)),
        Credential::Token { token, .. } => {
            let token = Token::parse(token.reveal()).map_err(|error| explain(&error))?;
            check_token(state, request, &token)?;
            Ok(Caller {
                actor: Actor::ManagementToken, // its signature was made with it
                address,
                at: state.broker.clock().now(),
            })
        }
        Credential::Key { .. } | Credential::None => Err(Refusal::unauthorized(
            "The request needs the header Authorization with a SharedAccessSignature, or with \
             Bearer and the management token.",
        )),
    }
}

fn check_token(
    state: &ApiState,
    request: &Request<Body>,
    token: &Token<'_>,
) -> Result<(), Refusal> {
    if !token.rule().eq_ignore_ascii_case(RULE) {
        return Err(Refusal::unauthorized(format!(
            "There is no shared access rule {:?}; the rule is {RULE}, and its key is the management \
             token.",
            token.rule()
        )));
    }
    let now = state.broker.clock().now();
    let (resource, _) = token
        .verify(&state.token.secret(), now)
        .map_err(|error| explain(&error))?;
    let host = host_of(request).unwrap_or_default();
    let hosts = [host.as_str(), state.public_host()];
    let path = request.uri().path();
    match hosts
        .iter()
        .any(|host| resource_covers(&resource, host, path))
    {
        true => Ok(()),
        false => Err(Refusal::unauthorized(format!(
            "The shared access signature is for {resource:?}, and not for this."
        ))),
    }
}

fn explain(error: &TokenError) -> Refusal {
    Refusal::unauthorized(format!(
        "The shared access signature is not valid: {error}."
    ))
}

/// Where one queue is served.
struct EntityHandler<'a> {
    state: &'a ApiState,
    caller: Caller,
    topic: &'a TopicEntry,
    subscription: &'a EventSubscription,
}

impl EntityHandler<'_> {
    async fn peek_lock(&self, wait: Duration) -> Result<Response, Refusal> {
        let Some(locked) = self.receive(wait).await? else {
            return Ok(StatusCode::NO_CONTENT.into_response());
        };
        let (topic, name) = (
            self.topic.topic.name.as_str(),
            self.subscription.name.as_str(),
        );
        let number = locked.delivery.id.0;
        let path = lock_path(topic, name, number, &locked.token.to_string());
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
        let request = ReceiveRequest {
            of: self.queue(),
            which: LockSelection::Due,
            limit: 1,
            lock: LOCK_DURATION,
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
        let audit = completes.then(|| {
            let target = Target::subscription(&self.topic.topic.name, &self.subscription.name);
            let completed = AuditAction::CompleteDeadLetters { dead_letters: 0 };
            self.caller.did(completed, target)
        });
        let change = LockChange {
            token,
            of: LockOf {
                queue: Some(self.queue()),
                message,
            },
            disposition,
            properties: Vec::new(),
        };
        let settled = self.state.broker.settle_locks(vec![change], audit).await?;
        let settled = settled.into_iter().next();
        Ok(settled.unwrap_or(Err(LockError::LockLost))?)
    }

    fn queue(&self) -> QueueRef {
        QueueRef::dead_letters(self.subscription.id)
    }

    /// The event in the subscription's delivery schema, and why it lies here.
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
        let mut headers = message_of(delivery, event, dead_letter.as_ref(), None, lock).headers();
        let schema = self.subscription.definition.delivery_schema;
        let payload = wire::encode_message(schema, &self.topic.resource_id, &locked.event);
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
        sequence_number: delivery.id.0,
        first_number: delivery.id.0,
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
