//! Spec 3.3 but for its webhooks, and 2.1.

use std::time::Duration;

use super::*;
use crate::base::TimeScale;
use crate::model::delivery::Outcome;
use crate::model::destination::{Destination, EndpointUrl};
use crate::model::probation::{Observation, ProbationRules};
use crate::model::subscription::{DeadLetterDestination, ValidationState};
use crate::model::topic::DeliverySchema;

/// The body of rule 3.3, as Microsoft's management client writes it.
pub(super) const REAL: &str = "{ 'properties': {
    'destination': { 'endpointType': 'WebHook', 'properties': {
        'endpointUrl': 'https://shop.example/hooks/eg?k=abc',
        'maxEventsPerBatch': 20, 'preferredBatchSizeInKilobytes': 128,
        'deliveryAttributeMappings': [
          { 'name': 'X-Tenant', 'type': 'Static', 'properties': { 'value': 'north', 'isSecret': false } },
          { 'name': 'X-Order', 'type': 'Dynamic', 'properties': { 'sourceField': 'data.orderId' } } ] } },
    'eventDeliverySchema': 'EventGridSchema',
    'filter': { 'includedEventTypes': ['Order.Paid'], 'subjectBeginsWith': '/orders/',
                'isSubjectCaseSensitive': false, 'enableAdvancedFilteringOnArrays': true,
                'advancedFilters': [
                  { 'operatorType': 'NumberGreaterThan', 'key': 'data.total', 'value': 100 },
                  { 'operatorType': 'StringNotIn', 'key': 'data.country', 'values': ['XX','YY'] } ] },
    'retryPolicy': { 'maxDeliveryAttempts': 10, 'eventTimeToLiveInMinutes': 240 },
    'labels': ['billing'],
    'deadLetterDestination': { 'endpointType': 'StorageBlob',
        'properties': { 'resourceId': '/local/store', 'blobContainerName': 'dead' } } } }";

fn check_properties(changes: &str, expected: &str) {
    let body = subscription(changes);
    let expected = inside("properties", expected);
    check(changes, parse(&body).map(show), &expected);
}

#[test]
fn envelopes_are_shown() {
    let topic = "/subscriptions/s/resourceGroups/g/providers/Microsoft.EventGrid/topics/Orders";
    let shown = show(parse(&webhook("{}")).expect("a valid body"));
    assert_eq!(shown["id"], format!("{topic}/eventSubscriptions/billing"));
    assert_eq!(shown["name"], "billing");
    assert_eq!(
        shown["type"],
        "Microsoft.EventGrid/topics/eventSubscriptions"
    );
    assert_eq!(
        shown["systemData"]["lastModifiedAt"],
        "2026-11-21T06:40:53.0000000Z"
    );
    assert_eq!(shown["properties"]["topic"], topic);
    assert_eq!(shown["properties"]["provisioningState"], "Succeeded");
}

#[test]
fn bodies_of_the_wrong_shape_are_rejected() {
    let table = "
        null                 => ! : the body must be an object, but it is null
        []                   => ! : a list
        {}                   => ! properties.destination: it is missing
        {'properties': []}   => ! properties: it must be an object, but it is a list
        {'properties': {}}   => ! properties.destination: it is missing
        {'propertys': {}}    => ! propertys: \"properties\"
        {'destination': {}}  => ! destination: it belongs into \"properties\"
    ";
    each_line(table, |body, expected| {
        check(body, parse(&read(body)).map(show), expected);
    });
}

