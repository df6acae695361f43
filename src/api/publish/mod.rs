//! Publishing (rule 1).

mod address;
pub(crate) mod namespace;

use std::sync::Arc;

use aws_lc_rs::digest::{self, SHA256};
use axum::Json;
use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Request, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use serde_json::json;

pub(crate) use address::PublishAddress;
pub(super) use address::enter;

use crate::api::ApiState;
use crate::api::auth::{
    Credential, NoTopic, RequestedPlace, SoughtTopic, TopicRequest, address_of,
    authorize_for_topic, note_shown, query_value,
};
use crate::api::error::{ApiError, REQUEST_ID};
use crate::api::intake::{BodySender, Reservation};
use crate::base::Timestamp;
use crate::broker::{PublishError, PublishSpan};
use crate::model::event::{Event, EventKey};
use crate::model::limits::REQUEST_ID_WINDOW;
use crate::model::name::TopicName;
use crate::model::registry::{Registry, TopicEntry};
use crate::model::rejection::Rejection;
use crate::model::topic::TopicId;
use crate::model::trace::TraceContext;
use crate::store::RequestMark;
use crate::wire;

/// The only API version of the data plane for custom topics (rule 1.1).
pub(crate) const API_VERSION: &str = "2018-01-01";

const CHANNEL_NAME: &str = "aeg-channel-name";

/// Bytes past the limit that are still read from a body that is too large. A client that sends the whole body before it
/// reads then gets the answer instead of a broken connection.
const EXCESS_READ_MAX: usize = 8 * 1_024 * 1_024;

/// Answers a publish request to `address`.
pub(super) async fn publish(
    state: &ApiState,
    address: PublishAddress,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let topic = told(state, find_topic(state, &address, &request)?, &request)?;
    let id = [(REQUEST_ID, state.broker.entropy().uuid().to_string())];
    match address {
        PublishAddress::Topic(_) | PublishAddress::Host => {
            take_in(state, &topic, request, &[API_VERSION]).await?;
            Ok((StatusCode::OK, id).into_response())
        }
        PublishAddress::NamespaceTopic { .. } => {
            take_in(state, &topic, request, &namespace::API_VERSIONS).await?;
            Ok((StatusCode::OK, id, Json(json!({}))).into_response())
        }
    }
}

fn find_topic(
    state: &ApiState,
    address: &PublishAddress,
    request: &Request<Body>,
) -> Result<SoughtTopic, ApiError> {
    let registry = state.broker.registry();
    let by_request = |choose: &dyn Fn(&str, &Credential, Timestamp) -> _| {
        let credential = Credential::of(request.headers(), request.uri());
        let host = host_of(request.headers(), request.uri()).unwrap_or_default();
        choose(host, &credential, state.broker.clock().now())
    };
    match address {
        PublishAddress::Topic(topic) => {
            let name = TopicName::parse(topic).ok();
            let known = name
                .and_then(|name| registry.topic(&name).cloned())
                .filter(|topic| topic.namespace.is_none());
            Ok(known.ok_or_else(|| no_such_topic(topic)))
        }
        PublishAddress::Host => {
            by_request(&|host, credential, now| choose_topic(&registry, host, credential, now))
        }
        PublishAddress::NamespaceTopic {
            namespace: Some(namespace),
            topic,
        } => Ok(namespace::topic_of(&registry, namespace, topic)),
        PublishAddress::NamespaceTopic {
            namespace: None,
            topic,
        } => by_request(&|host, credential, now| {
            namespace::choose_topic(&registry, topic, host, credential, now)
        }),
    }
}

/// Answers preflight requests without authentication (rule 1.1).
pub(crate) async fn options() -> impl IntoResponse {
    (StatusCode::OK, [(header::ALLOW, "POST, OPTIONS")])
}

/// Accepts all events of a publish request for `topic` or none, in one of the API `versions` of the data plane.
async fn take_in(
    state: &ApiState,
    topic: &Arc<TopicEntry>,
    request: Request<Body>,
    versions: &[&str],
) -> Result<(), ApiError> {
    let started_at = state.broker.clock().now();
    let (mut span, context) = state.broker.publish_span(request.headers());
    let traced = span.as_deref_mut();
    let result = accept(state, topic, request, versions, started_at, traced, context).await;
    if let Some(span) = span {
        let outcome = result.as_deref().map_err(|error| error.code);
        state.broker.end_publish_span(&span, topic, outcome);
    }
    match result {
        Ok(events) => {
            let took = state.broker.clock().now().since(started_at);
            state.broker.meters().published(topic, events.len(), took);
            Ok(())
        }
        Err(error) => {
            state.broker.meters().publish_failed(topic, error.code);
            Err(error)
        }
    }
}

