//! `everpost subscriptions`: who wants which events, and how.

mod show;

use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::app::cli::body;
use crate::app::cli::client::Client;
use crate::app::cli::credentials::{CredentialArgs, secret_line};
use crate::app::cli::definition::DefinitionArgs;
use crate::app::cli::filter::FilterArgs;
use crate::app::cli::output::{Output, items, tell, text};
use crate::app::cli::pending::PendingArgs;
use crate::app::cli::place::{NamespaceArgs, Place};
use crate::app::cli::server::ServerArgs;
use crate::app::cli::subscriptions::show::{list, secrets, sheet};
use crate::model::access::Secret;

/// Manage event subscriptions
#[derive(Args, Debug)]
pub(super) struct SubscriptionsArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    output: Output,
    #[command(subcommand)]
    command: SubscriptionsCommand,
}

#[derive(Subcommand, Debug)]
enum SubscriptionsCommand {
    /// List event subscriptions
    List {
        /// Those of this topic alone
        #[arg(long)]
        topic: Option<String>,
        #[command(flatten)]
        namespace: NamespaceArgs,
    },
    /// Create an event subscription, or replace its definition
    Create(Write),
    /// Show one event subscription
    Show(Named),
    /// Change what the flags say and keep the rest
    Update(Write),
    /// Delete an event subscription
    Delete(Delete),
    /// Stop delivering, but go on collecting events
    Pause(Named),
    /// Deliver again what was paused or disabled
    Resume(Named),
    /// Ask the webhook again whether it wants events
    Validate(Named),
    /// List the secrets that requests are signed by, by their fingerprints
    SigningSecrets(Named),
    /// Sign requests by a new secret, and print it this once
    RotateSigningSecret(Rotate),
}

#[derive(Args, Debug)]
struct Named {
    /// Name of the event subscription
    name: String,
    /// Topic that it belongs to
    #[arg(long)]
    topic: String,
    #[command(flatten)]
    namespace: NamespaceArgs,
}

#[derive(Args, Debug)]
struct Delete {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    pending: PendingArgs,
}

#[derive(Args, Debug)]
struct Rotate {
    #[command(flatten)]
    named: Named,
    /// File with the new secret (whsec_…), - for standard input [default: a secret made by the server]
    #[arg(long = "secret-file", value_name = "FILE", value_parser = secret_line)]
    secret: Option<Secret>,
    /// How long the older secrets go on signing, in ISO 8601 [default: P1D]
    #[arg(long, value_name = "DURATION")]
    grace: Option<String>,
}

#[derive(Args, Debug)]
struct Write {
    #[command(flatten)]
    named: Named,
    #[command(flatten)]
    definition: DefinitionArgs,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    credentials: CredentialArgs,
    /// File with the whole body of the request in Azure's form; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["definition", "filter_flags", "credentials"])]
    file: Option<PathBuf>,
}

impl SubscriptionsArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let client = Client::new(self.server.find()?)?;
        match self.command {
            SubscriptionsCommand::List { topic, namespace } => {
                let subscriptions = all(&client, topic.as_deref(), &namespace).await?;
                self.output.show(&subscriptions, list)?;
            }
            SubscriptionsCommand::Create(write) => {
                let written = write.create(&client).await?;
                self.output.show(&written, sheet)?;
                tell_if_not_validated(&written);
            }
            SubscriptionsCommand::Show(named) => {
                let found = client.get(&named.path(), &[]).await?;
                self.output.show(&found, sheet)?;
            }
            SubscriptionsCommand::Update(write) => {
                let written = write.update(&client).await?;
                self.output.show(&written, sheet)?;
                tell_if_not_validated(&written);
            }
            SubscriptionsCommand::Delete(Delete { named, pending }) => {
                client.delete(&named.path(), &pending.query()).await?;
                let (name, topic) = (&named.name, named.place().name());
                let text = format!("event subscription {name} of topic {topic} is deleted\n");
                let deleted = json!({ "deleted": name, "topic": topic });
                self.output.show(&deleted, |_| text)?;
            }
            SubscriptionsCommand::Pause(named) => {
                self.output
                    .show(&named.act(&client, "pause").await?, sheet)?;
            }
            SubscriptionsCommand::Resume(named) => {
                self.output
                    .show(&named.act(&client, "resume").await?, sheet)?;
            }
            SubscriptionsCommand::Validate(named) => {
                self.output
                    .show(&named.act(&client, "validate").await?, sheet)?;
            }
            SubscriptionsCommand::SigningSecrets(named) => {
                let path = [&named.path()[..], &["listSigningSecrets"]].concat();
                let listed = client.send(Method::POST, &path, None).await?;
                self.output
                    .show(&listed, |listed| secrets(&listed["value"]))?;
            }
            SubscriptionsCommand::RotateSigningSecret(rotate) => {
                let rotated = rotate.run(&client).await?;
                self.output.show(&rotated, |rotated| {
                    let secret = text(rotated, "/secret");
                    format!("{secret}\n{}", secrets(&rotated["signingSecrets"]))
                })?;
            }
        }
        Ok(())
    }
}

