//! The pages of event subscriptions.

mod bulk;
mod credentials;
mod definition;
mod delete;
mod form;
mod headers;
mod list;
mod pull_queue;
mod sheet;
mod show;
mod signing;
mod state;
mod storage;
mod trial;

use askama::Template;

pub(crate) use bulk::{ask_to_pause, ask_to_resume, pause_all, resume_all};
pub(crate) use delete::{ask_to_delete, delete};
pub(crate) use form::{change, create, draft, edit, re_edit, redraft};
pub(crate) use list::{choose_topic, list};
pub(crate) use show::{pause, resume, reveal_url, show, validate};
pub(crate) use signing::{
    ask_to_stop as ask_to_stop_signing, draft as draft_secret, rotate as rotate_secret,
    stop as stop_signing,
};
pub(crate) use state::{State as SubscriptionState, state};
pub(crate) use trial::try_filter;

use crate::admin::pages::last_day::{Spark, SubscriptionDays};
use crate::admin::pages::queue_depths::QueueDepths;
use crate::admin::paths::{subscription_page, topic_page};
use crate::admin::security::session::Visitor;
use crate::admin::widgets::print;
use crate::admin::widgets::{Badge, Empty, part};
use crate::base::Timestamp;
use crate::model::registry::TopicEntry;
use crate::model::subscription::EventSubscription;

/// A list of event subscriptions.
#[derive(Template)]
#[template(path = "admin/parts/subscription_table.html")]
pub(crate) struct SubscriptionTable {
    rows: Vec<SubscriptionRow>,
    with_topic: bool,
    /// Whether rows can be marked, to do something with all of them.
    with_marks: bool,
    empty: Empty,
}

part!(SubscriptionTable);

struct SubscriptionRow {
    name: String,
    href: String,
    topic: String,
    topic_href: String,
    endpoint: String,
    state: Badge,
    why: String,
    day: Spark,
    pending: String,
    next_attempt: String,
    dead_letters: String,
    has_dead_letters: bool,
}

impl SubscriptionTable {
    /// Of the subscriptions of one topic.
    pub(crate) fn of_topic(
        topic: &TopicEntry,
        (depths, days): (&QueueDepths, &SubscriptionDays),
        visitor: &Visitor,
    ) -> Self {
        let rows = topic.subscriptions.values();
        let create = format!("{}/new-subscription", topic_page(topic.topic.name.as_str()));
        Self {
            rows: rows
                .map(|each| SubscriptionRow::new(topic, each, (depths, days), visitor.now))
                .collect(),
            with_topic: false,
            with_marks: false,
            empty: Empty {
                text: "Nobody has subscribed to this topic yet, so its events go nowhere.",
                step: visitor.step(create, "Create an event subscription"),
            },
        }
    }
}

impl SubscriptionRow {
    fn new(
        topic: &TopicEntry,
        subscription: &EventSubscription,
        (depths, days): (&QueueDepths, &SubscriptionDays),
        now: Timestamp,
    ) -> Self {
        let (topic, name) = (topic.topic.name.as_str(), subscription.name.as_str());
        let depth = depths.subscription(subscription.id);
        let SubscriptionState { badge, why } =
            state(subscription, &depths.health(subscription.id), now);
        Self {
            name: name.to_owned(),
            href: subscription_page(topic, name),
            topic: topic.to_owned(),
            topic_href: topic_page(topic),
            endpoint: subscription.definition.destination.brief().to_owned(),
            state: badge,
            why,
            day: days.spark(subscription.id),
            pending: print::count(depth.pending),
            next_attempt: depth
                .next_attempt_at
                .map(|at| format!("next {}", print::relative(at.max(now), now)))
                .unwrap_or_default(),
            dead_letters: print::count(depth.dead_letters),
            has_dead_letters: depth.dead_letters > 0,
        }
    }
}
