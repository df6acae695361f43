//! `everpost config`: the configuration, checked and shown.

use std::fs;

use clap::{Args, Subcommand};

use crate::app::boot::SERVER_URL_FILE;
use crate::app::cli::output::print;
use crate::app::config::{Config, ConfigFlags, RawConfig, sample, show};

#[derive(Args)]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Check the configuration; the exit code is 0 or, with faults, 2
    Check {
        #[command(flatten)]
        flags: ConfigFlags,
    },
    /// Print the settings that a server started now would use, without secrets
    Show {
        /// Say where each setting comes from
        #[arg(long)]
        origin: bool,
        #[command(flatten)]
        flags: ConfigFlags,
    },
    /// Print a configuration file with every setting, its meaning and its default
    Sample,
}

impl ConfigArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let text = match self.command {
            ConfigCommand::Check { flags } => {
                Config::resolve(&RawConfig::of_process(flags))?;
                "the configuration is valid\n".to_owned()
            }
            ConfigCommand::Show { origin, flags } => {
                let config = Config::resolve(&RawConfig::of_process(flags))?;
                format!("{}{}", subject(&config), show(&config.shown, origin))
            }
            ConfigCommand::Sample => sample(),
        };
        Ok(print(&text)?)
    }
}

/// What the settings are those of, as a comment: a running server keeps those that it was started with.
fn subject(config: &Config) -> String {
    let running = match fs::read_to_string(config.data_dir.join(SERVER_URL_FILE)) {
        Ok(url) => format!(
            "# The server that runs at {} keeps those that it was started with: its page\n\
             # Settings and `everpost support-bundle` show them.\n",
            url.trim()
        ),
        Err(_) => "# No server runs on this data directory.\n".to_owned(),
    };
    format!("# The settings that a server started now would use.\n{running}")
}
