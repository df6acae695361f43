//! `everpost bench`: how fast it is here, with every event accounted for.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::{Args, value_parser};
use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use url::Url;

use crate::app::bench::figures::{Figures, LatencyPercentiles};
use crate::app::bench::instance::{Instance, Usage};
use crate::app::bench::publisher::{self, PublishTarget};
use crate::app::bench::receiver::BenchReceiver;
use crate::app::bench::records::Records;
use crate::app::bench::{BenchPlan, EVENTS_MAX, disk, plot};
use crate::app::boot;
use crate::app::cli::output::{Output, Screen, plural};
use crate::app::cli::progress::ShownProgress;
use crate::app::cli::request::RemoteServer;
use crate::app::cli::server::{ServerAccess, ServerArgs};
use crate::app::cli::table::{NamedValues, TextTable};
use crate::app::cli::topic_arg::TopicArg;
use crate::app::cli::topics::first_key;
use crate::app::interrupt::interrupted;
use crate::app::management_token;
use crate::base::{Entropy, Stopwatch, human};

pub(super) const EXAMPLES: &str = "\
Examples:
  everpost bench                                       a server of its own, as fast as it goes
  everpost bench --connections 64 --fan-out 5
  everpost bench --rate 200 --duration 60s --plot bench.svg
  everpost bench --url http://127.0.0.1:8080 --json    a server that runs already";

/// The topic of a run is named by this and a random part.
const TOPIC: &str = "bench";

/// Nothing came for so long after the last event was published or delivered: the rest is lost. Longer than the
/// first retry waits.
const QUIET_MAX: Duration = Duration::from_secs(60);

/// A few seconds' worth.
const EVENTS_DEFAULT: u64 = 20_000;

/// How often the receiver's counts are looked at, and how often they are shown.
const PAUSE: Duration = Duration::from_millis(20);
const PROGRESS_PAUSE: Duration = Duration::from_millis(100);

/// The largest preferred size of a batch, so that the number of events decides.
const BATCH_KILOBYTES: u32 = 1_024;

/// Publish events and receive them: rates, latencies and losses
///
/// Without --url it starts a server of its own over an empty data directory and deletes it afterwards. The exit
/// code is 1 if an accepted event was not delivered.
#[derive(Args, Debug)]
pub(super) struct BenchArgs {
    /// Events to publish [default: 20000, or as many as fit into --duration]
    #[arg(long, value_name = "NUMBER", value_parser = value_parser!(u64).range(1..=EVENTS_MAX))]
    events: Option<u64>,
    /// Stop publishing after this time, like 30s or 5m
    #[arg(long, value_name = "TIME", value_parser = human::span_argument)]
    duration: Option<Duration>,
    /// Connections that publish, one request at a time each
    #[arg(long, value_name = "NUMBER", default_value_t = 16, value_parser = value_parser!(u16).range(1..))]
    connections: u16,
    /// Events per second [default: as fast as answers come]
    #[arg(long, value_name = "NUMBER", value_parser = positive)]
    rate: Option<f64>,
    /// Bytes of data in each event
    #[arg(long, value_name = "BYTES", default_value_t = 1_000, value_parser = value_parser!(u32).range(..=1_000_000))]
    payload: u32,
    /// Events of one publish request
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = value_parser!(u64).range(1..=5_000))]
    events_per_request: u64,
    /// Event subscriptions that each receive every event; 0 measures publishing alone
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = value_parser!(u16).range(..=500))]
    fan_out: u16,
    /// Events of one delivery, at most
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = value_parser!(u32).range(1..=5_000))]
    events_per_delivery: u32,
    /// Share of events whose first delivery attempt fails, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = value_parser!(u64).range(..=100))]
    failing: u64,
    /// Share of events that the receiver answers late, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = value_parser!(u64).range(..=100))]
    slow: u64,
    /// How late these are answered
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = human::span_argument)]
    slow_delay: Duration,
    /// Send an x-ms-client-request-id with every request, as Azure's clients do
    #[arg(long)]
    request_ids: bool,
    /// Where the receiver listens; a server elsewhere must reach it, and its egress policy must allow it
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    receiver: SocketAddr,
    /// Folder in which the server of its own keeps its data; name one on the disk that you want to measure
    /// [default: the folder for temporary files]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Draw rates and latencies into this SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    output: Output,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if number > 0.0 && f64::is_finite(number) => Ok(number),
        _ => Err("write a number above 0".to_owned()),
    }
}

impl BenchArgs {
    /// Publisher and receiver share the threads of one runtime.
    pub(super) fn run(self) -> anyhow::Result<()> {
        boot::runtime()?.block_on(async {
            tokio::select! {
                ended = self.measure() => ended,
                () = interrupted() => bail!("interrupted"),
            }
        })
    }

