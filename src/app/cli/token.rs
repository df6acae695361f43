//! `everpost token`: the keys to the management API.

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::app::cli::admin::RoleName;
use crate::app::cli::confirm::Deletion;
use crate::app::cli::output::{Output, print, text};
use crate::app::cli::request::RemoteServer;
use crate::app::cli::server::{ServerArgs, existing_data_dir, management_token};
use crate::app::cli::table::Cell::{Text, Time, Word};
use crate::app::cli::table::ListFormat;
use crate::app::config::Config;
use crate::app::management_token;
use crate::base::Entropy;
use crate::model::access::Secret;

const TOKENS: [&str; 2] = ["everpost", "tokens"];

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
    /// Replace the management token; a running server accepts the new one at once and rejects the old one
    Rotate,
    /// List the tokens of programs
    List,
    /// Create a token for a program; it is printed this once
    Create {
        name: String,
        #[arg(long, value_enum, default_value = "viewer")]
        role: RoleName,
        /// Days until it expires, 1 to 3650 [default: never]
        #[arg(long, value_name = "DAYS")]
        days: Option<u32>,
    },
    /// Delete the token of a program, which is rejected at once
    Delete {
        name: String,
        #[command(flatten)]
        deletion: Deletion,
    },
}

impl TokenArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let server = || RemoteServer::new(self.server.find()?, self.output);
        let print_token = |token: Secret| Ok(print(&format!("{}\n", token.reveal()))?);
        match self.command {
            None => {
                let (token, origin) = management_token(&self.server.config()?)?;
                let missing = "`everpost serve` makes one at its first start";
                let token =
                    token.with_context(|| format!("no management token in {origin}: {missing}"));
                print_token(token?)
            }
            Some(TokenCommand::Rotate) => print_token(rotate(&self.server.config()?)?),
            Some(TokenCommand::List) => server()?.get(TOKENS).show(TOKEN_LIST).await,
            Some(TokenCommand::Create { name, role, days }) => {
                let body = json!({ "name": name, "role": role, "days": days });
                let token = |created: &Value, _| format!("{}\n", text(created, "/token"));
                server()?.post(TOKENS).json(&body).show(token).await
            }
            Some(TokenCommand::Delete { name, deletion }) => {
                deletion.ask(&format!("This deletes token {name}."))?;
                server()?.delete(TOKENS).remove("token", &name).await
            }
        }
    }
}

const TOKEN_LIST: ListFormat = ListFormat {
    none: "no tokens but the management token",
    columns: &[
        ("NAME", Text("/name")),
        ("ROLE", Word("/role")),
        ("EXPIRES (UTC)", Time("/expiresAt")),
        ("USED (UTC)", Time("/usedAt")),
        ("CREATED BY", Text("/createdBy")),
    ],
};

fn rotate(config: &Config) -> anyhow::Result<Secret> {
    if config.management_token.is_some() {
        bail!(
            "the management token is set by the configuration (management.token); change it there"
        );
    }
    let directory = existing_data_dir(config)?;
    let token = management_token::replace(directory, &Entropy::Os);
    let directory = directory.display();
    token.with_context(|| format!("cannot write the management token into {directory}"))
}
