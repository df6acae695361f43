//! Replay jobs and the targets of resubmissions, to the model and back. The documents are ours, not
//! Azure's; a name that is not known is refused, since whatever it was to mean would be sent as well.

use serde_json::{Value, json};

use super::InvalidResource;
use super::destination::render_rate;
use super::fields::{Fields, Origin, one_of};
use crate::base::Timestamp;
use crate::model::dead_letter_filter::DeadLetterFilter;
use crate::model::delivery::Outcome;
use crate::model::destination::EndpointUrl;
use crate::model::event_filter::TextSearch;
use crate::model::limits::ENDPOINT_URL_BYTES_MAX;
use crate::model::name::{SubscriptionName, TopicName};
use crate::model::pace::Rate;
use crate::model::registry::{Registry, TopicEntry};
use crate::model::replay::{NotResubmitted, ReplayJob, ReplaySource, ReplayTarget, Replayed};
use crate::model::subscription::SubscriptionId;

/// The properties of a filter.
const FILTER: [&str; 10] = [
    "topic",
    "subscription",
    "reason",
    "outcome",
    "status",
    "type",
    "subject",
    "from",
    "to",
    "text",
];

/// What a request is judged by.
#[derive(Clone, Copy)]
pub struct ReplayContext<'a> {
    pub registry: &'a Registry,
    pub require_https: bool,
}

/// A replay that is asked for.
#[derive(Clone, Debug)]
pub struct ReplayRequest {
    pub source: ReplaySource,
    pub target: ReplayTarget,
    pub rate: Option<Rate>,
}

/// Reads the body of a request to start a replay job, or to count what it would cover.
pub fn parse_replay(
    body: &Value,
    context: ReplayContext<'_>,
) -> Result<ReplayRequest, InvalidResource> {
    let fields = Fields::root(body, Origin::Request)?;
    expect_only(&fields, &["source", "target", "eventsPerSecond"])?;
    Ok(ReplayRequest {
        source: source(&fields, context.registry)?,
        target: target(&fields, context)?,
        rate: fields
            .thousandths("eventsPerSecond", Rate::BOUNDS)?
            .and_then(Rate::per_1000_s),
    })
}

/// Reads `target` of the body of a resubmission; the delivery's own subscription where it is absent.
pub fn parse_target(
    body: &Value,
    context: ReplayContext<'_>,
) -> Result<ReplayTarget, InvalidResource> {
    target(&Fields::root(body, Origin::Request)?, context)
}

fn expect_only(fields: &Fields, known: &[&str]) -> Result<(), InvalidResource> {
    let is_known = |name: &String| known.iter().any(|each| each.eq_ignore_ascii_case(name));
    match fields.raw().keys().find(|name| !is_known(name)) {
        None => Ok(()),
        Some(name) => Err(fields.invalid(
            name,
            format!("there is no such property; there is {}", one_of(known)),
        )),
    }
}

fn source(fields: &Fields, registry: &Registry) -> Result<ReplaySource, InvalidResource> {
    let source = fields.object_or_empty("source")?;
    expect_only(&source, &["kind", "filter"])?;
    let kinds = Replayed::ALL.map(|each| (each.name(), each));
    let of = source
        .choice("kind", &kinds)?
        .unwrap_or(Replayed::DeadLetters);
    let named = source.object_or_empty("filter")?;
    expect_only(&named, &FILTER)?;
    let filter = filter(&named, registry)?;
    if of == Replayed::Delivered {
        if filter.subscription.is_none() {
            return Err(named.missing("subscription", "that whose receiver is to get events again"));
        }
        if filter.reason.is_some() {
            let problem = "what has been delivered has none";
            return Err(named.invalid("reason", problem));
        }
    }
    Ok(ReplaySource { of, filter })
}

