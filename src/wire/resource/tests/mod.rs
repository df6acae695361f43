//! Tables: what a client sends, and what it is then shown or told.
//!
//! A line is `what is sent => what comes of it`: either `/pointer = value` in the answer that shows the
//! resource, or `! target: a part of the problem`. JSON is written with single quotes.

mod as_written;
mod credentials;
mod destination;
mod filter;
mod mutations;
mod storage;
mod subscription;
mod topic;

use serde_json::{Value, json};

use super::*;
use crate::base::Timestamp;
use crate::model::access::{AccessKeys, Secret};
use crate::model::as_written::AsWritten;
use crate::model::name::{SubscriptionName, TopicName};
use crate::model::probation::Health;
use crate::model::registry::{ResourceScope, TopicEntry};
use crate::model::subscription::{
    EventSubscription, SubscriptionDefinition, SubscriptionId, Validation,
};
use crate::model::topic::{
    CustomTopic, InputSchema, ServiceBusNamespace, Topic, TopicId, TopicKind,
};

fn now() -> Timestamp {
    "2026-11-21T06:40:53Z".parse().expect("RFC 3339")
}

fn read(json: &str) -> Value {
    serde_json::from_str(&json.replace('\'', "\"")).expect(json)
}

/// `base` with the properties of `changes` set on it.
fn with(mut base: Value, changes: &str) -> Value {
    for (name, value) in read(changes).as_object().expect("an object") {
        base[name] = value.clone();
    }
    base
}

/// Runs `check` over the lines of a table; `#` starts a comment.
fn each_line(table: &str, check: impl Fn(&str, &str)) {
    let lines = table.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (sent, expected) = line.split_once(" => ").expect(line);
        check(sent.trim(), expected.trim());
    }
}

/// `expected` seen from the document instead of from the object at `path`.
fn inside(path: &str, expected: &str) -> String {
    match expected.strip_prefix("! ") {
        Some(rejected) => format!("! {path}.{rejected}"),
        None => format!("/{}{expected}", path.replace('.', "/")),
    }
}

fn check(what: &str, answer: Result<Value, InvalidResource>, expected: &str) {
    match (answer, expected.strip_prefix("! ")) {
        (Ok(answer), None) => {
            let (pointer, value) = expected.split_once(" = ").expect("/pointer = value");
            let found = answer.pointer(pointer).cloned().unwrap_or_default();
            assert_eq!(found, read(value), "{what}: {pointer} of {answer}");
        }
        (Err(invalid), Some(expected)) => {
            let (path, problem) = expected.split_once(": ").expect("! path: problem");
            let mut faults = invalid.faults.iter();
            let is_told = faults.any(|fault| fault.path == path && fault.problem.contains(problem));
            assert!(is_told, "{what}: expected {expected}, not {invalid:?}");
        }
        (answer, _) => panic!("{what}: expected {expected}, not {answer:?}"),
    }
}

fn topic(properties: &str) -> TopicKind {
    let body = format!("{{'location': 'local', 'properties': {properties}}}");
    parse_topic(&read(&body)).expect("a valid topic")
}

fn entry(kind: TopicKind) -> TopicEntry {
    let scope = ResourceScope {
        subscription: "s".to_owned(),
        resource_group: "g".to_owned(),
    };
    let name = TopicName::parse("Orders").expect("a name");
    let resource_id = scope.topic_id(&name).into();
    let topic = Topic {
        id: TopicId(7),
        service_bus_namespace: ServiceBusNamespace::DEFAULT,
        name,
        kind,
        keys: Some(AccessKeys {
            key1: Secret::new("one"),
            key2: Secret::new("two"),
        }),
        created_at: now(),
        updated_at: now(),
    };
    TopicEntry {
        resource_id,
        ..TopicEntry::without_subscriptions(topic)
    }
}

