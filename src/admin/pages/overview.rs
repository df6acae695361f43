//! The first page: what needs attention, and how things stand.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::{Query, State};

use crate::admin::bare::draw;
use crate::admin::error::PageResult;
use crate::admin::frame::Frame;
use crate::admin::lists::link;
use crate::admin::lists::recipe::Recipe;
use crate::admin::pages::events::EventTable;
use crate::admin::pages::last_day::TopicDays;
use crate::admin::pages::queue_depths::QueueDepths;
use crate::admin::pages::rejected_events;
use crate::admin::pages::subscriptions::{SubscriptionState, state};
use crate::admin::pages::topics::TopicTable;
use crate::admin::pages::traffic::{RangeChoice, Traffic};
use crate::admin::paths::subscription_page;
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::widgets::{Badge, Tone};
use crate::admin::widgets::{hint, print};
use crate::base::Timestamp;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::probation::Health;
use crate::model::registry::{Registry, TopicEntry};
use crate::model::subscription::{EventSubscription, SubscriptionId};
use crate::store::views::{DeadLetterGroup, EventQuery, TrafficOf};

/// Events shown.
const EVENTS_SHOWN: usize = 10;

/// Rows of the list of what needs attention; the rest is counted.
const CONCERNS_SHOWN: usize = 20;

/// How far back refused publish requests are told of.
const DAY: Duration = Duration::from_secs(24 * 3_600);

#[derive(Template)]
#[template(path = "admin/overview.html")]
struct OverviewPage {
    frame: Frame,
    /// Whether there is nothing yet, so that the way to a first event is shown to whoever may go it.
    is_new: bool,
    /// Whether all is well.
    health: Badge,
    /// The state of things in one sentence.
    standing: String,
    tiles: Vec<Tile>,
    concerns: Vec<Concern>,
    more_concerns: usize,
    traffic: Traffic,
    topics: TopicTable,
    events: EventTable,
    recipe: Recipe,
}

/// A figure with what it counts.
struct Tile {
    label: &'static str,
    figure: String,
    href: &'static str,
}

/// Something that needs attention.
struct Concern {
    badge: Badge,
    title: String,
    href: String,
    text: String,
    /// Where to do something about it, if that is not on its page.
    step: Option<(&'static str, String)>,
}

/// The overview.
pub(crate) async fn show(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Query(range): Query<RangeChoice>,
) -> PageResult {
    let registry = site.broker.registry();
    let depths = QueueDepths::of_all(&site, &registry).await?;
    let recent = EventQuery {
        limit: EVENTS_SHOWN,
        ..EventQuery::default()
    };
    let recent = site.views.events(recent).await?;
    let days = TopicDays::read(&site, visitor.now).await?;
    let traffic = Traffic::read(&site, TrafficOf::Everything, &range, "/admin").await?;
    let refused = site.views.count_rejections(visitor.now - DAY).await?;
    let overdue = overdue(&registry, &depths, visitor.now);
    let standing = standing(&registry, &depths, overdue, visitor.now);
    let reasons = Reasons::of(site.views.dead_letter_groups().await?);
    let mut concerns = concerns(&registry, &depths, &reasons, visitor.now);
    let more_concerns = concerns.len().saturating_sub(CONCERNS_SHOWN);
    let health = health(concerns.len());
    concerns.truncate(CONCERNS_SHOWN);
    Ok(draw(&OverviewPage {
        frame: Frame::new(&visitor, "Overview"),
        is_new: visitor.may_open("/admin/first-event") && registry.made_topics().next().is_none(),
        health,
        standing,
        tiles: tiles(&registry, &depths, overdue, refused),
        concerns,
        more_concerns,
        traffic,
        topics: TopicTable::new(registry.made_topics(), (&depths, &days), &visitor),
        events: EventTable::new(recent.rows),
        recipe: Recipe::get(&site.management_url("/everpost/counts")).everpost("everpost doctor"),
    }))
}

fn health(concerns: usize) -> Badge {
    match concerns {
        0 => Badge::new(Tone::Good, "Nothing needs attention"),
        1 => Badge::new(Tone::Bad, "1 thing needs attention"),
        more => Badge::new(Tone::Bad, format!("{more} things need attention")),
    }
}

/// For how long the oldest delivery has been due that is sent and may be; `None` if none is due. What
/// receivers come for waits for them, and what is paused waits for somebody to let it go on.
fn overdue(registry: &Registry, depths: &QueueDepths, now: Timestamp) -> Option<Duration> {
    let sending = registry.subscriptions().filter(|(_, each)| each.may_send());
    let due = sending.filter_map(|(_, each)| depths.subscription(each.id).next_attempt_at);
    let oldest = due.filter(|at| *at <= now).min();
    oldest.map(|at| now.since(at))
}

/// `All 14 event subscriptions are healthy; the oldest delivery that is due waits for 3 s.`
fn standing(
    registry: &Registry,
    depths: &QueueDepths,
    overdue: Option<Duration>,
    now: Timestamp,
) -> String {
    let all = registry.subscriptions().count();
    let is_ill = |(topic, each): &(&Arc<TopicEntry>, &Arc<EventSubscription>)| {
        Concern::undelivered(topic, each, &depths.health(each.id), now).is_some()
            || depths.subscription(each.id).dead_letters > 0
    };
    let ill = registry.subscriptions().filter(is_ill).count();
    let healthy = match (all, ill) {
        (0, _) => return "There are no event subscriptions yet.".to_owned(),
        (1, 0) => "The event subscription is healthy".to_owned(),
        (1, _) => "The event subscription is not healthy".to_owned(),
        (all, 0) => format!("All {all} event subscriptions are healthy"),
        (all, ill) if ill == all => format!("None of {all} event subscriptions is healthy"),
        (all, ill) => format!("{} of {all} event subscriptions are healthy", all - ill),
    };
    match overdue {
        None => format!("{healthy}; no delivery is due."),
        Some(age) => format!(
            "{healthy}; the oldest delivery that is due waits for {}.",
            print::span(age)
        ),
    }
}

/// `refused` publish requests are shown where there are any.
fn tiles(
    registry: &Registry,
    depths: &QueueDepths,
    overdue: Option<Duration>,
    refused: u64,
) -> Vec<Tile> {
    let total = depths.total();
    let tile = |label, count: u64, href| Tile {
        label,
        figure: print::count(count),
        href,
    };
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let mut tiles = vec![
        tile(
            "Topics",
            number(registry.made_topics().count()),
            "/admin/topics",
        ),
        tile(
            "Event subscriptions",
            number(registry.subscriptions().count()),
            "/admin/subscriptions",
        ),
        tile(
            "Waiting deliveries",
            total.pending,
            "/admin/events?state=Pending",
        ),
        Tile {
            label: "Oldest delivery that is due",
            figure: overdue.map_or_else(|| "none".to_owned(), print::span),
            href: "/admin/subscriptions",
        },
        tile("Dead letters", total.dead_letters, "/admin/dead-letters"),
    ];
    if refused > 0 {
        let label = "Refused publish requests in 24 h";
        tiles.push(tile(label, refused, rejected_events::PATH));
    }
    tiles
}

/// Subscriptions that do not deliver, then those with dead letters.
fn concerns(
    registry: &Registry,
    depths: &QueueDepths,
    reasons: &Reasons,
    now: Timestamp,
) -> Vec<Concern> {
    let all = || registry.subscriptions();
    let unable = all().filter_map(|(topic, each)| {
        Concern::undelivered(topic, each, &depths.health(each.id), now)
    });
    let given_up = all().filter_map(|(topic, each)| {
        let dead_letters = depths.subscription(each.id).dead_letters;
        Concern::given_up(topic, each, dead_letters, reasons)
    });
    unable.chain(given_up).collect()
}

impl Concern {
    /// A subscription that may not deliver, or whose receiver takes nothing.
    fn undelivered(
        topic: &TopicEntry,
        each: &EventSubscription,
        health: &Health,
        now: Timestamp,
    ) -> Option<Self> {
        let (of, name) = (topic.topic.name.as_str(), each.name.as_str());
        let is_ill = health.probation.is_some() || health.gone_since.is_some();
        let SubscriptionState { badge, why } = state(each, health, now);
        (is_ill || !each.may_deliver()).then(|| Self {
            badge,
            title: format!("{of} / {name}"),
            href: subscription_page(of, name),
            text: why,
            step: None,
        })
    }

