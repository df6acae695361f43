//! Counters for lists and pages, updated in one transaction with the rows that they count.
//!
//! All code that changes the state or the attempts of a delivery must count the change here. Database triggers would
//! count every change, but would make each change of a delivery keep a journal of whole pages. Simulations verify the
//! counters by a recount after each step. The counts of a group of changes are added up in memory and written once,
//! right before the commit. This writes a few rows, no matter how many events the group has.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, Mutex};

use rusqlite::{Connection, Row, params, params_from_iter};

use crate::base::Timestamp;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::delivery::{DeliveryId, DeliveryState};
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;
use crate::store::engine::db::WriteTx;
use crate::store::error::StoreError;
use crate::store::ledger::notices::is_subscribed;
use crate::store::ledger::sessions::STATE_BYTES;
use crate::store::sql::Sql;

/// Upper bounds of the latency buckets, in milliseconds from publishing to delivery. They range from the latency of a
/// fast disk over the delays of the retry schedule to the one-day time to live in Event Grid (rule 7.1). The last
/// bucket counts all longer latencies.
pub(in crate::store) const LATENCY_BOUNDS_MS: [i64; 23] = [
    5,
    10,
    25,
    50,
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    15_000,
    30_000,
    60_000,
    120_000,
    300_000,
    600_000,
    1_200_000,
    3_600_000,
    7_200_000,
    21_600_000,
    43_200_000,
    DAY_MS,
    i64::MAX,
];

/// The names of the counts in a subscription's roll-ups, in the order of their columns.
pub(in crate::store) static ROLLUP_COUNTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let outcomes = [
        "matched",
        "delivered",
        "dead_lettered",
        "dropped",
        "attempts",
    ];
    let latencies = LATENCY_BOUNDS_MS.map(|bound| match bound {
        i64::MAX => "longer".to_owned(),
        bound => format!("within_{bound}"),
    });
    outcomes
        .map(str::to_owned)
        .into_iter()
        .chain(latencies)
        .collect()
});

const MINUTE_MS: i64 = 60_000;
pub(in crate::store) const HOUR_MS: i64 = 60 * MINUTE_MS;
pub(in crate::store) const DAY_MS: i64 = 24 * HOUR_MS;

/// The counts that are not written yet.
#[derive(Debug, Default)]
pub(in crate::store) struct UnwrittenCounts {
    rows: BTreeMap<CounterKey, [i64; COUNTS]>,
    /// New dead letters, by subscription and reason.
    dead_lettered: BTreeMap<(i64, DeadLetterReason), AddedDeadLetters>,
    /// Subscriptions whose totals were deleted.
    gone: Vec<i64>,
}

/// A row of a table of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CounterKey {
    /// The total of a subscription.
    Total(i64),
    /// The counts of messages in the row of a queue's total: their bytes, and the highest number given to a message.
    /// Deliveries that are not messages of a queue have neither count.
    Messages(i64),
    /// The roll-up of a subscription that begins with this minute.
    Rollup(i64, i64),
    /// One latency bucket in the row of a roll-up, by its index in [`LATENCY_BOUNDS_MS`]. Only the first count is used.
    Latency(i64, i64, usize),
    /// The roll-up of a topic that begins with this minute: published, unmatched, bytes.
    Topic(i64, i64),
    /// The dead letters of a subscription with one reason on one day. Only the first count is used.
    DeadLetters(i64, DeadLetterReason, i64),
}

/// The first index of the counts that totals and roll-ups share.
const MATCHED: usize = 0;
const DELIVERED: usize = 1;
const DEAD_LETTERED: usize = 2;
const DROPPED: usize = 3;
/// The first index of the counts that only totals have.
const PENDING: usize = 4;
const DEAD_LETTERS: usize = 5;
const KEPT: usize = 6;
/// The first index of the counts of the messages of a queue.
const BYTES: usize = 0;
const NUMBERED: usize = 1;
/// The index of the attempts, which only roll-ups have. It equals the index of [`PENDING`], which only totals have.
const ATTEMPTS: usize = 4;
const COUNTS: usize = 7;

/// The index of the first latency bucket in the row of a roll-up, after the other counts.
const LATENCIES: usize = ATTEMPTS + 1;
const ROLLUP_COLUMNS: usize = LATENCIES + LATENCY_BOUNDS_MS.len();

