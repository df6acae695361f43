//! The pages of topics.

mod definition;
mod publish;
mod snippets;
mod table;
mod token;

pub(crate) use definition::TopicForm;
pub(crate) use publish::{Events, compose, copy_page};
pub(crate) use snippets::{Snippets, example};
pub(crate) use table::TopicTable;
pub(crate) use token::NewSasTokenForm;

use std::fmt::Display;
use std::sync::Arc;

use axum::extract::Query;

use crate::admin::action::{Call, Deletable, Names, Question, Subject, name_of};
use crate::admin::error::PageResult;
use crate::admin::lists::bulk::Selectable;
use crate::admin::lists::filter::whole_topic;
use crate::admin::lists::link;
use crate::admin::lists::list::ListPage;
use crate::admin::lists::recipe::Recipe;
use crate::admin::pages::events::{EventTable, events_of};
use crate::admin::pages::keys::{Keyed, Keys};
use crate::admin::pages::queue_depths::QueueDepths;
use crate::admin::pages::subscriptions::{Subscription, SubscriptionTable};
use crate::admin::pages::traffic::{RangeChoice, TrafficCharts};
use crate::admin::pages::{answer, rejected_events};
use crate::admin::paths;
use crate::admin::site::Site;
use crate::admin::widgets::{Badge, Icon, Tone, filters, print};
use crate::model::access::{KeyName, KeyOwner};
use crate::model::destination::DeliveryMode;
use crate::model::event_filter::EventFilter;
use crate::model::registry::TopicEntry;
use crate::model::subscription::OnDelete;
use crate::model::topic::EntityKind;
use crate::store::views::{
    EventQuery, QueueDepth, RecentTypes, TopicDay, TrafficOf, TrafficQuery, TrafficSlot,
};

/// The number of events on the page of their topic.
const EVENTS_SHOWN: usize = 10;

pub(crate) async fn list(call: Call) -> PageResult {
    let (visitor, registry) = (&call.visitor, &call.visitor.standing.registry);
    let recipe = Recipe::of(&call, "/topics", "everpost topics list");
    let step = visitor.step("/admin/first-event", "Deliver the first event");
    answer!("pages/topics.html", visitor, "Topics", {
        list: ListPage = ListPage::whole(registry.topics().count(), ["topic", "topics"], recipe),
        table: TopicTable = TopicTable::read(&call, registry.topics(), step).await?,
    })
}

/// Shows a topic with its keys hidden.
pub(crate) async fn show(Query(range): Query<RangeChoice>, call: Call) -> PageResult {
    let topic = call.topic(name_of(&call.names, "topic"))?;
    draw_topic(&call.about(topic), &range, Vec::new()).await
}

async fn draw_topic(
    call: &Call<Arc<TopicEntry>>,
    range: &RangeChoice,
    shown: Vec<KeyName>,
) -> PageResult {
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
    let recent = views.events(recent).await?.rows;
    let publish = visitor
        .step(format!("{path}/publish"), "Publish event")
        .filter(|_| !topic.topic.kind.is_built_in());
    let days = views.topic_days(visitor.now).await?;
    let hours = TrafficQuery::until(visitor.now, TrafficOf::Topic(id), 3_600_000, 24);
    let own = visitor.standing.all().filter(|(of, _)| of.topic.id == id);
    let born = topic.topic.created_at;
    let traffic = TrafficCharts::read(call, TrafficOf::Topic(id), range, &path, born).await?;
    let mut modes = topic.subscriptions.values();
    let is_pushed = modes.any(|it| it.definition.destination.delivery_mode() == DeliveryMode::Push);
    answer!("pages/topic.html", visitor, format!("Topic {name}"), {
        topic: Arc<TopicEntry> = Arc::clone(topic),
        day: TopicDay = days.get(&id).copied().unwrap_or_default(),
        // The number of its subscriptions that need attention.
        needing_attention: usize = own.filter(|(_, state)| state.needs_attention()).count(),
        sum: TrafficSlot = TrafficSlot::sum(&views.traffic(hours).await?),
        depth: QueueDepth = QueueDepths::of(call, [topic]).await?.total(),
        traffic: TrafficCharts = traffic.pulled(!is_pushed && !topic.subscriptions.is_empty()),
        subscriptions: SubscriptionTable = SubscriptionTable::of_topic(call).await?,
        types: RecentTypes = views.recent_types(id).await?,
        events: EventTable = EventTable::new(recent, EventTable::none_yet(publish)).of_topic(),
        // The URL, the keys and the code snippets for publishers; `None` for a built-in topic.
        publishing: Option<(String, Keys, Snippets)> = publishing(call, shown).await?,
        recipe: Recipe = Recipe::of(call, &name.path(), format!("everpost topics show {name}")),
        path: String = path,
    })
}

