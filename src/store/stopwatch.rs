//! How long the writer was kept: everybody who changes something waits for the longest of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The longest since the last look, in microseconds. Clones of the writer's handle share it.
#[derive(Debug, Default)]
pub(super) struct Stopwatch {
    change: AtomicU64,
    commit: AtomicU64,
}

/// What kept the writer longest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Longest {
    /// One change.
    pub change: Duration,
    /// What ends a group of changes: the counters, and the wait for the disk.
    pub commit: Duration,
}

impl Stopwatch {
    pub(super) fn changed(&self, took: Duration) {
        note(&self.change, took);
    }

    pub(super) fn committed(&self, took: Duration) {
        note(&self.commit, took);
    }

    /// The longest since this was asked last.
    pub(super) fn take(&self) -> Longest {
        let take = |longest: &AtomicU64| Duration::from_micros(longest.swap(0, Ordering::Relaxed));
        Longest {
            change: take(&self.change),
            commit: take(&self.commit),
        }
    }
}

fn note(longest: &AtomicU64, took: Duration) {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    longest.fetch_max(micros, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_is_told_once() {
        let stopwatch = Stopwatch::default();
        for micros in [20, 70, 50] {
            stopwatch.changed(Duration::from_micros(micros));
        }
        stopwatch.committed(Duration::from_millis(3));
        let longest = Longest {
            change: Duration::from_micros(70),
            commit: Duration::from_millis(3),
        };
        assert_eq!(stopwatch.take(), longest);
        assert_eq!(stopwatch.take(), Longest::default());
    }
}
