//! What publishers may send.

use serde_json::{Value, json};

use super::{TOPIC_ID, check, custom, delivered, publish, stored, told};
use crate::grid::{Grid, event};

const CLOUD: &str = r#"{"specversion":"1.0","id":"1","source":"/s","type":"T"}"#;

const SMALL: &str =
    r#"{"id":"1","subject":"/s","eventType":"T","eventTime":"2026-11-21T06:40:53Z","data":1}"#;

/// A topic of that input schema and a subscription that takes its default.
async fn grid(input_schema: &str) -> Grid {
    let properties = match input_schema {
        "CustomEventSchema" => custom(&json!({"subject": {"sourceField": "path"},
            "eventType": {"sourceField": "kind", "defaultValue": "Order"},
            "dataVersion": {"defaultValue": "1.0"}})),
        other => json!({"inputSchema": other}),
    };
    let grid = Grid::new().await.topic_with("orders", properties).await;
    grid.push("orders", "billing", "200").await
}

#[tokio::test]
async fn bodies_per_input_schema() {
    let (grid_event, cloud) = (format!("[{SMALL}]"), format!("[{CLOUD},{CLOUD}]"));
    let (own, own_lone) = (r#"[{"path":"/p","any":[1]}]"#, r#"{"path":"/p"}"#);
    let json = "content-type: application/json";
    let binary =
        "content-type: text/plain\nce-specversion: 1.0\nce-id: 1\nce-source: /s\nce-type: T";
    let array_told = "400 Token Expected: StartObject, Actual Token Received: StartArray";
    let lone_told = "400 Expected: StartArray, actual: StartObject";
    let form = "content-type: application/x-www-form-urlencoded";
    for (row, schema, headers, body, expected) in [
        (
            "Event Grid schema, application/json",
            "EventGridSchema",
            json,
            &*grid_event,
            "1",
        ),
        (
            "Event Grid schema, application/json with charset",
            "EventGridSchema",
            "content-type: application/json; charset=utf-8",
            &grid_event,
            "1",
        ),
        (
            "Event Grid schema, lone object",
            "EventGridSchema",
            json,
            SMALL,
            lone_told,
        ),
        (
            "Event Grid schema, curl's own content type",
            "EventGridSchema",
            form,
            &grid_event,
            "1",
        ),
        (
            "Event Grid schema, no content type",
            "EventGridSchema",
            "",
            &grid_event,
            "1",
        ),
        (
            "CloudEvents, application/cloudevents+json, one object",
            "CloudEventSchemaV1_0",
            "content-type: application/cloudevents+json",
            CLOUD,
            "1",
        ),
        (
            "CloudEvents, application/cloudevents-batch+json, array",
            "CloudEventSchemaV1_0",
            "content-type: application/cloudevents-batch+json; charset=utf-8",
            &cloud,
            "2",
        ),
        (
            "CloudEvents, binary mode",
            "CloudEventSchemaV1_0",
            binary,
            "text",
            "1",
        ),
        (
            "CloudEvents, application/json, one object",
            "CloudEventSchemaV1_0",
            json,
            CLOUD,
            "1",
        ),
        (
            "CloudEvents, application/json, array",
            "CloudEventSchemaV1_0",
            json,
            &cloud,
            array_told,
        ),
        (
            "custom schema, application/json, array",
            "CustomEventSchema",
            json,
            own,
            "1",
        ),
        (
            "custom schema, lone object",
            "CustomEventSchema",
            json,
            own_lone,
            lone_told,
        ),
        (
            "custom schema, curl's own content type",
            "CustomEventSchema",
            form,
            own,
            "1",
        ),
        (
            "custom schema, no content type",
            "CustomEventSchema",
            "",
            own,
            "1",
        ),
    ] {
        let grid = grid(schema).await;
        let headers: Vec<_> = headers
            .lines()
            .filter_map(|line| line.split_once(": "))
            .collect();
        let reply = publish(&grid, &headers, body).await;
        let events = stored(&grid).await;
        match expected.parse::<usize>() {
            Ok(count) => {
                let found = (reply.status.as_u16(), reply.text.as_str(), events);
                assert_eq!(found, (200, "", count), "bodies per input schema: {row}");
            }
            Err(_) => {
                check("bodies per input schema", row, &told(&reply), expected);
                assert_eq!(events, 0, "bodies per input schema: {row}");
            }
        }
        grid.leave();
    }
}

/// An Event Grid event with some of its properties changed; `null` in place of the object's value
/// `"absent"` takes one away.
fn changed(changes: &Value) -> Value {
    let mut event = event("e1");
    let properties = event.as_object_mut().expect("an object");
    for (name, value) in changes.as_object().expect("an object") {
        match value == "absent" {
            true => properties.remove(name),
            false => properties.insert(name.clone(), value.clone()),
        };
    }
    event
}

#[tokio::test]
async fn validation_of_event_grid_events() {
    let table = "validation of Event Grid events";
    let topic = format!("/0/topic = {TOPIC_ID:?}");
    let grid = grid("EventGridSchema").await;
    let absent = "absent";
    for (row, changes, expected) in [
        ("id, present", json!({"id": "17"}), "/0/id = \"17\""),
        (
            "id, missing",
            json!({"id": absent}),
            "400 \"id\": it is missing",
        ),
        ("id, empty", json!({"id": ""}), "400 \"id\": it is blank"),
        (
            "id, no string",
            json!({"id": true}),
            "400 \"id\": it is a boolean; expected a string",
        ),
        (
            "subject, present",
            json!({"subject": "/x"}),
            "/0/subject = \"/x\"",
        ),
        (
            "subject, missing",
            json!({"subject": absent}),
            "400 \"subject\": it is missing",
        ),
        (
            "subject, blank",
            json!({"subject": " "}),
            "400 \"subject\": it is blank",
        ),
        (
            "eventType, present",
            json!({"eventType": "T"}),
            "/0/eventType = \"T\"",
        ),
        (
            "eventType, missing",
            json!({"eventType": absent}),
            "400 \"eventType\": it is missing",
        ),
        (
            "eventTime, missing",
            json!({"eventTime": absent}),
            "400 \"eventTime\": it is missing",
        ),
        (
            "eventTime, with zone",
            json!({"eventTime": "2026-11-21T06:40:53.138324+05:30"}),
            "/0/eventTime = \"2026-11-21T06:40:53.138324+05:30\"",
        ),
        (
            "eventTime, without zone",
            json!({"eventTime": "2026-11-21T06:40:53"}),
            "/0/eventTime = \"2026-11-21T06:40:53Z\"",
        ),
        (
            "eventTime, no time",
            json!({"eventTime": "2026-11-21"}),
            "400 \"eventTime\": \"2026-11-21\" is not a date and time with its zone",
        ),
        ("id, a number", json!({"id": 17}), "/0/id = \"17\""),
        ("data, missing", json!({"data": absent}), "/0/data absent"),
        (
            "data, object",
            json!({"data": {"a": [1]}}),
            "/0/data = {\"a\": [1]}",
        ),
        (
            "data, array",
            json!({"data": [1, "x"]}),
            "/0/data = [1, \"x\"]",
        ),
        (
            "data, string",
            json!({"data": "text"}),
            "/0/data = \"text\"",
        ),
        ("data, number", json!({"data": 7}), "/0/data = 7"),
        ("data, boolean", json!({"data": false}), "/0/data = false"),
        ("data, null", json!({"data": null}), "/0/data = null"),
        (
            "dataVersion, present",
            json!({"dataVersion": "2"}),
            "/0/dataVersion = \"2\"",
        ),
        (
            "dataVersion, missing",
            json!({"dataVersion": absent}),
            "/0/dataVersion = \"\"",
        ),
        (
            "metadataVersion, missing",
            json!({}),
            "/0/metadataVersion = \"1\"",
        ),
        (
            "metadataVersion, 1",
            json!({"metadataVersion": "1"}),
            "/0/metadataVersion = \"1\"",
        ),
        (
            "metadataVersion, 2",
            json!({"metadataVersion": "2"}),
            "400 \"metadataVersion\": \"2\" is not supported",
        ),
        ("topic, missing", json!({}), &topic),
        ("topic, its own id", json!({"topic": TOPIC_ID}), &topic),
        (
            "topic, another",
            json!({"topic": "/x"}),
            "400 \"topic\": \"/x\" is not this topic",
        ),
        (
            "any other property",
            json!({"source": "/x"}),
            "400 configured for the 'EventGridEvent' schema",
        ),
    ] {
        let found = delivered(&grid, &json!([changed(&changes)])).await;
        check(table, row, &found, expected);
    }
    let twice = json!([event("same"), event("same")]);
    assert!(
        delivered(&grid, &twice).await.is_ok(),
        "{table}: id, no detection of duplicates"
    );
}

#[tokio::test]
async fn validation_of_cloud_events() {
    let table = "validation of CloudEvents";
    let grid = grid("CloudEventSchemaV1_0").await;
    for (row, name, value, expected) in [
        ("id, missing", "id", "absent", "400 \"id\": it is missing"),
        (
            "source, missing",
            "source",
            "absent",
            "400 \"source\": it is missing",
        ),
        (
            "type, missing",
            "type",
            "absent",
            "400 \"type\": it is missing",
        ),
        (
            "specversion, missing",
            "specversion",
            "absent",
            "400 \"specversion\": it is missing",
        ),
        (
            "specversion, 0.3",
            "specversion",
            "\"0.3\"",
            "400 \"0.3\" is not supported",
        ),
        (
            "time",
            "time",
            "\"2026-11-21T06:40:53Z\"",
            "/time = \"2026-11-21T06:40:53Z\"",
        ),
        ("subject", "subject", "\"/x\"", "/subject = \"/x\""),
        (
            "dataschema",
            "dataschema",
            "\"u:s\"",
            "/dataschema = \"u:s\"",
        ),
        (
            "datacontenttype",
            "datacontenttype",
            "\"a/json\"",
            "/datacontenttype = \"a/json\"",
        ),
        ("data", "data", "{\"a\":1}", "/data = {\"a\":1}"),
        (
            "data_base64",
            "data_base64",
            "\"AAE=\"",
            "/data_base64 = \"AAE=\"",
        ),
        ("an extension", "tenant", "\"north\"", "/tenant = \"north\""),
        (
            "a null attribute is absent",
            "subject",
            "null",
            "/subject absent",
        ),
        (
            "a null extension is absent",
            "tenant",
            "null",
            "/tenant absent",
        ),
    ] {
        let mut event: Value = serde_json::from_str(CLOUD).expect("JSON");
        let attributes = event.as_object_mut().expect("an object");
        match value {
            "absent" => attributes.remove(name),
            json => attributes.insert(name.to_owned(), serde_json::from_str(json).expect(json)),
        };
        check(table, row, &delivered(&grid, &event).await, expected);
    }
    let mut both: Value = serde_json::from_str(CLOUD).expect("JSON");
    (both["data"], both["data_base64"]) = (json!(1), json!("AAE="));
    let found = delivered(&grid, &both).await;
    check(
        table,
        "data and data_base64",
        &found,
        "400 \"data_base64\": it excludes the field",
    );
    let batch = [("content-type", "application/cloudevents-batch+json")];
    let before = stored(&grid).await;
    let empty = publish(&grid, &batch, "[]").await;
    assert_eq!(
        (empty.status.as_u16(), stored(&grid).await),
        (200, before),
        "{table}: empty batch"
    );
}

#[tokio::test]
async fn validation_of_custom_events() {
    let table = "validation of custom events";
    let grid = grid("CustomEventSchema").await;
    for (row, event, expected) in [
        (
            "any properties",
            json!({"path": "/p", "any": [1]}),
            "/0/any = [1]",
        ),
        (
            "an element that is no object",
            json!(7),
            "400 Expected: StartObject, actual: Number",
        ),
        (
            "a mapped field without default is missing",
            json!({}),
            "400 \"path\": it is missing",
        ),
    ] {
        check(
            table,
            row,
            &delivered(&grid, &json!([event])).await,
            expected,
        );
    }
}
