//! One session of a connection: its windows, its links, and their deliveries.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;

use crate::api::amqp::event::{ConnectionEvent, Decision, DeliveredMessage, LinkId};
use crate::api::amqp::frames::Frames;
use crate::api::amqp::limits::{
    DELIVERY_BYTES, FRAME_BYTES_MAX, HANDLE_MAX, INCOMING_CREDIT, INCOMING_WINDOW, LINK_BYTES,
    LINK_STEPS, LINKS_MAX, MESSAGE_BYTES, REJECTED_LINK_BYTES, SENDING_BYTES, SESSION_BYTES,
    UNFINISHED_DEADLINE,
};
use crate::api::amqp::link::{
    Incoming, Link, LinkEnd, LinkStage, Outgoing, Partial, PendingMessage,
};
use crate::api::amqp::receipt::Receipt;
use crate::base::Timestamp;
use crate::base::budget::{MemoryAccount, NothingLeft, TakenBytes};
use crate::model::lease::LockError;
use crate::model::limits::MESSAGE_BYTES_MAX;
use crate::model::session::SessionSelection;
use crate::wire::amqp::batch::{BATCH_ENVELOPE_MAX, BATCH_FORMAT, counted_bytes};
use crate::wire::amqp::condition::{
    AmqpError, FRAMING_ERROR, HANDLE_IN_USE, INVALID_FIELD, LINK_STOLEN, MESSAGE_LOCK_LOST,
    MESSAGE_SIZE_EXCEEDED, NOT_ALLOWED, RESOURCE_LIMIT_EXCEEDED, TRANSFER_LIMIT_EXCEEDED,
    UNATTACHED_HANDLE,
};
use crate::wire::amqp::performative::{
    Attach, Begin, Detach, Disposition, Flow, LinkRole, Performative, ReceiverSettles, Transfer,
};
use crate::wire::amqp::state::DeliveryState;
use crate::wire::amqp::terminus::LinkTarget;
use crate::wire::amqp::value::{Map, Value};

/// The link property that tells clients the largest size of a batch.
const BATCH_SIZE: &str = "com.microsoft:max-message-batch-size";

/// The largest size of a transfer frame before its payload, in bytes.
const TRANSFER_HEAD_MAX: usize = 128;

/// The contents of the answer to an attach.
#[derive(Clone, Debug, Default)]
pub(super) struct Acceptance {
    /// The largest message that the peer may send.
    pub(super) message_bytes_max: Option<u64>,
    /// The message session that the link holds. The peer reads it from the filter in the answer.
    pub(super) session: Option<String>,
    /// True if the peer waits for replies to its messages, not for their outcomes.
    pub(super) wants_replies: bool,
    pub(super) properties: Map,
}

impl Acceptance {
    /// Accepts a link over which the peer sends messages of up to `bytes` bytes.
    pub(super) fn up_to(bytes: u64) -> Self {
        Self {
            message_bytes_max: Some(bytes),
            ..Self::default()
        }
    }

    /// Accepts a link over which the peer sends messages of up to `bytes` bytes. If this is above the usual maximum,
    /// batches stay limited to the usual maximum, as in Azure, because clients fill batches up to the announced size.
    pub(super) fn of_messages(bytes: u64) -> Self {
        let usual = i64::try_from(MESSAGE_BYTES_MAX).unwrap_or(i64::MAX);
        let batch = (Value::symbol(BATCH_SIZE), Value::Long(usual));
        Self {
            properties: Map::from_iter((bytes > MESSAGE_BYTES_MAX).then_some(batch)),
            ..Self::up_to(bytes)
        }
    }

    /// Accepts a link over which the peer sends requests of up to `bytes` bytes.
    pub(super) fn of_requests(bytes: u64) -> Self {
        Self {
            wants_replies: true,
            ..Self::up_to(bytes)
        }
    }
}

/// A message to hand out.
#[derive(Debug)]
pub(super) struct HandedOutMessage {
    pub(super) tag: Bytes,
    pub(super) message: Bytes,
    /// True if the message is sent settled, so that the peer sends no disposition.
    pub(super) settled: bool,
    /// Reports that the message was written, if the link's task needs to know.
    pub(super) receipt: Option<Receipt>,
}

/// An error that ends a whole session or connection, and not one link alone.
#[derive(Debug)]
pub(super) enum SessionFault {
    Session(AmqpError),
    Connection(AmqpError),
}

/// Returns the error for a lack of memory for `what`.
pub(super) fn nothing_left(what: &str) -> AmqpError {
    let problem = format!("there is no memory left for {what}; settle, detach or close something");
    AmqpError::new(RESOURCE_LIMIT_EXCEEDED, problem)
}

/// Returns the error for a connection with too many links. A link counts until its task has ended.
pub(super) fn too_many_links() -> AmqpError {
    let problem = format!("a connection has at most {LINKS_MAX} links");
    AmqpError::new(RESOURCE_LIMIT_EXCEEDED, problem)
}

#[derive(Debug)]
pub(super) struct Session {
    channel: u16,
    /// True once the server has sent an end. Further frames of the peer are ignored.
    pub(super) is_ending: bool,
    next_incoming_id: u32,
    incoming_window: u32,
    next_outgoing_id: u32,
    remote_incoming_window: u32,
    /// The links by handle. Both peers use the same handle.
    links: HashMap<u32, Link>,
    /// The handles of links by role and name. A new attach with the same role and name takes over the link.
    named: HashMap<(LinkRole, Arc<str>), u32>,
    /// Messages that wait for the peer's session window, by number. The first one may have been sent in part.
    waiting: BTreeMap<u64, OutgoingTransfer>,
    /// Messages that the peer has not settled, by number. Kept by the session, since the peer may settle them after it
    /// has detached their link.
    unsettled: BTreeMap<u64, UnsettledDelivery>,
    /// Detached links that still have unsettled deliveries, with the memory taken for each link.
    detached: HashMap<LinkId, TakenBytes>,
    /// The numbers of the unsettled deliveries of each link. Links without any have no entry.
    unsettled_of: HashMap<LinkId, BTreeSet<u64>>,
    next_delivery: u64,
    /// The bytes that it counts for.
    taken: TakenBytes,
}

