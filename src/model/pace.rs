//! Limits of a receiver: extensions that bound the requests to one subscription.

use std::time::Duration;

use crate::base::Timestamp;

/// Limits of the requests to one receiver. A limit that is `None` comes from the settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverLimits {
    /// Time that the receiver has to respond.
    pub response_deadline: Option<Duration>,
    /// Requests in flight at once.
    pub in_flight_max: Option<u32>,
    /// Requests started per second.
    pub rate: Option<Rate>,
}

/// Requests per time, exact to a thousandth of a request per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate {
    per_1000_s: u32,
}

/// Bursts per second of a rate: after a pause, the requests of one tenth of a second may be started together. If that
/// is less than one request, requests are spaced evenly.
const BURSTS_PER_SECOND: i64 = 10;

impl Rate {
    /// Bounds in requests per thousand seconds: from one request to ten thousand per second, which is more than one
    /// subscription ever makes.
    pub const BOUNDS: std::ops::RangeInclusive<u32> = 1..=10_000_000;

    /// Returns the rate of `requests` per thousand seconds; `None` outside of [`Rate::BOUNDS`].
    pub fn per_1000_s(requests: u32) -> Option<Self> {
        Self::BOUNDS.contains(&requests).then_some(Self {
            per_1000_s: requests,
        })
    }

    /// Returns the rate of `requests` per minute, rounded down and limited to [`Rate::BOUNDS`].
    pub fn per_minute(requests: u32) -> Self {
        let per_1000_s = u64::from(requests) * 1_000 / 60;
        let (least, most) = Self::BOUNDS.into_inner();
        Self {
            per_1000_s: u32::try_from(per_1000_s).unwrap_or(most).clamp(least, most),
        }
    }

    /// Requests in a thousand seconds.
    pub fn in_1000_s(self) -> u32 {
        self.per_1000_s
    }

    /// Microseconds from one request to the next, rounded up.
    fn interval_us(self) -> i64 {
        div_up(1_000_000_000, i64::from(self.per_1000_s))
    }

    /// Requests that may be started together.
    fn burst(self) -> i64 {
        (i64::from(self.per_1000_s) / (1_000 * BURSTS_PER_SECOND)).max(1)
    }
}

/// A token bucket that fills evenly. Its content is the number of requests that a rate still allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenBucket {
    /// The time when the bucket is full again, in microseconds since the epoch.
    full_at_us: i64,
    /// The time of the last request, in microseconds since the epoch.
    spent_at_us: i64,
}

impl TokenBucket {
    /// Changes the rate at `now`. Requests under a slower rate count as one full bucket at most.
    pub fn come_under(&mut self, rate: Rate, now: Timestamp) {
        let most_us = rate.burst().saturating_mul(rate.interval_us());
        // If the clock was set back, the time of the last request is later than `now`.
        let spent_at_us = self.spent_at_us.min(micros(now));
        self.full_at_us = self.full_at_us.min(spent_at_us.saturating_add(most_us));
    }

    /// Requests that may be started at `now`.
    pub fn available(&self, rate: Rate, now: Timestamp) -> usize {
        let missing_us = (self.full_at_us - micros(now)).max(0);
        let missing = div_up(missing_us, rate.interval_us());
        usize::try_from(rate.burst() - missing).unwrap_or(0)
    }

    /// The first moment at which a request may be started.
    pub fn next_at(&self, rate: Rate) -> Timestamp {
        let at_us = self.full_at_us - (rate.burst() - 1) * rate.interval_us();
        Timestamp::from_ms(div_up(at_us.max(0), 1_000))
    }

    /// Takes the tokens for the requests that were started at `now`.
    pub fn spend(&mut self, requests: usize, rate: Rate, now: Timestamp) {
        let requests = i64::try_from(requests).unwrap_or(i64::MAX);
        let cost_us = requests.saturating_mul(rate.interval_us());
        self.full_at_us = self.full_at_us.max(micros(now)).saturating_add(cost_us);
        if requests > 0 {
            self.spent_at_us = micros(now);
        }
    }
}

