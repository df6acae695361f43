//! Notices as events of the built-in topic `everpost-system`.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::base::Timestamp;
use crate::model::event::{Event, EventData};
use crate::model::notice::{Notice, Subscribed};

/// The version of the data of all notices.
const DATA_VERSION: &str = "1.0";

/// The event that tells of `notice`, which happened at `at`.
pub fn to_event(notice: &Notice, id: Uuid, at: Timestamp) -> Event {
    Event {
        id: id.to_string(),
        source: None,
        event_type: notice.event_type().to_owned(),
        subject: Some(subject(notice)),
        time: Some(at.to_string()),
        data_version: Some(DATA_VERSION.to_owned()),
        attributes: Vec::new(),
        data: EventData::Json(data(notice).to_string()),
    }
}

/// The path in the management API of what the notice is about.
fn subject(notice: &Notice) -> String {
    let subscription =
        |of: &Subscribed| format!("{}/eventSubscriptions/{}", of.topic.path(), of.name);
    match notice {
        Notice::DeadLettersAdded(added) => subscription(&added.of),
        Notice::ProbationBegun { of, .. }
        | Notice::ProbationEnded { of, .. }
        | Notice::SubscriptionDisabled { of, .. }
        | Notice::ValidationFailed { of, .. } => subscription(of),
        Notice::DiskPressureBegun(_) | Notice::DiskPressureEnded(_) => {
            "/everpost/storage".to_owned()
        }
        Notice::ReplayFinished(finished) => format!("/everpost/replays/{}", finished.job),
    }
}

fn data(notice: &Notice) -> Value {
    match notice {
        Notice::DeadLettersAdded(added) => with(
            &added.of,
            json!({
                "deadLetterReason": added.reason.name(),
                "count": added.count,
                "firstAt": added.first_at.to_string(),
                "lastAt": added.last_at.to_string(),
                "lastDeliveryId": added.last_delivery.0,
            }),
        ),
        Notice::ProbationBegun { of, cause, until } => with(
            of,
            json!({ "cause": cause.name(), "until": until.to_string() }),
        ),
        Notice::ProbationEnded { of, since } => with(of, json!({ "since": since.to_string() })),
        Notice::SubscriptionDisabled { of, by } => with(of, json!({ "disabledBy": by.name() })),
        Notice::ValidationFailed { of, reason } => with(of, json!({ "reason": reason })),
        Notice::DiskPressureBegun(pressure) | Notice::DiskPressureEnded(pressure) => {
            json!({ "cause": pressure.cause(), "effect": pressure.effect() })
        }
        Notice::ReplayFinished(finished) => {
            let progress = &finished.progress;
            json!({
                "replayJobId": finished.job.0,
                "state": finished.state.name(),
                "total": finished.total,
                "resubmitted": progress.resubmitted,
                "failed": progress.failed,
                "skipped": progress.skipped.values().sum::<u64>(),
            })
        }
    }
}

/// The names of the subscription in front of what is told of it.
fn with(of: &Subscribed, mut data: Value) -> Value {
    data["topic"] = json!(of.topic.as_str());
    data["eventSubscription"] = json!(of.name.as_str());
    data
}
