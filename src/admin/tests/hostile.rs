//! What publishers and webhooks say is text, whatever it looks like.

use super::Appliance;

const SCRIPT: &str = "<script>alert(1)</script>";
const BREAK_OUT: &str = "\"' onmouseover=alert(1) x='";

#[tokio::test(start_paused = true)]
async fn hostile_events_and_answers_are_inert() {
    let (appliance, mut person) = Appliance::claimed().await;
    person.open("/admin/new-topic").await;
    let topic = [("name", "orders"), ("location", BREAK_OUT)];
    person.send("/admin/new-topic", &topic).await;
    let path = "/admin/topics/orders/new-subscription";
    person.open(path).await;
    let subscription = [
        ("name", "billing"),
        ("endpointUrl", "https://shop.example/"),
        ("labels", SCRIPT),
        ("maxDeliveryAttempts", "1"),
    ];
    person.send(path, &subscription).await;

    appliance.webhooks.will_answer(500, SCRIPT, SCRIPT);
    let event = serde_json::json!([{
        "id": SCRIPT, "eventType": SCRIPT, "subject": BREAK_OUT, "dataVersion": SCRIPT,
        "eventTime": "2026-11-21T06:40:53Z", "data": { SCRIPT: BREAK_OUT },
    }]);
    person.open("/admin/topics/orders/publish").await;
    let page = person
        .send(
            "/admin/topics/orders/publish",
            &[("events", &event.to_string())],
        )
        .await;
    assert!(page.path.starts_with("/admin/events/1"), "{}", page.body);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }

    for path in [
        "/admin",
        "/admin/topics/orders",
        "/admin/topics/orders/subscriptions/billing",
        "/admin/topics/orders/subscriptions/billing/edit",
        "/admin/events",
        "/admin/events?type=%3Cscript%3Ealert(1)%3C/script%3E&id=%22%27%20onmouseover=alert(1)",
        "/admin/events/1",
        "/admin/events/1?as=text",
        "/admin/dead-letters",
        "/admin/dead-letters/1",
        "/admin/dead-letters/1/resubmit",
        "/admin/dead-letters?of=%3Cscript%3Ealert(1)%3C/script%3E",
        "/admin/topics/%3Cscript%3Ealert(1)%3C%2Fscript%3E",
    ] {
        let page = person.open(path).await;
        assert!(!page.body.contains(SCRIPT), "{path}:\n{}", page.body);
        for tag in page.body.split('<').skip(1) {
            let tag = tag.split('>').next().unwrap_or("");
            assert!(
                !tag.contains("onmouseover=") || is_quoted(tag),
                "{path}: {tag}"
            );
        }
    }
    let page = person.open("/admin/events/1").await;
    page.expect(&["&#60;script&#62;alert(1)"]);
}

/// Whether what looks like a handler stands inside of a quoted value.
fn is_quoted(tag: &str) -> bool {
    let before = tag.split("onmouseover=").next().unwrap_or("");
    before.matches('"').count() % 2 == 1
}

#[tokio::test(start_paused = true)]
async fn data_is_downloaded_as_a_file() {
    let (_appliance, mut person) = Appliance::claimed().await;
    person.open("/admin/new-topic").await;
    person
        .send("/admin/new-topic", &[("name", "orders"), ("location", "x")])
        .await;
    let event = serde_json::json!([{
        "id": "1", "eventType": "T", "subject": "s", "dataVersion": "1",
        "eventTime": "2026-11-21T06:40:53Z", "data": SCRIPT,
    }]);
    person.open("/admin/topics/orders/publish").await;
    person
        .send(
            "/admin/topics/orders/publish",
            &[("events", &event.to_string())],
        )
        .await;
    let file = person.open("/admin/events/1/data").await;
    assert_eq!(file.body, format!("\"{SCRIPT}\""));
    let disposition = file
        .headers
        .get("content-disposition")
        .expect("a disposition");
    assert_eq!(disposition, "attachment; filename=\"event-1.json\"");
    assert_eq!(
        file.headers
            .get("x-content-type-options")
            .expect("a header"),
        "nosniff"
    );
}
