//! What becomes of events under locks: acknowledged, released, rejected, renewed, or left to lapse.

use super::*;

#[tokio::test(start_paused = true)]
async fn table_5_tokens_fail_one_by_one() {
    let grid = subscribed(json!({})).await;
    publish(&grid, json!([cloud_event("e1"), cloud_event("e2")])).await;
    let two = receive(&grid, "&maxEvents=2").await;
    let (one, other) = (two[0].token.as_str(), two[1].token.as_str());
    let stranger = "AAAAAAAAAAAAAAAAAAAAAA==";
    for operation in ["renewLock", "acknowledge"] {
        let codes = settle(&grid, operation, &[one, "nonsense", stranger]).await;
        assert_eq!(codes, ["", "BadToken", "TokenLost"], "{operation}");
    }
    assert_eq!(settle(&grid, "acknowledge", &[one]).await, ["TokenLost"]);
    grid.pass(MINUTE);
    for operation in ["acknowledge", "release", "reject", "renewLock"] {
        let heard = ask(&grid, operation, json!({"lockTokens": [other]})).await;
        let failed = json!({"lockToken": other,
            "error": {"code": "TokenLost", "message": "Token has expired."}});
        let expected = json!({"succeededLockTokens": [], "failedLockTokens": [failed]});
        assert_eq!(
            (heard.status, heard.json()),
            (StatusCode::OK, expected),
            "{operation}"
        );
    }
    // In the first preview the errors were flat.
    let path = format!("{SUBSCRIPTION}:acknowledge?api-version=2023-06-01-preview");
    let request = Request::post(path)
        .header("aeg-sas-key", key(&grid, NAMESPACE).await)
        .body(Body::from(json!({"lockTokens": ["x"]}).to_string()));
    let flat = grid.send(request.expect("a request")).await.json();
    assert_eq!(flat["failedLockTokens"][0]["errorCode"], "BadToken");
    grid.leave();
}

#[tokio::test(start_paused = true)]
async fn table_5_tokens_of_another_subscription_are_worth_nothing() {
    let grid = subscribed(json!({})).await;
    let other = format!("{TOPIC}/eventSubscriptions/other");
    put(&grid, &other, pulled(json!({}), json!({}))).await;
    publish(&grid, json!([cloud_event("e1")])).await;
    let held = receive_one(&grid).await;
    let request = Request::post(format!("{other}:acknowledge?{VERSION}"))
        .header("aeg-sas-key", key(&grid, NAMESPACE).await)
        .body(Body::from(json!({"lockTokens": [held.token]}).to_string()));
    let heard = grid.send(request.expect("a request")).await;
    assert_eq!(
        heard.json()["failedLockTokens"][0]["error"]["code"],
        "TokenLost"
    );
    assert_eq!(settle(&grid, "acknowledge", &[&held.token]).await, [""]);
    grid.leave();
}

#[tokio::test(start_paused = true)]
async fn table_5_release_hides_the_event_for_the_delay() {
    let grid = subscribed(json!({})).await;
    publish(&grid, json!([cloud_event("e1")])).await;
    let mut count = 0;
    for delay in [0, 10, 60, 600, 3_600] {
        let held = receive_one(&grid).await;
        count += 1;
        assert_eq!(held.count, count);
        let operation = format!("release?releaseDelayInSeconds={delay}");
        assert_eq!(settle(&grid, &operation, &[&held.token]).await, [""]);
        if delay > 0 {
            grid.pass(SECOND * (delay - 1));
            assert_eq!(receive(&grid, "").await, [], "{delay}");
            grid.pass(SECOND);
        }
    }
    assert_eq!(receive_one(&grid).await.count, 6);
    grid.leave();
}

#[tokio::test(start_paused = true)]
async fn table_5_the_release_delay_ends_with_the_time_to_live() {
    let grid = subscribed(json!({"eventTimeToLive": "PT2M"})).await;
    publish(&grid, json!([cloud_event("e1")])).await;
    let held = receive_one(&grid).await;
    let release = "release?releaseDelayInSeconds=3600";
    assert_eq!(settle(&grid, release, &[&held.token]).await, [""]);
    grid.pass(MINUTE * 2);
    grid.broker.sweep().await.expect("a sweep");
    let facts = record(&grid, "shop/orders").await["deadletterProperties"].clone();
    assert_eq!(facts["deadletterreason"], "Event time to live has expired.");
    assert_eq!(facts["deliveryattempts"], 1);
}

#[tokio::test(start_paused = true)]
async fn table_5_reject_is_the_end() {
    let grid = subscribed(json!({})).await;
    publish(&grid, json!([cloud_event("e1")])).await;
    let held = receive_one(&grid).await;
    grid.pass(SECOND);
    assert_eq!(settle(&grid, "reject", &[&held.token]).await, [""]);
    let expected = json!({
        "event": cloud_event("e1"),
        "customDeliveryProperties": {},
        "deadletterProperties": {
            "deadletterreason": "Event was rejected.", "deliveryattempts": 1,
            "deliveryresult": "Rejected", "publishutc": "2026-11-21T12:00:00.0000000Z",
            "deliveryattemptutc": "2026-11-21T12:00:00.0000000Z",
        },
    });
    assert_eq!(record(&grid, "shop/orders").await, expected);

    let drops = subscribed(json!({"deadLetterDestinationWithResourceIdentity": {"deadLetterDestination": {"endpointType": "Drop"}}})).await;
    publish(&drops, json!([cloud_event("e1")])).await;
    let held = receive_one(&drops).await;
    assert_eq!(settle(&drops, "reject", &[&held.token]).await, [""]);
    assert_eq!(
        drops.timeline("billing").await,
        "e1 +0s=Rejected Dropped +0s Application"
    );
}

