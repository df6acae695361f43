//! Management of queues (rule S1) and of Service Bus topics with their subscriptions and rules (rule S7).

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::Value;

use crate::api::ApiState;
use crate::api::arm::listing::ListRequest;
use crate::api::error::ApiError;
use crate::api::manage::{ApiResult, json};
use crate::broker::{MessagingEntity, Put, Queue};
use crate::model::audit::Caller;
use crate::model::limits::SCHEDULED_COUNTED_MAX;
use crate::model::name::{InvalidName, RuleName, SubscriptionName, TopicName};
use crate::model::queue::{QueueCounts, ReceiveRules};
use crate::model::registry::{SubscriptionKind, TopicEntry};
use crate::model::rule::Rule;
use crate::model::subscription::EventSubscription;
use crate::model::topic::TopicKind;
use crate::wire::resource;

/// Copies read per scheduled message, at most on average, when the scheduled messages of a topic are counted.
const COPIES_COUNTED: u64 = 10;

/// The names in a path: `/queues/{queue}`, or `/serviceBusTopics/{topic}`, with `/subscriptions/{name}` and
/// `/rules/{rule}` after it.
#[derive(Deserialize)]
pub(crate) struct MessagingPath {
    queue: Option<String>,
    topic: Option<String>,
    name: Option<String>,
    rule: Option<String>,
}

impl MessagingPath {
    pub(in crate::api) fn entity(&self) -> Result<Entity, InvalidName> {
        let topic =
            || TopicName::of_service_bus_resource(self.topic.as_deref().unwrap_or_default());
        let name = SubscriptionName::of_service_bus;
        Ok(match (&self.queue, &self.name, &self.rule) {
            (Some(queue), ..) => Entity::Queue(TopicName::of_service_bus_resource(queue)?),
            (None, None, _) => Entity::Topic(topic()?),
            (None, Some(own), None) => Entity::Subscription(topic()?, name(own)?),
            (None, Some(own), Some(rule)) => {
                Entity::Rule(topic()?, name(own)?, RuleName::parse(rule)?)
            }
        })
    }
}

/// The name of a Service Bus entity.
#[derive(Clone)]
pub(in crate::api) enum Entity {
    Queue(TopicName),
    Topic(TopicName),
    Subscription(TopicName, SubscriptionName),
    Rule(TopicName, SubscriptionName, RuleName),
}

/// The current state of an existing Service Bus entity.
pub(in crate::api) enum Found {
    Queue(Queue),
    Topic(Arc<TopicEntry>),
    Subscription(Queue),
    Rule(Queue, Arc<Rule>),
}

impl Found {
    /// Returns the entity that was found; `None` for topics of events and their subscriptions.
    pub(in crate::api) fn of(entity: MessagingEntity) -> Option<Self> {
        let topic = entity.topic;
        match entity.subscription {
            None => topic
                .topic
                .kind
                .takes_messages()
                .then_some(Self::Topic(topic)),
            Some(own) => match topic.subscription_kind(&own) {
                SubscriptionKind::OfQueue => Some(Self::Queue((topic, own))),
                SubscriptionKind::ServiceBus => Some(Self::Subscription((topic, own))),
                SubscriptionKind::Event => None,
            },
        }
    }
}

impl Entity {
    pub(in crate::api) fn find(&self, state: &ApiState) -> Result<Found, ApiError> {
        let broker = &state.broker;
        Ok(match self {
            Self::Queue(name) => Found::Queue(broker.queue(name)?),
            Self::Topic(name) => Found::Topic(broker.service_bus_topic(name)?),
            Self::Subscription(topic, name) => {
                Found::Subscription(broker.service_bus_subscription(topic, name)?)
            }
            Self::Rule(topic, subscription, name) => {
                let of = broker.service_bus_subscription(topic, subscription)?;
                let rule = broker.rule(&of, name)?;
                Found::Rule(of, rule)
            }
        })
    }

