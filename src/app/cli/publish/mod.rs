//! `everpost publish`: events from the command line, from files and in bulk.

mod events;

use std::path::PathBuf;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use serde_json::json;
use serde_json::value::RawValue;

use self::events::{BATCH_EVENTS, Batches, Template};
use crate::app::cli::key::KeyArgs;
use crate::app::cli::output::{plural, text};
use crate::app::cli::progress::ShownProgress;
use crate::app::cli::request::{RemoteServer, Run};
use crate::app::cli::schema::SchemaArgument;
use crate::app::cli::topic_arg::{NamespaceArgs, TopicArg};
use crate::app::cli::topics::first_key;
use crate::app::files;
use crate::base::human::span;
use crate::base::{Clock, Entropy};

pub(super) const EXAMPLES: &str = "\
Examples:
  everpost publish --topic orders --type Order.Paid --subject /orders/1 --data '{\"total\":5}'
  everpost publish --topic orders --type Load.Test --count 10000
  everpost publish --topic orders --file events.json
  gunzip -c events.ndjson.gz | everpost publish --topic orders --file -";

#[derive(Args, Debug)]
pub(super) struct PublishArgs {
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
    /// File with events in the topic's schema, one after the other or in arrays, that keep their own `topic`; - for
    /// standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["event_type", "subject", "data", "id", "count"])]
    file: Option<PathBuf>,
    /// Schema that the topic takes [default: the one that the server names; with --key, eventgrid, or cloudevents in a
    /// namespace]
    #[arg(long, value_enum)]
    schema: Option<SchemaArgument>,
    #[command(flatten)]
    key: KeyArgs,
}

/// The key and the schema for publishing to the topic.
struct PublishKey {
    /// `None` for the token of the command line.
    key: Option<String>,
    schema: SchemaArgument,
}

impl Run for PublishArgs {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        let topic = self.namespace.topic(&self.topic);
        let access = self.access(server, topic).await?;
        let clock = Clock::system();
        let batches = self.batches(access.schema, &clock)?;
        let mut progress = (self.file.is_some() || self.count > BATCH_EVENTS as u64)
            .then(|| ShownProgress::new(self.file.is_none().then_some(self.count)));
        let started_at = clock.now();
        let (mut events, mut requests) = (0, 0_u64);
        for made in batches {
            let batch = made.with_context(|| published_so_far(events))?;
            let content_type = content_type(access.schema);
            let request = server.post(topic.publish_path());
            let request = match &access.key {
                Some(key) => request.key(key),
                None => request,
            };
            let sent = request.body(content_type, batch.body()).text().await;
            sent.with_context(|| published_so_far(events))?;
            (events, requests) = (events + batch.len() as u64, requests + 1);
            if let Some(progress) = &mut progress {
                progress.set(events, " events published");
            }
        }
        drop(progress);
        let took = clock.now().since(started_at);
        let published = json!({
            "topic": topic.name(),
            "events": events,
            "requests": requests,
            "durationMs": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        });
        server.show(&published, |_: &_, _| {
            let events = plural(events, "event", "events");
            format!("published {events} to {} in {}\n", topic.name(), span(took))
        })
    }
}

fn published_so_far(events: u64) -> String {
    match events {
        0 => "nothing was published".to_owned(),
        events => format!("stopped after {events} published events"),
    }
}

impl PublishArgs {
    async fn access(
        &self,
        server: &RemoteServer,
        topic: TopicArg<'_>,
    ) -> anyhow::Result<PublishKey> {
        if let Some(key) = self.key.given()? {
            let schema = self.schema.unwrap_or(if topic.is_in_namespace() {
                SchemaArgument::Cloudevents
            } else {
                SchemaArgument::Eventgrid
            });
            let key = Some(key);
            return Ok(PublishKey { key, schema });
        }
        let schema = match self.schema {
            Some(schema) => schema,
            None => {
                let topic = server.get(topic.path()).send().await?;
                let name = text(&topic, "/properties/inputSchema");
                let unknown = || format!("the input schema {name:?} is unknown; name a --schema");
                SchemaArgument::of_input(&name).with_context(unknown)?
            }
        };
        // Events of a file may have been captured elsewhere, and keep their own topic then.
        let key = match &self.file {
            Some(_) => None,
            None => Some(first_key(server, topic).await?),
        };
        Ok(PublishKey { key, schema })
    }

    fn batches(&self, schema: SchemaArgument, clock: &Clock) -> anyhow::Result<Batches> {
        if let Some(file) = &self.file {
            let source =
                files::open(file).map_err(|problem| anyhow!("{} {problem}", file.display()))?;
            return Ok(Batches::read(source));
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

    fn event_type(&self, schema: SchemaArgument) -> anyhow::Result<String> {
        match (&self.event_type, schema) {
            (Some(event_type), _) => Ok(event_type.clone()),
            (None, SchemaArgument::Custom) => Ok(String::new()),
            (None, SchemaArgument::Eventgrid | SchemaArgument::Cloudevents) => {
                bail!("name the event's --type, or a --file with events")
            }
        }
    }
}

fn content_type(schema: SchemaArgument) -> &'static str {
    match schema {
        SchemaArgument::Eventgrid | SchemaArgument::Custom => "application/json; charset=utf-8",
        SchemaArgument::Cloudevents => "application/cloudevents-batch+json; charset=utf-8",
    }
}

fn parse_data(data: &str) -> anyhow::Result<Box<RawValue>> {
    serde_json::from_str(data).with_context(|| {
        let quoted = json!(data);
        format!("--data is not JSON; a text needs quotes: --data '{quoted}'")
    })
}
