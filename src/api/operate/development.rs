//! Features of `everpost dev`: requests are accepted only from this machine, and integration tests have extra routes.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{StatusCode, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::manage::people::read;
use crate::base::Timestamp;
use crate::model::own_host::is_loopback;

/// Pause between two checks for idleness.
const LOOK_PAUSE: Duration = Duration::from_millis(5);

/// Default and maximum wait of a `wait-until-idle` request, and the maximum by which the clock is moved ahead: a year,
/// after which everything has expired.
const WAIT_SECONDS: u32 = 10;
const WAIT_SECONDS_MAX: u32 = 600;
const ADVANCE_SECONDS_MAX: u32 = 366 * 86_400;

/// Signals between the test routes and the program that starts and stops the appliance.
#[derive(Clone, Debug, Default)]
pub struct DevMode {
    /// Notified when the appliance is to be replaced by a new one.
    pub reset: Arc<Notify>,
    /// Cancelled when the appliance accepts no more connections.
    pub closing: CancellationToken,
}

/// Rejects requests that a browser on this machine sends for a website, because the keys of `everpost dev` are public.
/// A website can point its own host name here (detected by the host), or send cross-site requests and open cross-site
/// WebSockets (detected by the origin).
pub(in crate::api) fn check_is_local(request: &Request) -> Result<(), ApiError> {
    let texts = |name| {
        let all = request.headers().get_all(name).iter();
        all.map(|text| text.to_str().unwrap_or_default())
    };
    // The admin pages send no origin, which browsers write as null. Their forms are protected by tokens.
    let is_page = request.uri().path().starts_with("/admin");
    let mut origins = texts(header::ORIGIN).filter(|it| *it != "null" || !is_page);
    let in_uri = request.uri().authority().map(Authority::as_str);
    let mut hosts = texts(header::HOST).chain(in_uri);
    if hosts.all(|host| is_local(&format!("http://{host}"))) && origins.all(is_local) {
        return Ok(());
    }
    Err(ApiError::forbidden(
        "everpost dev answers this machine alone: use localhost or 127.0.0.1 in the URL, and no page of another host.",
    ))
}

/// Reports whether `url` is an HTTP or HTTPS URL with a loopback host. A name without a dot may belong to another
/// machine, and the origin of a browser extension is not an HTTP URL.
fn is_local(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| {
        let is_web = matches!(url.scheme(), "http" | "https");
        is_web && url.host().as_ref().is_some_and(is_loopback)
    })
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

/// `POST /everpost/test/reset`: connections made after the answer reach the new appliance.
pub(crate) async fn reset(State(state): State<ApiState>) -> StatusCode {
    if let Some(dev) = &state.options.dev {
        dev.reset.notify_one();
        dev.closing.cancelled().await;
    }
    StatusCode::NO_CONTENT
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn check(headers: &[(&str, &str)], expected: bool) {
        let request = headers
            .iter()
            .fold(Request::get("/topics"), |request, (name, value)| {
                request.header(*name, *value)
            });
        let request = request.body(Body::empty()).expect("a request");
        assert_eq!(check_is_local(&request).is_ok(), expected, "{headers:?}");
    }

    #[test]
    fn names_of_this_machine_alone_are_answered() {
        for (name, is_here) in [
            ("localhost", true),
            ("LOCALHOST:8080", true),
            ("localhost.", true),
            ("everpost.localhost:8080", true),
            ("127.0.0.1", true),
            ("127.9.9.9:1", true),
            ("[::1]:8080", true),
            ("[::ffff:127.0.0.1]", true),
            ("2130706433", true), // as browsers read it
            ("intranet", false),
            ("everpost:8080", false),
            ("host.docker.internal", false),
            ("a.internal", false),
            ("localhost.evil.example", false),
            ("notlocalhost", false),
            ("127.0.0.1.evil.example", false),
            ("127.0.0.1@evil.example", false),
            ("10.0.0.7", false),
            ("0.0.0.0:8080", false),
            ("[::]", false),
            ("", false),
        ] {
            check(&[("host", name)], is_here);
            check(&[("host", "localhost"), ("host", name)], is_here);
            check(
                &[("host", "localhost"), ("origin", &format!("http://{name}"))],
                is_here,
            );
        }
        for origin in [
            "null",
            "",
            "chrome-extension://localhost",
            "moz-extension://127.0.0.1",
            "file://localhost",
            "ws://localhost",
            "localhost",
        ] {
            check(&[("host", "localhost"), ("origin", origin)], false);
        }
        let two = [
            ("origin", "http://localhost"),
            ("origin", "https://evil.example"),
        ];
        check(&two, false);
        check(&[], true);
    }
}
