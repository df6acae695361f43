//! Inspectors: create and delete inspectors, and respond to requests to their URLs.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::broker::{Broker, BrokerParts};
use crate::model::audit::Caller;
use crate::model::destination::AttributeValue;
use crate::model::inspector::{Inspector, InspectorDefinition, InspectorRequest};
use crate::model::limits::{INSPECTED_BYTES_MAX, INSPECTORS_MAX};
use crate::model::name::InspectorName;
use crate::model::response_script::ScriptedResponse;
use crate::model::signing::SigningSecret;
use crate::model::subscription::EventSubscription;
use crate::outbound::transport::{Responder, TransportError, TransportRequest, TransportResponse};
use crate::store::{PutOutcome, StoreError};
use crate::wire::{received, signature};

/// Default content type of inspector responses.
const PLAIN_TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Why an inspector was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InspectorError {
    #[error("there is no inspector {0}")]
    NotFound(InspectorName),
    #[error(
        "there are {INSPECTORS_MAX} inspectors, which is the most there can be; delete one that is \
         not needed"
    )]
    TooMany,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Broker {
    /// Returns the inspector with this name.
    pub async fn inspector(&self, name: &InspectorName) -> Result<Inspector, InspectorError> {
        let found = self.store().views.inspector(name.clone()).await?;
        found.ok_or_else(|| InspectorError::NotFound(name.clone()))
    }

    /// Creates an inspector, or replaces the definition of an existing one and restarts its script. Returns
    /// whether the inspector is new.
    pub async fn put_inspector(
        &self,
        by: &Caller,
        name: &InspectorName,
        definition: InspectorDefinition,
    ) -> Result<bool, InspectorError> {
        let inspectors = &self.store().inspectors;
        let put = inspectors.put(name.clone(), definition, INSPECTORS_MAX, by.clone());
        match put.await? {
            PutOutcome::Created => Ok(true),
            PutOutcome::Replaced => Ok(false),
            PutOutcome::TooMany => Err(InspectorError::TooMany),
        }
    }

    /// Deletes an inspector with its recorded requests. Returns whether the inspector existed.
    pub async fn delete_inspector(
        &self,
        by: &Caller,
        name: &InspectorName,
    ) -> Result<bool, InspectorError> {
        let inspectors = &self.store().inspectors;
        Ok(inspectors.delete(name.clone(), by.clone()).await?)
    }

    /// Deletes the recorded requests of an inspector and restarts its script. Returns the number of deleted requests.
    pub async fn clear_inspector(
        &self,
        by: &Caller,
        name: &InspectorName,
    ) -> Result<usize, InspectorError> {
        let inspectors = &self.store().inspectors;
        let cleared = inspectors.clear(name.clone(), by.clone()).await?;
        cleared.ok_or_else(|| InspectorError::NotFound(name.clone()))
    }

    /// Returns the event subscriptions that deliver to an inspector.
    pub fn subscriptions_of_inspector(&self, name: &InspectorName) -> Vec<Arc<EventSubscription>> {
        let registry = self.registry();
        let all = registry.subscriptions().map(|(_, each)| each);
        let is_meant = |each: &&Arc<EventSubscription>| delivers_to(each, name);
        all.filter(is_meant).cloned().collect()
    }
}

/// Returns whether the endpoint of a subscription is `inspector`.
fn delivers_to(subscription: &EventSubscription, inspector: &InspectorName) -> bool {
    let endpoint = subscription.definition.destination.endpoint_url();
    let called = endpoint.and_then(|url| InspectorName::of_url(url.reveal()));
    called.as_ref() == Some(inspector)
}

/// Creates the responder for requests to inspectors. Holds a weak reference, because `shared` owns the caller.
pub(in crate::broker) fn inspection(shared: &Weak<BrokerParts>) -> Arc<dyn Responder> {
    Arc::new(Inspection {
        shared: Weak::clone(shared),
    })
}

struct Inspection {
    shared: Weak<BrokerParts>,
}

#[async_trait]
impl Responder for Inspection {
    async fn respond(
        &self,
        request: &TransportRequest,
    ) -> Result<TransportResponse, TransportError> {
        let Some(broker) = self.shared.upgrade().map(|shared| Broker { shared }) else {
            return Err(TransportError::Socket(
                "the appliance is stopping".to_owned(),
            ));
        };
        let Some(name) = InspectorName::of_url(&request.url) else {
            return Ok(plain(404, "The path of this URL names no inspector."));
        };
        if broker.disk_is_low() {
            return Ok(plain(503, "The disk is low; inspectors keep nothing."));
        }
        let (headers, body) = (&request.headers, &request.body);
        let (kind, events) = received::understand(&request.method, headers, body);
        let agreed = received::agreement(&kind, headers);
        let senders = broker.senders(&name, headers);
        let first = events.first();
        let arrival = InspectorRequest {
            received_at: broker.clock().now(),
            method: request.method.to_string(),
            path: path(request),
            headers: header_texts(headers, &senders),
            bytes: body.len(),
            body_start: body[..body.len().min(INSPECTED_BYTES_MAX)].to_vec(),
            handshake: agreed.is_some().then(|| kind.name()),
            events: events.len(),
            event_id: first.and_then(|event| event.id.clone()),
            event_type: first.and_then(|event| event.event_type.clone()),
            signature: broker.check_signature(&senders, request),
            attempts: attempts(headers),
        };
        let kept = broker
            .store()
            .inspectors
            .record(name.clone(), arrival)
            .await;
        drop((senders, broker)); // a slow answer keeps nothing of the appliance
        let (definition, response) = match kept {
            Ok(Some(kept)) => kept,
            Ok(None) => return Ok(plain(404, &format!("There is no inspector {name}."))),
            Err(error) => return Err(TransportError::Socket(error.to_string())),
        };
        if !definition.delay.is_zero() {
            tokio::time::sleep(definition.delay).await;
        }
        match agreed {
            Some((headers, body)) => Ok(respond(200, headers, body)),
            None => scripted(&definition, response).await,
        }
    }
}

