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
    /// The peer has attached, and waits for this answer.
    Attaching(Box<Attach>),
    Attached,
    /// We have detached, and what the peer still sends means nothing.
    Detaching,
}

/// Our end.
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
    /// Messages that began.
    pub(super) delivery_count: u32,
    /// Messages that may still begin.
    pub(super) credit: u32,
    pub(super) message_bytes_max: usize,
    /// The peer waits for replies to what it sends, and not for what becomes of it.
    pub(super) wants_replies: bool,
    /// The message whose last frame has not come.
    pub(super) partial: Option<Partial>,
    /// Whole messages that were not answered.
    pub(super) pending: BTreeMap<u32, PendingMessage>,
}

#[derive(Debug)]
pub(super) struct Partial {
    pub(super) delivery: u32,
    pub(super) format: u32,
    pub(super) settled: bool,
    /// The id of the one that it is part of.
    pub(super) transaction: Option<Bytes>,
    /// Nothing of it is kept.
    pub(super) is_too_large: bool,
    pub(super) payload: Vec<u8>,
    /// The bytes that it counts for.
    pub(super) taken: TakenBytes,
    pub(super) began_at: Timestamp,
}

#[derive(Debug)]
pub(super) struct PendingMessage {
    /// The peer does not wait for an answer.
    pub(super) settled: bool,
}

#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// Messages that were sent, or given up by draining.
    pub(super) delivery_count: u32,
    /// The value that `delivery_count` may reach.
    pub(super) limit: u32,
    pub(super) drain: bool,
    /// The outcome of messages that are not settled when the peer detaches, if it has named one.
    pub(super) default_outcome: Option<Box<DeliveryState>>,
    /// The peer holds a session, which it gives back as it detaches.
    pub(super) is_in_session: bool,
    /// The numbers of its messages that wait for the peer's window, in their order.
    pub(super) waiting: VecDeque<u64>,
}

impl Outgoing {
    pub(super) fn credit(&self) -> u32 {
        let credit = self.limit.wrapping_sub(self.delivery_count);
        // Serial numbers: a limit that lies behind is no credit.
        if credit > u32::MAX / 2 { 0 } else { credit }
    }
}
