//! The pages of event subscriptions.

mod actions;
mod definition;
mod form;
mod list;
mod show;
mod signing;
mod table;
mod trial;

pub(crate) use actions::{PAUSE_SELECTED, RESUME_SELECTED, pause, resume, retry_now, validate};
pub(crate) use form::{Editing, open, redraw, save};
pub(crate) use list::{choose_topic, list};
pub(crate) use show::{reveal_url, show};
pub(crate) use signing::{NewSecret, ask_to_stop_signing, make_first, show_once, stop_signing};
pub(crate) use table::{SubscriptionTable, rank};
pub(crate) use trial::{TrialText, try_filter};

use std::sync::Arc;

use self::definition::{
    CLAUSES, DefinitionKind, HEADERS, SIGN, SIGNING_SECRET, SubscriptionDraft, clauses,
};
use crate::admin::action::{Names, Subject, name_of};
use crate::admin::error::PageResult;
use crate::admin::forms::sheet::named;
use crate::admin::lists::bulk::Selectable;
use crate::admin::paths;
use crate::admin::site::{Site, existing};
use crate::model::name::{SubscriptionName, TopicName};
use crate::model::registry::TopicEntry;
use crate::model::subscription::EventSubscription;

#[derive(Clone, Debug)]
pub(crate) struct Subscription {
    pub(crate) topic: Arc<TopicEntry>,
    pub(crate) subscription: Arc<EventSubscription>,
}

impl Subscription {
    pub(crate) fn of((topic, each): (&Arc<TopicEntry>, &Arc<EventSubscription>)) -> Self {
        Self {
            topic: Arc::clone(topic),
            subscription: Arc::clone(each),
        }
    }

    fn named(site: &Site, topic: &str, name: &str) -> PageResult<Self> {
        let (topic, found) = site.subscription(topic, name)?;
        Ok(Self::of((&topic, &found)))
    }

    pub(crate) fn names(&self) -> (&TopicName, &SubscriptionName) {
        (&self.topic.topic.name, &self.subscription.name)
    }

    /// Returns the name by which filters choose the subscription: `orders/billing`.
    pub(crate) fn filter(&self) -> String {
        let (topic, name) = self.names();
        format!("{topic}/{name}")
    }
}

impl Subject for Subscription {
    async fn find(site: &Site, names: &Names) -> PageResult<Self> {
        Self::named(site, name_of(names, "topic"), name_of(names, "name"))
    }

    fn page(&self) -> String {
        let (topic, name) = self.names();
        paths::subscription_page(topic.as_str(), name.as_str())
    }
}

impl Selectable for Subscription {
    const LIST: &'static str = list::PATH;
    const NOUNS: (&'static str, &'static str) = ("event subscription", "event subscriptions");

    async fn select(site: &Site, text: &str) -> PageResult<Self> {
        let (topic, name) = existing(text.rsplit_once('/'), "event subscription", text)?;
        Self::named(site, topic, name)
    }

    /// `orders / billing`.
    fn title(&self) -> String {
        let (topic, name) = self.names();
        format!("{topic} / {name}")
    }
}
