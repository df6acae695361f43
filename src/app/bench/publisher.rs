//! Connections that publish, one request at a time each.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::app::bench::BenchPlan;
use crate::app::bench::records::{Records, micros};

/// The maximum time for a response. After it the events of the request count as rejected.
const ANSWER_DEADLINE: Duration = Duration::from_secs(60);

/// The pause before reconnecting after a connection failed.
const PAUSE: Duration = Duration::from_millis(100);

/// The maximum number of characters of a response that the report quotes.
const QUOTED_MAX: usize = 200;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-client-request-id");

/// Where to publish.
#[derive(Clone, Debug)]
pub struct PublishTarget {
    /// `host:port`.
    pub authority: String,
    pub path: String,
    /// The headers of every request, including the topic's access key.
    pub headers: HeaderMap,
}

/// Publishes the events of the plan. Returns when all events are published or the duration has passed.
pub async fn publish(plan: &BenchPlan, target: &PublishTarget, records: &Arc<Records>) {
    let next = Arc::new(AtomicU64::new(0));
    let mut connections = JoinSet::new();
    for _ in 0..plan.connections {
        let publisher = Publisher {
            plan: plan.clone(),
            target: target.clone(),
            records: Arc::clone(records),
            padding: "x".repeat(plan.payload_bytes),
            next: Arc::clone(&next),
            connection: None,
        };
        connections.spawn(publisher.run());
    }
    connections.join_all().await;
}

struct Publisher {
    plan: BenchPlan,
    target: PublishTarget,
    records: Arc<Records>,
    padding: String,
    /// The first event of the next request. All connections share the counter.
    next: Arc<AtomicU64>,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl Publisher {
    async fn run(mut self) {
        let together = self.plan.events_per_request;
        loop {
            let first = self.next.fetch_add(together, Ordering::Relaxed);
            let events = first..(first + together).min(self.plan.events);
            if events.is_empty() || !self.plan.goes_on(self.records.began()) {
                return;
            }
            let due_us = self.wait_until_due(first).await;
            let count = events.end - events.start;
            let sent = tokio::time::timeout(ANSWER_DEADLINE, self.send(events.clone()));
            match sent.await {
                Ok(Ok(())) => self.records.accept(events, due_us),
                Ok(Err(reason)) => self.records.reject(count, || reason),
                Err(_) => {
                    self.connection = None;
                    self.records
                        .reject(count, || format!("no answer within {ANSWER_DEADLINE:?}"));
                }
            }
        }
    }

    /// Waits until the request is due and returns its due time in microseconds. Latency is measured from the due time,
    /// so that a stalled server that delays the next requests does not hide its latency.
    async fn wait_until_due(&self, first: u64) -> u64 {
        let Some(due) = self.plan.due(first) else {
            return self.records.now_us();
        };
        tokio::time::sleep(due.saturating_sub(self.records.began().took())).await;
        micros(due)
    }

    async fn send(&mut self, events: std::ops::Range<u64>) -> Result<(), String> {
        let request = self.request(events);
        let connection = self.connected().await?;
        let answer = connection.send_request(request).await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return Err(self.lost(&error).await),
        };
        let status = answer.status();
        let body = match answer.into_body().collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return Err(self.lost(&error).await),
        };
        match status {
            StatusCode::OK => Ok(()),
            status => Err(quoted(status, &body)),
        }
    }

    async fn connected(&mut self) -> Result<&mut SendRequest<Full<Bytes>>, String> {
        let is_open = match &mut self.connection {
            Some(connection) => connection.ready().await.is_ok(),
            None => false,
        };
        if !is_open {
            let connection = match connect(&self.target.authority).await {
                Ok(connection) => connection,
                Err(error) => return Err(self.lost(&*error).await),
            };
            self.connection = Some(connection);
        }
        Ok(self.connection.as_mut().expect("just connected"))
    }

    async fn lost(&mut self, error: &(dyn std::error::Error + Sync)) -> String {
        self.connection = None;
        tokio::time::sleep(PAUSE).await;
        error.to_string()
    }

    fn request(&self, events: std::ops::Range<u64>) -> Request<Full<Bytes>> {
        let first = events.start;
        let body = body(events, self.records.now_us(), &self.padding);
        let mut request = Request::post(&self.target.path)
            .body(Full::from(body))
            .expect("the path is valid");
        *request.headers_mut() = self.target.headers.clone();
        if self.plan.has_request_ids {
            let id = uuid::Uuid::from_u64_pair(self.records.now_us(), first).to_string();
            let id = HeaderValue::try_from(id).expect("plain characters");
            request.headers_mut().insert(REQUEST_ID, id);
        }
        request
    }
}

async fn connect(
    authority: &str,
) -> Result<SendRequest<Full<Bytes>>, Box<dyn std::error::Error + Send + Sync>> {
    let stream = TcpStream::connect(authority).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

fn quoted(status: StatusCode, body: &Bytes) -> String {
    let text: String = String::from_utf8_lossy(body)
        .chars()
        .take(QUOTED_MAX)
        .collect();
    format!("{status} {text}")
}

/// Returns a JSON array of events in the Event Grid schema. The receiver reads the number and the time from them.
fn body(events: std::ops::Range<u64>, now_us: u64, padding: &str) -> String {
    let mut body = "[".to_owned();
    let first = events.start;
    for number in events {
        let comma = if number == first { "" } else { "," };
        write!(
            body,
            r#"{comma}{{"id":"{number}","subject":"/bench/{number}","eventType":"Everpost.Bench","eventTime":"2026-01-01T00:00:00Z","dataVersion":"1","data":{{"sentUs":{now_us},"padding":"{padding}"}}}}"#
        )
        .expect("strings grow");
    }
    body.push(']');
    body
}
