//! A list of event subscriptions.

use std::cmp::Reverse;

use super::*;
use crate::admin::widgets::strip::Strip;

const STRIP: usize = 30;

#[derive(Template)]
#[template(path = "pages/subscription_table.html")]
pub(crate) struct SubscriptionTable {
    pub(super) rows: Vec<(Subscription, QueueDepth, SubscriptionDay, Strip)>,
    standing: Arc<Standing>,
    now: Timestamp,
    /// Is true if rows have tick boxes, for an action on many of them.
    pub(super) with_boxes: bool,
    /// Is true if rows name their topic.
    with_topic: bool,
    /// Where all of them are, if there are more.
    all: Option<String>,
    empty: Empty,
}

part!(SubscriptionTable);

impl SubscriptionTable {
    /// Reads the table of `subscriptions`, in their order; `empty` is shown where there are none.
    pub(crate) async fn read(
        call: &Call<impl Sync>,
        subscriptions: Vec<Subscription>,
        empty: Empty,
    ) -> Result<Self, StoreError> {
        let (views, visitor) = (&call.views, &call.visitor);
        let ids = subscriptions.iter().map(|each| each.subscription.id);
        let ids: Vec<SubscriptionId> = ids.collect();
        let depths = views.depths(ids.clone()).await?;
        let days = views.subscription_days(None, visitor.now).await?;
        let outcomes = views.recent_outcomes(ids, STRIP).await?;
        let row = |(of, depth): (Subscription, _)| {
            let id = of.subscription.id;
            let outcomes = outcomes.get(&id).map_or(&[][..], Vec::as_slice);
            let day = days.get(&id).copied().unwrap_or_default();
            (of, depth, day, Strip::row(outcomes, STRIP))
        };
        Ok(Self {
            rows: subscriptions.into_iter().zip(depths).map(row).collect(),
            standing: visitor.standing.clone(),
            now: visitor.now,
            with_boxes: false,
            with_topic: true,
            all: None,
            empty,
        })
    }

    /// Reads the table of the subscriptions of a topic, or of the worst of them if there are too many.
    pub(crate) async fn of_topic(call: &Call<Arc<TopicEntry>>) -> Result<Self, StoreError> {
        let (visitor, topic) = (&call.visitor, &call.of);
        let create = visitor.step(
            format!("{}/new-subscription", topic.page()),
            "New subscription",
        );
        let text = "Events of this topic are delivered nowhere until there is one.";
        let empty = Empty::new("subscriptions", "No subscriptions yet.", text).leading_to(create);
        let all = topic.subscriptions.values();
        let mut all: Vec<_> = all.map(|each| Subscription::of((topic, each))).collect();
        let is_cut = all.len() > ROWS;
        all.sort_by_cached_key(|each| rank(each, &visitor.standing));
        all.truncate(ROWS);
        Ok(Self {
            with_topic: false,
            all: is_cut.then(|| link(list::PATH, &[("topic", topic.topic.name.to_string())])),
            ..Self::read(call, all, empty).await?
        })
    }
}

/// The place of a subscription in lists: the worst come first.
pub(crate) fn rank(of: &Subscription, standing: &Standing) -> (Reverse<Tone>, String) {
    let state = standing.of(&of.subscription);
    (Reverse(state.badge().tone), of.filter())
}