/// The bytes and the highest message number of each queue after the last commit. They are kept in memory, because every
/// send reads them. All clones share one map.
#[derive(Clone, Debug, Default)]
pub(in crate::store) struct QueueSums(Arc<Mutex<HashMap<i64, QueueSum>>>);

#[derive(Clone, Copy, Debug, Default)]
struct QueueSum {
    bytes: i64,
    /// The highest number of a message.
    numbered: i64,
}

impl QueueSums {
    /// Loads the stored sums. The highest number is at least that of the stored messages, so that no number is given
    /// twice if a total is too low.
    pub(in crate::store) fn load(&self, tx: &Connection) {
        let stored = "SELECT subscription_id, bytes, max(numbered, \
                 coalesce((SELECT max(number) FROM delivery WHERE delivery.subscription_id = total.subscription_id \
                     AND state = 'Pending' AND number IS NOT NULL), 0), \
                 coalesce((SELECT max(number) FROM delivery WHERE delivery.subscription_id = total.subscription_id \
                     AND state = 'DeadLettered' AND number IS NOT NULL), 0)) AS highest \
             FROM subscription_total AS total WHERE bytes <> 0 OR highest > 0";
        let sum = |row: &Row<'_>| {
            let (bytes, numbered) = (row.get(1)?, row.get(2)?);
            Ok((row.get(0)?, QueueSum { bytes, numbered }))
        };
        match tx.all(stored, [], sum) {
            Ok(stored) => *self.0.lock().unwrap() = stored.into_iter().collect(),
            Err(error) => {
                tracing::error!(%error, "queues count as empty, so they may grow beyond their sizes");
            }
        }
    }

    /// Adds the counts of a group after its commit.
    pub(in crate::store) fn add(&self, counts: &UnwrittenCounts) {
        let messages = CounterKey::Messages(i64::MIN)..=CounterKey::Messages(i64::MAX);
        let mut changed = counts.rows.range(messages).peekable();
        if changed.peek().is_none() && counts.gone.is_empty() {
            return; // as with nearly every group
        }
        let mut queues = self.0.lock().unwrap();
        for (key, [bytes, numbered, ..]) in changed {
            if let CounterKey::Messages(of) = key {
                let sum = queues.entry(*of).or_default();
                sum.bytes += bytes;
                sum.numbered += numbered;
                debug_assert!(*numbered >= 0, "no number is given twice");
            }
        }
        for of in &counts.gone {
            queues.remove(of);
        }
    }

    /// Returns the bytes of all messages in these queues.
    pub(super) fn of(&self, queues: &[SubscriptionId]) -> u64 {
        let sums = self.0.lock().unwrap();
        let bytes = queues
            .iter()
            .filter_map(|id| sums.get(&id.0))
            .map(|sum| sum.bytes);
        bytes.sum::<i64>().max(0).unsigned_abs()
    }

    /// Returns the highest number that was given to a message of the queue.
    pub(in crate::store) fn numbered(&self, queue: SubscriptionId) -> i64 {
        self.0
            .lock()
            .unwrap()
            .get(&queue.0)
            .map_or(0, |sum| sum.numbered)
    }
}

/// The bytes by which each queue may grow in one change. A queue that is not in the map is full.
#[derive(Clone, Debug, Default)]
pub struct QueueRoom(HashMap<SubscriptionId, u64>);

impl FromIterator<(SubscriptionId, u64)> for QueueRoom {
    fn from_iter<T: IntoIterator<Item = (SubscriptionId, u64)>>(rooms: T) -> Self {
        Self(rooms.into_iter().collect())
    }
}

impl QueueRoom {
    /// Subtracts the bytes by which a queue grows, or adds the bytes by which it shrinks. Returns `false` and changes
    /// nothing if the queue has not enough room.
    pub(super) fn take(&mut self, queue: SubscriptionId, growth: i64) -> bool {
        let room = self.0.entry(queue).or_default();
        let bytes = growth.unsigned_abs();
        let left = if growth > 0 {
            room.checked_sub(bytes)
        } else {
            Some(room.saturating_add(bytes))
        };
        *room = left.unwrap_or(*room);
        left.is_some()
    }
}

/// New dead letters of one subscription with one reason.
#[derive(Clone, Copy, Debug)]
struct AddedDeadLetters {
    count: i64,
    first_at: i64,
    last_at: i64,
    last_delivery: i64,
}

