//! Counters for lists and pages, updated in the transaction that changes what they count.
//!
//! Triggers on the writer's connection report every changed row of `event` and `delivery`, so no way of
//! changing a delivery can forget to count it. The changes of a group are added up in memory and written
//! once, right before its commit: a few rows, however many events the group has.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::{Connection, params};

use crate::model::delivery::DeliveryState;
use crate::model::system_topic::SystemTopic;

/// Upper bounds of the latency buckets, in milliseconds from publishing to delivery: from a fast disk's over
/// those of the retry schedule to the day that a delivery lives in Event Grid (rule 7.1). The last bucket holds
/// whatever took longer.
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

pub(super) const MINUTE_MS: i64 = 60_000;
pub(in crate::store) const HOUR_MS: i64 = 60 * MINUTE_MS;
pub(in crate::store) const DAY_MS: i64 = 24 * HOUR_MS;

/// Counts what changes on one connection.
pub(in crate::store) struct Counters {
    counts: Arc<Mutex<Counts>>,
}

/// What was counted and is not written yet.
#[derive(Debug, Default)]
pub(in crate::store) struct Counts {
    totals: HashMap<i64, Total>,
    subscriptions: HashMap<(i64, i64), Rollup>,
    topics: HashMap<(i64, i64), TopicRollup>,
    dead_letters: HashMap<(i64, String, i64), i64>,
    /// By subscription and reason.
    dead_lettered: HashMap<(i64, String), Added>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Total {
    matched: i64,
    pending: i64,
    delivered: i64,
    dead_lettered: i64,
    dropped: i64,
    dead_letters: i64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Rollup {
    matched: i64,
    delivered: i64,
    dead_lettered: i64,
    dropped: i64,
    attempts: i64,
    latencies: [i64; LATENCY_BOUNDS_MS.len()],
}

/// New dead letters.
#[derive(Clone, Copy, Debug)]
struct Added {
    count: i64,
    first_at: i64,
    last_at: i64,
    last_delivery: i64,
}

#[derive(Clone, Copy, Debug, Default)]
struct TopicRollup {
    published: i64,
    unmatched: i64,
    bytes: i64,
}

/// Temporary triggers of this connection; they are not stored in the file.
const TRIGGERS: &str = "
    CREATE TEMP TRIGGER event_made AFTER INSERT ON main.event BEGIN
        SELECT count_event(NEW.topic_id, NEW.received_at, NEW.matched, octet_length(NEW.data));
    END;
    CREATE TEMP TRIGGER delivery_made AFTER INSERT ON main.delivery BEGIN
        SELECT count_delivery(NEW.id, NEW.subscription_id, NEW.published_at, NEW.last_attempt_at,
            NULL, NULL, NULL, NULL,
            NEW.state, NEW.attempts, NEW.ended_at, NEW.dead_letter_reason);
    END;
    CREATE TEMP TRIGGER delivery_moved AFTER UPDATE ON main.delivery
    WHEN OLD.state <> NEW.state OR OLD.attempts <> NEW.attempts BEGIN
        SELECT count_delivery(NEW.id, NEW.subscription_id, NEW.published_at, NEW.last_attempt_at,
            OLD.state, OLD.attempts, OLD.ended_at, OLD.dead_letter_reason,
            NEW.state, NEW.attempts, NEW.ended_at, NEW.dead_letter_reason);
    END;
    CREATE TEMP TRIGGER delivery_deleted AFTER DELETE ON main.delivery BEGIN
        SELECT count_delivery(OLD.id, OLD.subscription_id, OLD.published_at, OLD.last_attempt_at,
            OLD.state, OLD.attempts, OLD.ended_at, OLD.dead_letter_reason,
            NULL, NULL, NULL, NULL);
    END;
";

impl Counters {
    /// Counts the changes of `connection` from now on.
    pub(in crate::store) fn watch(connection: &Connection) -> rusqlite::Result<Self> {
        let counts = Arc::<Mutex<Counts>>::default();
        let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS;
        let counted = Arc::clone(&counts);
        connection.create_scalar_function("count_event", 4, flags, move |row| {
            counted.lock().unwrap().event(&EventRow::read(row)?);
            Ok(true)
        })?;
        let counted = Arc::clone(&counts);
        connection.create_scalar_function("count_delivery", 12, flags, move |row| {
            let delivery = DeliveryRow::read(row)?;
            counted.lock().unwrap().delivery(&delivery);
            Ok(true)
        })?;
        connection.execute_batch(TRIGGERS)?;
        Ok(Self { counts })
    }

    /// Takes away what was counted so far, so that the next change is counted apart.
    pub(in crate::store) fn take_counts(&self) -> Counts {
        std::mem::take(&mut self.counts.lock().unwrap())
    }

    /// Drops what was counted since `aside` was taken.
    pub(in crate::store) fn restore_counts(&self, aside: Counts) {
        *self.counts.lock().unwrap() = aside;
    }

    /// Adds `aside` to what was counted since it was taken.
    pub(in crate::store) fn join(&self, aside: Counts) {
        self.counts.lock().unwrap().add(aside);
    }

    /// Writes the counts, in the open transaction.
    pub(in crate::store) fn write(&self, group: &Connection) -> rusqlite::Result<()> {
        self.take_counts().write(group)
    }
}

impl Counts {
    fn event(&mut self, event: &EventRow) {
        let minute = event.received_at - event.received_at.rem_euclid(MINUTE_MS);
        let counts = self.topics.entry((event.topic_id, minute)).or_default();
        counts.published += 1;
        counts.unmatched += i64::from(event.matched == 0);
        counts.bytes += event.bytes;
    }

    fn delivery(&mut self, row: &DeliveryRow) {
        if let Some(old) = &row.old {
            self.leave(row, old);
        }
        if let Some(new) = &row.new {
            self.enter(row, new);
        }
    }

    /// Takes back what the old version of a delivery counts as long as it is there.
    fn leave(&mut self, row: &DeliveryRow, old: &Version) {
        let total = self.totals.entry(row.subscription_id).or_default();
        match old.state {
            DeliveryState::Pending => {
                total.pending -= 1;
                // A pending delivery that is deleted has no other state that could account for it.
                total.matched -= i64::from(row.new.is_none());
            }
            DeliveryState::DeadLettered => {
                total.dead_letters -= 1;
                *self.dead_letters.entry(row.of_day(old)).or_default() -= 1;
            }
            DeliveryState::Delivered
            | DeliveryState::Dropped
            | DeliveryState::Resubmitted
            | DeliveryState::Removed => (),
        }
    }

    fn enter(&mut self, row: &DeliveryRow, new: &Version) {
        let total = self.totals.entry(row.subscription_id).or_default();
        total.matched += i64::from(row.old.is_none());
        match new.state {
            DeliveryState::Pending => total.pending += 1,
            DeliveryState::DeadLettered => {
                total.dead_letters += 1;
                *self.dead_letters.entry(row.of_day(new)).or_default() += 1;
            }
            DeliveryState::Delivered
            | DeliveryState::Dropped
            | DeliveryState::Resubmitted
            | DeliveryState::Removed => (),
        }
        if row.old.is_none() {
            self.rollup(row, row.published_at).matched += 1;
        }
        let attempts = new.attempts - row.old.as_ref().map_or(0, |old| old.attempts);
        // An attempt that was counted and then not made is taken back at the time when it was counted.
        if attempts != 0 {
            let at = row.last_attempt_at.unwrap_or(row.published_at);
            self.rollup(row, at).attempts += attempts;
        }
        let was_pending = row
            .old
            .as_ref()
            .is_none_or(|old| old.state == DeliveryState::Pending);
        if let Some(ended_at) = new.ended_at.filter(|_| was_pending) {
            self.end(row, new.state, ended_at);
            if let Some(reason) = &new.reason {
                let added = Added::one(row.id, ended_at);
                let so_far = self
                    .dead_lettered
                    .entry((row.subscription_id, reason.clone()));
                so_far
                    .and_modify(|so_far| so_far.add(added))
                    .or_insert(added);
            }
        }
    }

    fn end(&mut self, row: &DeliveryRow, state: DeliveryState, ended_at: i64) {
        let total = self.totals.entry(row.subscription_id).or_default();
        match state {
            DeliveryState::Delivered => total.delivered += 1,
            DeliveryState::Dropped => total.dropped += 1,
            DeliveryState::Pending
            | DeliveryState::DeadLettered
            | DeliveryState::Resubmitted
            | DeliveryState::Removed => {
                total.dead_lettered += 1;
            }
        }
        let rollup = self.rollup(row, ended_at);
        match state {
            DeliveryState::Delivered => {
                rollup.delivered += 1;
                rollup.latencies[bucket(ended_at - row.published_at)] += 1;
            }
            DeliveryState::Dropped => rollup.dropped += 1,
            DeliveryState::Pending
            | DeliveryState::DeadLettered
            | DeliveryState::Resubmitted
            | DeliveryState::Removed => {
                rollup.dead_lettered += 1;
            }
        }
    }

    fn rollup(&mut self, row: &DeliveryRow, at: i64) -> &mut Rollup {
        let minute = at - at.rem_euclid(MINUTE_MS);
        self.subscriptions
            .entry((row.subscription_id, minute))
            .or_default()
    }

    fn add(&mut self, other: Counts) {
        let Counts {
            totals,
            subscriptions,
            topics,
            dead_letters,
            dead_lettered,
        } = other;
        add_each(&mut self.totals, totals, Total::add);
        add_each(&mut self.subscriptions, subscriptions, Rollup::add);
        add_each(&mut self.topics, topics, TopicRollup::add);
        add_each(&mut self.dead_letters, dead_letters, |sum, more| {
            *sum += more;
        });
        for (key, more) in dead_lettered {
            // `other` was counted first.
            let later = self.dead_lettered.insert(key.clone(), more);
            if let Some(later) = later {
                self.dead_lettered
                    .entry(key)
                    .and_modify(|sum| sum.add(later));
            }
        }
    }

    fn write(self, tx: &Connection) -> rusqlite::Result<()> {
        for (subscription, total) in self.totals {
            write_total(tx, subscription, total)?;
        }
        for ((subscription, start_at), rollup) in self.subscriptions {
            write_rollup(tx, subscription, start_at, &rollup)?;
        }
        for ((topic, start_at), rollup) in self.topics {
            tx.prepare_cached(ADD_TOPIC_ROLLUP)?.execute(params![
                topic,
                start_at,
                rollup.published,
                rollup.unmatched,
                rollup.bytes
            ])?;
        }
        for ((subscription, reason, day), count) in self.dead_letters {
            write_dead_letters(tx, subscription, &reason, day, count)?;
        }
        for ((subscription, reason), added) in self.dead_lettered {
            tx.prepare_cached(NOTE_DEAD_LETTERS)?.execute(params![
                subscription,
                reason,
                added.count,
                added.first_at,
                added.last_at,
                added.last_delivery,
                SystemTopic::Everpost.id()
            ])?;
        }
        Ok(())
    }
}

/// The first bucket whose bound a latency does not exceed.
fn bucket(latency_ms: i64) -> usize {
    LATENCY_BOUNDS_MS.partition_point(|bound| *bound < latency_ms)
}

fn add_each<K: Eq + Hash, V: Default>(
    sum: &mut HashMap<K, V>,
    more: HashMap<K, V>,
    add: impl Fn(&mut V, V),
) {
    for (key, value) in more {
        add(sum.entry(key).or_default(), value);
    }
}

impl Total {
    fn add(&mut self, more: Self) {
        self.matched += more.matched;
        self.pending += more.pending;
        self.delivered += more.delivered;
        self.dead_lettered += more.dead_lettered;
        self.dropped += more.dropped;
        self.dead_letters += more.dead_letters;
    }
}

impl Rollup {
    fn add(&mut self, more: Self) {
        self.matched += more.matched;
        self.delivered += more.delivered;
        self.dead_lettered += more.dead_lettered;
        self.dropped += more.dropped;
        self.attempts += more.attempts;
        for (sum, more) in self.latencies.iter_mut().zip(more.latencies) {
            *sum += more;
        }
    }
}

impl Added {
    fn one(delivery: i64, at: i64) -> Self {
        Self {
            count: 1,
            first_at: at,
            last_at: at,
            last_delivery: delivery,
        }
    }

    fn add(&mut self, later: Self) {
        self.count += later.count;
        self.last_at = later.last_at;
        self.last_delivery = later.last_delivery;
    }
}

impl TopicRollup {
    fn add(&mut self, more: Self) {
        self.published += more.published;
        self.unmatched += more.unmatched;
        self.bytes += more.bytes;
    }
}

const ADD_TOTAL: &str = "INSERT INTO subscription_total VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) \
     ON CONFLICT DO UPDATE SET matched = matched + ?2, pending = pending + ?3, \
     delivered = delivered + ?4, dead_lettered = dead_lettered + ?5, dropped = dropped + ?6, \
     dead_letters = dead_letters + ?7";
const ADD_ROLLUP: &str = "INSERT INTO subscription_rollup VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) \
     ON CONFLICT DO UPDATE SET matched = matched + ?3, delivered = delivered + ?4, \
     dead_lettered = dead_lettered + ?5, dropped = dropped + ?6, attempts = attempts + ?7";
const ADD_LATENCY: &str = "INSERT INTO latency_bucket VALUES (?1, ?2, ?3, ?4) \
     ON CONFLICT DO UPDATE SET deliveries = deliveries + ?4";
const ADD_TOPIC_ROLLUP: &str = "INSERT INTO topic_rollup VALUES (?1, ?2, ?3, ?4, ?5) \
     ON CONFLICT DO UPDATE SET published = published + ?3, unmatched = unmatched + ?4, \
     data_bytes = data_bytes + ?5";
const ADD_DEAD_LETTERS: &str = "INSERT INTO dead_letter_total VALUES (?1, ?2, ?3, ?4) \
     ON CONFLICT DO UPDATE SET dead_letters = dead_letters + ?4";
const FORGET_EMPTY: &str = "DELETE FROM dead_letter_total \
     WHERE subscription_id = ?1 AND reason = ?2 AND day_at = ?3 AND dead_letters <= 0";

/// Only while somebody subscribes to the built-in topic, and not for subscriptions of built-in topics, whose
/// ids are negative: a notice about a notice would cause the next one.
const NOTE_DEAD_LETTERS: &str = "INSERT INTO dead_letter_notice \
         (subscription_id, reason, dead_letters, first_at, last_at, last_delivery_id) \
     SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE EXISTS \
         (SELECT 1 FROM event_subscription WHERE topic_id = ?7 AND deleted_at IS NULL) \
         AND EXISTS (SELECT 1 FROM event_subscription WHERE id = ?1 AND topic_id > 0) \
     ON CONFLICT DO UPDATE SET first_at = CASE dead_letters WHEN 0 THEN ?4 ELSE first_at END, \
         dead_letters = dead_letters + ?3, last_at = ?5, last_delivery_id = ?6";

fn write_total(tx: &Connection, subscription: i64, total: Total) -> rusqlite::Result<()> {
    tx.prepare_cached(ADD_TOTAL)?.execute(params![
        subscription,
        total.matched,
        total.pending,
        total.delivered,
        total.dead_lettered,
        total.dropped,
        total.dead_letters
    ])?;
    Ok(())
}

fn write_rollup(
    tx: &Connection,
    subscription: i64,
    start_at: i64,
    rollup: &Rollup,
) -> rusqlite::Result<()> {
    tx.prepare_cached(ADD_ROLLUP)?.execute(params![
        subscription,
        start_at,
        rollup.matched,
        rollup.delivered,
        rollup.dead_lettered,
        rollup.dropped,
        rollup.attempts,
    ])?;
    for (le_ms, deliveries) in LATENCY_BOUNDS_MS.into_iter().zip(rollup.latencies) {
        if deliveries > 0 {
            tx.prepare_cached(ADD_LATENCY)?
                .execute([subscription, start_at, le_ms, deliveries])?;
        }
    }
    Ok(())
}

fn write_dead_letters(
    tx: &Connection,
    subscription: i64,
    reason: &str,
    day: i64,
    count: i64,
) -> rusqlite::Result<()> {
    if count != 0 {
        tx.prepare_cached(ADD_DEAD_LETTERS)?
            .execute(params![subscription, reason, day, count])?;
    }
    if count < 0 {
        tx.prepare_cached(FORGET_EMPTY)?
            .execute(params![subscription, reason, day])?;
    }
    Ok(())
}

/// A changed row of `delivery`, as far as it counts.
struct DeliveryRow {
    id: i64,
    subscription_id: i64,
    published_at: i64,
    last_attempt_at: Option<i64>,
    /// `None` for a new row.
    old: Option<Version>,
    /// `None` for a deleted one.
    new: Option<Version>,
}

struct Version {
    state: DeliveryState,
    attempts: i64,
    ended_at: Option<i64>,
    /// Of a dead letter.
    reason: Option<String>,
}

impl DeliveryRow {
    fn read(row: &Context<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            subscription_id: row.get(1)?,
            published_at: row.get(2)?,
            last_attempt_at: row.get(3)?,
            old: Version::read(row, 4)?,
            new: Version::read(row, 8)?,
        })
    }

