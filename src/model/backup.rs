//! Backups: what one holds, when the next one is due, and how all of them stand. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::base::Timestamp;

/// Raised when a part of a backup moves or changes its meaning.
pub const FORMAT: u32 = 1;

/// The file that describes a backup.
pub const MANIFEST_FILE: &str = "manifest.json";

/// How the names of backups begin.
pub const NAME_PREFIX: &str = "everpost-";

/// How soon a scheduled backup that failed is tried again: what stood in its way is often gone by then.
const AGAIN_AFTER: Duration = Duration::from_secs(15 * 60);

/// How URLs of buckets begin.
const S3: &str = "s3://";

/// Where backups are: each is a directory of its own in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupPlace {
    Directory(PathBuf),
    Bucket(BucketPath),
}

/// A place in a bucket of S3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketPath {
    pub bucket: String,
    /// Names with slashes between them; empty for the bucket itself.
    pub prefix: String,
}

impl BackupPlace {
    /// Tells whether `other` is this place or below it. Directories are compared as they are written, so `..` is below nothing.
    pub fn holds(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Directory(own), Self::Directory(other)) => {
                other.starts_with(own)
                    && !other.components().any(|part| part == Component::ParentDir)
            }
            (Self::Bucket(own), Self::Bucket(other)) => {
                let rest = other.prefix.strip_prefix(&own.prefix);
                let is_below =
                    |rest: &str| own.prefix.is_empty() || rest.is_empty() || rest.starts_with('/');
                own.bucket == other.bucket && rest.is_some_and(is_below)
            }
            (Self::Directory(_), Self::Bucket(_)) | (Self::Bucket(_), Self::Directory(_)) => false,
        }
    }

    /// Reads a path, or `s3://bucket/prefix`. The error says what is wrong with the latter.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let Some(rest) = text.strip_prefix(S3) else {
            return Ok(Self::Directory(PathBuf::from(text)));
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_end_matches('/');
        let is_sign = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        if !(3..=63).contains(&bucket.len()) || !bucket.chars().all(is_sign) {
            return Err(
                "it must be like s3://bucket/prefix, with a bucket's name of 3 to 63 lower-case letters, \
                        digits, hyphens and dots",
            );
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._/=".contains(c);
        let mut names = prefix.split('/');
        if !prefix.chars().all(is_plain)
            || (!prefix.is_empty() && names.any(|name| matches!(name, "" | "." | "..")))
        {
            return Err(
                "its prefix must be names of letters, digits and -._= with one slash between them",
            );
        }
        Ok(Self::Bucket(BucketPath {
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
        }))
    }
}

impl fmt::Display for BackupPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(dir) => write!(f, "{}", dir.display()),
            Self::Bucket(at) => at.fmt(f),
        }
    }
}

impl BucketPath {
    /// Splits the path of a backup into the place of the backups and the backup's name there.
    pub fn split_last(&self) -> (Self, &str) {
        let (prefix, name) = self.prefix.rsplit_once('/').unwrap_or(("", &self.prefix));
        let place = Self {
            bucket: self.bucket.clone(),
            prefix: prefix.to_owned(),
        };
        (place, name)
    }
}

impl fmt::Display for BucketPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        write!(f, "{S3}{}{slash}{}", self.bucket, self.prefix)
    }
}

/// The settings of backups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupRules {
    /// Where backups are made on schedule; `None` for no schedule.
    pub dir: Option<BackupPlace>,
    pub every: Duration,
    /// How many are kept there.
    pub keep: usize,
    /// Where they may be made besides.
    pub allowed: Vec<BackupPlace>,
    /// Is true if backups include the files of `beside`.
    pub with_master_key: bool,
    /// Files of the data directory that belong to the database: its key, and what would have to be set up anew.
    pub beside: &'static [&'static str],
}

