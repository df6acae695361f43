//! What a URL means: names and numbers to the things that they stand for.

use std::sync::Arc;

use crate::admin::Site;
use crate::admin::error::PageError;
use crate::broker::ManageError;
use crate::model::delivery::DeliveryId;
use crate::model::event::EventKey;
use crate::model::inspector::Inspector;
use crate::model::name::{InspectorName, NamespaceName, SubscriptionName, TopicName};
use crate::model::registry::{NamespaceEntry, TopicEntry};
use crate::model::subscription::EventSubscription;

impl Site {
    /// The topic that a URL names.
    pub(super) fn topic(&self, name: &str) -> Result<Arc<TopicEntry>, PageError> {
        let missing = || PageError::NotFound(format!("topic {name}"));
        let name = TopicName::parse(name).map_err(|_| missing())?;
        Ok(self.broker.topic(&name)?)
    }

    /// The topic that a URL names, if somebody has made it: what can be published to and deleted.
    pub(super) fn made_topic(&self, name: &str) -> Result<Arc<TopicEntry>, PageError> {
        let topic = self.topic(name)?;
        match topic.topic.is_built_in() {
            true => Err(ManageError::BuiltIn(topic.topic.name.clone()).into()),
            false => Ok(topic),
        }
    }

    /// The custom topic that a URL names: what inspectors and the first steps subscribe to.
    pub(super) fn custom_topic(&self, name: &str) -> Result<Arc<TopicEntry>, PageError> {
        let topic = self.topic(name)?;
        match topic.namespace {
            None => Ok(topic),
            Some(_) => Err(PageError::Conflict(format!(
                "{} is a topic of a namespace; make its event subscriptions on its own page.",
                topic.topic.name
            ))),
        }
    }

    /// The namespace that a URL names.
    pub(super) fn namespace(&self, name: &str) -> Result<Arc<NamespaceEntry>, PageError> {
        let missing = || PageError::NotFound(format!("namespace {name}"));
        let name = NamespaceName::parse(name).map_err(|_| missing())?;
        Ok(self.broker.namespace(&name)?)
    }

    /// The event subscription that a URL names, with its topic.
    pub(super) fn subscription(
        &self,
        topic: &str,
        name: &str,
    ) -> Result<(Arc<TopicEntry>, Arc<EventSubscription>), PageError> {
        let topic = self.topic(topic)?;
        let missing = || {
            let of = &topic.topic.name;
            PageError::NotFound(format!("event subscription {name} of the topic {of}"))
        };
        let name = SubscriptionName::parse(name).map_err(|_| missing())?;
        Ok(self.broker.subscription(&topic.topic.name, &name)?)
    }

    /// The inspector that a URL names.
    pub(super) async fn inspector(&self, name: &str) -> Result<Inspector, PageError> {
        let missing = || PageError::NotFound(format!("inspector {name}"));
        let name = InspectorName::parse(name).map_err(|_| missing())?;
        Ok(self.broker.inspector(&name).await?)
    }

    /// Where publishers of the topic send events.
    pub(super) fn publish_url(&self, topic: &TopicEntry) -> String {
        topic.publish_url(self.public_url())
    }

    /// A URL of the management API.
    pub(super) fn management_url(&self, path: &str) -> String {
        format!("{}{path}", self.public_url())
    }
}

/// The number of an event in a URL.
pub(super) fn event_key(text: &str) -> Result<EventKey, PageError> {
    let number = text.parse().map(EventKey);
    number.map_err(|_| PageError::NotFound(format!("event {text}")))
}

/// The number of a delivery in a URL.
pub(super) fn delivery_id(text: &str) -> Result<DeliveryId, PageError> {
    let number = text.parse().map(DeliveryId);
    number.map_err(|_| PageError::NotFound(format!("delivery {text}")))
}

/// The page of a namespace.
pub(super) fn namespace_page(namespace: &str) -> String {
    format!("/admin/namespaces/{namespace}")
}

/// The page of a topic.
pub(super) fn topic_page(topic: &str) -> String {
    // Between a namespace and its topic there is a slash, which must not end the segment.
    format!("/admin/topics/{}", topic.replace('/', "%2F"))
}

/// The page of an event subscription.
pub(super) fn subscription_page(topic: &str, name: &str) -> String {
    format!("{}/subscriptions/{name}", topic_page(topic))
}

/// The page of an inspector.
pub(super) fn inspector_page(name: &InspectorName) -> String {
    format!("/admin/inspectors/{}", name.key())
}

/// The page of a request that an inspector keeps.
pub(super) fn inspected_page(name: &InspectorName, number: u64) -> String {
    format!("{}/requests/{number}", inspector_page(name))
}

/// The page of an event.
pub(super) fn event_page(key: EventKey) -> String {
    format!("/admin/events/{key}")
}

/// The page of a dead letter.
pub(super) fn dead_letter_page(id: DeliveryId) -> String {
    format!("/admin/dead-letters/{id}")
}
