//! The page of one event subscription.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use serde_json::Value;

use crate::admin::Site;
use crate::admin::error::{PageError, PageResult};
use crate::admin::form::Submitted;
use crate::admin::identify::{subscription_page, topic_page};
use crate::admin::recipe::Recipe;
use crate::admin::retry_preview::RetryPreview;
use crate::admin::session::Visitor;
use crate::admin::subscriptions::headers::{self, HeaderRow};
use crate::admin::subscriptions::{SubscriptionState, state};
use crate::admin::view::{Badge, Flash, Frame, Moment, draw, link};
use crate::admin::{json_text, print};
use crate::model::batch::BatchPolicy;
use crate::model::destination::Destination;
use crate::model::registry::TopicEntry;
use crate::model::subscription::{DeadLetterDestination, EventSubscription, ValidationState};
use crate::store::views::QueueDepth;
use crate::wire::filter;

#[derive(Template)]
#[template(path = "admin/subscription.html")]
struct SubscriptionPage {
    frame: Frame,
    path: String,
    name: String,
    topic: String,
    topic_path: String,
    state: Badge,
    azure_state: &'static str,
    why: String,
    /// What to do about the state, if anything.
    advice: &'static str,
    endpoint: String,
    /// The whole URL, while it is shown; a part of it is hidden otherwise.
    full_url: Option<String>,
    has_query: bool,
    schema: &'static str,
    filter: FilterText,
    batching: String,
    headers: Vec<HeaderRow>,
    dead_letter_destination: String,
    labels: Vec<String>,
    expires_at: Option<Moment>,
    allowed_rate: Option<String>,
    created_at: Moment,
    updated_at: Moment,
    queue: QueueText,
    attempts_max: u32,
    time_to_live: String,
    preview: RetryPreview,
    recipe: Recipe,
}

/// A filter ready to print.
struct FilterText {
    types: Option<Vec<String>>,
    begins_with: String,
    ends_with: String,
    case: &'static str,
    /// The advanced part as JSON; empty for none.
    advanced: String,
}

/// What lies in the queues, ready to print.
struct QueueText {
    pending: String,
    next_attempt: Option<(Moment, String)>,
    dead_letters: String,
    dead_letters_href: String,
}

/// One event subscription.
pub(in crate::admin) async fn show(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path((topic, name)): Path<(String, String)>,
) -> PageResult {
    let (topic, subscription) = site.subscription(&topic, &name)?;
    draw_subscription(&site, &visitor, &topic, &subscription, false).await
}

/// The page with the whole URL on it.
pub(in crate::admin) async fn reveal_url(
    State(site): State<Arc<Site>>,
    Path((topic, name)): Path<(String, String)>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let (topic, subscription) = site.subscription(&topic, &name)?;
    let (of, name) = (&topic.topic.name, &subscription.name);
    tracing::info!(user.name = visitor.name, topic.name = %of, subscription.name = %name,
        "a webhook's URL was shown");
    draw_subscription(&site, &visitor, &topic, &subscription, true).await
}

/// Asks the webhook again.
pub(in crate::admin) async fn validate(
    State(site): State<Arc<Site>>,
    Path((topic, name)): Path<(String, String)>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let (topic, subscription) = site.subscription(&topic, &name)?;
    let (topic, name) = (&topic.topic.name, &subscription.name);
    let (_, subscription) = site.broker.validate_again(topic, name).await?;
    let told = match subscription.validation.state {
        ValidationState::Succeeded => Flash::done("The webhook has agreed to receive events."),
        ValidationState::Failed => Flash::refused("The webhook has not agreed to receive events."),
        ValidationState::Creating
        | ValidationState::Updating
        | ValidationState::AwaitingManualAction => Flash::done("The webhook has been asked."),
    };
    visitor.tell(told).await?;
    Ok(Redirect::to(&subscription_page(topic.as_str(), name.as_str())).into_response())
}

