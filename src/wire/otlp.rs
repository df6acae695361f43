//! Spans as OpenTelemetry's protocol has them over HTTP, in JSON.

use serde_json::{Value, json};

use crate::base::Timestamp;
use crate::model::trace::{Span, SpanKind, SpanValue};

/// The name of the appliance among services.
const SERVICE: &str = "everpost";

/// Where the protocol has spans below the URL of a collector.
pub const TRACES_PATH: &str = "v1/traces";

/// `STATUS_CODE_ERROR`.
const FAILED: u8 = 2;

/// The body of a request that brings these spans.
pub fn request(spans: &[Span]) -> Vec<u8> {
    let version = SpanValue::text(env!("CARGO_PKG_VERSION"));
    let service = [
        ("service.name", SpanValue::text(SERVICE)),
        ("service.version", version),
    ];
    let body = json!({ "resourceSpans": [{
        "resource": { "attributes": attributes(&service) },
        "scopeSpans": [{
            "scope": { "name": SERVICE },
            "spans": spans.iter().map(span).collect::<Vec<_>>(),
        }],
    }] });
    body.to_string().into_bytes()
}

/// How many of the spans a collector says it has not taken.
pub fn rejected(answer: &[u8]) -> u64 {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let rejected = &answer["partialSuccess"]["rejectedSpans"];
    // Numbers of 64 bits are texts in this JSON.
    let number = rejected.as_str().and_then(|text| text.parse().ok());
    number.or(rejected.as_u64()).unwrap_or(0)
}

fn span(span: &Span) -> Value {
    let Span { context, .. } = span;
    let mut written = json!({
        "traceId": format!("{:032x}", context.trace),
        "spanId": format!("{:016x}", context.span),
        "name": span.name,
        "kind": match span.kind { SpanKind::Server => 2, SpanKind::Client => 3 },
        "startTimeUnixNano": nanoseconds(span.started_at),
        "endTimeUnixNano": nanoseconds(span.ended_at),
        "attributes": attributes(&span.attributes),
    });
    if let Some(parent) = span.parent {
        written["parentSpanId"] = format!("{parent:016x}").into();
    }
    if !span.links.is_empty() {
        let links = span.links.iter().map(|link| {
            json!({ "traceId": format!("{:032x}", link.trace), "spanId": format!("{:016x}", link.span) })
        });
        written["links"] = links.collect();
    }
    if let Some(error) = &span.error {
        written["status"] = json!({ "code": FAILED, "message": error });
    }
    written
}

fn nanoseconds(at: Timestamp) -> String {
    format!("{}000000", at.as_ms())
}

fn attributes(all: &[(&str, SpanValue)]) -> Value {
    let one = |(name, value): &(&str, SpanValue)| {
        let value = match value {
            SpanValue::Text(text) => json!({ "stringValue": text }),
            SpanValue::Number(number) => json!({ "intValue": number.to_string() }),
        };
        json!({ "key": name, "value": value })
    };
    all.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::trace::TraceContext;

    #[test]
    fn spans_are_written_as_collectors_read_them() {
        let context = TraceContext {
            trace: 0xabc,
            span: 0xdef,
            is_sampled: true,
        };
        let span = Span {
            context,
            parent: Some(1),
            links: vec![context],
            name: "deliver orders".to_owned(),
            kind: SpanKind::Client,
            started_at: Timestamp::from_ms(1_800_000_000_001),
            ended_at: Timestamp::from_ms(1_800_000_000_003),
            attributes: vec![
                ("messaging.destination.name", SpanValue::text("orders")),
                ("http.response.status_code", SpanValue::Number(503)),
            ],
            error: Some("Busy".to_owned()),
        };
        let written: Value = serde_json::from_slice(&request(&[span])).expect("JSON");
        let resource = &written["resourceSpans"][0];
        let service = json!({ "key": "service.name", "value": { "stringValue": "everpost" } });
        assert_eq!(resource["resource"]["attributes"][0], service);
        assert_eq!(
            resource["scopeSpans"][0]["spans"][0],
            json!({
                "traceId": "00000000000000000000000000000abc",
                "spanId": "0000000000000def",
                "parentSpanId": "0000000000000001",
                "name": "deliver orders",
                "kind": 3,
                "startTimeUnixNano": "1800000000001000000",
                "endTimeUnixNano": "1800000000003000000",
                "attributes": [
                    { "key": "messaging.destination.name", "value": { "stringValue": "orders" } },
                    { "key": "http.response.status_code", "value": { "intValue": "503" } },
                ],
                "links": [{ "traceId": "00000000000000000000000000000abc", "spanId": "0000000000000def" }],
                "status": { "code": 2, "message": "Busy" },
            })
        );
    }

    #[test]
    fn collectors_tell_what_they_do_not_take() {
        for (answer, expected) in [
            (
                r#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"full"}}"#,
                3,
            ),
            (r#"{"partialSuccess":{"rejectedSpans":3}}"#, 3),
            (r#"{"partialSuccess":{}}"#, 0),
            ("{}", 0),
            ("", 0),
        ] {
            assert_eq!(rejected(answer.as_bytes()), expected, "{answer}");
        }
    }
}
