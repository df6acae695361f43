//! A client of AMQP over a pipe, as small as the matrix needs it.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use everpost::api::amqp::{SharedServer, serve};
use everpost::model::access::Secret;
use everpost::wire::amqp::Value;
use everpost::wire::amqp::frame::{FrameKind, Protocol, next_frame, write_frame};
use everpost::wire::amqp::message::{Message, MessageProperties};
use everpost::wire::amqp::performative::{
    Attach, Begin, Flow, LinkRole, Open, Performative, ReceiverSettles, SenderSettles, Transfer,
};
use everpost::wire::amqp::terminus::{LinkSource, LinkTarget};
use everpost::wire::amqp::value::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::table::{Answer, Cell, Door, Right};

const FRAME_BYTES_MAX: u32 = 65_536;
const PIPE_BYTES: usize = 1 << 20;

/// What a connection counts for from its beginning on.
const CONNECTION_BYTES: usize = 1_024;

/// The descriptor of a SASL init, whose fields are a symbol and bytes.
const SASL_INIT: u64 = 0x41;
/// The last byte of a SASL outcome that lets the client in.
const SASL_OK: u8 = 0;

pub(super) struct AmqpClient<'a> {
    stream: DuplexStream,
    input: BytesMut,
    serving: Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
    /// A rule and its key, for a client that shows no tokens.
    password: Option<String>,
}

impl<'a> AmqpClient<'a> {
    pub(super) fn connect(server: &'a SharedServer, client: IpAddr) -> Self {
        let (stream, theirs) = tokio::io::duplex(PIPE_BYTES);
        let own = server.memory.enter(Some(client), CONNECTION_BYTES);
        let own = own.expect("room for one");
        Self {
            stream,
            input: BytesMut::new(),
            serving: Box::pin(serve(theirs, client, server, own)),
            password: None,
        }
    }

    pub(super) fn plain(
        server: &'a SharedServer,
        client: IpAddr,
        rule: &str,
        key: &Secret,
    ) -> Self {
        Self {
            password: Some(format!("\0{rule}\0{}", key.reveal())),
            ..Self::connect(server, client)
        }
    }

    /// Does what a cell says.
    pub(super) async fn talk(&mut self, cell: &Cell, token: Option<&str>) -> Answer {
        if self.password.is_some() && !self.is_let_in().await {
            return Answer::Denied;
        }
        self.begin().await;
        if let Some(token) = token
            && !self.put_token(token).await
        {
            return Answer::Denied;
        }
        let role = match cell.operation.right {
            Right::Send => LinkRole::Sender,
            Right::Listen | Right::Manage => LinkRole::Receiver,
        };
        if cell.operation.door != Door::AmqpRequest {
            return self.attach(2, role, &cell.address()).await;
        }
        for (handle, role) in [(2, LinkRole::Receiver), (3, LinkRole::Sender)] {
            let attached = self.attach(handle, role, &cell.address()).await;
            if attached != Answer::Done {
                return attached;
            }
        }
        let numbers = vec![
            ("from-sequence-number".into(), Value::Long(0)),
            ("message-count".into(), Value::Int(1)),
        ];
        let operation = "com.microsoft:peek-message";
        let request = Message::of(
            &properties(),
            vec![("operation".into(), operation.into())],
            Value::Map(numbers),
        );
        let status = self.ask(2, 3, &request).await;
        match status {
            200..=299 => Answer::Done,
            401 | 403 => Answer::Denied,
            _ => Answer::Missing,
        }
    }

    async fn is_let_in(&mut self) -> bool {
        let response = self.password.take().unwrap_or_default().into_bytes();
        let mut bytes = Protocol::Sasl.header().to_vec();
        let init = vec![Value::symbol("PLAIN"), Value::Binary(response.into())];
        write_frame(&mut bytes, FrameKind::Sasl, 0, |out| {
            out.extend(Value::composite(SASL_INIT, init).to_bytes());
        });
        self.write(&bytes).await;
        self.header().await;
        let _mechanisms = self.frame().await;
        let outcome = self.frame().await.expect("an outcome");
        outcome.last() == Some(&SASL_OK)
    }

    async fn begin(&mut self) {
        self.write(&Protocol::Amqp.header()).await;
        let open = Performative::Open(Open {
            container_id: "client".to_owned(),
            hostname: Some("everpost.test".to_owned()),
            max_frame_size: FRAME_BYTES_MAX,
            channel_max: 0,
            idle_timeout_ms: None,
            properties: vec![],
        });
        let begin = Performative::Begin(Begin {
            remote_channel: None,
            next_outgoing_id: 0,
            incoming_window: 100,
            outgoing_window: 100,
            handle_max: 10,
        });
        self.send(&[open, begin]).await;
        self.header().await;
        self.wait(|each| matches!(each, Performative::Begin(_)).then_some(()))
            .await;
    }

