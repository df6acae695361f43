//! Where events and deliveries come from, and how they were resubmitted.

use rusqlite::{Connection, Params, Row};

use crate::base::Timestamp;
use crate::model::delivery::DeliveryId;
use crate::model::event::EventKey;
use crate::model::replay::ReplayJobId;
use crate::store::error::StoreError;
use crate::store::sql::Sql;

/// A resubmission in the lineage of an event or a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineageRow {
    pub delivery: DeliveryId,
    pub event: EventKey,
    pub as_delivery: Option<DeliveryId>,
    pub as_event: Option<EventKey>,
    /// The topic of that event; `None` also if the event is deleted.
    pub as_topic: Option<String>,
    /// Without its query.
    pub url: Option<String>,
    pub replay_job: Option<ReplayJobId>,
    pub resubmitted_at: Timestamp,
}

/// Where an event comes from, and how it was resubmitted.
#[derive(Clone, Debug, Default)]
pub struct Lineage {
    /// The resubmission that made it.
    pub made_by: Option<LineageRow>,
    /// Its own, oldest first, at most [`LINEAGE_MAX`].
    pub resubmissions: Vec<LineageRow>,
}

/// Resubmissions of one event that are listed.
pub const LINEAGE_MAX: usize = 100;

/// The resubmissions that meet a condition, oldest first, at most [`LINEAGE_MAX`].
pub(super) fn resubmissions(
    tx: &Connection,
    condition: &str,
    values: impl Params,
) -> Result<Vec<LineageRow>, StoreError> {
    let select = format!("{RESUBMISSION} WHERE {condition} ORDER BY id LIMIT {LINEAGE_MAX}");
    tx.all(&select, values, lineage_row)
}

/// The resubmissions that made these deliveries, a list of ids as JSON: at most one each.
pub(super) fn made_by(tx: &Connection, deliveries: &str) -> Result<Vec<LineageRow>, StoreError> {
    let select =
        format!("{RESUBMISSION} WHERE as_delivery_id IN (SELECT value FROM json_each(?1))");
    tx.all(&select, [deliveries], lineage_row)
}

const RESUBMISSION: &str = "SELECT delivery_id, event_id, as_delivery_id, as_event_id, url, \
     replay_job_id, resubmitted_at, (SELECT topic.name FROM event \
     JOIN topic ON topic.id = event.topic_id WHERE event.id = as_event_id) FROM resubmission";

fn lineage_row(row: &Row<'_>) -> Result<LineageRow, StoreError> {
    Ok(LineageRow {
        delivery: row.get(0)?,
        event: row.get(1)?,
        as_delivery: row.get(2)?,
        as_event: row.get(3)?,
        url: row.get(4)?,
        replay_job: row.get(5)?,
        resubmitted_at: row.get(6)?,
        as_topic: row.get(7)?,
    })
}