#[test]
fn properties_are_read_and_shown() {
    let table = "
        {}                      => /labels = null
        {'labels': ['a', 'b']}  => /labels = ['a', 'b']
        {'LABELS': ['a']}       => /labels = ['a']
        {'labels': ['a', 1]}    => ! labels[1]: it must be a string
        {'labels': 'a'}         => ! labels: it must be a list

        {}                                    => /filter/includedEventTypes = null
        {'filter': null}                      => /filter/includedEventTypes = null
        {'filter': {}}                        => /filter/isSubjectCaseSensitive = false
        {'filter': {'subjectEndsWith': 'x'}}  => /filter/subjectEndsWith = 'x'
        {'filter': {'subjectEndsWith': 1}}    => ! filter.subjectEndsWith: it must be a string
        {'filter': []}                        => ! filter: it must be an object, but it is a list

        {}                                               => /retryPolicy/maxDeliveryAttempts = 30
        {'retryPolicy': {'maxDeliveryAttempts': null}}   => /retryPolicy/maxDeliveryAttempts = 30
        {'retryPolicy': {'maxDeliveryAttempts': 1}}      => /retryPolicy/maxDeliveryAttempts = 1
        {'retryPolicy': {'maxDeliveryAttempts': 0}}      => ! retryPolicy.maxDeliveryAttempts: from 1 to 30, but it is 0
        {'retryPolicy': {'maxDeliveryAttempts': 31}}     => ! retryPolicy.maxDeliveryAttempts: from 1 to 30, but it is 31
        {'retryPolicy': {'maxDeliveryAttempts': -1}}     => ! retryPolicy.maxDeliveryAttempts: but it is -1
        {'retryPolicy': {'maxDeliveryAttempts': 1.5}}    => ! retryPolicy.maxDeliveryAttempts: but it is 1.5
        {'retryPolicy': {'maxDeliveryAttempts': 4294967297}} => ! retryPolicy.maxDeliveryAttempts: but it is 4294967297
        {'retryPolicy': {'maxDeliveryAttempts': '5'}}    => /retryPolicy/maxDeliveryAttempts = 5
        {'retryPolicy': {'maxDeliveryAttempts': 'five'}} => ! retryPolicy.maxDeliveryAttempts: but it is \"five\"
        {'retryPolicy': {'maxDeliveryAttempt': 1}}       => ! retryPolicy.maxDeliveryAttempt: \"maxDeliveryAttempts\"
        {}                                                    => /retryPolicy/eventTimeToLiveInMinutes = 1440
        {'retryPolicy': {'eventTimeToLiveInMinutes': 1}}      => /retryPolicy/eventTimeToLiveInMinutes = 1
        {'retryPolicy': {'eventTimeToLiveInMinutes': 0}}      => ! retryPolicy.eventTimeToLiveInMinutes: but it is 0
        {'retryPolicy': {'eventTimeToLiveInMinutes': 1441}}   => ! retryPolicy.eventTimeToLiveInMinutes: from 1 to 1440
        {'retryPolicy': 5}                                    => ! retryPolicy: it must be an object

        # Extensions.
        {}                                                    => /retryPolicy/schedule = null
        {'retryPolicy': {'schedule': null}}                   => /retryPolicy/schedule = null
        {'retryPolicy': {'schedule': ['PT1S', 'PT1M', 'P1D']}} => /retryPolicy/schedule = ['PT1S', 'PT1M', 'P1D']
        {'retryPolicy': {'schedule': ['PT90S']}}              => /retryPolicy/schedule = ['PT90S']
        {'retryPolicy': {'schedule': []}}                     => ! retryPolicy.schedule: it must have 1 to 30 waits, but it has 0
        {'retryPolicy': {'schedule': 'PT1S'}}                 => ! retryPolicy.schedule: it must be a list
        {'retryPolicy': {'schedule': [10]}}                   => ! retryPolicy.schedule[0]: it must be a string
        {'retryPolicy': {'schedule': ['PT1S', '10s']}}        => ! retryPolicy.schedule[1]: \"10s\" is no wait: it is no ISO 8601 duration
        {'retryPolicy': {'schedule': ['P1M']}}                => ! retryPolicy.schedule[0]: write days
        {'retryPolicy': {'schedule': ['PT0.9S']}}             => ! retryPolicy.schedule[0]: it must be from PT1S to P1D, but it is \"PT0.9S\"
        {'retryPolicy': {'schedule': ['P1DT1S']}}             => ! retryPolicy.schedule[0]: it must be from PT1S to P1D
        {'retryPolicy': {'shedule': ['PT1S']}}                => ! retryPolicy.shedule: \"schedule\"
        {}                         => /paused = null
        {'paused': false}          => /paused = false
        {'paused': 'TRUE'}         => /paused = true
        {'paused': true}           => /paused = true
        {'paused': true}           => /everpost/state = 'Paused'
        {'paused': 'yes'}          => ! paused: it must be true or false, but it is a string
        {'pause': true}            => ! pause: \"paused\"
        {}                         => /disabled = null
        {'disabled': true}         => /disabled = true
        {'disabled': true}         => /everpost/state = 'Disabled'
        {'disabled': true, 'goneAt': '2026-11-21T06:40:53Z'} => /everpost/gone = null
        {}                         => /disableOnGone = null
        {'disableOnGone': true}    => /disableOnGone = true
        {'disableOnGone': 1}       => ! disableOnGone: it must be true or false

        # Slips are rejected, later names and those for answers passed over.
        {'label': []}                                   => ! label: \"labels\"
        {'retryPolcy': {}}                              => ! retryPolcy: \"retryPolicy\"
        {'region': 'x'}                                 => /region = null
        {'topic': 'x', 'provisioningState': 'Failed'}   => /provisioningState = 'Succeeded'
        {'everpost': {'validatedOnce': false}}          => /everpost/validatedOnce = true

        # There are no identities here.
        {'deliveryWithResourceIdentity': {}}      => ! deliveryWithResourceIdentity: use \"destination\" instead
        {'deliveryWithResourceIdentity': null}    => /labels = null
        {'deadLetterWithResourceIdentity': {}}    => ! deadLetterWithResourceIdentity: \"deadLetterDestination\"
        {'deadLetterWithResourceIdentity': null}  => /labels = null
    ";
    each_line(table, check_properties);
}

