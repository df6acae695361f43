//! Dead letters: searched, purged and resubmitted.

use serde_json::{Map, Value, json};

use crate::api::ApiOptions;
use crate::api::lists::{List, Page};
use crate::api::operate::dead_letters::{self, Count, PurgeParameters, Purged};
use crate::api::operate::import::{self, Imported};
use crate::api::operate::records::{self, DeadLetterBody, ShownRow};
use crate::api::operate::resubmit::{self, OneBody, Outcome, SelectionBody, ShownResubmitted};
use crate::api::routes::route::{ADMIN, Area, OPERATOR, Route, VIEWER, get, post};
use crate::model::limits::{IMPORT_BYTES_MAX, REPLAY_BATCH_MAX, REPLAY_REQUESTS_MAX};
use crate::store::views::NUMBERS_MAX;
use crate::wire::query::{DeadLetterParameters, ImportParameters, Paging};

pub(crate) fn area(options: &ApiOptions) -> Area {
    Area {
        name: "Dead letters",
        description: "What could not be delivered: search, resubmit, purge, import.",
        routes: routes(options.publish_bytes_max),
    }
}

fn routes(publish_bytes_max: usize) -> Vec<Route> {
    let missing = "There is no such topic or event subscription.";
    vec![
        get("/everpost/deadLetters", VIEWER, dead_letters::list).doc("listDeadLetters", "List dead letters")
            .says(
                "The newest first. A page that is short and has a `nextBefore` has looked at as many as \
                 one search may.",
            )
            .query::<DeadLetterParameters>()
            .query::<Paging>()
            .answers::<Page<ShownRow>>(200, "A page of dead letters.")
            .rejects(404, missing),
        get("/everpost/deadLetters/count", VIEWER, dead_letters::count).doc("countDeadLetters", "Count dead letters")
            .says("Exactly, however many there are.")
            .query::<DeadLetterParameters>()
            .answers::<Count>(200, "The count.")
            .rejects(404, missing),
        get("/everpost/deadLetters/{id}", OPERATOR, records::get_dead_letter).doc("getDeadLetter", "Get a dead letter")
            .says("With its event, its attempts and the record that Azure would have stored.")
            .answers::<DeadLetterBody>(200, "The dead letter."),
        post("/everpost/deadLetters/purge", ADMIN, dead_letters::purge).doc("purgeDeadLetters", "Purge dead letters")
            .says(format!(
                "Up to {NUMBERS_MAX} a request; what a receiver holds stays. Needs a filter, or \
                 `all=true`."
            ))
            .query::<DeadLetterParameters>()
            .query::<PurgeParameters>()
            .answers::<Purged>(200, "What was removed.")
            .rejects(404, missing),
        post("/everpost/deadLetters/{id}/resubmit", OPERATOR, resubmit::one).doc("resubmitDeadLetter", "Resubmit a dead letter")
            // An edited event is as large as a published one.
            .bytes_max(publish_bytes_max)
        .says("Attempts and time to live start again. The target can be another one, and the event can be edited.")
        .may_take::<OneBody>(json!({ "target": { "kind": "Subscription" } }))
        .answers::<ShownResubmitted>(200, "What it has become.")
        .rejects(409, "It is no dead letter any more, a receiver holds it, or it cannot be sent.")
        .rejects(502, "The URL did not take it."),
        post("/everpost/deadLetters/resubmit", OPERATOR, resubmit::selection).doc("resubmitDeadLetters", "Resubmit dead letters")
        .says(format!(
            "At most {REPLAY_BATCH_MAX}, or {REPLAY_REQUESTS_MAX} to a URL; a replay job is for more."
        ))
        .takes::<SelectionBody>(json!({ "deliveryIds": [1, 2] }))
        .answers::<List<Outcome>>(200, "What came of each."),
        post("/everpost/deadLetters/import", ADMIN, import::import).doc("importDeadLetters", "Import dead letters from storage")
            .bytes_max(IMPORT_BYTES_MAX)
        .says(format!(
            "Publishes the events of one blob of dead letters, Azure's or ours, all or none; up to \
             {IMPORT_BYTES_MAX} bytes. The same blob is taken once in ten minutes."
        ))
        .query::<ImportParameters>()
        .takes::<Vec<Map<String, Value>>>(
            json!([{
                "id": "a-1",
                "subject": "/orders/7",
                "eventType": "Order.Paid",
                "eventTime": "2026-11-21T06:40:53Z",
                "dataVersion": "1.0",
                "data": {},
                "deadLetterReason": "MaxDeliveryAttemptsExceeded",
                "deliveryAttempts": 10,
            }]),
        )
        .answers::<Imported>(200, "What was taken.")
        .rejects(404, missing),
    ]
}
