//! Backups in a bucket of S3, or of a compatible service.
//!
//! A backup is a folder of objects. The manifest is stored after all other objects are uploaded and read back, so a
//! folder with a manifest is a complete backup. During the upload the folder holds a marker object that names the
//! database. If the process is killed during the upload, the appliance finds the marker later and deletes the folder.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::aws::AmazonS3;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::{DELIMITER, Path as BlobPath};
use object_store::{ListResult, ObjectStoreExt, RetryConfig};

use crate::base::Sha256;
use crate::model::backup::{
    BackupFile, BucketPath, KeptBackup, MANIFEST_FILE, Manifest, NAME_PREFIX,
};
use crate::model::blob_storage::{BlobStorage, S3Account};
use crate::outbound::Outbound;
use crate::outbound::mask::Mask;
use crate::outbound::storage::{StorageConnector, bucket};
use crate::outbound::transport::innermost;

/// The size in bytes of an uploaded or downloaded part. S3 requires at least 5 MiB. Only one part of a backup is in
/// memory at a time.
const PART_BYTES: u64 = 5 * 1_024 * 1_024;

/// The maximum number of parts of one object, a limit of S3. A larger object is uploaded in larger parts.
const PARTS_MAX: u64 = 10_000;

/// The maximum size in bytes of a response body, which is a part or a page of a list.
const ANSWER_BYTES_MAX: usize = PART_BYTES as usize;

/// The maximum size of a manifest in bytes, many times its usual size.
const MANIFEST_BYTES_MAX: u64 = 65_536;

/// The maximum number of backups that are examined, newest first. It is more than are ever kept.
const LOOKED_AT_MAX: usize = 1_000;

/// The maximum number of objects of an unfinished backup that is deleted, many times the usual number.
const FILES_MAX: usize = 100;

/// The maximum number of names that one list reads, more than the backups of many appliances have.
const LISTED_MAX: usize = 100_000;

/// The maximum length of an object's name in bytes, a limit of S3.
const KEY_BYTES_MAX: usize = 1_024;

/// The maximum time for listing the objects of the bucket.
const LIST_DEADLINE: Duration = Duration::from_secs(60);

/// The maximum time for one request, including its retries. It is enough for a part on a slow connection. A server that
/// does not answer in this time ends the backup.
const REQUEST_DEADLINE: Duration = Duration::from_secs(60);

/// The maximum number of retries of a request that the server could not answer.
const RETRIES_MAX: usize = 5;

/// Backups in a bucket. Errors are in plain words and without secrets.
#[derive(Clone)]
pub struct BackupBucket {
    store: Arc<AmazonS3>,
    at: BucketPath,
    mask: Arc<Mask>,
}

/// Receives the number of bytes uploaded so far and returns whether to continue.
pub type EachPart<'a> = &'a mut (dyn FnMut(u64) -> bool + Send);

impl Outbound {
    /// The bucket that backups go to, with the account that the settings name for it.
    pub fn backup_bucket(&self, at: &BucketPath) -> Result<BackupBucket, String> {
        let account = self.backup_account.as_deref().ok_or(
            "set backup.s3_access_key_id and backup.s3_secret_access_key for backups to S3",
        )?;
        let connector = StorageConnector {
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

    /// Sets the S3 account for backups.
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
            let mut upload = FileUpload {
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

    /// Awaits a request. Fails if there is no result within [`REQUEST_DEADLINE`].
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
        upload: &mut FileUpload<'_>,
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

    /// Writes a file of a backup to `sink`. Fails if the size or the hash differs from the manifest.
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
            let writing = tokio::task::spawn_blocking(move || {
                hash.update(&bytes);
                sink.write_all(&bytes).map(|()| (hash, sink))
            });
            let written = writing.await.map_err(|error| error.to_string())?;
            (hash, sink) = written.map_err(|error| error.to_string())?;
        }
        if hash.finish() == expected.sha256 {
            Ok(())
        } else {
            Err(format!(
                "{path}: it is damaged: its SHA-256 is not that of the manifest"
            ))
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
        if bytes.len() as u64 > MANIFEST_BYTES_MAX {
            return Err(format!("{path}: the answer is longer than requested"));
        }
        let text = String::from_utf8(bytes.into());
        text.map(Some).map_err(|_| format!("{path}: it is no text"))
    }

    /// Returns the newest `keep` backups of the database, newest first. Deletes its older and its unfinished backups.
    /// Backups of other databases are left alone.
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
            // A manifest that cannot be parsed may have been written by a newer release.
            let read = serde_json::from_str(&text).ok();
            let own = read.filter(|it: &Manifest| it.database_id == database_id);
            let Some(manifest) = own else { continue };
            if kept.len() < keep {
                kept.push(KeptBackup {
                    path: format!("{}/{name}", self.at),
                    manifest,
                });
            } else {
                self.delete(&name, &manifest).await?;
            }
        }
        Ok(kept)
    }

