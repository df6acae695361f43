//! The state of one link.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use crate::api::amqp::event::LinkId;
use crate::base::Timestamp;
use crate::base::budget::TakenBytes;
use crate::wire::amqp::performative::{Attach, LinkRole};
use crate::wire::amqp::state::DeliveryState;

/// A link, from the peer's attach to its detach.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) id: LinkId,
    pub(super) name: Arc<str>,
    pub(super) stage: LinkStage,
    pub(super) end: LinkEnd,
    /// The bytes that it counts for.
    pub(super) taken: TakenBytes,
}

#[derive(Debug)]
pub(super) enum LinkStage {
    /// The peer has attached and waits for an answer; holds the answer.
    Attaching(Box<Attach>),
    Attached,
    /// The server has sent a detach. Further frames of the peer are ignored.
    Detaching,
}

/// The server's end of a link.
#[derive(Debug)]
pub(super) enum LinkEnd {
    /// The peer sends.
    Incoming(Incoming),
    /// The peer receives.
    Outgoing(Outgoing),
}

impl LinkEnd {
    /// Returns the role of the peer.
    pub(super) fn peer(&self) -> LinkRole {
        match self {
            Self::Incoming(_) => LinkRole::Sender,
            Self::Outgoing(_) => LinkRole::Receiver,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Incoming {
    /// The number of messages that have begun.
    pub(super) delivery_count: u32,
    /// The number of messages that may still begin.
    pub(super) credit: u32,
    pub(super) message_bytes_max: usize,
    /// True if the peer waits for replies to its messages, not for their outcomes.
    pub(super) wants_replies: bool,
    /// The message whose last frame has not arrived.
    pub(super) partial: Option<Partial>,
    /// Complete messages without an outcome so far, by delivery id.
    pub(super) pending: BTreeMap<u32, PendingMessage>,
}

#[derive(Debug)]
pub(super) struct Partial {
    pub(super) delivery: u32,
    pub(super) format: u32,
    pub(super) settled: bool,
    /// The id of the transaction that the message is part of.
    pub(super) transaction: Option<Bytes>,
    /// True if the message exceeds the size limit. Its payload is discarded.
    pub(super) is_too_large: bool,
    pub(super) payload: Vec<u8>,
    /// The bytes that it counts for.
    pub(super) taken: TakenBytes,
    pub(super) began_at: Timestamp,
}

#[derive(Debug)]
pub(super) struct PendingMessage {
    /// True if the peer has sent the message settled and waits for no outcome.
    pub(super) settled: bool,
}

#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// The AMQP delivery-count: messages sent, and credit given up by draining.
    pub(super) delivery_count: u32,
    /// The value up to which `delivery_count` may rise.
    pub(super) limit: u32,
    pub(super) drain: bool,
    /// The outcome that the peer has named for messages left unsettled when it detaches.
    pub(super) default_outcome: Option<Box<DeliveryState>>,
    /// True if the link holds a message session, which is released when the peer detaches.
    pub(super) is_in_session: bool,
    /// The numbers of the link's messages that wait for the peer's session window, in order.
    pub(super) waiting: VecDeque<u64>,
}

impl Outgoing {
    pub(super) fn credit(&self) -> u32 {
        let credit = self.limit.wrapping_sub(self.delivery_count);
        // Serial number arithmetic: a limit below the delivery count grants no credit.
        if credit > u32::MAX / 2 { 0 } else { credit }
    }
}
