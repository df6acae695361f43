//! Records spans of publish requests and of delivery attempts, and exports them to a collector.
//!
//! Without a collector, no spans are recorded, and endpoints get the trace context of the publisher unchanged. With a
//! collector, an event without a trace context gets a trace id that is derived from its topic and its key, and is not
//! stored. Events whose publisher did not sample its trace have no spans.

use std::sync::Mutex;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use http::HeaderMap;
use tokio::sync::Notify;

use crate::base::{Entropy, Timestamp};
use crate::broker::Broker;
use crate::broker::dispatch::batch::Batch;
use crate::model::delivery::{AttemptResult, Outcome};
use crate::model::event::{Event, EventKey};
use crate::model::registry::TopicEntry;
use crate::model::trace::{SPAN_LINKS_MAX, Span, SpanKind, SpanValue, TRACEPARENT, TraceContext};

/// Maximum number of spans that wait for export, some hundred bytes each; further spans are dropped. OpenTelemetry's
/// libraries have the same limits as this module.
const WAITING_MAX: usize = 2_048;

/// Maximum number of spans in one request to the collector.
const BATCH_MAX: usize = 512;

/// Longest time between two exports.
const EXPORT_EVERY: Duration = Duration::from_secs(5);

/// Timeout of a request to the collector.
const EXPORT_WITHIN: Duration = Duration::from_secs(10);

/// Timeout of a request to the collector while the server stops; short, so that stopping is quick.
const LAST_EXPORT_WITHIN: Duration = Duration::from_secs(2);

/// The name of Event Grid among messaging systems.
const SYSTEM: &str = "eventgrid";

/// Spans that wait for their export.
#[derive(Default)]
pub(super) struct Traces {
    waiting: Mutex<Vec<Span>>,
    /// Notified when enough spans wait for a full request.
    enough: Notify,
    /// Error of the last export; a repeated error is not logged again.
    problem: Mutex<Option<String>>,
}

/// The span of a publish request.
pub struct PublishSpan {
    parent: Option<TraceContext>,
    id: u64,
    started_at: Timestamp,
}

impl PublishSpan {
    /// Makes the span part of the trace in the trace context of `event`.
    pub fn follow(&mut self, event: &Event) {
        self.parent = event.trace_context();
    }
}

impl Broker {
    /// Returns the span of a publish request with these headers, and the trace context for its events. The span is
    /// `None` without a collector or if the publisher did not sample its trace.
    pub fn publish_span(
        &self,
        headers: &HeaderMap,
    ) -> (Option<Box<PublishSpan>>, Option<TraceContext>) {
        let header = headers
            .get(TRACEPARENT)
            .and_then(|value| value.to_str().ok());
        let parent = header.and_then(TraceContext::parse);
        let is_recorded = parent.is_none_or(|parent| parent.is_sampled);
        if self.shared.traces.is_none() || !is_recorded {
            return (None, parent);
        }
        let span = PublishSpan {
            parent,
            id: random(self.entropy()),
            started_at: self.clock().now(),
        };
        let context = parent.map(|parent| TraceContext {
            span: span.id,
            ..parent
        });
        (Some(Box::new(span)), context)
    }

    /// Ends the span of a publish request. `result` has the keys of the stored events, or the code of the rejection.
    pub fn end_publish_span(
        &self,
        span: &PublishSpan,
        topic: &TopicEntry,
        result: Result<&[EventKey], &str>,
    ) {
        if span.parent.is_some_and(|parent| !parent.is_sampled) {
            return; // as its events said
        }
        let first = result.ok().and_then(<[EventKey]>::first);
        let own = || match first {
            Some(key) => derived(topic, *key),
            None => random_trace(self.entropy()),
        };
        let mut attributes = messaging("publish", "send", topic);
        attributes.push((
            "messaging.batch.message_count",
            SpanValue::count(result.map_or(0, <[EventKey]>::len)),
        ));
        let error = result.err().map(str::to_owned);
        attributes.extend(
            error
                .iter()
                .map(|error| ("error.type", SpanValue::text(error))),
        );
        self.record_span(Span {
            context: TraceContext {
                trace: span.parent.map_or_else(own, |parent| parent.trace),
                span: span.id,
                is_sampled: true,
            },
            parent: span.parent.map(|parent| parent.span),
            links: Vec::new(),
            name: format!("publish {}", topic.topic.name),
            kind: SpanKind::Server,
            started_at: span.started_at,
            ended_at: self.clock().now(),
            attributes,
            error,
        });
    }

