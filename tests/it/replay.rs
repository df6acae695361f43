//! Sending again: one dead letter, a selection, and replay jobs, through the API.

use std::time::Duration;

use axum::http::Method;
use serde_json::{Value, json};

use crate::grid::{Grid, SendResult, event};

const HOUR: Duration = Duration::from_secs(3_600);

impl Grid {
    /// `orders` with `billing`, which has rejected so many events, and `audit`, which takes everything.
    async fn with_dead_letters(count: usize) -> Self {
        Grid::new().await.and_dead_letters(count).await
    }

    async fn and_dead_letters(self, count: usize) -> Self {
        let grid = self.topic("orders").await;
        let grid = grid.push("orders", "billing", "400").await;
        let grid = grid.push("orders", "audit", "200").await;
        for number in 0..count {
            grid.publish("orders", event(&format!("e{number}"))).await;
        }
        grid.run_for(HOUR).await;
        grid.script("billing", "200");
        grid
    }

    async fn ask(&self, path: &str, body: Value) -> SendResult {
        self.manage(Method::POST, &format!("/everpost/{path}"), body)
            .await
    }

    async fn see(&self, path: &str) -> Value {
        let heard = self
            .manage(Method::GET, &format!("/everpost/{path}"), Value::Null)
            .await;
        assert_eq!(heard.status.as_u16(), 200, "{}", heard.text);
        heard.json()
    }

    async fn start(&self, body: Value) -> i64 {
        let heard = self.ask("replays", body).await;
        assert_eq!(heard.status.as_u16(), 201, "{}", heard.text);
        heard.json()["id"].as_i64().expect("a number")
    }

    /// Lets replay jobs and deliveries go on until nothing runs. Returns how long that took.
    async fn replay(&self) -> Duration {
        let began = self.clock.now();
        while let Some(next) = self.broker.replay_round().await {
            self.run_for(next.since(self.clock.now())).await;
        }
        let took = self.clock.now().since(began);
        self.run_for(HOUR).await;
        took
    }

    async fn dead_letters(&self) -> Vec<i64> {
        let page = self.see("deadLetters?limit=200").await;
        let rows = page["value"].as_array().expect("rows").iter();
        rows.map(|row| row["deliveryId"].as_i64().expect("a number"))
            .collect()
    }

    fn ids_heard(&self, name: &str) -> Vec<String> {
        let bodies = self.heard(name).into_iter();
        let id = |body: &[u8]| {
            let events: Value = serde_json::from_slice(body).expect("JSON");
            let event = if events.is_array() {
                &events[0]
            } else {
                &events
            };
            event["id"].as_str().expect("an id").to_owned()
        };
        bodies.map(|request| id(&request.body)).collect()
    }
}

#[tokio::test]
async fn a_selection_goes_to_its_own_subscription() {
    let grid = Grid::with_dead_letters(3).await;
    let dead = grid.dead_letters().await;
    let body = json!({"deliveryIds": [dead[0], 999, dead[1], dead[0]]});
    let done = grid.ask("deadLetters/resubmit", body).await.json();
    let rows = done["value"].as_array().expect("rows");
    assert_eq!(rows.len(), 3, "what is named twice is sent once: {done}");
    assert_eq!(rows[0]["resubmissionOf"], dead[0]);
    assert_eq!(rows[1]["error"]["code"], "NotFound");
    grid.run_for(HOUR).await;
    assert_eq!(grid.dead_letters().await, [dead[2]]);
    assert_eq!(grid.heard("billing").len(), 3 + 2);
    assert_eq!(grid.heard("audit").len(), 3, "others never see them again");

    let many: Vec<i64> = (0..201).collect();
    let rejected = grid
        .ask("deadLetters/resubmit", json!({"deliveryIds": many}))
        .await;
    assert!(rejected.error(400, "BadRequest").contains("at most 200"));
    let unknown = json!({"deliveryIds": [1], "traget": {"kind": "Topic"}});
    let rejected = grid.ask("deadLetters/resubmit", unknown).await;
    assert!(rejected.error(400, "BadRequest").contains("traget"));
}

