//! Why an event subscription gets an event, or does not, as JSON: questions and answers (extensions).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::base::{Entropy, Timestamp};
use crate::model::delivery::DeliveryId;
use crate::model::event::{Event, EventKey};
use crate::model::explanation::Explanation;
use crate::model::filter::{Filter, FilterPart, Operator, PartResult};
use crate::model::registry::TopicEntry;
use crate::model::subscription::{Disabled, EventSubscription, SkipReason};
use crate::wire::bad_input::{BadInput, shortened};
use crate::wire::decode_one;
use crate::wire::error_body::ErrorDetail;
use crate::wire::resource::{InvalidResource, render_clause};

/// Which event is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// A stored one, by its number.
    Stored(EventKey),
    /// The newest stored one with the publisher's id.
    Published(String),
    /// One that need never have been published.
    Pasted(Box<Event>),
}

/// An event that was asked about.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub event: &'a Event,
    /// Present if it is stored.
    pub key: Option<EventKey>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Question")]
pub struct QuestionBody<'a> {
    /// The number of a stored event, or the id that its publisher gave it.
    event_id: Option<Value>,
    /// An event in the topic's input schema, in the place of `eventId`.
    #[serde(borrow)]
    #[schemars(with = "Option<Value>")]
    event: Option<&'a RawValue>,
}

/// Reads `{"eventId": 12}`, `{"eventId": "a-1"}` or `{"event": {…}}`, the event in the input schema of
/// `topic`.
pub fn parse_question(
    topic: &TopicEntry,
    body: &[u8],
    now: Timestamp,
    entropy: &Entropy,
) -> Result<Question, InvalidResource> {
    let body: QuestionBody<'_> = read(body)?;
    match (body.event_id, body.event) {
        (Some(Value::String(id)), None) => Ok(Question::Published(id)),
        (Some(Value::Number(number)), None) if number.is_i64() => {
            let key = number.as_i64().unwrap_or_default();
            Ok(Question::Stored(EventKey(key)))
        }
        (Some(other), None) => {
            let found = shortened(&other.to_string());
            let expected = "the number of a stored event or the id that its publisher gave it";
            Err(invalid(
                "eventId",
                format!("it must be {expected}, not {found}"),
            ))
        }
        (None, Some(event)) => {
            let schema = topic.topic.kind.input_schema();
            let pasted = decode_one(schema, &topic.resource_id, event.get(), now, entropy)
                .map_err(|problem| in_event(&problem))?;
            Ok(Question::Pasted(Box::new(pasted)))
        }
        (Some(_), Some(_)) => Err(invalid("event", "it excludes eventId; send one of them")),
        (None, None) => Err(invalid(
            "eventId",
            "it is missing; send it, or an event as event",
        )),
    }
}

/// Reads a body of known members alone.
pub(super) fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, InvalidResource> {
    serde_json::from_slice(body)
        .map_err(|error| invalid("", format!("the request body is not as expected: {error}")))
}

pub(super) fn invalid(path: &str, problem: impl Into<String>) -> InvalidResource {
    InvalidResource::of(path, problem)
}

fn in_event(input: &BadInput) -> InvalidResource {
    match &input.field {
        Some(field) => invalid(&format!("event.{field}"), &input.problem),
        None => invalid("event", &input.problem),
    }
}

/// The answer whether an event subscription gets an event, with the reason.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Explanation")]
pub struct ShownExplanation {
    topic: String,
    event_subscription: String,
    event_key: Option<i64>,
    event_id: String,
    event_type: String,
    subject: Option<String>,
    matched: bool,
    /// The reason that it does not match.
    reason: Option<ErrorDetail>,
    clauses: Vec<ShownPart>,
    /// The subscription was changed after the event.
    changed_since_event: bool,
    /// The deliveries that the event really has.
    deliveries: Vec<i64>,
}

/// One part of a filter and how an event fares with it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FilterPart")]
pub(super) struct ShownPart {
    clause: String,
    #[serde(flatten)]
    #[schemars(with = "Compared")]
    compared: Value,
    wanted: String,
    saw: Option<String>,
    held: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    remark: Option<&'static str>,
}

