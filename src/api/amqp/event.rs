//! The events that the state machine of a connection reports to the connection's task.

use bytes::Bytes;

use crate::base::budget::TakenBytes;
use crate::wire::amqp::outcome::ReceiverOutcome;
use crate::wire::amqp::performative::Attach;
use crate::wire::amqp::sasl::Plain;
use crate::wire::amqp::state::DeliveryState;

/// The number of a link, unique within its connection.
pub(super) type LinkId = u64;

/// An event that the state machine of a connection cannot handle itself.
#[derive(Debug)]
pub(super) enum ConnectionEvent {
    /// Answered by `authenticated`; nothing more is read until then.
    Plain(Plain),
    /// Answered by `accept` or `detach`.
    Attached { link: LinkId, attach: Box<Attach> },
    /// A whole message. Answered by `settle_incoming`.
    Message {
        link: LinkId,
        delivery: u32,
        format: u32,
        payload: Bytes,
        /// The id of the transaction that the message is part of.
        transaction: Option<Bytes>,
        /// The memory taken for the message until it is committed.
        taken: TakenBytes,
    },
    /// The peer accepts messages up to the serial number `limit`. If it drains, it waits for `drained`.
    Credit {
        link: LinkId,
        limit: u32,
        drain: bool,
    },
    /// Answered by `settle_outgoing`, unless the peer has settled already.
    Disposition {
        link: LinkId,
        deliveries: Vec<DeliveredMessage>,
        decision: Decision,
        settled: bool,
    },
    /// The peer has detached the link with unsettled deliveries. Followed by `Detached`.
    Detaching { link: LinkId },
    /// The link has ended. No further events of the link follow.
    Detached {
        link: LinkId,
        /// True if the peer has detached the link.
        by_peer: bool,
    },
}

/// A peer's decision about deliveries. Clones share its properties, since one frame can be about thousands of links.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Decision {
    /// The peer has settled the deliveries without an outcome.
    None,
    Now(ReceiverOutcome),
    InTransaction(PartOfTransaction),
}

/// A decision that waits for the end of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PartOfTransaction {
    pub(super) transaction: Bytes,
    /// The terminal outcome; `None` if the peer names no terminal one.
    pub(super) outcome: Option<ReceiverOutcome>,
}

impl Decision {
    pub(super) fn of(state: Option<&DeliveryState>) -> Self {
        if let Some(DeliveryState::Transactional(part)) = state {
            return Self::InTransaction(PartOfTransaction {
                transaction: part.transaction.clone(),
                outcome: part.outcome.as_deref().and_then(ReceiverOutcome::of),
            });
        }
        state
            .and_then(ReceiverOutcome::of)
            .map_or(Self::None, Self::Now)
    }
}

/// A message that was handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeliveredMessage {
    pub(super) id: u64,
    pub(super) tag: Bytes,
}
