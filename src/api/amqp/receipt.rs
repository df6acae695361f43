//! Receipts report to the task of a link which of its messages were written.
//!
//! Messages that a client need not settle are removed once they are written. A message that was never written is handed
//! out again.

use std::collections::VecDeque;

use tokio::sync::mpsc;
use uuid::Uuid;

use crate::api::amqp::order::{FrameOrder, Turn};

/// Accompanies a message until it is written. Reports that the message was not written if dropped before.
#[derive(Debug)]
pub(super) struct Receipt {
    token: Uuid,
    /// The channel for the report; `None` once the report was sent.
    reports: Option<mpsc::UnboundedSender<WriteReport>>,
}

/// A report that a message was written, or will never be.
#[derive(Debug)]
pub(super) struct WriteReport {
    /// The token of the message's lock.
    pub(super) token: Uuid,
    /// The turn of the message's removal in the order of the connection; `None` if the message was not written.
    pub(super) written: Option<Turn>,
}

impl Receipt {
    pub(super) fn new(token: Uuid, reports: &mpsc::UnboundedSender<WriteReport>) -> Self {
        Self {
            token,
            reports: Some(reports.clone()),
        }
    }

    fn written(mut self, turn: &Turn) {
        self.report(Some(turn.clone()));
    }

    fn report(&mut self, written: Option<Turn>) {
        if let Some(reports) = self.reports.take() {
            // A send to an ended task fails; its locks have been given up.
            let _ = reports.send(WriteReport {
                token: self.token,
                written,
            });
        }
    }
}

/// The receipts of messages that are being written, each with the position in the output where its message ends.
#[derive(Debug)]
pub(super) struct Unwritten {
    receipts: VecDeque<(usize, Receipt)>,
    /// Bytes of the output that were written.
    written: usize,
    /// The turn is taken before the client can receive the messages, so that later requests of the client wait until
    /// the messages are removed.
    turn: Turn,
}

impl Unwritten {
    /// Makes the list of unwritten messages; `None` if `receipts` is empty.
    pub(super) fn new(receipts: VecDeque<(usize, Receipt)>, order: &FrameOrder) -> Option<Self> {
        (!receipts.is_empty()).then(|| Self {
            receipts,
            written: 0,
            turn: order.turn(),
        })
    }

    /// Notes that `bytes` more bytes were written, but perhaps not flushed.
    pub(super) fn wrote(&mut self, bytes: usize) {
        self.written += bytes;
    }

    /// Reports all written messages after a flush. Returns the receipts of the others, if there are any.
    pub(super) fn flushed(mut self) -> Option<Self> {
        while let Some((_, receipt)) = self.receipts.pop_front_if(|(end, _)| *end <= self.written) {
            receipt.written(&self.turn);
        }
        (!self.receipts.is_empty()).then_some(self)
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        self.report(None);
    }
}
