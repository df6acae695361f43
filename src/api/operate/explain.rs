//! Explains which event subscriptions match an event and why others do not, and tries other filters.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::manage::{SubscriptionPath, TopicPath};
use crate::base::Timestamp;
use crate::broker::{TooManyTrials, explain_to_all, explain_to_one};
use crate::model::delivery::DeliveryId;
use crate::model::event::{Event, EventKey};
use crate::model::event_filter::EventFilter;
use crate::model::explanation::Explanation;
use crate::model::limits::TRIAL_DEADLINE;
use crate::model::registry::TopicEntry;
use crate::model::subscription::SubscriptionId;
use crate::store::views::{EventDetail, EventQuery};
use crate::wire::explanation::{
    ExplainedEvent, ExplainedQuestion, ShownExplanation, parse_question,
};
use crate::wire::filter_trial::{self, ShownTrial};
use crate::wire::resource::bodies::ResourceList;

/// The event to explain, with its deliveries.
struct AskedEvent {
    event: Event,
    key: Option<EventKey>,
    /// The time when the event was published, or now for an event that was not.
    at: Timestamp,
    deliveries: Vec<(SubscriptionId, DeliveryId)>,
}

/// `POST /topics/{topic}/eventSubscriptions/{name}/explain` (an extension)
pub(crate) async fn explain_one(
    State(state): State<ApiState>,
    Path(path): Path<SubscriptionPath>,
    body: Bytes,
) -> Result<Json<ShownExplanation>, ApiError> {
    let (topic, name) = path.names(&state.broker.registry())?;
    let (entry, subscription) = state.broker.subscription(&topic, &name)?;
    let asked = asked_event(&state, &entry, &body).await?;
    let explained = explain_to_one(&entry, &subscription, &asked.event, asked.at);
    Ok(Json(asked.show(&entry, &explained.await?)))
}

/// `POST /topics/{topic}/explain` (an extension): explains the event for every event subscription of the topic.
pub(crate) async fn explain_all(
    State(state): State<ApiState>,
    Path(topic): Path<TopicPath>,
    body: Bytes,
) -> Result<Json<ResourceList<ShownExplanation>>, ApiError> {
    let entry = state.broker.topic(&topic.name(&state.broker.registry())?)?;
    let asked = asked_event(&state, &entry, &body).await?;
    asked.show_all(&entry).await.map(Json)
}

/// `GET /everpost/events/{key}/explanations`: explains the event for every event subscription of its topic.
pub(crate) async fn explain_stored(
    State(state): State<ApiState>,
    Path(key): Path<i64>,
) -> Result<Json<ResourceList<ShownExplanation>>, ApiError> {
    let found = state.views.event(EventKey(key)).await?;
    let event = found.ok_or_else(|| ApiError::not_found(format!("There is no event {key}.")))?;
    let registry = state.broker.registry();
    let entry = registry.topic_by_id(event.topic_id).ok_or_else(|| {
        ApiError::not_found(format!(
            "The topic {} of event {key} is deleted.",
            event.topic
        ))
    })?;
    AskedEvent::of(event).show_all(entry).await.map(Json)
}

/// `POST /topics/{topic}/tryFilter` (an extension)
pub(crate) async fn try_filter(
    State(state): State<ApiState>,
    Path(path): Path<TopicPath>,
    body: Bytes,
) -> Result<Json<ShownTrial>, ApiError> {
    let topic = path.name(&state.broker.registry())?;
    let entry = state.broker.topic(&topic)?;
    let request = filter_trial::parse(&entry, &body)?;
    let tried = state.broker.try_filter(&entry, &request, TRIAL_DEADLINE);
    let (findings, is_complete) = tried.await?;
    Ok(Json(ShownTrial::new(&request, &findings, is_complete)))
}

async fn asked_event(
    state: &ApiState,
    entry: &TopicEntry,
    body: &[u8],
) -> Result<AskedEvent, ApiError> {
    let now = state.broker.clock().now();
    match parse_question(entry, body, now, state.broker.entropy())? {
        ExplainedQuestion::Stored(key) => stored(state, entry, key)
            .await?
            .ok_or_else(|| no_such_event(entry, &format!("has no event with the number {key}"))),
        ExplainedQuestion::Published(id) => {
            let problem = format!("has no event with the id {id:?} among the newest");
            let query = EventQuery {
                filter: EventFilter {
                    topic: Some(entry.topic.id),
                    id: Some(id),
                    ..EventFilter::default()
                },
                limit: 1,
                ..EventQuery::default()
            };
            let page = state.views.events(query).await?;
            let found = match page.rows.first() {
                Some(row) => stored(state, entry, row.key).await?,
                None => None,
            };
            found.ok_or_else(|| no_such_event(entry, &problem))
        }
        ExplainedQuestion::Pasted(event) => Ok(AskedEvent {
            event: *event,
            key: None,
            at: now,
            deliveries: Vec::new(),
        }),
    }
}

/// Returns the stored event with number `key`, if it belongs to the topic.
async fn stored(
    state: &ApiState,
    entry: &TopicEntry,
    key: EventKey,
) -> Result<Option<AskedEvent>, ApiError> {
    let found = state.views.event(key).await?;
    let of_topic = found.filter(|event| event.topic_id == entry.topic.id);
    Ok(of_topic.map(AskedEvent::of))
}

fn no_such_event(entry: &TopicEntry, problem: &str) -> ApiError {
    let topic = &entry.topic.name;
    let mut error = ApiError::not_found(format!("eventId: the topic {topic} {problem}."));
    error.target = Some("eventId".to_owned());
    error
}

impl From<TooManyTrials> for ApiError {
    fn from(error: TooManyTrials) -> Self {
        Self::unavailable(format!("Try again in a moment: {error}."))
    }
}

impl AskedEvent {
    fn of(detail: EventDetail) -> Self {
        let deliveries = detail.deliveries.iter();
        Self {
            key: Some(detail.stored.key),
            at: detail.stored.received_at,
            deliveries: deliveries
                .map(|each| (each.row.subscription_id, each.row.id))
                .collect(),
            event: detail.stored.event,
        }
    }

    fn show(&self, entry: &TopicEntry, explanation: &Explanation) -> ShownExplanation {
        let asked = ExplainedEvent {
            event: &self.event,
            key: self.key,
        };
        let subscription = explanation.subscription.id;
        let deliveries = self.deliveries.iter();
        let deliveries: Vec<_> = deliveries
            .filter(|(each, _)| *each == subscription)
            .map(|(_, delivery)| *delivery)
            .collect();
        ShownExplanation::new(entry, asked, explanation, &deliveries)
    }

    async fn show_all(
        &self,
        entry: &Arc<TopicEntry>,
    ) -> Result<ResourceList<ShownExplanation>, ApiError> {
        let all = explain_to_all(entry, &self.event, self.at).await?;
        Ok(all.iter().map(|each| self.show(entry, each)).collect())
    }
}
