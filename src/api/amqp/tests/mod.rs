//! Connections without a network: a peer writes frames, and reads what comes back.

mod appliance;
mod bounds;
mod links;
mod mutations;
mod shell;

use bytes::{Bytes, BytesMut};

use super::connection::Connection;
use super::event::{ConnectionEvent, LinkId};
use super::limits::FRAME_BYTES_MAX;
use super::session::{Acceptance, HandedOutMessage};
use crate::base::Timestamp;
use crate::base::budget::{Budget, MemoryAccount};
use crate::wire::amqp::frame::{FrameKind, Protocol, next_frame, write_frame};
use crate::wire::amqp::performative::{
    Attach, Begin, Detach, Disposition, Flow, LinkRole, Open, Performative, ReceiverSettles,
    SenderSettles, Transfer,
};
use crate::wire::amqp::state::DeliveryState;
use crate::wire::amqp::terminus::{LinkSource, LinkTarget};
use crate::wire::amqp::value::{Map, Value};

const NOW: Timestamp = Timestamp::from_ms(1_000_000);

/// Bytes that a client with a key has.
const CLIENT_BYTES_MAX: usize = 16 * 1_024 * 1_024;

/// An account with so many bytes, of a budget that has enough for it.
fn account(bytes_max: usize) -> MemoryAccount {
    Budget::of(4 * bytes_max).account([None, None], bytes_max)
}

/// The peer of a connection.
struct Peer {
    connection: Connection,
    output: BytesMut,
}

impl Peer {
    /// That of a connection that was just accepted.
    fn new() -> Self {
        Self::of(account(CLIENT_BYTES_MAX))
    }

    fn of(account: MemoryAccount) -> Self {
        Self {
            connection: Connection::new("server".to_owned(), account, NOW),
            output: BytesMut::new(),
        }
    }

    /// A peer with an open connection on which a session has begun, with such an account.
    fn with(account: MemoryAccount) -> Self {
        Self::of(account).begin(2_048, FRAME_BYTES_MAX)
    }

    /// That of an open connection on which a session has begun.
    fn begun() -> Self {
        Self::begun_with(2_048, FRAME_BYTES_MAX)
    }

    fn begun_with(incoming_window: u32, max_frame_size: u32) -> Self {
        Self::new().begin(incoming_window, max_frame_size)
    }

    fn begin(mut self, incoming_window: u32, max_frame_size: u32) -> Self {
        let mut bytes = Protocol::Amqp.header().to_vec();
        frame(&mut bytes, 0, &open(max_frame_size));
        frame(&mut bytes, 0, &begin(incoming_window));
        self.connection.receive(&bytes, NOW);
        self.take();
        self.skip_header();
        assert!(matches!(self.next(), Some((0, Performative::Open(_)))));
        assert!(matches!(self.next(), Some((0, Performative::Begin(_)))));
        self
    }

    fn send(&mut self, performative: &Performative) {
        self.send_on(0, performative);
    }

    fn send_on(&mut self, channel: u16, performative: &Performative) {
        let mut bytes = Vec::new();
        frame(&mut bytes, channel, performative);
        self.connection.receive(&bytes, NOW);
    }

    fn take(&mut self) {
        let output = self.connection.take_output(NOW);
        self.output.extend_from_slice(&output);
    }

    fn skip_header(&mut self) {
        let header = self.output.split_to(Protocol::LENGTH);
        assert!(Protocol::of(&header).is_some(), "{header:?}");
    }

    /// The next frame that is not a heartbeat.
    fn next(&mut self) -> Option<(u16, Performative)> {
        self.take();
        let mut frame = next_frame(&mut self.output, FRAME_BYTES_MAX).expect("frames")?;
        while frame.body.is_empty() {
            frame = next_frame(&mut self.output, FRAME_BYTES_MAX).expect("frames")?;
        }
        let performative = Performative::decode(frame.body).expect("a performative");
        Some((frame.channel, performative))
    }

    /// All frames that came.
    fn all(&mut self) -> Vec<Performative> {
        std::iter::from_fn(|| self.next().map(|(_, each)| each)).collect()
    }

