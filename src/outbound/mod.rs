//! The world outside: one HTTP request at a time, and only to where the egress policy lets it.
//!
//! Invariant: every request leaves through [`transport`], so nothing gets past [`egress`].

mod address;
mod authorize;
mod clients;
mod connect_watch;
pub mod connectivity;
pub mod egress;
pub mod evaluate;
mod handshake;
mod late_response;
mod resolver;
mod retry_after;
mod storage;
#[cfg(test)]
mod test_support;
pub mod transport;
mod webhook;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;

pub use handshake::{HandshakeRequest, HandshakeResult};
pub use late_response::{LateResponseSlot, LateResponseWait, PendingResponse, SendResult};
pub use storage::{Blob, StoredBlob};

use crate::base::Clock;
use crate::model::delivery::{AttemptResult, Outcome};
use crate::model::destination::Destination;
use crate::model::event::StoredEvent;
use crate::model::subscription::EventSubscription;
use crate::outbound::authorize::TokenBook;
use crate::outbound::transport::{HttpTransport, Inside, Responder};

/// What [`Outbound`] is made of.
#[derive(Clone)]
pub struct OutboundOptions {
    pub transport: HttpTransport,
    pub clock: Clock,
    /// Who we are to CloudEvents receivers: a DNS name (rule A: `eventgrid.azure.net`). One that cannot
    /// stand in a header is not sent.
    pub origin: String,
    /// Where dead letters may be exported to on this machine, if anywhere.
    pub export_dir: Option<PathBuf>,
}

/// Talks to destinations. Cheap enough to clone.
#[derive(Clone)]
pub struct Outbound {
    transport: HttpTransport,
    clock: Clock,
    origin: String,
    tokens: TokenBook,
    export_dir: Option<PathBuf>,
}

/// Events of one topic on their way to one subscription, in one request.
#[derive(Clone, Copy)]
pub struct DeliveryRequest<'a> {
    pub subscription: &'a EventSubscription,
    pub topic_resource_id: &'a str,
    /// At least one; several only if the destination takes batches.
    pub events: &'a [&'a StoredEvent],
    /// Attempts made before this one.
    pub delivery_count: u32,
    /// From now to the end of the answer.
    pub deadline: Duration,
}

impl Outbound {
    /// Puts the parts together.
    pub fn new(options: OutboundOptions) -> Self {
        Self {
            transport: options.transport,
            clock: options.clock,
            origin: options.origin,
            tokens: TokenBook::default(),
            export_dir: options.export_dir,
        }
    }

    /// The same with `receivers` inside the appliance, called where a URL's host is `host`.
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

    /// The headers and the body of the request that an attempt would make now, without what the connection adds
    /// and what authorizes it; `None` where events are pulled.
    pub fn draft(&self, delivery_request: &DeliveryRequest<'_>) -> Option<(HeaderMap, Bytes)> {
        let webhook = delivery_request
            .subscription
            .definition
            .destination
            .webhook()?;
        let request = webhook::request(webhook, delivery_request, &self.origin, self.clock.now());
        Some((request.headers, request.body))
    }

    /// Makes one attempt, whose outcome is always an answer; a late one may follow a time-out.
    pub async fn deliver(&self, delivery_request: DeliveryRequest<'_>) -> SendResult {
        match &delivery_request.subscription.definition.destination {
            Destination::WebHook(webhook) => {
                webhook::deliver(self, webhook, &delivery_request).await
            }
            Destination::Queue(_) => SendResult {
                result: AttemptResult {
                    error: Some("not sent: the events of this subscription are pulled".to_owned()),
                    ..AttemptResult::of(Outcome::Aborted)
                },
                late: None,
            },
        }
    }
}
