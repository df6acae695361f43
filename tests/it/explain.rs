//! Why: explanations of filters, and filters that are tried before they are kept.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use serde_json::{Value, json};

use everpost::model::filter::Filter;
use everpost::model::name::TopicName;
use everpost::wire::filter_trial::TrialRequest;

use crate::grid::{Grid, TOKEN, event};

const BILLING: &str = "/topics/orders/eventSubscriptions/billing";

/// A topic whose subscription `billing` wants totals above 100.
async fn grid() -> Grid {
    let dear = json!({"filter": {"subjectBeginsWith": "/orders/", "advancedFilters": [
        {"operatorType": "NumberGreaterThan", "key": "data.total", "value": 100}]}});
    Grid::new()
        .await
        .topic("orders")
        .await
        .push_with("orders", "billing", "200", dear)
        .await
}

async fn post(grid: &Grid, path: &str, body: Value) -> Value {
    let heard = grid.manage(Method::POST, path, body).await;
    assert_eq!(heard.status, StatusCode::OK, "{}", heard.text);
    heard.json()
}

async fn explain(grid: &Grid, body: Value) -> Value {
    post(grid, &format!("{BILLING}/explain"), body).await
}

async fn update(grid: &Grid, change: Value) {
    let heard = grid.manage(Method::PATCH, BILLING, change).await;
    assert_eq!(heard.status, StatusCode::CREATED, "{}", heard.text);
}

fn order(id: &str, total: u32) -> Value {
    let mut order = event(id);
    order["data"]["total"] = json!(total);
    order
}

#[tokio::test]
async fn every_clause_says_what_it_wanted_and_saw() {
    let grid = grid().await;
    grid.publish("orders", order("cheap", 99)).await;
    let explained = explain(&grid, json!({"eventId": 1})).await;
    let expected = json!({
        "topic": "orders", "eventSubscription": "billing", "eventKey": 1, "eventId": "cheap",
        "eventType": "Order.Paid", "subject": "/orders/7", "matched": false,
        "reason": {"code": "FilterNotMatched", "message":
            "Wanted: data.total is greater than 100. The event has 99."},
        "clauses": [
            {"clause": "subjectBeginsWith", "key": "subject", "value": "/orders/",
             "wanted": "subject begins with \"/orders/\"", "saw": "\"/orders/7\"", "held": true},
            {"clause": "advancedFilters[0]", "operatorType": "NumberGreaterThan",
             "key": "data.total", "value": 100, "wanted": "data.total is greater than 100",
             "saw": "99", "held": false},
        ],
        "changedSinceEvent": false, "deliveries": [],
    });
    assert_eq!(explained, expected);
    // By the publisher's id, and on Resource Manager's path, in any letter case.
    let path = format!(
        "/subscriptions/s/resourceGroups/g/providers/Microsoft.EventGrid{BILLING}/Explain?api-version=1"
    );
    assert_eq!(
        post(&grid, &path, json!({"eventId": "cheap"})).await,
        expected
    );
    let list = post(&grid, "/topics/orders/explain", json!({"eventId": "cheap"})).await;
    assert_eq!(list["value"], json!([expected]));
    let path = "/everpost/events/1/explanations";
    let list = grid.manage(Method::GET, path, Value::Null).await.json();
    assert_eq!(list["value"], json!([expected]));
}

#[tokio::test]
async fn a_pasted_event_need_never_have_been_published() {
    let grid = grid().await;
    for pasted in [order("new", 101), json!([order("new", 101)])] {
        let explained = explain(&grid, json!({"event": pasted})).await;
        assert_eq!(explained["matched"], true, "{explained}");
        assert_eq!(
            (&explained["reason"], &explained["eventKey"]),
            (&Value::Null, &Value::Null)
        );
    }
    // Numbers are taken as they were written, beyond what a double holds.
    let body = format!(
        "{{\"event\":{}}}",
        order("new", 7)
            .to_string()
            .replace("\"total\":7", "\"total\":100.00000000000000000001")
    );
    let request = Request::post(format!("{BILLING}/explain"))
        .header("authorization", format!("Bearer {TOKEN}"))
        .body(Body::from(body));
    let explained = grid.send(request.expect("a request")).await.json();
    assert_eq!(explained["matched"], true, "{explained}");
    assert_eq!(explained["clauses"][1]["saw"], "100.00000000000000000001");
    // As large as an event can be published.
    let mut large = order("large", 1);
    large["data"]["text"] = json!("x".repeat(1_000_000));
    assert_eq!(
        explain(&grid, json!({"event": large})).await["matched"],
        false
    );
    let list = grid
        .manage(Method::GET, "/everpost/events", Value::Null)
        .await;
    assert_eq!(list.json()["value"], json!([]), "nothing was stored");
}

