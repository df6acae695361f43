//! `everpost dead-letters export` and `import`: dead letters as files in the layout of Azure's storage.
//!
//! An export copies dead letters and leaves them in their queues. An import sends one file per request. The server
//! imports a file completely or not at all, so an interrupted import can be started again.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Args;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::app::cli::dead_letters::PATH;
use crate::app::cli::output::{Screen, items, moment, note, number, text};
use crate::app::cli::request::RemoteServer;
use crate::base::{Timestamp, regular_file};
use crate::model::delivery::DeliveryId;
use crate::model::limits::{BLOB_RECORDS_MAX, IMPORT_BYTES_MAX};
use crate::model::name::{SubscriptionName, TopicName};
use crate::wire::dead_letter_blob::{self, BlobTitle};
use crate::wire::query::{DeadLetterParameters, ImportParameters};

/// The maximum number of dead letters in one page of the list that an export requests.
const PAGE: u32 = 200;

/// The maximum number of files in one import.
const FILES_MAX: usize = 1_000_000;

/// The number of imported files between two lines about the progress.
const FILES_PER_LINE: usize = 100;

/// Which dead letters, and where to.
#[derive(Args, Debug)]
pub(in crate::app::cli) struct ExportDeadLetterFiles {
    /// Directory to write to
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    filter: DeadLetterParameters,
}

/// Which files, and where to.
#[derive(Args, Debug)]
pub(in crate::app::cli) struct ImportDeadLetterFiles {
    /// Files, and directories with files below them, whose names end in .json
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    target: ImportParameters,
    /// Apply instead of only counting
    #[arg(long)]
    yes: bool,
}

impl ExportDeadLetterFiles {
    pub(super) async fn run(&self, server: &RemoteServer) -> anyhow::Result<()> {
        let count = server.get(PATH).at("count").query(&self.filter);
        let total = number(&count.send().await?, "/count");
        let (mut written, mut files) = (0, 0);
        let pages = server.get(PATH).query(&self.filter);
        pages
            .query(json!({ "limit": PAGE }))
            .pages(async |page| {
                let mut rest = items(page, "/value");
                while let Some((blob, others)) = first_blob(rest) {
                    write_blob(server, &self.dir, blob).await?;
                    (written, files, rest) = (written + blob.len(), files + 1, others);
                }
                note(&format!("{written} of {total} dead letters written"));
                Ok(())
            })
            .await?;
        let done = json!({ "records": written, "files": files });
        server.show(&done, |_: &_, _| {
            format!("{written} dead letters written to {files} files\n")
        })
    }
}

/// Splits `rows` after the leading dead letters that belong to one event subscription and fit into one blob. Returns
/// these and the remaining rows; `None` if `rows` is empty.
fn first_blob(rows: &[Value]) -> Option<(&[Value], &[Value])> {
    let of = |row: &Value| (text(row, "/topic"), text(row, "/subscription"));
    let first = of(rows.first()?);
    let same = rows.iter().take_while(|row| of(row) == first);
    Some(rows.split_at(same.count().min(BLOB_RECORDS_MAX)))
}

/// Writes the dead letters of one blob to a file below `to`. Writing the same dead letters again overwrites the file.
async fn write_blob(server: &RemoteServer, to: &Path, rows: &[Value]) -> anyhow::Result<()> {
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
        records.extend(record(server, &text(row, "/deliveryId")).await?);
    }
    let file = to.join(title.name());
    let folder = file.parent().context("a file in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let written = fs::write(&file, dead_letter_blob::text(&records));
    written.with_context(|| format!("cannot write {}", file.display()))
}

/// Returns the record of a dead letter byte for byte; `None` if the server's response contains no record.
async fn record(server: &RemoteServer, id: &str) -> anyhow::Result<Option<Vec<u8>>> {
    #[derive(Deserialize)]
    struct ShownRecord {
        record: Option<Box<RawValue>>,
    }
    let answer = server.get(PATH).at(id).text().await?;
    let shown: ShownRecord =
        serde_json::from_str(&answer).context("the server shows no dead letter")?;
    Ok(shown.record.map(|record| record.get().as_bytes().to_vec()))
}