#[tokio::test]
async fn to_a_topic_it_is_matched_anew() {
    let grid = Grid::with_dead_letters(1).await;
    let grid = grid.topic("other").await.push("other", "late", "200").await;
    let grid = grid
        .topic_with("cloud", json!({"inputSchema": "CloudEventSchemaV1_0"}))
        .await;
    let grid = grid.topic("empty").await;
    let dead = grid.dead_letters().await[0];
    let path = format!("deadLetters/{dead}/resubmit");
    let to = |topic: &str| json!({"target": {"kind": "Topic", "topic": topic}});
    let rejected = grid.ask(&path, to("cloud")).await.error(409, "Conflict");
    assert!(rejected.contains("another schema"), "{rejected}");
    let rejected = grid.ask(&path, to("empty")).await.error(409, "Conflict");
    assert!(rejected.contains("no event subscription"), "{rejected}");
    let rejected = grid
        .ask(&path, to("nobody"))
        .await
        .error(400, "InvalidRequest");
    assert!(rejected.contains("there is no topic nobody"), "{rejected}");
    assert_eq!(
        grid.dead_letters().await,
        [dead],
        "rejections change nothing"
    );

    let done = grid.ask(&path, to("other")).await.json();
    assert_eq!(
        (&done["deliveryId"], &done["matched"]),
        (&Value::Null, &json!(1))
    );
    grid.run_for(HOUR).await;
    assert_eq!(grid.ids_heard("late"), ["e0"]);
    assert_eq!(grid.heard("audit").len(), 1);
    let made = grid.see(&format!("events/{}", done["eventKey"])).await;
    assert_eq!(
        (&made["topic"], &made["madeBy"]["deliveryId"]),
        (&json!("other"), &json!(dead))
    );
    let origin = grid
        .see(&format!("events/{}", made["madeBy"]["eventKey"]))
        .await;
    assert_eq!(origin["madeBy"], Value::Null);
    assert_eq!(origin["resubmissions"][0]["asEventKey"], done["eventKey"]);
    let old = grid.see(&format!("deadLetters/{dead}")).await;
    assert_eq!(old["state"], "Resubmitted");
}

#[tokio::test]
async fn to_its_own_topic_everybody_gets_it() {
    let grid = Grid::with_dead_letters(1).await;
    let path = format!("deadLetters/{}/resubmit", grid.dead_letters().await[0]);
    let done = grid
        .ask(&path, json!({"target": {"kind": "Topic"}}))
        .await
        .json();
    assert_eq!(done["matched"], 2);
    grid.run_for(HOUR).await;
    assert_eq!(
        (grid.heard("billing").len(), grid.heard("audit").len()),
        (2, 2)
    );
}

#[tokio::test]
async fn an_edited_event_is_sent_in_place_of_the_original() {
    let grid = Grid::with_dead_letters(2).await;
    let dead = grid.dead_letters().await;
    let path = |id| format!("deadLetters/{id}/resubmit");
    let mut edited = event("e1");
    edited["subject"] = json!("/orders/8");
    let wrong = grid
        .ask(&path(dead[0]), json!({"event": {"id": "e1"}}))
        .await;
    let problem = wrong.error(400, "BadRequest");
    assert!(problem.contains("event [0], field"), "{problem}");
    let both = json!({"event": edited, "data": 1});
    grid.ask(&path(dead[0]), both)
        .await
        .error(400, "BadRequest");
    let done = grid
        .ask(&path(dead[0]), json!({"event": edited}))
        .await
        .json();
    grid.ask(&path(dead[1]), json!({"data": {"total": 7}}))
        .await;
    grid.run_for(HOUR).await;
    let sent: Vec<Value> = grid.heard("billing")[2..]
        .iter()
        .map(|request| serde_json::from_slice::<Value>(&request.body).expect("JSON")[0].clone())
        .collect();
    assert_eq!(
        (&sent[0]["id"], &sent[0]["subject"]),
        (&json!("e1"), &json!("/orders/8"))
    );
    assert_eq!(
        (&sent[1]["id"], &sent[1]["data"]),
        (&json!("e0"), &json!({"total": 7}))
    );
    assert_eq!(sent[1]["subject"], "/orders/7");
    let made = grid.see(&format!("events/{}", done["eventKey"])).await;
    let origin = grid
        .see(&format!("events/{}", made["madeBy"]["eventKey"]))
        .await;
    assert_eq!(origin["subject"], "/orders/7", "the original is kept");
    assert_eq!(grid.heard("audit").len(), 2);
}

