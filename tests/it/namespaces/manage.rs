//! The resources (table 1), the document of a subscription (1.1) and the quotas (9).

use axum::http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};

use super::{
    NAMESPACE, SUBSCRIPTION, TOPIC, definition, get, grid, key, put, rejected, subscribed,
};
use crate::grid::Grid;

const ARM: &str = "/subscriptions/sub/resourceGroups/group/providers/Microsoft.EventGrid";

#[tokio::test]
async fn table_1_namespaces_are_created_read_patched_listed_and_deleted() {
    let grid = Grid::new().await;
    let body = json!({"location": "westeurope", "tags": {"team": "shop"},
        "sku": {"name": "Standard", "capacity": 2}, "properties": {"minimumTlsVersionAllowed": "1.2"}});
    let created = put(&grid, &format!("{ARM}/namespaces/Shop"), body).await;
    assert_eq!(created["id"], format!("{ARM}/namespaces/Shop"));
    assert_eq!(created["type"], "Microsoft.EventGrid/namespaces");
    assert_eq!(created["sku"], json!({"name": "Standard", "capacity": 2}));
    let properties = &created["properties"];
    assert_eq!(properties["provisioningState"], "Succeeded");
    assert_eq!(
        properties["topicsConfiguration"]["hostname"],
        "everpost.test"
    );
    assert_eq!(properties["publicNetworkAccess"], "Enabled");
    assert_eq!(properties["minimumTlsVersionAllowed"], "1.2");
    let patch = json!({"tags": {"team": "billing"}});
    let patched = grid.manage(Method::PATCH, NAMESPACE, patch).await;
    assert_eq!(patched.status, StatusCode::OK, "{}", patched.text);
    let read = get(&grid, NAMESPACE).await;
    assert_eq!(read["tags"], json!({"team": "billing"}));
    assert_eq!(
        (&read["name"], &read["sku"]["capacity"]),
        (&json!("Shop"), &json!(2))
    );
    let all = get(
        &grid,
        "/subscriptions/sub/providers/Microsoft.EventGrid/namespaces",
    )
    .await;
    assert_eq!(all["value"], json!([read]));
    for _ in 0..2 {
        let deleted = grid.manage(Method::DELETE, NAMESPACE, Value::Null).await;
        assert_eq!(deleted.status, StatusCode::NO_CONTENT);
    }
    let gone = grid.manage(Method::GET, NAMESPACE, Value::Null).await;
    gone.error(404, "ResourceNotFound");
}

#[tokio::test]
async fn table_1_names_and_locations_are_checked() {
    let grid = grid().await;
    for name in [
        "ab",
        "microsoft-x",
        "System-",
        "eventgrid-x",
        "under_score",
        &"x".repeat(51),
    ] {
        let body = json!({"location": "l"});
        let reply = grid
            .manage(Method::PUT, &format!("/namespaces/{name}"), body)
            .await;
        reply.error(400, "InvalidRequest");
        let reply = grid
            .manage(
                Method::PUT,
                &format!("{NAMESPACE}/topics/{name}"),
                json!({}),
            )
            .await;
        reply.error(400, "InvalidRequest");
    }
    let long = format!("{TOPIC}/eventSubscriptions/{}", "x".repeat(51));
    let reply = grid
        .manage(Method::PUT, &long, definition(json!({}), json!({})))
        .await;
    reply.error(400, "InvalidRequest");
    grid.manage(Method::PUT, "/namespaces/nowhere", json!({}))
        .await
        .error(400, "LocationRequired");
    for (body, target) in [
        (
            json!({"location": "l", "sku": {"capacity": 41}}),
            "sku.capacity",
        ),
        (
            json!({"location": "l", "sku": {"name": "Basic"}}),
            "sku.name",
        ),
        (
            json!({"location": "l", "properties": {"inboundIpRules": [{"ipMask": "x"}]}}),
            "properties.inboundIpRules[0].ipMask",
        ),
        (
            json!({"location": "l", "properties": {"topicSpacesConfiguration": {"state": "Enabled"}}}),
            "properties.topicSpacesConfiguration.state",
        ),
    ] {
        let reply = grid.manage(Method::PUT, "/namespaces/other", body).await;
        reply.error(400, "InvalidRequest");
        assert_eq!(reply.json()["error"]["target"], target);
    }
}

