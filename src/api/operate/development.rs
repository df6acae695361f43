//! What is different in `everpost dev`: who is answered, and what integration tests can ask for.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use url::{Host, Url};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::manage::people::read;
use crate::api::publish::host_of;
use crate::base::Timestamp;

/// Between two looks at whether there is nothing to do.
const LOOK_PAUSE: Duration = Duration::from_millis(5);

/// How long a request may wait, and for how long the clock is moved ahead at most: a year, after which everything
/// has expired.
const WAIT_SECONDS: u32 = 10;
const WAIT_SECONDS_MAX: u32 = 600;
const ADVANCE_SECONDS_MAX: u32 = 366 * 86_400;

/// What connects these requests with the program that starts and stops the appliance.
#[derive(Clone, Debug, Default)]
pub struct DevMode {
    /// Told when the appliance is to be replaced by a new one.
    pub reset: Arc<Notify>,
    /// Ends when the appliance takes no more connections.
    pub closing: CancellationToken,
}

/// Rejects what a browser on this machine sends for a web site: all keys are known to everybody. A site can point a name
/// of its own here (which the host tells), or send requests and open WebSockets across sites (which the origin tells).
pub(in crate::api) fn check_is_local(request: &Request) -> Result<(), ApiError> {
    let origin = request.headers().get(header::ORIGIN);
    let origin = origin.map(|origin| origin.to_str().unwrap_or_default());
    // The pages send none, for which browsers write null; their forms have tokens.
    let origin = origin.filter(|it| *it != "null" || !request.uri().path().starts_with("/admin"));
    let host = host_of(request).map(|host| format!("http://{host}"));
    match host.as_deref().is_none_or(is_local) && origin.is_none_or(is_local) {
        true => Ok(()),
        false => Err(ApiError::forbidden(
            "everpost dev answers this machine alone: use localhost or 127.0.0.1 in the URL, and no page of another host.",
        )),
    }
}

/// Whether a URL names this machine. Nobody can own a name without a dot, or under these two.
fn is_local(url: &str) -> bool {
    let url = Url::parse(url).ok();
    match url.as_ref().and_then(Url::host) {
        Some(Host::Domain(name)) => {
            !name.contains('.') || name.ends_with(".localhost") || name.ends_with(".internal")
        }
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Advance {
    /// By how much the clock is moved ahead.
    #[schemars(range(max = ADVANCE_SECONDS_MAX))]
    seconds: u32,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Advanced {
    now: Timestamp,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Wait {
    /// How long to wait at most.
    #[serde(default = "wait_seconds")]
    #[schemars(range(max = WAIT_SECONDS_MAX))]
    timeout_seconds: u32,
}

fn wait_seconds() -> u32 {
    WAIT_SECONDS
}

/// `POST /everpost/test/advance`
pub(crate) async fn advance(
    State(state): State<ApiState>,
    body: Bytes,
) -> Result<Json<Advanced>, ApiError> {
    let Advance { seconds } = read(&body)?;
    state.broker.advance(Duration::from_secs(seconds.into()));
    let now = state.broker.clock().now();
    Ok(Json(Advanced { now }))
}

/// `POST /everpost/test/wait-until-idle`
pub(crate) async fn wait_until_idle(
    State(state): State<ApiState>,
    body: Bytes,
) -> Result<StatusCode, ApiError> {
    let Wait { timeout_seconds } = read(&body)?;
    let idle = async {
        while !state.broker.is_idle() {
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    };
    let patience = Duration::from_secs(timeout_seconds.into());
    match tokio::time::timeout(patience, idle).await {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(_) => Err(ApiError::conflict(format!(
            "Deliveries are still under way after {timeout_seconds} s."
        ))),
    }
}

/// `POST /everpost/test/reset`: who connects after the answer talks to the new appliance.
pub(crate) async fn reset(State(state): State<ApiState>) -> StatusCode {
    if let Some(dev) = &state.options.dev {
        dev.reset.notify_one();
        dev.closing.cancelled().await;
    }
    StatusCode::NO_CONTENT
}
