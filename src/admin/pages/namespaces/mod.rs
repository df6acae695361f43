//! The pages of namespaces. Their topics have the same pages as others.

mod definition;

pub(crate) use definition::NamespaceForm;

use std::collections::HashMap;
use std::sync::Arc;

use crate::admin::action::{Call, Deletable, Names, Question, Subject, name_of};
use crate::admin::error::PageResult;
use crate::admin::lists::list::ListPage;
use crate::admin::lists::recipe::Recipe;
use crate::admin::pages::answer;
use crate::admin::pages::keys::{KEYS_STOP, Keyed, Keys};
use crate::admin::pages::queue_depths::QueueDepths;
use crate::admin::pages::topics::{DELIVERIES, TopicTable, losing};
use crate::admin::paths;
use crate::admin::site::Site;
use crate::admin::widgets::chart::Spark;
use crate::admin::widgets::{Empty, filters, print};
use crate::model::access::{KeyName, KeyOwner};
use crate::model::registry::{NamespaceEntry, Registry};
use crate::model::subscription::OnDelete;
use crate::model::topic::TopicId;
use crate::store::views::{QueueDepth, TopicDay};

const LIST: &str = "/admin/namespaces";

/// A namespace, with its topics, their subscriptions, and what lies in the queues of these.
type Row = (Arc<NamespaceEntry>, usize, usize, QueueDepth);

/// The last day of all topics of a namespace together.
fn day(registry: &Registry, of: &NamespaceEntry, days: &HashMap<TopicId, TopicDay>) -> TopicDay {
    let topics = registry.topics_of(&of.namespace.name);
    let days = topics.filter_map(|topic| days.get(&topic.topic.id));
    days.fold(TopicDay::default(), TopicDay::plus)
}

fn row(registry: &Registry, entry: &Arc<NamespaceEntry>, depths: &QueueDepths) -> Row {
    let topics: Vec<_> = registry.topics_of(&entry.namespace.name).collect();
    let subscriptions = topics.iter().map(|topic| topic.subscriptions.size()).sum();
    let (count, depth) = (topics.len(), depths.topics(topics));
    (Arc::clone(entry), count, subscriptions, depth)
}

pub(crate) async fn list(call: Call) -> PageResult {
    let registry = &call.visitor.standing.registry;
    let depths = QueueDepths::of(&call, registry.topics()).await?;
    let days = call.views.topic_days(call.visitor.now).await?;
    let rows = registry
        .namespaces()
        .map(|entry| (row(registry, entry, &depths), day(registry, entry, &days)));
    let rows: Vec<(Row, TopicDay)> = rows.collect();
    let recipe = Recipe::of(&call, "/namespaces", "everpost namespaces list");
    answer!("pages/namespaces.html", &call.visitor, "Namespaces", {
        list: ListPage = ListPage::whole(rows.len(), ["namespace", "namespaces"], recipe),
        rows: Vec<(Row, TopicDay)> = rows,
    })
}

/// One namespace, its keys hidden.
pub(crate) async fn show(call: Call<Arc<NamespaceEntry>>) -> PageResult {
    Arc::draw(&call, Vec::new()).await
}

impl Subject for Arc<NamespaceEntry> {
    async fn find(site: &Site, names: &Names) -> PageResult<Self> {
        site.namespace(name_of(names, "namespace"))
    }

    fn page(&self) -> String {
        paths::namespace_page(self.namespace.name.as_str())
    }
}

impl Deletable for Arc<NamespaceEntry> {
    const NOUN: &'static str = "namespace";

    async fn losing(call: &Call<Self>, question: Question) -> PageResult<Question> {
        let registry = &call.visitor.standing.registry;
        let depths = QueueDepths::of(call, registry.topics_of(&call.of.namespace.name)).await?;
        let (_, topics, own, depth) = row(registry, &call.of, &depths);
        let topics = print::plural(topics, "topic", "topics");
        let own = print::plural(own, "event subscription", "event subscriptions");
        let question = question.would(format!("Also deleted: {topics} with {own}."));
        Ok(losing(question.would(KEYS_STOP), depth, &DELIVERIES))
    }

    async fn delete(call: &Call<Self>) -> PageResult<bool> {
        let (broker, name) = (&call.broker, &call.of.namespace.name);
        let deleted = broker.delete_namespace(call.by(), name, OnDelete::Discard);
        Ok(deleted.await?)
    }
}

impl Keyed for Arc<NamespaceEntry> {
    fn owner(&self) -> KeyOwner {
        KeyOwner::Namespace(self.namespace.id)
    }

    async fn draw(call: &Call<Self>, shown: Vec<KeyName>) -> PageResult {
        let (visitor, entry, path) = (&call.visitor, &call.of, call.of.page());
        let (registry, name) = (&visitor.standing.registry, &entry.namespace.name);
        let endpoint = format!("/namespaces/{name}");
        let command = format!("everpost namespaces show {name}");
        let step = visitor.step(format!("{path}/new-topic"), "New topic");
        let depths = QueueDepths::of(call, registry.topics_of(name)).await?;
        answer!("pages/namespace.html", visitor, format!("Namespace {name}"), {
            entry: Arc<NamespaceEntry> = Arc::clone(entry),
            keys: Keys = Keys::of(call, &entry.namespace.keys, shown).await?,
            row: Row = row(registry, entry, &depths),
            topics: TopicTable = TopicTable::read(call, registry.topics_of(name), step).await?,
            // What Azure's clients take for its address.
            endpoint: String = call.management_url(&endpoint),
            recipe: Recipe = Recipe::of(call, &endpoint, command),
            path: String = path,
        })
    }
}
