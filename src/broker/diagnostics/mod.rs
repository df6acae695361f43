//! Information about the appliance, for whoever runs or supports it.
//!
//! A [`Report`] takes a moment, however much is stored. Longer work, such as counting rows or checking the file, is
//! started separately and has a time limit.

pub(super) mod meters;
pub(super) mod recount;
pub(super) mod workload;

mod bundle;
mod connections;
mod integrity;
#[cfg(test)]
pub(crate) mod setting_samples;
mod settings;
mod tasks;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use url::{Origin, Url};

use crate::base::{LogTail, TimeScale, Timestamp, WallClock};
use crate::broker::{Account, Broker, StorageStatus, Verified};
use crate::model::audit::{AuditAction, AuditTarget, Caller, TargetKind};
use crate::outbound::connectivity::Connectivity;
use crate::store::views::DeliveryTotals;
use crate::store::{DatabaseSchema, EngineStatus, StoreError};

pub use crate::store::Integrity;
pub use connections::{ConnectionSlot, Connections};
pub use integrity::IntegrityStatus;
pub use settings::{RunningSettings, SettingError, SettingRules};
pub use tasks::Tasks;

/// Time limit for counting the rows of event subscriptions; those that are not reached in time are not counted.
const COUNTING_MAX: Duration = Duration::from_secs(5);

/// How long an integrity check may take: enough for some tens of gigabytes.
const INTEGRITY_MAX: Duration = Duration::from_secs(10 * 60);

/// The interval of integrity checks that nobody requests, and the interval at which the broker looks whether one is
/// due.
const INTEGRITY_EVERY: Duration = Duration::from_secs(24 * 3_600);
const INTEGRITY_LOOK_EVERY: Duration = Duration::from_secs(10 * 60);

/// The share of time in which threads are busy above which a due integrity check is put off, until twice
/// [`INTEGRITY_EVERY`] has passed since the last one.
const INTEGRITY_BUSY_MAX: f64 = 0.3;

/// A handle to the diagnostics of one appliance, for the modules `api` and `admin`. Cheap to clone.
#[derive(Clone)]
pub struct Diagnostics(Arc<DiagnosticsState>);

struct DiagnosticsState {
    broker: Broker,
    runtime_info: RuntimeInfo,
    integrity: Mutex<IntegrityCheck>,
    outbound_check: Mutex<Option<OutboundCheck>>,
}

/// The version, settings, log, connections and tasks of the running process.
#[derive(Clone, Debug, Default)]
pub struct RuntimeInfo {
    pub facts: ProcessFacts,
    pub settings: RunningSettings,
    pub log: LogTail,
    pub connections: Connections,
    pub tasks: Tasks,
}

/// Facts that do not change while the process runs.
#[derive(Clone, Debug, Default)]
pub struct ProcessFacts {
    pub version: &'static str,
    /// The operating system and the processor.
    pub platform: String,
    pub sqlite: &'static str,
    pub started_at: Timestamp,
    /// Files and directories: a name, and an absolute path.
    pub places: Vec<(&'static str, String)>,
    /// The licence of the appliance.
    pub licence: &'static str,
    /// The components that it is built from, with versions and licences.
    pub components: Vec<String>,
    pub component_licences: Vec<String>,
}

/// The state of the appliance.
#[derive(Clone, Debug)]
pub struct Report {
    pub at: Timestamp,
    pub time_scale: TimeScale,
    pub storage: StorageStatus,
    pub schema: DatabaseSchema,
    pub engine_status: EngineStatus,
    /// Threads of the runtime, and tasks on them.
    pub workers: usize,
    pub tasks: usize,
    /// The share of time in which the threads of the runtime were busy since the last sample, from 0 to 1.
    pub busy: Option<f64>,
    /// Open connections of clients, and their limit.
    pub connections: usize,
    pub connections_max: usize,
    /// Delivery requests in flight, and their limit.
    pub in_flight: usize,
    pub in_flight_max: usize,
    pub on_probation: usize,
    /// The totals of all event subscriptions together.
    pub totals: DeliveryTotals,
    pub accounts: Vec<Account>,
    pub disk_is_low: bool,
    pub integrity: IntegrityCheck,
    /// Damage and losses that were found when the database was opened.
    pub found_at_start: Vec<String>,
    /// The difference between the machine's wall clock and the broker's clock, which never goes back.
    pub wall_clock: WallClock,
    /// The last connectivity test since the start.
    pub outbound_check: Option<OutboundCheck>,
}

/// A connectivity test.
#[derive(Clone, Debug)]
pub struct OutboundCheck {
    pub at: Timestamp,
    /// Scheme, host and port of the URL: its path and query may be a secret.
    pub place: String,
    pub connectivity: Connectivity,
}

impl Report {
    /// The event subscriptions whose delivery counts are inconsistent.
    pub fn unbalanced(&self) -> impl Iterator<Item = &Account> {
        let accounts = self.accounts.iter();
        accounts.filter(|account| !account.totals.balance())
    }
}

/// The recount of one event subscription.
#[derive(Clone, Debug)]
pub struct Audited {
    pub account: Account,
    /// The result of the recount; `None` if the time limit passed before it was complete.
    pub verified: Option<Verified>,
}

/// The last integrity check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum IntegrityCheck {
    #[default]
    Never,
    Running {
        since: Timestamp,
        /// The result so far.
        found: Integrity,
    },
    Done {
        at: Timestamp,
        took: Duration,
        found: Result<Integrity, StoreError>,
    },
}

