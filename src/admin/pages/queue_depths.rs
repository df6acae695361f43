//! How much is pending and how much has been given up, over all event subscriptions.

use crate::admin::pages::*;

/// A delivery that has been due for so long is one to look at: retries take minutes by themselves.
pub(crate) const LATE: Duration = Duration::from_secs(60);

pub(crate) struct QueueDepths(HashMap<SubscriptionId, QueueDepth>);

impl QueueDepths {
    /// Reads the depths of all subscriptions of these topics.
    pub(crate) async fn of<'a>(
        site: &Site,
        topics: impl IntoIterator<Item = &'a Arc<TopicEntry>>,
    ) -> Result<Self, StoreError> {
        let ids: Vec<_> = subscriptions(topics).collect();
        let depths = site.views.depths(ids.clone()).await?;
        Ok(Self(ids.into_iter().zip(depths).collect()))
    }

    pub(crate) fn subscription(&self, id: SubscriptionId) -> QueueDepth {
        self.0.get(&id).copied().unwrap_or_default()
    }

    /// Returns the depths of all subscriptions of these topics together.
    pub(crate) fn topics<'a>(
        &self,
        topics: impl IntoIterator<Item = &'a Arc<TopicEntry>>,
    ) -> QueueDepth {
        let depths = subscriptions(topics).map(|id| self.subscription(id));
        depths.fold(QueueDepth::default(), QueueDepth::plus)
    }

    /// Returns the depths of all subscriptions that were read together.
    pub(crate) fn total(&self) -> QueueDepth {
        let depths = self.0.values().copied();
        depths.fold(QueueDepth::default(), QueueDepth::plus)
    }
}

fn subscriptions<'a>(
    topics: impl IntoIterator<Item = &'a Arc<TopicEntry>>,
) -> impl Iterator<Item = SubscriptionId> {
    let all = topics.into_iter().flat_map(|it| it.subscriptions.values());
    all.map(|each| each.id)
}