#[tokio::test]
async fn table_1_keys_are_listed_and_renewed_one_at_a_time() {
    let grid = grid().await;
    for path in [NAMESPACE, TOPIC] {
        let list = format!("{path}/listKeys");
        let before = grid.manage(Method::POST, &list, Value::Null).await.json();
        let renew = format!("{path}/regenerateKey");
        let after = grid
            .manage(Method::POST, &renew, json!({"keyName": "key1"}))
            .await;
        let after = after.json();
        assert_ne!(before["key1"], after["key1"]);
        assert_eq!(before["key2"], after["key2"]);
        assert_eq!(
            after,
            grid.manage(Method::POST, &list, Value::Null).await.json()
        );
    }
}

#[tokio::test]
async fn table_1_topics_keep_events_for_one_to_seven_days() {
    let grid = grid().await;
    let created = get(&grid, TOPIC).await;
    assert_eq!(created["name"], "orders");
    assert_eq!(
        created["id"],
        format!("{ARM}/namespaces/shop/topics/orders")
    );
    assert_eq!(created["type"], "Microsoft.EventGrid/namespaces/topics");
    let properties = &created["properties"];
    assert_eq!(properties["publisherType"], "Custom");
    assert_eq!(properties["inputSchema"], "CloudEventSchemaV1_0");
    assert_eq!(properties["eventRetentionInDays"], 1);
    let patch = json!({"properties": {"eventRetentionInDays": 7}});
    grid.manage(Method::PATCH, TOPIC, patch).await;
    assert_eq!(
        get(&grid, TOPIC).await["properties"]["eventRetentionInDays"],
        7
    );
    grid.manage(Method::PATCH, TOPIC, json!({})).await;
    assert_eq!(
        get(&grid, TOPIC).await["properties"]["eventRetentionInDays"],
        7
    );
    for (properties, target) in [
        (
            json!({"eventRetentionInDays": 0}),
            "properties.eventRetentionInDays",
        ),
        (
            json!({"eventRetentionInDays": 8}),
            "properties.eventRetentionInDays",
        ),
        (
            json!({"inputSchema": "EventGridSchema"}),
            "properties.inputSchema",
        ),
        (
            json!({"publisherType": "Partner"}),
            "properties.publisherType",
        ),
    ] {
        let reply = grid
            .manage(Method::PUT, TOPIC, json!({ "properties": properties }))
            .await;
        reply.error(400, "InvalidRequest");
        assert_eq!(reply.json()["error"]["target"], target);
    }
    let missing = grid
        .manage(Method::PUT, "/namespaces/nobody/topics/orders", json!({}))
        .await;
    missing.error(404, "ResourceNotFound");
    let topics = get(&grid, &format!("{NAMESPACE}/topics")).await;
    assert_eq!(topics["value"][0]["name"], "orders");
    // Namespace topics and custom topics do not see each other.
    let customs = get(&grid, "/topics").await;
    let customs = customs["value"].as_array().expect("a list").iter();
    let made = customs.filter(|topic| topic["properties"]["builtIn"] != true);
    assert_eq!(made.count(), 0);
    grid.manage(Method::GET, "/topics/shop%2Forders", Value::Null)
        .await
        .error(400, "InvalidRequest");
}

#[tokio::test]
async fn table_1_a_topic_of_the_same_name_is_another_one_elsewhere() {
    let grid = grid().await.topic("orders").await;
    put(&grid, "/namespaces/depot", json!({"location": "l"})).await;
    put(&grid, "/namespaces/depot/topics/orders", json!({})).await;
    let keys = [
        key(&grid, TOPIC).await,
        key(&grid, "/namespaces/depot/topics/orders").await,
        key(&grid, "/topics/orders").await,
    ];
    assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2]);
    grid.manage(Method::DELETE, "/namespaces/depot", Value::Null)
        .await;
    get(&grid, TOPIC).await;
    get(&grid, "/topics/orders").await;
}

