//! `everpost namespaces`: topics of CloudEvents under one name.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

use crate::app::cli::client::Client;
use crate::app::cli::output::{Output, items, text};
use crate::app::cli::pending::PendingArgs;
use crate::app::cli::server::ServerArgs;
use crate::app::cli::table::Table;
use crate::app::cli::topics::{KeyName, key_sheet, tag_map, tags};

/// Manage namespaces
#[derive(Args, Debug)]
pub(super) struct NamespacesArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    output: Output,
    #[command(subcommand)]
    command: NamespacesCommand,
}

#[derive(Subcommand, Debug)]
enum NamespacesCommand {
    /// List all namespaces
    List,
    /// Create a namespace, or replace its definition
    Create(Create),
    /// Show one namespace
    Show { namespace: String },
    /// Delete a namespace with its topics and their event subscriptions
    Delete {
        namespace: String,
        #[command(flatten)]
        pending: PendingArgs,
    },
    /// Show the two keys of a namespace, either of which publishes to all of its topics
    Keys { namespace: String },
    /// Replace one of the two keys of a namespace
    RegenerateKey { namespace: String, key: KeyName },
}

#[derive(Args, Debug)]
struct Create {
    namespace: String,
    /// Region to show to clients that expect one
    #[arg(long, default_value = "local")]
    location: String,
    /// Throughput units, 1 to 40: 100 topics for each
    #[arg(long, value_name = "UNITS", default_value_t = 1)]
    capacity: u32,
    /// Tag, may be repeated
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    tags: Vec<String>,
}

impl NamespacesArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let client = Client::new(self.server.find()?)?;
        let output = self.output;
        match self.command {
            NamespacesCommand::List => {
                let namespaces = client.get(&["namespaces"], &[]).await?;
                output.show(&namespaces, list)?;
            }
            NamespacesCommand::Create(create) => {
                let path = ["namespaces", &create.namespace];
                let body = create.body()?;
                let namespace = client.send(Method::PUT, &path, Some(&body)).await?;
                output.show(&namespace, sheet)?;
            }
            NamespacesCommand::Show { namespace } => {
                let namespace = client.get(&["namespaces", &namespace], &[]).await?;
                output.show(&namespace, sheet)?;
            }
            NamespacesCommand::Delete { namespace, pending } => {
                let path = ["namespaces", &namespace];
                client.delete(&path, &pending.query()).await?;
                let deleted = json!({ "deleted": namespace });
                output.show(&deleted, |_| format!("namespace {namespace} is deleted\n"))?;
            }
            NamespacesCommand::Keys { namespace } => {
                let path = ["namespaces", &namespace, "listKeys"];
                let keys = client.send(Method::POST, &path, None).await?;
                output.show(&keys, key_sheet)?;
            }
            NamespacesCommand::RegenerateKey { namespace, key } => {
                let path = ["namespaces", &namespace, "regenerateKey"];
                let keys = client.send(Method::POST, &path, Some(&key.body())).await?;
                output.show(&keys, key_sheet)?;
            }
        }
        Ok(())
    }
}

impl Create {
    fn body(&self) -> anyhow::Result<Value> {
        Ok(json!({
            "location": self.location,
            "tags": tag_map(&self.tags)?,
            "sku": { "name": "Standard", "capacity": self.capacity },
        }))
    }
}

fn list(namespaces: &Value) -> String {
    let namespaces = items(namespaces, "/value");
    if namespaces.is_empty() {
        return "no namespaces yet: make one with `everpost namespaces create NAME`\n".to_owned();
    }
    let mut table = Table::headed(["NAME", "LOCATION", "CAPACITY", "HOST"]);
    for namespace in namespaces {
        table.row([
            text(namespace, "/name"),
            text(namespace, "/location"),
            text(namespace, "/sku/capacity"),
            text(namespace, HOST),
        ]);
    }
    table.to_string()
}

const HOST: &str = "/properties/topicsConfiguration/hostname";

fn sheet(namespace: &Value) -> String {
    let mut table = Table::sheet();
    let mut line = |name: &str, value: String| table.line(name, value);
    line("name", text(namespace, "/name"));
    line("host", text(namespace, HOST));
    line("location", text(namespace, "/location"));
    line("capacity", text(namespace, "/sku/capacity"));
    line("tags", tags(namespace));
    let network = text(namespace, "/properties/publicNetworkAccess");
    line("network", network.replace("Enabled", ""));
    line("resource id", text(namespace, "/id"));
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shop() -> Value {
        json!({ "name": "shop", "location": "local", "sku": { "capacity": 2 }, "tags": { "a": "b" },
            "properties": { "topicsConfiguration": { "hostname": "127.0.0.1:8080" },
                "publicNetworkAccess": "Enabled" } })
    }

    #[test]
    fn namespaces_are_listed_in_columns() {
        assert_eq!(
            list(&json!({ "value": [shop()] })),
            "\
NAME  LOCATION  CAPACITY  HOST
shop  local     2         127.0.0.1:8080
"
        );
        assert!(list(&json!({ "value": [] })).starts_with("no namespaces yet"));
    }

    #[test]
    fn a_namespace_is_shown_line_by_line() {
        assert_eq!(
            sheet(&shop()),
            "\
name      shop
host      127.0.0.1:8080
location  local
capacity  2
tags      a=b
"
        );
    }
}
