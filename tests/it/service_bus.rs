//! Topics of Service Bus: what their subscriptions get by their rules (rule S7).

use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use everpost::broker::{
    MessageReceiver, MessagingError, MessagingTransaction, NewMessage, PublishError, ReceiveRequest,
};
use everpost::model::audit::Caller;
use everpost::model::dead_letter::{DeadLetterDetails, DeadLetterReason};
use everpost::model::lease::{Disposition, LockChange, LockError, LockOf, QueueRef};
use everpost::model::limits::{CHANGE_DELIVERIES_MAX, RULE_COPIES_MAX, RULES_PER_TOPIC_MAX};
use everpost::model::name::{SubscriptionName, TopicName};
use everpost::model::registry::TopicEntry;
use everpost::model::retention::RetentionRules;
use everpost::store::{LockSelection, Locked, Peeked};
use everpost::wire::amqp::Value as Amqp;
use everpost::wire::amqp::message::{Message, MessageProperties, encoded};
use everpost::wire::amqp::value::get;
use everpost::wire::service_bus::entity::EntityAddress;
use everpost::wire::service_bus::message::{of_event, to_event};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::grid::{Grid, SendResult};

const TOPIC: &str = "/serviceBusTopics/orders";

/// The topic `orders` with these subscriptions, without their first rules.
async fn orders(subscriptions: &[(&str, Value)]) -> Grid {
    let grid = Grid::new().await;
    put(&grid, "", json!({})).await;
    for (name, properties) in subscriptions {
        put(&grid, &format!("/subscriptions/{name}"), properties.clone()).await;
        let default = format!("{TOPIC}/subscriptions/{name}/rules/$Default");
        let deleted = grid.manage(Method::DELETE, &default, Value::Null).await;
        assert_eq!(deleted.status, StatusCode::NO_CONTENT, "{}", deleted.text);
    }
    grid
}

async fn try_put(grid: &Grid, path: &str, properties: Value) -> SendResult {
    let body = json!({ "properties": properties });
    grid.manage(Method::PUT, &format!("{TOPIC}{path}"), body)
        .await
}

async fn put(grid: &Grid, path: &str, properties: Value) {
    let answer = try_put(grid, path, properties).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text);
}

async fn rule(grid: &Grid, of: &str, name: &str, properties: Value) {
    put(
        grid,
        &format!("/subscriptions/{of}/rules/{name}"),
        properties,
    )
    .await;
}

fn sql(text: &str) -> Value {
    json!({ "sqlFilter": { "sqlExpression": text } })
}

fn message(subject: &str, total: i32, session: Option<&str>) -> NewMessage {
    let properties = MessageProperties {
        message_id: Some(subject.into()),
        subject: Some(subject.to_owned()),
        group_id: session.map(str::to_owned),
        ..MessageProperties::default()
    };
    let user = vec![("total".into(), Amqp::Int(total))];
    let message = Message::of(&properties, user, "body".into());
    NewMessage::from(to_event(message, || panic!("it has an id")).expect("an event"))
}

async fn try_send(grid: &Grid, messages: Vec<NewMessage>) -> Result<(), PublishError> {
    let name = TopicName::custom("orders").expect("a name");
    let topic = grid.broker.topic(&name).expect("the topic");
    grid.broker.send_messages(&topic, messages).await.map(drop)
}

async fn send(grid: &Grid, messages: Vec<NewMessage>) {
    try_send(grid, messages).await.expect("sent");
}

fn queue(grid: &Grid, of: &str) -> QueueRef {
    let topic = TopicName::custom("orders").expect("a name");
    let name = SubscriptionName::parse(of).expect("a name");
    let found = grid.broker.service_bus_subscription(&topic, &name);
    QueueRef::pending(found.expect("the subscription").1.id)
}

async fn peek(grid: &Grid, of: QueueRef) -> Vec<Peeked> {
    let peeked = grid.broker.peek(of, None, 0, 250).await;
    peeked.expect("peeked")
}

/// The subjects of what lies in a subscription.
async fn subjects(grid: &Grid, of: &str) -> Vec<String> {
    let peeked = peek(grid, queue(grid, of)).await.into_iter();
    let subject = |each: Peeked| each.event.event.subject.clone().unwrap_or_default();
    peeked.map(subject).collect()
}

#[tokio::test]
async fn a_new_subscription_gets_all_messages() {
    let grid = Grid::new().await;
    put(&grid, "", json!({})).await;
    put(&grid, "/subscriptions/all", json!({})).await;
    send(&grid, vec![message("a", 1, None), message("b", 2, None)]).await;
    assert_eq!(subjects(&grid, "all").await, ["a", "b"]);
    let shown = format!("{TOPIC}/subscriptions/all");
    let shown = grid.manage(Method::GET, &shown, Value::Null).await.json();
    assert_eq!(shown["properties"]["messageCount"], 2);
    let rules = format!("{TOPIC}/subscriptions/all/rules");
    let rules = grid.manage(Method::GET, &rules, Value::Null).await.json();
    assert_eq!(rules["value"][0]["name"], "$Default");
    assert_eq!(rules["value"][0]["properties"]["filterType"], "TrueFilter");
    grid.leave();
}

#[tokio::test]
async fn rules_choose_messages() {
    let grid = orders(&[
        ("large", json!({})),
        ("paid", json!({})),
        ("none", json!({})),
    ])
    .await;
    rule(&grid, "large", "total", sql("total > 100")).await;
    let label = json!({ "correlationFilter": { "label": "paid" } });
    rule(&grid, "paid", "label", label).await;
    let none = json!({ "filterType": "FalseFilter" });
    rule(&grid, "none", "none", none).await;
    send(
        &grid,
        vec![message("paid", 7, None), message("open", 700, None)],
    )
    .await;
    send(&grid, vec![message("lost", 7, None)]).await;
    assert_eq!(subjects(&grid, "large").await, ["open"]);
    assert_eq!(subjects(&grid, "paid").await, ["paid"]);
    assert!(subjects(&grid, "none").await.is_empty());
    // Rules count for what is sent from then on, and none of them gets nothing.
    rule(&grid, "large", "total", sql("total < 100")).await;
    let path = format!("{TOPIC}/subscriptions/paid/rules/label");
    grid.manage(Method::DELETE, &path, Value::Null).await;
    send(&grid, vec![message("paid", 8, None)]).await;
    assert_eq!(subjects(&grid, "large").await, ["open", "paid"]);
    assert_eq!(subjects(&grid, "paid").await, ["paid"]);
    grid.leave();
}

#[tokio::test]
async fn each_rule_with_an_action_makes_a_copy_of_its_own() {
    let grid = orders(&[("all", json!({})), ("other", json!({}))]).await;
    for name in ["one", "two", "three"] {
        rule(&grid, "all", name, sql("total > 0")).await;
    }
    for name in ["small", "smaller"] {
        let mut small = sql("total < 10");
        small["action"] =
            json!({ "sqlExpression": "SET total = total + 1; SET sys.Label = 'small'" });
        rule(&grid, "all", name, small).await;
    }
    rule(&grid, "other", "all", json!({})).await;
    send(&grid, vec![message("a", 7, None)]).await;
    let found = subjects(&grid, "all").await;
    assert_eq!(found, ["small", "small", "a"], "two changed, one as it is");
    assert_eq!(subjects(&grid, "other").await, ["a"]);
    let copies = peek(&grid, queue(&grid, "all")).await;
    let properties = copies.iter().map(|copy| {
        let message = of_event(&copy.event.event).expect("a message");
        assert_eq!(
            message.body(),
            &Message::of(&MessageProperties::default(), vec![], "body".into())
                .body()
                .clone()
        );
        message.application_properties().expect("properties")
    });
    let properties: Vec<_> = properties.collect();
    for (copy, rule, total) in [(0, Some("small"), 8), (1, Some("smaller"), 8), (2, None, 7)] {
        let name = get(&properties[copy], "RuleName").and_then(Amqp::as_text);
        assert_eq!(name, rule);
        assert_eq!(get(&properties[copy], "total"), Some(&Amqp::Int(total)));
    }
    grid.leave();
}

