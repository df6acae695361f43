//! `everpost dead-letters export` and `import`: dead letters as files in the layout of Azure's storage.
//!
//! An export copies; nothing leaves its queue. An import sends file by file, each of which is taken whole
//! or not at all, so that one that was cut short can be started again.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Args;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::app::cli::client::Client;
use crate::app::cli::dead_letter_filter::DeadLetterFilter;
use crate::app::cli::output::{Output, items, moment, tell, text};
use crate::base::Timestamp;
use crate::model::delivery::DeliveryId;
use crate::model::limits::{BLOB_RECORDS_MAX, IMPORT_BYTES_MAX};
use crate::model::name::{SubscriptionName, TopicName};
use crate::wire::dead_letter_blob::{self, BlobTitle};

const PATH: [&str; 2] = ["everpost", "deadLetters"];

/// Dead letters that are asked for at once.
const PAGE: usize = 200;

/// Files that one import looks at.
const FILES_MAX: usize = 1_000_000;

/// Files between two lines about the progress.
const FILES_PER_LINE: usize = 100;

/// Which dead letters, and where to.
#[derive(Args, Debug)]
pub(super) struct Export {
    /// Directory to write to
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    filter: DeadLetterFilter,
}

/// Which files, and where to.
#[derive(Args, Debug)]
pub(super) struct Import {
    /// Files, and directories with files below them, whose names end in .json
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Topic that gets the events
    #[arg(long)]
    topic: String,
    /// Its only event subscription that gets them, whatever its filter says
    #[arg(long)]
    subscription: Option<String>,
    /// Do it
    #[arg(long)]
    yes: bool,
}

impl Export {
    pub(super) async fn run(&self, client: &Client, output: Output) -> anyhow::Result<()> {
        let count = client
            .get(&[PATH[0], PATH[1], "count"], &self.filter.query())
            .await?;
        tell(&format!("{} dead letters", text(&count, "/count")));
        let (mut written, mut files, mut before) = (0, 0, None);
        loop {
            let page = self.page(client, before).await?;
            let mut rest = items(&page, "/value");
            while let Some((blob, others)) = first_blob(rest) {
                write_blob(client, &self.dir, blob).await?;
                (written, files, rest) = (written + blob.len(), files + 1, others);
            }
            let next = page["nextBefore"].as_i64();
            // Each page lies below the last: a server that breaks this is not followed in circles.
            match next.filter(|next| before.is_none_or(|before| *next < before)) {
                Some(next) => before = Some(next),
                None => break,
            }
            tell(&format!("{written} written so far"));
        }
        let done = json!({ "records": written, "files": files });
        let told = |done: &Value| {
            let (records, files) = (text(done, "/records"), text(done, "/files"));
            format!("{records} dead letters written to {files} files\n")
        };
        Ok(output.show(&done, told)?)
    }

    async fn page(&self, client: &Client, before: Option<i64>) -> anyhow::Result<Value> {
        let limit = ("limit", PAGE.to_string());
        let below = before.map(|before| ("before", before.to_string()));
        let query = self.filter.query().into_iter().chain([limit]).chain(below);
        client.get(&PATH, &query.collect::<Vec<_>>()).await
    }
}

/// The dead letters at the beginning that are of one subscription and fit into one blob, and the others.
fn first_blob(rows: &[Value]) -> Option<(&[Value], &[Value])> {
    let of = |row: &Value| (text(row, "/topic"), text(row, "/subscription"));
    let first = of(rows.first()?);
    let same = rows.iter().take_while(|row| of(row) == first);
    Some(rows.split_at(same.count().min(BLOB_RECORDS_MAX)))
}

