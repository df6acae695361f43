//! The newest requests of a receiver, within bounds, and a way to wait for more.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use crate::app::receive::request::ReceivedRequest;

/// Maximum number of requests that are kept.
const REQUESTS_MAX: usize = 10_000;

/// Maximum number of bytes that the bodies of the kept requests have together.
const BYTES_MAX: usize = 64 * 1_024 * 1_024;

/// The newest requests.
#[derive(Debug)]
pub(super) struct RequestLog {
    kept: Mutex<Kept>,
    /// The number of the newest request.
    newest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Kept {
    requests: VecDeque<Arc<ReceivedRequest>>,
    bytes: usize,
    newest: u64,
}

impl RequestLog {
    pub(super) fn new() -> Self {
        Self {
            kept: Mutex::default(),
            newest: watch::Sender::new(0),
        }
    }

    /// Numbers the request and keeps it.
    pub(super) fn push(&self, mut request: ReceivedRequest) {
        let mut kept = self.kept.lock().unwrap();
        kept.newest += 1;
        request.number = kept.newest;
        kept.bytes += request.body.len();
        kept.requests.push_back(Arc::new(request));
        kept.trim();
        self.newest.send_replace(kept.newest);
    }

    /// The kept requests with numbers above `number`, oldest first.
    pub(super) fn after(&self, number: u64) -> Vec<Arc<ReceivedRequest>> {
        let kept = self.kept.lock().unwrap();
        let newer = kept.requests.iter().filter(|each| each.number > number);
        newer.cloned().collect()
    }

    /// Waits until a request with a number above `number` has come.
    pub(super) async fn grown_past(&self, number: u64) {
        let mut newest = self.newest.subscribe();
        let grown = newest.wait_for(|newest| *newest > number).await;
        grown.expect("the log outlives those who wait on it");
    }
}

impl Kept {
    /// Forgets the oldest requests past the bounds, but never the newest.
    fn trim(&mut self) {
        while self.requests.len() > 1
            && (self.requests.len() > REQUESTS_MAX || self.bytes > BYTES_MAX)
            && let Some(forgotten) = self.requests.pop_front()
        {
            self.bytes -= forgotten.body.len();
        }
    }
}
