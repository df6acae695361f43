//! Webhooks of rule 3.3, and 6.4.

use super::*;
use crate::model::destination::{AttributeValue, Destination, WebHook};

fn check_webhook(changes: &str, expected: &str) {
    let expected = inside("properties.destination.properties", expected);
    check(changes, parse(&webhook(changes)).map(show), &expected);
}

#[test]
fn types_of_destinations_are_told_apart() {
    let check_destination = |destination: &str, expected: &str| {
        let body = subscription(&format!("{{'destination': {destination}}}"));
        let expected = inside("properties", expected);
        check(destination, parse(&body).map(show), &expected);
    };
    let table = "
        null                       => ! destination: it is missing
        'https://a'                => ! destination: it must be an object
        {}                         => ! destination.endpointType: it is missing
        {'endpointType': ''}       => ! destination.endpointType: it is empty
        {'endpointType': 'Pigeon'} => ! destination.endpointType: it must be \"WebHook\", \"ServiceBusQueue\" or \"ServiceBusTopic\", but it is
        {'endpointType': 'WebHook', 'endpointUrl': 'https://a'}                  => ! destination.endpointUrl: it belongs into
        {'endpointType': 'webhook', 'properties': {'endpointUrl': 'https://a'}}  => /destination/endpointType = 'WebHook'
        {'endpointType': 'servicebustopic', 'properties': {'resourceId': 'jobs'}} => /destination/endpointType = 'ServiceBusTopic'
        {'endpointType': 'ServiceBusQueue', 'properties': {}}                    => ! destination.properties.resourceId: it is missing
        {'endpointType': 'ServiceBusQueue', 'properties': {'resourceId': '/a'}}  => ! destination.properties.resourceId: is not a valid name
        {'endpointType': 'WebHook', 'proprties': {}}                             => ! destination.proprties: \"properties\"
    ";
    each_line(table, check_destination);
    for elsewhere in [
        "EventHub",
        "StorageQueue",
        "HybridConnection",
        "AzureFunction",
        "MonitorAlert",
        "NamespaceTopic",
        "PartnerDestination",
    ] {
        check_destination(
            &format!("{{'endpointType': '{elsewhere}'}}"),
            "! destination.endpointType: is not supported here, only \"WebHook\"",
        );
    }
}

#[test]
fn urls_are_checked_and_shown_without_their_query() {
    let table = "
        https://shop.example/in?c=1   => /endpointBaseUrl = 'https://shop.example/in'
        https://shop.example/in?c=1   => /endpointUrl = null
        HTTPS://Shop.Example:443/in   => /endpointBaseUrl = 'HTTPS://Shop.Example:443/in'
        https://shop.example          => /endpointBaseUrl = 'https://shop.example'
        http://shop.example           => ! endpointUrl: it does not start with https
        shop.example                  => ! endpointUrl: it is not an absolute URL
        ftp://shop.example            => ! endpointUrl: only http and https are supported
        https://user:word@a           => ! endpointUrl: do not belong into the URL
        https://shop.example/#a       => ! endpointUrl: a fragment is never sent
    ";
    let check_url = |url: &str, expected: &str| {
        check_webhook(&format!("{{'endpointUrl': '{url}'}}"), expected);
    };
    each_line(table, check_url);
    let with_bytes = |bytes: usize| format!("https://a/{}", "x".repeat(bytes - 10));
    check_url(&with_bytes(8_192), "/skipValidation = null");
    check_url(&with_bytes(8_193), "! endpointUrl: at most 8192 bytes");
    let azures_own = "! endpointUrl: Supplied URL is invalid. It cannot be null or empty and should \
                      be a proper HTTPS URL";
    check_url("", azures_own);
    check_url("http://a", azures_own);
    check_webhook("{'endpointUrl': null}", azures_own);
}

