//! `everpost namespaces`: manages Event Grid namespaces, which group topics for CloudEvents under one name.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::app::cli::delete::{DeleteArgs, DeletionScope};
use crate::app::cli::filter::{name_and_value, object};
use crate::app::cli::request::{RemoteServer, Run};
use crate::app::cli::table::Cell::{Of, Text, Word};
use crate::app::cli::table::{Details, ListFormat};
use crate::app::cli::topics::{KEYS, KeyArg, network, tags};

#[derive(Subcommand, Debug)]
pub(super) enum NamespacesCommand {
    /// List all namespaces
    List,
    /// Create a namespace, or replace its definition
    Create(CreateNamespace),
    /// Show one namespace
    Show { namespace: String },
    /// Delete a namespace with its topics and their event subscriptions
    Delete {
        namespace: String,
        #[command(flatten)]
        how: DeleteArgs,
    },
    /// Show the two keys of a namespace, either of which publishes to all of its topics
    Keys { namespace: String },
    /// Replace one of the two keys of a namespace
    RegenerateKey {
        namespace: String,
        #[command(flatten)]
        key: KeyArg,
    },
}

#[derive(Args, Debug)]
pub(super) struct CreateNamespace {
    namespace: String,
    /// Region to show to clients that expect one
    #[arg(long, default_value = "local")]
    location: String,
    /// Throughput units, 1 to 40: 100 topics for each
    #[arg(long, value_name = "UNITS", default_value_t = 1)]
    capacity: u32,
    /// Tag, may be repeated
    #[arg(long = "tag", value_name = "NAME=VALUE", value_parser = name_and_value)]
    tags: Vec<(String, String)>,
}

impl Run for NamespacesCommand {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        let path = ["namespaces"];
        match self {
            Self::List => server.get(path).show(NAMESPACES).await,
            Self::Create(create) => {
                let request = server.put(path).at(&create.namespace).json(&create.body());
                let name = format!("namespace {}", create.namespace);
                request.save(&name, NAMESPACE).await?;
                Ok(())
            }
            Self::Show { namespace } => server.get(path).at(namespace).show(NAMESPACE).await,
            Self::Delete { namespace, how } => {
                let request = server.delete(path).at(&namespace);
                how.run(server, request, DeletionScope::Namespace(&namespace))
                    .await
            }
            Self::Keys { namespace } => {
                let keys = server.post(path).at(namespace).at("listKeys");
                keys.show(KEYS).await
            }
            Self::RegenerateKey { namespace, key } => {
                let keys = server.post(path).at(namespace).at("regenerateKey");
                keys.json(&json!(key)).show(KEYS).await
            }
        }
    }
}

impl CreateNamespace {
    fn body(&self) -> Value {
        json!({
            "location": self.location,
            "tags": object(&self.tags),
            "sku": { "name": "Standard", "capacity": self.capacity },
        })
    }
}

const HOST: &str = "/properties/topicsConfiguration/hostname";

const NAMESPACES: ListFormat = ListFormat {
    none: "no namespaces yet: create one with `everpost namespaces create NAME`",
    columns: &[
        ("NAME", Text("/name")),
        ("LOCATION", Text("/location")),
        ("CAPACITY", Word("/sku/capacity")),
        ("HOST", Text(HOST)),
    ],
};

const NAMESPACE: Details = Details(&[
    ("name", Text("/name")),
    ("host", Text(HOST)),
    ("location", Text("/location")),
    ("capacity", Text("/sku/capacity")),
    ("tags", Of(tags)),
    ("network", Of(network)),
    ("resource id", Text("/id")),
]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::cli::output::{Screen, View};

    fn shop() -> Value {
        json!({ "name": "shop", "location": "local", "sku": { "capacity": 2 }, "tags": { "a": "b" },
            "properties": { "topicsConfiguration": { "hostname": "127.0.0.1:8080" },
                "publicNetworkAccess": "Enabled" } })
    }

    #[test]
    fn namespaces_are_listed_in_columns() {
        assert_eq!(
            NAMESPACES.text(&json!({ "value": [shop()] }), Screen::default()),
            "\
NAME  LOCATION  CAPACITY  HOST
shop  local     2         127.0.0.1:8080
"
        );
    }

    #[test]
    fn a_namespace_is_shown_line_by_line() {
        assert_eq!(
            NAMESPACE.text(&shop(), Screen::default()),
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
