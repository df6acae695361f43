//! The page of one event subscription.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use serde_json::Value;

use crate::admin::bare::draw;
use crate::admin::error::{PageError, PageResult};
use crate::admin::frame::Frame;
use crate::admin::lists::link;
use crate::admin::lists::recipe::Recipe;
use crate::admin::pages::subscriptions::credentials::CredentialText;
use crate::admin::pages::subscriptions::headers;
use crate::admin::pages::subscriptions::headers::HeaderRow;
use crate::admin::pages::subscriptions::pull_queue::{PullQueueText, ROWS};
use crate::admin::pages::subscriptions::storage::GivenUpText;
use crate::admin::pages::subscriptions::{SubscriptionState, state};
use crate::admin::pages::topics::Snippets;
use crate::admin::pages::traffic::{RangeChoice, Traffic};
use crate::admin::paths::{inspector_page, subscription_page, topic_page};
use crate::admin::security::csrf::Submitted;
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::widgets::retry_preview::RetryPreview;
use crate::admin::widgets::{Badge, Due, Flash, Moment};
use crate::admin::widgets::{json_text, print};
use crate::base::{TimeScale, Timestamp};
use crate::model::audit::SecretKind;
use crate::model::batch::BatchPolicy;
use crate::model::delivery::DeliveryState;
use crate::model::destination::Destination;
use crate::model::filter::{Clause, Filter};
use crate::model::name::{InspectorName, SubscriptionName, TopicName};
use crate::model::probation::Health;
use crate::model::registry::TopicEntry;
use crate::model::retry::DeliveryProfile;
use crate::model::subscription::{EventSubscription, Validation, ValidationState};
use crate::store::StoreError;
use crate::store::views::{QueueDepth, TrafficOf};
use crate::wire::resource::render_filter;

#[derive(Template)]
#[template(path = "admin/subscription.html")]
struct SubscriptionPage {
    frame: Frame,
    path: String,
    name: String,
    topic: String,
    topic_path: String,
    state: StateText,
    queue: QueueText,
    /// `None` for what is pushed.
    pull: Option<PullText>,
    traffic: Traffic,
    /// `None` for what is pulled.
    webhook: Option<WebhookText>,
    schema: &'static str,
    filter: FilterText,
    retry: RetryText,
    given_up: GivenUpText,
    labels: Vec<String>,
    expires_at: Option<Moment>,
    created_at: Moment,
    updated_at: Moment,
    recipe: Recipe,
    /// Whether it waits for somebody to let it go on.
    is_stopped: bool,
}

/// Where the subscription stands, ready to print.
struct StateText {
    badge: Badge,
    why: String,
    /// Azure's word for it.
    azure: &'static str,
    /// What to do about it; empty for nothing.
    advice: &'static str,
    /// What becomes of events that are published now; empty if they are delivered.
    meanwhile: &'static str,
    /// The events of the topic that no subscription took, if this one is passed by.
    passed_by: Option<String>,
}

/// Where and how it delivers, ready to print.
struct WebhookText {
    url: String,
    /// Name and page of the inspector that it is.
    inspector: Option<(String, String)>,
    /// Whether the URL is shown whole, and whether there is more of it to show.
    is_whole: bool,
    has_query: bool,
    batching: String,
    headers: Vec<HeaderRow>,
    credentials: CredentialText,
    allowed_rate: Option<String>,
}

/// How often it tries, ready to print.
struct RetryText {
    attempts_max: u32,
    time_to_live: String,
    /// Whether the waits are the subscription's own, and not the published ones.
    has_own_waits: bool,
    preview: RetryPreview,
    /// The statuses that no other attempt follows.
    final_statuses: &'static str,
}

/// A filter ready to print.
struct FilterText {
    types: Option<Vec<String>>,
    begins_with: String,
    ends_with: String,
    case: &'static str,
    clauses: Vec<ClauseText>,
    /// The advanced part as JSON.
    advanced: String,
}

/// An advanced filter as a sentence.
struct ClauseText {
    key: String,
    meaning: &'static str,
    values: Vec<String>,
    /// Azure's word for it.
    operator: &'static str,
}

