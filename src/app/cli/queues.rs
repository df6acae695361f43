//! `everpost queues`: what clients of Azure Service Bus send to and receive from.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::app::cli::confirm::Deletion;
use crate::app::cli::output::{number, plural, text};
use crate::app::cli::request::{RemoteServer, Run};
use crate::app::cli::table::Cell::{Choice, Of, Text, Word};
use crate::app::cli::table::{Details, Field, ListFormat};
use crate::base::human;
use crate::model::entity_status::EntityStatus;

#[derive(Subcommand, Debug)]
pub(super) enum QueuesCommand {
    /// List queues, and how many messages lie in them
    List,
    /// Create a queue, or replace its definition
    Create(CreateQueue),
    /// Show one queue
    Show { queue: String },
    /// Delete a queue with its messages
    Delete {
        queue: String,
        #[command(flatten)]
        deletion: Deletion,
    },
}

#[derive(Args, Debug)]
pub(super) struct CreateQueue {
    queue: String,
    #[command(flatten)]
    settings: ReceivingOptions,
    #[command(flatten)]
    intake: SendingOptions,
}

/// The settings that queues have in common with Service Bus topics.
#[derive(Args, Debug)]
pub(super) struct SendingOptions {
    /// Drop messages whose id was sent before
    #[arg(long)]
    detect_duplicates: bool,
    /// How long ids are remembered, PT20S to P7D [default: PT10M]
    #[arg(long, value_name = "DURATION", requires = "detect_duplicates")]
    duplicate_window: Option<String>,
    /// Size that all messages may have together, dead letters included [default: 1024]
    #[arg(long, value_name = "MEGABYTES")]
    max_size: Option<u32>,
}

impl SendingOptions {
    /// Says it in the properties of a request.
    pub(super) fn add_to(&self, properties: &mut Value) {
        properties["requiresDuplicateDetection"] = self.detect_duplicates.into();
        if let Some(window) = &self.duplicate_window {
            properties["duplicateDetectionHistoryTimeWindow"] = window.as_str().into();
        }
        if let Some(most) = self.max_size {
            properties["maxSizeInMegabytes"] = most.into();
        }
    }
}

/// The settings that queues have in common with subscriptions of Service Bus topics.
#[derive(Args, Debug)]
pub(super) struct ReceivingOptions {
    /// How long a receiver holds a message, PT5S to PT5M [default: PT1M]
    #[arg(long, value_name = "DURATION")]
    lock_duration: Option<String>,
    /// Deliveries of a message before it is dead-lettered [default: 10]
    #[arg(long, value_name = "COUNT")]
    max_delivery_count: Option<u32>,
    #[command(flatten)]
    upkeep: UpkeepArgs,
    /// Dead-letter messages that expire, instead of dropping them
    #[arg(long)]
    dead_letter_expired: bool,
    /// Take messages with a session id only, and hand out each session to one receiver at a time
    #[arg(long)]
    requires_session: bool,
    /// The queue that messages go on to
    #[arg(long, value_name = "QUEUE", conflicts_with = "requires_session")]
    forward_to: Option<String>,
    /// The queue that dead letters go on to
    #[arg(long, value_name = "QUEUE")]
    forward_dead_letters_to: Option<String>,
}

/// Settings of queues, Service Bus topics and their subscriptions.
#[derive(Args, Debug)]
pub(super) struct UpkeepArgs {
    /// How long messages live at most, such as P14D [default: for ever]
    #[arg(long, value_name = "DURATION")]
    time_to_live: Option<String>,
    /// Delete it when nobody has used it for so long, PT5M or more [default: never]
    #[arg(long, value_name = "DURATION")]
    delete_on_idle: Option<String>,
    /// Who may send and receive [default: active]
    #[arg(long)]
    status: Option<Status>,
}

impl UpkeepArgs {
    /// Says it in the properties of a request.
    pub(super) fn add_to(&self, properties: &mut Value) {
        let status = self.status.map(Status::name);
        for (name, value) in [
            ("defaultMessageTimeToLive", self.time_to_live.as_deref()),
            ("autoDeleteOnIdle", self.delete_on_idle.as_deref()),
            ("status", status),
        ] {
            if let Some(value) = value {
                properties[name] = value.into();
            }
        }
    }
}

/// The words for [`EntityStatus`].
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Status {
    Active,
    Disabled,
    SendDisabled,
    ReceiveDisabled,
}

impl Status {
    fn name(self) -> &'static str {
        let status = match self {
            Self::Active => EntityStatus::Active,
            Self::Disabled => EntityStatus::Disabled,
            Self::SendDisabled => EntityStatus::SendDisabled,
            Self::ReceiveDisabled => EntityStatus::ReceiveDisabled,
        };
        status.name()
    }
}

impl Run for QueuesCommand {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        let path = ["queues"];
        match self {
            Self::List => server.get(path).show(QUEUES).await,
            Self::Create(create) => {
                let request = server.put(path).at(&create.queue).json(&create.body());
                let name = format!("queue {}", create.queue);
                request.save(&name, ENTITY).await?;
                Ok(())
            }
            Self::Show { queue } => server.get(path).at(queue).show(ENTITY).await,
            Self::Delete { queue, deletion } => {
                if !deletion.yes {
                    let found = server.get(path).at(&queue).send().await?;
                    let messages = plural(number(&found, COUNT), "message", "messages");
                    let question = format!("This deletes queue {queue}: {messages}.");
                    deletion.ask(&question)?;
                }
                server.delete(path).remove("queue", &queue).await
            }
        }
    }
}

