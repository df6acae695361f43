//! How many events go into one delivery request (rule 8).

use crate::model::limits::{BATCH_EVENTS_MAX, BATCH_KILOBYTES_MAX};

/// Whether and how a destination accepts several events in one request. `None` means "not set".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BatchPolicy {
    pub max_events: Option<u32>,
    pub preferred_kilobytes: Option<u32>,
}

impl BatchPolicy {
    /// Whether requests carry arrays of events even for schemas that send one event bare (rule A).
    pub fn is_on(&self) -> bool {
        self.max_events.is_some_and(|max| max > 1)
            || (self.max_events.is_none() && self.preferred_kilobytes.is_some())
    }

    /// Events that a request never exceeds; 1 with batching off (rule A).
    pub fn events_max(&self) -> usize {
        if !self.is_on() {
            return 1;
        }
        self.max_events.unwrap_or(BATCH_EVENTS_MAX) as usize
    }

    /// Bytes that a request aims at; a single bigger event still goes, alone (rule 8).
    pub fn bytes_preferred(&self) -> usize {
        self.preferred_kilobytes.unwrap_or(BATCH_KILOBYTES_MAX) as usize * 1_024
    }

    /// How many of the events, whose sizes are given in order, make up the next request: at least one.
    pub fn fill(&self, sizes: impl IntoIterator<Item = usize>) -> usize {
        let mut bytes = 0;
        let mut events = 0;
        for size in sizes.into_iter().take(self.events_max()) {
            bytes += size;
            if events > 0 && bytes > self.bytes_preferred() {
                break;
            }
            events += 1;
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(max_events: u32, kilobytes: u32, sizes: &[usize], expected: &[usize]) {
        let policy = BatchPolicy {
            max_events: (max_events > 0).then_some(max_events),
            preferred_kilobytes: (kilobytes > 0).then_some(kilobytes),
        };
        let mut rest = sizes;
        let mut batches = Vec::new();
        while !rest.is_empty() {
            let taken = policy.fill(rest.iter().copied());
            batches.push(taken);
            rest = &rest[taken..];
        }
        assert_eq!(
            batches, expected,
            "{max_events} events, {kilobytes} KB, {sizes:?}"
        );
    }

    #[test]
    fn batches_are_bounded_by_count_and_bytes() {
        check(0, 0, &[10, 10, 10], &[1, 1, 1]);
        check(1, 64, &[10, 10], &[1, 1]);
        check(2, 0, &[10, 10, 10], &[2, 1]);
        check(10, 1, &[500, 500, 500], &[2, 1]);
        check(10, 1, &[512, 512, 1], &[2, 1]);
        // An oversized event goes alone, wherever it stands.
        check(10, 4, &[10_000, 10, 10_000, 10], &[1, 1, 1, 1]);
        check(10, 4, &[10_000, 10, 10], &[1, 2]);
        // Only the size set: up to 5,000 events.
        check(0, 1_024, &vec![1; 5_001], &[5_000, 1]);
    }

    proptest! {
        /// Whatever the sizes: nothing is lost, nobody overtakes, and no request is fuller than it may be
        /// or emptier than it need be.
        #[test]
        fn batches_keep_order_and_bounds(
            max_events in proptest::option::of(1..20_u32),
            preferred_kilobytes in proptest::option::of(1..5_u32),
            sizes in proptest::collection::vec(0..3_000_usize, 1..80),
        ) {
            let policy = BatchPolicy { max_events, preferred_kilobytes };
            let mut rest = &sizes[..];
            while !rest.is_empty() {
                let taken = policy.fill(rest.iter().copied());
                prop_assert!((1..=rest.len()).contains(&taken));
                prop_assert!(taken <= policy.events_max());
                let bytes: usize = rest[..taken].iter().sum();
                prop_assert!(taken == 1 || bytes <= policy.bytes_preferred());
                if let Some(next) = rest.get(taken) {
                    let is_full = taken == policy.events_max();
                    prop_assert!(is_full || bytes + next > policy.bytes_preferred());
                }
                rest = &rest[taken..];
            }
        }
    }
}