#[test]
fn plain_http_is_a_setting() {
    let body = webhook("{'endpointUrl': 'http://shop.example/in'}");
    let context = SubscriptionContext {
        require_https: false,
        ..context(&InputSchema::EventGridSchema)
    };
    assert!(parse_subscription(&body, &context).is_ok());
}

#[test]
fn paces_are_checked_and_shown_where_they_are_set() {
    let table = "
        {}                                    => /responseDeadlineInSeconds = null
        {'responseDeadlineInSeconds': 1}      => /responseDeadlineInSeconds = 1
        {'responseDeadlineInSeconds': 300}    => /responseDeadlineInSeconds = 300
        {'responseDeadlineInSeconds': 0}      => ! responseDeadlineInSeconds: from 1 to 300, but it is 0
        {'responseDeadlineInSeconds': 301}    => ! responseDeadlineInSeconds: from 1 to 300, but it is 301
        {'responseDeadlineInSecond': 1}       => ! responseDeadlineInSecond: \"responseDeadlineInSeconds\"
        {}                                    => /maxRequestsInFlight = null
        {'maxRequestsInFlight': 1}            => /maxRequestsInFlight = 1
        {'maxRequestsInFlight': 1025}         => ! maxRequestsInFlight: from 1 to 1024
        {}                                    => /maxRequestsPerSecond = null
        {'maxRequestsPerSecond': 5}           => /maxRequestsPerSecond = 5
        {'maxRequestsPerSecond': 0.1}         => /maxRequestsPerSecond = 0.1
        {'maxRequestsPerSecond': 0.001}       => /maxRequestsPerSecond = 0.001
        {'maxRequestsPerSecond': 9999.999}    => /maxRequestsPerSecond = 9999.999
        {'maxRequestsPerSecond': 10000}       => /maxRequestsPerSecond = 10000
        {'maxRequestsPerSecond': 0}           => ! maxRequestsPerSecond: from 0.001 to 10000 with up to 3 decimals, but it is 0
        {'maxRequestsPerSecond': 0.0005}      => ! maxRequestsPerSecond: but it is 0.0005
        {'maxRequestsPerSecond': 1.0001}      => ! maxRequestsPerSecond: but it is 1.0001
        {'maxRequestsPerSecond': 10000.001}   => ! maxRequestsPerSecond: but it is 10000.001
        {'maxRequestsPerSecond': -1}          => ! maxRequestsPerSecond: but it is -1
        {'maxRequestsPerSecond': 1e300}       => ! maxRequestsPerSecond: but it is
        {'maxRequestsPerSecond': '5'}         => /maxRequestsPerSecond = 5
        {'maxRequestsPerSecond': '5 a day'}   => ! maxRequestsPerSecond: but it is \"5 a day\"
    ";
    each_line(table, check_webhook);
}

#[test]
fn batches_are_checked_and_shown_as_they_were_set() {
    let table = "
        {}                           => /maxEventsPerBatch = null
        {}                           => /preferredBatchSizeInKilobytes = null
        {'maxEventsPerBatch': 20}    => /maxEventsPerBatch = 20
        {'maxEventsPerBatch': 20}    => /preferredBatchSizeInKilobytes = null
        {'maxEventsPerBatch': 5000}  => /maxEventsPerBatch = 5000
        {'maxEventsPerBatch': 5001}  => ! maxEventsPerBatch: a whole number from 1 to 5000, but it is 5001
        {'maxEventsPerBatch': 0}     => ! maxEventsPerBatch: but it is 0
        {'maxEventPerBatch': 2}      => ! maxEventPerBatch: \"maxEventsPerBatch\"
        {'preferredBatchSizeInKilobytes': 8}     => /maxEventsPerBatch = null
        {'preferredBatchSizeInKilobytes': 8}     => /preferredBatchSizeInKilobytes = 8
        {'preferredBatchSizeInKilobytes': 1024}  => /preferredBatchSizeInKilobytes = 1024
        {'preferredBatchSizeInKilobytes': 1025}  => ! preferredBatchSizeInKilobytes: from 1 to 1024, but it is 1025
        {'preferredBatchSizeInKilobytes': 0}     => ! preferredBatchSizeInKilobytes: but it is 0
        {}                            => /splitBatchOnError = null
        {'splitBatchOnError': true}   => /splitBatchOnError = true
        {'splitBatchOnError': false}  => /splitBatchOnError = false
        {'splitBatchOnError': 1}      => ! splitBatchOnError: true or false
        {'splitBatchOnErrors': true}  => ! splitBatchOnErrors: \"splitBatchOnError\"

        # Older clients say so to leave it off.
        {'maxEventsPerBatch': 1, 'preferredBatchSizeInKilobytes': 64} => /maxEventsPerBatch = 1
        {'maxEventsPerBatch': 1, 'preferredBatchSizeInKilobytes': 64} => /preferredBatchSizeInKilobytes = 64
    ";
    each_line(table, check_webhook);
}

