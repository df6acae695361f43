//! The pages of topics.

mod definition;
mod publish;
mod snippets;
mod table;
mod token;

pub(crate) use definition::TopicForm;
pub(crate) use publish::{Events, compose, copy_page};
pub(crate) use snippets::Snippets;
pub(crate) use table::TopicTable;
pub(crate) use token::TokenForm;

use crate::admin::lists::filter::whole_topic;
use crate::admin::page::*;
use crate::admin::pages::events::{EventTable, events_of};
use crate::admin::pages::keys::{Keyed, Keys, Shown};
use crate::admin::pages::queue_depths::{self, Figure, QueueDepths};
use crate::admin::pages::rejected_events;
use crate::admin::pages::subscriptions::SubscriptionTable;
use crate::admin::pages::traffic::{RangeChoice, Sum, Traffic};
use crate::model::access::{AccessKeys, KeyName, KeyOwner};
use crate::model::event_filter::EventFilter;
use crate::model::subscription::OnDelete;
use crate::store::views::{EventQuery, RecentTypes, TopicDay, TrafficOf, TrafficQuery};

/// Events shown on the page of their topic.
const EVENTS_SHOWN: usize = 10;

#[derive(Template)]
#[template(path = "pages/topics.html")]
struct TopicsPage {
    frame: Frame,
    list: List,
    table: TopicTable,
}

pub(crate) async fn list(call: Call) -> PageResult {
    let registry = &call.visitor.standing.registry;
    let depths = QueueDepths::of_all(&call, registry).await?;
    let shown = print::plural(registry.topics().count(), "topic", "topics");
    let recipe = Recipe::get(&call.management_url("/topics")).everpost("everpost topics list");
    Ok(draw(&TopicsPage {
        frame: Frame::new(&call.visitor, "Topics"),
        list: List::whole("/admin/topics", shown, recipe),
        table: TopicTable::read(&call, &call.visitor, registry.topics(), &depths).await?,
    }))
}

#[derive(Template)]
#[template(path = "pages/topic.html")]
struct TopicPage<'a> {
    frame: Frame,
    path: String,
    topic: &'a TopicEntry,
    day: TopicDay,
    /// Of its subscriptions.
    needing_attention: usize,
    figures: [Figure; 3],
    traffic: Traffic,
    subscriptions: SubscriptionTable,
    types: RecentTypes,
    events: EventTable,
    events_href: String,
    /// The URL, the keys and how others publish with them; `None` for a built-in topic.
    publishing: Option<(String, Keys, Snippets)>,
    recipe: Recipe,
}

impl TopicPage<'_> {
    /// Its events of that type.
    fn events_of_type(&self, event_type: &str) -> String {
        let of = ("type", event_type.to_owned());
        format!("{}&{}", self.events_href, &link("", &[of])[1..])
    }
}

/// One topic, its keys hidden.
pub(crate) async fn show(Query(range): Query<RangeChoice>, call: Call) -> PageResult {
    let topic = call.topic(name_of(&call.names, "topic"))?;
    draw_topic(&call.about(topic), &range, Shown::None).await
}

