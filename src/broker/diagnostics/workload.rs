//! The share of time in which the threads of the runtime are busy.

use std::sync::Mutex;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::base::Stopwatch;

/// Samples the threads of the runtime.
#[derive(Debug)]
pub(in crate::broker) struct Workload(Mutex<WorkloadSample>);

#[derive(Clone, Copy, Debug)]
struct WorkloadSample {
    stopwatch: Stopwatch,
    /// The total busy time of all threads at the time of the sample.
    busy: Duration,
    /// The busy share between the previous sample and this one; the first sample is compared with the start.
    share: Option<f64>,
}

impl Workload {
    pub(in crate::broker) fn new() -> Self {
        Self(Mutex::new(WorkloadSample {
            stopwatch: Stopwatch::begin(),
            busy: Duration::ZERO,
            share: None,
        }))
    }

    /// Samples the threads of the current runtime.
    pub(in crate::broker) fn sample(&self) {
        let runtime = Handle::current().metrics();
        let threads = runtime.num_workers();
        let busy = (0..threads).map(|thread| runtime.worker_total_busy_duration(thread));
        let busy: Duration = busy.sum();
        let mut last = self.0.lock().unwrap();
        let share = share(
            busy.saturating_sub(last.busy),
            last.stopwatch.took(),
            threads,
        );
        *last = WorkloadSample {
            stopwatch: Stopwatch::begin(),
            busy,
            share,
        };
    }

    /// Returns the share of time in which the threads were busy between the two newest samples, from 0 to 1; `None`
    /// before the first sample.
    pub(in crate::broker) fn share(&self) -> Option<f64> {
        self.0.lock().unwrap().share
    }
}

/// Returns the busy share of `threads` threads over `lasted`; `None` if `lasted` is zero.
fn share(busy: Duration, lasted: Duration, threads: usize) -> Option<f64> {
    let whole = lasted.as_secs_f64() * threads as f64;
    (whole > 0.0).then(|| (busy.as_secs_f64() / whole).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_that_of_all_threads() {
        let ms = Duration::from_millis;
        assert_eq!(share(ms(500), ms(1_000), 1), Some(0.5));
        assert_eq!(share(ms(500), ms(1_000), 2), Some(0.25));
        // The clocks of the threads are not read at the same moment.
        assert_eq!(share(ms(1_001), ms(1_000), 1), Some(1.0));
        assert_eq!(share(ms(500), Duration::ZERO, 1), None);
    }

    #[tokio::test]
    async fn looks_are_compared_with_each_other() {
        let workload = Workload::new();
        assert_eq!(workload.share(), None);
        workload.sample();
        let share = workload.share().expect("a share");
        assert!((0.0..=1.0).contains(&share), "{share}");
    }
}
