//! What is told of replay jobs.

use axum::http::Method;
use serde_json::{Value, json};

use super::events::{outcome, paging};
use super::operation::{Area, Operation, on};
use super::schema::{
    Schema, count, integer, list, map, moment, named, number, object, page_of, schemas, text, words,
};
use crate::model::limits::{REPLAY_BACKLOG_MAX, REPLAY_ERRORS_KEPT_MAX, REPLAY_JOBS_MAX};
use crate::model::replay::{ReplayState, Replayed};
use crate::store::views::REPLAY_RESULTS_MAX;

pub(super) fn area() -> Area {
    let request = object([
        ("source", source(filter().or_null().optional()).optional()),
        ("target", named("ReplayTarget").or_null().optional()),
        ("eventsPerSecond", number().or_null().optional()),
    ]);
    Area {
        name: "Replay jobs",
        says: "Many deliveries made again, by a job that survives restarts.",
        operations: operations(),
        schemas: schemas([("ReplayRequest", request), ("ReplayJob", job())]),
    }
}

fn operations() -> Vec<Operation> {
    let one = "/everpost/replays/{id}";
    let command = |verb: &str, id: &str, summary, says: &str| {
        on(Method::POST, format!("{one}/{verb}"), id, summary)
            .says(says)
            .gives(200, "The job.", named("ReplayJob"))
            .refuses(409, "The job has ended.")
    };
    vec![
        on(Method::GET, "/everpost/replays", "listReplays", "List replay jobs")
            .says("The newest first.")
            .with(paging())
            .gives(200, "A page of jobs.", page_of("ReplayJob")),
        on(Method::POST, "/everpost/replays", "startReplay", "Start a replay job")
            .says(format!(
                "It covers the deliveries that there are right now, and waits while a subscription that \
                 it feeds has {REPLAY_BACKLOG_MAX} pending ones. At most {REPLAY_JOBS_MAX} are under way \
                 at once."
            ))
            .takes(named("ReplayRequest"), example())
            .gives(201, "The job.", named("ReplayJob"))
            .refuses(409, "As many jobs are under way as there may be."),
        on(
            Method::POST,
            "/everpost/replays/preview",
            "previewReplay",
            "Count what a replay would cover",
        )
        .says("Takes the same body and starts nothing.")
        .takes(named("ReplayRequest"), example())
        .gives(200, "The exact count.", object([("total", count())])),
        on(Method::GET, one, "getReplay", "Get a replay job")
            .says("With its progress.")
            .gives(200, "The job.", named("ReplayJob")),
        command("pause", "pauseReplay", "Pause a replay job", "It goes on when it is resumed."),
        command("resume", "resumeReplay", "Resume a replay job", "From where it was."),
        command(
            "cancel",
            "cancelReplay",
            "Cancel a replay job",
            "For good; what it has done stays done.",
        ),
    ]
}

fn example() -> Value {
    json!({
        "source": { "kind": "DeadLetters", "filter": { "topic": "orders" } },
        "target": { "kind": "Subscription" },
        "eventsPerSecond": 50,
    })
}

fn source(filter: Schema) -> Schema {
    let kinds = words(Replayed::ALL.map(Replayed::name)).by_default("DeadLetters");
    object([
        (
            "kind",
            kinds.says("`Delivered` takes a subscription.").optional(),
        ),
        ("filter", filter),
    ])
}

fn filter() -> Schema {
    let said = || text().or_null().optional();
    object([
        ("topic", said()),
        ("subscription", said()),
        ("reason", said()),
        ("outcome", outcome().or_null().optional()),
        (
            "status",
            integer().within(&(100..=999)).or_null().optional(),
        ),
        ("type", said().says("A `*` at the end stands for anything.")),
        (
            "subject",
            said().says("A `*` at the end stands for anything."),
        ),
        ("from", moment().or_null().optional()),
        ("to", moment().or_null().optional()),
        ("text", said()),
    ])
}

fn job() -> Schema {
    let error = object([("deliveryId", integer()), ("error", text())]);
    let waits = text().or_null();
    let fates = object([
        ("delivered", count()),
        (
            "givenUp",
            count().says("Whatever was done with them since."),
        ),
        ("waiting", count()),
    ]);
    object([
        ("id", integer()),
        ("state", words(ReplayState::ALL.map(ReplayState::name))),
        ("source", source(filter())),
        ("target", named("ReplayTarget")),
        ("eventsPerSecond", number().or_null()),
        ("createdAt", moment()),
        ("updatedAt", moment()),
        ("endedAt", moment().or_null()),
        ("total", count()),
        ("done", count()),
        ("resubmitted", count()),
        ("failed", count()),
        ("skipped", count()),
        ("skippedReasons", map(count())),
        (
            "errors",
            list(error).says(format!("The first {REPLAY_ERRORS_KEPT_MAX}.")),
        ),
        (
            "waitsFor",
            waits.says("The subscription whose backlog it waits for."),
        ),
        (
            "fates",
            fates.or_null().optional().says(format!(
                "What has become of the deliveries that its first {REPLAY_RESULTS_MAX} resubmissions made, where one \
                 job is asked for; `null` where what is sent to a URL makes none."
            )),
        ),
    ])
}
