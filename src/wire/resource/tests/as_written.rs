//! What answers show of a definition: what was written, and no more.

use proptest::prelude::*;
use serde_json::Map;

use super::super::namespace::Namespace as NamespaceDocument;
use super::super::namespace_topic::NamespaceTopic;
use super::super::queue::QueueRequest;
use super::super::reader::property_of;
use super::super::service_bus::{
    RuleRequest, ServiceBusSubscriptionRequest, ServiceBusTopicRequest,
};
use super::super::topic::Topic as TopicDocument;
use super::mutations::{
    NAMESPACE, NAMESPACE_TOPIC, PULLED, PUSHED, SUBSCRIPTION, TOPIC, changed, changes,
};
use super::*;
use crate::model::name::RuleName;
use crate::model::namespace::{Namespace, NamespaceId};
use crate::model::queue::QueueCounts;
use crate::model::registry::NamespaceEntry;

/// Properties that answers have of every resource, as Azure's do.
const ANSWERED: [&str; 21] = [
    "eventRetentionInDays",
    "topic",
    "provisioningState",
    "everpost",
    "endpointBaseUrl",
    "eventDeliverySchema",
    "retryPolicy",
    "subjectBeginsWith",
    "subjectEndsWith",
    "isSubjectCaseSensitive",
    "publicNetworkAccess",
    "disableLocalAuth",
    "inputSchema",
    "endpoint",
    "metricResourceId",
    "topicsConfiguration",
    "deliveryMode",
    "eventTimeToLive",
    "maxDeliveryCount",
    "receiveLockDurationInSeconds",
    "publisherType",
];

/// What answers show in another way, or never: secrets, and URLs that may hold some.
const NOT_SHOWN: [&str; 9] = [
    "endpointUrl",
    "password",
    "token",
    "secret",
    "clientSecret",
    "secretAccessKey",
    "accountKey",
    "sasToken",
    "tokenUrl",
];

/// The schema of the property of an object that is written like this in some letter case.
fn property<'s>(schema: &'s Value, shown: &Map<String, Value>, name: &str) -> Option<&'s Value> {
    let branches = schema["oneOf"].as_array().into_iter().flatten();
    let all = std::iter::once(schema).chain(branches);
    let mut names = all.flat_map(|each| each["properties"].as_object().into_iter().flatten());
    let (name, _) = names.find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    property_of(schema, shown, name)
}

/// Finds what `shown` lacks of `written`, or has in another form. What says nothing may be missing, and what is not
/// known is passed over.
fn lacks(written: &Value, shown: &Value, schema: &Value, at: &str, found: &mut Vec<String>) {
    let is_typed = schema.get("properties").or(schema.get("oneOf")).is_some();
    match (written, shown) {
        (Value::Object(written), Value::Object(_) | Value::Null) if is_typed => {
            let nothing = Map::new();
            let shown_members = shown.as_object().unwrap_or(&nothing);
            let is_secret = written.get("isSecret") == Some(&json!(true));
            // As in Azure, what is partitioned has the size of all partitions, and no order.
            let is_partitioned = shown_members.get("enablePartitioning") == Some(&json!(true));
            let is_shown = |name: &str| {
                let is_hidden = NOT_SHOWN.iter().any(|each| each.eq_ignore_ascii_case(name));
                let is_of_all = ["maxSizeInMegabytes", "supportOrdering"].contains(&name);
                !(is_hidden || is_secret && name == "value" || is_partitioned && is_of_all)
            };
            for (name, value) in written.iter().filter(|(name, _)| is_shown(name)) {
                let same = shown_members
                    .iter()
                    .find(|(known, _)| known.eq_ignore_ascii_case(name));
                let inner = same.map_or(&Value::Null, |(_, value)| value);
                if let Some(schema) = property(schema, shown_members, name) {
                    lacks(value, inner, schema, &format!("{at}/{name}"), found);
                }
            }
        }
        (Value::Array(written), Value::Array(shown)) if written.len() == shown.len() => {
            for (index, (written, shown)) in written.iter().zip(shown).enumerate() {
                lacks(
                    written,
                    shown,
                    &schema["items"],
                    &format!("{at}/{index}"),
                    found,
                );
            }
        }
        (Value::String(written), Value::String(shown)) if written.eq_ignore_ascii_case(shown) => {}
        // Numbers and flags may be written as texts.
        (Value::String(written), Value::Number(_) | Value::Bool(_))
            if written.eq_ignore_ascii_case(&shown.to_string()) => {}
        (written, shown) => {
            let says_nothing = match written {
                Value::Null => true,
                Value::String(text) => text.is_empty(),
                Value::Array(list) => list.is_empty(),
                Value::Object(object) => object.is_empty(),
                Value::Bool(_) | Value::Number(_) => false,
            };
            if written != shown && !says_nothing {
                found.push(format!("{at}: {written}, not {shown}"));
            }
        }
    }
}

