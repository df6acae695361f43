//! How much waits and how much has been given up, over all event subscriptions, and what has been seen of
//! their receivers.

use std::collections::HashMap;

use crate::admin::site::Site;
use crate::model::probation::Health;
use crate::model::registry::{Registry, TopicEntry};
use crate::model::subscription::SubscriptionId;
use crate::store::StoreError;
use crate::store::views::QueueDepth;

/// The depths of all queues.
pub(crate) struct QueueDepths {
    by_subscription: HashMap<SubscriptionId, QueueDepth>,
    healths: HashMap<SubscriptionId, Health>,
}

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
        let healths = ids.iter().map(|id| (*id, site.broker.health_of(*id)));
        Ok(Self {
            healths: healths.collect(),
            by_subscription: ids.into_iter().zip(depths).collect(),
        })
    }

    /// Of one subscription.
    pub(crate) fn subscription(&self, id: SubscriptionId) -> QueueDepth {
        self.by_subscription.get(&id).copied().unwrap_or_default()
    }

    /// What has been seen of the receiver of one subscription.
    pub(crate) fn health(&self, id: SubscriptionId) -> Health {
        self.healths.get(&id).copied().unwrap_or_default()
    }

    /// Of all subscriptions of a topic together.
    pub(crate) fn topic(&self, topic: &TopicEntry) -> QueueDepth {
        let of_topic = topic.subscriptions.values();
        sum(of_topic.map(|each| self.subscription(each.id)))
    }

    /// Of everything that was asked for.
    pub(crate) fn total(&self) -> QueueDepth {
        sum(self.by_subscription.values().copied())
    }
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
