//! Fan-out in batches: creates the deliveries of events that were stored without their deliveries.
//!
//! A publish request with too many deliveries for one change stores its events and a record of the subscriptions that
//! get them. Later changes of bounded size create the deliveries. The events are divided into strips of
//! `STRIP_EVENTS`. Within a strip, all deliveries of one subscription are created before those of the next one, so
//! that neighboring rows share index pages. In the order of events, every delivery would write a page of its own.
//!
//! Messages of queues and of Service Bus subscriptions are not created this way: all messages of a request become
//! visible at once, or none does.

use std::collections::HashMap;
use std::sync::LazyLock;

use rusqlite::{Connection, params};

use crate::base::Timestamp;
use crate::model::event::EventKey;
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;
use crate::store::engine::checksum;
use crate::store::engine::db::WriteTx;
use crate::store::error::StoreError;
use crate::store::ledger::append::{About, insert_delivery};
use crate::store::row::unreadable;
use crate::store::sql::Sql;

/// The subscriptions that get each event of a publish request.
///
/// A set of subscriptions is stored as a bitmap, and equal sets are stored once. The largest request, 5,000 events for
/// any of 500 subscriptions, takes 340 KB, or 24 KB if all events go to the same subscriptions.
#[derive(Clone, Debug, Default)]
pub struct FanOut {
    subscriptions: Vec<SubscriptionId>,
    positions: HashMap<SubscriptionId, usize>,
    /// The number of each set of subscriptions. A set is a bitmap of positions in `subscriptions`.
    sets: HashMap<Vec<u8>, u32>,
    /// The number of the set of each event, and the size of this set.
    events: Vec<(u32, usize)>,
}

impl FanOut {
    /// Adds the next event, which goes to the subscriptions in `targets`.
    pub fn push(&mut self, targets: &[SubscriptionId]) {
        let mut set = vec![0; self.subscriptions.len().div_ceil(8)];
        for target in targets {
            let position = *self.positions.entry(*target).or_insert_with(|| {
                self.subscriptions.push(*target);
                self.subscriptions.len() - 1
            });
            if set.len() <= position / 8 {
                set.resize(position / 8 + 1, 0);
            }
            set[position / 8] |= 1 << (position % 8);
        }
        // Removes trailing zero bytes, so that equal sets have equal bytes.
        set.truncate(
            set.iter()
                .rposition(|byte| *byte != 0)
                .map_or(0, |last| last + 1),
        );
        let next = u32::try_from(self.sets.len()).unwrap_or(u32::MAX);
        let number = *self.sets.entry(set).or_insert(next);
        self.events.push((number, targets.len()));
    }

    /// Returns the number of subscriptions that get the event at this position.
    pub(super) fn matched(&self, event: usize) -> usize {
        self.events.get(event).map_or(0, |(_, size)| *size)
    }

    /// Encodes the record: the number of subscriptions and their ids, the number of sets and their bitmaps, and then
    /// for each event the number of its set. All numbers are little-endian.
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let length = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
        bytes.extend(length(self.subscriptions.len()));
        let ids = self.subscriptions.iter();
        bytes.extend(ids.flat_map(|id| id.0.to_le_bytes()));
        let mut sets: Vec<_> = self.sets.iter().collect();
        sets.sort_unstable_by_key(|(_, number)| **number);
        bytes.extend(length(sets.len()));
        let width = self.subscriptions.len().div_ceil(8);
        for (set, _) in sets {
            bytes.extend(set);
            bytes.resize(bytes.len() + width - set.len(), 0);
        }
        for (set, _) in &self.events {
            bytes.extend(set.to_le_bytes());
        }
        bytes
    }
}

/// A decoded record of a fan-out. [`FanOut::to_bytes`] defines its format.
struct StoredFanOut<'a> {
    subscriptions: Vec<SubscriptionId>,
    sets: Vec<&'a [u8]>,
    events: Vec<u32>,
}

impl<'a> StoredFanOut<'a> {
    /// Reads a record. Returns `None` if the bytes are damaged.
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let (subscriptions, bytes) = split(bytes, 8)?;
        let subscriptions = ids(subscriptions);
        let width = subscriptions.len().div_ceil(8);
        let (sets, events) = split(bytes, width)?;
        let numbers = events.as_chunks().0.iter();
        Some(Self {
            sets: sets.chunks(width.max(1)).collect(),
            events: numbers.map(|set| u32::from_le_bytes(*set)).collect(),
            subscriptions,
        })
    }

    /// Reports whether the subscription at `position` gets an event. Returns `None` if there is no such event, or if
    /// the set of the event is damaged.
    fn gets(&self, event: usize, position: usize) -> Option<bool> {
        let set = usize::try_from(*self.events.get(event)?).ok()?;
        let byte = self.sets.get(set)?.get(position / 8)?;
        Some(byte & (1 << (position % 8)) != 0)
    }
}

