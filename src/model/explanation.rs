//! Explanations of why an event subscription does or does not get an event.

use std::sync::Arc;

use crate::base::Timestamp;
use crate::model::filter::{EventView, FilterResult};
use crate::model::registry::TopicEntry;
use crate::model::subscription::{EventSubscription, SkipReason};

/// An explanation of why an event subscription, as it is now, gets an event or does not get it.
#[derive(Clone, Debug)]
pub struct Explanation {
    pub subscription: Arc<EventSubscription>,
    /// The reason why the subscription gets no events at that time, regardless of its filter.
    pub abstains: Option<SkipReason>,
    pub verdict: FilterResult,
    /// Is true if the subscription was changed after the event, so that it may have been different then.
    pub changed_since: bool,
}

impl Explanation {
    /// Explains an event that is published to `topic` at `at`.
    pub fn new(
        topic: &TopicEntry,
        subscription: &Arc<EventSubscription>,
        event: &EventView<'_>,
        at: Timestamp,
    ) -> Self {
        let verdict = subscription.definition.filter.explain(event);
        Self::of(topic, subscription, verdict, at)
    }

    /// Returns the explanation for another publishing time. The filter's verdict stays, because the filter ignores the
    /// time.
    pub fn published_at(&self, topic: &TopicEntry, at: Timestamp) -> Self {
        Self::of(topic, &self.subscription, self.verdict.clone(), at)
    }

    fn of(
        topic: &TopicEntry,
        subscription: &Arc<EventSubscription>,
        verdict: FilterResult,
        at: Timestamp,
    ) -> Self {
        let is_younger = subscription.created_at > at;
        let has_rules = topic.has_rules(subscription);
        let abstains = is_younger
            .then_some(SkipReason::CreatedLater)
            .or_else(|| subscription.abstains(at))
            .or_else(|| has_rules.then_some(SkipReason::HasRules));
        Self {
            abstains,
            verdict,
            changed_since: !is_younger && subscription.updated_at > at,
            subscription: Arc::clone(subscription),
        }
    }

    /// Returns the explanation without event values, for users who may not see event data.
    pub fn without_data(self) -> Self {
        Self {
            verdict: self.verdict.without_data(),
            ..self
        }
    }

    /// Returns whether the subscription gets the event.
    pub fn matched(&self) -> bool {
        self.abstains.is_none() && self.verdict.matched()
    }
}