#[test]
fn expirations_lie_in_the_future() {
    let table = "
        null                         => /expirationTimeUtc = null
        '2026-11-21T06:40:53.001Z'   => /expirationTimeUtc = '2026-11-21T06:40:53.001Z'
        ''                           => /expirationTimeUtc = null
        '2030-01-01T02:00:00+02:00'  => /expirationTimeUtc = '2030-01-01T02:00:00+02:00'
        '2030-01-01T00:00:00'        => /expirationTimeUtc = '2030-01-01T00:00:00'
        '2030-01-01'                 => /expirationTimeUtc = '2030-01-01'
        '2026-11-21T06:40:53Z'       => ! expirationTimeUtc: Invalid expiration time: 2026-11-21T06:40:53.000Z has passed
        '2026-11-21'                 => ! expirationTimeUtc: Invalid expiration time
        '9999-12-31T23:59:59-01:00'  => ! expirationTimeUtc: Invalid expiration time
        'tomorrow'                   => ! expirationTimeUtc: Invalid expiration time: \"tomorrow\" is not a date
        1893456000                   => ! expirationTimeUtc: it must be a string
    ";
    each_line(table, |moment, expected| {
        check_properties(&format!("{{'expirationTimeUtc': {moment}}}"), expected);
    });
}

#[test]
fn schemas_go_together_as_published() {
    // Each row of rule 2.1: what is published, and what it can be delivered as, the default first.
    let (grid, cloud, input) = (
        DeliverySchema::EventGridSchema,
        DeliverySchema::CloudEventSchemaV1_0,
        DeliverySchema::CustomInputSchema,
    );
    let custom = InputSchema::CustomEventSchema(Box::default());
    for (published, possible) in [
        (InputSchema::EventGridSchema, vec![grid, cloud]),
        (InputSchema::CloudEventSchemaV1_0, vec![cloud]),
        (custom, vec![input, grid, cloud]),
    ] {
        let delivered = |changes: &str| {
            let parsed = parse_subscription(&subscription(changes), &context(&published));
            let parsed = parsed.map(|definition| definition.delivery_schema);
            parsed.map_err(|invalid| invalid.first().path.clone())
        };
        assert_eq!(delivered("{}"), Ok(possible[0]));
        for schema in DeliverySchema::ALL {
            let expected = match possible.contains(&schema) {
                true => Ok(schema),
                false => Err("properties.eventDeliverySchema".to_owned()),
            };
            let changes = format!("{{'eventDeliverySchema': '{}'}}", schema.name());
            assert_eq!(delivered(&changes), expected, "{published:?}");
        }
    }
    check_properties(
        "{'eventDeliverySchema': 'InputEventSchema'}",
        "! eventDeliverySchema: it must be \"EventGridSchema\", \"CloudEventSchemaV1_0\" or",
    );
    check_properties(
        "{'eventDeliverySchema': 'CustomInputSchema'}",
        "! eventDeliverySchema: published as EventGridSchema cannot be delivered as CustomInputSchema",
    );
}

