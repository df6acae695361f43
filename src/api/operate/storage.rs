//! Everpost's own door to how large the store is, how long it keeps what, and what would go now.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::parameters::Parameters;
use crate::broker::StorageReport;
use crate::model::limits::RETENTION_HOURS_MAX;
use crate::model::retention::{Pressure, RetentionRules};

/// Other ages than those in force, to see what they would delete.
#[derive(Deserialize)]
pub(crate) struct Supposed {
    hours: Option<u64>,
    #[serde(rename = "deadLetterHours")]
    dead_letter_hours: Option<u64>,
}

/// `GET /everpost/storage`: deletes nothing.
pub(crate) async fn show(
    State(state): State<ApiState>,
    Parameters(supposed): Parameters<Supposed>,
) -> Result<Json<Value>, ApiError> {
    let in_force = state.broker.options().retention;
    let delivered = age("hours", supposed.hours)?;
    let dead_letters = age("deadLetterHours", supposed.dead_letter_hours)?;
    let rules = RetentionRules {
        delivered: delivered.unwrap_or(in_force.delivered),
        dead_letters: dead_letters.or(in_force.dead_letters),
        ..in_force
    };
    Ok(Json(report(&state.broker.storage(rules).await?)))
}

fn age(name: &str, hours: Option<u64>) -> Result<Option<Duration>, ApiError> {
    match hours {
        Some(hours) if hours > RETENTION_HOURS_MAX => Err(ApiError::bad_request(format!(
            "The parameter {name} must be a whole number from 0 to {RETENTION_HOURS_MAX}."
        ))),
        hours => Ok(hours.map(|hours| Duration::from_secs(hours * 3_600))),
    }
}

fn report(report: &StorageReport) -> Value {
    let (status, rules, preview) = (&report.status, &report.rules, &report.preview);
    let sizes = &status.sizes;
    let hours = |age: Duration| age.as_secs() / 3_600;
    let oldest = status
        .oldest
        .map(|(key, received_at)| json!({ "key": key.0, "receivedAt": received_at.to_string() }));
    json!({
        "databaseBytes": sizes.file,
        "usedBytes": sizes.used(),
        "freeBytes": sizes.free,
        "logBytes": sizes.log,
        "diskFreeBytes": sizes.disk_free,
        "oldestEvent": oldest,
        "retention": {
            "hours": hours(rules.delivered),
            "deadLetterHours": rules.dead_letters.map(hours),
            "bytesMax": rules.bytes_max,
        },
        "pressure": status.pressure.map(Pressure::name),
        "prunedSinceStart": {
            "events": status.pruned.events,
            "deliveries": status.pruned.deliveries,
            "deliveryAttempts": status.pruned.attempts,
        },
        "wouldGoNow": {
            "events": preview.events,
            "deliveries": preview.deliveries,
            "dataBytes": preview.bytes,
            "isPartial": preview.is_partial,
        },
    })
}
