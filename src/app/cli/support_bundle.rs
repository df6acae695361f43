//! `everpost support-bundle`: what helps somebody elsewhere to understand this appliance, in one file.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde_json::Value;

use crate::app::cli::output::{Output, note, print_exactly, text};
use crate::app::cli::request::RemoteServer;
use crate::app::cli::server::ServerArgs;
use crate::base::visible_json;

#[derive(Args, Debug)]
pub(super) struct SupportBundleArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// File to write, which must not be there yet, or - for standard output [default:
    /// everpost-support-MOMENT.json here]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl SupportBundleArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let server = RemoteServer::new(self.server.find()?, Output::default())?;
        let bundle = server.post(["everpost", "supportBundle"]).send().await?;
        let file = self.output.unwrap_or_else(|| file_of(&bundle));
        let document = visible_json(&format!("{bundle:#}\n"));
        if file == Path::new("-") {
            return Ok(print_exactly(&document)?);
        }
        write(&file, &document).with_context(|| format!("{} cannot be written", file.display()))?;
        note(&format!(
            "Read {} through before you pass it on.",
            file.display()
        ));
        Ok(())
    }
}

/// `everpost-support-20261121T064053Z.json`
fn file_of(bundle: &Value) -> PathBuf {
    let made_at = text(bundle, "/madeAt");
    let digits = made_at.split('.').next().unwrap_or_default();
    let moment: String = digits.chars().filter(char::is_ascii_alphanumeric).collect();
    PathBuf::from(format!("everpost-support-{moment}Z.json"))
}

/// For its owner alone, and in the place of nothing.
fn write(file: &Path, document: &str) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)?;
    file.write_all(document.as_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_file_is_named_by_its_moment() {
        let bundle = json!({"madeAt": "2026-11-21T06:40:53.138Z"});
        let expected = Path::new("everpost-support-20261121T064053Z.json");
        assert_eq!(file_of(&bundle), expected);
    }
}
