//! What is drawn, with its numbers in words; and the lists that draw it beside each row.

use std::time::Duration;

use http::StatusCode;

use super::deliver::{publish, settle, with_subscription};
use super::{Appliance, NAME, PASSWORD};
use crate::admin::tests::person::Person;
use crate::model::delivery::DeliveryState;
use crate::store::accounts::Role;

/// One dead letter, one delivery, and one that waits.
async fn with_traffic() -> (Appliance, Person) {
    let (appliance, mut person) = with_subscription().await;
    appliance.webhooks.will_answer(401, "no", "who are you?");
    publish(&mut person).await;
    settle(&appliance, 1, DeliveryState::DeadLettered).await;
    publish(&mut person).await;
    settle(&appliance, 2, DeliveryState::Delivered).await;
    person
        .open("/admin/topics/orders/subscriptions/billing")
        .await;
    person
        .send("/admin/topics/orders/subscriptions/billing/pause", &[])
        .await;
    publish(&mut person).await;
    (appliance, person)
}

#[tokio::test(start_paused = true)]
async fn charts_and_their_tables_say_what_happened() {
    let (_appliance, mut person) = with_traffic().await;
    for path in [
        "/admin",
        "/admin/topics/orders",
        "/admin/topics/orders/subscriptions/billing",
    ] {
        person.open(path).await.expect(&[
            "Delivery attempts per minute",
            "peak 2",
            "08:00–08:01: 50.0 %",
            "lowest 50.0 %",
            "highest p95 ≤\u{a0}5 ms",
            "08:00–08:01: 1 pending",
            "1 1 50.0 % ≤ 5 ms ≤ 5 ms 1 1 0",
        ]);
    }
    let day = person.open("/admin/topics/orders?range=24h").await;
    day.expect(&["aria-current=\"true\">24 h</a>", " of data so far"]);
}

#[tokio::test(start_paused = true)]
async fn lists_show_the_last_day_beside_each_row() {
    let (appliance, mut person) = with_traffic().await;
    person.open("/admin/topics").await.expect(&[
        "orders Event Grid 1 3 published in 24 h, 1 pending 1",
        "just now",
    ]);
    for list in ["/admin/subscriptions", "/admin/topics/orders"] {
        person.open(list).await.expect(&[
            "aria-label=\"Last 2 attempts: 1 succeeded, 1 failed\"",
            "<span class=\"is-warn\">50.0 %</span>",
        ]);
    }
    appliance.clock.advance(Duration::from_secs(25 * 3_600));
    person.sign_in(NAME, PASSWORD).await; // nobody stays for so long
    let topics = person.open("/admin/topics").await;
    topics.expect(&[
        "orders Event Grid 1 none published in 24 h, 1 pending 1",
        "1 d ago",
    ]);
}

#[tokio::test(start_paused = true)]
async fn the_overview_says_how_things_stand() {
    let (appliance, mut person) = with_subscription().await;
    let well = "The only subscription is healthy. No delivery is overdue.";
    person
        .open("/admin")
        .await
        .expect(&[well, "0 of 0 deliveries due in 24 h"]);
    appliance.webhooks.will_answer(503, "no", "later");
    publish(&mut person).await;
    settle_attempt(&appliance).await;
    person.open("/admin").await.expect(&[well]);
    appliance.clock.advance(Duration::from_secs(40));
    person
        .open("/admin")
        .await
        .expect(&["The oldest due delivery has waited 9 s."]);
}

/// Waits until the first delivery has been tried.
async fn settle_attempt(appliance: &Appliance) {
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
        let id = crate::model::delivery::DeliveryId(1);
        let found = appliance
            .store
            .views
            .delivery(id)
            .await
            .expect("a delivery");
        if found.is_some_and(|delivery| delivery.row.attempts == 1) {
            return;
        }
    }
    panic!("nothing was tried");
}