/// What there is to see and do where receivers come for the events.
struct PullText {
    queue: PullQueueText,
    snippets: Option<Snippets>,
    /// How long a receiver holds an event.
    lock: String,
}

impl PullText {
    async fn read(
        site: &Site,
        (topic, subscription): (&TopicEntry, &EventSubscription),
        now: Timestamp,
    ) -> Result<Option<Self>, StoreError> {
        let queue = match &subscription.definition.destination {
            Destination::WebHook(_) => return Ok(None),
            Destination::Queue(queue) => queue,
        };
        let lying = site.views.pull_queue(subscription.id, now, ROWS).await?;
        Ok(Some(Self {
            queue: PullQueueText::new(lying, now),
            snippets: Snippets::receive(site, topic, &subscription.name),
            lock: print::span(queue.lock_duration),
        }))
    }
}

/// What lies in the queues, ready to print.
struct QueueText {
    pending: String,
    pending_href: String,
    next_attempt: Option<Due>,
    dead_letters: String,
    dead_letters_href: String,
}

/// One event subscription.
pub(crate) async fn show(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path((topic, name)): Path<(String, String)>,
    Query(range): Query<RangeChoice>,
) -> PageResult {
    let (topic, subscription) = site.subscription(&topic, &name)?;
    draw_subscription(&site, &visitor, (&topic, &subscription), &range, false).await
}

/// The page with the whole URL on it.
pub(crate) async fn reveal_url(
    State(site): State<Arc<Site>>,
    Path((topic, name)): Path<(String, String)>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let (topic, subscription) = site.subscription(&topic, &name)?;
    let (by, of, name) = (&visitor.caller, &topic.topic.name, &subscription.name);
    site.broker
        .show_secrets(by, SecretKind::Url, of, name)
        .await?;
    let range = RangeChoice::default();
    draw_subscription(&site, &visitor, (&topic, &subscription), &range, true).await
}

/// Asks the webhook again.
pub(crate) async fn validate(
    State(site): State<Arc<Site>>,
    Path((topic, name)): Path<(String, String)>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let (topic, subscription) = site.subscription(&topic, &name)?;
    let had_agreed = subscription.validation.validated_once;
    let (topic, name) = (&topic.topic.name, &subscription.name);
    let (_, subscription) = site
        .broker
        .validate_again(&visitor.caller, topic, name)
        .await?;
    let told = match subscription.validation.state {
        ValidationState::Succeeded if !had_agreed => Flash::done(
            "The webhook has agreed to receive events. Those that were published before were not \
             kept for it; each can be sent to it from its own page.",
        ),
        ValidationState::Succeeded => Flash::done("The webhook has agreed to receive events."),
        ValidationState::Failed => Flash::refused("Validation failed. See below why."),
        ValidationState::Creating
        | ValidationState::Updating
        | ValidationState::AwaitingManualAction => Flash::done("The webhook has been asked."),
    };
    back_with(&visitor, (topic, name), told).await
}

/// Stops the deliveries for a while; what is matched meanwhile waits.
pub(crate) async fn pause(
    State(site): State<Arc<Site>>,
    Path((topic, name)): Path<(String, String)>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let (topic, subscription) = site.subscription(&topic, &name)?;
    let (topic, name) = (&topic.topic.name, &subscription.name);
    site.broker
        .pause_subscription(&visitor.caller, topic, name)
        .await?;
    let told = "The subscription is paused. Its events wait, and their time to live goes on.";
    back_with(&visitor, (topic, name), Flash::done(told)).await
}

/// Lets the deliveries of a paused or disabled subscription go on.
pub(crate) async fn resume(
    State(site): State<Arc<Site>>,
    Path((topic, name)): Path<(String, String)>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let (topic, subscription) = site.subscription(&topic, &name)?;
    let (topic, name) = (&topic.topic.name, &subscription.name);
    site.broker
        .resume_subscription(&visitor.caller, topic, name)
        .await?;
    let told = Flash::done("The subscription is resumed: deliveries go on.");
    back_with(&visitor, (topic, name), told).await
}

