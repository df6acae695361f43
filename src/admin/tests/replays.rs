//! Dead letters by the dozen: looked at together, sent again, edited, kept as a file and purged.

use http::{StatusCode, header};
use http_body_util::BodyExt;
use serde_json::Value;

use super::Appliance;
use super::deliver::{publish, settle, with_subscription};
use crate::admin::tests::person::Person;
use crate::model::delivery::DeliveryState;

/// `orders` with so many dead letters of `billing`.
pub(crate) async fn with_dead_letters(count: i64) -> (Appliance, Person) {
    let (appliance, mut person) = with_subscription().await;
    for id in 1..=count {
        appliance.webhooks.will_answer(400, "no", "what is this?");
        publish(&mut person).await;
        settle(&appliance, id, DeliveryState::DeadLettered).await;
    }
    (appliance, person)
}

async fn replay(appliance: &Appliance) {
    while appliance.broker.replay_round().await.is_some() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn all_that_match_are_sent_again_by_a_replay_job() {
    let (appliance, mut person) = with_dead_letters(3).await;
    let list = person.open("/admin/dead-letters?of=orders/billing").await;
    let path = "/admin/dead-letters/resubmit-all?of=orders%2Fbilling";
    list.expect(&["Resubmit all that match", path]);
    let form = person.open(path).await;
    form.expect(&[
        "Resubmit 3 dead letters?",
        "Dead letters of event subscription orders / billing, by a replay job",
        "Events per second",
    ]);
    for (fields, problem) in [
        ([("kind", "Url"), ("url", "nonsense")], "url"),
        (
            [("kind", "Subscription"), ("eventsPerSecond", "many")],
            "eventsPerSecond",
        ),
        ([("kind", "Topic nowhere"), ("url", "")], "no topic nowhere"),
    ] {
        let page = person.send(path, &fields).await;
        assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
        page.expect(&[problem]);
    }
    let fields = [("kind", "Subscription"), ("eventsPerSecond", "0.5")];
    let job = person.send(path, &fields).await;
    assert_eq!(job.path, "/admin/replays/1");
    job.expect(&[
        "Replay job 1 has been started over 3 dead letters.",
        "Running",
        "<progress",
        "0 %: 0 of 3",
        "their own event subscriptions",
        "orders / billing",
        "1 event every 2 s",
    ]);
    let paused = person.send("/admin/replays/1/pause", &[]).await;
    paused.expect(&["Replay job 1 is paused.", "Paused", "Resume"]);
    let resumed = person.send("/admin/replays/1/resume", &[]).await;
    resumed.expect(&["Replay job 1 is resumed.", "Pause"]);
    let question = person.open("/admin/replays/1/cancel").await;
    question.expect(&["Cancel replay job 1?", "3 events are not resubmitted."]);
    let over = person.send("/admin/replays/1/cancel", &[]).await;
    over.expect(&["Replay job 1 is cancelled.", "Cancelled"]);
    assert!(!over.body.contains("/admin/replays/1/pause"));
    let rejected = person.open("/admin/dead-letters/1").await;
    rejected.expect(&["Dead letter 1"]);

    person.open(path).await;
    person.send(path, &[("kind", "Subscription")]).await;
    replay(&appliance).await;
    settle(&appliance, 6, DeliveryState::Delivered).await;
    let job = person.open("/admin/replays/2").await;
    job.expect(&[
        "Completed",
        "100 %: 3 of 3",
        "3 delivered 0 dead-lettered again 0 pending",
        "<a href=\"/admin/topics/orders/subscriptions/billing\">orders / billing</a>",
    ]);
    let jobs = person.open("/admin/replays").await;
    jobs.expect(&[
        "Replay jobs",
        "/admin/replays/1",
        "/admin/replays/2",
        "3 of 3",
    ]);
    let none = person.open(path).await;
    assert_eq!(none.status, StatusCode::CONFLICT);
    for path in ["/admin/replays/9", "/admin/replays/x"] {
        assert_eq!(person.open(path).await.status, StatusCode::NOT_FOUND);
    }
}

/// Events published anew are followed, too.
#[tokio::test(start_paused = true)]
async fn a_replay_job_says_what_was_given_up_again() {
    let (appliance, mut person) = with_dead_letters(2).await;
    let path = "/admin/dead-letters/resubmit-all";
    let all = person.open(path).await;
    all.expect(&["All dead letters, by a replay job"]);
    appliance.webhooks.will_answer(400, "no", "still not");
    person.send(path, &[("kind", "Topic")]).await;
    replay(&appliance).await;
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    let job = person.open("/admin/replays/1").await;
    job.expect(&["1 delivered 1 dead-lettered again 0 pending"]);
    let old = person.open("/admin/dead-letters/1").await;
    old.expect(&["of the topic orders", "replay job 1"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_is_edited_before_it_is_sent_again() {
    let (appliance, mut person) = with_dead_letters(1).await;
    let path = "/admin/dead-letters/1/edit";
    person.open("/admin/dead-letters/1").await.expect(&[path]);
    let form = person.open(path).await;
    form.expect(&[
        "Example.Created",
        "The original is kept and marked resubmitted",
    ]);
    let text = form.body.split("</textarea>").next();
    let text = text
        .and_then(|text| text.rsplit('>').next())
        .expect("an event");
    let text = text.replace("&#34;", "\"").replace("&#38;", "&");
    let broken = person
        .send(path, &[("event", "{"), ("kind", "Subscription")])
        .await;
    assert_eq!(broken.status, StatusCode::UNPROCESSABLE_ENTITY);
    let unwanted = [("event", "[]"), ("kind", "Subscription")];
    let unwanted = person.send(path, &unwanted).await;
    assert_eq!(unwanted.status, StatusCode::UNPROCESSABLE_ENTITY);
    let edited = text.replace("Example.Created", "Example.Mended");
    let sent = person
        .send(path, &[("event", &edited), ("kind", "Subscription")])
        .await;
    sent.expect(&["has been resubmitted as edited", "Example.Mended"]);
    settle(&appliance, 2, DeliveryState::Delivered).await;
    let again = person.open(path).await;
    assert_eq!(again.status, StatusCode::CONFLICT);
}

#[tokio::test(start_paused = true)]
async fn what_matches_is_kept_as_a_file_in_azures_shape() {
    let (_appliance, mut person) = with_dead_letters(45).await;
    let list = person.open("/admin/dead-letters").await;
    let (lines, array) = (
        "/admin/dead-letters/export?form=ndjson",
        "/admin/dead-letters/export?form=json",
    );
    list.expect(&[lines, array]);
    let read = async |person: &Person, path: &str| {
        let answer = person.get(path).await;
        assert_eq!(answer.status(), StatusCode::OK);
        let name = answer.headers()[header::CONTENT_DISPOSITION].clone();
        let body = answer.into_body().collect().await.expect("a body");
        let text = String::from_utf8(body.to_bytes().to_vec()).expect("text");
        (name.to_str().expect("a name").to_owned(), text)
    };
    let (name, text) = read(&person, lines).await;
    assert!(name.contains("dead-letters.ndjson"), "{name}");
    let records: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(records.len(), 45);
    for record in &records {
        assert_eq!(
            record["deadLetterReason"],
            "UndeliverableDueToHttpBadRequest"
        );
        assert_eq!(record["lastHttpStatusCode"], 400);
        assert_eq!(record["eventType"], "Example.Created");
    }
    let (_, text) = read(&person, array).await;
    let array: Vec<Value> = serde_json::from_str(&text).expect("one array");
    assert_eq!(array, records);
    let (_, none) = read(&person, "/admin/dead-letters/export?form=json&type=Other").await;
    assert_eq!(
        serde_json::from_str::<Value>(&none).expect("JSON"),
        Value::Array(Vec::new())
    );
}

#[tokio::test(start_paused = true)]
async fn a_purge_says_how_many_and_takes_those() {
    let (_appliance, mut person) = with_dead_letters(2).await;
    let path = "/admin/dead-letters/purge?type=Example.*";
    let question = person.open(path).await;
    question.expect(&["Delete 2 dead letters?", "for good"]);
    let list = person.send(path, &[]).await;
    list.expect(&[
        "2 dead letters have been deleted.",
        "No dead letters match this filter.",
    ]);
    assert_eq!(person.open(path).await.status, StatusCode::CONFLICT);
    let wrong = person.open("/admin/dead-letters/purge?of=nothing").await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    wrong.expect(&["&#34;nothing&#34; is not a topic or event subscription."]);
}

#[tokio::test(start_paused = true)]
async fn dead_letters_are_put_together_by_what_they_have_in_common() {
    let (_appliance, mut person) = with_dead_letters(2).await;
    for (by, head, row) in [
        ("source", "By source", "orders"),
        (
            "reason",
            "By reason",
            "reason=UndeliverableDueToHttpBadRequest",
        ),
        ("type", "By event type", "type=Example.Created"),
        ("day", "By day", "from=2027-01-15T00%3A00%3A00.000Z"),
    ] {
        let page = person
            .open(&format!("/admin/dead-letters?group={by}"))
            .await;
        page.expect(&[head, row]);
    }
    let day = "/admin/dead-letters?from=2027-01-15T00:00:00.000Z&to=2027-01-16T00:00:00.000Z";
    person.open(day).await.expect(&["Select dead letter 1"]);
    let before = "/admin/dead-letters?to=2027-01-15T00:00";
    person
        .open(before)
        .await
        .expect(&["No dead letters match this filter."]);
    let status = "/admin/dead-letters?status=400";
    person.open(status).await.expect(&["Select dead letter 2"]);
    let other = "/admin/dead-letters?status=401";
    person
        .open(other)
        .await
        .expect(&["No dead letters match this filter."]);
}

#[tokio::test(start_paused = true)]
async fn reasons_are_told_in_words() {
    let (_appliance, mut person) = with_dead_letters(2).await;
    person.open("/admin").await.expect(&[
        "1 of 1 subscription needs attention.",
        "400 Bad Request",
        "href=\"/admin/dead-letters?of=orders",
    ]);
    let list = person.open("/admin/dead-letters").await;
    list.expect(&["Rejected as a bad request", "Resubmit 2", "400 Bad Request"]);
    let path = "/admin/dead-letters/resubmit-all?reason=UndeliverableDueToHttpBadRequest";
    person.open(path).await;
    let job = person.send_filled(path, &[]).await;
    job.expect(&["Replay job 1", "Rejected as a bad request"]);
}

#[tokio::test(start_paused = true)]
async fn a_topic_without_events_leads_to_its_own_form() {
    let (_appliance, mut person) = with_subscription().await;
    person.open("/admin/topics/orders").await.expect(&[
        "No events yet.",
        "<a class=\"button quiet\" href=\"/admin/topics/orders/publish\">Publish event</a>",
    ]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_whose_event_is_damaged_is_still_told_of() {
    let (appliance, mut person) = with_dead_letters(1).await;
    let damage = "UPDATE event SET attributes = '{'";
    assert_eq!(appliance.database.damage(damage), 1);
    let page = person.open("/admin/dead-letters/1").await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.body);
    page.expect(&[
        "UndeliverableDueToHttpBadRequest",
        "Its event is damaged and cannot be read, so it cannot be resubmitted.",
    ]);
    assert!(!page.body.contains("/admin/dead-letters/1/resubmit"));
    for path in ["/admin/dead-letters", "/admin/events", "/admin"] {
        assert_eq!(person.open(path).await.status, StatusCode::OK, "{path}");
    }
    // Somebody may have asked before it was damaged.
    person.open("/admin/dead-letters/1/resubmit").await;
    let rejected = person.send("/admin/dead-letters/1/resubmit", &[]).await;
    assert_eq!(rejected.status, StatusCode::CONFLICT, "{}", rejected.body);
    rejected.expect(&["Delivery 1 is not resubmitted: its event cannot be read any more."]);
    for path in ["/admin/dead-letters/1/edit", "/admin/events/1"] {
        let damaged = person.open(path).await;
        assert_eq!(damaged.status, StatusCode::INTERNAL_SERVER_ERROR, "{path}");
        damaged.expect(&["<h1>Not readable</h1>", "cannot be read"]);
    }
}
