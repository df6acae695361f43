//! The built-in topics: there without being made, subscribed to like others, published to by nobody else.

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use everpost::wire::blob_created::BlobCreated;
use serde_json::{Value, json};

use crate::grid::{Grid, TOKEN, event};

const TOPICS: [&str; 2] = ["dead-letter-storage", "everpost-system"];

fn blob(path: &str) -> BlobCreated {
    BlobCreated {
        container: "dead".to_owned(),
        path: path.to_owned(),
        url: format!("http://everpost.test/dead/{path}"),
        content_type: "application/json".to_owned(),
        content_length: 512,
        e_tag: "0x1".to_owned(),
    }
}

#[tokio::test]
async fn they_are_there_from_the_start_and_stay() {
    let grid = Grid::new().await.restarted().await;
    let list = grid.manage(Method::GET, "/topics", Value::Null).await;
    let list = list.json();
    let names: Vec<_> = list["value"].as_array().expect("topics").iter().collect();
    assert_eq!(names.len(), 2);
    for (topic, name) in names.into_iter().zip(TOPICS) {
        assert_eq!(topic["name"], name);
        assert_eq!(topic["properties"]["builtIn"], true);
        assert_eq!(topic["properties"]["inputSchema"], "EventGridSchema");
        assert_eq!(topic["properties"]["endpoint"], Value::Null);
    }
    let definition = json!({"location": "local"});
    for name in TOPICS {
        let path = format!("/topics/{name}");
        for (method, path, body) in [
            (Method::PUT, path.clone(), definition.clone()),
            (Method::PATCH, path.clone(), json!({"tags": {"a": "b"}})),
            (Method::DELETE, path.clone(), Value::Null),
            (Method::POST, format!("{path}/listKeys"), Value::Null),
            (
                Method::POST,
                format!("{path}/regenerateKey"),
                json!({"keyName": "key1"}),
            ),
        ] {
            let rejected = grid.manage(method.clone(), &path, body).await;
            let message = rejected.error(403, "Forbidden");
            assert!(message.contains("is built in"), "{method} {path} {message}");
        }
        let found = grid.manage(Method::GET, &path, Value::Null).await;
        assert_eq!(found.status, StatusCode::OK);
        assert_eq!(found.json().get("tags"), None, "nobody gave it any");
    }
}

#[tokio::test]
async fn nobody_publishes_to_them_from_outside() {
    let grid = Grid::new().await;
    let grid = grid.push("everpost-system", "ops", "200").await;
    let empty_key = ("aeg-sas-key", String::new());
    let bearer = ("authorization", format!("Bearer {TOKEN}"));
    let host = ("host", "everpost-system.local".to_owned());
    for (path, (name, value)) in [
        ("/topics/everpost-system/api/events", empty_key),
        ("/everpost-system/api/events", bearer.clone()),
        ("/api/events", host),
    ] {
        let request = Request::post(path)
            .header(name, value)
            .header("content-type", "application/json")
            .body(Body::from(json!([event("forged")]).to_string()));
        let heard = grid.send(request.expect("a request")).await;
        let message = heard.error(403, "Forbidden");
        assert!(message.contains("nobody but the appliance"), "{message}");
    }
    // A key opens the topic that it belongs to, and never a built-in one.
    let grid = grid.topic("orders").await;
    let request = Request::post("/api/events")
        .header("aeg-sas-key", grid.key("orders").await)
        .header("content-type", "application/json")
        .body(Body::from(json!([event("a")]).to_string()));
    let heard = grid.send(request.expect("a request")).await;
    assert_eq!(heard.status, StatusCode::OK);
    assert!(grid.heard("ops").is_empty());
}

#[tokio::test]
async fn a_new_blob_reaches_those_who_subscribe() {
    let grid = Grid::new().await;
    let unheard = grid.broker.publish_blob_created(&blob("nobody.json")).await;
    unheard.expect("no subscribers are no failure");
    let grid = grid.push("dead-letter-storage", "archive", "503 200").await;
    let narrow =
        json!({"filter": {"subjectBeginsWith": "/blobServices/default/containers/other/"}});
    let grid = grid
        .push_with("dead-letter-storage", "other", "200", narrow)
        .await;
    let path = "BILLING/2026/11/21/12/one.json";
    let told = grid.broker.publish_blob_created(&blob(path)).await;
    told.expect("it is stored");
    // It is on disk: a crash loses nothing.
    let grid = grid.restarted().await;
    grid.run_for(std::time::Duration::from_secs(3_600)).await;

    let heard = grid.heard("archive");
    assert_eq!(heard.len(), 2, "503, then 200");
    let events: Value = serde_json::from_slice(&heard[1].body).expect("JSON");
    let event = &events[0];
    assert_eq!(event["eventType"], "Microsoft.Storage.BlobCreated");
    assert_eq!(
        event["subject"],
        format!("/blobServices/default/containers/dead/blobs/{path}")
    );
    assert_eq!(event["metadataVersion"], "1");
    assert!(
        event["topic"]
            .as_str()
            .expect("a topic")
            .ends_with("/topics/dead-letter-storage")
    );
    assert_eq!(event["data"]["api"], "PutBlob");
    assert_eq!(event["data"]["contentLength"], 512);
    assert!(grid.heard("other").is_empty());

    // What nobody could have wanted was not stored; what one did is accounted for.
    let events = grid
        .manage(Method::GET, "/everpost/events", Value::Null)
        .await
        .json();
    assert_eq!(events["value"].as_array().expect("events").len(), 1);
    let counts = grid
        .manage(Method::GET, "/everpost/counts?verify=true", Value::Null)
        .await
        .json();
    let row = &counts["value"][0];
    assert_eq!(row["topic"], "dead-letter-storage");
    assert_eq!((&row["matched"], &row["delivered"]), (&json!(1), &json!(1)));
    assert_eq!(row["balance"], true);
    assert_eq!(row["recount"]["agrees"], true);
}

#[tokio::test]
async fn their_dead_letters_go_to_their_subscription_again_and_nowhere_as_new_events() {
    let grid = Grid::new().await;
    let grid = grid.push("dead-letter-storage", "archive", "400 200").await;
    let told = grid.broker.publish_blob_created(&blob("one.json")).await;
    told.expect("it is stored");
    grid.run_for(std::time::Duration::from_secs(60)).await;
    let rejected = grid
        .manage(
            Method::POST,
            "/everpost/deadLetters/1/resubmit",
            json!({"target": {"kind": "Topic"}}),
        )
        .await;
    let message = rejected.error(409, "Conflict");
    assert!(message.contains("nobody but the appliance"), "{message}");
    let again = grid
        .manage(
            Method::POST,
            "/everpost/deadLetters/1/resubmit",
            Value::Null,
        )
        .await;
    assert!(again.status.is_success(), "{}", again.text);
    grid.run_for(std::time::Duration::from_secs(60)).await;
    assert_eq!(grid.heard("archive").len(), 2);
}
