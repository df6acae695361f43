//! Spans, sent to an OpenTelemetry collector.

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method};

use crate::model::limits::RESPONSE_READ_MAX;
use crate::model::trace::Span;
use crate::outbound::Outbound;
use crate::outbound::transport::TransportRequest;
use crate::wire::otlp;

impl Outbound {
    /// Returns whether there is a collector.
    pub fn has_collector(&self) -> bool {
        self.collector.is_some()
    }

    /// Sends spans to the collector. Returns how many of them it has not taken.
    ///
    /// # Errors
    /// Why none of them arrived, as a clause.
    pub async fn export_spans(&self, spans: &[Span], deadline: Duration) -> Result<u64, String> {
        let collector = self.collector.as_ref().ok_or("there is no collector")?;
        let mut url = collector.reveal().clone();
        let base = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{base}/{}", otlp::TRACES_PATH));
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let request = TransportRequest {
            method: Method::POST,
            url,
            headers,
            body: Bytes::from(otlp::request(spans)),
            deadline,
            body_max: RESPONSE_READ_MAX,
            late: None,
            tls: None,
        };
        let answer = self
            .transport
            .send(request)
            .await
            .map_err(|error| error.to_string())?;
        match answer.status {
            200..300 => Ok(otlp::rejected(&answer.body)),
            status => Err(format!("it answered {status}")),
        }
    }
}
