//! `everpost topics`: where events are published to.

use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};

use crate::app::cli::body;
use crate::app::cli::delete::{DeleteArgs, DeletionScope};
use crate::app::cli::filter::{name_and_value, object};
use crate::app::cli::output::{Screen, View, items, number, plural, text};
use crate::app::cli::request::{RemoteServer, Run};
use crate::app::cli::schema::SchemaArgument;
use crate::app::cli::table::Cell::{Of, Text};
use crate::app::cli::table::{Details, ListFormat};
use crate::app::cli::topic_arg::{NamespaceArgs, TopicArg};
use crate::app::cli::try_filter::TryFilter;

#[derive(Subcommand, Debug)]
pub(super) enum TopicsCommand {
    /// List topics
    List(NamespaceArgs),
    /// Create a topic, or replace its definition
    Create(CreateTopic),
    /// Show one topic
    Show(NamedTopic),
    /// Try a filter on stored events of a topic; without one, every event matches
    TryFilter(TryFilter),
    /// Delete a topic with its event subscriptions
    Delete {
        #[command(flatten)]
        named: NamedTopic,
        #[command(flatten)]
        how: DeleteArgs,
    },
    /// Show the two keys of a topic, either of which publishes
    Keys(NamedTopic),
    /// Replace one of the two keys of a topic
    RegenerateKey {
        #[command(flatten)]
        named: NamedTopic,
        #[command(flatten)]
        key: KeyArg,
    },
}

#[derive(Args, Debug)]
pub(super) struct NamedTopic {
    topic: String,
    #[command(flatten)]
    namespace: NamespaceArgs,
}

impl NamedTopic {
    fn topic(&self) -> TopicArg<'_> {
        self.namespace.topic(&self.topic)
    }
}

#[derive(Args, Debug)]
pub(super) struct CreateTopic {
    #[command(flatten)]
    named: NamedTopic,
    /// Schema of what publishers send [default: eventgrid; in a namespace, cloudevents and nothing else]
    #[arg(long, value_enum)]
    schema: Option<SchemaArgument>,
    /// Region to show to clients that expect one [default: local]
    #[arg(long)]
    location: Option<String>,
    /// Tag, may be repeated
    #[arg(long = "tag", value_name = "NAME=VALUE", value_parser = name_and_value)]
    tags: Vec<(String, String)>,
    /// Days that a namespace topic keeps events, 1 to 7
    #[arg(long, value_name = "DAYS", conflicts_with_all = ["schema", "location", "tags"])]
    retention_days: Option<u32>,
    /// File with the whole definition in Azure's form; - for standard input. Needed for custom schemas
    #[arg(long, value_name = "FILE", conflicts_with_all = ["schema", "location", "tags", "retention_days"])]
    file: Option<PathBuf>,
}

/// Which of two keys.
#[derive(Args, Clone, Copy, Debug, Serialize)]
pub(super) struct KeyArg {
    #[arg(value_enum)]
    #[serde(rename = "keyName")]
    key: KeyArgument,
}

#[derive(ValueEnum, Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum KeyArgument {
    Key1,
    Key2,
}

impl Run for TopicsCommand {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        match self {
            Self::List(namespace) => server.get(namespace.topics()).show(list).await,
            Self::Create(create) => {
                let (topic, body) = (create.named.topic(), create.body()?);
                let name = format!("topic {}", topic.name());
                server
                    .put(topic.path())
                    .json(&body)
                    .save(&name, TOPIC)
                    .await?;
                Ok(())
            }
            Self::Show(named) => server.get(named.topic().path()).show(TOPIC).await,
            Self::TryFilter(trial) => trial.run(server).await,
            Self::Delete { named, how } => {
                let topic = named.topic();
                let request = server.delete(topic.path());
                how.run(server, request, DeletionScope::Topic(&topic.name()))
                    .await
            }
            Self::Keys(named) => {
                let keys = server.post(named.topic().path()).at("listKeys");
                keys.show(KEYS).await
            }
            Self::RegenerateKey { named, key } => {
                let keys = server.post(named.topic().path()).at("regenerateKey");
                keys.json(&json!(key)).show(KEYS).await
            }
        }
    }
}