impl Broker {
    /// Returns the event subscriptions that may have sent a request with these headers to `inspector`.
    fn senders(
        &self,
        inspector: &InspectorName,
        headers: &HeaderMap,
    ) -> Vec<Arc<EventSubscription>> {
        let name = headers
            .get("aeg-subscription-name")
            .and_then(|name| name.to_str().ok());
        let mut all = self.subscriptions_of_inspector(inspector);
        all.retain(|each| name.is_none_or(|name| each.name.as_str().eq_ignore_ascii_case(name)));
        all
    }

    /// Returns the result of the signature check; `None` if no sender signs its requests. Only POST requests are
    /// signed: the OPTIONS request of a handshake has no body.
    fn check_signature(
        &self,
        senders: &[Arc<EventSubscription>],
        request: &TransportRequest,
    ) -> Option<String> {
        let now = self.clock().now();
        let signing = senders
            .iter()
            .filter_map(|each| each.definition.destination.signing());
        let secrets: Vec<SigningSecret> = signing
            .flat_map(|signing| signing.active(now))
            .map(|active| active.secret.clone())
            .collect();
        let header = |name: &'static str| request.headers.get(name)?.to_str().ok();
        let is_expected = !secrets.is_empty() && request.method == Method::POST;
        is_expected
            .then(|| received::verdict(&signature::verify(&secrets, header, &request.body, now)))
    }
}

/// Returns the path of the URL. Masks a query, because it may contain a secret.
fn path(request: &TransportRequest) -> String {
    match request.url.query() {
        None => request.url.path().to_owned(),
        Some(_) => format!("{}?***", request.url.path()),
    }
}

/// Returns the request headers without credentials and without secret custom headers.
fn header_texts(headers: &HeaderMap, senders: &[Arc<EventSubscription>]) -> Vec<(String, String)> {
    let mappings = senders
        .iter()
        .flat_map(|each| each.definition.destination.attribute_mappings());
    let hidden = mappings.filter(|each| {
        matches!(
            each.value,
            AttributeValue::Static {
                is_secret: true,
                ..
            }
        )
    });
    let hidden: Vec<&str> = hidden.map(|each| each.name.as_str()).collect();
    received::shown_headers(headers, &hidden)
}

/// Returns the number of earlier attempts, from the `aeg-delivery-count` header.
fn attempts(headers: &HeaderMap) -> u32 {
    headers
        .get("aeg-delivery-count")
        .and_then(|count| count.to_str().ok()?.parse().ok())
        .unwrap_or(0)
}

async fn scripted(
    definition: &InspectorDefinition,
    response: ScriptedResponse,
) -> Result<TransportResponse, TransportError> {
    match response {
        ScriptedResponse::Status(status) => {
            let headers = scripted_headers(definition, status);
            Ok(respond(status, headers, scripted_body(definition, status)))
        }
        ScriptedResponse::Close => {
            let reason = "the connection was closed without an answer";
            Err(TransportError::Socket(reason.to_owned()))
        }
        ScriptedResponse::Timeout => std::future::pending().await,
    }
}

/// Returns the response body. Is empty for statuses without content (RFC 9110, 15.3.5, 15.3.6 and 15.4.5).
fn scripted_body(definition: &InspectorDefinition, status: u16) -> Vec<u8> {
    match status {
        204 | 205 | 304 => Vec::new(),
        _ => definition.body.clone().into_bytes(),
    }
}

fn scripted_headers(definition: &InspectorDefinition, status: u16) -> HeaderMap {
    let read = |(name, value): (&String, &String)| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        Some((name, HeaderValue::from_bytes(value.as_bytes()).ok()?))
    };
    let mut headers = HeaderMap::new();
    if !scripted_body(definition, status).is_empty() {
        headers.insert(CONTENT_TYPE, PLAIN_TEXT);
    }
    headers.extend(definition.headers.iter().filter_map(read));
    if let (Some(seconds), 429 | 503) = (definition.retry_after_s, status) {
        headers.insert("retry-after", seconds.into());
    }
    headers
}

fn plain(status: u16, text: &str) -> TransportResponse {
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, PLAIN_TEXT)]);
    respond(status, headers, text.into())
}

fn respond(status: u16, headers: HeaderMap, body: Vec<u8>) -> TransportResponse {
    TransportResponse {
        status,
        headers,
        body,
        remote_address: None,
    }
}
