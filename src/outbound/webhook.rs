//! Delivery to a webhook: its request (rule 6.3), and the meaning of the response.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, ORIGIN, SET_COOKIE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::base::Timestamp;
use crate::model::dead_letter::DeadLetterDetails;
use crate::model::delivery::{AttemptResult, HttpResponse, Outcome};
use crate::model::destination::{AttributeValue, DeliveryAttributeMapping, WebHook};
use crate::model::event::StoredEvent;
use crate::model::limits::{
    DELIVERY_ATTRIBUTE_BYTES_MAX, RESPONSE_HEADERS_KEPT_MAX, RESPONSE_KEPT_MAX, RESPONSE_READ_MAX,
};
use crate::model::subscription::EventSubscription;
use crate::model::topic::DeliverySchema;
use crate::model::trace::{TRACEPARENT, TraceContext};
use crate::outbound::retry_after::retry_after;
use crate::outbound::transport::{TransportError, TransportRequest, TransportResponse};
use crate::outbound::{DeliveryRequest, LateResponseSlot, LateResponseWait, Outbound, SendResult};
use crate::wire::service_bus::message::is_message;
use crate::wire::service_bus::readable::readable_stored;
use crate::wire::{self, signature};

#[cfg(test)]
mod tests;

const AEG_EVENT_TYPE: HeaderName = HeaderName::from_static("aeg-event-type");
const AEG_SUBSCRIPTION_NAME: HeaderName = HeaderName::from_static("aeg-subscription-name");
const AEG_DELIVERY_COUNT: HeaderName = HeaderName::from_static("aeg-delivery-count");
const AEG_DATA_VERSION: HeaderName = HeaderName::from_static("aeg-data-version");
const AEG_METADATA_VERSION: HeaderName = HeaderName::from_static("aeg-metadata-version");
const AEG_OUTPUT_EVENT_ID: HeaderName = HeaderName::from_static("aeg-output-event-id");
const WEBHOOK_ID: HeaderName = HeaderName::from_static(signature::ID);
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static(signature::TIMESTAMP);
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static(signature::SIGNATURE);
const HEADER_TRACEPARENT: HeaderName = HeaderName::from_static(TRACEPARENT);
const DEAD_LETTER_REASON: HeaderName = HeaderName::from_static("everpost-dead-letter-reason");
const DEAD_LETTER_DESCRIPTION: HeaderName =
    HeaderName::from_static("everpost-dead-letter-description");
pub(super) const WEBHOOK_REQUEST_ORIGIN: HeaderName =
    HeaderName::from_static("webhook-request-origin");

/// Makes one attempt; `None` if there was no place for it.
pub(super) async fn deliver(
    outbound: &Outbound,
    webhook: &WebHook,
    delivery_request: &DeliveryRequest<'_>,
    trace: Option<&TraceContext>,
) -> Option<SendResult> {
    let late = LateResponseSlot::default();
    let now = outbound.clock.now();
    let (mut request, warning) = request(webhook, delivery_request, &outbound.origin, now);
    if let Some(trace) = trace {
        put(&mut request.headers, HEADER_TRACEPARENT, &trace.to_string());
    }
    let request = TransportRequest {
        late: Some(late.clone()),
        ..request
    };
    let id = delivery_request.subscription.id;
    let (sent, mask) = outbound.send(id, webhook, request).await;
    let result = match mask.hide(sent) {
        Ok(response) => attempt_result(response, outbound.clock.now()),
        Err(TransportError::NoPlace) => return None,
        Err(error) => unanswered(&error),
    };
    let clock = outbound.clock.clone();
    let awaited = late
        .take()
        .map(|transport| LateResponseWait { transport, clock });
    Some(SendResult {
        result: AttemptResult { warning, ..result },
        late: awaited,
    })
}

/// The request of an attempt, and what it lacks, if anything. Messages are in the form in which webhooks read them.
pub(super) fn request(
    webhook: &WebHook,
    delivery_request: &DeliveryRequest<'_>,
    origin: &str,
    now: Timestamp,
) -> (TransportRequest, Option<String>) {
    let mut events = delivery_request.events.iter();
    if !events.any(|each| is_message(&each.event)) {
        return request_with(webhook, delivery_request, origin, now);
    }
    let events = delivery_request.events.iter();
    let events: Vec<_> = events.map(|each| readable_stored(each)).collect();
    let events: Vec<&StoredEvent> = events.iter().map(AsRef::as_ref).collect();
    let readable = DeliveryRequest {
        events: &events,
        ..*delivery_request
    };
    request_with(webhook, &readable, origin, now)
}