impl Diagnostics {
    /// The diagnostics of one appliance.
    pub fn new(broker: Broker, runtime_info: RuntimeInfo) -> Self {
        Self(Arc::new(DiagnosticsState {
            broker,
            runtime_info,
            integrity: Mutex::default(),
            outbound_check: Mutex::default(),
        }))
    }

    pub fn facts(&self) -> &ProcessFacts {
        &self.0.runtime_info.facts
    }

    /// The tasks of the appliance that have failed and are not running.
    pub fn failed_tasks(&self) -> Vec<&'static str> {
        self.0.runtime_info.tasks.failed()
    }

    /// The newest lines of the log, oldest first.
    pub fn log(&self) -> Vec<String> {
        self.0.runtime_info.log.lines()
    }

    /// The state of the appliance.
    pub async fn report(&self) -> Result<Report, StoreError> {
        let broker = &self.0.broker;
        let accounts = broker.accounts().await?;
        let totals = accounts.iter().map(|account| account.totals);
        let runtime = Handle::current().metrics();
        let connections = &self.0.runtime_info.connections;
        Ok(Report {
            at: broker.clock().now(),
            time_scale: broker.options().time_scale,
            storage: broker.storage_status().await?,
            schema: broker.store().upkeep.schema().await?,
            engine_status: broker.store().upkeep.engine_status(),
            workers: runtime.num_workers(),
            tasks: runtime.num_alive_tasks(),
            busy: broker.shared.workload.share(),
            connections: connections.open(),
            connections_max: connections.most(),
            in_flight: broker.agenda().in_flight(),
            in_flight_max: broker.options().in_flight_max,
            on_probation: broker.health().on_probation().len(),
            totals: totals.fold(DeliveryTotals::default(), DeliveryTotals::plus),
            accounts,
            disk_is_low: broker.disk_is_low(),
            integrity: self.integrity(),
            found_at_start: self.found_at_start(),
            wall_clock: broker.clock().wall_clock(),
            outbound_check: self.0.outbound_check.lock().unwrap().clone(),
        })
    }

    /// Tests the connectivity to `url`, see
    /// [`Outbound::connectivity`](crate::outbound::Outbound::connectivity).
    pub async fn test_connection(
        &self,
        by: &Caller,
        url: &Url,
    ) -> Result<OutboundCheck, StoreError> {
        let broker = &self.0.broker;
        let target = TargetKind::Url.named(place(url));
        broker
            .record(by, AuditAction::TestConnection, target)
            .await?;
        let tried = OutboundCheck {
            at: broker.clock().now(),
            place: place(url),
            connectivity: broker.outbound().connectivity(url).await,
        };
        *self.0.outbound_check.lock().unwrap() = Some(tried.clone());
        Ok(tried)
    }

    /// Recounts all event subscriptions, as far as [`COUNTING_MAX`] allows.
    pub async fn recount(&self, by: &Caller) -> Result<Vec<Audited>, StoreError> {
        let broker = &self.0.broker;
        broker
            .record(by, AuditAction::RecountDeliveries, AuditTarget::appliance())
            .await?;
        let ends_at = broker.clock().now() + COUNTING_MAX;
        let mut audited = Vec::new();
        for account in broker.accounts().await? {
            let verified = if broker.clock().now() < ends_at {
                broker.verify(account.id).await
            } else {
                Err(StoreError::TooSlow)
            };
            audited.push(Audited {
                account,
                verified: match verified {
                    Ok(verified) => Some(verified),
                    Err(StoreError::TooSlow) => None,
                    Err(error) => return Err(error),
                },
            });
        }
        Ok(audited)
    }

    /// The last integrity check.
    pub fn integrity(&self) -> IntegrityCheck {
        self.0.integrity.lock().unwrap().clone()
    }

    /// Returns the last integrity check in the form in which it is shown.
    pub fn integrity_status(&self) -> IntegrityStatus {
        IntegrityStatus::of(&self.integrity(), &self.found_at_start())
    }

    /// Damage and losses that were found when the database was opened, and definitions that could not be read.
    pub fn found_at_start(&self) -> Vec<String> {
        let registry = self.0.broker.registry();
        let found = self.0.broker.store().upkeep.found_at_start();
        found.iter().chain(registry.unreadable()).cloned().collect()
    }

    /// Records a request for an integrity check in the audit log, and starts the check unless one is running. Returns a
    /// handle that waits for the end of the check that was started. The check continues when the caller has gone.
    pub async fn check_integrity(&self, by: &Caller) -> Result<JoinHandle<()>, StoreError> {
        self.0
            .broker
            .record(by, AuditAction::CheckIntegrity, AuditTarget::appliance())
            .await?;
        Ok(self.start_integrity_check())
    }

    /// Starts an integrity check without an audit entry, such as after a crash, unless one is running. Returns a handle
    /// that waits for the end of the check that was started.
    pub fn start_integrity_check(&self) -> JoinHandle<()> {
        let since = self.0.broker.clock().now();
        let mut check = self.0.integrity.lock().unwrap();
        if matches!(*check, IntegrityCheck::Running { .. }) {
            return tokio::spawn(async {});
        }
        let found = Integrity::default();
        *check = IntegrityCheck::Running { since, found };
        let diagnostics = self.clone();
        tokio::spawn(async move { diagnostics.run_integrity_check(since).await })
    }

    /// Has the database checked once a day, in a quiet moment if there is one, until the broker stops.
    pub async fn run_integrity_checks(self) {
        let broker = &self.0.broker;
        let mut last = broker.clock().now();
        loop {
            tokio::select! {
                () = tokio::time::sleep(INTEGRITY_LOOK_EVERY) => {}
                () = broker.stopping() => return,
            }
            let now = broker.clock().now();
            if is_check_due(now.since(last), broker.shared.workload.share()) {
                last = now;
                let _ = self.start_integrity_check().await; // a panic in it is in the log
            }
        }
    }

    async fn run_integrity_check(&self, began_at: Timestamp) {
        let broker = &self.0.broker;
        let upkeep = &broker.store().upkeep;
        let told = self.clone();
        let progress = move |found: &Integrity| told.found_so_far(found);
        let found = upkeep
            .check_integrity(broker.clock().clone(), INTEGRITY_MAX, progress)
            .await;
        if let Ok(Integrity { repaired, .. }) = &found
            && !repaired.is_empty()
        {
            for line in repaired {
                tracing::warn!(repaired = line, "the database was damaged");
            }
            broker.refresh_agenda().await;
        }
        match &found {
            Ok(Integrity { faults, .. }) if faults.is_empty() => {}
            Ok(Integrity { faults, .. }) => {
                tracing::error!(
                    faults = faults.len(),
                    first = faults[0],
                    "the database is damaged; `everpost salvage` copies what can be read into a new directory"
                );
            }
            Err(error) => tracing::error!(%error, "the integrity check failed"),
        }
        let at = broker.clock().now();
        *self.0.integrity.lock().unwrap() = IntegrityCheck::Done {
            at,
            took: at.since(began_at),
            found,
        };
    }

    fn found_so_far(&self, so_far: &Integrity) {
        if let IntegrityCheck::Running { found, .. } = &mut *self.0.integrity.lock().unwrap() {
            found.clone_from(so_far);
        }
    }
}

/// Returns whether an integrity check is due, `since_last` after the last one and with threads busy for the share
/// `busy`.
fn is_check_due(since_last: Duration, busy: Option<f64>) -> bool {
    let is_busy = busy.is_some_and(|busy| busy > INTEGRITY_BUSY_MAX);
    since_last >= INTEGRITY_EVERY && (!is_busy || since_last >= 2 * INTEGRITY_EVERY)
}

/// Scheme, host and port of a URL, as far as it has them: its path and query may be secret.
pub fn place(url: &Url) -> String {
    match url.origin() {
        Origin::Tuple(..) => url.origin().ascii_serialization(),
        Origin::Opaque(_) => format!("{}:", url.scheme()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daily_check_waits_for_a_quiet_moment_but_not_for_ever() {
        let hours = |hours: u64| Duration::from_secs(3_600 * hours);
        for (since_last, busy, expected) in [
            (23, None, false),
            (24, None, true),
            (24, Some(0.1), true),
            (24, Some(0.9), false),
            (47, Some(0.9), false),
            (48, Some(0.9), true),
        ] {
            assert_eq!(
                is_check_due(hours(since_last), busy),
                expected,
                "{since_last} {busy:?}"
            );
        }
    }
}
