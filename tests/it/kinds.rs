//! Topics of events, queues and Service Bus topics share their names, and each is managed as what it is.

use std::pin::pin;
use std::task::{Context, Waker};

use axum::http::{Method, StatusCode};
use everpost::broker::{Broker, ErrorKind, ManageError, MessagingError, NotAllowed, Put};
use everpost::model::audit::Caller;
use everpost::model::name::TopicName;
use everpost::model::subscription::OnDelete;
use everpost::model::topic::EntityKind;
use everpost::wire::resource::{parse_queue, parse_service_bus_topic, parse_topic};
use everpost::wire::service_bus::entity::EntityAddress;
use serde_json::{Value, json};

use crate::grid::{Grid, SendResult};

/// One entity of each kind, by the part of the management API that has its kind.
const ENTITIES: [(&str, &str); 3] = [
    ("/topics", "events"),
    ("/queues", "jobs"),
    ("/serviceBusTopics", "sales"),
];

/// A body that a PUT of any kind takes.
fn body() -> Value {
    json!({ "location": "local", "properties": { "inputSchema": "CloudEventSchemaV1_0" } })
}

async fn send(grid: &Grid, method: Method, path: &str, body: Value) -> SendResult {
    grid.manage(method, path, body).await
}

async fn put(grid: &Grid, path: &str, body: Value) {
    let answer = send(grid, Method::PUT, path, body).await;
    assert_eq!(
        answer.status,
        StatusCode::CREATED,
        "{path}: {}",
        answer.text
    );
}

async fn grid() -> Grid {
    let grid = Grid::new().await;
    for (door, name) in ENTITIES {
        put(&grid, &format!("{door}/{name}"), body()).await;
    }
    put(
        &grid,
        "/serviceBusTopics/sales/subscriptions/all",
        json!({}),
    )
    .await;
    grid
}

#[tokio::test]
async fn nothing_is_read_changed_or_deleted_as_what_it_is_not() {
    let grid = grid().await;
    for (own, name) in ENTITIES {
        let before = send(&grid, Method::GET, &format!("{own}/{name}"), Value::Null).await;
        assert_eq!(before.status, StatusCode::OK);
        for (door, _) in ENTITIES.into_iter().filter(|(door, _)| *door != own) {
            let path = format!("{door}/{name}");
            let read = send(&grid, Method::GET, &path, Value::Null).await;
            read.error(404, "ResourceNotFound");
            for method in [Method::PUT, Method::DELETE] {
                let changed = send(&grid, method.clone(), &path, body()).await;
                let said = changed.error(409, "Conflict");
                assert!(said.contains(own), "{method} {path}: {said}");
            }
            if door == "/topics" {
                let tags = json!({ "tags": { "a": "b" } });
                send(&grid, Method::PATCH, &path, tags)
                    .await
                    .error(409, "Conflict");
                let types = format!("{path}/eventTypes");
                let types = send(&grid, Method::GET, &types, Value::Null).await;
                types.error(404, "ResourceNotFound");
            }
        }
        let after = send(&grid, Method::GET, &format!("{own}/{name}"), Value::Null).await;
        assert_eq!(after.text, before.text);
    }
}

#[tokio::test]
async fn what_receivers_have_is_no_event_subscription() {
    let grid = grid().await;
    for (topic, own) in [("jobs", "jobs"), ("sales", "all")] {
        let all = format!("/topics/{topic}/eventSubscriptions");
        let listed = send(&grid, Method::GET, &all, Value::Null).await.json();
        assert_eq!(listed["value"], json!([]), "{topic}");
        let path = format!("{all}/{own}");
        for read in [Method::GET, Method::POST] {
            let path = match read {
                Method::POST => format!("{path}/getFullUrl"),
                _ => path.clone(),
            };
            let answer = send(&grid, read, &path, Value::Null).await;
            answer.error(404, "ResourceNotFound");
        }
        let webhook = json!({ "properties": { "destination": {
            "endpointType": "WebHook", "properties": { "endpointUrl": "https://hook.test/" },
        } } });
        for (method, path, body) in [
            (Method::PUT, path.clone(), webhook),
            (Method::PATCH, path.clone(), json!({ "labels": ["a"] })),
            (Method::DELETE, path.clone(), Value::Null),
            (Method::POST, format!("{path}/pause"), Value::Null),
            (Method::POST, format!("{path}/resume"), Value::Null),
            (Method::POST, format!("{path}/validate"), Value::Null),
            (
                Method::POST,
                format!("{path}/rotateSigningSecret"),
                json!({}),
            ),
        ] {
            let answer = send(&grid, method.clone(), &path, body).await;
            let said = answer.error(409, "Conflict");
            assert!(said.contains(topic), "{method} {path}: {said}");
        }
    }
}