#[test]
fn dead_letters_are_kept_by_default_and_dropped_on_demand() {
    for (changes, expected, shown) in [
        ("{}", DeadLetterDestination::BuiltInQueue, None),
        (
            "{'deadLetterDestination': null}",
            DeadLetterDestination::BuiltInQueue,
            None,
        ),
        (
            "{'deadLetterDestination': {'endpointType': 'drop'}}",
            DeadLetterDestination::Drop,
            Some(json!({ "endpointType": "Drop" })),
        ),
    ] {
        let definition = parse(&subscription(changes)).expect(changes);
        assert_eq!(definition.dead_letter, expected);
        let answer = show(definition);
        assert_eq!(
            answer["properties"].get("deadLetterDestination").cloned(),
            shown
        );
    }
}

#[test]
fn dead_letter_destinations_are_read_and_shown() {
    let check_dead_letter = |destination: &str, expected: &str| {
        check_properties(
            &format!("{{'deadLetterDestination': {destination}}}"),
            expected,
        );
    };
    let table = "
        1                            => ! deadLetterDestination: it must be an object
        {}                           => ! deadLetterDestination.endpointType: it is missing
        {'endpointType': 'WebHook'}  => ! deadLetterDestination.endpointType: it must be \"Drop\" or \"StorageBlob\"
        {'endpointType': 'StorageBlob'}                          => ! deadLetterDestination.properties.resourceId: it is missing
        {'endpointType': 'StorageBlob', 'properties': {'resourceId': '', 'blobContainerName': 'dead'}} => ! deadLetterDestination.properties.resourceId: it is empty
        {'endpointType': 'StorageBlob', 'resourceId': 'x'}       => ! deadLetterDestination.resourceId: it belongs into
        {'endpointType': 'StorageBlob', 'propertis': {}}         => ! deadLetterDestination.propertis: \"properties\"
    ";
    each_line(table, check_dead_letter);
    let rejected =
        "! deadLetterDestination.properties.blobContainerName: is not the name of a container";
    for (container, expected) in [
        (
            "dead-1",
            "/deadLetterDestination/properties/blobContainerName = 'dead-1'",
        ),
        (
            "dead",
            "/deadLetterDestination/properties/resourceId = '/local/store'",
        ),
        (
            "dead",
            "/deadLetterDestination/endpointType = 'StorageBlob'",
        ),
        (
            "",
            "! deadLetterDestination.properties.blobContainerName: it is empty",
        ),
        ("ab", rejected),
        (&"x".repeat(64), rejected),
        ("../dead", rejected),
        ("Dead", rejected),
        ("-dead", rejected),
        ("dead-", rejected),
    ] {
        let kept = format!("{{'resourceId': '/local/store', 'blobContainerName': '{container}'}}");
        let destination = format!("{{'endpointType': 'storageblob', 'properties': {kept}}}");
        check_dead_letter(&destination, expected);
    }
}