fn request_with(
    webhook: &WebHook,
    delivery_request: &DeliveryRequest<'_>,
    origin: &str,
    now: Timestamp,
) -> (TransportRequest, Option<String>) {
    let schema = delivery_request.subscription.definition.delivery_schema;
    let batching = webhook.batch.is_on() || delivery_request.events.len() != 1;
    let payload = wire::encode(
        schema,
        delivery_request.topic_resource_id,
        delivery_request.events,
        batching,
    );
    let mut headers = notification_headers(delivery_request);
    let content_type = HeaderValue::from_static(payload.content_type);
    headers.insert(CONTENT_TYPE, content_type);
    if schema == DeliverySchema::CloudEventSchemaV1_0 {
        put(&mut headers, ORIGIN, origin);
        put(&mut headers, WEBHOOK_REQUEST_ORIGIN, origin);
    }
    let ids = delivery_request
        .events
        .iter()
        .map(|event| event.output_id());
    let id = || signature::request_id(&ids.collect::<Vec<_>>());
    put_signature(&mut headers, webhook, id, now, &payload.body);
    let mut warning = None;
    if let Some(first) = delivery_request.events.first() {
        warning = put_attributes(&mut headers, webhook, |source_field| {
            let topic = delivery_request.topic_resource_id;
            wire::attribute::dynamic_value(&first.event, topic, source_field)
        });
    }
    if let [single] = delivery_request.events
        && let Some(trace) = single.event.trace_context()
    {
        put(&mut headers, HEADER_TRACEPARENT, &trace.to_string());
    }
    let request = TransportRequest {
        method: Method::POST,
        url: webhook.endpoint_url.reveal().clone(),
        headers,
        body: Bytes::from(payload.body),
        deadline: delivery_request.deadline,
        body_max: RESPONSE_READ_MAX,
        late: None,
        tls: None,
    };
    (request, warning)
}

/// Our own headers of a delivery. Those of a batch are those of its first event (rule 6.3).
pub(super) fn notification_headers(delivery_request: &DeliveryRequest<'_>) -> HeaderMap {
    let mut headers = aeg_headers(
        delivery_request.subscription,
        "Notification",
        delivery_request.delivery_count,
    );
    if let Some(first) = delivery_request.events.first() {
        let schema = delivery_request.subscription.definition.delivery_schema;
        put_event_headers(&mut headers, schema, first);
    }
    if let [single] = delivery_request.events {
        put(&mut headers, AEG_OUTPUT_EVENT_ID, &single.output_id());
    }
    headers
}

/// Signs a request of a subscription that has signing secrets.
pub(super) fn put_signature(
    headers: &mut HeaderMap,
    webhook: &WebHook,
    id: impl FnOnce() -> String,
    now: Timestamp,
    body: &[u8],
) {
    let mut active = webhook.credentials.signing.active(now).peekable();
    if active.peek().is_none() {
        return;
    }
    let id = id();
    let signatures = signature::sign(active.map(|each| &each.secret), &id, now, body);
    put(headers, WEBHOOK_ID, &id);
    headers.insert(WEBHOOK_TIMESTAMP, signature::seconds(now).into());
    put(headers, WEBHOOK_SIGNATURE, &signatures);
}

/// The headers that every POST to a webhook has.
pub(super) fn aeg_headers(
    subscription: &EventSubscription,
    event_type: &'static str,
    delivery_count: u32,
) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(16);
    headers.insert(AEG_EVENT_TYPE, HeaderValue::from_static(event_type));
    let name = subscription.name.as_str().to_ascii_uppercase();
    put(&mut headers, AEG_SUBSCRIPTION_NAME, &name);
    headers.insert(AEG_DELIVERY_COUNT, delivery_count.into());
    headers
}

/// The version headers of an event in the Event Grid schema.
pub(super) fn put_versions(headers: &mut HeaderMap, data_version: Option<&str>) {
    if let Some(version) = data_version {
        put(headers, AEG_DATA_VERSION, version);
    }
    headers.insert(AEG_METADATA_VERSION, HeaderValue::from_static("1"));
}

fn put_event_headers(headers: &mut HeaderMap, schema: DeliverySchema, first: &StoredEvent) {
    match schema {
        DeliverySchema::EventGridSchema | DeliverySchema::CustomInputSchema => {
            put_versions(headers, first.event.data_version.as_deref());
        }
        DeliverySchema::CloudEventSchemaV1_0 => {
            headers.insert(AEG_METADATA_VERSION, HeaderValue::from_static("1.0"));
        }
    }
}