fn filter(named: &Fields, registry: &Registry) -> Result<DeadLetterFilter, InvalidResource> {
    let topic = topic(named, registry)?;
    let subscription = subscription(named, topic)?;
    let outcomes = Outcome::ALL.map(|each| (each.name(), each));
    let status = named.number("status", 100..=999)?;
    Ok(DeadLetterFilter {
        topic: topic.map(|entry| entry.topic.id),
        subscription,
        reason: said(named, "reason")?,
        outcome: named.choice("outcome", &outcomes)?,
        status: status.and_then(|status| u16::try_from(status).ok()),
        event_type: said(named, "type")?,
        subject: said(named, "subject")?,
        from: moment(named, "from")?,
        to: moment(named, "to")?,
        text: said(named, "text")?.map(TextSearch::everywhere),
    })
}

fn topic<'a>(
    named: &Fields,
    registry: &'a Registry,
) -> Result<Option<&'a TopicEntry>, InvalidResource> {
    let Some(text) = said(named, "topic")? else {
        return Ok(None);
    };
    let name =
        TopicName::parse(&text).map_err(|error| named.invalid("topic", error.to_string()))?;
    let missing = || named.invalid("topic", format!("there is no topic {name}"));
    Ok(Some(registry.topic(&name).ok_or_else(missing)?))
}

fn subscription(
    named: &Fields,
    topic: Option<&TopicEntry>,
) -> Result<Option<SubscriptionId>, InvalidResource> {
    let wrong = |problem: String| named.invalid("subscription", problem);
    let Some(text) = said(named, "subscription")? else {
        return Ok(None);
    };
    let topic = topic.ok_or_else(|| wrong("it is named together with its topic".to_owned()))?;
    let name = SubscriptionName::parse(&text).map_err(|error| wrong(error.to_string()))?;
    let found = topic.subscription(&name);
    let found = found.ok_or_else(|| {
        wrong(format!(
            "the topic {} has no event subscription {name}",
            topic.topic.name
        ))
    })?;
    Ok(Some(found.id))
}

/// A text; an empty one says nothing.
fn said(named: &Fields, name: &str) -> Result<Option<String>, InvalidResource> {
    let text = named.text(name)?;
    Ok(text.filter(|text| !text.is_empty()).map(str::to_owned))
}

fn moment(named: &Fields, name: &str) -> Result<Option<Timestamp>, InvalidResource> {
    let Some(text) = said(named, name)? else {
        return Ok(None);
    };
    let wrong = |_| {
        let problem = "it is no date and time with its zone, such as 2026-11-21T06:40:53Z";
        named.invalid(name, problem)
    };
    text.parse().map(Some).map_err(wrong)
}

fn target(fields: &Fields, context: ReplayContext<'_>) -> Result<ReplayTarget, InvalidResource> {
    let target = fields.object_or_empty("target")?;
    expect_only(&target, &["kind", "topic", "url"])?;
    let kinds = [("Subscription", 0), ("Topic", 1), ("Url", 2)];
    let kind = target.choice("kind", &kinds)?.unwrap_or(0);
    for (name, of) in [("topic", 1), ("url", 2)] {
        if kind != of && !target.is_absent(name) {
            let word = kinds[of].0;
            return Err(target.invalid(name, format!("it goes with the kind {word:?} alone")));
        }
    }
    match kind {
        1 => Ok(ReplayTarget::Topic(
            topic(&target, context.registry)?.map(|entry| entry.topic.id),
        )),
        2 => url(&target, context.require_https).map(ReplayTarget::Url),
        _ => Ok(ReplayTarget::Subscription),
    }
}

/// The URL itself may hold a secret, so no error quotes it.
fn url(target: &Fields, require_https: bool) -> Result<EndpointUrl, InvalidResource> {
    let text = target.required_text("url", "the URL of a webhook")?;
    if text.len() > ENDPOINT_URL_BYTES_MAX {
        let problem = format!("it is longer than {ENDPOINT_URL_BYTES_MAX} bytes");
        return Err(target.invalid("url", problem));
    }
    let url =
        EndpointUrl::parse(text).map_err(|problem| target.invalid("url", problem.to_string()))?;
    match require_https && !url.is_https() {
        true => Err(target.invalid(
            "url",
            "it must be https, as the setting egress.require_https says",
        )),
        false => Ok(url),
    }
}

