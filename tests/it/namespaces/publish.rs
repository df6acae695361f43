//! Who may publish (table 2), and how (table 3).

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use serde_json::{Value, json};

use everpost::base::Timestamp;
use everpost::model::access::Secret;
use everpost::wire::sas;

use super::{BATCH, NAMESPACE, TOPIC, cloud_event, get, grid, key, post, publish, put, subscribed};
use crate::grid::{Grid, SendResult, TOKEN};

/// One event to `path`, with these headers.
async fn send(grid: &Grid, path: &str, headers: &[(&str, &str)]) -> SendResult {
    let mut request = Request::post(path).header(BATCH.0, BATCH.1);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = Body::from(json!([cloud_event("e1")]).to_string());
    grid.send(request.body(body).expect("a request")).await
}

async fn events(grid: &Grid) -> Vec<Value> {
    let page = get(grid, "/everpost/events?topic=shop/orders&limit=200").await;
    page["value"].as_array().expect("events").clone()
}

#[tokio::test]
async fn table_2_every_form_of_a_key_opens_the_topic() {
    let grid = grid().await;
    let path = format!("{TOPIC}:publish");
    for owner in [NAMESPACE, TOPIC] {
        let keys = grid
            .manage(Method::POST, &format!("{owner}/listKeys"), Value::Null)
            .await;
        for name in ["key1", "key2"] {
            let key = keys.json()[name].as_str().expect("a key").to_owned();
            let header = format!("SharedAccessKey {key}");
            let escaped = url::form_urlencoded::byte_serialize(key.as_bytes()).collect::<String>();
            for (path, headers) in [
                (path.clone(), vec![("authorization", header.as_str())]),
                (path.clone(), vec![("aeg-sas-key", key.as_str())]),
                (format!("{path}?aeg-sas-key={escaped}"), vec![]),
            ] {
                let reply = send(&grid, &path, &headers).await;
                assert_eq!(
                    reply.status,
                    StatusCode::OK,
                    "{owner} {headers:?}: {}",
                    reply.text
                );
            }
        }
    }
    assert_eq!(events(&grid).await.len(), 12);
}

#[tokio::test]
async fn table_2_sas_tokens_cover_the_namespace_or_the_topic() {
    let grid = grid().await;
    let path = format!("{TOPIC}:publish");
    let (namespace_key, topic_key) = (key(&grid, NAMESPACE).await, key(&grid, TOPIC).await);
    let later: Timestamp = "2027-01-01T00:00:00Z".parse().expect("a moment");
    let past: Timestamp = "2020-01-01T00:00:00Z".parse().expect("a moment");
    let host = "http://everpost.test";
    for (resource, key, expires_at, status) in [
        (host.to_owned(), &namespace_key, later, 200),
        (format!("{host}{NAMESPACE}"), &namespace_key, later, 200),
        (format!("{host}{TOPIC}"), &topic_key, later, 200),
        (format!("{host}{TOPIC}:publish"), &topic_key, later, 200),
        (
            format!("{host}/namespaces/shop/topics/order"),
            &namespace_key,
            later,
            401,
        ),
        (
            format!("{host}{TOPIC}/eventsubscriptions/billing"),
            &topic_key,
            later,
            401,
        ),
        (host.to_owned(), &namespace_key, past, 401),
        (host.to_owned(), &"AAAA".to_owned(), later, 401),
    ] {
        let token = sas::sign(&resource, expires_at, &Secret::new(key.as_str()));
        let signature = format!("SharedAccessSignature {token}");
        for header in [("authorization", &signature), ("aeg-sas-token", &token)] {
            let reply = send(&grid, &path, &[(header.0, header.1)]).await;
            assert_eq!(reply.status.as_u16(), status, "{resource}: {}", reply.text);
        }
    }
}

#[tokio::test]
async fn table_2_a_foreign_credential_opens_nothing() {
    let grid = grid().await;
    put(&grid, "/namespaces/depot", json!({"location": "l"})).await;
    put(&grid, &format!("{NAMESPACE}/topics/returns"), json!({})).await;
    let returns = key(&grid, &format!("{NAMESPACE}/topics/returns")).await;
    let depot = key(&grid, "/namespaces/depot").await;
    let path = format!("{TOPIC}:publish");
    for header in [
        ("aeg-sas-key", returns.as_str()),
        ("aeg-sas-key", depot.as_str()),
        ("authorization", "SharedAccessKey nonsense"),
        ("authorization", "Bearer nonsense"),
        ("x-nothing", "at-all"),
    ] {
        let reply = send(&grid, &path, &[header]).await;
        reply.error(401, "Unauthorized");
        assert_eq!(reply.headers["x-ms-error-code"], "Unauthorized");
    }
    let bearer = format!("Bearer {TOKEN}");
    let reply = send(&grid, &path, &[("authorization", &bearer)]).await;
    assert_eq!(reply.status, StatusCode::OK);
    // A renewed key is out at once.
    let old = key(&grid, NAMESPACE).await;
    let renew = format!("{NAMESPACE}/regenerateKey");
    grid.manage(Method::POST, &renew, json!({"keyName": "key1"}))
        .await;
    send(&grid, &path, &[("aeg-sas-key", &old)])
        .await
        .error(401, "Unauthorized");
}