impl UnwrittenCounts {
    fn count(&mut self, key: CounterKey, count: usize, by: i64) {
        self.rows.entry(key).or_default()[count] += by;
    }

    /// Counts a new event.
    pub(in crate::store) fn event(
        &mut self,
        topic: TopicId,
        at: Timestamp,
        matched: usize,
        bytes: usize,
    ) {
        let key = CounterKey::Topic(topic.0, start_of(at.as_ms(), MINUTE_MS));
        self.count(key, 0, 1);
        self.count(key, 1, i64::from(matched == 0));
        self.count(key, 2, i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Counts an attempt that begins at `at` and changes nothing else of the delivery.
    pub(in crate::store) fn attempt(&mut self, of: SubscriptionId, at: Timestamp) {
        let key = CounterKey::Rollup(of.0, start_of(at.as_ms(), MINUTE_MS));
        self.count(key, ATTEMPTS, 1);
    }

    /// Counts the addition, change or deletion of a delivery.
    pub(in crate::store) fn delivery(&mut self, row: &DeliveryChange) {
        row.assert_possible();
        if let (Some(old), Some(new)) = (&row.old, &row.new)
            && (old.state, old.attempts) == (new.state, new.attempts)
        {
            return;
        }
        if let Some(old) = &row.old {
            self.leave(row, old);
        }
        if let Some(new) = &row.new {
            self.enter(row, new);
        }
    }

    /// Subtracts the old version of a delivery from the counts of existing deliveries.
    fn leave(&mut self, row: &DeliveryChange, old: &DeliveryVersion) {
        self.queue(row, old, -1);
        if row.new.is_none() {
            let total = CounterKey::Total(row.subscription.0);
            self.count(total, KEPT, -1);
            // `matched` equals the sum of pending and ended deliveries, so the deletion of a pending one lowers both.
            if old.state == DeliveryState::Pending {
                self.count(total, MATCHED, -1);
            }
        }
    }

    /// Adds `by` to the counts of pending deliveries or dead letters, depending on the state of the delivery.
    fn queue(&mut self, row: &DeliveryChange, version: &DeliveryVersion, by: i64) {
        let total = CounterKey::Total(row.subscription.0);
        match version.state {
            DeliveryState::Pending => {
                self.count(total, PENDING, by);
                self.bytes(row, by);
            }
            DeliveryState::DeadLettered => {
                self.count(total, DEAD_LETTERS, by);
                self.bytes(row, by);
                let ended_at = version.ended_at.map_or(0, Timestamp::as_ms);
                let day = start_of(ended_at, DAY_MS);
                if let Some(reason) = version.reason {
                    self.count(
                        CounterKey::DeadLetters(row.subscription.0, reason, day),
                        0,
                        by,
                    );
                }
            }
            DeliveryState::Delivered
            | DeliveryState::Dropped
            | DeliveryState::Resubmitted
            | DeliveryState::Removed => (),
        }
    }

    fn bytes(&mut self, row: &DeliveryChange, by: i64) {
        if let Some(bytes) = row.bytes {
            self.count(
                CounterKey::Messages(row.subscription.0),
                BYTES,
                by * i64::from(bytes),
            );
        }
    }

    /// Counts a growth in bytes of a message of a queue, or of the state of a session of the queue.
    pub(in crate::store) fn grow(&mut self, queue: SubscriptionId, growth: i64) {
        self.count(CounterKey::Total(queue.0), MATCHED, 0); // the row in which the bytes stand
        self.count(CounterKey::Messages(queue.0), BYTES, growth);
    }

    /// Counts numbers that were given to messages of a queue.
    pub(in crate::store) fn numbers(&mut self, queue: SubscriptionId, count: i64) {
        self.count(CounterKey::Total(queue.0), MATCHED, 0); // the row in which the highest one stands
        self.count(CounterKey::Messages(queue.0), NUMBERED, count);
    }

    /// Returns how many numbers were given to messages of the queue in these counts.
    pub(in crate::store) fn numbered(&self, queue: SubscriptionId) -> i64 {
        let counts = self.rows.get(&CounterKey::Messages(queue.0));
        counts.map_or(0, |counts| counts[NUMBERED])
    }

    fn enter(&mut self, row: &DeliveryChange, new: &DeliveryVersion) {
        self.queue(row, new, 1);
        if row.old.is_none() {
            self.count(CounterKey::Total(row.subscription.0), MATCHED, 1);
            self.count(CounterKey::Total(row.subscription.0), KEPT, 1);
            self.count(row.rollup(row.published_at), MATCHED, 1);
            if row.bytes.is_some() {
                self.count(CounterKey::Messages(row.subscription.0), NUMBERED, 1);
            }
        }
        let before = row.old.as_ref().map_or(0, |old| old.attempts);
        let attempts = i64::from(new.attempts) - i64::from(before);
        // An attempt that was counted but not made is subtracted from the roll-up in which it was counted.
        if attempts != 0 {
            let at = row.last_attempt_at.unwrap_or(row.published_at);
            self.count(row.rollup(at), ATTEMPTS, attempts);
        }
        let old = row.old.as_ref();
        let was_pending = old.is_none_or(|old| old.state == DeliveryState::Pending);
        if let Some(ended_at) = new.ended_at.filter(|_| was_pending) {
            self.end(row, new, ended_at);
        }
    }

    fn end(&mut self, row: &DeliveryChange, new: &DeliveryVersion, ended_at: Timestamp) {
        let count = match new.state {
            DeliveryState::Delivered => DELIVERED,
            DeliveryState::Dropped => DROPPED,
            DeliveryState::Pending
            | DeliveryState::DeadLettered
            | DeliveryState::Resubmitted
            | DeliveryState::Removed => DEAD_LETTERED,
        };
        self.count(CounterKey::Total(row.subscription.0), count, 1);
        self.count(row.rollup(ended_at), count, 1);
        if new.state == DeliveryState::Delivered {
            let bucket = bucket(ended_at.as_ms() - row.published_at.as_ms());
            let start_at = start_of(ended_at.as_ms(), MINUTE_MS);
            self.count(
                CounterKey::Latency(row.subscription.0, start_at, bucket),
                0,
                1,
            );
        }
        if let Some(reason) = new.reason {
            let added = AddedDeadLetters::one(row.id.0, ended_at.as_ms());
            self.note_added(row.subscription.0, reason, added);
        }
    }

    fn note_added(&mut self, subscription: i64, reason: DeadLetterReason, later: AddedDeadLetters) {
        let so_far = self.dead_lettered.entry((subscription, reason));
        so_far.and_modify(|sum| sum.add(later)).or_insert(later);
    }

    /// Adds the counts of later changes.
    pub(in crate::store) fn add(&mut self, later: UnwrittenCounts) {
        for (key, counts) in later.rows {
            for (sum, more) in self.rows.entry(key).or_default().iter_mut().zip(counts) {
                *sum += more;
            }
        }
        for ((subscription, reason), added) in later.dead_lettered {
            self.note_added(subscription, reason, added);
        }
        self.gone.extend(later.gone);
    }

    /// Records that the totals of a subscription are deleted.
    pub(in crate::store) fn forget(&mut self, subscription: i64) {
        self.gone.push(subscription);
    }

    /// Writes the counts, in the open transaction.
    pub(in crate::store) fn write(&self, tx: &Connection) -> rusqlite::Result<()> {
        for (key, counts) in &self.rows {
            self.write_row(tx, *key, *counts)?;
        }
        // Skips subscriptions of built-in topics, whose topic ids are negative. A dead-lettered notice would otherwise
        // cause another notice.
        let note = format!(
            "INSERT INTO dead_letter_notice \
                 (subscription_id, reason, dead_letters, first_at, last_at, last_delivery_id) \
             SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE {} \
                 AND EXISTS (SELECT 1 FROM event_subscription WHERE id = ?1 AND topic_id > 0) \
             ON CONFLICT DO UPDATE SET first_at = CASE dead_letters WHEN 0 THEN ?4 ELSE first_at END, \
                 dead_letters = dead_letters + ?3, last_at = ?5, last_delivery_id = ?6",
            is_subscribed()
        );
        for ((subscription, reason), added) in &self.dead_lettered {
            let (first, last) = (added.first_at, added.last_at);
            let last_id = added.last_delivery;
            tx.run(
                &note,
                params![subscription, reason, added.count, first, last, last_id],
            )?;
        }
        Ok(())
    }

    fn write_row(
        &self,
        tx: &Connection,
        key: CounterKey,
        counts: [i64; COUNTS],
    ) -> rusqlite::Result<()> {
        let [first, second, third, fourth, fifth, sixth, seventh] = counts;
        match key {
            CounterKey::Total(of) => tx.run(
                ADD_TOTAL,
                [of, first, second, third, fourth, fifth, sixth, seventh],
            ),
            // Keys of messages are ordered after all totals, so the row of the total exists.
            CounterKey::Messages(of) => tx.run(ADD_MESSAGES, [of, first, second]),
            CounterKey::Rollup(of, start_at) => {
                let key = [of, start_at].into_iter();
                let row = key.chain(self.rollup(of, start_at, counts));
                tx.run(&ADD_ROLLUP, params_from_iter(row))
            }
            CounterKey::Latency(of, start_at, _) => {
                debug_assert!(
                    self.rows.contains_key(&CounterKey::Rollup(of, start_at)),
                    "a latency is written with its roll-up, which counts the same delivery"
                );
                Ok(0)
            }
            CounterKey::Topic(of, start_at) => {
                tx.run(ADD_TOPIC_ROLLUP, [of, start_at, first, second, third])
            }
            CounterKey::DeadLetters(of, reason, day) => {
                if first != 0 {
                    tx.run(ADD_DEAD_LETTERS, params![of, reason, day, first])?;
                }
                if first < 0 {
                    tx.run(DELETE_EMPTY, params![of, reason, day])
                } else {
                    Ok(0)
                }
            }
        }
        .map(drop)
    }

    /// Returns the values of the count columns in the row of a roll-up.
    fn rollup(&self, of: i64, start_at: i64, counts: [i64; COUNTS]) -> [i64; ROLLUP_COLUMNS] {
        let mut columns = [0; ROLLUP_COLUMNS];
        columns[..LATENCIES].copy_from_slice(&counts[..LATENCIES]);
        let latencies =
            CounterKey::Latency(of, start_at, 0)..=CounterKey::Latency(of, start_at, usize::MAX);
        for (key, [deliveries, ..]) in self.rows.range(latencies) {
            if let CounterKey::Latency(.., bucket) = key {
                columns[LATENCIES + bucket] = *deliveries;
            }
        }
        columns
    }
}

impl AddedDeadLetters {
    fn one(delivery: i64, at: i64) -> Self {
        Self {
            count: 1,
            first_at: at,
            last_at: at,
            last_delivery: delivery,
        }
    }

    fn add(&mut self, later: Self) {
        debug_assert!(later.count > 0, "dead letters are added, never taken back");
        self.count += later.count;
        self.last_at = later.last_at;
        self.last_delivery = later.last_delivery;
    }
}

/// Returns the start of the period of `length_ms` that contains `at`, such as a minute, an hour or a day.
fn start_of(at: i64, length_ms: i64) -> i64 {
    at - at.rem_euclid(length_ms)
}

/// Returns the index of the first bound that the latency does not exceed.
fn bucket(latency_ms: i64) -> usize {
    LATENCY_BOUNDS_MS.partition_point(|bound| *bound < latency_ms)
}

const ADD_TOTAL: &str = "INSERT INTO subscription_total \
         (subscription_id, matched, delivered, dead_lettered, dropped, pending, dead_letters, kept) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) \
     ON CONFLICT DO UPDATE SET matched = matched + ?2, delivered = delivered + ?3, \
     dead_lettered = dead_lettered + ?4, dropped = dropped + ?5, pending = pending + ?6, \
     dead_letters = dead_letters + ?7, kept = kept + ?8";
const ADD_MESSAGES: &str = "UPDATE subscription_total SET bytes = bytes + ?2, \
     numbered = numbered + ?3 WHERE subscription_id = ?1";
/// Adds counts to a roll-up. The lists have no spaces, because the statement cache copies the text at each execution.
static ADD_ROLLUP: LazyLock<String> = LazyLock::new(|| {
    let values: String = (3..3 + ROLLUP_COLUMNS)
        .map(|at| format!(",?{at}"))
        .collect();
    let add = |(at, count): (usize, &String)| format!("{count}={count}+?{}", at + 3);
    let sums: Vec<String> = ROLLUP_COUNTS.iter().enumerate().map(add).collect();
    format!(
        "INSERT INTO subscription_rollup VALUES (?1, ?2{values}) ON CONFLICT DO UPDATE SET {}",
        sums.join(",")
    )
});
const ADD_TOPIC_ROLLUP: &str = "INSERT INTO topic_rollup VALUES (?1, ?2, ?3, ?4, ?5) \
     ON CONFLICT DO UPDATE SET published = published + ?3, unmatched = unmatched + ?4, \
     data_bytes = data_bytes + ?5";
const ADD_DEAD_LETTERS: &str = "INSERT INTO dead_letter_total VALUES (?1, ?2, ?3, ?4) \
     ON CONFLICT DO UPDATE SET dead_letters = dead_letters + ?4";
const DELETE_EMPTY: &str = "DELETE FROM dead_letter_total \
     WHERE subscription_id = ?1 AND reason = ?2 AND day_at = ?3 AND dead_letters <= 0";

/// A change of a delivery, limited to the values that the counters need.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct DeliveryChange {
    pub(in crate::store) id: DeliveryId,
    pub(in crate::store) subscription: SubscriptionId,
    pub(in crate::store) published_at: Timestamp,
    pub(in crate::store) last_attempt_at: Option<Timestamp>,
    /// The bytes of the message after the change; `None` if the delivery is not a message of a queue.
    /// [`UnwrittenCounts::grow`] has already counted any growth.
    pub(in crate::store) bytes: Option<u32>,
    /// The delivery before the change; `None` for a new delivery.
    pub(in crate::store) old: Option<DeliveryVersion>,
    /// The delivery after the change; `None` for a deleted delivery.
    pub(in crate::store) new: Option<DeliveryVersion>,
}

/// A delivery before or after a change, limited to the values that the counters need.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct DeliveryVersion {
    pub(in crate::store) state: DeliveryState,
    pub(in crate::store) attempts: u32,
    pub(in crate::store) ended_at: Option<Timestamp>,
    /// The reason, if it is a dead letter.
    pub(in crate::store) reason: Option<DeadLetterReason>,
}

