//! The page of one event subscription.

use serde::Deserialize;

use crate::admin::page::*;
use crate::admin::pages::queue_depths;
use crate::admin::pages::search::UNMATCHED;
use crate::admin::pages::subscriptions::Subscription;
use crate::admin::pages::subscriptions::definition::{Draft, Kind};
use crate::admin::pages::topics::Snippets;
use crate::admin::pages::traffic::{RangeChoice, Sum, Traffic, bound};
use crate::admin::paths::{event_page, inspector_page, topic_page};
use crate::admin::standing::State as Stand;
use crate::admin::widgets::figure::{Figure, Look};
use crate::admin::widgets::ladder::RetryLadder;
use crate::admin::widgets::strip::{Strip, succeeded};
use crate::admin::widgets::{json_text, response};
use crate::model::audit::SecretKind;
use crate::model::destination::{AttributeValue, Destination, EndpointUrl, WebHook};
use crate::model::event::EventKey;
use crate::model::filter::Clause;
use crate::model::name::InspectorName;
use crate::model::retry::{DeliveryProfile, RetryPolicy};
use crate::model::signing::ActiveSecret;
use crate::model::subscription::{
    Disabled, SubscriptionDefinition, SubscriptionStatus, ValidationState,
};
use crate::model::topic::DeliverySchema;
use crate::store::StoreError;
use crate::store::views::{
    DeliveryRow, ExportHistory, PullQueue, QueueDepth, RecentAttempt, TrafficOf, TrafficQuery,
};
use crate::wire::resource::render_filter;

/// Attempts that the strip draws, and that are listed below it.
const STRIP: usize = 60;
const LISTED: usize = 14;

/// Rows of a pull queue of each kind.
const QUEUE_ROWS: usize = 20;

/// What the address asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Shown {
    #[serde(flatten)]
    range: RangeChoice,
    /// `failed` lists the attempts that failed alone.
    attempts: String,
}

#[derive(Template)]
#[template(path = "pages/subscription.html")]
struct SubscriptionPage<'a> {
    frame: Frame,
    of: &'a Subscription,
    path: String,
    definition: &'a SubscriptionDefinition,
    state: Stand<'a>,
    depth: QueueDepth,
    now: Timestamp,
    figures: Vec<Figure>,
    attempts: Attempts,
    /// `None` for what is pushed.
    pull: Option<Pull>,
    traffic: Traffic,
    /// Whether the whole URL is shown.
    with_url: bool,
    /// What is set, as the form would have it.
    form: Draft,
    policy: RetryPolicy,
    ladder: RetryLadder,
    history: ExportHistory,
    recipe: Recipe,
}

/// The newest attempts.
struct Attempts {
    strip: Strip,
    rows: Vec<RecentAttempt>,
    only_failed: bool,
}

/// What there is to see and do where receivers come for the events.
struct Pull {
    queue: PullQueue,
    snippets: Option<Snippets>,
}

/// One event subscription.
pub(crate) async fn show(
    Query(shown): Query<Shown>,
    Call {
        site, visitor, of, ..
    }: Call<Subscription>,
) -> PageResult {
    draw_subscription(&site, &visitor, &of, &shown, false).await
}

/// The page with the whole URL on it.
pub(crate) async fn reveal_url(
    State(site): State<Arc<Site>>,
    Path(names): Path<Names>,
    Submitted { visitor, .. }: Submitted,
) -> PageResult {
    let of = Subscription::find(&site, &names).await?;
    let (topic, name) = of.names();
    let by = &visitor.caller;
    site.broker
        .show_secrets(by, SecretKind::Url, topic, name)
        .await?;
    draw_subscription(&site, &visitor, &of, &Shown::default(), true).await
}

async fn draw_subscription(
    site: &Site,
    visitor: &Visitor,
    of: &Subscription,
    shown: &Shown,
    with_url: bool,
) -> Result<Response, PageError> {
    let (id, path) = (of.subscription.id, of.page());
    let depths = site.views.depths(vec![id]).await?;
    let depth = depths.first().copied().unwrap_or_default();
    let state = visitor.standing.of(&of.subscription);
    let (topic, name) = of.names();
    let management = format!("{}/eventSubscriptions/{name}", topic.path());
    let options = site.broker.options();
    let policy = of.topic.retry_policy(&of.subscription);
    let mut form = Draft::of(&of.topic, &of.subscription);
    let default = |setting: String| format!("{setting} (default)");
    form.defaults = vec![
        (
            "responseDeadlineInSeconds",
            default(options.response_deadline.as_secs().to_string()),
        ),
        (
            "maxRequestsInFlight",
            default(options.in_flight_per_subscription.to_string()),
        ),
    ];
    let since = of.subscription.created_at;
    let traffic = Traffic::read(
        site,
        TrafficOf::Subscription(id),
        &shown.range,
        (&path, since),
    );
    let page = SubscriptionPage {
        frame: Frame::new(visitor, name.to_string()),
        figures: figures(site, of, depth, visitor.now).await?,
        attempts: Attempts::read(site, of, shown).await?,
        pull: Pull::read(site, of, visitor.now).await?,
        traffic: traffic.await?,
        history: site.views.export_history(id).await?,
        definition: &of.subscription.definition,
        form,
        ladder: RetryLadder::new(&policy, options.time_scale),
        recipe: Recipe::get(&site.management_url(&management)).everpost(format!(
            "everpost subscriptions show {name} --topic {topic}"
        )),
        now: visitor.now,
        of,
        path,
        state,
        depth,
        with_url,
        policy,
    };
    Ok(draw(&page))
}

