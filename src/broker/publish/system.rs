//! Events that the appliance publishes itself, to its built-in topics.

use crate::broker::Broker;
use crate::model::event::Event;
use crate::model::system_topic::SystemTopic;
use crate::store::StoreError;
use crate::wire::blob_created::BlobCreated;

impl Broker {
    /// Publishes events to a built-in topic. When this returns they are on disk, unless nobody subscribes to
    /// the topic: then nothing is stored. A full disk or a stop does not prevent it, since these events are
    /// few, and may be about just that.
    pub async fn publish_system(
        &self,
        topic: SystemTopic,
        events: Vec<Event>,
    ) -> Result<(), StoreError> {
        let registry = self.registry();
        let topic = registry.topic_by_id(topic.id());
        let Some(topic) = topic.filter(|topic| !topic.subscriptions.is_empty()) else {
            return Ok(());
        };
        let published = events.len();
        let accepted = self.match_filters(topic, events, None);
        self.append(topic, accepted.await).await?;
        self.meters().published_of_ours(topic, published);
        Ok(())
    }

    /// Notifies the subscribers of `dead-letter-storage` that a blob of dead letters was stored.
    pub async fn publish_blob_created(&self, blob: &BlobCreated) -> Result<(), StoreError> {
        let event = blob.to_event(self.entropy().uuid(), self.clock().now());
        self.publish_system(SystemTopic::DeadLetterStorage, vec![event])
            .await
    }
}
