//! The pages of namespaces. Their topics have the same pages as others.

mod definition;

pub(crate) use definition::NamespaceForm;

use crate::admin::page::*;
use crate::admin::pages::keys::{Keyed, Keys, Shown};
use crate::admin::pages::queue_depths::QueueDepths;
use crate::admin::pages::topics::{TopicTable, dropped};
use crate::broker::ManageError;
use crate::model::access::{AccessKeys, KeyName};
use crate::model::registry::{NamespaceEntry, Registry};
use crate::model::subscription::OnDelete;
use crate::store::views::QueueDepth;

/// How much is in a namespace.
struct Content {
    topics: usize,
    subscriptions: usize,
    depth: QueueDepth,
}

impl Content {
    fn of(entry: &NamespaceEntry, registry: &Registry, depths: &QueueDepths) -> Self {
        let topics = || registry.topics_of(&entry.namespace.name);
        Self {
            topics: topics().count(),
            subscriptions: topics().map(|topic| topic.subscriptions.size()).sum(),
            depth: depths.topics(topics()),
        }
    }
}

#[derive(Template)]
#[template(path = "pages/namespaces.html")]
struct NamespacesPage {
    frame: Frame,
    list: List,
    rows: Vec<(String, Content)>,
}

/// All namespaces.
pub(crate) async fn list(Call { site, visitor, .. }: Call) -> PageResult {
    let registry = site.broker.registry();
    let depths = QueueDepths::of_all(&site, &registry).await?;
    let row = |entry: &Arc<NamespaceEntry>| {
        let content = Content::of(entry, &registry, &depths);
        (entry.namespace.name.to_string(), content)
    };
    let rows: Vec<_> = registry.namespaces().map(row).collect();
    Ok(draw(&NamespacesPage {
        frame: Frame::new(&visitor, "Namespaces"),
        list: List::whole(
            "/admin/namespaces",
            print::plural(rows.len(), "namespace", "namespaces"),
            Recipe::get(&site.management_url("/namespaces")).everpost("everpost namespaces list"),
        ),
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

pub(crate) async fn draw_namespace(call: &Call<Arc<NamespaceEntry>>, shown: Shown) -> PageResult {
    let Call {
        site,
        visitor,
        of: entry,
        ..
    } = call;
    let registry = site.broker.registry();
    let depths = QueueDepths::of_all(site, &registry).await?;
    let (name, path) = (&entry.namespace.name, entry.page());
    let topics = TopicTable::read(site, visitor, registry.topics_of(name), &depths).await?;
    let keys = Keys {
        page: path.clone(),
        keys: entry.namespace.keys.clone(),
        shown,
        used: None,
    };
    let endpoint = site.management_url(&format!("/namespaces/{name}"));
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
    async fn find(site: &Site, names: &Names) -> Result<Self, PageError> {
        site.namespace(name_of(names, "namespace"))
    }

    fn page(&self) -> String {
        paths::namespace_page(self.namespace.name.as_str())
    }
}

pub(crate) async fn ask_to_delete(call: Call<Arc<NamespaceEntry>>) -> PageResult<Question> {
    let registry = call.broker.registry();
    let depths = QueueDepths::of_all(&call.site, &registry).await?;
    let content = Content::of(&call.of, &registry, &depths);
    let topics = print::plural(content.topics, "topic", "topics");
    let (one, many) = ("event subscription", "event subscriptions");
    let subscriptions = print::plural(content.subscriptions, one, many);
    let dead = print::plural(content.depth.dead_letters, "dead letter", "dead letters");
    Ok(
        Question::new(format!("Delete namespace {}?", call.of.namespace.name))
            .would(format!(
                "{topics} with {subscriptions} would be deleted with it."
            ))
            .would(dropped(content.depth.pending))
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

impl Keyed for Arc<NamespaceEntry> {
    fn name(&self) -> &str {
        self.namespace.name.as_str()
    }

    async fn reveal(call: &Call<Self>) -> Result<AccessKeys, ManageError> {
        call.broker
            .show_namespace_keys(call.by(), &call.of.namespace.name)
            .await
    }

    async fn regenerate(call: &Call<Self>, key: KeyName) -> Result<(), ManageError> {
        let name = &call.of.namespace.name;
        call.broker
            .regenerate_namespace_key(call.by(), name, key)
            .await?;
        Ok(())
    }

    async fn draw(call: &Call<Self>, shown: Shown) -> PageResult {
        draw_namespace(call, shown).await
    }
}
