//! Which rows of a list are meant, as flags: one struct for each kind of list. Their members are those of a
//! query and of the filter of a replay job.

use clap::Args;
use serde::Serialize;

/// Which part of a long list.
#[derive(Args, Clone, Copy, Debug, Serialize)]
pub(super) struct Page {
    /// Rows to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(super) limit: u32,
    /// Begin below this number
    #[arg(long, value_name = "NUMBER")]
    pub(super) before: Option<i64>,
}

/// The properties of an event itself.
#[derive(Args, Clone, Debug, Default, Serialize)]
pub(super) struct EventProperties {
    /// The event type, or its beginning and a `*`
    #[arg(long = "type", value_name = "TYPE")]
    #[serde(rename = "type")]
    pub(super) event_type: Option<String>,
    /// The subject, or its beginning and a `*`
    #[arg(long)]
    pub(super) subject: Option<String>,
    /// Part of the event's id, type, subject or data
    #[arg(long)]
    pub(super) text: Option<String>,
}

/// Filters of events; an event has to match all of them.
#[derive(Args, Clone, Debug, Default, Serialize)]
pub(super) struct EventFilter {
    /// Events of this topic
    #[arg(long)]
    pub(super) topic: Option<String>,
    /// Events that matched this event subscription
    #[arg(long, requires = "topic")]
    pub(super) subscription: Option<String>,
    /// Delivery status: pending, retrying (pending after a failure), delivered, deadlettered,
    /// dropped, resubmitted or removed
    #[arg(long)]
    pub(super) state: Option<String>,
    /// Events with this id
    #[arg(long)]
    pub(super) id: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) event: EventProperties,
    /// Received at this moment or later (2026-11-21T06:40:53Z)
    #[arg(long, value_name = "MOMENT")]
    pub(super) from: Option<String>,
    /// Received before this moment
    #[arg(long, value_name = "MOMENT")]
    pub(super) to: Option<String>,
    /// Events that matched no event subscription
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) unmatched: bool,
}

/// Filters of dead letters; a dead letter has to match all of them.
#[derive(Args, Clone, Debug, Default, Serialize)]
pub(super) struct DeadLetterFilter {
    /// Those of this topic
    #[arg(long)]
    pub(super) topic: Option<String>,
    /// Those of this event subscription
    #[arg(long, requires = "topic")]
    pub(super) subscription: Option<String>,
    /// Dead-lettered for this reason, Azure's or the receiver's own
    #[arg(long)]
    pub(super) reason: Option<String>,
    /// The outcome of the last attempt, such as TimedOut
    #[arg(long)]
    pub(super) outcome: Option<String>,
    /// The HTTP status of the last attempt
    #[arg(long)]
    pub(super) status: Option<u16>,
    /// Dead-lettered at this moment or later (2026-11-21T06:40:53Z)
    #[arg(long, value_name = "MOMENT")]
    pub(super) from: Option<String>,
    /// Dead-lettered before this moment
    #[arg(long, value_name = "MOMENT")]
    pub(super) to: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(super) event: EventProperties,
}

/// Filters of rejected publish requests.
#[derive(Args, Clone, Debug, Serialize)]
pub(super) struct RejectionFilter {
    /// Those to this topic
    #[arg(long)]
    topic: Option<String>,
    /// Those with this in their reason, such as "not valid JSON", or with this code, such as BadRequest
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// Filters of the audit log.
#[derive(Args, Clone, Debug, Serialize)]
pub(super) struct AuditFilter {
    /// What this user or token did, or actors of this kind: User, ApiToken, ManagementToken, CommandLine
    #[arg(long)]
    actor: Option<String>,
    /// This action, such as Create
    #[arg(long)]
    action: Option<String>,
    /// What was done to targets of this kind, such as Topic
    #[arg(long, value_name = "KIND")]
    #[serde(rename = "targetKind")]
    target_kind: Option<String>,
    /// What was done to this target and its parts: orders finds orders/billing, too
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// From this moment on, as in 2026-11-21T06:40:00Z
    #[arg(long, value_name = "MOMENT")]
    from: Option<String>,
    /// Before this moment
    #[arg(long, value_name = "MOMENT")]
    to: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::app::cli::request::given;

    #[test]
    fn filters_have_the_members_that_were_given() {
        let events = EventFilter {
            topic: Some("orders".to_owned()),
            event: EventProperties {
                event_type: Some("T".to_owned()),
                ..EventProperties::default()
            },
            unmatched: true,
            ..EventFilter::default()
        };
        let expected = json!({ "topic": "orders", "type": "T", "unmatched": true });
        assert_eq!(Value::Object(given(&events)), expected);
        let dead_letters = DeadLetterFilter {
            topic: Some("orders".to_owned()),
            status: Some(503),
            ..DeadLetterFilter::default()
        };
        let expected = json!({ "topic": "orders", "status": 503 });
        assert_eq!(Value::Object(given(&dead_letters)), expected);
        assert!(given(&EventFilter::default()).is_empty());
    }
}
