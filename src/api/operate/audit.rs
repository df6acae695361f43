//! The audit log.

use axum::Json;
use axum::extract::State;

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::filters::moment;
use crate::api::lists::Page;
use crate::api::parameters::BothParameters;
use crate::model::audit::AuditId;
use crate::store::audit::AuditQuery;
use crate::wire::audit::AuditEntryBody;
use crate::wire::query::{AuditParameters, Paging};

/// `GET /everpost/audit`
pub(crate) async fn list(
    State(state): State<ApiState>,
    BothParameters(filter, paging): BothParameters<AuditParameters, Paging>,
) -> Result<Json<Page<AuditEntryBody>>, ApiError> {
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
        page.rows.iter().map(AuditEntryBody::from),
        next_before,
    )))
}
