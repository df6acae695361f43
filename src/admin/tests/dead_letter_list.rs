//! The list of dead letters: what they are about, and what is done with several.

use http::StatusCode;

use super::Appliance;
use super::deliver::{publish, settle, with_subscription};
use super::person::Person;
use crate::model::delivery::DeliveryState;
use crate::store::accounts::Role;

const LIST: &str = "/admin/dead-letters";

/// Three dead letters of one subscription.
async fn with_dead_letters() -> (Appliance, Person) {
    let (appliance, mut person) = with_subscription().await;
    for id in 1..=3 {
        appliance.webhooks.will_answer(401, "no", "who are you?");
        publish(&mut person).await;
        settle(&appliance, id, DeliveryState::DeadLettered).await;
    }
    (appliance, person)
}

#[tokio::test(start_paused = true)]
async fn those_that_are_selected_are_resubmitted_after_a_question() {
    let (appliance, mut person) = with_dead_letters().await;
    let page = person.open(LIST).await;
    page.expect(&[
        "name=\"of\" value=\"3\"",
        "Resubmit selected",
        "Resubmit all 3 that match…",
        "3 dead letters",
    ]);
    let filtered = person
        .open(&format!("{LIST}?reason=TimeToLiveExceeded"))
        .await;
    assert!(!filtered.body.contains("Resubmit all"), "{}", filtered.body);
    // How many match is not known before they are counted.
    let typed = person.open(&format!("{LIST}?type=Example.*")).await;
    typed.expect(&["Resubmit all that match…"]);

    let selected = format!("{LIST}/resubmit?of=1&of=3");
    let question = person.open(&selected).await;
    question.expect(&["Resubmit 2 dead letters?", "to billing"]);
    let page = person.send(&selected, &[]).await;
    page.expect(&["Resubmit: 2 dead letters.", "Resubmit all 1 that match…"]);
    settle(&appliance, 1, DeliveryState::Resubmitted).await;
    settle(&appliance, 2, DeliveryState::DeadLettered).await;
    let again = person.open(&format!("{LIST}/resubmit?of=1&of=2")).await;
    again.expect(&[
        "Resubmit 1 dead letter?",
        "Nothing changes for 1 dead letter",
    ]);
}

#[tokio::test(start_paused = true)]
async fn new_ones_are_drawn_over_time_with_a_table_behind() {
    let (appliance, mut person) = with_dead_letters().await;
    let page = person.open(&format!("{LIST}?of=orders/billing")).await;
    page.expect(&["New dead letters", "id=\"dead-letters-table\"", "3 new"]);
    let grouped = person.open(&format!("{LIST}?group=day")).await;
    grouped.expect(&["New dead letters"]);

    let mut viewer = appliance.signed_in(Role::Viewer).await;
    let page = viewer.open(LIST).await;
    assert!(!page.body.contains("name=\"of\" value"), "{}", page.body);
    let page = viewer.open(&format!("{LIST}/resubmit?of=1")).await;
    assert_eq!(page.status, StatusCode::FORBIDDEN);
}

#[tokio::test(start_paused = true)]
async fn the_page_of_one_shows_its_subscription_and_the_request() {
    let (_appliance, mut person) = with_dead_letters().await;
    let page = person.open(&format!("{LIST}/1")).await;
    page.expect(&[
        "href=\"/admin/topics/orders/subscriptions/billing\"",
        "POST https://shop.example/events",
        "aeg-event-type: Notification",
        "Example.Created",
    ]);
    assert!(!page.body.contains("hush"), "{}", page.body);
}

/// A page of fifty rows, however many there are.
#[tokio::test(start_paused = true)]
async fn fifty_rows_stay_small() {
    let (appliance, mut person) = with_subscription().await;
    for _ in 0..60 {
        publish(&mut person).await;
    }
    let dead = "UPDATE delivery SET state = 'DeadLettered', ended_at = 1, \
         dead_letter_reason = 'UndeliverableDueToHttpUnauthorized', last_status = 401";
    assert_eq!(appliance.database.damage(dead), 60);
    for list in ["/admin/events", "/admin/activity", LIST] {
        let page = person.open(list).await;
        assert!(page.body.len() <= 60 * 1_024, "{list}: {}", page.body.len());
    }
}
