//! The pages of queues: what lies in them, how clients reach them, and a form to send by hand.

mod form;
mod list;
mod message;
mod send;
mod show;

pub(crate) use {form::QueueForm, list::*, message::*, send::MessageForm, show::*};

use crate::admin::forms::document::Shape;
use crate::admin::forms::sheet::{Fields, Head, Sheet};
use crate::admin::pages::topics::losing;
use crate::admin::pages::*;
use crate::model::queue::QueueDefinition;

const LIST: &str = "/admin/queues";

#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) topic: Arc<TopicEntry>,
    pub(crate) subscription: Arc<EventSubscription>,
    pub(crate) definition: QueueDefinition,
}

impl Queue {
    fn of((topic, subscription): crate::broker::Queue) -> Option<Self> {
        Some(Self {
            definition: QueueDefinition::of(&subscription.definition)?,
            topic,
            subscription,
        })
    }

    pub(crate) fn topic_name(&self) -> &TopicName {
        &self.topic.topic.name
    }

    /// As filters name its messages and dead letters.
    pub(crate) fn filter(&self) -> String {
        format!("{}/{}", self.topic_name(), self.subscription.name)
    }

    /// As the management API shows it.
    fn document(&self, counts: &MessageCounts) -> Value {
        let shown = resource::render_queue(&self.topic, &self.subscription, counts.told());
        shown.unwrap_or_default()
    }
}

impl Subject for Queue {
    async fn find(site: &Site, names: &Names) -> PageResult<Self> {
        let text = name_of(names, "queue");
        let name = existing(TopicName::of_service_bus(text).ok(), "queue", text)?;
        existing(Self::of(site.broker.queue(&name)?), "queue", text)
    }

    fn page(&self) -> String {
        paths::queue_page(self.topic_name().as_str())
    }
}

/// `12`, or `12+` where not all were counted.
fn counted(count: u64, is_partial: bool) -> String {
    let more = if is_partial && count > 0 { "+" } else { "" };
    format!("{}{more}", print::count(count))
}
