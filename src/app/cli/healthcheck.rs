//! `everpost healthcheck`: whether a server runs and accepts events, for containers without a shell.

use std::time::Duration;

use anyhow::bail;
use clap::Args;
use serde_json::Value;

use crate::app::cli::output::{Output, items, print, text};
use crate::app::cli::request::RemoteServer;
use crate::app::cli::server::ServerArgs;

/// Health is a quick answer; Docker's own deadline is 30 s.
const DEADLINE: Duration = Duration::from_secs(5);

#[derive(Args, Debug)]
pub(super) struct HealthcheckArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Ask only whether the process answers
    #[arg(long)]
    live: bool,
}

impl HealthcheckArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let server = RemoteServer::new(self.server.find()?, Output::default())?;
        let path = if self.live { "healthz" } else { "readyz" };
        let (status, answer) = server.probe(path, DEADLINE).await?;
        if status.is_success() {
            Ok(print("ok\n")?)
        } else {
            bail!("/{path} answers {status}{}", reasons(&answer))
        }
    }
}

/// Why a server says that it is not ready, after a colon; `""` where it gives no reasons.
pub(super) fn reasons(answer: &[u8]) -> String {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let reasons = items(&answer, "/reasons")
        .iter()
        .map(|reason| text(reason, ""));
    match reasons.collect::<Vec<_>>().join("; ").as_str() {
        "" => String::new(),
        reasons => format!(": {reasons}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reasons_are_told() {
        let answer = br#"{"ready":false,"reasons":["it is stopping","the disk is full"]}"#;
        assert_eq!(reasons(answer), ": it is stopping; the disk is full");
        assert_eq!(reasons(b"<html>"), "");
    }
}
