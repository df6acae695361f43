//! What a delivery looks like on the wire: body, headers, headers of one's own.

use axum::http::HeaderMap;
use serde_json::{Value, json};

use super::{SECOND, check, publish};
use crate::grid::{Grid, event};

/// The newest delivery of a grid: its headers and its body.
fn newest(grid: &Grid) -> Result<Value, String> {
    let request = grid.heard("billing").pop().expect("a delivery");
    let body: Value = serde_json::from_slice(&request.body).expect("JSON");
    let form = match body.as_array() {
        Some(events) => format!("array of {}", events.len()),
        None => "one object".to_owned(),
    };
    Ok(
        json!({"method": request.method.as_str(), "url": request.url.as_str(),
        "headers": shown(&request.headers), "form": form, "body": body}),
    )
}

fn shown(headers: &HeaderMap) -> Value {
    let text =
        |value: &axum::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers
        .iter()
        .map(|(name, value)| (name.to_string(), Value::from(text(value))))
        .collect()
}

/// A subscription with this delivery schema, and `count` events delivered to it.
async fn deliver(schema: &str, webhook: Value, count: usize) -> Grid {
    let topic = match schema {
        "CustomInputSchema" => super::custom(&super::least_mapping()),
        _ => json!({}),
    };
    let properties = json!({"eventDeliverySchema": schema, "destination": {"properties": webhook}});
    let grid = Grid::new().await.topic_with("orders", topic).await;
    let grid = grid.push_with("orders", "billing", "200", properties).await;
    let events: Vec<Value> = (1..=count)
        .map(|number| event(&format!("e{number}")))
        .collect();
    let reply = publish(&grid, &[], &json!(events).to_string()).await;
    assert_eq!(reply.status.as_u16(), 200, "{}", reply.text);
    grid.run_for(SECOND).await;
    grid
}

#[tokio::test]
async fn bodies_by_schema_and_batching() {
    let (grid_type, cloud, batch) = (
        "application/json; charset=utf-8",
        "application/cloudevents+json; charset=utf-8",
        "application/cloudevents-batch+json; charset=utf-8",
    );
    for (row, schema, batching, count, form, content_type) in [
        (
            "Event Grid, batching off",
            "EventGridSchema",
            false,
            1,
            "array of 1",
            grid_type,
        ),
        (
            "Event Grid, batching on",
            "EventGridSchema",
            true,
            3,
            "array of 3",
            grid_type,
        ),
        (
            "Event Grid, batching on, one event",
            "EventGridSchema",
            true,
            1,
            "array of 1",
            grid_type,
        ),
        (
            "CloudEvents, batching off",
            "CloudEventSchemaV1_0",
            false,
            1,
            "one object",
            cloud,
        ),
        (
            "CloudEvents, batching on",
            "CloudEventSchemaV1_0",
            true,
            3,
            "array of 3",
            batch,
        ),
        (
            "CloudEvents, batching on, one event",
            "CloudEventSchemaV1_0",
            true,
            1,
            "array of 1",
            batch,
        ),
        (
            "custom, batching off",
            "CustomInputSchema",
            false,
            1,
            "array of 1",
            grid_type,
        ),
        (
            "custom, batching on",
            "CustomInputSchema",
            true,
            3,
            "array of 3",
            grid_type,
        ),
    ] {
        let webhook = if batching {
            json!({"maxEventsPerBatch": 10})
        } else {
            json!({})
        };
        let found = newest(&deliver(schema, webhook, count).await);
        check(
            "body of a delivery",
            row,
            &found,
            &format!("/form = {form:?}"),
        );
        check(
            "body of a delivery",
            row,
            &found,
            &format!("/headers/content-type = {content_type:?}"),
        );
    }
    let found = newest(&deliver("CustomInputSchema", json!({}), 1).await);
    let original = format!("/body/0 = {}", event("e1"));
    check(
        "body of a delivery",
        "custom: the original object",
        &found,
        &original,
    );
}