#[test]
fn other_settings_are_obeyed_or_refused() {
    let table = "
        {}                                                => /skipValidation = null
        {'skipValidation': false}                         => /skipValidation = false
        {'skipValidation': true}                          => /skipValidation = true
        {'skipValidation': 1}                             => ! skipValidation: true or false
        {'minimumTlsVersionAllowed': '1.2'}               => /minimumTlsVersionAllowed = '1.2'
        {'minimumTlsVersionAllowed': '2'}                 => ! minimumTlsVersionAllowed: \"1.2\"
        {'azureActiveDirectoryTenantId': 'x'}             => ! azureActiveDirectoryTenantId: not supported here
        {'azureActiveDirectoryTenantId': null}            => /skipValidation = null
        {'azureActiveDirectoryApplicationIdOrUri': 'x'}   => ! azureActiveDirectoryApplicationIdOrUri: not supported here
        {'azureActiveDirectoryApplicationIdOrUri': null}  => /skipValidation = null
        {'endpointBaseUrl': 'x'}                          => /endpointBaseUrl = 'https://shop.example/in'
        {'endpointUri': 'x'}                              => ! endpointUri: \"endpointUrl\"
        {'laterSetting': 'x'}                             => /laterSetting = null
    ";
    each_line(table, check_webhook);
}

/// A header with a fixed value.
fn header(name: &str, value: &str) -> String {
    format!("{{'name': '{name}', 'type': 'Static', 'properties': {{'value': '{value}'}}}}")
}

fn headers(mappings: &[String]) -> String {
    format!("{{'deliveryAttributeMappings': [{}]}}", mappings.join(","))
}

#[test]
fn headers_are_read_and_shown() {
    let table = "
        {'name': 'X', 'type': 'Static', 'properties': {'value': 'a'}}  => /0/name = 'X'
        {'name': 'X', 'type': 'static', 'properties': {'value': 'a'}}  => /0/type = 'Static'
        {'name': 'X', 'type': 'Static', 'properties': {'value': 'ä'}}  => /0/properties/value = 'ä'
        {'name': 'X', 'type': 'Static', 'properties': {'value': 'a'}}  => /0/properties/isSecret = false
        {'name': 'X', 'type': 'Static', 'properties': {'value': 'a', 'isSecret': true}} => /0/properties/isSecret = true
        {'name': 'X', 'type': 'Static', 'properties': {'value': 'a', 'isSecret': true}} => /0/properties/value = null
        {'name': 'X', 'type': 'Dynamic', 'properties': {'sourceField': 'data.a'}}       => /0/type = 'Dynamic'
        {'name': 'X', 'type': 'Dynamic', 'properties': {'sourceField': 'data.a'}}       => /0/properties/sourceField = 'data.a'
        {'name': 'Authorization', 'type': 'Static', 'properties': {'value': 'Bearer a'}} => /0/name = 'Authorization'

        {'name': 'X'}                                    => ! [0].type: it is missing
        {'name': 'X', 'type': 'Random'}                  => ! [0].type: \"Static\" or \"Dynamic\"
        {'name': 'X', 'type': 'Static'}                  => ! [0].properties.value: it is missing
        {'name': 'X', 'type': 'Static', 'value': 'a'}    => ! [0].value: it belongs into
        {'name': 'X', 'type': 'Dynamic'}                 => ! [0].properties.sourceField: it is missing
        {'type': 'Static', 'properties': {}}             => ! [0].name: it is missing
        {'nmae': 'X'}                                    => ! [0].nmae: \"name\"
        'X'                                              => ! [0]: it must be an object
    ";
    each_line(table, |mapping, expected| {
        let place = expected.replacen("! ", "! deliveryAttributeMappings", 1);
        let place = match place == expected {
            true => format!("/deliveryAttributeMappings{expected}"),
            false => place,
        };
        check_webhook(&headers(&[mapping.to_owned()]), &place);
    });
}