    /// Returns the names of the folders that may be backups, the newest first.
    async fn names(&self) -> Result<Vec<String>, String> {
        let mut names = BTreeSet::new();
        let beginning = BlobPath::from(format!("{}/{NAME_PREFIX}", self.at.prefix));
        let each_page = |page: ListResult| {
            for path in page.common_prefixes {
                let name = path.filename().unwrap_or_default();
                if name.starts_with(NAME_PREFIX) {
                    names.insert(name.to_owned());
                }
                if names.len() > LOOKED_AT_MAX {
                    names.pop_first(); // they begin with the moment
                }
            }
            ControlFlow::Continue(())
        };
        self.list(beginning.as_ref(), each_page).await?;
        Ok(names.into_iter().rev().collect())
    }

    /// Passes the objects and folders whose names begin with `prefix`, up to the next slash, to `each_page`, page by
    /// page until it returns `Break`. The number of names is limited, since a service may return pages without end.
    async fn list(
        &self,
        prefix: &str,
        mut each_page: impl FnMut(ListResult) -> ControlFlow<()>,
    ) -> Result<(), String> {
        let too_much = || format!("{}: the list of its objects is too long", self.at);
        let mut options = PaginatedListOptions {
            delimiter: Some(DELIMITER.into()),
            ..PaginatedListOptions::default()
        };
        let listing = async {
            let mut listed = 0;
            while listed < LISTED_MAX {
                let next_page = self.store.list_paginated(Some(prefix), options.clone());
                let mut page = next_page.await.map_err(|error| self.shown(&error))?;
                let (objects, folders) =
                    (&mut page.result.objects, &mut page.result.common_prefixes);
                listed += 1 + objects.len() + folders.len();
                objects.retain(|object| object.location.as_ref().len() <= KEY_BYTES_MAX);
                folders.retain(|folder| folder.as_ref().len() <= KEY_BYTES_MAX);
                options.page_token = page.page_token;
                if each_page(page.result).is_break() || options.page_token.is_none() {
                    return Ok(());
                }
            }
            Err(too_much())
        };
        let listing = tokio::time::timeout(LIST_DEADLINE, listing);
        listing.await.unwrap_or_else(|_| Err(too_much()))
    }

    /// Deletes a backup, its manifest first, so that an incomplete backup never has a manifest.
    async fn delete(&self, name: &str, manifest: &Manifest) -> Result<(), String> {
        let mark = mark_of(&manifest.database_id);
        let files = manifest.files.keys().chain([&mark]);
        for file in [MANIFEST_FILE].into_iter().chain(files.map(String::as_str)) {
            self.delete_object(&self.path(name, file)).await?;
        }
        Ok(())
    }

    /// Deletes the unfinished uploads of the database. Only one process at a time uploads backups of a database.
    async fn delete_leftovers(&self, database_id: &str) -> Result<(), String> {
        for name in self.names().await? {
            self.delete_unfinished(&name, database_id).await?;
        }
        Ok(())
    }