#[derive(Debug)]
struct OutgoingTransfer {
    handle: u32,
    tag: Bytes,
    settled: bool,
    rest: Bytes,
    has_begun: bool,
    receipt: Option<Receipt>,
}

#[derive(Debug)]
struct UnsettledDelivery {
    link: LinkId,
    tag: Bytes,
    /// True if the peer has sent a disposition and waits for the answer.
    is_answering: bool,
    /// The bytes that it counts for.
    taken: TakenBytes,
}

/// The result of a check for incomplete messages that are late.
pub(super) struct LateMessages {
    /// True if links were ended because their messages took too long.
    pub(super) has_ended: bool,
    /// The time at which the earliest of the other incomplete messages began.
    pub(super) next: Option<Timestamp>,
}

impl Session {
    /// Answers the peer's begin.
    pub(super) fn begin(
        channel: u16,
        begin: &Begin,
        frames: &mut Frames,
    ) -> Result<Self, NothingLeft> {
        let session = Self {
            taken: frames.account.take(SESSION_BYTES)?,
            channel,
            is_ending: false,
            next_incoming_id: begin.next_outgoing_id,
            incoming_window: INCOMING_WINDOW,
            next_outgoing_id: 1,
            remote_incoming_window: begin.incoming_window,
            links: HashMap::new(),
            named: HashMap::new(),
            waiting: BTreeMap::new(),
            unsettled: BTreeMap::new(),
            detached: HashMap::new(),
            unsettled_of: HashMap::new(),
            next_delivery: 1,
        };
        let answer = Begin {
            remote_channel: Some(channel),
            next_outgoing_id: session.next_outgoing_id,
            incoming_window: session.incoming_window,
            outgoing_window: u32::from(u16::MAX),
            handle_max: HANDLE_MAX,
        };
        frames.send(channel, &Performative::Begin(answer));
        Ok(session)
    }

    /// Returns whether messages of the peer wait for an outcome.
    pub(super) fn is_storing(&self) -> bool {
        self.links.values().any(|link| match &link.end {
            LinkEnd::Incoming(incoming) => !incoming.pending.is_empty(),
            LinkEnd::Outgoing(_) => false,
        })
    }

    /// Moves the memory of the session to `account`.
    pub(super) fn move_to(&mut self, account: &MemoryAccount) {
        self.taken.move_to(account);
        for link in self.links.values_mut() {
            link.taken.move_to(account);
            if let LinkEnd::Incoming(Incoming {
                partial: Some(partial),
                ..
            }) = &mut link.end
            {
                partial.taken.move_to(account);
            }
        }
        for unsettled in self.unsettled.values_mut() {
            unsettled.taken.move_to(account);
        }
        for taken in self.detached.values_mut() {
            taken.move_to(account);
        }
    }

    /// Ends the links with an incomplete message that began at `began_before` or earlier.
    pub(super) fn end_late(
        &mut self,
        began_before: Timestamp,
        frames: &mut Frames,
    ) -> LateMessages {
        let (mut late, mut first) = (Vec::new(), None);
        for (handle, link) in &self.links {
            let LinkEnd::Incoming(Incoming {
                partial: Some(partial),
                ..
            }) = &link.end
            else {
                continue;
            };
            if partial.began_at <= began_before {
                late.push(*handle);
            } else {
                let began_at: Timestamp = first.unwrap_or(partial.began_at);
                first = Some(began_at.min(partial.began_at));
            }
        }
        let has_ended = !late.is_empty();
        for handle in late {
            let seconds = UNFINISHED_DEADLINE.as_secs();
            let problem = format!("a message took more than {seconds} s to come in");
            let error = AmqpError::new(RESOURCE_LIMIT_EXCEEDED, problem);
            self.detach(handle, error, frames);
        }
        LateMessages {
            has_ended,
            next: first,
        }
    }

    /// Ends all links without a detach, since the end of the session or connection ends them for the peer, too.
    pub(super) fn end_links(&mut self, frames: &mut Frames) {
        let handles: Vec<u32> = self.links.keys().copied().collect();
        frames.steps += LINK_STEPS * handles.len();
        for handle in handles {
            self.forget(handle, false, frames);
        }
        for (link, _) in self.detached.drain() {
            frames.event(ConnectionEvent::Detached {
                link,
                by_peer: true,
            });
        }
        self.unsettled.clear();
        self.unsettled_of.clear();
    }

    /// Handles an attach of the peer, and returns the number of the new link.
    pub(super) fn attach(
        &mut self,
        attach: Box<Attach>,
        frames: &mut Frames,
    ) -> Result<LinkId, SessionFault> {
        let handle = attach.handle;
        if handle > HANDLE_MAX {
            let problem = format!("handles end at {HANDLE_MAX}");
            return Err(SessionFault::Connection(AmqpError::new(
                FRAMING_ERROR,
                problem,
            )));
        }
        if self.links.contains_key(&handle) {
            let problem = format!("the handle {handle} is in use");
            return Err(SessionFault::Session(AmqpError::new(
                HANDLE_IN_USE,
                problem,
            )));
        }
        frames.steps += LINK_STEPS;
        self.steal(&attach, frames);
        let end = match attach.role {
            LinkRole::Sender => LinkEnd::Incoming(Incoming {
                // .NET's client omits the initial-delivery-count.
                delivery_count: attach.initial_delivery_count.unwrap_or(0),
                ..Incoming::default()
            }),
            LinkRole::Receiver => LinkEnd::Outgoing(Outgoing::default()),
        };
        let bytes = LINK_BYTES + 4 * named_bytes(&attach);
        let room = if frames.links < LINKS_MAX {
            let room = frames.account.take(bytes);
            room.map_err(|NothingLeft| nothing_left("another link"))
        } else {
            Err(too_many_links())
        };
        let (taken, rejection) = match room {
            Ok(taken) => (taken, None),
            Err(error) => {
                // A rejected link stays until the peer answers its detach.
                let least = frames.account.take(REJECTED_LINK_BYTES);
                let taken = least.map_err(|NothingLeft| SessionFault::Session(error.clone()))?;
                (taken, Some(error))
            }
        };
        let id = frames.new_link();
        let name: Arc<str> = if rejection.is_none() {
            attach.name.as_str().into()
        } else {
            "".into()
        };
        if rejection.is_none() {
            self.named.insert((attach.role, Arc::clone(&name)), handle);
        }
        let link = Link {
            id,
            name,
            // Keeps only the fields that the answer needs.
            stage: LinkStage::Attaching(Box::new(answer_to(&attach))),
            end,
            taken,
        };
        self.links.insert(handle, link);
        match rejection {
            Some(error) => self.detach(handle, error, frames),
            None => frames.event(ConnectionEvent::Attached { link: id, attach }),
        }
        Ok(id)
    }

