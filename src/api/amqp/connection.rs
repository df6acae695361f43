//! The state of one connection: bytes and answers in, bytes and events out. Nothing here waits, and the time is
//! an argument.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use crate::api::amqp::event::{ConnectionEvent, LinkId};
use crate::api::amqp::frames::Frames;
use crate::api::amqp::limits::{
    CLOSE_DEADLINE, FRAME_BYTES_MAX, FRAME_BYTES_MIN, FRAME_STEPS, FRAME_STEPS_MAX,
    HANDSHAKE_DEADLINE, IDLE_TIMEOUT, IDLE_TIMEOUT_MIN, MESSAGE_BYTES, OUTPUT_BYTES_MAX,
    READ_BYTES_MAX, SESSIONS_MAX, UNFINISHED_DEADLINE,
};
use crate::api::amqp::receipt::Receipt;
use crate::api::amqp::session::{
    Acceptance, HandedOutMessage, Session, SessionFault, nothing_left,
};
use crate::base::Timestamp;
use crate::base::budget::{MemoryAccount, NothingLeft, TakenBytes};
use crate::wire::amqp::condition::{
    AmqpError, CONNECTION_FORCED, DECODE_ERROR, FRAMING_ERROR, ILLEGAL_STATE, INVALID_FIELD,
    RESOURCE_LIMIT_EXCEEDED,
};
use crate::wire::amqp::frame::{Frame, FrameKind, Protocol, next_frame, write_frame};
use crate::wire::amqp::performative::{Begin, Open, Performative};
use crate::wire::amqp::sasl::{self, Init, Mechanism, SaslOutcome};
use crate::wire::amqp::state::DeliveryState;
use crate::wire::amqp::value::Map;

/// The product of Azure's client for Go. It knows a missing entity by the status of its token alone; others tell more of
/// the error that answers their attach.
const GO_CLIENT: &str = "MSGolangClient";

/// Bytes that have to be left for the next frame, or more of it, to be read: one of the largest size, and the message in it.
const FRAME_ROOM: usize = FRAME_BYTES_MAX as usize + READ_BYTES_MAX + MESSAGE_BYTES;

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The peer has to say which protocol it speaks.
    Header,
    /// It has to choose a mechanism.
    Sasl,
    /// It has shown a key that is being looked at.
    Authenticating,
    /// It has to speak AMQP now.
    AmqpHeader,
    /// It has to open.
    Opening,
    Open,
    /// We have closed, and what the peer still sends means nothing, but for its own close.
    Closing,
    Closed,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    container_id: String,
    phase: Phase,
    input: BytesMut,
    /// Frames of the input wait for their turn.
    is_paused: bool,
    /// Deliveries that frames stood for or were about, as far as no turn of others was given for them.
    steps_owed: usize,
    /// The bytes of the input that are no whole frame yet.
    unfinished: TakenBytes,
    /// When that began.
    unfinished_since: Option<Timestamp>,
    /// When links were ended whose messages took too long, if nothing has come in since.
    silent_since: Option<Timestamp>,
    /// When nothing was read, last: what is not finished then is not the peer's fault.
    not_read_at: Timestamp,
    frames: Frames,
    sessions: HashMap<u16, Session>,
    /// Channel and handle of links that may still be answered.
    places: HashMap<LinkId, (u16, u32)>,
    started_at: Timestamp,
    received_at: Timestamp,
    sent_at: Timestamp,
    /// When we closed it, if we did.
    closing_at: Option<Timestamp>,
    /// How long the end may take then.
    closing_takes: Duration,
    /// How often the peer wants to hear something.
    heartbeat: Option<Duration>,
    /// The peer looks for a missing entity in the answer to its token.
    reads_missing_from_tokens: bool,
}