/// The key that a part of a filter looks at, and the values that it compares with.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "for the schema alone")]
struct Compared {
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    operator_type: Option<Operator>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<Vec<Value>>,
}

impl ShownExplanation {
    /// `deliveries` are those of the event to the subscription, if it is stored.
    pub fn new(
        topic: &TopicEntry,
        asked: Asked<'_>,
        explanation: &Explanation,
        deliveries: &[DeliveryId],
    ) -> Self {
        let filter = &explanation.subscription.definition.filter;
        let parts = explanation.verdict.parts.iter();
        Self {
            topic: topic.topic.name.to_string(),
            event_subscription: explanation.subscription.name.to_string(),
            event_key: asked.key.map(|key| key.0),
            event_id: asked.event.id.clone(),
            event_type: asked.event.event_type.clone(),
            subject: asked.event.subject.clone(),
            matched: explanation.matched(),
            reason: reason(explanation),
            clauses: parts.map(|part| ShownPart::new(filter, part)).collect(),
            changed_since_event: explanation.changed_since,
            deliveries: deliveries.iter().map(|id| id.0).collect(),
        }
    }
}

impl ShownPart {
    pub(super) fn new(filter: &Filter, part: &PartResult) -> Self {
        Self {
            clause: part.part.to_string(),
            compared: compared(filter, part),
            wanted: part.wanted.clone(),
            saw: part.saw.clone(),
            held: part.holds,
            remark: part.remark,
        }
    }
}

fn compared(filter: &Filter, part: &PartResult) -> Value {
    match part.part {
        FilterPart::IncludedEventTypes => {
            json!({ "key": "eventType", "values": filter.included_event_types })
        }
        FilterPart::SubjectBeginsWith => {
            json!({ "key": "subject", "value": filter.subject_begins_with.as_str() })
        }
        FilterPart::SubjectEndsWith => {
            json!({ "key": "subject", "value": filter.subject_ends_with.as_str() })
        }
        FilterPart::Advanced(index) | FilterPart::Configured(index) => {
            render_clause(&filter.advanced.clauses[index])
        }
    }
}

/// Why the subscription does not get the event; `None` if it does.
fn reason(explanation: &Explanation) -> Option<ErrorDetail> {
    let code = explanation
        .abstains
        .map_or("FilterNotMatched", SkipReason::name);
    Some(ErrorDetail {
        code: code.to_owned(),
        message: why_not(explanation)?,
        target: None,
    })
}

/// Why the subscription does not get the event, for people; `None` if it does.
pub fn why_not(explanation: &Explanation) -> Option<String> {
    let failed = explanation.verdict.first_failed().map(unmet);
    match explanation.abstains {
        None => failed,
        Some(abstention) => {
            let cause = cause(&explanation.subscription, abstention);
            let filter = failed.unwrap_or_else(|| "Its filter matches the event.".to_owned());
            Some(format!("{cause} {filter}"))
        }
    }
}

/// Why the subscription takes no events of that moment, whatever its filter says, for people.
pub fn cause(subscription: &EventSubscription, abstention: SkipReason) -> String {
    match abstention {
        SkipReason::CreatedLater => format!(
            "The event subscription was created after the event, at {}.",
            subscription.created_at
        ),
        SkipReason::NotValidated(state) => format!(
            "The endpoint has not passed validation ({}), so it gets no events.",
            state.name()
        ),
        SkipReason::Disabled(Disabled::ByOperator) => {
            "The event subscription is disabled.".to_owned()
        }
        SkipReason::Disabled(Disabled::Gone { at }) => {
            format!("The event subscription is disabled since its receiver answered 410 at {at}.")
        }
        SkipReason::Expired => "The event subscription had expired.".to_owned(),
        SkipReason::HasRules => {
            "Its Service Bus rules decide when a message is sent, and are not explained.".to_owned()
        }
    }
}

/// Describes, for people, why an event does not pass a part of a filter.
pub fn unmet(failed: &PartResult) -> String {
    let remark = failed.remark.map(|remark| format!(" ({remark})"));
    format!(
        "Wanted: {}. The event has {}{}.",
        failed.wanted,
        failed.saw_or_nothing(),
        remark.unwrap_or_default()
    )
}