#[tokio::test]
async fn headers_of_a_delivery() {
    let table = "headers of a delivery";
    let grid = deliver("EventGridSchema", json!({}), 1).await;
    let cloud = deliver("CloudEventSchemaV1_0", json!({}), 1).await;
    let custom = deliver("CustomInputSchema", json!({}), 1).await;
    let batch = deliver("EventGridSchema", json!({"maxEventsPerBatch": 10}), 2).await;
    for (row, found, expected) in [
        ("method", &grid, "/method = \"POST\""),
        (
            "URL with its query",
            &grid,
            "/url = \"http://billing.test/hook?code=secret\"",
        ),
        (
            "aeg-event-type",
            &grid,
            "/headers/aeg-event-type = \"Notification\"",
        ),
        (
            "aeg-event-type, CloudEvents",
            &cloud,
            "/headers/aeg-event-type = \"Notification\"",
        ),
        (
            "aeg-subscription-name",
            &grid,
            "/headers/aeg-subscription-name = \"BILLING\"",
        ),
        (
            "aeg-delivery-count, first attempt",
            &grid,
            "/headers/aeg-delivery-count = \"0\"",
        ),
        (
            "aeg-data-version, Event Grid",
            &grid,
            "/headers/aeg-data-version = \"1.0\"",
        ),
        (
            "aeg-data-version, CloudEvents",
            &cloud,
            "/headers/aeg-data-version absent",
        ),
        (
            "aeg-metadata-version, Event Grid",
            &grid,
            "/headers/aeg-metadata-version = \"1\"",
        ),
        (
            "aeg-metadata-version, custom",
            &custom,
            "/headers/aeg-metadata-version = \"1\"",
        ),
        (
            "aeg-metadata-version, CloudEvents",
            &cloud,
            "/headers/aeg-metadata-version = \"1.0\"",
        ),
        (
            "aeg-output-event-id",
            &grid,
            "/headers/aeg-output-event-id is a UUID",
        ),
        (
            "aeg-output-event-id, several events",
            &batch,
            "/headers/aeg-output-event-id absent",
        ),
        (
            "Origin, CloudEvents",
            &cloud,
            "/headers/origin = \"eventgrid.azure.net\"",
        ),
        (
            "WebHook-Request-Origin, CloudEvents",
            &cloud,
            "/headers/webhook-request-origin = \"eventgrid.azure.net\"",
        ),
        ("Origin, Event Grid", &grid, "/headers/origin absent"),
        (
            "no traceparent of our own",
            &grid,
            "/headers/traceparent absent",
        ),
    ] {
        check(table, row, &newest(found), expected);
    }
    let grid = Grid::new()
        .await
        .topic("orders")
        .await
        .push("orders", "billing", "500 500 200")
        .await;
    grid.publish("orders", event("e1")).await;
    grid.run_for(SECOND * 60).await;
    let heard = grid.heard("billing");
    let values = |name: &str| -> Vec<Value> {
        heard
            .iter()
            .map(|request| shown(&request.headers)[name].clone())
            .collect()
    };
    assert_eq!(
        values("aeg-delivery-count"),
        ["0", "1", "2"],
        "{table}: aeg-delivery-count, retries"
    );
    let ids = values("aeg-output-event-id");
    let stable = ids.iter().all(|id| *id == ids[0]);
    assert!(
        stable,
        "{table}: aeg-output-event-id, stable over redelivery: {ids:?}"
    );
}

