//! The verbs: publish, manage, dispatch, receive, settle. The doors hold a [`Broker`] and nothing else.

mod accounts;
mod agenda;
mod batch;
mod deliver;
pub mod diagnostics;
mod dispatch;
mod export;
mod health;
mod inspectors;
mod janitor;
mod manage;
mod meters;
mod namespaces;
mod notices;
pub mod people;
mod publish;
mod pull;
mod receive;
mod rejections;
mod replay;
mod resubmit;
mod retention;
mod retry_now;
mod send;
mod signing;
mod system;
pub mod trail;
mod try_filter;
mod validate;
mod workload;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

pub use crate::store::Resubmitted;
pub use accounts::{Account, Verified};
pub use inspectors::InspectorError;
pub use manage::ManageError;
pub use meters::Meters;
pub use publish::PublishError;
pub use receive::{ReceiveError, Reception};
pub use replay::ReplayError;
pub use resubmit::{EventEdit, ResubmitError, ResubmitRequest};
pub use retention::{Preview, StorageReport, StorageStatus};
pub use retry_now::{Hold, RetryNowError};
pub use send::SendError;
pub use validate::UnknownCode;

use crate::base::{Clock, Entropy, TimeScale, Timestamp};
use crate::model::destination::DeliveryMode;
use crate::model::export::{ExportRules, Outage};
use crate::model::inspector::INSPECTOR_HOST;
use crate::model::lease::SubQueue;
use crate::model::limits::{LATE_RESPONSES_MAX, LEASED_AHEAD_BYTES_MAX};
use crate::model::notice::{DiskPressure, Notice};
use crate::model::probation::{Health, ProbationRules};
use crate::model::registry::Registry;
use crate::model::retention::{Pressure, RetentionRules};
use crate::model::subscription::SubscriptionId;
use crate::outbound::evaluate::EgressVerdict;
use crate::outbound::{DeliveryRequest, Outbound};
use crate::store::{Store, StoreError};
use agenda::{Agenda, SlotLimits};
use batch::Due;
use health::HealthBook;
use inspectors::inspection;
use receive::Arrivals;
use replay::ReplayBook;
use retention::RetentionCursor;
use workload::Workload;

/// How a broker works.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    pub clock: Clock,
    pub entropy: Entropy,
    pub time_scale: TimeScale,
    /// Where the appliance is reached from outside, without a slash at the end: for validation URLs.
    pub public_url: String,
    pub in_flight_per_subscription: usize,
    pub in_flight_max: usize,
    /// Bytes that must be free on the disk for publishers to be served.
    pub free_bytes_min: u64,
    /// How long a webhook has to answer.
    pub response_deadline: Duration,
    pub probation: ProbationRules,
    pub retention: RetentionRules,
    pub exports: ExportRules,
    /// Resubmissions that may lead from an event to what it has become.
    pub resubmissions_max: u32,
}

/// The handle that the doors hold. Cheap to clone.
#[derive(Clone)]
pub struct Broker {
    shared: Arc<Shared>,
}

struct Shared {
    options: BrokerOptions,
    store: Store,
    outbound: Outbound,
    registry: RwLock<Arc<Registry>>,
    /// One change of the registry at a time, so that each decides on what it replaces.
    managing: tokio::sync::Mutex<()>,
    agenda: Mutex<Agenda<Due>>,
    health: Mutex<HealthBook>,
    /// Free places for requests whose late answers are listened to.
    late_responses: Arc<Semaphore>,
    wake: Notify,
    arrivals: Arrivals,
    last_poll: Mutex<Timestamp>,
    /// Less is free on the disk than must be; looked up by the janitor.
    disk_is_low: AtomicBool,
    /// How far retention has come; one round at a time.
    retention_cursor: tokio::sync::Mutex<RetentionCursor>,
    /// Why delivered events go early, if they do.
    pressure: Mutex<Option<Pressure>>,
    replays: Mutex<ReplayBook>,
    replay_wake: Notify,
    /// One round of exports at a time.
    exporting: tokio::sync::Mutex<()>,
    /// Storage that was away at the last round of exports.
    outages: Mutex<HashMap<SubscriptionId, Outage>>,
    handshakes: TaskTracker,
    stopping: CancellationToken,
    /// What is to be told of what only the memory knows.
    notices: notices::WaitingNotices,
    /// Refused publish requests on their way to the store.
    rejections: rejections::Waiting,
    meters: Meters,
    workload: Workload,
}

impl Broker {
    /// Loads the registry and the agenda from the store.
    pub async fn start(
        store: Store,
        outbound: Outbound,
        options: BrokerOptions,
    ) -> Result<Self, StoreError> {
        let registry = store.catalog.load().await?;
        let limits = SlotLimits {
            per_subscription: options.in_flight_per_subscription,
            overall: options.in_flight_max,
            waiting_bytes: LEASED_AHEAD_BYTES_MAX,
        };
        let broker = Self {
            shared: Arc::new_cyclic(|shared| Shared {
                store,
                outbound: outbound.with_inside(INSPECTOR_HOST, inspection(shared)),
                registry: RwLock::new(Arc::new(registry)),
                managing: tokio::sync::Mutex::new(()),
                agenda: Mutex::new(Agenda::new(limits)),
                health: Mutex::new(HealthBook::new(options.probation, options.time_scale)),
                late_responses: Arc::new(Semaphore::new(LATE_RESPONSES_MAX)),
                wake: Notify::new(),
                arrivals: Arrivals::default(),
                last_poll: Mutex::new(options.clock.now()),
                disk_is_low: AtomicBool::new(false),
                retention_cursor: tokio::sync::Mutex::new(RetentionCursor::new()),
                pressure: Mutex::new(None),
                replays: Mutex::default(),
                replay_wake: Notify::new(),
                exporting: tokio::sync::Mutex::new(()),
                outages: Mutex::default(),
                handshakes: TaskTracker::new(),
                stopping: CancellationToken::new(),
                notices: notices::WaitingNotices::default(),
                rejections: rejections::Waiting::default(),
                meters: Meters::new(),
                workload: Workload::new(),
                options,
            }),
        };
        broker.look_at_disk();
        broker.refresh_agenda().await;
        broker.resume_handshakes();
        Ok(broker)
    }