#[tokio::test]
async fn table_1_1_a_subscription_is_shown_as_it_was_sent_without_secrets() {
    let push = json!({
        "maxDeliveryCount": 4, "eventTimeToLive": "PT1H", "schedule": ["PT1S", "PT1M"],
        "destination": {"properties": {
            "maxEventsPerBatch": 5, "preferredBatchSizeInKilobytes": 32,
            "responseDeadlineInSeconds": 60, "maxRequestsInFlight": 2, "maxRequestsPerSecond": 0.5,
            "deliveryAttributeMappings": [
                {"name": "X-A", "type": "Static", "properties": {"value": "1", "isSecret": true}},
                {"name": "X-B", "type": "Dynamic", "properties": {"sourceField": "data.total"}}]}},
        "deadLetterDestinationWithResourceIdentity": {
            "deadLetterDestination": {"endpointType": "StorageBlob",
                "properties": {"resourceId": "/r", "blobContainerName": "dead"}}},
    });
    let properties = json!({
        "filtersConfiguration": {"includedEventTypes": ["Order.Paid"],
            "filters": [{"operatorType": "StringIn", "key": "subject", "values": ["/orders/7"]}]},
        "expirationTimeUtc": "2027-01-01T00:00:00Z", "labels": ["a"], "paused": true,
        "disableOnGone": true, "eventDeliverySchema": "CloudEventSchemaV1_0",
    });
    let grid = subscribed("200", push, properties.clone()).await;
    let grid = grid.restarted().await;
    let shown = get(&grid, SUBSCRIPTION).await;
    assert_eq!(
        shown["type"],
        "Microsoft.EventGrid/namespaces/topics/eventSubscriptions"
    );
    let found = &shown["properties"];
    for name in [
        "filtersConfiguration",
        "labels",
        "paused",
        "disableOnGone",
        "eventDeliverySchema",
    ] {
        assert_eq!(found[name], properties[name], "{name}");
    }
    assert_eq!(found["expirationTimeUtc"], "2027-01-01T00:00:00Z");
    assert_eq!(found["deliveryConfiguration"]["deliveryMode"], "Push");
    let push = &found["deliveryConfiguration"]["push"];
    assert_eq!(
        (&push["maxDeliveryCount"], &push["eventTimeToLive"]),
        (&json!(4), &json!("PT1H"))
    );
    assert_eq!(push["schedule"], json!(["PT1S", "PT1M"]));
    let webhook = &push["destination"]["properties"];
    assert_eq!(webhook["endpointBaseUrl"], "http://billing.test/hook");
    assert_eq!(
        webhook["deliveryAttributeMappings"][0]["properties"]["value"],
        Value::Null
    );
    assert_eq!(
        (
            &webhook["maxEventsPerBatch"],
            &webhook["maxRequestsInFlight"]
        ),
        (&json!(5), &json!(2))
    );
    assert!(!shown.to_string().contains("secret\""), "{shown}");
    let dead = &push["deadLetterDestinationWithResourceIdentity"]["deadLetterDestination"];
    assert_eq!(dead["properties"]["blobContainerName"], "dead");
    let full = format!("{SUBSCRIPTION}/getFullUrl");
    let full = grid.manage(Method::POST, &full, Value::Null).await.json();
    assert_eq!(full["endpointUrl"], "http://billing.test/hook?code=secret");
    let headers = format!("{SUBSCRIPTION}/getDeliveryAttributes");
    let headers = grid
        .manage(Method::POST, &headers, Value::Null)
        .await
        .json();
    assert_eq!(
        headers["value"][1]["properties"]["sourceField"],
        "data.total"
    );
}

