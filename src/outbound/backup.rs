//! Backups in a bucket of S3, or of a compatible service.
//!
//! A backup is a folder of objects. Its manifest is stored when all others are there and have been read back, so
//! whatever has one is whole. Until then the folder has a mark by which its appliance knows it again, and deletes it if
//! it was killed meanwhile.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::aws::AmazonS3;
use object_store::path::Path as BlobPath;
use object_store::{ObjectStore, ObjectStoreExt, RetryConfig};

use crate::base::Sha256;
use crate::model::backup::{
    BackupFile, BucketPath, KeptBackup, MANIFEST_FILE, Manifest, NAME_PREFIX,
};
use crate::model::blob_storage::{BlobStorage, S3Account};
use crate::outbound::Outbound;
use crate::outbound::mask::Mask;
use crate::outbound::storage::{Connector, bucket};
use crate::outbound::transport::innermost;

/// Bytes of a part, up and down: all that is in memory of a backup. S3 wants 5 MiB at least.
const PART_BYTES: u64 = 5 * 1_024 * 1_024;

/// Parts of one object, as S3 has it; the parts of a larger one are longer.
const PARTS_MAX: u64 = 10_000;

/// Bytes of an answer: a part, or a page of a list.
const ANSWER_BYTES_MAX: usize = PART_BYTES as usize;

/// Bytes of a manifest: many times what it has.
const MANIFEST_BYTES_MAX: u64 = 65_536;

/// Backups that are looked at, the newest ones: more than are ever kept.
const LOOKED_AT_MAX: usize = 1_000;

/// How long a list of what is there may take.
const LIST_DEADLINE: Duration = Duration::from_secs(60);

/// How long one request may take with all that follows from it. It is enough for a part on a slow line, and a server that
/// says nothing ends the backup.
const REQUEST_DEADLINE: Duration = Duration::from_secs(60);

/// How often a request is made again that a server could not answer.
const RETRIES_MAX: usize = 5;

/// Backups in a bucket. Errors are in plain words and without secrets.
#[derive(Clone)]
pub struct BackupBucket {
    store: Arc<AmazonS3>,
    at: BucketPath,
    mask: Arc<Mask>,
}

/// Hears how many bytes are uploaded, and says whether to go on.
pub type EachPart<'a> = &'a mut (dyn FnMut(u64) -> bool + Send);

impl Outbound {
    /// The bucket that backups go to, with the account that the settings name for it.
    pub fn backup_bucket(&self, at: &BucketPath) -> Result<BackupBucket, String> {
        let account = self.backup_account.as_deref();
        let account = account.ok_or(
            "set backup.s3_access_key_id and backup.s3_secret_access_key for backups to S3",
        )?;
        let connector = Connector {
            transport: self.transport.clone(),
            body_max: ANSWER_BYTES_MAX,
        };
        let retry = RetryConfig {
            max_retries: RETRIES_MAX,
            ..RetryConfig::default()
        };
        let store = bucket(account, &at.bucket)?
            .with_retry(retry)
            .with_disable_bulk_delete(true) // not every service has it
            .with_http_connector(connector)
            .build();
        Ok(BackupBucket {
            store: Arc::new(store.map_err(|error| innermost(&error))?),
            at: at.clone(),
            mask: Arc::new(Mask::of_storage(&BlobStorage::S3(Box::new(
                account.clone(),
            )))),
        })
    }

    /// The same with an account for backups.
    #[must_use]
    pub fn with_backups(self, account: Option<S3Account>) -> Self {
        Self {
            backup_account: account.map(Arc::new),
            ..self
        }
    }
}

impl BackupBucket {
    /// Uploads the backup in the directory `from`, and reads it back.
    pub async fn put(
        &self,
        from: &Path,
        manifest: &Manifest,
        each_part: EachPart<'_>,
    ) -> Result<KeptBackup, String> {
        let name = manifest.name();
        self.delete_leftovers(&manifest.database_id).await?;
        let put = self.put_whole(from, manifest, each_part).await;
        if put.is_err() {
            let _ = self.delete(&name, manifest).await; // the first error says more
        }
        put.map(|()| KeptBackup {
            path: format!("{}/{name}", self.at),
            manifest: manifest.clone(),
        })
    }

    async fn put_whole(
        &self,
        from: &Path,
        manifest: &Manifest,
        each_part: EachPart<'_>,
    ) -> Result<(), String> {
        let name = manifest.name();
        let mark = self.path(&name, &mark_of(&manifest.database_id));
        self.put_bytes(&mark, Bytes::new()).await?;
        let mut uploaded = 0;
        for (file, expected) in &manifest.files {
            let mut upload = Upload {
                to: self.path(&name, file),
                rest: expected.bytes,
                uploaded: &mut uploaded,
            };
            let file = File::open(from.join(file)).map_err(|error| error.to_string())?;
            self.put_file(file, &mut upload, each_part).await?;
        }
        self.verify(&name, manifest).await?;
        let text = serde_json::to_vec_pretty(manifest).expect("a manifest is JSON");
        self.put_bytes(&self.path(&name, MANIFEST_FILE), text.into())
            .await?;
        self.in_time(self.store.delete(&mark)).await
    }

