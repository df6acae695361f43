//! Pull delivery of namespace topics: clients receive events and settle them (rule N5).
//!
//! The middleware runs before the other routes because paths may be in any letter case, and because a client that has
//! hung up must not receive an event.

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::api::ApiState;
use crate::api::auth::{Credential, SoughtTopic, query_value};
use crate::api::error::{ApiError, render_error};
use crate::api::memory::AnswerMemory;
use crate::api::publish::namespace::{API_VERSIONS, choose_topic, topic_of};
use crate::api::publish::{authorize, check_version, host_of, read_body, told};
use crate::api::receive::waiting::{kept_while_waiting, receive_while_allowed};
use crate::base::stint::Stint;
use crate::broker::{MessageReceiver, MessagingError};
use crate::model::audit::Actor;
use crate::model::lease::{BadToken, LockToken, ReceiverAction, SubQueue};
use crate::model::limits::MANAGEMENT_BYTES_MAX;
use crate::model::name::SubscriptionName;
use crate::wire::pull::{self, LockedEvent, PullAddress, ReceivedBody, TokenFailure};

/// The API version whose responses report the error of a lock token without a nested object.
const FLAT_ERRORS: &str = "2023-06-01-preview";

/// Answers requests to the operations of a pull subscription, and passes all other requests on.
pub(crate) async fn intercept(
    State(state): State<ApiState>,
    request: Request,
    next: Next,
) -> Response {
    match PullAddress::parse(request.uri().path()) {
        Some(address) if request.method() == Method::POST => {
            let answer = Box::pin(answer(&state, &address, request)).await;
            Box::pin(render_error(&state, answer.into_response())).await
        }
        Some(_) | None => next.run(request).await,
    }
}

async fn answer(
    state: &ApiState,
    address: &PullAddress,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    check_version(request.uri(), &API_VERSIONS)?;
    let topic = told(state, find_topic(state, address, &request)?, &request)?;
    authorize(state, &topic, &request)?;
    let (parts, body) = request.into_parts();
    let request = Request::from_parts(parts, ());
    let name = SubscriptionName::parse(&address.subscription)?;
    let found = state.broker.subscription(&topic.topic.name, &name)?;
    let receiver = MessageReceiver::of(&state.broker, found, SubQueue::Active);
    let delay = query_value(request.uri(), "releaseDelayInSeconds");
    match pull::action(address.operation, delay.as_deref())? {
        None => {
            let kept = kept_while_waiting(&request);
            drop((request, body)); // they would be kept as long as the receiver waits
            Box::pin(receive(state, &receiver, &kept)).await
        }
        Some(action) => Box::pin(settle(&receiver, action, request.uri(), body)).await,
    }
}

fn find_topic(
    state: &ApiState,
    address: &PullAddress,
    request: &Request<Body>,
) -> Result<SoughtTopic, ApiError> {
    let (registry, topic) = (state.broker.registry(), &address.topic);
    let Some(namespace) = &address.namespace else {
        let credential = Credential::of(request.headers(), request.uri());
        let host = host_of(request.headers(), request.uri()).unwrap_or_default();
        let now = state.broker.clock().now();
        return choose_topic(&registry, topic, host, &credential, now);
    };
    Ok(topic_of(&registry, namespace, topic))
}

async fn receive(
    state: &ApiState,
    receiver: &MessageReceiver,
    request: &Request<()>,
) -> Result<Response, ApiError> {
    let parameter = |name| query_value(request.uri(), name);
    let limit = pull::max_events(parameter("maxEvents").as_deref())?;
    let wait = pull::max_wait(parameter("maxWaitTime").as_deref())?;
    let check = || match state.broker.registry().topic_by_id(receiver.topic.topic.id) {
        Some(topic) => authorize(state, topic, request),
        None => Err(MessagingError::EntityDeleted.into()),
    };
    // The access keys of a topic belong to its namespace if it has one, or else to the topic.
    let topic = &receiver.topic;
    let namespace = topic.namespace.as_ref();
    let owner = namespace.map_or_else(
        || topic.topic.name.to_string(),
        |entry| entry.namespace.name.to_string(),
    );
    let by = Actor::AccessRule(owner);
    let memory = AnswerMemory::of(request.extensions());
    let locked = receive_while_allowed(receiver, &by, limit, wait, check, &memory).await?;
    let mut body = ReceivedBody::default();
    let mut stint = Stint::default();
    for each in &locked {
        let received = LockedEvent {
            token: each.token,
            delivery_count: each.delivery.attempts + 1,
            event: &each.event,
        };
        body.add(&receiver.topic.resource_id, &received);
        stint.did(each.event.event.size()).await;
    }
    let kind = (header::CONTENT_TYPE, "application/json; charset=utf-8");
    Ok(([kind], body.finish()).into_response())
}

async fn settle(
    receiver: &MessageReceiver,
    action: ReceiverAction,
    uri: &Uri,
    body: Body,
) -> Result<Response, ApiError> {
    let version = query_value(uri, "api-version");
    let read = read_body(body, MANAGEMENT_BYTES_MAX).await?;
    if read.excess > 0 {
        return Err(ApiError::too_large(format!(
            "The request is larger than {MANAGEMENT_BYTES_MAX} bytes."
        )));
    }
    let texts = pull::lock_tokens(&read.bytes)?;
    let tokens = texts.iter().map(|text| pull::token_from_text(text));
    let tokens: Vec<Result<LockToken, BadToken>> = tokens.collect();
    let known = tokens.iter().flatten().copied().collect();
    let applied = receiver.apply_action(known, action).await?;
    let mut results = applied.into_iter();
    let outcomes = tokens.into_iter().map(|token| match token {
        Err(BadToken) => Err(TokenFailure::Bad),
        Ok(_) => results
            .next()
            .unwrap_or(Ok(()))
            .map_err(TokenFailure::Rejected),
    });
    let settled: Vec<_> = texts.iter().cloned().zip(outcomes).collect();
    let has_flat_errors = version.as_deref() == Some(FLAT_ERRORS);
    Ok(Json(pull::render_settled(settled, has_flat_errors)).into_response())
}