#[tokio::test]
async fn what_a_rule_cannot_be_evaluated_for_is_kept_where_that_is_asked_for() {
    let ignoring = json!({ "deadLetteringOnFilterEvaluationExceptions": false });
    let grid = orders(&[("keeping", json!({})), ("ignoring", ignoring)]).await;
    for of in ["keeping", "ignoring"] {
        rule(&grid, of, "odd", sql("total / 0 = 1")).await;
        rule(&grid, of, "all", json!({})).await;
    }
    send(&grid, vec![message("a", 7, None)]).await;
    for (of, dead_letters) in [("keeping", 1), ("ignoring", 0)] {
        assert_eq!(subjects(&grid, of).await, ["a"], "by the other rule");
        let dead = QueueRef::dead_letters(queue(&grid, of).subscription);
        let dead = peek(&grid, dead).await;
        assert_eq!(dead.len(), dead_letters, "{of}");
        for each in &dead {
            let dead = each.dead_letter.as_ref().expect("a dead letter");
            assert_eq!(dead.reason, DeadLetterReason::FilterEvaluationFailed);
            let problem = dead.details.description.as_deref();
            let expected = Some("The rule odd: a number was divided by zero.");
            assert_eq!(problem, expected);
        }
    }
    grid.leave();
}

#[tokio::test]
async fn what_a_rule_makes_too_large_is_a_dead_letter() {
    let grid = orders(&[("all", json!({}))]).await;
    let action = json!({ "filterType": "TrueFilter", "action": {
        "sqlExpression": "SET b = sys.To SET c = sys.To SET d = sys.To" } });
    rule(&grid, "all", "copies", action).await;
    for (to, live, dead_letters) in [(10_000, 1, 0), (20_000, 1, 1)] {
        let properties = MessageProperties {
            message_id: Some("m".into()),
            to: Some("x".repeat(to)),
            ..MessageProperties::default()
        };
        let sent = Message::of(&properties, Vec::new(), "body".into());
        let sent = NewMessage::from(to_event(sent, || panic!("it has an id")).expect("an event"));
        send(&grid, vec![sent]).await;
        assert_eq!(subjects(&grid, "all").await.len(), live);
        let dead = QueueRef::dead_letters(queue(&grid, "all").subscription);
        let dead = peek(&grid, dead).await;
        assert_eq!(dead.len(), dead_letters);
        for each in &dead {
            let dead = each.dead_letter.as_ref().expect("a dead letter");
            assert_eq!(dead.reason, DeadLetterReason::HeaderSizeExceeded);
        }
    }
    grid.leave();
}

#[tokio::test]
async fn subscriptions_have_sessions_of_their_own() {
    let sessions = json!({ "requiresSession": true });
    let grid = orders(&[
        ("first", sessions.clone()),
        ("second", sessions),
        ("plain", json!({})),
    ])
    .await;
    for of in ["first", "second", "plain"] {
        rule(&grid, of, "all", json!({})).await;
    }
    send(
        &grid,
        vec![message("a", 1, Some("s")), message("b", 2, None)],
    )
    .await;
    assert_eq!(subjects(&grid, "plain").await, ["a", "b"]);
    for of in ["first", "second"] {
        assert_eq!(subjects(&grid, of).await, ["a"]);
        let of = queue(&grid, of).subscription;
        let listed = grid.broker.sessions(of, None, 0, 10).await;
        assert_eq!(listed.expect("sessions"), ["s"]);
        let dead = peek(&grid, QueueRef::dead_letters(of)).await;
        let dead = dead[0].dead_letter.as_ref().expect("a dead letter");
        assert_eq!(dead.reason, DeadLetterReason::SessionIdMissing);
    }
    grid.leave();
}

#[tokio::test]
async fn a_subscription_forwards_to_a_queue() {
    let grid = Grid::new().await;
    let created = grid.manage(Method::PUT, "/queues/jobs", json!({})).await;
    assert_eq!(created.status, StatusCode::CREATED, "{}", created.text);
    put(&grid, "", json!({})).await;
    put(&grid, "/subscriptions/jobs", json!({ "forwardTo": "jobs" })).await;
    let properties = json!({ "forwardTo": "nobody" });
    let rejected = try_put(&grid, "/subscriptions/other", properties).await;
    assert_eq!(
        rejected.status,
        StatusCode::BAD_REQUEST,
        "{}",
        rejected.text
    );
    send(&grid, vec![message("a", 1, None)]).await;
    grid.broker.forward_all().await.expect("forwarded");
    assert!(subjects(&grid, "jobs").await.is_empty());
    let jobs = TopicName::custom("jobs").expect("a name");
    let jobs = grid.broker.queue(&jobs).expect("the queue").1.id;
    assert_eq!(peek(&grid, QueueRef::pending(jobs)).await.len(), 1);
    grid.leave();
}

#[tokio::test]
async fn messages_live_no_longer_than_their_topic_says() {
    let grid = Grid::new().await;
    put(&grid, "", json!({ "defaultMessageTimeToLive": "PT1M" })).await;
    let keeping = json!({ "deadLetteringOnMessageExpiration": true });
    put(&grid, "/subscriptions/all", keeping).await;
    send(&grid, vec![message("a", 1, None)]).await;
    grid.pass(std::time::Duration::from_secs(61));
    let of = queue(&grid, "all");
    let request = everpost::broker::ReceiveRequest {
        of,
        which: everpost::store::LockSelection::Due,
        limit: 1,
        lock: std::time::Duration::from_secs(60),
        session: None,
    };
    assert!(
        grid.broker
            .receive(&request)
            .await
            .expect("received")
            .is_empty()
    );
    let dead = peek(&grid, QueueRef::dead_letters(of.subscription)).await;
    let dead = dead[0].dead_letter.as_ref().expect("a dead letter");
    assert_eq!(dead.reason, DeadLetterReason::TimeToLiveExceeded);
}

