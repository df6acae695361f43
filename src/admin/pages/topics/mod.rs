//! The pages of topics.

mod definition;
mod delete;
mod keys;
mod namespace_snippets;
mod publish;
mod snippets;
mod table;
mod token;

pub(crate) use definition::{create, draft};
pub(crate) use delete::{ask_to_delete, delete, dropped};
pub(crate) use keys::reveal_keys;
pub(crate) use publish::{compose, copy_page, publish};
pub(crate) use snippets::Snippets;
pub(crate) use table::TopicTable;
pub(crate) use token::{draft_token, make_token};

use crate::admin::forms::field::Field;
use crate::admin::lists::filter::whole_topic;
use crate::admin::page::*;
use crate::admin::pages::events::{EventTable, events_of};
use crate::admin::pages::keys::{Keys, Shown};
use crate::admin::pages::queue_depths::{self, QueueDepths};
use crate::admin::pages::rejected_events;
use crate::admin::pages::subscriptions::SubscriptionTable;
use crate::admin::pages::traffic::{RangeChoice, Sum, Traffic};
use crate::admin::paths::{namespace_page, topic_page};
use crate::admin::widgets::figure::Figure;
use crate::model::access::{KeyName, KeyOwner};
use crate::model::event_filter::EventFilter;
use crate::store::StoreError;
use crate::store::views::{EventQuery, RecentTypes, TrafficOf, TrafficQuery};

/// Events shown on the page of their topic.
const EVENTS_SHOWN: usize = 10;

#[derive(Template)]
#[template(path = "pages/topics.html")]
struct TopicsPage {
    frame: Frame,
    list: List,
    table: TopicTable,
}

/// The choice of one of `topics`: first those that somebody has made, then the built-in ones.
pub(crate) fn choice<'a>(
    label: &'static str,
    topics: impl Iterator<Item = &'a Arc<TopicEntry>>,
) -> Field {
    let (built_in, made): (Vec<_>, Vec<_>) = topics.partition(|each| each.topic.is_built_in());
    let groups = [("Topics", made), ("Built in", built_in)].into_iter();
    let groups = groups.filter(|(_, topics)| !topics.is_empty());
    let option = |topic: &Arc<TopicEntry>| {
        let name = topic.topic.name.to_string();
        (name.clone(), name)
    };
    let groups = groups.map(|(title, topics)| (title, topics.into_iter().map(option).collect()));
    Field::grouped_choice("topic", label, groups.collect(), &Form::default())
}

/// The mark of a topic that nobody has made.
fn built_in(topic: &TopicEntry) -> Option<Badge> {
    let mark = || Badge::new(Tone::Rest, "Built in");
    topic.topic.is_built_in().then(mark)
}

