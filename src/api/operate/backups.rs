//! Operations on backups: return their status and start a backup.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::manage::people::read;
use crate::broker::{BackupRejected, BackupRequest};
use crate::model::audit::Caller;
use crate::model::backup::{BackupPlace, BackupStatus};

#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "BackupRequest")]
pub(crate) struct NewBackup {
    /// The absolute path of an existing directory on the machine of the appliance, or `s3://bucket/prefix`; left out,
    /// that of the setting `backup.dir`. Any other than that must be in or below it or what `backup.allow` names, except
    /// with the management token.
    directory: Option<String>,
    /// Leaves out the master key, and with it the other files besides the database.
    without_master_key: bool,
}

impl From<BackupRejected> for ApiError {
    fn from(error: BackupRejected) -> Self {
        let explanation = error.to_string();
        match error {
            BackupRejected::Running => Self::conflict(explanation),
            BackupRejected::NoPlace | BackupRejected::Place(..) => {
                Self::of_field("directory", explanation)
            }
            BackupRejected::Store(error) => error.into(),
        }
    }
}

/// `GET /everpost/backups`
pub(crate) async fn show(State(state): State<ApiState>) -> Json<BackupStatus> {
    Json(state.broker.backups())
}

/// `POST /everpost/backups`
pub(crate) async fn start(
    State(state): State<ApiState>,
    by: Caller,
    body: Bytes,
) -> Result<(StatusCode, Json<BackupStatus>), ApiError> {
    let wish = if body.is_empty() {
        NewBackup::default()
    } else {
        read(&body)?
    };
    let place = wish
        .directory
        .as_deref()
        .map(BackupPlace::parse)
        .transpose();
    let request = BackupRequest {
        place: place.map_err(|problem| ApiError::of_field("directory", problem))?,
        without_master_key: wish.without_master_key,
    };
    state.broker.back_up(&by, &request).await?;
    Ok((StatusCode::ACCEPTED, Json(state.broker.backups())))
}
