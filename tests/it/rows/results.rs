//! What follows from an answer of a webhook.

use serde_json::{Value, json};

use super::{SECOND, check_wait, delivery, millis};
use crate::grid::{Grid, event};

/// One attempt that brought this answer.
async fn after(answer: &str, properties: Value) -> (Grid, Value) {
    let grid = Grid::new().await.topic("orders").await;
    let grid = grid
        .push_with("orders", "billing", answer, properties)
        .await;
    grid.publish("orders", event("e1")).await;
    grid.run_for(SECOND / 2).await;
    let delivery = delivery(&grid, 1).await;
    assert_eq!(delivery["attempts"], 1, "{answer}");
    (grid, delivery)
}

#[tokio::test]
async fn successes() {
    for status in [200, 201, 202, 203, 204] {
        let (_, delivery) = after(&status.to_string(), json!({})).await;
        let found = (&delivery["state"], &delivery["lastDeliveryOutcome"]);
        let expected = (&json!("Delivered"), &json!("Delivered"));
        assert_eq!(found, expected, "results of a delivery: success, {status}");
    }
}

#[tokio::test]
async fn final_failures() {
    let table = "results of a delivery";
    for (row, answer, outcome, reason) in [
        (
            "400 is final",
            "400",
            "BadRequest",
            "UndeliverableDueToHttpBadRequest",
        ),
        (
            "401 is final",
            "401",
            "Unauthorized",
            "UndeliverableDueToHttpUnauthorized",
        ),
        (
            "403 is final",
            "403",
            "Forbidden",
            "UndeliverableDueToHttpForbidden",
        ),
        (
            "413 is final",
            "413",
            "PayloadTooLarge",
            "UndeliverableDueToHttpRequestEntityTooLarge",
        ),
    ] {
        for (destination, state) in [
            (json!({}), "DeadLettered"),
            (
                json!({"deadLetterDestination": {"endpointType": "Drop"}}),
                "Dropped",
            ),
        ] {
            let (_, delivery) = after(answer, destination).await;
            let found = (
                &delivery["state"],
                &delivery["deadLetterReason"],
                &delivery["lastDeliveryOutcome"],
            );
            let expected = (&json!(state), &json!(reason), &json!(outcome));
            assert_eq!(found, expected, "{table}: {row}");
        }
    }
}

#[tokio::test]
async fn failures_that_are_retried() {
    let table = "results of a delivery";
    for (row, answer, outcome, wait_s) in [
        ("404, at least 5 minutes", "404", "NotFound", 300),
        ("408, at least 2 minutes", "408", "TimedOut", 120),
        ("503, at least 30 seconds", "503", "Busy", 30),
        ("429, at least 10 seconds", "429", "Busy", 10),
        ("409, at least 10 seconds", "409", "GenericError", 10),
        ("410, at least 10 seconds", "410", "GenericError", 10),
        ("500, at least 10 seconds", "500", "GenericError", 10),
        ("502, at least 10 seconds", "502", "GenericError", 10),
        ("504, at least 10 seconds", "504", "GenericError", 10),
        ("205 is no success", "205", "GenericError", 10),
        ("206 is no success", "206", "GenericError", 10),
        ("301 is not followed", "301", "GenericError", 10),
        ("307 is not followed", "307", "GenericError", 10),
        ("no answer in time", "timeout", "TimedOut", 10),
        ("no connection", "rejected", "SocketError", 10),
        ("no address", "unknown", "ResolutionError", 10),
        ("429 with Retry-After", "429/45", "Busy", 45),
        ("429 with a shorter Retry-After", "429/5", "Busy", 10),
        ("503 with Retry-After", "503/90", "Busy", 90),
        (
            "503 with a Retry-After of more than a day",
            "503/1000000",
            "Busy",
            86_400,
        ),
        (
            "500 with Retry-After, which only 429 and 503 have",
            "500/90",
            "GenericError",
            10,
        ),
    ] {
        let (grid, delivery) = after(answer, json!({})).await;
        let found = (&delivery["state"], &delivery["lastDeliveryOutcome"]);
        assert_eq!(
            found,
            (&json!("Pending"), &json!(outcome)),
            "{table}: {row}"
        );
        let waited = millis(&delivery["nextAttemptAt"]) - millis(&delivery["lastAttemptAt"]);
        check_wait(table, row, waited, wait_s);
        grid.leave();
    }
}
