//! Batching of events into delivery requests (rule 8).

use crate::model::delivery::Outcome;
use crate::model::limits::{BATCH_EVENTS_MAX, BATCH_KILOBYTES_MAX};

/// The settings by which a destination accepts several events in one request. `None` means "not set".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BatchPolicy {
    pub max_events: Option<u32>,
    pub preferred_kilobytes: Option<u32>,
    /// Extension: a request that is rejected because of some of its events is split.
    pub split_on_error: bool,
}

impl BatchPolicy {
    /// Returns whether requests carry arrays of events even for schemas that send one event bare (rule A).
    pub fn is_on(&self) -> bool {
        self.max_events.is_some_and(|max| max > 1)
            || (self.max_events.is_none() && self.preferred_kilobytes.is_some())
    }

    /// Returns the maximum number of events in a request; 1 if batching is off (rule A).
    pub fn events_max(&self) -> usize {
        if !self.is_on() {
            return 1;
        }
        self.max_events.unwrap_or(BATCH_EVENTS_MAX) as usize
    }

    /// Returns the preferred size of a request in bytes. A larger event is sent alone (rule 8).
    pub fn bytes_preferred(&self) -> usize {
        self.preferred_kilobytes.unwrap_or(BATCH_KILOBYTES_MAX) as usize * 1_024
    }

    /// Returns the number of events in the next request, at least one. `sizes` has the sizes of the events in order.
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

    /// Returns the maximum number of events in each request that redelivers the events of a rejected request (rule
    /// 8.1). Returns `None` if the outcome applies to all events of the request: splitting is off, the request was not
    /// rejected because of its events, or it had fewer than two events.
    pub fn split(&self, events: usize, outcome: Outcome) -> Option<u32> {
        let is_about_events = matches!(outcome, Outcome::BadRequest | Outcome::PayloadTooLarge);
        if !self.split_on_error || !is_about_events || events < 2 {
            return None;
        }
        u32::try_from(events.div_ceil(2)).ok()
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
            ..BatchPolicy::default()
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

    const SPLITTING: BatchPolicy = BatchPolicy {
        max_events: Some(5_000),
        preferred_kilobytes: None,
        split_on_error: true,
    };

    #[test]
    fn rejected_batches_are_split_down_to_single_events() {
        for (events, expected) in [
            (5_000, Some(2_500)),
            (10, Some(5)),
            (5, Some(3)),
            (3, Some(2)),
            (2, Some(1)),
            (1, None),
        ] {
            let most = SPLITTING.split(events, Outcome::BadRequest);
            assert_eq!(most, expected, "{events}");
        }
        for status in 100..600 {
            let outcome = Outcome::of_status(status);
            let is_split = SPLITTING.split(10, outcome).is_some();
            assert_eq!(is_split, matches!(status, 400 | 413), "{status}");
            let unasked = BatchPolicy::default().split(10, outcome);
            assert_eq!(unasked, None, "{status}");
        }
    }

    proptest! {
        /// Whichever events are rejected: each of them ends alone, all others are delivered, and there are fewer than two
        /// requests for each event.
        #[test]
        fn splitting_finds_what_is_rejected(
            rejections in proptest::collection::vec(proptest::bool::ANY, 1..80),
        ) {
            let (mut requests, mut delivered, mut dead) = (0, 0, 0);
            let mut batches = vec![rejections.clone()];
            while let Some(batch) = batches.pop() {
                requests += 1;
                if !batch.contains(&true) {
                    delivered += batch.len();
                    continue;
                }
                match SPLITTING.split(batch.len(), Outcome::PayloadTooLarge) {
                    Some(most) => {
                        batches.extend(batch.chunks(most as usize).map(<[bool]>::to_vec));
                    }
                    None => dead += batch.len(),
                }
            }
            let rejected = rejections.iter().filter(|is_rejected| **is_rejected).count();
            prop_assert_eq!((delivered, dead), (rejections.len() - rejected, rejected));
            prop_assert!(requests < 2 * rejections.len());
        }

        /// Whatever the sizes: nothing is lost, nobody overtakes, and no request is fuller than it may be
        /// or emptier than it need be.
        #[test]
        fn batches_keep_order_and_bounds(
            max_events in proptest::option::of(1..20_u32),
            preferred_kilobytes in proptest::option::of(1..5_u32),
            sizes in proptest::collection::vec(0..3_000_usize, 1..80),
        ) {
            let policy = BatchPolicy { max_events, preferred_kilobytes, ..BatchPolicy::default() };
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
