//! `everpost export`, `diff` and `apply`: the configuration in files.

pub(super) mod import;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::app::cli::confirm::{Misuse, confirm};
use crate::app::cli::output::{Screen, items, note, plural, print_file, text};
use crate::app::cli::request::{RemoteServer, Run};
use crate::app::configuration_files::{self as files, ConfiguredObject, faults_of, object_of};
use crate::app::yaml;
use crate::base::visible_json;
use crate::wire::resource::configuration::body;

pub(super) const EXAMPLES: &str = "\
Examples:
  everpost export everpost.yaml
  everpost diff everpost.yaml
  everpost apply everpost.yaml --dry-run
  everpost apply config/ --prune --yes";

#[derive(Args, Debug)]
pub(super) struct ExportConfiguration {
    /// YAML or JSON [default: as the name of the file says, else yaml]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The file to write [default: standard output]
    path: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Yaml,
    Json,
}

#[derive(Args, Debug)]
pub(super) struct Diff {
    /// A file of YAML or JSON, a directory of such files, or - for standard input
    path: PathBuf,
    /// Show what the files do not name, too
    #[arg(long)]
    prune: bool,
}

#[derive(Args, Debug)]
pub(super) struct Apply {
    /// A file of YAML or JSON, a directory of such files, or - for standard input
    path: PathBuf,
    #[command(flatten)]
    how: ApplyOptions,
}

/// How files are applied.
#[derive(Args, Debug)]
pub(super) struct ApplyOptions {
    /// Delete what the files do not name; users only if the files name some
    #[arg(long)]
    prune: bool,
    /// Do not ask before something is deleted
    #[arg(long)]
    yes: bool,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// The appliance differs from the files: exit code 1. The differences have been printed.
#[derive(Debug, thiserror::Error)]
#[error("the files and the appliance differ")]
pub(super) struct Different;

impl Run for ExportConfiguration {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        let answer = server.get(["everpost", "configuration"]).send().await?;
        let is_json = self
            .path
            .as_ref()
            .is_some_and(|path| path.extension().is_some_and(|it| it == "json"));
        let format = self
            .format
            .unwrap_or(if is_json { Format::Json } else { Format::Yaml });
        let text = write(items(&answer, "/value"), format)?;
        match &self.path {
            None => print_file(&text)?,
            Some(path) => save(path, &text)?,
        }
        note(
            "note: secrets are not exported; where they are left out, apply keeps those that are there",
        );
        Ok(())
    }
}

fn write(objects: &[Value], format: Format) -> anyhow::Result<String> {
    match format {
        Format::Json => Ok(visible_json(&format!("{:#}\n", json!(objects)))),
        Format::Yaml => yaml::write(objects).context("cannot write YAML"),
    }
}

fn save(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
}

impl Run for Diff {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        let objects = read(&self.path)?;
        let plan = plan(server, &objects, self.prune).await?;
        server.show(&plan, describe)?;
        match items(&plan, "/steps") {
            [] => Ok(()),
            _ => bail!(Different),
        }
    }
}

impl Run for Apply {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        apply(server, &read(&self.path)?, &self.how).await
    }
}

/// Shows what leads to these objects, and does it.
async fn apply(
    server: &RemoteServer,
    objects: &[ConfiguredObject],
    how: &ApplyOptions,
) -> anyhow::Result<()> {
    let plan = plan(server, objects, how.prune).await?;
    server.show(&plan, describe)?;
    let steps = items(&plan, "/steps");
    if how.dry_run || steps.is_empty() {
        return Ok(());
    }
    let is_asked = |step: &&Value| step["action"] == "delete" && how.prune;
    let deleted = steps.iter().filter(is_asked).count();
    if deleted > 0 && !how.yes {
        let count = plural(deleted as u64, "object", "objects");
        confirm(&format!("This deletes {count}."), "nothing was changed")?;
    }
    for (done, step) in steps.iter().enumerate() {
        let object = object_of(step, objects);
        let path = items(step, "/path").iter().filter_map(Value::as_str);
        let request = match object {
            Some(object) => server.put(path).json(&body(&object.value)),
            None => server.delete(path),
        };
        let title = text(step, "/title");
        if let Err(error) = request.send().await {
            let place = object.map_or_else(
                || title.clone(),
                |object| format!("{}: {title}", object.place),
            );
            let error = anyhow!("{place}: {error:#}");
            let made = plural(done as u64, "change was", "changes were");
            return Err(error.context(format!("{made} made before one failed, of {}", steps.len())));
        }
        note(&format!("{}d {title}", text(step, "/action")));
    }
    Ok(())
}

/// Asks the server for the plan that leads to these objects. Lists all their faults in the error if there are any.
async fn plan(
    server: &RemoteServer,
    objects: &[ConfiguredObject],
    prune: bool,
) -> anyhow::Result<Value> {
    let all: Vec<&Value> = objects.iter().map(|object| &object.value).collect();
    let request = server.post(["everpost", "configuration", "plan"]);
    let plan = request
        .json(&json!({ "objects": all, "prune": prune }))
        .send()
        .await?;
    match faults_of(&plan, objects) {
        None => Ok(plan),
        Some(faults) => bail!(Misuse(format!("nothing was changed, because of{faults}"))),
    }
}

/// The objects of a file, or of all files of a directory that end as such files do.
fn read(path: &Path) -> anyhow::Result<Vec<ConfiguredObject>> {
    let read = || {
        let files = if path.is_dir() {
            files::files_of(path)?
        } else {
            vec![path.to_owned()]
        };
        if files.is_empty() {
            Err(files::no_files(path))
        } else {
            Ok(files::read(&files, &mut BTreeSet::new())?.objects)
        }
    };
    read().map_err(|problem| anyhow!(Misuse(problem)))
}

/// A plan line by line.
fn describe(plan: &Value, _: Screen) -> String {
    let steps = items(plan, "/steps");
    if steps.is_empty() {
        return "no changes\n".to_owned();
    }
    let mut lines = String::new();
    for step in steps {
        let sign = match step["action"].as_str() {
            Some("create") => '+',
            Some("update") => '~',
            _ => '-',
        };
        let (action, title) = (text(step, "/action"), text(step, "/title"));
        lines.push_str(&format!("{sign} {action} {title}\n"));
        for change in items(step, "/changes") {
            let value = |name: &str| match text(change, name) {
                text if text.is_empty() => "(none)".to_owned(),
                text => text,
            };
            let (property, before, after) =
                (text(change, "/property"), value("/before"), value("/after"));
            lines.push_str(&format!("    {property}: {before} → {after}\n"));
        }
    }
    lines
}
