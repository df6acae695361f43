//! Recognises publish requests that a client repeats because it did not get the response.
//!
//! A row has the fingerprints of all requests of one group commit. It is written in the transaction of the group, so a
//! mark costs almost nothing and is as durable as the events. The index of the fingerprints is only in memory, and is
//! loaded at startup: an index in the database would be written at a random place for every request. An entry of the
//! index in memory is a hint that is checked against the row, so it may name a row that was rolled back or deleted.

use std::collections::VecDeque;

use hashbrown::HashTable;
use rusqlite::{Connection, params};

use crate::base::Timestamp;
use crate::store::error::StoreError;
use crate::store::sql::Sql;

/// Identifies a publish request, so that a repeated one is stored once (rule A, `x-ms-client-request-id`).
#[derive(Clone, Copy, Debug)]
pub struct RequestMark {
    pub fingerprint: Fingerprint,
    /// The time before which stored requests are not recognised any more.
    pub since: Timestamp,
}

/// The first half of the SHA-256 of a request's topic, id and body. No two requests share it by chance.
type Fingerprint = [u8; 16];

/// The largest number of requests in one part. They fit into a hash table of 2^19 slots (4.7 MB), which takes 5 ms at
/// most to grow.
const PART_MAX: usize = 458_752;

/// The longest period that one part covers, so that memory is freed soon after the requests of a part are too old.
const PART_LASTS_MS: u64 = 60_000;

/// The largest number of parts: enough for ten minutes of 26,000 requests per second, in 170 MB. If there are more, the
/// oldest part is dropped.
const PARTS_MAX: usize = 36;

/// The marks of the open group, and an index of the marks that are stored.
#[derive(Debug, Default)]
pub(in crate::store) struct RequestMarks {
    unwritten: Vec<Fingerprint>,
    /// The time at which the last request of the open group was received.
    received_at: Option<Timestamp>,
    /// The parts of the index, oldest first.
    parts: VecDeque<MarksPart>,
}

/// An index of the marks in a range of consecutive rows.
#[derive(Debug)]
struct MarksPart {
    first_row: i64,
    begun_at: Timestamp,
    ended_at: Timestamp,
    places: HashTable<MarkPlace>,
}

/// An entry for a mark: the first bytes of its fingerprint, and the number of its row, counted from the first row of
/// the part.
#[derive(Clone, Copy, Debug)]
struct MarkPlace {
    tag: u32,
    row: u32,
}

impl RequestMarks {
    /// Builds the index from the rows of an open database. If reading fails, some repeated requests are not recognised;
    /// nothing else depends on these rows.
    pub(in crate::store) fn load(&mut self, connection: &Connection, since: Timestamp) {
        *self = Self::default();
        let rows = "SELECT id, received_at, fingerprints FROM publish_request \
             WHERE received_at >= ?1 ORDER BY id";
        let loaded = connection.all(rows, [since], |row| {
            let fingerprints: Vec<u8> = row.get(2)?;
            self.keep(row.get(0)?, row.get(1)?, fingerprints.as_chunks().0);
            Ok(())
        });
        if let Err(error) = loaded {
            tracing::error!(%error, "repetitions of some publish requests will not be recognised");
        }
    }

    /// Marks a request. Returns `false` if the request is already marked.
    pub(super) fn mark(
        &mut self,
        tx: &Connection,
        mark: &RequestMark,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        if self.unwritten.contains(&mark.fingerprint) || self.is_stored(tx, mark)? {
            return Ok(false);
        }
        self.unwritten.push(mark.fingerprint);
        self.received_at = self.received_at.max(Some(at));
        Ok(true)
    }

