//! How a webhook proves that it wants events, and how it is told of the end.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Method, Request};
use serde_json::{Value, json};

use super::{SECOND, TOPIC_ID, check};
use crate::grid::Grid;

const PATH: &str = "/topics/orders/eventSubscriptions/billing";

/// Creates `billing` with a handshake; the state that the PUT answers with.
async fn create(grid: &Grid, schema: &str, endpoint: &str) -> String {
    let body = json!({"properties": {"eventDeliverySchema": schema, "destination": {
        "endpointType": "WebHook", "properties": {"endpointUrl": endpoint}}}});
    let reply = grid.manage(Method::PUT, PATH, body).await;
    assert!(reply.status.is_success(), "{}", reply.text);
    let shown = reply.json();
    shown["properties"]["provisioningState"]
        .as_str()
        .expect("a state")
        .to_owned()
}

async fn state(grid: &Grid) -> String {
    let shown = grid.show("orders", "billing").await;
    shown["provisioningState"]
        .as_str()
        .expect("a state")
        .to_owned()
}

fn text(headers: &HeaderMap, name: &str) -> Value {
    headers
        .get(name)
        .map_or(Value::Null, |value| value.to_str().expect("text").into())
}

/// Opens the URL that the receiver was given.
async fn open(grid: &Grid, method: Method, url: &str) -> u16 {
    let path = url.strip_prefix("http://everpost.test").expect("ours");
    let request = Request::builder()
        .method(method)
        .uri(path)
        .body(Body::empty());
    grid.send(request.expect("a request")).await.status.as_u16()
}

/// The code and the URL of the newest validation event.
fn asked(grid: &Grid) -> (String, String) {
    let request = grid.heard("billing").pop().expect("a request");
    let body: Value = serde_json::from_slice(&request.body).expect("JSON");
    let part = |name: &str| body[0]["data"][name].as_str().expect(name).to_owned();
    (part("validationCode"), part("validationUrl"))
}

