//! What the parts of a connection share: its output, its events, and the counts that its bounds are about.

use std::collections::VecDeque;

use crate::api::amqp::event::{Event, LinkId};
use crate::api::amqp::limits::FRAME_BYTES_MIN;
use crate::wire::amqp::frame::{FrameKind, write_frame};
use crate::wire::amqp::performative::Performative;

/// Shared by the sessions of a connection.
#[derive(Debug)]
pub(super) struct Frames {
    pub(super) output: Vec<u8>,
    pub(super) events: VecDeque<Event>,
    /// Bytes of a frame that the peer takes.
    pub(super) size_max: usize,
    /// Bytes of whole messages that were not answered.
    pub(super) pending_bytes: usize,
    /// Bytes of messages that are not whole.
    pub(super) partial_bytes: usize,
    /// Bytes of messages that the peer has granted credit but no window for.
    pub(super) blocked_bytes: usize,
    pub(super) links: usize,
    next_link: LinkId,
}

impl Frames {
    pub(super) fn new() -> Self {
        Self {
            output: Vec::new(),
            events: VecDeque::new(),
            size_max: FRAME_BYTES_MIN as usize,
            pending_bytes: 0,
            partial_bytes: 0,
            blocked_bytes: 0,
            links: 0,
            next_link: 0,
        }
    }

    pub(super) fn send(&mut self, channel: u16, performative: &Performative) {
        write_frame(&mut self.output, FrameKind::Amqp, channel, |out| {
            performative.encode(out);
        });
    }

    pub(super) fn event(&mut self, event: Event) {
        self.events.push_back(event);
    }

    pub(super) fn new_link(&mut self) -> LinkId {
        self.next_link += 1;
        self.links += 1;
        self.next_link
    }
}