async fn accept(
    state: &ApiState,
    topic: &Arc<TopicEntry>,
    request: Request<Body>,
    versions: &[&str],
    now: Timestamp,
    span: Option<&mut PublishSpan>,
    context: Option<TraceContext>,
) -> Result<Vec<EventKey>, ApiError> {
    authorize(state, topic, &request)?;
    let bytes_max = state.options.publish_bytes_max;
    let (parts, body) = request.into_parts();
    let publisher = BodySender::of(topic.topic.id, &parts);
    let bytes = bytes_needed(&parts.headers, bytes_max);
    let mut reserved = match reserve(state, publisher, bytes, now).await {
        Ok(reserved) => reserved,
        Err(rejected) => {
            skip_body(&parts.headers, body).await;
            return Err(rejected);
        }
    };
    let mut reader = BodyReader::new(body, bytes_max);
    loop {
        let come = reserved.coming(reader.next()).await;
        let covered = match come {
            Ok(read) => match read? {
                Some(read) => reserved.cover(read, bytes, now).await,
                None => break,
            },
            Err(ended) => Err(ended),
        };
        if let Err(rejected) = covered {
            drop(reserved);
            reader.skip().await;
            return Err(rejected);
        }
    }
    reserved.stay();
    let body = reader.finish();
    let _slot = state.intake.slot(topic.topic.id, now).await?;
    let mut events = evaluate(state, topic, &parts, &body, versions, now).inspect_err(|error| {
        let rejection = rejection(topic, &parts.headers, &body, error, now);
        state.broker.note_rejection(rejection);
    })?;
    if events.is_empty() {
        return Ok(Vec::new());
    }
    match (context, span) {
        (Some(context), _) => events
            .iter_mut()
            .for_each(|event| event.join_trace(context)),
        (None, Some(span)) => span.follow(&events[0]),
        (None, None) => {}
    }
    let mark = request_mark(&parts.headers, topic.topic.id, &body.bytes, now);
    drop(body); // the events hold what is needed of it
    Ok(state.broker.publish(topic, events, mark).await?)
}

/// Reserves memory for the beginning of a body before it is read.
async fn reserve(
    state: &ApiState,
    publisher: BodySender,
    bytes: usize,
    now: Timestamp,
) -> Result<Reservation, ApiError> {
    let mut reserved = state.intake.reserve(publisher)?;
    reserved.cover(0, bytes, now).await?;
    Ok(reserved)
}

/// Reads and discards the body of a rejected request, so that a client that sends the whole body before it reads gets
/// the answer instead of a broken connection. Nothing is read from a client that sent `Expect`, because it waits
/// before it sends the body.
async fn skip_body(headers: &HeaderMap, body: Body) {
    if !headers.contains_key(header::EXPECT) {
        BodyReader::new(body, 0).skip().await;
    }
}

/// Rejects requests whose credential or address may not use `topic`. Bodies of rejected requests are neither read nor
/// kept.
pub(crate) fn authorize<B>(
    state: &ApiState,
    topic: &TopicEntry,
    request: &Request<B>,
) -> Result<(), ApiError> {
    if topic.topic.kind.is_built_in() {
        // A built-in topic has no key to check.
        return Err(PublishError::BuiltIn(topic.topic.name.clone()).into());
    }
    check_key(state, RequestedPlace::Topic(topic), request)?;
    check_address(topic, request)
}

/// Returns the topic that was found, or the reason why there is none. Only an authorized caller gets that reason.
pub(crate) fn told<B>(
    state: &ApiState,
    sought: SoughtTopic,
    request: &Request<B>,
) -> Result<Arc<TopicEntry>, ApiError> {
    sought.or_else(|missing| {
        let namespace = missing.namespace.as_deref();
        let place = namespace.map_or(RequestedPlace::Nothing, RequestedPlace::Namespace);
        check_key(state, place, request)?;
        Err(*missing.error)
    })
}

fn check_key<B>(
    state: &ApiState,
    place: RequestedPlace<'_>,
    request: &Request<B>,
) -> Result<(), ApiError> {
    let (headers, uri) = (request.headers(), request.uri());
    let options = state.broker.options();
    let shown = TopicRequest {
        credential: &Credential::of(headers, uri),
        hosts: [
            host_of(headers, uri).unwrap_or_default(),
            options.public_host(),
        ],
        uri,
        address: address_of(request.extensions()),
    };
    let opener = authorize_for_topic(state, place, &shown)?;
    note_shown(request.extensions(), || place.shown(&opener));
    Ok(())
}