    /// Ends the existing link with the name and role of a new attach (AMQP 1.0, 2.6.1).
    fn steal(&mut self, attach: &Attach, frames: &mut Frames) {
        let name = (attach.role, attach.name.as_str().into());
        if let Some(handle) = self.named.remove(&name) {
            let problem = format!("the link {:?} was attached again", attach.name);
            self.detach(handle, AmqpError::new(LINK_STOLEN, problem), frames);
        }
    }

    /// Frees the name of a link that ends, for use by another link.
    fn free_name(&mut self, handle: u32) {
        let Some(link) = self.links.get(&handle) else {
            return;
        };
        let name = (link.end.peer(), Arc::clone(&link.name));
        if self.named.get(&name) == Some(&handle) {
            self.named.remove(&name);
        }
    }

    /// Returns whether `link` has this handle. Another link may use the handle after `link` is gone.
    pub(super) fn has(&self, handle: u32, link: LinkId) -> bool {
        self.links.get(&handle).is_some_and(|each| each.id == link)
    }

    /// Answers an attach, and grants credit or reports the credit that the peer has granted since.
    pub(super) fn accept(&mut self, handle: u32, with: Acceptance, frames: &mut Frames) {
        let Some(link) = self.links.get_mut(&handle) else {
            return;
        };
        let mut answer = match std::mem::replace(&mut link.stage, LinkStage::Attached) {
            LinkStage::Attaching(answer) => answer,
            stage @ (LinkStage::Attached | LinkStage::Detaching) => {
                link.stage = stage; // the link has ended meanwhile
                return;
            }
        };
        let id = link.id;
        answer.max_message_size = with.message_bytes_max;
        answer.properties = with.properties;
        if let (Some(source), Some(session)) = (&answer.source, &with.session) {
            answer.source = Some(source.with_session(session));
        }
        match &mut link.end {
            LinkEnd::Incoming(incoming) => {
                let bytes_max = with.message_bytes_max.unwrap_or(0);
                incoming.message_bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
                incoming.wants_replies = with.wants_replies;
                frames.send(self.channel, &Performative::Attach(answer));
                self.grant(handle, frames);
            }
            LinkEnd::Outgoing(outgoing) => {
                answer.initial_delivery_count = Some(0);
                outgoing.is_in_session = with.session.is_some();
                let default = answer.source.as_ref();
                outgoing.default_outcome =
                    default.and_then(|source| source.default_outcome.clone());
                let (limit, drain) = (outgoing.limit, outgoing.drain);
                frames.send(self.channel, &Performative::Attach(answer));
                if outgoing.credit() > 0 || drain {
                    let link = id;
                    frames.event(ConnectionEvent::Credit { link, limit, drain });
                }
            }
        }
    }

    /// Answers an attach without source and target, since the link is about to end. Clients know a link only after this
    /// answer, and end all their links when an unknown one is detached.
    fn answer_without_node(&self, handle: u32, frames: &mut Frames) {
        let stage = self.links.get(&handle).map(|link| &link.stage);
        if let Some(LinkStage::Attaching(answer)) = stage {
            let mut answer = answer.clone();
            (answer.source, answer.target) = (None, None);
            answer.initial_delivery_count = (answer.role == LinkRole::Sender).then_some(0);
            frames.send(self.channel, &Performative::Attach(answer));
        }
    }

    /// Ends a link with `error`, or rejects its attach.
    pub(super) fn detach(&mut self, handle: u32, error: AmqpError, frames: &mut Frames) {
        self.answer_without_node(handle, frames);
        let Some(link) = self.links.get_mut(&handle) else {
            return;
        };
        if matches!(link.stage, LinkStage::Detaching) {
            return;
        }
        link.stage = LinkStage::Detaching;
        let detach = Detach {
            handle,
            closed: true,
            error: Some(error),
        };
        let id = link.id;
        self.free_name(handle);
        frames.send(self.channel, &Performative::Detach(detach));
        frames.event(ConnectionEvent::Detached {
            link: id,
            by_peer: false,
        });
        self.drop_deliveries(handle, id, frames);
    }

    /// Handles a detach by which the peer ends a link or confirms its end.
    pub(super) fn on_detach(
        &mut self,
        detach: &Detach,
        frames: &mut Frames,
    ) -> Result<(), SessionFault> {
        let handle = detach.handle;
        frames.steps += LINK_STEPS;
        let link = self.links.get(&handle).ok_or_else(|| unattached(handle))?;
        if !matches!(link.stage, LinkStage::Detaching) {
            self.answer_without_node(handle, frames);
            let answer = Detach {
                handle,
                closed: detach.closed,
                error: None,
            };
            frames.send(self.channel, &Performative::Detach(answer));
        }
        self.on_detached(handle, frames);
        Ok(())
    }

