//! Pull delivery over HTTP (rule N5): paths, parameters, request bodies and responses.

use std::collections::HashSet;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::model::event::StoredEvent;
use crate::model::lease::{BadToken, LockError, LockToken, ReceiverAction};
use crate::model::limits::{
    PULL_WAIT, RECEIVE_EVENTS, RECEIVE_WAIT_SECONDS, RELEASE_DELAYS_S, SETTLED_LOCKS_MAX,
};
use crate::wire::bad_input::quoted;
use crate::wire::cloud_events;
use crate::wire::error_body::ErrorDetail;
use crate::wire::json::{AtMost, ObjectWriter};
use crate::wire::service_bus::readable::readable_stored;

/// An operation of the pull protocol on an event subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullOperation {
    Receive,
    Acknowledge,
    Release,
    Reject,
    RenewLock,
}

impl PullOperation {
    const ALL: [(&'static str, Self); 5] = [
        ("receive", Self::Receive),
        ("acknowledge", Self::Acknowledge),
        ("release", Self::Release),
        ("reject", Self::Reject),
        ("renewLock", Self::RenewLock),
    ];
}

/// Returns the paths of all operations, with placeholders for names in braces.
pub fn paths() -> impl Iterator<Item = String> {
    let topics = ["/topics/{topic}", "/namespaces/{namespace}/topics/{topic}"];
    topics.into_iter().flat_map(|topic| {
        PullOperation::ALL.map(|(word, _)| format!("{topic}/eventsubscriptions/{{name}}:{word}"))
    })
}

/// The address `[/namespaces/{namespace}]/topics/{topic}/eventsubscriptions/{subscription}:{operation}`. The fixed
/// words are case-insensitive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullAddress {
    pub namespace: Option<String>,
    pub topic: String,
    pub subscription: String,
    pub operation: PullOperation,
}

impl PullAddress {
    /// Parses `path`. Returns `None` for a path that is not one of pull delivery.
    pub fn parse(path: &str) -> Option<Self> {
        let (above, last) = path.rsplit_once('/')?;
        let last = decoded(last);
        let (subscription, word) = last.rsplit_once(':')?;
        let mut operations = PullOperation::ALL.into_iter();
        let (_, operation) = operations.find(|(name, _)| name.eq_ignore_ascii_case(word))?;
        let parts: Vec<&str> = above.strip_prefix('/')?.split('/').collect();
        let is = |word: &str, part: &str| word.eq_ignore_ascii_case(part);
        let (namespace, topic) = match parts.as_slice() {
            [topics, topic, last] if is("topics", topics) && is("eventsubscriptions", last) => {
                (None, *topic)
            }
            [namespaces, namespace, topics, topic, last]
                if is("namespaces", namespaces)
                    && is("topics", topics)
                    && is("eventsubscriptions", last) =>
            {
                (Some(*namespace), *topic)
            }
            _ => return None,
        };
        Some(Self {
            namespace: namespace.map(decoded),
            topic: decoded(topic),
            subscription: subscription.to_owned(),
            operation,
        })
    }
}

fn decoded(part: &str) -> String {
    percent_decode_str(part).decode_utf8_lossy().into_owned()
}

/// A fault in a request to receive or to settle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPull {
    #[error("the parameter {name} must be {expected}, not {found}")]
    Parameter {
        name: &'static str,
        expected: String,
        found: String,
    },
    #[error("the body must be an object such as {{\"lockTokens\":[\"…\"]}}: {0}")]
    Body(String),
    #[error("lockTokens must have 1 to {SETTLED_LOCKS_MAX} tokens, not 0")]
    NoToken,
}

/// Parses `maxEvents`, the maximum number of events to receive.
pub fn max_events(text: Option<&str>) -> Result<usize, InvalidPull> {
    let (least, most) = RECEIVE_EVENTS.into_inner();
    match text.map(str::parse) {
        None => Ok(least),
        Some(Ok(count)) if RECEIVE_EVENTS.contains(&count) => Ok(count),
        Some(_) => Err(invalid("maxEvents", format!("{least} to {most}"), text)),
    }
}

