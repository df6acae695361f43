//! Messages that are sent to queues (rule S2).

use std::sync::Arc;

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::broker::publish::PublishError;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::delivery::{DeliveryId, Settlement};
use crate::model::event::Event;
use crate::model::registry::TopicEntry;
use crate::model::subscription::EventSubscription;
use crate::store::{Appended, FreeChange, FreeChanges, FreeSettled, StoreError};

/// A message to send.
#[derive(Clone, Debug)]
pub struct NewMessage {
    pub event: Event,
    /// When receivers get it, if that lies ahead.
    pub scheduled_at: Option<Timestamp>,
}

impl Broker {
    /// Accepts messages, all or none. When this returns they are on disk. Returns the numbers of their deliveries,
    /// which are known if one of them is scheduled.
    pub async fn send_messages(
        &self,
        topic: &Arc<TopicEntry>,
        messages: Vec<NewMessage>,
    ) -> Result<Vec<DeliveryId>, PublishError> {
        self.may_publish(topic)?;
        let now = self.clock().now();
        let scheduled = messages.iter().enumerate().filter_map(|(place, each)| {
            let at = each.scheduled_at.filter(|at| *at > now)?;
            Some((place, at))
        });
        let scheduled = scheduled.collect();
        let events = messages.into_iter().map(|each| each.event).collect();
        let accepted = self.match_with(topic, events, None, scheduled).await;
        match self.store_accepted(topic, accepted).await? {
            Appended::Repeated => Ok(Vec::new()),
            Appended::Stored { deliveries, .. } => Ok(deliveries),
        }
    }

    /// Cancels deliveries that are scheduled. Returns whether all of them were.
    pub async fn cancel_scheduled(
        &self,
        topic: &TopicEntry,
        subscription: &EventSubscription,
        ids: Vec<DeliveryId>,
    ) -> Result<bool, StoreError> {
        let cancel = |id| (id, FreeChange::Cancel(subscription.id));
        let request = FreeChanges {
            changes: ids.into_iter().map(cancel).collect(),
            audit: None,
            now: self.clock().now(),
        };
        let settled = self.store().ledger.settle_free(request).await?;
        let is_done = |settled: &&FreeSettled| matches!(settled, FreeSettled::Done(_));
        let done = settled.iter().filter(is_done).count();
        let dropped = vec![Settlement::Drop(DeadLetterReason::Cancelled); done];
        self.on_settled(topic, subscription, &dropped);
        Ok(done == settled.len())
    }
}
