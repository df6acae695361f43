//! Connections to the entities of an appliance.

use bytes::Bytes;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::shell::{Client, State, discharge};
use super::*;
use crate::api::amqp_server;
use crate::api::memory::Memory;
use crate::api::tests::{Door, TOKEN};
use crate::model::access::Secret;
use crate::model::shared_access::ROOT_RULE;
use crate::wire::amqp::condition::{NOT_ALLOWED, NOT_FOUND};
use crate::wire::amqp::message::{Message, Properties};
use crate::wire::amqp::state::Transactional;
use crate::wire::amqp::value::{ElementType, get};
use crate::wire::service_bus::sas;

/// The handle of the link to `$management`, and of that for its replies.
const REQUESTS: u32 = 50;
const REPLIES: u32 = 51;

/// A client of the appliance that calls itself `product`.
async fn connected(door: &Door, product: &str) -> Client {
    let stop = CancellationToken::new();
    let server = amqp_server(door.state(), "server".to_owned(), Memory::default(), stop);
    let state = State::new(door.clock().clone());
    let open = Performative::Open(Open {
        container_id: "peer".to_owned(),
        hostname: Some("host".to_owned()),
        max_frame_size: FRAME_BYTES_MAX,
        channel_max: 100,
        idle_timeout_ms: None,
        properties: vec![(Value::symbol("product"), product.into())],
    });
    Client::of(server, state, watch::channel(0).0, 1 << 20, &open).await
}

/// A token of the rule for everything.
fn token(door: &Door, resource: &str) -> String {
    let until = door.clock().now() + std::time::Duration::from_secs(600);
    sas::sign(resource, ROOT_RULE, until, &Secret::new(TOKEN))
}

/// A client of the appliance that may do everything.
async fn authorized(door: &Door) -> Client {
    let mut client = connected(door, "peer").await;
    let shown = client.show(&token(door, "sb://host/"), "sb://host/").await;
    assert_eq!(shown, 202);
    client
}

fn message(id: &str, session: Option<&str>) -> Bytes {
    let properties = Properties {
        message_id: Some(id.into()),
        group_id: session.map(str::to_owned),
        ..Properties::default()
    };
    let message = Message::of(&properties, Map::new(), "body".into());
    message.to_bytes().into()
}

impl Client {
    /// The next frame that is none of flow control.
    async fn answer(&mut self) -> Performative {
        loop {
            let next = self.next().await.expect("a frame");
            if !matches!(next, Performative::Flow(_)) {
                return next;
            }
        }
    }

    /// Sends messages to an entity, and waits until they are stored.
    async fn put(&mut self, handle: u32, address: &str, messages: &[Bytes]) {
        self.attach_at(handle, Role::Sender, address).await;
        assert!(matches!(self.answer().await, Performative::Attach(_)));
        for (id, message) in (0..).zip(messages) {
            let sent = transfer(handle, id, message.clone());
            self.send(&Performative::Transfer(sent)).await;
            let Performative::Disposition(answer) = self.answer().await else {
                panic!("a disposition");
            };
            assert_eq!(answer.state, Some(DeliveryState::Accepted));
        }
    }

    /// Attaches a link over which the client receives.
    async fn receive_from(&mut self, handle: u32, address: &str, filter: Map) {
        self.ask_to_receive(handle, address, filter).await;
        let answer = self.answer().await;
        assert!(
            matches!(&answer, Performative::Attach(answer) if answer.source.is_some()),
            "{answer:?}"
        );
    }

    async fn ask_to_receive(&mut self, handle: u32, address: &str, filter: Map) {
        let source = Source {
            address: Some(address.to_owned()),
            filter,
            ..Source::default()
        };
        let attach = Attach {
            source: Some(source),
            ..attach(handle, Role::Receiver)
        };
        self.send(&Performative::Attach(Box::new(attach))).await;
    }

    /// Attaches the links for requests about an entity.
    async fn manage(&mut self, entity: &str) {
        let node = format!("{entity}/$management");
        self.attach_at(REPLIES, Role::Receiver, &node).await;
        assert!(matches!(self.answer().await, Performative::Attach(_)));
        self.send(&grant(REPLIES, 0, 100)).await;
        self.attach_at(REQUESTS, Role::Sender, &node).await;
        assert!(matches!(self.answer().await, Performative::Attach(_)));
    }

