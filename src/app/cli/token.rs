//! `everpost token`: the key to the management API.

use std::io;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};

use crate::app::cli::output::print;
use crate::app::cli::server::InstallationArgs;
use crate::app::config::Config;
use crate::app::management_token;
use crate::base::Entropy;
use crate::model::access::Secret;

/// Print the management token
#[derive(Args, Debug)]
pub(super) struct TokenArgs {
    #[command(flatten)]
    installation: InstallationArgs,
    #[command(subcommand)]
    command: Option<TokenCommand>,
}

#[derive(Subcommand, Debug)]
enum TokenCommand {
    /// Replace the management token; a running server takes the new one at once and refuses the old
    Rotate,
}

impl TokenArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let config = self.installation.config()?;
        let token = match self.command {
            None => current(config)?,
            Some(TokenCommand::Rotate) => rotate(&config)?,
        };
        Ok(print(&format!("{}\n", token.reveal()))?)
    }
}

fn current(config: Config) -> anyhow::Result<Secret> {
    if let Some(token) = config.management.token {
        return Ok(token);
    }
    let path = management_token::path(&config.data_dir)
        .display()
        .to_string();
    match management_token::read(&config.data_dir) {
        Ok(token) => Ok(token),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("no management token in {path}: `everpost serve` makes one at its first start")
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {path}")),
    }
}

fn rotate(config: &Config) -> anyhow::Result<Secret> {
    if config.management.token.is_some() {
        bail!(
            "the management token is set by the configuration (management.token); change it there"
        );
    }
    let directory = config.data_dir.display();
    if !config.data_dir.is_dir() {
        bail!("no data directory {directory}: name it with --data-dir");
    }
    management_token::replace(&config.data_dir, &Entropy::Os)
        .with_context(|| format!("cannot write the management token into {directory}"))
}