/// Divides and rounds up. Both numbers must not be negative.
fn div_up(number: i64, divisor: i64) -> i64 {
    (number / divisor) + i64::from(number % divisor > 0)
}

fn micros(at: Timestamp) -> i64 {
    at.as_ms().saturating_mul(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(per_1000_s: u32) -> Rate {
        Rate::per_1000_s(per_1000_s).expect("within the bounds")
    }

    /// How many requests are started within `seconds` if as many as allowed are started at every allowed
    /// moment.
    fn started(rate: Rate, seconds: i64) -> usize {
        let (mut allowance, mut now) = (TokenBucket::default(), Timestamp::from_ms(1_000_000));
        let end = now + Duration::from_secs(seconds.unsigned_abs());
        let mut started = 0;
        while now < end {
            let available = allowance.available(rate, now);
            assert!(available > 0, "{rate:?}: told to come at {now}");
            allowance.spend(available, rate, now);
            started += available;
            assert_eq!(allowance.available(rate, now), 0, "{rate:?}");
            now = allowance.next_at(rate);
        }
        started
    }

    #[test]
    fn a_rate_is_kept() {
        for (per_1000_s, seconds, expected) in [
            (1, 2_000, 2),
            (500, 10, 5),
            (1_000, 10, 10),
            (2_500, 10, 25),
            (10_000, 10, 100),
        ] {
            assert_eq!(started(rate(per_1000_s), seconds), expected, "{per_1000_s}");
        }
        // A burst comes on top, and moments are whole milliseconds.
        for per_1000_s in [100_000, 1_000_000, 10_000_000] {
            let started = started(rate(per_1000_s), 10);
            let even = per_1000_s as usize / 100;
            let most = even + even / 100;
            assert!((even * 9 / 10..=most).contains(&started), "{started}");
        }
    }

    #[test]
    fn what_is_not_used_is_not_saved_up() {
        let (rate, mut allowance) = (rate(1_000), TokenBucket::default());
        let at = Timestamp::from_ms;
        allowance.spend(1, rate, at(0));
        assert_eq!(allowance.available(rate, at(999)), 0);
        assert_eq!(allowance.next_at(rate), at(1_000));
        assert_eq!(allowance.available(rate, at(1_000)), 1);
        assert_eq!(allowance.available(rate, at(3_600_000)), 1);
    }

    #[test]
    fn a_slower_rate_leaves_no_debt_behind() {
        let (slow, quick, mut allowance) = (rate(1), rate(1_000), TokenBucket::default());
        let at = Timestamp::from_ms;
        allowance.spend(1, slow, at(0));
        assert_eq!(allowance.next_at(slow), at(1_000_000));
        allowance.come_under(quick, at(500));
        assert_eq!(allowance.available(quick, at(500)), 0);
        assert_eq!(allowance.next_at(quick), at(1_000));
        allowance.come_under(quick, at(1_500));
        assert_eq!(allowance.available(quick, at(1_500)), 1);
    }

    #[test]
    fn a_clock_that_is_put_back_costs_no_more_than_a_burst() {
        let (rate, mut allowance) = (rate(1_000), TokenBucket::default());
        let at = Timestamp::from_ms;
        allowance.spend(1, rate, at(3_600_000));
        allowance.come_under(rate, at(5_000));
        assert_eq!(allowance.next_at(rate), at(6_000));
    }

    #[test]
    fn a_rate_per_minute_is_rounded_down() {
        for (per_minute, per_1000_s) in [
            (1, 16),
            (60, 1_000),
            (120, 2_000),
            (600_000, 10_000_000),
            (u32::MAX, 10_000_000),
        ] {
            assert_eq!(Rate::per_minute(per_minute), rate(per_1000_s));
        }
        assert_eq!(Rate::per_1000_s(0), None);
        assert_eq!(Rate::per_1000_s(10_000_001), None);
    }
}