/// Checks and decodes the events of a publish request.
fn evaluate(
    state: &ApiState,
    topic: &TopicEntry,
    parts: &Parts,
    body: &ReadBody,
    versions: &[&str],
    now: Timestamp,
) -> Result<Vec<Event>, ApiError> {
    check_version(&parts.uri, versions)?;
    check_channel(&parts.headers)?;
    if body.excess > 0 {
        return Err(ApiError::too_large(format!(
            "The maximum size ({}) has been exceeded. It is that of a request, the setting publish.bytes_max.",
            state.options.publish_bytes_max
        )));
    }
    let entropy = state.broker.entropy();
    let events = wire::decode_for(topic, &parts.headers, &body.bytes, now, entropy)?;
    match Credential::of(&parts.headers, &parts.uri) {
        // An operator may publish events that were captured elsewhere, with other topics in them.
        Credential::Bearer(_) => {}
        Credential::Key { .. } | Credential::Token { .. } | Credential::None => {
            wire::check_topics(topic, &events)?;
        }
    }
    let event_bytes_max = state.broker.options().event_bytes_max;
    wire::check_sizes(&body.bytes, events.len(), event_bytes_max)?;
    Ok(events)
}

fn rejection(
    topic: &TopicEntry,
    headers: &HeaderMap,
    body: &ReadBody,
    error: &ApiError,
    now: Timestamp,
) -> Rejection {
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .map(|value| Rejection::text_of(&String::from_utf8_lossy(value.as_bytes())));
    Rejection {
        topic: topic.topic.id,
        received_at: now,
        status: error.status.as_u16(),
        code: error.code.to_owned(),
        reason: Rejection::text_of(&error.explanation),
        content_type,
        bytes: body.bytes.len() + body.excess,
        body_start: Rejection::body_start_of(&body.bytes),
    }
}

pub(crate) fn check_version(uri: &Uri, versions: &[&str]) -> Result<(), ApiError> {
    match query_value(uri, "api-version") {
        Some(version) if !versions.contains(&&*version) => Err(ApiError::bad_request(format!(
            "The api-version {version:?} is not supported; use {}, or leave it out.",
            versions.join(", ")
        ))),
        _ => Ok(()),
    }
}

/// Rejects requests with the header `aeg-channel-name`, by which partner namespaces route. Without such namespaces the
/// events would go where their publisher does not expect them.
fn check_channel(headers: &HeaderMap) -> Result<(), ApiError> {
    if headers.contains_key(CHANNEL_NAME) {
        return Err(ApiError::bad_request(
            "The header aeg-channel-name names a channel of a partner namespace, which there are not here; \
             publish to a topic and leave it out.",
        ));
    }
    Ok(())
}

fn check_address<B>(topic: &TopicEntry, request: &Request<B>) -> Result<(), ApiError> {
    let Some(address) = address_of(request.extensions()) else {
        return Ok(());
    };
    if topic.network_access().admits(address) {
        return Ok(());
    }
    Err(ApiError::forbidden(format!(
        "Using {} from {address} is forbidden by publicNetworkAccess or inboundIpRules.",
        topic.topic.name,
    )))
}

/// Finds the topic by the first label of the host, else by the key if it opens exactly one topic (rule A).
fn choose_topic(
    registry: &Registry,
    host: &str,
    credential: &Credential,
    now: Timestamp,
) -> Result<SoughtTopic, ApiError> {
    let label = host.split(['.', ':']).next().unwrap_or_default();
    if host.contains('.')
        && let Ok(name) = TopicName::custom(label)
        && let Some(topic) = registry.topic(&name)
    {
        return Ok(Ok(Arc::clone(topic)));
    }
    let mut opened = registry
        .custom_topics()
        .filter(|topic| credential.opens(topic, now));
    match (opened.next(), opened.next()) {
        (Some(topic), None) => Ok(Ok(Arc::clone(topic))),
        (Some(_), Some(_)) => Err(ApiError::bad_request(
            "The key opens several topics; name one in the path: /topics/{topic}/api/events.",
        )),
        (None, _) => Ok(Err(NoTopic {
            error: Box::new(ApiError::not_found(format!(
                "The host {host:?} names no topic, and the key presented opens none. Publish to \
                 /topics/{{topic}}/api/events."
            ))),
            namespace: None,
        })),
    }
}

