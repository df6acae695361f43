//! Reads the counters that [`counters`](crate::store::ledger::counters) writes: totals and time series.

use rusqlite::{Connection, Row, params};

use crate::base::Timestamp;
use crate::model::delivery::DeliveryState;
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;
use crate::store::error::StoreError;
use crate::store::ledger::counters::{LATENCY_BOUNDS_MS, ROLLUP_COUNTS};
use crate::store::ledger::sessions::STATE_BYTES;
use crate::store::sql::{Sql, as_json};

/// The maximum number of slots in a series. A chart shows no more.
pub const SLOTS_MAX: i64 = 400;

/// The number of deliveries of a subscription by state.
///
/// The sum `pending + delivered + dead_lettered + dropped` always equals `matched`, even after old deliveries are
/// pruned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryTotals {
    /// Deliveries ever created, including resubmissions.
    pub matched: u64,
    pub pending: u64,
    pub delivered: u64,
    /// Deliveries ever dead-lettered.
    pub dead_lettered: u64,
    pub dropped: u64,
    /// Dead letters in the queue now.
    pub dead_letters: u64,
    /// Bytes of pending messages, dead-lettered messages, and session states with the names of their sessions.
    pub bytes: u64,
}

impl DeliveryTotals {
    /// Reports whether the counts are consistent.
    pub fn balance(&self) -> bool {
        self.matched == self.pending + self.delivered + self.dead_lettered + self.dropped
            && self.dead_letters <= self.dead_lettered
    }

    /// Returns the sum of two totals.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            matched: self.matched + other.matched,
            pending: self.pending + other.pending,
            delivered: self.delivered + other.delivered,
            dead_lettered: self.dead_lettered + other.dead_lettered,
            dropped: self.dropped + other.dropped,
            dead_letters: self.dead_letters + other.dead_letters,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// A query for the totals of subscriptions.
#[derive(Clone, Debug)]
pub struct TotalsQuery {
    pub subscriptions: Vec<SubscriptionId>,
    /// True if `pending`, `dead_letters` and `bytes` are counted from the rows. Counting is slow and is meant for
    /// checks, not for pages.
    pub recount: bool,
}

/// The scope of a traffic query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficOf {
    Everything,
    Topic(TopicId),
    Subscription(SubscriptionId),
}

/// A query for a series of slots of equal length.
#[derive(Clone, Copy, Debug)]
pub struct TrafficQuery {
    pub of: TrafficOf,
    /// Start of the first slot; a multiple of `step_ms`.
    pub from: Timestamp,
    /// The length of a slot: a multiple of a minute. For times whose counters are rolled up to hours or days, it is a
    /// multiple of an hour or a day.
    pub step_ms: i64,
    /// The number of slots, at most [`SLOTS_MAX`].
    pub slots: i64,
}

impl TrafficQuery {
    /// Returns the query for the series whose last slot contains `now`.
    pub fn until(now: Timestamp, of: TrafficOf, step_ms: i64, slots: i64) -> Self {
        let last = now.as_ms() - now.as_ms().rem_euclid(step_ms);
        let before = (slots - 1).saturating_mul(step_ms);
        Self {
            of,
            from: Timestamp::from_ms(last.saturating_sub(before)),
            step_ms,
            slots,
        }
    }
}

/// The traffic of one slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficSlot {
    pub start_at: Timestamp,
    pub published: u64,
    pub unmatched: u64,
    /// Bytes of the published events' data.
    pub bytes: u64,
    pub matched: u64,
    pub delivered: u64,
    pub dead_lettered: u64,
    pub dropped: u64,
    pub attempts: u64,
    pub latency: Latency,
    /// Pending deliveries at the end of the slot, or now for the current slot. The number is exact only if a roll-up
    /// ends where the slot ends.
    pub pending: u64,
}

impl TrafficSlot {
    /// Returns the sums of the outcomes, attempts and latencies of deliveries over all `slots`.
    pub fn sum(slots: &[Self]) -> Self {
        slots.iter().fold(Self::default(), |sum, slot| Self {
            delivered: sum.delivered + slot.delivered,
            dead_lettered: sum.dead_lettered + slot.dead_lettered,
            dropped: sum.dropped + slot.dropped,
            attempts: sum.attempts + slot.tried(),
            latency: sum.latency.plus(slot.latency),
            ..sum
        })
    }

    /// Returns the number of deliveries that should have succeeded: the deliveries that ended plus the `pending`
    /// deliveries. A backlog thus lowers the success rate.
    pub fn due(&self, pending: u64) -> u64 {
        self.ended() + pending
    }

    /// Returns the number of deliveries that ended, with any outcome.
    pub fn ended(&self) -> u64 {
        self.delivered + self.dead_lettered + self.dropped
    }

    /// Returns the number of pending deliveries at the beginning of the slot.
    pub fn pending_before(&self) -> u64 {
        (self.pending + self.ended()).saturating_sub(self.matched)
    }

