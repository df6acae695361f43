//! The `deadLetterDestination` of an event subscription (rule 3.3, A).
//!
//! The property `storage` is an extension that specifies the location of the container. Azure uses a resource ID and an
//! identity instead. Responses never contain a secret. An update without a secret keeps the stored secret if the
//! account and its endpoint stay the same.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::mirror::documents;
use super::rules::Judged;
use super::values::default_if_null;
use crate::model::access::Secret;
use crate::model::blob_storage::{AzureAccess, AzureAccount, BlobStorage, S3Account};
use crate::model::destination::EndpointUrl;
use crate::model::limits::CREDENTIAL_BYTES_MAX;
use crate::model::subscription::DeadLetterDestination;

documents! {
    AzureAccess => AzureAccessDocument;
    AzureAccount => AzureAccountDocument;
    BlobStorage => StorageDocument;
    S3Account => S3Document;
}

/// Where dead letters go instead of staying in their queue.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(
    remote = "DeadLetterDestination",
    tag = "endpointType",
    content = "properties"
)]
#[serde(rename_all_fields = "camelCase")]
#[schemars(rename = "DeadLetterDestination", extend("x-rule" = "storageBlob"))]
pub(super) enum DeadLetterDocument {
    #[serde(skip)]
    BuiltInQueue,
    /// Dead letters are dropped, and counted.
    Drop,
    StorageBlob {
        /// A storage account's; not needed with `storage`.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        resource_id: String,
        /// A container, bucket or directory.
        #[serde(rename = "blobContainerName")]
        #[schemars(length(min = 1), regex(pattern = "^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$"))]
        #[schemars(extend("x-expected" = "the name of a container", "x-check" = "container"))]
        container: String,
        #[serde(default, deserialize_with = "default_if_null")]
        #[serde(skip_serializing_if = "is_directory")]
        #[schemars(with = "Option<BlobStorage>")]
        storage: BlobStorage,
    },
}

/// A storage account for dead letters, instead of the directory of the server.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "BlobStorage", tag = "type")]
#[schemars(rename = "DeadLetterStorage", extend("x-rule" = "storage"))]
enum StorageDocument {
    #[serde(skip)]
    Directory,
    S3(Box<S3Account>),
    AzureBlob(Box<AzureAccount>),
}

fn is_directory(storage: &BlobStorage) -> bool {
    *storage == BlobStorage::Directory
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "S3Account", rename_all = "camelCase")]
#[schemars(inline)]
struct S3Document {
    /// Left out, that of AWS. The bucket is part of the path.
    #[serde(rename = "endpointUrl")]
    endpoint: Option<EndpointUrl>,
    #[serde(default = "default_region")]
    #[schemars(extend("x-check" = "accountWord"))]
    region: String,
    #[schemars(length(min = 1))]
    #[schemars(extend("x-expected" = "the id of an access key", "x-check" = "accountWord"))]
    access_key_id: String,
    /// Null in answers; left out, it stays.
    #[schemars(length(min = 1), extend("x-maxBytes" = CREDENTIAL_BYTES_MAX))]
    #[schemars(extend("x-expected" = "the access key's secret"))]
    #[schemars(extend("x-kept" = ["endpointUrl", "accessKeyId"]))]
    secret_access_key: Secret,
}

/// Returns the default region, for S3 servers that have no regions.
fn default_region() -> String {
    "us-east-1".to_owned()
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "AzureAccount")]
#[schemars(inline)]
struct AzureAccountDocument {
    #[serde(rename = "accountName")]
    #[schemars(length(min = 1))]
    #[schemars(extend("x-expected" = "the name of a storage account", "x-check" = "accountWord"))]
    name: String,
    /// Left out, that of the account in Azure's public cloud.
    #[serde(rename = "endpointUrl")]
    endpoint: Option<EndpointUrl>,
    #[serde(flatten)]
    #[schemars(with = "EitherSecret")]
    access: AzureAccess,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "AzureAccess")]
