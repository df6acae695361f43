//! The pages of namespaces. Their topics have the same pages as others.

mod definition;

pub(crate) use definition::NamespaceForm;

use crate::admin::page::*;
use crate::admin::pages::keys::{Keyed, Keys, Shown};
use crate::admin::pages::queue_depths::QueueDepths;
use crate::admin::pages::topics::{TopicTable, dropped};
use crate::model::access::{AccessKeys, KeyName};
use crate::model::subscription::OnDelete;
use crate::store::views::QueueDepth;

struct Row {
    name: String,
    topics: usize,
    subscriptions: usize,
    depth: QueueDepth,
}

impl Row {
    fn of(site: &Site, entry: &NamespaceEntry, depths: &QueueDepths) -> Self {
        let (registry, name) = (site.broker.registry(), &entry.namespace.name);
        let topics: Vec<_> = registry.topics_of(name).collect();
        Self {
            name: name.to_string(),
            topics: topics.len(),
            subscriptions: topics.iter().map(|topic| topic.subscriptions.size()).sum(),
            depth: depths.topics(topics),
        }
    }
}

#[derive(Template)]
#[template(path = "pages/namespaces.html")]
struct NamespacesPage {
    frame: Frame,
    list: List,
    rows: Vec<Row>,
}

pub(crate) async fn list(call: Call) -> PageResult {
    let registry = call.broker.registry();
    let depths = QueueDepths::of_all(&call, &registry).await?;
    let row = |entry: &Arc<NamespaceEntry>| Row::of(&call, entry, &depths);
    let rows: Vec<_> = registry.namespaces().map(row).collect();
    let shown = print::plural(rows.len(), "namespace", "namespaces");
    let recipe = Recipe::get(&call.management_url("/namespaces"));
    let recipe = recipe.everpost("everpost namespaces list");
    Ok(draw(&NamespacesPage {
        frame: Frame::new(&call.visitor, "Namespaces"),
        list: List::whole("/admin/namespaces", shown, recipe),
        rows,
    }))
}

#[derive(Template)]
#[template(path = "pages/namespace.html")]
struct NamespacePage<'a> {
    frame: Frame,
    path: String,
    entry: &'a NamespaceEntry,
    /// What Azure's clients take for its address.
    endpoint: String,
    keys: Keys,
    topics: TopicTable,
    recipe: Recipe,
}

/// One namespace, its keys hidden.
pub(crate) async fn show(call: Call<Arc<NamespaceEntry>>) -> PageResult {
    draw_namespace(&call, Shown::None).await
}

async fn draw_namespace(call: &Call<Arc<NamespaceEntry>>, shown: Shown) -> PageResult {
    let (visitor, entry, registry) = (&call.visitor, &call.of, call.broker.registry());
    let depths = QueueDepths::of_all(call, &registry).await?;
    let (name, path) = (&entry.namespace.name, entry.page());
    let topics = TopicTable::read(call, visitor, registry.topics_of(name), &depths).await?;
    let keys = Keys {
        page: path.clone(),
        keys: entry.namespace.keys.clone(),
        shown,
        used: None,
    };
    let endpoint = call.management_url(&format!("/namespaces/{name}"));
    Ok(draw(&NamespacePage {
        frame: Frame::new(visitor, format!("Namespace {name}")),
        entry,
        keys,
        topics: topics.beginning_with(visitor.step(format!("{path}/new-topic"), "New topic")),
        recipe: Recipe::get(&endpoint).everpost(format!("everpost namespaces show {name}")),
        endpoint,
        path,
    }))
}

impl Subject for Arc<NamespaceEntry> {
    async fn find(site: &Site, names: &Names) -> PageResult<Self> {
        site.namespace(name_of(names, "namespace"))
    }

    fn page(&self) -> String {
        paths::namespace_page(self.namespace.name.as_str())
    }
}

pub(crate) async fn ask_to_delete(call: Call<Arc<NamespaceEntry>>) -> PageResult<Question> {
    let depths = QueueDepths::of_all(&call, &call.broker.registry()).await?;
    let row = Row::of(&call, &call.of, &depths);
    let topics = print::plural(row.topics, "topic", "topics");
    let (one, many) = ("event subscription", "event subscriptions");
    let subscriptions = print::plural(row.subscriptions, one, many);
    let dead = print::plural(row.depth.dead_letters, "dead letter", "dead letters");
    let deleted = format!("{topics} with {subscriptions} would be deleted with it.");
    let kept = format!("{dead} would stay readable, but could not be resubmitted.");
    let question = Question::new(format!("Delete namespace {}?", row.name));
    Ok(question
        .would(deleted)
        .would(dropped(row.depth.pending))
        .would(kept)
        .would("Publishers and receivers would be rejected: all of its keys are gone for good.")
        .dangerously())
}

pub(crate) async fn delete(call: Call<Arc<NamespaceEntry>>) -> PageResult<Done> {
    let (broker, name) = (&call.broker, &call.of.namespace.name);
    let deleted = broker.delete_namespace(call.by(), name, OnDelete::Discard);
    deleted.await?;
    Ok(Done::well(format!("Namespace {name} has been deleted.")).leading_to("/admin/namespaces"))
}

impl Keyed for Arc<NamespaceEntry> {
    fn name(&self) -> &str {
        self.namespace.name.as_str()
    }

    async fn reveal(call: &Call<Self>) -> Result<AccessKeys, ManageError> {
        let name = &call.of.namespace.name;
        call.broker.show_namespace_keys(call.by(), name).await
    }

    async fn regenerate(call: &Call<Self>, key: KeyName) -> Result<(), ManageError> {
        let (broker, name) = (&call.broker, &call.of.namespace.name);
        let regenerated = broker.regenerate_namespace_key(call.by(), name, key);
        regenerated.await?;
        Ok(())
    }

    async fn draw(call: &Call<Self>, shown: Shown) -> PageResult {
        draw_namespace(call, shown).await
    }
}
