//! `everpost topics`: where events enter.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::app::cli::body;
use crate::app::cli::client::Client;
use crate::app::cli::output::{Output, items, text};
use crate::app::cli::pending::PendingArgs;
use crate::app::cli::place::{NamespaceArgs, Place};
use crate::app::cli::server::ServerArgs;
use crate::app::cli::table::Table;
use crate::app::cli::try_filter::{self, TryFilter};

/// Manage topics
#[derive(Args, Debug)]
pub(super) struct TopicsArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    output: Output,
    #[command(subcommand)]
    command: TopicsCommand,
}

#[derive(Subcommand, Debug)]
enum TopicsCommand {
    /// List topics
    List(NamespaceArgs),
    /// Create a topic, or replace its definition
    Create(Create),
    /// Show one topic
    Show(Named),
    /// Try a filter on stored events of a topic; without one, every event matches
    TryFilter(TryFilter),
    /// Delete a topic with its event subscriptions
    Delete {
        #[command(flatten)]
        named: Named,
        #[command(flatten)]
        pending: PendingArgs,
    },
    /// Show the two keys of a topic, either of which publishes
    Keys(Named),
    /// Replace one of the two keys of a topic
    RegenerateKey {
        #[command(flatten)]
        named: Named,
        key: KeyName,
    },
}

#[derive(Args, Debug)]
struct Named {
    topic: String,
    #[command(flatten)]
    namespace: NamespaceArgs,
}

impl Named {
    fn place(&self) -> Place<'_> {
        self.namespace.place(&self.topic)
    }
}

#[derive(Args, Debug)]
struct Create {
    #[command(flatten)]
    named: Named,
    /// What publishers send [default: eventgrid; in a namespace, cloudevents and nothing else]
    #[arg(long, value_enum, conflicts_with = "namespace")]
    schema: Option<InputSchemaName>,
    /// Region to show to clients that expect one [default: local]
    #[arg(long, conflicts_with = "namespace")]
    location: Option<String>,
    /// Tag, may be repeated
    #[arg(long = "tag", value_name = "NAME=VALUE", conflicts_with = "namespace")]
    tags: Vec<String>,
    /// Days that a namespace topic keeps events, 1 to 7
    #[arg(long, value_name = "DAYS", conflicts_with_all = ["schema", "location", "tags"])]
    retention_days: Option<u32>,
    /// File with the whole definition in Azure's form; - for standard input. Needed for custom schemas
    #[arg(long, value_name = "FILE", conflicts_with_all = ["schema", "location", "tags", "retention_days"])]
    file: Option<PathBuf>,
}

/// The schemas that need no mapping.
#[derive(ValueEnum, Clone, Copy, Debug)]
enum InputSchemaName {
    Eventgrid,
    Cloudevents,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
pub(super) enum KeyName {
    Key1,
    Key2,
}

impl TopicsArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let client = Client::new(self.server.find()?)?;
        let output = self.output;
        match self.command {
            TopicsCommand::List(namespace) => {
                let topics = client.get(&namespace.topics(), &[]).await?;
                output.show(&topics, list)?;
            }
            TopicsCommand::Create(create) => {
                let body = create.body()?;
                let path = create.named.place().path(&[]);
                let topic = client.send(Method::PUT, &path, Some(&body)).await?;
                output.show(&topic, sheet)?;
            }
            TopicsCommand::Show(named) => {
                let topic = client.get(&named.place().path(&[]), &[]).await?;
                output.show(&topic, sheet)?;
            }
            TopicsCommand::TryFilter(trial) => {
                let path = trial.place().path(&["tryFilter"]);
                let found = client
                    .send(Method::POST, &path, Some(&trial.body()?))
                    .await?;
                output.show(&found, try_filter::findings)?;
            }
            TopicsCommand::Delete { named, pending } => {
                let place = named.place();
                client.delete(&place.path(&[]), &pending.query()).await?;
                let topic = place.name();
                let deleted = json!({ "deleted": topic });
                output.show(&deleted, |_| format!("topic {topic} is deleted\n"))?;
            }
            TopicsCommand::Keys(named) => {
                let path = named.place().path(&["listKeys"]);
                let keys = client.send(Method::POST, &path, None).await?;
                output.show(&keys, key_sheet)?;
            }
            TopicsCommand::RegenerateKey { named, key } => {
                let path = named.place().path(&["regenerateKey"]);
                let keys = client.send(Method::POST, &path, Some(&key.body())).await?;
                output.show(&keys, key_sheet)?;
            }
        }
        Ok(())
    }
}

impl Create {
    fn body(&self) -> anyhow::Result<Value> {
        if let Some(file) = &self.file {
            return body::read(file);
        }
        if self.named.place().is_in_namespace() {
            anyhow::ensure!(
                self.schema.is_none() && self.location.is_none() && self.tags.is_empty(),
                "a topic of a namespace takes CloudEvents and has no location or tags of its own"
            );
            let days = self.retention_days;
            return Ok(json!({ "properties": { "eventRetentionInDays": days } }));
        }
        if self.retention_days.is_some() {
            bail!("--retention-days is for topics of namespaces; name one with --namespace");
        }
        let schema = self.schema.unwrap_or(InputSchemaName::Eventgrid);
        Ok(json!({
            "location": self.location.as_deref().unwrap_or("local"),
            "tags": tag_map(&self.tags)?,
            "properties": { "inputSchema": schema.azure() },
        }))
    }
}