/// Whoever writes the same dead letters again overwrites the same file.
async fn write_blob(client: &Client, to: &Path, rows: &[Value]) -> anyhow::Result<()> {
    let first = rows.last().context("a blob is not empty")?; // the oldest
    let topic = TopicName::parse(&text(first, "/topic"))?;
    let subscription = SubscriptionName::parse(&text(first, "/subscription"))?;
    let at = |pointer| moment(first, pointer).unwrap_or_else(|| Timestamp::from_ms(0));
    let title = BlobTitle {
        topic_resource_id: topic.as_str(),
        topic: &topic,
        subscription: &subscription,
        first: DeliveryId(first["deliveryId"].as_i64().unwrap_or_default()),
        first_published_at: at("/publishedAt"),
        at: at("/endedAt"),
    };
    let mut records = Vec::with_capacity(rows.len());
    for row in rows.iter().rev() {
        records.extend(record(client, &text(row, "/deliveryId")).await?);
    }
    let file = to.join(title.name());
    let folder = file.parent().context("a file in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let written = fs::write(&file, dead_letter_blob::text(&records));
    written.with_context(|| format!("cannot write {}", file.display()))
}

/// The record byte for byte; none for what has been pruned meanwhile, or cannot be read.
async fn record(client: &Client, id: &str) -> anyhow::Result<Option<Vec<u8>>> {
    #[derive(Deserialize)]
    struct Shown {
        record: Option<Box<RawValue>>,
    }
    let answer = client.get_text(&[PATH[0], PATH[1], id]).await?;
    let shown: Shown = serde_json::from_str(&answer).context("the server shows no dead letter")?;
    Ok(shown.record.map(|record| record.get().as_bytes().to_vec()))
}

impl Import {
    pub(super) async fn run(&self, client: &Client, output: Output) -> anyhow::Result<()> {
        let files = self.files()?;
        let mut records = 0;
        for file in &files {
            records += read(file)?.1;
        }
        if !self.yes {
            let counted = json!({ "records": records, "files": files.len() });
            return Ok(output.show(&counted, told)?);
        }
        let (mut imported, mut repeated) = (0, 0);
        for (number, file) in files.iter().enumerate() {
            let (blob, records) = read(file)?;
            let answer = client
                .post_bytes(&[PATH[0], PATH[1], "import"], &self.query(), blob)
                .await;
            let answer = answer.with_context(|| format!("{}: not taken", file.display()))?;
            imported += answer["imported"].as_u64().unwrap_or(0);
            repeated += match answer["repeated"].as_bool() {
                Some(true) => records as u64,
                Some(false) | None => 0,
            };
            if (number + 1).is_multiple_of(FILES_PER_LINE) {
                tell(&format!("{imported} of {records} records imported so far"));
            }
        }
        let done = json!({ "imported": imported, "repeated": repeated, "files": files.len() });
        Ok(output.show(&done, told)?)
    }

    fn query(&self) -> Vec<(&'static str, String)> {
        let topic = ("topic", self.topic.clone());
        let subscription = self.subscription.clone().map(|name| ("subscription", name));
        std::iter::once(topic).chain(subscription).collect()
    }

    /// In the order of their names, which is that of their days.
    fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        let (mut waiting, mut found) = (self.paths.clone(), Vec::new());
        while let Some(path) = waiting.pop() {
            if !path.is_dir() {
                found.push(path);
            } else {
                let entries = fs::read_dir(&path);
                for entry in entries.with_context(|| format!("cannot read {}", path.display()))? {
                    let path = entry?.path();
                    if path.is_dir() || path.extension().is_some_and(|each| each == "json") {
                        waiting.push(path);
                    }
                }
            }
            ensure!(
                found.len() <= FILES_MAX,
                "there are more than {FILES_MAX} files; import them in parts"
            );
        }
        found.sort();
        Ok(found)
    }
}

/// A blob and how many records it has.
fn read(file: &Path) -> anyhow::Result<(Vec<u8>, usize)> {
    let name = file.display();
    let bytes = fs::metadata(file).with_context(|| format!("cannot read {name}"))?;
    if bytes.len() > IMPORT_BYTES_MAX as u64 {
        bail!("{name} is larger than {IMPORT_BYTES_MAX} bytes, which is no blob of dead letters");
    }
    let blob = fs::read(file).with_context(|| format!("cannot read {name}"))?;
    let records = match blob.trim_ascii_start().first() {
        Some(b'[') => serde_json::from_slice::<Vec<&RawValue>>(&blob).map(|all| all.len()),
        _ => serde_json::from_slice::<&RawValue>(&blob).map(|_| 1),
    };
    let records = records.with_context(|| format!("{name} is no blob of dead letters"))?;
    Ok((blob, records))
}

fn told(done: &Value) -> String {
    let files = text(done, "/files");
    match (done["records"].as_u64(), done["repeated"].as_u64()) {
        (Some(records), _) => {
            format!("{records} records in {files} files would be imported; add --yes to do it\n")
        }
        (None, Some(repeated)) if repeated > 0 => format!(
            "{} records imported from {files} files; {repeated} had been imported a moment ago\n",
            text(done, "/imported")
        ),
        _ => format!(
            "{} records imported from {files} files\n",
            text(done, "/imported")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_cut_where_the_subscription_changes() {
        let row = |subscription: &str| json!({ "topic": "orders", "subscription": subscription });
        let rows = [row("a"), row("a"), row("b"), row("a")];
        let (mut rest, mut sizes) = (&rows[..], Vec::new());
        while let Some((blob, others)) = first_blob(rest) {
            sizes.push(blob.len());
            rest = others;
        }
        assert_eq!(sizes, [2, 1, 1]);
    }

    #[test]
    fn files_are_found_below_directories_and_counted() {
        let root = tempfile::tempdir().expect("a directory");
        let folder = root.path().join("BILLING/2026");
        fs::create_dir_all(&folder).expect("made");
        for (name, text) in [("b.json", "[{},{}]"), ("a.json", " {}"), ("b.json#1", "[")] {
            fs::write(folder.join(name), text).expect("written");
        }
        let import = Import {
            paths: vec![root.path().to_owned()],
            topic: "orders".to_owned(),
            subscription: None,
            yes: false,
        };
        let files = import.files().expect("files");
        assert_eq!(files, [folder.join("a.json"), folder.join("b.json")]);
        let count = |file: &PathBuf| read(file).expect("a blob").1;
        assert_eq!(files.iter().map(count).collect::<Vec<_>>(), [1, 2]);
        assert!(read(&folder.join("b.json#1")).is_err());
    }

    #[test]
    fn an_import_says_what_it_did() {
        let counted = told(&json!({ "records": 3, "files": 2 }));
        assert_eq!(
            counted,
            "3 records in 2 files would be imported; add --yes to do it\n"
        );
        let done = told(&json!({ "imported": 3, "repeated": 0, "files": 2 }));
        assert_eq!(done, "3 records imported from 2 files\n");
    }
}