/// Parses `maxWaitTime`, the maximum time to wait for the first event.
pub fn max_wait(text: Option<&str>) -> Result<Duration, InvalidPull> {
    let (least, most) = RECEIVE_WAIT_SECONDS.into_inner();
    match text.map(str::parse) {
        None => Ok(PULL_WAIT),
        Some(Ok(seconds)) if RECEIVE_WAIT_SECONDS.contains(&seconds) => {
            Ok(Duration::from_secs(seconds))
        }
        Some(_) => {
            let expected = format!("{least} to {most} seconds");
            Err(invalid("maxWaitTime", expected, text))
        }
    }
}

/// Parses `releaseDelayInSeconds`, the delay before a released event is available again.
pub fn release_delay(text: Option<&str>) -> Result<Duration, InvalidPull> {
    match text.map(str::parse) {
        None => Ok(Duration::ZERO),
        Some(Ok(seconds)) if RELEASE_DELAYS_S.contains(&seconds) => {
            Ok(Duration::from_secs(seconds))
        }
        Some(_) => {
            let expected = "0, 10, 60, 600 or 3600".to_owned();
            Err(invalid("releaseDelayInSeconds", expected, text))
        }
    }
}

fn invalid(name: &'static str, expected: String, found: Option<&str>) -> InvalidPull {
    InvalidPull::Parameter {
        name,
        expected,
        found: quoted(found.unwrap_or_default()),
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "LockTokens")]
pub struct TokensBody {
    #[schemars(with = "Vec<String>", length(min = 1, max = SETTLED_LOCKS_MAX))]
    lock_tokens: AtMost<String, SETTLED_LOCKS_MAX>,
}

/// Returns the lock tokens in the body of a request to settle, unchanged and without duplicates.
pub fn lock_tokens(body: &[u8]) -> Result<Vec<String>, InvalidPull> {
    let body: TokensBody =
        serde_json::from_slice(body).map_err(|error| InvalidPull::Body(error.to_string()))?;
    let (AtMost(mut tokens), mut named) = (body.lock_tokens, HashSet::new());
    if tokens.is_empty() {
        return Err(InvalidPull::NoToken);
    }
    tokens.retain(|token| named.insert(token.clone()));
    Ok(tokens)
}

/// Encodes a lock token for receivers.
pub fn token_to_text(token: LockToken) -> String {
    STANDARD.encode(token.as_bytes())
}

/// Decodes a lock token that [`token_to_text`] has encoded.
pub fn token_from_text(text: &str) -> Result<LockToken, BadToken> {
    let bytes = STANDARD.decode(text).map_err(|_| BadToken)?;
    let token = bytes.try_into().map_err(|_| BadToken)?;
    Ok(LockToken::from_bytes(token))
}

/// An event that is locked by a receiver.
#[derive(Clone, Copy, Debug)]
pub struct LockedEvent<'a> {
    pub token: LockToken,
    /// The number of this delivery, counted from 1.
    pub delivery_count: u32,
    pub event: &'a StoredEvent,
}

/// The response to `receive`: structured CloudEvents, whose data is copied byte for byte.
pub struct ReceivedBody {
    out: Vec<u8>,
    is_empty: bool,
}

impl Default for ReceivedBody {
    fn default() -> Self {
        Self {
            out: b"{\"value\":[".to_vec(),
            is_empty: true,
        }
    }
}

impl ReceivedBody {
    /// Adds an event that was published to the topic.
    pub fn add(&mut self, topic_resource_id: &str, received: &LockedEvent<'_>) {
        if !std::mem::take(&mut self.is_empty) {
            self.out.push(b',');
        }
        let mut event = Vec::with_capacity(received.event.event.size() + 256);
        let readable = readable_stored(received.event);
        cloud_events::write(&mut event, topic_resource_id, &readable);
        let properties = json!({
            "lockToken": token_to_text(received.token),
            "deliveryCount": received.delivery_count,
        });
        let mut object = ObjectWriter::open(&mut self.out);
        object.raw("brokerProperties", &properties.to_string());
        object.raw("event", &String::from_utf8_lossy(&event));
        object.close();
    }

