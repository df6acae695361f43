//! A queue from its form to the messages that lie in it.

use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use super::Appliance;
use super::person::Shown;
use crate::admin::tests::person::Person;
use crate::broker::{BrokerOptions, Put, ReceiveRequest};
use crate::model::audit::{Actor, Caller};
use crate::model::lease::{Disposition, LockChange, LockOf, QueueRef};
use crate::model::name::{AccessRuleName, TopicName};
use crate::model::queue::ServiceBusTier;
use crate::model::session::SessionSelection;
use crate::model::shared_access::Rights;
use crate::model::subscription::EventSubscription;
use crate::store::LockSelection;
use crate::store::accounts::Role;
use crate::wire::resource::{parse_queue, parse_service_bus_topic};

const JOBS: &str = "/admin/queues/jobs";
const SEND: &str = "/admin/queues/jobs/send";

impl Appliance {
    async fn create_queue(&self, name: &str, properties: Value) {
        let by = &Caller::command_line(self.clock.now());
        let name = TopicName::custom(name).expect("a name");
        let definition = parse_queue(&json!({ "properties": properties })).expect("a queue");
        let put = self
            .broker
            .put_queue(by, name, definition, Put::Create)
            .await;
        put.expect("a queue");
    }

    /// Receives the next message of the queue `jobs`, and does that with its lock.
    async fn receive(&self, then: Option<Disposition>) {
        let name = TopicName::custom("jobs").expect("a name");
        let (_, subscription) = self.broker.queue(&name).expect("the queue");
        self.receive_from(&subscription, then).await;
    }

    /// Receives the next message of a queue, and does that with its lock.
    pub(super) async fn receive_from(
        &self,
        subscription: &EventSubscription,
        then: Option<Disposition>,
    ) {
        let of = QueueRef::pending(subscription.id);
        let request = ReceiveRequest {
            of,
            which: LockSelection::Due,
            limit: 1,
            lock: self.broker.lock_duration(subscription).expect("a queue"),
            session: None,
        };
        let locked = self.broker.receive(&request).await.expect("a message");
        let change = then.map(|disposition| LockChange {
            token: locked[0].token,
            of: LockOf::any_of(of),
            disposition,
            properties: Arc::default(),
        });
        let settled = self.broker.settle_locks(change.into_iter().collect(), None);
        settled.await.expect("settled");
    }
}

/// With a queue `jobs` that is `properties`.
async fn with_queue(properties: Value) -> (Appliance, Person) {
    let (appliance, ann) = Appliance::claimed().await;
    appliance.create_queue("jobs", properties).await;
    (appliance, ann)
}

impl Person {
    async fn send_message(&mut self, fields: &[(&str, &str)]) -> Shown {
        self.open(SEND).await;
        self.send(SEND, fields).await
    }
}

fn figure(key: &str, value: &str) -> String {
    format!(
        "data-figure=\"{key}\"><span class=\"label\">{}{}</span><span class=\"value\">{value}</span>",
        key[..1].to_uppercase(),
        &key[1..]
    )
}