/// All topics.
pub(crate) async fn list(visitor: Visitor, State(site): State<Arc<Site>>) -> PageResult {
    let registry = &visitor.standing.registry;
    let depths = QueueDepths::of_all(&site, registry).await?;
    Ok(draw(&TopicsPage {
        frame: Frame::new(&visitor, "Topics"),
        list: List::whole(
            "/admin/topics",
            print::plural(registry.topics().count() as u64, "topic", "topics"),
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
    name: String,
    schema: &'static str,
    mark: Option<Badge>,
    /// `None` for a custom topic.
    namespace: Option<Parent>,
    /// `None` for a built-in topic.
    publishing: Option<Publishing>,
    resource_id: String,
    created_at: Time,
    last_event_at: Option<Timestamp>,
    subscription_count: usize,
    /// Of its subscriptions.
    needing_attention: usize,
    figures: Vec<Figure>,
    traffic: Traffic,
    subscriptions: SubscriptionTable,
    types: RecentTypes,
    events: EventTable,
    rejected_events: String,
    events_href: String,
    recipe: Recipe,
}

/// The namespace of a topic, and what the topic has by being in it.
struct Parent {
    name: String,
    href: String,
    retention: String,
}

impl Parent {
    fn of(topic: &TopicEntry) -> Option<Self> {
        let name = topic.namespace.as_ref()?.namespace.name.to_string();
        let retention = topic.topic.definition.event_retention.unwrap_or_default();
        Some(Self {
            href: namespace_page(&name),
            name,
            retention: print::plural(print::days(retention), "day", "days"),
        })
    }
}

/// How others publish to a topic.
struct Publishing {
    url: String,
    accepts: &'static str,
    keys: Keys,
    snippets: Snippets,
}

impl Publishing {
    async fn read(
        site: &Site,
        visitor: &Visitor,
        topic: &TopicEntry,
        shown: Shown,
    ) -> Result<Option<Self>, StoreError> {
        let Some(keys) = &topic.topic.keys else {
            return Ok(None);
        };
        let used = site
            .broker
            .key_uses(KeyOwner::Topic(topic.topic.id))
            .await?;
        let page = topic_page(topic.topic.name.as_str());
        Ok(Some(Self {
            url: site.publish_url(topic),
            accepts: match topic.topic.definition.disable_local_auth {
                false => "Access key or SAS token",
                true => "None: local authentication is disabled",
            },
            snippets: Snippets::new(
                site,
                topic,
                shown.has(KeyName::Key1).then(|| keys.key1.reveal()),
            ),
            keys: Keys::new(visitor, &page, keys, shown).used(used),
        }))
    }
}

impl TopicPage {
    /// Its events of that type.
    fn events_of_type(&self, event_type: &str) -> String {
        let of = ("type", event_type.to_owned());
        format!("{}&{}", self.events_href, &link("", &[of])[1..])
    }
}

/// One topic, its keys hidden.
pub(crate) async fn show(
    visitor: Visitor,
    State(site): State<Arc<Site>>,
    Path(topic): Path<String>,
    Query(range): Query<RangeChoice>,
) -> PageResult {
    let topic = site.topic(&topic)?;
    draw_topic(&site, &visitor, &topic, &range, Shown::None).await
}

async fn draw_topic(
    site: &Site,
    visitor: &Visitor,
    topic: &Arc<TopicEntry>,
    range: &RangeChoice,
    shown: Shown,
) -> Result<Response, PageError> {
    let recent = EventQuery {
        filter: EventFilter {
            topic: Some(topic.topic.id),
            ..EventFilter::default()
        },
        limit: EVENTS_SHOWN,
        ..EventQuery::default()
    };
    let recent = site.views.events(recent).await?;
    let name = &topic.topic.name;
    let (of, path) = (TrafficOf::Topic(topic.topic.id), topic_page(name.as_str()));
    let first_event = match topic.topic.is_built_in() {
        true => None,
        false => visitor.step(format!("{path}/publish"), "Publish event"),
    };
    let day = site.views.topic_days(visitor.now).await?;
    let day = day.get(&topic.topic.id).copied().unwrap_or_default();
    let depth = QueueDepths::of_topic(site, topic).await?.topic(topic);
    let hours = TrafficQuery::until(visitor.now, of, 3_600_000, 24);
    let sum = Sum::of(&site.views.traffic(hours).await?);
    let published = print::count(day.published.iter().sum());
    let figures = [Figure::new("published", "Published, 24 h", published)]
        .into_iter()
        .chain(queue_depths::figures(
            &sum,
            depth,
            &whole_topic(name),
            visitor.now,
        ));
    let standing = &visitor.standing;
    let of_it = standing
        .all()
        .filter(|(entry, _)| entry.topic.id == topic.topic.id);
    Ok(draw(&TopicPage {
        frame: Frame::new(visitor, format!("Topic {name}")),
        traffic: Traffic::read(site, of, range, (&path, topic.topic.created_at)).await?,
        path,
        name: name.to_string(),
        schema: table::input_schema(topic),
        mark: built_in(topic),
        namespace: Parent::of(topic),
        publishing: Publishing::read(site, visitor, topic, shown).await?,
        resource_id: topic.resource_id.to_string(),
        created_at: Time::relative(topic.topic.created_at),
        last_event_at: day.last_event_at,
        subscription_count: topic.subscriptions.size(),
        needing_attention: of_it.filter(|(_, state)| state.needs_attention()).count(),
        figures: figures.collect(),
        subscriptions: SubscriptionTable::of_topic(site, visitor, topic).await?,
        types: site.views.recent_types(topic.topic.id).await?,
        events: EventTable::new(recent.rows, EventTable::none_yet(first_event)),
        rejected_events: rejected_events::of_topic(name.as_str()),
        events_href: events_of(name),
        recipe: Recipe::get(&site.management_url(&name.path()))
            .everpost(format!("everpost topics show {name}")),
    }))
}