#[tokio::test]
async fn table_2_network_rules_are_those_of_the_namespace() {
    let grid = grid().await;
    let closed = json!({"properties": {"publicNetworkAccess": "Disabled"}});
    grid.manage(Method::PATCH, NAMESPACE, closed).await;
    let key = key(&grid, NAMESPACE).await;
    let mut request = Request::post(format!("{TOPIC}:publish"))
        .header("aeg-sas-key", key)
        .header(BATCH.0, BATCH.1)
        .body(Body::from("[]"))
        .expect("a request");
    let address: std::net::SocketAddr = ([192, 0, 2, 1], 1).into();
    request
        .extensions_mut()
        .insert(axum::extract::ConnectInfo(address));
    grid.send(request).await.error(403, "Forbidden");
}

#[tokio::test]
async fn the_namespace_is_told_by_host_credential_or_name() {
    let grid = grid().await;
    put(&grid, "/namespaces/depot", json!({"location": "l"})).await;
    let shop = key(&grid, NAMESPACE).await;
    let path = "/topics/orders:publish";
    // The only topic of that name.
    let reply = send(&grid, path, &[("aeg-sas-key", &shop)]).await;
    assert_eq!((reply.status, reply.text.as_str()), (StatusCode::OK, "{}"));
    send(&grid, path, &[("aeg-sas-key", "wrong")])
        .await
        .error(401, "Unauthorized");
    send(&grid, "/topics/nothing:publish", &[("aeg-sas-key", &shop)])
        .await
        .error(404, "NotFound");
    send(
        &grid,
        "/topics/nothing:publish",
        &[("aeg-sas-key", "wrong")],
    )
    .await
    .error(401, "Unauthorized");
    // Two of that name: the key tells them apart, and so does the host.
    put(&grid, "/namespaces/depot/topics/orders", json!({})).await;
    let depot = key(&grid, "/namespaces/depot/topics/orders").await;
    for key in [&shop, &depot] {
        let reply = send(&grid, path, &[("aeg-sas-key", key)]).await;
        assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    }
    let bearer = format!("Bearer {TOKEN}");
    let reply = send(&grid, path, &[("authorization", &bearer)]).await;
    let message = reply.error(400, "BadRequest");
    assert!(message.contains("Several namespaces"), "{message}");
    for (host, status) in [
        ("depot.local:8080", 200),
        ("shop.local", 401),
        ("other.local", 200),
    ] {
        let reply = send(&grid, path, &[("host", host), ("aeg-sas-key", &depot)]).await;
        assert_eq!(reply.status.as_u16(), status, "{host}: {}", reply.text);
    }
    assert_eq!(events(&grid).await.len(), 2);
    // A topic is no place to POST to otherwise.
    send(&grid, TOPIC, &[("aeg-sas-key", &shop)])
        .await
        .error(405, "MethodNotAllowed");
    send(&grid, "/topics/orders", &[])
        .await
        .error(404, "NotFound");
}

#[tokio::test]
async fn table_3_api_versions_are_those_of_the_data_plane() {
    let grid = grid().await;
    let key = key(&grid, NAMESPACE).await;
    for (version, status) in [
        ("?api-version=2023-06-01-preview", 200),
        ("?api-version=2023-10-01-preview", 200),
        ("?api-version=2023-11-01", 200),
        ("?api-version=2024-06-01", 200),
        ("", 200),
        ("?api-version=2018-01-01", 400),
    ] {
        let path = format!("{TOPIC}:publish{version}");
        let reply = send(&grid, &path, &[("aeg-sas-key", &key)]).await;
        assert_eq!(reply.status.as_u16(), status, "{version}: {}", reply.text);
    }
}

#[tokio::test]
async fn table_3_success_is_200_with_an_empty_object() {
    let grid = grid().await;
    let reply = post(&grid, &[BATCH], json!([cloud_event("e1")]).to_string()).await;
    assert_eq!((reply.status, reply.text.as_str()), (StatusCode::OK, "{}"));
    assert_eq!(reply.headers["content-type"], "application/json");
}

#[tokio::test]
async fn table_3_an_event_and_an_array_come_under_either_json_type() {
    let grid = grid().await;
    for content_type in [
        "application/cloudevents+json",
        "application/cloudevents+json; charset=utf-8",
        "application/cloudevents-batch+json; charset=utf-8",
        "application/json",
    ] {
        for body in [
            cloud_event("e"),
            json!([cloud_event("e"), cloud_event("e")]),
        ] {
            let reply = post(&grid, &[("content-type", content_type)], body.to_string()).await;
            assert_eq!(
                reply.status,
                StatusCode::OK,
                "{content_type}: {}",
                reply.text
            );
        }
    }
    assert_eq!(events(&grid).await.len(), 12);
}