    /// A subscription with dead letters.
    fn given_up(
        topic: &TopicEntry,
        each: &EventSubscription,
        dead_letters: u64,
        reasons: &Reasons,
    ) -> Option<Self> {
        let (of, name) = (topic.topic.name.as_str(), each.name.as_str());
        let (one, many) = (
            "delivery has been given up",
            "deliveries have been given up",
        );
        let why = reasons.sentence(each.id);
        (dead_letters > 0).then(|| Self {
            badge: Badge::new(Tone::Bad, "Dead letters"),
            title: format!("{of} / {name}"),
            href: subscription_page(of, name),
            text: format!("{}{why}.", print::plural(dead_letters, one, many)),
            step: Some((
                "Look at them",
                link("/admin/dead-letters", &[("of", format!("{of}/{name}"))]),
            )),
        })
    }
}

/// Why deliveries were given up that are dead letters now: how many for which reason, the most first.
struct Reasons(HashMap<SubscriptionId, Vec<(String, u64)>>);

impl Reasons {
    fn of(groups: Vec<DeadLetterGroup>) -> Self {
        let mut all: HashMap<SubscriptionId, BTreeMap<String, u64>> = HashMap::new();
        for group in groups {
            let reasons = all.entry(group.subscription).or_default();
            *reasons.entry(group.reason).or_default() += group.dead_letters;
        }
        let sorted = all.into_iter().map(|(subscription, reasons)| {
            let mut reasons: Vec<_> = reasons.into_iter().collect();
            reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            (subscription, reasons)
        });
        Self(sorted.collect())
    }

    /// `: rejected as a bad request`, `, 9 of them: all attempts failed`.
    fn sentence(&self, subscription: SubscriptionId) -> String {
        let reasons = self.0.get(&subscription).map_or(&[][..], Vec::as_slice);
        let words = |reason: &str| {
            let known = DeadLetterReason::from_name(reason).map(hint::for_reason);
            known.map_or_else(|| reason.to_owned(), str::to_lowercase)
        };
        match reasons {
            [] => String::new(),
            [(reason, _)] => format!(": {}", words(reason)),
            [(reason, count), ..] => {
                format!(", {} of them: {}", print::count(*count), words(reason))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_reason_is_told() {
        let group = |subscription, reason: &str, dead_letters| DeadLetterGroup {
            subscription: SubscriptionId(subscription),
            reason: reason.to_owned(),
            day: Timestamp::from_ms(0),
            dead_letters,
        };
        let reasons = Reasons::of(vec![
            group(1, "TimeToLiveExceeded", 3),
            group(1, "UndeliverableDueToHttpBadRequest", 2),
            group(1, "UndeliverableDueToHttpBadRequest", 2),
            group(2, "Manual", 1),
        ]);
        let told = |subscription| reasons.sentence(SubscriptionId(subscription));
        assert_eq!(told(1), ", 4 of them: rejected as a bad request");
        assert_eq!(told(2), ": given up by hand");
        assert_eq!(told(3), "");
    }
}