impl BackupRules {
    /// When the next scheduled backup is due, after the newest one and one that has failed since.
    pub fn next_at(
        &self,
        newest: Option<Timestamp>,
        failed_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Timestamp {
        // One from the future was made before the clock was set back.
        let due = newest.map_or(now, |newest| newest.min(now) + self.every);
        let again = failed_at.map_or(due, |failed_at| failed_at + AGAIN_AFTER);
        due.max(again)
    }
}

/// The description of a backup's contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Manifest {
    pub format: u32,
    /// The version of Everpost that made it.
    pub version: String,
    /// The backup includes everything that was acknowledged before this moment.
    pub made_at: Timestamp,
    pub took_ms: u64,
    /// The database that it is a copy of: the same in all backups of one appliance.
    pub database_id: String,
    pub schema: i64,
    pub counts: BackupCounts,
    /// The ids of the master keys that secrets in the database are encrypted with.
    pub master_keys: Vec<String>,
    /// Its files by their names.
    pub files: BTreeMap<String, BackupFile>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct BackupCounts {
    pub topics: u64,
    pub event_subscriptions: u64,
    pub events: u64,
    pub pending_deliveries: u64,
    /// Events and deliveries that are damaged, by their checksums; nobody receives them.
    #[serde(default)]
    pub damaged: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct BackupFile {
    pub bytes: u64,
    pub sha256: String,
}

impl Manifest {
    pub fn bytes(&self) -> u64 {
        self.files.values().map(|file| file.bytes).sum()
    }

    pub fn took(&self) -> Duration {
        Duration::from_millis(self.took_ms)
    }

    /// The name of its directory: `everpost-2026-11-24T185012.138Z`.
    pub fn name(&self) -> String {
        format!("{NAME_PREFIX}{}", self.made_at).replace(':', "")
    }
}

/// A backup and where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Backup")]
pub struct KeptBackup {
    pub path: String,
    #[serde(flatten)]
    pub manifest: Manifest,
}

/// How backups stand.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Backups")]
pub struct BackupStatus {
    pub running: Option<RunningBackup>,
    /// The last one since the start.
    pub last: Option<EndedBackup>,
    /// Null without the setting `backup.dir`.
    pub schedule: Option<BackupSchedule>,
    /// The backups of this appliance in the directory of the schedule, the newest first.
    pub value: Vec<KeptBackup>,
}

#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct RunningBackup {
    pub since: Timestamp,
    /// Once all pages are copied, the copy is verified.
    pub pages_copied: u64,
    pub pages: u64,
    /// Bytes uploaded so far of a backup to S3, which is copied to the data directory first.
    pub uploaded_bytes: u64,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct EndedBackup {
    pub at: Timestamp,
    /// Null if it failed.
    pub backup: Option<KeptBackup>,
    /// The reason if it failed.
    pub error: Option<String>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct BackupSchedule {
    pub directory: String,
    pub every_hours: u64,
    /// How many are kept.
    pub keep: usize,
    pub next_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_one_is_due_after_the_newest_and_soon_after_a_failure() {
        let hours = |hours: u64| Timestamp::from_ms(0) + Duration::from_secs(hours * 3_600);
        let minute = |minute: u64| hours(10) + Duration::from_secs(minute * 60);
        let rules = BackupRules {
            every: Duration::from_secs(4 * 3_600),
            ..BackupRules::default()
        };
        let now = hours(10);
        for (newest, failed_at, next_at) in [
            (None, None, now),
            (Some(hours(9)), None, hours(13)),
            (Some(hours(1)), None, hours(5)),
            (Some(hours(1)), Some(now), minute(15)),
            (None, Some(now), minute(15)),
            // Somebody asked for another one, which failed.
            (Some(hours(9)), Some(now), hours(13)),
            (Some(hours(99)), None, hours(14)),
        ] {
            let found = rules.next_at(newest, failed_at, now);
            assert_eq!(found, next_at, "{newest:?} {failed_at:?}");
        }
    }

    #[test]
    fn a_bucket_is_told_from_a_directory() {
        for text in [
            "s3://backups",
            "s3://backups/a/b=1",
            "/srv/backups",
            "relative",
        ] {
            let place = BackupPlace::parse(text).expect("a place");
            assert_eq!(place.to_string(), text);
            let is_bucket = matches!(place, BackupPlace::Bucket(_));
            assert_eq!(is_bucket, text.starts_with(S3), "{text}");
        }
        let place = BackupPlace::parse("s3://backups/a/").expect("a place");
        assert_eq!(place.to_string(), "s3://backups/a");
        for text in [
            "s3://",
            "s3://ab",
            "s3://B%20d/a",
            "s3://backups//a",
            "s3://backups/../a",
            "s3://backups/a?b",
        ] {
            assert!(BackupPlace::parse(text).is_err(), "{text}");
        }
        let at = |prefix: &str| BucketPath {
            bucket: "b".to_owned(),
            prefix: prefix.to_owned(),
        };
        assert_eq!(at("a/b/c").split_last(), (at("a/b"), "c"));
        assert_eq!(at("c").split_last(), (at(""), "c"));
    }

    #[test]
    fn a_place_holds_what_is_below_it() {
        for (own, other, is_held) in [
            ("/srv/backups", "/srv/backups", true),
            ("/srv/backups/", "/srv/backups/a/b", true),
            ("/srv/backups", "/srv/backups2", false),
            ("/srv/backups", "/srv", false),
            ("/srv/backups", "/srv/backups/../../etc", false),
            ("/srv/backups", "s3://srv/backups", false),
            ("s3://bucket", "s3://bucket/a/b", true),
            ("s3://bucket/a", "s3://bucket/a", true),
            ("s3://bucket/a/", "s3://bucket/a/b", true),
            ("s3://bucket/a", "s3://bucket/ab", false),
            ("s3://bucket/a", "s3://bucket", false),
            ("s3://bucket", "s3://bucket2", false),
            ("s3://bucket", "/bucket", false),
        ] {
            let place = |text| BackupPlace::parse(text).expect("a place");
            assert_eq!(place(own).holds(&place(other)), is_held, "{own}: {other}");
        }
    }

    #[test]
    fn a_backup_is_named_by_its_moment() {
        let manifest = Manifest {
            format: FORMAT,
            version: String::new(),
            made_at: "2026-11-24T18:50:12.138Z".parse().expect("RFC 3339"),
            took_ms: 0,
            database_id: String::new(),
            schema: 1,
            counts: BackupCounts::default(),
            master_keys: Vec::new(),
            files: BTreeMap::new(),
        };
        assert_eq!(manifest.name(), "everpost-2026-11-24T185012.138Z");
    }
}