async fn draw_subscription(
    site: &Site,
    visitor: &Visitor,
    topic: &TopicEntry,
    subscription: &EventSubscription,
    with_url: bool,
) -> Result<Response, PageError> {
    let depths = site.views.depths(vec![subscription.id]).await?;
    let depth = depths.first().copied().unwrap_or_default();
    let (of, name) = (topic.topic.name.as_str(), subscription.name.as_str());
    let definition = &subscription.definition;
    let Destination::WebHook(webhook) = &definition.destination;
    let url = webhook.endpoint_url.reveal();
    let SubscriptionState { badge, why } = state(subscription, visitor.now);
    let scale = site.broker.options().time_scale;
    let validation = &subscription.validation;
    let management = format!("/topics/{of}/eventSubscriptions/{name}");
    Ok(draw(&SubscriptionPage {
        frame: Frame::new(visitor, format!("Event subscription {name}")),
        path: subscription_page(of, name),
        name: name.to_owned(),
        topic: of.to_owned(),
        topic_path: topic_page(of),
        state: badge,
        azure_state: validation.state.name(),
        why,
        advice: advice(validation.state),
        endpoint: webhook.endpoint_url.base(),
        full_url: with_url.then(|| url.to_string()),
        has_query: url.query().is_some(),
        schema: definition.delivery_schema.name(),
        filter: FilterText::new(&filter::render(&definition.filter)),
        batching: batching(&webhook.batch),
        headers: headers::rows(&webhook.attribute_mappings),
        dead_letter_destination: kept(&definition.dead_letter),
        labels: definition.labels.clone(),
        expires_at: definition.expires_at.map(Moment::at),
        allowed_rate: validation
            .allowed_rate
            .map(|rate| format!("{rate} requests per minute")),
        created_at: Moment::at(subscription.created_at),
        updated_at: Moment::at(subscription.updated_at),
        queue: QueueText::new(depth, of, name, visitor),
        attempts_max: definition.retry_policy.attempts_max,
        time_to_live: print::span(definition.retry_policy.time_to_live),
        preview: RetryPreview::new(&definition.retry_policy, visitor.now, scale),
        recipe: Recipe::get(&site.management_url(&management))
            .everpost(format!("everpost subscriptions show {name} --topic {of}")),
    }))
}

impl QueueText {
    fn new(depth: QueueDepth, topic: &str, name: &str, visitor: &Visitor) -> Self {
        let next = depth.next_attempt_at.map(|at| {
            let from_now = print::relative(at.max(visitor.now), visitor.now);
            (Moment::at(at), from_now)
        });
        Self {
            pending: print::count(depth.pending),
            next_attempt: next,
            dead_letters: print::count(depth.dead_letters),
            dead_letters_href: link("/admin/dead-letters", &[("of", format!("{topic}/{name}"))]),
        }
    }
}

impl FilterText {
    /// From the document of the management API, so that all of its parts are shown.
    fn new(filter: &Value) -> Self {
        let text = |name: &str| filter[name].as_str().unwrap_or("").to_owned();
        let types = filter["includedEventTypes"].as_array().map(|types| {
            let types = types.iter().filter_map(Value::as_str);
            types.map(str::to_owned).collect()
        });
        let advanced = match filter["advancedFilters"].as_array().map(Vec::as_slice) {
            None | Some([]) => String::new(),
            Some(_) => json_text::laid_out(&filter["advancedFilters"].to_string()),
        };
        Self {
            types,
            begins_with: text("subjectBeginsWith"),
            ends_with: text("subjectEndsWith"),
            case: match filter["isSubjectCaseSensitive"].as_bool() {
                Some(true) => "letter case counts",
                _ => "in any letter case",
            },
            advanced,
        }
    }
}

/// What a person can do about the state of a handshake.
fn advice(state: ValidationState) -> &'static str {
    match state {
        ValidationState::Succeeded => "",
        ValidationState::Creating | ValidationState::Updating => {
            "Load this page again in a few seconds to see how it went."
        }
        ValidationState::AwaitingManualAction => {
            "The webhook answered without agreeing. It was also sent a validation URL, which \
             whoever runs it can open within ten minutes of the request; nothing is delivered before."
        }
        ValidationState::Failed => {
            "Nothing is delivered until the webhook agrees: it must answer the validation event \
             with 200 and the code that it was sent. Correct it, or its URL, and validate again. A \
             webhook of your own that knows nothing of validation can skip it: tick the box in the \
             subscription's form."
        }
    }
}

fn batching(batch: &BatchPolicy) -> String {
    if !batch.is_on() {
        return "Off: one event per request".to_owned();
    }
    let bytes = u64::try_from(batch.bytes_preferred()).unwrap_or(u64::MAX);
    let most = print::bytes(bytes);
    format!("Up to {} events or {most} per request", batch.events_max())
}

fn kept(destination: &DeadLetterDestination) -> String {
    match destination {
        DeadLetterDestination::BuiltInQueue => "Kept in the queue of dead letters".to_owned(),
        DeadLetterDestination::Drop => "Dropped: nothing is kept".to_owned(),
        DeadLetterDestination::StorageBlob { container, .. } => {
            format!("Kept in the queue of dead letters; meant for the container {container}")
        }
    }
}