#[tokio::test]
async fn a_plan_does_not_make_an_event_subscription_of_what_receivers_have() {
    let grid = grid().await;
    for name in ["sales/all", "jobs/jobs"] {
        let properties = json!({ "destination": {
            "endpointType": "WebHook", "properties": { "endpointUrl": "https://hook.test/" },
        } });
        let object = json!({ "kind": "EventSubscription", "name": name, "properties": properties });
        let path = "/everpost/configuration/plan";
        let plan = send(&grid, Method::POST, path, json!({ "objects": [object] })).await;
        assert_eq!(plan.status, StatusCode::OK, "{}", plan.text);
        let plan = plan.json();
        assert_eq!(plan["faults"][0]["path"], "name", "{plan}");
    }
}

#[tokio::test]
async fn a_plan_makes_queues_after_those_that_they_name() {
    let grid = grid().await;
    let queue = |name: &str, to: Option<&str>, dead_letters_to: Option<&str>| {
        let properties =
            json!({ "forwardTo": to, "forwardDeadLetteredMessagesTo": dead_letters_to });
        json!({ "kind": "Queue", "name": name, "properties": properties })
    };
    let objects = json!([
        queue("a", Some("sb://everpost/E"), Some("d")),
        queue("b", Some("jobs"), Some("f")),
        queue("c", None, None),
        queue("d", Some("c"), Some("e")),
        queue("e", None, None),
        queue("f", Some("/queues/c"), Some("a")),
    ]);
    let path = "/everpost/configuration/plan";
    let plan = send(&grid, Method::POST, path, json!({ "objects": objects })).await;
    let plan = plan.json();
    let steps = plan["steps"].as_array().expect("steps").iter();
    let names: Vec<&str> = steps.filter_map(|step| step["name"].as_str()).collect();
    assert_eq!(names, ["c", "e", "d", "a", "f", "b"], "{plan}");
    for (step, name) in names.iter().enumerate() {
        let at = plan["steps"][step]["object"].as_u64().expect("a number");
        let object = usize::try_from(at).expect("small");
        let body = json!({ "properties": objects[object]["properties"] });
        put(&grid, &format!("/queues/{name}"), body).await;
    }
}

#[tokio::test]
async fn an_event_subscription_is_no_subscription_of_messages() {
    let grid = grid().await;
    let hook = "/topics/sales/eventSubscriptions/hook";
    let webhook = json!({ "properties": { "destination": {
        "endpointType": "WebHook",
        "properties": { "endpointUrl": "https://hook.test/", "skipValidation": true },
    } } });
    put(&grid, hook, webhook).await;
    let path = "/serviceBusTopics/sales/subscriptions/hook";
    let read = send(&grid, Method::GET, path, Value::Null).await;
    read.error(404, "ResourceNotFound");
    for method in [Method::PUT, Method::DELETE] {
        send(&grid, method, path, json!({}))
            .await
            .error(409, "Conflict");
    }
    let rule = format!("{path}/rules/all");
    let rule = send(&grid, Method::PUT, &rule, json!({})).await;
    rule.error(404, "ResourceNotFound");
    let there = send(&grid, Method::GET, hook, Value::Null).await;
    assert_eq!(there.status, StatusCode::OK, "{}", there.text);
}

/// What is audited of an entity names it as what it is, so that nobody but its file changes a provisioned one.
#[tokio::test]
async fn keys_and_tokens_are_audited_as_what_they_open() {
    let grid = grid().await;
    let by = Caller::command_line(grid.clock.now());
    for (_, name) in ENTITIES {
        let keys = format!("/topics/{name}/listKeys");
        let keys = send(&grid, Method::POST, &keys, Value::Null).await;
        assert_eq!(keys.status, StatusCode::OK, "{}", keys.text);
        let (name, key) = (named(name), everpost::model::access::KeyName::Key1);
        let token = grid
            .broker
            .create_sas_token(&by, &name, key, grid.clock.now());
        token.await.expect("a token");
    }
    let audit = send(&grid, Method::GET, "/everpost/audit?limit=6", Value::Null).await;
    let audit = audit.json();
    let entries = audit["value"].as_array().expect("a list").iter();
    let about =
        |each: &Value| format!("{} {}", each["targetKind"], each["target"]).replace('"', "");
    let mut about: Vec<String> = entries.map(about).collect();
    about.dedup();
    let expected = ["ServiceBusTopic sales", "Queue jobs", "Topic events"];
    assert_eq!(about, expected);
}

fn named(name: &str) -> TopicName {
    TopicName::of_service_bus(name).expect("a name")
}

/// Makes something else of the name `jobs` or `sales`.
async fn replace(broker: &Broker, by: &Caller, name: &TopicName) -> Result<bool, ManageError> {
    let definition = parse_topic(&body()).expect("a topic");
    let put = broker.put_topic(by, name.clone(), definition);
    put.await.map(|_| true)
}