impl ImportDeadLetterFiles {
    pub(super) async fn run(&self, server: &RemoteServer) -> anyhow::Result<()> {
        let files = self.files()?;
        let mut records = 0;
        for file in &files {
            records += read(file)?.1;
        }
        if !self.yes {
            let counted = json!({ "records": records, "files": files.len() });
            return server.show(&counted, imported);
        }
        let (mut done, mut repeated) = (0, 0);
        for (index, file) in files.iter().enumerate() {
            let (blob, records) = read(file)?;
            let request = server.post(PATH).at("import").query(&self.target);
            let answer = request
                .body("application/json", blob)
                .send()
                .await
                .with_context(|| format!("{} was not imported", file.display()))?;
            done += number(&answer, "/imported");
            if answer["repeated"] == true {
                repeated += records;
            }
            if (index + 1).is_multiple_of(FILES_PER_LINE) {
                note(&format!("{done} of {records} records imported so far"));
            }
        }
        let done = json!({ "imported": done, "repeated": repeated, "files": files.len() });
        server.show(&done, imported)
    }

    /// Returns the files to import, sorted by path.
    fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        let (mut waiting, mut found) = (self.paths.clone(), Vec::new());
        while let Some(path) = waiting.pop() {
            if !path.is_dir() {
                found.push(path);
            } else {
                let entries = fs::read_dir(&path);
                for entry in entries.with_context(|| format!("cannot read {}", path.display()))? {
                    let each = entry?;
                    let path = each.path();
                    // Symbolic links to directories are skipped because they may form a loop.
                    let is_blob = is_json(&path) && !path.is_dir();
                    if each.file_type()?.is_dir() || is_blob {
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

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "json")
}

/// Reads a blob from a file. Returns its bytes and the number of its records.
fn read(file: &Path) -> anyhow::Result<(Vec<u8>, usize)> {
    let name = file.display();
    let mut blob = Vec::new();
    regular_file::open(file)
        .and_then(|file| {
            file.take(IMPORT_BYTES_MAX as u64 + 1)
                .read_to_end(&mut blob)
        })
        .with_context(|| format!("cannot read {name}"))?;
    if blob.len() > IMPORT_BYTES_MAX {
        bail!(
            "{name} is larger than {IMPORT_BYTES_MAX} bytes, which is not a blob of dead letters"
        );
    }
    let count = match blob.trim_ascii_start().first() {
        Some(b'[') => serde_json::from_slice::<Vec<&RawValue>>(&blob).map(|all| all.len()),
        _ => serde_json::from_slice::<&RawValue>(&blob).map(|_| 1),
    };
    let records = count.with_context(|| format!("{name} is not a blob of dead letters"))?;
    Ok((blob, records))
}

fn imported(done: &Value, _: Screen) -> String {
    let of = |pointer| text(done, pointer);
    let (files, repeated) = (of("/files"), of("/repeated"));
    match (done["records"].is_u64(), repeated.as_str()) {
        (true, _) => {
            let records = of("/records");
            format!("{records} records in {files} files would be imported; add --yes to apply\n")
        }
        (false, "0" | "") => format!("{} records imported from {files} files\n", of("/imported")),
        (false, _) => format!(
            "{} records imported from {files} files; {repeated} had been imported just before\n",
            of("/imported")
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

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
        for (to, name) in [(".", "circle.json"), ("a.json", "link.json")] {
            symlink(to, folder.join(name)).expect("a link");
        }
        let import = ImportDeadLetterFiles {
            paths: vec![root.path().to_owned()],
            target: ImportParameters {
                topic: "orders".to_owned(),
                subscription: None,
            },
            yes: false,
        };
        let files = import.files().expect("files");
        let expected = ["a.json", "b.json", "link.json"];
        assert_eq!(files, expected.map(|name| folder.join(name)));
        let count = |file: &PathBuf| read(file).expect("a blob").1;
        assert_eq!(files.iter().map(count).collect::<Vec<_>>(), [1, 2, 1]);
        assert!(read(&folder.join("b.json#1")).is_err());
        let socket = folder.join("socket.json");
        let _listener = UnixListener::bind(&socket).expect("a socket");
        let told = read(&socket).expect_err("no file");
        assert!(format!("{told:#}").contains("must be a file"), "{told:#}");
    }

    #[test]
    fn an_import_says_what_it_did() {
        let counted = imported(&json!({ "records": 3, "files": 2 }), Screen::default());
        assert_eq!(
            counted,
            "3 records in 2 files would be imported; add --yes to apply\n"
        );
        let done = json!({ "imported": 3, "repeated": 0, "files": 2 });
        let done = imported(&done, Screen::default());
        assert_eq!(done, "3 records imported from 2 files\n");
    }
}