fn ids(bytes: &[u8]) -> Vec<SubscriptionId> {
    let ids = bytes.as_chunks().0.iter();
    ids.map(|id| SubscriptionId(i64::from_le_bytes(*id)))
        .collect()
}

/// Splits a list of items of `width` bytes off the front of `bytes`. The number of items precedes the list. Returns
/// `None` if `bytes` is too short.
fn split(bytes: &[u8], width: usize) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    rest.split_at_checked(length.checked_mul(width)?)
}

/// The number of events in a strip. Within a strip, all deliveries of one subscription are created before those of the
/// next one.
const STRIP_EVENTS: usize = 50;

/// The result of creating a batch of deliveries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FannedOut {
    /// The subscriptions of the deliveries that were created, with one entry for each delivery.
    pub targets: Vec<SubscriptionId>,
    /// Is true if no deliveries of the topic are left to be created.
    pub is_end: bool,
}

/// Stores the record of the subscriptions that get the events of a request. `first` is the key of its first event.
pub(super) fn insert(
    tx: &Connection,
    topic: TopicId,
    received_at: Timestamp,
    first: EventKey,
    fan_out: &FanOut,
) -> rusqlite::Result<()> {
    let insert = "INSERT INTO fan_out (first_event_id, last_event_id, next_event_id, topic_id, received_at, \
         targets, checksum) VALUES (?1, ?1 + ?2 - 1, ?1, ?3, ?4, ?5, 0)";
    let values = params![
        first,
        fan_out.events.len(),
        topic,
        received_at,
        fan_out.to_bytes()
    ];
    tx.run(insert, values)?;
    tx.run(&SEAL, [first]).map(drop)
}

/// Returns the topics with deliveries that are still to be created.
pub(super) fn topics(tx: &Connection) -> Result<Vec<TopicId>, StoreError> {
    let topics = "SELECT DISTINCT topic_id FROM fan_out WHERE next_event_id <= last_event_id";
    tx.all(topics, [], |row| Ok(row.get(0)?))
}

/// Reports whether deliveries of an event are still to be created.
pub(in crate::store) fn is_open(tx: &Connection, event: EventKey) -> Result<bool, StoreError> {
    let find = "SELECT ?1 BETWEEN next_event_id AND last_event_id FROM fan_out WHERE first_event_id <= ?1 \
         ORDER BY first_event_id DESC LIMIT 1";
    Ok(tx.find(find, [event])?.unwrap_or(false))
}

/// Returns the first event of the oldest request that is not done. Deliveries of this event and of later ones may still
/// have to be created, so none of these events may be pruned.
pub(in crate::store) fn oldest(tx: &Connection) -> Result<Option<EventKey>, StoreError> {
    let oldest = "SELECT min(first_event_id) FROM fan_out WHERE next_event_id <= last_event_id";
    tx.value(oldest, [])
}

/// A publish request some of whose deliveries are still to be created.
struct OpenFanOut {
    first: i64,
    /// The first event of the current strip.
    next: i64,
    /// The number of cells of the current strip that are done. A cell is a pair of a subscription and an event.
    cells: usize,
    received_at: Timestamp,
    targets: Vec<u8>,
    is_sound: bool,
}

static NEXT: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT first_event_id, next_event_id, next_cell, received_at, targets, {} FROM fan_out \
         WHERE topic_id = ?1 AND next_event_id <= last_event_id ORDER BY first_event_id LIMIT 1",
        checksum::FAN_OUT.is_sound()
    )
});

/// Computes the checksum of a record again after a change.
static SEAL: LazyLock<String> = LazyLock::new(|| checksum::FAN_OUT.seal());

/// Marks a damaged record as done, so that no delivery is created from it. The row stays, so that a check finds it.
const SET_ASIDE: &str =
    "UPDATE fan_out SET next_event_id = last_event_id + 1 WHERE first_event_id = ?1";

/// Creates at most `limit` deliveries for the oldest events of a topic that were stored without them.
pub(super) fn fan_out(tx: &WriteTx, topic: TopicId, limit: usize) -> Result<FannedOut, StoreError> {
    let mut done = FannedOut::default();
    let mut receiving = HashMap::new();
    let mut rows = 0;
    while rows < limit {
        let open = tx.first(&NEXT, [topic], |row| {
            Ok(OpenFanOut {
                first: row.get(0)?,
                next: row.get(1)?,
                cells: row.get(2)?,
                received_at: row.get(3)?,
                targets: row.get(4)?,
                is_sound: row.get(5)?,
            })
        })?;
        let Some(open) = open else {
            done.is_end = true;
            break;
        };
        rows += 1;
        if !open.is_sound {
            tracing::error!(
                event.key = open.first,
                "the record of who gets the events from this one on is damaged; some may have no deliveries"
            );
            tx.run(SET_ASIDE, [open.first])?;
            continue;
        }
        if !advance(
            tx,
            &open,
            limit,
            &mut rows,
            &mut receiving,
            &mut done.targets,
        )? {
            break;
        }
    }
    Ok(done)
}

