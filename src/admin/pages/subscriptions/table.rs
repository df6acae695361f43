//! A list of event subscriptions.

use std::cmp::Reverse;

use super::*;
use crate::admin::widgets::strip::Strip;

const STRIP: usize = 30;

#[derive(Template)]
#[template(path = "pages/subscription_table.html")]
pub(crate) struct SubscriptionTable {
    pub(super) rows: Vec<Row>,
    standing: Arc<Standing>,
    now: Timestamp,
    /// Whether rows can be ticked, to do something with all of them.
    pub(super) with_boxes: bool,
    /// Where all of them are, if there are more.
    all: Option<String>,
    empty: Empty,
}

part!(SubscriptionTable);

pub(super) struct Row {
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
        let ids = subscriptions.iter().map(|each| each.subscription.id);
        let ids: Vec<SubscriptionId> = ids.collect();
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
        let name = topic.topic.name.as_str();
        let create = format!("{}/new-subscription", paths::topic_page(name));
        let text = "Events of this topic are delivered nowhere until there is one.";
        let empty = Empty::new("subscriptions", "No subscriptions yet.", text)
            .leading_to(visitor.step(create, "New subscription"));
        let all = topic.subscriptions.values();
        let mut all: Vec<_> = all.map(|each| Subscription::of((topic, each))).collect();
        let is_cut = all.len() > ROWS;
        all.sort_by_cached_key(|each| rank(each, &visitor.standing));
        all.truncate(ROWS);
        Ok(Self {
            all: is_cut.then(|| link(list::PATH, &[("topic", name.to_owned())])),
            ..Self::read(site, visitor, all, empty).await?
        })
    }

    fn said(state: &Stand<'_>) -> String {
        let held = state.held_until().map_or_else(String::new, |until| {
            let (at, wait) = (Time::minute(until).text(), Time::relative(until).text());
            format!("held until {at} ({wait})")
        });
        let parts = [state.reason(), held].into_iter();
        parts
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(" · ")
    }

    /// For how long the oldest delivery has been due.
    fn overdue(&self, row: &Row) -> Option<Duration> {
        let due = row.depth.next_attempt_at.map(|at| self.now.since(at));
        due.filter(|age| age.as_secs() > 0)
    }
}

/// The place of a subscription in lists: the worst come first.
pub(crate) type Rank = (Reverse<Tone>, String);

pub(crate) fn rank(of: &Subscription, standing: &Standing) -> Rank {
    (Reverse(standing.of(&of.subscription).tone()), of.filter())
}

impl Row {
    /// Which share of the last day's attempts delivered something, none where receivers pull, and the class of that in
    /// the stylesheet.
    fn success(&self) -> (&'static str, String) {
        let delivered: u64 = self.day.delivered.iter().sum();
        let attempts: u64 = self.day.attempts.iter().sum();
        let (delivered, tried) = match self.of.subscription.definition.destination {
            Destination::Queue(_) => (0, 0),
            Destination::WebHook(_) => (delivered, attempts.max(delivered)),
        };
        let class = match tried {
            0 => "zero",
            _ if delivered == tried => "",
            _ if delivered * 10 >= tried * 9 => "is-warn",
            _ => "is-bad",
        };
        (class, print::share(delivered, tried))
    }
}
