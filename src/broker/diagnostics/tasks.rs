//! Background tasks that run until the broker stops. A panic in a task is counted and logged, and the task is
//! restarted.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::broker::Broker;

/// Delay between the failure of a task and its restart.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// Number of failures after which a task is not restarted. A task with this number of failures does not recover by
/// itself.
const FAILURES_MAX: usize = 5;

/// The names of the tasks that have failed and are not running. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Tasks(Arc<Mutex<BTreeSet<&'static str>>>);

impl Tasks {
    /// Runs a task until the broker stops. Restarts the task if it panics, or if it ends while the broker is not
    /// stopping. After `FAILURES_MAX` failures, calls `give_up` with the name of the task.
    pub fn run<F>(
        &self,
        broker: &Broker,
        name: &'static str,
        task: impl Fn(Broker) -> F + Send + 'static,
        give_up: impl FnOnce(&'static str) + Send + 'static,
    ) -> JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (tasks, broker) = (self.clone(), broker.clone());
        tokio::spawn(async move {
            for _ in 0..FAILURES_MAX {
                let ended = tokio::spawn(task(broker.clone())).await;
                if ended.is_ok() && broker.is_stopping() {
                    return;
                }
                if ended.is_err() {
                    broker.meters().panicked();
                }
                tracing::error!(
                    task = name,
                    "a task of the appliance has failed; it begins again"
                );
                tasks.0.lock().unwrap().insert(name);
                tokio::time::sleep(RESTART_PAUSE).await;
                tasks.0.lock().unwrap().remove(name);
            }
            tasks.0.lock().unwrap().insert(name);
            give_up(name);
        })
    }

    /// Returns the names of the tasks that have failed and are not running.
    pub fn failed(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().iter().copied().collect()
    }
}