    /// The key under which a dead letter is counted: subscription, reason and day.
    fn of_day(&self, version: &Version) -> (i64, String, i64) {
        let at = version.ended_at.unwrap_or_default();
        (
            self.subscription_id,
            version.reason.clone().unwrap_or_default(),
            at - at.rem_euclid(DAY_MS),
        )
    }
}

impl Version {
    fn read(row: &Context<'_>, first: usize) -> rusqlite::Result<Option<Self>> {
        let name = row.get_raw(first).as_str_or_null()?;
        let Some(state) = name.and_then(DeliveryState::from_name) else {
            return Ok(None);
        };
        // Read only where it is needed: this runs for every changed row.
        let is_dead_letter = state == DeliveryState::DeadLettered;
        Ok(Some(Self {
            state,
            attempts: row.get(first + 1)?,
            ended_at: row.get(first + 2)?,
            reason: is_dead_letter.then(|| row.get(first + 3)).transpose()?,
        }))
    }
}

/// A new row of `event`, as far as it counts.
struct EventRow {
    topic_id: i64,
    received_at: i64,
    matched: i64,
    bytes: i64,
}

impl EventRow {
    fn read(row: &Context<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            topic_id: row.get(0)?,
            received_at: row.get(1)?,
            matched: row.get(2)?,
            bytes: row.get::<Option<i64>>(3)?.unwrap_or(0),
        })
    }
}
