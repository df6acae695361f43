//! Input schemas, delivery schemas, and what becomes of an event between them.

use axum::http::Method;
use serde_json::{Value, json};

use super::{TOPIC_ID, check, custom, delivered, least_mapping, told};
use crate::grid::{Grid, event};

fn input(schema: &str) -> Value {
    match schema {
        "CustomEventSchema" => custom(&least_mapping()),
        other => json!({"inputSchema": other}),
    }
}

/// A subscription `billing` that wants this delivery schema.
async fn grid(topic: Value, delivery: &str) -> Grid {
    let grid = Grid::new().await.topic_with("orders", topic).await;
    let properties = json!({"eventDeliverySchema": delivery});
    grid.push_with("orders", "billing", "200", properties).await
}

#[tokio::test]
async fn allowed_input_and_output() {
    let rejected = "400 eventDeliverySchema";
    for (row, published, chosen, expected) in [
        (
            "Event Grid to Event Grid",
            "EventGridSchema",
            "EventGridSchema",
            "",
        ),
        (
            "Event Grid to CloudEvents",
            "EventGridSchema",
            "CloudEventSchemaV1_0",
            "",
        ),
        (
            "Event Grid to custom",
            "EventGridSchema",
            "CustomInputSchema",
            rejected,
        ),
        (
            "CloudEvents to Event Grid",
            "CloudEventSchemaV1_0",
            "EventGridSchema",
            rejected,
        ),
        (
            "CloudEvents to CloudEvents",
            "CloudEventSchemaV1_0",
            "CloudEventSchemaV1_0",
            "",
        ),
        (
            "CloudEvents to custom",
            "CloudEventSchemaV1_0",
            "CustomInputSchema",
            rejected,
        ),
        (
            "custom to Event Grid",
            "CustomEventSchema",
            "EventGridSchema",
            "",
        ),
        (
            "custom to CloudEvents",
            "CustomEventSchema",
            "CloudEventSchemaV1_0",
            "",
        ),
        (
            "custom to custom",
            "CustomEventSchema",
            "CustomInputSchema",
            "",
        ),
        (
            "default for Event Grid",
            "EventGridSchema",
            "null EventGridSchema",
            "",
        ),
        (
            "default for CloudEvents",
            "CloudEventSchemaV1_0",
            "null CloudEventSchemaV1_0",
            "",
        ),
        (
            "default for custom",
            "CustomEventSchema",
            "null CustomInputSchema",
            "",
        ),
    ] {
        let (wish, shown) = match chosen.split_once(' ') {
            Some((_, default)) => (Value::Null, default),
            None => (json!(chosen), chosen),
        };
        let grid = Grid::new()
            .await
            .topic_with("orders", input(published))
            .await;
        grid.script("billing", "200");
        let body = json!({"properties": {"eventDeliverySchema": wish, "destination": {
            "endpointType": "WebHook", "properties": {
                "endpointUrl": "http://billing.test/", "skipValidation": true}}}});
        let path = "/topics/orders/eventSubscriptions/billing";
        let reply = grid.manage(Method::PUT, path, body).await;
        let kept = format!("/properties/eventDeliverySchema = {shown:?}");
        let expected = if expected.is_empty() {
            kept.as_str()
        } else {
            expected
        };
        check("allowed input and output", row, &told(&reply), expected);
    }
}

#[tokio::test]
async fn event_grid_to_event_grid() {
    let grid = grid(input("EventGridSchema"), "EventGridSchema").await;
    let mut sent = event("e1");
    sent.as_object_mut()
        .expect("an object")
        .remove("dataVersion");
    let found = delivered(&grid, &json!([sent])).await;
    for (row, expected) in [
        ("topic is stamped", format!("/0/topic = {TOPIC_ID:?}")),
        (
            "metadataVersion is stamped",
            "/0/metadataVersion = \"1\"".to_owned(),
        ),
        ("dataVersion is stamped", "/0/dataVersion = \"\"".to_owned()),
        (
            "data passes through",
            "/0/data = {\"total\": 12.5}".to_owned(),
        ),
    ] {
        check("Event Grid to Event Grid", row, &found, &expected);
    }
}

#[tokio::test]
async fn event_grid_to_cloud_events() {
    let grid = grid(input("EventGridSchema"), "CloudEventSchemaV1_0").await;
    let found = delivered(&grid, &json!([event("e1")])).await;
    for (row, expected) in [
        ("specversion", "/specversion = \"1.0\"".to_owned()),
        ("id", "/id = \"e1\"".to_owned()),
        ("type", "/type = \"Order.Paid\"".to_owned()),
        ("source", format!("/source = {TOPIC_ID:?}")),
        ("subject", "/subject = \"/orders/7\"".to_owned()),
        ("time", "/time = \"2026-11-21T06:40:53Z\"".to_owned()),
        ("data", "/data = {\"total\": 12.5}".to_owned()),
        (
            "dataschema of version 1.0",
            "/dataschema = \"#1.0\"".to_owned(),
        ),
    ] {
        check("Event Grid to CloudEvents", row, &found, &expected);
    }
    let mut sent = event("e2");
    sent["dataVersion"] = json!("");
    let found = delivered(&grid, &json!([sent])).await;
    // The newest sample leaves it out.
    check(
        "Event Grid to CloudEvents",
        "dataschema of an empty version",
        &found,
        "/dataschema absent",
    );
}