#[tokio::test]
async fn pasted_events_of_other_schemas_are_understood() {
    let clause = |key: &str| {
        json!({"filter": {"advancedFilters": [
        {"operatorType": "StringIn", "key": key, "values": ["North"]}]}})
    };
    let mapping = json!({"inputSchemaMappingType": "Json", "properties": {
        "eventType": {"sourceField": "kind"}, "subject": {"defaultValue": "/"},
        "dataVersion": {"defaultValue": "1"}}});
    let grid = Grid::new()
        .await
        .topic_with("cloud", json!({"inputSchema": "CloudEventSchemaV1_0"}))
        .await
        .topic_with(
            "own",
            json!({"inputSchema": "CustomEventSchema", "inputSchemaMapping": mapping}),
        )
        .await
        .push_with("cloud", "cloudy", "200", clause("region"))
        .await
        .push_with("own", "owner", "200", clause("place.region"))
        .await;
    let cloud =
        json!({"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "region": "north"});
    let own = json!({"kind": "t", "place": {"region": "NORTH"}});
    for (topic, event) in [("cloud", cloud), ("own", own)] {
        let path = format!("/topics/{topic}/explain");
        let list = post(&grid, &path, json!({"event": event})).await;
        assert_eq!(list["value"][0]["matched"], true, "{list}");
    }
}

#[tokio::test]
async fn what_keeps_a_subscription_from_everything_is_said() {
    let grid = grid().await;
    let reason = async || {
        let explained = explain(&grid, json!({"event": order("new", 101)})).await;
        assert_eq!(explained["matched"], explained["reason"].is_null());
        explained["reason"]["code"]
            .as_str()
            .unwrap_or("-")
            .to_owned()
    };
    assert_eq!(reason().await, "-");
    update(&grid, json!({"disabled": true})).await;
    assert_eq!(reason().await, "Disabled");
    update(
        &grid,
        json!({"disabled": false, "expirationTimeUtc": "2026-11-21T12:00:10Z"}),
    )
    .await;
    assert_eq!(reason().await, "-");
    grid.clock.advance(Duration::from_secs(10));
    assert_eq!(reason().await, "Expired");

    // One whose receiver has not agreed.
    grid.script("shy", "503");
    let path = "/topics/orders/eventSubscriptions/shy";
    let body = json!({"properties": {"destination": {"endpointType": "WebHook",
        "properties": {"endpointUrl": "http://shy.test/"}}}});
    grid.manage(Method::PUT, path, body).await;
    let shy = post(
        &grid,
        &format!("{path}/explain"),
        json!({"event": event("x")}),
    )
    .await;
    assert_eq!(shy["reason"]["code"], "NotValidated", "{shy}");
    assert_eq!(shy["clauses"], json!([]));
}

#[tokio::test]
async fn what_happened_is_told_from_what_would_happen_now() {
    let grid = grid().await;
    grid.publish("orders", order("dear", 101)).await;
    grid.clock.advance(Duration::from_secs(1));
    let grid = grid.push("orders", "late", "200").await;
    update(
        &grid,
        json!({"filter": {"subjectBeginsWith": "/invoices/"}}),
    )
    .await;
    grid.run_for(Duration::from_secs(1)).await;
    let path = "/everpost/events/1/explanations";
    let list = grid.manage(Method::GET, path, Value::Null).await.json();
    let [billing, late] = list["value"].as_array().expect("a list").as_slice() else {
        panic!("{list}");
    };
    assert_eq!(
        (&billing["matched"], &billing["deliveries"]),
        (&json!(false), &json!([1]))
    );
    assert_eq!(billing["changedSinceEvent"], true);
    assert_eq!(
        (&late["matched"], &late["deliveries"]),
        (&json!(false), &json!([]))
    );
    assert_eq!(late["reason"]["code"], "CreatedLater");
    assert_eq!(late["changedSinceEvent"], false);
}

#[tokio::test]
async fn wrong_questions_name_the_field() {
    let grid = grid().await.topic("invoices").await;
    grid.publish("orders", order("dear", 1)).await;
    let mut wrong_event = event("x");
    wrong_event["eventTime"] = json!("yesterday");
    let rejected = async |path: &str, body: Value, status: u16, code: &str, target: &str| {
        let heard = grid.manage(Method::POST, path, body).await;
        let message = heard.error(status, code);
        let body = heard.json();
        assert_eq!(body["error"]["target"], target, "{message}");
        assert!(message.contains(target), "{message}");
    };
    let explain = format!("{BILLING}/explain");
    for (body, target) in [
        (json!({}), "eventId"),
        (json!({"eventId": 1.5}), "eventId"),
        (json!({"eventId": true}), "eventId"),
        (json!({"eventId": 1, "event": event("x")}), "event"),
        (json!({"event": wrong_event}), "event.eventTime"),
        (json!({"event": 5}), "event"),
        (json!({"event": []}), "event"),
        (json!({"event": [event("a"), event("b")]}), "event"),
        (json!({"evnt": 5}), ""),
    ] {
        rejected(&explain, body, 400, "InvalidRequest", target).await;
    }
    for id in [json!(2), json!("unknown")] {
        rejected(&explain, json!({"eventId": id}), 404, "NotFound", "eventId").await;
    }
    rejected(
        "/topics/invoices/explain",
        json!({"eventId": 1}),
        404,
        "NotFound",
        "eventId",
    )
    .await;
    let path = "/topics/orders/tryFilter";
    let bad_value = json!({"advancedFilters": [
        {"operatorType": "NumberIn", "key": "data.total", "values": ["1"]}]});
    for (body, target) in [
        (json!({}), "filter"),
        (json!({"filter": []}), "filter"),
        (
            json!({"filter": bad_value}),
            "filter.advancedFilters[0].values[0]",
        ),
        (json!({"filter": {}, "last": 0}), "last"),
        (json!({"filter": {}, "last": 10_001}), "last"),
        (json!({"filter": {}, "last": "5"}), "last"),
        (
            json!({"filter": {}, "eventSubscription": 5}),
            "eventSubscription",
        ),
    ] {
        rejected(path, body, 400, "InvalidRequest", target).await;
    }
    let unknown = json!({"filter": {}, "eventSubscription": "nobody"});
    let heard = grid.manage(Method::POST, path, unknown).await;
    heard.error(404, "ResourceNotFound");
    let request = Request::post(&explain).body(Body::from(json!({"eventId": 1}).to_string()));
    grid.send(request.expect("a request"))
        .await
        .error(401, "Unauthorized");
}

#[tokio::test]
async fn a_filter_is_tried_and_compared_before_it_is_kept() {
    let grid = grid().await.topic("others").await;
    for (number, total) in (0..20).zip((0..).step_by(10)) {
        grid.publish("orders", order(&format!("e{number}"), total))
            .await;
        grid.publish("others", order("other", 1_000)).await;
    }
    let path = "/topics/orders/tryFilter";
    let cheap = json!({"advancedFilters": [
        {"operatorType": "NumberLessThanOrEquals", "key": "data.total", "value": 110}]});
    let tried = post(&grid, path, json!({"filter": cheap})).await;
    assert_eq!(
        (&tried["tried"], &tried["complete"]),
        (&json!(20), &json!(true))
    );
    assert_eq!(tried["oldest"]["key"], 1);
    assert_eq!(
        (&tried["matched"]["count"], &tried["unmatched"]["count"]),
        (&json!(12), &json!(8))
    );
    let sample = &tried["unmatched"]["samples"][0];
    assert_eq!((&sample["id"], &sample["key"]), (&json!("e19"), &json!(39)));
    assert_eq!(sample["failed"]["clause"], "advancedFilters[0]");
    assert_eq!(sample["failed"]["saw"], "190");
    assert_eq!(
        tried["matched"]["samples"].as_array().map(Vec::len),
        Some(5)
    );
    assert_eq!(tried["comparedWith"], Value::Null);

    // The newest twelve have totals from 80 to 190; in force are those above 100.
    let body = json!({"filter": cheap, "last": 12, "eventSubscription": "billing"});
    let tried = post(&grid, path, body).await;
    assert_eq!(
        (&tried["tried"], &tried["matched"]["count"]),
        (&json!(12), &json!(4))
    );
    let compared = &tried["comparedWith"];
    assert_eq!(
        (&compared["eventSubscription"], &compared["matched"]),
        (&json!("billing"), &json!(9))
    );
    assert_eq!(compared["newlyMatched"]["count"], 3);
    assert_eq!(compared["newlyMatched"]["samples"][0]["id"], "e10");
    assert_eq!(compared["noLongerMatched"]["count"], 8);
    grid.run_for(Duration::from_secs(1)).await;
    assert_eq!(grid.heard("billing").len(), 9, "trying delivers nothing");
}

#[tokio::test]
async fn a_trial_goes_on_over_many_bites_and_ends_in_time() {
    let grid = Grid::new().await.topic("orders").await;
    let events: Vec<Value> = (0..1_200).map(|number| order("e", number)).collect();
    let reply = grid.post("orders", json!(events)).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    let path = "/topics/orders/tryFilter";
    let tried = post(&grid, path, json!({"filter": {}, "last": 10_000})).await;
    assert_eq!(
        (&tried["tried"], &tried["complete"]),
        (&json!(1_200), &json!(true))
    );
    let tried = post(&grid, path, json!({"filter": {}})).await;
    assert_eq!(
        (&tried["tried"], &tried["complete"]),
        (&json!(1_000), &json!(true))
    );

    let topic = TopicName::parse("orders").expect("a name");
    let topic = grid.broker.topic(&topic).expect("the topic");
    let request = TrialRequest {
        filter: Filter::default(),
        last: 10_000,
        subscription: None,
    };
    let tried = grid.broker.try_filter(&topic, &request, Duration::ZERO);
    let tried = tried.await;
    let (found, is_complete) = tried.expect("an answer");
    assert_eq!(
        (found.tried(), is_complete),
        (500, false),
        "one batch, then time is over"
    );
}
