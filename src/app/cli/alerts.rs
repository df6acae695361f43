//! `everpost alerts`: what is watched, what fires, and who is notified.

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::app::cli::confirm::Deletion;
use crate::app::cli::credentials::secret_line;
use crate::app::cli::output::text;
use crate::app::cli::request::{RemoteServer, Run, given};
use crate::app::cli::table::Cell::{Of, Text, Time, Word};
use crate::app::cli::table::{Details, ListFormat};
use crate::model::access::Secret;
use crate::model::alert::AlertCondition;
use crate::wire::query::Paging;

pub(super) const EXAMPLES: &str = "\
Examples:
  everpost alerts channels create chat --format slack --url-file slack-url
  everpost alerts channels create mail --email ops@example.com --from everpost@example.com --host smtp.example.com
  everpost alerts channels test chat                       what did the other side answer?
  everpost alerts rules create backlog --type OldPending --minutes 30
  everpost alerts list                                     the alerts that are firing";

#[derive(Subcommand, Debug)]
pub(super) enum AlertsCommand {
    /// List the alerts that are firing
    List,
    /// List the messages to the channels, newest first
    Messages(Paging),
    /// Manage alert rules
    #[command(subcommand)]
    Rules(AlertRulesCommand),
    /// Manage alert channels
    #[command(subcommand)]
    Channels(ChannelsCommand),
}

#[derive(Subcommand, Debug)]
pub(super) enum AlertRulesCommand {
    /// List all rules
    List,
    /// Create a rule, or replace its definition
    Create(CreateAlertRule),
    /// Show one rule
    Show { rule: String },
    /// Enable a rule
    Enable { rule: String },
    /// Disable a rule, which resolves its alerts
    Disable { rule: String },
    /// Delete a rule
    Delete {
        rule: String,
        #[command(flatten)]
        deletion: Deletion,
    },
}

#[derive(Subcommand, Debug)]
pub(super) enum ChannelsCommand {
    /// List all channels
    List,
    /// Create a channel, or replace its definition; secrets that are not given stay
    Create(Box<CreateChannel>),
    /// Show one channel
    Show { channel: String },
    /// Send a test message, and print what the other side answered; the exit code is 1 if it was not sent
    Test { channel: String },
    /// Delete a channel with its messages
    Delete {
        channel: String,
        #[command(flatten)]
        deletion: Deletion,
    },
}

#[derive(Args, Debug)]
pub(super) struct CreateAlertRule {
    rule: String,
    /// Type of the condition
    #[arg(long = "type", value_name = "TYPE", ignore_case = true, value_parser = AlertCondition::TYPES.map(|(name, _)| name))]
    of: String,
    /// Minutes that the condition has to last, or that are counted
    #[arg(long, value_name = "MINUTES")]
    minutes: Option<u32>,
    /// Minimum number of dead letters
    #[arg(long, value_name = "COUNT")]
    count: Option<u32>,
    /// Fires if less than this is free on the disk
    #[arg(long, value_name = "MEBIBYTES")]
    megabytes: Option<u32>,
    /// Topic that is expected to have events
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
    /// Days before expiration
    #[arg(long, value_name = "DAYS")]
    days: Option<u32>,
    /// Create it disabled
    #[arg(long)]
    disabled: bool,
}

#[derive(Args, Debug)]
pub(super) struct CreateChannel {
    channel: String,
    /// Body of the messages to a webhook: json, slack, teams, discord, ntfy or pagerduty [default: json]
    #[arg(long, value_name = "FORMAT", conflicts_with = "email")]
    format: Option<String>,
    /// File with the URL of the webhook, which is a secret; - for standard input, as with every file of a secret
    #[arg(long = "url-file", value_name = "FILE", value_parser = secret_line, conflicts_with = "email")]
    endpoint_url: Option<Secret>,
    /// File with a bearer token, or with the integration key of PagerDuty
    #[arg(long = "token-file", value_name = "FILE", value_parser = secret_line, conflicts_with = "email")]
    token: Option<Secret>,
    /// E-mail address of a recipient, may be repeated
    #[arg(long, value_name = "ADDRESS", requires_all = ["from", "host"])]
    email: Vec<String>,
    /// E-mail address of the sender
    #[arg(long, value_name = "ADDRESS", requires = "email")]
    from: Option<String>,
    /// Host of the mail server
    #[arg(long, value_name = "HOST", requires = "email")]
    host: Option<String>,
    /// Port of the mail server [default: 587]
    #[arg(long, value_name = "PORT", requires = "email")]
    port: Option<u16>,
    /// How the connection is encrypted: starttls, tls or none [default: starttls]
    #[arg(long, value_name = "SECURITY", requires = "email")]
    security: Option<String>,
    /// User of the mail server
    #[arg(long, value_name = "NAME", requires = "email")]
    username: Option<String>,
    /// File with the user's password
    #[arg(long = "password-file", value_name = "FILE", value_parser = secret_line, requires = "username")]
    password: Option<Secret>,
}