#[tokio::test]
async fn table_1_1_what_is_left_out_has_its_default() {
    let grid = subscribed("200", json!({}), json!({})).await;
    let push =
        get(&grid, SUBSCRIPTION).await["properties"]["deliveryConfiguration"]["push"].clone();
    assert_eq!(push["maxDeliveryCount"], 10);
    assert_eq!(push["eventTimeToLive"], "P1D", "the topic's retention");
    for (of, name) in [
        (&push["destination"]["properties"], "maxEventsPerBatch"),
        (&push, "deadLetterDestinationWithResourceIdentity"),
    ] {
        assert_eq!(of.get(name), None, "nobody set it: {push}");
    }
    // The retention is what it is now.
    let patch = json!({"properties": {"eventRetentionInDays": 3}});
    grid.manage(Method::PATCH, TOPIC, patch).await;
    let shown = get(&grid, SUBSCRIPTION).await;
    assert_eq!(
        shown["properties"]["deliveryConfiguration"]["push"]["eventTimeToLive"],
        "P3D"
    );
}

#[tokio::test]
async fn table_1_1_wrong_documents_are_rejected_with_the_place() {
    let grid = grid().await;
    let push = |push| definition(push, json!({}));
    let own = |properties| definition(json!({}), properties);
    let at = "properties.deliveryConfiguration";
    for (body, target, problem) in [
        (json!({"properties": {}}), at.to_owned(), "missing"),
        (
            json!({"deliveryConfiguration": {}}),
            "deliveryConfiguration".to_owned(),
            "belongs into",
        ),
        (
            own(json!({"deliveryConfiguration": {"deliveryMode": "Pull"}})),
            format!("{at}.deliveryMode"),
            "\"Queue\" or \"Push\"",
        ),
        (
            push(json!({"maxDeliveryCount": 11})),
            format!("{at}.push.maxDeliveryCount"),
            "1 to 10",
        ),
        (
            push(json!({"maxDeliveryCount": 0})),
            format!("{at}.push.maxDeliveryCount"),
            "1 to 10",
        ),
        (
            push(json!({"eventTimeToLive": "P2D"})),
            format!("{at}.push.eventTimeToLive"),
            "at most P1D",
        ),
        (
            push(json!({"eventTimeToLive": "PT30S"})),
            format!("{at}.push.eventTimeToLive"),
            "whole minutes",
        ),
        (
            push(json!({"eventTimeToLive": "PT90S"})),
            format!("{at}.push.eventTimeToLive"),
            "whole minutes",
        ),
        (
            push(json!({"eventTimeToLive": "1 day"})),
            format!("{at}.push.eventTimeToLive"),
            "no duration",
        ),
        (
            push(json!({"maxDeliveryCout": 3})),
            format!("{at}.push.maxDeliveryCout"),
            "maxDeliveryCount",
        ),
        (
            push(json!({"deliveryWithResourceIdentity": {}})),
            format!("{at}.push.deliveryWithResourceIdentity"),
            "no managed identities",
        ),
        (
            push(json!({"destination": {"endpointType": "EventHub"}})),
            format!("{at}.push.destination.endpointType"),
            "not supported here",
        ),
        (
            push(json!({"destination": {"properties": {"maxEventsPerBatch": 5_001}}})),
            format!("{at}.push.destination.properties.maxEventsPerBatch"),
            "5000",
        ),
        (
            push(
                json!({"destination": {"properties": {"deliveryAttributeMappings":
            vec![json!({"name": "X-A", "type": "Static", "properties": {"value": "1"}}); 11]}}}),
            ),
            format!("{at}.push.destination.properties.deliveryAttributeMappings"),
            "at most 10",
        ),
        (
            push(json!({"deadLetterDestinationWithResourceIdentity": {}})),
            format!("{at}.push.deadLetterDestinationWithResourceIdentity.deadLetterDestination"),
            "missing",
        ),
        (
            push(json!({"deadLetterDestinationWithResourceIdentity": {
                "identity": {"type": "SystemAssigned"}, "deadLetterDestination": {
                    "endpointType": "StorageBlob", "properties": {"blobContainerName": "dead"}}}})),
            format!("{at}.push.deadLetterDestinationWithResourceIdentity.identity"),
            "no managed identities",
        ),
        (
            own(json!({"eventDeliverySchema": "EventGridSchema"})),
            "properties.eventDeliverySchema".to_owned(),
            "CloudEventSchemaV1_0",
        ),
        (
            own(json!({"filtersConfiguration": {"subjectBeginsWith": "/"}})),
            "properties.filtersConfiguration.subjectBeginsWith".to_owned(),
            "there is no such property",
        ),
        (
            own(json!({"expirationTimeUtc": "2020-01-01T00:00:00Z"})),
            "properties.expirationTimeUtc".to_owned(),
            "future",
        ),
    ] {
        let (found, message) = rejected(&grid, body.clone()).await;
        assert_eq!(found, target, "{body}: {message}");
        assert!(message.contains(problem), "{body}: {message}");
    }
    let listed = get(&grid, &format!("{TOPIC}/eventSubscriptions")).await;
    assert_eq!(listed["value"], json!([]), "nothing half stored");
}