    /// Removes a link that the peer has detached. Keeps the deliveries that the peer may still settle.
    fn on_detached(&mut self, handle: u32, frames: &mut Frames) {
        let Some(Link {
            id,
            end: LinkEnd::Outgoing(outgoing),
            stage: LinkStage::Attached,
            ..
        }) = self.links.get_mut(&handle)
        else {
            return self.forget(handle, true, frames);
        };
        let (id, default) = (*id, outgoing.default_outcome.take());
        let is_in_session = outgoing.is_in_session;
        if let Some(state) = default {
            self.settle_by_default(id, &state, frames);
        }
        if is_in_session || !self.unsettled_of.contains_key(&id) {
            return self.forget(handle, true, frames);
        }
        self.release_unsent(handle, id, frames);
        self.drop_waiting(handle, frames);
        self.free_name(handle);
        if let Some(link) = self.links.remove(&handle) {
            frames.links -= 1;
            self.detached.insert(id, link.taken);
            frames.event(ConnectionEvent::Detaching { link: id });
            self.end_detached(id, frames);
        }
    }

    /// Releases messages that wait for the peer's session window, since the peer has not received all of their frames.
    fn release_unsent(&mut self, handle: u32, link: LinkId, frames: &mut Frames) {
        let unsent = self.waiting_of(handle).filter_map(|number| {
            let tag = &self.unsettled.get(&number)?.tag;
            Some(DeliveredMessage {
                id: number,
                tag: tag.clone(),
            })
        });
        let deliveries = unsent.collect();
        self.settle_for_peer(link, deliveries, &DeliveryState::Released, frames);
    }

    /// Returns the numbers of a link's messages that wait for the peer's session window.
    fn waiting_of(&self, handle: u32) -> impl Iterator<Item = u64> {
        let end = self.links.get(&handle).map(|link| &link.end);
        let waiting = match end {
            Some(LinkEnd::Outgoing(outgoing)) => Some(&outgoing.waiting),
            Some(LinkEnd::Incoming(_)) | None => None,
        };
        waiting.into_iter().flatten().copied()
    }

    /// Settles the unsettled deliveries of a link with the default outcome that the peer has named.
    fn settle_by_default(&mut self, link: LinkId, state: &DeliveryState, frames: &mut Frames) {
        let numbers = self.unsettled_of.get(&link).into_iter().flatten();
        let ended = numbers.filter_map(|number| {
            let left = self.unsettled.get(number)?;
            (!left.is_answering).then(|| DeliveredMessage {
                id: *number,
                tag: left.tag.clone(),
            })
        });
        let deliveries = ended.collect();
        self.settle_for_peer(link, deliveries, state, frames);
    }

    /// Settles deliveries on behalf of the peer, without a disposition from or to the peer.
    fn settle_for_peer(
        &mut self,
        link: LinkId,
        deliveries: Vec<DeliveredMessage>,
        state: &DeliveryState,
        frames: &mut Frames,
    ) {
        if deliveries.is_empty() {
            return;
        }
        frames.steps += deliveries.len();
        for delivery in &deliveries {
            self.take_unsettled(delivery.id);
        }
        frames.event(ConnectionEvent::Disposition {
            link,
            deliveries,
            decision: Decision::of(Some(state)),
            settled: true,
        });
    }

    /// Removes a link that the peer has detached, once all its deliveries are settled.
    fn end_detached(&mut self, link: LinkId, frames: &mut Frames) {
        if !self.unsettled_of.contains_key(&link) && self.detached.remove(&link).is_some() {
            frames.event(ConnectionEvent::Detached {
                link,
                by_peer: true,
            });
        }
    }

    /// Removes a delivery from the unsettled ones, and returns it.
    fn take_unsettled(&mut self, delivery: u64) -> Option<UnsettledDelivery> {
        let taken = self.unsettled.remove(&delivery)?;
        if let Some(numbers) = self.unsettled_of.get_mut(&taken.link) {
            numbers.remove(&delivery);
            if numbers.is_empty() {
                self.unsettled_of.remove(&taken.link);
            }
        }
        Some(taken)
    }

    /// Removes the unsettled deliveries of a link with the given tags.
    pub(super) fn forget_deliveries(
        &mut self,
        link: LinkId,
        tags: &HashSet<Bytes>,
        frames: &mut Frames,
    ) {
        let numbers = self.unsettled_of.get(&link).into_iter().flatten();
        let is_forgotten = |number: &&u64| {
            let unsettled = self.unsettled.get(number);
            unsettled.is_some_and(|each| tags.contains(&each.tag))
        };
        let forgotten: Vec<u64> = numbers.filter(is_forgotten).copied().collect();
        for number in forgotten {
            self.take_unsettled(number);
        }
        self.end_detached(link, frames);
    }

    fn forget(&mut self, handle: u32, by_peer: bool, frames: &mut Frames) {
        let Some(link) = self.links.get(&handle) else {
            return;
        };
        let id = link.id;
        if !matches!(link.stage, LinkStage::Detaching) {
            frames.event(ConnectionEvent::Detached { link: id, by_peer });
            self.drop_deliveries(handle, id, frames);
        }
        debug_assert!(
            self.waiting_of(handle).next().is_none() && !self.unsettled_of.contains_key(&id),
            "nothing of a link outlives it, or it would be another's at its handle"
        );
        frames.links -= 1;
        self.free_name(handle);
        self.links.remove(&handle);
    }

    /// Removes all deliveries of a link, which frees their memory.
    fn drop_deliveries(&mut self, handle: u32, id: LinkId, frames: &mut Frames) {
        self.drop_waiting(handle, frames);
        let numbers = self.unsettled_of.remove(&id).unwrap_or_default();
        frames.steps += numbers.len();
        for number in numbers {
            self.unsettled.remove(&number);
        }
        if let Some(link) = self.links.get_mut(&handle)
            && let LinkEnd::Incoming(incoming) = &mut link.end
        {
            incoming.partial = None;
            incoming.pending.clear();
        }
    }

