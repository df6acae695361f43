//! Measures the durations of changes and commits. All changes wait for the one writer.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Number of commits whose durations are kept: a few seconds on a busy appliance, a few minutes on an idle one.
const COMMITS_KEPT: usize = 500;

/// The durations of changes and commits, shared by all clones of the writer's handle.
#[derive(Debug, Default)]
pub(super) struct WriteTimes {
    /// The longest change since the last call of [`WriteTimes::take`], in microseconds. `commit` is the longest commit.
    change: AtomicU64,
    commit: AtomicU64,
    /// The durations of the newest commits, oldest first.
    commits: Mutex<VecDeque<Duration>>,
}

/// The longest durations in the writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Longest {
    /// The longest single change.
    pub change: Duration,
    /// The longest end of a group of changes: writing the counters and waiting for the disk.
    pub commit: Duration,
}

/// Statistics of the durations of the newest commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitTimes {
    /// Number of commits in the statistics; 0 before the first commit.
    pub commits: usize,
    pub median: Duration,
    pub longest: Duration,
}

impl WriteTimes {
    pub(in crate::store) fn changed(&self, took: Duration) {
        note(&self.change, took);
    }

    pub(super) fn committed(&self, took: Duration) {
        note(&self.commit, took);
        let mut commits = self.commits.lock().unwrap();
        if commits.len() == COMMITS_KEPT {
            commits.pop_front();
        }
        commits.push_back(took);
    }

    /// Returns the longest durations since the last call.
    pub(in crate::store) fn take(&self) -> Longest {
        let take = |longest: &AtomicU64| Duration::from_micros(longest.swap(0, Ordering::Relaxed));
        Longest {
            change: take(&self.change),
            commit: take(&self.commit),
        }
    }

    /// Returns the number of the newest commits, and the median and maximum of their durations.
    pub(super) fn commit_times(&self) -> CommitTimes {
        // Copies the durations, so that no commit waits for the sort.
        let mut commits: Vec<_> = self.commits.lock().unwrap().iter().copied().collect();
        commits.sort_unstable();
        let at = |index: usize| commits.get(index).copied().unwrap_or_default();
        CommitTimes {
            commits: commits.len(),
            median: at(commits.len().saturating_sub(1) / 2),
            longest: at(commits.len().saturating_sub(1)),
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
        let write_times = WriteTimes::default();
        for micros in [20, 70, 50] {
            write_times.changed(Duration::from_micros(micros));
        }
        write_times.committed(Duration::from_millis(3));
        let longest = Longest {
            change: Duration::from_micros(70),
            commit: Duration::from_millis(3),
        };
        assert_eq!(write_times.take(), longest);
        assert_eq!(write_times.take(), Longest::default());
    }

    #[test]
    fn the_newest_commits_are_told_however_often() {
        let write_times = WriteTimes::default();
        assert_eq!(write_times.commit_times(), CommitTimes::default());
        let times = |commits, median, longest| CommitTimes {
            commits,
            median: Duration::from_millis(median),
            longest: Duration::from_millis(longest),
        };
        write_times.committed(Duration::from_millis(900));
        assert_eq!(write_times.commit_times(), times(1, 900, 900));
        for ms in [3, 1, 2] {
            write_times.committed(Duration::from_millis(ms));
        }
        assert_eq!(write_times.commit_times(), times(4, 2, 900));
        for _ in 0..COMMITS_KEPT - 3 {
            write_times.committed(Duration::from_millis(2));
        }
        let newest = times(COMMITS_KEPT, 2, 3);
        assert_eq!(write_times.commit_times(), newest);
        assert_eq!(write_times.commit_times(), newest);
    }
}