/// A webhook that has not agreed gets nothing, which is easily overlooked.
fn tell_if_not_validated(subscription: &Value) {
    let state = text(subscription, "/properties/provisioningState");
    if state != "Succeeded" {
        tell(&format!(
            "note: the webhook has not agreed yet ({state}); events published before it has agreed \
             once are not for it. Look again with `everpost subscriptions show`, or leave the question \
             out with --skip-validation"
        ));
    }
}

impl Named {
    fn place(&self) -> Place<'_> {
        self.namespace.place(&self.topic)
    }

    fn path(&self) -> Vec<&str> {
        self.place().path(&["eventSubscriptions", &self.name])
    }

    /// Has something done with the subscription; returns it as it is then.
    async fn act(&self, client: &Client, verb: &str) -> anyhow::Result<Value> {
        let path = [&self.path()[..], &[verb]].concat();
        client.send(Method::POST, &path, None).await?;
        client.get(&self.path(), &[]).await
    }
}

impl Rotate {
    async fn run(&self, client: &Client) -> anyhow::Result<Value> {
        let path = [&self.named.path()[..], &["rotateSigningSecret"]].concat();
        let secret = self.secret.as_ref().map(Secret::reveal);
        let body = json!({ "secret": secret, "gracePeriod": self.grace });
        client.send(Method::POST, &path, Some(&body)).await
    }
}

impl Write {
    /// What the flags say, in the shape of the topic's kind.
    fn properties(&self, current: &Value) -> anyhow::Result<Map<String, Value>> {
        match self.named.place().is_in_namespace() {
            true => {
                self.definition
                    .properties_in_namespace(&self.filter, &self.credentials, current)
            }
            false => {
                self.definition.refuse_pulling()?;
                let definition = &self.definition;
                Ok(definition.properties(&self.filter, &self.credentials, current))
            }
        }
    }

    async fn create(&self, client: &Client) -> anyhow::Result<Value> {
        let body = match &self.file {
            Some(file) => body::read(file)?,
            None => json!({ "properties": self.properties(&Value::Null)? }),
        };
        client
            .send(Method::PUT, &self.named.path(), Some(&body))
            .await
    }

    async fn update(&self, client: &Client) -> anyhow::Result<Value> {
        let body = match &self.file {
            Some(file) => body::read(file)?,
            None => {
                let current = client.get(&self.named.path(), &[]).await?;
                let changed = self.properties(&current["properties"])?;
                if changed.is_empty() {
                    bail!("nothing to change: name a flag, or a body with --file");
                }
                match self.named.place().is_in_namespace() {
                    true => json!({ "properties": changed }),
                    false => Value::Object(changed),
                }
            }
        };
        client
            .send(Method::PATCH, &self.named.path(), Some(&body))
            .await
    }
}