#[tokio::test]
async fn headers_of_ones_own() {
    let table = "custom delivery properties";
    let fixed = |name: &str, value: &str| json!({"name": name, "type": "Static", "properties": {"value": value}});
    let taken = |field: &str| json!({"name": "X-Own", "type": "Dynamic", "properties": {"sourceField": field}});
    for (row, mapping, expected) in [
        (
            "static",
            fixed("X-Own", "north"),
            "/headers/x-own = \"north\"",
        ),
        (
            "Authorization",
            fixed("Authorization", "Key 1"),
            "/headers/authorization = \"Key 1\"",
        ),
        ("dynamic, id", taken("id"), "/headers/x-own = \"e1\""),
        (
            "dynamic, topic",
            taken("topic"),
            &format!("/headers/x-own = {:?}", super::TOPIC_ID),
        ),
        (
            "dynamic, subject",
            taken("subject"),
            "/headers/x-own = \"/orders/7\"",
        ),
        (
            "dynamic, eventtype",
            taken("eventtype"),
            "/headers/x-own = \"Order.Paid\"",
        ),
        (
            "dynamic, dataversion",
            taken("dataversion"),
            "/headers/x-own = \"1.0\"",
        ),
        (
            "dynamic, a number of the data",
            taken("data.total"),
            "/headers/x-own = \"12.5\"",
        ),
        (
            "dynamic, nothing there",
            taken("data.nothing"),
            "/headers/x-own absent",
        ),
        ("dynamic, an object", taken("data"), "/headers/x-own absent"),
    ] {
        let webhook = json!({"deliveryAttributeMappings": [mapping]});
        let found = newest(&deliver("EventGridSchema", webhook, 1).await);
        check(table, row, &found, expected);
    }
    for (row, value, warning) in [
        (
            "dynamic, 4,097 bytes",
            "x".repeat(4_097),
            "\"The header X-Own was left out: its value has 4097 bytes, at most 4096 are sent.\"",
        ),
        (
            "dynamic, a line end",
            "a\r\nx-evil: 1".to_owned(),
            "\"The header X-Own was left out: its value has characters that no header can have, such as line ends.\"",
        ),
        ("dynamic, what a header can have", "ok".to_owned(), "null"),
    ] {
        let grid = Grid::new().await.topic("orders").await;
        let properties = json!({"destination": {"properties": {"deliveryAttributeMappings": [taken("data.text")]}}});
        let grid = grid.push_with("orders", "billing", "200", properties).await;
        let mut event = event("e1");
        event["data"] = json!({"text": value});
        grid.publish("orders", event).await;
        grid.run_for(std::time::Duration::from_secs(1)).await;
        let told = super::delivery(&grid, 1).await["deliveryAttempts"][0]["warning"].to_string();
        assert_eq!(told, warning, "{table}: {row}");
    }
    let grid = Grid::new().await.topic("orders").await;
    let (longest, longer) = ("x".repeat(4_096), "x".repeat(4_097));
    let secret = json!({"name": "X-Own", "type": "Static",
        "properties": {"value": "canary", "isSecret": true}});
    let of_first = "/properties/destination/properties/deliveryAttributeMappings/0";
    for (row, mapping, expected) in [
        (
            "value, 4,096 bytes",
            fixed("X-Own", &longest),
            &*format!("{of_first}/name = \"X-Own\""),
        ),
        (
            "value, 4,097 bytes",
            fixed("X-Own", &longer),
            "400 at most 4096",
        ),
        (
            "isSecret hides the value",
            secret,
            &format!("{of_first}/properties/value = null"),
        ),
        ("reserved, aeg-", fixed("aeg-x", "a"), "400 is reserved"),
        ("forbidden, Host", fixed("Host", "a"), "400 cannot be set"),
        (
            "forbidden, Content-Length",
            fixed("Content-Length", "1"),
            "400 cannot be set",
        ),
        (
            "forbidden, Content-Type",
            fixed("Content-Type", "a"),
            "400 cannot be set",
        ),
        (
            "forbidden, Connection",
            fixed("Connection", "a"),
            "400 cannot be set",
        ),
        (
            "forbidden, Transfer-Encoding",
            fixed("Transfer-Encoding", "a"),
            "400 cannot be set",
        ),
        (
            "no token",
            fixed("X Own", "a"),
            "400 is not the name of a header",
        ),
    ] {
        let body = json!({"properties": {"destination": {"endpointType": "WebHook", "properties": {
            "endpointUrl": "http://billing.test/", "skipValidation": true,
            "deliveryAttributeMappings": [mapping]}}}});
        let path = "/topics/orders/eventSubscriptions/billing";
        let reply = grid.manage(axum::http::Method::PUT, path, body).await;
        check(table, row, &super::told(&reply), expected);
    }
}