impl DeliveryVersion {
    /// Returns the version of a pending delivery after the given number of attempts.
    pub(in crate::store) fn pending(attempts: u32) -> Self {
        Self {
            state: DeliveryState::Pending,
            attempts,
            ended_at: None,
            reason: None,
        }
    }
}

impl DeliveryChange {
    /// Checks, in debug builds, that the change is allowed: an ended delivery stays ended, and only a dead letter may
    /// still change its state.
    fn assert_possible(&self) {
        debug_assert!(
            self.old.is_some() || self.new.is_some(),
            "a change is of a delivery that was there before or is there now"
        );
        for version in self.old.iter().chain(&self.new) {
            let is_pending = version.state == DeliveryState::Pending;
            debug_assert_eq!(
                is_pending,
                version.ended_at.is_none(),
                "a delivery has a time of its end exactly if it has ended: {self:?}"
            );
            let is_dead_letter = version.state == DeliveryState::DeadLettered;
            debug_assert_eq!(
                is_dead_letter,
                version.reason.is_some(),
                "dead letters, and they alone, have a reason: {self:?}"
            );
        }
        if let (Some(old), Some(new)) = (&self.old, &self.new) {
            let may_change = match old.state {
                DeliveryState::Pending => true,
                DeliveryState::DeadLettered => new.state != DeliveryState::Pending,
                DeliveryState::Delivered
                | DeliveryState::Dropped
                | DeliveryState::Resubmitted
                | DeliveryState::Removed => new.state == old.state,
            };
            debug_assert!(may_change, "an ended delivery stays ended: {self:?}");
        }
    }