async fn draw_topic(call: &Call<Arc<TopicEntry>>, range: &RangeChoice, shown: Shown) -> PageResult {
    let (visitor, views, topic) = (&call.visitor, &call.views, &call.of);
    let (id, name, path) = (topic.topic.id, &topic.topic.name, topic.page());
    let recent = EventQuery {
        filter: EventFilter {
            topic: Some(id),
            ..EventFilter::default()
        },
        limit: EVENTS_SHOWN,
        ..EventQuery::default()
    };
    let first_event = visitor.step(format!("{path}/publish"), "Publish event");
    let first_event = first_event.filter(|_| !topic.topic.is_built_in());
    let days = views.topic_days(visitor.now).await?;
    let hours = TrafficQuery::until(visitor.now, TrafficOf::Topic(id), 3_600_000, 24);
    let day = Sum::of(&views.traffic(hours).await?);
    let depth = queue_depths::of_topic(call, topic).await?;
    let own = visitor.standing.all().filter(|(of, _)| of.topic.id == id);
    let born = (&*path, topic.topic.created_at);
    let recipe = Recipe::get(&call.management_url(&name.path()));
    Ok(draw(&TopicPage {
        frame: Frame::new(visitor, format!("Topic {name}")),
        traffic: Traffic::read(call, TrafficOf::Topic(id), range, born).await?,
        topic,
        day: days.get(&id).copied().unwrap_or_default(),
        needing_attention: own.filter(|(_, state)| state.needs_attention()).count(),
        figures: queue_depths::figures(&day, depth, &whole_topic(name), visitor.now),
        publishing: publishing(call, shown).await?,
        subscriptions: SubscriptionTable::of_topic(call, visitor, topic).await?,
        types: views.recent_types(id).await?,
        events: EventTable::new(
            views.events(recent).await?.rows,
            EventTable::none_yet(first_event),
        ),
        events_href: events_of(name),
        recipe: recipe.everpost(format!("everpost topics show {name}")),
        path,
    }))
}

async fn publishing(
    call: &Call<Arc<TopicEntry>>,
    shown: Shown,
) -> PageResult<Option<(String, Keys, Snippets)>> {
    let topic = &call.of;
    let Some(keys) = &topic.topic.keys else {
        return Ok(None);
    };
    let owner = KeyOwner::Topic(topic.topic.id);
    let first = shown.has(KeyName::Key1).then(|| keys.key1.reveal());
    let snippets = Snippets::new(call, topic, first);
    let keys = Keys {
        page: topic.page(),
        keys: keys.clone(),
        shown,
        used: Some(call.broker.key_uses(owner).await?),
    };
    Ok(Some((call.publish_url(topic), keys, snippets)))
}

/// A topic that somebody has made.
impl Subject for Arc<TopicEntry> {
    async fn find(site: &Site, names: &Names) -> PageResult<Self> {
        site.made_topic(name_of(names, "topic"))
    }

    fn page(&self) -> String {
        paths::topic_page(self.topic.name.as_str())
    }
}

pub(crate) async fn ask_to_delete(call: Call<Arc<TopicEntry>>) -> PageResult<Question> {
    let depth = queue_depths::of_topic(&call, &call.of).await?;
    let (one, many) = ("event subscription", "event subscriptions");
    let subscriptions = print::plural(call.of.subscriptions.size(), one, many);
    let question = Question::new(format!("Delete topic {}?", call.of.topic.name));
    Ok(question
        .would(format!("{subscriptions} would be deleted with it."))
        .would(dropped(depth.pending))
        .would("Publishers would be rejected: its keys are gone for good.")
        .would("Events and dead letters stay where they are, for reading.")
        .dangerously())
}

pub(crate) async fn delete(call: Call<Arc<TopicEntry>>) -> PageResult<Done> {
    let (broker, name) = (&call.broker, &call.of.topic.name);
    let deleted = broker.delete_topic(call.by(), name, OnDelete::Discard);
    deleted.await?;
    Ok(Done::well(format!("Topic {name} has been deleted.")).leading_to("/admin/topics"))
}

/// What becomes of pending deliveries.
pub(crate) fn dropped(pending: u64) -> String {
    let pending = print::plural(pending, "pending delivery", "pending deliveries");
    format!("{pending} would be dropped, with a record.")
}

impl Keyed for Arc<TopicEntry> {
    fn name(&self) -> &str {
        self.topic.name.as_str()
    }

    async fn reveal(call: &Call<Self>) -> Result<AccessKeys, ManageError> {
        let name = &call.of.topic.name;
        call.broker.show_topic_keys(call.by(), name).await
    }

    async fn regenerate(call: &Call<Self>, key: KeyName) -> Result<(), ManageError> {
        let name = &call.of.topic.name;
        call.broker.regenerate_key(call.by(), name, key).await?;
        Ok(())
    }

    async fn draw(call: &Call<Self>, shown: Shown) -> PageResult {
        draw_topic(call, &RangeChoice::default(), shown).await
    }
}
