//! `everpost subscriptions`: which events go where, and how.

mod show;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use crate::app::cli::body;
use crate::app::cli::credentials::{CredentialArgs, secret_line};
use crate::app::cli::definition::DefinitionArgs;
use crate::app::cli::delete::{DeleteArgs, DeletionScope};
use crate::app::cli::filter::FilterArgs;
use crate::app::cli::output::{Screen, View, items, note, text};
use crate::app::cli::request::{RemoteServer, Run, UnsentRequest};
use crate::app::cli::subscriptions::show::{SECRETS, SUBSCRIPTIONS, details};
use crate::app::cli::topic_arg::{NamespaceArgs, TopicArg};
use crate::model::access::Secret;

/// How long the end of a handshake is waited for: all of its tries.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(60);

/// The pause between two looks at a handshake.
const HANDSHAKE_PAUSE: Duration = Duration::from_millis(200);

#[derive(Subcommand, Debug)]
pub(super) enum SubscriptionsCommand {
    /// List event subscriptions
    List {
        /// Only those of this topic
        #[arg(long)]
        topic: Option<String>,
        #[command(flatten)]
        namespace: NamespaceArgs,
    },
    /// Create an event subscription, or replace its definition; fails if its webhook does not agree
    Create(Box<Write>),
    /// Show one event subscription
    Show(NamedSubscription),
    /// Change what the flags say and keep the rest
    Update(Box<Write>),
    /// Delete an event subscription
    Delete {
        #[command(flatten)]
        named: NamedSubscription,
        #[command(flatten)]
        how: DeleteArgs,
    },
    /// Stop delivering, but go on collecting events
    Pause(NamedSubscription),
    /// Deliver again after a pause, or after having been disabled
    Resume(NamedSubscription),
    /// Ask the webhook again whether it wants events
    Validate(NamedSubscription),
    /// List the secrets that requests are signed with, by their fingerprints
    SigningSecrets(NamedSubscription),
    /// Sign requests with a new secret, and print it this once
    RotateSigningSecret(Rotate),
}

#[derive(Args, Debug)]
pub(super) struct NamedSubscription {
    /// Name of the event subscription
    name: String,
    /// Topic that it belongs to
    #[arg(long)]
    topic: String,
    #[command(flatten)]
    namespace: NamespaceArgs,
}

#[derive(Args, Debug)]
pub(super) struct Rotate {
    #[command(flatten)]
    named: NamedSubscription,
    /// File with the new secret (whsec_…), - for standard input [default: a secret made by the server]
    #[arg(long = "secret-file", value_name = "FILE", value_parser = secret_line)]
    secret: Option<Secret>,
    /// How long the older secrets are still used beside it, in ISO 8601 [default: P1D]
    #[arg(long, value_name = "DURATION")]
    grace: Option<String>,
}

#[derive(Args, Debug)]
pub(super) struct Write {
    #[command(flatten)]
    named: NamedSubscription,
    /// File with the whole body of the request in Azure's form; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["definition", "filter_flags", "credentials"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    definition: DefinitionArgs,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    credentials: CredentialArgs,
}

impl Run for SubscriptionsCommand {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        match self {
            Self::List { topic, namespace } => {
                let all = all(server, topic.as_deref(), &namespace).await?;
                server.show(&all, SUBSCRIPTIONS)
            }
            Self::Create(write) => {
                let request = server.put(write.named.path()).json(&write.body()?);
                let written = request.save(&write.named.title(), details).await?;
                write.named.handshake(server, written).await
            }
            Self::Show(named) => server.get(named.path()).show(details).await,
            Self::Update(write) => {
                let request = server.patch(write.named.path());
                let written = request.json(&write.changes(server).await?).send().await?;
                server.show(&written, details)?;
                write.named.handshake(server, written).await
            }
            Self::Delete { named, how } => {
                let (topic, name) = (named.topic().name(), named.name.as_str());
                let (topic, request) = (topic.as_str(), server.delete(named.path()));
                how.run(server, request, DeletionScope::Subscription { topic, name })
                    .await
            }
            Self::Pause(named) => named.verb(server, "pause").show(details).await,
            Self::Resume(named) => named.verb(server, "resume").show(details).await,
            Self::Validate(named) => {
                let asked = named.verb(server, "validate").send().await?;
                server.show(&asked, details)?;
                named.handshake(server, asked).await
            }
            Self::SigningSecrets(named) => {
                named.verb(server, "listSigningSecrets").show(SECRETS).await
            }
            Self::RotateSigningSecret(rotate) => {
                let secret = rotate.secret.as_ref().map(Secret::reveal);
                let body = json!({ "secret": secret, "gracePeriod": rotate.grace });
                let request = rotate.named.verb(server, "rotateSigningSecret");
                request.json(&body).show(rotated).await
            }
        }
    }
}

