//! Requests that lock, settle, defer or renew many dead letters at once. The REST API of Service Bus has no such
//! requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::api::ApiState;
use crate::api::error::{ApiError, QUOTA_EXCEEDED};
use crate::api::lists::List;
use crate::api::memory::AnswerMemory;
use crate::base::Timestamp;
use crate::base::stint::Stint;
use crate::broker::{MessageReceiver, ReceiveRequest};
use crate::model::audit::{AuditAction, AuditTarget, Caller};
use crate::model::dead_letter::DeadLetterDetails;
use crate::model::lease::{
    BadToken, Disposition, LockChange, LockError, LockOf, LockToken, SubQueue,
};
use crate::model::limits::{
    DEAD_LETTER_TEXT_MAX, LOCK_DURATION, LOCK_SECONDS, LOCKS_PER_REQUEST_MAX,
};
use crate::model::name::{SubscriptionName, TopicName};
use crate::store::{LockSelection, Locked};
use crate::wire::json::AtMost;
use crate::wire::pull::SettledTokens;
use crate::wire::{self, Payload};

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ReceiveRequest")]
pub(crate) struct ReceiveRequestBody {
    topic: String,
    subscription: String,
    #[schemars(range(min = 1, max = LOCKS_PER_REQUEST_MAX), extend("default" = 1))]
    count: Option<usize>,
    /// The sequence numbers of deferred dead letters, if only these are wanted.
    #[schemars(with = "Option<Vec<i64>>", length(min = 1, max = LOCKS_PER_REQUEST_MAX))]
    sequence_numbers: Option<AtMost<i64, LOCKS_PER_REQUEST_MAX>>,
    #[schemars(range(min = *LOCK_SECONDS.start(), max = *LOCK_SECONDS.end()))]
    #[schemars(extend("default" = LOCK_DURATION.as_secs()))]
    lock_duration_in_seconds: Option<u64>,
}

/// `POST /everpost/deadLetters/receive`: locks dead letters of a subscription.
pub(crate) async fn receive(
    State(state): State<ApiState>,
    memory: AnswerMemory,
    body: Bytes,
) -> Result<Json<List<ShownLocked>>, ApiError> {
    let asked: ReceiveRequestBody = parse(&body)?;
    let topic = TopicName::parse(&asked.topic)?;
    let name = SubscriptionName::parse(&asked.subscription)?;
    let found = state.broker.subscription(&topic, &name)?;
    let receiver = MessageReceiver::of(&state.broker, found, SubQueue::DeadLetter);
    let lock = lock_duration(asked.lock_duration_in_seconds)?;
    let (which, limit) = match asked.sequence_numbers {
        None => (LockSelection::Due, asked.count.unwrap_or(1)),
        Some(AtMost(numbers)) => {
            let limit = numbers.len();
            (LockSelection::Deferred(numbers), limit)
        }
    };
    check_count("count, or of sequenceNumbers,", limit)?;
    let bytes_max = |limit| receiver.locked_bytes_max(limit);
    let request = ReceiveRequest {
        of: receiver.queue(),
        which,
        limit: memory.reserve_for(limit, bytes_max).await?,
        lock,
        session: None,
    };
    let locked = state.broker.receive(&request).await?;
    memory.note_read(locked.iter().map(Locked::bytes).sum());
    let schema = receiver.subscription.definition.delivery_schema;
    let mut stint = Stint::default();
    let mut shown = Vec::with_capacity(locked.len());
    for each in &locked {
        let payload = wire::encode_message(schema, &receiver.topic.resource_id, &each.event);
        let bytes = payload.body.len();
        shown.push(ShownLocked::new(each, raw(payload)));
        stint.did(bytes).await;
    }
    Ok(Json(shown.into_iter().collect()))
}

/// A dead letter that a receiver holds.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "LockedDeadLetter")]
pub(crate) struct ShownLocked {
    lock_token: String,
    locked_until: Timestamp,
    sequence_number: i64,
    delivery_count: u32,
    published_at: Timestamp,
    dead_lettered_at: Option<Timestamp>,
    dead_letter_reason: Option<String>,
    dead_letter_error_description: Option<String>,
    dead_letter_properties: Option<BTreeMap<String, String>>,
    deferred: bool,
    /// In the delivery schema of the event subscription, its data byte for byte.
    #[schemars(with = "Value")]
    event: Option<Box<RawValue>>,
}

fn raw(payload: Payload) -> Option<Box<RawValue>> {
    let text = String::from_utf8(payload.body).ok()?;
    RawValue::from_string(text).ok()
}

