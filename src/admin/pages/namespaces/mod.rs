//! The pages of namespaces. Their topics have the same pages as others.

mod definition;
mod delete;
mod keys;
mod topic;

pub(crate) use definition::{change, create, draft, edit};
pub(crate) use delete::{ask_to_delete, delete};
pub(crate) use keys::reveal_keys;
pub(crate) use topic::{
    change_retention, create as create_topic, draft as draft_topic, edit_retention,
};

use crate::admin::page::*;
use crate::admin::pages::keys::{Keys, Shown};
use crate::admin::pages::queue_depths::QueueDepths;
use crate::admin::pages::topics::TopicTable;
use crate::admin::paths::namespace_page;
use crate::model::registry::{NamespaceEntry, Registry};
use crate::model::topic::NetworkAccess;

#[derive(Template)]
#[template(path = "pages/namespaces.html")]
struct NamespacesPage {
    frame: Frame,
    list: List,
    rows: Vec<(String, Content)>,
    empty: Empty,
}

/// How much is in a namespace.
#[derive(Default)]
struct Content {
    topics: u64,
    subscriptions: u64,
    pending: u64,
    dead_letters: u64,
}

impl Content {
    fn of(entry: &NamespaceEntry, registry: &Registry, depths: &QueueDepths) -> Self {
        let topics = registry.topics_of(&entry.namespace.name);
        topics.fold(Self::default(), |sum, topic| {
            let depth = depths.topic(topic);
            let subscriptions = u64::try_from(topic.subscriptions.size()).unwrap_or(u64::MAX);
            Self {
                topics: sum.topics + 1,
                subscriptions: sum.subscriptions + subscriptions,
                pending: sum.pending + depth.pending,
                dead_letters: sum.dead_letters + depth.dead_letters,
            }
        })
    }
}

/// All namespaces.
pub(crate) async fn list(visitor: Visitor, State(site): State<Arc<Site>>) -> PageResult {
    let registry = site.broker.registry();
    let depths = QueueDepths::of_all(&site, &registry).await?;
    let rows = registry.namespaces();
    let rows = rows.map(|entry| {
        let content = Content::of(entry, &registry, &depths);
        (entry.namespace.name.to_string(), content)
    });
    Ok(draw(&NamespacesPage {
        frame: Frame::new(&visitor, "Namespaces"),
        rows: rows.collect(),
        list: List::whole(
            "/admin/namespaces",
            print::plural(registry.namespaces().count() as u64, "namespace", "namespaces"),
            Recipe::get(&site.management_url("/namespaces")).everpost("everpost namespaces list"),
        ),
        empty: Empty::new(
            "namespaces",
            "No namespaces yet.",
            "A namespace holds topics of CloudEvents that share two keys, and whose events receivers \
             can also come for when it suits them.",
        )
        .leading_to(visitor.step("/admin/new-namespace", "New namespace")),
    }))
}

#[derive(Template)]
#[template(path = "pages/namespace.html")]
struct NamespacePage {
    frame: Frame,
    path: String,
    name: String,
    /// What Azure's clients take for its address.
    endpoint: String,
    topics_max: String,
    admitted: String,
    tags: Vec<String>,
    resource_id: String,
    created_at: Time,
    updated_at: Time,
    keys: Keys,
    topics: TopicTable,
    recipe: Recipe,
}

/// One namespace, its keys hidden.
pub(crate) async fn show(
    Call {
        site,
        visitor,
        of: entry,
        ..
    }: Call<Arc<NamespaceEntry>>,
) -> PageResult {
    draw_namespace(&site, &visitor, &entry, Shown::None).await
}

async fn draw_namespace(
    site: &Site,
    visitor: &Visitor,
    entry: &NamespaceEntry,
    shown: Shown,
) -> Result<Response, PageError> {
    let registry = site.broker.registry();
    let depths = QueueDepths::of_all(site, &registry).await?;
    let namespace = &entry.namespace;
    let (name, definition) = (namespace.name.as_str(), &namespace.definition);
    let path = namespace_page(name);
    let topics_max = u64::try_from(namespace.topics_max()).unwrap_or(u64::MAX);
    let tags = definition.tags.iter();
    Ok(draw(&NamespacePage {
        frame: Frame::new(visitor, format!("Namespace {name}")),
        name: name.to_owned(),
        endpoint: site.management_url(&format!("/namespaces/{name}")),
        topics_max: print::count(topics_max),
        admitted: admitted(&definition.network_access),
        tags: tags
            .map(|(name, value)| format!("{name}={value}"))
            .collect(),
        resource_id: entry.resource_id.to_string(),
        created_at: Time::relative(namespace.created_at),
        updated_at: Time::relative(namespace.updated_at),
        keys: Keys::new(visitor, &path, &namespace.keys, shown).noting(
            "Either opens every topic of the namespace. Each topic has two keys of its own besides.",
        ),
        topics: TopicTable::read(site, visitor, registry.topics_of(&namespace.name), &depths)
            .await?
            .beginning_with(visitor.step(format!("{path}/new-topic"), "New topic")),
        recipe: Recipe::get(&site.management_url(&format!("/namespaces/{name}")))
            .everpost(format!("everpost namespaces show {name}")),
        path,
    }))
}

/// From where its topics can be published to and received from.
fn admitted(access: &NetworkAccess) -> String {
    if access.disabled {
        return "nowhere: its network access is disabled".to_owned();
    }
    match access.allowed.as_slice() {
        [] => "everywhere".to_owned(),
        some => {
            let networks: Vec<String> = some.iter().map(ToString::to_string).collect();
            networks.join(", ")
        }
    }
}
