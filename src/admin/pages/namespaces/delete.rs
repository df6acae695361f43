//! Deleting a namespace, after a question.

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

pub(crate) async fn ask_to_delete(call: Call<Arc<NamespaceEntry>>) -> PageResult<Question> {
    let registry = call.broker.registry();
    let depths = QueueDepths::of_all(&call.site, &registry).await?;
    let content = Content::of(&call.of, &registry, &depths);
    let topics = print::plural(content.topics, "topic", "topics");
    let (one, many) = ("event subscription", "event subscriptions");
    let subscriptions = print::plural(content.subscriptions, one, many);
    let dead = print::plural(content.dead_letters, "dead letter", "dead letters");
    Ok(
        Question::new(format!("Delete namespace {}?", call.of.namespace.name))
            .would(format!(
                "{topics} with {subscriptions} would be deleted with it."
            ))
            .would(dropped(content.pending))
            .would(format!(
                "{dead} would stay readable, but could not be resubmitted."
            ))
            .would("Publishers and receivers would be rejected: all of its keys are gone for good.")
            .dangerously(),
    )
}

pub(crate) async fn delete(call: Call<Arc<NamespaceEntry>>) -> PageResult<Done> {
    let name = &call.of.namespace.name;
    let deleted = call
        .broker
        .delete_namespace(call.by(), name, OnDelete::Discard);
    deleted.await?;
    Ok(Done::well(format!("Namespace {name} has been deleted.")).leading_to("/admin/namespaces"))
}