    /// Drops the messages of a link that wait for the peer's session window.
    fn drop_waiting(&mut self, handle: u32, frames: &mut Frames) {
        let Some(Link {
            end: LinkEnd::Outgoing(outgoing),
            ..
        }) = self.links.get_mut(&handle)
        else {
            return;
        };
        frames.steps += outgoing.waiting.len();
        for number in outgoing.waiting.drain(..) {
            if let Some(dropped) = self.waiting.remove(&number) {
                frames.blocked.give_back(SENDING_BYTES + dropped.rest.len());
            }
        }
    }

    pub(super) fn on_flow(&mut self, flow: &Flow, frames: &mut Frames) -> Result<(), SessionFault> {
        let seen = flow.next_incoming_id.unwrap_or(1);
        let in_flight = self.next_outgoing_id.wrapping_sub(seen);
        self.remote_incoming_window = flow.incoming_window.saturating_sub(in_flight);
        if let Some(handle) = flow.handle {
            let link = self
                .links
                .get_mut(&handle)
                .ok_or_else(|| unattached(handle))?;
            if let LinkEnd::Outgoing(outgoing) = &mut link.end
                && !matches!(link.stage, LinkStage::Detaching)
            {
                let from = flow.delivery_count.unwrap_or(0);
                outgoing.limit = from.wrapping_add(flow.link_credit.unwrap_or(0));
                outgoing.drain = flow.drain;
                if matches!(link.stage, LinkStage::Attached) {
                    frames.event(ConnectionEvent::Credit {
                        link: link.id,
                        limit: outgoing.limit,
                        drain: outgoing.drain,
                    });
                }
            }
        }
        self.send_waiting(frames);
        if flow.echo {
            self.send_flow(flow.handle, false, frames);
        }
        Ok(())
    }

    /// Answers a drain up to `limit`, after all available messages have been handed out.
    pub(super) fn drained(&mut self, handle: u32, limit: u32, frames: &mut Frames) {
        let Some(Link {
            end: LinkEnd::Outgoing(outgoing),
            stage: LinkStage::Attached,
            ..
        }) = self.links.get_mut(&handle)
        else {
            return;
        };
        // A newer flow of the peer gets its own answer.
        if outgoing.drain && outgoing.limit == limit {
            outgoing.drain = false;
            if outgoing.credit() > 0 {
                outgoing.delivery_count = limit;
            }
            self.send_flow(Some(handle), true, frames);
        }
    }

    pub(super) fn on_transfer(
        &mut self,
        transfer: &Transfer,
        frames: &mut Frames,
        now: Timestamp,
    ) -> Result<(), SessionFault> {
        // The window is renewed in time. A peer is limited by its credit and by the bytes that are read.
        self.next_incoming_id = self.next_incoming_id.wrapping_add(1);
        debug_assert!(
            self.incoming_window >= INCOMING_WINDOW / 2,
            "a window is renewed before it is used up"
        );
        self.incoming_window -= 1;
        let handle = transfer.handle;
        let link = self
            .links
            .get_mut(&handle)
            .ok_or_else(|| unattached(handle))?;
        if let LinkStage::Attaching(_) = link.stage {
            let problem = "a message came before there was credit for it";
            self.detach(
                handle,
                AmqpError::new(TRANSFER_LIMIT_EXCEEDED, problem),
                frames,
            );
        } else if let (LinkStage::Attached, LinkEnd::Incoming(incoming)) =
            (&link.stage, &mut link.end)
        {
            let id = link.id;
            match incoming.take_in(transfer, frames, now) {
                Ok(None) => {}
                Ok(Some(whole)) => {
                    let settled = whole.settled;
                    incoming
                        .pending
                        .insert(whole.delivery, PendingMessage { settled });
                    if whole.is_too_large {
                        let problem = "the message is larger than the link's max-message-size";
                        let error = AmqpError::new(MESSAGE_SIZE_EXCEEDED, problem);
                        let state = DeliveryState::Rejected(Some(error));
                        self.settle_incoming(handle, vec![(whole.delivery, state)], frames);
                        return self.renew_window(frames);
                    }
                    frames.event(ConnectionEvent::Message {
                        link: id,
                        delivery: whole.delivery,
                        format: whole.format,
                        payload: whole.payload.into(),
                        transaction: whole.transaction,
                        taken: whole.taken,
                    });
                }
                Err(SessionFault::Session(error)) => self.detach(handle, error, frames),
                Err(connection @ SessionFault::Connection(_)) => return Err(connection),
            }
            self.grant(handle, frames);
        } else if let (LinkStage::Attached, LinkEnd::Outgoing(_)) = (&link.stage, &link.end) {
            let problem = "a message came over a link over which the peer receives";
            self.detach(handle, AmqpError::new(NOT_ALLOWED, problem), frames);
        }
        self.renew_window(frames)
    }

    /// Renews the incoming window once half of it is used.
    fn renew_window(&mut self, frames: &mut Frames) -> Result<(), SessionFault> {
        if self.incoming_window < INCOMING_WINDOW / 2 {
            self.incoming_window = INCOMING_WINDOW;
            self.send_flow(None, false, frames);
        }
        Ok(())
    }

    /// Sends the outcomes of the peer's messages, and renews its credit. A rejection without a disposition, because the
    /// message was sent settled or expects a reply, ends the link, so that the peer notices it.
    pub(super) fn settle_incoming(
        &mut self,
        handle: u32,
        settled: Vec<(u32, DeliveryState)>,
        frames: &mut Frames,
    ) {
        let Some(Link {
            end: LinkEnd::Incoming(incoming),
            ..
        }) = self.links.get_mut(&handle)
        else {
            return;
        };
        let (mut answers, mut unheard) = (Vec::new(), None);
        for (delivery, state) in settled {
            let Some(pending) = incoming.pending.remove(&delivery) else {
                continue;
            };
            if let DeliveryState::Rejected(Some(error)) = &state
                && (pending.settled || incoming.wants_replies)
            {
                unheard = Some(error.clone());
            }
            if !pending.settled {
                answers.push((delivery, state));
            }
        }
        self.send_dispositions(LinkRole::Receiver, answers, frames);
        match unheard {
            Some(error) => self.detach(handle, error, frames),
            None => self.grant(handle, frames),
        }
    }