    /// Creates or updates the entity with the body of a PUT. `first` is the rule of a new subscription.
    pub(in crate::api) async fn define(
        &self,
        state: &ApiState,
        by: &Caller,
        body: &Value,
        first: Rule,
        put: Put,
    ) -> Result<Found, ApiError> {
        let broker = &state.broker;
        match self {
            Self::Queue(name) => {
                let queue = resource::parse_queue(body)?;
                broker.put_queue(by, name.clone(), queue, put).await?;
            }
            Self::Topic(name) => {
                let topic = resource::parse_service_bus_topic(body)?;
                let put = broker.put_service_bus_topic(by, name.clone(), topic, put);
                put.await?;
            }
            Self::Subscription(topic, name) => {
                let queue = resource::parse_service_bus_subscription(body)?;
                let name = name.clone();
                let put = broker.put_service_bus_subscription(by, topic, name, queue, first, put);
                put.await?;
            }
            Self::Rule(topic, subscription, name) => {
                let rule = resource::parse_rule(name.clone(), body)?;
                let put = broker.put_rule(by, topic, subscription, rule, put);
                put.await?;
            }
        }
        self.find(state)
    }

    /// Returns the receive rules of the entity that `body` defines, parsed as in [`Self::define`].
    pub(in crate::api) fn receiving(&self, body: &Value) -> Result<ReceiveRules, ApiError> {
        let definition = match self {
            Self::Queue(_) => resource::parse_queue(body)?.subscription,
            Self::Subscription(..) => resource::parse_service_bus_subscription(body)?,
            Self::Topic(_) | Self::Rule(..) => return Ok(ReceiveRules::default()),
        };
        Ok(definition.pull.receiving)
    }

    /// Deletes the entity with its contents. Returns whether the entity existed.
    pub(in crate::api) async fn delete(
        &self,
        state: &ApiState,
        by: &Caller,
    ) -> Result<bool, ApiError> {
        let broker = &state.broker;
        Ok(match self {
            Self::Queue(name) => broker.delete_queue(by, name).await?,
            Self::Topic(name) => broker.delete_service_bus_topic(by, name).await?,
            Self::Subscription(topic, name) => {
                let delete = broker.delete_service_bus_subscription(by, topic, name);
                delete.await?
            }
            Self::Rule(topic, subscription, name) => {
                broker.delete_rule(by, topic, subscription, name).await?
            }
        })
    }
}

/// All queues by name.
pub(in crate::api) fn queues(state: &ApiState) -> Vec<Found> {
    let all = state.broker.queues();
    all.into_iter().map(Found::Queue).collect()
}

/// All topics of Service Bus by name.
pub(in crate::api) fn topics(state: &ApiState) -> Vec<Found> {
    let all = state.broker.service_bus_topics();
    all.into_iter().map(Found::Topic).collect()
}

/// The subscriptions of a topic by name.
pub(in crate::api) fn subscriptions(state: &ApiState, topic: &str) -> Result<Vec<Found>, ApiError> {
    let name = TopicName::of_service_bus_resource(topic)?;
    let topic = state.broker.service_bus_topic(&name)?;
    let all = topic.message_subscriptions().cloned();
    let found = all.map(|each| Found::Subscription((Arc::clone(&topic), each)));
    Ok(found.collect())
}

/// The rules of a subscription by name.
pub(in crate::api) fn rules(
    state: &ApiState,
    topic: &str,
    name: &str,
) -> Result<Vec<Found>, ApiError> {
    let topic = TopicName::of_service_bus_resource(topic)?;
    let name = SubscriptionName::of_service_bus(name)?;
    let of = state.broker.service_bus_subscription(&topic, &name)?;
    let all = state.broker.rules(&of).into_iter();
    Ok(all.map(|rule| Found::Rule(of.clone(), rule)).collect())
}

