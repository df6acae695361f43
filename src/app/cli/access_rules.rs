//! `everpost access-rules`: keys of queues and Service Bus topics, and what each allows.

use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::app::cli::confirm::Deletion;
use crate::app::cli::output::text;
use crate::app::cli::request::{RemoteServer, Run};
use crate::app::cli::table::Cell::{Of, Text, Time};
use crate::app::cli::table::{Details, ListFormat};
use crate::app::cli::topics::{KEYS, KeyArg};
use crate::model::shared_access::Right;

#[derive(Subcommand, Debug)]
pub(super) enum AccessRulesCommand {
    /// List access rules
    List,
    /// Create an access rule, or change its rights
    Create {
        /// QUEUE/NAME, or NAME for all queues and topics
        rule: String,
        /// Rights of its keys; manage includes the others
        #[arg(long, value_delimiter = ',', required = true)]
        rights: Vec<RightArg>,
    },
    /// Show one access rule, without its keys
    Show { rule: String },
    /// Show the two keys
    Keys { rule: String },
    /// Regenerate one of the two keys; new connections and requests with the old one are rejected
    RegenerateKey {
        rule: String,
        #[command(flatten)]
        key: KeyArg,
    },
    /// Delete an access rule; new connections and requests with its keys are rejected
    Delete {
        rule: String,
        #[command(flatten)]
        deletion: Deletion,
    },
}

/// The words for [`Right`].
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum RightArg {
    Send,
    Listen,
    Manage,
}

impl From<RightArg> for Right {
    fn from(right: RightArg) -> Self {
        match right {
            RightArg::Send => Self::Send,
            RightArg::Listen => Self::Listen,
            RightArg::Manage => Self::Manage,
        }
    }
}

impl Run for AccessRulesCommand {
    async fn run(self, server: &RemoteServer) -> anyhow::Result<()> {
        let path = ["everpost", "accessRules"];
        match self {
            Self::List => server.get(path).show(RULES).await,
            Self::Create { rule, rights } => {
                let rights: Vec<Right> = rights.into_iter().map(Right::from).collect();
                let body = json!({ "rights": rights });
                let request = server.put(path).at(&rule).json(&body);
                request.save(&format!("access rule {rule}"), RULE).await?;
                Ok(())
            }
            Self::Show { rule } => server.get(path).at(rule).show(RULE).await,
            Self::Keys { rule } => {
                let request = server.post(path).at(rule).at("listKeys");
                request.show(KEYS).await
            }
            Self::RegenerateKey { rule, key } => {
                let request = server.post(path).at(rule).at("regenerateKey");
                request.json(&json!(key)).show(KEYS).await
            }
            Self::Delete { rule, deletion } => {
                deletion.ask(&format!("This deletes access rule {rule} with its keys."))?;
                server.delete(path).remove("access rule", &rule).await
            }
        }
    }
}

const RULES: ListFormat = ListFormat {
    none: "no access rules yet: create one with `everpost access-rules create QUEUE/NAME --rights send`",
    columns: &[
        ("NAME", Text("/name")),
        ("RIGHTS", Of(rights)),
        ("CREATED (UTC)", Time("/createdAt")),
    ],
};

const RULE: Details = Details(&[
    ("name", Text("/name")),
    ("rights", Of(rights)),
    ("created", Time("/createdAt")),
    ("changed", Time("/lastModifiedAt")),
]);

fn rights(rule: &Value) -> String {
    let rights = rule["rights"].as_array().into_iter().flatten();
    let rights: Vec<String> = rights.map(|right| text(right, "")).collect();
    rights.join(", ")
}
