//! The world around a grid: receivers that follow a script, and remember what they were asked.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::http::HeaderMap;
use tokio::sync::oneshot;

use everpost::outbound::PendingResponse;
use everpost::outbound::egress::EgressPolicy;
use everpost::outbound::transport::{
    Responder, TransportError, TransportRequest, TransportResponse,
};

/// What the receivers answer, by the host of their URL, and what they were asked.
#[derive(Default)]
pub(super) struct World {
    pub(super) scripts: Mutex<HashMap<String, Vec<Reply>>>,
    pub(super) heard: Mutex<Vec<TransportRequest>>,
    /// Where requests wait for their late answers, by host.
    pub(super) late: Mutex<HashMap<String, Vec<oneshot::Sender<TransportResponse>>>>,
}

/// One scripted answer.
#[derive(Clone)]
pub(super) enum Reply {
    Answer {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: String,
    },
    TimedOut,
    /// Nothing in time; the test may answer later (see [`Grid::answer_late`]).
    Late,
    Rejected,
    /// The host has no address.
    Unknown,
    /// Too many other hosts are being looked up.
    NoPlace,
    Denied,
    /// A success whose body is made of the request.
    Echo {
        headers: Vec<(&'static str, String)>,
        body: Arc<dyn Fn(&TransportRequest) -> String + Send + Sync>,
    },
    /// A defect of the appliance.
    Panic,
}

impl Reply {
    /// `503`, `503/30` (with `Retry-After: 30`), `timeout`, `late`, `rejected`, `unknown`, `crowded`,
    /// `denied` or `panic`.
    pub(super) fn parse(word: &str) -> Self {
        match (word, word.split_once('/')) {
            ("timeout", _) => Self::TimedOut,
            ("late", _) => Self::Late,
            ("rejected", _) => Self::Rejected,
            ("unknown", _) => Self::Unknown,
            ("crowded", _) => Self::NoPlace,
            ("denied", _) => Self::Denied,
            ("panic", _) => Self::Panic,
            (_, Some((status, seconds))) => Self::Answer {
                status: status.parse().expect("a status"),
                headers: vec![("retry-after", seconds.to_owned())],
                body: String::new(),
            },
            (status, None) => Self::Answer {
                status: status.parse().expect("a status"),
                headers: Vec::new(),
                body: String::new(),
            },
        }
    }
}

impl World {
    fn next_reply(&self, host: &str) -> Reply {
        let mut scripts = self.scripts.lock().unwrap();
        let script = scripts
            .get_mut(host)
            .unwrap_or_else(|| panic!("no script for {host}"));
        if script.len() > 1 {
            script.remove(0)
        } else {
            script[0].clone()
        }
    }
}

#[async_trait::async_trait]
impl Responder for World {
    /// The next reply of the host's script; the last one repeats.
    async fn respond(
        &self,
        request: &TransportRequest,
    ) -> Result<TransportResponse, TransportError> {
        self.heard.lock().unwrap().push(request.clone());
        let host = request.url.host_str().unwrap_or_default();
        match self.next_reply(host) {
            Reply::Panic => panic!("as the script says"),
            Reply::TimedOut => Err(TransportError::TimedOut),
            Reply::Denied => {
                let loopback = EgressPolicy::default().check_address([127, 0, 0, 1].into());
                Err(TransportError::Denied(
                    loopback.expect_err("it is not allowed"),
                ))
            }
            Reply::Late => {
                let mut late = self.late.lock().unwrap();
                late.entry(host.to_owned()).or_default();
                Err(TransportError::TimedOut)
            }
            Reply::Rejected => Err(TransportError::Socket("connection refused".to_owned())),
            Reply::Unknown => Err(TransportError::Resolution("no such host".to_owned())),
            Reply::NoPlace => Err(TransportError::NoPlace),
            Reply::Answer {
                status,
                headers,
                body,
            } => Ok(full(status, headers, body)),
            Reply::Echo { headers, body } => Ok(full(200, headers, body(request))),
        }
    }

    fn late_response(&self, request: &TransportRequest) -> Option<PendingResponse> {
        let mut late = self.late.lock().unwrap();
        let waiting = late.get_mut(request.url.host_str()?)?;
        let (tell, told) = oneshot::channel();
        waiting.push(tell);
        Some(PendingResponse::new(async { told.await.ok() }))
    }
}

/// What a receiver says, headers and body included.
pub(super) fn full(
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
) -> TransportResponse {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(name, value.parse().expect("a header"));
    }
    TransportResponse {
        headers: map,
        body: body.into_bytes(),
        remote_address: Some(SocketAddr::from(([127, 0, 0, 1], 9_000))),
        ..plain(status)
    }
}

/// What a receiver says in so many words.
pub(super) fn plain(status: u16) -> TransportResponse {
    TransportResponse {
        status,
        headers: HeaderMap::new(),
        body: Vec::new(),
        remote_address: None,
    }
}
