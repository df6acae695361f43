//! Peers whose frames and messages were changed at random: by bytes, by sizes, and by values of any constructor put
//! into each other.
//!
//! A seed decides everything, and a failure prints it: `EVERPOST_MUTATION=n` plays that one again. More of them:
//! `EVERPOST_MUTATIONS=1000000 cargo test --release --lib amqp::tests::mutations -- --nocapture`.

use std::thread;

use super::*;
use crate::base::Entropy;
use crate::wire::amqp::AmqpError;
use crate::wire::amqp::cbs::PutToken;
use crate::wire::amqp::management;
use crate::wire::amqp::message::{Message, MessageProperties};
use crate::wire::amqp::state::{Modified, Transactional};
use crate::wire::amqp::transaction;
use crate::wire::service_bus::message::to_event;
use crate::wire::service_bus::readable::readable;

/// Seeds that every test run plays.
const SEEDS: u64 = 5_000;

/// Seeds between two lines of progress.
const PROGRESS_SEEDS: u64 = 100_000;

/// Bytes that a conversation of a few small frames may take at once.
const CONVERSATION_BYTES_MAX: u64 = 2 * 1_024 * 1_024;

/// Bytes that reading a message may take at once, besides those for each of its own.
const MESSAGE_BYTES_MAX: u64 = 64 * 1_024;
const BYTES_FOR_EACH: u64 = 512;

/// Allocations that reading may make, besides those for each byte: the work is linear in what came.
const ALLOCATIONS_MAX: u64 = 20_000;
const ALLOCATIONS_FOR_EACH: u64 = 32;

/// Bytes of constructors, descriptors and counts, each of which begins something.
const TELLING_BYTES: [u8; 40] = [
    0x00, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x50, 0x52, 0x53, 0x54, 0x55, 0x56, 0x60, 0x70, 0x71,
    0x72, 0x73, 0x74, 0x80, 0x81, 0x82, 0x83, 0x84, 0x94, 0x98, 0xa0, 0xa1, 0xa3, 0xb0, 0xb1, 0xb3,
    0xc0, 0xc1, 0xd0, 0xd1, 0xe0, 0xf0, 0x7f, 0xff,
];

/// Sizes and counts that do not fit.
const TELLING_NUMBERS: [u32; 10] = [
    0,
    1,
    7,
    8,
    255,
    256,
    65_536,
    1 << 24,
    i32::MAX as u32,
    u32::MAX,
];

struct Dice(Entropy);

impl Dice {
    fn below(&self, limit: usize) -> usize {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        (u64::from_le_bytes(bytes) % limit.max(1) as u64) as usize
    }