impl Attempts {
    async fn read(site: &Site, of: &Subscription, shown: &Shown) -> Result<Self, StoreError> {
        let id = of.subscription.id;
        let mut rows = site.views.recent_attempts(id, STRIP).await?;
        let strip = Strip::wide(&rows, STRIP);
        let only_failed = shown.attempts == "failed";
        if only_failed {
            rows.retain(|each| !succeeded(each.attempt.result.outcome));
        }
        rows.truncate(LISTED);
        Ok(Self {
            strip,
            rows,
            only_failed,
        })
    }

    /// The icon of one, and the word for those who cannot see it.
    fn glyph(each: &RecentAttempt) -> (Tone, &'static str) {
        match succeeded(each.attempt.result.outcome) {
            true => (Tone::Good, "Succeeded"),
            false => (Tone::Bad, "Failed"),
        }
    }
}

impl Pull {
    async fn read(
        site: &Site,
        of: &Subscription,
        now: Timestamp,
    ) -> Result<Option<Self>, StoreError> {
        if of
            .subscription
            .definition
            .destination
            .endpoint_url()
            .is_some()
        {
            return Ok(None);
        }
        let lying = site.views.pull_queue(of.subscription.id, now, QUEUE_ROWS);
        Ok(Some(Self {
            queue: lying.await?,
            snippets: Snippets::receive(site, &of.topic, &of.subscription.name),
        }))
    }

    /// `12 never, 3 once`: how often those that are pending have been handed out.
    fn handed_out(&self) -> String {
        let counts = self.queue.state.by_attempts.iter();
        let words = counts.map(|(attempts, count)| {
            let count = print::count(*count);
            match attempts {
                0 => format!("{count} never"),
                1 => format!("{count} once"),
                more => format!("{count} {more} times"),
            }
        });
        words.collect::<Vec<_>>().join(", ")
    }
}

/// How the last day and hour went.
async fn figures(
    site: &Site,
    of: &Subscription,
    depth: QueueDepth,
    now: Timestamp,
) -> Result<Vec<Figure>, StoreError> {
    let of_it = TrafficOf::Subscription(of.subscription.id);
    let read = |step_ms, slots| {
        site.views
            .traffic(TrafficQuery::until(now, of_it, step_ms, slots))
    };
    let (day, hour) = (read(3_600_000, 24).await?, read(60_000, 60).await?);
    let (day, hour) = (Sum::of(&day), Sum::of(&hour));
    let [delivered, pending, dead_letters] = queue_depths::figures(&day, depth, &of.filter(), now);
    Ok(vec![
        delivered,
        Figure::new(
            "success",
            "Success rate, 1 h",
            print::share(hour.delivered, hour.tried),
        )
        .look(Look::of_share(hour.delivered, hour.tried), "x")
        .sub(format!(
            "{} in 24 h",
            print::share(day.delivered, day.tried)
        )),
        pending,
        dead_letters,
        Figure::new(
            "latency",
            "Delivery time p95",
            bound(day.latency.within_ms(0.95)),
        )
        .sub(format!("p50 {}", bound(day.latency.within_ms(0.5)))),
    ])
}

impl SubscriptionPage<'_> {
    fn event_page(&self, key: &EventKey) -> String {
        event_page(*key)
    }

    /// When the lock ends by which a receiver holds it.
    fn lock(&self, row: &DeliveryRow) -> Option<Timestamp> {
        row.locked_until.filter(|until| *until > self.now)
    }

    fn webhook(&self) -> Option<&WebHook> {
        match &self.definition.destination {
            Destination::WebHook(webhook) => Some(webhook),
            Destination::Queue(_) => None,
        }
    }

    fn endpoint(&self, url: &EndpointUrl) -> String {
        match self.with_url {
            true => url.reveal().to_string(),
            false => url.base(),
        }
    }

    fn hides_query(&self, url: &EndpointUrl) -> bool {
        !self.with_url && url.reveal().query().is_some()
    }

    /// The inspector that it is sent to, by name and page.
    fn inspector(&self, url: &EndpointUrl) -> Option<(String, String)> {
        let inspector = InspectorName::of_url(url.reveal())?;
        Some((inspector.to_string(), inspector_page(&inspector)))
    }

    /// What signs requests, newest first.
    fn signing(&self, webhook: &WebHook) -> Vec<ActiveSecret> {
        let active = webhook.credentials.signing.active(self.now);
        active.cloned().collect()
    }

    /// A clause of the advanced filter: its meaning, its values and Azure's word for it.
    fn clause(clause: &Clause) -> (&'static str, Vec<String>, &'static str) {
        let row = clause.operator.row();
        let values = clause.operand.values();
        let values = values.iter().map(|value| print::visible(value));
        (row.meaning, values.collect(), row.name)
    }

    fn advanced_json(&self) -> String {
        let filter = render_filter(&self.definition.filter);
        json_text::laid_out(&filter["advancedFilters"].to_string())
    }

    /// The id and title of every part of the settings.
    fn sections(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let kind = self.form.kind;
        let first = if kind.is_pushed() {
            "Destination"
        } else {
            "Receiving"
        };
        let folds = kind.folds().filter(|(id, _)| *id != "fold-signing");
        [("first", first), ("filter", "Filter")]
            .into_iter()
            .chain(folds)
    }

    /// The statuses that no other attempt follows.
    fn final_statuses(&self) -> &'static str {
        match self.policy.profile {
            DeliveryProfile::Basic => "400, 401, 403 and 413",
            DeliveryProfile::Namespace => "400, 401, 403, 404, 413 and 414",
        }
    }

    /// What one who has to wait is told: why the endpoint may not agree.
    fn is_blocked(&self) -> bool {
        let failure = self.of.subscription.validation.failure.as_deref();
        failure.is_some_and(|failure| failure.contains("not called: "))
    }
}