    /// Asks the entity. Returns the status, and the body.
    async fn request(
        &mut self,
        id: u32,
        operation: &str,
        link: Option<&str>,
        body: Map,
    ) -> (i128, Map) {
        let mut properties: Map = vec![("operation".into(), operation.into())];
        properties.extend(link.map(|link| ("associated-link-name".into(), link.into())));
        let request = Message::of(&Properties::default(), properties, Value::Map(body));
        let request = transfer(REQUESTS, id, request.to_bytes());
        self.send(&Performative::Transfer(request)).await;
        let mut reply = None;
        // It is settled, too.
        for _ in 0..2 {
            if let Performative::Transfer(transfer) = self.answer().await {
                reply = Some(transfer);
            }
        }
        let reply = reply.expect("a reply");
        assert_eq!(reply.handle, REPLIES);
        let reply = Message::parse(&reply.payload).expect("a message");
        let properties = reply.application_properties().expect("properties");
        let status = get(&properties, "statusCode").and_then(Value::as_integer);
        let body = match reply.body_value().expect("a body") {
            Some(Value::Map(body)) => body,
            _ => Map::new(),
        };
        (status.expect("a status"), body)
    }

    /// The ids of the messages that a request to peek shows.
    async fn peeked(&mut self, id: u32, link: Option<&str>) -> Vec<String> {
        let body = vec![
            ("from-sequence-number".into(), Value::Long(0)),
            ("message-count".into(), Value::Int(10)),
        ];
        let (status, body) = self
            .request(id, "com.microsoft:peek-message", link, body)
            .await;
        assert_eq!(status, 200);
        let Some(Value::List(messages)) = get(&body, "messages") else {
            panic!("messages");
        };
        let ids = messages.iter().map(|each| {
            let Value::Map(each) = each else {
                panic!("a map");
            };
            let Some(Value::Binary(message)) = get(each, "message") else {
                panic!("a message");
            };
            let message = Message::parse(message).expect("a message");
            let properties = message.properties().expect("properties");
            let id = properties.message_id.expect("an id");
            id.as_text().expect("a text").to_owned()
        });
        ids.collect()
    }
}

#[tokio::test]
async fn a_missing_entity_is_told_with_the_token_to_who_looks_for_it_there() {
    let door = Door::new().await;
    door.define("/queues/jobs", json!({})).await;
    let (all, jobs) = (token(&door, "sb://host/"), token(&door, "sb://host/jobs"));
    for (product, token, audience, expected) in [
        ("MSGolangClient", &all, "amqps://host/nothing", 404),
        (
            "MSGolangClient",
            &all,
            "amqps://host/nothing/$management",
            404,
        ),
        (
            "MSGolangClient",
            &all,
            "amqps://host/jobs/Subscriptions/s",
            404,
        ),
        ("MSGolangClient", &all, "amqps://host/jobs/$management", 202),
        ("MSGolangClient", &all, "amqps://host/", 202),
        // Its token opens nothing there, so nothing is told.
        ("MSGolangClient", &jobs, "amqps://host/nothing", 202),
        ("servicebus.azure.com", &all, "amqps://host/nothing", 202),
    ] {
        let mut client = connected(&door, product).await;
        let status = client.show(token, audience).await;
        assert_eq!(status, expected, "{product} {audience}");
    }
}

#[tokio::test]
async fn a_peek_is_about_the_session_of_its_link_or_about_all() {
    let door = Door::new().await;
    door.define("/queues/jobs", json!({ "requiresSession": true }))
        .await;
    let mut client = authorized(&door).await;
    let messages = [("1", "a"), ("2", "b"), ("3", "a")];
    let messages = messages.map(|(id, session)| message(id, Some(session)));
    client.put(0, "jobs", &messages).await;
    let session = (Value::symbol("com.microsoft:session-filter"), "a".into());
    client.receive_from(7, "jobs", vec![session]).await;
    client.manage("jobs").await;
    assert_eq!(client.peeked(0, Some("link-7")).await, ["1", "3"]);
    assert_eq!(client.peeked(1, Some("link-8")).await, ["1", "2", "3"]);
    assert_eq!(client.peeked(2, None).await, ["1", "2", "3"]);
    // Other requests are about a session that is held.
    let body = || {
        vec![
            (
                "sequence-numbers".into(),
                Value::array(ElementType::LONG, vec![Value::Long(1)]),
            ),
            ("receiver-settle-mode".into(), Value::Uint(1)),
        ]
    };
    let receive = "com.microsoft:receive-by-sequence-number";
    let (of_link, _) = client.request(3, receive, Some("link-7"), body()).await;
    assert_eq!(of_link, 404, "nothing is deferred");
    let (of_none, _) = client.request(4, receive, None, body()).await;
    assert_eq!(of_none, 400);
}

