//! The performatives of AMQP: frames about connections, sessions, links and deliveries.

use bytes::Bytes;

use crate::wire::amqp::condition::AmqpError;
use crate::wire::amqp::decode::{DecodeError, Decoder, unexpected};
use crate::wire::amqp::encode::encode;
use crate::wire::amqp::fields::UnreadFields;
use crate::wire::amqp::state::DeliveryState;
use crate::wire::amqp::terminus::{LinkSource, LinkTarget};
use crate::wire::amqp::value::{FromValue, Map, Value, get};

const OPEN: u64 = 0x10;
const BEGIN: u64 = 0x11;
const ATTACH: u64 = 0x12;
const FLOW: u64 = 0x13;
const TRANSFER: u64 = 0x14;
const DISPOSITION: u64 = 0x15;
const DETACH: u64 = 0x16;
const END: u64 = 0x17;
const CLOSE: u64 = 0x18;

/// The capability that JMS clients look for before they send a message with a delivery delay.
const DELAYED_DELIVERY: &str = "DELAYED_DELIVERY";

/// The performative of a frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Performative {
    Open(Open),
    Begin(Begin),
    Attach(Box<Attach>),
    Flow(Flow),
    Transfer(Transfer),
    Disposition(Disposition),
    Detach(Detach),
    End(Option<AmqpError>),
    Close(Option<AmqpError>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Open {
    pub container_id: String,
    /// The name of the host that the peer connects to.
    pub hostname: Option<String>,
    pub max_frame_size: u32,
    pub channel_max: u16,
    /// The number of milliseconds without a frame after which the sender of the open frame closes the connection;
    /// `None` for no timeout.
    pub idle_timeout_ms: Option<u32>,
    pub properties: Map,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Begin {
    pub remote_channel: Option<u16>,
    pub next_outgoing_id: u32,
    pub incoming_window: u32,
    pub outgoing_window: u32,
    pub handle_max: u32,
}

/// The role of one end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkRole {
    Sender,
    Receiver,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Attach {
    pub name: String,
    pub handle: u32,
    pub role: LinkRole,
    pub sender_settles: SenderSettles,
    pub receiver_settles: ReceiverSettles,
    /// The source of the link. A null source means that the node does not exist.
    pub source: Option<LinkSource>,
    pub target: Option<LinkTarget>,
    pub initial_delivery_count: Option<u32>,
    pub max_message_size: Option<u64>,
    pub properties: Map,
}

impl Open {
    /// Returns the name of the peer's product.
    pub fn product(&self) -> Option<&str> {
        get(&self.properties, "product").and_then(Value::as_text)
    }
}

impl Attach {
    /// Returns the address of the final destination of messages that are sent via another entity.
    pub fn transfer_destination(&self) -> Option<&str> {
        get(
            &self.properties,
            "com.microsoft:transfer-destination-address",
        )
        .and_then(Value::as_text)
    }
}

/// The settlement mode of a sender (`snd-settle-mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SenderSettles {
    Unsettled = 0,
    Settled = 1,
    #[default]
    Mixed = 2,
}

/// The settlement mode of a receiver (`rcv-settle-mode`): it settles at once, or after the sender has settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReceiverSettles {
    #[default]
    First = 0,
    Second = 1,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flow {
    pub next_incoming_id: Option<u32>,
    pub incoming_window: u32,
    pub next_outgoing_id: u32,
    pub outgoing_window: u32,
    /// The handle of the link that the following fields describe; `None` for a flow of the whole session.
    pub handle: Option<u32>,
    pub delivery_count: Option<u32>,
    pub link_credit: Option<u32>,
    pub available: Option<u32>,
    pub drain: bool,
    pub echo: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    pub handle: u32,
    /// The id of the delivery. It must be in the first frame of a delivery, together with the tag and the format.
    pub delivery_id: Option<u32>,
    pub delivery_tag: Option<Bytes>,
    pub message_format: Option<u32>,
    pub settled: Option<bool>,
    /// Is true if another frame of the delivery follows.
    pub more: bool,
    /// The delivery state, which names the transaction of the message if there is one.
    pub state: Option<DeliveryState>,
    pub aborted: bool,
    /// The bytes after the performative, which are a part of the message.
    pub payload: Bytes,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Disposition {
    pub role: LinkRole,
    pub first: u32,
    pub last: Option<u32>,
    pub settled: bool,
    pub state: Option<DeliveryState>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Detach {
    pub handle: u32,
    pub closed: bool,
    pub error: Option<AmqpError>,
}

impl Performative {
    /// Reads the body of a frame.
    pub fn decode(body: Bytes) -> Result<Self, DecodeError> {
        let mut decoder = Decoder::of_frame(body);
        let descriptor = decoder.descriptor()?;
        let fields = decoder.value()?;
        let rest = decoder.rest();
        let error = |of, fields| UnreadFields::of(of, fields)?.optional("error");
        Ok(match descriptor {
            OPEN => Self::Open(Open::read(fields)?),
            BEGIN => Self::Begin(Begin::read(fields)?),
            ATTACH => Self::Attach(Box::new(Attach::read(fields)?)),
            FLOW => Self::Flow(Flow::read(fields)?),
            TRANSFER => Self::Transfer(Transfer::read(fields, rest)?),
            DISPOSITION => Self::Disposition(Disposition::read(fields)?),
            DETACH => Self::Detach(Detach::read(fields)?),
            END => Self::End(error("end", fields)?),
            CLOSE => Self::Close(error("close", fields)?),
            unknown => return Err(unexpected("a performative", unknown)),
        })
    }

    /// Appends the encoding of the performative, and the payload of a transfer.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let error = |error: &Option<AmqpError>| vec![error.as_ref().into()];
        let (descriptor, fields) = match self {
            Self::Open(open) => (OPEN, open.fields()),
            Self::Begin(begin) => (BEGIN, begin.fields()),
            Self::Attach(attach) => (ATTACH, attach.fields()),
            Self::Flow(flow) => (FLOW, flow.fields()),
            Self::Transfer(transfer) => (TRANSFER, transfer.fields()),
            Self::Disposition(disposition) => (DISPOSITION, disposition.fields()),
            Self::Detach(detach) => (DETACH, detach.fields()),
            Self::End(cause) => (END, error(cause)),
            Self::Close(cause) => (CLOSE, error(cause)),
        };
        encode(&Value::composite(descriptor, fields), out);
        if let Self::Transfer(transfer) = self {
            out.extend_from_slice(&transfer.payload);
        }
    }
}

impl Open {
    fn read(value: Value) -> Result<Self, DecodeError> {
        let mut fields = UnreadFields::of("open", value)?;
        let container_id = fields.or("container-id", String::new())?;
        let hostname = fields.optional("hostname")?;
        let max_frame_size = fields.or("max-frame-size", u32::MAX)?;
        let channel_max = fields.or("channel-max", u16::MAX)?;
        let idle_timeout_ms = fields.optional("idle-time-out")?;
        fields.skip(); // outgoing-locales
        fields.skip(); // incoming-locales
        fields.skip(); // offered-capabilities
        fields.skip(); // desired-capabilities
        Ok(Self {
            container_id,
            hostname,
            max_frame_size,
            channel_max,
            idle_timeout_ms: idle_timeout_ms.filter(|ms| *ms > 0),
            properties: fields.or("properties", Map::new())?,
        })
    }

    fn fields(&self) -> Vec<Value> {
        vec![
            self.container_id.as_str().into(),
            self.hostname.as_deref().into(),
            self.max_frame_size.into(),
            self.channel_max.into(),
            self.idle_timeout_ms.into(),
            Value::Null,                     // outgoing-locales
            Value::Null,                     // incoming-locales
            Value::symbol(DELAYED_DELIVERY), // offered-capabilities
            Value::Null,                     // desired-capabilities
            (!self.properties.is_empty())
                .then(|| self.properties.clone())
                .into(),
        ]
    }
}

impl Begin {
    fn read(value: Value) -> Result<Self, DecodeError> {
        let mut fields = UnreadFields::of("begin", value)?;
        Ok(Self {
            remote_channel: fields.optional("remote-channel")?,
            next_outgoing_id: fields.required("next-outgoing-id")?,
            incoming_window: fields.required("incoming-window")?,
            outgoing_window: fields.required("outgoing-window")?,
            handle_max: fields.or("handle-max", u32::MAX)?,
        })
    }

    fn fields(&self) -> Vec<Value> {
        vec![
            self.remote_channel.into(),
            self.next_outgoing_id.into(),
            self.incoming_window.into(),
            self.outgoing_window.into(),
            self.handle_max.into(),
        ]
    }
}

impl Attach {
    fn read(value: Value) -> Result<Self, DecodeError> {
        let mut fields = UnreadFields::of("attach", value)?;
        let name = fields.required("name")?;
        let handle = fields.required("handle")?;
        let role = fields.required("role")?;
        let sender_settles = fields.or("snd-settle-mode", SenderSettles::default())?;
        let receiver_settles = fields.or("rcv-settle-mode", ReceiverSettles::default())?;
        let source = fields.optional("source")?;
        let target = fields.optional("target")?;
        fields.skip(); // unsettled
        fields.skip(); // incomplete-unsettled
        let initial_delivery_count = fields.optional("initial-delivery-count")?;
        let max_message_size = fields.optional("max-message-size")?;
        fields.skip(); // offered-capabilities
        fields.skip(); // desired-capabilities
        Ok(Self {
            name,
            handle,
            role,
            sender_settles,
            receiver_settles,
            source,
            target,
            initial_delivery_count,
            max_message_size,
            properties: fields.or("properties", Map::new())?,
        })
    }

    fn fields(&self) -> Vec<Value> {
        vec![
            self.name.as_str().into(),
            self.handle.into(),
            self.role.into(),
            Value::Ubyte(self.sender_settles as u8),
            Value::Ubyte(self.receiver_settles as u8),
            self.source.as_ref().into(),
            self.target.as_ref().into(),
            Value::Null, // unsettled
            Value::Null, // incomplete-unsettled
            self.initial_delivery_count.into(),
            self.max_message_size.into(),
            Value::Null, // offered-capabilities
            Value::Null, // desired-capabilities
            (!self.properties.is_empty())
                .then(|| self.properties.clone())
                .into(),
        ]
    }
}

impl Flow {
    fn read(value: Value) -> Result<Self, DecodeError> {
        let mut fields = UnreadFields::of("flow", value)?;
        Ok(Self {
            next_incoming_id: fields.optional("next-incoming-id")?,
            incoming_window: fields.required("incoming-window")?,
            next_outgoing_id: fields.required("next-outgoing-id")?,
            outgoing_window: fields.required("outgoing-window")?,
            handle: fields.optional("handle")?,
            delivery_count: fields.optional("delivery-count")?,
            link_credit: fields.optional("link-credit")?,
            available: fields.optional("available")?,
            drain: fields.or("drain", false)?,
            echo: fields.or("echo", false)?,
        })
    }

    fn fields(&self) -> Vec<Value> {
        vec![
            self.next_incoming_id.into(),
            self.incoming_window.into(),
            self.next_outgoing_id.into(),
            self.outgoing_window.into(),
            self.handle.into(),
            self.delivery_count.into(),
            self.link_credit.into(),
            self.available.into(),
            self.drain.then_some(true).into(),
            self.echo.then_some(true).into(),
        ]
    }
}

impl Transfer {
    fn read(value: Value, payload: Bytes) -> Result<Self, DecodeError> {
        let mut fields = UnreadFields::of("transfer", value)?;
        let handle = fields.required("handle")?;
        let delivery_id = fields.optional("delivery-id")?;
        let delivery_tag = fields.optional("delivery-tag")?;
        let message_format = fields.optional("message-format")?;
        let settled = fields.optional("settled")?;
        let more = fields.or("more", false)?;
        fields.skip(); // rcv-settle-mode
        let state = fields.optional("state")?;
        fields.skip(); // resume
        let aborted = fields.or("aborted", false)?;
        Ok(Self {
            handle,
            delivery_id,
            delivery_tag,
            message_format,
            settled,
            more,
            state,
            aborted,
            payload,
        })
    }

    fn fields(&self) -> Vec<Value> {
        vec![
            self.handle.into(),
            self.delivery_id.into(),
            self.delivery_tag.clone().into(),
            self.message_format.into(),
            self.settled.into(),
            self.more.then_some(true).into(),
            Value::Null, // rcv-settle-mode
            self.state.as_ref().into(),
            Value::Null, // resume
            self.aborted.then_some(true).into(),
        ]
    }
}

impl Disposition {
    fn read(value: Value) -> Result<Self, DecodeError> {
        let mut fields = UnreadFields::of("disposition", value)?;
        Ok(Self {
            role: fields.required("role")?,
            first: fields.required("first")?,
            last: fields.optional("last")?,
            settled: fields.or("settled", false)?,
            state: fields.optional("state")?,
        })
    }

    fn fields(&self) -> Vec<Value> {
        vec![
            self.role.into(),
            self.first.into(),
            self.last.into(),
            self.settled.into(),
            self.state.as_ref().into(),
        ]
    }
}

impl Detach {
    fn read(value: Value) -> Result<Self, DecodeError> {
        let mut fields = UnreadFields::of("detach", value)?;
        Ok(Self {
            handle: fields.required("handle")?,
            closed: fields.or("closed", false)?,
            error: fields.optional("error")?,
        })
    }

    fn fields(&self) -> Vec<Value> {
        vec![
            self.handle.into(),
            self.closed.into(),
            self.error.as_ref().into(),
        ]
    }
}

impl FromValue for LinkRole {
    const KIND: &'static str = "true for a receiver or false for a sender";

    fn from_value(value: Value) -> Option<Self> {
        Some(if bool::from_value(value)? {
            Self::Receiver
        } else {
            Self::Sender
        })
    }
}

impl From<LinkRole> for Value {
    fn from(role: LinkRole) -> Self {
        Self::Bool(role == LinkRole::Receiver)
    }
}

impl FromValue for SenderSettles {
    const KIND: &'static str = "0, 1 or 2";

    fn from_value(value: Value) -> Option<Self> {
        Some(match u8::from_value(value)? {
            0 => Self::Unsettled,
            1 => Self::Settled,
            2 => Self::Mixed,
            _ => return None,
        })
    }
}

impl FromValue for ReceiverSettles {
    const KIND: &'static str = "0 or 1";

    fn from_value(value: Value) -> Option<Self> {
        Some(match u8::from_value(value)? {
            0 => Self::First,
            1 => Self::Second,
            _ => return None,
        })
    }
}