#[tokio::test]
async fn names_are_of_one_kind_of_topic() {
    let grid = Grid::new().await;
    let event_topic = json!({ "location": "local", "properties": {} });
    for (first, other) in [
        ("/queues/jobs", "/serviceBusTopics/jobs"),
        ("/serviceBusTopics/orders", "/queues/orders"),
        ("/topics/events", "/serviceBusTopics/events"),
        ("/serviceBusTopics/bills", "/topics/bills"),
    ] {
        let created = grid.manage(Method::PUT, first, event_topic.clone()).await;
        assert_eq!(created.status, StatusCode::CREATED, "{}", created.text);
        let rejected = grid.manage(Method::PUT, other, event_topic.clone()).await;
        assert_eq!(rejected.status, StatusCode::CONFLICT, "{}", rejected.text);
    }
    let listed = grid
        .manage(Method::GET, "/topics", Value::Null)
        .await
        .json();
    let listed = listed["value"].as_array().expect("a list").iter();
    let names: Vec<_> = listed.map(|each| each["name"].clone()).collect();
    assert_eq!(names, ["dead-letter-storage", "events", "everpost-system"]);
    let listed = grid
        .manage(Method::GET, "/serviceBusTopics", Value::Null)
        .await;
    assert_eq!(listed.json()["value"].as_array().expect("a list").len(), 2);
    // Its subscriptions are no event subscriptions, and the other way round.
    put(&grid, "/subscriptions/orders", json!({})).await;
    let path = "/topics/orders/eventSubscriptions/orders";
    let rejected = grid.manage(Method::DELETE, path, Value::Null).await;
    assert_eq!(rejected.status, StatusCode::CONFLICT, "{}", rejected.text);
    assert!(
        grid.broker
            .queues()
            .iter()
            .all(|queue| queue.0.topic.name.as_str() == "jobs")
    );
}

#[tokio::test]
async fn there_are_so_many_rules_and_copies_and_no_more() {
    let grid = orders(&[("all", json!({}))]).await;
    let mut changing = json!({});
    changing["action"] = json!({ "sqlExpression": "SET a = 1" });
    for number in 0..RULES_PER_TOPIC_MAX {
        rule(&grid, "all", &format!("r{number}"), changing.clone()).await;
    }
    let more = try_put(&grid, "/subscriptions/all/rules/more", json!({})).await;
    assert_eq!(more.status, StatusCode::CONFLICT, "{}", more.text);
    let more = try_put(&grid, "/subscriptions/other", json!({})).await;
    assert_eq!(more.status, StatusCode::CONFLICT, "{}", more.text);
    let count = RULE_COPIES_MAX / RULES_PER_TOPIC_MAX + 1;
    let many = vec![message("a", 1, None); count];
    assert_eq!(
        try_send(&grid, many).await,
        Err(PublishError::TooManyCopies)
    );
    assert!(subjects(&grid, "all").await.is_empty());
    send(&grid, vec![message("a", 1, None)]).await;
    grid.broker.finish().await.expect("delivered");
    let of = QueueRef::pending(queue(&grid, "all").subscription);
    assert_eq!(
        peek(&grid, of).await.len(),
        250,
        "as many as are shown at once"
    );
    grid.leave();
}

#[tokio::test]
async fn all_that_a_transaction_sends_shares_the_bounds_of_one_change() {
    let grid = orders(&[("all", json!({}))]).await;
    let mut changing = json!({});
    changing["action"] = json!({ "sqlExpression": "SET a = 1" });
    for number in 0..46 {
        rule(&grid, "all", &format!("r{number}"), changing.clone()).await;
    }
    let address = EntityAddress::of_parts(["orders"]).expect("an address");
    let found = grid.broker.resolve(&address).expect("the topic");
    let sender = found.sender().expect("a sender");
    let commit = async |count: usize, bytes: usize| {
        let mut transaction = MessagingTransaction::default();
        for _ in 0..count {
            let body = vec![b'x'; bytes];
            let message = Message::of_data(&MessageProperties::default(), Vec::new(), body);
            let sent = transaction.send(&sender, vec![message], Vec::new());
            sent.await.expect("a message");
        }
        grid.broker.commit(transaction).await
    };
    let too_many = MessagingError::Publish(PublishError::TooManyCopies);
    assert_eq!(commit(100, 1).await, Err(too_many.clone()));
    assert_eq!(commit(10, 40_000).await, Err(too_many));
    assert_eq!(
        commit(17, 1_000_000).await,
        Err(MessagingError::TransactionTooLarge)
    );
    assert!(subjects(&grid, "all").await.is_empty());
    assert_eq!(commit(2, 1_000).await, Ok(()));
    assert_eq!(subjects(&grid, "all").await.len(), 2 * 46);
    grid.leave();
}

#[tokio::test]
async fn rules_take_so_much_memory_and_no_more() {
    let grid = orders(&[("all", json!({}))]).await;
    let mut long = sql(&format!("a={}1", "1+".repeat(510)));
    long["action"] = json!({ "sqlExpression": format!("SET a={}1", "1+".repeat(508)) });
    let mut last = 0;
    let full = loop {
        let path = format!("/subscriptions/all/rules/r{last}");
        let answer = try_put(&grid, &path, long.clone()).await;
        if answer.status != StatusCode::CREATED {
            break answer;
        }
        last += 1;
        assert!(last < 300, "each takes more than 64 KiB");
    };
    assert_eq!(full.status, StatusCode::CONFLICT, "{}", full.text);
    assert!(full.text.contains(&format!("r{last} ")), "{}", full.text);
    for shorter in ["r0", "r1"] {
        rule(&grid, "all", shorter, sql("a=1")).await;
    }
    rule(&grid, "all", &format!("r{last}"), long).await;
    grid.leave();
}

#[tokio::test]
async fn what_is_done_to_rules_is_audited() {
    let grid = orders(&[("all", json!({}))]).await;
    rule(&grid, "all", "large", sql("total > 1")).await;
    rule(&grid, "all", "LARGE", sql("total > 2")).await;
    let path = format!("{TOPIC}/subscriptions/all");
    grid.manage(Method::DELETE, &path, Value::Null).await;
    grid.manage(Method::DELETE, TOPIC, Value::Null).await;
    let audit = grid
        .manage(Method::GET, "/everpost/audit", Value::Null)
        .await;
    let audit = audit.json();
    let entries = audit["value"].as_array().expect("a list").iter();
    let told = entries.map(|each| {
        let text = |name: &str| each[name].as_str().unwrap_or_default().to_owned();
        format!(
            "{} {} {}",
            text("action"),
            text("targetKind"),
            text("target")
        )
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            "Delete ServiceBusTopic orders",
            "Delete ServiceBusSubscription orders/all",
            "Update Rule orders/all/large",
            "Create Rule orders/all/large",
            "Delete Rule orders/all/$Default",
            "Create ServiceBusSubscription orders/all",
            "Create ServiceBusTopic orders",
        ]
    );
}

/// How many dead letters, or events, a list has.
async fn listed(grid: &Grid, path: &str) -> usize {
    let list = grid.manage(Method::GET, path, Value::Null).await.json();
    list["value"].as_array().expect("a list").len()
}

#[tokio::test]
async fn dead_letters_of_a_deleted_subscription_go_with_it_and_by_their_age_from_the_disk() {
    let hour = Duration::from_secs(3_600);
    let rules = RetentionRules {
        delivered: hour,
        ..RetentionRules::default()
    };
    let (grid, _dir) = Grid::keeping(rules).await;
    put(&grid, "", json!({})).await;
    let expiring = json!({
        "defaultMessageTimeToLive": "PT1M",
        "deadLetteringOnMessageExpiration": true,
    });
    put(&grid, "/subscriptions/all", expiring).await;
    send(&grid, vec![message("a", 1, None), message("b", 2, None)]).await;
    grid.pass(Duration::from_secs(61));
    grid.broker.end_expired().await.expect("ended");
    let (dead_letters, events) = ("/everpost/deadLetters", "/everpost/events");
    assert_eq!(listed(&grid, dead_letters).await, 2);

    let path = format!("{TOPIC}/subscriptions/all");
    let deleted = grid.manage(Method::DELETE, &path, Value::Null).await;
    assert!(deleted.status.is_success(), "{}", deleted.text);
    assert_eq!(listed(&grid, dead_letters).await, 0, "at once");
    grid.broker.finish().await.expect("ended");
    let removed = format!("{events}?state=removed");
    assert_eq!(listed(&grid, &removed).await, 2);
    grid.broker.retain().await.expect("a round");
    assert_eq!(listed(&grid, events).await, 2, "they are kept for an hour");
    grid.pass(hour * 2);
    grid.broker.retain().await.expect("a round");
    assert_eq!(listed(&grid, events).await, 0);
    grid.leave();
}

