//! Test support for deliveries and handshakes: a subscription, and a receiver that follows a script and
//! records its requests.

use std::sync::{Arc, Mutex};

use http::{HeaderName, HeaderValue};

use super::*;
use crate::base::Timestamp;
use crate::model::access::Secret;
use crate::model::as_written::AsWritten;
use crate::model::batch::BatchPolicy;
use crate::model::credentials::Credentials;
use crate::model::destination::{AttributeValue, DeliveryAttributeMapping, EndpointUrl, WebHook};
use crate::model::filter::Filter;
use crate::model::name::SubscriptionName;
use crate::model::pace::ReceiverLimits;
use crate::model::retry::RetryPolicy;
use crate::model::subscription::{
    DeadLetterDestination, SubscriptionDefinition, SubscriptionId, SubscriptionOptions, Validation,
};
use crate::model::topic::{DeliverySchema, TopicId};
use crate::outbound::transport::{Responder, TransportError, TransportRequest, TransportResponse};

pub(super) const TOPIC: &str =
    "/subscriptions/s/resourceGroups/g/providers/Microsoft.EventGrid/topics/orders";

/// 2026-11-21T06:40:53.138Z.
pub(super) const NOW: Timestamp = Timestamp::from_ms(1_795_243_253_138);

pub(super) fn subscription(
    delivery_schema: DeliverySchema,
    batch: BatchPolicy,
    attribute_mappings: Vec<DeliveryAttributeMapping>,
) -> EventSubscription {
    let endpoint_url = "https://shop.example/inbox?code=s%20ecret&x=1";
    EventSubscription {
        id: SubscriptionId(1),
        topic_id: TopicId(1),
        name: SubscriptionName::parse("Billing-2").expect("a name"),
        definition: SubscriptionDefinition {
            destination: WebHook {
                endpoint_url: EndpointUrl::parse(endpoint_url).expect("a URL"),
                batch,
                pace: ReceiverLimits::default(),
                attribute_mappings,
                credentials: Credentials::default(),
                skip_validation: false,
            }
            .into(),
            filter: Filter::default(),
            delivery_schema,
            retry_policy: RetryPolicy::default(),
            dead_letter: DeadLetterDestination::BuiltInQueue,
            options: SubscriptionOptions::default(),
            expires_at: None,
            disabled: None,
            as_written: AsWritten::default(),
        },
        validation: Validation::succeeded(None),
        created_at: NOW,
        updated_at: NOW,
    }
}

pub(super) fn fixed(name: &str, value: &str) -> DeliveryAttributeMapping {
    DeliveryAttributeMapping {
        name: name.to_owned(),
        value: AttributeValue::Static {
            value: Secret::new(value),
            is_secret: true,
        },
    }
}

pub(super) fn dynamic(name: &str, source_field: &str) -> DeliveryAttributeMapping {
    DeliveryAttributeMapping {
        name: name.to_owned(),
        value: AttributeValue::Dynamic {
            source_field: source_field.to_owned(),
        },
    }
}

/// Responds to everything alike, and records the requests as text.
pub(super) struct Receiver {
    response: Result<TransportResponse, TransportError>,
    pub(super) seen: Mutex<Vec<String>>,
}

impl Receiver {
    /// `headers` are lines of `name: value`.
    pub(super) fn answering(status: u16, headers: &str, body: &str) -> Arc<Self> {
        let headers = headers.lines().filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a header name");
            let value = HeaderValue::from_bytes(value.as_bytes()).expect("a header value");
            (name, value)
        });
        Self::giving(Ok(TransportResponse {
            status,
            headers: headers.collect(),
            body: body.into(),
            remote_address: Some(([192, 0, 2, 7], 443).into()),
        }))
    }

    pub(super) fn giving(response: Result<TransportResponse, TransportError>) -> Arc<Self> {
        Arc::new(Self {
            response,
            seen: Mutex::default(),
        })
    }

    pub(super) fn outbound(self: &Arc<Self>) -> Outbound {
        Outbound::new(OutboundOptions {
            transport: HttpTransport::Scripted(Arc::<Self>::clone(self)),
            clock: Clock::simulated(NOW),
            origin: "eventgrid.azure.net".to_owned(),
            export_dir: None,
        })
    }

    /// The only request: request line, headers by name, an empty line, the body.
    pub(super) fn only_request(&self) -> String {
        let seen = self.seen.lock().unwrap();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen[0].clone()
    }
}

#[async_trait::async_trait]
impl Responder for Receiver {
    async fn respond(
        &self,
        request: &TransportRequest,
    ) -> Result<TransportResponse, TransportError> {
        let mut lines: Vec<String> = request
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
            .collect();
        lines.sort_unstable();
        let (method, url, head) = (&request.method, &request.url, lines.join("\n"));
        let body = String::from_utf8_lossy(&request.body);
        let text = format!("{method} {url}\n{head}\n\n{body}");
        self.seen.lock().unwrap().push(text);
        self.response.clone()
    }
}
