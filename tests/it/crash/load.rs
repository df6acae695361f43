//! Publishers that never stop for long: when the appliance is gone, they wait until it is back.

use everpost::base::Entropy;
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::appliance::{Appliance, client};
use super::ledger::Ledger;
use super::receiver::Receiver;
use super::up_to;

pub(super) const TOPIC: &str = "orders";

/// Two, so that an event and its deliveries are kept together or not at all.
pub(super) const SUBSCRIPTIONS: [&str; 2] = ["billing", "shipping"];

/// Enough to have several requests in one commit, and some unanswered at every kill.
const PUBLISHERS: u64 = 8;

const EVENTS_PER_REQUEST_MAX: u64 = 4;
const TEXT_BYTES_MAX: u64 = 2_000;

/// The publishers, and where they are told to publish.
pub(super) struct Load {
    publishers: JoinSet<()>,
    url: watch::Sender<Option<String>>,
    stop: CancellationToken,
}

impl Load {
    /// Creates topic and event subscriptions and begins to publish.
    pub(super) async fn start(
        appliance: &Appliance,
        receiver: &Receiver,
        ledger: &Ledger,
        dice: &Entropy,
    ) -> Self {
        let key = create_topic(appliance).await;
        for name in SUBSCRIPTIONS {
            subscribe(appliance, name, &receiver.url()).await;
        }
        let (url, urls) = watch::channel(Some(appliance.url.clone()));
        let stop = CancellationToken::new();
        let mut publishers = JoinSet::new();
        for number in 0..PUBLISHERS {
            let publisher = Publisher {
                number,
                client: client(),
                key: key.clone(),
                ledger: ledger.clone(),
                dice: Entropy::seeded(up_to(dice, u64::MAX)),
            };
            publishers.spawn(publisher.publish_until(stop.clone(), urls.clone()));
        }
        Self {
            publishers,
            url,
            stop,
        }
    }

    /// Tells the publishers where the appliance is now.
    pub(super) fn point_at(&self, appliance: Option<&Appliance>) {
        self.url
            .send_replace(appliance.map(|appliance| appliance.url.clone()));
    }

    /// Ends the load once the requests that are under way are answered.
    pub(super) async fn stop(mut self) {
        self.stop.cancel();
        while let Some(publisher) = self.publishers.join_next().await {
            publisher.expect("a publisher without a failed check");
        }
    }
}

async fn create_topic(appliance: &Appliance) -> String {
    let path = format!("/topics/{TOPIC}");
    let topic = json!({"location": "local", "properties": {}});
    appliance.manage(Method::PUT, &path, Some(&topic)).await;
    let keys = appliance
        .manage(Method::POST, &format!("{path}/listKeys"), None)
        .await;
    keys["key1"].as_str().expect("a key").to_owned()
}

async fn subscribe(appliance: &Appliance, name: &str, webhook: &str) {
    let path = format!("/topics/{TOPIC}/eventSubscriptions/{name}");
    let destination = json!({"endpointType": "WebHook", "properties": {"endpointUrl": webhook}});
    let subscription = json!({"properties": {"destination": destination}});
    let created = appliance
        .manage(Method::PUT, &path, Some(&subscription))
        .await;
    assert_eq!(
        created["properties"]["provisioningState"], "Succeeded",
        "{created}"
    );
}

struct Publisher {
    number: u64,
    client: Client,
    key: String,
    ledger: Ledger,
    dice: Entropy,
}

impl Publisher {
    async fn publish_until(
        self,
        stop: CancellationToken,
        mut urls: watch::Receiver<Option<String>>,
    ) {
        for request in 0.. {
            if stop.is_cancelled() {
                return;
            }
            let url = urls.borrow_and_update().clone();
            let reached = match url {
                Some(url) => self.publish(&url, request).await,
                None => false,
            };
            if !reached {
                stop.run_until_cancelled(urls.changed()).await;
            }
        }
    }

    /// Sends one request of new events; whether there was anybody to send it to.
    async fn publish(&self, url: &str, request: u64) -> bool {
        let events = self.events(request);
        let body = Value::from(events.clone()).to_string();
        let number = self.ledger.send(&events);
        let sending = self.client.post(format!("{url}/topics/{TOPIC}/api/events"));
        let Ok(answer) = sending
            .header("aeg-sas-key", &self.key)
            .body(body)
            .send()
            .await
        else {
            return false;
        };
        match answer.status() {
            StatusCode::OK => self.ledger.acknowledge(number),
            // Honest: nothing was taken.
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {}
            status => panic!("a sound request is answered {status}"),
        }
        true
    }

    fn events(&self, request: u64) -> Vec<Value> {
        let count = 1 + up_to(&self.dice, EVENTS_PER_REQUEST_MAX);
        (0..count)
            .map(|position| self.event(request, position))
            .collect()
    }

    fn event(&self, request: u64, position: u64) -> Value {
        let text = "é".repeat(up_to(&self.dice, TEXT_BYTES_MAX / 2) as usize);
        json!({
            "id": format!("{}-{request}-{position}", self.number),
            "subject": format!("/orders/{request}"),
            "eventType": "Order.Paid",
            "eventTime": "2026-11-21T06:40:53.1234567Z",
            "dataVersion": "1",
            "data": {"total": 12.50, "lines": [position, null, true], "text": text},
        })
    }
}