    /// The present topics and event subscriptions.
    pub fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.shared.registry.read().unwrap())
    }

    /// Stops accepting and leasing. Requests on the wire go on.
    pub fn stop(&self) {
        self.shared.stopping.cancel();
    }

    /// Whether [`Broker::stop`] has been called.
    pub fn is_stopping(&self) -> bool {
        self.shared.stopping.is_cancelled()
    }

    /// Returns once [`Broker::stop`] has been called.
    pub async fn stopping(&self) {
        self.shared.stopping.cancelled().await;
    }

    /// Whether so little is free on the disk that nothing more is accepted.
    pub fn disk_is_low(&self) -> bool {
        self.shared.disk_is_low.load(Ordering::Relaxed)
    }

    fn look_at_disk(&self) {
        let free = self.store().upkeep.free_bytes();
        let low = free.is_some_and(|free| free < self.options().free_bytes_min);
        if low != self.shared.disk_is_low.swap(low, Ordering::Relaxed) {
            match low {
                true => {
                    tracing::warn!(free_bytes = free, "the disk is low; publishers must wait");
                    self.note(&Notice::DiskPressureBegun(DiskPressure::PublishersRefused));
                }
                false => {
                    tracing::info!(free_bytes = free, "the disk has room again");
                    self.note(&Notice::DiskPressureEnded(DiskPressure::PublishersRefused));
                }
            }
        }
    }

    /// Proves that the store can be written.
    pub async fn check_writable(&self) -> Result<(), StoreError> {
        self.store().upkeep.check_writable().await
    }

    /// The time, for the doors.
    pub fn clock(&self) -> &Clock {
        &self.shared.options.clock
    }

    /// Randomness, for the doors.
    pub fn entropy(&self) -> &Entropy {
        &self.shared.options.entropy
    }

    /// How the broker works.
    pub fn options(&self) -> &BrokerOptions {
        &self.shared.options
    }

    /// The counters and gauges, as Prometheus reads them.
    pub fn metrics_text(&self) -> String {
        let (in_flight, on_probation) = (self.agenda().in_flight(), self.health().on_probation());
        self.meters()
            .text(in_flight, &on_probation, &self.registry())
    }

    /// The counters, for the doors that count what they refuse.
    pub fn meters(&self) -> &Meters {
        &self.shared.meters
    }

    /// What would become of a request to `url`, by the egress policy. A host name is looked up; nothing is
    /// called.
    pub async fn judge_url(&self, url: &Url) -> EgressVerdict {
        self.outbound().evaluate(url).await
    }

    /// The headers and the body by which `delivery_request` would be sent now, for people who want to see them; see
    /// [`Outbound::draft`].
    pub fn draft_request(
        &self,
        delivery_request: &DeliveryRequest<'_>,
    ) -> Option<(HeaderMap, Bytes)> {
        self.outbound().draft(delivery_request)
    }

    /// What has been seen of the receiver of an event subscription since the start.
    pub fn health_of(&self, subscription: SubscriptionId) -> Health {
        self.health().of(subscription)
    }

    /// Whether the storage for the dead letters of an event subscription is away, as far as it was needed.
    pub fn storage_outage(&self, subscription: SubscriptionId) -> Option<Outage> {
        let outages = self.shared.outages.lock().unwrap();
        outages.get(&subscription).cloned()
    }

    fn time_scale(&self) -> TimeScale {
        self.shared.options.time_scale
    }

    fn store(&self) -> &Store {
        &self.shared.store
    }

    fn outbound(&self) -> &Outbound {
        &self.shared.outbound
    }

    fn agenda(&self) -> MutexGuard<'_, Agenda<Due>> {
        self.shared.agenda.lock().unwrap()
    }

    fn health(&self) -> MutexGuard<'_, HealthBook> {
        self.shared.health.lock().unwrap()
    }

    fn wake(&self) -> &Notify {
        &self.shared.wake
    }

    fn last_poll(&self) -> &Mutex<Timestamp> {
        &self.shared.last_poll
    }

    /// Tells the dispatcher that this subscription asks for something else now.
    fn note_change(&self, subscription: SubscriptionId) {
        if self.agenda().reconsider(subscription, self.clock().now()) {
            self.wake().notify_one();
        }
    }

    /// Tells whoever serves the subscription that something may be due: the dispatcher, or those who wait
    /// to pull it.
    fn set_free(&self, subscription: SubscriptionId, now: Timestamp) {
        self.note_due(&[subscription], now);
        self.shared
            .arrivals
            .announce_all(subscription, SubQueue::Pending);
    }

    /// Tells the dispatcher that these subscriptions have something due at `at`, as far as it serves them.
    fn note_due(&self, subscriptions: &[SubscriptionId], at: Timestamp) {
        let registry = self.registry();
        let is_sent = |id: &&SubscriptionId| {
            let found = registry.subscription(**id);
            found.is_some_and(|(_, each)| {
                each.definition.destination.delivery_mode() == DeliveryMode::Push
            })
        };
        let mut agenda = self.agenda();
        let mut earlier = false;
        for subscription in subscriptions.iter().filter(is_sent) {
            earlier |= agenda.note(*subscription, at);
        }
        drop(agenda); // the dispatcher wants it as soon as it wakes
        if earlier {
            self.wake().notify_one();
        }
    }
}
