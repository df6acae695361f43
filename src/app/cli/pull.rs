//! `everpost receive --pull`: events of a pulled subscription, printed and settled.

use anyhow::Context;
use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::app::cli::key::KeyArgs;
use crate::app::cli::output::{
    Output, items, json_for_stdout, note, print, print_exactly, printable, text,
};
use crate::app::cli::request::{RemoteServer, UnsentRequest};
use crate::app::cli::server::ServerArgs;
use crate::app::cli::topic_arg::{NamespaceArgs, TopicArg};
use crate::app::cli::topics::first_key;
use crate::app::interrupt::interrupted;
use crate::base::Clock;
use crate::base::human::date_time_ms;

/// Events that one request receives.
const EVENTS_PER_REQUEST: u64 = 100;

/// Seconds that a request waits for events; less than the client's patience.
const WAIT_S: u64 = 30;

/// From which subscription to receive, and what to do with the events.
#[derive(Args, Debug)]
pub(super) struct PullArgs {
    /// Pull events from this event subscription of a namespace topic, instead of being a webhook
    #[arg(
        long = "pull",
        value_name = "SUBSCRIPTION",
        requires = "topic",
        conflicts_with_all = ["listen", "answer", "delay", "retry_after", "per_event", "secrets", "secret_files"]
    )]
    subscription: Option<String>,
    /// Topic that the subscription belongs to
    #[arg(long, requires = "subscription")]
    topic: Option<String>,
    #[command(flatten)]
    namespace: NamespaceArgs,
    /// End after so many events [default: at an interrupt]
    #[arg(long, value_name = "N", requires = "subscription", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End when nothing has come for so many seconds, 10 to 50 [default: at an interrupt]
    #[arg(long, value_name = "SECONDS", requires = "subscription", value_parser = clap::value_parser!(u64).range(10..=50))]
    wait: Option<u64>,
    /// Answer to events once they are printed
    #[arg(long, value_enum, default_value_t = Then::Acknowledge, requires = "subscription")]
    then: Then,
    /// Seconds for which released events are held back: 0, 10, 60, 600 or 3600
    #[arg(long, value_name = "SECONDS", requires = "subscription", value_parser = ["0", "10", "60", "600", "3600"])]
    release_delay: Option<String>,
    #[command(flatten)]
    key: KeyArgs,
    #[command(flatten)]
    server: ServerArgs,
}

/// The operation on an event that was received.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// Take it off the queue
    Acknowledge,
    /// Give it back for others
    Release,
    /// Make it a dead letter
    Reject,
    /// Nothing: it comes back when its lock expires
    Keep,
}

impl Then {
    /// The operation on its lock, with the word for what was done.
    fn operation(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Acknowledge => Some(("acknowledge", "acknowledged")),
            Self::Release => Some(("release", "released")),
            Self::Reject => Some(("reject", "rejected")),
            Self::Keep => None,
        }
    }
}

#[derive(Deserialize)]
struct ReceivedEvents {
    value: Vec<Box<RawValue>>,
}

/// An event that was received.
struct PulledEvent {
    /// The event as the server sent it.
    line: Box<RawValue>,
    parts: Value,
}

impl PulledEvent {
    fn token(&self) -> String {
        text(&self.parts, "/brokerProperties/lockToken")
    }
}

impl PullArgs {
    /// Returns whether events are to be pulled at all.
    pub(super) fn is_meant(&self) -> bool {
        self.subscription.is_some()
    }

    pub(super) async fn run(self, as_json: bool) -> anyhow::Result<()> {
        let topic = self.topic.clone().unwrap_or_default();
        let topic = self.namespace.topic(&topic);
        anyhow::ensure!(
            topic.is_in_namespace(),
            "events are pulled from topics of namespaces alone: name one with --namespace"
        );
        let server = RemoteServer::new(self.server.find()?, Output::default())?;
        let key = match self.key.given()? {
            Some(key) => key,
            None => first_key(&server, topic).await?,
        };
        let source = PullSource {
            server,
            topic,
            name: self.subscription.as_deref().unwrap_or_default(),
            key,
        };
        tokio::select! {
            pulled = self.pull(&source, as_json) => pulled,
            () = interrupted() => Ok(()),
        }
    }