fn rotated(rotated: &Value, screen: Screen) -> String {
    let secrets = json!({ "value": rotated["signingSecrets"] });
    format!(
        "{}\n{}",
        text(rotated, "/secret"),
        SECRETS.text(&secrets, screen)
    )
}

impl NamedSubscription {
    fn topic(&self) -> TopicArg<'_> {
        self.namespace.topic(&self.topic)
    }

    fn title(&self) -> String {
        format!(
            "event subscription {} of topic {}",
            self.name,
            self.topic().name()
        )
    }

    fn path(&self) -> Vec<&str> {
        let mut path = self.topic().path();
        path.extend(["eventSubscriptions", &self.name]);
        path
    }

    /// Has something done with the subscription.
    fn verb<'a>(&self, server: &'a RemoteServer, verb: &str) -> UnsentRequest<'a> {
        server.post(self.path()).at(verb)
    }

    /// Waits for the end of the handshake. It is an error if the webhook does not agree, because the event
    /// subscription would receive nothing.
    async fn handshake(&self, server: &RemoteServer, subscription: Value) -> anyhow::Result<()> {
        let subscription = handshake_ended(server, &self.path(), subscription).await?;
        let reason = text(&subscription, "/properties/everpost/validationFailure");
        match text(&subscription, PROVISIONING_STATE).as_str() {
            "Succeeded" => {}
            "Failed" => bail!(
                "the webhook did not agree: {reason}. The event subscription receives nothing before it \
                 does: ask it again with `everpost subscriptions validate`, or skip the handshake with \
                 --skip-validation"
            ),
            state => note(&format!(
                "note: the webhook has not agreed yet ({state}); events published before it agrees are \
                 never delivered to it. Look again with `everpost subscriptions show`"
            )),
        }
        Ok(())
    }
}

const PROVISIONING_STATE: &str = "/properties/provisioningState";

/// Waits for the end of a handshake, for a time. Returns the event subscription as it is then.
pub(super) async fn handshake_ended(
    server: &RemoteServer,
    path: &[&str],
    mut subscription: Value,
) -> anyhow::Result<Value> {
    let mut left = HANDSHAKE_DEADLINE;
    while matches!(
        text(&subscription, PROVISIONING_STATE).as_str(),
        "Creating" | "Updating"
    ) && !left.is_zero()
    {
        tokio::time::sleep(HANDSHAKE_PAUSE).await;
        left = left.saturating_sub(HANDSHAKE_PAUSE);
        subscription = server.get(path).send().await?;
    }
    Ok(subscription)
}

impl Write {
    /// Returns the properties that the flags name, in the form for the topic's kind.
    fn properties(&self, current: &Value) -> anyhow::Result<Map<String, Value>> {
        if self.named.topic().is_in_namespace() {
            self.definition
                .properties_in_namespace(&self.filter, &self.credentials, current)
        } else {
            self.definition.reject_pulling()?;
            let definition = &self.definition;
            Ok(definition.properties(&self.filter, &self.credentials, current))
        }
    }

    /// The whole definition.
    fn body(&self) -> anyhow::Result<Value> {
        match &self.file {
            Some(file) => body::read(file),
            None => Ok(json!({ "properties": self.properties(&Value::Null)? })),
        }
    }

