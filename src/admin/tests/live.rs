//! Pages that keep themselves up to date.

use crate::model::audit::Caller;
use crate::store::accounts::UserId;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt;

use super::Appliance;
use crate::admin::site::STREAMS_MAX;

const REFRESH: (&str, &str) = ("everpost-refresh", "true");

/// The script reads a page again behind the reader's back: what the page has to tell the reader, and the
/// life of the session, are not its business.
#[tokio::test(start_paused = true)]
async fn a_refresh_takes_no_message_and_keeps_no_session_alive() {
    let (appliance, mut person) = Appliance::claimed().await;
    person.open("/admin/new-topic").await;
    let fields = [
        ("name", "orders"),
        ("location", "local"),
        ("inputSchema", "EventGridSchema"),
    ];
    let response = person.send_alone("/admin/new-topic", &fields).await;
    assert_eq!(response.status(), StatusCode::SEE_OTHER);
    person.headers.push(REFRESH);
    let refreshed = person.open("/admin/topics/orders").await;
    assert!(!refreshed.body.contains("has been created"));
    person.headers.pop();
    person
        .open("/admin/topics/orders")
        .await
        .expect(&["Topic orders has been created"]);

    person.headers.push(REFRESH);
    for _ in 0..4 {
        appliance.clock.advance(Duration::from_secs(8 * 60));
        person.open("/admin").await;
    }
    person.headers.pop();
    person.open("/admin").await.expect(&["Sign in"]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_tells_of_changes_and_of_nothing_else() {
    let (appliance, person) = Appliance::claimed().await;
    let stream = person.get("/admin/live").await;
    assert_eq!(stream.status(), StatusCode::OK);
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let mut stream = stream.into_body();
    // What has been claimed a moment ago may still be told; then it is quiet.
    while next(&mut stream).await != ":\n\n" {}
    appliance
        .store
        .accounts
        .note_sign_in(UserId(1), Caller::command_line(appliance.clock.now()))
        .await
        .expect("a change");
    assert_eq!(next(&mut stream).await, "event: changed\ndata: now\n\n");
    assert_eq!(next(&mut stream).await, ":\n\n");
    appliance.broker.stop();
    assert!(stream.frame().await.is_none(), "it ends with the appliance");
}

async fn next(stream: &mut Body) -> Bytes {
    let frame = stream.frame().await.expect("a frame").expect("bytes");
    frame.into_data().expect("data")
}

#[tokio::test(start_paused = true)]
async fn streams_are_bounded_and_behind_the_login() {
    let (appliance, person) = Appliance::claimed().await;
    let mut open = Vec::new();
    for _ in 0..STREAMS_MAX {
        open.push(person.get("/admin/live").await);
    }
    let rejected = person.get("/admin/live").await;
    assert_eq!(rejected.status(), StatusCode::SERVICE_UNAVAILABLE);
    open.pop();
    assert_eq!(person.get("/admin/live").await.status(), StatusCode::OK);
    let stranger = appliance.somebody();
    let sent_away = stranger.get("/admin/live").await;
    assert_eq!(sent_away.status(), StatusCode::SEE_OTHER);
}
