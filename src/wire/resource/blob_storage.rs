//! The `storage` of a `StorageBlob` destination: an extension that says where its container is, in the
//! place of the resource id and the identity that Azure has for it.
//!
//! Answers never show a secret. A change that leaves one out keeps it, as long as the account and its
//! endpoint stay the same.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::InvalidResource;
use super::credentials::{Secrets, read_secret};
use super::fields::Fields;
use crate::model::access::Secret;
use crate::model::blob_storage::{AzureAccess, AzureAccount, BlobStorage, S3Account};
use crate::model::destination::EndpointUrl;

pub(super) const STORAGE: &str = "storage";

const S3: &str = "S3";
const AZURE_BLOB: &str = "AzureBlob";

const ENDPOINT: &str = "endpointUrl";
const ACCESS_KEY_ID: &str = "accessKeyId";
const SECRET_ACCESS_KEY: &str = "secretAccessKey";
const ACCOUNT_NAME: &str = "accountName";
const ACCOUNT_KEY: &str = "accountKey";
const SAS_TOKEN: &str = "sasToken";

/// The region of S3 servers that have none.
const DEFAULT_REGION: &str = "us-east-1";

/// Reads `storage`; `kept` has the secrets that need not be given again.
pub(super) fn read(
    properties: &Fields,
    kept: Option<&BlobStorage>,
) -> Result<BlobStorage, InvalidResource> {
    let Some(fields) = properties.object(STORAGE)? else {
        return Ok(BlobStorage::Directory);
    };
    let read = fields.choice("type", &KINDS)?;
    let read = read.ok_or_else(|| fields.missing("type", "\"S3\" or \"AzureBlob\""))?;
    read(&fields, kept)
}

type Read = fn(&Fields, Option<&BlobStorage>) -> Result<BlobStorage, InvalidResource>;

const KINDS: [(&str, Read); 2] = [(S3, read_s3), (AZURE_BLOB, read_azure)];

fn read_s3(fields: &Fields, kept: Option<&BlobStorage>) -> Result<BlobStorage, InvalidResource> {
    let names = ["type", ENDPOINT, "region", ACCESS_KEY_ID, SECRET_ACCESS_KEY];
    fields.expect_names(&names)?;
    let endpoint = read_endpoint(fields)?;
    let access_key_id = fields.required_text(ACCESS_KEY_ID, "the id of an access key")?;
    let kept = match kept {
        Some(BlobStorage::S3(kept))
            if kept.access_key_id == access_key_id && kept.endpoint == endpoint =>
        {
            Some(&kept.secret_access_key)
        }
        _ => None,
    };
    Ok(BlobStorage::S3(Box::new(S3Account {
        endpoint,
        region: fields.text("region")?.unwrap_or(DEFAULT_REGION).to_owned(),
        access_key_id: access_key_id.to_owned(),
        secret_access_key: read_secret(fields, SECRET_ACCESS_KEY, "the access key's secret", kept)?,
    })))
}

fn read_azure(fields: &Fields, kept: Option<&BlobStorage>) -> Result<BlobStorage, InvalidResource> {
    fields.expect_names(&["type", ENDPOINT, ACCOUNT_NAME, ACCOUNT_KEY, SAS_TOKEN])?;
    let endpoint = read_endpoint(fields)?;
    let name = fields.required_text(ACCOUNT_NAME, "the name of a storage account")?;
    let kept = match kept {
        Some(BlobStorage::AzureBlob(kept)) if kept.name == name && kept.endpoint == endpoint => {
            Some(&kept.access)
        }
        _ => None,
    };
    let access = match (fields.text(ACCOUNT_KEY)?, fields.text(SAS_TOKEN)?, kept) {
        (Some(key), None, _) => AzureAccess::Key(Secret::new(key)),
        (None, Some(token), _) => AzureAccess::SasToken(Secret::new(token)),
        (Some(_), Some(_), _) => {
            let problem = "accountKey and sasToken exclude each other; leave one out";
            return Err(fields.invalid(SAS_TOKEN, problem));
        }
        (None, None, Some(kept)) => kept.clone(),
        (None, None, None) => {
            let expected = "a key of the account, or a sasToken in its place";
            return Err(fields.missing(ACCOUNT_KEY, expected));
        }
    };
    Ok(BlobStorage::AzureBlob(Box::new(AzureAccount {
        name: name.to_owned(),
        endpoint,
        access,
    })))
}

fn read_endpoint(fields: &Fields) -> Result<Option<EndpointUrl>, InvalidResource> {
    let Some(text) = fields.text(ENDPOINT)? else {
        return Ok(None);
    };
    let url = EndpointUrl::parse(text);
    url.map(Some)
        .map_err(|problem| fields.invalid(ENDPOINT, problem.to_string()))
}

/// The rules for what a client sends now; `properties` are those of the destination.
pub(super) fn check(
    properties: &Fields,
    storage: &BlobStorage,
    require_https: bool,
) -> Result<(), InvalidResource> {
    let fields = properties.object_or_empty(STORAGE)?;
    let endpoint = match storage {
        BlobStorage::Directory => None,
        BlobStorage::S3(account) => {
            check_word(&fields, "region", &account.region)?;
            check_word(&fields, ACCESS_KEY_ID, &account.access_key_id)?;
            account.endpoint.as_ref()
        }
        BlobStorage::AzureBlob(account) => {
            check_word(&fields, ACCOUNT_NAME, &account.name)?;
            if let AzureAccess::Key(key) = &account.access
                && STANDARD.decode(key.reveal()).is_err()
            {
                return Err(fields.invalid(ACCOUNT_KEY, "it is not base64"));
            }
            account.endpoint.as_ref()
        }
    };
    let Some(endpoint) = endpoint else {
        return Ok(());
    };
    if require_https && !endpoint.is_https() {
        return Err(fields.invalid(ENDPOINT, "it does not start with https"));
    }
    match endpoint.reveal().query() {
        None => Ok(()),
        Some(_) => Err(fields.invalid(ENDPOINT, "it must have no query")),
    }
}

/// Parts of host names and of signatures.
fn check_word(fields: &Fields, name: &str, word: &str) -> Result<(), InvalidResource> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if (1..=128).contains(&word.len()) && word.chars().all(allowed) {
        return Ok(());
    }
    let problem = "it must be 1 to 128 letters, digits, hyphens, dots and underscores";
    Err(fields.invalid(name, problem))
}

/// Adds `storage` to the `properties` of a destination, unless that is the directory.
pub(super) fn add(properties: &mut Value, storage: &BlobStorage, secrets: Secrets) {
    let shown = |secret: &Secret| match secrets {
        Secrets::Shown => json!(secret.reveal()),
        Secrets::Hidden => Value::Null,
    };
    let endpoint = |url: &Option<EndpointUrl>| url.as_ref().map(EndpointUrl::base);
    properties[STORAGE] = match storage {
        BlobStorage::Directory => return,
        BlobStorage::S3(account) => json!({
            "type": S3,
            ENDPOINT: endpoint(&account.endpoint),
            "region": account.region,
            ACCESS_KEY_ID: account.access_key_id,
            SECRET_ACCESS_KEY: shown(&account.secret_access_key),
        }),
        BlobStorage::AzureBlob(account) => {
            let (name, secret) = match &account.access {
                AzureAccess::Key(key) => (ACCOUNT_KEY, key),
                AzureAccess::SasToken(token) => (SAS_TOKEN, token),
            };
            json!({
                "type": AZURE_BLOB,
                ENDPOINT: endpoint(&account.endpoint),
                ACCOUNT_NAME: account.name,
                name: shown(secret),
            })
        }
    };
}
