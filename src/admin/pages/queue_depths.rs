//! How much is pending and how much has been given up, over all event subscriptions.

use std::collections::HashMap;

use crate::admin::page::*;
use crate::admin::pages::traffic::Sum;
use crate::admin::widgets::figure::Look;
use crate::model::registry::Registry;
use crate::model::subscription::SubscriptionId;
use crate::store::StoreError;
use crate::store::views::QueueDepth;

/// A delivery that has been due for so long is one to look at: retries take minutes by themselves.
pub(crate) const LATE: Duration = Duration::from_secs(60);

pub(crate) struct QueueDepths(HashMap<SubscriptionId, QueueDepth>);

impl QueueDepths {
    /// Of every subscription in `registry`.
    pub(crate) async fn of_all(site: &Site, registry: &Registry) -> Result<Self, StoreError> {
        let ids: Vec<_> = registry.subscriptions().map(|(_, each)| each.id).collect();
        let depths = site.views.depths(ids.clone()).await?;
        Ok(Self(ids.into_iter().zip(depths).collect()))
    }

    pub(crate) fn subscription(&self, id: SubscriptionId) -> QueueDepth {
        self.0.get(&id).copied().unwrap_or_default()
    }

    /// Of all subscriptions of these topics together.
    pub(crate) fn topics<'a>(
        &self,
        topics: impl IntoIterator<Item = &'a Arc<TopicEntry>>,
    ) -> QueueDepth {
        let topics = topics.into_iter();
        let each = topics.flat_map(|topic| topic.subscriptions.values());
        sum(each.map(|each| self.subscription(each.id)))
    }

    /// Of everything that was asked for.
    pub(crate) fn total(&self) -> QueueDepth {
        sum(self.0.values().copied())
    }
}

/// Of all subscriptions of one topic together.
pub(crate) async fn of_topic(site: &Site, topic: &TopicEntry) -> Result<QueueDepth, StoreError> {
    let ids = topic.subscriptions.values().map(|each| each.id).collect();
    Ok(sum(site.views.depths(ids).await?.into_iter()))
}

fn sum(depths: impl Iterator<Item = QueueDepth>) -> QueueDepth {
    depths.fold(QueueDepth::default(), |sum, each| QueueDepth {
        pending: sum.pending + each.pending,
        dead_letters: sum.dead_letters + each.dead_letters,
        next_attempt_at: [sum.next_attempt_at, each.next_attempt_at]
            .into_iter()
            .flatten()
            .min(),
    })
}

#[derive(Clone, Debug, Template)]
#[template(path = "widgets/queue_figure.html")]
pub(crate) struct Figure {
    place: usize,
    day: Sum,
    depth: QueueDepth,
    of: String,
    now: Timestamp,
}

part!(Figure);

/// What became of a day's deliveries of those that the filter `of` names, and what is left of them: what is pending, and
/// the dead letters.
pub(crate) fn figures(day: &Sum, depth: QueueDepth, of: &str, now: Timestamp) -> [Figure; 3] {
    [0, 1, 2].map(|place| Figure {
        place,
        day: *day,
        depth,
        of: of.to_owned(),
        now,
    })
}

impl Figure {
    /// For how long the oldest has been due.
    fn overdue(&self) -> Option<Duration> {
        let due = self.depth.next_attempt_at.filter(|at| *at < self.now);
        due.map(|at| self.now.since(at))
    }
}
