//! Topics of Service Bus, their subscriptions and their rules (rule S7).

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::Value;

use crate::api::ApiState;
use crate::api::arm::listing::Listing;
use crate::api::error::ApiError;
use crate::api::manage::{ApiResult, json};
use crate::broker::Queue;
use crate::model::audit::Caller;
use crate::model::name::{InvalidName, RuleName, SubscriptionName, TopicName};
use crate::wire::resource;

/// `/serviceBusTopics/{topic}/subscriptions/{name}`
#[derive(Deserialize)]
pub(crate) struct SubscriptionPath {
    topic: String,
    name: String,
}

impl SubscriptionPath {
    fn names(&self) -> Result<(TopicName, SubscriptionName), InvalidName> {
        let name = SubscriptionName::of_namespace_topic(&self.name)?;
        Ok((TopicName::custom(&self.topic)?, name))
    }
}

/// `/serviceBusTopics/{topic}/subscriptions/{name}/rules/{rule}`
#[derive(Deserialize)]
pub(crate) struct RulePath {
    topic: String,
    name: String,
    rule: String,
}

impl RulePath {
    fn names(self) -> Result<(TopicName, SubscriptionName, RuleName), InvalidName> {
        let Self { topic, name, rule } = self;
        let (topic, subscription) = SubscriptionPath { topic, name }.names()?;
        Ok((topic, subscription, RuleName::parse(&rule)?))
    }
}

fn name_of(shown: &Value) -> String {
    shown["name"].as_str().unwrap_or_default().to_owned()
}

/// `GET /serviceBusTopics`
pub(crate) async fn list_topics(State(state): State<ApiState>, listing: Listing) -> ApiResult {
    let topics = state.broker.service_bus_topics();
    let shown = topics
        .iter()
        .map(|topic| resource::render_service_bus_topic(topic));
    Ok(Json(listing.page(shown, name_of, Value::clone)).into_response())
}

/// `GET /serviceBusTopics/{topic}`
pub(crate) async fn get_topic(
    State(state): State<ApiState>,
    Path(topic): Path<String>,
) -> ApiResult {
    let topic = state
        .broker
        .service_bus_topic(&TopicName::custom(&topic)?)?;
    Ok(Json(resource::render_service_bus_topic(&topic)).into_response())
}

/// `PUT /serviceBusTopics/{topic}`: 201, as with topics.
pub(crate) async fn put_topic(
    State(state): State<ApiState>,
    by: Caller,
    Path(topic): Path<String>,
    body: Bytes,
) -> ApiResult {
    let name = TopicName::custom(&topic)?;
    let definition = resource::parse_service_bus_topic(&json(&body)?)?;
    let put = state.broker.put_service_bus_topic(&by, name, definition);
    let shown = resource::render_service_bus_topic(&*put.await?);
    Ok((StatusCode::CREATED, Json(shown)).into_response())
}

