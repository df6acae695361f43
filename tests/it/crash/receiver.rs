//! A webhook on loopback that counts what it is sent, and by which life of the appliance.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

use super::PATIENCE;
use super::load::SUBSCRIPTIONS;

/// One event on its way to one subscription.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Addressed {
    pub(super) subscription: String,
    pub(super) event: String,
}

/// What arrived for one address and was accepted.
#[derive(Clone)]
pub(super) struct Delivered {
    pub(super) event: Value,
    /// Whether a later arrival differed from the first.
    pub(super) changed: bool,
    /// During which lives it arrived; life 0 ends with the first kill.
    pub(super) lives: Vec<u32>,
}

/// The webhook. It rejects some deliveries once, so that retries are pending at every kill.
pub(super) struct Receiver {
    address: SocketAddr,
    book: Arc<watch::Sender<Book>>,
    connections: Arc<watch::Sender<usize>>,
}

#[derive(Default)]
struct Book {
    life: u32,
    delivered: HashMap<Addressed, Delivered>,
    rejected: HashSet<Addressed>,
}

impl Receiver {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let receiver = Self {
            address: listener.local_addr().expect("an address"),
            book: Arc::default(),
            connections: Arc::default(),
        };
        let (book, connections) = (receiver.book.clone(), receiver.connections.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.send_modify(|open| *open += 1);
                tokio::spawn(serve(stream, book.clone(), connections.clone()));
            }
        });
        receiver
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/events", self.address)
    }

    /// Waits until everything that the killed process sent has been seen, then counts a new life.
    pub(super) async fn begin_next_life(&self) {
        // Connections are accepted in order: once this one is hung up on, no earlier one is waiting.
        let mut mark = TcpStream::connect(self.address)
            .await
            .expect("the receiver listens");
        mark.shutdown().await.expect("half a connection");
        let rest = mark.read(&mut [0]).await.expect("the other half ends");
        assert_eq!(rest, 0, "nobody asked the receiver anything");
        let mut open = self.connections.subscribe();
        let quiet = timeout(PATIENCE, open.wait_for(|open| *open == 0)).await;
        assert!(quiet.is_ok(), "connections end with the process");
        self.book.send_modify(|book| book.life += 1);
    }

    /// Waits until each of the events has arrived for every subscription.
    pub(super) async fn wait_for(&self, events: &HashSet<String>) {
        let mut missing = addresses(events);
        let mut book = self.book.subscribe();
        let arrival = book.wait_for(|book| {
            missing.retain(|to| !book.delivered.contains_key(to));
            missing.is_empty()
        });
        if timeout(PATIENCE, arrival).await.is_err() {
            panic!(
                "{} deliveries are missing, such as {:?}",
                missing.len(),
                missing.first()
            );
        }
    }

    pub(super) fn deliveries(&self) -> HashMap<Addressed, Delivered> {
        self.book.borrow().delivered.clone()
    }
}

fn addresses(events: &HashSet<String>) -> Vec<Addressed> {
    let addressed = |event: &String| {
        SUBSCRIPTIONS.map(|subscription| Addressed {
            subscription: subscription.to_owned(),
            event: event.clone(),
        })
    };
    events.iter().flat_map(addressed).collect()
}

async fn serve(stream: TcpStream, book: Arc<watch::Sender<Book>>, open: Arc<watch::Sender<usize>>) {
    let service = service_fn(|request| answer(request, &book));
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // A connection that breaks is a kill and no failure.
    connection.await.ok();
    open.send_modify(|open| *open -= 1);
}

async fn answer(
    request: Request<Incoming>,
    book: &watch::Sender<Book>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let header = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
    let kind = header("aeg-event-type").unwrap_or_default().to_owned();
    let subscription = header("aeg-subscription-name")
        .unwrap_or_default()
        .to_lowercase();
    let Ok(body) = body.collect().await else {
        return Ok(reply(StatusCode::BAD_REQUEST, String::new()));
    };
    let events: Vec<Value> = serde_json::from_slice(&body.to_bytes()).expect("an array");
    if kind == "SubscriptionValidation" {
        let proof = json!({"validationResponse": events[0]["data"]["validationCode"]});
        return Ok(reply(StatusCode::OK, proof.to_string()));
    }
    let mut status = StatusCode::OK;
    book.send_modify(|book| {
        if !events
            .iter()
            .all(|event| book.accepts(&subscription, event))
        {
            status = StatusCode::INTERNAL_SERVER_ERROR;
        }
    });
    Ok(reply(status, String::new()))
}

impl Book {
    /// Notes an arrival, or rejects it. A few are rejected when they come first.
    fn accepts(&mut self, subscription: &str, event: &Value) -> bool {
        let to = Addressed {
            subscription: subscription.to_owned(),
            event: event["id"].as_str().unwrap_or_default().to_owned(),
        };
        if to.event.ends_with("7-0") && self.rejected.insert(to.clone()) {
            return false;
        }
        let life = self.life;
        let first = Delivered {
            event: event.clone(),
            changed: false,
            lives: Vec::new(),
        };
        let delivered = self.delivered.entry(to).or_insert(first);
        delivered.changed |= delivered.event != *event;
        delivered.lives.push(life);
        true
    }
}

fn reply(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response
}
