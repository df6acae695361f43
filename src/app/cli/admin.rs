//! `everpost admin`: the people who sign in to the admin pages.
//!
//! With a server running they are changed through it; without one, in the database itself, which is how
//! the first account is made before the first start, and how somebody gets in again.

use std::sync::Arc;

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};

use crate::app::boot;
use crate::app::cli::confirm::Deletion;
use crate::app::cli::credentials::secret_line;
use crate::app::cli::output::{Output, note, print, text};
use crate::app::cli::request::RemoteServer;
use crate::app::cli::server::{ServerArgs, unused_data_dir};
use crate::app::cli::table::Cell::{Of, Text, Time, Word};
use crate::app::cli::table::{Details, ListFormat};
use crate::app::config::Config;
use crate::base::{Clock, Entropy};
use crate::broker::people::{People, UserPatch};
use crate::model::access::Secret;
use crate::model::audit::Caller;
use crate::store::accounts::Role;
use crate::wire::query::SessionParameters;

const USERS: [&str; 2] = ["everpost", "users"];
const SESSIONS: [&str; 2] = ["everpost", "sessions"];

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
    /// Allow a user to sign in again
    Enable { name: String },
    /// Remove the second factor of a user who has lost it
    RemoveSecondFactor { name: String },
    /// Delete a user
    Delete {
        name: String,
        #[command(flatten)]
        deletion: Deletion,
    },
    /// List who is signed in
    Sessions(SessionParameters),
    /// End sessions: all of them, or those of one user
    EndSessions(SessionParameters),
}

#[derive(ValueEnum, Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RoleName {
    Viewer,
    Operator,
    Admin,
}

impl From<RoleName> for Role {
    fn from(name: RoleName) -> Self {
        match name {
            RoleName::Viewer => Self::Viewer,
            RoleName::Operator => Self::Operator,
            RoleName::Admin => Self::Admin,
        }
    }
}

#[derive(Args, Debug)]
struct PasswordArgs {
    /// File with the password; - for standard input. Without it, a link is printed with which the user
    /// chooses one
    #[arg(long = "password-file", value_name = "FILE", value_parser = secret_line)]
    password: Option<Secret>,
}

impl PasswordArgs {
    fn reveal(&self) -> Option<&str> {
        self.password.as_ref().map(Secret::reveal)
    }
}

impl AdminArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let server = || RemoteServer::new(self.server.find()?, self.output);
        match self.command {
            AdminCommand::Create {
                name,
                role,
                password,
            } => {
                if let Some(offline) = Offline::open(&self.server).await? {
                    return offline.create(&name, role.into(), password.reveal()).await;
                }
                let body = json!({ "name": name, "role": role, "password": password.reveal() });
                server()?.post(USERS).json(&body).show(USER).await
            }
            AdminCommand::ResetPassword { name, password } => {
                if let Some(offline) = Offline::open(&self.server).await? {
                    return offline.reset(&name, password.reveal()).await;
                }
                if let Some(password) = password.reveal() {
                    return patch(&server()?, &name, json!({ "password": password })).await;
                }
                let server = server()?;
                let request = server.post(USERS).at(name).at("passwordLink");
                request.show(USER).await
            }
            AdminCommand::List => server()?.get(USERS).show(USER_LIST).await,
            AdminCommand::Show { name } => server()?.get(USERS).at(name).show(USER).await,
            AdminCommand::SetRole { name, role } => {
                patch(&server()?, &name, json!({ "role": role })).await
            }
            AdminCommand::Disable { name } => {
                patch(&server()?, &name, json!({ "disabled": true })).await
            }
            AdminCommand::Enable { name } => {
                patch(&server()?, &name, json!({ "disabled": false })).await
            }
            AdminCommand::RemoveSecondFactor { name } => {
                patch(&server()?, &name, json!({ "hasSecondFactor": false })).await
            }
            AdminCommand::Delete { name, deletion } => {
                deletion.ask(&format!("This deletes user {name}."))?;
                server()?.delete(USERS).remove("user", &name).await
            }
            AdminCommand::Sessions(of) => {
                let server = server()?;
                server.get(SESSIONS).query(of).show(SESSION_LIST).await
            }
            AdminCommand::EndSessions(of) => {
                let server = server()?;
                let ended =
                    |ended: &Value, _| format!("sessions ended: {}\n", text(ended, "/ended"));
                let request = server.post(SESSIONS).at("end");
                request.query(of).show(ended).await
            }
        }
    }
}