/// What a queue, a topic and a subscription of Service Bus have, as somebody may write it.
const QUEUE: &str = "{'properties': {'lockDuration': 'PT60S', 'maxDeliveryCount': 3,
    'defaultMessageTimeToLive': 'P1DT0H', 'deadLetteringOnMessageExpiration': true, 'requiresSession': false,
    'deadLetteringOnFilterEvaluationExceptions': false, 'requiresDuplicateDetection': true,
    'duplicateDetectionHistoryTimeWindow': 'PT90S', 'forwardTo': 'sb://h/Next', 'userMetadata': 'm',
    'forwardDeadLetteredMessagesTo': 'https://h/graves/', 'status': 'SendDisabled', 'autoDeleteOnIdle': 'PT3600S',
    'maxSizeInMegabytes': 2048, 'maxMessageSizeInKilobytes': 1024, 'enableBatchedOperations': true,
    'enableExpress': false, 'enablePartitioning': false, 'supportOrdering': true}}";

const RULES: [&str; 3] = [
    "{'properties': {'filterType': 'SqlFilter', 'sqlFilter': {'sqlExpression': 'a  = 1'},
        'action': {'sqlExpression': 'SET b = 2'}}}",
    "{'properties': {'filterType': 'CorrelationFilter', 'correlationFilter': {'correlationId': 'c', 'label': 'l',
        'properties': {'a': 'b', 'n': '1'}}}}",
    "{'properties': {'sqlFilter': {'sqlExpression': 'a = @p', 'parameters': {'@p': 'x'}}}}",
];

/// Finds what `shown` has that nobody wrote.
fn adds(written: &Value, shown: &Value, at: &str, found: &mut Vec<String>) {
    let Value::Object(shown) = shown else {
        return;
    };
    for (name, value) in shown {
        let own = written.as_object().and_then(|written| {
            let mut members = written.iter();
            members.find(|(known, _)| known.eq_ignore_ascii_case(name))
        });
        match own {
            _ if ANSWERED.contains(&name.as_str()) || NOT_SHOWN.contains(&name.as_str()) => {}
            Some((_, own)) => adds(own, value, &format!("{at}/{name}"), found),
            None if value.as_object().is_some_and(|inner| !inner.is_empty()) => {
                adds(&Value::Null, value, &format!("{at}/{name}"), found);
            }
            None => found.push(format!("{at}/{name}: {value}")),
        }
    }
}

/// A definition is shown as it was written, and so is what the store makes of it.
fn check<T: Clone + PartialEq + std::fmt::Debug>(
    body: &Value,
    schema: &Value,
    definition: &T,
    stored: &Result<T, InvalidResource>,
    show: impl Fn(T) -> Value,
) {
    let shown = show(definition.clone());
    assert_eq!(stored.as_ref(), Ok(definition));
    let (mut lacking, mut added) = (Vec::new(), Vec::new());
    let (written, shown) = (&body["properties"], &shown["properties"]);
    lacks(written, shown, schema, "", &mut lacking);
    adds(written, shown, "", &mut added);
    assert!(
        lacking.is_empty() && added.is_empty(),
        "{body}\nlacks {lacking:#?}\nadds {added:#?}"
    );
}

fn check_subscription(body: &Value, event_retention: Option<std::time::Duration>) {
    let input = match event_retention {
        None => InputSchema::EventGridSchema,
        Some(_) => InputSchema::CloudEventSchemaV1_0,
    };
    let context = SubscriptionContext {
        event_retention,
        ..context(&input)
    };
    if let Ok(definition) = parse_subscription(body, &context) {
        let stored = subscription_from_text(&subscription_to_text(&definition));
        let schema = subscription_schema(event_retention.is_some());
        check(body, schema, &definition, &stored, show);
    }
}

