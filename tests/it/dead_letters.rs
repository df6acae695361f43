//! Dead letters that receivers make themselves, and the queue in which all of them lie.

use axum::http::Method;
use serde_json::{Value, json};

use crate::grid::{Grid, event};

/// A grid with one subscription, whose receiver answers like this.
async fn answered(status: u16, headers: &[(&'static str, &str)], properties: Value) -> Grid {
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid.push_with("orders", "billing", "200", properties).await;
    let headers = headers
        .iter()
        .map(|(name, value)| (*name, (*value).to_owned()))
        .collect();
    grid.answer("billing", status, headers, String::new());
    grid.publish("orders", event("e1")).await;
    grid.broker.run_due().await;
    grid
}

async fn dead_letter(grid: &Grid, id: u32) -> Value {
    let path = format!("/everpost/deadLetters/{id}");
    grid.manage(Method::GET, &path, Value::Null).await.json()
}

const REASON: &str = "everpost-dead-letter-reason";
const DESCRIPTION: &str = "everpost-dead-letter-description";

#[tokio::test]
async fn a_webhook_dead_letters_in_its_own_words() {
    for status in [400, 422] {
        let headers = [
            (REASON, " Unknown customer "),
            (DESCRIPTION, "there is no customer 7"),
        ];
        let grid = answered(status, &headers, json!({})).await;
        let shown = dead_letter(&grid, 1).await;
        assert_eq!(shown["state"], "DeadLettered");
        assert_eq!(shown["deadLetterReason"], "Unknown customer");
        assert_eq!(
            shown["deadLetterErrorDescription"],
            "there is no customer 7"
        );
        assert_eq!(shown["deliveryAttempts"][0]["httpStatusCode"], status);
        let metrics = grid.manage(Method::GET, "/metrics", Value::Null).await.text;
        assert!(metrics.contains("reason=\"Application\"} 1"), "{metrics}");
        assert!(
            !metrics.contains("customer"),
            "words of strangers are no labels"
        );
    }
}

#[tokio::test]
async fn only_a_refusal_with_a_reason_dead_letters() {
    for (status, headers, state) in [
        (500, [(REASON, "r")], "Pending"),
        (422, [(REASON, "  ")], "Pending"),
        (422, [(DESCRIPTION, "d")], "Pending"),
        (200, [(REASON, "r")], "Delivered"),
        (503, [(REASON, "r")], "Pending"),
    ] {
        let grid = answered(status, &headers, json!({})).await;
        let shown = grid
            .manage(Method::GET, "/everpost/events/1", Value::Null)
            .await;
        assert_eq!(
            shown.json()["deliveries"][0]["state"],
            state,
            "{status} {headers:?}"
        );
        grid.leave();
    }
    let grid = answered(400, &[(DESCRIPTION, "d")], json!({})).await;
    let shown = dead_letter(&grid, 1).await;
    assert_eq!(
        shown["deadLetterReason"],
        "UndeliverableDueToHttpBadRequest"
    );
    assert_eq!(
        shown["deadLetterErrorDescription"],
        "The webhook answered 400 Bad Request."
    );
}

#[tokio::test]
async fn words_that_are_too_long_are_cut_and_dropped_ones_are_kept() {
    let long = "x".repeat(5_000);
    let nowhere = json!({"deadLetterDestination": null});
    let grid = answered(422, &[(REASON, &long), (DESCRIPTION, &long)], nowhere).await;
    let shown = grid
        .manage(Method::GET, "/everpost/events/1", Value::Null)
        .await;
    let delivery = &shown.json()["deliveries"][0];
    assert_eq!(delivery["state"], "Dropped");
    for field in ["deadLetterReason", "deadLetterErrorDescription"] {
        let text = delivery[field].as_str().expect("a text");
        assert_eq!(text.len(), 4_096, "{field}");
    }
}
