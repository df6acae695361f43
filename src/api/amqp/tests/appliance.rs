//! Connections to the entities of an appliance.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use axum::http::Method;
use bytes::Bytes;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::shell::{Client, State, discharge};
use super::*;
use crate::api::amqp::receiver::uuid_of;
use crate::api::amqp::{Container, EntityContainer, KnownEntity};
use crate::api::auth::check_role;
use crate::api::memory::Memory;
use crate::api::tests::{Door, TOKEN};
use crate::api::{ManagementToken, amqp_server};
use crate::broker::{MessagingEntity, MessagingError};
use crate::model::access::Secret;
use crate::model::audit::Actor;
use crate::model::name::TopicName;
use crate::model::queue::ServiceBusTier;
use crate::model::shared_access::ROOT_RULE;
use crate::store::accounts::Role as UserRole;
use crate::store::views::DeadLetterQuery;
use crate::wire::amqp::AmqpError;
use crate::wire::amqp::cbs::{PutToken, TokenKind};
use crate::wire::amqp::condition::{
    AUTH_FAILED, ENTITY_DISABLED, MESSAGE_LOCK_LOST, MESSAGE_SIZE_EXCEEDED, NOT_ALLOWED, NOT_FOUND,
    NOT_IMPLEMENTED, SESSION_LOCK_LOST, UNAUTHORIZED_ACCESS,
};
use crate::wire::amqp::management::{EntityOperation, ManagementReply};
use crate::wire::amqp::message::{Message, MessageProperties};
use crate::wire::amqp::sasl::Plain;
use crate::wire::amqp::state::Transactional;
use crate::wire::amqp::value::{ElementType, get};
use crate::wire::service_bus::entity::EntityAddress;
use crate::wire::service_bus::sas;

/// An address that others guess from.
const GUESSER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

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
    let until = door.clock().now() + Duration::from_secs(600);
    sas::sign(resource, ROOT_RULE, until, &Secret::new(TOKEN))
}

/// Defines a rule `app` of a queue or topic, with the right to listen there. Returns its first key.
async fn listening_rule(door: &Door, entity: &str) -> Secret {
    let path = format!("/everpost/accessRules/{entity}%2Fapp");
    let rule = json!({ "rights": ["Listen"] });
    let (status, answer) = door.ask(TOKEN, Method::PUT, &path, rule).await;
    assert!(status.is_success(), "{answer}");
    let keys = format!("{path}/listKeys");
    let (_, keys) = door.ask(TOKEN, Method::POST, &keys, json!(null)).await;
    Secret::new(keys["key1"].as_str().expect("a key"))
}

/// Shows a token of that rule.
async fn show_rule(client: &mut Client, door: &Door, entity: &str, key: &Secret) {
    let resource = format!("sb://host/{entity}");
    let until = door.clock().now() + Duration::from_secs(600);
    let token = sas::sign(&resource, "app", until, key);
    assert_eq!(client.show(&token, &resource).await, 202);
}

/// A client of the appliance that may do everything.
async fn authorized(door: &Door) -> Client {
    let mut client = connected(door, "peer").await;
    let shown = client.show(&token(door, "sb://host/"), "sb://host/").await;
    assert_eq!(shown, 202);
    client
}

