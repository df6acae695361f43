//! `everpost healthcheck`: whether a server runs and takes events, for containers without a shell.

use std::time::Duration;

use anyhow::bail;
use clap::Args;

use crate::app::cli::client::Client;
use crate::app::cli::output::print;
use crate::app::cli::server::ServerArgs;
use crate::app::cli::table::printable;

/// Health is a quick answer; Docker's own deadline is 30 s.
const DEADLINE: Duration = Duration::from_secs(5);

/// Tell whether the server is ready; the exit code is 0 or 1
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
        let client = Client::new(self.server.find()?)?;
        let path = if self.live { "healthz" } else { "readyz" };
        let (status, answer) = client.probe(path, DEADLINE).await?;
        let answer = printable(String::from_utf8_lossy(&answer).trim());
        if !status.is_success() {
            bail!("/{path} answers {status}: {answer}");
        }
        Ok(print("ok\n")?)
    }
}