impl CreateQueue {
    fn body(&self) -> Value {
        let mut properties = self.settings.properties();
        self.intake.add_to(&mut properties);
        json!({ "properties": properties })
    }
}

impl ReceivingOptions {
    pub(super) fn properties(&self) -> Value {
        let mut properties = json!({
            "deadLetteringOnMessageExpiration": self.dead_letter_expired,
            "requiresSession": self.requires_session,
        });
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                properties[name] = value;
            }
        };
        set("lockDuration", self.lock_duration.clone().map(Value::from));
        set("maxDeliveryCount", self.max_delivery_count.map(Value::from));
        set("forwardTo", self.forward_to.clone().map(Value::from));
        set(
            "forwardDeadLetteredMessagesTo",
            self.forward_dead_letters_to.clone().map(Value::from),
        );
        self.upkeep.add_to(&mut properties);
        properties
    }
}

pub(super) const COUNT: &str = "/properties/messageCount";
const ACTIVE: &str = "/properties/countDetails/activeMessageCount";
const DEAD_LETTERS: &str = "/properties/countDetails/deadLetterMessageCount";

pub(super) const SUBSCRIPTIONS: &str = "/properties/subscriptionCount";

const QUEUES: ListFormat = ListFormat {
    none: "no queues yet: create one with `everpost queues create NAME`",
    columns: COLUMNS,
};

/// The columns of queues, and of subscriptions of Service Bus topics.
pub(super) const COLUMNS: &[Field] = &[
    ("NAME", Text("/name")),
    ("MESSAGES", Word(ACTIVE)),
    ("DEAD LETTERS", Word(DEAD_LETTERS)),
    ("MAX DELIVERIES", Word("/properties/maxDeliveryCount")),
    ("LOCK", Text("/properties/lockDuration")),
];

/// Lines of queues, Service Bus topics and their subscriptions; what one has not has no line.
pub(super) const ENTITY: Details = Details(&[
    ("name", Text("/name")),
    ("status", Text("/properties/status")),
    ("subscriptions", Text(SUBSCRIPTIONS)),
    ("messages", Text(ACTIVE)),
    ("dead letters", Text(DEAD_LETTERS)),
    ("size", Of(size)),
    ("lock duration", Text("/properties/lockDuration")),
    ("max deliveries", Text("/properties/maxDeliveryCount")),
    ("time to live", Of(time_to_live)),
    (
        "expired messages",
        Choice {
            at: "/properties/deadLetteringOnMessageExpiration",
            yes: "dead-lettered",
            no: "dropped",
        },
    ),
    (
        "filter errors",
        Choice {
            at: "/properties/deadLetteringOnFilterEvaluationExceptions",
            yes: "dead-lettered",
            no: "ignored",
        },
    ),
    (
        "sessions",
        Choice {
            at: "/properties/requiresSession",
            yes: "required",
            no: "",
        },
    ),
    ("duplicates", Of(duplicates)),
    ("deleted when idle", Of(deleted_when_idle)),
    ("forwards to", Text("/properties/forwardTo")),
    (
        "forwards dead letters to",
        Text("/properties/forwardDeadLetteredMessagesTo"),
    ),
    ("resource id", Text("/id")),
]);

/// Where messages expire.
pub(super) fn time_to_live(queue: &Value) -> String {
    let time = text(queue, "/properties/defaultMessageTimeToLive");
    time.replace("P10675199DT2H48M5.4775807S", "")
}

/// How long it may be idle.
fn deleted_when_idle(queue: &Value) -> String {
    let limit = text(queue, "/properties/autoDeleteOnIdle");
    if limit.is_empty() {
        limit
    } else {
        format!("after {limit}")
    }
}

/// Returns the size of the messages, and the limit if there is one.
fn size(queue: &Value) -> String {
    let properties = &queue["properties"];
    let bytes = human::bytes(properties["sizeInBytes"].as_u64().unwrap_or_default());
    match properties["maxSizeInMegabytes"].as_u64() {
        Some(most) => format!("{bytes} of {}", human::bytes(most * 1_024 * 1_024)),
        None => bytes,
    }
}

fn duplicates(queue: &Value) -> String {
    let window = text(queue, "/properties/duplicateDetectionHistoryTimeWindow");
    if queue["properties"]["requiresDuplicateDetection"] == true {
        format!("dropped within {window}")
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::cli::output::{Screen, View};

    fn jobs() -> Value {
        json!({ "name": "jobs", "properties": {
            "status": "Active", "lockDuration": "PT1M", "maxDeliveryCount": 10, "deadLetteringOnMessageExpiration": false,
            "defaultMessageTimeToLive": "P10675199DT2H48M5.4775807S", "messageCount": 3,
            "sizeInBytes": 2048, "maxSizeInMegabytes": 1024,
            "countDetails": { "activeMessageCount": 2, "deadLetterMessageCount": 1 } } })
    }

    #[test]
    fn queues_are_listed_in_columns() {
        assert_eq!(
            QUEUES.text(&json!({ "value": [jobs()] }), Screen::default()),
            "\
NAME  MESSAGES  DEAD LETTERS  MAX DELIVERIES  LOCK
jobs  2         1             10              PT1M
"
        );
    }

    #[test]
    fn a_queue_is_shown_line_by_line() {
        assert_eq!(
            ENTITY.text(&jobs(), Screen::default()),
            "\
name              jobs
status            Active
messages          2
dead letters      1
size              2 KiB of 1 GiB
lock duration     PT1M
max deliveries    10
expired messages  dropped
"
        );
    }
}