#[test]
fn impossible_headers_are_rejected() {
    let table = "
        X Y                   a     => name: is not the name of a header
        X:                    a     => name: is not the name of a header
        Xä                    a     => name: is not the name of a header
        X\\r\\n               a     => name: is not the name of a header
        aeg-subscription-name a     => name: is reserved
        Aeg-X                 a     => name: is reserved
        WEBHOOK-Signature     a     => name: is reserved
        webhook-id            a     => name: is reserved
        Host                  a     => name: cannot be set
        Expect     100-continue     => name: cannot be set
        CONTENT-LENGTH        1     => name: cannot be set
        content-type          a     => name: cannot be set
        Connection            a     => name: cannot be set
        Transfer-Encoding     a     => name: cannot be set
        Upgrade               a     => name: cannot be set
        X                     a\\nb => properties.value: control characters
        X                     a\\u0000 => properties.value: control characters
    ";
    each_line(table, |sent, expected| {
        let (name, value) = sent.rsplit_once(' ').expect("name and value");
        let expected = format!("! deliveryAttributeMappings[0].{expected}");
        check_webhook(&headers(&[header(name.trim(), value)]), &expected);
    });
}

#[test]
fn headers_are_bounded() {
    let first = "! deliveryAttributeMappings[0]";
    let with_bytes = |bytes| headers(&[header("X", &"x".repeat(bytes))]);
    check_webhook(&with_bytes(4_096), "/skipValidation = null");
    check_webhook(
        &with_bytes(4_097),
        &format!("{first}.properties.value: at most 4096"),
    );
    check_webhook(
        &with_bytes(0),
        &format!("{first}.properties.value: it is empty"),
    );
    let umlauts = headers(&[header("X", &"ä".repeat(2_049))]);
    check_webhook(
        &umlauts,
        &format!("{first}.properties.value: but it has 4098"),
    );

    let many = |count| {
        let each: Vec<String> = (0..count)
            .map(|at| header(&format!("X-{at}"), "a"))
            .collect();
        headers(&each)
    };
    check_webhook(&many(10), "/deliveryAttributeMappings/9/name = 'X-9'");
    check_webhook(&many(11), "! deliveryAttributeMappings: at most 10");
    let twice = headers(&[header("X-A", "1"), header("x-a", "2")]);
    check_webhook(
        &twice,
        "! deliveryAttributeMappings[1].name: \"x-a\" is there twice",
    );
}

#[test]
fn answers_hold_no_secrets_and_the_store_holds_all() {
    let secret = "{'name': 'X-Key', 'type': 'Static',
        'properties': {'value': 'canary-header', 'isSecret': true}}";
    let mut body = webhook(&headers(&[secret.to_owned(), header("X-Open", "open")]));
    body["properties"]["destination"]["properties"]["endpointUrl"] =
        read("'https://shop.example/in?code=canary-query'");
    let definition = parse(&body).expect("a valid body");

    let shown = show(definition.clone()).to_string();
    let attributes = json!(render_delivery_attributes(&definition));
    for text in [shown, attributes.to_string(), format!("{definition:?}")] {
        assert!(!text.contains("canary"), "{text}");
    }
    let expected = "{'value': [
        {'name': 'X-Key', 'type': 'Static', 'properties': {'value': null, 'isSecret': true}},
        {'name': 'X-Open', 'type': 'Static', 'properties': {'value': 'open', 'isSecret': false}}]}";
    assert_eq!(attributes, read(expected));
    let stored = subscription_to_text(&definition);
    assert!(stored.contains("canary-header") && stored.contains("canary-query"));
}

