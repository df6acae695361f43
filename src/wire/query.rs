//! The parameters of requests for lists, one struct for each kind of list. The command line takes the same ones as
//! flags, so their descriptions are read in the OpenAPI document and in its help.

use clap::Args;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

use crate::base::Timestamp;
use crate::model::delivery::Outcome;
use crate::model::event_filter::DeliveryStage;
use crate::model::limits::RETENTION_HOURS_MAX;

/// Rows of a page where a request does not say.
pub const PAGE_ROWS: usize = 50;

/// Which page of a list.
#[derive(Args, Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Paging {
    /// Rows of a page; at most 200.
    #[arg(long, value_name = "N", default_value = "20")]
    #[schemars(extend("default" = PAGE_ROWS))]
    pub limit: Option<usize>,
    /// Begin below this number: the `nextBefore` of the page before this one.
    #[arg(long, value_name = "NUMBER")]
    pub before: Option<i64>,
}

/// Filters of events; an event has to match all of them.
#[derive(Args, Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct EventParameters {
    /// Events of this topic; one of a namespace is `namespace/topic`.
    #[arg(long)]
    pub topic: Option<String>,
    /// Events that matched this event subscription, together with its topic.
    #[arg(long, requires = "topic")]
    pub subscription: Option<String>,
    /// Delivery status, to that event subscription if one is given: Pending, Retrying (pending after a failure),
    /// Delivered, DeadLettered, Dropped, Resubmitted or Removed.
    #[arg(long)]
    #[schemars(with = "Option<DeliveryStage>")]
    pub state: Option<String>,
    /// The id that the publisher gave the event.
    #[arg(long)]
    pub id: Option<String>,
    /// The event type, or its beginning and a `*`.
    #[arg(long = "type", value_name = "TYPE")]
    #[serde(rename = "type")]
    pub event_type: Option<String>,
    /// The subject, or its beginning and a `*`.
    #[arg(long)]
    pub subject: Option<String>,
    /// Part of the event's id, type, subject or data.
    #[arg(long)]
    pub text: Option<String>,
    /// Received at this moment or later (2026-11-21T06:40:53Z).
    #[arg(long, value_name = "MOMENT")]
    #[schemars(with = "Option<Timestamp>")]
    pub from: Option<String>,
    /// Received before this moment.
    #[arg(long, value_name = "MOMENT")]
    #[schemars(with = "Option<Timestamp>")]
    pub to: Option<String>,
    /// Events that matched no event subscription.
    #[arg(long)]
    #[serde(default)]
    pub unmatched: bool,
}

/// Filters of dead letters, and of the deliveries of a replay job; a delivery has to match all of them.
/// An empty filter matches them all.
#[derive(Args, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[schemars(rename = "DeadLetterFilter", transform = nothing_required)]
#[schemars(extend("x-rule" = "replayFilter", "additionalProperties" = false))]
pub struct DeadLetterParameters {
    /// Dead letters of this topic; one of a namespace is `namespace/topic`.
    #[arg(long)]
    pub topic: Option<String>,
    /// Dead letters of this event subscription, together with its topic.
    #[arg(long, requires = "topic")]
    pub subscription: Option<String>,
    /// Dead-lettered for this reason, Azure's or the receiver's own.
    #[arg(long)]
    pub reason: Option<String>,
    /// The outcome of the last attempt, such as TimedOut.
    #[arg(long)]
    #[schemars(with = "Option<Outcome>")]
    pub outcome: Option<String>,
    /// The HTTP status of the last attempt.
    #[arg(long)]
    #[schemars(range(min = 100, max = 999))]
    pub status: Option<u16>,
    /// Ended at this moment or later (2026-11-21T06:40:53Z).
    #[arg(long, value_name = "MOMENT")]
    #[schemars(with = "Option<Timestamp>")]
    pub from: Option<String>,
    /// Ended before this moment.
    #[arg(long, value_name = "MOMENT")]
    #[schemars(with = "Option<Timestamp>")]
    pub to: Option<String>,
    /// The event type, or its beginning and a `*`.
    #[arg(long = "type", value_name = "TYPE")]
    #[serde(rename = "type")]
    pub event_type: Option<String>,
    /// The subject, or its beginning and a `*`.
    #[arg(long)]
    pub subject: Option<String>,
    /// Part of the event's id, type, subject or data.
    #[arg(long)]
    pub text: Option<String>,
}

impl DeadLetterParameters {
    /// Reports whether every dead letter matches.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Makes no property required, since answers leave out what was not given, too.
pub(super) fn nothing_required(schema: &mut Schema) {
    schema.remove("required");
}

/// Filters of rejected publish requests.
#[derive(Args, Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct RejectionParameters {
    /// Rejections by this topic; one of a namespace is `namespace/topic`.
    #[arg(long)]
    pub topic: Option<String>,
    /// Rejections with this in their reason, such as "not valid JSON", or with this code, such as BadRequest.
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// Filters of the audit log.
#[derive(Args, Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditParameters {
    /// Acts of this user or token, or of actors of this kind: User, ApiToken, ManagementToken, CommandLine, Provisioning, Appliance.
    #[arg(long)]
    pub actor: Option<String>,
    /// This action, such as Create.
    #[arg(long)]
    pub action: Option<String>,
    /// Acts on targets of this kind, such as Topic.
    #[arg(long, value_name = "KIND")]
    pub target_kind: Option<String>,
    /// Acts on this target and its parts: orders finds orders/billing, too.
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
    /// From this moment on, as in 2026-11-21T06:40:00Z.
    #[arg(long, value_name = "MOMENT")]
    #[schemars(with = "Option<Timestamp>")]
    pub from: Option<String>,
    /// Before this moment.
    #[arg(long, value_name = "MOMENT")]
    #[schemars(with = "Option<Timestamp>")]
    pub to: Option<String>,
}

/// The user whose sessions are meant.
#[derive(Args, Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct SessionParameters {
    /// The sessions of this user; without it, of all users.
    #[arg(long)]
    pub user: Option<String>,
}

/// Other ages than those in force, to see what they would delete.
#[derive(Args, Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageParameters {
    /// Show what would be deleted if delivered events were kept for so many hours.
    #[arg(long, value_name = "N")]
    #[schemars(range(max = RETENTION_HOURS_MAX))]
    pub hours: Option<u64>,
    /// Show what would be deleted if dead letters were kept for so many hours.
    #[arg(long, value_name = "N")]
    #[schemars(range(max = RETENTION_HOURS_MAX))]
    pub dead_letter_hours: Option<u64>,
}

/// Where imported events are to go.
#[derive(Args, Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct ImportParameters {
    /// Topic that gets the events; one of a namespace is `namespace/topic`.
    #[arg(long)]
    #[schemars(example = &"orders")]
    pub topic: String,
    /// Its only event subscription that gets them, whatever its filter says.
    #[arg(long)]
    pub subscription: Option<String>,
}
