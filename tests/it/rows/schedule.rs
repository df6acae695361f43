//! When a failed delivery is tried again, how long it lives, and when a receiver is spared.

use std::time::Duration;

use serde_json::{Value, json};

use super::{SECOND, check_wait, delivery, millis};
use crate::grid::{Grid, event};

const HOUR: Duration = Duration::from_secs(3_600);

/// What became of an event whose receiver always answers 500.
async fn exhausted(policy: Value) -> Value {
    let grid = Grid::new().await.topic("orders").await;
    let properties = json!({ "retryPolicy": policy });
    let grid = grid.push_with("orders", "billing", "500", properties).await;
    grid.publish("orders", event("e1")).await;
    grid.run_for(HOUR * 60).await;
    delivery(&grid, 1).await
}

fn starts(delivery: &Value) -> Vec<u64> {
    let attempts = delivery["deliveryAttempts"].as_array().expect("attempts");
    attempts
        .iter()
        .map(|each| millis(&each["startedAt"]))
        .collect()
}

#[tokio::test]
async fn waits_and_earliest_times_of_attempts() {
    let delivery = exhausted(json!({})).await;
    let mut starts = starts(&delivery);
    // The next one would have been after a day, when the event had expired.
    starts.push(millis(&delivery["endedAt"]));
    for (row, attempt, wait_s, earliest_s) in [
        ("attempt 2: 10 seconds later", 2, 10, 10),
        ("attempt 3: 30 seconds later", 3, 30, 40),
        ("attempt 4: 1 minute later", 4, 60, 100),
        ("attempt 5: 5 minutes later", 5, 300, 400),
        ("attempt 6: 10 minutes later", 6, 600, 1_000),
        ("attempt 7: 30 minutes later", 7, 1_800, 2_800),
        ("attempt 8: 1 hour later", 8, 3_600, 6_400),
        ("attempt 9: 3 hours later", 9, 10_800, 17_200),
        ("attempt 10: 6 hours later", 10, 21_600, 38_800),
        ("attempt 11: 12 hours later", 11, 43_200, 82_000),
    ] {
        check_wait(
            "retry schedule",
            row,
            starts[attempt - 1] - starts[attempt - 2],
            wait_s,
        );
        check_wait(
            "earliest times",
            row,
            starts[attempt - 1] - starts[0],
            earliest_s,
        );
    }
    let made = starts.len() - 1;
    assert_eq!(made, 11, "retry schedule: attempts in a day");
}

#[tokio::test]
async fn limits_of_attempts_and_time() {
    let table = "limits of attempts and time";
    let (attempts, time) = ("MaxDeliveryAttemptsExceeded", "TimeToLiveExceeded");
    let policy = |attempts: u32, minutes: u32| json!({"maxDeliveryAttempts": attempts, "eventTimeToLiveInMinutes": minutes});
    for (row, policy, made, reason, ended_s) in [
        ("one attempt", policy(1, 1_440), 1, attempts, 0),
        (
            "three attempts, the first included",
            policy(3, 1_440),
            3,
            attempts,
            40,
        ),
        (
            "10 attempts in 30 minutes: six, and expiry before the seventh",
            policy(10, 30),
            6,
            time,
            1_800,
        ),
        (
            "one minute: expiry waits for no attempt",
            policy(30, 1),
            3,
            time,
            60,
        ),
    ] {
        let delivery = exhausted(policy).await;
        let found = (
            &delivery["state"],
            &delivery["attempts"],
            &delivery["deadLetterReason"],
        );
        let expected = (&json!("DeadLettered"), &json!(made), &json!(reason));
        assert_eq!(found, expected, "{table}: {row}");
        let ended = millis(&delivery["endedAt"]) - millis(&delivery["publishedAt"]);
        check_wait(table, row, ended, ended_s);
    }
}

#[tokio::test]
async fn probations_by_their_cause() {
    let table = "first probation";
    for (row, answer, cause, length_s) in [
        ("Busy, 503", "503", "Busy", 10),
        ("Busy, 429", "429", "Busy", 10),
        ("TimedOut", "timeout", "TimedOut", 10),
        ("TimedOut, 408", "408", "TimedOut", 10),
        ("SocketError", "rejected", "SocketError", 30),
        ("NotFound", "404", "NotFound", 300),
        ("ResolutionError", "unknown", "ResolutionError", 300),
        ("Unauthorized", "401", "Unauthorized", 300),
        ("Forbidden", "403", "Forbidden", 300),
    ] {
        let grid = Grid::new().await.topic("orders").await;
        let grid = grid.push("orders", "billing", answer).await;
        let path = "properties of the subscription";
        for number in 1..=10 {
            let before = grid.show("orders", "billing").await["everpost"].clone();
            assert_eq!(
                before["probation"],
                Value::Null,
                "{table}: {row}: {path} after {number}"
            );
            grid.publish("orders", event(&format!("e{number}"))).await;
            grid.run_for(SECOND / 10).await;
        }
        let shown = grid.show("orders", "billing").await["everpost"].clone();
        assert_eq!(
            shown["state"], "OnProbation",
            "{table}: {row}: after ten failures"
        );
        let probation = &shown["probation"];
        assert_eq!(probation["cause"], cause, "{table}: {row}");
        let length = millis(&probation["until"]) - millis(&probation["since"]);
        assert_eq!(length, length_s * 1_000, "{table}: {row}");
        grid.leave();
    }
}
