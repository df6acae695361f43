//! Late responses: the caller passes a slot with the request. After the deadline the transport stores the pending
//! response in the slot (rule 7.2).

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use crate::base::Clock;
use crate::model::delivery::AttemptResult;
use crate::outbound::transport::TransportResponse;
use crate::outbound::webhook::attempt_result;

/// A slot for a pending response. Clones of a slot share the response.
#[derive(Clone, Default)]
pub struct LateResponseSlot(Arc<Mutex<Option<PendingResponse>>>);

impl LateResponseSlot {
    /// Stores a pending response.
    pub fn put(&self, late: PendingResponse) {
        *self.0.lock().unwrap() = Some(late);
    }

    /// Takes the pending response, if there is one.
    pub(super) fn take(&self) -> Option<PendingResponse> {
        self.0.lock().unwrap().take()
    }
}

/// A response that may still arrive. Dropping the pending response closes the connection.
pub struct PendingResponse(Pin<Box<dyn Future<Output = Option<TransportResponse>> + Send>>);

impl PendingResponse {
    /// Wraps a future that must complete on its own. The future returns `None` if no response arrived in time.
    pub fn new(response: impl Future<Output = Option<TransportResponse>> + Send + 'static) -> Self {
        Self(Box::pin(response))
    }

    pub(super) async fn response(self) -> Option<TransportResponse> {
        self.0.await
    }
}

/// The result of one attempt.
pub struct SendResult {
    pub result: AttemptResult,
    /// The response that may still arrive after a time-out.
    pub late: Option<LateResponseWait>,
}

/// A wait for the late response to an attempt. The response may never arrive. Dropping the wait closes the connection.
pub struct LateResponseWait {
    pub(super) transport: PendingResponse,
    pub(super) clock: Clock,
}

impl LateResponseWait {
    /// Waits for the late response. Returns `None` if it did not come in time.
    pub async fn result(self) -> Option<AttemptResult> {
        let response = self.transport.response().await?;
        Some(attempt_result(response, self.clock.now()))
    }
}
