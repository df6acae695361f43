//! Dead letters that are imported from storage.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::parameters::RequestParameters;
use crate::api::publish::mark_of;
use crate::model::audit::Caller;
use crate::model::name::{SubscriptionName, TopicName};
use crate::wire::dead_letter_import;
use crate::wire::query::ImportParameters;

/// The result of an import.
#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct Imported {
    records: usize,
    imported: usize,
    /// The blob had been imported before.
    repeated: bool,
}

/// `POST /everpost/deadLetters/import`: publishes the events of one blob anew, all or none. The same blob is
/// taken once within ten minutes, so that whoever missed the answer may send it again.
pub(crate) async fn import(
    State(state): State<ApiState>,
    by: Caller,
    RequestParameters(target): RequestParameters<ImportParameters>,
    blob: Bytes,
) -> Result<Json<Imported>, ApiError> {
    let topic = TopicName::parse(&target.topic)?;
    let entry = state.broker.topic(&topic)?;
    let (now, entropy) = (state.broker.clock().now(), state.broker.entropy());
    let schema = entry.topic.kind.input_schema();
    let events = dead_letter_import::read(&blob, schema, &entry.resource_id, now, entropy)?;
    let records = events.len();
    let name = target.subscription.as_deref().unwrap_or_default();
    // Of each blob one mark, since many are imported in a row.
    let id = [b"import to ", name.as_bytes(), b" of ", &blob].concat();
    let mark = Some(mark_of(&id, entry.topic.id, &blob, now));
    let only = match target.subscription {
        None => None,
        Some(name) => Some(
            state
                .broker
                .subscription(&topic, &SubscriptionName::parse(&name)?)?
                .1,
        ),
    };
    let imported = state
        .broker
        .import(&by, &entry, only.as_deref(), events, mark);
    let stored = imported.await?;
    Ok(Json(Imported {
        records,
        imported: stored.len(),
        repeated: stored.len() < records,
    }))
}
