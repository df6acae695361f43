//! Publishers of single events of about a kilobyte, whose types take turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::{Client, StatusCode};
use serde_json::json;
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
    /// How many events were accepted whose type is not `Order.0`.
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
                let mut others = 0;
                loop {
                    let number = turn.fetch_add(1, Ordering::Relaxed);
                    let due = per_second.map_or(0.0, |rate| number as f64 / rate);
                    let due = began + Duration::from_secs_f64(due);
                    if began.elapsed() >= lasting || due >= began + lasting {
                        return others;
                    }
                    tokio::time::sleep_until(due.into()).await;
                    load.publish_one(&client, number).await;
                    others += usize::from(number % load.types != 0);
                }
            });
        }
        let others = publishers.join_all().await.into_iter().sum();
        Published { began, others }
    }

    async fn publish_one(&self, client: &Client, number: u64) {
        let body = json!([{
            "id": number.to_string(),
            "subject": format!("/orders/{number}"),
            "eventType": format!("Order.{}", number % self.types),
            "eventTime": "2026-11-21T06:40:53Z",
            "dataVersion": "1",
            "data": {"at": now_us(), "pad": "x".repeat(PAD_BYTES)},
        }]);
        let body = body.to_string();
        let request = client.post(&self.url).header("aeg-sas-key", &self.key);
        let answer = request.body(body).send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::OK, "a sound event is accepted");
    }
}