#[tokio::test]
async fn a_message_that_waits_in_one_subscription_keeps_nothing_of_others() {
    let hour = Duration::from_secs(3_600);
    let rules = RetentionRules {
        delivered: hour,
        ..RetentionRules::default()
    };
    let (grid, _dir) = Grid::keeping(rules).await;
    put(&grid, "", json!({})).await;
    put(&grid, "/subscriptions/kept", json!({})).await;
    let short = json!({ "defaultMessageTimeToLive": "PT1S" });
    put(&grid, "/subscriptions/short", short).await;
    send(&grid, vec![message("a", 1, None)]).await;
    grid.pass(Duration::from_secs(2));
    grid.broker.end_expired().await.expect("ended");
    let deliveries = async || {
        let event = grid.manage(Method::GET, "/everpost/events/1", Value::Null);
        let event = event.await.json();
        event["deliveries"].as_array().map(Vec::len)
    };
    assert_eq!(deliveries().await, Some(2));
    grid.broker.retain().await.expect("a round");
    assert_eq!(deliveries().await, Some(2), "they are kept for an hour");
    grid.pass(hour * 2);
    grid.broker.retain().await.expect("a round");
    assert_eq!(deliveries().await, Some(1));
    let kept = peek(&grid, queue(&grid, "kept")).await;
    assert_eq!(kept.len(), 1);
    grid.leave();
}

/// The queue `jobs`.
async fn jobs(grid: &Grid, properties: Value) -> (Arc<TopicEntry>, QueueRef) {
    let body = json!({ "properties": properties });
    let created = grid.manage(Method::PUT, "/queues/jobs", body).await;
    assert_eq!(created.status, StatusCode::CREATED, "{}", created.text);
    let name = TopicName::custom("jobs").expect("a name");
    let (topic, queue) = grid.broker.queue(&name).expect("the queue");
    (topic, QueueRef::pending(queue.id))
}

#[tokio::test]
async fn a_full_queue_takes_no_more_from_receivers_than_reasons_of_dead_letters() {
    let grid = Grid::new().await;
    let (topic, of) = jobs(&grid, json!({ "maxSizeInMegabytes": 1 })).await;
    let messages = (0..20).map(|number: u32| message(&number.to_string(), 1, None));
    let sent = grid.broker.send_messages(&topic, messages.collect()).await;
    sent.expect("sent");
    let bytes = || grid.broker.queue_bytes(&topic.measured);
    let before = bytes();
    let request = ReceiveRequest {
        of,
        which: LockSelection::Due,
        limit: 20,
        lock: Duration::from_secs(60),
        session: None,
    };
    let locked = grid.broker.receive(&request).await.expect("received");
    let note: Arc<[u8]> = encoded(vec![("note".into(), "x".repeat(60_000).into())]).into();
    let changes = locked.iter().map(|each| LockChange {
        token: each.token,
        of: LockOf::any_of(of),
        disposition: Disposition::Abandon,
        properties: Arc::clone(&note),
    });
    let settled = grid.broker.settle_locks(changes.collect(), None).await;
    let settled = settled.expect("an answer");
    assert!(settled[..17].iter().all(Result::is_ok), "{settled:?}");
    assert_eq!(settled[17..], [Err(LockError::QuotaExceeded); 3]);
    assert_eq!(bytes() - before, 17 * note.len() as u64);

    let dead_letter = async |reason: usize| {
        let details = DeadLetterDetails {
            reason: Some("x".repeat(reason)),
            ..DeadLetterDetails::default()
        };
        let change = LockChange {
            token: locked[19].token,
            of: LockOf::default(),
            disposition: Disposition::DeadLetter(Arc::new(details)),
            properties: [].into(),
        };
        let settled = grid.broker.settle_locks(vec![change], None).await;
        settled.expect("an answer").remove(0).map(drop)
    };
    let full = dead_letter(40_000).await;
    assert_eq!(full, Err(LockError::QuotaExceeded));
    assert_eq!(dead_letter(1_000).await, Ok(()));
    assert_eq!(bytes() - before, 17 * note.len() as u64 + 1_000);
    grid.leave();
}

#[tokio::test]
async fn a_deferred_message_that_is_asked_for_twice_is_received_once() {
    let grid = Grid::new().await;
    let (topic, of) = jobs(&grid, json!({})).await;
    let sent = grid
        .broker
        .send_messages(&topic, vec![message("a", 1, None)]);
    let numbers = sent.await.expect("sent");
    let (_, queue) = grid.broker.queue(&topic.topic.name).expect("the queue");
    let receiver = MessageReceiver::of(&grid.broker, (topic, queue), of.queue);
    let by = Caller::command_line(grid.clock.now());
    let received = receiver.receive(1, None).await.expect("received");
    let defer = receiver.change(received[0].token, Disposition::Defer);
    assert_eq!(receiver.settle(&by, vec![defer]).await, [Ok(())]);
    let twice = [&numbers[..], &numbers[..]].concat();
    let locked = receiver.receive_deferred(&by, twice, None).await;
    let found = locked.expect("it is there");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].delivery.number, numbers[0]);
    let missing = vec![numbers[0] + 1; 2];
    let nothing = receiver.receive_deferred(&by, missing, None).await;
    assert!(matches!(nothing, Err(MessagingError::DeferredNotFound)));
    grid.leave();
}

#[tokio::test]
async fn many_deferred_messages_are_received_all_or_none() {
    let grid = Grid::new().await;
    let (topic, of) = jobs(&grid, json!({})).await;
    let (_, queue) = grid.broker.queue(&topic.topic.name).expect("the queue");
    let receiver = MessageReceiver::of(&grid.broker, (Arc::clone(&topic), queue), of.queue);
    let by = Caller::command_line(grid.clock.now());
    let count = CHANGE_DELIVERIES_MAX + 50;
    let messages = (0..count).map(|number| message(&number.to_string(), 1, None));
    let sent = grid.broker.send_messages(&topic, messages.collect()).await;
    let numbers = sent.expect("numbers");
    for some in [CHANGE_DELIVERIES_MAX, 50] {
        let received = receiver.receive(count, None).await.expect("received");
        assert_eq!(received.len(), some);
        let each = received.iter().map(|each| each.token);
        let defer = each.map(|token| receiver.change(token, Disposition::Defer));
        let deferred = receiver.settle(&by, defer.collect()).await;
        assert!(deferred.iter().all(Result::is_ok));
    }
    let one_more = [&numbers[..], &[numbers[0] + 1_000]].concat();
    let nothing = receiver.receive_deferred(&by, one_more, None).await;
    assert!(matches!(nothing, Err(MessagingError::DeferredNotFound)));
    let all = receiver.receive_deferred(&by, numbers.clone(), None).await;
    let received = all.expect("they are there");
    let order: Vec<_> = received.iter().map(|each| each.delivery.number).collect();
    assert_eq!(order, numbers);
    grid.leave();
}

