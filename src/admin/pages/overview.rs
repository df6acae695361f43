//! The first page: what needs attention, and how things stand.

use crate::admin::pages::events::EventTable;
use crate::admin::pages::subscriptions::{Subscription, rank};
use crate::admin::pages::topics::TopicTable;
use crate::admin::pages::*;

/// Rows of each list.
const CONCERNS_SHOWN: usize = 5;
const TOPICS_SHOWN: usize = 10;
const EVENTS_SHOWN: usize = 8;
const STATES_SHOWN: usize = 24;

pub(crate) async fn show(Query(range): Query<RangeChoice>, call: Call) -> PageResult {
    let (visitor, standing) = (&call.visitor, &call.visitor.standing);
    let registry = &standing.registry;
    let depths = QueueDepths::of(&call, registry.topics()).await?;
    let recent = EventQuery {
        limit: EVENTS_SHOWN,
        ..EventQuery::default()
    };
    let recent = call.views.events(recent).await?.rows;
    let since = registry.made_topics().map(|each| each.topic.created_at);
    let since = since.min();
    let born = ("/admin", since.unwrap_or(visitor.now));
    let traffic = Traffic::read(&call, TrafficOf::Everything, &range, born).await?;
    let mut all: Vec<_> = registry.subscriptions().map(Subscription::of).collect();
    all.sort_by_cached_key(|of| rank(of, standing));
    let sending = all.iter().map(|each| &each.subscription);
    let sending = sending.filter(|each| each.may_send());
    let overdue = sending.filter_map(|each| depths.subscription(each.id).overdue(visitor.now));
    let topics = registry.made_topics().take(TOPICS_SHOWN);
    let first_event = visitor.step("/admin/first-event", "Deliver the first event");
    answer!("pages/overview.html", visitor, "Overview", {
        // Whether there is nothing yet, so that the way to a first event is shown to whoever may go it.
        is_new: bool = first_event.is_some() && since.is_none(),
        // For how long the oldest delivery has been due that is sent and may be. What is paused waits for somebody to
        // let it go on, and what is pulled for its receivers.
        overdue: Option<Duration> = overdue.max(),
        delivers_nothing: bool = call.broker.options().in_flight_max == 0,
        // All subscriptions, the worst first.
        all: Vec<Subscription> = all,
        total: QueueDepth = depths.total(),
        depths: QueueDepths = depths,
        sum: TrafficSlot = TrafficSlot::sum(&traffic.slots),
        traffic: Traffic = traffic,
        range: &'static str = range.chosen().title,
        topics: TopicTable = TopicTable::read(&call, topics, first_event.clone()).await?,
        events: EventTable = EventTable::new(recent, EventTable::none_yet(first_event)),
        recipe: Recipe = Recipe::of(&call, "/everpost/counts", "everpost doctor"),
    })
}

/// Returns the charts below the figures: deliveries, failures, times, pending deliveries and dead letters.
fn sparks(traffic: &Traffic) -> [Spark; 5] {
    let counts =
        |count: fn(&TrafficSlot) -> u64| traffic.slots.iter().map(count).collect::<Vec<_>>();
    let line = |class, count| {
        let counts = counts(count).into_iter().map(|count| count as f64);
        Spark::line(class, &counts.collect::<Vec<_>>())
    };
    [
        line("good", |slot| slot.delivered),
        Spark::bars("bad", &counts(|slot| slot.tried() - slot.delivered)),
        Spark::line("second", &traffic.slowest()),
        line("warn", |slot| slot.pending),
        Spark::bars("bad", &counts(|slot| slot.dead_lettered)),
    ]
}