enum AzureAccessDocument {
    #[serde(rename = "accountKey")]
    Key(Secret),
    #[serde(rename = "sasToken")]
    SasToken(Secret),
}

/// One of the two.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "for the schema alone")]
struct EitherSecret {
    /// Null in answers; left out, it stays.
    #[schemars(extend("x-maxBytes" = CREDENTIAL_BYTES_MAX, "x-check" = "base64"))]
    #[schemars(extend("x-kept" = ["accountName", "endpointUrl", "sasToken"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    account_key: Option<Secret>,
    /// A shared access signature in the place of a key. Null in answers; left out, it stays.
    #[schemars(extend("x-maxBytes" = CREDENTIAL_BYTES_MAX))]
    #[schemars(extend("x-kept" = ["accountName", "endpointUrl", "accountKey"]))]
    #[serde(skip_serializing_if = "Option::is_none")]
    sas_token: Option<Secret>,
}

/// Serializes and deserializes `deadLetterDestination`. The built-in queue keeps dead letters if the property is
/// missing or `null`. Azure clients send `null` (rule A).
pub(super) mod or_built_in_queue {
    use serde::{Deserialize, Deserializer, Serializer};

    use super::{DeadLetterDestination, DeadLetterDocument, built_in_queue};

    pub(in crate::wire::resource) fn serialize<S: Serializer>(
        dead_letter: &DeadLetterDestination,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match dead_letter {
            DeadLetterDestination::BuiltInQueue => serializer.serialize_none(),
            DeadLetterDestination::Drop | DeadLetterDestination::StorageBlob { .. } => {
                DeadLetterDocument::serialize(dead_letter, serializer)
            }
        }
    }

    pub(in crate::wire::resource) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<DeadLetterDestination, D::Error> {
        #[derive(Deserialize)]
        struct GivenDestination(#[serde(with = "DeadLetterDocument")] DeadLetterDestination);
        let given = Option::deserialize(deserializer)?;
        Ok(given.map_or_else(built_in_queue, |GivenDestination(destination)| destination))
    }
}

pub(super) fn built_in_queue() -> DeadLetterDestination {
    DeadLetterDestination::BuiltInQueue
}

pub(super) fn is_built_in_queue(dead_letter: &DeadLetterDestination) -> bool {
    *dead_letter == DeadLetterDestination::BuiltInQueue
}

pub(super) fn judge_storage_blob(it: &mut Judged<'_>) {
    const ID: &str = "resourceId";
    let expected = "the id of a storage account";
    let Some(properties) = it.object.get("properties") else {
        return;
    };
    let has_storage = properties
        .get("storage")
        .is_some_and(|storage| !storage.is_null());
    let is_faulty = it
        .faulty
        .iter()
        .any(|path| path.starts_with("properties.storage"));
    match properties.get(ID).and_then(Value::as_str) {
        _ if has_storage || is_faulty => {}
        None => it.missing("properties.resourceId", expected),
        Some("") => it.fault(
            "properties.resourceId",
            format!("it is empty; it must be {expected}"),
        ),
        Some(_) => {}
    }
}

pub(super) fn judge_storage(it: &mut Judged<'_>) {
    if it.text("endpointUrl").is_some_and(|url| url.contains('?')) {
        it.fault("endpointUrl", "it must have no query");
    }
    let url = it.text("endpointUrl").map(EndpointUrl::parse);
    if url.is_some_and(|parsed| parsed.is_ok_and(|url| !url.is_uri())) {
        it.fault("endpointUrl", "no request can be made to such a host");
    }
    if it.text("type") == Some("AzureBlob") {
        match (it.has("accountKey"), it.has("sasToken")) {
            (true, true) => {
                it.fault(
                    "sasToken",
                    "accountKey and sasToken exclude each other; leave one out",
                );
            }
            (false, false) => {
                it.missing(
                    "accountKey",
                    "a key of the account, or a sasToken in its place",
                );
            }
            _ => {}
        }
        // Removes null properties, because null means absent.
        it.object.retain(|_, value| !value.is_null());
    }
}
