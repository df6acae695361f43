//! `everpost subscriptions`: who wants which events, and how.

use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::app::cli::body;
use crate::app::cli::client::Client;
use crate::app::cli::credentials::{self, CredentialArgs, secret_line};
use crate::app::cli::definition::DefinitionArgs;
use crate::app::cli::filter::FilterArgs;
use crate::app::cli::output::{Output, items, tell, text};
use crate::app::cli::pending::PendingArgs;
use crate::app::cli::place::{NamespaceArgs, Place};
use crate::app::cli::server::ServerArgs;
use crate::app::cli::table::Table;
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

fn secrets(secrets: &Value) -> String {
    let secrets = items(secrets, "");
    if secrets.is_empty() {
        return "requests are not signed: begin with `everpost subscriptions rotate-signing-secret`\n"
            .to_owned();
    }
    let mut table = Table::headed(["FINGERPRINT", "CREATED", "SIGNS UNTIL"]);
    for secret in secrets {
        table.row([
            text(secret, "/fingerprint"),
            text(secret, "/createdAt"),
            text(secret, "/expiresAt"),
        ]);
    }
    table.to_string()
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

fn list(subscriptions: &Value) -> String {
    let subscriptions = items(subscriptions, "/value");
    if subscriptions.is_empty() {
        return "no event subscriptions yet: make one with `everpost subscriptions create NAME \
                --topic TOPIC --endpoint URL`\n"
            .to_owned();
    }
    let mut table = Table::headed(["TOPIC", "NAME", "STATE", "SCHEMA", "ENDPOINT"]);
    for subscription in subscriptions {
        table.row([
            topic_name(subscription),
            text(subscription, "/name"),
            state(subscription),
            text(subscription, "/properties/eventDeliverySchema"),
            endpoint(&in_one_shape(subscription)),
        ]);
    }
    table.to_string()
}

/// The names at the end of the topic's resource id: `orders`, `shop/orders`.
fn topic_name(subscription: &Value) -> String {
    let id = text(subscription, "/properties/topic");
    let parts: Vec<&str> = id.split('/').collect();
    match parts.as_slice() {
        [.., "namespaces", namespace, "topics", topic] => format!("{namespace}/{topic}"),
        parts => parts.last().copied().unwrap_or_default().to_owned(),
    }
}

/// A subscription with the names that it would have outside of a namespace.
fn in_one_shape(subscription: &Value) -> Value {
    let properties = &subscription["properties"];
    let delivery = &properties["deliveryConfiguration"];
    let Some(push) = delivery.get("push").or(delivery.get("queue")) else {
        return subscription.clone();
    };
    let mut shaped = subscription.clone();
    let place = &mut shaped["properties"];
    place["destination"] = push["destination"].clone();
    place["retryPolicy"] = json!({
        "maxDeliveryAttempts": push["maxDeliveryCount"],
        "schedule": push["schedule"],
    });
    place["timeToLive"] = push["eventTimeToLive"].clone();
    place["lock"] = push["receiveLockDurationInSeconds"].clone();
    let filters = &properties["filtersConfiguration"];
    place["filter"] = json!({
        "includedEventTypes": filters["includedEventTypes"],
        "advancedFilters": filters["filters"],
    });
    if let Some(wrapped) = push.get("deadLetterDestinationWithResourceIdentity") {
        place["deadLetterDestination"] = wrapped["deadLetterDestination"].clone();
    }
    shaped
}

fn sheet(subscription: &Value) -> String {
    let subscription = &in_one_shape(subscription);
    let mut table = Table::sheet();
    let mut line = |name: &str, value: String| table.line(name, value);
    let property = |name: &str| text(subscription, &format!("/properties/{name}"));
    line("name", text(subscription, "/name"));
    line("topic", topic_name(subscription));
    line("state", state(subscription));
    line("why", property("everpost/stateReason"));
    line("endpoint", endpoint(subscription));
    line("lock", lock(&property("lock")));
    line("schema", property("eventDeliverySchema"));
    for (name, value) in filter_lines(&subscription["properties"]["filter"]) {
        line(name, value);
    }
    line("attempts", property("retryPolicy/maxDeliveryAttempts"));
    line(
        "time to live",
        minutes(&property("retryPolicy/eventTimeToLiveInMinutes")) + &property("timeToLive"),
    );
    let schedule = &subscription["properties"]["retryPolicy"]["schedule"];
    line("schedule", list_of(schedule));
    line("pace", pace(subscription));
    line("if gone", if_gone(subscription));
    line("batch", batch(subscription));
    line("headers", headers(subscription));
    let webhook = &subscription["properties"]["destination"]["properties"];
    for (name, value) in credentials::lines(webhook) {
        line(name, value);
    }
    line("labels", list_of(&subscription["properties"]["labels"]));
    line("expires", property("expirationTimeUtc"));
    line("dead letters", dead_letters(subscription));
    line("resource id", text(subscription, "/id"));
    table.to_string()
}

fn filter_lines(filter: &Value) -> Vec<(&'static str, String)> {
    let mut lines = vec![
        ("event types", list_of(&filter["includedEventTypes"])),
        ("subject begins", text(filter, "/subjectBeginsWith")),
        ("subject ends", text(filter, "/subjectEndsWith")),
    ];
    let advanced = items(filter, "/advancedFilters").iter();
    lines.extend(advanced.map(|each| ("filter", each.to_string())));
    lines
}

/// Where events go: the webhook, or nowhere.
fn endpoint(subscription: &Value) -> String {
    match text(
        subscription,
        "/properties/deliveryConfiguration/deliveryMode",
    )
    .as_str()
    {
        "Queue" => "pulled by receivers".to_owned(),
        _ => text(
            subscription,
            "/properties/destination/properties/endpointBaseUrl",
        ),
    }
}

/// How long a receiver that pulls holds an event.
fn lock(seconds: &str) -> String {
    match seconds {
        "" => String::new(),
        seconds => format!("{seconds} s"),
    }
}

fn minutes(minutes: &str) -> String {
    match minutes {
        "" => String::new(),
        minutes => format!("{minutes} min"),
    }
}

fn batch(subscription: &Value) -> String {
    let property = |name| {
        text(
            subscription,
            &format!("/properties/destination/properties/{name}"),
        )
    };
    match property("maxEventsPerBatch").as_str() {
        "" | "1" => String::new(),
        events => format!(
            "{events} events, {} KB",
            property("preferredBatchSizeInKilobytes")
        ),
    }
}

/// How things stand, in one word.
fn state(subscription: &Value) -> String {
    text(subscription, "/properties/everpost/state")
}

/// What is not left to the settings of the server.
fn pace(subscription: &Value) -> String {
    let told = |name: &str, unit: &str| {
        let pointer = format!("/properties/destination/properties/{name}");
        let value = text(subscription, &pointer);
        (!value.is_empty()).then(|| format!("{value} {unit}"))
    };
    let all = [
        told("responseDeadlineInSeconds", "s to answer"),
        told("maxRequestsInFlight", "requests at once"),
        told("maxRequestsPerSecond", "requests per second"),
    ];
    all.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn if_gone(subscription: &Value) -> String {
    match subscription["properties"]["disableOnGone"].as_bool() {
        Some(true) => "disabled".to_owned(),
        _ => String::new(),
    }
}

fn headers(subscription: &Value) -> String {
    let mappings = items(
        subscription,
        "/properties/destination/properties/deliveryAttributeMappings",
    );
    let headers = mappings.iter().map(|mapping| {
        let value = match mapping["type"].as_str() {
            Some("Dynamic") => format!("<{}>", text(mapping, "/properties/sourceField")),
            _ if mapping["properties"]["isSecret"] == true => "***".to_owned(),
            _ => text(mapping, "/properties/value"),
        };
        format!("{}={value}", text(mapping, "/name"))
    });
    headers.collect::<Vec<_>>().join(", ")
}

fn dead_letters(subscription: &Value) -> String {
    match &subscription["properties"].get("deadLetterDestination") {
        None => "kept".to_owned(),
        Some(Value::Null) => "dropped".to_owned(),
        Some(_) => text(
            subscription,
            "/properties/deadLetterDestination/properties/blobContainerName",
        ),
    }
}

fn list_of(values: &Value) -> String {
    let values = items(values, "").iter().map(|value| text(value, ""));
    values.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use axum::{Json, Router};
    use clap::Parser;

    use super::*;
    use crate::app::cli::client::tests::serving;

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

    #[test]
    fn a_subscription_in_a_namespace_is_shown_like_others() {
        let shown = json!({
            "name": "billing",
            "properties": {
                "topic": "/subscriptions/0/resourceGroups/g/providers/Microsoft.EventGrid/namespaces/shop/topics/orders",
                "everpost": { "state": "Active" },
                "deliveryConfiguration": { "deliveryMode": "Push", "push": {
                    "maxDeliveryCount": 10, "eventTimeToLive": "P1D",
                    "destination": { "properties": { "endpointBaseUrl": "http://h/" } },
                    "deadLetterDestinationWithResourceIdentity": null } },
                "filtersConfiguration": { "includedEventTypes": ["A"], "filters": [{ "key": "subject" }] },
                "eventDeliverySchema": "CloudEventSchemaV1_0",
            },
        });
        assert_eq!(
            sheet(&shown),
            "\
name          billing
topic         shop/orders
state         Active
endpoint      http://h/
schema        CloudEventSchemaV1_0
event types   A
filter        {\"key\":\"subject\"}
attempts      10
time to live  P1D
dead letters  dropped
"
        );
    }

    fn billing() -> Value {
        json!({
            "name": "billing",
            "properties": {
                "topic": "/subscriptions/0/resourceGroups/everpost/providers/Microsoft.EventGrid/topics/orders",
                "provisioningState": "Failed",
                "everpost": { "state": "Failed", "stateReason": "the receiver answered 404" },
                "destination": { "endpointType": "WebHook", "properties": {
                    "endpointBaseUrl": "http://127.0.0.1:9000/",
                    "maxEventsPerBatch": 20,
                    "preferredBatchSizeInKilobytes": 128,
                    "responseDeadlineInSeconds": 60,
                    "maxRequestsPerSecond": 0.5,
                    "authentication": { "type": "Basic", "username": "ada", "password": null },
                    "clientCertificate": { "certificate": "x", "key": null },
                    "signingSecrets": [
                        { "fingerprint": "ab", "createdAt": "c", "expiresAt": null },
                        { "fingerprint": "cd", "createdAt": "c", "expiresAt": "2030-01-01T00:00:00.000Z" },
                    ],
                    "deliveryAttributeMappings": [
                        { "name": "X-A", "type": "Static", "properties": { "value": "1", "isSecret": false } },
                        { "name": "X-B", "type": "Static", "properties": { "value": null, "isSecret": true } },
                        { "name": "X-C", "type": "Dynamic", "properties": { "sourceField": "data.id" } },
                    ],
                } },
                "eventDeliverySchema": "EventGridSchema",
                "filter": { "includedEventTypes": ["A", "B"], "subjectBeginsWith": "", "advancedFilters": [{ "key": "data.x" }] },
                "retryPolicy": { "maxDeliveryAttempts": 30, "eventTimeToLiveInMinutes": 1440, "schedule": ["PT1S", "PT1M"] },
                "disableOnGone": true,
                "labels": [],
                "expirationTimeUtc": null,
            },
        })
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

    #[test]
    fn subscriptions_are_listed_in_columns() {
        assert_eq!(
            list(&json!({ "value": [billing()] })),
            "\
TOPIC   NAME     STATE   SCHEMA           ENDPOINT
orders  billing  Failed  EventGridSchema  http://127.0.0.1:9000/
"
        );
    }

    #[test]
    fn a_subscription_is_shown_line_by_line() {
        assert_eq!(
            sheet(&billing()),
            "\
name          billing
topic         orders
state         Failed
why           the receiver answered 404
endpoint      http://127.0.0.1:9000/
schema        EventGridSchema
event types   A, B
filter        {\"key\":\"data.x\"}
attempts      30
time to live  1440 min
schedule      PT1S, PT1M
pace          60 s to answer, 0.5 requests per second
if gone       disabled
batch         20 events, 128 KB
headers       X-A=1, X-B=***, X-C=<data.id>
credentials   basic, as ada
certificate   shown to the webhook
signed by     ab, cd until 2030-01-01T00:00:00.000Z
dead letters  kept
"
        );
    }
}