#[tokio::test]
async fn table_1_1_a_patch_keeps_what_it_does_not_mention() {
    let push = json!({"eventTimeToLive": "PT1H", "deadLetterDestinationWithResourceIdentity": {"deadLetterDestination": {"endpointType": "Drop"}}});
    let grid = subscribed("200", push, json!({"labels": ["a"]})).await;
    let patch = json!({"properties": {"deliveryConfiguration": {"push": {"maxDeliveryCount": 3}},
        "filtersConfiguration": {"includedEventTypes": ["T"]}}});
    let patched = grid.manage(Method::PATCH, SUBSCRIPTION, patch).await;
    assert_eq!(patched.status, StatusCode::OK, "{}", patched.text);
    let shown = patched.json()["properties"].clone();
    let push = &shown["deliveryConfiguration"]["push"];
    assert_eq!(
        (&push["maxDeliveryCount"], &push["eventTimeToLive"]),
        (&json!(3), &json!("PT1H"))
    );
    assert_eq!(
        push["deadLetterDestinationWithResourceIdentity"]["deadLetterDestination"],
        json!({"endpointType": "Drop"})
    );
    assert_eq!(shown["labels"], json!(["a"]));
    assert_eq!(
        shown["filtersConfiguration"]["includedEventTypes"],
        json!(["T"])
    );
    let full = format!("{SUBSCRIPTION}/getFullUrl");
    let full = grid.manage(Method::POST, &full, Value::Null).await.json();
    assert_eq!(full["endpointUrl"], "http://billing.test/hook?code=secret");
}