    fn rollup(&self, at: Timestamp) -> CounterKey {
        CounterKey::Rollup(self.subscription.0, start_of(at.as_ms(), MINUTE_MS))
    }
}

/// Runs a change of one delivery and counts it. It reads the delivery before and after the change, so it is only for
/// changes that are not made for every delivery.
pub(in crate::store) fn counted<T, E: From<StoreError>>(
    tx: &WriteTx,
    id: DeliveryId,
    change: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let before = look(tx, id)?;
    let done = change()?;
    let after = look(tx, id)?;
    let either = after.as_ref().or(before.as_ref());
    if let Some((subscription, published_at, last_attempt_at, bytes, _)) = either {
        tx.counts().delivery(&DeliveryChange {
            id,
            subscription: *subscription,
            published_at: *published_at,
            last_attempt_at: *last_attempt_at,
            bytes: *bytes,
            old: before.map(|(.., version)| version),
            new: after.map(|(.., version)| version),
        });
    }
    Ok(done)
}

type Looked = (
    SubscriptionId,
    Timestamp,
    Option<Timestamp>,
    Option<u32>,
    DeliveryVersion,
);

fn look(tx: &Connection, id: DeliveryId) -> Result<Option<Looked>, StoreError> {
    let look = "SELECT subscription_id, published_at, last_attempt_at, state, attempts, ended_at, \
         dead_letter_reason, bytes FROM delivery WHERE id = ?1";
    tx.first(look, [id], |row| {
        let state = row.get(3)?;
        let is_dead_letter = state == DeliveryState::DeadLettered;
        let version = DeliveryVersion {
            state,
            attempts: row.get(4)?,
            ended_at: row.get(5)?,
            reason: is_dead_letter.then(|| row.get(6)).transpose()?,
        };
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(7)?, version))
    })
}

