//! A list of event subscriptions.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::admin::page::*;
use crate::admin::pages::subscriptions::{Subscription, list};
use crate::admin::paths::topic_page;
use crate::admin::standing::{Standing, State};
use crate::admin::widgets::strip::Strip;
use crate::model::delivery::Outcome;
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
    /// Whether rows can be ticked, to do something with all of them.
    with_boxes: bool,
    /// Where all of them are, if there are more.
    all: Option<String>,
    empty: Empty,
}

part!(SubscriptionTable);

pub(crate) struct Row {
    of: Subscription,
    standing: std::sync::Arc<Standing>,
    depth: QueueDepth,
    day: SubscriptionDay,
    strip: Strip,
    now: Timestamp,
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
        let rows = subscriptions.into_iter().zip(depths);
        let rows = rows.map(|(of, depth)| Row::new(of, depth, (&days, &outcomes), visitor));
        Ok(Self {
            rows: rows.collect(),
            with_boxes: false,
            all: None,
            empty,
        })
    }

    /// Of the subscriptions of one topic, or the worst of them.
    pub(crate) async fn of_topic(
        site: &Site,
        visitor: &Visitor,
        topic: &std::sync::Arc<TopicEntry>,
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

impl Row {
    fn new(
        of: Subscription,
        depth: QueueDepth,
        (days, outcomes): (
            &HashMap<SubscriptionId, SubscriptionDay>,
            &HashMap<SubscriptionId, Vec<Outcome>>,
        ),
        visitor: &Visitor,
    ) -> Self {
        let id = of.subscription.id;
        let outcomes = outcomes.get(&id).map_or(&[][..], Vec::as_slice);
        Self {
            strip: Strip::row(outcomes, STRIP),
            day: days.get(&id).copied().unwrap_or_default(),
            standing: visitor.standing.clone(),
            now: visitor.now,
            of,
            depth,
        }
    }

    fn state(&self) -> State<'_> {
        self.standing.of(&self.of.subscription)
    }

    /// What lies behind the state, and until when deliveries are held.
    fn said(&self) -> String {
        let state = self.state();
        let held = state.held_until().map(|until| {
            let (at, wait) = (Time::minute(until).text(), Time::relative(until).text());
            format!("held until {at} ({wait})")
        });
        let parts = [Some(state.reason()), held].into_iter().flatten();
        let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
        parts.join(" · ")
    }

    fn page(&self) -> String {
        self.of.page()
    }

    fn name(&self) -> &str {
        self.of.subscription.name.as_str()
    }

    /// `orders → wms.example`.
    fn route(&self) -> String {
        let endpoint = match &self.of.subscription.definition.destination {
            Destination::WebHook(webhook) => webhook.endpoint_url.authority(),
            Destination::Queue(_) => "pull delivery",
        };
        format!("{} → {endpoint}", self.of.topic.topic.name)
    }

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

    /// The class of the share in the stylesheet.
    fn success_class(&self) -> &'static str {
        match self.success() {
            (_, 0) => "zero",
            (delivered, tried) if delivered == tried => "",
            (delivered, tried) if delivered * 10 >= tried * 9 => "is-warn",
            _ => "is-bad",
        }
    }

    /// For how long the oldest delivery has been due.
    fn overdue(&self) -> Option<std::time::Duration> {
        let due = self.depth.next_attempt_at.filter(|at| *at < self.now);
        let age = due.map(|at| self.now.since(at));
        age.filter(|age| age.as_secs() > 0)
    }

    fn pending_href(&self) -> String {
        let of = ("of", self.of.filter());
        link("/admin/events", &[of, ("state", "Pending".to_owned())])
    }

    fn dead_letters_href(&self) -> String {
        link("/admin/dead-letters", &[("of", self.of.filter())])
    }
}