/// The subscriptions of one topic, of all topics of a namespace, or of all topics.
async fn all(
    client: &Client,
    topic: Option<&str>,
    namespace: &NamespaceArgs,
) -> anyhow::Result<Value> {
    let topics = match topic {
        Some(topic) => vec![topic.to_owned()],
        None => namespace.topic_names(client).await?,
    };
    let mut subscriptions = Vec::new();
    for topic in &topics {
        let path = namespace.place(topic).path(&["eventSubscriptions"]);
        let of_topic = client.get(&path, &[]).await?;
        subscriptions.extend_from_slice(items(&of_topic, "/value"));
    }
    Ok(json!({ "value": subscriptions }))
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use axum::{Json, Router};
    use clap::Parser;

    use super::*;
    use crate::app::cli::client::tests::serving;
    use crate::app::cli::subscriptions::show::tests::billing;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        write: Write,
    }

    #[tokio::test]
    async fn an_update_sends_the_changed_property_whole() {
        let path = "/topics/orders/eventSubscriptions/billing";
        let echo = async |Json(body): Json<Value>| Json(body);
        let router = Router::new().route(path, get(async || Json(billing())).patch(echo));
        let client = serving(router).await;
        let check = async |flags: &str, expected: Result<Value, &str>| {
            let line = format!("everpost billing --topic orders{flags}");
            let line = CommandLine::try_parse_from(line.split(' '))
                .unwrap_or_else(|error| panic!("{error}"));
            let sent = line.write.update(&client).await;
            assert_eq!(
                sent.map_err(|error| error.to_string()),
                expected.map_err(str::to_owned)
            );
        };
        let retry = json!({ "retryPolicy": { "maxDeliveryAttempts": 3, "eventTimeToLiveInMinutes": 1440, "schedule": ["PT1S", "PT1M"] } });
        check(" --max-attempts 3", Ok(retry)).await;
        check(" --label a --label b", Ok(json!({ "labels": ["a", "b"] }))).await;
        check(
            "",
            Err("nothing to change: name a flag, or a body with --file"),
        )
        .await;
    }

    #[tokio::test]
    async fn in_a_namespace_an_update_sends_what_changes() {
        let path = "/namespaces/shop/topics/orders/eventSubscriptions/billing";
        let echo = async |Json(body): Json<Value>| Json(body);
        let shown = json!({ "properties": {
            "deliveryConfiguration": { "deliveryMode": "Push", "push": { "maxDeliveryCount": 10,
                "destination": { "endpointType": "WebHook", "properties": { "endpointBaseUrl": "http://h/" } } } },
            "filtersConfiguration": { "includedEventTypes": ["A"], "filters": [] },
        } });
        let router = Router::new().route(path, get(async || Json(shown)).patch(echo));
        let client = serving(router).await;
        let line =
            "everpost billing --namespace shop --topic orders --max-attempts 3 --event-type B";
        let line = CommandLine::try_parse_from(line.split(' '));
        let line = line.unwrap_or_else(|error| panic!("{error}"));
        let sent = line.write.update(&client).await.expect("an answer");
        let expected = json!({ "properties": {
            "deliveryConfiguration": { "push": { "maxDeliveryCount": 3 } },
            "filtersConfiguration": { "includedEventTypes": ["B"], "filters": [] },
        } });
        assert_eq!(sent, expected);
    }

    #[tokio::test]
    async fn pulled_subscriptions_are_made_and_changed_without_a_webhook() {
        let path = "/namespaces/shop/topics/orders/eventSubscriptions/billing";
        let shown = json!({ "name": "billing", "properties": {
            "topic": "/providers/Microsoft.EventGrid/namespaces/shop/topics/orders",
            "deliveryConfiguration": { "deliveryMode": "Queue", "queue": {
                "receiveLockDurationInSeconds": 60, "maxDeliveryCount": 10, "eventTimeToLive": "P1D" } },
        } });
        let (echo, current) = (async |Json(body): Json<Value>| Json(body), shown.clone());
        let router =
            Router::new().route(path, get(async move || Json(current)).put(echo).patch(echo));
        let client = serving(router).await;
        let write = |flags: &str, place: &str| {
            let line = format!("everpost billing --topic {place}{flags}");
            let line = CommandLine::try_parse_from(line.split(' '));
            line.unwrap_or_else(|error| panic!("{error}")).write
        };
        let made = write(" --queue --lock-duration 90", "shop/orders")
            .create(&client)
            .await;
        let queue = json!({ "receiveLockDurationInSeconds": 90 });
        let delivery = json!({ "deliveryMode": "Queue", "queue": queue });
        let expected = json!({ "properties": { "deliveryConfiguration": delivery } });
        assert_eq!(made.expect("it is sent"), expected);
        let changed = write(" --max-attempts 3", "shop/orders")
            .update(&client)
            .await;
        let delivery = json!({ "queue": { "maxDeliveryCount": 3 } });
        let expected = json!({ "properties": { "deliveryConfiguration": delivery } });
        assert_eq!(changed.expect("it is sent"), expected);
        let refused = write(" --endpoint http://h", "shop/orders")
            .update(&client)
            .await;
        assert!(
            refused
                .expect_err("no webhook")
                .to_string()
                .contains("are pulled")
        );
        let refused = write(" --queue", "orders").create(&client).await;
        assert!(
            refused
                .expect_err("no namespace")
                .to_string()
                .contains("--namespace")
        );
        assert!(list(&json!({ "value": [&shown] })).contains("pulled by receivers"));
        let sheet = sheet(&shown);
        assert!(sheet.contains("lock          60 s\n"), "{sheet}");
    }
}
