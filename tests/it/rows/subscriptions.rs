//! The properties of an event subscription: defaults and ranges.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{TOPIC_ID, check, told};
use crate::grid::Grid;

/// What a PUT of a webhook says with these properties, and these of its destination.
async fn put(grid: &Grid, properties: &Value, webhook: &Value) -> Result<Value, String> {
    let mut destination = json!({"endpointType": "WebHook", "properties": {
        "endpointUrl": "https://billing.test/in?k=abc", "skipValidation": true}});
    for (name, value) in webhook.as_object().expect("an object") {
        destination["properties"][name] = value.clone();
    }
    let mut all = json!({ "destination": destination });
    for (name, value) in properties.as_object().expect("an object") {
        all[name] = value.clone();
    }
    let path = "/topics/orders/eventSubscriptions/billing";
    let reply = grid
        .manage(Method::PUT, path, json!({ "properties": all }))
        .await;
    let shown = told(&reply)?;
    Ok(shown["properties"].clone())
}

#[tokio::test]
async fn properties_and_their_ranges() {
    let grid = Grid::new().await.topic("orders").await;
    let policy = |name: &str, value: Value| json!({"retryPolicy": {name: value}});
    let attempts = |value: u32| policy("maxDeliveryAttempts", json!(value));
    let minutes = |value: u32| policy("eventTimeToLiveInMinutes", json!(value));
    let blob = json!({"endpointType": "StorageBlob",
        "properties": {"resourceId": "/local/store", "blobContainerName": "dead"}});
    let topic = format!("/topic = {TOPIC_ID:?}");
    for (row, properties, expected) in [
        (
            "destination.endpointType",
            json!({}),
            "/destination/endpointType = \"WebHook\"",
        ),
        (
            "filter, default",
            json!({}),
            "/filter/includedEventTypes absent",
        ),
        (
            "filter, any subject by default",
            json!({}),
            "/filter/subjectBeginsWith = \"\"",
        ),
        (
            "filter.isSubjectCaseSensitive, default",
            json!({}),
            "/filter/isSubjectCaseSensitive = false",
        ),
        ("labels, default", json!({}), "/labels absent"),
        (
            "labels",
            json!({"labels": ["billing"]}),
            "/labels = [\"billing\"]",
        ),
        (
            "labels, no strings",
            json!({"labels": [1]}),
            "400 labels[0]: it must be a string",
        ),
        (
            "expirationTimeUtc, default",
            json!({}),
            "/expirationTimeUtc absent",
        ),
        (
            "expirationTimeUtc, in the future",
            json!({"expirationTimeUtc": "2030-01-01T00:00:00Z"}),
            "/expirationTimeUtc = \"2030-01-01T00:00:00Z\"",
        ),
        (
            "expirationTimeUtc, in the past",
            json!({"expirationTimeUtc": "2026-11-21T11:59:59Z"}),
            "400 Invalid expiration time",
        ),
        (
            "expirationTimeUtc, no date",
            json!({"expirationTimeUtc": "tomorrow"}),
            "400 Invalid expiration time",
        ),
        (
            "eventDeliverySchema, default",
            json!({}),
            "/eventDeliverySchema = \"EventGridSchema\"",
        ),
        (
            "eventDeliverySchema, unknown",
            json!({"eventDeliverySchema": "CloudEventSchemaV2"}),
            "400 eventDeliverySchema",
        ),
        (
            "maxDeliveryAttempts, default",
            json!({}),
            "/retryPolicy/maxDeliveryAttempts = 30",
        ),
        (
            "maxDeliveryAttempts, least",
            attempts(1),
            "/retryPolicy/maxDeliveryAttempts = 1",
        ),
        (
            "maxDeliveryAttempts, most",
            attempts(30),
            "/retryPolicy/maxDeliveryAttempts = 30",
        ),
        (
            "maxDeliveryAttempts, 0",
            attempts(0),
            "400 from 1 to 30, but it is 0",
        ),
        (
            "maxDeliveryAttempts, 31",
            attempts(31),
            "400 from 1 to 30, but it is 31",
        ),
        (
            "time to live, default",
            json!({}),
            "/retryPolicy/eventTimeToLiveInMinutes = 1440",
        ),
        (
            "time to live, least",
            minutes(1),
            "/retryPolicy/eventTimeToLiveInMinutes = 1",
        ),
        (
            "time to live, most",
            minutes(1_440),
            "/retryPolicy/eventTimeToLiveInMinutes = 1440",
        ),
        (
            "time to live, 0",
            minutes(0),
            "400 from 1 to 1440, but it is 0",
        ),
        (
            "time to live, 1441",
            minutes(1_441),
            "400 from 1 to 1440, but it is 1441",
        ),
        (
            "deadLetterDestination, default",
            json!({}),
            "/deadLetterDestination absent",
        ),
        (
            "deadLetterDestination, StorageBlob",
            json!({"deadLetterDestination": blob}),
            "/deadLetterDestination/properties/blobContainerName = \"dead\"",
        ),
        (
            "deadLetterDestination, another type",
            json!({"deadLetterDestination": {"endpointType": "WebHook"}}),
            "400 it must be \"Drop\" or \"StorageBlob\"",
        ),
        (
            "deliveryWithResourceIdentity",
            json!({"deliveryWithResourceIdentity": {}}),
            "400 deliveryWithResourceIdentity",
        ),
        (
            "deadLetterWithResourceIdentity",
            json!({"deadLetterWithResourceIdentity": {}}),
            "400 deadLetterWithResourceIdentity",
        ),
        ("topic, read only", json!({"topic": "x"}), &topic),
        (
            "provisioningState, read only",
            json!({"provisioningState": "Failed"}),
            "/provisioningState = \"Succeeded\"",
        ),
    ] {
        let found = put(&grid, &properties, &json!({})).await;
        check("properties of an event subscription", row, &found, expected);
    }
}

