//! Storage: how large it is, how long it keeps what, and what would be deleted now.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::parameters::RequestParameters;
use crate::base::Timestamp;
use crate::broker::StorageReport;
use crate::model::limits::RETENTION_HOURS_MAX;
use crate::model::retention::{Pressure, RetentionRules};
use crate::wire::query::StorageParameters;

/// How large the store is, how long it keeps what, and what would be deleted now.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Storage {
    database_bytes: u64,
    used_bytes: u64,
    free_bytes: u64,
    log_bytes: u64,
    disk_free_bytes: Option<u64>,
    oldest_event: Option<OldestEvent>,
    retention: Retention,
    /// The reason that events are deleted early.
    pressure: Option<Pressure>,
    pruned_since_start: Deleted,
    would_go_now: Preview,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct OldestEvent {
    key: i64,
    received_at: Timestamp,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Retention {
    hours: u64,
    dead_letter_hours: Option<u64>,
    bytes_max: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Deleted {
    events: u64,
    deliveries: u64,
    delivery_attempts: u64,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Preview {
    events: u64,
    deliveries: u64,
    data_bytes: u64,
    /// There is more than was counted.
    is_partial: bool,
}

/// `GET /everpost/storage`: deletes nothing.
pub(crate) async fn show(
    State(state): State<ApiState>,
    RequestParameters(ages): RequestParameters<StorageParameters>,
) -> Result<Json<Storage>, ApiError> {
    let in_force = state.broker.options().retention;
    let delivered = age("hours", ages.hours)?;
    let dead_letters = age("deadLetterHours", ages.dead_letter_hours)?;
    let rules = RetentionRules {
        delivered: delivered.unwrap_or(in_force.delivered),
        dead_letters: dead_letters.or(in_force.dead_letters),
        ..in_force
    };
    Ok(Json((&state.broker.storage(rules).await?).into()))
}

fn age(name: &str, hours: Option<u64>) -> Result<Option<Duration>, ApiError> {
    match hours {
        Some(hours) if hours > RETENTION_HOURS_MAX => Err(ApiError::bad_request(format!(
            "The parameter {name} must be a whole number from 0 to {RETENTION_HOURS_MAX}."
        ))),
        hours => Ok(hours.map(|hours| Duration::from_secs(hours * 3_600))),
    }
}

impl From<&StorageReport> for Storage {
    fn from(report: &StorageReport) -> Self {
        let (status, rules, preview) = (&report.status, &report.rules, &report.preview);
        let sizes = &status.sizes;
        let hours = |age: Duration| age.as_secs() / 3_600;
        Self {
            database_bytes: sizes.file,
            used_bytes: sizes.used(),
            free_bytes: sizes.free,
            log_bytes: sizes.log,
            disk_free_bytes: sizes.disk_free,
            oldest_event: status.oldest.map(|(key, received_at)| OldestEvent {
                key: key.0,
                received_at,
            }),
            retention: Retention {
                hours: hours(rules.delivered),
                dead_letter_hours: rules.dead_letters.map(hours),
                bytes_max: rules.bytes_max,
            },
            pressure: status.pressure,
            pruned_since_start: Deleted {
                events: status.pruned.events,
                deliveries: status.pruned.deliveries,
                delivery_attempts: status.pruned.attempts,
            },
            would_go_now: Preview {
                events: preview.events,
                deliveries: preview.deliveries,
                data_bytes: preview.bytes,
                is_partial: preview.is_partial,
            },
        }
    }
}
