//! Whole documents with a change or two anywhere: nothing that a client writes ends in a panic, every fault
//! is found by the schema and its rules before serde sees it, and what is accepted can be stored.

use std::time::Duration;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;
use crate::model::registry::Registry;

pub(super) const TOPIC: &str = "{'location': 'l', 'tags': {'a': 'b'}, 'identity': {'type': 'None'}, 'sku': {'name': 'x'},
    'properties': {'inputSchema': 'CustomEventSchema', 'disableLocalAuth': true,
      'publicNetworkAccess': 'Disabled', 'inboundIpRules': [{'ipMask': '192.0.2.1', 'action': 'Allow'}],
      'minimumTlsVersionAllowed': '1.1', 'dataResidencyBoundary': 'WithinRegion',
      'eventTypeInfo': {'kind': 'x'}, 'inputSchemaMapping': {'inputSchemaMappingType': 'Json', 'properties': {
        'id': {'sourceField': 'orderNo'}, 'topic': {'sourceField': 'shop'}, 'eventTime': {'sourceField': 'at'},
        'eventType': {'sourceField': 'kind', 'defaultValue': 'Order'}, 'subject': {'sourceField': 'path'},
        'dataVersion': {'defaultValue': '1.0'}}}}}";

pub(super) const NAMESPACE: &str =
    "{'location': 'l', 'tags': {'a': 'b'}, 'identity': {'type': 'None'},
    'sku': {'name': 'Standard', 'capacity': 4}, 'properties': {'publicNetworkAccess': 'Enabled',
      'inboundIpRules': [{'ipMask': '10.0.0.0/8'}], 'minimumTlsVersionAllowed': '1.1',
      'isZoneRedundant': true, 'topicSpacesConfiguration': {'state': 'Disabled'}}}";

pub(super) const NAMESPACE_TOPIC: &str = "{'properties': {'publisherType': 'Custom',
    'inputSchema': 'CloudEventSchemaV1_0', 'eventRetentionInDays': 3}}";

pub(super) const SUBSCRIPTION: &str = "{'properties': {
    'destination': {'endpointType': 'WebHook', 'properties': {
      'endpointUrl': 'https://shop.example/hooks/eg?k=abc', 'maxEventsPerBatch': 20,
      'preferredBatchSizeInKilobytes': 128, 'splitBatchOnError': true, 'skipValidation': true, 'responseDeadlineInSeconds': 5,
      'maxRequestsInFlight': 3, 'maxRequestsPerSecond': 2.5, 'minimumTlsVersionAllowed': '1.2',
      'authentication': {'type': 'Basic', 'username': 'ada', 'password': 'p'},
      'signingSecrets': [{'secret': 'whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'}],
      'deliveryAttributeMappings': [
        {'name': 'X-Tenant', 'type': 'Static', 'properties': {'value': 'north', 'isSecret': true}},
        {'name': 'X-Order', 'type': 'Dynamic', 'properties': {'sourceField': 'data.orderId'}}]}},
    'eventDeliverySchema': 'EventGridSchema',
    'filter': {'includedEventTypes': ['Order.Paid'], 'subjectBeginsWith': '/orders/',
      'isSubjectCaseSensitive': false, 'enableAdvancedFilteringOnArrays': true,
      'advancedFilters': [
        {'operatorType': 'NumberGreaterThan', 'key': 'data.total', 'value': 100},
        {'operatorType': 'StringNotIn', 'key': 'data.country', 'values': ['XX', 'YY']}]},
    'retryPolicy': {'maxDeliveryAttempts': 10, 'eventTimeToLiveInMinutes': 240, 'schedule': ['PT1S']},
    'labels': ['billing'], 'paused': true, 'disabled': false, 'disableOnGone': true,
    'expirationTimeUtc': '2030-01-01T00:00:00Z',
    'deadLetterDestination': {'endpointType': 'StorageBlob', 'properties': {'resourceId': '/local/store',
      'blobContainerName': 'dead', 'storage': {'type': 'S3', 'endpointUrl': 'https://s3.test/a',
        'region': 'r', 'accessKeyId': 'k', 'secretAccessKey': 's'}}}}}";

