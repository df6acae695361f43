//! Validation of webhooks: a handshake that proves that the endpoint wants events (rule 5).

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use uuid::Uuid;

use crate::base::Timestamp;
use crate::model::destination::WebHook;
use crate::model::limits::RESPONSE_READ_MAX;
use crate::model::subscription::{EventSubscription, SubscriptionId};
use crate::model::topic::DeliverySchema;
use crate::outbound::Outbound;
use crate::outbound::transport::{TransportError, TransportRequest, TransportResponse};
use crate::outbound::webhook::{
    WEBHOOK_REQUEST_ORIGIN, aeg_headers, put, put_attributes, put_signature, put_versions,
};
use crate::wire::validation::{deletion_event, validation_event, validation_response};

#[cfg(test)]
mod tests;

const WEBHOOK_REQUEST_CALLBACK: HeaderName = HeaderName::from_static("webhook-request-callback");
const WEBHOOK_REQUEST_RATE: HeaderName = HeaderName::from_static("webhook-request-rate");
const WEBHOOK_ALLOWED_ORIGIN: &str = "webhook-allowed-origin";
const WEBHOOK_ALLOWED_RATE: &str = "webhook-allowed-rate";

/// The requested rate per minute: more than one subscription ever makes, since many receivers grant just what
/// was requested, and the grant is then a limit (rule A).
const REQUESTED_RATE: u32 = 600_000;

/// One request of a handshake, or the notification of a deletion.
#[derive(Clone, Copy)]
pub struct HandshakeRequest<'a> {
    pub subscription: &'a EventSubscription,
    pub topic_resource_id: &'a str,
    /// The code that the receiver must return. Unused in the notification of a deletion, like the next field.
    pub code: &'a str,
    /// The URL that confirms the handshake later.
    pub validation_url: &'a str,
    /// The id of the validation event.
    pub event_id: Uuid,
    pub now: Timestamp,
    /// From now to the end of the response.
    pub deadline: Duration,
}

/// The result of a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandshakeResult {
    /// The endpoint agreed, to at most so many requests per minute; `None` for no limit.
    Agreed { allowed_rate: Option<u32> },
    /// The endpoint responded, and its owner can still open the validation URL.
    AwaitingManualAction { reason: String },
    /// The endpoint did not respond or did not agree. Another try may help.
    Rejected { reason: String },
    /// The egress policy denies the request, or the endpoint rejects it for good. Another try does not help.
    Denied { reason: String },
}

impl HandshakeResult {
    /// Changes the reason, if there is one.
    fn map_reason(self, change: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Agreed { .. } => self,
            Self::AwaitingManualAction { reason } => Self::AwaitingManualAction {
                reason: change(reason),
            },
            Self::Rejected { reason } => Self::Rejected {
                reason: change(reason),
            },
            Self::Denied { reason } => Self::Denied {
                reason: change(reason),
            },
        }
    }
}

impl Outbound {
    /// Makes one request, in the form of the delivery schema.
    pub async fn shake(&self, request: HandshakeRequest<'_>) -> HandshakeResult {
        let Some(webhook) = request.subscription.definition.destination.webhook() else {
            return HandshakeResult::Agreed { allowed_rate: None }; // there is nobody to ask.
        };
        let id = request.subscription.id;
        match request.subscription.definition.delivery_schema {
            DeliverySchema::EventGridSchema | DeliverySchema::CustomInputSchema => {
                let requested = validation_request(webhook, &request);
                let evaluate = |response| read_validation_response(&response, request.code);
                self.ask(id, webhook, requested, evaluate).await
            }
            DeliverySchema::CloudEventSchemaV1_0 => {
                let requested = options_request(webhook, &request, &self.origin);
                let evaluate = |response: TransportResponse| read_options(&response, &self.origin);
                self.ask(id, webhook, requested, evaluate).await
            }
        }
    }