    async fn put_token(&mut self, token: &str) -> bool {
        for (handle, role) in [(0, LinkRole::Receiver), (1, LinkRole::Sender)] {
            assert_eq!(self.attach(handle, role, "$cbs").await, Answer::Done);
        }
        let operation = vec![
            ("operation".into(), "put-token".into()),
            ("type".into(), "servicebus.windows.net:sastoken".into()),
            ("name".into(), "sb://everpost.test/".into()),
        ];
        let request = Message::of(&properties(), operation, token.into());
        let status = self.ask(0, 1, &request).await;
        assert_ne!(status, 429, "a client of its own was slowed down");
        (200..300).contains(&status)
    }

    async fn attach(&mut self, handle: u32, role: LinkRole, address: &str) -> Answer {
        let other = Some("client".to_owned());
        let node = Some(address.to_owned());
        let (from, to) = match role {
            LinkRole::Sender => (other, node),
            LinkRole::Receiver => (node, other),
        };
        let attach = Performative::Attach(Box::new(Attach {
            name: format!("link-{handle}"),
            handle,
            role,
            sender_settles: SenderSettles::Unsettled,
            receiver_settles: ReceiverSettles::First,
            source: Some(LinkSource {
                address: from,
                ..LinkSource::default()
            }),
            target: Some(LinkTarget::Node {
                address: to,
                dynamic: false,
            }),
            initial_delivery_count: (role == LinkRole::Sender).then_some(0),
            max_message_size: None,
            properties: vec![],
        }));
        self.send(&[attach]).await;
        let answer = self
            .wait(|each| {
                let Performative::Attach(answer) = each else {
                    return None;
                };
                Some(answer.source.is_some() && answer.target.is_some())
            })
            .await;
        if answer {
            return Answer::Done;
        }
        let condition = self
            .wait(|each| {
                let Performative::Detach(detach) = each else {
                    return None;
                };
                detach.error.clone()
            })
            .await
            .condition;
        match &*condition {
            "amqp:unauthorized-access" => Answer::Denied,
            _ => Answer::Missing,
        }
    }

    /// Sends a request over one link and returns the status of the answer that comes over another.
    async fn ask(&mut self, replies: u32, requests: u32, request: &Message) -> i128 {
        let credit = Performative::Flow(Flow {
            next_incoming_id: Some(1),
            incoming_window: 100,
            outgoing_window: 100,
            handle: Some(replies),
            delivery_count: Some(0),
            link_credit: Some(1),
            ..Flow::default()
        });
        let transfer = Performative::Transfer(Transfer {
            handle: requests,
            delivery_id: Some(requests),
            delivery_tag: Some(Bytes::from_static(b"t")),
            message_format: Some(0),
            settled: Some(true),
            more: false,
            state: None,
            aborted: false,
            payload: request.to_bytes().into(),
        });
        self.send(&[credit, transfer]).await;
        let reply = self
            .wait(|each| {
                let Performative::Transfer(reply) = each else {
                    return None;
                };
                Some(reply.payload.clone())
            })
            .await;
        let reply = Message::parse(&reply).expect("a message");
        let properties = reply.application_properties().expect("properties");
        let status = get(&properties, "status-code").or_else(|| get(&properties, "statusCode"));
        status.and_then(Value::as_integer).expect("a status")
    }

    async fn send(&mut self, performatives: &[Performative]) {
        let mut bytes = Vec::new();
        for performative in performatives {
            write_frame(&mut bytes, FrameKind::Amqp, 0, |out| {
                performative.encode(out);
            });
        }
        self.write(&bytes).await;
    }

    /// The pipe is larger than anything that is written.
    async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("written");
    }

    async fn header(&mut self) {
        while self.input.len() < Protocol::LENGTH {
            self.read().await;
        }
        let _ = self.input.split_to(Protocol::LENGTH);
    }

    /// Reads frames until one is what is waited for.
    async fn wait<T>(&mut self, wanted: impl Fn(&Performative) -> Option<T>) -> T {
        loop {
            let body = self.frame().await.expect("the server goes on");
            if let Some(found) = wanted(&Performative::decode(body).expect("a performative")) {
                return found;
            }
        }
    }

    async fn frame(&mut self) -> Option<Bytes> {
        loop {
            match next_frame(&mut self.input, FRAME_BYTES_MAX).expect("frames") {
                Some(frame) if frame.body.is_empty() => {}
                Some(frame) => return Some(frame.body),
                None if self.read().await => {}
                None => return None,
            }
        }
    }

    /// Reads something, while the server does its work. Returns whether there was anything.
    async fn read(&mut self) -> bool {
        let serving = &mut self.serving;
        tokio::select! {
            biased;
            count = self.stream.read_buf(&mut self.input) => count.expect("read") > 0,
            () = serving => self.stream.read_buf(&mut self.input).await.expect("read") > 0,
        }
    }
}

fn properties() -> MessageProperties {
    MessageProperties {
        message_id: Some("1".into()),
        reply_to: Some("client".to_owned()),
        ..MessageProperties::default()
    }
}
