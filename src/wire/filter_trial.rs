//! Trials of filters as JSON: what is to be tried, and what was found (an extension).

use serde::Deserialize;
use serde_json::{Value, json};

use crate::base::Timestamp;
use crate::model::event::EventKey;
use crate::model::filter::Filter;
use crate::model::filter_trial::{Sample, SampleCount, TrialFindings};
use crate::model::limits::{TRIAL_EVENTS, TRIAL_EVENTS_MAX};
use crate::model::name::SubscriptionName;
use crate::model::registry::TopicEntry;
use crate::wire::explanation::{invalid, read, render_part};
use crate::wire::resource::{InvalidResource, parse_filter};

/// What is to be tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialRequest {
    pub filter: Filter,
    /// Events to try it on, the newest.
    pub last: usize,
    /// Whose filter it is compared with.
    pub subscription: Option<SubscriptionName>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Body {
    filter: Option<Value>,
    last: Option<Value>,
    event_subscription: Option<Value>,
}

/// Reads `{"filter": {…}, "last": 1000, "eventSubscription": "billing"}`; the filter is written as in an
/// event subscription of `topic`.
pub fn parse(topic: &TopicEntry, body: &[u8]) -> Result<TrialRequest, InvalidResource> {
    let body: Body = read(body)?;
    Ok(TrialRequest {
        filter: proposed(topic, body.filter.as_ref())?,
        last: last(body.last.as_ref())?,
        subscription: body
            .event_subscription
            .as_ref()
            .map(subscription)
            .transpose()?,
    })
}

fn proposed(topic: &TopicEntry, given: Option<&Value>) -> Result<Filter, InvalidResource> {
    let Some(filter @ Value::Object(_)) = given else {
        let problem = "it must be an object as in an event subscription; {} matches every event";
        return Err(invalid("filter", problem));
    };
    parse_filter(topic.filter_dialect(), filter).map_err(|invalid| invalid.inside("filter"))
}

fn subscription(given: &Value) -> Result<SubscriptionName, InvalidResource> {
    let name = given.as_str().map(SubscriptionName::parse);
    let invalid = |problem: String| invalid("eventSubscription", problem);
    match name {
        Some(Ok(name)) => Ok(name),
        Some(Err(error)) => Err(invalid(error.to_string())),
        None => Err(invalid(format!(
            "it must be the name of an event subscription, not {given}"
        ))),
    }
}

fn last(given: Option<&Value>) -> Result<usize, InvalidResource> {
    let Some(given) = given else {
        return Ok(TRIAL_EVENTS);
    };
    let number = given
        .as_u64()
        .and_then(|number| usize::try_from(number).ok());
    let number = number.filter(|number| (1..=TRIAL_EVENTS_MAX).contains(number));
    number.ok_or_else(|| {
        let problem = format!("it must be a number from 1 to {TRIAL_EVENTS_MAX}, not {given}");
        invalid("last", problem)
    })
}

/// Writes what was found; `is_complete` says whether time sufficed for all of the events.
pub fn render(request: &TrialRequest, findings: &TrialFindings, is_complete: bool) -> Value {
    let render_tally = |tally: &SampleCount| render_tally(&request.filter, tally);
    let comparison = findings.comparison.as_ref().map(|comparison| {
        json!({
            "eventSubscription": request.subscription.as_ref().map(SubscriptionName::as_str),
            "matched": comparison.current_matched,
            "newlyMatched": render_tally(&comparison.newly_matched),
            "noLongerMatched": render_tally(&comparison.no_longer_matched),
        })
    });
    json!({
        "tried": findings.tried(),
        "complete": is_complete,
        "oldest": findings.oldest.map(render_oldest),
        "matched": render_tally(&findings.matched),
        "unmatched": render_tally(&findings.unmatched),
        "comparedWith": comparison,
    })
}

fn render_oldest((key, received_at): (EventKey, Timestamp)) -> Value {
    json!({ "key": key.0, "receivedAt": received_at.to_string() })
}

fn render_tally(filter: &Filter, tally: &SampleCount) -> Value {
    let samples = tally.samples.iter();
    let samples: Vec<Value> = samples
        .map(|sample| render_sample(filter, sample))
        .collect();
    json!({ "count": tally.count, "samples": samples })
}

fn render_sample(filter: &Filter, sample: &Sample) -> Value {
    json!({
        "key": sample.key.0,
        "receivedAt": sample.received_at.to_string(),
        "id": sample.id,
        "eventType": sample.event_type,
        "subject": sample.subject,
        "failed": sample.failed.as_ref().map(|part| render_part(filter, part)),
    })
}