    /// Makes one request in the form of namespace topics, without a callback or a rate: only the response
    /// counts (rule N6.1). Returns why the endpoint did not agree.
    pub async fn validate_endpoint(
        &self,
        subscription: &EventSubscription,
        deadline: Duration,
    ) -> Result<(), String> {
        let Some(webhook) = subscription.definition.destination.webhook() else {
            return Ok(()); // there is nobody to ask.
        };
        let mut headers = HeaderMap::new();
        put(&mut headers, WEBHOOK_REQUEST_ORIGIN, &self.origin);
        let requested = addressed(webhook, Method::OPTIONS, headers, Vec::new(), deadline);
        let evaluate = |response: TransportResponse| read_consent(&response, &self.origin);
        match self
            .ask(subscription.id, webhook, requested, evaluate)
            .await
        {
            HandshakeResult::Agreed { .. } => Ok(()),
            HandshakeResult::AwaitingManualAction { reason }
            | HandshakeResult::Rejected { reason }
            | HandshakeResult::Denied { reason } => Err(reason),
        }
    }

    async fn ask(
        &self,
        id: SubscriptionId,
        webhook: &WebHook,
        request: TransportRequest,
        evaluate: impl FnOnce(TransportResponse) -> HandshakeResult,
    ) -> HandshakeResult {
        let (sent, mask) = self.send(id, webhook, request).await;
        match sent {
            Ok(response) => evaluate(response).map_reason(|reason| mask.text(reason)),
            Err(TransportError::Denied(denied)) => HandshakeResult::Denied {
                reason: format!("the webhook was not called: {denied}"),
            },
            Err(error) => denied(mask.text(format!("the handshake failed: {error}"))),
        }
    }

    /// Notifies the receiver of a deleted subscription, once, whatever it responds (rule 5.3).
    pub async fn notify_deletion(&self, request: HandshakeRequest<'_>) {
        let Some(webhook) = request.subscription.definition.destination.webhook() else {
            return; // there is nobody to notify.
        };
        let topic = request.topic_resource_id;
        let subscription = format!("{topic}/eventSubscriptions/{}", request.subscription.name);
        let body = deletion_event(topic, &subscription, request.event_id, request.now);
        let said = system_request(webhook, &request, "SubscriptionDeletion", body);
        let id = request.subscription.id;
        let (result, _) = self.send(id, webhook, said).await;
        tracing::debug!(subscription = %request.subscription.name, responded = result.is_ok(), "the receiver of a deleted subscription was notified");
    }
}

fn validation_request(webhook: &WebHook, request: &HandshakeRequest<'_>) -> TransportRequest {
    let body = validation_event(
        request.topic_resource_id,
        request.code,
        request.validation_url,
        request.event_id,
        request.now,
    );
    system_request(webhook, request, "SubscriptionValidation", body)
}

/// A POST of an event of our own: in the Event Grid schema, whatever the delivery schema.
fn system_request(
    webhook: &WebHook,
    request: &HandshakeRequest<'_>,
    event_type: &'static str,
    body: Vec<u8>,
) -> TransportRequest {
    let mut headers = aeg_headers(request.subscription, event_type, 0);
    put_versions(&mut headers, Some("1"));
    let content_type = HeaderValue::from_static("application/json; charset=utf-8");
    headers.insert(CONTENT_TYPE, content_type);
    // Receivers that check signatures check those of all requests.
    let id = || request.event_id.to_string();
    put_signature(&mut headers, webhook, id, request.now, &body);
    addressed(webhook, Method::POST, headers, body, request.deadline)
}

/// Static custom headers are sent too, since a receiver may need its `Authorization`; there is no event for
/// dynamic ones.
fn addressed(
    webhook: &WebHook,
    method: Method,
    mut headers: HeaderMap,
    body: Vec<u8>,
    deadline: Duration,
) -> TransportRequest {
    put_attributes(&mut headers, webhook, |_| None);
    TransportRequest {
        method,
        url: webhook.endpoint_url.reveal().clone(),
        headers,
        body: Bytes::from(body),
        deadline,
        body_max: RESPONSE_READ_MAX,
        late: None,
        tls: None,
    }
}

/// Status 200 and the code; the content type does not matter (rule 5.1, section A).
fn read_validation_response(response: &TransportResponse, code: &str) -> HandshakeResult {
    if response.status != 200 {
        let reason = format!(
            "the receiver answered {} to the validation event; only 200 counts",
            response.status
        );
        return rejected(response.status, reason);
    }
    match validation_response(&response.body) {
        Some(response) if response == code => HandshakeResult::Agreed { allowed_rate: None },
        Some(_) => awaiting("the receiver answered 200, but with another validation code"),
        None => awaiting("the receiver answered 200, but without the validation code"),
    }
}

