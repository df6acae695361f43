//! Replay jobs and the targets of resubmissions, to the model and back. The documents are ours, not
//! Azure's; a name that is not known is rejected, since whatever it was to mean would be sent as well.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::rules::{Context, Judged};
use super::{InvalidResource, document};
use crate::base::Timestamp;
use crate::model::dead_letter_filter::DeadLetterFilter;
use crate::model::delivery::Outcome;
use crate::model::destination::EndpointUrl;
use crate::model::event_filter::TextSearch;
use crate::model::limits::ENDPOINT_URL_BYTES_MAX;
use crate::model::name::{SubscriptionName, TopicName};
use crate::model::pace::Rate;
use crate::model::registry::{Registry, TopicEntry};
use crate::model::replay::{
    NotResubmitted, ReplayJob, ReplaySource, ReplayState, ReplayTarget, Replayed,
};
use crate::model::subscription::SubscriptionId;
use crate::wire::query::{DeadLetterParameters, nothing_required};

#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[schemars(rename = "ReplayRequest")]
pub(crate) struct Replay {
    source: Source,
    target: Target,
    /// Left out, as fast as the receivers take them.
    events_per_second: Option<Rate>,
}

/// Which deliveries are replayed.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "ReplaySource", extend("x-rule" = "replaySource"))]
#[schemars(transform = nothing_required)]
struct Source {
    kind: Replayed,
    #[schemars(skip_serializing_if = "DeadLetterParameters::is_empty")]
    filter: DeadLetterParameters,
}

/// Where deliveries are replayed: to their own subscription, as new events to a topic, or to a webhook
/// that no subscription has.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "ReplayTarget", extend("x-rule" = "replayTarget"))]
#[schemars(transform = nothing_required)]
pub(crate) struct Target {
    kind: TargetKind,
    /// With the kind `Topic`; left out, each goes to its own topic.
    topic: Option<String>,
    /// With the kind `Url`.
    #[schemars(length(min = 1), extend("x-expected" = WEBHOOK_URL))]
    #[schemars(extend("x-maxBytes" = ENDPOINT_URL_BYTES_MAX))]
    url: Option<EndpointUrl>,
}

const WEBHOOK_URL: &str = "the URL of a webhook";

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, JsonSchema)]
enum TargetKind {
    #[default]
    Subscription,
    Topic,
    Url,
}

/// The body of a resubmission, as far as it is about the target.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Resubmission {
    target: Target,
}

impl Default for Source {
    fn default() -> Self {
        Self {
            kind: Replayed::DeadLetters,
            filter: DeadLetterParameters::default(),
        }
    }
}

/// The context that a request is judged by.
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

impl ReplayContext<'_> {
    fn rules(self) -> Context<'static> {
        Context {
            require_https: self.require_https,
            ..Context::NONE
        }
    }
}

/// Reads the body of a request to start a replay job, or to count what it would cover.
pub fn parse_replay(
    body: &Value,
    context: ReplayContext<'_>,
) -> Result<ReplayRequest, InvalidResource> {
    let Replay {
        source,
        target,
        events_per_second,
    } = document::read(body, &context.rules())?;
    Ok(ReplayRequest {
        source: ReplaySource {
            of: source.kind,
            filter: source
                .filter
                .find(context.registry)
                .map_err(|error| error.inside("source.filter"))?,
        },
        target: target.find(context.registry)?,
        rate: events_per_second,
    })
}

/// Reads `target` of the body of a resubmission; the delivery's own subscription where it is absent.
pub fn parse_target(
    body: &Value,
    context: ReplayContext<'_>,
) -> Result<ReplayTarget, InvalidResource> {
    let Resubmission { target } = document::read(body, &context.rules())?;
    target.find(context.registry)
}

impl DeadLetterParameters {
    fn find(self, registry: &Registry) -> Result<DeadLetterFilter, InvalidResource> {
        let topic = self
            .topic
            .map(|name| topic(&name, registry))
            .transpose()
            .map_err(|problem| InvalidResource::of("topic", problem))?;
        let subscription = self
            .subscription
            .map(|name| subscription(&name, topic))
            .transpose();
        Ok(DeadLetterFilter {
            topic: topic.map(|entry| entry.topic.id),
            subscription: subscription
                .map_err(|problem| InvalidResource::of("subscription", problem))?,
            reason: self.reason,
            outcome: parsed("outcome", self.outcome, Outcome::from_name)?,
            status: self.status,
            event_type: self.event_type,
            subject: self.subject,
            from: parsed("from", self.from, |text| text.parse().ok())?,
            to: parsed("to", self.to, |text| text.parse().ok())?,
            text: self.text.map(TextSearch::everywhere),
        })
    }
}

impl Target {
    fn find(self, registry: &Registry) -> Result<ReplayTarget, InvalidResource> {
        match (self.kind, self.topic, self.url) {
            (TargetKind::Url, _, Some(url)) => Ok(ReplayTarget::Url(url)),
            (TargetKind::Topic, Some(name), _) => match topic(&name, registry) {
                Ok(entry) => Ok(ReplayTarget::Topic(Some(entry.topic.id))),
                Err(problem) => Err(InvalidResource::of("target.topic", problem)),
            },
            (TargetKind::Topic, None, _) => Ok(ReplayTarget::Topic(None)),
            (TargetKind::Subscription | TargetKind::Url, ..) => Ok(ReplayTarget::Subscription),
        }
    }
}

