//! Deleting a topic, after a question.

use crate::admin::page::*;
use crate::admin::pages::queue_depths::QueueDepths;
use crate::admin::paths::topic_page;
use crate::model::subscription::OnDelete;

/// A topic that somebody has made.
impl Subject for Arc<TopicEntry> {
    async fn find(site: &Site, names: &Names) -> Result<Self, PageError> {
        site.made_topic(name_of(names, "topic"))
    }

    fn page(&self) -> String {
        topic_page(self.topic.name.as_str())
    }
}

pub(crate) async fn ask_to_delete(call: Call<Arc<TopicEntry>>) -> PageResult<Question> {
    let topic = &call.of;
    let depths = QueueDepths::of_topic(&call.site, topic).await?;
    let (one, many) = ("event subscription", "event subscriptions");
    let subscriptions = print::plural(topic.subscriptions.size(), one, many);
    Ok(Question::new(format!("Delete topic {}?", topic.topic.name))
        .would(format!("{subscriptions} would be deleted with it."))
        .would(dropped(depths.topic(topic).pending))
        .would("Publishers would be rejected: its keys are gone for good.")
        .would("Events and dead letters stay where they are, for reading.")
        .dangerously())
}

pub(crate) async fn delete(call: Call<Arc<TopicEntry>>) -> PageResult<Done> {
    let name = &call.of.topic.name;
    call.broker
        .delete_topic(call.by(), name, OnDelete::Discard)
        .await?;
    Ok(Done::well(format!("Topic {name} has been deleted.")).leading_to("/admin/topics"))
}

/// What becomes of pending deliveries.
pub(crate) fn dropped(pending: u64) -> String {
    let pending = print::plural(pending, "pending delivery", "pending deliveries");
    format!("{pending} would be dropped, with a record.")
}