#[tokio::test(start_paused = true)]
async fn table_5_renewals_keep_the_token_for_an_hour_from_the_receiving() {
    let grid = subscribed(json!({"receiveLockDurationInSeconds": 300})).await;
    publish(&grid, json!([cloud_event("e1")])).await;
    let first = receive_one(&grid).await;
    grid.pass(MINUTE * 5);
    // A lock that lapsed is lost, and its hour does not count against the next one.
    assert_eq!(
        settle(&grid, "renewLock", &[&first.token]).await,
        ["TokenLost"]
    );
    let held = receive_one(&grid).await;
    let renew = async || settle(&grid, "renewLock", &[&held.token]).await;
    for _ in 0..14 {
        grid.pass(MINUTE * 4);
        assert_eq!(renew().await, [""]);
    }
    grid.pass(MINUTE * 4 - SECOND);
    assert_eq!(renew().await, [""], "59:59 after the receiving");
    grid.pass(SECOND);
    assert_eq!(renew().await, ["TokenLost"], "an hour after it");
    grid.pass(MINUTE * 4);
    // The last renewal still holds.
    assert_eq!(receive(&grid, "").await, []);
    assert_eq!(settle(&grid, "acknowledge", &[&held.token]).await, [""]);
}

#[tokio::test(start_paused = true)]
async fn table_5_a_lock_that_lapses_brings_the_event_back() {
    let grid = subscribed(json!({"receiveLockDurationInSeconds": 90})).await;
    publish(&grid, json!([cloud_event("e1")])).await;
    let first = receive_one(&grid).await;
    grid.pass(SECOND * 89);
    assert_eq!(receive(&grid, "").await, []);
    grid.pass(SECOND);
    let second = receive_one(&grid).await;
    assert_eq!((first.count, second.count), (1, 2));
    assert_ne!(first.token, second.token);
    assert_eq!(
        settle(&grid, "acknowledge", &[&first.token]).await,
        ["TokenLost"]
    );
    assert_eq!(settle(&grid, "acknowledge", &[&second.token]).await, [""]);
    assert_eq!(
        grid.timeline("billing").await,
        "e1 +0s=LockLost +90s=Delivered Delivered"
    );
}

#[tokio::test(start_paused = true)]
async fn table_5_and_7_what_was_received_too_often_is_given_up() {
    for swept in [false, true] {
        let grid = subscribed(json!({"maxDeliveryCount": 2})).await;
        publish(&grid, json!([cloud_event("e1")])).await;
        for _ in 0..2 {
            receive_one(&grid).await;
            grid.pass(MINUTE);
        }
        match swept {
            true => grid.broker.sweep().await.expect("a sweep"),
            false => assert_eq!(receive(&grid, "").await, []),
        }
        let facts = record(&grid, "shop/orders").await["deadletterProperties"].clone();
        let expected = json!({
            "deadletterreason": "Maximum delivery attempts was exceeded.", "deliveryattempts": 2,
            "deliveryresult": "Event was not acknowledged nor rejected.",
            "publishutc": "2026-11-21T12:00:00.0000000Z",
            "deliveryattemptutc": "2026-11-21T12:01:00.0000000Z",
        });
        assert_eq!(facts, expected, "swept: {swept}");
        assert_eq!(
            grid.timeline("billing").await,
            "e1 +0s=LockLost +60s=LockLost DeadLettered +120s MaxDeliveryAttemptsExceeded"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn table_5_time_to_live_ends_what_nobody_holds() {
    let grid = subscribed(json!({"eventTimeToLive": "PT1M"})).await;
    publish(&grid, json!([cloud_event("e1"), cloud_event("e2")])).await;
    grid.pass(SECOND * 30);
    let held = receive_one(&grid).await;
    grid.pass(SECOND * 30);
    grid.broker.sweep().await.expect("a sweep");
    // The other one is held beyond its time to live, and can still be acknowledged.
    let facts = record(&grid, "shop/orders").await;
    assert_eq!(facts["event"]["id"], "e2");
    assert_eq!(
        facts["deadletterProperties"]["deadletterreason"],
        "Event time to live has expired."
    );
    assert_eq!(settle(&grid, "acknowledge", &[&held.token]).await, [""]);
}

#[tokio::test(start_paused = true)]
async fn what_has_expired_does_not_hide_what_has_not() {
    let grid = subscribed(json!({"eventTimeToLive": "PT1M"})).await;
    let old: Vec<Value> = (0..700).map(|n| cloud_event(&format!("old-{n}"))).collect();
    publish(&grid, json!(old)).await;
    grid.pass(MINUTE);
    publish(&grid, json!([cloud_event("new")])).await;
    assert_eq!(receive_one(&grid).await.event["id"], "new");
    grid.leave();
}
