//! Outgoing HTTP requests. Each request is sent individually, and only to an address that the egress policy allows.
//!
//! Invariant: every request is sent by [`transport`], so none bypasses [`egress`].

mod address;
mod alert;
mod authorize;
pub mod backup;
mod clients;
mod collector;
mod connect_watch;
pub mod connectivity;
mod connector;
pub mod egress;
pub mod evaluate;
mod handshake;
pub mod identity_provider;
mod late_response;
mod mail;
mod mask;
mod message;
mod resolver;
mod retry_after;
mod smtp;
mod storage;
#[cfg(test)]
mod test_support;
mod tls_failure;
pub mod transport;
mod unanswered;
mod webhook;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;

pub use handshake::{HandshakeRequest, HandshakeResult};
pub use late_response::{LateResponseSlot, LateResponseWait, PendingResponse, SendResult};
pub use message::message;
pub use storage::{Blob, StoredBlob};

use crate::base::Clock;
use crate::model::blob_storage::S3Account;
use crate::model::delivery::{AttemptResult, Outcome};
use crate::model::destination::{Destination, EndpointUrl};
use crate::model::event::StoredEvent;
use crate::model::subscription::EventSubscription;
use crate::model::trace::TraceContext;
use crate::outbound::authorize::TokenBook;
use crate::outbound::egress::EgressPolicy;
use crate::outbound::transport::{HttpTransport, Inside, NetworkError, Responder};

/// Options of [`Outbound`].
#[derive(Clone)]
pub struct OutboundOptions {
    pub transport: HttpTransport,
    pub clock: Clock,
    /// The origin to send to CloudEvents receivers: a DNS name (rule A: `eventgrid.azure.net`). It is not sent if it is
    /// not a valid header value.
    pub origin: String,
    /// The directory that dead letters may be exported to, if there is one.
    pub export_dir: Option<PathBuf>,
}

/// Sends requests to destinations. Cheap to clone.
#[derive(Clone)]
pub struct Outbound {
    transport: HttpTransport,
    clock: Clock,
    origin: String,
    tokens: TokenBook,
    export_dir: Option<PathBuf>,
    backup_account: Option<Arc<S3Account>>,
    /// The URL of the OpenTelemetry collector that receives spans.
    collector: Option<EndpointUrl>,
}

/// Events of one topic for one subscription, to be sent in one request.
#[derive(Clone, Copy)]
pub struct DeliveryRequest<'a> {
    pub subscription: &'a EventSubscription,
    pub topic_resource_id: &'a str,
    /// The events to send: at least one, and several only if the destination accepts batches.
    pub events: &'a [&'a StoredEvent],
    /// Number of attempts made before this one.
    pub delivery_count: u32,
    /// Maximum time from now to the end of the response.
    pub deadline: Duration,
}

impl Outbound {
    /// Creates an `Outbound` from its options.
    pub fn new(options: OutboundOptions) -> Self {
        Self {
            transport: options.transport,
            clock: options.clock,
            origin: options.origin,
            tokens: TokenBook::default(),
            export_dir: options.export_dir,
            backup_account: None,
            collector: None,
        }
    }

    /// Sets the URL of a collector for spans.
    pub fn with_collector(self, collector: Option<EndpointUrl>) -> Self {
        Self { collector, ..self }
    }

    /// Passes requests to URLs with the host `host` to `receivers` inside the appliance, without a network connection.
    pub fn with_inside(self, host: &'static str, receivers: Arc<dyn Responder>) -> Self {
        let outside = Box::new(self.transport);
        let inside = Inside {
            host,
            receivers,
            outside,
        };
        Self {
            transport: HttpTransport::Inside(inside),
            ..self
        }
    }

    /// Replaces the egress policy of this `Outbound` and all its clones, from the next request on.
    pub fn set_egress(&self, policy: &EgressPolicy) -> Result<(), NetworkError> {
        self.transport.set_policy(policy)
    }

    /// Returns the headers and the body of the request that an attempt would send now. Headers of the connection and of
    /// authentication are left out. Returns `None` for pull delivery.
    pub fn draft(&self, delivery_request: &DeliveryRequest<'_>) -> Option<(HeaderMap, Bytes)> {
        let webhook = delivery_request
            .subscription
            .definition
            .destination
            .webhook()?;
        let now = self.clock.now();
        let (request, _) = webhook::request(webhook, delivery_request, &self.origin, now);
        Some((request.headers, request.body))
    }

    /// Makes one delivery attempt. The request carries the trace context `trace` or, if `trace` is `None`, the trace
    /// context of a single event. A late response may follow a time-out. Returns `None` if no request was sent because
    /// too many other host names were being looked up.
    pub async fn deliver(
        &self,
        delivery_request: DeliveryRequest<'_>,
        trace: Option<&TraceContext>,
    ) -> Option<SendResult> {
        match &delivery_request.subscription.definition.destination {
            Destination::WebHook(webhook) => {
                webhook::deliver(self, webhook, &delivery_request, trace).await
            }
            Destination::ServiceBusQueue(_)
            | Destination::ServiceBusTopic(_)
            | Destination::Queue(_) => Some(SendResult {
                result: AttemptResult {
                    error: Some("not sent: this subscription has no webhook".to_owned()),
                    ..AttemptResult::of(Outcome::Aborted)
                },
                late: None,
            }),
        }
    }
}
