//! Storage for blobs: a local directory, S3 or Azure Blob Storage.
//!
//! Requests go through [`HttpTransport`], which applies the egress policy. Only the credentials of the subscription are
//! used. No others are looked up.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use http_body_util::BodyExt;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::local::LocalFileSystem;
use object_store::path::{Path as BlobPath, PathPart};
use object_store::{ClientOptions, ObjectStore, ObjectStoreExt, RetryConfig};
use url::Url;

use crate::model::blob_storage::{AzureAccess, AzureAccount, BlobStorage, S3Account};
use crate::model::destination::EndpointUrl;
use crate::model::limits::{BLOB_DEADLINE, RESPONSE_READ_MAX};
use crate::outbound::Outbound;
use crate::outbound::mask::Mask;
use crate::outbound::transport::{HttpTransport, TransportError, TransportRequest, innermost};

/// A blob to store. It replaces one of the same name.
#[derive(Clone, Debug)]
pub struct Blob<'a> {
    pub storage: &'a BlobStorage,
    pub container: &'a str,
    /// The path in the container, with slashes as separators.
    pub name: &'a str,
    pub bytes: Vec<u8>,
}

/// A stored blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBlob {
    /// Its URL.
    pub url: String,
    /// Empty if the storage has none.
    pub e_tag: String,
}

impl Outbound {
    /// Stores a blob durably. The error text contains no secrets.
    pub async fn put_blob(&self, blob: Blob<'_>) -> Result<StoredBlob, String> {
        let (store, root) = self.open_storage(&blob)?;
        let put = put(store.as_ref(), &root, &blob);
        match tokio::time::timeout(BLOB_DEADLINE, put).await {
            Ok(Ok(e_tag)) => Ok(StoredBlob {
                url: self.blob_url(&blob),
                e_tag,
            }),
            Ok(Err(error)) => Err(Mask::of_storage(blob.storage).text(innermost(&error))),
            Err(_) => Err(format!("it took longer than {} s", BLOB_DEADLINE.as_secs())),
        }
    }

    /// The directory that dead letters can be exported to, if there is one.
    pub fn export_dir(&self) -> Option<&Path> {
        self.export_dir.as_deref()
    }

    /// Opens the storage, and returns it with the path of the container in it.
    fn open_storage(&self, blob: &Blob<'_>) -> Result<(Arc<dyn ObjectStore>, BlobPath), String> {
        let connector = StorageConnector {
            transport: self.transport.clone(),
            body_max: RESPONSE_READ_MAX,
        };
        let built: object_store::Result<Arc<dyn ObjectStore>> = match blob.storage {
            BlobStorage::Directory => {
                let root = self.export_dir().ok_or("there is no directory for it")?;
                // Path segments are escaped, so no path leads out of the root directory.
                let container = BlobPath::from_iter([PathPart::from(blob.container)]);
                return Ok((Arc::new(directory(root)?), container));
            }
            BlobStorage::S3(account) => bucket(account, blob.container)?
                .with_retry(never())
                .with_http_connector(connector)
                .build()
                .map(|store| Arc::new(store) as _),
            BlobStorage::AzureBlob(account) => container(account, blob.container)?
                .with_http_connector(connector)
                .build()
                .map(|store| Arc::new(store) as _),
        };
        let store = built.map_err(|error| innermost(&error))?;
        Ok((store, BlobPath::default()))
    }

    fn blob_url(&self, blob: &Blob<'_>) -> String {
        let base = blob.storage.base_url().or_else(|| {
            let root = self.export_dir()?.canonicalize().ok()?;
            Url::from_file_path(root).ok().map(String::from)
        });
        format!(
            "{}/{}/{}",
            base.unwrap_or_default(),
            blob.container,
            blob.name
        )
    }
}

/// Opens a directory, which must exist. A directory created in place of an unmounted disk would fill another disk.
fn directory(root: &Path) -> Result<LocalFileSystem, String> {
    match LocalFileSystem::new_with_prefix(root) {
        // Without fsync a blob would be marked as stored before it is on disk.
        Ok(store) => Ok(store.with_fsync(true)),
        Err(error) => Err(format!("{}: {}", root.display(), innermost(&error))),
    }
}

/// Returns the URL for requests to an endpoint, whatever spelling the account has. The storage client accepts only a
/// URI.
fn called(endpoint: &EndpointUrl) -> Result<String, String> {
    if !endpoint.is_uri() {
        return Err(format!("no request can be made to {endpoint:?}"));
    }
    let url = endpoint.called_base();
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

pub(super) fn bucket(account: &S3Account, name: &str) -> Result<AmazonS3Builder, String> {
    let builder = AmazonS3Builder::new()
        .with_region(&account.region)
        .with_bucket_name(name)
        .with_access_key_id(&account.access_key_id)
        .with_secret_access_key(account.secret_access_key.reveal())
        .with_allow_http(true); // the egress policy decides
    Ok(match &account.endpoint {
        Some(endpoint) => builder.with_endpoint(called(endpoint)?),
        None => builder,
    })
}

fn container(account: &AzureAccount, name: &str) -> Result<MicrosoftAzureBuilder, String> {
    let builder = MicrosoftAzureBuilder::new()
        .with_account(&account.name)
        .with_container_name(name)
        .with_allow_http(true)
        .with_retry(never());
    let builder = match &account.access {
        AzureAccess::Key(key) => builder.with_access_key(key.reveal()),
        AzureAccess::SasToken(token) => {
            let query = token.reveal().trim_start_matches('?');
            let pairs = url::form_urlencoded::parse(query.as_bytes())
                .map(|(name, value)| (name.into_owned(), value.into_owned()));
            builder.with_sas_authorization(pairs.collect::<Vec<_>>())
        }
    };
    Ok(match &account.endpoint {
        Some(endpoint) => builder.with_endpoint(called(endpoint)?),
        None => builder,
    })
}

/// Returns a configuration without retries, since exports have their own retry schedule.
fn never() -> RetryConfig {
    RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    }
}

