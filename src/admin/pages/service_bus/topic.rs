//! Admin pages of Service Bus topics: the list, the page of a topic, and the form that creates or edits a topic.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::admin::action::{Call, Deletable, Names, Question, Subject, name_of};
use crate::admin::error::{PageError, PageResult};
use crate::admin::forms::document::Shape;
use crate::admin::forms::form::{Form, FormError};
use crate::admin::forms::sheet::{Head, Sheet, SheetFields, named};
use crate::admin::lists::filter::whole_topic;
use crate::admin::lists::link;
use crate::admin::lists::list::ListPage;
use crate::admin::lists::recipe::Recipe;
use crate::admin::pages::answer;
use crate::admin::pages::keys::{KEYS_STOP, Keyed};
use crate::admin::pages::queue_depths::QueueDepths;
use crate::admin::pages::queues::{COUNTED_MAX, QueueAccess, QueueName, WINDOW, counted};
use crate::admin::pages::topics::{MESSAGES, also_deleted, losing};
use crate::admin::paths;
use crate::admin::site::{Site, named_in};
use crate::admin::widgets::{Empty, Flash, Icon, filters};
use crate::broker::Put;
use crate::model::access::{KeyName, KeyOwner};
use crate::model::lease::SubQueue;
use crate::model::name::{TopicName, segment};
use crate::model::queue::ServiceBusTopic;
use crate::model::registry::TopicEntry;
use crate::model::subscription::EventSubscription;
use crate::model::topic::TopicKind;
use crate::store::views::{MessageCounts, QueueDepth};
use crate::wire::duration::DURATION_MAX;
use crate::wire::resource::bodies::ServiceBusTopicRequest;
use crate::wire::resource::parse_service_bus_topic;
use crate::wire::{duration, resource};

const LIST: &str = "/admin/service-bus-topics";

/// A Service Bus topic.
#[derive(Clone, Debug)]
pub(crate) struct BusTopic(pub(crate) Arc<TopicEntry>);

impl Subject for BusTopic {
    async fn find(site: &Site, names: &Names) -> PageResult<Self> {
        let text = name_of(names, "topic");
        let name = named_in("Service Bus topic", text, TopicName::parse)?;
        Ok(Self(site.broker.service_bus_topic(&name)?))
    }

    fn page(&self) -> String {
        paths::service_bus_topic_page(self.0.topic.name.as_str())
    }
}

pub(crate) async fn list(call: Call) -> PageResult {
    let topics = call.broker.service_bus_topics();
    let depths = QueueDepths::of(&call, &topics).await?;
    let command = "everpost service-bus topics list";
    let recipe = Recipe::of(&call, "/serviceBusTopics", command);
    answer!("pages/bus_topics.html", &call.visitor, "Service Bus topics", {
        list: ListPage = ListPage::whole(topics.len(), ["topic", "topics"], recipe),
        rows: Vec<(BusTopic, QueueDepth)> = topics
            .into_iter()
            .map(|topic| (BusTopic(Arc::clone(&topic)), depths.topics([&topic])))
            .collect(),
    })
}

pub(crate) async fn show(call: Call<BusTopic>) -> PageResult {
    draw_topic(&call, Vec::new()).await
}

async fn draw_topic(call: &Call<BusTopic>, shown: Vec<KeyName>) -> PageResult {
    let (topic, visitor) = (&call.of.0, &call.visitor);
    let queue =
        |each: &Arc<EventSubscription>| QueueName::of((Arc::clone(topic), Arc::clone(each)));
    let queues: Vec<QueueName> = topic.message_subscriptions().filter_map(queue).collect();
    let ids = queues.iter().map(|each| each.subscription.id).collect();
    let counts = call
        .views
        .message_counts(ids, visitor.now, COUNTED_MAX)
        .await?;
    let name = &topic.topic.name;
    let api = format!("/serviceBusTopics/{}", segment(name.as_str()));
    let command = format!("everpost service-bus topics show {name}");
    answer!("pages/bus_topic.html", visitor, name.to_string(), {
        access: QueueAccess = QueueAccess::of(call, topic, shown).await?,
        depth: QueueDepth = QueueDepths::of(call, [topic]).await?.total(),
        scheduled: String = counted(
            counts.iter().map(|each| each.scheduled).sum(),
            counts.iter().any(|each| each.is_partial),
        ),
        rows: Vec<(QueueName, MessageCounts)> = queues.into_iter().zip(counts).collect(),
        recipe: Recipe = Recipe::of(call, &api, command),
        path: String = call.of.page(),
        bytes: u64 = call.broker.queue_bytes(&topic.measured),
        topic: Arc<TopicEntry> = Arc::clone(topic),
        definition: ServiceBusTopic = call.of.definition()?.clone(),
    })
}

impl Keyed for BusTopic {
    fn owner(&self) -> KeyOwner {
        KeyOwner::Topic(self.0.topic.id)
    }

    async fn draw(call: &Call<Self>, shown: Vec<KeyName>) -> PageResult {
        draw_topic(call, shown).await
    }
}

