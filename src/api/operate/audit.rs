//! Everpost's own door to what anybody has changed.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::operate::records::PAGE_ROWS;
use crate::api::parameters::Parameters;
use crate::base::Timestamp;
use crate::model::audit::{AuditEntry, AuditId, AuditRow};
use crate::store::audit::AuditQuery;

#[derive(Deserialize)]
pub(crate) struct Asked {
    actor: Option<String>,
    action: Option<String>,
    #[serde(rename = "targetKind")]
    target_kind: Option<String>,
    target: Option<String>,
    from: Option<String>,
    to: Option<String>,
    limit: Option<usize>,
    before: Option<i64>,
}

/// `GET /everpost/audit`
pub(crate) async fn list(
    State(state): State<ApiState>,
    Parameters(asked): Parameters<Asked>,
) -> Result<Json<Value>, ApiError> {
    let query = AuditQuery {
        actor: asked.actor,
        action: asked.action,
        target_kind: asked.target_kind,
        target: asked.target,
        from: moment("from", asked.from.as_deref())?,
        to: moment("to", asked.to.as_deref())?,
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
    let AuditEntry {
        caller,
        action,
        target,
    } = &row.entry;
    json!({
        "id": row.id.0,
        "at": caller.at.to_string(),
        "actorKind": caller.actor.kind(),
        "actor": caller.actor.name(),
        "address": caller.address,
        "action": action.name(),
        "targetKind": target.kind,
        "target": target.name,
        "sentence": row.entry.describe(),
        "changes": action.changes(),
    })
}