    /// Returns the larger of the number of attempts and the number of successful deliveries. An attempt is counted when
    /// it begins and a delivery when it ends. A delivery may end in the slot after the slot in which its attempt began.
    pub fn tried(&self) -> u64 {
        self.attempts.max(self.delivered)
    }

    /// Reports whether all counts of the slot are zero.
    pub fn is_quiet(&self) -> bool {
        self.published + self.matched + self.ended() + self.attempts == 0
    }
}

/// A histogram of the time from publishing to success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// The number of deliveries in each bucket, in the order of [`LATENCY_BOUNDS_MS`].
    buckets: [u64; LATENCY_BOUNDS_MS.len()],
}

impl Latency {
    /// Returns the sum of two histograms.
    #[must_use]
    pub fn plus(mut self, other: Self) -> Self {
        for (sum, more) in self.buckets.iter_mut().zip(other.buckets) {
            *sum += more;
        }
        self
    }

    /// Returns the time within which `share` (`0.0..=1.0`) of the deliveries succeeded, in milliseconds, rounded up to
    /// the next bound of a bucket. Returns `None` if there are no deliveries.
    pub fn within_ms(&self, share: f64) -> Option<Bound> {
        let all: u64 = self.buckets.iter().sum();
        if all == 0 {
            return None;
        }
        let wanted = (all as f64 * share).ceil();
        let mut seen = 0;
        let bucket = self.buckets.iter().position(|count| {
            seen += count;
            seen as f64 >= wanted
        });
        Some(match bucket.map(|bucket| LATENCY_BOUNDS_MS[bucket]) {
            None | Some(i64::MAX) => Bound::Longer,
            Some(ms) => Bound::Within(ms.unsigned_abs()),
        })
    }
}

/// An upper bound of a latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound {
    /// At most this number of milliseconds.
    Within(u64),
    /// Longer than the last bound of the histogram.
    Longer,
}

pub(super) fn all_totals(
    tx: &Connection,
    query: &TotalsQuery,
) -> Result<Vec<DeliveryTotals>, StoreError> {
    let wanted = as_json(query.subscriptions.iter().map(|id| id.0));
    let mut all = tx.all(TOTALS, [wanted], totals)?;
    if !query.recount {
        return Ok(all);
    }
    for (id, totals) in query.subscriptions.iter().zip(&mut all) {
        let count = |state: DeliveryState| {
            let count = format!(
                "SELECT count(*), coalesce(sum(bytes), 0) FROM delivery \
                 WHERE subscription_id = ?1 AND state = '{}'",
                state.name()
            );
            tx.one(&count, [id], |row| Ok((row.get(0)?, row.get(1)?)))
        };
        let (pending, dead_letters): ((_, u64), (_, u64)) = (
            count(DeliveryState::Pending)?,
            count(DeliveryState::DeadLettered)?,
        );
        (totals.pending, totals.dead_letters) = (pending.0, dead_letters.0);
        let states = format!(
            "SELECT coalesce(sum({STATE_BYTES}), 0) FROM message_session WHERE subscription_id = ?1"
        );
        totals.bytes = pending.1 + dead_letters.1 + tx.value::<u64>(&states, [id])?;
    }
    Ok(all)
}

/// Selects the totals of a list of subscriptions, in the order of the list. A subscription without a row has never had
/// a delivery, and its totals are zero.
const TOTALS: &str = "SELECT coalesce(matched, 0), coalesce(pending, 0), coalesce(delivered, 0), \
     coalesce(dead_lettered, 0), coalesce(dropped, 0), coalesce(dead_letters, 0), coalesce(bytes, 0) \
     FROM json_each(?1) AS wanted LEFT JOIN subscription_total ON subscription_id = wanted.value \
     ORDER BY wanted.key";

fn totals(row: &Row<'_>) -> Result<DeliveryTotals, StoreError> {
    Ok(DeliveryTotals {
        matched: row.get(0)?,
        pending: row.get(1)?,
        delivered: row.get(2)?,
        dead_lettered: row.get(3)?,
        dropped: row.get(4)?,
        dead_letters: row.get(5)?,
        bytes: row.get(6)?,
    })
}