async fn publishing(
    call: &Call<Arc<TopicEntry>>,
    shown: Vec<KeyName>,
) -> PageResult<Option<(String, Keys, Snippets)>> {
    let topic = &call.of;
    let Some(keys) = &topic.topic.keys else {
        return Ok(None);
    };
    let first = shown.contains(&KeyName::Key1).then(|| keys.key1.reveal());
    let snippets = Snippets::new(call, topic, first);
    let keys = Keys::of(call, keys, shown).await?;
    Ok(Some((call.publish_url(topic), keys, snippets)))
}

/// A topic that a user created.
impl Subject for Arc<TopicEntry> {
    async fn find(site: &Site, names: &Names) -> PageResult<Self> {
        site.made_topic(name_of(names, "topic"))
    }

    fn page(&self) -> String {
        paths::topic_page(self.topic.name.as_str())
    }
}

impl Deletable for Arc<TopicEntry> {
    const NOUN: &'static str = "topic";

    async fn losing(call: &Call<Self>, question: Question) -> PageResult<Question> {
        call.broker.entity(EntityKind::Topic, &call.of.topic.name)?;
        let depth = QueueDepths::of(call, [&call.of]).await?.total();
        let names = call.of.subscriptions.values().map(|each| &each.name);
        let question = also_deleted(question, names, Subscription::NOUNS)
            .would("Publishing to it is rejected from now on, and both keys are lost.")
            .would("Events stay readable until their retention ends.");
        Ok(losing(question, depth, &DELIVERIES))
    }

    async fn delete(call: &Call<Self>) -> PageResult<bool> {
        let (broker, name) = (&call.broker, &call.of.topic.name);
        let deleted = broker.delete_topic(call.by(), name, OnDelete::Discard);
        Ok(deleted.await?)
    }
}

/// Lists what is deleted along with a resource.
pub(crate) fn also_deleted<T: Display>(
    question: Question,
    names: impl IntoIterator<Item = T>,
    noun: (&str, &str),
) -> Question {
    let names = print::some_of(names, noun);
    question.would(match names {
        Some(names) => format!("Also deleted: {names}."),
        None => format!("It has no {}.", noun.1),
    })
}

/// Describes what happens to one or many deliveries of deleted subscriptions.
pub(crate) struct Losses {
    pending: (&'static str, &'static str),
    dead_letters: (&'static str, &'static str),
}

pub(crate) const DELIVERIES: Losses = Losses {
    pending: (
        "pending delivery is dropped",
        "pending deliveries are dropped",
    ),
    dead_letters: (
        "dead letter stays readable, but cannot be resubmitted",
        "dead letters stay readable, but cannot be resubmitted",
    ),
};
pub(crate) const MESSAGES: Losses = Losses {
    pending: ("message is dropped", "messages are dropped"),
    dead_letters: ("dead letter is dropped", "dead letters are dropped"),
};

/// Adds the contents of the queues of deleted subscriptions to the question.
pub(crate) fn losing(question: Question, depth: QueueDepth, losses: &Losses) -> Question {
    let mut question = question;
    for (count, (one, many)) in [
        (depth.pending, losses.pending),
        (depth.dead_letters, losses.dead_letters),
    ] {
        if count > 0 {
            question = question.would(format!("{}.", print::plural(count, one, many)));
        }
    }
    question
}

impl Keyed for Arc<TopicEntry> {
    fn owner(&self) -> KeyOwner {
        KeyOwner::Topic(self.topic.id)
    }

    async fn draw(call: &Call<Self>, shown: Vec<KeyName>) -> PageResult {
        draw_topic(call, &RangeChoice::default(), shown).await
    }
}