    fn plan(&self) -> BenchPlan {
        let most = match self.duration {
            Some(_) => EVENTS_MAX,
            None => EVENTS_DEFAULT,
        };
        BenchPlan {
            events: self.events.unwrap_or(most),
            duration: self.duration,
            connections: self.connections.into(),
            rate: self.rate,
            payload_bytes: self.payload as usize,
            events_per_request: self.events_per_request,
            fan_out: self.fan_out.into(),
            events_per_delivery: self.events_per_delivery,
            failing_percent: self.failing,
            slow_percent: self.slow,
            slow_delay: self.slow_delay,
            has_request_ids: self.request_ids,
        }
    }

    async fn measure(self) -> anyhow::Result<()> {
        let plan = self.plan();
        let folder = self.folder.clone().unwrap_or_else(std::env::temp_dir);
        let (instance, flush) = if self.server.names_url() {
            (None, None)
        } else {
            let flush = disk::flush_time(&folder);
            let flush =
                flush.with_context(|| format!("{} cannot be written to", folder.display()))?;
            (Some(Instance::start(&folder).await?), Some(flush))
        };
        let access = match &instance {
            Some(instance) => own_access(instance)?,
            None => self.server.find()?,
        };
        // Over TLS the load itself would take the processor.
        ensure!(
            access.url.scheme() == "http",
            "the benchmark publishes over plain HTTP; name the server by an http:// URL"
        );
        let server = RemoteServer::new(access, self.output)?;
        let topic = format!("{TOPIC}-{}", Entropy::Os.uuid());
        let records = self.load(&plan, &server, &topic, instance.as_ref()).await;
        if instance.is_none() {
            server.delete(["topics", &topic]).send().await?;
        }
        let (records, usage) = records?;
        let figures = Figures::of(&plan, &records, usage, flush);
        if let Some(file) = &self.plot {
            let latencies = [figures.published.latency_ms, figures.delivered.latency_ms];
            plot::write(file, &title(&figures), &records, latencies)?;
        }
        self.output
            .show(&serde_json::to_value(&figures)?, |_: &Value, screen| {
                text(&figures, screen)
            })?;
        verdict(&figures)
    }
}

impl BenchArgs {
    /// Creates topic and event subscriptions, publishes, and waits for the deliveries.
    async fn load(
        &self,
        plan: &BenchPlan,
        server: &RemoteServer,
        topic: &str,
        instance: Option<&Instance>,
    ) -> anyhow::Result<(Arc<Records>, Option<Usage>)> {
        let created = server
            .put(["topics", topic])
            .json(&json!({ "location": "local" }));
        created
            .send()
            .await
            .context("the topic cannot be created")?;
        let target = target(server, topic).await?;
        let records = Arc::new(Records::new(plan.fan_out));
        let receiver = BenchReceiver::bind(self.receiver, plan, &records)
            .await
            .with_context(|| format!("cannot listen on {}", self.receiver))?;
        for number in 0..plan.fan_out {
            let url = format!("http://{}/{number}", receiver.address);
            subscribe(server, topic, number, &url, plan.events_per_delivery).await?;
        }
        let before = instance.and_then(Instance::usage);
        tokio::select! {
            () = publisher::publish(plan, &target, &records) => {}
            never = show_progress(plan, &records) => match never {},
        }
        wait_for_deliveries(plan, &records).await;
        let usage = instance.and_then(Instance::usage);
        Ok((
            records,
            usage.zip(before).map(|(after, before)| after.since(before)),
        ))
    }
}

fn own_access(instance: &Instance) -> anyhow::Result<ServerAccess> {
    let token =
        management_token::read(instance.data_dir()).context("cannot read the management token")?;
    ServerAccess::of_own(instance.url()?.as_str(), token)
}

async fn target(server: &RemoteServer, topic: &str) -> anyhow::Result<PublishTarget> {
    let url: &Url = &server.access.url;
    let host = url.host_str().context("the URL has no host")?;
    let authority = format!("{host}:{}", url.port_or_known_default().unwrap_or(80));
    let topic = TopicArg::custom(topic);
    let mut key = HeaderValue::try_from(first_key(server, topic).await?)?;
    key.set_sensitive(true);
    let mut headers = HeaderMap::new();
    headers.insert("aeg-sas-key", key);
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("host", HeaderValue::try_from(&authority)?);
    let path = format!("{}{}", url.path(), topic.publish_path().join("/"));
    Ok(PublishTarget {
        authority,
        path,
        headers,
    })
}

