//! The load that a benchmark publishes, and the behaviour of its receiver.

use std::time::Duration;

use crate::base::Stopwatch;

/// The maximum number of events in one run, to limit the memory for the records. With one subscription 10 million
/// events take 20 MB.
pub const EVENTS_MAX: u64 = 10_000_000;

/// The load, and the behaviour of the receiver. All counts except `fan_out` are at least 1.
#[derive(Clone, Debug)]
pub struct BenchPlan {
    /// Events to publish, at most [`EVENTS_MAX`].
    pub events: u64,
    /// Publishing ends after this time, however many events are left.
    pub duration: Option<Duration>,
    /// Connections that publish, one request at a time each.
    pub connections: usize,
    /// Events per second over all connections. With `None`, each connection publishes as fast as responses arrive.
    pub rate: Option<f64>,
    /// Bytes of padding in the data of each event.
    pub payload_bytes: usize,
    pub events_per_request: u64,
    /// Event subscriptions that receive every event.
    pub fan_out: usize,
    pub events_per_delivery: u32,
    /// Share of events whose first delivery attempt is answered with 503, in percent.
    pub failing_percent: u64,
    /// Share of events whose delivery is answered after `slow_delay`, in percent.
    pub slow_percent: u64,
    pub slow_delay: Duration,
    /// Is true if every request has an `x-ms-client-request-id`, as requests of Azure's clients have.
    pub has_request_ids: bool,
}

impl BenchPlan {
    /// Returns whether the first delivery attempt of this event fails.
    pub fn fails(&self, number: u64) -> bool {
        spread(number, FAILING_STEP) < self.failing_percent
    }

    /// Returns whether the delivery of this event is answered after `slow_delay`.
    pub fn is_slow(&self, number: u64) -> bool {
        spread(number, SLOW_STEP) < self.slow_percent
    }

    /// Returns the time since the start at which the request that begins with this event is due.
    pub fn due(&self, number: u64) -> Option<Duration> {
        let rate = self.rate?;
        Some(Duration::from_secs_f64(number as f64 / rate))
    }

    /// Returns whether publishing, which began at `since`, continues.
    pub fn goes_on(&self, since: Stopwatch) -> bool {
        self.duration.is_none_or(|most| since.took() < most)
    }
}

/// A step that is coprime to 100, like `SLOW_STEP`. Every 100 consecutive events have exactly the configured shares,
/// spread over the 100 events.
const FAILING_STEP: u64 = 37;
const SLOW_STEP: u64 = 61;

fn spread(number: u64, step: u64) -> u64 {
    number.wrapping_mul(step) % 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_met_in_every_hundred_events() {
        let plan = BenchPlan {
            events: 1_000,
            duration: None,
            connections: 1,
            rate: Some(200.0),
            payload_bytes: 0,
            events_per_request: 1,
            fan_out: 1,
            events_per_delivery: 1,
            failing_percent: 7,
            slow_percent: 20,
            slow_delay: Duration::ZERO,
            has_request_ids: false,
        };
        for first in [0, 300] {
            let hundred = first..first + 100;
            assert_eq!(hundred.clone().filter(|each| plan.fails(*each)).count(), 7);
            assert_eq!(hundred.filter(|each| plan.is_slow(*each)).count(), 20);
        }
        assert_eq!(plan.due(50), Some(Duration::from_millis(250)));
    }
}
