//! Receipts tell the task of a link which of its messages were written.
//!
//! Messages that a client need not settle are removed once they are written, and handed out again if they never were.

use std::collections::VecDeque;

use tokio::sync::mpsc;
use uuid::Uuid;

use crate::api::amqp::order::{FrameOrder, Turn};

/// Goes along with a message until it is written. Dropped before, it reports that the message was not.
#[derive(Debug)]
pub(super) struct Receipt {
    token: Uuid,
    /// `None` once it has reported.
    reports: Option<mpsc::UnboundedSender<WriteReport>>,
}

/// A message was written, or never will be.
#[derive(Debug)]
pub(super) struct WriteReport {
    /// The token of the message's lock.
    pub(super) token: Uuid,
    /// The place of its removal in the order of the connection; `None` if it was not written.
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
            // A task that is gone has given up its locks.
            let _ = reports.send(WriteReport {
                token: self.token,
                written,
            });
        }
    }
}

/// The receipts of messages that are being written, by the bytes of output that each ends with.
#[derive(Debug)]
pub(super) struct Unwritten {
    receipts: VecDeque<(usize, Receipt)>,
    /// Bytes of the output that were written.
    written: usize,
    /// Taken before the client can have the messages: what it asks then waits until they are removed.
    turn: Turn,
}

impl Unwritten {
    /// Returns `None` without receipts.
    pub(super) fn new(receipts: VecDeque<(usize, Receipt)>, order: &FrameOrder) -> Option<Self> {
        (!receipts.is_empty()).then(|| Self {
            receipts,
            written: 0,
            turn: order.turn(),
        })
    }

    /// Notes that so many more bytes were written. They may wait for a flush.
    pub(super) fn wrote(&mut self, bytes: usize) {
        self.written += bytes;
    }

    /// Reports the messages that were written, after a flush. Returns what is left.
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