    /// Returns the span of an attempt to deliver `batch`; `None` without a collector or if the publisher of its only
    /// event did not sample its trace.
    pub(super) fn delivery_span(&self, batch: &Batch, started_at: Timestamp) -> Option<Box<Span>> {
        self.shared.traces.as_ref()?;
        let topic = &batch.topic;
        let alone = match batch.events.as_slice() {
            [event] => Some(event),
            _ => None,
        };
        let published = alone.and_then(|event| event.event.trace_context());
        if published.is_some_and(|published| !published.is_sampled) {
            return None;
        }
        let trace = match (published, alone) {
            (Some(published), _) => published.trace,
            (None, Some(event)) => derived(topic, event.key),
            (None, None) => random_trace(self.entropy()),
        };
        let mut attributes = messaging("deliver", "send", topic);
        attributes.push((
            "messaging.destination.subscription.name",
            SpanValue::text(batch.subscription.name.as_str()),
        ));
        match alone {
            Some(event) => {
                attributes.push(("messaging.message.id", SpanValue::text(&event.event.id)));
            }
            None => attributes.push((
                "messaging.batch.message_count",
                SpanValue::count(batch.events.len()),
            )),
        }
        if let Some(webhook) = batch.subscription.definition.destination.webhook() {
            // Path and query may be secrets.
            let url = webhook.endpoint_url.reveal();
            let host = url.host_str().unwrap_or_default();
            attributes.push(("server.address", SpanValue::text(host)));
            let port = url.port_or_known_default().map(u64::from);
            attributes.extend(port.map(|port| ("server.port", SpanValue::Number(port))));
            attributes.push(("http.request.method", SpanValue::text("POST")));
        }
        let attempts = batch.deliveries.iter().map(|each| each.attempts).max();
        if let Some(attempts) = attempts.filter(|attempts| *attempts > 0) {
            let value = SpanValue::Number(attempts.into());
            attributes.push(("http.request.resend_count", value));
        }
        let together = batch.events.iter().filter(|_| alone.is_none());
        let linked = together.filter_map(|event| event.event.trace_context());
        Some(Box::new(Span {
            context: TraceContext {
                trace,
                span: random(self.entropy()),
                is_sampled: true,
            },
            parent: published.map(|published| published.span),
            links: linked.take(SPAN_LINKS_MAX).collect(),
            name: format!("deliver {}", topic.topic.name),
            kind: SpanKind::Client,
            started_at,
            ended_at: started_at,
            attributes,
            error: None,
        }))
    }

    /// Ends and records the span of a delivery attempt.
    pub(super) fn end_delivery_span(&self, mut span: Span, result: &AttemptResult, at: Timestamp) {
        span.ended_at = at;
        let status = result.status().map(|status| {
            let number = SpanValue::Number(status.into());
            ("http.response.status_code", number)
        });
        span.attributes.extend(status);
        if result.outcome != Outcome::Delivered {
            let error = result.outcome.name();
            span.attributes.push(("error.type", SpanValue::text(error)));
            span.error = Some(error.to_owned());
        }
        self.record_span(span);
    }

    fn record_span(&self, span: Span) {
        let Some(traces) = &self.shared.traces else {
            return;
        };
        let mut waiting = traces.waiting.lock().unwrap();
        if waiting.len() < WAITING_MAX {
            waiting.push(span);
        } else {
            self.meters().spans_ended("dropped", 1);
        }
        if waiting.len() >= BATCH_MAX {
            traces.enough.notify_one();
        }
    }

    /// Sends spans to the collector until the broker stops.
    pub async fn run_traces(self) {
        let Some(traces) = &self.shared.traces else {
            return self.stopping().await;
        };
        while !self.is_stopping() {
            tokio::select! {
                () = tokio::time::sleep(EXPORT_EVERY) => {}
                () = traces.enough.notified() => {}
                () = self.stopping() => return, // what is left is sent at the end
            }
            self.export_spans(EXPORT_WITHIN).await;
        }
    }

    /// Exports the remaining spans after deliveries have ended.
    pub async fn export_last_spans(&self) {
        self.export_spans(LAST_EXPORT_WITHIN).await;
    }

    /// Exports the waiting spans. Spans of a failed request are dropped instead of retried, since waiting spans are
    /// bounded and new ones arrive.
    async fn export_spans(&self, within: Duration) {
        let Some(traces) = &self.shared.traces else {
            return;
        };
        loop {
            let spans: Vec<Span> = {
                let mut waiting = traces.waiting.lock().unwrap();
                let some = waiting.len().min(BATCH_MAX);
                waiting.drain(..some).collect()
            };
            if spans.is_empty() {
                return;
            }
            let sent = self.outbound().export_spans(&spans, within).await;
            let count = u64::try_from(spans.len()).unwrap_or(u64::MAX);
            let dropped = *sent.as_ref().unwrap_or(&count);
            self.meters().spans_ended("dropped", dropped.min(count));
            self.meters()
                .spans_ended("exported", count.saturating_sub(dropped));
            let failed = sent.is_err();
            let problem = std::mem::replace(&mut *traces.problem.lock().unwrap(), sent.err());
            let now = traces.problem.lock().unwrap().clone();
            if let Some(error) = now.filter(|now| problem.as_ref() != Some(now)) {
                tracing::warn!(%error, "traces do not reach their collector");
            }
            if failed {
                return;
            }
        }
    }
}

/// Returns the attributes that spans about messages of a topic have in common.
fn messaging(operation: &str, kind: &str, topic: &TopicEntry) -> Vec<(&'static str, SpanValue)> {
    vec![
        ("messaging.system", SpanValue::text(SYSTEM)),
        ("messaging.operation.name", SpanValue::text(operation)),
        ("messaging.operation.type", SpanValue::text(kind)),
        (
            "messaging.destination.name",
            SpanValue::text(topic.topic.name.as_str()),
        ),
    ]
}

/// Derives the trace id of an event that was published without a trace context.
fn derived(topic: &TopicEntry, event: EventKey) -> u128 {
    let mut text = [0; 24];
    text[..8].copy_from_slice(&topic.topic.created_at.as_ms().to_be_bytes());
    text[8..16].copy_from_slice(&topic.topic.id.0.to_be_bytes());
    text[16..].copy_from_slice(&event.0.to_be_bytes());
    let mut trace = [0; 16];
    trace.copy_from_slice(&digest(&SHA256, &text).as_ref()[..16]);
    u128::from_be_bytes(trace)
}

/// Returns a random span id, which is never 0.
fn random(entropy: &Entropy) -> u64 {
    let mut bytes = [0; 8];
    entropy.fill(&mut bytes);
    u64::from_be_bytes(bytes).max(1)
}

fn random_trace(entropy: &Entropy) -> u128 {
    let mut bytes = [0; 16];
    entropy.fill(&mut bytes);
    u128::from_be_bytes(bytes).max(1)
}