/// Returns the entities as answers show them, with the counts of their messages.
pub(in crate::api) async fn show(
    state: &ApiState,
    found: &[Found],
) -> Result<Vec<Value>, ApiError> {
    let queues = found.iter().filter_map(|each| match each {
        Found::Queue((_, own)) | Found::Subscription((_, own)) => Some(own.id),
        Found::Topic(_) | Found::Rule(..) => None,
    });
    let now = state.broker.clock().now();
    let counts = state
        .views
        .message_counts(queues.collect(), now, SCHEDULED_COUNTED_MAX);
    let mut found_counts = counts.await?.into_iter();
    let mut scheduled = Vec::new();
    for each in found {
        if let Found::Topic(topic) = each {
            let own = topic.message_subscriptions().map(|own| own.id).collect();
            let copies_max = SCHEDULED_COUNTED_MAX * COPIES_COUNTED;
            let counted = state.views.scheduled_in(own, now, copies_max);
            scheduled.push(counted.await?);
        }
    }
    let mut next_scheduled = scheduled.into_iter();
    let tier = state.broker.options().service_bus_tier;
    let mut next = |own: &EventSubscription| {
        let bytes = state.broker.queue_bytes(&[own.id, own.id.transfers()]);
        found_counts.next().unwrap_or_default().told(bytes)
    };
    let shown = found.iter().filter_map(|each| match each {
        Found::Queue((topic, own)) => {
            let queue = resource::render_queue(topic, own, next(own));
            queue.map(|queue| resource::in_tier(queue, tier))
        }
        Found::Topic(topic) => {
            let bytes = state.broker.queue_bytes(&topic.measured);
            match &topic.topic.kind {
                TopicKind::ServiceBus(definition) => {
                    let counts = QueueCounts {
                        scheduled: next_scheduled.next().unwrap_or_default(),
                        bytes,
                        ..QueueCounts::default()
                    };
                    let topic = resource::render_service_bus_topic(topic, definition, counts);
                    Some(resource::in_tier(topic, tier))
                }
                TopicKind::Custom(_)
                | TopicKind::Namespace { .. }
                | TopicKind::Queue(_)
                | TopicKind::System(_) => None,
            }
        }
        Found::Subscription((topic, own)) => {
            // Scheduled messages are counted at the topic.
            let counts = QueueCounts {
                scheduled: 0,
                ..next(own)
            };
            resource::render_service_bus_subscription(topic, own, counts)
        }
        Found::Rule((topic, own), rule) => Some(resource::render_rule(topic, own, rule)),
    });
    Ok(shown.collect())
}

async fn page(state: &ApiState, listing: &ListRequest, found: Vec<Found>) -> ApiResult {
    let shown = show(state, &found).await?;
    let name = |shown: &Value| shown["name"].as_str().unwrap_or_default().to_owned();
    Ok(Json(listing.page(shown.into_iter(), name, Value::clone)).into_response())
}

/// `GET /queues`
pub(crate) async fn list_queues(State(state): State<ApiState>, listing: ListRequest) -> ApiResult {
    page(&state, &listing, queues(&state)).await
}

/// `GET /serviceBusTopics`
pub(crate) async fn list_topics(State(state): State<ApiState>, listing: ListRequest) -> ApiResult {
    page(&state, &listing, topics(&state)).await
}

/// `GET /serviceBusTopics/{topic}/subscriptions`
pub(crate) async fn list_subscriptions(
    State(state): State<ApiState>,
    Path(topic): Path<String>,
    listing: ListRequest,
) -> ApiResult {
    page(&state, &listing, subscriptions(&state, &topic)?).await
}

/// `GET /serviceBusTopics/{topic}/subscriptions/{name}/rules`
pub(crate) async fn list_rules(
    State(state): State<ApiState>,
    Path((topic, name)): Path<(String, String)>,
    listing: ListRequest,
) -> ApiResult {
    page(&state, &listing, rules(&state, &topic, &name)?).await
}

/// `GET` of a queue, topic, subscription or rule
pub(crate) async fn get(
    State(state): State<ApiState>,
    Path(path): Path<MessagingPath>,
) -> ApiResult {
    let found = path.entity()?.find(&state)?;
    Ok(Json(show(&state, &[found]).await?.pop()).into_response())
}

/// `PUT` of a queue, topic, subscription or rule: always 201, as for Event Grid topics.
pub(crate) async fn put(
    State(state): State<ApiState>,
    by: Caller,
    Path(path): Path<MessagingPath>,
    body: Bytes,
) -> ApiResult {
    let (entity, body) = (path.entity()?, json(&body)?);
    let (first, put) = (Rule::default_rule(), Put::CreateOrUpdate);
    let found = entity.define(&state, &by, &body, first, put).await?;
    let shown = show(&state, &[found]).await?.pop();
    Ok((StatusCode::CREATED, Json(shown)).into_response())
}

/// `DELETE` of a queue, topic, subscription or rule, with its contents
pub(crate) async fn delete(
    State(state): State<ApiState>,
    by: Caller,
    Path(path): Path<MessagingPath>,
) -> ApiResult {
    path.entity()?.delete(&state, &by).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
