//! The state machine of one connection. Takes bytes and answers, and produces bytes and events. Does no I/O and never
//! waits; the time is passed in as an argument.

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

/// The product name of Azure's client for Go. This client detects a missing entity only by the status of the reply to
/// its token. Other clients report more of the error that answers their attach.
const GO_CLIENT: &str = "MSGolangClient";

/// Free bytes of memory required to read on: one frame of the largest size, one read, and the overhead of a message.
const FRAME_ROOM: usize = FRAME_BYTES_MAX as usize + READ_BYTES_MAX + MESSAGE_BYTES;

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Waits for the first protocol header.
    Header,
    /// Waits for the peer to choose a SASL mechanism.
    Sasl,
    /// The peer has presented a key, which is being checked.
    Authenticating,
    /// Waits for the AMQP protocol header.
    AmqpHeader,
    /// Waits for the peer's open.
    Opening,
    Open,
    /// The server has sent a close. Every frame but the peer's close is ignored.
    Closing,
    Closed,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    container_id: String,
    phase: Phase,
    input: BytesMut,
    /// True while complete frames may be left in the input.
    is_paused: bool,
    /// The processing cost of frames, in deliveries, for which the task has not yielded yet.
    steps_owed: usize,
    /// The memory taken for the unprocessed input.
    unfinished: TakenBytes,
    /// The time since which an incomplete frame is in the input.
    unfinished_since: Option<Timestamp>,
    /// The time at which links were ended for incomplete messages, if nothing has been received since.
    silent_since: Option<Timestamp>,
    /// The last time at which reading was suspended. Time before it does not count against a peer with unfinished
    /// input.
    not_read_at: Timestamp,
    frames: Frames,
    sessions: HashMap<u16, Session>,
    /// The channel and handle of each link that may still get answers.
    places: HashMap<LinkId, (u16, u32)>,
    started_at: Timestamp,
    received_at: Timestamp,
    sent_at: Timestamp,
    /// The time at which the server began to close the connection, if it has.
    closing_at: Option<Timestamp>,
    /// The time that the peer then has to complete the close.
    closing_takes: Duration,
    /// The interval at which the peer expects at least one frame.
    heartbeat: Option<Duration>,
    /// True if the peer detects a missing entity by the reply to its token.
    reads_missing_from_tokens: bool,
}

impl Connection {
    /// Makes the state of a connection that was just accepted.
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

    /// Takes bytes that the peer has sent.
    pub(super) fn receive(&mut self, bytes: &[u8], now: Timestamp) {
        self.received_at = now;
        self.silent_since = None;
        self.input.extend_from_slice(bytes);
        self.proceed(now);
    }