fn options_request(
    webhook: &WebHook,
    request: &HandshakeRequest<'_>,
    origin: &str,
) -> TransportRequest {
    let mut headers = HeaderMap::new();
    put(&mut headers, WEBHOOK_REQUEST_ORIGIN, origin);
    put(
        &mut headers,
        WEBHOOK_REQUEST_CALLBACK,
        request.validation_url,
    );
    headers.insert(WEBHOOK_REQUEST_RATE, REQUESTED_RATE.into());
    addressed(
        webhook,
        Method::OPTIONS,
        headers,
        Vec::new(),
        request.deadline,
    )
}

/// Status 200 and the header; a granted rate is not read.
fn read_consent(response: &TransportResponse, origin: &str) -> HandshakeResult {
    let status = response.status;
    let mut allowed = words(&response.headers, WEBHOOK_ALLOWED_ORIGIN).peekable();
    if status != 200 {
        let reason = format!("the receiver answered {status} to OPTIONS; only 200 counts");
        return rejected(status, reason);
    }
    if allowed.peek().is_none() {
        return denied("the receiver answered 200 to OPTIONS, but without WebHook-Allowed-Origin");
    }
    if allowed.any(|each| is_origin(each, origin)) {
        HandshakeResult::Agreed { allowed_rate: None }
    } else {
        foreign_origin(origin)
    }
}

fn is_origin(allowed: &str, origin: &str) -> bool {
    allowed == "*" || allowed.eq_ignore_ascii_case(origin)
}

fn foreign_origin(origin: &str) -> HandshakeResult {
    denied(format!(
        "the receiver's WebHook-Allowed-Origin is neither {origin:?} nor \"*\""
    ))
}

/// The headers alone count, whatever the status (rule 5.2). A success without them leaves the callback.
fn read_options(response: &TransportResponse, origin: &str) -> HandshakeResult {
    let status = response.status;
    let mut allowed = words(&response.headers, WEBHOOK_ALLOWED_ORIGIN).peekable();
    if allowed.peek().is_none() {
        if (200..300).contains(&status) {
            return awaiting(format!(
                "the receiver answered {status}, but without WebHook-Allowed-Origin"
            ));
        }
        let reason =
            format!("the receiver answered {status} to OPTIONS, without WebHook-Allowed-Origin");
        return rejected(status, reason);
    }
    if !allowed.any(|each| is_origin(each, origin)) {
        return foreign_origin(origin);
    }
    match allowed_rate(&response.headers) {
        Ok(allowed_rate) => HandshakeResult::Agreed { allowed_rate },
        Err(reason) => denied(reason),
    }
}

/// Requests per minute; none for `*`, and for a receiver that does not say.
fn allowed_rate(headers: &HeaderMap) -> Result<Option<u32>, &'static str> {
    let Some(rate) = words(headers, WEBHOOK_ALLOWED_RATE).next() else {
        return Ok(None);
    };
    if rate == "*" {
        return Ok(None);
    }
    if rate.is_empty() || !rate.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("the receiver's WebHook-Allowed-Rate is neither a whole number nor \"*\"");
    }
    match rate.parse() {
        Ok(0) => Err("the receiver's WebHook-Allowed-Rate is 0"),
        Ok(rate) => Ok(Some(rate)),
        // More digits than a number can hold.
        Err(_) => Ok(Some(u32::MAX)),
    }
}

fn words<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter();
    values.filter_map(|value| value.to_str().ok().map(str::trim))
}

/// Another try does not help where the URL, the method or the credentials are wrong.
fn rejected(status: u16, reason: String) -> HandshakeResult {
    match status {
        300..=399 | 401 | 403 | 404 | 405 => HandshakeResult::Denied { reason },
        _ => denied(reason),
    }
}

fn awaiting(reason: impl Into<String>) -> HandshakeResult {
    HandshakeResult::AwaitingManualAction {
        reason: reason.into(),
    }
}

fn denied(reason: impl Into<String>) -> HandshakeResult {
    HandshakeResult::Rejected {
        reason: reason.into(),
    }
}
