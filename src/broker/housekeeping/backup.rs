//! Backups while the appliance runs: when somebody asks for one, and on schedule. One at a time.

use std::path::{Path, PathBuf};
use std::sync::MutexGuard;
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::model::audit::{Actor, AuditAction, AuditTarget, Caller};
use crate::model::backup::{
    BackupPlace, BackupRules, BackupSchedule, BackupStatus, EndedBackup, KeptBackup, RunningBackup,
};
use crate::outbound::backup::BackupBucket;
use crate::store::backup::{BackupOrder, StagingDirectory};
use crate::store::{BackupError, Pages, StoreError};

/// Pause between two looks at the schedule.
const ROUND_INTERVAL: Duration = Duration::from_secs(10);

/// A backup that somebody asks for.
#[derive(Clone, Debug, Default)]
pub struct BackupRequest {
    /// The place for the backup; `None` for the place of scheduled backups.
    pub place: Option<BackupPlace>,
    pub without_master_key: bool,
}

/// The reason that no backup begins.
#[derive(Debug, thiserror::Error)]
pub enum BackupRejected {
    #[error("a backup is running, and there is one at a time")]
    Running,
    #[error("name a directory or a bucket, or set backup.dir")]
    NoPlace,
    #[error("{0}: {1}")]
    Place(String, String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A backup that can begin.
struct Order {
    place: BackupPlace,
    local: BackupOrder,
    /// The bucket to which the finished backup is uploaded; `None` if it stays in a directory.
    upload: Option<BackupUpload>,
}

struct BackupUpload {
    to: BackupBucket,
    /// The staging directory in which the backup is made before its upload; deleted when this is dropped.
    _stage: StagingDirectory,
}

/// The running backup, the last one, and the existing scheduled ones, as the broker knows them.
#[derive(Debug, Default)]
pub(in crate::broker) struct BackupBook {
    running: Option<RunningBackup>,
    /// The last backup that ended since the process started.
    last: Option<EndedBackup>,
    /// The backups in the directory or bucket of the schedule, newest first.
    kept: Vec<KeptBackup>,
}

impl BackupBook {
    fn next_at(&self, rules: &BackupRules, now: Timestamp) -> Timestamp {
        let newest = self.kept.first().map(|kept| kept.manifest.made_at);
        let failed = self.last.as_ref().filter(|last| last.error.is_some());
        rules.next_at(newest, failed.map(|last| last.at), now)
    }
}

impl Broker {
    /// Returns the state of the backups: the running one, the last one, the schedule, and the existing ones.
    pub fn backups(&self) -> BackupStatus {
        let (options, now) = (self.options(), self.clock().now());
        let rules = &options.backups;
        let book = self.backup_book();
        let schedule = rules.dir.as_ref().map(|dir| BackupSchedule {
            directory: dir.to_string(),
            every_hours: rules.every.as_secs() / 3_600,
            keep: rules.keep,
            next_at: book.next_at(rules, now).max(now),
        });
        BackupStatus {
            running: book.running,
            last: book.last.clone(),
            schedule,
            value: book.kept.clone(),
        }
    }

    /// Starts a backup on request. The backup continues when the caller has gone.
    pub async fn back_up(
        &self,
        by: &Caller,
        request: &BackupRequest,
    ) -> Result<(), BackupRejected> {
        let is_anywhere = by.actor == Actor::ManagementToken;
        // Checks the place before it is accessed, so that errors reveal nothing about places that are not allowed.
        if let Some(place) = request.place.as_ref().filter(|_| !is_anywhere) {
            self.check_backup_place(place)?;
        }
        let order = self.backup_order(request)?;
        if !is_anywhere {
            self.check_backup_place(&order.place)?;
        }
        if self.backup_book().running.is_some() {
            return Err(BackupRejected::Running);
        }
        let directory = order.place.to_string();
        let action = AuditAction::StartBackup { directory };
        self.record(by, action, AuditTarget::appliance()).await?;
        drop(self.start_backup(order)?); // it goes on by itself
        Ok(())
    }

    fn backup_order(&self, request: &BackupRequest) -> Result<Order, BackupRejected> {
        let options = self.options();
        let rules = &options.backups;
        let named = (request.place.as_ref())
            .or(rules.dir.as_ref())
            .ok_or(BackupRejected::NoPlace)?;
        let reject = |problem| BackupRejected::Place(named.to_string(), problem);
        let (place, into, upload) = match named {
            BackupPlace::Directory(dir) => {
                if request.place.is_some() && dir.is_relative() {
                    return Err(reject("it is not an absolute path".to_owned()));
                }
                let into = existing_dir(dir).map_err(reject)?;
                (BackupPlace::Directory(into.clone()), into, None)
            }
            BackupPlace::Bucket(at) => {
                let to = self.outbound().backup_bucket(at).map_err(reject)?;
                let staged = self.store().upkeep.stage();
                let stage = staged.map_err(|error| reject(error.to_string()))?;
                let into = stage.path().to_owned();
                (
                    named.clone(),
                    into,
                    Some(BackupUpload { to, _stage: stage }),
                )
            }
        };
        let with_master_key = rules.with_master_key && !request.without_master_key;
        let local = BackupOrder {
            into,
            beside: if with_master_key { rules.beside } else { &[] },
            free_bytes_min: options.free_bytes_min,
        };
        Ok(Order {
            place,
            local,
            upload,
        })
    }

    /// Rejects a place outside of all those that the settings `backup.dir` and `backup.allow` name: a caller who may
    /// request backups need not be allowed to write anywhere on this machine, or to send its secrets anywhere.
    fn check_backup_place(&self, place: &BackupPlace) -> Result<(), BackupRejected> {
        let options = self.options();
        let rules = &options.backups;
        if is_backup_place_allowed(rules.allowed.iter().chain(&rules.dir), place) {
            return Ok(());
        }
        let problem =
            "it is neither in nor below what the settings backup.dir and backup.allow name";
        Err(BackupRejected::Place(place.to_string(), problem.to_owned()))
    }

    fn start_backup(&self, order: Order) -> Result<JoinHandle<()>, BackupRejected> {
        let since = self.clock().now();
        let mut book = self.backup_book();
        if book.running.is_some() {
            return Err(BackupRejected::Running);
        }
        book.running = Some(RunningBackup {
            since,
            pages_copied: 0,
            pages: 0,
            uploaded_bytes: 0,
        });
        let broker = self.clone();
        Ok(tokio::spawn(async move { broker.run_backup(order).await }))
    }

    async fn run_backup(&self, order: Order) {
        let Order {
            place,
            local,
            upload,
        } = order;
        let broker = self.clone();
        let progress = move |pages: Pages| {
            broker.note_progress(|running| {
                (running.pages_copied, running.pages) = (pages.copied, pages.all);
            })
        };
        let upkeep = &self.store().upkeep;
        let made = upkeep.back_up(local, self.clock().clone(), progress).await;
        let made = match (made, upload) {
            (Ok(local), Some(upload)) => self.upload(&upload, &local).await,
            (made, _) => made,
        };
        if let Ok(backup) = &made
            && self.scheduled_place().as_ref() == Some(&place)
        {
            self.backup_book().kept.insert(0, backup.clone());
            self.keep_backups(self.options().backups.keep).await;
        }
        self.end_backup(made);
    }

    async fn upload(
        &self,
        upload: &BackupUpload,
        local: &KeptBackup,
    ) -> Result<KeptBackup, BackupError> {
        let mut each_part = |bytes| self.note_progress(|running| running.uploaded_bytes = bytes);
        let from = Path::new(&local.path);
        let put = upload.to.put(from, &local.manifest, &mut each_part).await;
        put.map_err(BackupError::new)
    }

    /// Updates the progress of the running backup. Returns whether to go on.
    fn note_progress(&self, change: impl FnOnce(&mut RunningBackup)) -> bool {
        if let Some(running) = &mut self.backup_book().running {
            change(running);
        }
        !self.is_stopping()
    }

    /// Returns the place of scheduled backups, with the canonical path of a directory; `None` if none is set or the
    /// directory does not exist.
    fn scheduled_place(&self) -> Option<BackupPlace> {
        match self.options().backups.dir.as_ref()? {
            BackupPlace::Directory(dir) => existing_dir(dir).ok().map(BackupPlace::Directory),
            BackupPlace::Bucket(at) => Some(BackupPlace::Bucket(at.clone())),
        }
    }

    /// Lists the backups in the place of the schedule, and deletes all but the newest `most`.
    async fn keep_backups(&self, most: usize) {
        let Some(named) = &self.options().backups.dir else {
            return;
        };
        let kept = match named {
            BackupPlace::Directory(dir) => match existing_dir(dir) {
                Ok(dir) => self.store().upkeep.keep_backups(dir, most).await,
                Err(problem) => Err(BackupError::new(format!("{named}: {problem}"))),
            },
            BackupPlace::Bucket(at) => {
                let bucket = self.outbound().backup_bucket(at).map_err(BackupError::new);
                match bucket.and_then(|bucket| Ok((bucket, self.store().upkeep.database_id()?))) {
                    Ok((bucket, id)) => {
                        let kept = bucket.keep_newest(&id, most).await;
                        kept.map_err(BackupError::new)
                    }
                    Err(error) => Err(error),
                }
            }
        };
        match kept {
            Ok(kept) => self.backup_book().kept = kept,
            Err(error) => tracing::error!(%error, "old backups cannot be listed or deleted"),
        }
    }

    fn end_backup(&self, made: Result<KeptBackup, BackupError>) {
        match &made {
            Ok(KeptBackup { path, manifest }) => {
                self.meters().backed_up(manifest);
                tracing::info!(
                    path,
                    bytes = manifest.bytes(),
                    "the appliance was backed up"
                );
            }
            Err(error) => {
                self.meters().backup_failed();
                tracing::error!(%error, "the backup failed");
            }
        }
        let mut book = self.backup_book();
        book.running = None;
        book.last = Some(EndedBackup {
            at: self.clock().now(),
            error: made.as_ref().err().map(ToString::to_string),
            backup: made.ok(),
        });
    }

    /// Backs up on schedule until the broker stops.
    pub async fn run_backups(self) {
        drop(self.store().upkeep.stage()); // what a killed process has left there
        let mut known = None;
        while !self.is_stopping() {
            let rules = self.options().backups.clone();
            if known != rules.dir {
                self.look_for_backups().await;
                known.clone_from(&rules.dir);
            }
            let now = self.clock().now();
            if rules.dir.is_some() && self.backup_book().next_at(&rules, now) <= now {
                self.back_up_on_schedule().await;
            }
            tokio::select! {
                () = tokio::time::sleep(ROUND_INTERVAL) => {}
                () = self.stopping() => {}
            }
        }
    }

    /// Lists the existing backups after the place of the schedule was set or changed.
    async fn look_for_backups(&self) {
        self.backup_book().kept.clear();
        self.keep_backups(usize::MAX).await;
        if let Some(newest) = self.backup_book().kept.first() {
            self.meters().backed_up(&newest.manifest);
        }
    }

    async fn back_up_on_schedule(&self) {
        let order = self.backup_order(&BackupRequest::default());
        match order.and_then(|order| self.start_backup(order)) {
            Ok(running) => drop(running.await), // it has told how it ended
            Err(BackupRejected::Running) => {}
            Err(error) => self.end_backup(Err(BackupError::new(error))),
        }
    }

    fn backup_book(&self) -> MutexGuard<'_, BackupBook> {
        self.shared.backups.lock().unwrap()
    }
}

/// Returns whether `place` is an allowed place or below one, after symbolic links have been resolved.
pub fn is_backup_place_allowed<'a>(
    mut allowed: impl Iterator<Item = &'a BackupPlace>,
    place: &BackupPlace,
) -> bool {
    let found = found_place(place);
    allowed.any(|allowed| found_place(allowed).holds(&found))
}

/// Returns a place with the symbolic links in the existing part of a directory's path resolved.
fn found_place(place: &BackupPlace) -> BackupPlace {
    let BackupPlace::Directory(dir) = place else {
        return place.clone();
    };
    let found = dir.ancestors().find_map(|above| {
        let rest = dir.strip_prefix(above).ok()?;
        Some(above.canonicalize().ok()?.join(rest))
    });
    BackupPlace::Directory(found.unwrap_or_else(|| dir.clone()))
}

/// Returns the canonical path of an existing directory; the error is the reason for which there is none.
fn existing_dir(dir: &Path) -> Result<PathBuf, String> {
    let found = dir.canonicalize().map_err(|error| error.to_string())?;
    if found.is_dir() {
        Ok(found)
    } else {
        Err("it is not a directory".to_owned())
    }
}
