//! `everpost config`: the configuration, judged and shown.

use clap::{Args, Subcommand};

use crate::app::cli::output::print;
use crate::app::config::{Config, ConfigFlags, RawConfig, sample, show};

#[derive(Args)]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Judge the configuration; the exit code is 0 or, with faults, 2
    Check {
        #[command(flatten)]
        flags: ConfigFlags,
    },
    /// Print the settings in force, without secrets
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
                show(&config.shown, origin)
            }
            ConfigCommand::Sample => sample(),
        };
        Ok(print(&text)?)
    }
}
