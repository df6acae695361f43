//! `everpost backup`: made by the server that runs, or without one from the data directory itself.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use serde_json::{Value, json};

use crate::app::boot::{self, BESIDE_DATABASE};
use crate::app::cli::confirm::Misuse;
use crate::app::cli::output::{Output, Screen, moment, number, plural, text};
use crate::app::cli::progress::ShownProgress;
use crate::app::cli::request::{RemoteServer, given};
use crate::app::cli::server::{ServerArgs, existing_data_dir, unused_data_dir};
use crate::app::config::Config;
use crate::base::Clock;
use crate::base::human::{bytes, date_time, span};
use crate::model::backup::{BackupPlace, KeptBackup};
use crate::outbound::backup::BackupBucket;
use crate::store::DataDir;
use crate::store::backup::{BackupOrder, StagingDirectory, make};

const BACKUPS: [&str; 2] = ["everpost", "backups"];

/// Between two looks at how far the backup is.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

#[derive(Args, Debug)]
pub(super) struct BackupArgs {
    /// Existing directory, on the server's machine, that gets the backup as a directory of its own, or
    /// s3://bucket/prefix [default: the setting backup.dir]
    #[arg(value_name = "DIR")]
    into: Option<String>,
    /// Leave out everything but the database: the backup gives no secrets away, and cannot be started without the
    /// master key
    #[arg(long)]
    without_master_key: bool,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    output: Output,
}

impl BackupArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let config = self.server.config()?;
        if !self.server.names_url() {
            existing_data_dir(&config)?;
        }
        let made = match unused_data_dir(&self.server, &config)? {
            Some(data_dir) => {
                let into = self
                    .place()?
                    .or_else(|| config.backup_dir.clone())
                    .context("name a directory or a bucket, or set backup.dir")?;
                let made = match &into {
                    BackupPlace::Directory(dir) => self.make(&data_dir, dir, &config)?,
                    BackupPlace::Bucket(at) => {
                        let bucket = boot::outbound(&config, &Clock::system())?
                            .backup_bucket(at)
                            .map_err(|problem| anyhow!("{into}: {problem}"))?;
                        let stage = StagingDirectory::begin(&data_dir)?;
                        let local = self.make(&data_dir, stage.path(), &config)?;
                        upload(&bucket, &local).await?
                    }
                };
                serde_json::to_value(made)?
            }
            None => self.ask_for().await?,
        };
        Ok(self.output.show(&made, summary)?)
    }

    fn place(&self) -> anyhow::Result<Option<BackupPlace>> {
        let place = self.into.as_deref().map(BackupPlace::parse).transpose();
        place.map_err(|problem| anyhow!(Misuse(format!("DIR: {problem}"))))
    }

    fn make(&self, data_dir: &DataDir, into: &Path, config: &Config) -> anyhow::Result<KeptBackup> {
        let order = BackupOrder {
            into: into
                .canonicalize()
                .with_context(|| into.display().to_string())?,
            beside: if self.without_master_key {
                &[]
            } else {
                BESIDE_DATABASE
            },
            free_bytes_min: config.storage_free_bytes_min,
        };
        let mut progress = ShownProgress::new(None);
        let made = make(data_dir, &order, &Clock::system(), &mut |pages| {
            show(&mut progress, pages.copied, pages.all, 0);
            true
        });
        Ok(made?)
    }

    /// Has the server make it, and waits for it.
    async fn ask_for(&self) -> anyhow::Result<Value> {
        let into = match self.place()? {
            Some(BackupPlace::Directory(dir)) => {
                Some(BackupPlace::Directory(std::path::absolute(dir)?))
            }
            place => place,
        };
        let server = RemoteServer::new(self.server.find()?, self.output)?;
        let order = json!({
            "directory": into.map(|into| into.to_string()),
            "withoutMasterKey": self.without_master_key,
        });
        let order = Value::Object(given(&order));
        server.post(BACKUPS).json(&order).send().await?;
        let mut progress = ShownProgress::new(None);
        let status = loop {
            let status = server.get(BACKUPS).send().await?;
            if status["running"].is_null() {
                break status;
            }
            let pages = |name: &str| number(&status, &format!("/running/{name}"));
            let uploaded = pages("uploadedBytes");
            show(
                &mut progress,
                pages("pagesCopied"),
                pages("pages"),
                uploaded,
            );
            tokio::time::sleep(LOOK_PAUSE).await;
        };
        drop(progress);
        match status.pointer("/last/error").and_then(Value::as_str) {
            None => Ok(status["last"]["backup"].clone()),
            Some(error) => bail!("the backup failed: {error}"),
        }
    }
}

async fn upload(bucket: &BackupBucket, local: &KeptBackup) -> anyhow::Result<KeptBackup> {
    let mut progress = ShownProgress::new(None);
    let mut each_part = |uploaded| {
        progress.set(uploaded, " bytes uploaded");
        true
    };
    let from = Path::new(&local.path);
    let put = bucket.put(from, &local.manifest, &mut each_part).await;
    put.map_err(|problem| anyhow!("the backup failed: {problem}"))
}

fn show(progress: &mut ShownProgress, copied: u64, pages: u64, uploaded: u64) {
    if pages == 0 {
        return; // it does not know yet how many there are
    }
    let more = if copied != pages {
        format!(" of {pages} pages copied")
    } else if uploaded > 0 {
        format!(" of {pages} pages copied; {} uploaded", bytes(uploaded))
    } else {
        format!(" of {pages} pages copied; verifying them")
    };
    progress.set(copied, &more);
}

fn summary(made: &Value, _: Screen) -> String {
    let took = Duration::from_millis(number(made, "/tookMs"));
    let files = made["files"].as_object().into_iter().flatten();
    let size: u64 = files.map(|(_, file)| number(file, "/bytes")).sum();
    let path = text(made, "/path");
    format!(
        "{} in {}: {}\n{path}\n",
        bytes(size),
        span(took),
        contents(made)
    )
}

/// Describes the contents of a backup, by its manifest.
pub(super) fn contents(manifest: &Value) -> String {
    let count =
        |name: &str, one, many| plural(number(manifest, &format!("/counts/{name}")), one, many);
    let made_at = moment(manifest, "/madeAt").map_or_else(String::new, date_time);
    let damaged = match number(manifest, "/counts/damaged") {
        0 => String::new(),
        rows => format!(" ({} damaged)", plural(rows, "row is", "rows are")),
    };
    format!(
        "{}, {}, {}, {}{damaged} of Everpost {} at {made_at} UTC",
        count("topics", "topic", "topics"),
        count(
            "eventSubscriptions",
            "event subscription",
            "event subscriptions"
        ),
        count("events", "event", "events"),
        count(
            "pendingDeliveries",
            "pending delivery",
            "pending deliveries"
        ),
        text(manifest, "/version")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_backed_up_is_told() {
        let made = json!({"path": "/srv/backups/everpost-2026-11-24T185012Z", "version": "1.2.3",
            "madeAt": "2026-11-24T18:50:12.138Z", "tookMs": 1_500,
            "counts": {"topics": 1, "eventSubscriptions": 2, "events": 3, "pendingDeliveries": 4},
            "files": {"everpost.db": {"bytes": 1_024, "sha256": ""}, "master.key": {"bytes": 512}}});
        assert_eq!(
            summary(&made, Screen::default()),
            "1.5 KiB in 1.5 s: 1 topic, 2 event subscriptions, 3 events, 4 pending deliveries of Everpost 1.2.3 \
             at 2026-11-24 18:50:12 UTC\n/srv/backups/everpost-2026-11-24T185012Z\n"
        );
    }
}