/// A replay job as the API shows it. `waits_for` is the subscription whose backlog it waits for.
pub fn render_replay(
    job: &ReplayJob,
    registry: &Registry,
    waits_for: Option<SubscriptionId>,
) -> Value {
    let moment = |at: Option<Timestamp>| at.map(|at| at.to_string());
    let progress = &job.progress;
    let errors = progress.errors.iter();
    let errors: Vec<_> = errors
        .map(|(id, error)| json!({ "deliveryId": id.0, "error": error }))
        .collect();
    let waits_for = waits_for.and_then(|id| name_of(registry, id));
    json!({
        "id": job.id.0,
        "state": job.state.name(),
        "source": render_source(&job.request.source, registry),
        "target": render_target(&job.request.target, registry),
        "eventsPerSecond": job.request.rate.map(render_rate),
        "createdAt": job.created_at.to_string(),
        "updatedAt": job.updated_at.to_string(),
        "endedAt": moment(job.ended_at),
        "total": job.request.total,
        "done": progress.done(),
        "resubmitted": progress.resubmitted,
        "failed": progress.failed,
        "skipped": progress.skipped.values().sum::<u64>(),
        "skippedReasons": progress.skipped.iter()
            .map(|(refusal, count)| (NotResubmitted::name(*refusal).to_owned(), json!(count)))
            .collect::<serde_json::Map<_, _>>(),
        "errors": errors,
        "waitsFor": waits_for.map(|(topic, name)| format!("{topic}/{name}")),
    })
}

fn name_of(registry: &Registry, id: SubscriptionId) -> Option<(String, String)> {
    let (topic, subscription) = registry.subscription(id)?;
    Some((topic.topic.name.to_string(), subscription.name.to_string()))
}

fn render_source(source: &ReplaySource, registry: &Registry) -> Value {
    let filter = &source.filter;
    let mut shown = serde_json::Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            shown.insert(name.to_owned(), value);
        }
    };
    let topic = filter.topic.and_then(|id| registry.topic_by_id(id));
    let subscription = filter.subscription.and_then(|id| name_of(registry, id));
    // What has been deleted since has no name any more, but was meant.
    put(
        "topic",
        filter
            .topic
            .map(|_| json!(topic.map(|entry| entry.topic.name.to_string()))),
    );
    put(
        "subscription",
        filter
            .subscription
            .map(|_| json!(subscription.map(|(_, name)| name))),
    );
    put("reason", filter.reason.as_deref().map(Value::from));
    put("outcome", filter.outcome.map(|each| each.name().into()));
    put("status", filter.status.map(Value::from));
    put("type", filter.event_type.as_deref().map(Value::from));
    put("subject", filter.subject.as_deref().map(Value::from));
    put("from", filter.from.map(|at| at.to_string().into()));
    put("to", filter.to.map(|at| at.to_string().into()));
    put(
        "text",
        filter.text.as_ref().map(|text| text.text.as_str().into()),
    );
    json!({ "kind": source.of.name(), "filter": shown })
}

fn render_target(target: &ReplayTarget, registry: &Registry) -> Value {
    let mut shown = json!({ "kind": target.name() });
    match target {
        ReplayTarget::Subscription | ReplayTarget::Topic(None) => {}
        ReplayTarget::Topic(Some(id)) => {
            let topic = registry.topic_by_id(*id);
            shown["topic"] = json!(topic.map(|entry| entry.topic.name.to_string()));
        }
        ReplayTarget::Url(url) => shown["url"] = url.base().into(),
    }
    shown
}
