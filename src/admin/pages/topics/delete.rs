//! Deleting a topic, after a question.

use crate::admin::action::{Action, Done, Names, Question, Subject, name_of};
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

/// Deletes it, after a question that counts what would be lost.
pub(crate) static DELETE: Action<Arc<TopicEntry>> = Action {
    key: "delete",
    label: "Delete",
    role: Role::Admin,
    ask: Some(|call| {
        Box::pin(async move {
            let topic = call.of;
            let depths = QueueDepths::of_topic(call.site, topic).await?;
            let subscriptions = u64::try_from(topic.subscriptions.size()).unwrap_or(u64::MAX);
            let subscriptions =
                print::plural(subscriptions, "event subscription", "event subscriptions");
            Ok(Question {
                title: format!("Delete topic {}?", topic.topic.name),
                consequences: vec![
                    format!("{subscriptions} would be deleted with it."),
                    dropped(depths.topic(topic).pending),
                    "Publishers would be rejected: its keys are gone for good.".to_owned(),
                    "Events and dead letters stay where they are, for reading.".to_owned(),
                ],
                dangerous: true,
            })
        })
    }),
    run: |call| {
        Box::pin(async move {
            let (by, name) = (&call.visitor.caller, &call.of.topic.name);
            let broker = &call.site.broker;
            broker.delete_topic(by, name, OnDelete::Discard).await?;
            let said = format!("Topic {name} has been deleted.");
            Ok(Done::well(said).leading_to("/admin/topics".to_owned()))
        })
    },
};

/// What becomes of pending deliveries.
pub(crate) fn dropped(pending: u64) -> String {
    let pending = print::plural(pending, "pending delivery", "pending deliveries");
    format!("{pending} would be dropped, with a record.")
}
