//! The guided way, from nothing to a delivery, a failure and a resubmission.

use std::time::Duration;

use super::Appliance;
use super::person::{Person, Shown};

/// Reads the page again until it shows `text`.
async fn wait_for(person: &mut Person, path: &str, text: &str) -> Shown {
    for _ in 0..200 {
        let page = person.open(path).await;
        if page.body.contains(text) {
            return page;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{path} has never shown {text}");
}

#[tokio::test]
async fn the_guide_leads_from_nothing_to_a_resubmission() {
    let (appliance, mut person) = Appliance::claimed().await;
    let overview = person.open("/admin").await;
    overview.expect(&["Deliver the first event", "/admin/first-event"]);
    person
        .open("/admin/first-event")
        .await
        .expect(&["value=\"orders\""]);
    let rejected = person.send("/admin/first-event", &[("topic", "o")]).await;
    assert_eq!(rejected.status.as_u16(), 422);
    let page = person
        .send("/admin/first-event", &[("topic", "orders")])
        .await;
    page.expect(&[
        "/admin/inspectors/orders-inspector",
        "Publish it",
        "Example.Created",
    ]);

    let page = person.send("/admin/first-event/publish", &[]).await;
    assert!(
        page.path
            .starts_with("/admin/first-event?topic=orders&taken=1#"),
        "{}",
        page.path
    );
    let page = wait_for(&mut person, &page.path, "It has arrived").await;
    page.expect(&["Delivered", "Publish another one"]);

    let page = person.send("/admin/first-event/fail", &[]).await;
    let path = page.path;
    wait_for(&mut person, &path, "1 attempt of at most 30")
        .await
        .expect(&["Attempt 2 in ", "Retry now"]);
    for (came, attempts) in [
        ("503 Service Unavailable after ", "2 attempts of at most 30"),
        (
            "Delivered: 200 OK after ",
            "After two failures it has been delivered",
        ),
    ] {
        appliance.clock.advance(Duration::from_secs(1));
        let again = person.send("/admin/deliveries/2/retry-now", &[]).await;
        again.expect(&[came]);
        assert!(
            again
                .path
                .starts_with("/admin/first-event?topic=orders&taken=1&failed=2")
        );
        wait_for(&mut person, &path, attempts).await;
    }

    let page = person.send("/admin/first-event/reject", &[]).await;
    let path = page.path;
    let page = wait_for(&mut person, &path, "has become a dead letter").await;
    page.expect(&["UndeliverableDueToHttpBadRequest"]);
    person.send("/admin/first-event/repair", &[]).await;
    wait_for(
        &mut person,
        &path,
        "The dead letter has been resubmitted, and has arrived.",
    )
    .await;
    let inspector = person.open("/admin/inspectors/orders-inspector").await;
    inspector.expect(&["5 received", "orders / first-event"]);
    let rejecting = person.open("/admin/inspectors/orders-rejecting").await;
    rejecting.expect(&["3 received", "orders / rejected-event"]);
    let overview = person.open("/admin").await;
    assert!(!overview.body.contains("Deliver the first event"));
    overview.expect(&["Guide to a first event"]);
    drop(appliance);
}

/// Whoever edits the dead letter while the inspector still rejects is led on all the same.
#[tokio::test]
async fn the_guide_follows_an_event_that_is_edited_and_rejected_again() {
    let (_appliance, mut person) = Appliance::claimed().await;
    person.open("/admin/first-event").await;
    person
        .send("/admin/first-event", &[("topic", "orders")])
        .await;
    let guide = person.send("/admin/first-event/reject", &[]).await.path;
    let page = wait_for(&mut person, &guide, "has become a dead letter").await;
    page.expect(&["answers 400 to everything", "Answer 200 and resubmit"]);

    let form = person.open("/admin/dead-letters/1/edit").await;
    let event = form.body.split("</textarea>").next();
    let event = event.and_then(|text| text.rsplit('>').next());
    let event = event.expect("the event").replace("&#34;", "\"");
    let fields = [("event", event.as_str()), ("kind", "Topic orders")];
    let page = person.send("/admin/dead-letters/1/edit", &fields).await;
    assert_eq!(page.path, "/admin/events/2");
    page.expect(&[
        "Resubmission of <a href=\"/admin/events/1#delivery-1\">delivery 1</a>",
        "of <a href=\"/admin/events/1\">event 1</a>",
    ]);
    let old = person.open("/admin/events/1").await;
    old.expect(&["Resubmitted as <a href=\"/admin/events/2\">event 2</a> of the topic orders"]);
    person
        .open("/admin/dead-letters/1")
        .await
        .expect(&["Resubmitted as <a href=\"/admin/events/2\">event 2</a> of the topic orders"]);

    let page = wait_for(&mut person, &guide, "name=\"delivery\" value=\"2\"").await;
    page.expect(&[
        "answers 400 to everything",
        "id=\"delivery-1\"",
        "id=\"delivery-2\"",
    ]);
    person.send("/admin/first-event/repair", &[]).await;
    let arrived = "The dead letter has been resubmitted, and has arrived.";
    wait_for(&mut person, &guide, arrived).await;
}

#[tokio::test]
async fn the_guide_uses_what_is_there_and_says_what_is_not() {
    let (_appliance, mut person) = Appliance::claimed().await;
    person.open("/admin/new-topic").await;
    let fields = [
        ("name", "cloud"),
        ("location", "local"),
        ("inputSchema", "CloudEventSchemaV1_0"),
    ];
    person.send("/admin/new-topic", &fields).await;
    person.open("/admin/first-event").await;
    let page = person
        .send("/admin/first-event", &[("topic", "cloud")])
        .await;
    page.expect(&["specversion", "/admin/inspectors/cloud-inspector"]);
    let guide = page.path;
    let inspector = "/admin/inspectors/cloud-inspector";
    person.open(inspector).await;
    let subscribe = format!("{inspector}/subscribe");
    person.send(&subscribe, &[("topic", "cloud")]).await;
    person.open(&guide).await;
    let page = person.send("/admin/first-event/publish", &[]).await;
    let page = wait_for(&mut person, &page.path, "It has arrived").await;
    let ours = page.body.matches("class=\"panel delivery\"").count();
    assert_eq!(
        ours, 1,
        "the other subscription's delivery is not the guide's"
    );
    let page = person.open("/admin/first-event?topic=nothing").await;
    assert_eq!(page.status.as_u16(), 404);
}
