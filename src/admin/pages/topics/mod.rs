//! The pages of topics.

mod definition;
mod delete;
mod keys;
mod namespace_snippets;
mod publish;
mod snippets;
mod token;

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::response::Response;

pub(crate) use definition::{create, draft};
pub(crate) use delete::{ask_to_delete, delete};
pub(crate) use keys::{ask_to_regenerate, regenerate, reveal_keys};
pub(crate) use publish::{compose, copy_page, publish};
pub(crate) use snippets::Snippets;
pub(crate) use token::{draft_token, make_token};

use crate::admin::bare::draw;
use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::field::Field;
use crate::admin::forms::form::Form;
use crate::admin::frame::Frame;
use crate::admin::lists::filter::whole_topic;
use crate::admin::lists::link;
use crate::admin::lists::recipe::Recipe;
use crate::admin::pages::events::{EventTable, events_of};
use crate::admin::pages::keys::{Keys, Shown};
use crate::admin::pages::last_day::{Spark, SubscriptionDays, TopicDays};
use crate::admin::pages::queue_depths::QueueDepths;
use crate::admin::pages::rejected_events;
use crate::admin::pages::subscriptions::SubscriptionTable;
use crate::admin::pages::traffic::{RangeChoice, Traffic};
use crate::admin::paths::{namespace_page, topic_page};
use crate::admin::security::session::Visitor;
use crate::admin::site::Site;
use crate::admin::widgets::print;
use crate::admin::widgets::{Badge, Empty, Moment, Tone, part};
use crate::model::access::KeyName;
use crate::model::event_filter::EventFilter;
use crate::model::registry::TopicEntry;
use crate::store::views::{EventQuery, TrafficOf};

/// Events shown on the page of their topic.
const EVENTS_SHOWN: usize = 10;

#[derive(Template)]
#[template(path = "admin/topics.html")]
struct TopicsPage {
    frame: Frame,
    table: TopicTable,
    recipe: Recipe,
}

/// A list of topics.
#[derive(Template)]
#[template(path = "admin/parts/topic_table.html")]
pub(crate) struct TopicTable {
    rows: Vec<TopicRow>,
    /// While nobody has made a topic.
    empty: Option<Empty>,
}

part!(TopicTable);

struct TopicRow {
    name: String,
    mark: Option<Badge>,
    href: String,
    schema: &'static str,
    subscriptions: usize,
    day: Spark,
    last_event: String,
    pending: String,
    dead_letters: String,
    has_dead_letters: bool,
    dead_letters_href: String,
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

impl TopicTable {
    /// Of these topics, the built-in ones last.
    pub(crate) fn new<'a>(
        topics: impl Iterator<Item = &'a Arc<TopicEntry>>,
        (depths, days): (&QueueDepths, &TopicDays),
        visitor: &Visitor,
    ) -> Self {
        let mut topics: Vec<_> = topics.collect();
        topics.sort_by_key(|each| each.topic.is_built_in());
        let is_begun = topics.iter().any(|each| !each.topic.is_built_in());
        let empty = || Empty {
            text: "There are no topics yet. A topic is where publishers send events.",
            step: visitor.step("/admin/new-topic", "Create the first topic"),
        };
        let rows = topics
            .iter()
            .map(|topic| TopicRow::new(topic, depths, days));
        Self {
            rows: rows.collect(),
            empty: (!is_begun).then(empty),
        }
    }
}

impl TopicTable {
    /// Of the topics of a namespace, and where another one is made.
    pub(crate) fn of_namespace<'a>(
        topics: impl Iterator<Item = &'a Arc<TopicEntry>>,
        figures: (&QueueDepths, &TopicDays),
        new_topic: String,
        visitor: &Visitor,
    ) -> Self {
        let table = Self::new(topics, figures, visitor);
        let empty = Empty {
            text: "The namespace has no topics yet. A topic is where publishers send events.",
            step: visitor.step(new_topic, "Create the first topic"),
        };
        Self {
            empty: table.rows.is_empty().then_some(empty),
            ..table
        }
    }
}