async fn subscribe(
    server: &RemoteServer,
    topic: &str,
    number: usize,
    endpoint: &str,
    together: u32,
) -> anyhow::Result<()> {
    let webhook = json!({
        "endpointUrl": endpoint,
        "maxEventsPerBatch": together,
        "preferredBatchSizeInKilobytes": BATCH_KILOBYTES,
        "skipValidation": true,
    });
    let destination = json!({ "endpointType": "WebHook", "properties": webhook });
    let name = format!("{TOPIC}-{number}");
    let path = ["topics", topic, "eventSubscriptions", &name];
    let created = server
        .put(path)
        .json(&json!({ "properties": { "destination": destination } }));
    created
        .send()
        .await
        .context("the event subscription cannot be created")?;
    Ok(())
}

/// Until all has come, or nothing comes any more.
async fn wait_for_deliveries(plan: &BenchPlan, records: &Records) {
    let mut progress = progress(plan);
    let (mut last, mut quiet) = (records.counts(), Stopwatch::begin());
    loop {
        let (accepted, delivered) = records.counts();
        if delivered >= accepted * plan.fan_out as u64 && records.missing() == 0 {
            return;
        }
        if (accepted, delivered) != last {
            (last, quiet) = ((accepted, delivered), Stopwatch::begin());
        }
        if quiet.took() > QUIET_MAX {
            return;
        }
        progress.set(accepted, &format!(" published, {delivered} delivered"));
        tokio::time::sleep(PAUSE).await;
    }
}

async fn show_progress(plan: &BenchPlan, records: &Records) -> Infallible {
    let mut progress = progress(plan);
    loop {
        let (accepted, delivered) = records.counts();
        progress.set(accepted, &format!(" published, {delivered} delivered"));
        tokio::time::sleep(PROGRESS_PAUSE).await;
    }
}

/// How many events there will be is known only where no time ends the run.
fn progress(plan: &BenchPlan) -> ShownProgress {
    ShownProgress::new(plan.duration.is_none().then_some(plan.events))
}

fn title(figures: &Figures) -> String {
    format!(
        "Everpost {}: {}, {} bytes, {}",
        figures.version,
        plural(figures.connections as u64, "connection", "connections"),
        figures.payload_bytes,
        plural(
            figures.fan_out as u64,
            "event subscription",
            "event subscriptions"
        ),
    )
}

fn text(figures: &Figures, screen: Screen) -> String {
    let (published, delivered) = (&figures.published, &figures.delivered);
    let mut lines = NamedValues::default();
    lines.add(
        "published",
        format!(
            "{} accepted, {} rejected in {:.1} s: {:.0} per second",
            published.accepted, published.rejected, published.seconds, published.per_second
        ),
    );
    lines.add(
        "first rejection",
        published.first_rejection.clone().unwrap_or_default(),
    );
    if figures.fan_out > 0 {
        lines.add(
            "delivered",
            format!(
                "{} of {} in {:.1} s: {:.0} per second",
                delivered.delivered, delivered.expected, delivered.seconds, delivered.per_second
            ),
        );
        lines.add(
            "accounted for",
            format!(
                "{} lost, {} delivered twice, {} failed attempts as planned",
                delivered.lost, delivered.duplicates, delivered.failed_attempts
            ),
        );
    }
    if let Some(seconds) = figures.cpu_seconds {
        lines.add("server CPU", format!("{seconds:.2} s per 10,000 events"));
    }
    if let Some(bytes) = figures.memory_peak_bytes {
        lines.add(
            "server memory",
            format!("{} at most", bytesize::ByteSize(bytes)),
        );
    }
    if let Some(ms) = figures.flush_ms {
        lines.add("disk", format!("{ms:.2} ms for a durable write of 4 KiB"));
    }
    format!(
        "{}\n{lines}\n{}",
        title(figures),
        latencies(figures, screen)
    )
}

fn latencies(figures: &Figures, screen: Screen) -> String {
    let names = figures.published.latency_ms.named().map(|(name, _)| name);
    let mut table = TextTable::new(["MILLISECONDS"].into_iter().chain(names), 0);
    let mut row = |name: &str, percentiles: &LatencyPercentiles| {
        let values = percentiles.named().map(|(_, ms)| format!("{ms:.1}"));
        table.row([name.to_owned()].into_iter().chain(values));
    };
    row("publish request", &figures.published.latency_ms);
    if figures.fan_out > 0 {
        row("publish to delivery", &figures.delivered.latency_ms);
    }
    table.text(screen)
}

fn verdict(figures: &Figures) -> anyhow::Result<()> {
    match figures.delivered.lost {
        0 => Ok(()),
        lost => bail!(
            "{} of accepted events did not come",
            plural(lost, "delivery", "deliveries")
        ),
    }
}
