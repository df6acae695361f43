//! The `deadLetterDestination` of an event subscription (rule 3.3, A).

use serde_json::{Value, json};

use super::InvalidResource;
use super::blob_storage::{self, STORAGE};
use super::credentials::Secrets;
use super::fields::Fields;
use crate::model::blob_storage::BlobStorage;
use crate::model::subscription::DeadLetterDestination;
use crate::wire::bad_input::quoted;

const NAME: &str = "deadLetterDestination";
const STORAGE_BLOB: &str = "StorageBlob";
const RESOURCE_ID: &str = "resourceId";
const CONTAINER: &str = "blobContainerName";

/// Left out and `null` differ here (rule A): by default the built-in queue keeps dead letters. `known` has
/// the secrets that need not be given again.
pub(super) fn read(
    fields: &Fields,
    known: Option<&DeadLetterDestination>,
) -> Result<DeadLetterDestination, InvalidResource> {
    let Some(destination) = fields.object(NAME)? else {
        return Ok(match fields.is_absent(NAME) {
            true => DeadLetterDestination::BuiltInQueue,
            false => DeadLetterDestination::Drop,
        });
    };
    const PROPERTIES: [&str; 3] = [RESOURCE_ID, CONTAINER, STORAGE];
    destination.expect_names(&["endpointType", "properties"])?;
    destination.expect_inside("properties", &PROPERTIES)?;
    let kind = destination.choice("endpointType", &[(STORAGE_BLOB, ())])?;
    kind.ok_or_else(|| destination.missing("endpointType", "\"StorageBlob\""))?;
    let properties = destination.object_or_empty("properties")?;
    properties.expect_names(&PROPERTIES)?;
    let kept = match known {
        Some(DeadLetterDestination::StorageBlob { storage, .. }) => Some(storage),
        Some(DeadLetterDestination::BuiltInQueue | DeadLetterDestination::Drop) | None => None,
    };
    let storage = blob_storage::read(&properties, kept)?;
    let resource_id = match &storage {
        // What is stored stays readable, whatever the rules have been.
        BlobStorage::Directory if !properties.is_stored() => {
            properties.required_text(RESOURCE_ID, "the id of a storage account")?
        }
        // Other storage is named otherwise.
        BlobStorage::Directory | BlobStorage::S3(_) | BlobStorage::AzureBlob(_) => {
            properties.text(RESOURCE_ID)?.unwrap_or_default()
        }
    };
    let container = properties.required_text(CONTAINER, "the name of a container")?;
    Ok(DeadLetterDestination::StorageBlob {
        resource_id: resource_id.to_owned(),
        container: container.to_owned(),
        storage,
    })
}

/// The rules for what a client sends now: Azure's for names of containers, which are also safe as those of
/// directories and buckets, and those for storage.
pub(super) fn check(
    fields: &Fields,
    dead_letter: &DeadLetterDestination,
    require_https: bool,
) -> Result<(), InvalidResource> {
    let DeadLetterDestination::StorageBlob {
        container, storage, ..
    } = dead_letter
    else {
        return Ok(());
    };
    let properties = fields
        .object_or_empty(NAME)?
        .object_or_empty("properties")?;
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let well_formed = (3..=63).contains(&container.len())
        && container.chars().all(allowed)
        && !container.starts_with('-')
        && !container.ends_with('-');
    if !well_formed {
        let problem = format!(
            "{} is not the name of a container: 3 to 63 lower-case letters, digits and inner hyphens",
            quoted(container)
        );
        return Err(properties.invalid(CONTAINER, problem));
    }
    blob_storage::check(&properties, storage, require_https)
}

/// `None` for the default: an explicit `null` means to drop (rule A).
pub(super) fn render(dead_letter: &DeadLetterDestination, secrets: Secrets) -> Option<Value> {
    match dead_letter {
        DeadLetterDestination::BuiltInQueue => None,
        DeadLetterDestination::Drop => Some(Value::Null),
        DeadLetterDestination::StorageBlob {
            resource_id,
            container,
            storage,
        } => {
            let mut properties = json!({ CONTAINER: container });
            if !resource_id.is_empty() {
                properties[RESOURCE_ID] = json!(resource_id);
            }
            blob_storage::add(&mut properties, storage, secrets);
            Some(json!({ "endpointType": STORAGE_BLOB, "properties": properties }))
        }
    }
}