    async fn delete_unfinished(&self, name: &str, database_id: &str) -> Result<(), String> {
        let folder = format!("{}{DELIMITER}", self.path(name, ""));
        let mut objects = Vec::new();
        let each_page = |page: ListResult| {
            let paths = page.objects.into_iter().map(|object| object.location);
            objects.extend(paths.take(FILES_MAX + 1 - objects.len()));
            if objects.len() > FILES_MAX {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        self.list(&folder, each_page).await?;
        let mark = self.path(name, &mark_of(database_id));
        if objects.len() > FILES_MAX || !objects.contains(&mark) {
            return Ok(()); // somebody else's, or whole
        }
        if objects.contains(&self.path(name, MANIFEST_FILE)) {
            return self.delete_object(&mark).await; // it was whole when the process ended
        }
        for path in objects.iter().filter(|path| **path != mark) {
            self.delete_object(path).await?;
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

/// The progress of a file's upload.
struct FileUpload<'a> {
    to: BlobPath,
    /// Bytes of this file that are not uploaded yet.
    rest: u64,
    /// Bytes of the whole backup that have been uploaded.
    uploaded: &'a mut u64,
}

impl FileUpload<'_> {
    fn advance(&mut self, bytes: u64, each_part: EachPart<'_>) -> Result<(), String> {
        self.rest -= bytes;
        *self.uploaded += bytes;
        if each_part(*self.uploaded) {
            Ok(())
        } else {
            Err("it was stopped".to_owned())
        }
    }
}

/// Returns the name of the marker object, which names the database of an unfinished backup.
fn mark_of(database_id: &str) -> String {
    format!("{database_id}.unfinished")
}

/// Reads the next bytes of a file and returns them with the file. Fails if the file is too short.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::access::Secret;
    use crate::outbound::test_support::Receiver;

    fn bucket_of(service: &Arc<Receiver>) -> BackupBucket {
        let account = S3Account {
            endpoint: None,
            region: "eu-north-1".to_owned(),
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: Secret::new("secret"),
        };
        let at = BucketPath {
            bucket: "backups".to_owned(),
            prefix: "site/one".to_owned(),
        };
        let outbound = service.outbound().with_backups(Some(account));
        outbound.backup_bucket(&at).expect("a bucket")
    }

    /// A bucket of a service that answers every request with this page of a list.
    fn listing(entries: &str, next: &str) -> (Arc<Receiver>, BackupBucket) {
        let page = format!("<ListBucketResult>{next}{entries}</ListBucketResult>");
        let service = Receiver::answering(200, "content-type: application/xml", &page);
        let bucket = bucket_of(&service);
        (service, bucket)
    }

    fn folder(name: &str) -> String {
        format!("<CommonPrefixes><Prefix>site/one/{name}/</Prefix></CommonPrefixes>")
    }

    fn object(name: &str) -> String {
        format!(
            "<Contents><Key>site/one/everpost-1/{name}</Key><Size>1</Size>\
             <LastModified>2026-11-24T18:50:12.138Z</LastModified></Contents>"
        )
    }

    #[tokio::test]
    async fn a_list_without_an_end_is_left_and_the_newest_names_are_kept() {
        let entries: String = (0..9_999)
            .map(|number| folder(&format!("everpost-{number}")))
            .collect();
        let (service, bucket) = listing(
            &entries,
            "<NextContinuationToken>more</NextContinuationToken>",
        );
        let found = bucket.names().await;
        let problem = "s3://backups/site/one: the list of its objects is too long";
        assert_eq!(found, Err(problem.to_owned()));
        assert_eq!(service.seen.lock().unwrap().len(), 10);

        let named = |number: usize| format!("everpost-{number:04}");
        let mut entries: String = (0..1_500).map(|number| folder(&named(number))).collect();
        entries += &folder("others");
        entries += &folder(&format!("everpost-{}", "9".repeat(KEY_BYTES_MAX)));
        let (service, bucket) = listing(&entries, "");
        let names = bucket.names().await.expect("names");
        assert_eq!(names.len(), LOOKED_AT_MAX);
        assert_eq!((&names[0], &names[999]), (&named(1_499), &named(500)));
        let asked = service.only_request();
        assert!(asked.contains("prefix=site%2Fone%2Feverpost-"), "{asked}");
    }

    #[tokio::test]
    async fn a_manifest_is_no_longer_than_what_was_asked_for() {
        for (bytes, is_read) in [(65_536, true), (65_537, false)] {
            let head = format!("content-length: {bytes}\ncontent-range: bytes 0-65535/{bytes}");
            let service = Receiver::answering(206, &head, &"x".repeat(bytes));
            let read = bucket_of(&service).manifest("everpost-1").await;
            assert_eq!(read.is_ok(), is_read, "{bytes}: {:?}", read.err());
        }
    }

    #[tokio::test]
    async fn a_folder_with_more_than_a_backup_is_left_alone() {
        for (files, deleted) in [(FILES_MAX, FILES_MAX), (FILES_MAX + 1, 0)] {
            let mut entries = object("id.unfinished");
            entries.extend((1..files).map(|number| object(&number.to_string())));
            let (service, bucket) = listing(&entries, "");
            let done = bucket.delete_unfinished("everpost-1", "id").await;
            assert_eq!(done, Ok(()));
            let seen = service.seen.lock().unwrap();
            let deletions = seen.iter().filter(|request| request.starts_with("DELETE "));
            assert_eq!(deletions.count(), deleted, "{files}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_never_answered_ends_after_a_minute() {
        let bucket = bucket_of(&Receiver::answering(200, "", ""));
        let begun = tokio::time::Instant::now();
        let never = std::future::pending::<object_store::Result<()>>();
        let error = bucket.in_time(never).await.expect_err("an end");
        assert!(error.ends_with("not answered within 60 s"), "{error}");
        let waited = begun.elapsed();
        assert!(waited >= REQUEST_DEADLINE, "{waited:?}");
        assert!(
            waited < REQUEST_DEADLINE + Duration::from_secs(1),
            "{waited:?}"
        );
    }
}