impl ShownLocked {
    fn new(locked: &Locked, event: Option<Box<RawValue>>) -> Self {
        let dead = locked.dead_letter.as_ref();
        let own = dead.map(|dead| &dead.details);
        let reason = own
            .and_then(|details| details.reason.as_deref())
            .or(dead.map(|dead| dead.reason.name()));
        let description = own
            .and_then(|details| details.description.as_deref())
            .or(dead.map(|dead| dead.reason.description()));
        Self {
            lock_token: locked.token.to_string(),
            locked_until: locked.until,
            sequence_number: locked.delivery.number,
            delivery_count: locked.delivery.attempts,
            published_at: locked.delivery.published_at,
            dead_lettered_at: dead.map(|dead| dead.at),
            dead_letter_reason: reason.map(str::to_owned),
            dead_letter_error_description: description.map(str::to_owned),
            dead_letter_properties: own.map(|own| own.properties.iter().cloned().collect()),
            deferred: locked.deferred,
            event,
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "SettleRequest")]
pub(crate) struct LocksBody {
    #[schemars(with = "Vec<String>", length(min = 1, max = LOCKS_PER_REQUEST_MAX))]
    lock_tokens: AtMost<String, LOCKS_PER_REQUEST_MAX>,
    /// With `renew`.
    #[schemars(range(min = *LOCK_SECONDS.start(), max = *LOCK_SECONDS.end()))]
    #[schemars(extend("default" = LOCK_DURATION.as_secs()))]
    lock_duration_in_seconds: Option<u64>,
    /// With `deadLetter`.
    #[schemars(length(max = DEAD_LETTER_TEXT_MAX))]
    dead_letter_reason: Option<String>,
    /// With `deadLetter`.
    #[schemars(length(max = DEAD_LETTER_TEXT_MAX))]
    dead_letter_error_description: Option<String>,
    /// With `deadLetter`.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    properties: serde_json::Map<String, Value>,
}

/// `POST /everpost/locks/{verb}`: settles or renews many locks. A rejected lock does not affect the others.
pub(crate) async fn settle(
    State(state): State<ApiState>,
    Path(verb): Path<String>,
    caller: Caller,
    body: Bytes,
) -> Result<Json<SettledTokens>, ApiError> {
    let asked: LocksBody = parse(&body)?;
    check_count("lockTokens", asked.lock_tokens.0.len())?;
    let tokens: Vec<Result<LockToken, BadToken>> = asked
        .lock_tokens
        .0
        .iter()
        .map(|text| text.parse())
        .collect();
    let disposition = match verb.as_str() {
        "complete" => Disposition::Complete,
        "abandon" => Disposition::Abandon,
        "defer" => Disposition::Defer,
        "deadLetter" => Disposition::DeadLetter(Arc::new(details(&asked)?)),
        "renew" => Disposition::Renew {
            lock_for: lock_duration(asked.lock_duration_in_seconds)?,
            within: None,
        },
        _ => {
            return Err(ApiError::not_found(format!(
                "Locks know no {verb:?}; they know complete, abandon, defer, deadLetter and renew."
            )));
        }
    };
    let audit = (verb == "complete").then(|| {
        let completed = AuditAction::CompleteDeadLetters { dead_letters: 0 };
        caller.did(completed, AuditTarget::appliance())
    });
    let known: Vec<LockToken> = tokens.iter().filter_map(|token| token.ok()).collect();
    let changes = known.iter().map(|token| LockChange {
        token: *token,
        of: LockOf::default(),
        disposition: disposition.clone(),
        properties: Arc::default(),
    });
    let ended = state.broker.settle_locks(changes.collect(), audit).await?;
    let mut answer = SettledTokens::default();
    for (text, token) in asked.lock_tokens.0.into_iter().zip(tokens) {
        let outcome = token.map_err(LockFault::from).and_then(|token| {
            let place = known.iter().position(|each| *each == token);
            let ended = place.map_or(Err(LockError::LockLost), |place| ended[place]);
            ended.map_err(LockFault::from)
        });
        match outcome {
            Ok(_) => answer.succeeded(text),
            Err(LockFault { code, message }) => answer.failed(text, code, message, false),
        }
    }
    Ok(Json(answer))
}

/// The error code (rule N5) and the error message of a rejected lock.
struct LockFault {
    code: &'static str,
    message: String,
}

impl From<BadToken> for LockFault {
    fn from(error: BadToken) -> Self {
        Self {
            code: "BadToken",
            message: error.to_string(),
        }
    }
}

impl From<LockError> for LockFault {
    fn from(rejection: LockError) -> Self {
        let code = match rejection {
            LockError::LockLost => "TokenLost",
            LockError::IsDeadLetter | LockError::TooManyProperties | LockError::HeldLongEnough => {
                "NotAllowed"
            }
            LockError::QuotaExceeded => QUOTA_EXCEEDED,
        };
        Self {
            code,
            message: rejection.to_string(),
        }
    }
}

fn details(asked: &LocksBody) -> Result<DeadLetterDetails, ApiError> {
    let properties = asked.properties.iter().map(|(name, value)| {
        let text = value.as_str().ok_or_else(|| {
            ApiError::bad_request(format!("The property {name:?} must be a text."))
        })?;
        Ok((name.clone(), text.to_owned()))
    });
    let details = DeadLetterDetails {
        reason: asked.dead_letter_reason.clone(),
        description: asked.dead_letter_error_description.clone(),
        properties: properties.collect::<Result<_, ApiError>>()?,
    };
    details
        .checked()
        .map_err(|error| ApiError::bad_request(error.to_string()))
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| {
        ApiError::bad_request(format!("The body is not what it should be: {error}."))
    })
}

fn check_count(what: &str, count: usize) -> Result<(), ApiError> {
    if (1..=LOCKS_PER_REQUEST_MAX).contains(&count) {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "The number of {what} must be 1 to {LOCKS_PER_REQUEST_MAX}, not {count}."
    )))
}

fn lock_duration(asked: Option<u64>) -> Result<Duration, ApiError> {
    match asked {
        None => Ok(LOCK_DURATION),
        Some(seconds) if LOCK_SECONDS.contains(&seconds) => Ok(Duration::from_secs(seconds)),
        Some(seconds) => Err(ApiError::bad_request(format!(
            "lockDurationInSeconds must be {} to {}, not {seconds}.",
            LOCK_SECONDS.start(),
            LOCK_SECONDS.end()
        ))),
    }
}
