//! Publishers of single events of about a kilobyte, whose types take turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::sink::now_us;

/// Enough to keep both sides busy, and few enough to be answered within milliseconds.
const PUBLISHERS: u64 = 32;

const PAD_BYTES: usize = 880;

/// How to publish.
#[derive(Clone)]
pub(crate) struct Load {
    /// Where to.
    pub(crate) url: String,
    pub(crate) key: String,
    /// The types of events, from `Order.0` on.
    pub(crate) types: u64,
}

/// What was published.
pub(crate) struct Published {
    pub(crate) began: Instant,
    /// How many events were accepted.
    pub(crate) events: usize,
    /// How many of them have another type than `Order.0`.
    pub(crate) others: usize,
}

impl Load {
    /// Publishes for a while: as fast as answers come, or at so many events a second.
    pub(crate) async fn publish(&self, lasting: Duration, per_second: Option<f64>) -> Published {
        let began = Instant::now();
        let turn = Arc::new(AtomicU64::new(0));
        let client = Client::builder().no_proxy().build().expect("a client");
        let mut publishers = JoinSet::new();
        for _ in 0..PUBLISHERS {
            let (load, turn, client) = (self.clone(), turn.clone(), client.clone());
            publishers.spawn(async move {
                let (mut events, mut others) = (0, 0);
                loop {
                    let number = turn.fetch_add(1, Ordering::Relaxed);
                    let due = per_second.map_or(0.0, |rate| number as f64 / rate);
                    let due = began + Duration::from_secs_f64(due);
                    if began.elapsed() >= lasting || due >= began + lasting {
                        return (events, others);
                    }
                    tokio::time::sleep_until(due.into()).await;
                    load.publish_one(&client, number).await;
                    events += 1;
                    others += usize::from(number % load.types != 0);
                }
            });
        }
        let counts = publishers.join_all().await;
        Published {
            began,
            events: counts.iter().map(|(events, _)| events).sum(),
            others: counts.iter().map(|(_, others)| others).sum(),
        }
    }

    /// Publishes so many events, several in one request, as fast as answers come. Returns how many.
    pub(crate) async fn publish_together(&self, events: usize, together: usize) -> usize {
        let requests = events.div_ceil(together);
        let turn = Arc::new(AtomicUsize::new(0));
        let client = Client::builder().no_proxy().build().expect("a client");
        let mut publishers = JoinSet::new();
        for _ in 0..PUBLISHERS {
            let (load, turn, client) = (self.clone(), turn.clone(), client.clone());
            publishers.spawn(async move {
                while turn.fetch_add(1, Ordering::Relaxed) < requests {
                    let each = (0..together as u64).map(|number| load.event(number));
                    load.send(&client, &each.collect()).await;
                }
            });
        }
        publishers.join_all().await;
        requests * together
    }

    async fn publish_one(&self, client: &Client, number: u64) {
        self.send(client, &json!([self.event(number)])).await;
    }

    fn event(&self, number: u64) -> Value {
        json!({
            "id": number.to_string(),
            "subject": format!("/orders/{number}"),
            "eventType": format!("Order.{}", number % self.types),
            "eventTime": "2026-11-21T06:40:53Z",
            "dataVersion": "1",
            "data": {"at": now_us(), "pad": "x".repeat(PAD_BYTES)},
        })
    }

    async fn send(&self, client: &Client, events: &Value) {
        let body = events.to_string();
        let request = client.post(&self.url).header("aeg-sas-key", &self.key);
        let answer = request.body(body).send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK, "a sound event is accepted");
    }
}