/// Back to the subscription's page, with what there is to say.
async fn back_with(
    visitor: &Visitor,
    (topic, name): (&TopicName, &SubscriptionName),
    told: Flash,
) -> PageResult {
    visitor.tell(told).await?;
    Ok(Redirect::to(&subscription_page(topic.as_str(), name.as_str())).into_response())
}

async fn draw_subscription(
    site: &Site,
    visitor: &Visitor,
    (topic, subscription): (&TopicEntry, &EventSubscription),
    range: &RangeChoice,
    with_url: bool,
) -> Result<Response, PageError> {
    let depths = site.views.depths(vec![subscription.id]).await?;
    let depth = depths.first().copied().unwrap_or_default();
    let history = site.views.export_history(subscription.id).await?;
    let (of, name) = (topic.topic.name.as_str(), subscription.name.as_str());
    let definition = &subscription.definition;
    let health = site.broker.health_of(subscription.id);
    let (id, path) = (subscription.id, subscription_page(of, name));
    let management = format!("{}/eventSubscriptions/{name}", topic.topic.name.path());
    Ok(draw(&SubscriptionPage {
        frame: Frame::new(visitor, format!("Event subscription {name}")),
        traffic: Traffic::read(site, TrafficOf::Subscription(id), range, &path).await?,
        path,
        name: name.to_owned(),
        topic: of.to_owned(),
        topic_path: topic_page(of),
        state: StateText::new(subscription, &health, of, visitor.now),
        queue: QueueText::new(depth, of, name, visitor.now),
        pull: PullText::read(site, (topic, subscription), visitor.now).await?,
        webhook: WebhookText::new(subscription, with_url, visitor.now),
        schema: definition.delivery_schema.name(),
        filter: FilterText::new(&definition.filter),
        retry: RetryText::new(
            topic,
            subscription,
            visitor.now,
            site.broker.options().time_scale,
        ),
        given_up: GivenUpText::new(&definition.dead_letter, history, visitor.now),
        is_stopped: definition.paused || definition.disabled.is_some(),
        labels: definition.labels.clone(),
        expires_at: definition.expires_at.map(Moment::at),
        created_at: Moment::at(subscription.created_at),
        updated_at: Moment::at(subscription.updated_at),
        recipe: Recipe::get(&site.management_url(&management))
            .everpost(format!("everpost subscriptions show {name} --topic {of}")),
    }))
}

impl StateText {
    fn new(subscription: &EventSubscription, health: &Health, topic: &str, now: Timestamp) -> Self {
        let SubscriptionState { badge, why } = state(subscription, health, now);
        Self {
            badge,
            why,
            azure: subscription.validation.state.name(),
            advice: advice(&subscription.validation),
            meanwhile: meanwhile(subscription),
            passed_by: (!subscription.validation.validated_once).then(|| unmatched(topic)),
        }
    }
}

impl QueueText {
    fn new(depth: QueueDepth, topic: &str, name: &str, now: Timestamp) -> Self {
        let of = ("of", format!("{topic}/{name}"));
        let waiting = ("state", DeliveryState::Pending.name().to_owned());
        Self {
            pending: print::count(depth.pending),
            pending_href: link("/admin/events", &[of.clone(), waiting]),
            next_attempt: depth.next_attempt_at.map(|at| Due::new(at, now)),
            dead_letters: print::count(depth.dead_letters),
            dead_letters_href: link("/admin/dead-letters", &[of]),
        }
    }
}

impl WebhookText {
    fn new(subscription: &EventSubscription, with_url: bool, now: Timestamp) -> Option<Self> {
        let webhook = match &subscription.definition.destination {
            Destination::WebHook(webhook) => webhook,
            Destination::Queue(_) => return None,
        };
        let url = &webhook.endpoint_url;
        let rate = subscription.validation.allowed_rate;
        let inspector = InspectorName::of_url(url.reveal());
        Some(Self {
            inspector: inspector.map(|name| (name.to_string(), inspector_page(&name))),
            url: match with_url {
                true => url.reveal().to_string(),
                false => url.base(),
            },
            is_whole: with_url,
            has_query: url.reveal().query().is_some(),
            batching: batching(&webhook.batch),
            headers: headers::rows(&webhook.attribute_mappings),
            credentials: CredentialText::new(&webhook.credentials, now),
            allowed_rate: rate.map(|rate| format!("{rate} requests per minute")),
        })
    }
}