    /// Processes the received frames, until the output is full, memory is short, or the task has to yield.
    pub(super) fn proceed(&mut self, now: Timestamp) {
        self.frames.steps = 0;
        self.is_paused = self.read(now);
        self.steps_owed += self.frames.steps;
        if self.is_paused {
            self.unfinished_since = None;
            // Reading stops until there is room, so the input can be counted without a check of the limit.
            return self.unfinished.resize_anyway(self.input.len());
        }
        if self.input.is_empty() {
            // An idle connection keeps no input buffer.
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

    /// Returns whether the peer's memory is used up while messages of the peer are being stored.
    fn waits_for_memory(&self) -> bool {
        !self.frames.account.has_room(FRAME_ROOM) && self.is_storing()
    }

    /// Notes that reading is suspended at `now`, so that the time is not counted against the peer's unfinished input.
    pub(super) fn note_unread(&mut self, now: Timestamp) {
        self.not_read_at = now;
    }

    /// Returns whether received frames can be processed, now that the task has yielded.
    pub(super) fn can_proceed(&self) -> bool {
        self.is_paused && !self.waits_for_memory()
    }

    /// Takes the number of units of the task's cooperative budget that frames have used since the last call. A task
    /// yields after 128 units.
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

    /// Returns the memory account of the connection.
    pub(super) fn account(&self) -> &MemoryAccount {
        &self.frames.account
    }

    /// Moves all memory of the connection to `account`, once the peer has presented a valid key or token.
    pub(super) fn move_to(&mut self, account: &MemoryAccount) {
        self.unfinished.move_to(account);
        for session in self.sessions.values_mut() {
            session.move_to(account);
        }
        self.frames.move_to(account);
    }

    /// Takes the next event that the task of the connection has to handle.
    pub(super) fn next_event(&mut self) -> Option<ConnectionEvent> {
        let event = self.frames.events.pop_front()?;
        if let ConnectionEvent::Detached { link, .. } = &event {
            self.places.remove(link);
        }
        Some(event)
    }

    /// Takes the bytes to send, and counts them as sent at `now`.
    pub(super) fn take_output(&mut self, now: Timestamp) -> Vec<u8> {
        if !self.frames.output.is_empty() {
            self.sent_at = now;
        }
        std::mem::take(&mut self.frames.output)
    }

    /// Takes the receipts of the messages that end in the output of the last [`Connection::take_output`].
    pub(super) fn take_receipts(&mut self) -> VecDeque<(usize, Receipt)> {
        std::mem::take(&mut self.frames.receipts)
    }

    /// Returns the number of bytes in the output.
    pub(super) fn output_bytes(&self) -> usize {
        self.frames.output.len()
    }

    /// Returns the number of bytes in the output, and of those that wait for the peer's session window.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.frames.output.len() + self.frames.blocked.bytes()
    }

    /// Returns whether the connection ends once the output is sent.
    pub(super) fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Returns the deadline for the peer to read the remaining output and answer the close; `None` if none was begun.
    pub(super) fn close_by(&self) -> Option<Timestamp> {
        Some(self.closing_at? + self.closing_takes)
    }

    /// Returns the time that the peer has to answer a close. The shutdown of the stream may take the same time again.
    pub(super) fn closing_takes(&self) -> Duration {
        self.closing_takes
    }

    /// Returns the time at which `tick` is due.
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

    /// Corrects the time of the last receipt by the measured `silence`, so that a change of the system clock does not
    /// look like silence.
    pub(super) fn note_silence(&mut self, silence: Duration, now: Timestamp) {
        self.received_at = self.received_at.max(now - silence);
    }

    /// Runs the timers that are due: deadlines, idle timeout and heartbeat.
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

    /// Ends frames and messages that the peer has not completed in time.
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

    /// Continues the SASL exchange with the result of the check of the peer's key.
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

    /// Sends the outcomes of messages that the peer has sent.
    pub(super) fn settle_incoming(&mut self, link: LinkId, settled: Vec<(u32, DeliveryState)>) {
        self.at(link, |session, handle, frames| {
            session.settle_incoming(handle, settled, frames);
        });
    }

    /// Sends the outcomes of messages that the peer has received.
    pub(super) fn settle_outgoing(&mut self, link: LinkId, settled: Vec<(u64, DeliveryState)>) {
        if let Some(session) = session_of(&self.places, &mut self.sessions, link) {
            session.settle_outgoing(settled, &mut self.frames);
        }
    }

    /// Answers dispositions of deliveries that are settled at the end of a transaction.
    pub(super) fn enlist_outgoing(&mut self, link: LinkId, enlisted: Vec<(u64, DeliveryState)>) {
        if let Some(session) = session_of(&self.places, &mut self.sessions, link) {
            session.enlist_outgoing(enlisted, &mut self.frames);
        }
    }

    /// Lets the peer settle a delivery again after its transaction was rolled back.
    pub(super) fn reopen(&mut self, link: LinkId, delivery: u64) {
        if let Some(session) = session_of(&self.places, &mut self.sessions, link) {
            session.reopen(delivery);
        }
    }

    /// Removes the unsettled deliveries with the given tags, since nothing is left to settle.
    pub(super) fn forget(&mut self, link: LinkId, tags: &HashSet<Bytes>) {
        if let Some(session) = session_of(&self.places, &mut self.sessions, link) {
            session.forget_deliveries(link, tags, &mut self.frames);
        }
    }

    /// Sends messages over a link. Returns those that were not sent for lack of credit or memory, or because the link
    /// is gone.
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

    /// Returns the link credit that the peer has granted.
    pub(super) fn credit(&mut self, link: LinkId) -> usize {
        let credit = self.at(link, |session, handle, _| session.credit(handle));
        credit.unwrap_or_default() as usize
    }

    /// Answers a drain up to `limit` once no more messages are available.
    pub(super) fn drained(&mut self, link: LinkId, limit: u32) {
        self.at(link, |session, handle, frames| {
            session.drained(handle, limit, frames);
        });
    }

    /// Closes the connection with `error`. Gives the peer the time `within` to complete the close.
    pub(super) fn close_within(&mut self, within: Duration, error: AmqpError, now: Timestamp) {
        self.closing_takes = within;
        self.close(error, now);
    }

    /// Closes the connection with `error`.
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
                // An error can only be sent on an open connection.
                self.send_open();
                self.frames.send(0, &Performative::Close(Some(error)));
                self.end();
            }
            Phase::Header | Phase::Sasl | Phase::Authenticating | Phase::AmqpHeader => self.end(),
            Phase::Closing | Phase::Closed => {}
        }
    }

    /// Ends the connection and all its sessions without sending anything.
    pub(super) fn end(&mut self) {
        self.input = BytesMut::new();
        self.unfinished.give_back(self.unfinished.bytes());
        self.end_sessions();
        self.phase = Phase::Closed;
    }

    /// Returns the number of links, and of bytes that wait for the peer's session window.
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

    /// Processes the input as far as possible. Returns whether complete frames may be left.
    fn read(&mut self, now: Timestamp) -> bool {
        // Evaluated at most once, because it checks all links. Few messages begin to be stored in the meantime.
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
                // AMQP 1.0 answers an unsupported protocol header with a supported one.
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

    /// Closes and ends a connection whose input can no longer be processed.
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
            // These performatives were handled before.
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