pub(super) const PUSHED: &str = "{'properties': {'deliveryConfiguration': {'deliveryMode': 'Push', 'push': {
      'maxDeliveryCount': 4, 'eventTimeToLive': 'PT1H', 'schedule': ['PT1S', 'PT1M'],
      'destination': {'endpointType': 'WebHook', 'properties': {'endpointUrl': 'https://a.test/x?y',
        'authentication': {'type': 'ClientCredentials', 'tokenUrl': 'https://t.test/', 'clientId': 'c',
          'clientSecret': 's', 'scope': 'x', 'audience': 'y', 'sentIn': 'Body'}}},
      'deadLetterDestinationWithResourceIdentity': {'deadLetterDestination': {'endpointType': 'StorageBlob',
          'properties': {'blobContainerName': 'dead', 'storage': {'type': 'AzureBlob',
            'endpointUrl': 'https://s.test/', 'accountName': 'n', 'accountKey': 'QUJD'}}}}}},
    'filtersConfiguration': {'includedEventTypes': ['A'],
      'filters': [{'operatorType': 'StringIn', 'key': 'subject', 'values': ['/orders/7']}]},
    'expirationTimeUtc': '2027-01-01T00:00:00Z', 'labels': ['a'], 'paused': true, 'disableOnGone': true,
    'eventDeliverySchema': 'CloudEventSchemaV1_0'}}";

pub(super) const PULLED: &str =
    "{'properties': {'deliveryConfiguration': {'deliveryMode': 'Queue', 'queue': {
      'maxDeliveryCount': 4, 'eventTimeToLive': 'PT1H', 'receiveLockDurationInSeconds': 60,
      'deadLetterDestinationWithResourceIdentity': null}},
    'filtersConfiguration': {'filters': [
      {'operatorType': 'NumberInRange', 'key': 'k', 'values': [[1, 2]]}]}}}";

const ALERT_RULE: &str = "{'type': 'DeadLetters', 'count': 5, 'minutes': 10, 'enabled': true}";

const EMAIL: &str =
    "{'type': 'Email', 'host': 'smtp.test', 'port': 465, 'security': 'Tls', 'username': 'u',
    'password': 'p', 'from': 'a@b.test', 'to': ['c@d.test', 'e@f.test']}";

const CHAT: &str =
    "{'type': 'WebHook', 'format': 'Slack', 'endpointUrl': 'https://a.test/x', 'token': 't'}";

const INSPECTOR: &str =
    "{'answers': '503 200', 'delayInMilliseconds': 10, 'retryAfterInSeconds': 3,
    'responseHeaders': {'x-a': 'b'}, 'responseBody': 'n', 'perEvent': true}";

const ROTATION: &str =
    "{'secret': 'whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA', 'gracePeriod': 'PT1H'}";

const REPLAY: &str =
    "{'source': {'kind': 'DeadLetters', 'filter': {'topic': 'a', 'subscription': 'b',
      'reason': 'r', 'outcome': 'Busy', 'status': 503, 'type': 't', 'subject': 's', 'text': 'x',
      'from': '2026-01-01T00:00:00Z', 'to': '2026-02-01T00:00:00Z'}},
    'target': {'kind': 'Url', 'url': 'https://a.test/'}, 'eventsPerSecond': 2.5}";

const NAMESPACE_RETENTION: Option<Duration> = Some(Duration::from_secs(86_400));

/// A change of a document.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Put(Index, Value),
    Remove(Index),
    Add(Index, String, Value),
}

pub(super) fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        (any::<Index>(), any_value()).prop_map(|(place, value)| Change::Put(place, value)),
        any::<Index>().prop_map(Change::Remove),
        (any::<Index>(), any_name(), any_value())
            .prop_map(|(place, name, value)| Change::Add(place, name, value)),
    ];
    vec(change, 1..3)
}