fn context(input_schema: &InputSchema) -> SubscriptionContext<'_> {
    SubscriptionContext {
        input_schema,
        event_retention: None,
        now: now(),
        replaces: None,
        require_https: true,
    }
}

fn parse(body: &Value) -> Result<SubscriptionDefinition, InvalidResource> {
    parse_subscription(body, &context(&InputSchema::EventGridSchema))
}

fn patch(
    current: &SubscriptionDefinition,
    body: &str,
) -> Result<SubscriptionDefinition, InvalidResource> {
    let context = context(&InputSchema::EventGridSchema);
    patch_subscription(current, &read(body), &context)
}

fn show(definition: SubscriptionDefinition) -> Value {
    show_validated(definition, Validation::succeeded(None))
}

fn show_validated(definition: SubscriptionDefinition, validation: Validation) -> Value {
    let subscription = EventSubscription {
        validation,
        ..billing(definition)
    };
    show_seen(&subscription, &Health::default())
}

/// A definition without the words in which it was written.
fn meant(definition: SubscriptionDefinition) -> SubscriptionDefinition {
    SubscriptionDefinition {
        as_written: AsWritten::default(),
        ..definition
    }
}

/// A topic without the words in which it was written.
fn meant_topic(kind: TopicKind) -> TopicKind {
    match kind {
        TopicKind::Custom(topic) => TopicKind::Custom(CustomTopic {
            as_written: AsWritten::default(),
            ..topic
        }),
        other @ (TopicKind::Namespace { .. }
        | TopicKind::System(_)
        | TopicKind::Queue(_)
        | TopicKind::ServiceBus(_)) => other,
    }
}

/// A subscription of this definition, whose destination has agreed.
fn billing(definition: SubscriptionDefinition) -> EventSubscription {
    EventSubscription {
        id: SubscriptionId(1),
        topic_id: TopicId(7),
        name: SubscriptionName::parse("billing").expect("a name"),
        definition,
        validation: Validation::succeeded(None),
        created_at: now(),
        updated_at: now(),
    }
}

fn show_seen(subscription: &EventSubscription, health: &Health) -> Value {
    let observed = Observed {
        health,
        outage: None,
        now: now(),
    };
    render_subscription(&entry(topic("{}")), subscription, observed)
}

/// The body of a PUT to a webhook, with `changes` to the webhook's properties.
fn webhook(changes: &str) -> Value {
    let mut body = read("{'properties': {'destination': {'endpointType': 'WebHook'}}}");
    let smallest = read("{'endpointUrl': 'https://shop.example/in'}");
    body["properties"]["destination"]["properties"] = with(smallest, changes);
    body
}

/// The smallest body of a PUT, with `changes` to its properties.
fn subscription(changes: &str) -> Value {
    let mut body = webhook("{}");
    body["properties"] = with(body["properties"].take(), changes);
    body
}

#[test]
fn errors_are_sentences_with_the_field_in_front() {
    let too_many = subscription("{'retryPolicy': {'maxDeliveryAttempts': 31}}");
    for (invalid, code, text) in [
        (
            parse(&too_many).map(drop),
            "InvalidRequest",
            "properties.retryPolicy.maxDeliveryAttempts: \
             it must be a whole number from 1 to 30, but it is 31.",
        ),
        (
            parse_topic(&read("{}")).map(drop),
            "LocationRequired",
            "location: it is missing; it must be the name of a region; any name will do.",
        ),
        (
            parse(&read("[]")).map(drop),
            "InvalidRequest",
            "the body must be an object, but it is a list.",
        ),
    ] {
        let invalid = invalid.expect_err(text);
        let found = invalid.to_string();
        assert_eq!((invalid.first().code(), found.as_str()), (code, text));
    }
}

#[test]
fn lists_come_in_one_page() {
    let list: bodies::ResourceList<_> = [read("1"), read("2")].into_iter().collect();
    let list = json!(list);
    assert_eq!(list, read("{'value': [1, 2], 'nextLink': null}"));
}
