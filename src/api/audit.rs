//! Everpost's own door to what anybody has changed.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::parameters::Parameters;
use crate::api::records::PAGE_ROWS;
use crate::base::Timestamp;
use crate::model::audit::{AuditId, AuditRow, Change};
use crate::store::audit::AuditQuery;

#[derive(Deserialize)]
pub(super) struct Asked {
    actor: Option<String>,
    path: Option<String>,
    from: Option<String>,
    until: Option<String>,
    limit: Option<usize>,
    before: Option<i64>,
}

/// `GET /everpost/audit`
pub(super) async fn list(
    State(state): State<ApiState>,
    Parameters(asked): Parameters<Asked>,
) -> Result<Json<Value>, ApiError> {
    let query = AuditQuery {
        actor: asked.actor,
        path: asked.path,
        from: moment("from", asked.from.as_deref())?,
        until: moment("until", asked.until.as_deref())?,
        before: asked.before.map(AuditId),
        limit: asked.limit.unwrap_or(PAGE_ROWS),
    };
    let page = state.views.audit(query).await?;
    let rows: Vec<Value> = page.rows.iter().map(render).collect();
    Ok(Json(
        json!({ "value": rows, "nextBefore": page.next_before.map(|id| id.0) }),
    ))
}

fn moment(name: &str, text: Option<&str>) -> Result<Option<Timestamp>, ApiError> {
    let parsed = text.map(str::parse).transpose();
    parsed.map_err(|_| {
        let problem = format!("The parameter {name} must be a moment as in 2026-11-21T06:40:00Z.");
        ApiError::of_field(name, problem)
    })
}

fn render(row: &AuditRow) -> Value {
    let entry = &row.entry;
    let changes: Vec<Value> = entry.changes.iter().map(render_change).collect();
    json!({
        "id": row.id.0,
        "at": entry.at.to_string(),
        "actorKind": entry.actor.kind(),
        "actor": entry.actor.name(),
        "address": entry.address,
        "method": entry.method,
        "path": entry.path,
        "name": entry.name,
        "changes": changes,
    })
}

fn render_change(change: &Change) -> Value {
    // What was cut is no JSON any more, but still says something.
    let value = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    json!({
        "property": change.property,
        "before": value(&change.before),
        "after": value(&change.after),
    })
}
