//! The pages of queues: what lies in them, how clients reach them, and a form to send by hand. Subscriptions of Service
//! Bus topics have the same ones, since they are queues in all but their names.

mod form;
mod list;
mod message;
mod send;
mod show;

pub(crate) use form::{QueueForm, WINDOW};
pub(crate) use list::{COUNTED_MAX, export, list};
pub(crate) use message::{QueuedMessage, download, show_message};
pub(crate) use send::{MessageForm, compose};
pub(crate) use show::{QueueAccess, entity_page, show};

use std::sync::Arc;

use serde_json::Value;

use crate::admin::action::{Names, Subject, name_of};
use crate::admin::error::PageResult;
use crate::admin::paths;
use crate::admin::site::{Site, existing, named_in};
use crate::admin::widgets::print;
use crate::model::name::{SubscriptionName, TopicName};
use crate::model::queue::{MessageSubscription, ServiceBusTier};
use crate::model::registry::{SubscriptionKind, TopicEntry};
use crate::model::subscription::EventSubscription;
use crate::store::views::MessageCounts;
use crate::wire::resource;

const LIST: &str = "/admin/queues";

/// The noun for a queue in titles and messages.
const QUEUE: &str = "queue";
const SUBSCRIPTION: &str = "subscription";

#[derive(Clone, Debug)]
pub(crate) struct QueueName {
    pub(crate) topic: Arc<TopicEntry>,
    pub(crate) subscription: Arc<EventSubscription>,
    pub(crate) definition: MessageSubscription,
}

impl QueueName {
    pub(crate) fn of((topic, subscription): crate::broker::Queue) -> Option<Self> {
        Some(Self {
            definition: MessageSubscription::of(&subscription.definition)?,
            topic,
            subscription,
        })
    }

    /// Reports whether this is the queue of a subscription of a Service Bus topic.
    pub(crate) fn is_subscription(&self) -> bool {
        self.topic.subscription_kind(&self.subscription) == SubscriptionKind::ServiceBus
    }

    /// Returns the page of a queue or of a subscription of a Service Bus topic; `None` for other subscriptions.
    pub(crate) fn page_of(topic: &TopicEntry, own: &EventSubscription) -> Option<String> {
        let name = topic.topic.name.as_str();
        match topic.subscription_kind(own) {
            SubscriptionKind::OfQueue => Some(paths::queue_page(name)),
            SubscriptionKind::ServiceBus => Some(paths::service_bus_subscription_page(
                name,
                own.name.as_str(),
            )),
            SubscriptionKind::Event => None,
        }
    }

    pub(crate) fn topic_name(&self) -> &TopicName {
        &self.topic.topic.name
    }

    /// Returns the topic and the subscription, the two parts of a queue in the broker.
    pub(crate) fn names(&self) -> crate::broker::Queue {
        (Arc::clone(&self.topic), Arc::clone(&self.subscription))
    }

    /// Returns the address of the form for sending messages to the queue.
    pub(crate) fn sends_at(&self) -> String {
        let page = if self.is_subscription() {
            paths::service_bus_topic_page(self.topic_name().as_str())
        } else {
            self.page()
        };
        format!("{page}/send")
    }

    /// Returns the name by which filters choose its messages and dead letters: `orders/billing`.
    pub(crate) fn filter(&self) -> String {
        format!("{}/{}", self.topic_name(), self.subscription.name)
    }

    /// Renders the queue as the management API shows it.
    fn document(&self, counts: &MessageCounts, bytes: u64, tier: ServiceBusTier) -> Value {
        let shown = resource::render_queue(&self.topic, &self.subscription, counts.told(bytes));
        shown.map_or(Value::Null, |shown| resource::in_tier(shown, tier))
    }
}

impl Subject for QueueName {
    async fn find(site: &Site, names: &Names) -> PageResult<Self> {
        if let Some(text) = names.get("name") {
            let topic = named_in("topic", name_of(names, "topic"), TopicName::parse)?;
            let name = named_in("subscription", text, SubscriptionName::parse)?;
            let found = site.broker.service_bus_subscription(&topic, &name)?;
            return existing(Self::of(found), "subscription", text);
        }
        let text = name_of(names, "queue");
        let name = named_in("queue", text, TopicName::of_service_bus)?;
        existing(Self::of(site.broker.queue(&name)?), "queue", text)
    }

    fn page(&self) -> String {
        Self::page_of(&self.topic, &self.subscription).unwrap_or_default()
    }
}

/// Formats a count as `12`, or as `12+` if not everything was counted.
pub(crate) fn counted(count: u64, is_partial: bool) -> String {
    let more = if is_partial && count > 0 { "+" } else { "" };
    format!("{}{more}", print::count(count))
}