    /// Returns the body of the request that changes the subscription. A property that changes is sent whole.
    async fn changes(&self, server: &RemoteServer) -> anyhow::Result<Value> {
        if let Some(file) = &self.file {
            return body::read(file);
        }
        let current = server.get(self.named.path()).send().await?;
        let changed = self.properties(&current["properties"])?;
        if changed.is_empty() {
            bail!("nothing to change: name a flag, or a body with --file");
        }
        Ok(if self.named.topic().is_in_namespace() {
            json!({ "properties": changed })
        } else {
            Value::Object(changed)
        })
    }
}

/// The subscriptions of one topic, of all topics of a namespace, or of all topics.
async fn all(
    server: &RemoteServer,
    topic: Option<&str>,
    namespace: &NamespaceArgs,
) -> anyhow::Result<Value> {
    let topics = match topic {
        Some(topic) => vec![topic.to_owned()],
        None => namespace.topic_names(server).await?,
    };
    let mut subscriptions = Vec::new();
    for topic in &topics {
        let path = namespace.topic(topic).path();
        let of_topic = server.get(path).at("eventSubscriptions").send().await?;
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
    use crate::app::cli::request::tests::serving;
    use crate::app::cli::subscriptions::show::tests::billing;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        write: Write,
    }

    #[tokio::test]
    async fn an_update_sends_the_changed_property_whole() {
        let path = "/topics/orders/eventSubscriptions/billing";
        let router = Router::new().route(path, get(async || Json(billing())));
        let server = serving(router).await;
        let check = async |flags: &str, expected: Result<Value, &str>| {
            let line = format!("everpost billing --topic orders{flags}");
            let line = CommandLine::try_parse_from(line.split(' '))
                .unwrap_or_else(|error| panic!("{error}"));
            let sent = line.write.changes(&server).await;
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
        let shown = json!({ "properties": {
            "deliveryConfiguration": { "deliveryMode": "Push", "push": { "maxDeliveryCount": 10,
                "destination": { "endpointType": "WebHook", "properties": { "endpointBaseUrl": "http://h/" } } } },
            "filtersConfiguration": { "includedEventTypes": ["A"], "filters": [] },
        } });
        let router = Router::new().route(path, get(async || Json(shown)));
        let server = serving(router).await;
        let line =
            "everpost billing --namespace shop --topic orders --max-attempts 3 --event-type B";
        let line = CommandLine::try_parse_from(line.split(' '));
        let line = line.unwrap_or_else(|error| panic!("{error}"));
        let sent = line.write.changes(&server).await.expect("an answer");
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
        let current = shown.clone();
        let router = Router::new().route(path, get(async move || Json(current)));
        let server = serving(router).await;
        let write = |flags: &str, place: &str| {
            let line = format!("everpost billing --topic {place}{flags}");
            let line = CommandLine::try_parse_from(line.split(' '));
            line.unwrap_or_else(|error| panic!("{error}")).write
        };
        let created = write(" --queue --lock-duration 90", "shop/orders").body();
        let queue = json!({ "receiveLockDurationInSeconds": 90 });
        let delivery = json!({ "deliveryMode": "Queue", "queue": queue });
        let expected = json!({ "properties": { "deliveryConfiguration": delivery } });
        assert_eq!(created.expect("a body"), expected);
        let changed = write(" --max-attempts 3", "shop/orders");
        let changed = changed.changes(&server).await;
        let delivery = json!({ "queue": { "maxDeliveryCount": 3 } });
        let expected = json!({ "properties": { "deliveryConfiguration": delivery } });
        assert_eq!(changed.expect("a body"), expected);
        let rejected = write(" --endpoint http://h", "shop/orders");
        let rejected = rejected.changes(&server).await.expect_err("no webhook");
        assert!(rejected.to_string().contains("are pulled"));
        let rejected = write(" --queue", "orders")
            .body()
            .expect_err("no namespace");
        assert!(rejected.to_string().contains("--namespace"));
        let listed = SUBSCRIPTIONS.text(&json!({ "value": [&shown] }), Screen::default());
        assert!(listed.contains("pulled by receivers"));
        let details = details(&shown, Screen::default());
        assert!(details.contains("lock          60 s\n"), "{details}");
    }
}