    fn percent(&self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<'a, T>(&self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// An encoded value of any constructor, often within others.
    fn value(&self, depth: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        if depth > 0 && self.percent(25) {
            bytes.push(0);
            bytes.extend(self.value(depth - 1));
        }
        let kind = self.below(if depth == 0 { 4 } else { 8 });
        match kind {
            0 => bytes.push(0x40 + self.below(6) as u8),
            1 => {
                let width = self.below(5);
                bytes.push([0x50, 0x60, 0x70, 0x80, 0x94][width] + self.below(5) as u8);
                bytes.extend((0..[1, 2, 4, 8, 16][width]).map(|_| self.below(256) as u8));
            }
            2 | 3 => {
                let text = vec![b'a' + self.below(26) as u8; self.below(20)];
                bytes.extend([*self.pick(&[0xa0, 0xa1, 0xa3]), text.len() as u8]);
                bytes.extend(text);
            }
            4 | 5 => {
                let items: Vec<_> = (0..self.below(5)).map(|_| self.value(depth - 1)).collect();
                let constructor = *self.pick(&[0xc0, 0xc1, 0xd0, 0xd1]);
                self.compound(&mut bytes, constructor, items.len(), &items.concat());
            }
            6 => bytes.extend(self.array_of_nothing(depth.min(3))),
            _ => {
                // One constructor, perhaps a described one, and elements that may have no bytes.
                let (element, count) = (self.value(depth - 1), self.below(300));
                let mut items = element.clone();
                if self.percent(30) {
                    items.extend(element.repeat(self.below(3)));
                }
                let constructor = *self.pick(&[0xe0, 0xf0]);
                self.compound(&mut bytes, constructor, count, &items);
            }
        }
        bytes
    }

    /// Encodes an array whose elements have no bytes of their own, and a descriptor that is such an array again.
    fn array_of_nothing(&self, depth: usize) -> Vec<u8> {
        let descriptor = match depth {
            0 => vec![0x53, self.below(256) as u8],
            _ => self.array_of_nothing(depth - 1),
        };
        let nothing = *self.pick(&[0x40, 0x41, 0x43, 0x44, 0x45]);
        let items = [&[0][..], &descriptor, &[nothing]].concat();
        let mut bytes = Vec::new();
        self.compound(&mut bytes, 0xf0, self.below(60), &items);
        bytes
    }

    /// Adds the size and the count of a compound value, and what is in it.
    fn compound(&self, bytes: &mut Vec<u8>, constructor: u8, count: usize, items: &[u8]) {
        let is_small = constructor & 0x10 == 0 && items.len() < 254 && count < 256;
        bytes.push(if is_small {
            constructor
        } else {
            constructor | 0x10
        });
        if is_small {
            bytes.extend([items.len() as u8 + 1, count as u8]);
        } else {
            bytes.extend((items.len() as u32 + 4).to_be_bytes());
            bytes.extend((count as u32).to_be_bytes());
        }
        bytes.extend(items);
    }

    /// Changes bytes behind the first `from` of them.
    fn mutate(&self, bytes: &mut Vec<u8>, from: usize, others: &[Vec<u8>]) {
        for _ in 0..=self.below(4) {
            let length = bytes.len().saturating_sub(from);
            let at = from.min(bytes.len()) + self.below(length);
            let some = self.below(length.min(40)).min(bytes.len() - at);
            match self.below(9) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 if at < bytes.len() => bytes[at] = *self.pick(&TELLING_BYTES),
                2 => drop(bytes.drain(at..at + some)),
                3 => {
                    let copy = bytes[at..at + some].to_vec();
                    bytes.splice(at..at, copy);
                }
                4 => drop(bytes.splice(at..at, self.value(4))),
                5 => {
                    bytes.truncate(at);
                    bytes.extend(self.value(5));
                }
                6 if at + 4 <= bytes.len() => {
                    let number = self.pick(&TELLING_NUMBERS).to_be_bytes();
                    bytes[at..at + 4].copy_from_slice(&number);
                }
                7 => bytes.truncate(at),
                _ => {
                    let other = self.pick(others);
                    bytes.truncate(at);
                    bytes.extend(&other[self.below(other.len())..]);
                }
            }
        }
    }
}

/// Shows how a failure is played again.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if thread::panicking() {
            println!("play it again: EVERPOST_MUTATION={}", self.0);
        }
    }
}

fn play_all(what: &str, play: impl Fn(&Dice)) {
    let number = |variable: &str| {
        let text = std::env::var(variable).ok()?;
        Some(text.parse::<u64>().expect(variable))
    };
    let seeds = match number("EVERPOST_MUTATION") {
        Some(seed) => seed..=seed,
        None => 1..=number("EVERPOST_MUTATIONS").unwrap_or(SEEDS),
    };
    for number in seeds {
        let _seed = Seed(number);
        play(&Dice(Entropy::seeded(number)));
        if number % PROGRESS_SEEDS == 0 {
            println!("{what}: {number} seeds");
        }
    }
}