fn message(id: &str, session: Option<&str>) -> Bytes {
    let properties = MessageProperties {
        message_id: Some(id.into()),
        group_id: session.map(str::to_owned),
        ..MessageProperties::default()
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
        self.attach_at(handle, LinkRole::Sender, address).await;
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

    /// Waits for the end of a link. Returns the reason.
    async fn told_of_its_end(&mut self) -> AmqpError {
        let Performative::Detach(detached) = self.answer().await else {
            panic!("a detach");
        };
        detached.error.expect("an error")
    }

    /// Attaches a link that is rejected. Returns the reason.
    async fn rejected(&mut self, attach: Attach) -> AmqpError {
        self.send(&Performative::Attach(Box::new(attach))).await;
        let Performative::Attach(answer) = self.answer().await else {
            panic!("an attach");
        };
        assert_eq!((&answer.source, &answer.target), (&None, &None));
        self.told_of_its_end().await
    }

    async fn ask_to_receive(&mut self, handle: u32, address: &str, filter: Map) {
        let source = LinkSource {
            address: Some(address.to_owned()),
            filter,
            ..LinkSource::default()
        };
        let attach = Attach {
            source: Some(source),
            ..attach(handle, LinkRole::Receiver)
        };
        self.send(&Performative::Attach(Box::new(attach))).await;
    }

    /// Attaches the links for requests about an entity.
    async fn manage(&mut self, entity: &str) {
        let node = format!("{entity}/$management");
        self.attach_at(REPLIES, LinkRole::Receiver, &node).await;
        assert!(matches!(self.answer().await, Performative::Attach(_)));
        self.send(&grant(REPLIES, 0, 100)).await;
        self.attach_at(REQUESTS, LinkRole::Sender, &node).await;
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
        let request = Message::of(&MessageProperties::default(), properties, Value::Map(body));
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

    /// Attaches a link over which the client sends to an entity by way of another one. Returns whether it may.
    async fn send_via(&mut self, handle: u32, via: &str, to: &str) -> bool {
        let answer = self.attach_via(handle, via, to).await;
        matches!(&answer, Performative::Attach(answer) if answer.target.is_some())
    }

    async fn attach_via(&mut self, handle: u32, via: &str, to: &str) -> Performative {
        let destination = Value::symbol("com.microsoft:transfer-destination-address");
        let attach = Attach {
            target: Some(LinkTarget::Node {
                address: Some(via.to_owned()),
                dynamic: false,
            }),
            properties: vec![(destination, to.into())],
            ..attach(handle, LinkRole::Sender)
        };
        self.send(&Performative::Attach(Box::new(attach))).await;
        self.answer().await
    }

    /// Attaches a link to the coordinator of transactions, after one over which the client sends.
    async fn coordinator(&mut self) {
        let coordinator = Attach {
            target: Some(LinkTarget::Coordinator),
            ..attach(9, LinkRole::Sender)
        };
        self.send(&Performative::Attach(Box::new(coordinator)))
            .await;
        for _ in ["flow of the sender", "attach", "flow"] {
            assert!(self.next().await.is_some());
        }
    }

    /// Begins a transaction, and sends a message in it over the link 0. Returns the transaction.
    async fn send_in_transaction(&mut self) -> Bytes {
        self.coordinator().await;
        let transaction = self.declare(0).await;
        let within = DeliveryState::Transactional(Transactional {
            transaction: transaction.clone(),
            outcome: None,
        });
        let sent = Transfer {
            state: Some(within),
            ..transfer(0, 1, message("1", None))
        };
        self.send(&Performative::Transfer(sent)).await;
        let answer = self.answer().await;
        assert!(matches!(answer, Performative::Disposition(_)));
        transaction
    }

    /// Ends a transaction whose queue is not there any more.
    async fn discharge_finds_nothing(&mut self, transaction: &Bytes) {
        let ended = self.coordinate(2, discharge(transaction, false)).await;
        assert!(
            matches!(&ended, DeliveryState::Rejected(Some(error)) if error.condition == NOT_FOUND),
            "{ended:?}"
        );
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
        assert!(matches!(status, 200 | 204), "{status}");
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
async fn each_queue_and_subscription_has_a_transfer_dead_letter_queue() {
    let door = Door::new().await;
    for path in [
        "/queues/jobs",
        "/serviceBusTopics/sales",
        "/serviceBusTopics/sales/subscriptions/all",
    ] {
        door.define(path, json!({})).await;
    }
    for (place, sent_to) in [("jobs", "jobs"), ("sales/Subscriptions/all", "sales")] {
        let mut client = authorized(&door).await;
        let transfers = format!("{place}/$Transfer/$DeadLetterQueue");
        client.receive_from(1, &transfers, Map::new()).await;
        client.put(0, sent_to, &[message("1", None)]).await;
        client.manage(&transfers).await;
        assert!(client.peeked(1, None).await.is_empty(), "{place}");
    }
}

#[tokio::test]
async fn what_a_link_asks_for_and_is_not_offered_is_not_passed_over() {
    let door = Door::new().await;
    door.define("/queues/jobs", json!({})).await;
    let from = |source: LinkSource| Attach {
        source: Some(source),
        ..attach(1, LinkRole::Receiver)
    };
    let jobs = || LinkSource {
        address: Some("jobs".to_owned()),
        ..LinkSource::default()
    };
    let filtered = |name: &str, value: Value| {
        from(LinkSource {
            filter: vec![(Value::symbol(name), value)],
            ..jobs()
        })
    };
    let to = |address: Option<&str>, dynamic| Attach {
        target: Some(LinkTarget::Node {
            address: address.map(str::to_owned),
            dynamic,
        }),
        ..attach(1, LinkRole::Sender)
    };
    let selector = Value::described(0x0000_468C_0000_0004, "a = 1".into());
    for (asked, expected) in [
        (
            filtered("jms-selector", selector),
            "invalid filter type: selectors",
        ),
        (
            filtered("com.microsoft:other-filter", 1i32.into()),
            "invalid filter type: com.microsoft:other-filter",
        ),
        (from(LinkSource::default()), "names no address"),
        (
            from(LinkSource {
                dynamic: true,
                ..jobs()
            }),
            "dynamic nodes are not offered",
        ),
        (to(None, false), "names no address"),
        (to(None, true), "dynamic nodes are not offered"),
    ] {
        let mut client = authorized(&door).await;
        let error = client.rejected(asked).await;
        assert_eq!(error.condition, NOT_IMPLEMENTED, "{}", error.description);
        assert!(
            error.description.contains(expected),
            "{}",
            error.description
        );
    }
    // A filter that changes nothing is passed over, and not confirmed.
    let mut client = authorized(&door).await;
    let unknown = (Value::symbol("example:filter"), "x".into());
    client.ask_to_receive(1, "jobs", vec![unknown]).await;
    let Performative::Attach(answer) = client.answer().await else {
        panic!("an attach");
    };
    assert_eq!(answer.source.expect("the queue").filter, Map::new());
}

/// Programs compare the beginnings of these texts.
#[tokio::test]
async fn what_is_not_allowed_or_lost_is_said_in_azures_words() {
    let door = Door::new().await;
    door.define("/queues/jobs", json!({})).await;
    let key = listening_rule(&door, "jobs").await;
    let mut listener = connected(&door, "peer").await;
    show_rule(&mut listener, &door, "jobs", &key).await;
    let to_jobs = LinkTarget::Node {
        address: Some("jobs".to_owned()),
        dynamic: false,
    };
    let sending = Attach {
        target: Some(to_jobs),
        ..attach(1, LinkRole::Sender)
    };
    let denied = listener.rejected(sending).await;
    let mut client = authorized(&door).await;
    client.put(0, "jobs", &[message("1", None)]).await;
    client.receive_from(1, "jobs", vec![]).await;
    client.send(&grant(1, 0, 1)).await;
    let received = into_transfer(client.answer().await);
    door.clock().advance(Duration::from_secs(61));
    let id = received.delivery_id.expect("an id");
    let completed = disposition(id, id, DeliveryState::Accepted);
    client.send(&completed).await;
    let Performative::Disposition(answer) = client.answer().await else {
        panic!("a disposition");
    };
    let Some(DeliveryState::Rejected(Some(lost))) = answer.state else {
        panic!("a rejection: {:?}", answer.state);
    };
    let container = EntityContainer::new(door.state().clone(), GUESSER);
    let now = door.clock().now();
    let shown = |key: &str, until| {
        let token = sas::sign("sb://host/", ROOT_RULE, until, &Secret::new(key));
        let shown = container.token(&PutToken {
            kind: TokenKind::SharedAccessSignature,
            audience: "amqps://host/jobs".to_owned(),
            token: Secret::new(token),
        });
        shown.expect_err("it opens nothing")
    };
    for (error, condition, begins) in [
        (
            shown(TOKEN, now),
            AUTH_FAILED,
            "ExpiredToken: The token is expired. Expiration time: '",
        ),
        (
            shown("another key", now + Duration::from_secs(60)),
            AUTH_FAILED,
            "InvalidSignature: The token has an invalid signature.",
        ),
        (
            denied,
            UNAUTHORIZED_ACCESS,
            "Unauthorized access. 'Send' claim(s) are required to perform this operation.",
        ),
        (
            lost,
            MESSAGE_LOCK_LOST,
            "The lock supplied is invalid. Either the lock expired, or the message has already been removed from the queue",
        ),
    ] {
        assert_eq!(error.condition, condition);
        let text = error.description;
        assert!(text.starts_with(begins), "{text}");
    }
}

/// Python's client hears no answer once it has detached its link, and asks for the same by a request.
#[tokio::test]
async fn what_was_settled_over_a_link_can_be_asked_for_again_by_a_request() {
    let door = Door::new().await;
    door.define("/queues/jobs", json!({})).await;
    let mut client = authorized(&door).await;
    let messages = ["1", "2", "3"].map(|id| message(id, None));
    client.put(0, "jobs", &messages).await;
    client.receive_from(1, "jobs", vec![]).await;
    client.manage("jobs").await;
    client.send(&grant(1, 0, 2)).await;
    let mut received = Vec::new();
    for _ in 0..2 {
        received.push(into_transfer(client.answer().await));
    }
    let tokens = received.iter().map(|each| {
        let tag = each.delivery_tag.as_deref().expect("a tag");
        Uuid::from_bytes_le(tag.try_into().expect("a token"))
    });
    let tokens: Vec<Uuid> = tokens.collect();
    client.send(&detach(1)).await;
    assert!(matches!(client.answer().await, Performative::Detach(_)));
    let id = received[0].delivery_id.expect("an id");
    client
        .send(&disposition(id, id, DeliveryState::Accepted))
        .await;
    let answer = client.answer().await;
    assert!(matches!(answer, Performative::Disposition(_)), "{answer:?}");
    let settle = |tokens: &[Uuid], outcome: &str| {
        let tokens = tokens.iter().copied().map(Value::Uuid).collect();
        vec![
            (
                "lock-tokens".into(),
                Value::array(ElementType::UUID, tokens),
            ),
            ("disposition-status".into(), outcome.into()),
        ]
    };
    for (id, tokens, outcome, expected) in [
        (0, &tokens[..1], "completed", 200),
        (1, &tokens[..1], "completed", 200),
        (2, &tokens[..1], "abandoned", 410),
        (3, &tokens[..], "completed", 200),
        // What a request has settled is told by its answer.
        (4, &tokens[1..], "completed", 410),
    ] {
        let body = settle(tokens, outcome);
        let asked = client.request(id, "com.microsoft:update-disposition", None, body);
        assert_eq!(asked.await.0, expected, "{id}");
    }
    assert_eq!(client.peeked(5, None).await, ["3"]);
    let mut other = authorized(&door).await;
    other.manage("jobs").await;
    let body = settle(&tokens[..1], "completed");
    let asked = other.request(0, "com.microsoft:update-disposition", None, body);
    assert_eq!(asked.await.0, 410, "over another connection");
}

#[tokio::test]
async fn a_signature_is_taken_for_what_it_is_and_no_other_token() {
    let door = Door::new().await;
    let signature = token(&door, "sb://host/");
    for (kind, token, expected) in [
        ("jwt", "eyJhbGciOiJub25lIn0.e30.", 401),
        ("other", "eyJhbGciOiJub25lIn0.e30.", 401),
        // As Python's client writes it.
        ("jwt", &*signature, 202),
    ] {
        let mut client = connected(&door, "peer").await;
        let status = client.show_as(kind, token, "sb://host/").await;
        assert_eq!(status, expected, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_session_is_told_that_the_queue_was_disabled_or_deleted() {
    for (is_deleted, expected) in [(false, ENTITY_DISABLED), (true, NOT_FOUND)] {
        let door = Door::new().await;
        door.define("/queues/jobs", json!({ "requiresSession": true }))
            .await;
        let mut client = authorized(&door).await;
        let any = (Value::symbol("com.microsoft:session-filter"), Value::Null);
        client.ask_to_receive(1, "jobs", vec![any]).await;
        let waiting = tokio::time::timeout(Duration::from_secs(1), client.answer());
        assert!(waiting.await.is_err(), "there is no session");
        if is_deleted {
            door.delete("/queues/jobs").await;
        } else {
            let disabled = json!({ "requiresSession": true, "status": "Disabled" });
            door.define("/queues/jobs", disabled).await;
        }
        let answered = tokio::time::timeout(Duration::from_secs(5), client.answer());
        assert!(matches!(answered.await, Ok(Performative::Attach(_))));
        let error = client.told_of_its_end().await;
        assert_eq!(error.condition, expected, "{}", error.description);
        assert!(error.description.contains("jobs"), "{}", error.description);
    }
}

#[tokio::test(start_paused = true)]
async fn links_end_with_their_queue_although_another_one_has_its_name() {
    let door = Door::new().await;
    door.define("/queues/jobs", json!({})).await;
    let mut client = authorized(&door).await;
    client.put(0, "jobs", &[]).await;
    client.receive_from(1, "jobs", vec![]).await;
    client.send(&grant(1, 0, 1)).await;
    door.delete("/queues/jobs").await;
    door.define("/queues/jobs", json!({})).await;
    let mut ended = Vec::new();
    for _ in 0..2 {
        let next = tokio::time::timeout(Duration::from_secs(5), client.answer());
        let Ok(Performative::Detach(detached)) = next.await else {
            panic!("a detach");
        };
        let error = detached.error.expect("an error");
        assert_eq!(error.condition, NOT_FOUND, "{}", error.description);
        assert!(error.description.contains("jobs"), "{}", error.description);
        ended.push(detached.handle);
    }
    ended.sort_unstable();
    assert_eq!(ended, [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_link_ends_with_its_session_and_no_settlement_is_rejected_for_that() {
    for (credit, settles) in [(0, false), (1, false), (0, true)] {
        let door = Door::new().await;
        let short = json!({ "requiresSession": true, "lockDuration": "PT10S" });
        door.define("/queues/jobs", short).await;
        let mut client = authorized(&door).await;
        client.put(0, "jobs", &[message("1", Some("a"))]).await;
        let session = (Value::symbol("com.microsoft:session-filter"), "a".into());
        client.receive_from(1, "jobs", vec![session]).await;
        client.send(&grant(1, 0, 1 + credit)).await;
        let received = into_transfer(client.answer().await);
        door.clock().advance(Duration::from_secs(10));
        if settles {
            let id = received.delivery_id.expect("an id");
            let completed = disposition(id, id, DeliveryState::Accepted);
            client.send(&completed).await;
        }
        let ended = tokio::time::timeout(Duration::from_secs(60), client.told_of_its_end());
        let error = ended.await.expect("an end");
        assert_eq!(error.condition, SESSION_LOCK_LOST, "{credit} {settles}");
    }
}

/// An appliance with the queues `jobs` and `done`.
async fn with_queues() -> Door {
    let door = Door::new().await;
    for path in ["/queues/jobs", "/queues/done"] {
        door.define(path, json!({ "maxSizeInMegabytes": 1 })).await;
    }
    door
}

/// How many messages go on from a queue to others, and how many could not.
async fn transfers(door: &Door, queue: &str) -> [u64; 2] {
    let path = format!("/queues/{queue}");
    let (_, shown) = door.ask(TOKEN, Method::GET, &path, json!({})).await;
    let counts = &shown["properties"]["countDetails"];
    let names = ["transferMessageCount", "transferDeadLetterMessageCount"];
    names.map(|name| counts[name].as_u64().expect("a count"))
}

#[tokio::test]
async fn what_is_sent_by_way_of_a_queue_is_passed_on_after_the_commit() {
    let door = with_queues().await;
    let mut client = authorized(&door).await;
    assert!(client.send_via(0, "jobs", "done").await);
    let transaction = client.send_in_transaction().await;
    assert_eq!(transfers(&door, "jobs").await, [0, 0], "not before the end");
    let ended = client.coordinate(2, discharge(&transaction, false)).await;
    assert_eq!(ended, DeliveryState::Accepted);
    assert_eq!(transfers(&door, "jobs").await, [1, 0]);
    // It is kept there, and passed on however the process ends.
    let after = door.restarted().await;
    let passed_on = after.state().broker.forward_all().await;
    passed_on.expect("passed on");
    assert_eq!(transfers(&after, "jobs").await, [0, 0]);
    for (queue, expected) in [("jobs", vec![]), ("done", vec!["1"])] {
        let mut other = authorized(&after).await;
        other.manage(queue).await;
        assert_eq!(other.peeked(0, None).await, expected, "{queue}");
    }
}

#[tokio::test]
async fn what_cannot_be_passed_on_is_a_transfer_dead_letter() {
    let body = "x".repeat(60_000);
    let large = Message::of(
        &MessageProperties::default(),
        Map::new(),
        body.as_str().into(),
    );
    let large: Bytes = large.to_bytes().into();
    for reason in [
        "ForwardTargetDisabled",
        "ForwardTargetMissing",
        "ForwardTargetFull",
    ] {
        let door = with_queues().await;
        let mut sender = authorized(&door).await;
        assert!(sender.send_via(0, "jobs", "done").await);
        let sent = Performative::Transfer(transfer(0, 0, large.clone()));
        sender.send(&sent).await;
        let Performative::Disposition(answer) = sender.answer().await else {
            panic!("a disposition");
        };
        assert_eq!(answer.state, Some(DeliveryState::Accepted), "{reason}");
        let mut client = authorized(&door).await;
        match reason {
            "ForwardTargetDisabled" => {
                let disabled = json!({ "maxSizeInMegabytes": 1, "status": "SendDisabled" });
                door.define("/queues/done", disabled).await;
            }
            "ForwardTargetMissing" => door.delete("/queues/done").await,
            _ => client.put(1, "done", &vec![large.clone(); 17]).await,
        }
        let passed_on = door.state().broker.forward_all().await;
        passed_on.expect("looked at");
        assert_eq!(transfers(&door, "jobs").await, [0, 1], "{reason}");
        let listed = door.state().views.dead_letters(DeadLetterQuery::default());
        let listed = listed.await.expect("a page").rows;
        let queues: Vec<&str> = listed.iter().map(|row| &row.topic[..]).collect();
        assert_eq!(queues, ["jobs"], "{reason}");
        let dead = "jobs/$Transfer/$DeadLetterQueue";
        client.receive_from(5, dead, Map::new()).await;
        client.send(&grant(5, 0, 1)).await;
        let received = into_transfer(client.answer().await);
        let told = Message::parse(&received.payload).expect("a message");
        let properties = told.application_properties().expect("properties");
        let told = get(&properties, "DeadLetterReason").and_then(Value::as_text);
        assert_eq!(told, Some(reason));
        let id = received.delivery_id.expect("an id");
        let accepted = disposition(id, id, DeliveryState::Accepted);
        client.send(&accepted).await;
        let answer = client.answer().await;
        assert!(matches!(answer, Performative::Disposition(_)), "{answer:?}");
        assert_eq!(transfers(&door, "jobs").await, [0, 0], "{reason}");
    }
}

#[tokio::test]
async fn what_is_sent_by_way_of_a_queue_is_no_larger_than_both_take() {
    let door = with_queues().await;
    let small = json!({ "maxMessageSizeInKilobytes": 256 });
    door.define("/queues/done", small).await;
    for (via, to) in [("jobs", "done"), ("done", "jobs")] {
        let mut client = authorized(&door).await;
        let Performative::Attach(answer) = client.attach_via(0, via, to).await else {
            panic!("an attach");
        };
        assert_eq!(answer.max_message_size, Some(256 * 1_024), "{via} {to}");
    }
}

#[tokio::test]
async fn the_standard_tier_has_small_messages_whatever_a_queue_or_topic_says() {
    let door = Door::new().await;
    let large = json!({ "maxMessageSizeInKilobytes": 2_048 });
    door.define("/queues/jobs", large.clone()).await;
    door.define("/serviceBusTopics/sales", large).await;
    door.define("/queues/usual", json!({})).await;
    for (tier, expected) in [
        (ServiceBusTier::Premium, 1_024 * 1_024),
        (ServiceBusTier::Standard, 256 * 1_024),
    ] {
        door.set_tier(tier);
        let mut client = authorized(&door).await;
        for (handle, address) in (0..).zip(["jobs", "sales", "usual"]) {
            client.attach_at(handle, LinkRole::Sender, address).await;
            let Performative::Attach(answer) = client.answer().await else {
                panic!("an attach");
            };
            assert_eq!(answer.max_message_size, Some(expected), "{address}");
        }
    }
}

#[tokio::test]
async fn what_is_scheduled_is_no_larger_than_its_queue_takes() {
    let door = Door::new().await;
    let small = json!({ "maxMessageSizeInKilobytes": 256 });
    door.define("/queues/jobs", small).await;
    let container = EntityContainer::new(door.state().clone(), GUESSER);
    let address = EntityAddress::of_parts(["jobs"]).expect("an address");
    let id = container.identity(&address, None).expect("a queue");
    let entity = KnownEntity { address, id };
    for (bytes, expected) in [(200_000, None), (300_000, Some(MESSAGE_SIZE_EXCEEDED))] {
        let body = "x".repeat(bytes);
        let asked = || {
            let message = Message::of(
                &MessageProperties::default(),
                Map::new(),
                body.as_str().into(),
            );
            EntityOperation::Schedule(vec![message])
        };
        let at_once = container.manage(&entity, asked(), &Actor::Appliance).await;
        let in_transaction = container.prepare(&entity, asked(), &Actor::Appliance).await;
        for error in [at_once.err(), in_transaction.err()] {
            let condition = error.map(|error| error.condition.into_owned());
            assert_eq!(condition.as_deref(), expected, "{bytes}");
        }
    }
}

#[tokio::test]
async fn a_lock_that_a_request_names_again_and_again_is_renewed_once() {
    let door = Door::new().await;
    door.define("/queues/jobs", json!({})).await;
    let mut client = authorized(&door).await;
    client.put(0, "jobs", &[message("1", None)]).await;
    let container = EntityContainer::new(door.state().clone(), GUESSER);
    let address = EntityAddress::of_parts(["jobs"]).expect("an address");
    let queue = door.state().broker.resolve(&address);
    let receiver = queue.and_then(MessagingEntity::receiver);
    let received = receiver.expect("a queue").receive(1, None).await;
    let token = uuid_of(received.expect("a message")[0].token);
    let id = container.identity(&address, None).expect("a queue");
    let entity = KnownEntity { address, id };
    let renew = async |times: usize| {
        let asked = EntityOperation::RenewLocks(vec![token; times]);
        let answer = container.manage(&entity, asked, &Actor::Appliance).await;
        let Ok(ManagementReply::LocksRenewed(ends)) = answer else {
            panic!("a renewal");
        };
        assert_eq!(ends.len(), times, "each is answered");
    };
    renew(1).await;
    let once = door.statements_of(renew(1)).await;
    assert_eq!(door.statements_of(renew(1_000)).await, once);
}

#[tokio::test]
async fn who_sends_by_way_of_a_queue_may_send_to_both() {
    let door = with_queues().await;
    for (resource, to, expected) in [
        ("sb://host/", "done", true),
        ("sb://host/jobs", "done", false),
        ("sb://host/done", "done", false),
        ("sb://host/", "nothing", false),
        ("sb://host/", "done/$DeadLetterQueue", false),
        ("sb://host/", "done/$management", false),
        ("sb://host/", "$cbs", false),
    ] {
        let mut client = connected(&door, "peer").await;
        let shown = client.show(&token(&door, resource), resource).await;
        assert_eq!(shown, 202);
        let is_attached = client.send_via(0, "jobs", to).await;
        assert_eq!(is_attached, expected, "{resource} {to}");
    }
}

#[tokio::test]
async fn what_a_queue_has_not_passed_on_goes_with_it() {
    let door = with_queues().await;
    let mut client = authorized(&door).await;
    assert!(client.send_via(0, "jobs", "done").await);
    let sent = Performative::Transfer(transfer(0, 0, message("1", None)));
    client.send(&sent).await;
    let answer = client.answer().await;
    assert!(matches!(answer, Performative::Disposition(_)), "{answer:?}");
    let broker = &door.state().broker;
    let (_, queue) = broker
        .queue(&TopicName::parse("jobs").expect("a name"))
        .expect("the queue");
    let transfers = queue.id.transfers();
    assert!(broker.queue_bytes(&[transfers]) > 0);
    door.delete("/queues/jobs").await;
    broker.finish().await.expect("ended");
    assert_eq!(broker.queue_bytes(&[transfers]), 0);
}

#[tokio::test]
async fn what_a_transaction_sends_is_for_no_other_queue_of_the_name() {
    let door = Door::new().await;
    door.define("/queues/jobs", json!({})).await;
    let mut client = authorized(&door).await;
    client.put(0, "jobs", &[]).await;
    let transaction = client.send_in_transaction().await;
    door.delete("/queues/jobs").await;
    door.define("/queues/jobs", json!({})).await;
    client.discharge_finds_nothing(&transaction).await;
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

/// Deletes the queue `done`, and makes another one of its name.
async fn replace_done(door: &Door) {
    door.delete("/queues/done").await;
    door.define("/queues/done", json!({})).await;
}

#[tokio::test]
async fn what_is_sent_by_way_of_a_queue_is_for_no_other_queue_of_the_name() {
    let door = with_queues().await;
    let broker = &door.state().broker;
    let [jobs, done] = ["jobs", "done"].map(|name| {
        let address = EntityAddress::of_parts([name]).expect("an address");
        broker.resolve(&address).expect("a queue")
    });
    let sender = jobs.sender_to(&done).expect("a sender");
    let send = || {
        let sent = Message::of(&MessageProperties::default(), Map::new(), "body".into());
        sender.send(vec![sent])
    };
    send().await.expect("sent");
    replace_done(&door).await;
    let late = send().await;
    assert!(
        matches!(late, Err(MessagingError::EntityNotFound { .. })),
        "{late:?}"
    );
    // What was sent before has nowhere to go either.
    broker.forward_all().await.expect("looked at");
    assert_eq!(transfers(&door, "jobs").await, [0, 1]);
    let mut other = authorized(&door).await;
    other.manage("done").await;
    assert!(other.peeked(0, None).await.is_empty());
}

#[tokio::test]
async fn what_a_transaction_sends_by_way_of_a_queue_is_for_no_other_queue_of_the_name() {
    let door = with_queues().await;
    let mut client = authorized(&door).await;
    assert!(client.send_via(0, "jobs", "done").await);
    let transaction = client.send_in_transaction().await;
    replace_done(&door).await;
    client.discharge_finds_nothing(&transaction).await;
    assert_eq!(transfers(&door, "jobs").await, [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_link_by_way_of_a_queue_ends_with_the_queue_that_its_messages_go_on_to() {
    let door = with_queues().await;
    let mut client = authorized(&door).await;
    assert!(client.send_via(0, "jobs", "done").await);
    replace_done(&door).await;
    let told = tokio::time::timeout(Duration::from_secs(5), client.answer()).await;
    let Ok(Performative::Detach(detached)) = told else {
        panic!("no detach: {told:?}");
    };
    let error = detached.error.expect("an error");
    assert_eq!((detached.handle, &*error.condition), (0, NOT_FOUND));
}

/// Waits for the end of a connection, and no longer than it may take. Returns the reason.
async fn told_at_its_end(client: &mut Client) -> String {
    let told = tokio::time::timeout(Duration::from_secs(5), client.answer()).await;
    let Ok(Performative::Close(Some(error))) = told else {
        panic!("no close with a reason: {told:?}");
    };
    error.condition.into_owned()
}

#[tokio::test(start_paused = true)]
async fn what_a_rule_has_opened_ends_when_that_is_taken_from_it() {
    const RULE: &str = "/everpost/accessRules/jobs%2Fapp";
    let regenerate = format!("{RULE}/regenerateKey");
    for (method, path, body) in [
        (Method::DELETE, RULE, json!(null)),
        (Method::POST, &*regenerate, json!({ "keyName": "key1" })),
        (Method::PUT, RULE, json!({ "rights": ["Send"] })),
    ] {
        let door = Door::new().await;
        door.define("/queues/jobs", json!({})).await;
        let key = listening_rule(&door, "jobs").await;
        let mut client = connected(&door, "peer").await;
        show_rule(&mut client, &door, "jobs", &key).await;
        client.receive_from(1, "jobs", vec![]).await;
        let container = EntityContainer::new(door.state().clone(), GUESSER);
        let rule = "app".to_owned();
        let by_password = container.plain(&Plain { rule, key });
        let by_password = by_password.expect("the key of the rule");
        assert!(container.still_holds(&by_password));

        let (status, answer) = door.ask(TOKEN, method, path, body).await;
        assert!(status.is_success(), "{path}: {answer}");
        assert_eq!(told_at_its_end(&mut client).await, UNAUTHORIZED_ACCESS);
        assert!(!container.still_holds(&by_password), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_management_token_has_opened_ends_when_it_is_replaced() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("management.token");
    fs::write(&file, TOKEN).expect("written");
    let in_file = ManagementToken::in_file(file.clone(), Secret::new(TOKEN));
    let door = Door::with_token(in_file).await;
    door.define("/queues/jobs", json!({})).await;
    let mut client = authorized(&door).await;
    client.receive_from(1, "jobs", vec![]).await;
    fs::write(&file, "another one").expect("written");
    assert_eq!(told_at_its_end(&mut client).await, UNAUTHORIZED_ACCESS);
    let mut late = connected(&door, "peer").await;
    let shown = late.show(&token(&door, "sb://host/"), "sb://host/").await;
    assert_eq!(shown, 401);
}

#[tokio::test]
async fn guesses_count_together_whatever_the_entrance() {
    let door = Door::new().await;
    let container = EntityContainer::new(door.state().clone(), GUESSER);
    let now = door.clock().now();
    let plain = |key: &str| {
        let (rule, key) = (ROOT_RULE.to_owned(), Secret::new(key));
        container.plain(&Plain { rule, key }).is_some()
    };
    let signed = |key: &str, resource: &str, until| {
        let token = sas::sign(resource, ROOT_RULE, until, &Secret::new(key));
        let shown = container.token(&PutToken {
            kind: TokenKind::SharedAccessSignature,
            audience: "sb://host/".to_owned(),
            token: Secret::new(token),
        });
        shown.map(drop).map_err(|error| error.description)
    };
    let bearer = |key: &str| {
        let key = Secret::new(key);
        check_role(door.state(), &key, Some(GUESSER), UserRole::Viewer).is_ok()
    };
    let later = now + Duration::from_secs(60);
    for number in 0..4 {
        assert!(!plain(&format!("guess {number}")));
    }
    for number in 4..7 {
        assert!(signed(&format!("guess {number}"), "sb://host/", later).is_err());
    }
    for number in 7..10 {
        assert!(!bearer(&format!("guess {number}")));
    }
    // From now on a right one, in whatever it is shown, is answered as a wrong one is.
    assert!(!plain(TOKEN) && !bearer(TOKEN));
    for (resource, until) in [
        ("sb://host/", later),
        ("sb://host/", now),
        ("sb://elsewhere/", later),
    ] {
        let [right, wrong] = [TOKEN, "guess"].map(|key| signed(key, resource, until));
        assert!(right.is_err(), "{resource}");
        assert_eq!(right, wrong, "{resource}");
    }
    door.clock().advance(Duration::from_secs(1));
    assert!(plain(TOKEN), "one more a second");
}

#[tokio::test]
async fn the_audit_log_names_the_rule_that_was_used() {
    let door = Door::new().await;
    let mut client = connected(&door, "peer").await;
    for topic in ["one", "two"] {
        let path = format!("/serviceBusTopics/{topic}");
        door.define(&path, json!({})).await;
        door.define(&format!("{path}/subscriptions/all"), json!({}))
            .await;
        let key = listening_rule(&door, topic).await;
        show_rule(&mut client, &door, topic, &key).await;
    }
    client.manage("one/Subscriptions/all").await;
    let expression = Value::Map(vec![("expression".into(), "n = 7".into())]);
    let description = Value::Map(vec![("sql-filter".into(), expression)]);
    let body = vec![
        ("rule-name".into(), "seven".into()),
        ("rule-description".into(), description),
    ];
    let (status, _) = client
        .request(0, "com.microsoft:add-rule", None, body)
        .await;
    assert_eq!(status, 200);
    let newest = door.ask(TOKEN, Method::GET, "/everpost/audit?limit=1", json!(null));
    let (_, log) = newest.await;
    let entry = &log["value"][0];
    assert_eq!(entry["actorKind"], "AccessRule", "{entry}");
    assert_eq!(entry["actor"], "one/app", "{entry}");
}