#[tokio::test(start_paused = true)]
async fn a_queue_is_created_changed_and_deleted() {
    let (appliance, mut ann) = Appliance::claimed().await;
    let page = ann.open("/admin/queues").await;
    page.expect(&["No queues yet.", "/admin/new-queue"]);
    let form = ann.open("/admin/new-queue").await;
    form.expect(&["value=\"1 min\"", "value=\"10\"", "value=\"10 min\""]);
    let wrong = [
        ("name", "two words"),
        ("lockDuration", "PT4S"),
        ("maxDeliveryCount", "many"),
        ("defaultMessageTimeToLive", "soon"),
    ];
    let page = ann.send_filled("/admin/new-queue", &wrong).await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    for (field, _) in wrong {
        page.expect(&[&format!("<a href=\"#{field}\">")]);
    }
    ann.open("/admin/new-queue").await;
    let fields = [("name", "jobs"), ("requiresSession", "on")];
    let page = ann.send_filled("/admin/new-queue", &fields).await;
    page.expect(&[
        "Queue jobs has been created.",
        "Messages never expire",
        "No sessions here.",
    ]);
    assert_eq!(page.path, JOBS);
    ann.open("/admin/new-queue").await;
    let page = ann.send_filled("/admin/new-queue", &fields).await;
    page.expect(&["There is a queue or topic jobs already."]);

    appliance.create_queue("graves", json!({})).await;
    let edit = format!("{JOBS}/edit");
    let form = ann.open(&edit).await;
    form.expect(&["<option value=\"graves\">"]);
    for absent in [
        "requiresSession",
        "Remember message IDs",
        "<option value=\"jobs\">",
    ] {
        assert!(!form.body.contains(absent), "{absent}: {}", form.body);
    }
    let wrong = [("forwardDeadLetteredMessagesTo", "nobody")];
    let page = ann.send_filled(&edit, &wrong).await;
    page.expect(&[
        "<a href=\"#forwardDeadLetteredMessagesTo\">",
        "Nobody is no queue",
    ]);
    ann.open(&edit).await;
    let fields = [
        ("lockDuration", "PT30S"),
        ("defaultMessageTimeToLive", "P1D"),
        ("deadLetteringOnMessageExpiration", "on"),
        ("forwardDeadLetteredMessagesTo", "graves"),
    ];
    let page = ann.send_filled(&edit, &fields).await;
    let graves = "Forwarded to <a href=\"/admin/queues/graves\">graves</a>";
    page.expect(&[
        "Queue jobs has been changed.",
        "30 s",
        "then dead-lettered",
        graves,
        "Required",
    ]);

    let delete = format!("{JOBS}/delete");
    ann.open(&delete)
        .await
        .expect(&["Delete queue jobs?", "Its keys stop working for good"]);
    let page = ann.send(&delete, &[]).await;
    page.expect(&[
        "Queue jobs has been deleted.",
        "href=\"/admin/queues/graves\"",
    ]);
    assert_eq!(ann.open(JOBS).await.status, StatusCode::NOT_FOUND);
}

/// The form has no size of messages, so what was kept for the other tier is no fault of it.
#[tokio::test(start_paused = true)]
async fn what_has_a_size_of_another_tier_can_be_changed() {
    let large = json!({ "maxMessageSizeInKilobytes": 2_048 });
    let (appliance, mut ann) = with_queue(large.clone()).await;
    let by = &Caller::command_line(appliance.clock.now());
    let name = TopicName::custom("news").expect("a name");
    let topic = parse_service_bus_topic(&json!({ "properties": large })).expect("a topic");
    let put = appliance
        .broker
        .put_service_bus_topic(by, name, topic, Put::Create);
    put.await.expect("a topic");
    let options = BrokerOptions {
        service_bus_tier: ServiceBusTier::Standard,
        ..BrokerOptions::clone(&appliance.broker.options())
    };
    appliance.broker.set_options(options).expect("settings");
    for (edit, expected) in [
        ("/admin/queues/jobs/edit", "Queue jobs has been changed."),
        (
            "/admin/service-bus-topics/news/edit",
            "Topic news has been changed.",
        ),
    ] {
        ann.open(edit).await;
        let page = ann.send_filled(edit, &[("maxSizeInMegabytes", "5")]).await;
        page.expect(&[expected]);
    }
}

