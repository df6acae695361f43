//! Records the outcome and the time of every event.

use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::base::Stopwatch;

/// A flag: the first delivery attempt was answered with an error, as planned.
const FAILED_ONCE: u8 = 0x80;

/// The maximum count of deliveries of one event, and the bit mask of the count. It is enough to detect duplicates.
const DELIVERIES_MAX: u8 = 0x7f;

/// The number of significant digits of latencies.
const DIGITS: u8 = 3;

/// The length of the periods by which events are counted.
pub const SLICE: Duration = Duration::from_millis(100);

/// The records of a run, shared by the publishers and the receiver. Times are microseconds since the start of the run.
#[derive(Debug)]
pub struct Records {
    began: OnceLock<Stopwatch>,
    published: Mutex<PublisherRecords>,
    /// The state of each event by number, one list for each event subscription.
    received: Vec<Mutex<Vec<u8>>>,
    arrivals: Mutex<ReceiverRecords>,
}

/// The publishers' side.
#[derive(Clone, Debug)]
pub struct PublisherRecords {
    /// By event number, whether its request was accepted.
    pub is_accepted: Vec<bool>,
    pub accepted: u64,
    /// Events of requests that were not accepted or got no response.
    pub rejected: u64,
    /// The reason of the first rejection, for the report.
    pub first_rejection: Option<String>,
    pub latency_us: Histogram<u64>,
    /// Events by [`SLICE`].
    pub slices: Vec<u64>,
    pub last_us: u64,
}

/// The receiver's side, over all event subscriptions.
#[derive(Clone, Debug)]
pub struct ReceiverRecords {
    /// First deliveries of an event to a subscription.
    pub delivered: u64,
    /// Repeated deliveries of events that the receiver had already accepted.
    pub duplicates: u64,
    /// Requests that were answered with an error, as planned.
    pub failed: u64,
    /// From publishing to delivery.
    pub latency_us: Histogram<u64>,
    /// Events by [`SLICE`].
    pub slices: Vec<u64>,
    pub last_us: u64,
}

impl Records {
    pub fn new(fan_out: usize) -> Self {
        Self {
            began: OnceLock::new(),
            published: Mutex::new(PublisherRecords {
                is_accepted: Vec::new(),
                accepted: 0,
                rejected: 0,
                first_rejection: None,
                latency_us: histogram(),
                slices: Vec::new(),
                last_us: 0,
            }),
            received: (0..fan_out).map(|_| Mutex::default()).collect(),
            arrivals: Mutex::new(ReceiverRecords {
                delivered: 0,
                duplicates: 0,
                failed: 0,
                latency_us: histogram(),
                slices: Vec::new(),
                last_us: 0,
            }),
        }
    }

    /// Returns the start of the run, which is the first call of this function.
    pub fn began(&self) -> Stopwatch {
        *self.began.get_or_init(Stopwatch::begin)
    }

    /// Microseconds since the start.
    pub fn now_us(&self) -> u64 {
        micros(self.began().took())
    }

    /// Records that a request with these events, due at `due_us`, was accepted now.
    pub fn accept(&self, events: std::ops::Range<u64>, due_us: u64) {
        let now = self.now_us();
        let mut published = self.published.lock().unwrap();
        let count = events.end - events.start;
        let end = index(events.end);
        if published.is_accepted.len() < end {
            published.is_accepted.resize(end, false);
        }
        published.is_accepted[index(events.start)..end].fill(true);
        published.accepted += count;
        published.last_us = now;
        record(&mut published.latency_us, now - due_us.min(now));
        add(&mut published.slices, now, count);
    }

    /// Records that a request with `events` events was not accepted.
    pub fn reject(&self, events: u64, reason: impl FnOnce() -> String) {
        let mut published = self.published.lock().unwrap();
        published.rejected += events;
        published.last_us = self.now_us();
        published.first_rejection.get_or_insert_with(reason);
    }

