//! The state that every handler uses, and the lookup of resources named in addresses.

use std::fmt::Display;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use serde_json::Value;
use tokio::sync::Semaphore;

use crate::admin::error::{PageError, PageResult};
use crate::admin::sitemap::SiteMap;
use crate::broker::diagnostics::Diagnostics;
use crate::broker::people::sign_ins::SignIns;
use crate::broker::people::{People, SetupLink, SignInOptions};
use crate::broker::{Broker, ManageError};
use crate::model::delivery::DeliveryId;
use crate::model::name::{NamespaceName, SubscriptionName, TopicName};
use crate::model::own_host::OwnHosts;
use crate::model::registry::{NamespaceEntry, TopicEntry};
use crate::model::subscription::{EventSubscription, SubscriptionId};
use crate::store::StoreError;
use crate::store::views::{DeliveryDetail, QueueDepth, Views};

/// The OpenAPI document of the API, made when it is first shown, since making it takes longer than the rest of a start.
pub type ApiDocument = Arc<LazyLock<Value, Box<dyn FnOnce() -> Value + Send>>>;

/// Returns the document that `make` makes when it is first shown.
pub fn api_document(make: impl FnOnce() -> Value + Send + 'static) -> ApiDocument {
    Arc::new(LazyLock::new(Box::new(make)))
}

pub struct AdminState {
    pub broker: Broker,
    pub views: Views,
    pub people: People,
    /// The link for setting up the first user; see [`SetupLink::new`].
    pub setup: SetupLink,
    pub hosts: OwnHosts,
    pub diagnostics: Diagnostics,
    /// The user who is signed in without a password from this machine.
    pub local_user: Option<String>,
    pub sign_in: SignInOptions,
    pub publish_bytes_max: usize,
    /// The OpenAPI document of the API; a download replaces the public URL in it.
    pub api_document: ApiDocument,
}

pub(crate) struct Site {
    state: AdminState,
    pub(crate) map: &'static SiteMap,
    pub(crate) sign_ins: SignIns,
    /// Caches that the site is claimed, which is never undone, so that not every request queries it.
    claimed: AtomicBool,
    pub(crate) streams: Arc<Semaphore>,
}

impl Deref for Site {
    type Target = AdminState;

    fn deref(&self) -> &AdminState {
        &self.state
    }
}

/// The maximum number of concurrent streams, each of which is an open connection. Beyond this limit, pages are reloaded
/// by hand.
pub(crate) const STREAMS_MAX: usize = 64;

impl Site {
    pub(crate) fn new(state: AdminState, map: &'static SiteMap) -> Self {
        Self {
            sign_ins: SignIns::new(&state.broker.entropy().secret()),
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

    /// Reports whether browsers reach the pages over TLS, so that cookies can be marked as secure.
    pub(crate) fn is_https(&self) -> bool {
        self.public_url().starts_with("https://")
    }

    pub(crate) fn public_url(&self) -> String {
        self.broker.options().public_url.clone()
    }

    pub(crate) fn topic(&self, name: &str) -> PageResult<Arc<TopicEntry>> {
        Ok(self
            .broker
            .topic(&named_in("topic", name, TopicName::parse)?)?)
    }

    /// Returns the topic named in a URL if a user created it. Such a topic can be published to and deleted.
    pub(crate) fn made_topic(&self, name: &str) -> PageResult<Arc<TopicEntry>> {
        let topic = self.topic(name)?;
        if topic.topic.kind.is_built_in() {
            Err(ManageError::BuiltIn(topic.topic.name.clone()).into())
        } else {
            Ok(topic)
        }
    }

    /// Returns the custom topic named in a URL. Inspectors and the first steps subscribe to custom topics.
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

    pub(crate) fn namespace(&self, name: &str) -> PageResult<Arc<NamespaceEntry>> {
        let name = named_in("namespace", name, NamespaceName::parse)?;
        Ok(self.broker.namespace(&name)?)
    }

    pub(crate) fn subscription(
        &self,
        topic: &str,
        name: &str,
    ) -> PageResult<(Arc<TopicEntry>, Arc<EventSubscription>)> {
        let entry = self.topic(topic)?;
        let of = &entry.topic.name;
        let unknown = |_| missing("event subscription", format!("{name} of the topic {of}"));
        let name = SubscriptionName::parse(name).map_err(unknown)?;
        Ok(self.broker.subscription(of, &name)?)
    }

    pub(crate) async fn delivery(&self, id: &str) -> PageResult<DeliveryDetail> {
        let number = numbered("delivery", id).map(DeliveryId)?;
        existing(self.views.delivery(number).await?, "delivery", id)
    }

    pub(crate) async fn depth(&self, of: SubscriptionId) -> Result<QueueDepth, StoreError> {
        let depths = self.views.depths(vec![of]).await?;
        Ok(depths.first().copied().unwrap_or_default())
    }

    pub(crate) fn publish_url(&self, topic: &TopicEntry) -> String {
        topic.publish_url(&self.public_url())
    }

    pub(crate) fn management_url(&self, path: &str) -> String {
        format!("{}{path}", self.public_url())
    }
}

/// Returns the name in an address, or an error that nothing has this name.
pub(crate) fn named_in<N, E>(
    kind: &str,
    text: &str,
    parse: impl FnOnce(&str) -> Result<N, E>,
) -> PageResult<N> {
    parse(text).map_err(|_| missing(kind, text))
}

fn missing(kind: &str, name: impl Display) -> PageError {
    PageError::NotFound(format!("{kind} {name}"))
}

/// Returns the number that identifies a resource.
pub(crate) fn numbered<T: FromStr>(kind: &str, text: &str) -> PageResult<T> {
    text.parse().map_err(|_| missing(kind, text))
}

/// Returns the resource that was found, or the error that nothing has this name.
pub(crate) fn existing<T>(found: Option<T>, kind: &str, name: impl Display) -> PageResult<T> {
    found.ok_or_else(|| missing(kind, name))
}
