//! The first page: what needs attention, and how things stand.

use crate::admin::action::{ActionButton, Subject as _};
use crate::admin::page::*;
use crate::admin::pages::events::EventTable;
use crate::admin::pages::queue_depths::QueueDepths;
use crate::admin::pages::subscriptions::Subscription;
use crate::admin::pages::topics::TopicTable;
use crate::admin::pages::traffic::{RangeChoice, Sum, Traffic, bound};
use crate::admin::standing::{Standing, State as Stand};
use crate::admin::widgets::chart::Spark;
use crate::admin::widgets::figure::Look;
use crate::model::subscription::SubscriptionStatus;
use crate::store::views::{EventQuery, QueueDepth, TrafficOf, TrafficSlot};

/// Rows of each list.
const CONCERNS_SHOWN: usize = 5;
const TOPICS_SHOWN: usize = 10;
const EVENTS_SHOWN: usize = 8;
const STATES_SHOWN: usize = 24;

/// A delivery that has been due for so long is one to look at: retries take minutes by themselves.
const LATE: Duration = Duration::from_secs(60);

#[derive(Template)]
#[template(path = "pages/overview.html")]
struct OverviewPage<'a> {
    frame: Frame,
    /// Whether there is nothing yet, so that the way to a first event is shown to whoever may go it.
    is_new: bool,
    standing: &'a Standing,
    depths: &'a QueueDepths,
    total: QueueDepth,
    /// For how long the oldest delivery has been due that is sent and may be. What is paused waits for somebody to
    /// let it go on, and what is pulled for its receivers.
    overdue: Option<Duration>,
    /// What needs somebody, the worst first.
    concerns: Vec<(Subscription, Stand<'a>)>,
    traffic: &'a Traffic,
    sum: Sum,
    range: &'static str,
    topics: TopicTable,
    events: EventTable,
    recipe: Recipe,
}

/// The overview.
pub(crate) async fn show(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(range): Query<RangeChoice>,
) -> PageResult {
    let (standing, now) = (&visitor.standing, visitor.now);
    let registry = &standing.registry;
    let depths = &QueueDepths::of_all(&site, registry).await?;
    let recent = EventQuery {
        limit: EVENTS_SHOWN,
        ..EventQuery::default()
    };
    let recent = site.views.events(recent).await?;
    let made = registry.made_topics();
    let since = made.map(|each| each.topic.created_at).min();
    let page = ("/admin", since.unwrap_or(now));
    let traffic = &Traffic::read(&site, TrafficOf::Everything, &range, page).await?;
    let sending = standing.all().filter(|(_, it)| it.subscription.may_send());
    let due = sending.filter_map(|(_, it)| depths.subscription(it.subscription.id).next_attempt_at);
    let overdue = due.filter(|at| *at <= now).min();
    let all = registry.subscriptions().map(|(topic, each)| {
        let (topic, subscription) = (Arc::clone(topic), Arc::clone(each));
        (
            Subscription {
                topic,
                subscription,
            },
            standing.of(each),
        )
    });
    let mut concerns: Vec<_> = all.filter(|(_, it)| it.needs_attention()).collect();
    concerns.sort_by_key(|(_, state)| std::cmp::Reverse(state.tone()));
    let topics = registry.made_topics().take(TOPICS_SHOWN);
    let first_event = visitor.step("/admin/first-event", "Deliver the first event");
    Ok(draw(&OverviewPage {
        frame: Frame::new(&visitor, "Overview"),
        is_new: first_event.is_some() && since.is_none(),
        total: depths.total(),
        overdue: overdue.map(|at| now.since(at)),
        concerns,
        sum: Sum::of(&traffic.slots),
        range: range.chosen().title,
        topics: TopicTable::read(&site, &visitor, topics, depths).await?,
        events: EventTable::new(recent.rows, EventTable::none_yet(first_event)),
        recipe: Recipe::get(&site.management_url("/everpost/counts")).everpost("everpost doctor"),
        standing,
        depths,
        traffic,
    }))
}

impl OverviewPage<'_> {
    /// A mark for each endpoint, the worst first.
    fn states(&self) -> Vec<(Tone, String)> {
        let states = self.standing.all().map(|(topic, state)| {
            let (topic, name) = (&topic.topic.name, &state.subscription.name);
            (state.tone(), format!("{topic} / {name}: {}", state.word()))
        });
        let mut states: Vec<_> = states.collect();
        states.sort_by_key(|(tone, _)| std::cmp::Reverse(*tone));
        states.truncate(STATES_SHOWN);
        states
    }

    /// What is drawn below the figures: deliveries, failures, times, what is pending, and dead letters.
    fn sparks(&self) -> [Spark; 5] {
        let slots = &self.traffic.slots;
        let counts = |count: fn(&TrafficSlot) -> u64| slots.iter().map(count).collect::<Vec<_>>();
        let line = |class, count| {
            let counts = counts(count).into_iter().map(|count| count as f64);
            Spark::line(class, &counts.collect::<Vec<_>>())
        };
        [
            line("good", |slot| slot.delivered),
            Spark::bars("bad", &counts(|slot| slot.tried() - slot.delivered)),
            Spark::line("second", &self.traffic.slowest()),
            line("warn", |slot| slot.pending),
            Spark::bars("bad", &counts(|slot| slot.dead_lettered)),
        ]
    }

    fn button(of: &Subscription, action: &str) -> ActionButton {
        let button = of.button(action).class("quiet tiny").about(of.title());
        button.coming_back_to("/admin".to_owned())
    }

    fn dead_letter_look(&self) -> Look {
        let look = if self.sum.dead_lettered == 0 {
            Look::Hot
        } else {
            Look::Bad
        };
        look.when(self.total.dead_letters > 0)
    }
}