#[tokio::test]
async fn table_6_1_consent_is_asked_for_before_anything_is_stored() {
    let grid = grid().await;
    let asked = || {
        definition(
            json!({"destination": {"properties": {"skipValidation": false}}}),
            json!({}),
        )
    };
    let origin = |allowed: &str| vec![("webhook-allowed-origin", allowed.to_owned())];
    for (status, headers, why) in [
        (200, Vec::new(), "without WebHook-Allowed-Origin"),
        (204, origin("*"), "only 200 counts"),
        (405, origin("*"), "only 200 counts"),
        (200, origin("example.com"), "neither"),
    ] {
        grid.answer("billing", status, headers, String::new());
        let reply = grid.manage(Method::PUT, SUBSCRIPTION, asked()).await;
        let message = reply.error(400, "Url validation");
        assert!(
            message.contains(why) && !message.contains("secret"),
            "{message}"
        );
        grid.manage(Method::GET, SUBSCRIPTION, Value::Null)
            .await
            .error(404, "ResourceNotFound");
    }
    grid.script("billing", "rejected");
    let reply = grid.manage(Method::PUT, SUBSCRIPTION, asked()).await;
    reply.error(400, "Url validation");

    let mut agreed = origin("eventgrid.azure.net");
    agreed.push(("webhook-allowed-rate", "1".to_owned()));
    grid.answer("billing", 200, agreed, String::new());
    let created = put(&grid, SUBSCRIPTION, asked()).await;
    assert_eq!(created["properties"]["provisioningState"], "Succeeded");
    let rate = &created["properties"]["everpost"]["allowedRequestsPerMinute"];
    assert_eq!(*rate, Value::Null, "the rate is not read");
    let heard = grid.heard("billing");
    let request = heard.last().expect("a question");
    assert_eq!(request.method, Method::OPTIONS);
    assert_eq!(
        request.headers["webhook-request-origin"],
        "eventgrid.azure.net"
    );
    assert_no_callback(&request.headers);

    // What the receiver agreed to is not asked again; another receiver is.
    let questions = grid.heard("billing").len();
    put(&grid, SUBSCRIPTION, asked()).await;
    assert_eq!(grid.heard("billing").len(), questions);
    grid.answer("other", 500, Vec::new(), String::new());
    let other = json!({"properties": {"deliveryConfiguration": {"push": {"destination":
        {"endpointType": "WebHook", "properties": {"endpointUrl": "http://other.test/"}}}}}});
    let reply = grid.manage(Method::PATCH, SUBSCRIPTION, other).await;
    reply.error(400, "Url validation");
    let shown = get(&grid, SUBSCRIPTION).await;
    let webhook = &shown["properties"]["deliveryConfiguration"]["push"]["destination"];
    assert_eq!(
        webhook["properties"]["endpointBaseUrl"],
        "http://billing.test/hook"
    );
}

fn assert_no_callback(headers: &HeaderMap) {
    assert!(!headers.contains_key("webhook-request-callback"));
    assert!(!headers.contains_key("webhook-request-rate"));
}

#[tokio::test]
async fn table_9_namespaces_and_their_topics_are_counted() {
    let grid = grid().await;
    for number in 1..100 {
        put(
            &grid,
            &format!("{NAMESPACE}/topics/topic-{number}"),
            json!({}),
        )
        .await;
    }
    let reply = grid
        .manage(
            Method::PUT,
            &format!("{NAMESPACE}/topics/one-more"),
            json!({}),
        )
        .await;
    let message = reply.error(409, "Conflict");
    assert!(message.contains("100 topics"), "{message}");
    let patch = json!({"sku": {"capacity": 2}});
    grid.manage(Method::PATCH, NAMESPACE, patch).await;
    put(&grid, &format!("{NAMESPACE}/topics/one-more"), json!({})).await;

    for number in 1..50 {
        put(
            &grid,
            &format!("/namespaces/name-{number}"),
            json!({"location": "l"}),
        )
        .await;
    }
    let reply = grid
        .manage(
            Method::PUT,
            "/namespaces/one-more",
            json!({"location": "l"}),
        )
        .await;
    reply.error(409, "Conflict");
}

#[tokio::test]
async fn a_deleted_namespace_ends_what_was_under_way_and_frees_its_names() {
    let grid = subscribed("503", json!({}), json!({})).await;
    super::publish(&grid, json!([super::cloud_event("e1")])).await;
    grid.run_for(super::SECOND).await;
    let reply = grid
        .manage(
            Method::DELETE,
            &format!("{NAMESPACE}?pending=deadLetter"),
            Value::Null,
        )
        .await;
    assert_eq!(reply.status, StatusCode::NO_CONTENT);
    assert_eq!(
        grid.timeline("billing").await,
        "e1 +0s=503 DeadLettered +1s SubscriptionDeleted"
    );
    let heard = grid.heard("billing").len();
    assert_eq!(heard, 1, "no farewell in namespaces");
    put(&grid, NAMESPACE, json!({"location": "local"})).await;
    grid.manage(Method::GET, TOPIC, Value::Null)
        .await
        .error(404, "ResourceNotFound");
    put(&grid, TOPIC, json!({})).await;
}
