//! Shows the settings in force, and changes the settings that can change while the appliance runs.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::lists::List;
use crate::api::manage::ApiResult;
use crate::api::manage::people::read;
use crate::broker::diagnostics::SettingError;
use crate::model::audit::Caller;
use crate::model::setting::Setting;

/// A setting.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Setting")]
pub(crate) struct ShownSetting {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    /// A number, a boolean, a text or a list of texts; null where it is not set, `***` for a secret.
    value: Value,
    /// The kind of what sets it.
    #[schemars(extend("enum" = ["default", "file", "saved", "environment", "flag"]))]
    origin: &'static str,
    /// The file, the variable or the flag that sets it.
    set_by: Option<String>,
    /// Is true where a PUT can change it: not where a flag or a variable sets it, or where a change takes a restart.
    can_be_changed: bool,
    /// Its environment variable.
    variable: String,
    flag: String,
}

impl From<&Setting> for ShownSetting {
    fn from(setting: &Setting) -> Self {
        Self {
            name: setting.name,
            title: setting.title,
            description: setting.doc,
            value: setting.json(),
            origin: setting.origin.name(),
            set_by: Some(setting.place.clone()).filter(|place| !place.is_empty()),
            can_be_changed: setting.is_live && !setting.is_fixed(),
            variable: setting.variable.clone(),
            flag: setting.flag.clone(),
        }
    }
}

/// The value of a setting.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "SettingRequest")]
pub(crate) struct SettingBody {
    /// The value as in an environment variable: a list has commas between its values.
    value: String,
}

/// `GET /everpost/settings`
pub(crate) async fn list(State(state): State<ApiState>) -> Json<List<ShownSetting>> {
    let settings = state.diagnostics.settings();
    Json(settings.all.iter().map(ShownSetting::from).collect())
}

/// `GET /everpost/settings/{name}`
pub(crate) async fn get(
    State(state): State<ApiState>,
    Path(name): Path<String>,
) -> Result<Json<ShownSetting>, ApiError> {
    let setting = state.diagnostics.setting(&name)?;
    Ok(Json(ShownSetting::from(&setting)))
}

/// `PUT /everpost/settings/{name}`
pub(crate) async fn put(
    State(state): State<ApiState>,
    by: Caller,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Json<ShownSetting>, ApiError> {
    let SettingBody { value } = read(&body)?;
    let saved = state.diagnostics.save_setting(&by, &name, Some(value));
    saved.await?;
    get(State(state), Path(name)).await
}

/// `DELETE /everpost/settings/{name}`
pub(crate) async fn delete(
    State(state): State<ApiState>,
    by: Caller,
    Path(name): Path<String>,
) -> ApiResult {
    state.diagnostics.save_setting(&by, &name, None).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

impl From<SettingError> for ApiError {
    fn from(error: SettingError) -> Self {
        let explanation = format!("{error}.");
        match error {
            SettingError::NotFound(_) => Self::not_found(explanation),
            SettingError::Invalid { .. } => Self::of_field("value", explanation),
            SettingError::AtStart { .. }
            | SettingError::Fixed { .. }
            | SettingError::Failed { .. } => Self::conflict(explanation),
            SettingError::Store(error) => error.into(),
        }
    }
}