    /// The result of a request, if it comes within [`REQUEST_DEADLINE`].
    async fn in_time<T>(
        &self,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, String> {
        match tokio::time::timeout(REQUEST_DEADLINE, request).await {
            Ok(result) => result.map_err(|error| self.shown(&error)),
            Err(_) => Err(format!(
                "{}: a request was not answered within {} s",
                self.at,
                REQUEST_DEADLINE.as_secs()
            )),
        }
    }

    async fn put_bytes(&self, to: &BlobPath, bytes: Bytes) -> Result<(), String> {
        let put = self.in_time(self.store.put(to, bytes.into())).await;
        put.map(drop)
    }

    async fn put_file(
        &self,
        file: File,
        upload: &mut Upload<'_>,
        each_part: EachPart<'_>,
    ) -> Result<(), String> {
        if upload.rest <= PART_BYTES {
            let (_, bytes) = read_part(file, upload.rest).await?;
            self.put_bytes(&upload.to, bytes).await?;
            return upload.advance(upload.rest, each_part);
        }
        let mut parts = self.in_time(self.store.put_multipart(&upload.to)).await?;
        let put = async {
            let (mut file, part) = (file, PART_BYTES.max(upload.rest.div_ceil(PARTS_MAX)));
            while upload.rest > 0 {
                let (rest, bytes) = read_part(file, part.min(upload.rest)).await?;
                file = rest;
                let count = bytes.len() as u64;
                self.in_time(parts.put_part(bytes.into())).await?;
                upload.advance(count, each_part)?;
            }
            self.in_time(parts.complete()).await
        };
        let put: Result<_, String> = put.await;
        if put.is_err() {
            let _ = self.in_time(parts.abort()).await; // the first error says more
        }
        put.map(drop)
    }

    /// Reads a backup, and compares it with its manifest.
    pub async fn verify(&self, name: &str, manifest: &Manifest) -> Result<(), String> {
        for (file, expected) in &manifest.files {
            self.fetch(name, file, expected, io::sink()).await?;
        }
        Ok(())
    }

    /// Writes a file of a backup to `sink`. It is an error if it is not what the manifest says.
    pub async fn fetch(
        &self,
        name: &str,
        file: &str,
        expected: &BackupFile,
        mut sink: impl Write + Send + 'static,
    ) -> Result<(), String> {
        let path = self.path(name, file);
        let mut hash = Sha256::default();
        let mut read = 0;
        while read < expected.bytes {
            let part = read..expected.bytes.min(read + PART_BYTES);
            let wanted = part.end - part.start;
            let fetched = self.in_time(self.store.get_range(&path, part)).await;
            let bytes = fetched.map_err(|problem| format!("{path}: {problem}"))?;
            if bytes.len() as u64 != wanted {
                return Err(format!("{path}: the answer was cut short"));
            }
            read += wanted;
            let written = tokio::task::spawn_blocking(move || {
                hash.update(&bytes);
                sink.write_all(&bytes).map(|()| (hash, sink))
            });
            let written = written.await.map_err(|error| error.to_string())?;
            (hash, sink) = written.map_err(|error| error.to_string())?;
        }
        match hash.finish() == expected.sha256 {
            true => Ok(()),
            false => Err(format!(
                "{path}: it is damaged: its SHA-256 is not that of the manifest"
            )),
        }
    }

    /// The text of a manifest.
    pub async fn manifest(&self, name: &str) -> Result<String, String> {
        let text = self.manifest_if_there(name).await?;
        text.ok_or_else(|| {
            format!(
                "{}/{name}: there is no backup, since it has no {MANIFEST_FILE}",
                self.at
            )
        })
    }

    async fn manifest_if_there(&self, name: &str) -> Result<Option<String>, String> {
        let path = self.path(name, MANIFEST_FILE);
        let read = async {
            match self.store.get_range(&path, 0..MANIFEST_BYTES_MAX).await {
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                read => read.map(Some),
            }
        };
        let found = self.in_time(read).await;
        let Some(bytes) = found.map_err(|problem| format!("{path}: {problem}"))? else {
            return Ok(None);
        };
        let text = String::from_utf8(bytes.into());
        text.map(Some).map_err(|_| format!("{path}: it is no text"))
    }

    /// The backups of that database, the newest first. More than `keep` of them are deleted, and unfinished ones; those
    /// of others are none of its business.
    pub async fn keep_newest(
        &self,
        database_id: &str,
        keep: usize,
    ) -> Result<Vec<KeptBackup>, String> {
        let mut kept = Vec::new();
        for name in self.names().await? {
            let Some(text) = self.manifest_if_there(&name).await? else {
                self.delete_unfinished(&name, database_id).await?;
                continue;
            };
            // One that cannot be read may be that of a newer release.
            let manifest = serde_json::from_str(&text).ok();
            let manifest = manifest.filter(|it: &Manifest| it.database_id == database_id);
            let Some(manifest) = manifest else { continue };
            match kept.len() < keep {
                true => kept.push(KeptBackup {
                    path: format!("{}/{name}", self.at),
                    manifest,
                }),
                false => self.delete(&name, &manifest).await?,
            }
        }
        Ok(kept)
    }

    /// What may be backups, the newest first.
    async fn names(&self) -> Result<Vec<String>, String> {
        let prefix = BlobPath::from(self.at.prefix.as_str());
        let listed = self.store.list_with_delimiter(Some(&prefix));
        let listed = tokio::time::timeout(LIST_DEADLINE, listed).await;
        let listed = listed.map_err(|_| format!("{}: it has too much to be listed", self.at))?;
        let listed = listed.map_err(|error| self.shown(&error))?;
        let names = listed.common_prefixes.iter();
        let names = names.filter_map(|path| path.filename().map(str::to_owned));
        let mut names: Vec<String> = names.filter(|name| name.starts_with(NAME_PREFIX)).collect();
        names.sort_unstable_by(|one, other| other.cmp(one)); // they begin with the moment
        names.truncate(LOOKED_AT_MAX);
        Ok(names)
    }

    /// The manifest first, so that no backup is ever found with only a part of its files.
    async fn delete(&self, name: &str, manifest: &Manifest) -> Result<(), String> {
        let mark = mark_of(&manifest.database_id);
        let files = manifest.files.keys().chain([&mark]);
        for file in [MANIFEST_FILE].into_iter().chain(files.map(String::as_str)) {
            self.delete_object(&self.path(name, file)).await?;
        }
        Ok(())
    }

    /// Deletes what is left of uploads of that database that did not end, which only one process at a time makes.
    async fn delete_leftovers(&self, database_id: &str) -> Result<(), String> {
        for name in self.names().await? {
            self.delete_unfinished(&name, database_id).await?;
        }
        Ok(())
    }

    async fn delete_unfinished(&self, name: &str, database_id: &str) -> Result<(), String> {
        let folder = self.path(name, "");
        let listed = self.store.list_with_delimiter(Some(&folder));
        let listed = self.in_time(listed).await?.objects;
        let mark = self.path(name, &mark_of(database_id));
        if listed.iter().all(|object| object.location != mark) {
            return Ok(()); // somebody else's, or whole
        }
        let manifest = self.path(name, MANIFEST_FILE);
        if listed.iter().any(|object| object.location == manifest) {
            return self.delete_object(&mark).await; // it was whole when the process ended
        }
        for object in listed.iter().filter(|object| object.location != mark) {
            self.delete_object(&object.location).await?;
        }
        self.delete_object(&mark).await
    }

    async fn delete_object(&self, path: &BlobPath) -> Result<(), String> {
        let delete = async {
            match self.store.delete(path).await {
                Err(object_store::Error::NotFound { .. }) => Ok(()),
                deleted => deleted,
            }
        };
        self.in_time(delete).await
    }

    fn path(&self, name: &str, file: &str) -> BlobPath {
        BlobPath::from(format!("{}/{name}/{file}", self.at.prefix))
    }

    fn shown(&self, error: &object_store::Error) -> String {
        self.mask.text(innermost(error))
    }
}

/// A file on its way.
struct Upload<'a> {
    to: BlobPath,
    /// Bytes of this file.
    rest: u64,
    /// Bytes of the whole backup.
    uploaded: &'a mut u64,
}

impl Upload<'_> {
    fn advance(&mut self, bytes: u64, each_part: EachPart<'_>) -> Result<(), String> {
        self.rest -= bytes;
        *self.uploaded += bytes;
        match each_part(*self.uploaded) {
            true => Ok(()),
            false => Err("it was stopped".to_owned()),
        }
    }
}

/// The object that says whose an unfinished backup is.
fn mark_of(database_id: &str) -> String {
    format!("{database_id}.unfinished")
}

/// The next bytes of a file, and the file.
async fn read_part(mut file: File, bytes: u64) -> Result<(File, Bytes), String> {
    let read = move || {
        let mut part = Vec::new();
        (&mut file).take(bytes).read_to_end(&mut part)?;
        Ok((file, part.into()))
    };
    let read = tokio::task::spawn_blocking(read).await;
    let read: io::Result<(File, Bytes)> = read.map_err(|error| error.to_string())?;
    match read.map_err(|error| error.to_string())? {
        (file, part) if part.len() as u64 == bytes => Ok((file, part)),
        _ => Err("the backup changed while it was uploaded".to_owned()),
    }
}