impl Deletable for BusTopic {
    const NOUN: &'static str = "topic";

    async fn losing(call: &Call<Self>, question: Question) -> PageResult<Question> {
        let topic = &call.of.0;
        let depth = QueueDepths::of(call, [topic]).await?.total();
        let names = topic.subscriptions.values().map(|each| &each.name);
        let question = also_deleted(question, names, ("subscription", "subscriptions"));
        Ok(losing(question.would(KEYS_STOP), depth, &MESSAGES))
    }

    async fn delete(call: &Call<Self>) -> PageResult<bool> {
        let (broker, name) = (&call.broker, &call.of.0.topic.name);
        Ok(broker.delete_service_bus_topic(call.by(), name).await?)
    }
}

/// The form that creates or edits a Service Bus topic.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct BusTopicForm(Form);

impl Sheet<()> for BusTopicForm {
    const HEAD: Head = (SheetFields::ServiceBusTopic, "New Service Bus topic", LIST);

    fn begin(_: &Call) -> PageResult<Self> {
        let defaults = parse_service_bus_topic(&json!({})).map_err(PageError::rejected)?;
        Ok(Self::of(&defaults))
    }

    async fn save(&self, call: &Call) -> PageResult {
        let is_taken = |name: &TopicName| call.broker.registry().topic(name).is_some();
        let definition = self.read(&json!({}));
        let (parse, noun) = (TopicName::of_service_bus, "a queue or topic");
        let (name, definition) = named(&self.0, noun, parse, is_taken, definition)?;
        let said = "has been created.";
        self.put(call, name, definition, Put::Create, said).await
    }
}

impl Sheet<BusTopic> for BusTopicForm {
    const HEAD: Head = (SheetFields::ServiceBusTopic, "Edit topic", "");

    fn begin(call: &Call<BusTopic>) -> PageResult<Self> {
        let definition = call.of.definition()?;
        let mut form = Self::of(definition);
        if !definition.sending.detects_duplicates {
            form.0.remove(WINDOW);
        }
        Ok(form)
    }

    async fn save(&self, call: &Call<BusTopic>) -> PageResult {
        let topic = &call.of.0.topic;
        // Keeps the current values of properties that cannot be changed. The form has no fields for them.
        let current = call.of.definition()?;
        let detects = current.sending.detects_duplicates;
        let mut fixed = json!({ "requiresDuplicateDetection": detects });
        let tier = call.broker.options().service_bus_tier;
        for (name, text) in current.upkeep.inert_in(tier) {
            fixed[name] = serde_json::from_str(text).unwrap_or_default();
        }
        if !detects {
            fixed[WINDOW] = duration::format(current.sending.duplicate_window).into();
        }
        let definition = self.read(&fixed)?;
        let said = "has been changed.";
        self.put(call, topic.name.clone(), definition, Put::Update, said)
            .await
    }
}

impl BusTopicForm {
    fn of(definition: &ServiceBusTopic) -> Self {
        let document = resource::service_bus_topic_document(definition);
        let mut form = Shape::of::<ServiceBusTopicRequest>().form(&document);
        if definition.time_to_live == DURATION_MAX {
            form.remove("defaultMessageTimeToLive");
        }
        Self(form)
    }

    fn read(&self, fixed: &Value) -> Result<ServiceBusTopic, Vec<FormError>> {
        let blank = json!({ "properties": fixed });
        Shape::of::<ServiceBusTopicRequest>().define(&self.0, blank, parse_service_bus_topic)
    }

    async fn put<S>(
        &self,
        call: &Call<S>,
        name: TopicName,
        definition: ServiceBusTopic,
        put: Put,
        said: &str,
    ) -> PageResult {
        let page = paths::service_bus_topic_page(name.as_str());
        let said = Flash::done(format!("Topic {name} {said}"));
        let broker = &call.broker;
        let saved = broker.put_service_bus_topic(call.by(), name, definition, put);
        saved.await?;
        call.visitor.leave(said, &page).await
    }
}

/// Returns the name of the subscription that examples receive from, and whether the subscription has sessions.
fn first_of(rows: &[(QueueName, MessageCounts)]) -> (String, bool) {
    let first = rows.first();
    first.map_or_else(
        || ("SUBSCRIPTION".to_owned(), false),
        |(queue, _)| (queue.name(), queue.definition.pull.receiving.has_sessions),
    )
}

impl BusTopic {
    /// Returns the definition of the topic. Fails with `PageError::NotFound` if the topic is not a Service Bus topic.
    fn definition(&self) -> PageResult<&ServiceBusTopic> {
        match &self.0.topic.kind {
            TopicKind::ServiceBus(definition) => Ok(definition),
            TopicKind::Custom(_)
            | TopicKind::Namespace { .. }
            | TopicKind::Queue(_)
            | TopicKind::System(_) => {
                let name = self.0.topic.name.to_string();
                Err(PageError::NotFound(format!("Service Bus topic {name}")))
            }
        }
    }

    /// Returns the filter value that selects the messages and dead letters of the topic.
    fn filter(&self) -> String {
        whole_topic(&self.0.topic.name)
    }
}
