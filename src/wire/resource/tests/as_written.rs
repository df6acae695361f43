//! What answers show of a definition: what was written, and no more.

use proptest::prelude::*;

use super::mutations::{
    NAMESPACE, NAMESPACE_TOPIC, PULLED, PUSHED, SUBSCRIPTION, TOPIC, changed, changes,
};
use super::*;
use crate::model::namespace::{Namespace, NamespaceId};
use crate::model::registry::NamespaceEntry;

/// Properties that answers have of every resource, as Azure's do.
const ANSWERED: [&str; 20] = [
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

/// Finds what `shown` lacks of `written`, or has in another form. What says nothing may be missing.
fn lacks(written: &Value, shown: &Value, at: &str, found: &mut Vec<String>) {
    match (written, shown) {
        (Value::Object(written), Value::Object(shown)) => {
            let is_shown =
                |name: &str| !NOT_SHOWN.iter().any(|each| each.eq_ignore_ascii_case(name));
            for (name, value) in written.iter().filter(|(name, _)| is_shown(name)) {
                let same = shown
                    .iter()
                    .find(|(known, _)| known.eq_ignore_ascii_case(name));
                let shown = same.map_or(&Value::Null, |(_, value)| value);
                lacks(value, shown, &format!("{at}/{name}"), found);
            }
        }
        (Value::Array(written), Value::Array(shown)) if written.len() == shown.len() => {
            for (index, (written, shown)) in written.iter().zip(shown).enumerate() {
                lacks(written, shown, &format!("{at}/{index}"), found);
            }
        }
        (Value::String(written), Value::String(shown)) if written.eq_ignore_ascii_case(shown) => {}
        (written, shown) => {
            let says_nothing = match written {
                Value::Null => true,
                Value::String(text) => text.is_empty(),
                Value::Array(list) => list.is_empty(),
                Value::Object(object) => {
                    object.is_empty() || shown.is_null() && object.values().all(Value::is_null)
                }
                Value::Bool(_) | Value::Number(_) => false,
            };
            if written != shown && !says_nothing {
                found.push(format!("{at}: {written}, not {shown}"));
            }
        }
    }
}

/// Finds what `shown` has that nobody wrote.
fn adds(written: &Value, shown: &Value, at: &str, found: &mut Vec<String>) {
    let Value::Object(shown) = shown else {
        return;
    };
    for (name, value) in shown {
        let own = written.as_object().and_then(|written| {
            let mut written = written.iter();
            written.find(|(known, _)| known.eq_ignore_ascii_case(name))
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
    definition: &T,
    stored: Result<T, InvalidResource>,
    show: impl Fn(T) -> Value,
) {
    let shown = show(definition.clone());
    assert_eq!(stored.as_ref(), Ok(definition));
    let (mut lacking, mut added) = (Vec::new(), Vec::new());
    lacks(&body["properties"], &shown["properties"], "", &mut lacking);
    adds(&body["properties"], &shown["properties"], "", &mut added);
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
        check(body, &definition, stored, show);
    }
}

fn check_topic(body: &Value) {
    if let Ok(definition) = parse_topic(body) {
        let stored = topic_from_text(TopicId(1), definition.name(), &topic_to_text(&definition));
        check(body, &definition, stored, |definition| {
            render_topic(&entry(definition), "https://e.test/").expect("a topic of events")
        });
    }
}

fn check_namespace_topic(body: &Value) {
    if let Ok(definition) = parse_namespace_topic(body) {
        let stored = topic_from_text(TopicId(1), definition.name(), &topic_to_text(&definition));
        check(body, &definition, stored, |definition| {
            render_topic(&entry(definition), "https://e.test/").expect("a topic of events")
        });
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
    check(body, &definition, stored, |definition| {
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
    });
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
    let paused = SubscriptionDefinition {
        paused: true,
        ..parse(&subscription("{'paused': false}")).expect("a valid body")
    };
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
        check_namespace_topic(&changed(NAMESPACE_TOPIC, changes));
    }
}