    /// Renews the peer's credit once half of it is used.
    fn grant(&mut self, handle: u32, frames: &mut Frames) {
        let Some(Link {
            end: LinkEnd::Incoming(incoming),
            stage: LinkStage::Attached,
            ..
        }) = self.links.get_mut(&handle)
        else {
            return;
        };
        let pending = u32::try_from(incoming.pending.len()).unwrap_or(u32::MAX);
        if incoming.credit + pending <= INCOMING_CREDIT / 2 {
            incoming.credit = INCOMING_CREDIT - pending;
            debug_assert!(
                incoming.credit > 0,
                "whoever is granted credit can send something"
            );
            self.send_flow(Some(handle), false, frames);
        }
    }

    /// Returns the link credit that the peer has granted.
    pub(super) fn credit(&self, handle: u32) -> u32 {
        match self.links.get(&handle).map(|link| (&link.end, &link.stage)) {
            Some((LinkEnd::Outgoing(outgoing), LinkStage::Attached)) => outgoing.credit(),
            Some((LinkEnd::Outgoing(_) | LinkEnd::Incoming(_), _)) | None => 0,
        }
    }

    /// Hands out messages as far as credit and memory allow. Returns the others.
    pub(super) fn deliver(
        &mut self,
        handle: u32,
        messages: Vec<HandedOutMessage>,
        frames: &mut Frames,
    ) -> Vec<HandedOutMessage> {
        let Some(Link {
            id,
            end: LinkEnd::Outgoing(outgoing),
            stage: LinkStage::Attached,
            ..
        }) = self.links.get_mut(&handle)
        else {
            return messages;
        };
        let mut credit = outgoing.credit();
        let mut returned = Vec::new();
        for message in messages {
            let bytes = if message.settled { 0 } else { DELIVERY_BYTES };
            let taken = frames.account.take(bytes);
            let Some(taken) = taken.ok().filter(|_| credit > 0) else {
                credit = 0; // the others stay behind it
                returned.push(message);
                continue;
            };
            credit -= 1;
            outgoing.delivery_count = outgoing.delivery_count.wrapping_add(1);
            let delivery = self.next_delivery;
            self.next_delivery += 1;
            if !message.settled {
                let unsettled = UnsettledDelivery {
                    link: *id,
                    tag: message.tag.clone(),
                    is_answering: false,
                    taken,
                };
                self.unsettled.insert(delivery, unsettled);
                self.unsettled_of.entry(*id).or_default().insert(delivery);
            }
            frames
                .blocked
                .add_anyway(SENDING_BYTES + message.message.len());
            let sending = OutgoingTransfer {
                handle,
                // A settled message has an empty tag, as in Azure, since nothing is left to settle.
                tag: if message.settled {
                    Bytes::new()
                } else {
                    message.tag
                },
                settled: message.settled,
                rest: message.message,
                has_begun: false,
                receipt: message.receipt,
            };
            self.waiting.insert(delivery, sending);
            outgoing.waiting.push_back(delivery);
        }
        self.send_waiting(frames);
        returned
    }

    /// Sends waiting messages as far as the peer's session window allows.
    fn send_waiting(&mut self, frames: &mut Frames) {
        let payload_max = frames.size_max - TRANSFER_HEAD_MAX;
        while self.remote_incoming_window > 0
            && let Some(mut entry) = self.waiting.first_entry()
        {
            let delivery = *entry.key();
            let first = entry.get_mut();
            let payload = first.rest.split_to(first.rest.len().min(payload_max));
            frames.blocked.give_back(payload.len());
            let more = !first.rest.is_empty();
            let handle = first.handle;
            let transfer = Transfer {
                handle,
                delivery_id: (!first.has_begun).then_some(delivery as u32),
                delivery_tag: (!first.has_begun).then(|| first.tag.clone()),
                message_format: (!first.has_begun).then_some(0),
                settled: Some(first.settled),
                more,
                state: None,
                aborted: false,
                payload,
            };
            first.has_begun = true;
            let mut receipt = None;
            if !more {
                receipt = entry.remove().receipt;
                self.note_sent(handle);
                frames.blocked.give_back(SENDING_BYTES);
            }
            self.remote_incoming_window -= 1;
            self.next_outgoing_id = self.next_outgoing_id.wrapping_add(1);
            frames.send(self.channel, &Performative::Transfer(transfer));
            let end = frames.output.len();
            frames
                .receipts
                .extend(receipt.map(|receipt| (end, receipt)));
        }
        debug_assert!(
            self.remote_incoming_window == 0 || self.waiting.is_empty(),
            "messages wait for the peer's window and for nothing else"
        );
    }

    /// Notes that the first waiting message of a link was sent completely.
    fn note_sent(&mut self, handle: u32) {
        if let Some(link) = self.links.get_mut(&handle)
            && let LinkEnd::Outgoing(outgoing) = &mut link.end
        {
            outgoing.waiting.pop_front();
        }
    }