impl CreateTopic {
    fn body(&self) -> anyhow::Result<Value> {
        if let Some(file) = &self.file {
            return body::read(file);
        }
        if self.named.topic().is_in_namespace() {
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
        let schema = self.schema.unwrap_or(SchemaArgument::Eventgrid);
        if schema == SchemaArgument::Custom {
            bail!("a custom schema needs a mapping: pass the whole definition with --file");
        }
        Ok(json!({
            "location": self.location.as_deref().unwrap_or("local"),
            "tags": object(&self.tags),
            "properties": { "inputSchema": schema.input() },
        }))
    }
}

/// The first key of a topic, with which to publish to it.
pub(super) async fn first_key(
    server: &RemoteServer,
    topic: TopicArg<'_>,
) -> anyhow::Result<String> {
    let keys = server.post(topic.path()).at("listKeys").send().await?;
    match keys["key1"].as_str() {
        Some(key) => Ok(key.to_owned()),
        None => bail!(
            "the server does not show the keys of topic {}; pass one with --key",
            topic.name()
        ),
    }
}

const TOPICS: ListFormat = ListFormat {
    none: "no topics yet: create one with `everpost topics create NAME`",
    columns: &[
        ("NAME", Text("/name")),
        ("SCHEMA", Text("/properties/inputSchema")),
        ("LOCATION", Text("/location")),
        ("PUBLISH TO", Of(publish_to)),
    ],
};

fn list(topics: &Value, screen: Screen) -> String {
    let list = TOPICS.text(topics, screen);
    let all = items(topics, "/value");
    if !all.is_empty() && all.iter().all(is_built_in) {
        format!("{}\n{list}", TOPICS.none)
    } else {
        list
    }
}

fn is_built_in(topic: &Value) -> bool {
    topic["properties"]["builtIn"] == true
}

fn publish_to(topic: &Value) -> String {
    if is_built_in(topic) {
        "(built in: can only be subscribed to)".to_owned()
    } else {
        text(topic, "/properties/endpoint")
    }
}

const TOPIC: Details = Details(&[
    ("name", Text("/name")),
    ("publish to", Of(publish_to)),
    ("schema", Text("/properties/inputSchema")),
    ("location", Text("/location")),
    ("tags", Of(tags)),
    ("keeps events", Of(days)),
    ("network", Of(network)),
    ("keys rejected", Of(keys_rejected)),
    ("resource id", Text("/id")),
]);

/// Returns how long the topic keeps events; empty unless it is a namespace topic.
fn days(topic: &Value) -> String {
    match number(topic, "/properties/eventRetentionInDays") {
        0 => String::new(),
        count => plural(count, "day", "days"),
    }
}

/// Who may connect, where not everybody may.
pub(super) fn network(resource: &Value) -> String {
    text(resource, "/properties/publicNetworkAccess").replace("Enabled", "")
}

fn keys_rejected(topic: &Value) -> String {
    text(topic, "/properties/disableLocalAuth").replace("false", "")
}

pub(super) fn tags(resource: &Value) -> String {
    let tags = resource["tags"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| format!("{name}={}", text(value, "")));
    tags.collect::<Vec<_>>().join(", ")
}

pub(super) const KEYS: Details = Details(&[("key1", Text("/key1")), ("key2", Text("/key2"))]);

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
            list(&topics, Screen::default()),
            "\
NAME          SCHEMA                LOCATION  PUBLISH TO
orders        EventGridSchema       local     http://h/topics/orders/api/events
a-longer-one  CloudEventSchemaV1_0  west
"
        );
        let built_in = json!({ "name": "everpost-system", "properties": { "builtIn": true } });
        let listed = list(&json!({ "value": [built_in] }), Screen::default());
        assert!(listed.starts_with("no topics yet"), "{listed}");
        assert!(listed.contains("built in"), "{listed}");
    }

    #[test]
    fn a_topic_is_shown_line_by_line() {
        let topic = json!({ "name": "orders", "location": "local", "tags": { "team": "shop" }, "properties": { "inputSchema": "EventGridSchema", "disableLocalAuth": false } });
        assert_eq!(
            TOPIC.text(&topic, Screen::default()),
            "\
name      orders
schema    EventGridSchema
location  local
tags      team=shop
"
        );
    }
}
