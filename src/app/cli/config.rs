//! The command `everpost config`, which checks, shows and changes the configuration.

use std::fs;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::app::boot::SERVER_URL_FILE;
use crate::app::cli::output::{Screen, note, print, printable, text};
use crate::app::cli::request::{Remote, RemoteServer, Run};
use crate::app::cli::wait_for;
use crate::app::config::{Config, ConfigFlags, RawConfig, sample, show};
use crate::store::Store;

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
    /// Change a setting of the running server, at once and for its next starts
    ///
    /// `everpost config show --origin` says "saved" behind it. A flag or a variable of the server wins.
    Set(Remote<Set>),
    /// Take back what was saved: the configuration file or the default is in force again
    Unset(Remote<Unset>),
}

#[derive(Args, Debug)]
pub(super) struct Set {
    /// Name of the setting in the configuration file, such as retention.hours
    name: String,
    /// Value as an environment variable has it: lists have commas between their values
    #[arg(allow_hyphen_values = true)]
    value: String,
}

#[derive(Args, Debug)]
pub(super) struct Unset {
    /// Name of the setting in the configuration file, such as retention.hours
    name: String,
}

impl Run for Set {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        let request = server.put(SETTINGS).at(self.name);
        request
            .json(&json!({ "value": self.value }))
            .show(in_force)
            .await
    }
}

impl Run for Unset {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        server.delete(SETTINGS).at(&self.name).send().await?;
        server.get(SETTINGS).at(self.name).show(in_force).await
    }
}

/// Formats a setting as a line of `config show --origin`: its name, value and origin.
fn in_force(setting: &Value, _: Screen) -> String {
    let (name, value) = (text(setting, "/name"), &setting["value"]);
    if value.is_null() {
        return format!("{name} is not set\n");
    }
    let is_placed = !setting["setBy"].is_null();
    let origin = text(setting, if is_placed { "/setBy" } else { "/origin" });
    format!("{name} = {}  # {origin}\n", printable(&value.to_string()))
}

const SETTINGS: [&str; 2] = ["everpost", "settings"];

impl ConfigArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let text = match self.command {
            ConfigCommand::Check { flags } => {
                let raw = RawConfig::of_process(flags);
                Config::resolve(&raw)?;
                let file = if raw.file_was_read() {
                    format!("{} was read", raw.file().display())
                } else {
                    format!("there is no file {}", raw.file().display())
                };
                format!("the configuration is valid; {file}\n")
            }
            ConfigCommand::Show { origin, flags } => {
                let config = Config::resolve(&RawConfig::of_process(flags))?;
                let saved = Store::saved_settings(&config.data_dir)?;
                let (config, faults) = config.with_saved(&saved);
                for fault in faults {
                    note(&format!("note: a saved setting is not in force: {fault}"));
                }
                format!("{}{}", subject(&config), show(&config.shown, origin))
            }
            ConfigCommand::Sample => sample(),
            ConfigCommand::Set(command) => return wait_for(command.run()),
            ConfigCommand::Unset(command) => return wait_for(command.run()),
        };
        Ok(print(&text)?)
    }
}

/// Returns the comment above the shown settings. The comment states that a server started now would use these settings,
/// and names the running server, if any, which keeps the flags, variables and file that it was started with.
fn subject(config: &Config) -> String {
    let running = match fs::read_to_string(config.data_dir.join(SERVER_URL_FILE)) {
        Ok(url) => format!(
            "# The server that runs at {} keeps the flags, the variables and the file that it was started\n\
             # with: its page Settings and `everpost support-bundle` show them.\n",
            url.trim()
        ),
        Err(_) => "# No server runs on this data directory.\n".to_owned(),
    };
    format!("# The settings that a server started now would use.\n{running}")
}