#[tokio::test]
async fn a_session_is_held_by_an_id_that_messages_can_have() {
    let door = Door::new().await;
    door.define("/queues/jobs", json!({ "requiresSession": true }))
        .await;
    let mut client = authorized(&door).await;
    for (handle, (length, is_held)) in (1..).zip([(128, true), (129, false), (1_000, false)]) {
        let session = (
            Value::symbol("com.microsoft:session-filter"),
            "é".repeat(length).as_str().into(),
        );
        client.ask_to_receive(handle, "jobs", vec![session]).await;
        let Performative::Attach(attached) = client.answer().await else {
            panic!("an attach");
        };
        assert_eq!(attached.source.is_some(), is_held, "{length}");
        if !is_held {
            let Performative::Detach(detached) = client.answer().await else {
                panic!("a detach");
            };
            let error = detached.error.expect("an error");
            assert_eq!(error.condition, NOT_ALLOWED);
            client.send(&detach(handle)).await;
        }
    }
}

#[tokio::test]
async fn a_session_is_free_once_the_process_of_its_holder_is_gone() {
    let door = Door::new().await;
    door.define("/queues/jobs", json!({ "requiresSession": true }))
        .await;
    let session = || vec![(Value::symbol("com.microsoft:session-filter"), "a".into())];
    let mut before = authorized(&door).await;
    before.put(0, "jobs", &[message("1", Some("a"))]).await;
    before.receive_from(1, "jobs", session()).await;
    before.send(&grant(1, 0, 1)).await;
    let first = into_transfer(before.answer().await);
    let mut after = authorized(&door.restarted().await).await;
    after.receive_from(1, "jobs", session()).await;
    after.send(&grant(1, 0, 1)).await;
    let again = into_transfer(after.answer().await);
    let counts = [first, again].map(|each| {
        let message = Message::parse(&each.payload).expect("a message");
        message.header().expect("a header").delivery_count
    });
    assert_eq!(counts, [0, 1]);
}

#[tokio::test]
async fn what_a_transaction_sends_is_for_no_other_queue_of_the_name() {
    let door = Door::new().await;
    door.define("/queues/jobs", json!({})).await;
    let mut client = authorized(&door).await;
    client.put(0, "jobs", &[]).await;
    let coordinator = Attach {
        target: Some(Target::Coordinator),
        ..attach(9, Role::Sender)
    };
    client
        .send(&Performative::Attach(Box::new(coordinator)))
        .await;
    for _ in ["flow of the sender", "attach", "flow"] {
        assert!(client.next().await.is_some());
    }
    let transaction = client.declare(0).await;
    let within = DeliveryState::Transactional(Transactional {
        transaction: transaction.clone(),
        outcome: None,
    });
    let sent = Transfer {
        state: Some(within),
        ..transfer(0, 1, message("1", None))
    };
    client.send(&Performative::Transfer(sent)).await;
    assert!(matches!(
        client.answer().await,
        Performative::Disposition(_)
    ));
    door.delete("/queues/jobs").await;
    door.define("/queues/jobs", json!({})).await;
    let ended = client.coordinate(2, discharge(&transaction, false)).await;
    assert!(
        matches!(&ended, DeliveryState::Rejected(Some(error)) if error.condition == NOT_FOUND),
        "{ended:?}"
    );
    let mut other = authorized(&door).await;
    other.manage("jobs").await;
    let peek = vec![
        ("from-sequence-number".into(), Value::Long(0)),
        ("message-count".into(), Value::Int(10)),
    ];
    let (status, _) = other
        .request(0, "com.microsoft:peek-message", None, peek)
        .await;
    assert_eq!(status, 204, "nothing is in the new queue");
}
