//! Replay jobs.

use serde_json::{Value, json};

use crate::api::ApiState;
use crate::api::lists::Page;
use crate::api::operate::replays;
use crate::api::routes::route::{Area, OPERATOR, Route, VIEWER, get, post};
use crate::model::limits::{REPLAY_BACKLOG_MAX, REPLAY_JOBS_MAX};
use crate::wire::query::Paging;
use crate::wire::resource::ShownReplay;
use crate::wire::resource::bodies::Replay;
use axum::handler::Handler;

pub(crate) fn area() -> Area {
    Area {
        name: "Replay jobs",
        description: "Jobs that replay many deliveries and survive restarts.",
        routes: routes(),
    }
}

fn routes() -> Vec<Route> {
    let one = "/everpost/replays/{id}";
    vec![
        get("/everpost/replays", VIEWER, replays::list).doc("listReplays", "List replay jobs")
            .says("The newest first.")
            .query::<Paging>()
            .answers::<Page<ShownReplay>>(200, "A page of jobs."),
        post("/everpost/replays", OPERATOR, replays::start).doc("startReplay", "Start a replay job")
            .says(format!(
                "It covers the deliveries that there are right now, and waits while a subscription that \
                 it feeds has {REPLAY_BACKLOG_MAX} pending ones. At most {REPLAY_JOBS_MAX} are under way \
                 at once."
            ))
            .takes::<Replay>(example())
            .answers::<ShownReplay>(201, "The job.")
            .rejects(409, "As many jobs are under way as there may be."),
        post("/everpost/replays/preview", OPERATOR, replays::preview).doc("previewReplay", "Preview a replay job")
        .says("Takes the same body, counts the deliveries and starts nothing.")
        .takes::<Replay>(example())
        .answers::<replays::Total>(200, "The exact count."),
        get(one, VIEWER, replays::show).doc("getReplay", "Get a replay job")
            .says("With its progress.")
            .answers::<ShownReplay>(200, "The job."),
        command("pause", replays::pause, "pauseReplay", "Pause a replay job", "It goes on when it is resumed."),
        command("resume", replays::resume, "resumeReplay", "Resume a replay job", "From where it was."),
        command(
            "cancel",
            replays::cancel,
            "cancelReplay",
            "Cancel a replay job",
            "For good; what it has done stays done.",
        ),
    ]
}

fn command<T: 'static>(
    verb: &str,
    handler: impl Handler<T, ApiState>,
    id: &str,
    summary: &'static str,
    says: &str,
) -> Route {
    post(
        format!("/everpost/replays/{{id}}/{verb}"),
        OPERATOR,
        handler,
    )
    .doc(id, summary)
    .says(says)
    .answers::<ShownReplay>(200, "The job.")
    .rejects(409, "The job has ended.")
}

fn example() -> Value {
    json!({
        "source": { "kind": "DeadLetters", "filter": { "topic": "orders" } },
        "target": { "kind": "Subscription" },
        "eventsPerSecond": 50,
    })
}
