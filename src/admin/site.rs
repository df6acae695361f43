//! What every handler works with, and the things that addresses name.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use tokio::sync::Semaphore;

use crate::admin::error::{PageError, PageResult};
use crate::admin::security::hosts::OwnHosts;
use crate::admin::security::setup_link::SetupLink;
use crate::admin::security::throttle::Throttle;
use crate::admin::sitemap::SiteMap;
use crate::broker::diagnostics::Diagnostics;
use crate::broker::people::People;
use crate::broker::{Broker, ManageError};
use crate::model::delivery::DeliveryId;
use crate::model::event::EventKey;
use crate::model::inspector::Inspector;
use crate::model::name::{InspectorName, NamespaceName, SubscriptionName, TopicName};
use crate::model::registry::{NamespaceEntry, TopicEntry};
use crate::model::subscription::EventSubscription;
use crate::outbound::egress::EgressPolicy;
use crate::store::StoreError;
use crate::store::views::Views;

/// What the pages work with.
pub struct AdminState {
    pub broker: Broker,
    pub views: Views,
    pub people: People,
    /// How the first person gets in; see [`SetupLink::new`].
    pub setup: SetupLink,
    /// Under which hosts browsers may reach the pages.
    pub hosts: OwnHosts,
    /// Which webhooks may be called.
    pub egress: EgressPolicy,
    /// What the appliance can tell about itself.
    pub diagnostics: Diagnostics,
    /// Bytes of one publish request.
    pub publish_bytes_max: usize,
    /// The OpenAPI document of what is served to programs.
    pub api_document: Arc<Value>,
}

/// What every handler holds.
pub(crate) struct Site {
    state: AdminState,
    pub(crate) map: &'static SiteMap,
    pub(crate) throttle: Throttle,
    /// Remembers a claim, which is never undone, so that not every request asks for it.
    claimed: AtomicBool,
    /// Room for live pages.
    pub(crate) streams: Arc<Semaphore>,
}

impl Deref for Site {
    type Target = AdminState;

    fn deref(&self) -> &AdminState {
        &self.state
    }
}

/// Streams at once. Each is an open connection; past it, pages are read again by hand.
pub(crate) const STREAMS_MAX: usize = 64;

impl Site {
    pub(crate) fn new(state: AdminState, map: &'static SiteMap) -> Self {
        Self {
            throttle: Throttle::new(
                state.people.accounts().clone(),
                state.broker.clock().clone(),
            ),
            state,
            map,
            claimed: AtomicBool::new(false),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
        }
    }

    pub(crate) async fn is_claimed(&self) -> Result<bool, StoreError> {
        if self.claimed.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let claimed = self.people.accounts().is_claimed().await?;
        self.claimed.store(claimed, Ordering::Relaxed);
        Ok(claimed)
    }

    /// Whether browsers reach the pages over TLS, so that cookies can be tied to it.
    pub(crate) fn is_https(&self) -> bool {
        self.public_url().starts_with("https://")
    }

    pub(crate) fn public_url(&self) -> &str {
        &self.broker.options().public_url
    }

    /// The topic that a URL names.
    pub(crate) fn topic(&self, name: &str) -> PageResult<Arc<TopicEntry>> {
        let parsed = TopicName::parse(name).map_err(|_| missing("topic", name))?;
        Ok(self.broker.topic(&parsed)?)
    }

    /// The topic that a URL names, if somebody has made it: what can be published to and deleted.
    pub(crate) fn made_topic(&self, name: &str) -> PageResult<Arc<TopicEntry>> {
        let topic = self.topic(name)?;
        if topic.topic.is_built_in() {
            return Err(ManageError::BuiltIn(topic.topic.name.clone()).into());
        }
        Ok(topic)
    }

    /// The custom topic that a URL names: what inspectors and the first steps subscribe to.
    pub(crate) fn custom_topic(&self, name: &str) -> PageResult<Arc<TopicEntry>> {
        let topic = self.topic(name)?;
        if topic.namespace.is_some() {
            return Err(PageError::Conflict(format!(
                "{} is a topic of a namespace; make its event subscriptions on its own page.",
                topic.topic.name
            )));
        }
        Ok(topic)
    }

    /// The namespace that a URL names.
    pub(crate) fn namespace(&self, name: &str) -> PageResult<Arc<NamespaceEntry>> {
        let parsed = NamespaceName::parse(name).map_err(|_| missing("namespace", name))?;
        Ok(self.broker.namespace(&parsed)?)
    }

    /// The event subscription that a URL names, with its topic.
    pub(crate) fn subscription(
        &self,
        topic: &str,
        name: &str,
    ) -> PageResult<(Arc<TopicEntry>, Arc<EventSubscription>)> {
        let entry = self.topic(topic)?;
        let of = &entry.topic.name;
        let unknown = |_| missing("event subscription", &format!("{name} of the topic {of}"));
        let name = SubscriptionName::parse(name).map_err(unknown)?;
        Ok(self.broker.subscription(of, &name)?)
    }

    /// The inspector that a URL names.
    pub(crate) async fn inspector(&self, name: &str) -> PageResult<Inspector> {
        let parsed = InspectorName::parse(name).map_err(|_| missing("inspector", name))?;
        Ok(self.broker.inspector(&parsed).await?)
    }

    /// Where publishers of the topic send events.
    pub(crate) fn publish_url(&self, topic: &TopicEntry) -> String {
        topic.publish_url(self.public_url())
    }

    /// A URL of the management API.
    pub(crate) fn management_url(&self, path: &str) -> String {
        format!("{}{path}", self.public_url())
    }
}

fn missing(kind: &str, name: &str) -> PageError {
    PageError::NotFound(format!("{kind} {name}"))
}

/// The number of an event in a URL.
pub(crate) fn event_key(text: &str) -> PageResult<EventKey> {
    let number = text.parse().map(EventKey);
    number.map_err(|_| missing("event", text))
}

/// The number of a delivery in a URL.
pub(crate) fn delivery_id(text: &str) -> PageResult<DeliveryId> {
    let number = text.parse().map(DeliveryId);
    number.map_err(|_| missing("delivery", text))
}