#[tokio::test]
async fn table_3_bad_events_are_rejected_with_all_their_neighbours() {
    let grid = grid().await;
    let with = |name: &str, value: Value| {
        let mut event = cloud_event("bad");
        event[name] = value;
        json!([cloud_event("good"), event]).to_string()
    };
    for (body, part) in [
        (with("id", Value::Null), "event [1], field \"id\""),
        (with("source", json!("")), "event [1], field \"source\""),
        (with("type", json!(7)), "event [1], field \"type\""),
        (
            with("specversion", json!("0.3")),
            "event [1], field \"specversion\"",
        ),
        (with("time", json!("today")), "event [1], field \"time\""),
        (
            with("Extension", json!("x")),
            "event [1], field \"Extension\"",
        ),
        (with("x2345678901234567890z", json!("x")), "at most 20"),
        (with("data_base64", json!("AA==")), "excludes the field"),
        ("{".to_owned(), "not valid JSON"),
        ("7".to_owned(), "Expected: StartObject"),
    ] {
        let reply = post(&grid, &[BATCH], body).await;
        let message = reply.error(400, "BadRequest");
        assert!(message.contains(part), "{message}");
        assert_eq!(reply.headers["x-ms-error-code"], "BadRequest");
    }
    let with_20 = with("x234567890123456789z", json!("x"));
    assert_eq!(post(&grid, &[BATCH], with_20).await.status, StatusCode::OK);
    assert_eq!(
        events(&grid).await.len(),
        2,
        "only the last request was taken"
    );
}

#[tokio::test]
async fn table_3_a_request_has_at_most_a_megabyte_and_a_thousand_events() {
    let grid = grid().await;
    let thousand = Value::from(vec![cloud_event("e"); 1_000]);
    publish(&grid, thousand).await;
    let too_many = Value::from(vec![cloud_event("e"); 1_001]);
    let reply = post(&grid, &[BATCH], too_many.to_string()).await;
    let message = reply.error(413, "RequestEntityTooLarge");
    assert!(
        message.contains("too many events; at most 1000"),
        "{message}"
    );

    let of_size = |size: usize| {
        let mut event = cloud_event("big");
        event["data"] = json!("");
        let rest = size - event.to_string().len();
        event["data"] = json!("x".repeat(rest));
        event.to_string()
    };
    let type_of_one = ("content-type", "application/cloudevents+json");
    let fits = post(&grid, &[type_of_one], of_size(1_049_600)).await;
    assert_eq!(fits.status, StatusCode::OK);
    let reply = post(&grid, &[type_of_one], of_size(1_049_601)).await;
    let message = reply.error(413, "RequestEntityTooLarge");
    assert!(
        message.contains("The maximum size (1049600) has been exceeded."),
        "{message}"
    );
    assert_eq!(reply.headers["x-ms-error-code"], "RequestEntityTooLarge");
}

#[tokio::test]
async fn table_3_binary_mode_is_delivered_structured() {
    let grid = subscribed("200", json!({}), json!({})).await;
    let ce = [
        ("ce-specversion", "1.0"),
        ("ce-id", "b1"),
        ("ce-source", "/shop"),
        ("ce-type", "Order.Paid"),
        ("ce-tenant", "north"),
    ];
    for (content_type, body, data) in [
        ("application/json", r#"{"a":1.10}"#, r#""data":{"a":1.10}"#),
        (
            "application/vnd.x+json; charset=utf-8",
            "[1]",
            r#""data":[1]"#,
        ),
        ("text/plain", "hello", r#""data":"hello""#),
        (
            "application/octet-stream",
            "hello",
            r#""data_base64":"aGVsbG8=""#,
        ),
    ] {
        let mut headers = ce.to_vec();
        headers.push(("content-type", content_type));
        let reply = post(&grid, &headers, body).await;
        assert_eq!(
            reply.status,
            StatusCode::OK,
            "{content_type}: {}",
            reply.text
        );
        grid.run_for(super::SECOND).await;
        let heard = grid.heard("billing").pop().expect("a delivery");
        assert_eq!(
            heard.headers["content-type"],
            "application/cloudevents+json; charset=utf-8"
        );
        let text = String::from_utf8(heard.body.to_vec()).expect("text");
        assert!(text.contains(data), "{text}");
        let event: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(event["datacontenttype"], content_type);
        assert_eq!(
            (&event["id"], &event["tenant"]),
            (&json!("b1"), &json!("north"))
        );
    }
    let mut headers = ce.to_vec();
    headers.push(("ce-datacontenttype", "text/plain"));
    post(&grid, &headers, "x").await.error(400, "BadRequest");
    post(&grid, &[("content-type", "text/plain")], "x")
        .await
        .error(415, "UnsupportedMediaType");
}
