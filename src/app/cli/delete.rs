//! Deleting topics, namespaces and event subscriptions, and the question before it.

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};

use crate::app::cli::confirm::Deletion;
use crate::app::cli::output::{items, number, plural, text};
use crate::app::cli::request::{RemoteServer, UnsentRequest};

/// How something is deleted.
#[derive(Args, Clone, Copy, Debug, Serialize)]
pub(super) struct DeleteArgs {
    /// Handling of events that are still to be delivered
    #[arg(long, value_enum, default_value = "discard")]
    pending: PendingEvents,
    #[command(flatten)]
    #[serde(skip)]
    deletion: Deletion,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum PendingEvents {
    /// They are dropped, with a record
    Discard,
    /// They are kept as dead letters
    DeadLetter,
}

/// The event subscriptions that go with something that is deleted.
pub(super) enum DeletionScope<'a> {
    Subscription { topic: &'a str, name: &'a str },
    Topic(&'a str),
    Namespace(&'a str),
}

impl DeletionScope<'_> {
    fn name(&self) -> String {
        match self {
            Self::Subscription { topic, name } => {
                format!("event subscription {name} of topic {topic}")
            }
            Self::Topic(topic) => format!("topic {topic}"),
            Self::Namespace(namespace) => format!("namespace {namespace}"),
        }
    }

    /// Returns whether this row of the counts is deleted with it. Names are compared without regard to letter case.
    fn has(&self, row: &Value) -> bool {
        let topic = text(row, "/topic");
        match self {
            Self::Subscription { topic: of, name } => {
                topic.eq_ignore_ascii_case(of)
                    && text(row, "/subscription").eq_ignore_ascii_case(name)
            }
            Self::Topic(name) => topic.eq_ignore_ascii_case(name),
            Self::Namespace(name) => topic
                .split_once('/')
                .is_some_and(|(namespace, _)| namespace.eq_ignore_ascii_case(name)),
        }
    }
}

impl DeleteArgs {
    /// Sends `request`, which deletes what is in `scope`, unless somebody at the terminal says no.
    pub(super) async fn run(
        self,
        server: &RemoteServer,
        request: UnsentRequest<'_>,
        scope: DeletionScope<'_>,
    ) -> anyhow::Result<()> {
        if !self.deletion.yes {
            let losses = self.losses(server, &scope).await?;
            let question = format!("This deletes {}: {losses}.", scope.name());
            self.deletion.ask(&question)?;
        }
        request.query(self).send().await?;
        let deleted = match scope {
            DeletionScope::Subscription { topic, name } => {
                json!({ "deleted": name, "topic": topic })
            }
            DeletionScope::Topic(name) | DeletionScope::Namespace(name) => {
                json!({ "deleted": name })
            }
        };
        server.show(&deleted, |_: &_, _| format!("deleted {}\n", scope.name()))
    }

    async fn losses(
        self,
        server: &RemoteServer,
        scope: &DeletionScope<'_>,
    ) -> anyhow::Result<String> {
        let counts = server.get(["everpost", "counts"]).send().await?;
        let rows = items(&counts, "/value").iter().filter(|row| scope.has(row));
        let rows: Vec<&Value> = rows.collect();
        let sum = |pointer| rows.iter().map(|row| number(row, pointer)).sum();
        let mut losses = Vec::new();
        if let DeletionScope::Namespace(namespace) = scope {
            let topics = server
                .get(["namespaces", *namespace, "topics"])
                .send()
                .await?;
            losses.push(plural(count(items(&topics, "/value")), "topic", "topics"));
        }
        if !matches!(scope, DeletionScope::Subscription { .. }) {
            losses.push(plural(
                count(&rows),
                "event subscription",
                "event subscriptions",
            ));
        }
        let fate = match self.pending {
            PendingEvents::Discard => "dropped",
            PendingEvents::DeadLetter => "kept as dead letters",
        };
        let pending = plural(sum("/pending"), "pending delivery", "pending deliveries");
        losses.push(format!("{pending} ({fate})"));
        losses.push(format!(
            "{} (kept to read, but not for their event subscription any more)",
            plural(sum("/deadLetters"), "dead letter", "dead letters")
        ));
        Ok(losses.join(", "))
    }
}

fn count<T>(all: &[T]) -> u64 {
    all.len() as u64
}
