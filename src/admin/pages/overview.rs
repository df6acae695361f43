//! The first page: what needs attention, and how things stand.

use crate::admin::action::ActionButton;
use crate::admin::page::*;
use crate::admin::pages::events::EventTable;
use crate::admin::pages::queue_depths::QueueDepths;
use crate::admin::pages::rejected_events;
use crate::admin::pages::subscriptions::Subscription;
use crate::admin::pages::topics::TopicTable;
use crate::admin::pages::traffic::{RangeChoice, Traffic, bound};
use crate::admin::standing::{Standing, State as Stand};
use crate::admin::widgets::chart::Spark;
use crate::admin::widgets::figure::{Figure, Look};
use crate::admin::widgets::response;
use crate::model::subscription::SubscriptionStatus;
use crate::store::views::{EventQuery, TrafficOf, TrafficSlot};

/// Rows of each list.
const CONCERNS_SHOWN: usize = 5;
const TOPICS_SHOWN: usize = 10;
const EVENTS_SHOWN: usize = 8;

#[derive(Template)]
#[template(path = "pages/overview.html")]
struct OverviewPage {
    frame: Frame,
    /// Whether there is nothing yet, so that the way to a first event is shown to whoever may go it.
    is_new: bool,
    all: u64,
    ill: u64,
    /// For how long the oldest delivery has been due that may be sent.
    overdue: Option<Duration>,
    figures: Vec<Figure>,
    concerns: Vec<Concern>,
    more_concerns: usize,
    traffic: Traffic,
    topics: TopicTable,
    events: EventTable,
    recipe: Recipe,
}

/// Something that needs attention, and the action that helps.
struct Concern {
    badge: Badge,
    title: String,
    href: String,
    text: String,
    /// Until when deliveries are held.
    held_until: Option<Timestamp>,
    since: Option<Timestamp>,
    step: Step,
}