    /// Handles a disposition of the peer about messages that were handed out to it.
    pub(super) fn on_disposition(&mut self, disposition: &Disposition, frames: &mut Frames) {
        let says_nothing = match &disposition.state {
            None => !disposition.settled,
            Some(state) => *state == DeliveryState::Received,
        };
        if says_nothing || disposition.role == LinkRole::Sender {
            return; // how it settles what it sent is nothing that we wait for
        }
        let first = self.delivery_number(disposition.first);
        let last = self.delivery_number(disposition.last.unwrap_or(disposition.first));
        if last < first {
            return;
        }
        let mut by_link: BTreeMap<LinkId, Vec<DeliveredMessage>> = BTreeMap::new();
        let mut lapsed: Vec<(u32, u32)> = Vec::new();
        let mut next = first.max(1);
        for (id, unsettled) in self.unsettled.range_mut(first..=last) {
            frames.steps += 1;
            if next < *id {
                lapsed.push((next as u32, (*id - 1) as u32));
            }
            next = *id + 1;
            if !std::mem::replace(&mut unsettled.is_answering, true) {
                by_link
                    .entry(unsettled.link)
                    .or_default()
                    .push(DeliveredMessage {
                        id: *id,
                        tag: unsettled.tag.clone(),
                    });
            }
        }
        let end = last.min(self.next_delivery - 1);
        if next <= end {
            lapsed.push((next as u32, end as u32));
        }
        if disposition.settled {
            for delivery in by_link.values().flatten() {
                self.take_unsettled(delivery.id);
            }
        } else {
            self.answer_lapsed(lapsed, frames);
        }
        let decision = Decision::of(disposition.state.as_ref());
        for (link, deliveries) in by_link {
            frames.event(ConnectionEvent::Disposition {
                link,
                deliveries,
                decision: decision.clone(),
                settled: disposition.settled,
            });
            self.end_detached(link, frames);
        }
    }

    /// Rejects dispositions about ranges of deliveries that the peer no longer holds.
    fn answer_lapsed(&self, lapsed: Vec<(u32, u32)>, frames: &mut Frames) {
        let error = AmqpError::new(MESSAGE_LOCK_LOST, LockError::LockLost.to_string());
        let state = DeliveryState::Rejected(Some(error));
        let state_of = |(first, last)| (first, last, state.clone());
        let runs = lapsed.into_iter().map(state_of);
        self.send_runs(LinkRole::Sender, runs, true, frames);
    }

    /// Returns the 64-bit number of a delivery from the 32-bit id that the peer uses.
    fn delivery_number(&self, id: u32) -> u64 {
        let behind = (self.next_delivery as u32).wrapping_sub(id);
        if behind > u32::MAX / 2 {
            self.next_delivery + u64::from(id.wrapping_sub(self.next_delivery as u32))
        } else {
            self.next_delivery.saturating_sub(u64::from(behind))
        }
    }

    /// Answers the peer's dispositions, and settles the deliveries.
    pub(super) fn settle_outgoing(
        &mut self,
        settled: Vec<(u64, DeliveryState)>,
        frames: &mut Frames,
    ) {
        let (mut answers, mut settled_of) = (Vec::new(), HashSet::new());
        for (delivery, state) in settled {
            if let Some(taken) = self.take_unsettled(delivery) {
                answers.push((delivery as u32, state));
                settled_of.insert(taken.link);
            }
        }
        self.send_dispositions(LinkRole::Sender, answers, frames);
        for link in settled_of {
            self.end_detached(link, frames);
        }
    }

    /// Answers dispositions of deliveries that are settled at the end of their transaction (AMQP 1.0, 4.4.2).
    pub(super) fn enlist_outgoing(&self, enlisted: Vec<(u64, DeliveryState)>, frames: &mut Frames) {
        let each = enlisted.into_iter();
        let answers = each.map(|(delivery, state)| (delivery as u32, state));
        self.send_states(LinkRole::Sender, answers.collect(), false, frames);
    }

    /// Lets the peer settle a delivery again.
    pub(super) fn reopen(&mut self, delivery: u64) {
        if let Some(unsettled) = self.unsettled.get_mut(&delivery) {
            unsettled.is_answering = false;
        }
    }

    fn send_dispositions(
        &self,
        role: LinkRole,
        answers: Vec<(u32, DeliveryState)>,
        frames: &mut Frames,
    ) {
        self.send_states(role, answers, true, frames);
    }

    /// Sends one frame for each run of deliveries with the same state.
    fn send_states(
        &self,
        role: LinkRole,
        answers: Vec<(u32, DeliveryState)>,
        settled: bool,
        frames: &mut Frames,
    ) {
        let mut runs: Vec<(u32, u32, DeliveryState)> = Vec::new();
        for (delivery, state) in answers {
            match runs.last_mut() {
                Some((_, last, of)) if delivery == last.wrapping_add(1) && *of == state => {
                    *last = delivery;
                }
                _ => runs.push((delivery, delivery, state)),
            }
        }
        self.send_runs(role, runs, settled, frames);
    }

    fn send_runs(
        &self,
        role: LinkRole,
        runs: impl IntoIterator<Item = (u32, u32, DeliveryState)>,
        settled: bool,
        frames: &mut Frames,
    ) {
        for (first, last, state) in runs {
            let disposition = Disposition {
                role,
                first,
                last: (last != first).then_some(last),
                settled,
                state: Some(state),
            };
            frames.send(self.channel, &Performative::Disposition(disposition));
        }
    }

    /// Sends a flow with the session windows, and with the state of a link if `handle` names one.
    fn send_flow(&self, handle: Option<u32>, drain: bool, frames: &mut Frames) {
        let mut flow = Flow {
            next_incoming_id: Some(self.next_incoming_id),
            incoming_window: self.incoming_window,
            next_outgoing_id: self.next_outgoing_id,
            outgoing_window: u32::from(u16::MAX),
            ..Flow::default()
        };
        if let Some(handle) = handle
            && let Some(link) = self.links.get(&handle)
            && matches!(link.stage, LinkStage::Attached)
        {
            let (count, credit) = match &link.end {
                LinkEnd::Incoming(incoming) => (incoming.delivery_count, incoming.credit),
                LinkEnd::Outgoing(outgoing) => (outgoing.delivery_count, outgoing.credit()),
            };
            flow.handle = Some(handle);
            flow.delivery_count = Some(count);
            flow.link_credit = Some(credit);
            flow.drain = drain;
        }
        frames.send(self.channel, &Performative::Flow(flow));
    }
}