fn no_such_topic(name: &str) -> NoTopic {
    let error = ApiError::not_found(format!(
        "There is no topic {name:?}. Events are published with POST /topics/{{topic}}/api/events; \
         create the topic first with PUT /topics/{{topic}}, with `everpost topics create`, or in the \
         admin pages."
    ));
    NoTopic {
        error: Box::new(error),
        namespace: None,
    }
}

/// Returns the host of a request with its port, from the `Host` header or else from the URI.
pub(crate) fn host_of<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    let header = headers.get(header::HOST);
    let host = header.and_then(|host| host.to_str().ok());
    host.or_else(|| Some(uri.authority()?.as_str()))
}

/// Returns the bytes of memory that a request may take: the length that it announces, at most `bytes_max`.
fn bytes_needed(headers: &HeaderMap, bytes_max: usize) -> usize {
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse().ok());
    announced.map_or(bytes_max, |length: u64| {
        usize::try_from(length).map_or(bytes_max, |length| length.min(bytes_max))
    })
}

/// The part of a body that was read.
pub(crate) struct ReadBody {
    pub(crate) bytes: Bytes,
    /// Bytes that were read past the limit and discarded.
    pub(crate) excess: usize,
}

pub(crate) async fn read_body(body: Body, bytes_max: usize) -> Result<ReadBody, ApiError> {
    let mut reader = BodyReader::new(body, bytes_max);
    while reader.next().await?.is_some() {}
    Ok(reader.finish())
}

/// Reads a body and keeps at most `bytes_max` bytes of it.
struct BodyReader {
    body: Body,
    bytes_max: usize,
    read: BytesMut,
    excess: usize,
}

impl BodyReader {
    fn new(body: Body, bytes_max: usize) -> Self {
        Self {
            body,
            bytes_max,
            read: BytesMut::new(),
            excess: 0,
        }
    }

    /// Reads the next frame. Returns the number of bytes kept so far; `None` at the end.
    async fn next(&mut self) -> Result<Option<usize>, ApiError> {
        if self.excess > EXCESS_READ_MAX {
            return Ok(None);
        }
        let Some(frame) = self.body.frame().await else {
            return Ok(None);
        };
        let frame = frame.map_err(|cause| {
            ApiError::bad_request(format!("The request body could not be read: {cause}."))
        })?;
        if let Ok(mut data) = frame.into_data() {
            let room = self.bytes_max - self.read.len();
            self.read
                .extend_from_slice(&data.split_to(data.len().min(room)));
            self.excess += data.len();
        }
        Ok(Some(self.read.len()))
    }

    /// Reads and discards the rest of the body.
    async fn skip(mut self) {
        self.read = BytesMut::new();
        self.bytes_max = 0;
        while let Ok(Some(_)) = self.next().await {}
    }

    fn finish(self) -> ReadBody {
        ReadBody {
            bytes: self.read.freeze(),
            excess: self.excess,
        }
    }
}

/// Returns the mark by which a repetition of a request is recognised: the client's request id and the same body.
fn request_mark(
    headers: &HeaderMap,
    topic: TopicId,
    body: &[u8],
    now: Timestamp,
) -> Option<RequestMark> {
    let id = headers.get("x-ms-client-request-id")?;
    // An empty id does not identify a request.
    let id_bytes = id.as_bytes().trim_ascii();
    (!id_bytes.is_empty()).then(|| mark_of(id_bytes, topic, body, now))
}

/// Returns the mark by which a repetition of a request with this id is recognised.
pub(crate) fn mark_of(id: &[u8], topic: TopicId, body: &[u8], now: Timestamp) -> RequestMark {
    let mut hashed = digest::Context::new(&SHA256);
    hashed.update(&topic.0.to_be_bytes());
    hashed.update(&id.len().to_be_bytes());
    hashed.update(id);
    hashed.update(body);
    let mut fingerprint = [0; 16];
    fingerprint.copy_from_slice(&hashed.finish().as_ref()[..16]);
    RequestMark {
        fingerprint,
        since: now - REQUEST_ID_WINDOW,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_great_announcement_takes_no_more_room_than_is_read() {
        for (announced, expected) in [
            (Some("0"), 0),
            (Some("999"), 999),
            (Some("1000"), 1_000),
            (Some("1001"), 1_000),
            (Some("18446744073709551615"), 1_000),
            (Some("gibberish"), 1_000),
            (None, 1_000),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(announced) = announced {
                headers.insert(header::CONTENT_LENGTH, announced.parse().expect("a value"));
            }
            assert_eq!(bytes_needed(&headers, 1_000), expected, "{announced:?}");
        }
    }
}
