//! Health and metrics.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::ApiState;

/// `GET /healthz`: the process answers.
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// The readiness of the appliance to take events.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Readiness {
    ready: bool,
    /// The problems that keep it from taking events; else empty.
    reasons: Vec<String>,
}

/// The health as Microsoft's emulator of Service Bus tells it, for programs that wait for that.
#[derive(Serialize, JsonSchema)]
pub(crate) struct EmulatorHealth {
    /// `healthy` or `unhealthy`.
    status: &'static str,
    message: String,
}

/// `GET /health`: reports readiness as `/readyz` does, in the format of Microsoft's Service Bus emulator.
pub(crate) async fn emulator_health(State(state): State<ApiState>) -> Response {
    let reasons = unready(&state).await;
    let (code, status, message) = if reasons.is_empty() {
        (StatusCode::OK, "healthy", "Service is healthy.".to_owned())
    } else {
        let message = format!("Service is unhealthy: {}.", reasons.join("; "));
        (StatusCode::SERVICE_UNAVAILABLE, "unhealthy", message)
    };
    (code, Json(EmulatorHealth { status, message })).into_response()
}

/// `GET /readyz`: reports whether events can be accepted, and the reasons if not.
pub(crate) async fn readyz(State(state): State<ApiState>) -> Response {
    let reasons = unready(&state).await;
    let ready = reasons.is_empty();
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, Json(Readiness { ready, reasons })).into_response()
}

/// Returns the reasons why events cannot be accepted; empty if they can.
async fn unready(state: &ApiState) -> Vec<String> {
    let mut reasons = Vec::new();
    if state.broker.is_stopping() {
        reasons.push("the appliance is stopping".to_owned());
    } else if let Err(error) = state.broker.check_writable().await {
        reasons.push(format!("the store cannot be written: {error}"));
    }
    if state.broker.disk_is_low() {
        reasons.push("less is free on the disk than storage.min_free_mb asks for".to_owned());
    }
    for task in state.diagnostics.failed_tasks() {
        reasons.push(format!("the task {task} has failed and is not running"));
    }
    if state.intake.is_overloaded(state.broker.clock().now()) {
        reasons.push(
            "more is being published than can be stored, so publishers are told to come back"
                .to_owned(),
        );
    }
    reasons
}

/// `GET /metrics`: for Prometheus.
pub(crate) async fn metrics(State(state): State<ApiState>) -> impl IntoResponse {
    let format = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    (
        [(header::CONTENT_TYPE, format)],
        state.broker.metrics_text(),
    )
}