#[tokio::test]
async fn a_url_gets_one_request_and_decides() {
    let grid = Grid::with_dead_letters(1).await;
    let dead = grid.dead_letters().await[0];
    let path = format!("deadLetters/{dead}/resubmit");
    let to = json!({"target": {"kind": "Url", "url": "http://elsewhere.test/x?code=secret"}});
    grid.script("elsewhere", "500 denied 200");
    let rejected = grid.ask(&path, to.clone()).await.error(502, "BadGateway");
    assert!(rejected.contains("the URL answered 500"), "{rejected}");
    grid.ask(&path, to.clone()).await.error(502, "BadGateway");
    assert_eq!(grid.dead_letters().await, [dead]);
    let done = grid.ask(&path, to).await.json();
    assert_eq!(done["deliveryId"], Value::Null);
    let old = grid.see(&format!("deadLetters/{dead}")).await;
    assert_eq!(old["state"], "Resubmitted");
    let attempts = old["deliveryAttempts"].as_array().expect("attempts");
    let outcomes: Vec<_> = attempts
        .iter()
        .map(|each| each["outcome"].clone())
        .collect();
    assert_eq!(
        outcomes,
        ["BadRequest", "GenericError", "Aborted", "Delivered"]
    );
    let event = grid.see(&format!("events/{}", old["eventKey"])).await;
    assert_eq!(event["resubmissions"][0]["url"], "http://elsewhere.test/x");
    assert_eq!(grid.heard("elsewhere")[2].url.query(), Some("code=secret"));

    let wrong = json!({"target": {"kind": "Url", "url": "ftp://a"}});
    let rejected = grid.ask(&path, wrong).await.error(400, "InvalidRequest");
    assert!(
        rejected.contains("target.url: only http and https"),
        "{rejected}"
    );
}

#[tokio::test]
async fn an_ad_hoc_url_gets_none_of_the_secrets_of_the_subscription() {
    let grid = Grid::new().await.topic("orders").await;
    let secret = json!({"destination": {"properties": {"deliveryAttributeMappings": [{
        "name": "x-token", "type": "Static", "properties": {"value": "hush", "isSecret": true}}]}}});
    let grid = grid.push_with("orders", "billing", "400", secret).await;
    grid.publish("orders", event("e")).await;
    grid.run_for(HOUR).await;
    grid.script("elsewhere", "200");
    let path = format!("deadLetters/{}/resubmit", grid.dead_letters().await[0]);
    let to = json!({"target": {"kind": "Url", "url": "http://elsewhere.test/"}});
    assert_eq!(grid.ask(&path, to).await.status.as_u16(), 200);
    assert_eq!(grid.heard("billing")[0].headers["x-token"], "hush");
    assert!(!grid.heard("elsewhere")[0].headers.contains_key("x-token"));
}

#[tokio::test]
async fn the_loop_guard_ends_a_circle() {
    let grid = Grid::with_dead_letters(1).await;
    grid.script("billing", "400");
    for _ in 0..10 {
        let path = format!("deadLetters/{}/resubmit", grid.dead_letters().await[0]);
        assert_eq!(grid.ask(&path, Value::Null).await.status.as_u16(), 200);
        grid.run_for(HOUR).await;
    }
    let path = format!("deadLetters/{}/resubmit", grid.dead_letters().await[0]);
    let rejected = grid.ask(&path, Value::Null).await.error(409, "Conflict");
    assert!(rejected.contains("replay.resubmissions_max"), "{rejected}");
    // Nor does a detour over the topic help, or an edited event.
    let to = json!({"target": {"kind": "Topic"}, "data": 1});
    grid.ask(&path, to).await.error(409, "Conflict");
    let job = grid.start(json!({})).await;
    grid.replay().await;
    let job = grid.see(&format!("replays/{job}")).await;
    assert_eq!(
        (&job["state"], &job["total"]),
        (&json!("Completed"), &json!(1))
    );
    assert_eq!(job["skippedReasons"], json!({"ResubmittedTooOften": 1}));
    assert_eq!(
        job["fates"],
        json!({"delivered": 0, "givenUp": 0, "waiting": 0})
    );
    assert_eq!(job["errors"].as_array().expect("errors").len(), 1);
}

