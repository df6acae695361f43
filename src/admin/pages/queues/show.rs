//! The page of one queue, with its access keys.

use axum::extract::Query;
use futures_util::future::OptionFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{QUEUE, QueueName, QueuedMessage, SUBSCRIPTION, counted};
use crate::admin::action::{Call, Deletable, Question, Subject};
use crate::admin::error::PageResult;
use crate::admin::forms::filled::FilledForm;
use crate::admin::lists::filter::given;
use crate::admin::lists::link;
use crate::admin::lists::recipe::Recipe;
use crate::admin::pages::answer;
use crate::admin::pages::keys::{KEYS_STOP, Keyed, Keys};
use crate::admin::pages::service_bus::BusRule;
use crate::admin::pages::topics::{MESSAGES, losing};
use crate::admin::paths;
use crate::admin::site::existing;
use crate::admin::widgets::{Badge, Empty, Icon, Tone, filters};
use crate::model::access::{AccessKeys, KeyName, KeyOwner};
use crate::model::lease::{QueueRef, SubQueue};
use crate::model::name::{TopicName, segment};
use crate::model::registry::{Registry, TopicEntry};
use crate::model::topic::EntityKind;
use crate::store::views::{MessageCounts, QUEUE_COUNTED_MAX, SESSION_COUNTED_MAX, SessionRow};
use crate::wire::duration::DURATION_MAX;
use crate::wire::service_bus::sas::connection_string;

/// Number of messages, and of sessions, on a page.
const SHOWN: usize = 20;

/// The messages and sessions of a queue that a page shows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ShownPlace {
    /// The number of the first message.
    from: String,
    /// The session whose messages are shown; empty for all messages.
    session: String,
    /// The session id after which the list of sessions begins.
    after: String,
}

/// The connection details of a queue or a topic for its clients.
pub(crate) struct QueueAccess {
    /// The connection string as a JSON string, which is also one in Python. A hidden key is replaced by `KEY`.
    pub(crate) connection: Value,
    /// The connection strings of the keys that are shown.
    pub(crate) connections: Vec<(KeyName, String)>,
    pub(crate) keys: Keys,
}

pub(crate) async fn show(Query(place): Query<ShownPlace>, call: Call<QueueName>) -> PageResult {
    draw_queue(&call, &place, Vec::new()).await
}

async fn draw_queue(call: &Call<QueueName>, place: &ShownPlace, shown: Vec<KeyName>) -> PageResult {
    let (of, views, visitor) = (&call.of, &call.views, &call.visitor);
    let (id, name) = (of.subscription.id, of.topic_name());
    let counts = views.message_counts(vec![id], visitor.now, QUEUE_COUNTED_MAX as u64);
    let (session, pending) = (given(&place.session), QueueRef::pending(id));
    let from: i64 = place.from.parse().unwrap_or(0);
    let peek = |from, most| call.broker.peek(pending, session.clone(), from, most);
    let found = peek(from, SHOWN).await?;
    let next = match found.last() {
        Some(last) => peek(last.delivery.number + 1, 1).await?,
        None => Vec::new(),
    };
    let messages = found.into_iter().map(|each| QueuedMessage::of(call, each));
    let sessions = || views.message_sessions(id, place.after.clone(), SHOWN);
    let sessions = of.definition.pull.receiving.has_sessions.then(sessions);
    let sessions = OptionFuture::from(sessions).await.transpose()?;
    let at = |place: ShownPlace| link(&of.page(), &FilledForm::with(place).pairs());
    let (access, recipe) = if of.is_subscription() {
        let (topic, own) = (segment(name.as_str()), of.name());
        let path = format!("/serviceBusTopics/{topic}/subscriptions/{own}");
        let show = "everpost service-bus subscriptions show";
        let command = format!("{show} {own} --topic {name}");
        (None, Recipe::of(call, &path, command))
    } else {
        let path = format!("/queues/{}", segment(name.as_str()));
        let recipe = Recipe::of(call, &path, format!("everpost queues show {name}"));
        (Some(QueueAccess::of(call, &of.topic, shown).await?), recipe)
    };
    answer!("pages/queue.html", visitor, of.name(), {
        counts: MessageCounts = counts.await?.pop().unwrap_or_default(),
        messages: Vec<QueuedMessage> = messages.collect(),
        // Links to other pages of messages, then of sessions; `None` if there is no such page.
        first: Option<String> = (from > 0).then(|| at(ShownPlace { from: String::new(), ..place.clone() })),
        next: Option<String> = next.first().map(|next| {
            at(ShownPlace { from: next.delivery.number.to_string(), ..place.clone() })
        }),
        first_sessions: Option<String> = given(&place.after).map(|_| at(ShownPlace::default())),
        next_sessions: Option<String> = sessions.as_ref().and_then(|page| page.next_before.clone())
            .map(|after| at(ShownPlace { after, ..ShownPlace::default() })),
        sessions: Option<Vec<SessionRow>> = sessions.map(|page| page.rows),
        // The session to which the messages are limited.
        session: Option<String> = session.clone(),
        // The connection details of a queue. A subscription is reached with the connection string of its topic.
        access: Option<QueueAccess> = access,
        rules_of_it: Vec<BusRule> = BusRule::all_of(call),
        recipe: Recipe = recipe,
        path: String = of.page(),
        bytes: u64 = call.broker.queue_bytes(&[id, id.transfers()]),
        queue: QueueName = of.clone(),
    })
}