/// Tags as the definition of a resource has them.
pub(super) fn tag_map(tags: &[String]) -> anyhow::Result<Map<String, Value>> {
    let tags = tags.iter().map(|tag| {
        let (name, value) = tag
            .split_once('=')
            .with_context(|| format!("--tag {tag:?} has no value; write NAME=VALUE"))?;
        Ok((name.to_owned(), Value::from(value)))
    });
    tags.collect()
}

impl InputSchemaName {
    fn azure(self) -> &'static str {
        match self {
            Self::Eventgrid => "EventGridSchema",
            Self::Cloudevents => "CloudEventSchemaV1_0",
        }
    }
}

impl KeyName {
    pub(super) fn body(self) -> Value {
        match self {
            Self::Key1 => json!({ "keyName": "key1" }),
            Self::Key2 => json!({ "keyName": "key2" }),
        }
    }
}

/// The first key of a topic, with which to publish to it.
pub(super) async fn first_key(client: &Client, topic: Place<'_>) -> anyhow::Result<String> {
    let path = topic.path(&["listKeys"]);
    let keys = client.send(Method::POST, &path, None).await?;
    match keys["key1"].as_str() {
        Some(key) => Ok(key.to_owned()),
        None => bail!(
            "the server does not tell the keys of topic {}; pass one with --key",
            topic.name()
        ),
    }
}

fn list(topics: &Value) -> String {
    const FIRST_STEP: &str = "no topics yet: make one with `everpost topics create NAME`\n";
    let topics = items(topics, "/value");
    if topics.is_empty() {
        return FIRST_STEP.to_owned();
    }
    let mut table = Table::headed(["NAME", "SCHEMA", "LOCATION", "PUBLISH TO"]);
    for topic in topics {
        table.row([
            text(topic, "/name"),
            text(topic, "/properties/inputSchema"),
            text(topic, "/location"),
            publish_to(topic),
        ]);
    }
    match topics.iter().all(is_built_in) {
        true => format!("{FIRST_STEP}{table}"),
        false => table.to_string(),
    }
}

fn is_built_in(topic: &Value) -> bool {
    topic["properties"]["builtIn"] == true
}

fn publish_to(topic: &Value) -> String {
    match is_built_in(topic) {
        true => "(built in: to be subscribed to only)".to_owned(),
        false => text(topic, "/properties/endpoint"),
    }
}

fn sheet(topic: &Value) -> String {
    let mut table = Table::sheet();
    let mut line = |name: &str, value: String| table.line(name, value);
    line("name", text(topic, "/name"));
    line("publish to", publish_to(topic));
    line("schema", text(topic, "/properties/inputSchema"));
    line("location", text(topic, "/location"));
    line("tags", tags(topic));
    line("keeps events", days(topic));
    let network = text(topic, "/properties/publicNetworkAccess");
    line("network", network.replace("Enabled", ""));
    line(
        "keys refused",
        text(topic, "/properties/disableLocalAuth").replace("false", ""),
    );
    line("resource id", text(topic, "/id"));
    table.to_string()
}

/// Of namespace topics alone.
fn days(topic: &Value) -> String {
    match text(topic, "/properties/eventRetentionInDays").as_str() {
        "" => String::new(),
        "1" => "1 day".to_owned(),
        days => format!("{days} days"),
    }
}

pub(super) fn tags(topic: &Value) -> String {
    let tags = topic["tags"].as_object().into_iter().flatten();
    let tags: Vec<String> = tags
        .map(|(name, _)| format!("{name}={}", text(topic, &format!("/tags/{name}"))))
        .collect();
    tags.join(", ")
}

pub(super) fn key_sheet(keys: &Value) -> String {
    let mut table = Table::sheet();
    for name in ["key1", "key2"] {
        table.row([name.to_owned(), text(keys, &format!("/{name}"))]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_listed_in_columns() {
        let topics = json!({ "value": [
            { "name": "orders", "location": "local", "properties": { "inputSchema": "EventGridSchema", "endpoint": "http://h/topics/orders/api/events" } },
            { "name": "a-longer-one", "location": "west", "properties": { "inputSchema": "CloudEventSchemaV1_0" } },
        ] });
        assert_eq!(
            list(&topics),
            "\
NAME          SCHEMA                LOCATION  PUBLISH TO
orders        EventGridSchema       local     http://h/topics/orders/api/events
a-longer-one  CloudEventSchemaV1_0  west
"
        );
        assert!(list(&json!({ "value": [] })).starts_with("no topics yet"));
        let built_in = json!({ "name": "everpost-system", "properties": { "builtIn": true } });
        let listed = list(&json!({ "value": [built_in] }));
        assert!(listed.starts_with("no topics yet"), "{listed}");
        assert!(listed.contains("built in"), "{listed}");
    }

    #[test]
    fn a_topic_is_shown_line_by_line() {
        let topic = json!({ "name": "orders", "location": "local", "tags": { "team": "shop" }, "properties": { "inputSchema": "EventGridSchema", "disableLocalAuth": false } });
        assert_eq!(
            sheet(&topic),
            "\
name      orders
schema    EventGridSchema
location  local
tags      team=shop
"
        );
    }
}
