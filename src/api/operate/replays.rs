//! Replay jobs.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::lists::Page;
use crate::api::manage::json as parse;
use crate::api::parameters::RequestParameters;
use crate::model::audit::Caller;
use crate::model::replay::{ReplayCommand, ReplayJob, ReplayJobId};
use crate::wire::query::Paging;
use crate::wire::resource::{self, ReplayContext, ReplayFates, ReplayRequest, ShownReplay};

/// `GET /everpost/replays`
pub(crate) async fn list(
    State(state): State<ApiState>,
    RequestParameters(paging): RequestParameters<Paging>,
) -> Result<Json<Page<ShownReplay>>, ApiError> {
    let before = paging.before.map(ReplayJobId);
    let page = state.views.replay_jobs(before, paging.limit()).await?;
    let rows = page.rows.iter().map(|job| shown(&state, job));
    Ok(Json(Page::new(rows, page.next_before.map(|id| id.0))))
}

/// `POST /everpost/replays`
pub(crate) async fn start(
    State(state): State<ApiState>,
    by: Caller,
    body: Bytes,
) -> Result<Response, ApiError> {
    let ReplayRequest {
        source,
        target,
        rate,
    } = request(&state, &body)?;
    let job = state.broker.start_replay(&by, source, target, rate).await?;
    Ok((StatusCode::CREATED, Json(shown(&state, &job))).into_response())
}

/// How many deliveries a replay would cover.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct Total {
    total: u64,
}

/// `POST /everpost/replays/preview`: counts what a replay would cover, and starts nothing.
pub(crate) async fn preview(
    State(state): State<ApiState>,
    body: Bytes,
) -> Result<Json<Total>, ApiError> {
    let request = request(&state, &body)?;
    let (total, _) = state.broker.preview_replay(&request.source).await?;
    Ok(Json(Total { total }))
}

/// `GET /everpost/replays/{id}`
pub(crate) async fn show(
    State(state): State<ApiState>,
    Path(id): Path<i64>,
) -> Result<Json<ShownReplay>, ApiError> {
    let found = state.views.replay_job(ReplayJobId(id)).await?;
    let job = found.ok_or_else(|| ApiError::not_found(format!("There is no replay job {id}.")))?;
    let mut shown = shown(&state, &job);
    let fates = state.views.replay_results(&job).await?;
    shown.fates = Some(fates.map(|fates| ReplayFates {
        delivered: fates.delivered,
        given_up: fates.given_up,
        waiting: fates.waiting,
    }));
    Ok(Json(shown))
}

/// `POST /everpost/replays/{id}/pause`
pub(crate) async fn pause(
    State(state): State<ApiState>,
    by: Caller,
    Path(id): Path<i64>,
) -> Result<Json<ShownReplay>, ApiError> {
    command(&state, &by, id, ReplayCommand::Pause).await
}

/// `POST /everpost/replays/{id}/resume`
pub(crate) async fn resume(
    State(state): State<ApiState>,
    by: Caller,
    Path(id): Path<i64>,
) -> Result<Json<ShownReplay>, ApiError> {
    command(&state, &by, id, ReplayCommand::Resume).await
}

/// `POST /everpost/replays/{id}/cancel`
pub(crate) async fn cancel(
    State(state): State<ApiState>,
    by: Caller,
    Path(id): Path<i64>,
) -> Result<Json<ShownReplay>, ApiError> {
    command(&state, &by, id, ReplayCommand::Cancel).await
}

async fn command(
    state: &ApiState,
    by: &Caller,
    id: i64,
    command: ReplayCommand,
) -> Result<Json<ShownReplay>, ApiError> {
    let job = state
        .broker
        .command_replay(by, ReplayJobId(id), command)
        .await?;
    Ok(Json(shown(state, &job)))
}

fn request(state: &ApiState, body: &Bytes) -> Result<ReplayRequest, ApiError> {
    let registry = state.broker.registry();
    let context = ReplayContext {
        registry: &registry,
        require_https: state.broker.options().egress.require_https,
    };
    Ok(resource::parse_replay(&parse(body)?, context)?)
}

fn shown(state: &ApiState, job: &ReplayJob) -> ShownReplay {
    let waits_for = state.broker.replay_blocked_by(job.id);
    resource::render_replay(job, &state.broker.registry(), waits_for)
}
