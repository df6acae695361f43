//! `everpost token`: the keys to the management API.

use std::io;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::cli::admin::RoleName;
use crate::app::cli::client::Client;
use crate::app::cli::moment::date;
use crate::app::cli::output::{Output, items, moment, print, text};
use crate::app::cli::server::ServerArgs;
use crate::app::cli::table::Table;
use crate::app::config::Config;
use crate::app::management_token;
use crate::base::Entropy;
use crate::model::access::Secret;

/// Print the management token, or manage the tokens of programs
#[derive(Args, Debug)]
pub(super) struct TokenArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    output: Output,
    #[command(subcommand)]
    command: Option<TokenCommand>,
}

#[derive(Subcommand, Debug)]
enum TokenCommand {
    /// Replace the management token; a running server takes the new one at once and refuses the old
    Rotate,
    /// List the tokens of programs
    List,
    /// Make a token for a program; it is printed this once
    Create {
        name: String,
        #[arg(long, value_enum, default_value = "viewer")]
        role: RoleName,
        /// Days until it expires, 1 to 3650 [default: never]
        #[arg(long, value_name = "DAYS")]
        days: Option<u32>,
    },
    /// Delete the token of a program, which is refused at once
    Delete { name: String },
}

const TOKENS: [&str; 2] = ["everpost", "tokens"];

impl TokenArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let token = match &self.command {
            None => current(self.server.config()?)?,
            Some(TokenCommand::Rotate) => rotate(&self.server.config()?)?,
            Some(command) => return self.manage(command).await,
        };
        Ok(print(&format!("{}\n", token.reveal()))?)
    }

    async fn manage(&self, command: &TokenCommand) -> anyhow::Result<()> {
        let client = Client::new(self.server.find()?)?;
        match command {
            TokenCommand::Rotate | TokenCommand::List => {
                self.output.show(&client.get(&TOKENS, &[]).await?, list)?;
            }
            TokenCommand::Create { name, role, days } => {
                let body = json!({ "name": name, "role": role.role().name(), "days": days });
                let made = client.send(Method::POST, &TOKENS, Some(&body)).await?;
                let told = |made: &Value| format!("{}\n", text(made, "/token"));
                self.output.show(&made, told)?;
            }
            TokenCommand::Delete { name } => {
                client.delete(&[TOKENS[0], TOKENS[1], name], &[]).await?;
                let deleted = json!({ "deleted": name });
                let told = |_: &Value| format!("token {name} is deleted\n");
                self.output.show(&deleted, told)?;
            }
        }
        Ok(())
    }
}

fn list(found: &Value) -> String {
    let tokens = items(found, "/value");
    if tokens.is_empty() {
        return "no tokens but the management token\n".to_owned();
    }
    let mut table = Table::headed(["NAME", "ROLE", "EXPIRES (UTC)", "USED (UTC)", "CREATED BY"]);
    for token in tokens {
        table.row([
            text(token, "/name"),
            text(token, "/role"),
            date(moment(token, "/expiresAt")),
            date(moment(token, "/usedAt")),
            text(token, "/createdBy"),
        ]);
    }
    table.to_string()
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
