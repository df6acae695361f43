//! The appliance of the demonstration, its two receivers, and a client that talks to the appliance.

use std::path::PathBuf;

use anyhow::Context;
use serde_json::{Value, json};

use crate::app::boot::Appliance;
use crate::app::cli::output::Output;
use crate::app::cli::request::RemoteServer;
use crate::app::cli::server::ServerAccess;
use crate::app::config::Config;
use crate::app::management_token;
use crate::app::receive::{ReceiverOptions, WebhookReceiver};
use crate::app::telemetry::ProcessLog;
use crate::base::{Clock, TimeScale};

/// The topic of the demonstration.
pub(super) const TOPIC: &str = "orders";

/// Number of events that are published.
pub(super) const EVENTS: usize = 100;

/// The type of most events.
pub(super) const PLACED: &str = "Order.Placed";

/// The type of every event whose number [`CANCELLED_EVERY`] divides.
pub(super) const CANCELLED: &str = "Order.Cancelled";

/// Divisor of the numbers of events of type [`CANCELLED`].
pub(super) const CANCELLED_EVERY: usize = 10;

/// One event subscription, and how all of its deliveries must go.
#[derive(Debug)]
pub(super) struct DemoRole {
    /// Name of the event subscription.
    pub(super) name: &'static str,
    /// Only event type that the subscription wants; `None` for all.
    pub(super) event_type: Option<&'static str>,
    /// The status codes with which the receiver answers each event, attempt by attempt.
    pub(super) answers: &'static [u16],
    /// Verb for the effect of the receiver's last answer on the event.
    pub(super) verb: &'static str,
    /// The state in which every delivery ends.
    pub(super) ends: &'static str,
    /// Total number of deliveries.
    pub(super) deliveries: usize,
}

/// Accepts every event, at the third attempt.
pub(super) const BILLING: DemoRole = DemoRole {
    name: "billing",
    event_type: None,
    answers: &[503, 503, 200],
    verb: "accepted",
    ends: "Delivered",
    deliveries: EVENTS,
};

/// Wants some events and then rejects them for good.
pub(super) const REFUNDS: DemoRole = DemoRole {
    name: "refunds",
    event_type: Some(CANCELLED),
    answers: &[400],
    verb: "rejected",
    ends: "DeadLettered",
    deliveries: EVENTS / CANCELLED_EVERY,
};

impl DemoRole {
    pub(super) const ALL: [&Self; 2] = [&BILLING, &REFUNDS];

    /// The answers in words: `503, 503, 200`.
    pub(super) fn answers(&self, between: &str) -> String {
        let answers: Vec<String> = self.answers.iter().map(u16::to_string).collect();
        answers.join(between)
    }

    /// The body that creates the event subscription.
    pub(super) fn definition(&self, endpoint: &str) -> Value {
        let webhook = json!({ "endpointUrl": endpoint });
        let destination = json!({ "endpointType": "WebHook", "properties": webhook });
        let filter = match self.event_type {
            Some(event_type) => json!({ "includedEventTypes": [event_type] }),
            None => json!({}),
        };
        json!({ "properties": { "destination": destination, "filter": filter } })
    }
}

/// The running servers and clients of the demonstration.
pub(super) struct DemoStage {
    pub(super) server: RemoteServer,
    pub(super) receivers: Vec<(&'static DemoRole, WebhookReceiver)>,
    pub(super) clock: Clock,
    pub(super) data_dir: PathBuf,
    pub(super) time_scale: TimeScale,
    appliance: Appliance,
}

impl DemoStage {
    /// Starts the receivers and the appliance.
    pub(super) async fn start(config: Config) -> anyhow::Result<Self> {
        let mut receivers = Vec::new();
        for role in DemoRole::ALL {
            let answers = role.answers(" ").parse().expect("roles have valid answers");
            let receiver = WebhookReceiver::bind(ReceiverOptions {
                per_event: true,
                ..ReceiverOptions::scripted(answers)
            })
            .await
            .with_context(|| format!("the receiver of {}", role.name))?;
            receivers.push((role, receiver));
        }
        let (data_dir, time_scale) = (config.data_dir.clone(), config.time_scale);
        let appliance = Appliance::start(config, ProcessLog::default(), Vec::new())
            .await
            .context("the appliance does not start")?;
        let token =
            management_token::read(&data_dir).context("cannot read the management token")?;
        let access = ServerAccess::of_own(appliance.url(), token)?;
        Ok(Self {
            server: RemoteServer::new(access, Output::default())?,
            receivers,
            clock: Clock::system(),
            data_dir,
            time_scale,
            appliance,
        })
    }

    /// Returns the URL at which the appliance listens.
    pub(super) fn url(&self) -> &str {
        self.appliance.url()
    }

    /// Stops everything.
    pub(super) async fn stop(self) {
        self.appliance.stop().await;
        for (_, receiver) in self.receivers {
            receiver.stop().await;
        }
    }
}