/// Condition for totals of deleted subscriptions that still have pending deliveries, dead-lettered messages or session
/// states. The index `subscription_total_left` must have exactly this condition.
pub(super) const HAS_LEFT: &str = "total.deleted = 1 AND (total.pending > 0 OR total.bytes > 0 \
     OR total.numbered > 0 AND total.dead_letters > 0)";

/// Returns the statement that marks the totals of event subscriptions as deleted if `condition` is true for the
/// subscription. Also marks the totals of the transfer queues of these subscriptions.
pub(in crate::store) fn mark_deleted(condition: &str) -> String {
    format!(
        "INSERT INTO subscription_total (subscription_id, matched, pending, delivered, dead_lettered, \
             dropped, dead_letters, deleted) \
         SELECT id * sign.column1, 0, 0, 0, 0, 0, 0, 1 \
         FROM event_subscription CROSS JOIN (VALUES (1), (-1)) AS sign WHERE {condition} \
         ON CONFLICT DO UPDATE SET deleted = 1"
    )
}

/// Updates the counts of existing deliveries after a salvage that may have lost some. Counts of past deliveries keep
/// their values.
pub(in crate::store) fn mend(tx: &Connection) -> Result<(), StoreError> {
    tx.execute_batch(&format!(
        "INSERT INTO subscription_total
            SELECT subscription_id, 0, 0, count(*) FILTER (WHERE state = 'Delivered'),
                count(*) FILTER (WHERE state IN ('DeadLettered', 'Resubmitted', 'Removed')),
                count(*) FILTER (WHERE state = 'Dropped'), 0, 0, coalesce(max(number), 0), 0, 0
            FROM delivery WHERE subscription_id NOT IN (SELECT subscription_id FROM subscription_total)
            GROUP BY subscription_id;
         UPDATE subscription_total SET
            pending = (SELECT count(*) FROM delivery
                WHERE subscription_id = subscription_total.subscription_id AND state = 'Pending'),
            dead_letters = (SELECT count(*) FROM delivery
                WHERE subscription_id = subscription_total.subscription_id AND state = 'DeadLettered'),
            bytes = (SELECT coalesce(sum(bytes), 0) FROM delivery
                WHERE subscription_id = subscription_total.subscription_id
                AND (state = 'Pending' OR state = 'DeadLettered'))
                + (SELECT coalesce(sum({STATE_BYTES}), 0) FROM message_session
                WHERE subscription_id = subscription_total.subscription_id);
         UPDATE subscription_total SET matched = pending + delivered + dead_lettered + dropped, kept = 0;
         UPDATE subscription_total SET kept = found.kept
            FROM (SELECT subscription_id, count(*) AS kept FROM delivery GROUP BY subscription_id) AS found
            WHERE found.subscription_id = subscription_total.subscription_id;
         {};
         DELETE FROM dead_letter_total;
         INSERT INTO dead_letter_total
            SELECT subscription_id, dead_letter_reason, ended_at - ended_at % {DAY_MS}, count(*)
            FROM delivery WHERE state = 'DeadLettered' GROUP BY 1, 2, 3;",
        mark_deleted("deleted_at IS NOT NULL")
    ))?;
    Ok(())
}
