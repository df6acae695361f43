//! Entries of the audit log as JSON.

use schemars::JsonSchema;
use serde::Serialize;

use crate::base::Timestamp;
use crate::model::audit::{AuditEntry, AuditRow, Change, TargetKind};

/// An entry as answers and files show it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AuditEntry")]
pub struct AuditEntryBody {
    id: i64,
    at: Timestamp,
    #[schemars(extend("enum" = ["User", "ApiToken", "ManagementToken", "CommandLine", "Provisioning", "Appliance"]))]
    actor_kind: &'static str,
    actor: String,
    address: Option<String>,
    action: String,
    target_kind: TargetKind,
    /// The name or the number of the target.
    target: String,
    /// The entry as a sentence for people.
    sentence: String,
    changes: Vec<Change>,
}

impl From<&AuditRow> for AuditEntryBody {
    fn from(row: &AuditRow) -> Self {
        let AuditEntry {
            caller,
            action,
            target,
        } = &row.entry;
        Self {
            id: row.id.0,
            at: caller.at,
            actor_kind: caller.actor.kind(),
            actor: caller.actor.name().to_owned(),
            address: caller.address.map(|address| address.to_string()),
            action: action.name().to_owned(),
            target_kind: target.kind,
            target: target.name.clone(),
            sentence: row.entry.describe(),
            changes: action.changes().to_vec(),
        }
    }
}
