//! How much is pending and how much has been given up, over all event subscriptions.

use std::collections::HashMap;

use crate::admin::page::*;
use crate::admin::pages::traffic::Sum;
use crate::admin::widgets::figure::{Figure, Look};
use crate::model::registry::Registry;
use crate::model::subscription::SubscriptionId;
use crate::store::StoreError;
use crate::store::views::QueueDepth;

/// The depths of all queues.
pub(crate) struct QueueDepths(HashMap<SubscriptionId, QueueDepth>);

impl QueueDepths {
    /// Of every subscription in `registry`.
    pub(crate) async fn of_all(site: &Site, registry: &Registry) -> Result<Self, StoreError> {
        let ids = registry.subscriptions().map(|(_, each)| each.id).collect();
        Self::read(site, ids).await
    }

    /// Of the subscriptions of one topic.
    pub(crate) async fn of_topic(site: &Site, topic: &TopicEntry) -> Result<Self, StoreError> {
        let ids = topic.subscriptions.values().map(|each| each.id).collect();
        Self::read(site, ids).await
    }

    async fn read(site: &Site, ids: Vec<SubscriptionId>) -> Result<Self, StoreError> {
        let depths = site.views.depths(ids.clone()).await?;
        Ok(Self(ids.into_iter().zip(depths).collect()))
    }

    /// Of one subscription.
    pub(crate) fn subscription(&self, id: SubscriptionId) -> QueueDepth {
        self.0.get(&id).copied().unwrap_or_default()
    }

    /// Of all subscriptions of a topic together.
    pub(crate) fn topic(&self, topic: &TopicEntry) -> QueueDepth {
        let of_topic = topic.subscriptions.values();
        sum(of_topic.map(|each| self.subscription(each.id)))
    }

    /// Of all subscriptions of these topics together.
    pub(crate) fn topics<'a>(
        &self,
        topics: impl Iterator<Item = &'a Arc<TopicEntry>>,
    ) -> QueueDepth {
        sum(topics.map(|topic| self.topic(topic)))
    }

    /// Of everything that was asked for.
    pub(crate) fn total(&self) -> QueueDepth {
        sum(self.0.values().copied())
    }
}

/// What became of a day's deliveries of those that the filter `of` names, and what is left of them.
pub(crate) fn figures(day: &Sum, depth: QueueDepth, of: &str, now: Timestamp) -> [Figure; 3] {
    let due = day.due(depth.pending);
    let overdue = depth.next_attempt_at.filter(|at| *at < now);
    let filter = ("of", of.to_owned());
    let pending = [filter.clone(), ("state", "Pending".to_owned())];
    let if_any = |is_any: bool, look: Look| if is_any { look } else { Look::Plain };
    let delivered = print::share(day.delivered, due);
    let dead_letters = print::count(depth.dead_letters);
    [
        Figure::new("delivered", "Delivered, 24 h", delivered)
            .look(Look::of_share(day.delivered, due), "warn")
            .sub(format!(
                "{} of {} due",
                print::count(day.delivered),
                print::count(due)
            )),
        Figure::new("pending", "Pending", print::count(depth.pending))
            .look(if_any(overdue.is_some(), Look::Warn), "wait")
            .sub(overdue.map_or_else(String::new, |at| {
                format!("oldest due for {}", print::roughly(now.since(at)))
            }))
            .leading_to(link("/admin/events", &pending)),
        Figure::new("dead-letters", "Dead letters", dead_letters)
            .look(if_any(depth.dead_letters > 0, Look::Hot), "dead")
            .leading_to(link("/admin/dead-letters", &[filter])),
    ]
}

fn sum(depths: impl Iterator<Item = QueueDepth>) -> QueueDepth {
    depths.fold(QueueDepth::default(), |sum, each| QueueDepth {
        pending: sum.pending + each.pending,
        dead_letters: sum.dead_letters + each.dead_letters,
        next_attempt_at: sum
            .next_attempt_at
            .into_iter()
            .chain(each.next_attempt_at)
            .min(),
    })
}
