//! `everpost admin`: the people who sign in to the admin pages.
//!
//! With a server running they are changed through it; without one, in the database itself, which is how
//! the first account is made before the first start, and how somebody gets in again.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::boot;
use crate::app::cli::body::read_secret;
use crate::app::cli::client::Client;
use crate::app::cli::moment::date;
use crate::app::cli::output::{Output, items, moment, print, tell, text};
use crate::app::cli::server::ServerArgs;
use crate::app::cli::table::Table;
use crate::app::config::Config;
use crate::base::{Clock, Entropy};
use crate::broker::people::People;
use crate::model::audit::{Actor, AuditEntry};
use crate::store::accounts::{Role, User};
use crate::store::{Audit, DataDir, DataDirError};

const USERS: [&str; 2] = ["everpost", "users"];
const SESSIONS: [&str; 2] = ["everpost", "sessions"];

/// Manage the users of the admin pages, and their sessions
#[derive(Args, Debug)]
pub(super) struct AdminArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    output: Output,
    #[command(subcommand)]
    command: AdminCommand,
}

#[derive(Subcommand, Debug)]
enum AdminCommand {
    /// List users
    List,
    /// Create a user; also without a running server, as long as the data directory is this machine's
    Create {
        name: String,
        #[arg(long, value_enum, default_value = "admin")]
        role: RoleName,
        #[command(flatten)]
        password: PasswordArgs,
    },
    /// Give a user another password, which ends every session; also without a running server
    ResetPassword {
        name: String,
        #[command(flatten)]
        password: PasswordArgs,
    },
    /// Show one user
    Show { name: String },
    /// Give a user another role
    SetRole { name: String, role: RoleName },
    /// Forbid a user to sign in, which ends every session
    Disable { name: String },
    /// Let a user sign in again
    Enable { name: String },
    /// Remove the second factor of a user who has lost it
    RemoveSecondFactor { name: String },
    /// Delete a user
    Delete { name: String },
    /// List who is signed in
    Sessions {
        /// The sessions of this user
        #[arg(long)]
        user: Option<String>,
    },
    /// End sessions: all of them, or those of one user
    EndSessions {
        #[arg(long)]
        user: Option<String>,
    },
}

#[derive(ValueEnum, Clone, Copy, Debug)]
pub(super) enum RoleName {
    Viewer,
    Operator,
    Admin,
}

impl RoleName {
    pub(super) fn role(self) -> Role {
        match self {
            Self::Viewer => Role::Viewer,
            Self::Operator => Role::Operator,
            Self::Admin => Role::Admin,
        }
    }
}

