//! An inspector from its form to what it got.

use std::time::Duration;

use super::Appliance;
use crate::admin::tests::person::Person;

async fn with_inspector(answers: &str) -> (Appliance, Person) {
    let (appliance, mut person) = Appliance::claimed().await;
    person.open("/admin/new-topic").await;
    let topic = [
        ("name", "orders"),
        ("location", "local"),
        ("inputSchema", "EventGridSchema"),
    ];
    person.send("/admin/new-topic", &topic).await;
    let page = person.open("/admin/inspectors").await;
    page.expect(&["No inspectors yet.", "/admin/new-inspector"]);
    person.open("/admin/new-inspector").await;
    let page = person
        .send(
            "/admin/new-inspector",
            &[("name", "bin"), ("answers", answers)],
        )
        .await;
    page.expect(&[
        "Inspector bin has been created.",
        "https://inspector.everpost.internal/bin",
        "No requests yet.",
    ]);
    (appliance, person)
}

/// Publishes the example of the form.
async fn publish(person: &mut Person) {
    let form = person.open("/admin/topics/orders/publish").await;
    let text = form.body.split("</textarea>").next();
    let example = text.and_then(|text| text.rsplit('>').next());
    let example = example.expect("an example").replace("&#34;", "\"");
    let page = person
        .send("/admin/topics/orders/publish", &[("events", &example)])
        .await;
    page.expect(&["1 event has been accepted."]);
}

/// Opens the inspector until it shows `text`.
async fn wait_for(person: &mut Person, text: &str) -> super::person::Shown {
    for _ in 0..200 {
        let page = person.open("/admin/inspectors/bin").await;
        if page.body.contains(text) {
            return page;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{text} has never been shown");
}

#[tokio::test]
async fn an_inspector_shows_what_it_gets() {
    let (_appliance, mut person) = with_inspector("503 200").await;
    let page = person.open("/admin/inspectors/bin").await;
    page.expect(&[
        "<optgroup label=\"Topics\">\n<option value=\"orders\">orders</option>\n</optgroup>\n\
         <optgroup label=\"Built in\">",
        "Edit the subscription to add a filter",
    ]);
    let subscribe = "/admin/inspectors/bin/subscribe";
    let page = person.send(subscribe, &[("topic", "orders")]).await;
    page.expect(&["This inspector now gets the events of", "orders / bin"]);
    let page = person.send(subscribe, &[("topic", "orders")]).await;
    page.expect(&["already has an event subscription bin."]);
    wait_for(&mut person, "Event Grid validation, accepted").await;

    publish(&mut person).await;
    let page = wait_for(&mut person, "2 received, 2 kept").await;
    page.expect(&[
        "badge bad",
        ">503<",
        "after 1 delivery",
        "<dt>Next</dt><dd><code>200",
    ]);
    page.expect(&["aeg-event-type: Notification", "id=\"request-2\" open"]);
    let page = person.open("/admin/inspectors/bin/requests/2").await;
    page.expect(&["aeg-delivery-count: 0", "everpost inspectors request bin 2"]);
    let page = person.open("/admin/inspectors/bin/requests/3").await;
    assert_eq!(page.status.as_u16(), 404);
    let page = person.open("/admin/inspectors").await;
    page.expect(&["503 200", "/admin/inspectors/bin"]);
}

#[tokio::test]
async fn the_body_of_an_answer_is_seen_on_the_page_of_the_event() {
    let (_appliance, mut person) = with_inspector("400").await;
    let edit = "/admin/inspectors/bin/edit";
    person.open(edit).await.expect(&["Sent with each response"]);
    let long = "x".repeat(1_025);
    let page = person.send_filled(edit, &[("responseBody", &long)]).await;
    assert_eq!(page.status.as_u16(), 422);
    page.expect(&["1024 bytes", "aria-invalid"]);
    let body = "no field total\r\n<b>at all</b>";
    let page = person.send_filled(edit, &[("responseBody", body)]).await;
    page.expect(&["aria-label=\"Body\"", "no field total\n&#60;b&#62;at all"]);
    person.open(edit).await.expect(&["no field total\n"]);

    person.open("/admin/inspectors/bin").await;
    let subscribe = "/admin/inspectors/bin/subscribe";
    person.send(subscribe, &[("topic", "orders")]).await;
    wait_for(&mut person, "1 received, 1 kept").await;
    publish(&mut person).await;
    wait_for(&mut person, "2 received, 2 kept").await;
    for _ in 0..200 {
        let page = person.open("/admin/events/1").await;
        if page.body.contains("no field total") {
            return page.expect(&["400", "text/plain; charset=utf-8"]);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the answer has never been shown");
}

#[tokio::test]
async fn an_inspector_is_changed_cleared_and_deleted() {
    let (_appliance, mut person) = with_inspector("503 200").await;
    person
        .send("/admin/inspectors/bin/subscribe", &[("topic", "orders")])
        .await;
    wait_for(&mut person, "1 received, 1 kept").await;

    let edit = "/admin/inspectors/bin/edit";
    person.open(edit).await.expect(&["value=\"503 200\""]);
    let page = person.send(edit, &[("answers", "maybe")]).await;
    assert_eq!(page.status.as_u16(), 422);
    page.expect(&["is no answer"]);
    let fields = [
        ("answers", "410"),
        ("responseHeaders", "X-A: b"),
        ("delayInMilliseconds", "5"),
    ];
    let page = person.send(edit, &fields).await;
    page.expect(&[
        "has been changed",
        "<dt>Next</dt><dd><code>410",
        ">X-A",
        "5 ms",
    ]);

    let clear = "/admin/inspectors/bin/clear";
    person
        .open(clear)
        .await
        .expect(&["Clear 1 request of bin?"]);
    let page = person.send(clear, &[]).await;
    page.expect(&["1 request has been deleted.", "No requests yet."]);

    let delete = "/admin/inspectors/bin/delete";
    let asked = person.open(delete).await;
    asked.expect(&[
        "0 kept requests are deleted.",
        "1 event subscription: orders / bin",
    ]);
    let page = person.send(delete, &[]).await;
    page.expect(&["Inspector bin has been deleted.", "No inspectors yet."]);
    let page = person.open("/admin/inspectors/bin").await;
    assert_eq!(page.status.as_u16(), 404);
}