#[tokio::test(start_paused = true)]
async fn messages_are_sent_and_looked_at() {
    let (appliance, mut ann) = with_queue(json!({ "defaultMessageTimeToLive": "P1D" })).await;
    let fields = [
        ("body", "{\"total\":12.5,\"to\":\"Zo\u{eb}\"}"),
        ("contentType", "application/json"),
        ("subject", "invoice"),
        ("messageId", "m-1"),
        ("timeToLive", "PT10M"),
    ];
    let page = ann.send_message(&fields).await;
    page.expect(&[
        "Message m-1 has been accepted.",
        "invoice",
        "in 10 min",
        &figure("active", "1"),
    ]);
    for (body, id) in [("deferred", "m-2"), ("scheduled", "m-3"), ("last", "m-4")] {
        let at = if id == "m-3" { "2030-01-01T00:00" } else { "" };
        ann.send_message(&[("body", body), ("messageId", id), ("scheduledAt", at)])
            .await
            .expect(&["has been accepted."]);
    }
    appliance.receive(None).await;
    appliance.receive(Some(Disposition::Defer)).await;
    let page = ann.open(JOBS).await;
    for (key, count) in [
        ("active", "2"),
        ("locked", "1"),
        ("scheduled", "1"),
        ("deferred", "1"),
    ] {
        page.expect(&[&figure(key, count)]);
    }
    let list = ann.open("/admin/queues").await;
    list.expect(&["1 locked 1 scheduled 1 deferred", "1 of 1"]);
    for (number, state) in [
        (1, "Locked"),
        (2, "Deferred"),
        (3, "Scheduled"),
        (4, "Active"),
    ] {
        let page = ann.open(&format!("{JOBS}/messages/{number}")).await;
        page.expect(&[&format!("</svg>{state}</span>")]);
    }

    let first = format!("{JOBS}/messages/1");
    ann.open(&first)
        .await
        .expect(&["Zo\u{eb}", "1 of 10", "in 10 min", "Locked until"]);
    let hex = format!("{first}?as=hex");
    ann.open(&hex).await.expect(&["0000  7b 22 74 6f 74 61 6c"]);
    let file = ann.open(&format!("{first}/body")).await;
    assert_eq!(file.body, "{\"total\":12.5,\"to\":\"Zo\u{eb}\"}");
    assert_eq!(
        ann.open(&format!("{JOBS}/messages/9")).await.status,
        StatusCode::NOT_FOUND
    );

    let mut viewer = appliance.signed_in(Role::Viewer).await;
    let page = viewer.open(&first).await;
    page.expect(&["does not see what messages carry", "m-1", "invoice"]);
    let words = page.words();
    assert!(
        !words.contains("12.5") && !words.contains("Application"),
        "{words}"
    );
    for path in [
        format!("{first}/body"),
        SEND.to_owned(),
        format!("{JOBS}/edit"),
    ] {
        assert_eq!(
            viewer.open(&path).await.status,
            StatusCode::FORBIDDEN,
            "{path}"
        );
    }
    let page = viewer.open(JOBS).await;
    for absent in ["Send message", "Edit", "Delete", "Show keys"] {
        assert!(!page.body.contains(absent), "{absent}: {}", page.body);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_a_message_is_told_by_the_field() {
    let (_appliance, mut ann) = with_queue(json!({ "requiresSession": true })).await;
    let long = "x".repeat(129);
    let wrong = [
        ("contentType", "gr\u{fc}n"),
        ("messageId", &long),
        ("sessionId", ""),
        ("timeToLive", "P50D"),
        ("scheduledAt", "2020-01-01T00:00"),
        ("properties", "limit"),
    ];
    let page = ann.send_message(&wrong).await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    for (field, _) in wrong {
        page.expect(&[&format!("<a href=\"#{field}\">")]);
    }
    let body = "x".repeat(1_048_577);
    let page = ann
        .send_message(&[("body", &body), ("sessionId", "a")])
        .await;
    page.expect(&["<a href=\"#body\">", "it may have up to 1 MiB"]);
}

#[tokio::test(start_paused = true)]
async fn sessions_are_listed_and_choose_messages() {
    let (appliance, mut ann) = with_queue(json!({ "requiresSession": true })).await;
    for (id, session) in [("a-1", "order-1"), ("b-1", "order-2"), ("b-2", "order-2")] {
        let sent = ann
            .send_message(&[("messageId", id), ("sessionId", session)])
            .await;
        sent.expect(&["has been accepted."]);
    }
    let name = TopicName::custom("jobs").expect("a name");
    let (_, queue) = appliance.broker.queue(&name).expect("the queue");
    let next = SessionSelection::Named("order-2".to_owned());
    let held =
        appliance
            .broker
            .accept_session(&Actor::Appliance, &queue, &next, std::future::ready(()));
    held.await.expect("held");
    let page = ann.open(JOBS).await;
    page.expect(&[
        "order-1",
        "order-2 2",
        "in 1 min",
        "not held",
        "NEXT_AVAILABLE_SESSION",
    ]);
    let page = ann.open(&format!("{JOBS}?session=order-2")).await;
    page.expect(&["Session order-2", "b-1", "b-2", "All sessions"]);
    assert!(!page.body.contains("a-1"), "{}", page.body);
    let page = ann.open(&format!("{JOBS}?after=order-1")).await;
    page.expect(&["First", "order-2"]);
}

#[tokio::test(start_paused = true)]
async fn long_lists_go_on() {
    let (appliance, mut ann) = with_queue(json!({})).await;
    for number in 1..=21 {
        ann.send_message(&[("messageId", &format!("m-{number}"))])
            .await;
    }
    let page = ann.open(JOBS).await;
    page.expect(&["m-20", "href=\"/admin/queues/jobs?from=21#messages\""]);
    assert!(!page.body.contains("m-21"), "{}", page.body);
    let page = ann.open(&format!("{JOBS}?from=21")).await;
    page.expect(&["m-21", "href=\"/admin/queues/jobs#messages\">First</a>"]);
    assert!(!page.body.contains("rel=\"next\""), "{}", page.body);

    for number in 10..60 {
        appliance
            .create_queue(&format!("queue-{number}"), json!({}))
            .await;
    }
    let page = ann.open("/admin/queues").await;
    page.expect(&["50 of 51", "href=\"/admin/queues?before=queue-58*\""]);
    let page = ann.open("/admin/queues?before=queue-58").await;
    page.expect(&["1 of 51", "queue-59", "First"]);
    let page = ann.open("/admin/queues?text=QUEUE-1").await;
    page.expect(&["10 of 10", "/admin/export-queues?text=QUEUE-1"]);
    let file = ann.open("/admin/export-queues?text=QUEUE-1").await;
    let lines: Vec<Value> = file
        .body
        .lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect();
    assert_eq!((lines.len(), &lines[0]["name"]), (10, &json!("queue-10")));
    ann.open("/admin/queues?text=nobody")
        .await
        .expect(&["No queue matches this filter."]);

    for number in 10..60 {
        let name = AccessRuleName::parse(&format!("queue-{number}/app")).expect("a name");
        let by = &Caller::command_line(appliance.clock.now());
        let put = appliance
            .broker
            .put_access_rule(by, &name, Rights::USE.into());
        put.await.expect("a rule");
    }
    let page = ann.open("/admin/access-rules").await;
    page.expect(&["50 of 50", "queue-59"]);
    let page = ann.open("/admin/access-rules?text=QUEUE-1").await;
    page.expect(&["10 of 10"]);
    let page = ann.open("/admin/access-rules?before=queue-58%2Fapp").await;
    page.expect(&["1 of 50", "queue-59", "First"]);
    ann.open("/admin/access-rules?text=nobody")
        .await
        .expect(&["No access rule matches this filter."]);
}

#[tokio::test(start_paused = true)]
async fn the_connection_string_is_put_together_on_demand() {
    let (appliance, mut ann) = with_queue(json!({})).await;
    let name = TopicName::custom("jobs").expect("a name");
    let (topic, _) = appliance.broker.queue(&name).expect("the queue");
    let keys = topic.topic.keys.clone().expect("keys");
    let page = ann.open(JOBS).await;
    let text = page.body.replace("<wbr>", "");
    assert!(text.contains("Name=key1;SharedAccessKey=KEY;UseDevelopmentEmulator=true;"));
    assert!(
        !page.body.contains("data-copy=\"connection string\""),
        "{}",
        page.body
    );
    assert!(!page.body.contains(keys.key1.reveal()), "{}", page.body);
    let page = ann.send(&format!("{JOBS}/keys"), &[]).await;
    let expected = format!(
        "Endpoint=sb://127.0.0.1:8080;SharedAccessKeyName=key1;SharedAccessKey={};UseDevelopmentEmulator=true;",
        keys.key1.reveal()
    );
    page.expect(&["data-copy=\"connection string\""]);
    assert!(page.body.replace("<wbr>", "").contains(&expected));
    let regenerate = format!("{JOBS}/keys/key2/regenerate");
    ann.open(&regenerate).await;
    let page = ann.send(&regenerate, &[]).await;
    page.expect(&["key2 has been regenerated.", "SharedAccessKeyName=key2"]);
    assert!(!page.body.contains(keys.key2.reveal()), "{}", page.body);
}