/// Parses a text that the schema permits.
fn parsed<T>(
    name: &str,
    text: Option<String>,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, InvalidResource> {
    let parse =
        |text: String| parse(&text).ok_or_else(|| InvalidResource::of(name, "it cannot be read"));
    text.map(parse).transpose()
}

fn topic<'a>(name: &str, registry: &'a Registry) -> Result<&'a TopicEntry, String> {
    let name = TopicName::parse(name).map_err(|error| error.to_string())?;
    let found = registry.topic(&name).map(|entry| &**entry);
    found.ok_or_else(|| format!("there is no topic {name}"))
}

fn subscription(name: &str, topic: Option<&TopicEntry>) -> Result<SubscriptionId, String> {
    let topic = topic.ok_or("it is named together with its topic")?;
    let name = SubscriptionName::parse(name).map_err(|error| error.to_string())?;
    let found = topic.subscription(&name).map(|found| found.id);
    let (of, name) = (&topic.topic.name, &name);
    found.ok_or_else(|| format!("the topic {of} has no event subscription {name}"))
}

/// An empty text says nothing.
pub(super) fn judge_filter(it: &mut Judged<'_>) {
    it.object.retain(|_, value| value != "");
}

/// Judges the source of a replay: delivered events are sent again to one receiver alone.
pub(super) fn judge_source(it: &mut Judged<'_>) {
    let filter = it.object.get("filter").and_then(Value::as_object);
    let has = |name: &str| filter.is_some_and(|filter| filter.contains_key(name));
    let (has_subscription, has_reason) = (has("subscription"), has("reason"));
    if it.text("kind") != Some(Replayed::Delivered.name()) {
        return;
    }
    if !has_subscription {
        it.missing(
            "filter.subscription",
            "that whose receiver is to get events again",
        );
    }
    if has_reason {
        it.fault("filter.reason", "what has been delivered has none");
    }
}

pub(super) fn judge_target(it: &mut Judged<'_>) {
    let kind = it.text("kind").unwrap_or("Subscription").to_owned();
    for (name, of) in [("topic", "Topic"), ("url", "Url")] {
        if kind != of && it.has(name) {
            it.fault(name, format!("it goes with the kind {of:?} alone"));
        }
    }
    it.object.retain(|_, value| value != "");
    if kind == "Url" && !it.has("url") {
        it.missing("url", WEBHOOK_URL);
    }
}

/// A replay job as answers show it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ReplayJob")]
pub struct ShownReplay {
    id: i64,
    state: ReplayState,
    #[schemars(with = "Source")]
    source: Value,
    #[schemars(with = "Target")]
    target: Value,
    events_per_second: Option<Rate>,
    created_at: Timestamp,
    updated_at: Timestamp,
    ended_at: Option<Timestamp>,
    total: u64,
    done: u64,
    resubmitted: u64,
    failed: u64,
    skipped: u64,
    skipped_reasons: BTreeMap<&'static str, u64>,
    /// The first ones.
    errors: Vec<ReplayJobError>,
    /// The subscription whose backlog it waits for.
    waits_for: Option<String>,
    /// The fates of the deliveries that its first resubmissions made, where one job is asked for; null where what is
    /// sent to a URL makes none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fates: Option<Option<ReplayFates>>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct ReplayJobError {
    delivery_id: i64,
    error: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ReplayFates {
    pub delivered: u64,
    /// Whatever was done with them since.
    pub given_up: u64,
    pub waiting: u64,
}

/// A replay job without the fates of its deliveries. `waits_for` is the subscription whose backlog it
/// waits for.
pub fn render_replay(
    job: &ReplayJob,
    registry: &Registry,
    waits_for: Option<SubscriptionId>,
) -> ShownReplay {
    let progress = &job.progress;
    let errors = progress.errors.iter().map(|(id, error)| ReplayJobError {
        delivery_id: id.0,
        error: error.clone(),
    });
    let skipped = progress.skipped.iter();
    let awaited = waits_for.and_then(|id| name_of(registry, id));
    ShownReplay {
        id: job.id.0,
        state: job.state,
        source: render_source(&job.request.source, registry),
        target: render_target(&job.request.target, registry),
        events_per_second: job.request.rate,
        created_at: job.created_at,
        updated_at: job.updated_at,
        ended_at: job.ended_at,
        total: job.request.total,
        done: progress.done(),
        resubmitted: progress.resubmitted,
        failed: progress.failed,
        skipped: progress.skipped.values().sum(),
        skipped_reasons: skipped
            .map(|(reason, count)| (NotResubmitted::name(*reason), *count))
            .collect(),
        errors: errors.collect(),
        waits_for: awaited.map(|(topic, name)| format!("{topic}/{name}")),
        fates: None,
    }
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
