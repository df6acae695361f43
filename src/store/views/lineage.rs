//! The origin of events and deliveries, and their resubmissions.

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
    /// The topic of the event `as_event`. `None` if there is no such event or it is deleted.
    pub as_topic: Option<String>,
    /// The URL of the resubmission, without the query part.
    pub url: Option<String>,
    pub replay_job: Option<ReplayJobId>,
    pub resubmitted_at: Timestamp,
}

/// The origin of an event, and its resubmissions.
#[derive(Clone, Debug, Default)]
pub struct Lineage {
    /// The resubmission that created the event.
    pub made_by: Option<LineageRow>,
    /// The resubmissions of the event, oldest first, at most [`LINEAGE_MAX`].
    pub resubmissions: Vec<LineageRow>,
}

/// The maximum number of resubmissions of an event that are listed.
pub const LINEAGE_MAX: usize = 100;

/// Returns the resubmissions that meet a condition, oldest first, at most [`LINEAGE_MAX`].
pub(super) fn resubmissions(
    tx: &Connection,
    condition: &str,
    values: impl Params,
) -> Result<Vec<LineageRow>, StoreError> {
    let select = format!("{RESUBMISSION} WHERE {condition} ORDER BY id LIMIT {LINEAGE_MAX}");
    tx.all(&select, values, lineage_row)
}

/// Returns the resubmissions that created the given deliveries, at most one for each. `deliveries` is a JSON array of
/// ids.
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
