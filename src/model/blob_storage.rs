//! Storage to which the dead letters of a subscription are exported.

use crate::model::access::Secret;
use crate::model::destination::EndpointUrl;

/// The location of a blob container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BlobStorage {
    /// The directory that the operator has configured, if any.
    #[default]
    Directory,
    /// A bucket of S3 or of a compatible service (extension).
    S3(Box<S3Account>),
    /// A container of Azure's storage (extension: Azure has a resource id and an identity for it).
    AzureBlob(Box<AzureAccount>),
}

/// Access to a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Account {
    /// The endpoint URL, with the bucket in its path; `None` for the AWS endpoint.
    pub endpoint: Option<EndpointUrl>,
    pub region: String,
    pub access_key_id: String,
    pub secret_access_key: Secret,
}

/// Access to a storage account of Azure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AzureAccount {
    pub name: String,
    /// The endpoint URL; `None` for the account's endpoint in the Azure public cloud.
    pub endpoint: Option<EndpointUrl>,
    pub access: AzureAccess,
}

/// The credentials that authorize writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AzureAccess {
    /// One of the account's keys, in base64.
    Key(Secret),
    /// A shared access signature: the query of a URL.
    SasToken(Secret),
}

impl BlobStorage {
    /// Returns the base URL of the containers without a trailing slash; `None` for the directory.
    pub fn base_url(&self) -> Option<String> {
        let (endpoint, public) = match self {
            Self::Directory => return None,
            Self::S3(account) => {
                let public = format!("https://s3.{}.amazonaws.com", account.region);
                (&account.endpoint, public)
            }
            Self::AzureBlob(account) => {
                let public = format!("https://{}.blob.core.windows.net", account.name);
                (&account.endpoint, public)
            }
        };
        let given = endpoint.as_ref().map(EndpointUrl::base);
        Some(given.map_or(public, |given| given.trim_end_matches('/').to_owned()))
    }
}