impl Connection {
    /// A connection that has just been accepted.
    pub(super) fn new(container_id: String, account: MemoryAccount, now: Timestamp) -> Self {
        Self {
            container_id,
            phase: Phase::Header,
            input: BytesMut::new(),
            is_paused: false,
            steps_owed: 0,
            unfinished: account.nothing(),
            unfinished_since: None,
            silent_since: None,
            not_read_at: now,
            frames: Frames::new(account),
            sessions: HashMap::new(),
            places: HashMap::new(),
            started_at: now,
            received_at: now,
            sent_at: now,
            closing_at: None,
            closing_takes: CLOSE_DEADLINE,
            heartbeat: None,
            reads_missing_from_tokens: false,
        }
    }

    /// Takes bytes of the peer.
    pub(super) fn receive(&mut self, bytes: &[u8], now: Timestamp) {
        self.received_at = now;
        self.silent_since = None;
        self.input.extend_from_slice(bytes);
        self.proceed(now);
    }

    /// Reads the frames that are there, until what they cause has to be written, or others have to have their turn.
    pub(super) fn proceed(&mut self, now: Timestamp) {
        self.frames.steps = 0;
        self.is_paused = self.read(now);
        self.steps_owed += self.frames.steps;
        if self.is_paused {
            self.unfinished_since = None;
            // No more is read until there is room.
            return self.unfinished.resize_anyway(self.input.len());
        }
        if self.input.is_empty() {
            // One that waits for the next frame keeps no memory for it.
            self.input = BytesMut::new();
            self.unfinished_since = None;
        } else if self.unfinished_since.is_none() {
            self.unfinished_since = Some(now);
        }
        if let Err(NothingLeft) = self.unfinished.resize(self.input.len()) {
            self.fail(nothing_left("this frame"), now);
        }
    }

    /// Returns whether more bytes can be taken.
    pub(super) fn wants_input(&self) -> bool {
        let is_read = !matches!(self.phase, Phase::Authenticating | Phase::Closed);
        is_read && !self.is_paused && !self.waits_for_memory()
    }

    /// Returns whether the memory that there is for this peer is full of what it has sent, and part of that is about to be stored.
    fn waits_for_memory(&self) -> bool {
        !self.frames.account.has_room(FRAME_ROOM) && self.is_storing()
    }

    /// Notes that nothing is read now: what the peer does not finish meanwhile is not its fault.
    pub(super) fn note_unread(&mut self, now: Timestamp) {
        self.not_read_at = now;
    }

    /// Returns whether frames that have come can be read now, after others had their turn.
    pub(super) fn can_proceed(&self) -> bool {
        self.is_paused && !self.waits_for_memory()
    }

    /// Takes the part of a task's budget that frames have cost since the last call: after all of it, which is 128, others have
    /// their turn.
    pub(super) fn take_cost(&mut self) -> usize {
        const OF_ONE: usize = FRAME_STEPS_MAX / 128;
        let cost = self.steps_owed / OF_ONE;
        self.steps_owed %= OF_ONE;
        cost
    }

    /// Returns whether messages of the peer are not answered yet.
    fn is_storing(&self) -> bool {
        self.sessions.values().any(Session::is_storing)
    }

    /// Returns whether the peer looks for a missing entity in the answer to its token.
    pub(super) fn reads_missing_from_tokens(&self) -> bool {
        self.reads_missing_from_tokens
    }

    /// The account that all is counted for.
    pub(super) fn account(&self) -> &MemoryAccount {
        &self.frames.account
    }

    /// The peer has shown a key, and everything counts for `account` from now on.
    pub(super) fn move_to(&mut self, account: &MemoryAccount) {
        self.unfinished.move_to(account);
        for session in self.sessions.values_mut() {
            session.move_to(account);
        }
        self.frames.move_to(account);
    }

    /// Takes the next event that the shell has to handle.
    pub(super) fn next_event(&mut self) -> Option<ConnectionEvent> {
        let event = self.frames.events.pop_front()?;
        if let ConnectionEvent::Detached { link, .. } = &event {
            self.places.remove(link);
        }
        Some(event)
    }

