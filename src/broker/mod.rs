//! The verbs: publish, dispatch, receive, manage, replay, housekeeping. `api` and `admin` hold a [`Broker`].
//!
//! An event enters in [`publish`], is stored by the ledger, and leaves through [`dispatch`] (push) or
//! [`messaging`] (pull).

mod background;
pub mod diagnostics;
mod dispatch;
mod explain;
mod housekeeping;
mod manage;
mod messaging;
pub mod people;
mod publish;
mod replay;
mod traces;
mod unfinished;

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

pub use crate::store::{PromisedNumber, Resubmitted};
pub use diagnostics::meters::Meters;
pub use diagnostics::recount::{Account, Counts, Verified};
pub use dispatch::retry_now::{Hold, RetryNowError};
pub use explain::{TooManyTrials, explain_to_all, explain_to_one, try_out};
pub use housekeeping::alerts::CertificateEnd;
pub use housekeeping::backup::{BackupRejected, BackupRequest, is_backup_place_allowed};
pub use housekeeping::retention::{Preview, StorageReport, StorageStatus};
pub use manage::alerts::AlertError;
pub use manage::inspectors::InspectorError;
pub use manage::queues::{Put, Queue};
pub use manage::validate::UnknownCode;
pub use manage::{ErrorKind, ManageError, event_subscription};
#[cfg(test)]
pub(crate) use messaging::samples;
pub use messaging::{
    MessageReceiver, MessageSender, MessageView, MessagingEntity, MessagingError,
    MessagingTransaction, NotAllowed, Purged, ReceiveRequest,
};
pub use publish::PublishError;
pub use publish::messages::NewMessage;
pub use publish::send::SendError;
pub use replay::ReplayError;
pub use replay::resubmit::{EventEdit, ResubmitError, ResubmitRequest};
pub use traces::PublishSpan;

use crate::base::{Clock, Entropy, Live, TimeScale, Timestamp, WallClock, human};
use crate::model::audit::{AuditAction, Caller, Target, TargetKind};
use crate::model::backup::BackupRules;
use crate::model::destination::DeliveryMode;
use crate::model::export::{ExportRules, Outage};
use crate::model::inspector::INSPECTOR_HOST;
use crate::model::lease::QueueRef;
use crate::model::limits::{
    IDLE_MIN, LATE_RESPONSES_MAX, LEASED_AHEAD_BYTES_MAX, UNSTORED_MAX, WIRE_BYTES_MAX,
};
use crate::model::notice::{DiskPressure, Notice};
use crate::model::probation::{Health, ProbationRules};
use crate::model::provisioned::Provisioned;
use crate::model::queue::ServiceBusTier;
use crate::model::registry::Registry;
use crate::model::retention::{Pressure, RetentionRules};
use crate::model::subscription::SubscriptionId;
use crate::outbound::egress::EgressPolicy;
use crate::outbound::evaluate::EgressVerdict;
use crate::outbound::transport::NetworkError;
use crate::outbound::{DeliveryRequest, Outbound};
use crate::store::{HandedOver, Store, StoreError};
use diagnostics::workload::Workload;
use dispatch::agenda::{Agenda, SlotLimits};
use dispatch::batch::Due;
use dispatch::health::HealthBook;
use housekeeping::backup::BackupBook;
use housekeeping::idle::Uses;
use housekeeping::retention::RetentionCursor;
use manage::inspectors::inspection;
use manage::key_uses::WaitingKeyUses;
use messaging::Arrivals;
use publish::{notices, rejections};
use replay::ReplayBook;
use traces::Traces;
use unfinished::Unfinished;

/// The settings of a broker. Clock, randomness, time scale and the size of changes stay those of its start.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    pub clock: Clock,
    pub entropy: Entropy,
    pub time_scale: TimeScale,
    /// The policy for the URLs of webhooks and the addresses that they lead to.
    pub egress: EgressPolicy,
    /// The URL of the appliance from outside, without a slash at the end: for validation URLs.
    pub public_url: String,
    /// True if somebody has configured that URL. Otherwise it is the address that is listened on.
    pub public_url_is_set: bool,
    /// Decides what messages of queues and topics may have.
    pub service_bus_tier: ServiceBusTier,
    /// Bytes that a message may have where its queue or topic says so.
    pub message_bytes_max: u64,
    /// Bytes of an event that is published.
    pub event_bytes_max: usize,
    pub in_flight_per_subscription: usize,
    pub in_flight_max: usize,
    /// Free bytes on the disk below which publish requests are rejected.
    pub free_bytes_min: u64,
    /// Deliveries that one change of the store creates or ends.
    pub change_deliveries_max: usize,
    /// How long a webhook has to respond.
    pub response_deadline: Duration,
    pub probation: ProbationRules,
    pub retention: RetentionRules,
    pub exports: ExportRules,
    pub backups: BackupRules,
    /// Resubmissions in a row that an event may have: the loop guard.
    pub resubmissions_max: u32,
}

