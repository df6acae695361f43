//! `everpost publish`: events from the command line, from files and in bulk.

mod events;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use self::events::{Batches, Template};
use crate::app::cli::body;
use crate::app::cli::client::Client;
use crate::app::cli::key::KeyArgs;
use crate::app::cli::moment::span;
use crate::app::cli::output::{Output, text};
use crate::app::cli::place::{NamespaceArgs, Place};
use crate::app::cli::server::ServerArgs;
use crate::app::cli::topics::first_key;
use crate::base::{Clock, Entropy};

const EXAMPLES: &str = "\
Examples:
  everpost publish --topic orders --type Order.Paid --subject /orders/1 --data '{\"total\":5}'
  everpost publish --topic orders --type Load.Test --count 10000
  everpost publish --topic orders --file events.json
  gunzip -c events.ndjson.gz | everpost publish --topic orders --file -";

/// Publish events to a topic
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct PublishArgs {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    output: Output,
    /// Topic to publish to
    #[arg(long)]
    topic: String,
    #[command(flatten)]
    namespace: NamespaceArgs,
    /// Type of the event
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Subject of the event
    #[arg(long, value_name = "TEXT", default_value = "everpost/publish")]
    subject: String,
    /// Data of the event, as JSON; for a custom schema, the whole event
    #[arg(long, value_name = "JSON", default_value = "{}")]
    data: String,
    /// Id of the event [default: a new UUID]
    #[arg(long, conflicts_with = "count")]
    id: Option<String>,
    /// Publish so many events of this kind
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// File with events in the topic's schema, one after the other or in arrays; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["event_type", "subject", "data", "id", "count"])]
    file: Option<PathBuf>,
    /// What the topic takes [default: what the server says; with --key, eventgrid, or cloudevents in a
    /// namespace]
    #[arg(long, value_enum)]
    schema: Option<Schema>,
    #[command(flatten)]
    key: KeyArgs,
}

/// What publishers send.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Schema {
    Eventgrid,
    Cloudevents,
    Custom,
}

/// What it takes to publish to the topic.
struct Access {
    key: String,
    schema: Schema,
}

impl PublishArgs {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let client = Client::new(self.server.find()?)?;
        let place = self.namespace.place(&self.topic);
        let path = place.publish_path();
        let access = self.access(&client, place).await?;
        let clock = Clock::system();
        let batches = self.batches(access.schema, &clock)?;
        let total = self.file.is_none().then_some(self.count);
        let mut progress = Progress::new(total);
        let started_at = clock.now();
        let mut published = Published::default();
        for batch in batches {
            let batch = batch.with_context(|| published.so_far())?;
            let body = batch.body();
            let content_type = access.schema.content_type();
            let sent = client.publish(&path, &access.key, content_type, body).await;
            sent.with_context(|| published.so_far())?;
            published.add(batch.len());
            progress.show(published.events)?;
        }
        progress.end()?;
        let took = clock.now().since(started_at);
        Ok(self
            .output
            .show(&published.json(&place.name(), took), told)?)
    }

    async fn access(&self, client: &Client, place: Place<'_>) -> anyhow::Result<Access> {
        if let Some(key) = self.key.given()? {
            let schema = self.schema.unwrap_or(match place.is_in_namespace() {
                true => Schema::Cloudevents,
                false => Schema::Eventgrid,
            });
            return Ok(Access { key, schema });
        }
        let schema = match self.schema {
            Some(schema) => schema,
            None => {
                let topic = client.get(&place.path(&[]), &[]).await?;
                Schema::from_azure(&text(&topic, "/properties/inputSchema"))?
            }
        };
        let key = first_key(client, place).await?;
        Ok(Access { key, schema })
    }

    fn batches(&self, schema: Schema, clock: &Clock) -> anyhow::Result<Batches> {
        if let Some(file) = &self.file {
            return Ok(Batches::read(body::open(file)?));
        }
        let template = Template {
            schema,
            id: self.id.clone(),
            event_type: self.event_type(schema)?,
            subject: self.subject.clone(),
            data: parse_data(&self.data)?,
            clock: clock.clone(),
            entropy: Entropy::Os,
        };
        Ok(Batches::made(template, self.count))
    }

    fn event_type(&self, schema: Schema) -> anyhow::Result<String> {
        match (&self.event_type, schema) {
            (Some(event_type), _) => Ok(event_type.clone()),
            (None, Schema::Custom) => Ok(String::new()),
            (None, Schema::Eventgrid | Schema::Cloudevents) => {
                bail!("name the event's --type, or a --file with events")
            }
        }
    }
}

impl Schema {
    fn from_azure(name: &str) -> anyhow::Result<Self> {
        match name {
            "EventGridSchema" => Ok(Self::Eventgrid),
            "CloudEventSchemaV1_0" => Ok(Self::Cloudevents),
            "CustomEventSchema" => Ok(Self::Custom),
            _ => bail!(
                "the topic takes {name:?}, of which this program knows nothing; name a --schema"
            ),
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            Self::Eventgrid | Self::Custom => "application/json; charset=utf-8",
            Self::Cloudevents => "application/cloudevents-batch+json; charset=utf-8",
        }
    }
}

fn parse_data(data: &str) -> anyhow::Result<Box<RawValue>> {
    serde_json::from_str(data).with_context(|| {
        let quoted = json!(data);
        format!("--data is no JSON; a text needs quotes: --data '{quoted}'")
    })
}

/// What has been published.
#[derive(Default)]
struct Published {
    events: u64,
    requests: u64,
}

impl Published {
    fn add(&mut self, events: usize) {
        self.events += events as u64;
        self.requests += 1;
    }

    fn so_far(&self) -> String {
        match self.events {
            0 => "nothing is published".to_owned(),
            events => format!("stopped after {events} published events"),
        }
    }

    fn json(&self, topic: &str, took: Duration) -> Value {
        json!({
            "topic": topic,
            "events": self.events,
            "requests": self.requests,
            "durationMs": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        })
    }
}

fn told(published: &Value) -> String {
    let took = Duration::from_millis(published["durationMs"].as_u64().unwrap_or_default());
    let (events, topic) = (text(published, "/events"), text(published, "/topic"));
    let events = match events.as_str() {
        "1" => "1 event".to_owned(),
        events => format!("{events} events"),
    };
    format!("published {events} to {topic} in {}\n", span(took))
}

/// How far it has come, on a terminal; a line that is written over.
struct Progress {
    total: Option<u64>,
    is_shown: bool,
}

impl Progress {
    fn new(total: Option<u64>) -> Self {
        let is_shown = total != Some(1) && io::stderr().is_terminal();
        Self { total, is_shown }
    }

    fn show(&mut self, events: u64) -> io::Result<()> {
        match (self.is_shown, self.total) {
            (false, _) => Ok(()),
            (true, Some(total)) => write!(io::stderr(), "\rpublished {events} of {total}"),
            (true, None) => write!(io::stderr(), "\rpublished {events}"),
        }
    }

    fn end(&self) -> io::Result<()> {
        match self.is_shown {
            true => write!(io::stderr(), "\r\u{1b}[K"),
            false => Ok(()),
        }
    }
}
