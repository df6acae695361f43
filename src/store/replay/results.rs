//! Counts the outcomes of the deliveries that a replay job created.

use rusqlite::{Connection, params};

use crate::model::delivery::DeliveryState;
use crate::model::replay::{ReplayJob, ReplayJobId, ReplayTarget};
use crate::store::error::StoreError;
use crate::store::sql::Sql;
use crate::store::views::Views;

/// Resubmissions of a job that are looked at, the first ones: bounds the query.
pub const REPLAY_RESULTS_MAX: u64 = 10_000;

/// How many deliveries a replay job has created, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayResults {
    pub delivered: u64,
    /// Dead-lettered or dropped again, also if they were resubmitted or removed since.
    pub given_up: u64,
    pub waiting: u64,
}

impl Views {
    /// The states of the deliveries that the first [`REPLAY_RESULTS_MAX`] resubmissions of a job created,
    /// without those that are pruned. `None` for a job that sends to a URL, which creates none.
    pub async fn replay_results(
        &self,
        job: &ReplayJob,
    ) -> Result<Option<ReplayResults>, StoreError> {
        let id = job.id;
        match job.request.target {
            ReplayTarget::Url(_) => Ok(None),
            ReplayTarget::Subscription | ReplayTarget::Topic(_) => {
                self.db.read(move |tx| fates(tx, id).map(Some)).await
            }
        }
    }
}

fn fates(tx: &Connection, job: ReplayJobId) -> Result<ReplayResults, StoreError> {
    // The outer loop must be the resubmissions, in their order.
    let select = "SELECT delivery.state, count(*) FROM (SELECT as_delivery_id, as_event_id \
         FROM resubmission WHERE replay_job_id = ?1 ORDER BY id LIMIT ?2) AS line \
         CROSS JOIN delivery ON delivery.id = line.as_delivery_id \
         GROUP BY delivery.state \
         UNION ALL \
         SELECT delivery.state, count(*) FROM (SELECT as_delivery_id, as_event_id \
         FROM resubmission WHERE replay_job_id = ?1 ORDER BY id LIMIT ?2) AS line \
         CROSS JOIN delivery ON delivery.event_id = line.as_event_id \
         WHERE line.as_delivery_id IS NULL AND delivery.resubmission_of IS NULL \
         GROUP BY delivery.state";
    let values = params![job, REPLAY_RESULTS_MAX];
    let found = tx.all(select, values, |row| {
        Ok((row.get(0)?, row.get::<_, u64>(1)?))
    })?;
    let mut fates = ReplayResults::default();
    for (state, count) in found {
        match state {
            DeliveryState::Pending => fates.waiting += count,
            DeliveryState::Delivered => fates.delivered += count,
            DeliveryState::DeadLettered
            | DeliveryState::Dropped
            | DeliveryState::Resubmitted
            | DeliveryState::Removed => fates.given_up += count,
        }
    }
    Ok(fates)
}