impl Run for AlertsCommand {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        let path = ["everpost", "alerts"];
        match self {
            Self::List => server.get(path).show(ALERTS).await,
            Self::Messages(page) => {
                let messages = server.get(path).at("messages");
                messages.query(page).show(MESSAGES).await
            }
            Self::Rules(command) => command.run(server).await,
            Self::Channels(command) => command.run(server).await,
        }
    }
}

impl Run for AlertRulesCommand {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        let path = ["everpost", "alerts", "rules"];
        match self {
            Self::List => server.get(path).show(RULES).await,
            Self::Create(create) => {
                let request = server.put(path).at(&create.rule).json(&create.document());
                request
                    .save(&format!("alert rule {}", create.rule), RULE)
                    .await?;
                Ok(())
            }
            Self::Show { rule } => server.get(path).at(rule).show(RULE).await,
            Self::Enable { rule } => switch(server, &rule, true).await,
            Self::Disable { rule } => switch(server, &rule, false).await,
            Self::Delete { rule, deletion } => {
                deletion.ask(&format!("This deletes alert rule {rule}."))?;
                server.delete(path).remove("alert rule", &rule).await
            }
        }
    }
}

impl Run for ChannelsCommand {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        let path = ["everpost", "alerts", "channels"];
        match self {
            Self::List => server.get(path).show(CHANNELS).await,
            Self::Create(create) => {
                let request = server.put(path).at(&create.channel);
                let name = format!("alert channel {}", create.channel);
                request
                    .json(&create.document())
                    .save(&name, CHANNEL)
                    .await?;
                Ok(())
            }
            Self::Show { channel } => server.get(path).at(channel).show(CHANNEL).await,
            Self::Test { channel } => {
                let test = server.post(path).at(channel).at("test");
                let tested = test.send().await?;
                let answer = text(&tested, "/answer");
                if tested["sent"] == true {
                    server.show(&tested, |_: &_, _| format!("sent: {answer}\n"))
                } else {
                    bail!("the message was not sent: {answer}")
                }
            }
            Self::Delete { channel, deletion } => {
                deletion.ask(&format!(
                    "This deletes alert channel {channel} with its messages."
                ))?;
                server.delete(path).remove("alert channel", &channel).await
            }
        }
    }
}

async fn switch(server: &RemoteServer, rule: &str, enabled: bool) -> anyhow::Result<()> {
    let path = ["everpost", "alerts", "rules"];
    let mut document = server.get(path).at(rule).send().await?;
    document["enabled"] = json!(enabled);
    server.put(path).at(rule).json(&document).show(RULE).await
}

impl CreateAlertRule {
    fn document(&self) -> Value {
        Value::Object(given(&json!({
            "type": self.of,
            "enabled": !self.disabled,
            "minutes": self.minutes,
            "count": self.count,
            "megabytes": self.megabytes,
            "topic": self.topic,
            "days": self.days,
        })))
    }
}

impl CreateChannel {
    fn document(&self) -> Value {
        let secret = |secret: &Option<Secret>| secret.as_ref().map(|it| it.reveal().to_owned());
        let document = if self.email.is_empty() {
            json!({
                "type": "WebHook",
                "format": self.format,
                "endpointUrl": secret(&self.endpoint_url),
                "token": secret(&self.token),
            })
        } else {
            json!({
                "type": "Email",
                "to": self.email,
                "from": self.from,
                "host": self.host,
                "port": self.port,
                "security": self.security,
                "username": self.username,
                "password": secret(&self.password),
            })
        };
        Value::Object(given(&document))
    }
}