    fn is_stored(&self, tx: &Connection, mark: &RequestMark) -> Result<bool, StoreError> {
        let tag = tag_of(&mark.fingerprint);
        for part in self.parts.iter().rev() {
            for place in part.places.iter_hash(hash(tag)).filter(|at| at.tag == tag) {
                let find =
                    "SELECT fingerprints FROM publish_request WHERE id = ?1 AND received_at >= ?2";
                let row = part.first_row + i64::from(place.row);
                let stored: Option<Vec<u8>> = tx.find(find, params![row, mark.since])?;
                let fingerprints = stored.unwrap_or_default();
                if fingerprints.as_chunks().0.contains(&mark.fingerprint) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Returns the number of marks in the open group so far, for [`RequestMarks::undo`].
    pub(in crate::store) fn unwritten(&self) -> usize {
        self.unwritten.len()
    }

    /// Removes all marks of the open group except the first `first` ones.
    pub(in crate::store) fn undo(&mut self, first: usize) {
        self.unwritten.truncate(first);
    }

    /// Writes the marks of the open group, immediately before the group commits.
    pub(in crate::store) fn write(&mut self, tx: &Connection) -> rusqlite::Result<()> {
        let (Some(at), false) = (self.received_at.take(), self.unwritten.is_empty()) else {
            return Ok(());
        };
        let insert = "INSERT INTO publish_request (received_at, fingerprints) VALUES (?1, ?2)";
        let marks = std::mem::take(&mut self.unwritten);
        tx.run(insert, params![at, marks.as_flattened()])?;
        self.keep(tx.last_insert_rowid(), at, &marks);
        Ok(())
    }

    fn keep(&mut self, row: i64, at: Timestamp, marks: &[Fingerprint]) {
        let fits = |part: &&MarksPart| {
            part.places.len() + marks.len() <= PART_MAX
                && at.as_ms().abs_diff(part.begun_at.as_ms()) < PART_LASTS_MS
        };
        let last = self.parts.back().filter(fits);
        let number = last.and_then(|part| u32::try_from(row - part.first_row).ok());
        if number.is_none() {
            self.parts.push_back(MarksPart {
                first_row: row,
                begun_at: at,
                ended_at: at,
                places: HashTable::new(),
            });
        }
        if self.parts.len() > PARTS_MAX {
            self.parts.pop_front();
        }
        if let Some(part) = self.parts.back_mut() {
            part.ended_at = part.ended_at.max(at);
            for tag in marks.iter().map(tag_of) {
                let row = number.unwrap_or(0);
                let place = MarkPlace { tag, row };
                part.places
                    .insert_unique(hash(tag), place, |at| hash(at.tag));
            }
        }
    }

    /// Deletes up to `limit` rows of requests that were received before `before`. Returns the number of deleted rows.
    pub(super) fn tidy(
        &mut self,
        tx: &Connection,
        before: Timestamp,
        limit: usize,
    ) -> rusqlite::Result<usize> {
        self.parts.retain(|part| part.ended_at >= before);
        // The oldest rows have the lowest ids, so no index on `received_at` is needed.
        let delete = "DELETE FROM publish_request WHERE received_at < ?1 AND id IN \
             (SELECT id FROM publish_request ORDER BY id LIMIT ?2)";
        tx.run(delete, params![before, limit])
    }
}

fn tag_of(fingerprint: &Fingerprint) -> u32 {
    let [a, b, c, d, ..] = *fingerprint;
    u32::from_be_bytes([a, b, c, d])
}

/// Copies the tag into both halves of the hash, since the hash table uses the bits at both ends. Tags are already
/// evenly distributed.
fn hash(tag: u32) -> u64 {
    u64::from(tag) << 32 | u64::from(tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::engine::{db, migrate};

    fn database() -> Connection {
        let mut connection = db::open_in_memory().expect("a database");
        migrate::migrate(&mut connection).expect("a schema");
        connection
    }

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    /// The same tag for every 256th.
    fn fingerprint(number: u64) -> Fingerprint {
        let mut all = [0; 16];
        all[3] = number.to_be_bytes()[7];
        all[8..].copy_from_slice(&number.to_be_bytes());
        all
    }

    fn mark(marks: &mut RequestMarks, tx: &Connection, number: u64, ms: i64) -> bool {
        let mark = RequestMark {
            fingerprint: fingerprint(number),
            since: at(ms - 1_000),
        };
        marks.mark(tx, &mark, at(ms)).expect("an answer")
    }

    #[test]
    fn marks_are_told_apart_and_found_again_after_a_start() {
        let (tx, mut marks) = (database(), RequestMarks::default());
        for number in 0..1_000 {
            assert!(mark(&mut marks, &tx, number, 0), "{number} is new");
            assert!(!mark(&mut marks, &tx, number, 0), "{number} in its group");
            if number % 7 == 0 {
                marks.write(&tx).expect("written");
            }
        }
        marks.write(&tx).expect("written");
        let mut loaded = RequestMarks::default();
        loaded.load(&tx, at(0));
        for number in 0..1_000 {
            assert!(!mark(&mut marks, &tx, number, 1_000), "{number}");
            assert!(!mark(&mut loaded, &tx, number, 1_000), "{number}, loaded");
        }
        assert!(mark(&mut loaded, &tx, 7, 1_001), "too old");
    }

    #[test]
    fn what_was_undone_or_deleted_is_not_recognised() {
        let (tx, mut marks) = (database(), RequestMarks::default());
        assert!(mark(&mut marks, &tx, 1, 0));
        marks.undo(0);
        marks.write(&tx).expect("nothing to be written");
        tx.execute_batch("BEGIN").expect("a group");
        assert!(mark(&mut marks, &tx, 1, 0));
        marks.write(&tx).expect("written");
        tx.execute_batch("ROLLBACK").expect("undone");
        assert!(mark(&mut marks, &tx, 2, 0), "in the row of the undone one");
        marks.write(&tx).expect("written");
        assert!(mark(&mut marks, &tx, 1, 0), "it was undone");
        marks.write(&tx).expect("written");
        assert_eq!(marks.tidy(&tx, at(1), 10), Ok(2));
        assert!(marks.parts.is_empty());
        assert!(mark(&mut marks, &tx, 2, 0), "it was deleted");
    }

    #[test]
    fn memory_is_bounded_and_given_back() {
        let (tx, mut marks) = (database(), RequestMarks::default());
        let numbers = 0..u64::try_from(PART_MAX / 2).expect("a number");
        // Tags that are spread as those of hashes are.
        let group: Vec<_> = numbers
            .map(|number| {
                u128::from(number)
                    .wrapping_mul(0x9e37_79b9 << 96)
                    .to_be_bytes()
            })
            .collect();
        for row in 0..2 * PARTS_MAX {
            marks.keep(i64::try_from(row).expect("a row"), at(0), &group);
        }
        marks.keep(1_000, at(0), &group);
        assert_eq!(marks.parts.len(), PARTS_MAX);
        assert_eq!(marks.parts[0].first_row, 2, "the oldest is forgotten");
        let bytes: usize = marks
            .parts
            .iter()
            .map(|part| part.places.allocation_size())
            .sum();
        assert!(bytes < 172_000_000, "{bytes}");
        marks.keep(1_001, at(60_000), &group[..1]);
        assert_eq!(marks.tidy(&tx, at(60_000), 10), Ok(0));
        assert_eq!(marks.parts.len(), 1, "of the last minute");
    }
}
