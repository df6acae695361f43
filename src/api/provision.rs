//! Applies the provisioning directory through the API's own routes, inside the process.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tower::ServiceExt;

use crate::api::Doors;
use crate::api::auth::Principal;
use crate::api::manage::configuration::{PrunedObjects, plan_of};
use crate::model::limits::MANAGEMENT_BYTES_MAX;

impl Doors {
    /// Returns the plan that creates or updates `objects` and deletes other objects that were provisioned before, or
    /// the faults of `objects`, as in `POST /everpost/configuration/plan`.
    ///
    /// # Errors
    /// Returns the reason why no plan could be made, as a sentence.
    pub async fn plan_provisioning(&self, objects: &[Value]) -> Result<Value, String> {
        let plan = plan_of(&self.state, objects, PrunedObjects::Provisioned)
            .await
            .map_err(|error| error.explanation)?;
        serde_json::to_value(plan).map_err(|error| error.to_string())
    }

    /// Makes one change of a provisioning plan for `file`: a PUT of `body` to the path with the segments `path`, or a
    /// DELETE if there is no `body`.
    ///
    /// # Errors
    /// Returns the reason why the change was rejected, as a sentence.
    pub async fn provision<'a>(
        &self,
        file: &str,
        path: impl Iterator<Item = &'a str>,
        body: Option<&Value>,
    ) -> Result<(), String> {
        let address: String = path
            .map(|part| format!("/{}", utf8_percent_encode(part, NON_ALPHANUMERIC)))
            .collect();
        let (method, body) = match body {
            Some(body) => (Method::PUT, Body::from(body.to_string())),
            None => (Method::DELETE, Body::empty()),
        };
        let mut request = Request::builder()
            .method(method)
            .uri(&address)
            .header(header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|error| format!("{address}: {error}"))?;
        let by = Principal::provisioning(file, self.state.broker.clock().now());
        request.extensions_mut().insert(by);
        let router = self.router.clone();
        let answer = router
            .oneshot(request)
            .await
            .unwrap_or_else(|never| match never {});
        if answer.status().is_success() {
            return Ok(());
        }
        let status = answer.status();
        let body = axum::body::to_bytes(answer.into_body(), MANAGEMENT_BYTES_MAX).await;
        let body: Option<Value> = body
            .ok()
            .and_then(|body| serde_json::from_slice(&body).ok());
        let said = body
            .as_ref()
            .and_then(|body| body["error"]["message"].as_str());
        // The request to report a problem, which ends some messages, is removed here.
        let problem = said.map(|said| said.split(" Report '").next().unwrap_or(said).to_owned());
        Err(problem.unwrap_or_else(|| status.to_string()))
    }
}
