//! The pages of event subscriptions.

mod actions;
mod definition;
mod form;
mod list;
mod show;
mod signing;
mod table;
mod trial;

pub(crate) use actions::{
    PAUSE_SELECTED, RESUME_SELECTED, ask_to_delete, delete, pause, resume, retry_now, validate,
};
pub(crate) use form::{open, redraw, save};
pub(crate) use list::{choose_topic, list};
pub(crate) use show::{reveal_url, show};
pub(crate) use signing::{
    ask_to_stop as ask_to_stop_signing, draft as draft_secret, rotate as rotate_secret,
    stop as stop_signing,
};
pub(crate) use table::SubscriptionTable;
pub(crate) use trial::try_filter;

use crate::admin::lists::bulk::Selectable;
use crate::admin::page::*;
use crate::admin::paths::subscription_page;
use crate::model::name::{SubscriptionName, TopicName};
use crate::model::subscription::EventSubscription;

/// An event subscription with its topic.
#[derive(Clone, Debug)]
pub(crate) struct Subscription {
    pub(crate) topic: Arc<TopicEntry>,
    pub(crate) subscription: Arc<EventSubscription>,
}

impl Subscription {
    fn named(site: &Site, topic: &str, name: &str) -> Result<Self, PageError> {
        let (topic, subscription) = site.subscription(topic, name)?;
        Ok(Self {
            topic,
            subscription,
        })
    }

    pub(crate) fn names(&self) -> (&TopicName, &SubscriptionName) {
        (&self.topic.topic.name, &self.subscription.name)
    }

    /// `orders / billing`.
    pub(crate) fn title(&self) -> String {
        let (topic, name) = self.names();
        format!("{topic} / {name}")
    }

    /// As filters name it: `orders/billing`.
    pub(crate) fn filter(&self) -> String {
        let (topic, name) = self.names();
        format!("{topic}/{name}")
    }
}

impl Subject for Subscription {
    async fn find(site: &Site, names: &Names) -> Result<Self, PageError> {
        Self::named(site, name_of(names, "topic"), name_of(names, "name"))
    }

    fn page(&self) -> String {
        let (topic, name) = self.names();
        subscription_page(topic.as_str(), name.as_str())
    }
}

impl Selectable for Subscription {
    const LIST: &'static str = list::PATH;
    const NOUN: (&'static str, &'static str) = ("event subscription", "event subscriptions");

    async fn select(site: &Site, text: &str) -> Result<Self, PageError> {
        let missing = || PageError::NotFound(format!("event subscription {text}"));
        let (topic, name) = text.rsplit_once('/').ok_or_else(missing)?;
        Self::named(site, topic, name)
    }

    fn title(&self) -> String {
        self.title()
    }
}