fn any_name() -> impl Strategy<Value = String> {
    let known = [
        "endpointUrl",
        "destination",
        "filter",
        "name",
        "type",
        "properties",
        "labels",
        "value",
        "values",
        "password",
        "token",
        "username",
        "ENDPOINTURL",
        "secret",
        "fingerprint",
        "storage",
        "sasToken",
        "accountKey",
        "push",
        "queue",
        "deliveryMode",
        "operator",
        "key",
        "pausd",
        "inputSchema",
        "sourceField",
        "isSecret",
        "certificateAuthorities",
        "resourceId",
        "endpointType",
        "region",
        "schedule",
        "url",
        "topic",
        "kind",
    ];
    prop_oneof![3 => select(known.to_vec()).prop_map(str::to_owned), 1 => "\\PC{0,9}"]
}

fn any_value() -> impl Strategy<Value = Value> {
    let words = [
        "1.1",
        "Disabled",
        "9999-12-31",
        "10.0.0.0/8",
        "Static",
        "http://a:1",
        "https://b/?q",
        "dynamic",
        "Queue",
        "push",
        "StringIn",
        "boolequals",
        "IsNotNull",
        "Basic",
        "bearer",
        "ClientCredentials",
        "S3",
        "AzureBlob",
        "",
        "dead",
        "PT5S",
        "P1D",
        "PT3H",
        "P9D",
        "CloudEventSchemaV1_0",
        "CustomEventSchema",
        "ada",
        "X-Order",
        "Authorization",
        "WebHook",
        "EventHub",
        "QUJD",
        "Topic",
    ];
    let simple = prop_oneof![
        3 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => (-1..400i64).prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
        1 => "\\PC{0,9}".prop_map(Value::from),
        3 => select(words.to_vec()).prop_map(Value::from),
    ];
    simple.prop_recursive(2, 8, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(any_name(), inner, 0..4)
                .prop_map(|object| object.into_iter().collect::<Value>()),
        ]
    })
}

pub(super) fn changed(document: &str, changes: Vec<Change>) -> Value {
    let mut document = read(document);
    for change in changes {
        let mut pointers = vec![String::new()];
        list_pointers(&document, "", &mut pointers);
        let (Change::Put(place, _) | Change::Remove(place) | Change::Add(place, ..)) = &change;
        let pointer = place.get(&pointers);
        match (change, pointer.rsplit_once('/')) {
            (Change::Put(_, value), _) => {
                *document.pointer_mut(pointer).expect("a listed pointer") = value;
            }
            (Change::Add(_, name, value), _) => {
                if let Some(Value::Object(object)) = document.pointer_mut(pointer) {
                    object.insert(name, value);
                }
            }
            (Change::Remove(_), Some((outer, name))) => {
                if let Some(Value::Object(object)) = document.pointer_mut(outer) {
                    object.remove(&name.replace("~1", "/").replace("~0", "~"));
                }
            }
            (Change::Remove(_), None) => {}
        }
    }
    document
}

/// A name as part of a JSON Pointer (RFC 6901, 3).
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn list_pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(object) => object
            .iter()
            .map(|(name, value)| (format!("{at}/{}", escaped(name)), value))
            .collect(),
        Value::Array(list) => list
            .iter()
            .enumerate()
            .map(|(index, value)| (format!("{at}/{index}"), value))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return,
    };
    for (pointer, value) in inner {
        list_pointers(value, &pointer, found);
        found.push(pointer);
    }
}

/// What a client wrote was accepted and comes back from the store, or its faults were told.
fn check<T: PartialEq + std::fmt::Debug>(
    read: Result<T, InvalidResource>,
    stored: impl Fn(&T) -> Result<T, InvalidResource>,
) {
    match read {
        Ok(read) => assert_eq!(stored(&read).as_ref(), Ok(&read)),
        Err(invalid) => {
            let text = invalid.to_string();
            assert!(
                !text.contains("cannot be read") && !invalid.faults.is_empty(),
                "{text}"
            );
        }
    }
}