#[tokio::test]
async fn properties_of_a_webhook() {
    let at = |rest: &str| match rest.starts_with('/') {
        true => format!("/destination/properties{rest}"),
        false => rest.to_owned(),
    };
    let grid = Grid::new().await.topic("orders").await;
    let not_https =
        "400 Supplied URL is invalid. It cannot be null or empty and should be a proper";
    let header = |count: usize| -> Value {
        let each = |at| {
            json!({"name": format!("X-{at}"), "type": "Static",
            "properties": {"value": "a"}})
        };
        json!({"deliveryAttributeMappings": (0..count).map(each).collect::<Vec<_>>()})
    };
    for (row, webhook, expected) in [
        ("endpointUrl, empty", json!({"endpointUrl": ""}), not_https),
        ("endpointUrl, null", json!({"endpointUrl": null}), not_https),
        (
            "endpointUrl, not absolute",
            json!({"endpointUrl": "billing.test"}),
            not_https,
        ),
        (
            "endpointUrl, another scheme",
            json!({"endpointUrl": "ftp://billing.test"}),
            not_https,
        ),
        (
            "endpointUrl, never shown with its query",
            json!({}),
            "/endpointUrl absent",
        ),
        (
            "endpointBaseUrl",
            json!({}),
            "/endpointBaseUrl = \"https://billing.test/in\"",
        ),
        (
            "maxEventsPerBatch, default",
            json!({}),
            "/maxEventsPerBatch absent",
        ),
        (
            "maxEventsPerBatch, least",
            json!({"maxEventsPerBatch": 1}),
            "/maxEventsPerBatch = 1",
        ),
        (
            "maxEventsPerBatch, most",
            json!({"maxEventsPerBatch": 5_000}),
            "/maxEventsPerBatch = 5000",
        ),
        (
            "maxEventsPerBatch, 0",
            json!({"maxEventsPerBatch": 0}),
            "400 from 1 to 5000",
        ),
        (
            "maxEventsPerBatch, 5001",
            json!({"maxEventsPerBatch": 5_001}),
            "400 from 1 to 5000",
        ),
        (
            "preferredBatchSizeInKilobytes, default",
            json!({}),
            "/preferredBatchSizeInKilobytes absent",
        ),
        (
            "preferredBatchSizeInKilobytes, least",
            json!({"preferredBatchSizeInKilobytes": 1}),
            "/preferredBatchSizeInKilobytes = 1",
        ),
        (
            "preferredBatchSizeInKilobytes, most",
            json!({"preferredBatchSizeInKilobytes": 1_024}),
            "/preferredBatchSizeInKilobytes = 1024",
        ),
        (
            "preferredBatchSizeInKilobytes, 0",
            json!({"preferredBatchSizeInKilobytes": 0}),
            "400 from 1 to 1024",
        ),
        (
            "preferredBatchSizeInKilobytes, 1025",
            json!({"preferredBatchSizeInKilobytes": 1_025}),
            "400 from 1 to 1024",
        ),
        (
            "deliveryAttributeMappings, default",
            json!({}),
            "/deliveryAttributeMappings absent",
        ),
        (
            "deliveryAttributeMappings, ten",
            header(10),
            "/deliveryAttributeMappings/9/name = \"X-9\"",
        ),
        (
            "deliveryAttributeMappings, eleven",
            header(11),
            "400 at most 10",
        ),
        (
            "isSecret, default",
            header(1),
            "/deliveryAttributeMappings/0/properties/isSecret = false",
        ),
        (
            "azureActiveDirectoryTenantId",
            json!({"azureActiveDirectoryTenantId": "x"}),
            "400 azureActiveDirectoryTenantId: tokens of Microsoft Entra are not supported here",
        ),
        (
            "azureActiveDirectoryApplicationIdOrUri",
            json!({"azureActiveDirectoryApplicationIdOrUri": "x"}),
            "400 azureActiveDirectoryApplicationIdOrUri: tokens of Microsoft Entra are not supported here",
        ),
        (
            "minimumTlsVersionAllowed, 1.2",
            json!({"minimumTlsVersionAllowed": "1.2"}),
            "",
        ),
        (
            "minimumTlsVersionAllowed, 1.4",
            json!({"minimumTlsVersionAllowed": "1.4"}),
            "400 1.2",
        ),
    ] {
        let found = put(&grid, &json!({}), &webhook).await;
        let expected = match expected {
            "" => "/endpointBaseUrl = \"https://billing.test/in\"",
            expected => expected,
        };
        check("properties of a webhook", row, &found, &at(expected));
    }
}

