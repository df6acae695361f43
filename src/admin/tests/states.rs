//! What somebody is told whose webhook could not be called, until it is mended.

use super::Appliance;
use super::deliver::publish;
use super::person::{Person, Shown};

const PAGE: &str = "/admin/topics/orders/subscriptions/barred";
const EDIT: &str = "/admin/topics/orders/subscriptions/barred/edit";
const UNMATCHED: &str = "/admin/events?of=orders&#38;state=Unmatched";

/// A subscription of its own topic whose webhook is never called, as its maker sees it.
async fn with_barred(subject: &str) -> (Appliance, Person, Shown) {
    let (appliance, mut person) = Appliance::claimed().await;
    person.open("/admin/new-topic").await;
    let fields = [
        ("name", "orders"),
        ("location", "local"),
        ("inputSchema", "EventGridSchema"),
    ];
    person.send("/admin/new-topic", &fields).await;
    person.open("/admin/topics/orders/new-subscription").await;
    let page = change(
        &mut person,
        "/admin/topics/orders/new-subscription",
        "https://shop.example/barred",
        subject,
    )
    .await;
    (appliance, person, page)
}

async fn change(person: &mut Person, path: &str, url: &str, subject: &str) -> Shown {
    person.open(path).await;
    let fields = [
        ("name", "barred"),
        ("endpointUrl", url),
        ("maxDeliveryAttempts", "30"),
        ("subjectBeginsWith", subject),
    ];
    person.send(path, &fields).await
}

#[tokio::test(start_paused = true)]
async fn the_page_says_once_why_nobody_was_asked_and_what_passes_by() {
    let (_appliance, mut person, page) = with_barred("").await;
    page.expect(&[
        "Event subscription barred has been created, but validation failed. The reason is below.",
        "Events published before validation passes are never delivered to it",
        UNMATCHED,
        "then validate again.",
    ]);
    assert_eq!(page.body.matches("not called").count(), 1, "{}", page.body);
    page.expect(&["Validate again</button>", "Pause</button>"]);
    person
        .send(&format!("{PAGE}/validate"), &[])
        .await
        .expect(&["Validation failed."]);
}

#[tokio::test(start_paused = true)]
async fn an_event_tells_who_passed_it_over_and_what_to_do() {
    let (_appliance, mut person, _) = with_barred("").await;
    let event = publish(&mut person).await;
    person.open(&event).await.expect(&[
        "/admin/topics/orders/subscriptions/barred\"",
        "takes no events",
        "Its filter matches the event.",
        "alidate it again or correct its URL",
    ]);
    change(&mut person, EDIT, "https://shop.example/events", "").await;
    let page = person.open(&event).await;
    page.expect(&["Send to barred", "it would match"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_tells_that_the_filter_would_not_have_wanted_it_either() {
    let (_appliance, mut person, _) = with_barred("/nowhere").await;
    let event = publish(&mut person).await;
    let page = person.open(&event).await;
    page.expect(&[
        "has not passed validation (Failed)",
        "Wanted: subject begins with",
    ]);
}

#[tokio::test(start_paused = true)]
async fn the_form_says_what_becomes_of_events_until_a_new_url_agrees() {
    let (_appliance, mut person, _) = with_barred("").await;
    let page = person.open(EDIT).await;
    page.expect(&["are never delivered to it"]);
    change(&mut person, EDIT, "https://shop.example/events", "").await;
    let page = person.open(EDIT).await;
    page.expect(&["Pending and new events are held until it passes."]);
    let page = change(&mut person, EDIT, "https://shop.example/barred", "").await;
    page.expect(&["Events are matched and held until validation passes."]);
    assert!(!page.body.contains(UNMATCHED), "{}", page.body);
    publish(&mut person).await;
    person
        .open(&format!("{PAGE}?"))
        .await
        .expect(&["of=orders/barred&amp;state=Pending\">1 pending delivery</a>"]);
}
