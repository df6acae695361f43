//! Checksums of rows. They detect damage that SQLite does not see, since its pages have no checksums.
//!
//! A checksum is computed in the transaction that stores the row, and is checked whenever the row is handed out. The
//! checksum covers columns that change never or seldom: the received content and its receivers.

use crc_fast::{CrcAlgorithm, Digest};
use rusqlite::functions::FunctionFlags;
use rusqlite::types::{Type, ValueRef};
use rusqlite::{Connection, params};

use crate::store::error::StoreError;

/// A table whose rows have a checksum, in the column `checksum`.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Sealed {
    pub(in crate::store) table: &'static str,
    /// The column with the row id.
    pub(in crate::store) id: &'static str,
    /// The columns that the checksum covers, in this order.
    pub(in crate::store) columns: &'static str,
    /// The consequence of a damaged row: a clause for the report of a check.
    pub(in crate::store) consequence: &'static str,
}

pub(in crate::store) const EVENT: Sealed = Sealed {
    table: "event",
    id: "id",
    columns: "id,received_at,event_id,event_type,source,subject,event_time,data_version,attributes,data,topic_id",
    consequence: "nobody receives it",
};

pub(in crate::store) const DELIVERY: Sealed = Sealed {
    table: "delivery",
    id: "id",
    columns: "id,event_id,subscription_id,published_at,resubmission_of,session,bytes,number,\
        hops,first_number,dead_letter_source,message_properties,\
        receiver_reason,receiver_description,receiver_properties,transfer_to",
    consequence: "it is not received",
};

pub(in crate::store) const FAN_OUT: Sealed = Sealed {
    table: "fan_out",
    id: "first_event_id",
    columns: "first_event_id,last_event_id,next_event_id,next_cell,topic_id,received_at,targets",
    consequence: "of the events from this one on some may have no deliveries: publish them again",
};

/// All tables with checksums.
pub(in crate::store) const SEALED: [Sealed; 3] = [EVENT, DELIVERY, FAN_OUT];

impl Sealed {
    /// Returns the SQL condition that a row matches its checksum.
    pub(in crate::store) fn is_sound(&self) -> String {
        format!("checksum IS row_checksum({})", self.columns)
    }

    /// Returns the SQL expression for the checksum of a row when `column` is set to `value`. A damaged row keeps its
    /// checksum, so the damage remains detectable.
    pub(in crate::store) fn resealed(&self, column: &str, value: &str) -> String {
        let columns = self.columns.split(',').map(str::trim);
        let changed = columns.map(|each| if each == column { value } else { each });
        let changed: Vec<&str> = changed.collect();
        format!(
            "CASE WHEN {} THEN row_checksum({}) ELSE checksum END",
            self.is_sound(),
            changed.join(",")
        )
    }

    /// Returns the SQL statement that recomputes the checksum of row `?1` after a change of covered columns.
    pub(in crate::store) fn seal(&self) -> String {
        let Self {
            table, id, columns, ..
        } = self;
        format!("UPDATE {table} SET checksum = row_checksum({columns}) WHERE {id} = ?1")
    }
}

/// Returns the checksum of a row's values: a CRC-64, which detects any burst error of up to 64 bits. The checksum
/// includes types and lengths, so that bytes cannot move between columns undetected.
pub(in crate::store) fn of_values<'a>(values: impl IntoIterator<Item = ValueRef<'a>>) -> i64 {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    for value in values {
        let (number, bytes): (u64, &[u8]) = match value {
            ValueRef::Null => (0, &[]),
            ValueRef::Integer(number) => (number.cast_unsigned(), &[]),
            ValueRef::Real(number) => (number.to_bits(), &[]),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => (bytes.len() as u64, bytes),
        };
        let mut head = [0; 9];
        head[0] = kind(value.data_type());
        head[1..].copy_from_slice(&number.to_le_bytes());
        digest.update(&head);
        digest.update(bytes);
    }
    digest.finalize().cast_signed()
}

/// Returns the number of a type. The numbers are part of stored checksums and must not change.
fn kind(of: Type) -> u8 {
    match of {
        Type::Null => 0,
        Type::Integer => 1,
        Type::Real => 2,
        Type::Text => 3,
        Type::Blob => 4,
    }
}

/// Adds the SQL function `row_checksum`.
pub(super) fn add_function(connection: &Connection) -> Result<(), StoreError> {
    let flags = FunctionFlags::SQLITE_UTF8
        | FunctionFlags::SQLITE_DETERMINISTIC
        | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_scalar_function("row_checksum", -1, flags, |row| {
        Ok(of_values((0..row.len()).map(|index| row.get_raw(index))))
    })?;
    Ok(())
}

/// Returns the ids, from `from` to `to`, of rows that do not match their checksum.
pub(super) fn damaged(
    connection: &Connection,
    sealed: &Sealed,
    from: i64,
    to: i64,
) -> Result<Vec<i64>, StoreError> {
    let find = format!(
        "SELECT rowid FROM {} NOT INDEXED WHERE rowid BETWEEN ?1 AND ?2 AND NOT ({})",
        sealed.table,
        sealed.is_sound()
    );
    let mut find = connection.prepare_cached(&find)?;
    let ids = find.query_map(params![from, to], |row| row.get(0))?;
    Ok(ids.collect::<Result<_, _>>()?)
}

/// Counts the rows that do not match their checksum. Adds the SQL function first, so that any
/// connection can be used.
pub(in crate::store) fn count_damaged(connection: &Connection) -> Result<u64, StoreError> {
    add_function(connection)?;
    SEALED.iter().try_fold(0, |sum, sealed| {
        let (table, is_sound) = (sealed.table, sealed.is_sound());
        let count = format!("SELECT count(*) FROM {table} WHERE NOT ({is_sound})");
        let count: u64 = connection.query_row(&count, [], |row| row.get(0))?;
        Ok(sum + count)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_counts_and_so_do_types_and_lengths() {
        let text = b"{\"total\":12}".to_vec();
        let whole = |text: &[u8]| of_values([ValueRef::Integer(7), ValueRef::Text(text)]);
        let sum = whole(&text);
        for bit in 0..8 * text.len() {
            let mut altered = text.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(whole(&altered), sum, "bit {bit}");
        }
        for bit in 0..64 {
            let number = ValueRef::Integer(7 ^ (1 << bit));
            assert_ne!(of_values([number, ValueRef::Text(&text)]), sum, "bit {bit}");
        }
        let moved = of_values([ValueRef::Text(b"ab"), ValueRef::Text(b"c")]);
        assert_ne!(
            moved,
            of_values([ValueRef::Text(b"a"), ValueRef::Text(b"bc")])
        );
        assert_ne!(
            of_values([ValueRef::Null]),
            of_values([ValueRef::Text(b"")])
        );
        assert_ne!(
            of_values([ValueRef::Blob(b"a")]),
            of_values([ValueRef::Text(b"a")])
        );
    }

    #[test]
    fn checksums_in_files_stay_readable() {
        let values = [
            ValueRef::Integer(1),
            ValueRef::Null,
            ValueRef::Text(b"orders"),
        ];
        assert_eq!(of_values(values), 2_658_519_714_844_155_734);
    }
}