#[tokio::test]
async fn custom_input_mapping() {
    let table = "custom input mapping";
    let all = json!({"id": {"sourceField": "orderNo"}, "topic": {"sourceField": "shop"},
        "eventTime": {"sourceField": "when"},
        "eventType": {"sourceField": "kind", "defaultValue": "Order"},
        "subject": {"sourceField": "path", "defaultValue": "/orders"},
        "dataVersion": {"sourceField": "version", "defaultValue": "1.0"}});
    let none = least_mapping();
    let full = json!({"orderNo": "17", "shop": "north", "when": "2026-11-21T06:40:53Z",
        "kind": "Order.Paid", "path": "/orders/17", "version": "2", "any": 1});
    let bare = json!({"any": 1});
    let stamped = format!("/0/topic = {TOPIC_ID:?}");
    let now = "/0/eventTime = \"2026-11-21T12:00:00.0000000Z\"";
    for (row, mapping, event, expected) in [
        ("id, mapped", &all, &full, "/0/id = \"17\""),
        ("id, missing", &all, &bare, "/0/id is a UUID"),
        ("id, unmapped", &none, &full, "/0/id is a UUID"),
        ("topic, mapped", &all, &full, "/0/topic = \"north\""),
        ("topic, missing", &all, &bare, &stamped),
        ("topic, unmapped", &none, &full, &stamped),
        (
            "eventTime, mapped",
            &all,
            &full,
            "/0/eventTime = \"2026-11-21T06:40:53Z\"",
        ),
        ("eventTime, missing", &all, &bare, now),
        ("eventTime, unmapped", &none, &full, now),
        (
            "eventType, mapped",
            &all,
            &full,
            "/0/eventType = \"Order.Paid\"",
        ),
        (
            "eventType, missing",
            &all,
            &bare,
            "/0/eventType = \"Order\"",
        ),
        ("eventType, unmapped", &none, &full, "/0/eventType = \"D\""),
        (
            "subject, mapped",
            &all,
            &full,
            "/0/subject = \"/orders/17\"",
        ),
        ("subject, missing", &all, &bare, "/0/subject = \"/orders\""),
        ("subject, unmapped", &none, &full, "/0/subject = \"/d\""),
        ("dataVersion, mapped", &all, &full, "/0/dataVersion = \"2\""),
        (
            "dataVersion, missing",
            &all,
            &bare,
            "/0/dataVersion = \"1.0\"",
        ),
        ("metadataVersion", &all, &full, "/0/metadataVersion = \"1\""),
        (
            "data is the whole original object",
            &all,
            &full,
            &format!("/0/data = {full}"),
        ),
    ] {
        let grid = grid(custom(mapping), "EventGridSchema").await;
        check(
            table,
            row,
            &delivered(&grid, &json!([event])).await,
            expected,
        );
    }
    for (row, schema, expected) in [
        (
            "CustomInputSchema gives the original back",
            "CustomInputSchema",
            format!("/0 = {full}"),
        ),
        (
            "CloudEvents have it as data",
            "CloudEventSchemaV1_0",
            format!("/data = {full}"),
        ),
        (
            "CloudEvents: source",
            "CloudEventSchemaV1_0",
            "/source = \"north\"".to_owned(),
        ),
        (
            "CloudEvents: type",
            "CloudEventSchemaV1_0",
            "/type = \"Order.Paid\"".to_owned(),
        ),
    ] {
        let grid = grid(custom(&all), schema).await;
        check(
            table,
            row,
            &delivered(&grid, &json!([full])).await,
            &expected,
        );
    }
}

#[tokio::test]
async fn parts_that_must_be_mapped() {
    let grid = Grid::new().await;
    for part in ["eventType", "subject", "dataVersion"] {
        let mut mapping = least_mapping();
        mapping.as_object_mut().expect("an object").remove(part);
        let body = json!({"location": "local", "properties": custom(&mapping)});
        let reply = grid.manage(Method::PUT, "/topics/orders", body).await;
        let expected = format!("400 {part}: it is missing; it must be an object with sourceField");
        let row = format!("{part}, neither source field nor default");
        check("custom input mapping", &row, &told(&reply), &expected);
    }
}
