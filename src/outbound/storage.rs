//! Storage that blobs are put to: a directory that the operator has opened for it.

use std::path::{Path, PathBuf};

use object_store::local::LocalFileSystem;
use object_store::path::{Path as BlobPath, PathPart};
use object_store::{ObjectStore, ObjectStoreExt};
use url::Url;

use crate::model::limits::BLOB_DEADLINE;
use crate::outbound::Outbound;
use crate::outbound::exchange::innermost;

/// A blob on its way. The same name puts it in the place of what was there.
#[derive(Clone, Debug)]
pub struct Blob<'a> {
    pub container: &'a str,
    /// In the container, with slashes.
    pub name: &'a str,
    pub bytes: Vec<u8>,
}

/// A blob that the storage has for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBlob {
    /// Where it can be read.
    pub url: String,
    /// Empty where the storage gives none.
    pub e_tag: String,
}

impl Outbound {
    /// Puts a blob. When this returns the storage has it for good; otherwise why not, in plain words.
    pub async fn put_blob(&self, blob: Blob<'_>) -> Result<StoredBlob, String> {
        let root = self.export_dir().ok_or("there is no directory for it")?;
        let store = directory(root)?;
        let put = put(&store, &blob);
        match tokio::time::timeout(BLOB_DEADLINE, put).await {
            Ok(Ok((path, e_tag))) => Ok(StoredBlob {
                url: file_url(&store, &path),
                e_tag,
            }),
            Ok(Err(error)) => Err(innermost(&error)),
            Err(_) => Err(format!("it took longer than {} s", BLOB_DEADLINE.as_secs())),
        }
    }

    /// The directory that dead letters can be exported to, if the operator has opened one.
    pub fn export_dir(&self) -> Option<&Path> {
        self.export_dir.as_deref()
    }
}

/// The directory must be there: one that was made in the place of a disk that is not mounted would fill
/// another disk.
fn directory(root: &Path) -> Result<LocalFileSystem, String> {
    let root: PathBuf = root.into();
    match LocalFileSystem::new_with_prefix(&root) {
        // Without this a blob would be marked as stored before the disk has it.
        Ok(store) => Ok(store.with_fsync(true)),
        Err(error) => Err(format!("{}: {}", root.display(), innermost(&error))),
    }
}

fn file_url(store: &LocalFileSystem, path: &BlobPath) -> String {
    let file = store.path_to_filesystem(path).ok();
    let url = file.and_then(|file| Url::from_file_path(file).ok());
    url.map(String::from).unwrap_or_default()
}

/// Returns where it has put it, and the tag of the blob.
async fn put(store: &dyn ObjectStore, blob: &Blob<'_>) -> object_store::Result<(BlobPath, String)> {
    // Parts are escaped, so none of them leads out of the root.
    let parts = std::iter::once(blob.container).chain(blob.name.split('/'));
    let path = BlobPath::from_iter(parts.map(PathPart::from));
    let put = store.put(&path, blob.bytes.clone().into()).await?;
    Ok((path, put.e_tag.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob<'a>(container: &'a str, name: &'a str, text: &str) -> Blob<'a> {
        Blob {
            container,
            name,
            bytes: text.as_bytes().into(),
        }
    }

    #[tokio::test]
    async fn a_blob_is_put_in_the_place_of_what_was_there() {
        let root = tempfile::tempdir().expect("a directory");
        let store = directory(root.path()).expect("a store");
        let name = "BILLING/2026/1/2/3/x.json";
        for text in ["[]", "[{}]"] {
            put(&store, &blob("dead", name, text)).await.expect("put");
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
            let _ = put(&store, &blob(container, name, "[]")).await;
        }
        let beside: Vec<_> = std::fs::read_dir(outer.path()).expect("listed").collect();
        assert_eq!(beside.len(), 1, "{beside:?}");
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