    /// Completes the body and returns it.
    pub fn finish(mut self) -> Vec<u8> {
        self.out.extend_from_slice(b"]}");
        self.out
    }
}

/// The reason why the operation on a lock token failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenFailure {
    Bad,
    Rejected(LockError),
}

impl TokenFailure {
    fn code(self) -> &'static str {
        match self {
            Self::Bad => "BadToken",
            Self::Rejected(
                LockError::LockLost
                | LockError::IsDeadLetter
                | LockError::TooManyProperties
                | LockError::QuotaExceeded
                | LockError::HeldLongEnough,
            ) => "TokenLost",
        }
    }

    fn message(self) -> String {
        match self {
            Self::Bad => "The token is not one that was received.".to_owned(),
            Self::Rejected(LockError::LockLost) => "Token has expired.".to_owned(),
            Self::Rejected(
                rejection @ (LockError::IsDeadLetter
                | LockError::TooManyProperties
                | LockError::QuotaExceeded
                | LockError::HeldLongEnough),
            ) => {
                let sentence = rejection.to_string();
                let (first, rest) = sentence.split_at(1);
                format!("{}{rest}.", first.to_uppercase())
            }
        }
    }
}

/// The result for each token: the answer to everything but `receive`.
#[derive(Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SettledLockTokens")]
pub struct SettledTokens {
    succeeded_lock_tokens: Vec<String>,
    failed_lock_tokens: Vec<FailedToken>,
}

/// In the first preview of the protocol the error is flat.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "FailedLockToken")]
struct FailedToken {
    lock_token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorDetail>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_description: Option<String>,
}

impl SettledTokens {
    pub fn succeeded(&mut self, token: String) {
        self.succeeded_lock_tokens.push(token);
    }

    pub fn failed(&mut self, lock_token: String, code: &str, message: String, is_flat: bool) {
        let code = code.to_owned();
        let (error, flat) = if is_flat {
            (None, Some((code, message)))
        } else {
            (
                Some(ErrorDetail {
                    code,
                    message,
                    target: None,
                }),
                None,
            )
        };
        let (error_code, error_description) = flat.unzip();
        self.failed_lock_tokens.push(FailedToken {
            lock_token,
            error,
            error_code,
            error_description,
        });
    }
}

/// Renders the response with the result for each lock token.
pub fn render_settled(
    settled: Vec<(String, Result<(), TokenFailure>)>,
    has_flat_errors: bool,
) -> SettledTokens {
    let mut answer = SettledTokens::default();
    for (token, outcome) in settled {
        match outcome {
            Ok(()) => answer.succeeded(token),
            Err(failure) => {
                answer.failed(token, failure.code(), failure.message(), has_flat_errors);
            }
        }
    }
    answer
}