pub(super) fn traffic(
    tx: &Connection,
    query: TrafficQuery,
) -> Result<Vec<TrafficSlot>, StoreError> {
    let step = query.step_ms.max(1);
    let start = |slot: i64| query.from.as_ms() + slot * step;
    let count = query.slots.clamp(0, SLOTS_MAX);
    let mut slots: Vec<TrafficSlot> = (0..count)
        .map(|slot| TrafficSlot::empty(Timestamp::from_ms(start(slot))))
        .collect();
    let (whose_topics, whose_subscriptions, id) = match query.of {
        TrafficOf::Everything => ("?4 IS NULL", "?4 IS NULL", None),
        TrafficOf::Topic(id) => (
            "topic_id = ?4",
            "subscription_id IN (SELECT id FROM event_subscription WHERE topic_id = ?4)",
            Some(id.0),
        ),
        TrafficOf::Subscription(id) => ("?4 IS NULL AND FALSE", "subscription_id = ?4", Some(id.0)),
    };
    let values = params![query.from.as_ms(), start(count), step, id];
    let topics = format!(
        "SELECT (start_at - ?1) / ?3, sum(published), sum(unmatched), sum(data_bytes) FROM topic_rollup \
         WHERE start_at >= ?1 AND start_at < ?2 AND {whose_topics} GROUP BY 1"
    );
    tx.all(&topics, values, |row| {
        if let Some(slot) = slot_of(row, &mut slots)? {
            slot.published = row.get(1)?;
            slot.unmatched = row.get(2)?;
            slot.bytes = row.get(3)?;
        }
        Ok(())
    })?;
    let sums: String = ROLLUP_COUNTS
        .iter()
        .map(|count| format!(", sum({count})"))
        .collect();
    let subscriptions = format!(
        "SELECT (start_at - ?1) / ?3{sums} FROM subscription_rollup \
         WHERE start_at >= ?1 AND start_at < ?2 AND {whose_subscriptions} GROUP BY 1"
    );
    tx.all(&subscriptions, values, |row| {
        if let Some(slot) = slot_of(row, &mut slots)? {
            slot.matched = row.get(1)?;
            slot.delivered = row.get(2)?;
            slot.dead_lettered = row.get(3)?;
            slot.dropped = row.get(4)?;
            slot.attempts = row.get(5)?;
            for (at, deliveries) in slot.latency.buckets.iter_mut().enumerate() {
                *deliveries = row.get(6 + at)?;
            }
        }
        Ok(())
    })?;
    let pending = format!(
        "SELECT max(0, coalesce(sum(pending), 0) - (SELECT coalesce(sum(matched - delivered - \
         dead_lettered - dropped), 0) FROM subscription_rollup WHERE start_at >= ?2 AND {whose_subscriptions})) \
         FROM subscription_total WHERE {whose_subscriptions}"
    );
    look_back(&mut slots, tx.value(&pending, values)?);
    Ok(slots)
}

/// Sets the number of pending deliveries at the end of each slot. Begins with `now`, the number at the end of the last
/// slot, and goes backwards: adds the deliveries that ended in a slot and subtracts the deliveries created in it. The
/// result is exact, because each delivery is counted once when it is created and once when it ends.
fn look_back(slots: &mut [TrafficSlot], now: u64) {
    let mut pending = now;
    for slot in slots.iter_mut().rev() {
        slot.pending = pending;
        pending = slot.pending_before();
    }
}

fn slot_of<'a>(
    row: &Row<'_>,
    slots: &'a mut [TrafficSlot],
) -> rusqlite::Result<Option<&'a mut TrafficSlot>> {
    let index: i64 = row.get(0)?;
    Ok(usize::try_from(index)
        .ok()
        .and_then(|index| slots.get_mut(index)))
}

impl TrafficSlot {
    /// Creates a slot whose counts are zero.
    pub fn empty(start_at: Timestamp) -> Self {
        Self {
            start_at,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_bounds_of_their_buckets() {
        let mut latency = Latency::default();
        assert_eq!(latency.within_ms(0.5), None);
        latency.buckets[0] = 98; // within 5 ms
        latency.buckets[7] = 1; // within 1 s
        latency.buckets[LATENCY_BOUNDS_MS.len() - 1] = 1;
        for (share, expected) in [
            (0.0, Bound::Within(5)),
            (0.5, Bound::Within(5)),
            (0.98, Bound::Within(5)),
            (0.99, Bound::Within(1_000)),
            (1.0, Bound::Longer),
        ] {
            assert_eq!(latency.within_ms(share), Some(expected), "{share}");
        }
    }

    #[test]
    fn what_waited_is_told_from_what_waits_and_what_came_and_went() {
        let slot = |matched, delivered, dead_lettered, dropped| TrafficSlot {
            matched,
            delivered,
            dead_lettered,
            dropped,
            ..TrafficSlot::empty(Timestamp::from_ms(0))
        };
        let mut slots = [slot(5, 1, 0, 0), slot(0, 0, 1, 2), slot(3, 0, 0, 0)];
        look_back(&mut slots, 6);
        assert_eq!(slots.map(|slot| slot.pending), [6, 3, 6]);
        assert_eq!(slots[0].pending_before(), 2);
    }

    #[test]
    fn totals_balance_or_do_not() {
        let mut totals = DeliveryTotals {
            matched: 10,
            pending: 1,
            delivered: 5,
            dead_lettered: 3,
            dropped: 1,
            dead_letters: 2,
            bytes: 0,
        };
        assert!(totals.balance());
        totals.dead_letters = 4;
        assert!(!totals.balance());
        totals.dead_letters = 3;
        totals.delivered = 6;
        assert!(!totals.balance());
        assert_eq!(totals.plus(totals).delivered, 12);
    }
}