#[tokio::test]
async fn a_batch_deletes_what_is_older_and_nothing_else() {
    let grid = Grid::new().await;
    let (topic, of) = jobs(&grid, json!({})).await;
    let (_, queue) = grid.broker.queue(&topic.topic.name).expect("the queue");
    let receiver = MessageReceiver::of(&grid.broker, (Arc::clone(&topic), queue), of.queue);
    let begun = grid.clock.now();
    let older = 2 * CHANGE_DELIVERIES_MAX + 10;
    for count in [older, 5] {
        let messages = (0..count).map(|number| message(&number.to_string(), 1, None));
        let sent = grid.broker.send_messages(&topic, messages.collect()).await;
        sent.expect("sent");
        grid.pass(Duration::from_secs(10));
    }
    let by = Caller::command_line(grid.clock.now());
    let delete = async |count, before| {
        let deleted = receiver.delete_batch(&by, count, before, None).await;
        deleted.expect("an answer")
    };
    let between = begun + Duration::from_secs(5);
    assert_eq!(delete(4_000, begun).await, 0);
    assert_eq!(
        delete(CHANGE_DELIVERIES_MAX + 5, between).await,
        CHANGE_DELIVERIES_MAX + 5
    );
    assert_eq!(delete(4_000, between).await, CHANGE_DELIVERIES_MAX + 5);
    assert_eq!(delete(4_000, between).await, 0);
    let left = peek(&grid, of).await;
    assert!(left.iter().all(|each| each.locked_until.is_none()));
    assert_eq!(left.len(), 5);
    grid.leave();
}

#[tokio::test]
async fn a_queue_forwards_to_a_topic_whose_rules_see_what_receivers_have_set() {
    let grid = orders(&[
        ("red", json!({})),
        ("dead", json!({})),
        ("steps", json!({})),
    ])
    .await;
    rule(&grid, "red", "red", sql("color = 'red'")).await;
    rule(&grid, "dead", "dead", sql("DeadLetterReason = 'no'")).await;
    let action = json!({ "sqlExpression": "SET color = 'blue'" });
    let mut blue = sql("color = 'red'");
    blue["action"] = action;
    rule(&grid, "steps", "blue", blue).await;
    put(
        &grid,
        "/subscriptions/lost",
        json!({ "requiresSession": true }),
    )
    .await;
    let (topic, of) = jobs(&grid, json!({ "forwardDeadLetteredMessagesTo": "orders" })).await;
    let sent = grid
        .broker
        .send_messages(&topic, vec![message("a", 1, None)]);
    sent.await.expect("sent");
    let request = ReceiveRequest {
        of,
        which: LockSelection::Due,
        limit: 1,
        lock: Duration::from_secs(60),
        session: None,
    };
    let locked = grid.broker.receive(&request).await.expect("received");
    let details = DeadLetterDetails {
        reason: Some("no".to_owned()),
        ..DeadLetterDetails::default()
    };
    let change = LockChange {
        token: locked[0].token,
        of: LockOf::any_of(of),
        disposition: Disposition::DeadLetter(Arc::new(details)),
        properties: encoded(vec![("color".into(), "red".into())]).into(),
    };
    let settled = grid.broker.settle_locks(vec![change], None).await;
    assert!(settled.expect("an answer")[0].is_ok());
    grid.broker.forward_all().await.expect("forwarded");
    for (name, color) in [("red", "red"), ("dead", "red"), ("steps", "blue")] {
        let found = peek(&grid, queue(&grid, name)).await;
        let [copy] = &found[..] else {
            panic!("one message in {name}: {found:?}");
        };
        assert_eq!(copy.origin.dead_letter_source.as_deref(), Some("jobs"));
        let sent = of_event(&copy.event.event).expect("a message");
        let properties = sent.application_properties().expect("properties");
        assert_eq!(get(&properties, "color"), Some(&color.into()), "{name}");
    }
    let lost = queue(&grid, "lost").subscription;
    let lost = peek(&grid, QueueRef::dead_letters(lost)).await;
    let reason = lost[0].dead_letter.as_ref().expect("a dead letter").reason;
    assert_eq!(reason, DeadLetterReason::SessionIdMissing);
    let left = QueueRef::dead_letters(of.subscription);
    assert!(peek(&grid, left).await.is_empty());
    grid.leave();
}

#[tokio::test]
async fn messages_go_in_circles_four_times() {
    let grid = Grid::new().await;
    put(&grid, "", json!({})).await;
    jobs(&grid, json!({ "forwardTo": "orders" })).await;
    put(&grid, "/subscriptions/back", json!({ "forwardTo": "jobs" })).await;
    send(&grid, vec![message("a", 1, None)]).await;
    for _ in 0..5 {
        grid.broker.forward_all().await.expect("forwarded");
    }
    let back = QueueRef::dead_letters(queue(&grid, "back").subscription);
    let dead = peek(&grid, back).await;
    let reason = dead[0].dead_letter.as_ref().expect("a dead letter").reason;
    assert_eq!(reason, DeadLetterReason::MaxTransferHopCountExceeded);
    grid.leave();
}

#[tokio::test]
async fn what_would_go_on_to_a_disabled_entity_is_a_dead_letter_of_its_source() {
    let grid = Grid::new().await;
    put(&grid, "", json!({})).await;
    jobs(&grid, json!({})).await;
    put(&grid, "/subscriptions/on", json!({ "forwardTo": "jobs" })).await;
    let on = queue(&grid, "on");
    for (status, goes_on) in [
        ("Disabled", false),
        ("SendDisabled", false),
        ("ReceiveDisabled", true),
    ] {
        jobs(&grid, json!({ "status": status })).await;
        let before = peek(&grid, QueueRef::dead_letters(on.subscription)).await;
        send(&grid, vec![message(status, 1, None)]).await;
        grid.broker.forward_all().await.expect("forwarded");
        assert!(peek(&grid, on).await.is_empty(), "{status}");
        let dead = peek(&grid, QueueRef::dead_letters(on.subscription)).await;
        let ended = dead[before.len()..].iter();
        let reasons: Vec<_> = ended
            .filter_map(|each| Some(each.dead_letter.as_ref()?.reason))
            .collect();
        let expected = (!goes_on).then_some(DeadLetterReason::ForwardTargetDisabled);
        assert_eq!(reasons, Vec::from_iter(expected), "{status}");
    }
    grid.leave();
}

