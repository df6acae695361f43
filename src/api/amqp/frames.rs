//! The state that the parts of a connection share: its output, its events, and the counts that are limited.

use std::collections::VecDeque;

use crate::api::amqp::event::{ConnectionEvent, LinkId};
use crate::api::amqp::limits::{CONNECTION_BYTES, FRAME_BYTES_MIN, UNFINISHED_DEADLINE};
use crate::api::amqp::receipt::Receipt;
use crate::base::Timestamp;
use crate::base::budget::{MemoryAccount, TakenBytes};
use crate::wire::amqp::frame::{FrameKind, write_frame};
use crate::wire::amqp::performative::Performative;

/// The state that the sessions of a connection share.
#[derive(Debug)]
pub(super) struct Frames {
    pub(super) output: Vec<u8>,
    /// The receipts of messages in the output, each with the position in the output where its message ends.
    pub(super) receipts: VecDeque<(usize, Receipt)>,
    pub(super) events: VecDeque<ConnectionEvent>,
    /// Bytes of a frame that the peer takes.
    pub(super) size_max: usize,
    /// Counts all that is kept for the peer.
    pub(super) account: MemoryAccount,
    /// The bytes that the connection itself counts for.
    own: TakenBytes,
    /// The bytes of messages that the peer has granted credit but no window for.
    pub(super) blocked: TakenBytes,
    /// When a message may have taken too long to be whole.
    pub(super) partial_deadline: Option<Timestamp>,
    pub(super) links: usize,
    /// Deliveries that were looked at since others had their turn, with what links count for among them.
    pub(super) steps: usize,
    next_link: LinkId,
}

impl Frames {
    pub(super) fn new(account: MemoryAccount) -> Self {
        let mut own = account.nothing();
        own.add_anyway(CONNECTION_BYTES);
        Self {
            output: Vec::new(),
            receipts: VecDeque::new(),
            events: VecDeque::new(),
            size_max: FRAME_BYTES_MIN as usize,
            own,
            blocked: account.nothing(),
            account,
            partial_deadline: None,
            links: 0,
            steps: 0,
            next_link: 0,
        }
    }

    /// Counts for `account` from now on.
    pub(super) fn move_to(&mut self, account: &MemoryAccount) {
        self.own.move_to(account);
        self.blocked.move_to(account);
        self.account = account.clone();
    }

    /// A message has begun.
    pub(super) fn note_partial(&mut self, now: Timestamp) {
        let deadline = now + UNFINISHED_DEADLINE;
        self.partial_deadline = Some(self.partial_deadline.unwrap_or(deadline));
    }

    pub(super) fn send(&mut self, channel: u16, performative: &Performative) {
        write_frame(&mut self.output, FrameKind::Amqp, channel, |out| {
            performative.encode(out);
        });
    }

    pub(super) fn event(&mut self, event: ConnectionEvent) {
        self.events.push_back(event);
    }

    pub(super) fn new_link(&mut self) -> LinkId {
        self.next_link += 1;
        self.links += 1;
        self.next_link
    }
}
