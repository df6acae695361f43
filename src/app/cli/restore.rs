//! `everpost restore`: a backup as a new data directory.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::Args;

use crate::app::boot::{self, BESIDE_DATABASE};
use crate::app::cli::backup::contents;
use crate::app::cli::confirm::Misuse;
use crate::app::cli::output::{note, print};
use crate::app::cli::server::{InstallationArgs, reject_used};
use crate::app::config::Config;
use crate::base::Clock;
use crate::model::backup::{BackupPlace, Manifest};
use crate::outbound::backup::BackupBucket;
use crate::store::backup::{copy, parse, read, settle, verify};
use crate::store::{DataDir, FILE, MASTER_KEY_FILE, NewDataDir};

#[derive(Args, Debug)]
pub(super) struct RestoreArgs {
    /// Directory of a backup, or s3://bucket/prefix/everpost-…
    #[arg(value_name = "BACKUP")]
    backup: String,
    /// For patterns such as backups/everpost-*, which may stand for several
    #[arg(hide = true)]
    others: Vec<String>,
    /// Verify the backup and say what is in it; restore nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    installation: InstallationArgs,
}

impl RestoreArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        self.reject_several()?;
        let config = self.installation.config()?;
        let new_dir = &config.data_dir;
        let (source, manifest) = BackupSource::open(&self.backup, &config).await?;
        reject_unknown(&manifest)?;
        reject_used(new_dir)?;
        note("verifying the backup");
        // What is fetched is verified on the way.
        if self.dry_run || matches!(source, BackupSource::Directory(_)) {
            source.verify(&manifest).await?;
        }
        let described = serde_json::to_value(&manifest).context("the manifest")?;
        print(&format!("{}\n", contents(&described)))?;
        if !self.dry_run {
            let to = DataDir::open(new_dir)?;
            let draft = NewDataDir::begin(&to)?;
            source.copy(&manifest, &draft).await?;
            settle(&manifest, draft)?;
        }
        if config.master_keys.is_none()
            && let Some(missing) = missing_key(&manifest, new_dir)
        {
            note(&missing);
        }
        let dir = new_dir.display();
        let result = if self.dry_run {
            format!("the backup is sound; nothing was restored to {dir}\n")
        } else {
            format!("start with: everpost serve --data-dir {dir}\n")
        };
        Ok(print(&result)?)
    }

    fn reject_several(&self) -> Result<(), Misuse> {
        let newest = self.others.iter().chain([&self.backup]).max(); // names begin with the moment
        match newest.filter(|_| !self.others.is_empty()) {
            None => Ok(()),
            Some(newest) => Err(Misuse(format!(
                "BACKUP: {} are named, and one is restored; the newest is {newest}",
                self.others.len() + 1
            ))),
        }
    }
}

/// Rejects a backup with files that none is made of: a data directory is believed in what it holds.
fn reject_unknown(manifest: &Manifest) -> anyhow::Result<()> {
    let is_known = |name: &str| name == FILE || BESIDE_DATABASE.contains(&name);
    match manifest.files.keys().find(|name| !is_known(name)) {
        None => Ok(()),
        Some(name) => bail!(
            "the backup names the file {name:?}, which is none of those that a backup is made of; nothing was restored"
        ),
    }
}

/// Where a backup is.
enum BackupSource {
    Directory(PathBuf),
    /// With its name.
    Bucket(BackupBucket, String),
}

impl BackupSource {
    async fn open(backup: &str, config: &Config) -> anyhow::Result<(Self, Manifest)> {
        let place = BackupPlace::parse(backup)
            .map_err(|problem| anyhow!(Misuse(format!("BACKUP: {problem}"))))?;
        let at = match place {
            BackupPlace::Directory(dir) => {
                let manifest = read(&dir)?;
                return Ok((Self::Directory(dir), manifest));
            }
            BackupPlace::Bucket(at) => at,
        };
        let (place, name) = at.split_last();
        let said = |problem: String| anyhow!("{at}: {problem}");
        let bucket = boot::outbound(config, &Clock::system())?
            .backup_bucket(&place)
            .map_err(said)?;
        let text = bucket.manifest(name).await.map_err(said)?;
        let manifest = parse(&text).map_err(said)?;
        Ok((Self::Bucket(bucket, name.to_owned()), manifest))
    }