#[tokio::test]
async fn what_is_larger_than_its_target_takes_is_a_dead_letter_of_its_source() {
    let grid = Grid::new().await;
    put(&grid, "", json!({})).await;
    let (_, of) = jobs(&grid, json!({ "maxMessageSizeInKilobytes": 256 })).await;
    put(&grid, "/subscriptions/on", json!({ "forwardTo": "jobs" })).await;
    let of_bytes = |bytes: usize| {
        let body = "x".repeat(bytes);
        let message = Message::of(
            &MessageProperties::default(),
            Vec::new(),
            body.as_str().into(),
        );
        NewMessage::from(to_event(message, || bytes.to_string()).expect("an event"))
    };
    send(&grid, vec![of_bytes(400_000), of_bytes(256 * 1_024)]).await;
    grid.broker.forward_all().await.expect("forwarded");
    let on = queue(&grid, "on").subscription;
    let dead = peek(&grid, QueueRef::dead_letters(on)).await;
    let reasons: Vec<_> = dead
        .iter()
        .filter_map(|each| Some(each.dead_letter.as_ref()?.reason))
        .collect();
    assert_eq!(reasons, [DeadLetterReason::MessageSizeExceeded]);
    assert_eq!(peek(&grid, of).await.len(), 1);
    grid.leave();
}

#[tokio::test]
async fn whatever_goes_in_circles_ends_after_some_hops_and_keeps_its_session() {
    let grid = Grid::new().await;
    put(&grid, "", json!({})).await;
    let with_sessions = json!({ "forwardTo": "orders", "requiresSession": true });
    let (topic, of) = jobs(&grid, with_sessions).await;
    let back = json!({ "forwardTo": "jobs", "requiresSession": true });
    put(&grid, "/subscriptions/back", back).await;
    let kept = json!({ "requiresSession": true });
    put(&grid, "/subscriptions/kept", kept).await;
    let sent = vec![message("a", 1, Some("s"))];
    let sent = grid.broker.send_messages(&topic, sent).await;
    sent.expect("sent");
    for _ in 0..5 {
        grid.broker.forward_all().await.expect("forwarded");
    }
    // Twice from the queue, to which the other subscription sends back.
    let kept = peek(&grid, queue(&grid, "kept")).await;
    assert_eq!(kept.len(), 2);
    for each in kept {
        let sent = of_event(&each.event.event).expect("a message");
        let session = sent.properties().expect("properties").group_id;
        assert_eq!(session.as_deref(), Some("s"));
    }
    let ended = peek(&grid, QueueRef::dead_letters(of.subscription)).await;
    let reason = ended[0].dead_letter.as_ref().expect("a dead letter").reason;
    assert_eq!(reason, DeadLetterReason::MaxTransferHopCountExceeded);
    grid.leave();
}

#[tokio::test]
async fn a_topic_may_forward_to_itself_and_a_message_becomes_so_many_copies() {
    let grid = Grid::new().await;
    put(&grid, "", json!({})).await;
    for n in 0..101 {
        let to_itself = json!({ "forwardTo": "ORDERS" });
        put(&grid, &format!("/subscriptions/s{n}"), to_itself).await;
    }
    let properties = json!({ "properties": { "forwardDeadLetteredMessagesTo": "Jobs" } });
    let queue_to_itself = grid.manage(Method::PUT, "/queues/jobs", properties).await;
    assert_eq!(queue_to_itself.status, StatusCode::CREATED, "as in Azure");
    send(&grid, vec![message("a", 1, None)]).await;
    for _ in 0..5 {
        grid.broker.forward_all().await.expect("forwarded");
    }
    // 101 copies would become as many again each.
    let ended = peek(
        &grid,
        QueueRef::dead_letters(queue(&grid, "s0").subscription),
    )
    .await;
    let reason = ended[0].dead_letter.as_ref().expect("a dead letter").reason;
    assert_eq!(reason, DeadLetterReason::MaxTransferHopCountExceeded);
    grid.leave();
}

/// Adds a queue or a topic of this path.
async fn add(grid: &Grid, path: &str, properties: Value) {
    let body = json!({ "properties": properties });
    let made = grid.manage(Method::PUT, path, body).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
}

#[tokio::test]
async fn one_message_becomes_so_many_copies_in_a_circle_of_topics() {
    let grid = Grid::new().await;
    put(&grid, "", json!({})).await;
    add(&grid, "/serviceBusTopics/others", json!({})).await;
    for n in 0..101 {
        let to_others = json!({ "forwardTo": "others" });
        put(&grid, &format!("/subscriptions/s{n}"), to_others).await;
    }
    let back = "/serviceBusTopics/others/subscriptions/back";
    add(&grid, back, json!({ "forwardTo": "orders" })).await;
    send(&grid, vec![message("a", 1, None)]).await;
    for _ in 0..3 {
        grid.broker.forward_all().await.expect("forwarded");
    }
    let others = TopicName::custom("others").expect("a name");
    let back = SubscriptionName::parse("back").expect("a name");
    let back = grid.broker.service_bus_subscription(&others, &back);
    let back = back.expect("the subscription").1.id;
    // 101 copies would become as many again each.
    let ended = peek(&grid, QueueRef::dead_letters(back)).await;
    assert_eq!(ended.len(), 101);
    let reason = ended[0].dead_letter.as_ref().expect("a dead letter").reason;
    assert_eq!(reason, DeadLetterReason::MaxTransferHopCountExceeded);
    grid.leave();
}

#[tokio::test]
async fn a_topic_with_many_subscriptions_has_one_turn_to_forward() {
    let grid = Grid::new().await;
    for path in ["/queues/many", "/queues/few"] {
        add(&grid, path, json!({})).await;
    }
    put(&grid, "", json!({})).await;
    for n in 0..10 {
        let to_many = json!({ "forwardTo": "many" });
        put(&grid, &format!("/subscriptions/s{n}"), to_many).await;
    }
    let (topic, _) = jobs(&grid, json!({ "forwardTo": "few" })).await;
    let messages = || (0..150).map(|n| message(&n.to_string(), 1, None)).collect();
    send(&grid, messages()).await;
    let sent = grid.broker.send_messages(&topic, messages()).await;
    sent.expect("sent");
    grid.broker.forward_all().await.expect("forwarded");
    let lying = async |name: &str| {
        let name = TopicName::custom(name).expect("a name");
        let (_, queue) = grid.broker.queue(&name).expect("the queue");
        peek(&grid, QueueRef::pending(queue.id)).await
    };
    let (few, many) = (lying("few").await, lying("many").await);
    assert_eq!((few.len(), many.len()), (150, 250));
    let before = stored_before_the_last(&few, &many);
    assert!(before <= 200, "{before} of those of the topic came before");
    grid.leave();
}

/// Returns how many of these messages were stored before the last of `those`.
fn stored_before_the_last(those: &[Peeked], of: &[Peeked]) -> usize {
    let last = those.iter().map(|each| each.event.key).max();
    let is_before = |each: &&Peeked| Some(each.event.key) < last;
    of.iter().filter(is_before).count()
}

/// A topic `orders` with a subscription that gets all, and with one whose rules match nothing. Each of these rules takes
/// 30,000 steps for a [`costly`] message.
async fn with_costly_rules(count: usize) -> Grid {
    let grid = orders(&[("costly", json!({}))]).await;
    put(&grid, "/subscriptions/all", json!({})).await;
    for n in 0..count {
        rule(&grid, "costly", &format!("r{n}"), sql("a LIKE '%y%x'")).await;
    }
    grid
}

fn costly(id: &str) -> NewMessage {
    let properties = MessageProperties {
        message_id: Some(id.into()),
        subject: Some(id.to_owned()),
        ..MessageProperties::default()
    };
    let user = vec![("a".into(), "y".repeat(30_000).as_str().into())];
    let message = Message::of(&properties, user, "body".into());
    NewMessage::from(to_event(message, || panic!("it has an id")).expect("an event"))
}