#[tokio::test(start_paused = true)]
async fn the_validation_event() {
    let table = "validation event";
    for schema in ["EventGridSchema", "CustomInputSchema"] {
        let topic = match schema {
            "CustomInputSchema" => super::custom(&super::least_mapping()),
            _ => json!({}),
        };
        let grid = Grid::new().await.topic_with("orders", topic).await;
        grid.script("billing", "200");
        create(&grid, schema, "http://billing.test/in?k=abc").await;
        let request = grid.heard("billing").pop().expect("a request");
        let body: Value = serde_json::from_slice(&request.body).expect("JSON");
        let named = |name| text(&request.headers, name);
        let found = Ok(
            json!({"method": request.method.as_str(), "url": request.url.as_str(),
            "contentType": named("content-type"), "eventType": named("aeg-event-type"),
            "count": named("aeg-delivery-count"), "name": named("aeg-subscription-name"),
            "accept": named("accept"), "events": body.as_array().map(Vec::len), "body": body}),
        );
        for (row, expected) in [
            ("method", "/method = \"POST\"".to_owned()),
            (
                "URL with its query",
                "/url = \"http://billing.test/in?k=abc\"".to_owned(),
            ),
            (
                "content type",
                "/contentType = \"application/json; charset=utf-8\"".to_owned(),
            ),
            (
                "aeg-event-type",
                "/eventType = \"SubscriptionValidation\"".to_owned(),
            ),
            ("aeg-delivery-count", "/count = \"0\"".to_owned()),
            ("aeg-subscription-name", "/name = \"BILLING\"".to_owned()),
            ("an array of one", "/events = 1".to_owned()),
            ("id", "/body/0/id is a UUID".to_owned()),
            ("topic", format!("/body/0/topic = {TOPIC_ID:?}")),
            ("subject", "/body/0/subject = \"\"".to_owned()),
            (
                "eventType",
                "/body/0/eventType = \"Microsoft.EventGrid.SubscriptionValidationEvent\""
                    .to_owned(),
            ),
            (
                "eventTime",
                "/body/0/eventTime = \"2026-11-21T12:00:00.0000000Z\"".to_owned(),
            ),
            (
                "metadataVersion",
                "/body/0/metadataVersion = \"1\"".to_owned(),
            ),
            ("dataVersion", "/body/0/dataVersion = \"1\"".to_owned()),
        ] {
            check(table, &format!("{row} for {schema}"), &found, &expected);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn outcomes_of_the_validation_event() {
    let table = "outcomes of the validation event";
    // The code is only known once asked, so the answer is told by what stands around it.
    for (row, status, content_type, body, expected) in [
        (
            "200 without a code",
            200,
            "text/plain",
            "OK",
            "AwaitingManualAction",
        ),
        (
            "200 with another code",
            200,
            "application/json",
            "{\"validationResponse\":\"x\"}",
            "AwaitingManualAction",
        ),
        (
            "200 and empty",
            200,
            "text/plain",
            "",
            "AwaitingManualAction",
        ),
        ("202", 202, "text/plain", "", "Failed"),
        ("204", 204, "text/plain", "", "Failed"),
        ("302", 302, "text/plain", "", "Failed"),
        ("404", 404, "text/plain", "", "Failed"),
        ("500", 500, "text/plain", "", "Failed"),
    ] {
        let grid = Grid::new().await.topic("orders").await;
        let headers = vec![("content-type", content_type.to_owned())];
        grid.answer("billing", status, headers, body.to_owned());
        create(&grid, "EventGridSchema", "http://billing.test/in").await;
        tokio::time::sleep(SECOND * 30).await;
        assert_eq!(state(&grid).await, expected, "{table}: {row}");
        // What fails is asked three times, but for what is final, and what may still be answered by hand.
        let is_asked_again = expected == "Failed" && !matches!(status, 302 | 404);
        let tries = if is_asked_again { 3 } else { 1 };
        assert_eq!(grid.heard("billing").len(), tries, "{table}: {row}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_validation_code_comes_back() {
    let table = "outcomes of the validation event";
    for (row, name, content_type, expected) in [
        (
            "200 and the code",
            "validationResponse",
            "application/json",
            "Succeeded",
        ),
        (
            "capital letter",
            "ValidationResponse",
            "application/json",
            "Succeeded",
        ),
        (
            "any content type",
            "validationResponse",
            "text/plain",
            "Succeeded",
        ),
        (
            "another property",
            "validationCode",
            "application/json",
            "AwaitingManualAction",
        ),
    ] {
        let grid = Grid::new().await.topic("orders").await;
        let headers = vec![("content-type", content_type.to_owned())];
        grid.echo("billing", headers, move |request| {
            let body: Value = serde_json::from_slice(&request.body).expect("JSON");
            json!({name: body[0]["data"]["validationCode"]}).to_string()
        });
        let reached = create(&grid, "EventGridSchema", "http://billing.test/in").await;
        assert_eq!(reached, expected, "{table}: {row}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_window_of_the_validation_url() {
    let table = "validation URL";
    for (row, minutes, status, expected) in [
        ("within its window", 9, 200, "Succeeded"),
        ("after its window", 10, 404, "Failed"),
    ] {
        let grid = Grid::new().await.topic("orders").await;
        grid.script("billing", "200");
        create(&grid, "EventGridSchema", "http://billing.test/in").await;
        let house = tokio::spawn(grid.broker.clone().run_janitor());
        grid.clock.advance(Duration::from_secs(minutes * 60));
        tokio::time::sleep(SECOND * 5).await;
        let (_, url) = asked(&grid);
        assert_eq!(
            open(&grid, Method::GET, &url).await,
            status,
            "{table}: {row}"
        );
        assert_eq!(state(&grid).await, expected, "{table}: {row}");
        house.abort();
    }
    let grid = Grid::new().await.topic("orders").await;
    grid.script("billing", "200");
    create(&grid, "EventGridSchema", "http://billing.test/in").await;
    let (first, _) = asked(&grid);
    create(&grid, "EventGridSchema", "http://billing.test/other").await;
    let (second, _) = asked(&grid);
    assert_ne!(
        first, second,
        "{table}: asked on creation and on a change of the endpoint"
    );
}

#[tokio::test(start_paused = true)]
async fn abuse_protection_of_cloud_events() {
    let table = "abuse protection of CloudEvents";
    let cloud = json!({"inputSchema": "CloudEventSchemaV1_0"});
    let grid = Grid::new().await.topic_with("orders", cloud.clone()).await;
    grid.script("billing", "200");
    create(&grid, "CloudEventSchemaV1_0", "http://billing.test/in").await;
    let request = grid.heard("billing").pop().expect("a request");
    let named = |name| text(&request.headers, name);
    let callback = named("webhook-request-callback");
    let callback = callback.as_str().expect("a URL").to_owned();
    let rate: u32 = named("webhook-request-rate")
        .as_str()
        .expect("a rate")
        .parse()
        .expect("a number");
    assert_eq!(request.method, Method::OPTIONS, "{table}: method");
    assert!(request.body.is_empty(), "{table}: no body");
    assert_eq!(
        named("webhook-request-origin"),
        "eventgrid.azure.net",
        "{table}: origin"
    );
    assert!(rate > 0, "{table}: rate");
    assert!(
        callback.starts_with("http://everpost.test/"),
        "{table}: callback"
    );
    for (row, method) in [("GET grants", Method::GET), ("POST grants", Method::POST)] {
        let grid = Grid::new().await.topic_with("orders", cloud.clone()).await;
        grid.script("billing", "200");
        create(&grid, "CloudEventSchemaV1_0", "http://billing.test/in").await;
        let request = grid.heard("billing").pop().expect("a request");
        let url = text(&request.headers, "webhook-request-callback");
        open(&grid, method, url.as_str().expect("a URL")).await;
        assert_eq!(state(&grid).await, "Succeeded", "{table}: callback, {row}");
    }
    for (row, status, origin, rate, expected) in [
        ("our origin", 200, "eventgrid.azure.net", "", "Succeeded"),
        ("any origin", 200, "*", "", "Succeeded"),
        ("another origin", 200, "elsewhere.test", "", "Failed"),
        ("any rate", 200, "*", "*", "Succeeded"),
        ("a rate", 200, "*", "120", "Succeeded"),
        ("a rate of 0", 200, "*", "0", "Failed"),
        (
            "the status alone is no consent",
            200,
            "",
            "",
            "AwaitingManualAction",
        ),
        (
            "the status does not matter beside the header",
            405,
            "*",
            "",
            "Succeeded",
        ),
        ("405 is a rejection", 405, "", "", "Failed"),
    ] {
        let grid = Grid::new().await.topic_with("orders", cloud.clone()).await;
        let all = [
            ("webhook-allowed-origin", origin),
            ("webhook-allowed-rate", rate),
        ];
        let said = all.into_iter().filter(|(_, value)| !value.is_empty());
        let said = said.map(|(name, value)| (name, value.to_owned())).collect();
        grid.answer("billing", status, said, String::new());
        create(&grid, "CloudEventSchemaV1_0", "http://billing.test/in").await;
        tokio::time::sleep(SECOND * 30).await;
        assert_eq!(state(&grid).await, expected, "{table}: {row}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_deletion_event() {
    let table = "deletion event";
    for schema in ["EventGridSchema", "CloudEventSchemaV1_0"] {
        let grid = Grid::new().await.topic("orders").await;
        let properties = json!({"eventDeliverySchema": schema});
        let grid = grid.push_with("orders", "billing", "500", properties).await;
        grid.manage(Method::DELETE, PATH, Value::Null).await;
        tokio::time::sleep(SECOND * 60).await;
        let heard = grid.heard("billing");
        assert_eq!(heard.len(), 1, "{table}: sent once, whatever comes of it");
        let body: Value = serde_json::from_slice(&heard[0].body).expect("JSON");
        let found = Ok(json!({"header": text(&heard[0].headers, "aeg-event-type"), "body": body}));
        let id = format!("{TOPIC_ID}/eventSubscriptions/billing");
        for (row, expected) in [
            (
                "aeg-event-type",
                "/header = \"SubscriptionDeletion\"".to_owned(),
            ),
            (
                "eventType, in the Event Grid schema whatever the delivery schema",
                "/body/0/eventType = \"Microsoft.EventGrid.SubscriptionDeletedEvent\"".to_owned(),
            ),
            (
                "eventSubscriptionId",
                format!("/body/0/data/eventSubscriptionId = {id:?}"),
            ),
        ] {
            check(table, &format!("{row}, {schema}"), &found, &expected);
        }
    }
}