/// The schema of the `properties` of a document.
fn properties_of<T: schemars::JsonSchema + 'static>() -> &'static Value {
    &schema_of::<T>()["properties"]["properties"]
}

fn check_topic(body: &Value) {
    if let Ok(definition) = parse_topic(body) {
        let stored = topic_from_text(TopicId(1), definition.name(), &topic_to_text(&definition));
        check(
            body,
            properties_of::<TopicDocument>(),
            &definition,
            &stored,
            |definition| {
                render_topic(&entry(definition), "https://e.test/").expect("a topic of events")
            },
        );
    }
}

fn check_namespace_topic(body: &Value) {
    if let Ok(definition) = parse_namespace_topic(body) {
        let stored = topic_from_text(TopicId(1), definition.name(), &topic_to_text(&definition));
        check(
            body,
            properties_of::<NamespaceTopic>(),
            &definition,
            &stored,
            |definition| {
                render_topic(&entry(definition), "https://e.test/").expect("a topic of events")
            },
        );
    }
}

fn check_namespace(body: &Value) {
    let Ok(definition) = parse_namespace(body) else {
        return;
    };
    let stored = namespace_from_text(&namespace_to_text(&definition));
    let keys = || AccessKeys {
        key1: Secret::new("one"),
        key2: Secret::new("two"),
    };
    check(
        body,
        properties_of::<NamespaceDocument>(),
        &definition,
        &stored,
        |definition| {
            let namespace = Namespace {
                id: NamespaceId(1),
                name: crate::model::name::NamespaceName::parse("shop").expect("a name"),
                definition,
                keys: keys(),
                created_at: now(),
                updated_at: now(),
            };
            let entry = NamespaceEntry {
                namespace,
                resource_id: "/n".into(),
            };
            render_namespace(&entry, "shop.test")
        },
    );
}

/// A resource of Service Bus is shown with all that it has, and what was written as it was written.
fn check_messaging<T: schemars::JsonSchema + 'static>(body: &Value, shown: Option<Value>) {
    let shown = shown.expect("it is of Service Bus");
    let mut lacking = Vec::new();
    let (written, shown) = (&body["properties"], &shown["properties"]);
    lacks(written, shown, properties_of::<T>(), "", &mut lacking);
    assert!(lacking.is_empty(), "{body}\nlacks {lacking:#?}");
}

fn check_queue(body: &Value) {
    let Ok(definition) = parse_queue(body) else {
        return;
    };
    let kind = TopicKind::Queue(definition.sending);
    let stored = topic_from_text(TopicId(7), kind.name(), &topic_to_text(&kind));
    let entry = entry(stored.expect("a queue"));
    let own = subscription_to_text(&definition.subscription.subscription());
    let own = billing(subscription_from_text(&own).expect("its own subscription"));
    let shown = render_queue(&entry, &own, QueueCounts::default());
    check_messaging::<QueueRequest>(body, shown);
}

fn check_service_bus_topic(body: &Value) {
    let Ok(definition) = parse_service_bus_topic(body) else {
        return;
    };
    let kind = TopicKind::ServiceBus(definition);
    let stored = topic_from_text(TopicId(7), kind.name(), &topic_to_text(&kind));
    let shown = whole_entity(&entry(stored.expect("a topic")), "");
    check_messaging::<ServiceBusTopicRequest>(body, shown);
}

fn check_service_bus_subscription(body: &Value) {
    let Ok(definition) = parse_service_bus_subscription(body) else {
        return;
    };
    let text = subscription_to_text(&definition.subscription());
    let own = billing(subscription_from_text(&text).expect("a subscription"));
    let entry = entry(topic("{}"));
    let shown = render_service_bus_subscription(&entry, &own, QueueCounts::default());
    check_messaging::<ServiceBusSubscriptionRequest>(body, shown);
}

fn check_rule(body: &Value) {
    let name = RuleName::parse("r").expect("a name");
    let Ok(rule) = parse_rule(name.clone(), body) else {
        return;
    };
    let stored = rule_from_text(name, &rule_to_text(&rule)).expect("a rule");
    let own = billing(parse(&webhook("{}")).expect("a valid body"));
    let shown = render_rule(&entry(topic("{}")), &own, &stored);
    check_messaging::<RuleRequest>(body, Some(shown));
}