impl RetryText {
    fn new(
        topic: &TopicEntry,
        subscription: &EventSubscription,
        now: Timestamp,
        scale: TimeScale,
    ) -> Self {
        let policy = &topic.retry_policy(subscription);
        Self {
            attempts_max: policy.attempts_max,
            time_to_live: print::span(policy.time_to_live),
            has_own_waits: !policy.own_waits.is_empty(),
            preview: RetryPreview::new(policy, now, scale),
            final_statuses: match policy.profile {
                DeliveryProfile::Basic => "400, 401, 403 or 413",
                DeliveryProfile::Namespace => "400, 401, 403, 404, 413 or 414",
            },
        }
    }
}

impl FilterText {
    /// From the document of the management API, so that all of its parts are shown.
    fn new(filter: &Filter) -> Self {
        let clauses = filter.advanced.clauses.iter().map(ClauseText::new);
        let clauses = clauses.collect();
        let filter = render_filter(filter);
        let text = |name: &str| filter[name].as_str().unwrap_or("").to_owned();
        let types = filter["includedEventTypes"].as_array().map(|types| {
            let types = types.iter().filter_map(Value::as_str);
            types.map(str::to_owned).collect()
        });
        Self {
            types,
            begins_with: text("subjectBeginsWith"),
            ends_with: text("subjectEndsWith"),
            case: match filter["isSubjectCaseSensitive"].as_bool() {
                Some(true) => "letter case counts",
                _ => "in any letter case",
            },
            clauses,
            advanced: json_text::laid_out(&filter["advancedFilters"].to_string()),
        }
    }
}

impl ClauseText {
    fn new(clause: &Clause) -> Self {
        let row = clause.operator.row();
        let values = clause.operand.values();
        Self {
            key: clause.key.as_str().to_owned(),
            meaning: row.meaning,
            values: values.iter().map(|value| print::visible(value)).collect(),
            operator: row.name,
        }
    }
}

/// In the words of a failure: the rules of egress kept the webhook from being called.
const NOT_CALLED: &str = "not called: ";

/// Where the events of `topic` are that no subscription took.
fn unmatched(topic: &str) -> String {
    let flags = [("of", topic.to_owned()), ("unmatched", "on".to_owned())];
    link("/admin/events", &flags)
}

/// What becomes of events that are published while the webhook has not agreed; empty if it has.
fn meanwhile(subscription: &EventSubscription) -> &'static str {
    let validation = &subscription.validation;
    match (subscription.has_agreed(), validation.validated_once) {
        (true, _) => "",
        (false, true) => {
            "An earlier validation succeeded, so events go on being queued. They wait until the \
             webhook agrees."
        }
        (false, false) => {
            "Events that are published before the webhook agrees pass this subscription by: they are \
             not kept for it, and not sent later by themselves."
        }
    }
}

/// What a person can do about the state of a validation.
fn advice(validation: &Validation) -> &'static str {
    let failure = validation.failure.as_deref().unwrap_or_default();
    match validation.state {
        ValidationState::Succeeded => "",
        ValidationState::Creating | ValidationState::Updating => {
            "The answer shows here as soon as it is known, in a few seconds at most."
        }
        ValidationState::AwaitingManualAction => {
            "The webhook answered without agreeing. It was also sent a validation URL, which \
             whoever runs it can open within ten minutes of the request; nothing is delivered before."
        }
        ValidationState::Failed if failure.contains(NOT_CALLED) => {
            "Edit the URL; a new one is validated as soon as it is saved. If the URL is right, let \
             whoever runs the appliance allow its address (the setting egress.allow, or \
             EVERPOST_EGRESS_ALLOW), then validate again."
        }
        ValidationState::Failed => {
            "The webhook must answer the validation event with 200 and the code that it was sent. \
             Correct it and validate again, or edit its URL. A webhook of your own that knows nothing \
             of validation can skip it: tick the box in the subscription's form."
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