#[tokio::test]
async fn names_and_types_of_destinations() {
    let table = "properties of an event subscription";
    let grid = Grid::new().await.topic("orders").await;
    let put = async |name: &str, kind: &str| -> StatusCode {
        let body = json!({"properties": {"destination": {"endpointType": kind, "properties": {
            "endpointUrl": "https://billing.test/in", "skipValidation": true}}}});
        let path = format!("/topics/orders/eventSubscriptions/{name}");
        grid.manage(Method::PUT, &path, body).await.status
    };
    let (longest, longer) = ("x".repeat(64), "x".repeat(65));
    for (row, name, status) in [
        ("name, 2 characters", "ab", 400),
        ("name, 3 characters", "abc", 201),
        ("name, 64 characters", &longest, 201),
        ("name, 65 characters", &longer, 400),
        ("name, letters, digits and hyphens", "a-Z-9", 201),
        ("name, an underscore", "a_b", 400),
    ] {
        assert_eq!(
            put(name, "WebHook").await.as_u16(),
            status,
            "{table}: {row}"
        );
    }
    for (row, kind, status) in [
        ("endpointType, WebHook", "WebHook", 201),
        ("endpointType, in any letter case", "WEBHOOK", 200),
        ("endpointType, EventHub", "EventHub", 400),
        ("endpointType, StorageQueue", "StorageQueue", 400),
        ("endpointType, HybridConnection", "HybridConnection", 400),
        ("endpointType, ServiceBusQueue", "ServiceBusQueue", 400),
        ("endpointType, ServiceBusTopic", "ServiceBusTopic", 400),
        ("endpointType, AzureFunction", "AzureFunction", 400),
        ("endpointType, MonitorAlert", "MonitorAlert", 400),
        ("endpointType, NamespaceTopic", "NamespaceTopic", 400),
        (
            "endpointType, PartnerDestination",
            "PartnerDestination",
            400,
        ),
    ] {
        let found = put("kinds", kind).await.as_u16();
        assert_eq!(found == 400, status == 400, "{table}: {row}: {found}");
    }
}