const WEEK: Option<std::time::Duration> = Some(std::time::Duration::from_secs(7 * 86_400));

#[test]
fn what_was_put_is_what_is_got() {
    let texts = "{'labels': [], 'filter': {'includedEventTypes': ['All'], 'enableAdvancedFilteringOnArrays': false},
        'retryPolicy': {'schedule': ['PT90S', 'P1D']}, 'expirationTimeUtc': '2030-01-01', 'paused': false}";
    for body in [subscription("{}"), subscription(texts), read(SUBSCRIPTION)] {
        check_subscription(&body, None);
    }
    let lives = PUSHED.replace("PT1H", "PT60M").replace("PT1M", "PT60S");
    for body in [PUSHED, PULLED, &lives] {
        check_subscription(&read(body), WEEK);
    }
    check_topic(&read(TOPIC));
    check_topic(&read("{'location': 'l', 'properties': {}}"));
    check_namespace(&read(NAMESPACE));
    check_namespace(&read("{'location': 'l', 'properties': {}}"));
    check_namespace_topic(&read(NAMESPACE_TOPIC));
    check_queue(&read(QUEUE));
    check_service_bus_topic(&read(QUEUE));
    check_service_bus_subscription(&read(QUEUE));
    for rule in RULES {
        check_rule(&read(rule));
    }
}

#[test]
fn the_url_is_the_one_that_was_written() {
    for url in [
        "https://shop.example",
        "https://Shop.example:443/a/../b?C=1",
    ] {
        let definition = parse(&webhook(&format!("{{'endpointUrl': '{url}'}}"))).expect(url);
        let full = json!(render_full_url(&definition).expect("a webhook"));
        assert_eq!(full["endpointUrl"], url);
        let base = &show(definition)["properties"]["destination"]["properties"]["endpointBaseUrl"];
        assert_eq!(*base, url.split('?').next().expect("a part"));
    }
}

#[test]
fn what_changes_by_itself_is_shown_as_it_is() {
    let mut paused = parse(&subscription("{'paused': false}")).expect("a valid body");
    paused.options.paused = true;
    assert_eq!(show(paused)["properties"]["paused"], true);
    let mut extended =
        parse(&subscription("{'retryPolicy': {'schedule': ['PT90S']}}")).expect("a valid body");
    extended.retry_policy.own_waits = vec![std::time::Duration::from_secs(120)];
    assert_eq!(
        show(extended)["properties"]["retryPolicy"]["schedule"],
        json!(["PT2M"])
    );
}

#[test]
fn a_patch_keeps_the_words_of_what_it_does_not_mention() {
    let current = parse(&subscription(
        "{'retryPolicy': {'schedule': ['PT90S']}, 'labels': ['a']}",
    ))
    .expect("a body");
    let patched = patch(
        &current,
        "{'labels': ['b'], 'expirationTimeUtc': '2030-01-01'}",
    )
    .expect("a patch");
    let shown = &show(patched)["properties"];
    assert_eq!(shown["retryPolicy"]["schedule"], json!(["PT90S"]));
    assert_eq!(shown["expirationTimeUtc"], "2030-01-01");
    assert_eq!(shown.get("disableOnGone"), None);
}

proptest! {
    #[test]
    fn whatever_is_put_is_what_is_got(changes in changes()) {
        check_subscription(&changed(SUBSCRIPTION, changes.clone()), None);
        check_subscription(&changed(PUSHED, changes.clone()), WEEK);
        check_subscription(&changed(PULLED, changes.clone()), WEEK);
        check_topic(&changed(TOPIC, changes.clone()));
        check_namespace(&changed(NAMESPACE, changes.clone()));
        check_namespace_topic(&changed(NAMESPACE_TOPIC, changes.clone()));
        let messaging = changed(QUEUE, changes.clone());
        check_queue(&messaging);
        check_service_bus_topic(&messaging);
        check_service_bus_subscription(&messaging);
        for rule in RULES {
            check_rule(&changed(rule, changes.clone()));
        }
    }
}