async fn patch(server: &RemoteServer, name: &str, patch: Value) -> anyhow::Result<()> {
    let user = server.patch(USERS).at(name).json(&patch);
    user.show(USER).await
}

/// The database of a server that is not running.
struct Offline {
    config: Config,
    people: People,
}

impl Offline {
    /// `None` where a server is named or has the database open.
    async fn open(server: &ServerArgs) -> anyhow::Result<Option<Self>> {
        let config = server.config()?;
        let Some(data_dir) = unused_data_dir(server, &config)? else {
            return Ok(None);
        };
        let clock = Clock::system();
        let store = boot::open_store(&config, &Arc::new(data_dir), &clock)?;
        let people = People::open(store.accounts, clock, Entropy::Os).await?;
        Ok(Some(Self { config, people }))
    }

    async fn create(self, name: &str, role: Role, password: Option<&str>) -> anyhow::Result<()> {
        let people = &self.people;
        let by = &Caller::command_line(people.now());
        let (_, token) = people.add(by, name, role, password).await?;
        print(&format!(
            "created user {name} with the role {}\n",
            role.name()
        ))?;
        token.map_or(Ok(()), |token| self.print_link(&token))
    }

    async fn reset(self, name: &str, password: Option<&str>) -> anyhow::Result<()> {
        let people = &self.people;
        let by = &Caller::command_line(people.now());
        let Some(user) = people.accounts().find(name.to_owned()).await? else {
            bail!("there is no user {name}");
        };
        if password.is_none() {
            return self.print_link(&people.put_link(by, user.id).await?);
        }
        let patch = UserPatch {
            password,
            ..UserPatch::default()
        };
        people.change(by, &user, patch).await?;
        Ok(print(&format!(
            "changed the password of user {}\n",
            user.name
        ))?)
    }

    fn print_link(&self, token: &Secret) -> anyhow::Result<()> {
        let listening = format!("http://{}", self.config.listen[0]);
        let public_url = self.config.public_url.as_ref().map(|url| url.as_str());
        let base = public_url.unwrap_or(&listening).trim_end_matches('/');
        note("once the server runs, a password can be chosen with this link, for three days:");
        Ok(print(&format!(
            "{base}/admin/password?token={}\n",
            token.reveal()
        ))?)
    }
}

const USER_LIST: ListFormat = ListFormat {
    none: "no users yet: create one with `everpost admin create NAME`",
    columns: &[
        ("NAME", Text("/name")),
        ("ROLE", Word("/role")),
        ("SOURCE", Word("/source")),
        ("STATE", Of(state)),
        ("SIGNED IN (UTC)", Time("/signedInAt")),
    ],
};

const USER: Details = Details(&[
    ("name", Text("/name")),
    ("role", Text("/role")),
    ("source", Text("/source")),
    ("state", Of(state)),
    ("second factor", Of(second_factor)),
    ("created", Time("/createdAt")),
    ("signed in", Time("/signedInAt")),
    ("password link", Text("/passwordUrl")),
    ("  valid until", Time("/passwordUrlExpiresAt")),
]);

fn state(user: &Value) -> String {
    let can_sign_in = user["hasPassword"] == true || user["source"] != "local";
    let state = match (user["disabled"] == true, can_sign_in) {
        (true, _) => "disabled",
        (false, true) => "active",
        (false, false) => "invited",
    };
    state.to_owned()
}

fn second_factor(user: &Value) -> String {
    let has_it = user["hasSecondFactor"] == true;
    if has_it { "yes" } else { "no" }.to_owned()
}

const SESSION_LIST: ListFormat = ListFormat {
    none: "nobody is signed in",
    columns: &[
        ("USER", Text("/user")),
        ("USED (UTC)", Time("/usedAt")),
        ("ENDS (UTC)", Time("/expiresAt")),
        ("ADDRESS", Text("/address")),
        ("BROWSER", Text("/browser")),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::cli::output::{Screen, View};

    #[test]
    fn users_are_listed_with_their_state() {
        let user = |name: &str, disabled: bool, has_password: bool| {
            json!({ "name": name, "role": "viewer", "source": "local", "disabled": disabled,
                "hasPassword": has_password, "signedInAt": null })
        };
        let found = json!({ "value": [
            user("ann", false, true), user("bob", true, true), user("cy", false, false),
        ] });
        let expected = "\
NAME  ROLE    SOURCE  STATE     SIGNED IN (UTC)
ann   viewer  local   active
bob   viewer  local   disabled
cy    viewer  local   invited
";
        assert_eq!(USER_LIST.text(&found, Screen::default()), expected);
    }
}