    async fn verify(&self, manifest: &Manifest) -> anyhow::Result<()> {
        match self {
            Self::Directory(dir) => Ok(verify(dir, manifest)?),
            Self::Bucket(bucket, name) => {
                let verified = bucket.verify(name, manifest).await;
                verified.map_err(|problem| anyhow!(problem))
            }
        }
    }

    async fn copy(&self, manifest: &Manifest, to: &NewDataDir<'_>) -> anyhow::Result<()> {
        match self {
            Self::Directory(dir) => copy(dir, manifest, to)?,
            Self::Bucket(bucket, name) => {
                for (file, expected) in &manifest.files {
                    let target = File::create(to.file(file))?;
                    let fetched = bucket.fetch(name, file, expected, target).await;
                    fetched.map_err(|problem| anyhow!(problem))?;
                }
            }
        }
        Ok(())
    }
}

/// Returns an instruction to put the master key in place before the start, if the backup was made without it.
fn missing_key(manifest: &Manifest, new_dir: &Path) -> Option<String> {
    let is_needed = !manifest.master_keys.is_empty();
    (is_needed && !manifest.files.contains_key(MASTER_KEY_FILE)).then(|| {
        format!(
            "the master key {} is not in the backup: put it into {}, or name its file with --master-key-file, \
             before the start",
            manifest.master_keys.join(", "),
            new_dir.join(MASTER_KEY_FILE).display()
        )
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::{Map, json};

    use super::*;

    #[test]
    fn a_backup_is_made_of_known_files() {
        let problem = |names: &[&str]| {
            let file = json!({ "bytes": 1, "sha256": "" });
            let files: Map<_, _> = names
                .iter()
                .map(|name| ((*name).to_owned(), file.clone()))
                .collect();
            let manifest = json!({ "format": 1, "version": "", "madeAt": "2026-11-24T18:50:12Z", "tookMs": 0,
                "databaseId": "", "schema": 1, "counts": { "topics": 0, "eventSubscriptions": 0, "events": 0,
                "pendingDeliveries": 0 }, "masterKeys": [], "files": files });
            let manifest = serde_json::from_value(manifest).expect("a manifest");
            reject_unknown(&manifest)
                .err()
                .map(|problem| problem.to_string())
        };
        let beside: Vec<&str> = BESIDE_DATABASE.iter().copied().chain([FILE]).collect();
        assert_eq!(problem(&beside), None);
        for name in [
            "server.url",
            "everpost.db-wal",
            ".bashrc",
            "EVERPOST.TOML",
            "everpost.db.unfinished",
            "\u{1b}[2J",
        ] {
            let said = problem(&[FILE, name]).unwrap_or_default();
            assert!(said.contains(&format!("{name:?}")), "{name:?}: {said}");
        }
    }

    #[test]
    fn one_backup_is_restored() {
        let problem = |backups: &[&str]| {
            let args = ["restore"]
                .iter()
                .chain(backups)
                .chain(&["--data-dir", "new"]);
            let args = Alone::try_parse_from(args).expect("arguments").restore;
            args.reject_several().err().map(|misuse| misuse.0)
        };
        assert_eq!(problem(&["b/everpost-2"]), None);
        let said = "BACKUP: 3 are named, and one is restored; the newest is b/everpost-3";
        let several = ["b/everpost-1", "b/everpost-3", "b/everpost-2"];
        assert_eq!(problem(&several).as_deref(), Some(said));
    }

    #[derive(clap::Parser)]
    struct Alone {
        #[command(flatten)]
        restore: RestoreArgs,
    }
}