enum Step {
    Button(ActionButton),
    Link(&'static str, String),
}

/// The overview.
pub(crate) async fn show(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(range): Query<RangeChoice>,
) -> PageResult {
    let (standing, now) = (&visitor.standing, visitor.now);
    let registry = &standing.registry;
    let depths = QueueDepths::of_all(&site, registry).await?;
    let recent = EventQuery {
        limit: EVENTS_SHOWN,
        ..EventQuery::default()
    };
    let recent = site.views.events(recent).await?;
    let since = registry
        .made_topics()
        .map(|each| each.topic.created_at)
        .min();
    let page = ("/admin", since.unwrap_or(now));
    let traffic = Traffic::read(&site, TrafficOf::Everything, &range, page).await?;
    let overdue = overdue(standing, &depths, now);
    let mut concerns = concerns(standing, &depths);
    let more_concerns = concerns.len().saturating_sub(CONCERNS_SHOWN);
    concerns.truncate(CONCERNS_SHOWN);
    let topics = registry.made_topics().take(TOPICS_SHOWN);
    let is_new = visitor.may_open("/admin/first-event") && since.is_none();
    let first_event = visitor.step("/admin/first-event", "Deliver the first event");
    Ok(draw(&OverviewPage {
        frame: Frame::new(&visitor, "Overview"),
        is_new,
        all: whole(standing.all().count()),
        ill: whole(standing.needing_attention()),
        figures: figures(standing, &depths, (&traffic, range.chosen().title), overdue),
        overdue,
        concerns,
        more_concerns,
        traffic: traffic.chosen_above(),
        topics: TopicTable::read(&site, &visitor, topics, &depths).await?,
        events: EventTable::new(recent.rows, EventTable::none_yet(first_event)),
        recipe: Recipe::get(&site.management_url("/everpost/counts")).everpost("everpost doctor"),
    }))
}

fn whole(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// For how long the oldest delivery has been due that is sent and may be; `None` if none is. What is paused
/// waits for somebody to let it go on, and what is pulled for its receivers.
fn overdue(standing: &Standing, depths: &QueueDepths, now: Timestamp) -> Option<Duration> {
    let sending = standing
        .all()
        .filter(|(_, each)| each.subscription.may_send());
    let due = sending.filter_map(|(_, each)| {
        let depth = depths.subscription(each.subscription.id);
        depth.next_attempt_at
    });
    let oldest = due.filter(|at| *at <= now).min()?;
    Some(now.since(oldest))
}

fn figures(
    standing: &Standing,
    depths: &QueueDepths,
    (traffic, range): (&Traffic, &str),
    overdue: Option<Duration>,
) -> Vec<Figure> {
    let (sum, total) = (&traffic.sum, depths.total());
    let counts =
        |count: fn(&TrafficSlot) -> u64| -> Vec<u64> { traffic.slots.iter().map(count).collect() };
    let lines = |count: fn(&TrafficSlot) -> u64| -> Vec<f64> {
        traffic
            .slots
            .iter()
            .map(|slot| count(slot) as f64)
            .collect()
    };
    let due = sum.due(total.pending);
    let failed = sum.tried - sum.delivered;
    let new_dead_letters = print::count(sum.dead_lettered);
    vec![
        healthy(standing),
        Figure::new("delivered", "Delivered", print::share(sum.delivered, due))
            .look(Look::of_share(sum.delivered, due), "warn")
            .sub(format!(
                "{} of {} due in {range}",
                print::count(sum.delivered),
                print::plural(due, "delivery", "deliveries")
            ))
            .leading_to("/admin/events")
            .spark(Spark::line("good", &lines(|slot| slot.delivered))),
        Figure::new(
            "success",
            "Success rate",
            print::share(sum.delivered, sum.tried),
        )
        .look(Look::of_share(sum.delivered, sum.tried), "warn")
        .sub(format!(
            "{} of {} failed",
            print::count(failed),
            print::plural(sum.tried, "attempt", "attempts")
        ))
        .leading_to("#traffic")
        .spark(Spark::bars(
            "bad",
            &counts(|slot| slot.tried() - slot.delivered),
        )),
        Figure::new(
            "latency",
            "Delivery time p95",
            bound(sum.latency.within_ms(0.95)),
        )
        .sub(format!(
            "p50 {}, without what is still pending",
            bound(sum.latency.within_ms(0.5))
        ))
        .leading_to("#traffic")
        .spark(Spark::line("second", &traffic.slowest())),
        Figure::new("pending", "Pending", print::count(total.pending))
            .look(
                if overdue.is_some_and(is_long) {
                    Look::Warn
                } else {
                    Look::Plain
                },
                "wait",
            )
            .sub(overdue.map_or_else(
                || "none is due".to_owned(),
                |age| format!("oldest due for {}", print::roughly(age)),
            ))
            .leading_to("/admin/events?state=Pending")
            .spark(Spark::line("warn", &lines(|slot| slot.pending))),
        Figure::new(
            "dead-letters",
            "Dead letters",
            print::count(total.dead_letters),
        )
        .look(
            match (total.dead_letters, sum.dead_lettered) {
                (0, _) => Look::Plain,
                (_, 0) => Look::Hot,
                (_, _) => Look::Bad,
            },
            "dead",
        )
        .sub(format!("{new_dead_letters} new in {range}"))
        .leading_to("/admin/dead-letters")
        .spark(Spark::bars("bad", &counts(|slot| slot.dead_lettered))),
    ]
}

/// Whether a delivery has been due for so long that somebody should look: retries take minutes by themselves.
fn is_long(age: Duration) -> bool {
    age >= Duration::from_secs(60)
}

/// How many endpoints need nobody, with a mark for each.
fn healthy(standing: &Standing) -> Figure {
    let (all, ill) = (standing.all().count(), standing.needing_attention());
    let states = standing.all().map(|(topic, state)| {
        let badge = state.badge();
        let name = &state.subscription.name;
        (
            badge.tone,
            format!("{} / {name}: {}", topic.topic.name, badge.word),
        )
    });
    let mut states: Vec<(Tone, String)> = states.collect();
    states.sort_by_key(|(tone, _)| std::cmp::Reverse(*tone));
    states.truncate(24);
    let figure = match all {
        0 => Figure::new("healthy", "Healthy endpoints", "–").sub("no subscriptions yet"),
        _ => Figure::new(
            "healthy",
            "Healthy endpoints",
            format!("{} of {all}", all - ill),
        ),
    };
    let figure = match ill {
        0 => figure,
        _ => figure.look(Look::Bad, "x").sub(format!(
            "{} attention",
            print::plural(whole(ill), "needs", "need")
        )),
    };
    figure.leading_to("/admin/subscriptions").states(states)
}

/// What needs somebody, the worst first.
fn concerns(standing: &Standing, depths: &QueueDepths) -> Vec<Concern> {
    let ill = standing.all().filter(|(_, state)| state.needs_attention());
    let mut concerns: Vec<Concern> = ill
        .map(|(topic, state)| Concern::of(topic, &state, depths))
        .collect();
    if standing.rejected > 0 {
        concerns.push(Concern {
            badge: Badge::new(
                Tone::Warn,
                format!("{} rejected", print::count(standing.rejected)),
            )
            .with("rejected"),
            title: "Publish requests".to_owned(),
            href: rejected_events::PATH.to_owned(),
            text: "Rejected in the last 24 hours, with the reason of each".to_owned(),
            held_until: None,
            since: None,
            step: Step::Link("View requests", rejected_events::PATH.to_owned()),
        });
    }
    concerns.sort_by_key(|concern| std::cmp::Reverse(concern.badge.tone));
    concerns
}

impl Concern {
    fn of(topic: &Arc<TopicEntry>, state: &Stand<'_>, depths: &QueueDepths) -> Self {
        let of = Subscription {
            topic: Arc::clone(topic),
            subscription: Arc::new(state.subscription.clone()),
        };
        let depth = depths.subscription(of.subscription.id);
        let validation = &of.subscription.validation;
        let (text, since, step) = match state.status {
            SubscriptionStatus::OnProbation => (
                format!(
                    "{}, {} times in a row. {}",
                    state.last_response(),
                    state.health.failures,
                    pending(depth.pending)
                ),
                state.health.probation.map(|probation| probation.since),
                Step::button(of.button("retry-now"), &of),
            ),
            SubscriptionStatus::NotValidated(_) => (
                validation
                    .failure
                    .as_deref()
                    .map(print::sentence)
                    .unwrap_or_default(),
                Some(of.subscription.updated_at),
                Step::button(of.button("validate"), &of),
            ),
            SubscriptionStatus::Disabled(_) => (
                format!("{}. {}", response::of_status(410), pending(depth.pending)),
                Some(of.subscription.updated_at),
                Step::button(of.button("resume"), &of),
            ),
            SubscriptionStatus::Gone => (
                format!("{}. {}", state.reason(), pending(depth.pending)),
                state.health.gone_since,
                Step::Link("View", of.page()),
            ),
            SubscriptionStatus::Active
            | SubscriptionStatus::Paused
            | SubscriptionStatus::Expired => {
                let list = link("/admin/dead-letters", &[("of", of.filter())]);
                (state.reason(), None, Step::Link("View dead letters", list))
            }
        };
        Self {
            badge: state.badge(),
            title: of.title(),
            href: of.page(),
            text,
            held_until: state.held_until(),
            since,
            step,
        }
    }
}

impl Step {
    fn button(button: ActionButton, of: &Subscription) -> Self {
        let button = button.class("quiet tiny").about(of.title());
        Self::Button(button.coming_back_to("/admin".to_owned()))
    }
}

fn pending(count: u64) -> String {
    match count {
        0 => "Nothing is pending".to_owned(),
        count => format!("{} pending", print::count(count)),
    }
}