#[tokio::test]
async fn a_turn_to_forward_ends_after_so_many_steps_of_rules() {
    let grid = with_costly_rules(20).await;
    add(&grid, "/queues/few", json!({})).await;
    add(&grid, "/queues/slow", json!({ "forwardTo": "orders" })).await;
    let (topic, _) = jobs(&grid, json!({ "forwardTo": "few" })).await;
    let few = TopicName::custom("few").expect("a name");
    let (_, few) = grid.broker.queue(&few).expect("the queue");
    let slow = TopicName::custom("slow").expect("a name");
    let (slow, _) = grid.broker.queue(&slow).expect("the queue");
    let costly = (0..12).map(|n| costly(&n.to_string())).collect();
    let sent = grid.broker.send_messages(&slow, costly).await;
    sent.expect("sent");
    let cheap = (0..150).map(|n| message(&n.to_string(), 1, None)).collect();
    let sent = grid.broker.send_messages(&topic, cheap).await;
    sent.expect("sent");
    grid.broker.forward_all().await.expect("forwarded");
    let few = peek(&grid, QueueRef::pending(few.id)).await;
    let all = peek(&grid, queue(&grid, "all")).await;
    assert_eq!((few.len(), all.len()), (150, 12));
    // Two turns, of two messages each.
    let before = stored_before_the_last(&few, &all);
    assert!(before <= 6, "{before} of the costly ones came before");
    grid.leave();
}

#[tokio::test]
async fn what_is_forwarded_waits_behind_none_that_are_sent_to_its_topic() {
    let grid = with_costly_rules(10).await;
    let (topic, _) = jobs(&grid, json!({ "forwardTo": "orders" })).await;
    let sent = grid.broker.send_messages(&topic, vec![costly("on")]).await;
    sent.expect("sent");
    let many = 20 * available_parallelism().expect("a number").get();
    let sends = (0..many).map(|n| try_send(&grid, vec![costly(&n.to_string())]));
    let (sent, forwarded) = tokio::join!(join_all(sends), grid.broker.forward_all());
    assert!(sent.iter().all(Result::is_ok), "{sent:?}");
    forwarded.expect("forwarded");
    let first = subjects(&grid, "all").await;
    let before = first.iter().position(|subject| subject == "on");
    assert!(before.is_some_and(|before| before < many / 2), "{before:?}");
    grid.leave();
}

#[tokio::test]
async fn a_topic_remembers_messages_whatever_its_rules_make_of_them() {
    let grid = Grid::new().await;
    let remembers = json!({
        "requiresDuplicateDetection": true, "duplicateDetectionHistoryTimeWindow": "PT30S",
    });
    put(&grid, "", remembers).await;
    put(&grid, "/subscriptions/all", json!({})).await;
    put(&grid, "/subscriptions/odd", json!({})).await;
    rule(&grid, "odd", "$Default", sql("total / 0 = 1")).await;
    let mut second = sql("1=1");
    second["action"] = json!({ "sqlExpression": "SET sys.MessageId = 'other'" });
    rule(&grid, "all", "second", second).await;
    let messages = || {
        vec![
            message("a", 1, None),
            message("a", 2, None),
            message("b", 3, None),
        ]
    };
    let count = async |name: &str| {
        let of = queue(&grid, name).subscription;
        let counts = grid
            .store
            .views
            .message_counts(vec![of], grid.clock.now(), 9)
            .await;
        let counts = counts.expect("counts").remove(0).told(0);
        (counts.active, counts.dead_letters)
    };
    send(&grid, messages()).await;
    send(&grid, messages()).await;
    assert_eq!(
        subjects(&grid, "all").await,
        ["a", "a", "b", "b"],
        "two copies of each"
    );
    assert_eq!((count("all").await, count("odd").await), ((4, 0), (0, 2)));
    grid.pass(Duration::from_secs(31));
    send(&grid, messages()).await;
    assert_eq!((count("all").await, count("odd").await), ((8, 0), (0, 4)));
    let fixed = try_put(&grid, "", json!({})).await;
    assert_eq!(fixed.status, StatusCode::BAD_REQUEST, "{}", fixed.text);
    grid.leave();
}

#[tokio::test]
async fn what_is_scheduled_in_a_topic_has_one_number() {
    let grid = Grid::new().await;
    put(&grid, "", json!({})).await;
    let at = Some(grid.clock.now() + Duration::from_secs(60));
    let scheduled = |subject: &str| message(subject, 1, None).scheduled(at);
    let name = TopicName::custom("orders").expect("a name");
    let topic = || grid.broker.topic(&name).expect("the topic");
    let send = async |subjects: &[&str]| {
        let messages = subjects.iter().map(|subject| scheduled(subject)).collect();
        grid.broker
            .send_messages(&topic(), messages)
            .await
            .expect("numbers")
    };
    let for_nobody = send(&["z"]).await;
    put(&grid, "/subscriptions/one", json!({})).await;
    put(&grid, "/subscriptions/two", json!({})).await;
    put(&grid, "/subscriptions/odd", json!({})).await;
    rule(&grid, "odd", "$Default", sql("total / 0 = 1")).await;
    let numbers = send(&["a", "b"]).await;
    assert_eq!((for_nobody.len(), numbers.len()), (1, 2));
    let one = peek(&grid, queue(&grid, "one")).await;
    assert_eq!(one[1].origin.first_number, Some(numbers[1]));
    let cancel_all = async |numbers: &[i64]| {
        let cancelled = grid
            .broker
            .cancel_scheduled(&topic(), numbers.to_vec())
            .await;
        cancelled.expect("an answer")
    };
    let cancel = async |number| cancel_all(&[number]).await;
    assert!(!cancel(for_nobody[0]).await);
    assert!(!cancel_all(&[numbers[0], for_nobody[0]]).await);
    for name in ["one", "two"] {
        assert_eq!(subjects(&grid, name).await, ["a", "b"], "all or none");
    }
    assert!(cancel(numbers[0]).await);
    assert!(!cancel(numbers[0]).await, "no more");
    for name in ["one", "two"] {
        assert_eq!(subjects(&grid, name).await, ["b"]);
    }
    grid.pass(Duration::from_secs(61));
    assert!(!cancel(numbers[1]).await, "it has arrived");
    grid.leave();
}

#[tokio::test]
async fn many_scheduled_messages_are_cancelled_all_or_none() {
    let grid = Grid::new().await;
    let (topic, of) = jobs(&grid, json!({})).await;
    let at = Some(grid.clock.now() + Duration::from_secs(60));
    let scheduled = |number: usize| message(&number.to_string(), 1, None).scheduled(at);
    let messages = (0..CHANGE_DELIVERIES_MAX + 10).map(scheduled);
    let sent = grid.broker.send_messages(&topic, messages.collect()).await;
    let numbers = sent.expect("numbers");
    let cancel = async |numbers: Vec<i64>| {
        let cancelled = grid.broker.cancel_scheduled(&topic, numbers).await;
        cancelled.expect("an answer")
    };
    assert!(cancel(numbers[CHANGE_DELIVERIES_MAX + 9..].to_vec()).await);
    assert!(!cancel(numbers.clone()).await, "the last one is gone");
    let left = peek(&grid, of).await;
    assert_eq!(left.len(), CHANGE_DELIVERIES_MAX + 9);
    assert!(cancel(numbers[..CHANGE_DELIVERIES_MAX + 9].to_vec()).await);
    assert!(peek(&grid, of).await.is_empty());
    grid.leave();
}