    /// Records a planned failure of the event; returns whether this was its first delivery attempt.
    pub fn fail_once(&self, subscription: usize, number: u64) -> bool {
        let mut received = self.received[subscription].lock().unwrap();
        let state = state(&mut received, number);
        let is_first = *state == 0;
        *state |= FAILED_ONCE;
        if is_first {
            self.arrivals.lock().unwrap().failed += 1;
        }
        is_first
    }

    /// Records the delivery of an event that was published at `sent_us`.
    pub fn deliver(&self, subscription: usize, number: u64, sent_us: u64) {
        let is_first = {
            let mut received = self.received[subscription].lock().unwrap();
            let state = state(&mut received, number);
            let times = *state & DELIVERIES_MAX;
            *state = (*state & FAILED_ONCE) | (times + 1).min(DELIVERIES_MAX);
            times == 0
        };
        let now = self.now_us();
        let mut arrivals = self.arrivals.lock().unwrap();
        arrivals.last_us = now;
        if is_first {
            arrivals.delivered += 1;
            record(&mut arrivals.latency_us, now - sent_us.min(now));
            add(&mut arrivals.slices, now, 1);
        } else {
            arrivals.duplicates += 1;
        }
    }

    /// Returns the numbers of accepted events and of first deliveries so far.
    pub fn counts(&self) -> (u64, u64) {
        let accepted = self.published.lock().unwrap().accepted;
        (accepted, self.arrivals.lock().unwrap().delivered)
    }

    pub fn published(&self) -> PublisherRecords {
        self.published.lock().unwrap().clone()
    }

    pub fn arrivals(&self) -> ReceiverRecords {
        self.arrivals.lock().unwrap().clone()
    }

    /// Returns the number of missing deliveries of accepted events, over all event subscriptions.
    pub fn missing(&self) -> u64 {
        let published = self.published.lock().unwrap();
        let accepted = published.is_accepted.iter().enumerate();
        let accepted: Vec<usize> = accepted.filter(|(_, is)| **is).map(|(at, _)| at).collect();
        let of_subscription = |received: &Mutex<Vec<u8>>| {
            let guard = received.lock().unwrap();
            let came = |at: &usize| {
                guard
                    .get(*at)
                    .is_some_and(|state| state & DELIVERIES_MAX > 0)
            };
            accepted.iter().filter(|at| !came(at)).count() as u64
        };
        self.received.iter().map(of_subscription).sum()
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new(DIGITS).expect("a number of digits that there is")
}

/// Records a latency. The histogram resizes itself, so every value fits.
fn record(latencies: &mut Histogram<u64>, us: u64) {
    latencies.record(us).expect("it grows");
}

fn state(received: &mut Vec<u8>, number: u64) -> &mut u8 {
    let at = index(number);
    if received.len() <= at {
        received.resize(at + 1, 0);
    }
    &mut received[at]
}

fn add(slices: &mut Vec<u64>, now_us: u64, count: u64) {
    let slice = index(now_us / micros(SLICE));
    if slices.len() <= slice {
        slices.resize(slice + 1, 0);
    }
    slices[slice] += count;
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

pub fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_accounted_for() {
        let records = Records::new(2);
        records.accept(0..3, 0);
        records.reject(1, || "503".to_owned());
        records.deliver(0, 0, 0);
        records.deliver(0, 0, 0);
        assert!(records.fail_once(0, 1));
        assert!(!records.fail_once(0, 1));
        records.deliver(0, 1, 0);
        records.deliver(1, 2, 0);
        // Accepted, though nobody told the publisher.
        records.deliver(1, 7, 0);
        let arrivals = records.arrivals();
        assert_eq!(
            (arrivals.delivered, arrivals.duplicates, arrivals.failed),
            (4, 1, 1)
        );
        assert_eq!(records.missing(), 1 + 2);
        assert_eq!(arrivals.latency_us.len(), 4);
        let published = records.published();
        assert_eq!((published.accepted, published.rejected), (3, 1));
        assert_eq!(published.first_rejection.as_deref(), Some("503"));
    }
}