const ALERTS: ListFormat = ListFormat {
    none: "no alerts are firing",
    columns: &[
        ("SINCE (UTC)", Time("/since")),
        ("RULE", Word("/rule")),
        ("OBJECT", Text("/object")),
        ("DETAIL", Text("/detail")),
    ],
};

const MESSAGES: ListFormat = ListFormat {
    none: "no messages yet",
    columns: &[
        ("ID", Word("/id")),
        ("CREATED (UTC)", Time("/createdAt")),
        ("CHANNEL", Word("/channel")),
        ("STATE", Word("/state")),
        ("SUBJECT", Text("/subject")),
        ("ERROR", Text("/error")),
    ],
};

const RULES: ListFormat = ListFormat {
    none: "no alert rules",
    columns: &[
        ("NAME", Text("/name")),
        ("TYPE", Word("/type")),
        ("WHEN", Of(when)),
        ("ENABLED", Of(enabled)),
        ("FIRING", Word("/firing")),
    ],
};

const RULE: Details = Details(&[
    ("name", Text("/name")),
    ("type", Text("/type")),
    ("when", Of(when)),
    ("enabled", Of(enabled)),
    ("firing", Text("/firing")),
    ("changed", Time("/lastModifiedAt")),
]);

const CHANNELS: ListFormat = ListFormat {
    none: "no alert channels yet: create one with `everpost alerts channels create NAME`",
    columns: &[
        ("NAME", Text("/name")),
        ("KIND", Of(kind)),
        ("TARGET", Text("/target")),
        ("SENT (UTC)", Time("/lastSentAt")),
        ("FAILED (UTC)", Time("/lastFailedAt")),
        ("ERROR", Text("/lastError")),
    ],
};

const CHANNEL: Details = Details(&[
    ("name", Text("/name")),
    ("kind", Of(kind)),
    ("target", Text("/target")),
    ("from", Text("/from")),
    ("host", Text("/host")),
    ("port", Text("/port")),
    ("security", Text("/security")),
    ("username", Text("/username")),
    ("sent", Time("/lastSentAt")),
    ("failed", Time("/lastFailedAt")),
    ("error", Text("/lastError")),
]);

/// `minutes 10`: the properties of the condition.
fn when(rule: &Value) -> String {
    let names = ["topic", "count", "minutes", "megabytes", "days"].into_iter();
    let said = names.filter_map(|name| Some(format!("{name} {}", given_text(rule, name)?)));
    said.collect::<Vec<_>>().join(", ")
}

fn given_text(rule: &Value, name: &str) -> Option<String> {
    Some(text(rule, &format!("/{name}"))).filter(|text| !text.is_empty())
}

fn enabled(rule: &Value) -> String {
    if rule["enabled"] == true {
        "yes".to_owned()
    } else {
        "no".to_owned()
    }
}

/// The format of a webhook, or the type.
fn kind(channel: &Value) -> String {
    let format = text(channel, "/format");
    if format.is_empty() {
        text(channel, "/type")
    } else {
        format
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::cli::output::{Screen, View};

    #[test]
    fn what_fires_and_what_is_watched_is_listed() {
        let alert = json!({ "rule": "failing-endpoints", "object": "orders/billing", "since": "2026-11-21T06:40:53Z",
            "detail": "every attempt fails" });
        assert_eq!(
            ALERTS.text(&json!({ "value": [alert] }), Screen::default()),
            "\
SINCE (UTC)          RULE               OBJECT          DETAIL
2026-11-21 06:40:53  failing-endpoints  orders/billing  every attempt fails
"
        );
        let rule = json!({ "name": "quiet", "type": "NoEvents", "topic": "orders", "minutes": 5, "enabled": false,
            "firing": 0 });
        assert_eq!(
            RULES.text(&json!({ "value": [rule] }), Screen::default()),
            "\
NAME   TYPE      WHEN                     ENABLED  FIRING
quiet  NoEvents  topic orders, minutes 5  no       0
"
        );
    }

    #[test]
    fn a_channel_is_shown_line_by_line() {
        let channel = json!({ "name": "chat", "type": "WebHook", "format": "Slack", "target": "hooks.slack.com",
            "lastFailedAt": "2026-11-21T06:40:53Z", "lastError": "404 Not Found" });
        assert_eq!(
            CHANNEL.text(&channel, Screen::default()),
            "\
name    chat
kind    Slack
target  hooks.slack.com
failed  2026-11-21 06:40:53.000
error   404 Not Found
"
        );
    }
}