#[tokio::test]
async fn what_was_locked_for_too_long_takes_its_old_place() {
    let grid = Grid::new().await;
    put(&grid, "", json!({})).await;
    put(
        &grid,
        "/subscriptions/all",
        json!({ "maxDeliveryCount": 2 }),
    )
    .await;
    let of = queue(&grid, "all");
    let receive = async |of: QueueRef, limit| {
        let request = ReceiveRequest {
            of,
            which: LockSelection::Due,
            limit,
            lock: Duration::from_secs(60),
            session: None,
        };
        let locked = grid.broker.receive(&request).await.expect("received");
        let subject = |each: &Locked| each.event.event.subject.clone().expect("a subject");
        let attempts = |each: &Locked| each.delivery.attempts;
        let told = locked.iter().map(|each| (subject(each), attempts(each)));
        told.collect::<Vec<_>>()
    };
    for subject in ["a", "b", "c"] {
        send(&grid, vec![message(subject, 1, None)]).await;
        grid.pass(Duration::from_secs(1));
    }
    let told = |subject: &str, attempts| (subject.to_owned(), attempts);
    assert_eq!(receive(of, 1).await, [told("a", 0)]);
    grid.pass(Duration::from_secs(60));
    let expected = [told("a", 1), told("b", 0)];
    assert_eq!(
        receive(of, 2).await,
        expected,
        "ahead of what was sent later"
    );
    grid.pass(Duration::from_secs(60));
    assert_eq!(
        receive(of, 9).await,
        [told("b", 1), told("c", 0)],
        "a had two"
    );
    grid.pass(Duration::from_secs(60));
    assert_eq!(receive(of, 9).await, [told("c", 1)]);
    let dead = QueueRef::dead_letters(of.subscription);
    assert_eq!(receive(dead, 1).await, [told("a", 2)]);
    grid.pass(Duration::from_secs(61));
    assert_eq!(receive(of, 9).await, []);
    assert_eq!(receive(dead, 1).await, [told("a", 2)], "ahead of b and c");
    grid.leave();
}

/// Returns how many messages a queue is said to have.
async fn active(grid: &Grid, path: &str) -> Value {
    let shown = grid.manage(Method::GET, path, Value::Null).await.json();
    shown["properties"]["countDetails"]["activeMessageCount"].clone()
}

#[tokio::test]
async fn a_batch_is_seen_whole_as_soon_as_it_is_accepted() {
    let grid = Grid::in_bites_of(4).await;
    put(&grid, "", json!({})).await;
    for name in ["one", "two"] {
        put(&grid, &format!("/subscriptions/{name}"), json!({})).await;
    }
    let (topic, jobs) = jobs(&grid, json!({})).await;
    let hook = json!({"properties": {"destination": {"endpointType": "WebHook", "properties": {
        "endpointUrl": "http://audit.test/hook", "skipValidation": true}}}});
    let path = "/topics/jobs/eventSubscriptions/audit";
    let created = grid.manage(Method::PUT, path, hook).await;
    assert_eq!(created.status, StatusCode::CREATED, "{}", created.text);
    let topic = grid.broker.topic(&topic.topic.name).expect("the queue");
    let batch = || -> Vec<_> {
        let subjects = 0..10;
        subjects
            .map(|each| message(&each.to_string(), 1, None))
            .collect()
    };
    for times in 1..=2 {
        send(&grid, batch()).await;
        let sent = grid.broker.send_messages(&topic, batch()).await;
        sent.expect("sent");
        for of in [queue(&grid, "one"), queue(&grid, "two"), jobs] {
            assert_eq!(peek(&grid, of).await.len(), times * 10);
        }
        assert_eq!(active(&grid, "/queues/jobs").await, times * 10);
        let one = format!("{TOPIC}/subscriptions/one");
        assert_eq!(active(&grid, &one).await, times * 10);
    }
    let created = grid.store.ledger.fan_out(topic.topic.id, 99).await;
    let created = created.expect("deliveries").targets.len();
    assert_eq!(created, 20, "the webhook gets them later");
    grid.leave();
}

#[tokio::test]
async fn messages_that_have_outlived_their_time_leave_without_a_receiver() {
    let grid = Grid::new().await;
    let keeping = json!({
        "deadLetteringOnMessageExpiration": true, "defaultMessageTimeToLive": "PT2M"
    });
    let (topic, jobs) = jobs(&grid, keeping).await;
    let receive = async |subject: &str| {
        let request = ReceiveRequest {
            of: jobs,
            which: LockSelection::Due,
            limit: 1,
            lock: Duration::from_secs(300),
            session: None,
        };
        let locked = grid.broker.receive(&request).await.expect("received");
        assert_eq!(locked[0].event.event.subject.as_deref(), Some(subject));
        locked[0].token
    };
    let short = |subject: &str| {
        let sent = message(subject, 1, None);
        let encoded = of_event(sent.event()).expect("a message");
        let encoded = encoded.with_ttl(Duration::from_secs(10));
        let event = to_event(encoded, || panic!("it has an id")).expect("an event");
        NewMessage::from(event)
    };
    let send = async |messages: Vec<NewMessage>| {
        let sent = grid.broker.send_messages(&topic, messages).await;
        sent.expect("sent");
    };
    let left = async |of| {
        let peeked = peek(&grid, of).await.into_iter();
        let subjects = peeked.map(|each| each.event.event.subject.clone().expect("a subject"));
        subjects.collect::<Vec<_>>()
    };
    send(vec![short("locked")]).await;
    receive("locked").await;
    send(vec![short("deferred")]).await;
    let defer = LockChange {
        token: receive("deferred").await,
        of: LockOf::any_of(jobs),
        disposition: Disposition::Defer,
        properties: [].into(),
    };
    let deferred = grid.broker.settle_locks(vec![defer], None).await;
    assert!(deferred.expect("an answer")[0].is_ok());
    let later = short("later").scheduled(Some(grid.clock.now() + Duration::from_secs(60)));
    send(vec![message("long", 1, None), short("short"), later]).await;
    let dead = QueueRef::dead_letters(jobs.subscription);
    let all = |subjects: &[&str]| -> Vec<String> {
        subjects.iter().map(|each| (*each).to_owned()).collect()
    };
    for (seconds, stays, gone) in [
        (
            9,
            all(&["locked", "deferred", "long", "short", "later"]),
            all(&[]),
        ),
        (
            1,
            all(&["locked", "deferred", "long", "later"]),
            all(&["short"]),
        ),
        (
            59,
            all(&["locked", "deferred", "long", "later"]),
            all(&["short"]),
        ),
        (
            1,
            all(&["locked", "deferred", "long"]),
            all(&["short", "later"]),
        ),
        (
            50,
            all(&["locked", "deferred"]),
            all(&["long", "short", "later"]),
        ),
    ] {
        grid.pass(Duration::from_secs(seconds));
        grid.broker.end_expired().await.expect("ended");
        assert_eq!(left(jobs).await, stays);
        let mut dead_now = left(dead).await;
        dead_now.sort();
        let mut expected = gone;
        expected.sort();
        assert_eq!(dead_now, expected);
    }
    assert_eq!(active(&grid, "/queues/jobs").await, 2);
    grid.leave();
}
