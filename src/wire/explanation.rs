//! Why an event subscription gets an event, or does not, as JSON: questions and answers (extensions).

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::base::{Entropy, Timestamp};
use crate::model::delivery::DeliveryId;
use crate::model::event::{Event, EventKey};
use crate::model::explanation::Explanation;
use crate::model::filter::{Filter, FilterPart, PartResult};
use crate::model::registry::TopicEntry;
use crate::model::subscription::{Disabled, EventSubscription, SkipReason};
use crate::wire::bad_input::{BadInput, shortened};
use crate::wire::decode_one;
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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct QuestionBody<'a> {
    event_id: Option<Value>,
    #[serde(borrow)]
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
            let schema = &topic.topic.definition.input_schema;
            let event = decode_one(schema, &topic.resource_id, event.get(), now, entropy);
            let event = event.map_err(|problem| in_event(&problem))?;
            Ok(Question::Pasted(Box::new(event)))
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

/// Writes an explanation; `deliveries` are those of the event to the subscription, if it is stored.
pub fn render(
    topic: &TopicEntry,
    asked: Asked<'_>,
    explanation: &Explanation,
    deliveries: &[DeliveryId],
) -> Value {
    let filter = &explanation.subscription.definition.filter;
    let parts = explanation.verdict.parts.iter();
    json!({
        "topic": topic.topic.name.as_str(),
        "eventSubscription": explanation.subscription.name.as_str(),
        "eventKey": asked.key.map(|key| key.0),
        "eventId": asked.event.id,
        "eventType": asked.event.event_type,
        "subject": asked.event.subject,
        "matched": explanation.matched(),
        "reason": reason(explanation),
        "clauses": parts.map(|part| render_part(filter, part)).collect::<Value>(),
        "changedSinceEvent": explanation.changed_since,
        "deliveries": deliveries.iter().map(|id| id.0).collect::<Vec<_>>(),
    })
}

/// One part of a filter and how an event fares with it.
pub(super) fn render_part(filter: &Filter, part: &PartResult) -> Value {
    let mut value = match part.part {
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
    };
    value["clause"] = json!(part.part.to_string());
    value["wanted"] = json!(part.wanted);
    value["saw"] = json!(part.saw);
    value["held"] = json!(part.holds);
    if let Some(remark) = part.remark {
        value["remark"] = json!(remark);
    }
    value
}

/// Why the subscription does not get the event; `null` if it does.
fn reason(explanation: &Explanation) -> Value {
    match (why_not(explanation), explanation.abstains) {
        (None, _) => Value::Null,
        (Some(message), Some(abstention)) => {
            json!({ "code": abstention.name(), "message": message })
        }
        (Some(message), None) => json!({ "code": "FilterNotMatched", "message": message }),
    }
}

/// Why the subscription does not get the event, for people; `None` if it does.
pub fn why_not(explanation: &Explanation) -> Option<String> {
    let failed = explanation.verdict.first_failed().map(unmet);
    match explanation.abstains {
        None => failed,
        Some(abstention) => {
            let cause = cause(&explanation.subscription, abstention);
            let filter = failed.unwrap_or_else(|| "Its filter wants the event.".to_owned());
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
            "The destination has not agreed to receive events; its validation stands at {}.",
            state.name()
        ),
        SkipReason::Disabled(Disabled::ByOperator) => {
            "The event subscription is disabled.".to_owned()
        }
        SkipReason::Disabled(Disabled::Gone { at }) => {
            format!("The event subscription is disabled since its receiver answered 410 at {at}.")
        }
        SkipReason::Expired => "The event subscription had expired.".to_owned(),
    }
}

/// What a part of a filter misses in an event that does not pass it, for people.
pub fn unmet(failed: &PartResult) -> String {
    let remark = failed.remark.map(|remark| format!(" ({remark})"));
    format!(
        "The filter wants {} ({}), but the event has {}{}.",
        failed.wanted,
        failed.part,
        failed.saw_or_nothing(),
        remark.unwrap_or_default()
    )
}