#[test]
fn the_body_of_a_real_client_comes_back() {
    let body = read(REAL);
    let definition = parse(&body).expect("a valid body");
    let mut shown = show(definition.clone());
    for pointer in [
        "/properties/destination/properties/maxEventsPerBatch",
        "/properties/destination/properties/preferredBatchSizeInKilobytes",
        "/properties/destination/properties/deliveryAttributeMappings",
        "/properties/eventDeliverySchema",
        "/properties/filter/includedEventTypes",
        "/properties/filter/subjectBeginsWith",
        "/properties/filter/enableAdvancedFilteringOnArrays",
        "/properties/filter/advancedFilters",
        "/properties/retryPolicy",
        "/properties/labels",
        "/properties/deadLetterDestination",
    ] {
        assert_eq!(shown.pointer(pointer), body.pointer(pointer), "{pointer}");
    }
    // Sent back with the URL that the answer leaves out, it means the same.
    let url = json!(render_full_url(&definition).expect("a webhook"))["endpointUrl"].clone();
    assert_eq!(url, "https://shop.example/hooks/eg?k=abc");
    shown["properties"]["destination"]["properties"]["endpointUrl"] = url;
    assert_eq!(parse(&shown).map(meant), Ok(meant(definition)));
}

#[test]
fn the_handshake_is_shown() {
    let definition = parse(&webhook("{}")).expect("a valid body");
    for state in ValidationState::ALL {
        let validation = Validation {
            state,
            validated_once: false,
            code: Some(Secret::new("canary")),
            expires_at: Some(now()),
            failure: Some("it answered 404".to_owned()),
            allowed_rate: Some(120),
        };
        let shown = show_validated(definition.clone(), validation);
        assert!(!shown.to_string().contains("canary"));
        assert_eq!(shown["properties"]["provisioningState"], state.name());
        let everpost = &shown["properties"]["everpost"];
        assert_eq!(everpost["validatedOnce"], false);
        assert_eq!(everpost["validationFailure"], "it answered 404");
        assert_eq!(everpost["validationExpiresAt"], "2026-11-21T06:40:53.000Z");
        assert_eq!(everpost["allowedRequestsPerMinute"], 120);
        let (word, reason) = match state {
            ValidationState::Succeeded => ("Active", Value::Null),
            ValidationState::Creating
            | ValidationState::Updating
            | ValidationState::AwaitingManualAction
            | ValidationState::Failed => (state.name(), "it answered 404".into()),
        };
        assert_eq!(everpost["state"], word);
        assert_eq!(everpost["stateReason"], reason);
    }
}

#[test]
fn what_is_wrong_with_the_receiver_is_shown() {
    let rules = ProbationRules {
        failures: 2,
        ..ProbationRules::default()
    };
    let gone = Observation {
        outcome: Outcome::GenericError,
        is_gone: Some(true),
        status: Some(410),
        is_probe: false,
    };
    let once = Health::default().observed(gone, &rules, now(), TimeScale::REAL);
    let twice = once.observed(gone, &rules, now(), TimeScale::REAL);
    let since =
        "{'since': '2026-11-21T06:40:53.000Z', 'reason': 'the receiver answers 410 (Gone)'}";
    let probation = "{'cause': 'GenericError', 'failures': 2,
        'since': '2026-11-21T06:40:53.000Z', 'until': '2026-11-21T06:41:03.000Z'}";
    for (health, state, gone, probation) in [
        (Health::default(), "Active", "null", "null"),
        (once, "Gone", since, "null"),
        (twice, "OnProbation", since, probation),
    ] {
        let definition = parse(&webhook("{}")).expect("a valid body");
        let shown = show_seen(&billing(definition), &health);
        let everpost = &shown["properties"]["everpost"];
        assert_eq!(everpost["state"], state);
        assert_eq!(everpost["gone"], read(gone), "{state}");
        assert_eq!(everpost["probation"], read(probation), "{state}");
        let has_reason = everpost["stateReason"].is_string();
        assert_eq!(has_reason, state != "Active", "{everpost}");
    }
}