#[derive(Args, Debug)]
struct PasswordArgs {
    /// File with the password; - for standard input. Without it, a link is printed by which the user
    /// chooses one
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

impl PasswordArgs {
    fn read(&self) -> anyhow::Result<Option<String>> {
        self.password_file.as_deref().map(read_secret).transpose()
    }
}

impl AdminArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        match &self.command {
            AdminCommand::Create {
                name,
                role,
                password,
            } => {
                let password = password.read()?;
                match self.offline().await? {
                    Some(offline) => offline.create(name, role.role(), password).await,
                    None => self.create(name, role.role(), password).await,
                }
            }
            AdminCommand::ResetPassword { name, password } => {
                let password = password.read()?;
                match self.offline().await? {
                    Some(offline) => offline.reset(name, password).await,
                    None => self.reset(name, password).await,
                }
            }
            AdminCommand::List => self.show(&USERS, &[], users).await,
            AdminCommand::Show { name } => self.show(&[USERS[0], USERS[1], name], &[], sheet).await,
            AdminCommand::SetRole { name, role } => {
                self.patch(name, json!({ "role": role.role().name() }))
                    .await
            }
            AdminCommand::Disable { name } => self.patch(name, json!({ "disabled": true })).await,
            AdminCommand::Enable { name } => self.patch(name, json!({ "disabled": false })).await,
            AdminCommand::RemoveSecondFactor { name } => {
                self.patch(name, json!({ "hasSecondFactor": false })).await
            }
            AdminCommand::Delete { name } => {
                let client = self.client()?;
                client.delete(&[USERS[0], USERS[1], name], &[]).await?;
                let deleted = json!({ "deleted": name });
                Ok(self
                    .output
                    .show(&deleted, |_| format!("user {name} is deleted\n"))?)
            }
            AdminCommand::Sessions { user } => {
                self.show(&SESSIONS, &of_user(user.as_ref()), sessions)
                    .await
            }
            AdminCommand::EndSessions { user } => {
                let path = [SESSIONS[0], SESSIONS[1], "end"];
                let ended = self.client()?.post(&path, &of_user(user.as_ref())).await?;
                let told =
                    |ended: &Value| format!("{} sessions are ended\n", text(ended, "/ended"));
                Ok(self.output.show(&ended, told)?)
            }
        }
    }

    fn client(&self) -> anyhow::Result<Client> {
        Client::new(self.server.find()?)
    }

    async fn show(
        &self,
        path: &[&str],
        query: &[(&str, String)],
        text: fn(&Value) -> String,
    ) -> anyhow::Result<()> {
        let found = self.client()?.get(path, query).await?;
        Ok(self.output.show(&found, text)?)
    }

    async fn patch(&self, name: &str, patch: Value) -> anyhow::Result<()> {
        let path = [USERS[0], USERS[1], name];
        let user = self
            .client()?
            .send(Method::PATCH, &path, Some(&patch))
            .await?;
        Ok(self.output.show(&user, sheet)?)
    }

    async fn create(&self, name: &str, role: Role, password: Option<String>) -> anyhow::Result<()> {
        let body = json!({ "name": name, "role": role.name(), "password": password });
        let user = self
            .client()?
            .send(Method::POST, &USERS, Some(&body))
            .await?;
        Ok(self.output.show(&user, sheet)?)
    }

    async fn reset(&self, name: &str, password: Option<String>) -> anyhow::Result<()> {
        if password.is_some() {
            return self.patch(name, json!({ "password": password })).await;
        }
        let path = [USERS[0], USERS[1], name, "passwordLink"];
        let user = self.client()?.send(Method::POST, &path, None).await?;
        Ok(self.output.show(&user, sheet)?)
    }

    /// The database itself, unless a server is named or has it open.
    async fn offline(&self) -> anyhow::Result<Option<Offline>> {
        if self.server.names_url() {
            return Ok(None);
        }
        let config = self.server.config()?;
        match DataDir::open(&config.data_dir) {
            Ok(data_dir) => Offline::open(config, data_dir).await.map(Some),
            Err(DataDirError::InUse { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn of_user(user: Option<&String>) -> Vec<(&'static str, String)> {
    user.map(|user| ("user", user.clone()))
        .into_iter()
        .collect()
}

/// The database of a server that is not running.
struct Offline {
    config: Config,
    people: People,
    book: Audit,
}

impl Offline {
    async fn open(config: Config, data_dir: DataDir) -> anyhow::Result<Self> {
        let clock = Clock::system();
        let store = boot::open_store(&config, &Arc::new(data_dir), &clock)?;
        let people = People::open(store.accounts, clock, Entropy::Os).await?;
        Ok(Self {
            config,
            people,
            book: store.audit,
        })
    }

    async fn create(self, name: &str, role: Role, password: Option<String>) -> anyhow::Result<()> {
        let id = self.people.add(name, role, password.as_deref()).await?;
        self.note(name).await?;
        let user = self.people.accounts().user(id).await?;
        let user = user.context("the user is gone")?;
        print(&format!(
            "user {} is created with the role {}\n",
            user.name,
            role.name()
        ))?;
        match password {
            Some(_) => Ok(()),
            None => self.print_link(&user).await,
        }
    }

    async fn reset(self, name: &str, password: Option<String>) -> anyhow::Result<()> {
        let Some(user) = self.people.accounts().find(name.to_owned()).await? else {
            bail!("there is no user {name}");
        };
        let Some(password) = password else {
            return self.print_link(&user).await;
        };
        self.people.set_password(&user, &password, None).await?;
        self.note(&user.name).await?;
        Ok(print(&format!(
            "user {} has the new password\n",
            user.name
        ))?)
    }

    /// Notes that the account of that name was changed here.
    async fn note(&self, name: &str) -> anyhow::Result<()> {
        let entry = AuditEntry {
            at: self.people.now(),
            actor: Actor::CommandLine,
            address: None,
            method: "SET".to_owned(),
            path: format!("/everpost/users/{name}"),
            name: Some(name.to_owned()),
            changes: Vec::new(),
        };
        Ok(self.book.add(entry).await?)
    }

    async fn print_link(&self, user: &User) -> anyhow::Result<()> {
        let token = self.people.put_link(user.id).await?;
        self.note(&user.name).await?;
        let listening = format!("http://{}", self.config.listen);
        let base = self.config.public_url.as_ref().map(|url| url.as_str());
        let base = base.unwrap_or(&listening).trim_end_matches('/');
        tell("once the server runs, a password can be chosen by this link, for three days:");
        Ok(print(&format!(
            "{base}/admin/password?token={}\n",
            token.reveal()
        ))?)
    }
}

fn users(found: &Value) -> String {
    let users = items(found, "/value");
    if users.is_empty() {
        return "no users yet: make one with `everpost admin create NAME`\n".to_owned();
    }
    let mut table = Table::headed(["NAME", "ROLE", "STATE", "SIGNED IN (UTC)"]);
    for user in users {
        table.row([
            text(user, "/name"),
            text(user, "/role"),
            state(user).to_owned(),
            date(moment(user, "/signedInAt")),
        ]);
    }
    table.to_string()
}

fn state(user: &Value) -> &'static str {
    match (user["disabled"] == true, user["hasPassword"] == true) {
        (true, _) => "disabled",
        (false, true) => "active",
        (false, false) => "invited",
    }
}

fn sheet(user: &Value) -> String {
    let mut table = Table::sheet();
    table.line("name", text(user, "/name"));
    table.line("role", text(user, "/role"));
    table.line("state", state(user).to_owned());
    let factor = match user["hasSecondFactor"] == true {
        true => "yes",
        false => "no",
    };
    table.line("second factor", factor.to_owned());
    table.line("created", date(moment(user, "/createdAt")));
    table.line("signed in", date(moment(user, "/signedInAt")));
    table.line("password link", text(user, "/passwordUrl"));
    table.line("  until", date(moment(user, "/passwordUrlExpiresAt")));
    table.to_string()
}

fn sessions(found: &Value) -> String {
    let sessions = items(found, "/value");
    if sessions.is_empty() {
        return "nobody is signed in\n".to_owned();
    }
    let mut table = Table::headed(["USER", "USED (UTC)", "ENDS (UTC)", "ADDRESS", "BROWSER"]);
    for session in sessions {
        table.row([
            text(session, "/user"),
            date(moment(session, "/usedAt")),
            date(moment(session, "/expiresAt")),
            text(session, "/address"),
            text(session, "/browser"),
        ]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_listed_with_their_state() {
        let user = |name: &str, disabled: bool, has_password: bool| {
            json!({ "name": name, "role": "viewer", "disabled": disabled,
                "hasPassword": has_password, "signedInAt": null })
        };
        let found = json!({ "value": [
            user("ann", false, true), user("bob", true, true), user("cy", false, false),
        ] });
        let expected = "\
NAME  ROLE    STATE     SIGNED IN (UTC)
ann   viewer  active
bob   viewer  disabled
cy    viewer  invited
";
        assert_eq!(users(&found), expected);
        assert!(users(&json!({ "value": [] })).starts_with("no users yet"));
    }

    #[test]
    fn sessions_are_listed() {
        let found = json!({ "value": [{ "user": "ann", "usedAt": "2026-11-21T06:40:53.138Z",
            "expiresAt": "2026-11-21T07:10:53.138Z", "address": "192.0.2.1", "browser": "curl/8" }] });
        assert!(sessions(&found).ends_with("192.0.2.1  curl/8\n"));
        assert_eq!(sessions(&json!({ "value": [] })), "nobody is signed in\n");
    }
}