    fn event(&mut self) -> Option<ConnectionEvent> {
        self.connection.next_event()
    }

    /// Attaches a link and has it accepted. Returns its number.
    fn attached(&mut self, attach: Attach) -> LinkId {
        self.send(&Performative::Attach(Box::new(attach)));
        let Some(ConnectionEvent::Attached { link, .. }) = self.event() else {
            panic!("an attach");
        };
        let acceptance = Acceptance {
            message_bytes_max: Some(100_000),
            ..Acceptance::default()
        };
        self.connection.accept(link, acceptance);
        link
    }

    /// A link over which the peer receives, with credit for so many messages.
    fn receiving(&mut self, handle: u32, credit: u32) -> LinkId {
        let link = self.attached(attach(handle, LinkRole::Receiver));
        self.send(&grant(handle, 0, credit));
        assert!(
            matches!(self.event(), Some(ConnectionEvent::Credit { limit, .. }) if limit == credit)
        );
        self.all();
        link
    }

    /// A link over which the peer sends.
    fn sending(&mut self, handle: u32) -> LinkId {
        let link = self.attached(attach(handle, LinkRole::Sender));
        self.all();
        link
    }
}

fn frame(bytes: &mut Vec<u8>, channel: u16, performative: &Performative) {
    write_frame(bytes, FrameKind::Amqp, channel, |out| {
        performative.encode(out);
    });
}

fn open(max_frame_size: u32) -> Performative {
    Performative::Open(Open {
        container_id: "peer".to_owned(),
        hostname: Some("host".to_owned()),
        max_frame_size,
        channel_max: 100,
        idle_timeout_ms: Some(60_000),
        properties: Map::new(),
    })
}

fn begin(incoming_window: u32) -> Performative {
    Performative::Begin(Begin {
        remote_channel: None,
        next_outgoing_id: 0,
        incoming_window,
        outgoing_window: 2_048,
        handle_max: u32::MAX,
    })
}

fn attach(handle: u32, role: LinkRole) -> Attach {
    let address = Some("orders".to_owned());
    Attach {
        name: format!("link-{handle}"),
        handle,
        role,
        sender_settles: SenderSettles::Unsettled,
        receiver_settles: ReceiverSettles::Second,
        source: Some(LinkSource {
            address: address.clone(),
            ..LinkSource::default()
        }),
        target: Some(LinkTarget::Node {
            address,
            dynamic: false,
        }),
        initial_delivery_count: None,
        max_message_size: None,
        properties: Map::new(),
    }
}

/// A flow that grants credit from a delivery count on.
fn grant(handle: u32, delivery_count: u32, credit: u32) -> Performative {
    Performative::Flow(Flow {
        next_incoming_id: Some(1),
        incoming_window: 2_048,
        next_outgoing_id: 0,
        outgoing_window: 2_048,
        handle: Some(handle),
        delivery_count: Some(delivery_count),
        link_credit: Some(credit),
        ..Flow::default()
    })
}

fn transfer(handle: u32, id: u32, payload: impl Into<Bytes>) -> Transfer {
    Transfer {
        handle,
        delivery_id: Some(id),
        delivery_tag: Some(Bytes::from_static(b"tag")),
        message_format: Some(0),
        settled: Some(false),
        more: false,
        state: None,
        aborted: false,
        payload: payload.into(),
    }
}

fn handout(tag: u8, length: usize) -> HandedOutMessage {
    HandedOutMessage {
        tag: Bytes::from(vec![tag; 16]),
        message: Bytes::from(vec![tag; length]),
        settled: false,
        receipt: None,
    }
}

fn disposition(first: u32, last: u32, state: DeliveryState) -> Performative {
    Performative::Disposition(Disposition {
        role: LinkRole::Receiver,
        first,
        last: Some(last),
        settled: false,
        state: Some(state),
    })
}

fn into_transfer(performative: Performative) -> Transfer {
    let Performative::Transfer(transfer) = performative else {
        panic!("{performative:?}");
    };
    transfer
}

fn detach(handle: u32) -> Performative {
    Performative::Detach(Detach {
        handle,
        closed: true,
        error: None,
    })
}