/// Whole frames of every type.
fn frames() -> Vec<Vec<u8>> {
    let states = [
        DeliveryState::Accepted,
        DeliveryState::Released,
        DeliveryState::Received,
        DeliveryState::Rejected(Some(AmqpError::new("everpost:reason", "a problem"))),
        DeliveryState::Modified(Modified::default()),
        DeliveryState::Transactional(Transactional {
            transaction: Bytes::from_static(b"transaction"),
            outcome: None,
        }),
    ];
    let error = || Some(AmqpError::new("amqp:internal-error", "a problem"));
    let mut performatives = vec![
        open(FRAME_BYTES_MAX),
        begin(2_048),
        grant(1, 0, 10),
        Performative::Flow(Flow::default()),
        detach(0),
        Performative::End(error()),
        Performative::Close(error()),
        Performative::Close(None),
    ];
    for (handle, role) in [
        (0, LinkRole::Sender),
        (1, LinkRole::Receiver),
        (2, LinkRole::Sender),
    ] {
        performatives.push(Performative::Attach(Box::new(attach(handle, role))));
    }
    for (number, state) in states.into_iter().enumerate() {
        performatives.push(disposition(1, 3, state.clone()));
        performatives.push(Performative::Transfer(Transfer {
            state: Some(state),
            more: number % 2 == 0,
            ..transfer(0, number as u32, messages()[0].clone())
        }));
    }
    let performatives = performatives.iter().map(|each| {
        let mut bytes = Vec::new();
        frame(&mut bytes, 0, each);
        bytes
    });
    let inits = ["PLAIN", "ANONYMOUS", "MSSBCBS", "EXTERNAL", "NONE"].map(|mechanism| {
        let response = Value::Binary(Bytes::from_static(b"\0rule\0key"));
        let fields = vec![Value::symbol(mechanism), response, "host".into()];
        let mut bytes = Vec::new();
        write_frame(&mut bytes, FrameKind::Sasl, 0, |out| {
            out.extend(Value::composite(0x41, fields).to_bytes());
        });
        bytes
    });
    performatives.chain(inits).collect()
}

/// Encoded messages, requests among them.
fn messages() -> Vec<Vec<u8>> {
    let properties = MessageProperties {
        message_id: Some("id".into()),
        subject: Some("subject".to_owned()),
        group_id: Some("session".to_owned()),
        reply_to: Some("me".to_owned()),
        ..MessageProperties::default()
    };
    let user = vec![
        ("total".into(), Value::Int(7)),
        ("name".into(), "somebody".into()),
        ("at".into(), Value::Timestamp(1)),
    ];
    let request = |operation: &str, body: Value| {
        let operation = vec![("operation".into(), operation.into())];
        Message::of(&properties, operation, body).to_bytes()
    };
    let numbers = Value::array(
        crate::wire::amqp::value::ElementType::LONG,
        vec![Value::Long(1)],
    );
    vec![
        Message::of(&properties, user.clone(), "body".into()).to_bytes(),
        Message::of_data(&properties, user.clone(), b"{\"a\": [1]}".to_vec())
            .scheduled(1)
            .to_bytes(),
        Message::of(&properties, user.clone(), Value::Map(user)).to_bytes(),
        request("com.microsoft:cancel-scheduled-message", {
            Value::Map(vec![("sequence-numbers".into(), numbers)])
        }),
        request("com.microsoft:schedule-message", Value::Map(vec![])),
        request("com.microsoft:add-rule", Value::Map(vec![])),
        request(
            "put-token",
            "SharedAccessSignature sr=a&sig=b&se=1&skn=c".into(),
        ),
        Message::of(&properties, vec![], Value::composite(0x31, vec![])).to_bytes(),
    ]
}

/// Speaks to a connection, and does what its shell does.
fn converse(dice: &Dice, frames: &[Vec<u8>]) -> usize {
    let is_begun = dice.percent(70);
    let account = account(CLIENT_BYTES_MAX);
    let mut peer = if is_begun {
        Peer::with(account.clone())
    } else {
        Peer::of(account.clone())
    };
    if is_begun {
        peer.sending(10);
        let link = peer.receiving(11, 3);
        peer.connection
            .deliver(link, vec![handout(1, 10), handout(2, 2_000)]);
    } else {
        let header = *dice.pick(&[Protocol::Sasl, Protocol::Amqp]);
        peer.connection.receive(&header.header(), NOW);
    }
    let mut sent = 0;
    for number in 0..=dice.below(5) {
        let mut bytes = dice.pick(frames).clone();
        if dice.percent(70) {
            dice.mutate(&mut bytes, 4, frames);
            if dice.percent(90) && bytes.len() >= 4 {
                let size = (bytes.len() as u32).to_be_bytes();
                bytes[..4].copy_from_slice(&size);
            }
        }
        let now = NOW + std::time::Duration::from_secs(number as u64 * dice.below(100) as u64);
        peer.connection.receive(&bytes, now);
        sent += bytes.len();
        while let Some(event) = peer.event() {
            answer(dice, &mut peer.connection, event, now);
        }
        peer.connection.tick(now);
        peer.connection.take_output(now);
    }
    peer.connection.end();
    while peer.event().is_some() {}
    assert_eq!(
        peer.connection.counts(),
        [0; 2],
        "nothing is kept of what has ended"
    );
    drop(peer);
    assert_eq!(account.taken(), 0, "and nothing is counted for it");
    sent
}

