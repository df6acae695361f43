//! Answers that come after their deadline: whoever wants them leaves an inbox with the request, and the
//! exchange leaves there what it was still listening to (spec 7.2).

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use crate::base::Clock;
use crate::model::delivery::Answer;
use crate::outbound::exchange::ExchangeAnswer;
use crate::outbound::webhook::answered;

/// Where a conversation is left that outlasts its deadline. Clones share what is in it.
#[derive(Clone, Default)]
pub struct LateInbox(Arc<Mutex<Option<LateExchange>>>);

impl LateInbox {
    /// Leaves a conversation.
    pub fn put(&self, late: LateExchange) {
        *self.0.lock().unwrap() = Some(late);
    }

    /// Takes the conversation out, if one was left.
    pub(super) fn take(&self) -> Option<LateExchange> {
        self.0.lock().unwrap().take()
    }
}

/// A conversation that may still bring an answer. Dropping it closes the connection.
pub struct LateExchange(Pin<Box<dyn Future<Output = Option<ExchangeAnswer>> + Send>>);

impl LateExchange {
    /// `answer` ends by itself, with `None` when nobody listens any longer.
    pub fn new(answer: impl Future<Output = Option<ExchangeAnswer>> + Send + 'static) -> Self {
        Self(Box::pin(answer))
    }

    pub(super) async fn answer(self) -> Option<ExchangeAnswer> {
        self.0.await
    }
}

/// What one attempt brought back.
pub struct Heard {
    pub answer: Answer,
    /// After a time-out: what may still come.
    pub late: Option<Listening>,
}

/// The late answer to an attempt, which may never come. Dropping it closes the connection.
pub struct Listening {
    pub(super) exchange: LateExchange,
    pub(super) clock: Clock,
}

impl Listening {
    /// Waits for it, as long as there is any point.
    pub async fn answer(self) -> Option<Answer> {
        let answer = self.exchange.answer().await?;
        Some(answered(answer, self.clock.now()))
    }
}
