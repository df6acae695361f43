//! The page of one event subscription.

use axum::extract::Query;
use serde::Deserialize;

use super::{DefinitionKind, Subscription, SubscriptionDraft};
use crate::admin::action::{Call, Subject};
use crate::admin::error::PageResult;
use crate::admin::lists::link;
use crate::admin::lists::recipe::Recipe;
use crate::admin::pages::answer;
use crate::admin::pages::search::UNMATCHED;
use crate::admin::pages::topics::Snippets;
use crate::admin::pages::traffic::{RangeChoice, TrafficCharts, bound};
use crate::admin::paths;
use crate::admin::widgets::figure::Look;
use crate::admin::widgets::ladder::RetryLadder;
use crate::admin::widgets::strip::{Strip, succeeded};
use crate::admin::widgets::{Badge, Icon, Tone, filters, json_text, print, response};
use crate::model::audit::SecretKind;
use crate::model::delivery::Outcome;
use crate::model::destination::AttributeValue;
use crate::model::name::InspectorName;
use crate::model::retry::DeliveryProfile;
use crate::model::subscription::{Disabled, SubscriptionStatus, ValidationState};
use crate::model::topic::{DeliverySchema, EntityKind};
use crate::store::views::{
    ExportHistory, PullQueue, QueueDepth, RecentAttempt, TrafficOf, TrafficQuery, TrafficSlot,
};

/// The number of attempts that are drawn in the strip and listed below it.
const STRIP: usize = 60;
const LISTED: usize = 14;

/// The number of rows for each kind of entry of a pull queue.
const QUEUE_ROWS: usize = 20;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SubscriptionView {
    #[serde(flatten)]
    range: RangeChoice,
    /// `failed` limits the list to failed attempts.
    attempts: String,
}

pub(crate) async fn show(
    Query(shown): Query<SubscriptionView>,
    call: Call<Subscription>,
) -> PageResult {
    draw_subscription(&call, &shown, false).await
}

/// Shows the page with the whole endpoint URL.
pub(crate) async fn reveal_url(call: Call<Subscription>) -> PageResult {
    let (broker, (topic, name)) = (&call.broker, call.of.names());
    let shown = broker.show_secrets(call.by(), SecretKind::Url, topic, name);
    shown.await?;
    draw_subscription(&call, &SubscriptionView::default(), true).await
}

async fn draw_subscription(
    call: &Call<Subscription>,
    shown: &SubscriptionView,
    with_url: bool,
) -> PageResult {
    let (of, views, now) = (&call.of, &call.views, call.visitor.now);
    let (id, (topic, name)) = (of.subscription.id, of.names());
    let of_it = TrafficOf::Subscription(id);
    let traffic = |step_ms, slots| views.traffic(TrafficQuery::until(now, of_it, step_ms, slots));
    let (day, hour) = (traffic(3_600_000, 24).await?, traffic(60_000, 60).await?);
    let (day, hour) = (TrafficSlot::sum(&day), TrafficSlot::sum(&hour));
    let mut attempts = views.recent_attempts(id, STRIP).await?;
    let strip = Strip::wide(&attempts, STRIP);
    let only_failed = shown.attempts == "failed";
    attempts.retain(|each| !only_failed || !succeeded(each.attempt.result.outcome));
    attempts.truncate(LISTED);
    let pull = match of.subscription.definition.destination.pull_queue() {
        None => None,
        Some(_) => Some((
            views.pull_queue(id, now, QUEUE_ROWS).await?,
            Snippets::receive(call),
        )),
    };
    let options = call.broker.options();
    let mode = of.subscription.definition.destination.delivery_mode();
    let kind = DefinitionKind::of(&of.topic, mode);
    let mut form = SubscriptionDraft::of(&of.topic, kind, Some(&of.subscription));
    let deadline = options.response_deadline.as_secs().to_string();
    let in_flight = options.in_flight_per_subscription.to_string();
    for (name, default) in [
        ("responseDeadlineInSeconds", deadline),
        ("maxRequestsInFlight", in_flight),
    ] {
        if form.value(name).is_empty() {
            form.form.set(name, default);
        }
    }
    let is_pulled = pull.is_some();
    let policy = of.topic.retry_policy(&of.subscription);
    let api = format!("{}/eventSubscriptions/{name}", topic.path());
    let command = format!("everpost subscriptions show {name} --topic {topic}");
    let (page, born) = (of.page(), of.subscription.created_at);
    answer!("pages/subscription.html", &call.visitor, name.to_string(), {
        of: Subscription = of.clone(),
        depth: QueueDepth = call.depth(id).await?,
        // Delivery results of the last day and hour.
        day: TrafficSlot = day,
        hour: TrafficSlot = hour,
        strip: Strip = strip,
        attempts: Vec<RecentAttempt> = attempts,
        only_failed: bool = only_failed,
        // The queue from which receivers pull events; `None` for push delivery.
        pull: Option<(PullQueue, Option<Snippets>)> = pull,
        traffic: TrafficCharts = TrafficCharts::read(call, of_it, &shown.range, &page, born).await?.pulled(is_pulled),
        // Whether the whole URL is shown.
        with_url: bool = with_url,
        // The current settings, as the form shows them.
        form: SubscriptionDraft = form,
        ladder: RetryLadder = RetryLadder::new(&policy, options.time_scale),
        history: ExportHistory = views.export_history(id).await?,
        recipe: Recipe = Recipe::of(call, &api, command),
    })
}