/// While somebody holds the lock, three others come one after the other: who deletes the entity, who makes a topic of
/// events of its name, and who deletes it once more. The last one means what is not there any more.
#[tokio::test]
async fn the_kind_is_looked_at_when_it_is_the_callers_turn() {
    let grid = grid().await;
    let (broker, by) = (&grid.broker, &Caller::command_line(grid.clock.now()));
    for kind in [EntityKind::Queue, EntityKind::ServiceBusTopic] {
        let name = &named(match kind {
            EntityKind::Topic | EntityKind::Queue => "jobs",
            EntityKind::ServiceBusTopic => "sales",
        });
        let delete = || async move {
            match kind {
                EntityKind::Topic => broker.delete_topic(by, name, OnDelete::Discard).await,
                EntityKind::Queue => broker.delete_queue(by, name).await,
                EntityKind::ServiceBusTopic => broker.delete_service_bus_topic(by, name).await,
            }
        };
        let mut first = pin!(delete());
        let mut between = pin!(replace(broker, by, name));
        let mut last = pin!(delete());
        let held = |current: &everpost::model::registry::TopicEntry| {
            let context = &mut Context::from_waker(Waker::noop());
            assert!(first.as_mut().poll(context).is_pending());
            assert!(between.as_mut().poll(context).is_pending());
            assert!(last.as_mut().poll(context).is_pending());
            Ok::<_, ManageError>(current.topic.kind.clone())
        };
        let patched = broker.patch_topic(by, named("events"), held);
        patched.await.expect("patched");
        let (first, between, last) = tokio::join!(first, between, last);
        assert_eq!((first, between), (Ok(true), Ok(true)));
        let error = last.expect_err("it is a topic of events now");
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert!(broker.entity(EntityKind::Topic, name).is_ok());
    }
}

/// Whatever makes a queue or a Service Bus topic of a name that another kind has changes nothing of it.
#[tokio::test]
async fn creating_and_updating_fail_alike_for_a_name_of_another_kind() {
    let grid = grid().await;
    let (broker, by) = (&grid.broker, &Caller::command_line(grid.clock.now()));
    for put in [Put::Create, Put::Update, Put::CreateOrUpdate] {
        let queue = parse_queue(&json!({})).expect("a queue");
        let queue = broker.put_queue(by, named("sales"), queue, put).await;
        let queue = queue.map(drop).expect_err("a topic");
        let topic = parse_service_bus_topic(&json!({})).expect("a topic");
        let topic = broker.put_service_bus_topic(by, named("jobs"), topic, put);
        let topic = topic.await.map(drop).expect_err("a queue");
        for error in [queue, topic] {
            assert!(matches!(error, ManageError::OtherKind { .. }), "{error}");
        }
    }
}

#[tokio::test]
async fn an_address_leads_to_what_sends_and_what_receives() {
    let grid = grid().await;
    let resolve = |path: &str| {
        let address = EntityAddress::of_parts(path.split('/')).expect("an address");
        grid.broker.resolve(&address)
    };
    let to_dead_letters = || Err(MessagingError::from(NotAllowed::SendToDeadLetters));
    let to_subscription = || Err(MessagingError::from(NotAllowed::SendToSubscription));
    for (path, sends, receives) in [
        ("JOBS", Ok(()), Ok(())),
        ("jobs/$deadletterqueue", to_dead_letters(), Ok(())),
        ("jobs/$Transfer/$DeadLetterQueue", to_dead_letters(), Ok(())),
        ("sales", Ok(()), Err(MessagingError::IsTopic)),
        ("events", Ok(()), Err(MessagingError::IsTopic)),
        ("sales/subscriptions/ALL", to_subscription(), Ok(())),
        (
            "sales/Subscriptions/all/$DeadLetterQueue",
            to_dead_letters(),
            Ok(()),
        ),
        (
            "sales/Subscriptions/all/$Transfer/$DeadLetterQueue",
            to_dead_letters(),
            Ok(()),
        ),
    ] {
        let found = resolve(path)
            .map_err(|error| error.to_string())
            .expect(path);
        assert_eq!(found.sender().map(drop), sends, "{path}");
        assert_eq!(found.receiver().map(drop), receives, "{path}");
    }
    for (path, expected) in [
        ("none", "there is no queue or topic none"),
        ("sales/Subscriptions/none", "no event subscription none"),
        ("sales/$DeadLetterQueue", "those of its subscriptions"),
        (
            "sales/$Transfer/$DeadLetterQueue",
            "those of its subscriptions",
        ),
        ("a b", "a topic or queue"),
    ] {
        let error = resolve(path).map(drop).expect_err(path);
        let url = format!("'sb://everpost.test/{path}'");
        let MessagingError::EntityNotFound { .. } = &error else {
            panic!("{path}: {error}");
        };
        let text = error.to_string();
        assert!(
            text.contains(&url) && text.contains(expected),
            "{path}: {text}"
        );
    }
}

#[tokio::test]
async fn the_administration_api_shows_each_place_as_what_it_is() {
    let grid = grid().await;
    for (path, expected) in [
        ("jobs", 200),
        ("sales", 200),
        ("sales/Subscriptions/all", 200),
        ("sales/Subscriptions/all/Rules/$Default", 200),
        ("events", 404),
        ("jobs/Subscriptions/jobs", 404),
        ("sales/Subscriptions/none", 404),
        ("sales/Subscriptions/all/Rules/none", 404),
    ] {
        let path = format!("/{path}?api-version=2021-05");
        let answer = send(&grid, Method::GET, &path, Value::Null).await;
        assert_eq!(answer.status.as_u16(), expected, "{path}: {}", answer.text);
    }
}
