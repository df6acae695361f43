//! Inspectors: receivers inside the appliance that respond by a script and record the requests.
//!
//! The name of their host is never resolved: a request to it does not leave the appliance, and nothing from
//! outside reaches an inspector.

use std::collections::BTreeMap;
use std::time::Duration;

use url::Url;

use crate::base::Timestamp;
use crate::model::name::InspectorName;
use crate::model::response_script::{ResponseScript, ScriptedResponse};

/// The host of every inspector's URL.
pub const INSPECTOR_HOST: &str = "inspector.everpost.internal";

/// How an inspector responds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectorDefinition {
    pub responses: ResponseScript,
    /// The delay before each response, handshakes included; at most
    /// [`INSPECTOR_DELAY_MAX`](crate::model::limits::INSPECTOR_DELAY_MAX).
    pub delay: Duration,
    /// Sent as `Retry-After`, in seconds, with every 429 and 503.
    pub retry_after_s: Option<u32>,
    /// Sent with every scripted response.
    pub headers: BTreeMap<String, String>,
    /// The body of every scripted response whose status allows one; at most
    /// [`INSPECTOR_BODY_BYTES_MAX`](crate::model::limits::INSPECTOR_BODY_BYTES_MAX) bytes, empty for none.
    pub body: String,
    /// Is true if the response depends on the earlier attempts of the same event, not on the deliveries of all events.
    pub per_event: bool,
}

impl Default for InspectorDefinition {
    fn default() -> Self {
        Self {
            responses: ResponseScript::always(200),
            delay: Duration::ZERO,
            retry_after_s: None,
            headers: BTreeMap::new(),
            body: String::new(),
            per_event: false,
        }
    }
}

impl InspectorDefinition {
    /// Returns the response to a delivery. It depends on `attempts`, the earlier attempts of the same event, if
    /// `per_event` is true, else on `turn`, the number of earlier deliveries.
    pub fn response(&self, turn: u32, attempts: u32) -> ScriptedResponse {
        if self.per_event {
            self.responses.response(attempts)
        } else {
            self.responses.response(turn)
        }
    }
}

/// An inspector as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspector {
    pub name: InspectorName,
    pub definition: InspectorDefinition,
    /// Deliveries responded to since the script was written.
    pub turn: u32,
    /// Number of requests received so far, which is also the number of the newest one.
    pub received: u64,
    /// Requests that are stored.
    pub kept: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A request to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectorRequest {
    pub received_at: Timestamp,
    pub method: String,
    /// Without the query, which may hold a secret.
    pub path: String,
    /// Without credentials.
    pub headers: Vec<(String, String)>,
    /// Bytes of the body.
    pub bytes: usize,
    /// The beginning of the body.
    pub body_start: Vec<u8>,
    /// The kind of handshake that the request belongs to; `None` for a delivery.
    pub handshake: Option<&'static str>,
    /// The number of events in the request. `event_id` and `event_type` are those of the first event.
    pub events: usize,
    pub event_id: Option<String>,
    pub event_type: Option<String>,
    /// The result of checking the signature of the request; `None` if no signature is expected.
    pub signature: Option<String>,
    /// Earlier attempts of the same event, as the sender says.
    pub attempts: u32,
}

/// A recorded request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectedRequest {
    /// The number of the request, from 1, in the order of arrival.
    pub number: u64,
    pub received_at: Timestamp,
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub bytes: u64,
    pub body_start: Vec<u8>,
    pub handshake: Option<String>,
    pub events: u64,
    pub event_id: Option<String>,
    pub event_type: Option<String>,
    pub signature: Option<String>,
    /// The response, in the notation of response scripts.
    pub response: String,
}

impl InspectorName {
    /// The URL that subscriptions deliver to.
    pub fn url(&self) -> String {
        format!("https://{INSPECTOR_HOST}/{}", self.key())
    }

    /// Returns the name of the inspector of a URL: the first segment of the path. The rest of the path has no meaning.
    pub fn of_url(url: &Url) -> Option<Self> {
        if url.host_str() != Some(INSPECTOR_HOST) {
            return None;
        }
        Self::parse(url.path_segments()?.next()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_its_inspector_and_no_other_host_does() {
        for (url, name) in [
            ("https://inspector.everpost.internal/orders", Some("orders")),
            (
                "http://INSPECTOR.everpost.internal/Orders/x?a=b",
                Some("orders"),
            ),
            ("https://inspector.everpost.internal/", None),
            ("https://inspector.everpost.internal/a_b", None),
            (
                "https://inspector.everpost.internal.evil.example/orders",
                None,
            ),
            (
                "https://evil.example/inspector.everpost.internal/orders",
                None,
            ),
            ("https://127.0.0.1/orders", None),
        ] {
            let parsed: Url = url.parse().expect(url);
            let found = InspectorName::of_url(&parsed).map(|name| name.key());
            assert_eq!(found.as_deref(), name, "{url}");
        }
        let name = InspectorName::parse("Orders").expect("a name");
        assert_eq!(name.url(), "https://inspector.everpost.internal/orders");
        let url = name.url().parse().expect("a URL");
        assert_eq!(InspectorName::of_url(&url), Some(name));
    }

    #[test]
    fn the_script_goes_by_requests_or_by_the_attempts_of_an_event() {
        let mut definition = InspectorDefinition {
            responses: "503 200".parse().expect("a script"),
            ..InspectorDefinition::default()
        };
        assert_eq!(definition.response(1, 0), ScriptedResponse::Status(200));
        definition.per_event = true;
        assert_eq!(definition.response(1, 0), ScriptedResponse::Status(503));
        assert_eq!(definition.response(0, 1), ScriptedResponse::Status(200));
    }
}