/// The custom headers (rule 6.4), which never replace ours. `dynamic` finds the value at a source field; a
/// header without a value is left out. Returns which were left out because of their values, if any.
pub(super) fn put_attributes(
    headers: &mut HeaderMap,
    webhook: &WebHook,
    dynamic: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let mut left_out = Vec::new();
    for DeliveryAttributeMapping { name, value } in &webhook.attribute_mappings {
        let Some(text) = attribute_text(value, &dynamic) else {
            continue;
        };
        let Ok(header) = HeaderName::from_bytes(name.as_bytes()) else {
            continue;
        };
        if headers.contains_key(&header) {
            continue;
        }
        match attribute_value(&text) {
            Ok(value) => drop(headers.insert(header, value)),
            Err(why) => left_out.push(format!("The header {name} was left out: {why}.")),
        }
    }
    (!left_out.is_empty()).then(|| left_out.join(" "))
}

/// Returns the text of a custom header; `dynamic` finds the value at a source field.
pub(super) fn attribute_text(
    value: &AttributeValue,
    dynamic: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    match value {
        AttributeValue::Static { value, .. } => Some(value.reveal().to_owned()),
        AttributeValue::Dynamic { source_field } => dynamic(source_field),
    }
}

/// The value of a custom header, or why it cannot be one.
fn attribute_value(text: &str) -> Result<HeaderValue, String> {
    if text.len() > DELIVERY_ATTRIBUTE_BYTES_MAX {
        let max = DELIVERY_ATTRIBUTE_BYTES_MAX;
        return Err(format!(
            "its value has {} bytes, at most {max} are sent",
            text.len()
        ));
    }
    HeaderValue::from_bytes(text.as_bytes()).map_err(|_| {
        "its value has characters that no header can have, such as line ends".to_owned()
    })
}

/// Text beyond ASCII is sent as UTF-8; what cannot be a header value (line ends above all) is left out.
pub(super) fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
        headers.insert(name, value);
    }
}

pub(super) fn attempt_result(response: TransportResponse, now: Timestamp) -> AttemptResult {
    let asks_to_wait = matches!(response.status, 429 | 503);
    let retry_after = asks_to_wait.then(|| retry_after(&response.headers, now));
    let dead_letter = dead_letter(&response);
    let mut body = response.body;
    body.truncate(RESPONSE_KEPT_MAX);
    AttemptResult {
        retry_after: retry_after.flatten(),
        dead_letter,
        remote_address: response.remote_address.map(|address| address.to_string()),
        ..AttemptResult::answered(HttpResponse {
            status: response.status,
            headers: kept(&response.headers),
            body,
            is_cut: false,
        })
    }
}

/// Returns the reason and description with which a webhook dead-letters the event itself (an extension). Text beyond
/// the limits is cut.
fn dead_letter(response: &TransportResponse) -> Option<Arc<DeadLetterDetails>> {
    if !matches!(response.status, 400 | 422) {
        return None;
    }
    let text = |name| {
        let value = response.headers.get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).trim().to_owned())
    };
    let reason = text(DEAD_LETTER_REASON).filter(|reason| !reason.is_empty())?;
    let details = DeadLetterDetails::cut(&reason, text(DEAD_LETTER_DESCRIPTION).as_deref());
    Some(Arc::new(details))
}

fn unanswered(error: &TransportError) -> AttemptResult {
    let outcome = match error {
        TransportError::TimedOut => Outcome::TimedOut,
        TransportError::Resolution(_) | TransportError::NoPlace => Outcome::ResolutionError,
        TransportError::Socket(_) | TransportError::Tls(_) => Outcome::SocketError,
        TransportError::Token(_) => Outcome::TokenError,
        TransportError::Denied(_) => Outcome::Aborted,
    };
    AttemptResult {
        error: Some(error.to_string()),
        ..AttemptResult::of(outcome)
    }
}

/// The headers to record with the attempt, limited in number and bytes. Cookies are secrets of the receiver.
fn kept(headers: &HeaderMap) -> Vec<(String, String)> {
    let mut bytes = 0;
    headers
        .iter()
        .filter(|(name, _)| *name != SET_COOKIE)
        .take(RESPONSE_HEADERS_KEPT_MAX)
        .map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            (name.to_string(), value)
        })
        .take_while(|(name, value)| {
            bytes += name.len() + value.len();
            bytes <= RESPONSE_KEPT_MAX
        })
        .collect()
}
