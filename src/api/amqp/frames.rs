//! The state that the parts of a connection share: its output, its events, and the counters of limited resources.

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
    /// The largest frame in bytes that the peer accepts.
    pub(super) size_max: usize,
    /// The account of the memory that is used for the peer.
    pub(super) account: MemoryAccount,
    /// The memory taken for the connection itself.
    own: TakenBytes,
    /// The memory of messages that have link credit but wait for the peer's session window.
    pub(super) blocked: TakenBytes,
    /// The earliest time at which an incomplete message can be late.
    pub(super) partial_deadline: Option<Timestamp>,
    pub(super) links: usize,
    /// The processing cost, in deliveries, since the task last yielded. Links count as `LINK_STEPS` deliveries.
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

    /// Moves the memory of this state to `account`.
    pub(super) fn move_to(&mut self, account: &MemoryAccount) {
        self.own.move_to(account);
        self.blocked.move_to(account);
        self.account = account.clone();
    }

    /// Notes that a message which began at `now` is incomplete.
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
