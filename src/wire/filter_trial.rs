//! Trials of filters as JSON: what is to be tried, and what was found (an extension).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::base::Timestamp;
use crate::model::filter::Filter;
use crate::model::filter_trial::{Sample, SampleCount, TrialFindings};
use crate::model::limits::{TRIAL_EVENTS, TRIAL_EVENTS_MAX};
use crate::model::name::SubscriptionName;
use crate::model::registry::TopicEntry;
use crate::wire::explanation::{ShownPart, invalid, read};
use crate::wire::resource::{InvalidResource, parse_filter};

/// A request to try a filter on events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialRequest {
    pub filter: Filter,
    /// The number of events to try it on, which are the newest ones.
    pub last: usize,
    /// The event subscription with whose filter it is compared.
    pub subscription: Option<SubscriptionName>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "FilterTrialRequest")]
pub struct TrialBody {
    #[schemars(with = "Map<String, Value>")]
    filter: Option<Value>,
    /// Events to try it on, the newest.
    #[schemars(with = "Option<u32>", range(min = 1, max = TRIAL_EVENTS_MAX))]
    #[schemars(extend("default" = TRIAL_EVENTS))]
    last: Option<Value>,
    /// Whose filter it is compared with.
    #[schemars(with = "Option<String>")]
    event_subscription: Option<Value>,
}

/// Reads `{"filter": {…}, "last": 1000, "eventSubscription": "billing"}`; the filter is written as in an
/// event subscription of `topic`.
pub fn parse(topic: &TopicEntry, body: &[u8]) -> Result<TrialRequest, InvalidResource> {
    let body: TrialBody = read(body)?;
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
        .and_then(|number| usize::try_from(number).ok())
        .filter(|number| (1..=TRIAL_EVENTS_MAX).contains(number));
    number.ok_or_else(|| {
        let problem = format!("it must be a number from 1 to {TRIAL_EVENTS_MAX}, not {given}");
        invalid("last", problem)
    })
}

/// The result of trying a filter on events.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "FilterTrial")]
pub struct ShownTrial {
    tried: usize,
    /// Time sufficed for all of the events.
    complete: bool,
    oldest: Option<OldestTried>,
    matched: ShownCount,
    unmatched: ShownCount,
    compared_with: Option<ShownComparison>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct OldestTried {
    key: i64,
    received_at: Timestamp,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct ShownComparison {
    event_subscription: Option<String>,
    matched: usize,
    newly_matched: ShownCount,
    no_longer_matched: ShownCount,
}

/// How many events, and some of them.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FilterTally")]
struct ShownCount {
    count: usize,
    samples: Vec<ShownSample>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct ShownSample {
    key: i64,
    received_at: Timestamp,
    id: String,
    event_type: String,
    subject: Option<String>,
    /// The part of the filter that decides.
    failed: Option<ShownPart>,
}

impl ShownTrial {
    /// `is_complete` says whether time sufficed for all of the events.
    pub fn new(request: &TrialRequest, findings: &TrialFindings, is_complete: bool) -> Self {
        let counted = |count: &SampleCount| ShownCount::new(&request.filter, count);
        let comparison = findings.comparison.as_ref();
        Self {
            tried: findings.tried(),
            complete: is_complete,
            oldest: findings.oldest.map(|(key, received_at)| OldestTried {
                key: key.0,
                received_at,
            }),
            matched: counted(&findings.matched),
            unmatched: counted(&findings.unmatched),
            compared_with: comparison.map(|comparison| ShownComparison {
                event_subscription: request.subscription.as_ref().map(ToString::to_string),
                matched: comparison.current_matched,
                newly_matched: counted(&comparison.newly_matched),
                no_longer_matched: counted(&comparison.no_longer_matched),
            }),
        }
    }
}

impl ShownCount {
    fn new(filter: &Filter, count: &SampleCount) -> Self {
        let samples = count.samples.iter();
        Self {
            count: count.count,
            samples: samples
                .map(|sample| ShownSample::new(filter, sample))
                .collect(),
        }
    }
}

impl ShownSample {
    fn new(filter: &Filter, sample: &Sample) -> Self {
        let failed = sample.failed.as_ref();
        Self {
            key: sample.key.0,
            received_at: sample.received_at,
            id: sample.id.clone(),
            event_type: sample.event_type.clone(),
            subject: sample.subject.clone(),
            failed: failed.map(|part| ShownPart::new(filter, part)),
        }
    }
}