fn answer(dice: &Dice, connection: &mut Connection, event: ConnectionEvent, now: Timestamp) {
    match event {
        ConnectionEvent::Plain(_) => connection.authenticated(dice.percent(80), now),
        ConnectionEvent::Attached { link, .. } if dice.percent(20) => {
            let error = AmqpError::new("amqp:not-found", "there is nothing");
            connection.detach(link, error);
        }
        ConnectionEvent::Attached { link, .. } => connection.accept(link, Acceptance::up_to(1_000)),
        ConnectionEvent::Message { link, delivery, .. } => {
            connection.settle_incoming(link, vec![(delivery, DeliveryState::Accepted)]);
        }
        ConnectionEvent::Credit { link, limit, drain } => {
            connection.deliver(link, vec![handout(3, 100)]);
            if drain {
                connection.drained(link, limit);
            }
        }
        ConnectionEvent::Disposition {
            link,
            deliveries,
            settled,
            ..
        } => {
            if !settled {
                let states = deliveries
                    .into_iter()
                    .map(|each| (each.id, DeliveryState::Accepted));
                connection.settle_outgoing(link, states.collect());
            }
        }
        ConnectionEvent::Detaching { .. } | ConnectionEvent::Detached { .. } => {}
    }
}

#[test]
fn changed_frames_end_what_they_end_within_bounds() {
    let frames = frames();
    play_all("frames", |dice| {
        let mut sent = 0;
        let used = allocation_counter::measure(|| sent = converse(dice, &frames));
        assert!(
            used.bytes_max <= CONVERSATION_BYTES_MAX,
            "{} bytes for {sent}",
            used.bytes_max
        );
        let allocations = ALLOCATIONS_MAX + ALLOCATIONS_FOR_EACH * sent as u64;
        assert!(
            used.count_total <= allocations,
            "{} allocations for {sent} bytes",
            used.count_total
        );
    });
}

/// Reads everything of a message that anything reads, as far as it can be read.
fn read(encoded: &Bytes) {
    let Ok(message) = Message::parse(encoded) else {
        return;
    };
    let _ = (
        message.header(),
        message.annotations(),
        message.scheduled_enqueue_ms(),
    );
    let _ = (
        message.properties(),
        message.application_properties(),
        message.parts(),
    );
    let _ = (
        message.body_value(),
        message.body_values(),
        message.plain_body(),
    );
    let _ = (
        management::EntityOperation::parse(&message),
        PutToken::parse(&message),
    );
    let _ = transaction::CoordinatorRequest::parse(&message);
    if let Ok(event) = to_event(message, || "id".to_owned()) {
        readable(&event);
    }
}

#[test]
fn changed_messages_are_read_within_bounds() {
    let messages = messages();
    play_all("messages", |dice| {
        let mut bytes = dice.pick(&messages).clone();
        dice.mutate(&mut bytes, 0, &messages);
        let encoded = Bytes::from(bytes);
        let length = encoded.len() as u64;
        let used = allocation_counter::measure(|| read(&encoded));
        let bytes_max = MESSAGE_BYTES_MAX + BYTES_FOR_EACH * length;
        assert!(
            used.bytes_max <= bytes_max,
            "{} bytes for {length}",
            used.bytes_max
        );
        let allocations = ALLOCATIONS_MAX + ALLOCATIONS_FOR_EACH * length;
        assert!(
            used.count_total <= allocations,
            "{} allocations for {length} bytes",
            used.count_total
        );
    });
}