/// Returns the ETag of the blob.
async fn put(
    store: &dyn ObjectStore,
    root: &BlobPath,
    blob: &Blob<'_>,
) -> object_store::Result<String> {
    let parts = blob.name.split('/').map(PathPart::from);
    let path = BlobPath::from_iter(root.parts().chain(parts));
    let put = store.put(&path, blob.bytes.clone().into()).await?;
    Ok(put.e_tag.unwrap_or_default())
}

/// Connects the storage client to [`HttpTransport`].
#[derive(Clone)]
pub(super) struct StorageConnector {
    pub(super) transport: HttpTransport,
    /// The maximum number of bytes that are read from a response body.
    pub(super) body_max: usize,
}

impl fmt::Debug for StorageConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

impl HttpConnector for StorageConnector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for StorageConnector {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let url = Url::parse(&parts.uri.to_string())
            .map_err(|error| HttpError::new(HttpErrorKind::Request, error))?;
        let request = TransportRequest {
            method: parts.method,
            url,
            headers: parts.headers,
            body: body.collect().await?.to_bytes(),
            deadline: BLOB_DEADLINE,
            body_max: self.body_max,
            late: None,
            tls: None,
        };
        let response = self.transport.send(request).await.map_err(|error| {
            let kind = match error {
                TransportError::TimedOut => HttpErrorKind::Timeout,
                TransportError::Resolution(_)
                | TransportError::NoPlace
                | TransportError::Socket(_)
                | TransportError::Tls(_)
                | TransportError::Token(_)
                | TransportError::Denied(_) => HttpErrorKind::Unknown,
            };
            HttpError::new(kind, error)
        })?;
        let mut converted = http::Response::new(response.body.into());
        *converted.headers_mut() = response.headers;
        let status = http::StatusCode::from_u16(response.status);
        *converted.status_mut() =
            status.map_err(|error| HttpError::new(HttpErrorKind::Decode, error))?;
        Ok(converted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn put_in(store: &LocalFileSystem, container: &str, name: &str, text: &str) -> bool {
        let blob = Blob {
            storage: &BlobStorage::Directory,
            container,
            name,
            bytes: text.as_bytes().into(),
        };
        let root = BlobPath::from_iter([PathPart::from(container)]);
        put(store, &root, &blob).await.is_ok()
    }

    #[tokio::test]
    async fn a_blob_is_put_in_the_place_of_what_was_there() {
        let root = tempfile::tempdir().expect("a directory");
        let store = directory(root.path()).expect("a store");
        let name = "BILLING/2026/1/2/3/x.json";
        for text in ["[]", "[{}]"] {
            assert!(put_in(&store, "dead", name, text).await);
        }
        let file = root.path().join("dead").join(name);
        assert_eq!(std::fs::read_to_string(file).expect("a file"), "[{}]");
    }

    #[tokio::test]
    async fn no_name_leads_out_of_the_directory() {
        let outer = tempfile::tempdir().expect("a directory");
        let root = outer.path().join("root");
        std::fs::create_dir(&root).expect("made");
        let store = directory(&root).expect("a store");
        for (container, name) in [("..", "x.json"), ("dead", "../../x.json"), ("a/../..", "x")] {
            put_in(&store, container, name, "[]").await;
        }
        let beside: Vec<_> = std::fs::read_dir(outer.path()).expect("listed").collect();
        assert_eq!(beside.len(), 1, "{beside:?}");
    }

    #[test]
    fn endpoints_are_called_in_their_normalised_form() {
        for (written, expected) in [
            ("http:store.test:7125", "http://store.test:7125"),
            ("http:\\\\store.test\\s3\\", "http://store.test/s3"),
            ("http://store%2etest/", "http://store.test"),
            ("http://\u{ff11}27.0.0.1", "http://127.0.0.1"),
            ("https://Store.test:443/s3", "https://store.test/s3"),
        ] {
            let endpoint = EndpointUrl::parse(written).expect("a URL");
            assert_eq!(called(&endpoint).as_deref(), Ok(expected), "{written}");
        }
    }

    #[test]
    fn a_directory_that_is_missing_is_not_made() {
        let outer = tempfile::tempdir().expect("a directory");
        let root = outer.path().join("missing");
        let error = directory(&root).expect_err("missing");
        assert!(error.contains("missing"), "{error}");
        assert!(!root.exists());
    }
}