/// Creates deliveries of a request until `rows` reaches `limit`. Returns `true` if the request is done.
fn advance(
    tx: &WriteTx,
    open: &OpenFanOut,
    limit: usize,
    rows: &mut usize,
    receiving: &mut HashMap<SubscriptionId, bool>,
    created: &mut Vec<SubscriptionId>,
) -> Result<bool, StoreError> {
    let damaged = || {
        unreadable(
            "fan-out",
            format!("the record of event {} is damaged", open.first),
        )
    };
    let stored = StoredFanOut::read(&open.targets).ok_or_else(damaged)?;
    let from = usize::try_from(open.next - open.first).map_err(|_| damaged())?;
    let mut cells = open.cells;
    for (strip, key) in (from..stored.events.len())
        .zip(open.next..)
        .step_by(STRIP_EVENTS)
    {
        let events = STRIP_EVENTS.min(stored.events.len() - strip);
        for cell in cells..events * stored.subscriptions.len() {
            let (position, event) = (cell / events, cell % events);
            if !stored.gets(strip + event, position).ok_or_else(damaged)? {
                continue;
            }
            if !created.is_empty() && *rows >= limit {
                let pause = "UPDATE fan_out SET next_event_id = ?2, next_cell = ?3 WHERE first_event_id = ?1";
                tx.run(pause, params![open.first, key, cell])?;
                tx.run(&SEAL, [open.first])?;
                return Ok(false);
            }
            let target = stored.subscriptions[position];
            if receives(tx, target, receiving)? {
                let event = EventKey(key + event as i64);
                insert_delivery(tx, event, target, open.received_at, About::default())?;
                created.push(target);
                *rows += 1;
            }
        }
        cells = 0;
    }
    tx.run(
        "DELETE FROM fan_out WHERE first_event_id = ?1",
        [open.first],
    )?;
    Ok(true)
}

/// Reports whether deliveries are created for a subscription: the subscription exists, or its deletion keeps pending
/// deliveries as dead letters.
fn receives(
    tx: &Connection,
    subscription: SubscriptionId,
    known: &mut HashMap<SubscriptionId, bool>,
) -> Result<bool, StoreError> {
    if let Some(receives) = known.get(&subscription) {
        return Ok(*receives);
    }
    let find = "SELECT 1 FROM event_subscription WHERE id = ?1 \
         AND (deleted_at IS NULL OR dead_letters_pending = 1)";
    let receives = tx.is_any(find, [subscription])?;
    known.insert(subscription, receives);
    Ok(receives)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_of(numbers: impl IntoIterator<Item = i64>) -> Vec<SubscriptionId> {
        numbers.into_iter().map(SubscriptionId).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let all: [Vec<SubscriptionId>; 5] = [
            all_of([7]),
            all_of([]),
            all_of(1..=20),
            all_of([7, 20, 400]),
            all_of([7]),
        ];
        let mut fan_out = FanOut::default();
        for targets in &all {
            fan_out.push(targets);
        }
        assert_eq!((fan_out.matched(1), fan_out.matched(2)), (0, 20));
        assert_eq!(fan_out.sets.len(), 4, "equal ones are written once");
        let bytes = fan_out.to_bytes();
        let stored = StoredFanOut::read(&bytes).expect("readable");
        for (event, targets) in all.iter().enumerate() {
            let is_target = |position: &usize| stored.gets(event, *position).expect("readable");
            let positions = (0..stored.subscriptions.len()).filter(is_target);
            let mut read: Vec<_> = positions
                .map(|position| stored.subscriptions[position])
                .collect();
            read.sort_unstable();
            assert_eq!(read, *targets);
        }
        assert_eq!(stored.gets(5, 0), None);
        assert!(StoredFanOut::read(&bytes[..40]).is_none(), "cut off");
    }

    #[test]
    fn the_largest_request_is_a_small_record() {
        let bytes = |targets_of: &dyn Fn(i64) -> Vec<SubscriptionId>| {
            let mut fan_out = FanOut::default();
            (0..5_000).for_each(|event| fan_out.push(&targets_of(event)));
            fan_out.to_bytes().len()
        };
        assert!(bytes(&|_| all_of(0..500)) < 25_000);
        let all_different = |event| all_of((0..500).filter(|id| (event + 1) >> (id % 13) & 1 == 1));
        assert!(bytes(&all_different) < 350_000);
    }
}
