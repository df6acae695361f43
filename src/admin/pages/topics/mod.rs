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
use crate::admin::pages::queue_depths::{self, QueueDepths};
use crate::admin::pages::rejected_events;
use crate::admin::pages::subscriptions::SubscriptionTable;
use crate::admin::pages::traffic::{RangeChoice, Sum, Traffic};
use crate::admin::widgets::figure::Figure;
use crate::broker::ManageError;
use crate::model::access::AccessKeys;
use crate::model::access::{KeyName, KeyOwner};
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

/// All topics.
pub(crate) async fn list(Call { site, visitor, .. }: Call) -> PageResult {
    let registry = &visitor.standing.registry;
    let depths = QueueDepths::of_all(&site, registry).await?;
    Ok(draw(&TopicsPage {
        frame: Frame::new(&visitor, "Topics"),
        list: List::whole(
            "/admin/topics",
            print::plural(registry.topics().count(), "topic", "topics"),
            Recipe::get(&site.management_url("/topics")).everpost("everpost topics list"),
        ),
        table: TopicTable::read(&site, &visitor, registry.topics(), &depths).await?,
    }))
}

#[derive(Template)]
#[template(path = "pages/topic.html")]
struct TopicPage {
    frame: Frame,
    path: String,
    topic: Arc<TopicEntry>,
    day: TopicDay,
    /// Of its subscriptions.
    needing_attention: usize,
    figures: Vec<Figure>,
    traffic: Traffic,
    subscriptions: SubscriptionTable,
    types: RecentTypes,
    events: EventTable,
    events_href: String,
    /// The URL, the keys and how others publish with them; `None` for a built-in topic.
    publishing: Option<(String, Keys, Snippets)>,
    recipe: Recipe,
}

impl TopicPage {
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

pub(crate) async fn draw_topic(
    call: &Call<Arc<TopicEntry>>,
    range: &RangeChoice,
    shown: Shown,
) -> PageResult {
    let (visitor, topic) = (&call.visitor, &call.of);
    let (id, name) = (topic.topic.id, &topic.topic.name);
    let path = topic.page();
    let recent = EventQuery {
        filter: EventFilter {
            topic: Some(id),
            ..EventFilter::default()
        },
        limit: EVENTS_SHOWN,
        ..EventQuery::default()
    };
    let recent = call.views.events(recent).await?.rows;
    let may_publish = !topic.topic.is_built_in();
    let first_event = visitor
        .step(format!("{path}/publish"), "Publish event")
        .filter(|_| may_publish);
    let days = call.views.topic_days(visitor.now).await?;
    let day = days.get(&id).copied().unwrap_or_default();
    let depth = QueueDepths::of_topic(&call.site, topic).await?.topic(topic);
    let hours = TrafficQuery::until(visitor.now, TrafficOf::Topic(id), 3_600_000, 24);
    let sum = Sum::of(&call.views.traffic(hours).await?);
    let published = print::count(day.published.iter().sum());
    let mut figures = vec![Figure::new("published", "Published, 24 h", published)];
    figures.extend(queue_depths::figures(
        &sum,
        depth,
        &whole_topic(name),
        visitor.now,
    ));
    let standing = visitor.standing.all();
    let needing_attention = standing
        .filter(|(entry, state)| entry.topic.id == id && state.needs_attention())
        .count();
    let born = (&*path, topic.topic.created_at);
    Ok(draw(&TopicPage {
        frame: Frame::new(visitor, format!("Topic {name}")),
        traffic: Traffic::read(&call.site, TrafficOf::Topic(id), range, born).await?,
        topic: Arc::clone(topic),
        day,
        needing_attention,
        figures,
        publishing: publishing(call, shown).await?,
        subscriptions: SubscriptionTable::of_topic(&call.site, visitor, topic).await?,
        types: call.views.recent_types(id).await?,
        events: EventTable::new(recent, EventTable::none_yet(first_event)),
        events_href: events_of(name),
        recipe: Recipe::get(&call.management_url(&name.path()))
            .everpost(format!("everpost topics show {name}")),
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
    let used = call
        .broker
        .key_uses(KeyOwner::Topic(topic.topic.id))
        .await?;
    let first = shown.has(KeyName::Key1).then(|| keys.key1.reveal());
    let snippets = Snippets::new(&call.site, topic, first);
    let keys = Keys {
        page: topic.page(),
        keys: keys.clone(),
        shown,
        used: Some(used),
    };
    Ok(Some((call.publish_url(topic), keys, snippets)))
}

/// A topic that somebody has made.
impl Subject for Arc<TopicEntry> {
    async fn find(site: &Site, names: &Names) -> Result<Self, PageError> {
        site.made_topic(name_of(names, "topic"))
    }

    fn page(&self) -> String {
        paths::topic_page(self.topic.name.as_str())
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

impl Keyed for Arc<TopicEntry> {
    fn name(&self) -> &str {
        self.topic.name.as_str()
    }

    async fn reveal(call: &Call<Self>) -> Result<AccessKeys, ManageError> {
        call.broker
            .show_topic_keys(call.by(), &call.of.topic.name)
            .await
    }

    async fn regenerate(call: &Call<Self>, key: KeyName) -> Result<(), ManageError> {
        call.broker
            .regenerate_key(call.by(), &call.of.topic.name, key)
            .await?;
        Ok(())
    }

    async fn draw(call: &Call<Self>, shown: Shown) -> PageResult {
        draw_topic(call, &RangeChoice::default(), shown).await
    }
}