impl BrokerOptions {
    /// The host that others reach the appliance by, with its port if that is not the default one.
    pub fn public_host(&self) -> &str {
        let url = self.public_url.as_str();
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        rest.split('/').next().unwrap_or(rest)
    }
}

/// A handle on the broker. Cheap to clone.
#[derive(Clone)]
pub struct Broker {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Clock,
    entropy: Entropy,
    time_scale: TimeScale,
    change_deliveries_max: usize,
    options: Live<BrokerOptions>,
    store: Store,
    outbound: Outbound,
    registry: RwLock<Arc<Registry>>,
    /// Serialises changes of the registry, so that each is based on the one before.
    managing: tokio::sync::Mutex<()>,
    agenda: Mutex<Agenda<Due>>,
    health: Mutex<HealthBook>,
    /// Bounds the requests whose late responses are waited for.
    late_responses: Arc<Semaphore>,
    wake: Notify,
    unfinished: Unfinished,
    arrivals: Arrivals,
    /// Wakes the forwarder.
    forward_wake: Notify,
    last_poll: Mutex<Timestamp>,
    /// Is true while too little is free on the disk; updated by the janitor.
    disk_is_low: AtomicBool,
    /// Is true while the machine's clock is not followed; updated by the janitor.
    wall_clock_differs: AtomicBool,
    /// How far retention has come. Locked during a round.
    retention_cursor: tokio::sync::Mutex<RetentionCursor>,
    /// Why delivered events are pruned early, if they are.
    pressure: Mutex<Option<Pressure>>,
    replays: Mutex<ReplayBook>,
    replay_wake: Notify,
    /// Locked during a round of exports.
    exporting: tokio::sync::Mutex<()>,
    /// Storage that was unreachable in the last round of exports.
    outages: Mutex<HashMap<SubscriptionId, Outage>>,
    backups: Mutex<BackupBook>,
    /// `None` without a collector.
    traces: Option<Traces>,
    provisioned: Live<Provisioned>,
    /// Why the provisioning directory is not in force as it is, and since when.
    provisioning_problem: Live<Option<(Timestamp, String)>>,
    /// Wakes the watch over alerts.
    alert_wake: Notify,
    handshakes: TaskTracker,
    stopping: CancellationToken,
    /// Notices that are not stored yet.
    notices: notices::WaitingNotices,
    /// Rejected publish requests that are not stored yet.
    rejections: rejections::Waiting,
    /// Uses of access keys that are not stored yet.
    key_uses: WaitingKeyUses,
    uses: Uses,
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
        let registry = store.ledger.catalog().await?;
        let uses = store.ledger.uses().await?;
        let unfinished = Unfinished::of(store.ledger.resume(options.clock.now()).await?);
        let provisioned = store.provisioned.all().await?.into_iter().collect();
        let broker = Self {
            shared: Arc::new_cyclic(|shared| Shared {
                traces: outbound.has_collector().then(Traces::default),
                store,
                outbound: outbound.with_inside(INSPECTOR_HOST, inspection(shared)),
                registry: RwLock::new(Arc::new(registry)),
                managing: tokio::sync::Mutex::new(()),
                agenda: Mutex::new(Agenda::new(slot_limits(&options))),
                health: Mutex::new(HealthBook::new(options.probation, options.time_scale)),
                late_responses: Arc::new(Semaphore::new(LATE_RESPONSES_MAX)),
                wake: Notify::new(),
                unfinished,
                arrivals: Arrivals::default(),
                forward_wake: Notify::new(),
                last_poll: Mutex::new(options.clock.now()),
                disk_is_low: AtomicBool::new(false),
                wall_clock_differs: AtomicBool::new(false),
                retention_cursor: tokio::sync::Mutex::new(RetentionCursor::new()),
                pressure: Mutex::new(None),
                replays: Mutex::default(),
                replay_wake: Notify::new(),
                exporting: tokio::sync::Mutex::new(()),
                outages: Mutex::default(),
                backups: Mutex::default(),
                provisioned: Live::new(provisioned),
                provisioning_problem: Live::default(),
                alert_wake: Notify::new(),
                handshakes: TaskTracker::new(),
                stopping: CancellationToken::new(),
                notices: notices::WaitingNotices::default(),
                rejections: rejections::Waiting::default(),
                key_uses: WaitingKeyUses::default(),
                uses: Uses::of(
                    uses,
                    options.clock.now() + options.time_scale.shrink(IDLE_MIN),
                ),
                meters: Meters::new(),
                workload: Workload::new(),
                clock: options.clock.clone(),
                entropy: options.entropy.clone(),
                time_scale: options.time_scale,
                change_deliveries_max: options.change_deliveries_max,
                options: Live::new(options),
            }),
        };
        broker.check_disk();
        broker.refresh_agenda().await;
        broker.resume_handshakes();
        Ok(broker)
    }

    /// The current namespaces, topics and event subscriptions.
    pub fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.shared.registry.read().unwrap())
    }

    /// Stops accepting and leasing. Requests on the wire go on.
    pub fn stop(&self) {
        self.shared.stopping.cancel();
    }

    /// Returns whether [`Broker::stop`] has been called.
    pub fn is_stopping(&self) -> bool {
        self.shared.stopping.is_cancelled()
    }

    /// Returns once [`Broker::stop`] has been called.
    pub async fn stopping(&self) {
        self.shared.stopping.cancelled().await;
    }

    /// Returns whether publish requests are rejected because the disk is almost full.
    pub fn disk_is_low(&self) -> bool {
        self.shared.disk_is_low.load(Ordering::Relaxed)
    }

    fn check_disk(&self) {
        let free = self.store().upkeep.free_bytes();
        let low = free.is_some_and(|free| free < self.options().free_bytes_min)
            || self.store().upkeep.is_out_of_reserve();
        if low != self.shared.disk_is_low.swap(low, Ordering::Relaxed) {
            if low {
                tracing::warn!(
                    free_bytes = free,
                    "the disk is almost full; publish requests are rejected"
                );
                self.note(&Notice::DiskPressureBegun(DiskPressure::PublishersRejected));
            } else {
                tracing::info!(free_bytes = free, "the disk has enough free space again");
                self.note(&Notice::DiskPressureEnded(DiskPressure::PublishersRejected));
            }
        }
    }

    fn check_clock(&self) {
        let wall_clock = self.clock().wall_clock();
        let differs = wall_clock != WallClock::Agrees;
        if differs
            != self
                .shared
                .wall_clock_differs
                .swap(differs, Ordering::Relaxed)
        {
            match wall_clock {
                WallClock::Ahead(by) => tracing::warn!(
                    by = %human::span(by),
                    "the machine's clock has jumped ahead; nothing expires and nothing scheduled is handed out for it, \
                     unless it stays there for some minutes"
                ),
                WallClock::Behind(by) => tracing::warn!(
                    by = %human::span(by),
                    "the machine's clock was set back; time goes on from where it was"
                ),
                WallClock::Agrees => tracing::info!("the machine's clock is followed again"),
            }
        }
    }

    /// Checks that the store can be written.
    pub async fn check_writable(&self) -> Result<(), StoreError> {
        self.store().upkeep.check_writable().await
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// The source of randomness.
    pub fn entropy(&self) -> &Entropy {
        &self.shared.entropy
    }

    /// The settings of now.
    pub fn options(&self) -> Arc<BrokerOptions> {
        self.shared.options.get()
    }

    /// Puts other settings in force, at once and for everything but what is on the wire.
    ///
    /// # Errors
    /// Nothing changes if the network cannot be set up for another egress policy.
    pub fn set_options(&self, options: BrokerOptions) -> Result<(), NetworkError> {
        self.outbound().set_egress(&options.egress)?;
        self.agenda().set_limits(slot_limits(&options));
        self.health().set_rules(options.probation);
        self.shared.options.set(options);
        self.check_disk();
        self.wake().notify_one();
        Ok(())
    }

    /// The metrics, in the format of Prometheus.
    pub fn metrics_text(&self) -> String {
        let (in_flight, on_probation) = (self.agenda().in_flight(), self.health().on_probation());
        self.meters()
            .text(in_flight, &on_probation, &self.registry())
    }

    /// The counters, for requests that are rejected before they reach the broker.
    pub fn meters(&self) -> &Meters {
        &self.shared.meters
    }

    /// Records what somebody did that changes nothing in the store.
    async fn record(
        &self,
        by: &Caller,
        action: AuditAction,
        target: Target,
    ) -> Result<(), StoreError> {
        self.store().audit.record(by.did(action, target)).await
    }

    /// Returns how the egress policy decides on a request to `url`. Resolves the host name, but sends no request.
    pub async fn evaluate_url(&self, url: &Url) -> EgressVerdict {
        self.outbound().evaluate(url).await
    }

    /// Evaluates `url` like [`Broker::evaluate_url`] for somebody who asks, and records that in the audit log.
    pub async fn check_url(&self, by: &Caller, url: &Url) -> Result<EgressVerdict, StoreError> {
        let target = TargetKind::Url.named(diagnostics::place(url));
        self.record(by, AuditAction::CheckUrl, target).await?;
        Ok(self.evaluate_url(url).await)
    }

    /// The headers and the body with which `delivery_request` would be sent now, to show them; see
    /// [`Outbound::draft`].
    pub fn draft_request(
        &self,
        delivery_request: &DeliveryRequest<'_>,
    ) -> Option<(HeaderMap, Bytes)> {
        self.outbound().draft(delivery_request)
    }

    /// The health of an event subscription's receiver since the start.
    pub fn health_of(&self, subscription: SubscriptionId) -> Health {
        self.health().of(subscription)
    }

    /// The outage of the storage for an event subscription's dead letters, if there is one.
    pub fn storage_outage(&self, subscription: SubscriptionId) -> Option<Outage> {
        let outages = self.shared.outages.lock().unwrap();
        outages.get(&subscription).cloned()
    }

    fn time_scale(&self) -> TimeScale {
        self.shared.time_scale
    }

    fn store(&self) -> &Store {
        &self.shared.store
    }

    fn outbound(&self) -> &Outbound {
        &self.shared.outbound
    }

    fn agenda(&self) -> MutexGuard<'_, Agenda<Due>> {
        let mut agenda = self.shared.agenda.lock().unwrap();
        agenda.count_lock();
        agenda
    }

    /// How often the agenda has been locked, which everything that is published and delivered waits for: a cost to be
    /// bounded by a test.
    pub fn agenda_locks(&self) -> u64 {
        self.agenda().locks()
    }

    /// Returns whether nothing is due now, on its way to a receiver, or left to be done of earlier requests. Retries
    /// whose time has not come do not count.
    pub fn is_idle(&self) -> bool {
        self.shared.unfinished.is_done() && self.agenda().is_idle(self.clock().now())
    }

    /// Moves the clock ahead, and does what has become due.
    pub fn advance(&self, by: Duration) {
        self.clock().advance(by);
        self.wake().notify_one();
        self.shared.alert_wake.notify_one();
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

    /// Lets the dispatcher look at a subscription again, whose definition has changed.
    fn note_change(&self, subscription: SubscriptionId) {
        if self.agenda().reconsider(subscription, self.clock().now()) {
            self.wake().notify_one();
        }
    }

    /// Wakes whoever serves the subscription, since something may be due: the dispatcher, or waiting
    /// receivers.
    fn set_free(&self, subscription: SubscriptionId, now: Timestamp) {
        self.note_due(&[subscription], now);
        self.shared
            .arrivals
            .announce_all(QueueRef::pending(subscription));
    }

    /// Notes that these subscriptions have something due at `at`, as far as the dispatcher serves them.
    fn note_due(&self, subscriptions: &[SubscriptionId], at: Timestamp) {
        let registry = self.registry();
        let mut agenda = self.agenda();
        let mut earlier = false;
        for subscription in subscriptions.iter().filter(|id| is_sent(&registry, **id)) {
            earlier |= agenda.note(*subscription, at);
        }
        drop(agenda); // the dispatcher wants it as soon as it wakes
        if earlier {
            self.wake().notify_one();
        }
    }

    /// Hands stored deliveries that are due to the dispatcher, as far as it serves their subscriptions.
    fn hand_over(&self, all: Vec<HandedOver>) {
        if all.is_empty() {
            return; // as with whatever nobody subscribes to
        }
        let (registry, now) = (self.registry(), self.clock().now());
        let mut agenda = self.agenda();
        let mut earlier = false;
        for each in all {
            if each.ended.is_none() && is_sent(&registry, each.subscription) {
                let due = (each.delivery, each.event);
                earlier |= agenda.hand_over(each.subscription, due, now);
            }
        }
        drop(agenda); // the dispatcher wants it as soon as it wakes
        if earlier {
            self.wake().notify_one();
        }
    }
}

fn slot_limits(options: &BrokerOptions) -> SlotLimits {
    SlotLimits {
        per_subscription: options.in_flight_per_subscription,
        overall: options.in_flight_max,
        wire_bytes: WIRE_BYTES_MAX,
        waiting_bytes: LEASED_AHEAD_BYTES_MAX,
        unstored: UNSTORED_MAX,
    }
}

/// Returns whether the dispatcher serves a subscription.
fn is_sent(registry: &Registry, id: SubscriptionId) -> bool {
    let found = registry.subscription(id);
    found.is_some_and(|(_, each)| each.definition.destination.delivery_mode() == DeliveryMode::Push)
}