/// Returns the settlement that an operation requests; `None` for `receive`.
pub fn action(
    operation: PullOperation,
    delay: Option<&str>,
) -> Result<Option<ReceiverAction>, InvalidPull> {
    Ok(match operation {
        PullOperation::Receive => None,
        PullOperation::Acknowledge => Some(ReceiverAction::Acknowledge),
        PullOperation::Release => Some(ReceiverAction::Release {
            delay: release_delay(delay)?,
        }),
        PullOperation::Reject => Some(ReceiverAction::Reject),
        PullOperation::RenewLock => Some(ReceiverAction::RenewLock),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Entropy;

    #[test]
    fn addresses_are_read_in_any_letter_case() {
        let address = |namespace: Option<&str>, operation| {
            Some(PullAddress {
                namespace: namespace.map(str::to_owned),
                topic: "Orders".to_owned(),
                subscription: "billing".to_owned(),
                operation,
            })
        };
        for (path, expected) in [
            (
                "/topics/Orders/eventsubscriptions/billing:receive",
                address(None, PullOperation::Receive),
            ),
            (
                "/Topics/Orders/EventSubscriptions/billing:RENEWLOCK",
                address(None, PullOperation::RenewLock),
            ),
            (
                "/namespaces/shop/topics/Orders/eventSubscriptions/billing%3Areject",
                address(Some("shop"), PullOperation::Reject),
            ),
            ("/topics/Orders/eventsubscriptions/billing", None),
            ("/topics/Orders/eventsubscriptions/billing:publish", None),
            ("/topics/Orders:publish", None),
            (
                "/a/b/topics/Orders/eventsubscriptions/billing:receive",
                None,
            ),
            (":receive", None),
        ] {
            assert_eq!(PullAddress::parse(path), expected, "{path}");
        }
    }

    #[test]
    fn paths_that_are_told_are_addresses() {
        let addresses: Vec<_> = paths()
            .filter_map(|path| PullAddress::parse(&path))
            .collect();
        assert_eq!(addresses.len(), 2 * PullOperation::ALL.len());
        assert!(addresses.iter().all(|each| each.subscription == "{name}"));
    }

    #[test]
    fn parameters_have_defaults_and_bounds() {
        assert_eq!(max_events(None), Ok(1));
        assert_eq!(max_events(Some("100")), Ok(100));
        assert_eq!(max_wait(None), Ok(Duration::from_secs(60)));
        assert_eq!(max_wait(Some("10")), Ok(Duration::from_secs(10)));
        assert_eq!(max_wait(Some("120")), Ok(Duration::from_secs(120)));
        assert_eq!(release_delay(None), Ok(Duration::ZERO));
        for seconds in [0, 10, 60, 600, 3_600] {
            let read = release_delay(Some(&seconds.to_string()));
            assert_eq!(read, Ok(Duration::from_secs(seconds)));
        }
        for text in ["0", "101", "-1", "x", ""] {
            let error = max_events(Some(text)).expect_err(text).to_string();
            let expected = format!("the parameter maxEvents must be 1 to 100, not {text:?}");
            assert_eq!(error, expected);
        }
        for text in ["9", "121", "1.5", "x"] {
            let error = max_wait(Some(text)).expect_err(text).to_string();
            assert!(
                error.contains("maxWaitTime must be 10 to 120 seconds"),
                "{error}"
            );
        }
        for text in ["1", "61", "-10", "x"] {
            let error = release_delay(Some(text)).expect_err(text).to_string();
            assert!(error.contains("must be 0, 10, 60, 600 or 3600"), "{error}");
        }
    }

    #[test]
    fn tokens_are_opaque_and_come_back() {
        let token = LockToken::generate(&Entropy::seeded(1));
        let text = token_to_text(token);
        assert_eq!(token_from_text(&text), Ok(token));
        for text in ["", "x", "AAAA", &text[1..], &token.to_string()] {
            assert_eq!(token_from_text(text), Err(BadToken), "{text}");
        }
    }

    #[test]
    fn bodies_name_tokens_within_bounds() {
        assert_eq!(
            lock_tokens(br#"{"lockTokens":["a","b","a"]}"#),
            Ok(vec!["a".to_owned(), "b".to_owned()])
        );
        assert_eq!(
            lock_tokens(br#"{"lockTokens":[]}"#),
            Err(InvalidPull::NoToken)
        );
        let tokens = |count| (0..count).map(|number| number.to_string());
        let body = |count| json!({ "lockTokens": tokens(count).collect::<Vec<_>>() }).to_string();
        let most = lock_tokens(body(SETTLED_LOCKS_MAX).as_bytes()).expect("tokens");
        assert_eq!(most.len(), SETTLED_LOCKS_MAX);
        // What stands behind them is not read.
        let more = body(SETTLED_LOCKS_MAX + 1).replace("]}", ",no JSON");
        let error = lock_tokens(more.as_bytes()).expect_err("one too many");
        let said = error.to_string();
        assert!(said.contains("at most 1000 elements"), "{said}");
        for body in ["", "[]", "{}", r#"{"lockTokens":[1]}"#] {
            let error = lock_tokens(body.as_bytes()).expect_err(body);
            assert!(matches!(error, InvalidPull::Body(_)), "{error}");
        }
    }
}