/// `DELETE /serviceBusTopics/{topic}`, with its subscriptions
pub(crate) async fn delete_topic(
    State(state): State<ApiState>,
    by: Caller,
    Path(topic): Path<String>,
) -> ApiResult {
    let name = TopicName::custom(&topic)?;
    state.broker.delete_service_bus_topic(&by, &name).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `GET /serviceBusTopics/{topic}/subscriptions`
pub(crate) async fn list_subscriptions(
    State(state): State<ApiState>,
    Path(topic): Path<String>,
    listing: Listing,
) -> ApiResult {
    let topic = state
        .broker
        .service_bus_topic(&TopicName::custom(&topic)?)?;
    let all = topic.message_subscriptions();
    let all = all.map(|each| (topic.clone(), each.clone())).collect();
    let shown = show(&state, all).await?;
    Ok(Json(listing.page(shown.into_iter(), name_of, Value::clone)).into_response())
}

/// `GET /serviceBusTopics/{topic}/subscriptions/{name}`
pub(crate) async fn get_subscription(
    State(state): State<ApiState>,
    Path(path): Path<SubscriptionPath>,
) -> ApiResult {
    let (topic, name) = path.names()?;
    let found = state.broker.service_bus_subscription(&topic, &name)?;
    Ok(Json(show(&state, vec![found]).await?.pop()).into_response())
}

/// `PUT /serviceBusTopics/{topic}/subscriptions/{name}`: 201, as with topics.
pub(crate) async fn put_subscription(
    State(state): State<ApiState>,
    by: Caller,
    Path(path): Path<SubscriptionPath>,
    body: Bytes,
) -> ApiResult {
    let (topic, name) = path.names()?;
    let definition = resource::parse_service_bus_subscription(&json(&body)?)?;
    let broker = &state.broker;
    let put = broker.put_service_bus_subscription(&by, &topic, name, definition);
    let shown = show(&state, vec![put.await?]).await?.pop();
    Ok((StatusCode::CREATED, Json(shown)).into_response())
}

/// `DELETE /serviceBusTopics/{topic}/subscriptions/{name}`, with its messages
pub(crate) async fn delete_subscription(
    State(state): State<ApiState>,
    by: Caller,
    Path(path): Path<SubscriptionPath>,
) -> ApiResult {
    let (topic, name) = path.names()?;
    let delete = state
        .broker
        .delete_service_bus_subscription(&by, &topic, &name);
    delete.await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// `GET /serviceBusTopics/{topic}/subscriptions/{name}/rules`
pub(crate) async fn list_rules(
    State(state): State<ApiState>,
    Path(path): Path<SubscriptionPath>,
    listing: Listing,
) -> ApiResult {
    let (topic, name) = path.names()?;
    let of = state.broker.service_bus_subscription(&topic, &name)?;
    let rules = state.broker.rules(&of);
    let shown = rules
        .iter()
        .map(|rule| resource::render_rule(&of.0, &of.1, rule));
    Ok(Json(listing.page(shown, name_of, Value::clone)).into_response())
}

/// `GET /serviceBusTopics/{topic}/subscriptions/{name}/rules/{rule}`
pub(crate) async fn get_rule(
    State(state): State<ApiState>,
    Path(path): Path<RulePath>,
) -> ApiResult {
    let (topic, subscription, name) = path.names()?;
    let of = state
        .broker
        .service_bus_subscription(&topic, &subscription)?;
    let rule = state.broker.rule(&of, &name)?;
    Ok(Json(resource::render_rule(&of.0, &of.1, &rule)).into_response())
}

/// `PUT /serviceBusTopics/{topic}/subscriptions/{name}/rules/{rule}`: 201, as with topics.
pub(crate) async fn put_rule(
    State(state): State<ApiState>,
    by: Caller,
    Path(path): Path<RulePath>,
    body: Bytes,
) -> ApiResult {
    let (topic, subscription, name) = path.names()?;
    let rule = resource::parse_rule(name, &json(&body)?)?;
    let put = state
        .broker
        .put_rule(&by, &topic, &subscription, rule, true);
    let rule = put.await?;
    let of = state
        .broker
        .service_bus_subscription(&topic, &subscription)?;
    let shown = resource::render_rule(&of.0, &of.1, &rule);
    Ok((StatusCode::CREATED, Json(shown)).into_response())
}

/// `DELETE /serviceBusTopics/{topic}/subscriptions/{name}/rules/{rule}`
pub(crate) async fn delete_rule(
    State(state): State<ApiState>,
    by: Caller,
    Path(path): Path<RulePath>,
) -> ApiResult {
    let (topic, subscription, name) = path.names()?;
    let delete = state.broker.delete_rule(&by, &topic, &subscription, &name);
    delete.await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

async fn show(state: &ApiState, subscriptions: Vec<Queue>) -> Result<Vec<Value>, ApiError> {
    let totals = state.broker.queue_totals(&subscriptions).await?;
    let each = subscriptions.iter().zip(totals);
    let each = each.filter_map(|((topic, subscription), totals)| {
        let (messages, dead_letters) = (totals.pending, totals.dead_letters);
        resource::render_service_bus_subscription(topic, subscription, messages, dead_letters)
    });
    Ok(each.collect())
}
