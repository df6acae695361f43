//! `everpost restore`: a backup as a new data directory.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;

use crate::app::cli::backup::contents;
use crate::app::cli::output::{note, print};
use crate::app::cli::server::{InstallationArgs, reject_used};
use crate::model::backup::Manifest;
use crate::store::backup::{read, restore, verify};
use crate::store::{DataDir, MASTER_KEY_FILE};

#[derive(Args, Debug)]
pub(super) struct RestoreArgs {
    /// Directory of a backup
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// Verify the backup and say what is in it; restore nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    installation: InstallationArgs,
}

impl RestoreArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let config = self.installation.config()?;
        let new_dir = &config.data_dir;
        let manifest = read(&self.backup)?;
        reject_used(new_dir)?;
        note("verifying the backup");
        verify(&self.backup, &manifest)?;
        let described = serde_json::to_value(&manifest).context("the manifest")?;
        print(&format!("{}\n", contents(&described)))?;
        if !self.dry_run {
            restore(&self.backup, &manifest, &DataDir::open(new_dir)?)?;
        }
        if config.master_keys.is_none()
            && let Some(missing) = missing_key(&manifest, new_dir)
        {
            note(&missing);
        }
        Ok(print(&match self.dry_run {
            true => format!(
                "the backup is sound; nothing was restored to {}\n",
                new_dir.display()
            ),
            false => format!(
                "start with: everpost serve --data-dir {}\n",
                new_dir.display()
            ),
        })?)
    }
}

/// What has to be put in place before the start, if the backup was made without the master key.
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