#[test]
fn errors_hold_no_secrets() {
    for changes in [
        "{'endpointUrl': 'http://a/?code=canary'}",
        "{'endpointUrl': 'canary'}",
        "{'endpointUrl': ['canary']}",
        &headers(&[header("X", "canary\\n")]),
        &headers(&[header("X", &"canary".repeat(1_000))]),
        &headers(&[header("Host", "canary")]),
        &headers(&[header("X", "canary").replace("'canary'", "['canary']")]),
    ] {
        let invalid = parse(&webhook(changes)).expect_err(changes);
        let text = format!("{invalid} {invalid:?}");
        assert!(!text.contains("canary"), "{text}");
    }
}

/// A patch of the destination of a subscription whose header `X-Key` is secret.
fn patch_webhook(properties: &str) -> Result<WebHook, InvalidResource> {
    let known =
        "{'name': 'X-Key', 'type': 'Static', 'properties': {'value': 'old', 'isSecret': true}}";
    let body = webhook(&headers(&[known.to_owned(), header("X-Open", "open")]));
    let current = parse(&body).expect("a valid body");
    let destination = format!("{{'endpointType': 'WebHook', 'properties': {properties}}}");
    let patched = patch(&current, &format!("{{'destination': {destination}}}"))?;
    let Destination::WebHook(webhook) = patched.destination else {
        panic!("a webhook");
    };
    Ok(webhook)
}

#[test]
fn a_patched_destination_keeps_what_is_left_out() {
    let webhook = patch_webhook("{'maxEventsPerBatch': 7}").expect("a valid patch");
    assert_eq!(
        webhook.endpoint_url.reveal().as_str(),
        "https://shop.example/in"
    );
    assert_eq!(webhook.batch.max_events, Some(7));
    assert_eq!(webhook.attribute_mappings.len(), 2);
    let bare = patch_webhook("{'deliveryAttributeMappings': []}").expect("a valid patch");
    assert!(bare.attribute_mappings.is_empty());
}

#[test]
fn a_patched_destination_keeps_secret_values() {
    let missing = "properties.value: it is missing";
    for (name, properties, expected) in [
        ("X-Key", "{'isSecret': true}", "old, secret"),
        ("X-Key", "{'value': null, 'isSecret': true}", "old, secret"),
        ("x-key", "{}", "old, secret"),
        ("X-Key", "{'value': 'new', 'isSecret': true}", "new, secret"),
        ("X-Key", "{'value': 'new'}", "new, open"),
        // To show it takes knowing it.
        ("X-Key", "{'isSecret': false}", missing),
        ("X-Open", "{}", missing),
        ("X-Else", "{'isSecret': true}", missing),
    ] {
        let mapping = format!("{{'name': '{name}', 'type': 'Static', 'properties': {properties}}}");
        let found = match patch_webhook(&headers(&[mapping])) {
            Ok(webhook) => told(&webhook.attribute_mappings[0].value),
            Err(invalid) => invalid.to_string(),
        };
        assert!(found.contains(expected), "{name} {properties}: {found}");
    }
}

fn told(value: &AttributeValue) -> String {
    match value {
        AttributeValue::Static { value, is_secret } => {
            let shown = if *is_secret { "secret" } else { "open" };
            format!("{}, {shown}", value.reveal())
        }
        AttributeValue::Dynamic { source_field } => source_field.clone(),
    }
}