    /// Takes the bytes to send, which count as sent from now on.
    pub(super) fn take_output(&mut self, now: Timestamp) -> Vec<u8> {
        if !self.frames.output.is_empty() {
            self.sent_at = now;
        }
        std::mem::take(&mut self.frames.output)
    }

    /// Returns the receipts of the messages that end in what was taken now.
    pub(super) fn take_receipts(&mut self) -> VecDeque<(usize, Receipt)> {
        std::mem::take(&mut self.frames.receipts)
    }

    /// Bytes that wait to be taken.
    pub(super) fn output_bytes(&self) -> usize {
        self.frames.output.len()
    }

    /// Bytes that wait to be taken, or for the peer's window.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.frames.output.len() + self.frames.blocked.bytes()
    }

    /// Reports whether the connection is over once the output is sent.
    pub(super) fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Returns by when the peer has to take what is left and to answer, once we have closed the connection.
    pub(super) fn close_by(&self) -> Option<Timestamp> {
        Some(self.closing_at? + self.closing_takes)
    }

    /// How long the peer has to take what is left once the connection is closed, and as long again to let its stream be closed.
    pub(super) fn closing_takes(&self) -> Duration {
        self.closing_takes
    }

    /// When `tick` is due.
    pub(super) fn deadline(&self) -> Timestamp {
        match self.phase {
            Phase::Header
            | Phase::Sasl
            | Phase::Authenticating
            | Phase::AmqpHeader
            | Phase::Opening => self.started_at + HANDSHAKE_DEADLINE,
            Phase::Closing => self.close_by().unwrap_or(self.received_at),
            Phase::Open | Phase::Closed => {
                let silence = self.received_at + 2 * IDLE_TIMEOUT;
                let heartbeat = self.heartbeat.map(|every| self.sent_at + every);
                let begun = [self.unfinished_since, self.silent_since];
                let [frame, silent] = begun.map(|since| Some(since? + UNFINISHED_DEADLINE));
                let others = [heartbeat, frame, silent, self.frames.partial_deadline];
                others.into_iter().flatten().fold(silence, Timestamp::min)
            }
        }
    }

    /// Says how long nothing was really heard: a clock that was moved makes no silence.
    pub(super) fn note_silence(&mut self, silence: Duration, now: Timestamp) {
        self.received_at = self.received_at.max(now - silence);
    }

    /// Does what time has made due.
    pub(super) fn tick(&mut self, now: Timestamp) {
        if now < self.deadline() {
            return;
        }
        match self.phase {
            Phase::Open if now >= self.received_at + 2 * IDLE_TIMEOUT => {
                let problem = "nothing was heard for too long";
                self.close(AmqpError::new(CONNECTION_FORCED, problem), now);
            }
            Phase::Open => {
                self.end_unfinished(now);
                if self
                    .heartbeat
                    .is_some_and(|every| now >= self.sent_at + every)
                {
                    write_frame(&mut self.frames.output, FrameKind::Amqp, 0, |_| {});
                }
            }
            Phase::Header
            | Phase::Sasl
            | Phase::Authenticating
            | Phase::AmqpHeader
            | Phase::Opening
            | Phase::Closing
            | Phase::Closed => self.end(),
        }
    }

    /// Ends what the peer takes too long to finish.
    fn end_unfinished(&mut self, now: Timestamp) {
        if !self.wants_input() {
            self.not_read_at = now;
        }
        let is_late = |since: Timestamp| now >= since.max(self.not_read_at) + UNFINISHED_DEADLINE;
        let next = self.not_read_at + UNFINISHED_DEADLINE;
        if let Some(since) = self.unfinished_since {
            if is_late(since) {
                let seconds = UNFINISHED_DEADLINE.as_secs();
                let problem = format!("a frame took more than {seconds} s to come in");
                return self.fail(AmqpError::new(RESOURCE_LIMIT_EXCEEDED, problem), now);
            }
            self.unfinished_since = Some(since.max(self.not_read_at));
        }
        if let Some(since) = self.silent_since {
            if is_late(since) {
                let seconds = UNFINISHED_DEADLINE.as_secs();
                let problem =
                    format!("nothing came in for {seconds} s after an unfinished message");
                return self.close(AmqpError::new(RESOURCE_LIMIT_EXCEEDED, problem), now);
            }
            self.silent_since = Some(since.max(self.not_read_at));
        }
        if self.frames.partial_deadline.is_some_and(|at| now >= at) {
            if now < next {
                self.frames.partial_deadline = Some(next);
                return;
            }
            let began_before = now - UNFINISHED_DEADLINE;
            let mut first: Option<Timestamp> = None;
            for session in self.sessions.values_mut() {
                let of_session = session.end_late(began_before, &mut self.frames);
                first = first.into_iter().chain(of_session.next).min();
                if of_session.has_ended {
                    self.silent_since = Some(now);
                }
            }
            self.frames.partial_deadline = first.map(|began_at| began_at + UNFINISHED_DEADLINE);
        }
    }

    /// Continues the SASL exchange, now that it is known whether the peer's key is right.
    pub(super) fn authenticated(&mut self, is_right: bool, now: Timestamp) {
        if self.phase == Phase::Authenticating {
            self.sasl_outcome(is_right);
            self.read(now);
        }
    }

    /// Answers an attach.
    pub(super) fn accept(&mut self, link: LinkId, with: Acceptance) {
        self.at(link, |session, handle, frames| {
            session.accept(handle, with, frames);
        });
    }

    /// Ends a link, or rejects its attach.
    pub(super) fn detach(&mut self, link: LinkId, error: AmqpError) {
        self.at(link, |session, handle, frames| {
            session.detach(handle, error, frames);
        });
    }

    /// Tells the peer what became of messages that it sent.
    pub(super) fn settle_incoming(&mut self, link: LinkId, settled: Vec<(u32, DeliveryState)>) {
        self.at(link, |session, handle, frames| {
            session.settle_incoming(handle, settled, frames);
        });
    }

    /// Tells the peer what became of messages that it received.
    pub(super) fn settle_outgoing(&mut self, link: LinkId, settled: Vec<(u64, DeliveryState)>) {
        if let Some(session) = session_of(&self.places, &mut self.sessions, link) {
            session.settle_outgoing(settled, &mut self.frames);
        }
    }

    /// Answers dispositions of what waits for the end of a transaction.
    pub(super) fn enlist_outgoing(&mut self, link: LinkId, enlisted: Vec<(u64, DeliveryState)>) {
        if let Some(session) = session_of(&self.places, &mut self.sessions, link) {
            session.enlist_outgoing(enlisted, &mut self.frames);
        }
    }

    /// Lets the peer settle a delivery again, whose transaction was rolled back.
    pub(super) fn reopen(&mut self, link: LinkId, delivery: u64) {
        if let Some(session) = session_of(&self.places, &mut self.sessions, link) {
            session.reopen(delivery);
        }
    }

    /// Forgets deliveries by their tags: nothing is left to settle.
    pub(super) fn forget(&mut self, link: LinkId, tags: &HashSet<Bytes>) {
        if let Some(session) = session_of(&self.places, &mut self.sessions, link) {
            session.forget_deliveries(link, tags, &mut self.frames);
        }
    }

    /// Hands out messages. Returns those for which there is no credit any more.
    pub(super) fn deliver(
        &mut self,
        link: LinkId,
        messages: Vec<HandedOutMessage>,
    ) -> Vec<HandedOutMessage> {
        let mut messages = Some(messages);
        let rest = self.at(link, |session, handle, frames| {
            session.deliver(handle, messages.take().unwrap_or_default(), frames)
        });
        rest.or(messages).unwrap_or_default()
    }

    /// Returns how many messages the peer takes over a link.
    pub(super) fn credit(&mut self, link: LinkId) -> usize {
        let credit = self.at(link, |session, handle, _| session.credit(handle));
        credit.unwrap_or_default() as usize
    }

    /// Says that nothing more is there for a peer that drains up to `limit`.
    pub(super) fn drained(&mut self, link: LinkId, limit: u32) {
        self.at(link, |session, handle, frames| {
            session.drained(handle, limit, frames);
        });
    }

    /// Closes the connection for the reason `error`, and gives the peer so long for it.
    pub(super) fn close_within(&mut self, within: Duration, error: AmqpError, now: Timestamp) {
        self.closing_takes = within;
        self.close(error, now);
    }

    /// Closes the connection for the reason `error`.
    pub(super) fn close(&mut self, error: AmqpError, now: Timestamp) {
        self.closing_at = self.closing_at.or(Some(now));
        match self.phase {
            Phase::Open => {
                let close = Performative::Close(Some(error));
                self.frames.send(0, &close);
                self.end_sessions();
                self.phase = Phase::Closing;
            }
            Phase::Opening => {
                // An error can only be told on an open connection.
                self.send_open();
                self.frames.send(0, &Performative::Close(Some(error)));
                self.end();
            }
            Phase::Header | Phase::Sasl | Phase::Authenticating | Phase::AmqpHeader => self.end(),
            Phase::Closing | Phase::Closed => {}
        }
    }

    /// The peer is gone.
    pub(super) fn end(&mut self) {
        self.input = BytesMut::new();
        self.unfinished.give_back(self.unfinished.bytes());
        self.end_sessions();
        self.phase = Phase::Closed;
    }

    /// Links, and bytes that wait for the peer's window.
    #[cfg(test)]
    pub(super) fn counts(&self) -> [usize; 2] {
        [self.frames.links, self.frames.blocked.bytes()]
    }

    fn end_sessions(&mut self) {
        for (_, mut session) in self.sessions.drain() {
            session.end_links(&mut self.frames);
        }
        debug_assert_eq!(self.frames.links, 0, "every link is in a session");
        debug_assert_eq!(
            self.frames.blocked.bytes(),
            0,
            "and every message in a link"
        );
    }

    fn at<T>(
        &mut self,
        link: LinkId,
        act: impl FnOnce(&mut Session, u32, &mut Frames) -> T,
    ) -> Option<T> {
        let (channel, handle) = *self.places.get(&link)?;
        let session = self.sessions.get_mut(&channel)?;
        let is_there = session.has(handle, link);
        is_there.then(|| act(session, handle, &mut self.frames))
    }

    /// Reads what came as far as it goes. Returns whether frames may be left.
    fn read(&mut self, now: Timestamp) -> bool {
        // Looked at once, since that is about all links. Messages that are begun to be stored meanwhile are few.
        let is_storing = OnceCell::new();
        loop {
            let has_room = self.frames.output.len() < OUTPUT_BYTES_MAX;
            let has_memory = self.frames.account.has_room(FRAME_ROOM)
                || !is_storing.get_or_init(|| self.is_storing());
            if !has_room || !has_memory || self.frames.steps >= FRAME_STEPS_MAX {
                return !self.input.is_empty();
            }
            let read = match self.phase {
                Phase::Header | Phase::AmqpHeader => self.read_header(),
                Phase::Sasl | Phase::Opening | Phase::Open | Phase::Closing => self.read_frame(now),
                Phase::Authenticating => false,
                Phase::Closed => {
                    self.input.clear();
                    false
                }
            };
            if !read {
                return false;
            }
        }
    }

    fn read_header(&mut self) -> bool {
        if self.input.len() < Protocol::LENGTH {
            return false;
        }
        let header = self.input.split_to(Protocol::LENGTH);
        match (Protocol::of(&header), self.phase) {
            (Some(Protocol::Sasl), Phase::Header) => {
                self.frames.output.extend(Protocol::Sasl.header());
                sasl::write_mechanisms(&mut self.frames.output);
                self.phase = Phase::Sasl;
            }
            (Some(Protocol::Amqp), _) => {
                self.frames.output.extend(Protocol::Amqp.header());
                self.phase = Phase::Opening;
            }
            _ => {
                // The standard's way to say what is spoken here.
                self.frames.output.extend(Protocol::Sasl.header());
                self.end();
            }
        }
        true
    }

    fn read_frame(&mut self, now: Timestamp) -> bool {
        match next_frame(&mut self.input, FRAME_BYTES_MAX) {
            Ok(None) => false,
            Ok(Some(frame)) => {
                self.unfinished_since = None;
                self.steps_owed += FRAME_STEPS;
                self.on_frame(frame, now);
                true
            }
            Err(error) => {
                self.fail(AmqpError::new(FRAMING_ERROR, error.to_string()), now);
                false
            }
        }
    }

    /// Ends a connection on which nothing more can be understood.
    fn fail(&mut self, error: AmqpError, now: Timestamp) {
        self.close(error, now);
        self.end();
    }

    fn on_frame(&mut self, frame: Frame, now: Timestamp) {
        match (frame.kind, self.phase) {
            (FrameKind::Sasl, Phase::Sasl) => self.on_sasl(frame.body),
            (FrameKind::Amqp, Phase::Sasl) | (FrameKind::Sasl, _) => {
                let problem = "a frame of the other layer stands here";
                self.fail(AmqpError::new(FRAMING_ERROR, problem), now);
            }
            (FrameKind::Amqp, _) if frame.body.is_empty() => {} // a heartbeat
            (FrameKind::Amqp, _) => match Performative::decode(frame.body) {
                Ok(performative) => self.on_performative(frame.channel, performative, now),
                Err(error) => self.fail(AmqpError::new(DECODE_ERROR, error.to_string()), now),
            },
        }
    }

    fn on_sasl(&mut self, body: Bytes) {
        let Ok(init) = Init::decode(body) else {
            return self.end();
        };
        match Mechanism::from_name(&init.mechanism) {
            Some(Mechanism::Plain) => match init.plain() {
                Some(plain) => {
                    self.phase = Phase::Authenticating;
                    self.frames.event(ConnectionEvent::Plain(plain));
                }
                None => self.sasl_outcome(false),
            },
            Some(Mechanism::Mssbcbs | Mechanism::Anonymous | Mechanism::External) => {
                self.sasl_outcome(true);
            }
            None => self.sasl_outcome(false),
        }
    }

    fn sasl_outcome(&mut self, is_right: bool) {
        let outcome = if is_right {
            SaslOutcome::Ok
        } else {
            SaslOutcome::Denied
        };
        sasl::write_outcome(&mut self.frames.output, outcome);
        if is_right {
            self.phase = Phase::AmqpHeader;
        } else {
            self.end();
        }
    }

    fn on_performative(&mut self, channel: u16, performative: Performative, now: Timestamp) {
        match (self.phase, performative) {
            (Phase::Opening, Performative::Open(open)) => self.on_open(&open, now),
            (Phase::Open | Phase::Closing, Performative::Close(_)) => {
                if self.phase == Phase::Open {
                    self.frames.send(0, &Performative::Close(None));
                }
                self.end();
            }
            (Phase::Closing, _) => {}
            (Phase::Open, Performative::Begin(begin)) => self.on_begin(channel, &begin, now),
            (Phase::Open, Performative::Open(_)) | (Phase::Opening, _) => {
                let problem = "a connection opens once, and first";
                self.fail(AmqpError::new(ILLEGAL_STATE, problem), now);
            }
            (_, performative) => self.on_session(channel, performative, now),
        }
    }

    fn on_open(&mut self, open: &Open, now: Timestamp) {
        if open.max_frame_size < FRAME_BYTES_MIN {
            let problem = format!("max-frame-size has to be {FRAME_BYTES_MIN} or more");
            return self.close(AmqpError::new(INVALID_FIELD, problem), now);
        }
        self.frames.size_max = open.max_frame_size.min(FRAME_BYTES_MAX) as usize;
        self.heartbeat = open.idle_timeout_ms.map(|ms| {
            let idle = Duration::from_millis(u64::from(ms)).max(IDLE_TIMEOUT_MIN);
            idle / 2
        });
        self.reads_missing_from_tokens = open.product() == Some(GO_CLIENT);
        self.send_open();
        self.phase = Phase::Open;
    }

    fn send_open(&mut self) {
        let idle = u32::try_from(IDLE_TIMEOUT.as_millis()).unwrap_or(u32::MAX);
        let open = Open {
            container_id: self.container_id.clone(),
            hostname: None,
            max_frame_size: FRAME_BYTES_MAX,
            channel_max: SESSIONS_MAX - 1,
            idle_timeout_ms: Some(idle),
            properties: Map::new(),
        };
        self.frames.send(0, &Performative::Open(open));
    }

    fn on_begin(&mut self, channel: u16, begin: &Begin, now: Timestamp) {
        if channel >= SESSIONS_MAX {
            let problem = format!("channels end at {}", SESSIONS_MAX - 1);
            return self.close(AmqpError::new(RESOURCE_LIMIT_EXCEEDED, problem), now);
        }
        if self.sessions.contains_key(&channel) {
            let problem = format!("a session has begun on channel {channel} already");
            return self.close(AmqpError::new(ILLEGAL_STATE, problem), now);
        }
        match Session::begin(channel, begin, &mut self.frames) {
            Ok(session) => {
                self.sessions.insert(channel, session);
            }
            Err(NothingLeft) => self.close(nothing_left("another session"), now),
        }
    }

    fn on_session(&mut self, channel: u16, performative: Performative, now: Timestamp) {
        let frames = &mut self.frames;
        let Some(session) = self.sessions.get_mut(&channel) else {
            let problem = format!("no session has begun on channel {channel}");
            return self.close(AmqpError::new(ILLEGAL_STATE, problem), now);
        };
        if let Performative::End(_) = performative {
            if !session.is_ending {
                frames.send(channel, &Performative::End(None));
            }
            session.end_links(frames);
            self.sessions.remove(&channel);
            return;
        }
        if session.is_ending {
            return;
        }
        let done = match performative {
            Performative::Attach(attach) => {
                let handle = attach.handle;
                let attached = session.attach(attach, frames);
                attached.map(|link| {
                    self.places.insert(link, (channel, handle));
                })
            }
            Performative::Flow(flow) => session.on_flow(&flow, frames),
            Performative::Transfer(transfer) => session.on_transfer(&transfer, frames, now),
            Performative::Disposition(disposition) => {
                session.on_disposition(&disposition, frames);
                Ok(())
            }
            Performative::Detach(detach) => session.on_detach(&detach, frames),
            // They were dealt with before.
            Performative::Open(_)
            | Performative::Begin(_)
            | Performative::End(_)
            | Performative::Close(_) => Ok(()),
        };
        match done {
            Ok(()) => {}
            Err(SessionFault::Session(error)) => {
                frames.send(channel, &Performative::End(Some(error)));
                session.is_ending = true;
                session.end_links(frames);
            }
            Err(SessionFault::Connection(error)) => self.close(error, now),
        }
    }
}

/// Returns the session that a link is, or was, attached to.
fn session_of<'a>(
    places: &HashMap<LinkId, (u16, u32)>,
    sessions: &'a mut HashMap<u16, Session>,
    link: LinkId,
) -> Option<&'a mut Session> {
    sessions.get_mut(&places.get(&link)?.0)
}