    async fn pull(&self, source: &PullSource<'_>, as_json: bool) -> anyhow::Result<()> {
        let mut left = self.count.unwrap_or(u64::MAX);
        while left > 0 {
            let most = left.min(EVENTS_PER_REQUEST);
            let received = source.receive(most, self.wait.unwrap_or(WAIT_S)).await?;
            if received.is_empty() && self.wait.is_some() {
                return Ok(());
            }
            for each in &received {
                if as_json {
                    print_exactly(&json_for_stdout(format!("{}\n", each.line)))?;
                } else {
                    print(&paragraph(each, &date_time_ms(Clock::system().now())))?;
                }
            }
            if let Some((operation, done)) = self.then.operation() {
                let delay = self.release_delay.as_deref();
                source.settle(operation, done, delay, &received).await?;
            }
            left = left.saturating_sub(received.len() as u64);
        }
        Ok(())
    }
}

/// Where events come from.
struct PullSource<'a> {
    server: RemoteServer,
    topic: TopicArg<'a>,
    name: &'a str,
    key: String,
}

impl PullSource<'_> {
    /// A request to receive from the subscription, or to settle what was received.
    fn request(&self, operation: &str) -> UnsentRequest<'_> {
        let request = self.server.post(self.topic.path()).at("eventsubscriptions");
        request
            .at(format!("{}:{operation}", self.name))
            .key(&self.key)
    }

    async fn receive(&self, most: u64, wait_s: u64) -> anyhow::Result<Vec<PulledEvent>> {
        let request = self
            .request("receive")
            .query(json!({ "maxEvents": most, "maxWaitTime": wait_s }));
        let answer = request.body("application/json", "").text().await?;
        let answer: ReceivedEvents =
            serde_json::from_str(&answer).context("no events came back")?;
        let received = answer.value.into_iter().map(|line| {
            let parts = serde_json::from_str(line.get())?;
            Ok(PulledEvent { line, parts })
        });
        received.collect()
    }

    async fn settle(
        &self,
        operation: &str,
        done: &str,
        delay: Option<&str>,
        received: &[PulledEvent],
    ) -> anyhow::Result<()> {
        if received.is_empty() {
            return Ok(());
        }
        let tokens: Vec<String> = received.iter().map(PulledEvent::token).collect();
        let request = self
            .request(operation)
            .query(json!({ "releaseDelayInSeconds": delay }));
        let answer = request
            .json(&json!({ "lockTokens": tokens }))
            .send()
            .await?;
        for failed in items(&answer, "/failedLockTokens") {
            let token = text(failed, "/lockToken");
            let event = received.iter().find(|each| each.token() == token);
            let id = event.map(|each| text(&each.parts, "/event/id"));
            let (id, reason) = (id.unwrap_or(token), text(failed, "/error/message"));
            note(&format!("note: event {id} was not {done}: {reason}"));
        }
        Ok(())
    }
}

/// An event for people.
fn paragraph(received: &PulledEvent, time: &str) -> String {
    let known = |pointer: &str| match text(&received.parts, pointer).as_str() {
        "" => "-".to_owned(),
        text => text.to_owned(),
    };
    let (id, event_type, subject) = (
        known("/event/id"),
        known("/event/type"),
        known("/event/subject"),
    );
    let count = text(&received.parts, "/brokerProperties/deliveryCount");
    let mut lines = format!("{time}  event {id}  {event_type}  {subject}  delivery {count}\n");
    let event = &received.parts["event"];
    if let Some(data) = event.get("data").or(event.get("data_base64")) {
        lines.push_str(&format!("  data: {}\n", printable(&data.to_string())));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_shown_in_two_lines() {
        let item = r#"{"brokerProperties":{"lockToken":"t","deliveryCount":2},"event":{"id":"a-1","type":"Order.Paid","data":{"total":5}}}"#;
        let received = PulledEvent {
            line: RawValue::from_string(item.to_owned()).expect("JSON"),
            parts: serde_json::from_str(item).expect("JSON"),
        };
        assert_eq!(received.token(), "t");
        assert_eq!(
            paragraph(&received, "2026-11-21 06:40:53.138"),
            "2026-11-21 06:40:53.138  event a-1  Order.Paid  -  delivery 2\n  data: {\"total\":5}\n"
        );
    }
}