/// A subscription whose settings are all other than the default.
fn current() -> SubscriptionDefinition {
    let settings = "{'labels': ['billing'], 'expirationTimeUtc': '2030-01-01T00:00:00Z',
        'filter': {'subjectBeginsWith': '/orders/'}, 'eventDeliverySchema': 'CloudEventSchemaV1_0',
        'retryPolicy': {'maxDeliveryAttempts': 10, 'eventTimeToLiveInMinutes': 240}}";
    parse(&subscription(settings)).expect("a valid body")
}

#[test]
fn subscriptions_are_patched() {
    let table = "
        {'labels': ['a']}  => /labels = ['a']
        {'labels': ['a']}  => /retryPolicy/maxDeliveryAttempts = 10
        {'labels': ['a']}  => /filter/subjectBeginsWith = '/orders/'
        {'labels': ['a']}  => /expirationTimeUtc = '2030-01-01T00:00:00Z'
        {'labels': ['a']}  => /eventDeliverySchema = 'CloudEventSchemaV1_0'

        # A new value replaces all of the old one.
        {'retryPolicy': {'maxDeliveryAttempts': 5}}  => /retryPolicy/maxDeliveryAttempts = 5
        {'retryPolicy': {'maxDeliveryAttempts': 5}}  => /retryPolicy/eventTimeToLiveInMinutes = 1440
        {'filter': {'subjectEndsWith': 'x'}}         => /filter/subjectBeginsWith = ''

        # Null restores the default, but a destination has none.
        {'labels': null}                 => /labels = null
        {'expirationTimeUtc': null}      => /expirationTimeUtc = null
        {'filter': null}                 => /filter/subjectBeginsWith = ''
        {'retryPolicy': null}            => /retryPolicy/maxDeliveryAttempts = 30
        {'eventDeliverySchema': null}    => /eventDeliverySchema = 'EventGridSchema'
        {'destination': null}            => /destination/properties/endpointBaseUrl = 'https://shop.example/in'

        {'label': []}                                    => ! label: \"labels\"
        {'expirationTimeUtc': '2020-01-01T00:00:00Z'}    => ! expirationTimeUtc: Invalid expiration time
        {'eventDeliverySchema': 'CustomInputSchema'}     => ! eventDeliverySchema: must be \"EventGridSchema\" or
        {'retryPolicy': {'maxDeliveryAttempts': 31}}     => ! retryPolicy.maxDeliveryAttempts: but it is 31
        {'destination': {'endpointType': 'EventHub'}}    => ! destination.endpointType: not supported here
        {'deliveryWithResourceIdentity': {}}             => ! deliveryWithResourceIdentity: no managed identities
        {'properties': {'labels': []}}                   => ! properties: it must be left out
    ";
    each_line(table, |body, expected| {
        let expected = match expected.starts_with("! ") {
            true => expected.to_owned(),
            false => inside("properties", expected),
        };
        check(body, patch(&current(), body).map(show), &expected);
    });
    assert_eq!(patch(&current(), "{}").map(meant), Ok(meant(current())));
    let fate =
        |current: &SubscriptionDefinition, body: &str| patch(current, body).expect("a valid body");
    let dropped = fate(
        &current(),
        "{'deadLetterDestination': {'endpointType': 'Drop'}}",
    );
    assert_eq!(dropped.dead_letter, DeadLetterDestination::Drop);
    let kept = fate(&dropped, "{'deadLetterDestination': null}");
    assert_eq!(kept.dead_letter, DeadLetterDestination::BuiltInQueue);
}