#[tokio::test]
async fn a_replay_job_covers_what_was_there_at_its_start() {
    let grid = Grid::with_dead_letters(30).await;
    // They are given up again, and must not be taken up by the job that made them.
    grid.script("billing", "413");
    let filter = json!({"topic": "orders", "subscription": "billing",
        "reason": "UndeliverableDueToHttpBadRequest", "status": 400});
    let source = json!({"source": {"kind": "DeadLetters", "filter": filter}});
    let preview = grid.ask("replays/preview", source.clone()).await.json();
    assert_eq!(preview, json!({"total": 30}));
    let id = grid.start(source.clone()).await;
    grid.replay().await;
    let job = grid.see(&format!("replays/{id}")).await;
    assert_eq!(
        (&job["resubmitted"], &job["done"]),
        (&json!(30), &json!(30))
    );
    assert_eq!(
        (&job["state"], &job["source"]),
        (&json!("Completed"), &source["source"])
    );
    let fates = json!({"delivered": 0, "givenUp": 30, "waiting": 0});
    assert_eq!(job["fates"], fates);
    assert_eq!(grid.dead_letters().await.len(), 30);
    assert_eq!(grid.heard("billing").len(), 60);
    assert_eq!(grid.heard("audit").len(), 30);
    let preview = grid.ask("replays/preview", source).await.json();
    assert_eq!(preview, json!({"total": 0}), "they have another reason now");
    let metrics = grid.broker.metrics_text();
    for line in [
        "everpost_replay_events_total{result=\"resubmitted\"} 30",
        "everpost_replay_jobs_running 0",
        "everpost_resubmitted_events_total 30",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[tokio::test]
async fn a_rate_paces_a_replay_job() {
    let grid = Grid::with_dead_letters(60).await;
    grid.start(json!({"eventsPerSecond": 2})).await;
    let took = grid.replay().await;
    assert_eq!(took.as_secs(), 30, "{took:?}");
    assert_eq!(grid.heard("billing").len(), 120);
}

#[tokio::test]
async fn commands_and_a_restart_lose_and_double_nothing() {
    let grid = Grid::with_dead_letters(40).await;
    let id = grid.start(json!({"eventsPerSecond": 1})).await;
    let state = async |grid: &Grid| grid.see(&format!("replays/{id}")).await;
    for _ in 0..5 {
        grid.broker.replay_round().await;
        grid.run_for(Duration::from_secs(1)).await;
    }
    let paused = grid
        .ask(&format!("replays/{id}/pause"), Value::Null)
        .await
        .json();
    assert_eq!(
        (&paused["state"], &paused["done"]),
        (&json!("Paused"), &json!(5))
    );
    assert_eq!(grid.broker.replay_round().await, None, "nothing runs");
    let grid = grid.restarted().await;
    assert_eq!(state(&grid).await["state"], "Paused");
    grid.ask(&format!("replays/{id}/resume"), Value::Null).await;
    grid.broker.replay_round().await;
    let grid = grid.restarted().await;
    grid.replay().await;
    assert_eq!(
        (
            &state(&grid).await["resubmitted"],
            grid.heard("billing").len()
        ),
        (&json!(40), 80)
    );
    let late = grid.ask(&format!("replays/{id}/cancel"), Value::Null).await;
    late.error(409, "Conflict");
    grid.ask("replays/77/pause", Value::Null)
        .await
        .error(404, "NotFound");

    let second = grid
        .start(json!({"source": {"kind": "Delivered", "filter": {
        "topic": "orders", "subscription": "audit"}}, "eventsPerSecond": 1}))
        .await;
    grid.broker.replay_round().await;
    let cancelled = grid
        .ask(&format!("replays/{second}/cancel"), Value::Null)
        .await
        .json();
    assert_eq!(
        (&cancelled["state"], &cancelled["resubmitted"]),
        (&json!("Cancelled"), &json!(1))
    );
    assert_eq!(grid.broker.replay_round().await, None);
    grid.run_for(HOUR).await;
    assert_eq!(grid.heard("audit").len(), 41);
    let list = grid.see("replays?limit=1").await;
    assert_eq!(
        (&list["value"][0]["id"], &list["nextBefore"]),
        (&json!(second), &json!(second))
    );
}

#[tokio::test]
async fn a_receiver_recovers_what_it_has_lost() {
    let grid = Grid::with_dead_letters(3).await;
    let since = grid.clock.now().to_string();
    grid.publish("orders", event("new1")).await;
    grid.publish("orders", event("new2")).await;
    grid.run_for(HOUR).await;
    let filter = json!({"topic": "orders", "subscription": "audit", "from": since});
    let id = grid
        .start(json!({"source": {"kind": "Delivered", "filter": filter}}))
        .await;
    grid.replay().await;
    assert_eq!(grid.ids_heard("audit")[5..], ["new1", "new2"]);
    assert_eq!(grid.see(&format!("replays/{id}")).await["total"], 2);
    for (filter, problem) in [
        (json!({}), "source.filter.subscription: it is missing"),
        (
            json!({"topic": "orders", "subscription": "audit", "reason": "Manual"}),
            "it has none",
        ),
        (json!({"subscription": "audit"}), "together with its topic"),
        (
            json!({"topic": "orders", "subscriptoin": "audit"}),
            "there is no such property",
        ),
        (
            json!({"topic": "orders", "subscription": "audit", "from": "yesterday"}),
            "no date and time",
        ),
    ] {
        let body = json!({"source": {"kind": "Delivered", "filter": filter}});
        let rejected = grid.ask("replays", body).await.error(400, "InvalidRequest");
        assert!(
            rejected.contains(problem) || problem == "it has none" && rejected.contains("has none"),
            "{rejected}"
        );
    }
}

#[tokio::test]
async fn a_replay_to_a_url_counts_what_it_rejects() {
    let grid = Grid::with_dead_letters(20).await;
    grid.script("elsewhere", "200 200 503 200");
    let target = json!({"kind": "Url", "url": "http://elsewhere.test/?code=secret"});
    let id = grid.start(json!({"target": target})).await;
    grid.replay().await;
    let job = grid.see(&format!("replays/{id}")).await;
    assert_eq!(
        (&job["resubmitted"], &job["failed"]),
        (&json!(19), &json!(1))
    );
    assert_eq!(job["target"]["url"], "http://elsewhere.test/");
    assert_eq!(job["fates"], Value::Null);
    assert_eq!(job["errors"][0]["error"], "the URL answered 503");
    assert_eq!(
        grid.dead_letters().await,
        [job["errors"][0]["deliveryId"].as_i64().expect("a number")]
    );
    assert_eq!(grid.heard("elsewhere").len(), 20);
}

#[tokio::test]
async fn a_replay_job_waits_for_a_receiver_that_is_behind() {
    let grid = Grid::with_dead_letters(0).await;
    let path = "/topics/orders/eventSubscriptions/billing";
    grid.script("billing", "400");
    for batch in 0..12 {
        let events: Vec<Value> = (0..200).map(|n| event(&format!("e{batch}-{n}"))).collect();
        grid.post("orders", json!(events)).await;
    }
    grid.run_for(HOUR).await;
    grid.script("billing", "200");
    grid.manage(Method::POST, &format!("{path}/pause"), Value::Null)
        .await;
    let id = grid.start(json!({})).await;
    for _ in 0..20 {
        let next = grid.broker.replay_round().await.expect("it runs");
        grid.clock.advance(next.since(grid.clock.now()));
    }
    let job = grid.see(&format!("replays/{id}")).await;
    assert_eq!(
        (&job["done"], &job["waitsFor"]),
        (&json!(2_000), &json!("orders/billing"))
    );
    grid.manage(Method::POST, &format!("{path}/resume"), Value::Null)
        .await;
    grid.replay().await;
    let job = grid.see(&format!("replays/{id}")).await;
    assert_eq!(
        (&job["resubmitted"], &job["waitsFor"]),
        (&json!(2_400), &Value::Null)
    );
    assert_eq!(grid.heard("billing").len(), 4_800);
}

#[tokio::test]
async fn what_makes_too_many_deliveries_for_one_change_is_stored_in_several() {
    let resubmit = async |grid: Grid| {
        let grid = grid.and_dead_letters(3).await;
        let body = json!({"deliveryIds": grid.dead_letters().await, "target": {"kind": "Topic"}});
        let before = grid.operations();
        let done = grid.ask("deadLetters/resubmit", body).await.json();
        let took = grid.operations() - before;
        for row in done["value"].as_array().expect("rows") {
            assert_eq!(row["matched"], 2, "{done}");
        }
        grid.run_for(HOUR).await;
        assert_eq!(grid.heard("audit").len(), 3 + 3);
        took
    };
    let one = resubmit(Grid::new().await).await;
    let several = resubmit(Grid::in_bites_of(4).await).await;
    assert_eq!(several - one, 1, "two and one");
}

#[tokio::test]
async fn a_replay_job_takes_no_more_than_one_change_stores() {
    let grid = Grid::in_bites_of(4).await.and_dead_letters(5).await;
    let id = grid.start(json!({"target": {"kind": "Topic"}})).await;
    let until_the_first = grid.broker.replay_round().await;
    let job = grid.see(&format!("replays/{id}")).await;
    assert_eq!(job["resubmitted"], 2, "{job}");
    assert!(until_the_first.is_some(), "there is more");
    grid.replay().await;
    let job = grid.see(&format!("replays/{id}")).await;
    assert_eq!(
        (&job["resubmitted"], &job["state"]),
        (&json!(5), &json!("Completed"))
    );
    assert_eq!(grid.heard("audit").len(), 5 + 5);
}