impl QueueAccess {
    pub(crate) async fn of<S: Keyed>(
        call: &Call<S>,
        topic: &TopicEntry,
        shown: Vec<KeyName>,
    ) -> PageResult<Self> {
        let queue_topic = &topic.topic;
        let keys = existing(
            queue_topic.keys.clone(),
            "access keys of",
            &queue_topic.name,
        )?;
        Self::with(call, &keys, None, shown).await
    }

    /// Returns the access with the keys of an access rule. Without the name of a rule, the name of each key is used as
    /// one.
    pub(crate) async fn with<S: Keyed>(
        call: &Call<S>,
        keys: &AccessKeys,
        rule: Option<&str>,
        shown: Vec<KeyName>,
    ) -> PageResult<Self> {
        let url = call.public_url();
        let of = |name: KeyName, key| connection_string(&url, rule.unwrap_or(name.name()), key);
        let all = shown
            .iter()
            .map(|name| (*name, of(*name, keys.get(*name).reveal())));
        let connections: Vec<_> = all.collect();
        let first = connections.first().map(|(_, text)| text.clone());
        Ok(Self {
            connection: json!(first.unwrap_or_else(|| of(KeyName::Key1, "KEY"))),
            connections,
            keys: Keys::of(call, keys, shown).await?,
        })
    }
}

impl Keyed for QueueName {
    fn owner(&self) -> KeyOwner {
        KeyOwner::Topic(self.topic.topic.id)
    }

    async fn draw(call: &Call<Self>, shown: Vec<KeyName>) -> PageResult {
        draw_queue(call, &ShownPlace::default(), shown).await
    }
}

impl Deletable for QueueName {
    const NOUN: &'static str = QUEUE;

    fn noun(&self) -> &'static str {
        if self.is_subscription() {
            SUBSCRIPTION
        } else {
            QUEUE
        }
    }

    async fn losing(call: &Call<Self>, question: Question) -> PageResult<Question> {
        let depth = call.depth(call.of.subscription.id).await?;
        let clients = if call.of.is_subscription() {
            "Its rules are deleted with it, and its clients are rejected."
        } else {
            KEYS_STOP
        };
        Ok(losing(question.would(clients), depth, &MESSAGES))
    }

    async fn delete(call: &Call<Self>) -> PageResult<bool> {
        let (of, broker, by) = (&call.of, &call.broker, call.by());
        let (topic, own) = (of.topic_name(), &of.subscription.name);
        let deleted = if of.is_subscription() {
            broker.delete_service_bus_subscription(by, topic, own).await
        } else {
            broker.delete_queue(by, topic).await
        };
        Ok(deleted?)
    }
}

/// The page of a queue or topic.
pub(crate) fn entity_page(registry: &Registry, to: &TopicName) -> String {
    let topic = registry.topic(to);
    if topic.is_some_and(|topic| topic.topic.kind.entity() == EntityKind::ServiceBusTopic) {
        paths::service_bus_topic_page(to.as_str())
    } else {
        paths::queue_page(to.as_str())
    }
}
