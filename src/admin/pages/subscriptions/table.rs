//! A list of event subscriptions.

use std::cmp::Reverse;

use crate::admin::page::*;
use crate::admin::pages::subscriptions::{Subscription, list};
use crate::admin::paths::topic_page;
use crate::admin::standing::{Standing, State};
use crate::admin::widgets::strip::Strip;
use crate::model::destination::Destination;
use crate::model::subscription::SubscriptionId;
use crate::store::StoreError;
use crate::store::views::{QueueDepth, SubscriptionDay};

/// Attempts that a row draws.
const STRIP: usize = 30;

/// Rows of one page, each of which costs a few reads.
pub(crate) const ROWS: usize = 50;

/// The rows.
#[derive(Template)]
#[template(path = "pages/subscription_table.html")]
pub(crate) struct SubscriptionTable {
    pub(crate) rows: Vec<Row>,
    standing: Arc<Standing>,
    now: Timestamp,
    /// Whether rows can be ticked, to do something with all of them.
    with_boxes: bool,
    /// Where all of them are, if there are more.
    all: Option<String>,
    empty: Empty,
}

part!(SubscriptionTable);

pub(crate) struct Row {
    of: Subscription,
    depth: QueueDepth,
    day: SubscriptionDay,
    strip: Strip,
}

impl SubscriptionTable {
    /// Of `subscriptions`, in their order; what it says where there are none is `empty`.
    pub(crate) async fn read(
        site: &Site,
        visitor: &Visitor,
        subscriptions: Vec<Subscription>,
        empty: Empty,
    ) -> Result<Self, StoreError> {
        let ids: Vec<SubscriptionId> = subscriptions
            .iter()
            .map(|each| each.subscription.id)
            .collect();
        let depths = site.views.depths(ids.clone()).await?;
        let days = site.views.subscription_days(None, visitor.now).await?;
        let outcomes = site.views.recent_outcomes(ids, STRIP).await?;
        let row = |(of, depth): (Subscription, _)| {
            let id = of.subscription.id;
            Row {
                strip: Strip::row(outcomes.get(&id).map_or(&[], Vec::as_slice), STRIP),
                day: days.get(&id).copied().unwrap_or_default(),
                of,
                depth,
            }
        };
        Ok(Self {
            rows: subscriptions.into_iter().zip(depths).map(row).collect(),
            standing: visitor.standing.clone(),
            now: visitor.now,
            with_boxes: false,
            all: None,
            empty,
        })
    }

    /// Of the subscriptions of one topic, or the worst of them.
    pub(crate) async fn of_topic(
        site: &Site,
        visitor: &Visitor,
        topic: &Arc<TopicEntry>,
    ) -> Result<Self, StoreError> {
        let create = format!("{}/new-subscription", topic_page(topic.topic.name.as_str()));
        let empty = Empty::new(
            "subscriptions",
            "No subscriptions yet.",
            "Events of this topic are delivered nowhere until there is one.",
        );
        let subscriptions = topic.subscriptions.values().map(|each| Subscription {
            topic: topic.clone(),
            subscription: each.clone(),
        });
        let empty = empty.leading_to(visitor.step(create, "New subscription"));
        let mut subscriptions: Vec<Subscription> = subscriptions.collect();
        let is_cut = subscriptions.len() > ROWS;
        subscriptions.sort_by_cached_key(|each| rank(each, &visitor.standing));
        subscriptions.truncate(ROWS);
        let name = topic.topic.name.to_string();
        Ok(Self {
            all: is_cut.then(|| link(list::PATH, &[("topic", name)])),
            ..Self::read(site, visitor, subscriptions, empty).await?
        })
    }

    /// The same with boxes to tick.
    pub(crate) fn with_boxes(self) -> Self {
        Self {
            with_boxes: true,
            ..self
        }
    }
}

/// The place of a subscription in lists: the worst come first.
pub(crate) type Rank = (Reverse<Tone>, String);

pub(crate) fn rank(of: &Subscription, standing: &Standing) -> Rank {
    (Reverse(standing.of(&of.subscription).tone()), of.filter())
}

impl SubscriptionTable {
    /// What lies behind a state, and until when deliveries are held.
    fn said(state: &State<'_>) -> String {
        let held = state.held_until().map(|until| {
            let (at, wait) = (Time::minute(until).text(), Time::relative(until).text());
            format!("held until {at} ({wait})")
        });
        let parts = [Some(state.reason()), held].into_iter().flatten();
        let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
        parts.join(" · ")
    }

    /// For how long the oldest delivery has been due.
    fn overdue(&self, row: &Row) -> Option<Duration> {
        let due = row.depth.next_attempt_at.map(|at| self.now.since(at));
        due.filter(|age| age.as_secs() > 0)
    }
}

impl Row {
    /// Deliveries of the last 24 hours, of the attempts that were made for them; none where receivers pull.
    fn success(&self) -> (u64, u64) {
        if let Destination::Queue(_) = self.of.subscription.definition.destination {
            return (0, 0);
        }
        let delivered = self.day.delivered.iter().sum();
        let attempts: u64 = self.day.attempts.iter().sum();
        (delivered, attempts.max(delivered))
    }

    fn success_share(&self) -> String {
        let (delivered, tried) = self.success();
        print::share(delivered, tried)
    }

    /// The class of their share in the stylesheet.
    fn success_class(&self) -> &'static str {
        match self.success() {
            (_, 0) => "zero",
            (delivered, tried) if delivered == tried => "",
            (delivered, tried) if delivered * 10 >= tried * 9 => "is-warn",
            _ => "is-bad",
        }
    }
}
