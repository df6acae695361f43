//! How long changes and commits take: all changes wait for the one writer.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Commits whose times are kept: a few seconds of a busy appliance, a few minutes of an idle one.
const COMMITS_KEPT: usize = 500;

/// Times of changes and commits. Clones of the writer's handle share them.
#[derive(Debug, Default)]
pub(super) struct WriteTimes {
    /// The longest since the last call of [`WriteTimes::take`], in microseconds.
    change: AtomicU64,
    commit: AtomicU64,
    /// The times of the newest commits, oldest first.
    commits: Mutex<VecDeque<Duration>>,
}

/// The longest times of the writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Longest {
    /// One change.
    pub change: Duration,
    /// The end of a group: writing the counters, and waiting for the disk.
    pub commit: Duration,
}

/// The times of the newest commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitTimes {
    /// How many commits these are; 0 where there was none yet.
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

    /// The longest times since the last call.
    pub(in crate::store) fn take(&self) -> Longest {
        let take = |longest: &AtomicU64| Duration::from_micros(longest.swap(0, Ordering::Relaxed));
        Longest {
            change: take(&self.change),
            commit: take(&self.commit),
        }
    }

    /// Returns how long the newest commits took: how many they are, the median and the longest.
    pub(super) fn commit_times(&self) -> CommitTimes {
        // Copied, so that no commit waits for the sorting.
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