fn check_subscription(document: &str, event_retention: Option<Duration>, body: &Value) {
    let context = SubscriptionContext {
        event_retention,
        ..context(&InputSchema::EventGridSchema)
    };
    let stored = |read: &_| subscription_from_text(&subscription_to_text(read));
    let current = parse_subscription(&self::read(document), &context).expect("a valid body");
    let replacing = SubscriptionContext {
        replaces: Some(&current),
        ..context
    };
    check(parse_subscription(body, &replacing), stored);
    let patch = match event_retention {
        None => &body["properties"],
        Some(_) => body,
    };
    check(patch_subscription(&current, patch, &context), stored);
}

/// What chance seldom finds: each value is null once.
#[test]
fn values_that_are_null_are_accepted_or_their_faults_told() {
    for (document, retention) in [
        (SUBSCRIPTION, None),
        (PUSHED, NAMESPACE_RETENTION),
        (PULLED, NAMESPACE_RETENTION),
    ] {
        let mut pointers = vec![String::new()];
        list_pointers(&read(document), "", &mut pointers);
        for pointer in &pointers {
            let mut body = read(document);
            *body.pointer_mut(pointer).expect("a listed pointer") = Value::Null;
            check_subscription(document, retention, &body);
        }
    }
}

proptest! {
    #[test]
    fn subscriptions_are_accepted_or_their_faults_told(changes in changes()) {
        check_subscription(SUBSCRIPTION, None, &changed(SUBSCRIPTION, changes));
    }

    #[test]
    fn subscriptions_of_namespaces_are_accepted_or_their_faults_told(
        is_pulled: bool,
        changes in changes(),
    ) {
        let document = if is_pulled { PULLED } else { PUSHED };
        check_subscription(document, NAMESPACE_RETENTION, &changed(document, changes));
    }

    #[test]
    fn topics_are_accepted_or_their_faults_told(changes in changes()) {
        let stored = |read: &TopicKind| topic_from_text(TopicId(1), read.name(), &topic_to_text(read));
        let current = parse_topic(&read(TOPIC)).expect("a valid body");
        let body = changed(TOPIC, changes.clone());
        check(parse_topic(&body), stored);
        check(patch_topic(&current, &body), stored);
        let body = changed(NAMESPACE_TOPIC, changes);
        check(parse_namespace_topic(&body), stored);
        let current = parse_namespace_topic(&read("{}")).expect("a valid body");
        check(patch_topic(&current, &body), stored);
    }

    #[test]
    fn namespaces_are_accepted_or_their_faults_told(changes in changes()) {
        let stored = |read: &_| namespace_from_text(&namespace_to_text(read));
        let current = parse_namespace(&read(NAMESPACE)).expect("a valid body");
        let body = changed(NAMESPACE, changes);
        check(parse_namespace(&body), stored);
        check(patch_namespace(&current, &body), stored);
    }

    #[test]
    fn other_bodies_are_accepted_or_their_faults_told(changes in changes()) {
        let stored = |read: &_| inspector_from_text(&inspector_to_text(read));
        check(parse_inspector(&changed(INSPECTOR, changes.clone())), stored);
        let stored = |read: &_| alert_rule_from_text(&alert_rule_to_text(read));
        check(parse_alert_rule(&changed(ALERT_RULE, changes.clone())), stored);
        let stored = |read: &_| alert_channel_from_text(&alert_channel_to_text(read));
        for channel in [EMAIL, CHAT] {
            let body = changed(channel, changes.clone());
            check(parse_alert_channel(&body, None, false), stored);
        }
        let same = |read: &Rotation| Ok(read.clone());
        check(parse_rotation(&changed(ROTATION, changes.clone())), same);
        let registry = Registry::default();
        let context = ReplayContext { registry: &registry, require_https: true };
        let replay = parse_replay(&changed(REPLAY, changes), context);
        check(replay.map(|request| request.source), |read| Ok(read.clone()));
    }
}
