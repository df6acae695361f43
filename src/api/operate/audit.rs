//! The audit log.

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::filters::moment;
use crate::api::lists::Page;
use crate::api::parameters::BothParameters;
use crate::base::Timestamp;
use crate::model::audit::{AuditEntry, AuditId, AuditRow, Change, TargetKind};
use crate::store::audit::AuditQuery;
use crate::wire::query::{AuditParameters, Paging};

/// An entry as answers show it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AuditEntry")]
pub(crate) struct ShownEntry {
    id: i64,
    at: Timestamp,
    #[schemars(extend("enum" = ["User", "ApiToken", "ManagementToken", "CommandLine"]))]
    actor_kind: &'static str,
    actor: String,
    address: Option<String>,
    action: String,
    target_kind: TargetKind,
    /// The name or the number.
    target: String,
    /// The same for people.
    sentence: String,
    changes: Vec<Change>,
}

impl From<&AuditRow> for ShownEntry {
    fn from(row: &AuditRow) -> Self {
        let AuditEntry {
            caller,
            action,
            target,
        } = &row.entry;
        Self {
            id: row.id.0,
            at: caller.at,
            actor_kind: caller.actor.kind(),
            actor: caller.actor.name().to_owned(),
            address: caller.address.map(|address| address.to_string()),
            action: action.name().to_owned(),
            target_kind: target.kind,
            target: target.name.clone(),
            sentence: row.entry.describe(),
            changes: action.changes().to_vec(),
        }
    }
}

/// `GET /everpost/audit`
pub(crate) async fn list(
    State(state): State<ApiState>,
    BothParameters(filter, paging): BothParameters<AuditParameters, Paging>,
) -> Result<Json<Page<ShownEntry>>, ApiError> {
    let query = AuditQuery {
        actor: filter.actor,
        action: filter.action,
        target_kind: filter.target_kind,
        target: filter.target,
        from: moment("from", filter.from.as_deref())?,
        to: moment("to", filter.to.as_deref())?,
        before: paging.before.map(AuditId),
        limit: paging.limit(),
    };
    let page = state.views.audit(query).await?;
    let next_before = page.next_before.map(|id| id.0);
    Ok(Json(Page::new(
        page.rows.iter().map(ShownEntry::from),
        next_before,
    )))
}
