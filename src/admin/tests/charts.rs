//! What is drawn, with its numbers in words; and the lists that draw it beside each row.

use std::time::Duration;

use super::deliver::{publish, settle, with_subscription};
use super::{Appliance, NAME, PASSWORD, Person};
use crate::model::delivery::DeliveryState;

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
            "aria-label=\"Last 1 hour: 1 delivered, 1 dead-lettered, 0 dropped.\"",
            "aria-label=\"Last 1 hour: 50.0 % of 2 attempts succeeded; at worst 50.0 % in 1 min.\"",
            "aria-label=\"Last 1 hour: half of the deliveries took up to 5 ms, 95 % up to 5 ms; \
             at worst 95 % took up to 5 ms in 1 min.\"",
            "aria-label=\"Last 1 hour: at most 1 delivery waited; now 1 waits.\"",
            "aria-label=\"Last 1 hour: 1 delivery was dead-lettered; at most 1 in 1 min.\"",
            "<span class=\"scale\">0 % to 100 %; lowest: 50.0 %</span>",
            "<span class=\"scale\">logarithmic, 1 ms to 5 ms</span>",
            "<span class=\"scale\">highest: 1 delivery</span>",
            "data-label=\"Succeeded\">50.0 %</td>",
            "data-label=\"50 % within\">5 ms</td>",
            "data-label=\"Waiting at the end\">1</td>",
        ]);
    }
    let day = person.open("/admin/topics/orders?range=24h").await;
    day.expect(&[
        "highest: 1 dead letter in 1 h",
        "Last 24 hours: at most 1 delivery waited",
    ]);
}

#[tokio::test(start_paused = true)]
async fn lists_show_the_last_day_beside_each_row() {
    let (appliance, mut person) = with_traffic().await;
    person.open("/admin/topics").await.expect(&[
        "aria-label=\"Last 24 hours: 3 events, at most 3 in an hour.\"",
        "data-label=\"Last event\">just now</td>",
        "<span class=\"muted\">nothing</span>",
    ]);
    for list in ["/admin/subscriptions", "/admin/topics/orders"] {
        person.open(list).await.expect(&[
            "aria-label=\"Last 24 hours: 1 delivered, 1 attempt failed.\"",
            "<span class=\"sub\">50.0 %</span>",
        ]);
    }
    appliance.clock.advance(Duration::from_secs(25 * 3_600));
    person.sign_in(NAME, PASSWORD).await; // nobody stays for so long
    let topics = person.open("/admin/topics").await;
    topics.expect(&["data-label=\"Last event\">1 d ago</td>"]);
    assert!(
        !topics.body.contains("Last 24 hours: 3 events"),
        "they are older"
    );
}

#[tokio::test(start_paused = true)]
async fn the_overview_says_how_things_stand() {
    let (appliance, mut person) = with_subscription().await;
    let well = "The event subscription is healthy; no delivery is due.";
    person
        .open("/admin")
        .await
        .expect(&[well, "<span class=\"figure\">none</span>"]);
    appliance.webhooks.will_answer(503, "no", "later");
    publish(&mut person).await;
    settle_attempt(&appliance).await;
    person.open("/admin").await.expect(&[well]);
    appliance.clock.advance(Duration::from_secs(40));
    person
        .open("/admin")
        .await
        .expect(&["The event subscription is healthy; the oldest delivery that is due waits for"]);
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
