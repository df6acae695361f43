//! Rejected publish requests in the pages: found, told apart, and inert.

use std::time::Duration;

use http::StatusCode;

use super::{Appliance, NAME, PASSWORD};
use crate::admin::tests::person::Person;
use crate::model::name::TopicName;
use crate::model::rejection::Rejection;
use crate::store::accounts::Role;

const SCRIPT: &str = "<script>alert(1)</script>";

/// An appliance with the topics `orders` and `invoices`.
async fn with_topics() -> (Appliance, Person) {
    let (appliance, mut person) = Appliance::claimed().await;
    for name in ["orders", "invoices"] {
        person.open("/admin/new-topic").await;
        let fields = [("name", name), ("location", "local")];
        person.send("/admin/new-topic", &fields).await;
    }
    (appliance, person)
}

/// A request to `topic` that was rejected for `reason`.
async fn reject(appliance: &Appliance, topic: &str, reason: &str, body: &[u8]) {
    let topic = TopicName::parse(topic).expect("a name");
    appliance.broker.note_rejection(Rejection {
        topic: appliance.broker.topic(&topic).expect("a topic").topic.id,
        received_at: appliance.clock.now(),
        status: 400,
        code: "BadRequest".to_owned(),
        reason: reason.to_owned(),
        content_type: Some(SCRIPT.to_owned()),
        bytes: body.len(),
        body_start: Rejection::body_start_of(body),
    });
    appliance.broker.store_rejections().await;
}

#[tokio::test(start_paused = true)]
async fn they_are_found_by_topic_and_reason() {
    let (appliance, mut person) = with_topics().await;
    let path = "/admin/rejected-events";
    let empty = person.open(path).await;
    empty.expect(&["No publish request was rejected in the last 7 days."]);
    reject(&appliance, "orders", "The id is missing.", b"[{}]").await;
    reject(&appliance, "invoices", "This is not JSON.", b"[").await;
    for (query, found) in [
        ("", vec!["The id is missing.", "This is not JSON."]),
        ("?topic=orders", vec!["The id is missing."]),
        ("?reason=not+json", vec!["This is not JSON."]),
        (
            "?reason=badrequest&topic=invoices",
            vec!["This is not JSON."],
        ),
        ("?reason=BadRequest&before=2", vec!["The id is missing."]),
        ("?reason=%25", vec![]),
        ("?topic=%3Cb%3E", vec!["is not a topic."]),
    ] {
        let page = person.open(&format!("{path}{query}")).await;
        page.expect(&found);
        for text in ["The id is missing.", "This is not JSON."] {
            assert_eq!(
                page.body.contains(text),
                found.contains(&text),
                "{query} {text}"
            );
        }
        if found.is_empty() {
            page.expect(&["No rejected requests match this filter."]);
        }
    }
    let page = person.open(&format!("{path}?topic=orders&reason=id")).await;
    page.expect(&[
        "everpost rejected list --topic &#39;orders&#39; --reason &#39;id&#39;",
        "/everpost/rejectedEvents?topic=orders&#38;reason=id",
    ]);
}

#[tokio::test(start_paused = true)]
async fn overview_topic_and_events_lead_there() {
    let (appliance, mut person) = with_topics().await;
    let tile = "1 publish request";
    assert!(!person.open("/admin").await.body.contains(tile));
    reject(&appliance, "orders", "no", b"").await;
    person.open("/admin").await.expect(&[tile]);
    appliance.clock.advance(Duration::from_secs(24 * 3_600 + 1));
    let overview = person.sign_in(NAME, PASSWORD).await;
    assert_eq!(overview.path, "/admin", "{}", overview.body);
    assert!(!overview.body.contains(tile));
    let link = "href=\"/admin/rejected-events?topic=orders\"";
    person.open("/admin/topics/orders").await.expect(&[link]);
    let built_in = person.open("/admin/topics/everpost-system").await;
    assert!(!built_in.body.contains("rejected-events?topic"));
    let events = person.open("/admin/events?state=Unmatched").await;
    events.expect(&[
        "href=\"/admin/rejected-events\"",
        "everpost events list --unmatched",
        "/everpost/events?unmatched=true",
    ]);
}

#[tokio::test(start_paused = true)]
async fn one_shows_its_reason_and_what_came() {
    let (appliance, mut person) = with_topics().await;
    let body = format!("{SCRIPT}\u{202e}\0 and more").into_bytes();
    reject(&appliance, "orders", &format!("event [0]: {SCRIPT}"), &body).await;
    reject(&appliance, "orders", "too large", &vec![b'x'; 20_000]).await;
    let page = person.open("/admin/rejected-events/1").await;
    page.expect(&[
        "Event 1: &#60;script&#62;",
        "&#60;script&#62;alert(1)&#60;/script&#62;\\u{202e}\\u{0} and more",
        "400 Bad Request",
        "Event Grid",
        "/admin/topics/orders/publish",
        "everpost rejected show 1",
    ]);
    let list = person.open("/admin/rejected-events").await;
    for page in [page, list] {
        assert!(!page.body.contains(SCRIPT), "{}", page.body);
    }
    let cut = person.open("/admin/rejected-events/2").await;
    cut.expect(&["first 16 KiB of 19.5 KiB"]);
    assert!(cut.body.contains(&"x".repeat(16_384)) && !cut.body.contains(&"x".repeat(16_385)));
    for missing in ["3", "x", "%3Cb%3E"] {
        let page = person
            .open(&format!("/admin/rejected-events/{missing}"))
            .await;
        assert_eq!(page.status, StatusCode::NOT_FOUND);
    }

    let mut viewer = appliance.signed_in(Role::Viewer).await;
    let page = viewer.open("/admin/rejected-events/1").await;
    page.expect(&["Event 1:", "does not see what events carry"]);
    for hidden in ["and more", "/publish\""] {
        assert!(!page.body.contains(hidden), "{hidden}");
    }

    person.open("/admin/topics/orders/delete").await;
    person.send("/admin/topics/orders/delete", &[]).await;
    let page = person.open("/admin/rejected-events/1").await;
    page.expect(&["orders (deleted)"]);
}
