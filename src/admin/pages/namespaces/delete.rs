//! Deleting a namespace, after a question.

use crate::admin::action::{Action, Done, Names, Question, Subject, name_of};
use crate::admin::page::*;
use crate::admin::pages::namespaces::Content;
use crate::admin::pages::queue_depths::QueueDepths;
use crate::admin::pages::topics::dropped;
use crate::admin::paths::namespace_page;
use crate::model::registry::NamespaceEntry;
use crate::model::subscription::OnDelete;

impl Subject for Arc<NamespaceEntry> {
    async fn find(site: &Site, names: &Names) -> Result<Self, PageError> {
        site.namespace(name_of(names, "namespace"))
    }

    fn page(&self) -> String {
        namespace_page(self.namespace.name.as_str())
    }
}

/// Deletes it, after a question that counts what would be lost.
pub(crate) static DELETE: Action<Arc<NamespaceEntry>> = Action {
    key: "delete",
    label: "Delete",
    role: Role::Admin,
    ask: Some(|call| {
        Box::pin(async move {
            let registry = call.site.broker.registry();
            let depths = QueueDepths::of_all(call.site, &registry).await?;
            let content = Content::of(call.of, &registry, &depths);
            let topics = print::plural(content.topics, "topic", "topics");
            let subscriptions = print::plural(
                content.subscriptions,
                "event subscription",
                "event subscriptions",
            );
            let dead = print::plural(content.dead_letters, "dead letter", "dead letters");
            Ok(Question {
                title: format!("Delete namespace {}?", call.of.namespace.name),
                consequences: vec![
                    format!("{topics} with {subscriptions} would be deleted with it."),
                    dropped(content.pending),
                    format!("{dead} would stay readable, but could not be resubmitted."),
                    "Publishers and receivers would be rejected: all of its keys are gone for good."
                        .to_owned(),
                ],
                dangerous: true,
            })
        })
    }),
    run: |call| {
        Box::pin(async move {
            let (by, name) = (&call.visitor.caller, &call.of.namespace.name);
            let broker = &call.site.broker;
            broker.delete_namespace(by, name, OnDelete::Discard).await?;
            let said = format!("Namespace {name} has been deleted.");
            Ok(Done::well(said).leading_to("/admin/namespaces".to_owned()))
        })
    },
};
