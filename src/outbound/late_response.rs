//! Answers that come after their deadline: whoever wants them leaves an inbox with the request, and the
//! exchange leaves there what it was still listening to (rule 7.2).

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use crate::base::Clock;
use crate::model::delivery::AttemptResult;
use crate::outbound::transport::TransportResponse;
use crate::outbound::webhook::attempt_result;

/// Where a conversation is left that outlasts its deadline. Clones share what is in it.
#[derive(Clone, Default)]
pub struct LateResponseSlot(Arc<Mutex<Option<PendingResponse>>>);

impl LateResponseSlot {
    /// Leaves a conversation.
    pub fn put(&self, late: PendingResponse) {
        *self.0.lock().unwrap() = Some(late);
    }

    /// Takes the conversation out, if one was left.
    pub(super) fn take(&self) -> Option<PendingResponse> {
        self.0.lock().unwrap().take()
    }
}

/// A conversation that may still bring an answer. Dropping it closes the connection.
pub struct PendingResponse(Pin<Box<dyn Future<Output = Option<TransportResponse>> + Send>>);

impl PendingResponse {
    /// `response` ends by itself, with `None` when nobody listens any longer.
    pub fn new(response: impl Future<Output = Option<TransportResponse>> + Send + 'static) -> Self {
        Self(Box::pin(response))
    }

    pub(super) async fn response(self) -> Option<TransportResponse> {
        self.0.await
    }
}

/// What one attempt brought back.
pub struct SendResult {
    pub result: AttemptResult,
    /// After a time-out: what may still come.
    pub late: Option<LateResponseWait>,
}

/// The late answer to an attempt, which may never come. Dropping it closes the connection.
pub struct LateResponseWait {
    pub(super) transport: PendingResponse,
    pub(super) clock: Clock,
}

impl LateResponseWait {
    /// Waits for it, as long as there is any point.
    pub async fn result(self) -> Option<AttemptResult> {
        let response = self.transport.response().await?;
        Some(attempt_result(response, self.clock.now()))
    }
}