impl TopicRow {
    fn new(topic: &TopicEntry, depths: &QueueDepths, days: &TopicDays) -> Self {
        let depth = depths.topic(topic);
        Self {
            name: topic.topic.name.to_string(),
            mark: built_in(topic),
            href: topic_page(topic.topic.name.as_str()),
            schema: topic.topic.definition.input_schema.name(),
            subscriptions: topic.subscriptions.len(),
            day: days.spark(topic.topic.id),
            last_event: days.last_event(topic.topic.id),
            pending: print::count(depth.pending),
            dead_letters: print::count(depth.dead_letters),
            has_dead_letters: depth.dead_letters > 0,
            dead_letters_href: link(
                "/admin/dead-letters",
                &[("of", whole_topic(&topic.topic.name))],
            ),
        }
    }
}

/// The mark of a topic that nobody has made.
fn built_in(topic: &TopicEntry) -> Option<Badge> {
    let mark = || Badge::new(Tone::Neutral, "Built in");
    topic.topic.is_built_in().then(mark)
}

/// All topics.
pub(crate) async fn list(visitor: Visitor, State(site): State<Arc<Site>>) -> PageResult {
    let registry = site.broker.registry();
    let depths = QueueDepths::of_all(&site, &registry).await?;
    let days = TopicDays::read(&site, visitor.now).await?;
    Ok(draw(&TopicsPage {
        frame: Frame::new(&visitor, "Topics"),
        table: TopicTable::new(registry.topics(), (&depths, &days), &visitor),
        recipe: Recipe::get(&site.management_url("/topics")).everpost("everpost topics list"),
    }))
}

#[derive(Template)]
#[template(path = "admin/topic.html")]
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
    created_at: Moment,
    traffic: Traffic,
    subscriptions: SubscriptionTable,
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
    fn new(site: &Site, visitor: &Visitor, topic: &TopicEntry, shown: Shown) -> Option<Self> {
        let keys = topic.topic.keys.as_ref()?;
        let page = topic_page(topic.topic.name.as_str());
        Some(Self {
            url: site.publish_url(topic),
            accepts: match topic.topic.definition.disable_local_auth {
                false => "keys and shared access signatures",
                true => "no keys: local authentication is disabled",
            },
            snippets: Snippets::new(
                site,
                topic,
                shown.has(KeyName::Key1).then(|| keys.key1.reveal()),
            ),
            keys: Keys::new(visitor, &page, keys, shown),
        })
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
    topic: &TopicEntry,
    range: &RangeChoice,
    shown: Shown,
) -> Result<Response, PageError> {
    let depths = QueueDepths::of_topic(site, topic).await?;
    let days = SubscriptionDays::read(site, Some(topic.topic.id), visitor.now).await?;
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
        false => visitor.step(format!("{path}/publish"), "Publish the first event"),
    };
    Ok(draw(&TopicPage {
        frame: Frame::new(visitor, format!("Topic {name}")),
        traffic: Traffic::read(site, of, range, &path).await?,
        path,
        name: name.to_string(),
        schema: topic.topic.definition.input_schema.name(),
        mark: built_in(topic),
        namespace: Parent::of(topic),
        publishing: Publishing::new(site, visitor, topic, shown),
        resource_id: topic.resource_id.to_string(),
        created_at: Moment::at(topic.topic.created_at),
        subscriptions: SubscriptionTable::of_topic(topic, (&depths, &days), visitor),
        events: EventTable::of_topic(recent.rows, first_event),
        rejected_events: rejected_events::of_topic(name.as_str()),
        events_href: events_of(name),
        recipe: Recipe::get(&site.management_url(&name.path()))
            .everpost(format!("everpost topics show {name}")),
    }))
}