/// Beside `billing` the subscription `crm` with the label `north`.
async fn with_two() -> (Appliance, Person) {
    let (appliance, mut person) = with_subscription().await;
    person.open("/admin/topics/orders/new-subscription").await;
    let fields = [
        ("name", "crm"),
        ("endpointUrl", "https://shop.example/crm"),
        ("labels", "north"),
    ];
    let page = person
        .send("/admin/topics/orders/new-subscription", &fields)
        .await;
    page.expect(&["Event subscription crm has been created."]);
    (appliance, person)
}

#[tokio::test(start_paused = true)]
async fn the_list_of_subscriptions_can_be_filtered() {
    let (_appliance, mut person) = with_two().await;
    person
        .open("/admin/topics/orders/subscriptions/billing")
        .await;
    person
        .send("/admin/topics/orders/subscriptions/billing/pause", &[])
        .await;
    for (query, billing, crm) in [
        ("", true, true),
        ("?text=orders", true, true),
        ("?text=CRM", false, true),
        ("?state=inactive", true, false),
        ("?state=attention", false, false),
        ("?state=healthy", false, true),
        ("?state=nonsense", false, false),
        ("?delivery=Queue", false, false),
        ("?label=north", false, true),
        ("?label=north&state=inactive", false, false),
        ("?text=nobody", false, false),
    ] {
        let page = person.open(&format!("/admin/subscriptions{query}")).await;
        let has = |name: &str| page.body.contains(&format!("value=\"orders/{name}\""));
        assert_eq!((has("billing"), has("crm")), (billing, crm), "{query}");
        if !billing && !crm {
            page.expect(&["No subscription matches this filter.", "Clear filters"]);
            assert!(!page.body.contains("Pause selected"), "{query}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn many_subscriptions_are_paused_and_resumed_at_once() {
    let (appliance, mut person) = with_two().await;
    let both = "of=orders/billing&of=orders/crm";
    let pause = format!("/admin/subscriptions/pause?{both}");
    person.open(&pause).await.expect(&[
        "Pause 2 event subscriptions?",
        "orders / billing, orders / crm.",
    ]);
    let list = person.send(&pause, &[]).await;
    list.expect(&["Pause: 2 event subscriptions."]);
    assert_eq!(list.path, "/admin/subscriptions");
    person
        .open(&pause)
        .await
        .expect(&["Nothing to pause. All of the selected subscriptions are paused."]);
    let resume = "/admin/subscriptions/resume?of=orders/crm";
    person
        .open(resume)
        .await
        .expect(&["Resume 1 event subscription?"]);
    person
        .send(resume, &[])
        .await
        .expect(&["Resume: 1 event subscription."]);
    let active = person.open("/admin/subscriptions?state=healthy").await;
    active.expect(&["value=\"orders/crm\""]);
    person.open("/admin/activity").await.expect(&[
        "paused event subscription billing of topic orders",
        "resumed event subscription crm of topic orders",
    ]);

    let none = person.open("/admin/subscriptions/pause").await;
    assert_eq!(none.path, "/admin/subscriptions");
    none.expect(&["Nothing is selected."]);
    let many: Vec<_> = (0..101)
        .map(|index| format!("of=orders/s{index}"))
        .collect();
    let many = person
        .open(&format!("/admin/subscriptions/pause?{}", many.join("&")))
        .await;
    many.expect(&["101 event subscriptions are selected; 100 at once are possible."]);
    let gone = person
        .open("/admin/subscriptions/pause?of=orders/nobody")
        .await;
    assert_eq!(gone.status, StatusCode::NOT_FOUND);
    let mut viewer = appliance.signed_in(Role::Viewer).await;
    assert_eq!(viewer.open(&pause).await.status, StatusCode::FORBIDDEN);
    let list = viewer.open("/admin/subscriptions").await;
    assert!(
        !list.body.contains("type=\"checkbox\""),
        "nothing to select"
    );
}