impl Incoming {
    /// Adds a transfer frame. Returns the message once it is complete. An error in the message alone ends only the
    /// link.
    fn take_in(
        &mut self,
        transfer: &Transfer,
        frames: &mut Frames,
        now: Timestamp,
    ) -> Result<Option<Partial>, SessionFault> {
        let mut partial = match self.partial.take() {
            Some(partial) => partial,
            None => self
                .begin(transfer, frames, now)
                .map_err(SessionFault::Session)?,
        };
        if let Some(problem) = partial.contradiction(transfer) {
            return Err(SessionFault::Session(AmqpError::new(
                INVALID_FIELD,
                problem,
            )));
        }
        if transfer.aborted {
            return Ok(None);
        }
        partial.settled |= transfer.settled.unwrap_or(false);
        let bytes = partial.payload.len() + transfer.payload.len();
        let envelope_max = match partial.format {
            BATCH_FORMAT => BATCH_ENVELOPE_MAX,
            _ => 0,
        };
        if partial.is_too_large || bytes > self.message_bytes_max.saturating_add(envelope_max) {
            // The message is still read to its end, since the link can be used afterwards.
            partial.is_too_large = true;
            partial.payload = Vec::new();
        } else {
            partial.make_room(transfer.payload.len());
            partial.payload.extend_from_slice(&transfer.payload);
        }
        let taken = partial
            .taken
            .resize(MESSAGE_BYTES + partial.payload.capacity());
        taken.map_err(|NothingLeft| SessionFault::Connection(nothing_left("this message")))?;
        if !transfer.more {
            let is_beyond = partial.payload.len() > self.message_bytes_max;
            partial.is_too_large |= is_beyond
                && counted_bytes(partial.format, &partial.payload) > self.message_bytes_max;
            return Ok(Some(partial));
        }
        frames.note_partial(partial.began_at);
        self.partial = Some(partial);
        Ok(None)
    }

    fn begin(
        &mut self,
        transfer: &Transfer,
        frames: &Frames,
        now: Timestamp,
    ) -> Result<Partial, AmqpError> {
        self.credit = self.credit.checked_sub(1).ok_or_else(|| {
            AmqpError::new(TRANSFER_LIMIT_EXCEEDED, "the link's credit is used up")
        })?;
        self.delivery_count = self.delivery_count.wrapping_add(1);
        let delivery = transfer.delivery_id.ok_or_else(|| {
            let problem = "the first frame of a message needs a delivery-id";
            AmqpError::new(INVALID_FIELD, problem)
        })?;
        Ok(Partial {
            delivery,
            format: transfer.message_format.unwrap_or(0),
            settled: false,
            transaction: match &transfer.state {
                // Copies the id, because a slice would keep the whole frame in memory.
                Some(DeliveryState::Transactional(part)) => {
                    Some(Bytes::copy_from_slice(&part.transaction))
                }
                _ => None,
            },
            is_too_large: false,
            payload: Vec::new(),
            taken: frames.account.nothing(),
            began_at: now,
        })
    }
}

impl Partial {
    /// Returns an error text if a frame contradicts the delivery-id or message-format of the message's first frame.
    fn contradiction(&self, transfer: &Transfer) -> Option<&'static str> {
        if transfer.delivery_id.is_some_and(|id| id != self.delivery) {
            return Some("the delivery-id changes within a message");
        }
        let is_same = |format| format == self.format;
        (!transfer.message_format.is_none_or(is_same))
            .then_some("the message-format changes within a message")
    }

    /// Reserves room for `bytes` more bytes, or for as many as were received so far, up to one frame, if that is more.
    fn make_room(&mut self, bytes: usize) {
        if self.payload.capacity() - self.payload.len() < bytes {
            let more = self.payload.len().min(FRAME_BYTES_MAX as usize);
            self.payload.reserve_exact(bytes.max(more));
        }
    }
}

/// Returns the total length of the names in an attach, in bytes: link name, addresses and session id.
pub(super) fn named_bytes(attach: &Attach) -> usize {
    let source = attach.source.as_ref().map_or(0, |source| {
        let session = match source.session() {
            Some(SessionSelection::Named(name)) => name.len(),
            Some(SessionSelection::Next) | None => 0,
        };
        source.address.as_ref().map_or(0, String::len) + session
    });
    let target = match &attach.target {
        Some(LinkTarget::Node { address, .. }) => address.as_ref().map_or(0, String::len),
        Some(LinkTarget::Coordinator) | None => 0,
    };
    let onward = attach.transfer_destination().map_or(0, str::len);
    attach.name.len() + source + target + onward
}

/// Returns the answer to the peer's attach: the same link from the server's end.
fn answer_to(attach: &Attach) -> Attach {
    let source = attach.source.clone();
    let target = attach.target.clone();
    Attach {
        name: attach.name.clone(),
        handle: attach.handle,
        role: match attach.role {
            LinkRole::Sender => LinkRole::Receiver,
            LinkRole::Receiver => LinkRole::Sender,
        },
        // Confirms the requested mode. .NET's client keeps empty tags for the messages that it sends settled.
        sender_settles: attach.sender_settles,
        // A sender that requests mode second still gets a single, settled disposition.
        receiver_settles: match attach.role {
            LinkRole::Sender => ReceiverSettles::First,
            LinkRole::Receiver => attach.receiver_settles,
        },
        source: Some(source.unwrap_or_default()),
        target: Some(target.unwrap_or(LinkTarget::Node {
            address: None,
            dynamic: false,
        })),
        initial_delivery_count: None,
        max_message_size: None,
        properties: Map::new(),
    }
}

fn unattached(handle: u32) -> SessionFault {
    let problem = format!("nothing is attached to the handle {handle}");
    SessionFault::Session(AmqpError::new(UNATTACHED_HANDLE, problem))
}