#[test]
fn what_a_patch_leaves_alone_is_not_judged_anew() {
    let mut outdated = current();
    outdated.expires_at = Some(now() - Duration::from_secs(60));
    let Destination::WebHook(webhook) = &mut outdated.destination else {
        panic!("a webhook");
    };
    webhook.endpoint_url = EndpointUrl::parse("http://shop.example/in").expect("a URL");

    let patched = patch(&outdated, "{'labels': ['billing']}");

    assert_eq!(patched.map(meant), Ok(meant(outdated)));
}

/// A destination with all that a client of Azure does not know of.
fn equipped() -> Value {
    webhook(
        "{'authentication': {'type': 'Bearer', 'token': 't'}, 'maxEventsPerBatch': 5, 'maxRequestsInFlight': 2,
        'signingSecrets': [{'secret': 'whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'}], 'skipValidation': true,
        'deliveryAttributeMappings': [{'name': 'X-A', 'type': 'Static', 'properties': {'value': 'v', 'isSecret': true}}]}",
    )
}

/// What `az eventgrid event-subscription update --endpoint` sends.
const URL_ALONE: &str = "{'destination': {'endpointType': 'WebHook', 'properties': {'endpointUrl': 'https://new.example/'}}}";

#[test]
fn a_patch_of_the_url_keeps_the_rest_of_the_destination() {
    let current = parse(&equipped()).expect("a valid body");
    let Destination::WebHook(expected) = &current.destination else {
        panic!("a webhook");
    };
    let url = EndpointUrl::parse("https://new.example/").expect("a URL");
    for body in [
        URL_ALONE,
        "{'destination': {'properties': {'endpointUrl': 'https://new.example/'}}}",
    ] {
        let patched = patch(&current, body).expect(body);
        let expected = Destination::WebHook(crate::model::destination::WebHook {
            endpoint_url: url.clone(),
            ..expected.clone()
        });
        assert_eq!(patched.destination, expected, "{body}");
    }
    // Null restores the default of a single property.
    let bare = "{'destination': {'properties': {'authentication': null, 'maxEventsPerBatch': null, 'skipValidation': null}}}";
    let Destination::WebHook(bare) = patch(&current, bare).expect("a patch").destination else {
        panic!("a webhook");
    };
    assert_eq!(
        (
            bare.credentials.authentication,
            bare.batch.max_events,
            bare.skip_validation
        ),
        (None, None, false)
    );
    assert_eq!(bare.attribute_mappings.len(), 1);
}

#[test]
fn nothing_of_a_destination_of_another_type_is_kept() {
    let current = parse(&equipped()).expect("a valid body");
    let queue = "{'destination': {'endpointType': 'ServiceBusQueue', 'properties': {'resourceId': 'jobs'}}}";
    let patched = patch(&current, queue).expect("a patch");
    assert!(patched.destination.attribute_mappings().is_empty());
    let missing = patch(
        &patched,
        "{'destination': {'endpointType': 'WebHook', 'properties': {}}}",
    );
    assert!(missing.is_err(), "a webhook needs its URL");
}

#[test]
fn a_patch_of_the_container_keeps_the_account() {
    let body = subscription("{'deadLetterDestination': {'endpointType': 'StorageBlob', 'properties': {
        'resourceId': '/a', 'blobContainerName': 'one', 'storage': {'type': 'S3', 'accessKeyId': 'k', 'secretAccessKey': 's'}}}}");
    let current = parse(&body).expect("a valid body");
    let container = "{'deadLetterDestination': {'endpointType': 'StorageBlob', 'properties': {
        'resourceId': '/a', 'blobContainerName': 'two'}}}";
    let patched = patch(&current, container).expect("a patch");
    let (
        DeadLetterDestination::StorageBlob {
            storage: before, ..
        },
        DeadLetterDestination::StorageBlob {
            storage, container, ..
        },
    ) = (&current.dead_letter, &patched.dead_letter)
    else {
        panic!("storage");
    };
    assert_eq!((storage, container.as_str()), (before, "two"));
}
