//! The status of the last integrity check of the database, in the form shown to users.

use schemars::JsonSchema;
use serde::Serialize;

use crate::broker::diagnostics::IntegrityCheck;
use crate::store::Integrity;

/// The last integrity check.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IntegrityStatus {
    /// `never` since the start, `running` or `done`.
    pub state: &'static str,
    /// When it began or, once it is done, ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// Tables that were checked so far with their indexes, and how many there are.
    pub tables_checked: usize,
    pub tables: usize,
    /// The damaged tables and rows, without values.
    pub faults: Vec<String>,
    /// Damage that is mended.
    pub repaired: Vec<String>,
    /// Damage and losses that were found when the database was opened, and what was done about them.
    pub found_at_start: Vec<String>,
    /// The reason, if it could not be checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl IntegrityStatus {
    pub(super) fn of(check: &IntegrityCheck, found_at_start: &[String]) -> Self {
        let status = match check {
            IntegrityCheck::Never => Self {
                state: "never",
                ..Self::default()
            },
            IntegrityCheck::Running { since, found } => Self {
                state: "running",
                at: Some(since.to_string()),
                ..Self::found(found)
            },
            IntegrityCheck::Done { at, took, found } => Self {
                state: "done",
                at: Some(at.to_string()),
                seconds: Some(took.as_secs()),
                error: found.as_ref().err().map(ToString::to_string),
                ..found.as_ref().map(Self::found).unwrap_or_default()
            },
        };
        Self {
            found_at_start: found_at_start.to_vec(),
            ..status
        }
    }

    fn found(found: &Integrity) -> Self {
        Self {
            tables_checked: found.checked,
            tables: found.tables,
            faults: found.faults.clone(),
            repaired: found.repaired.clone(),
            ..Self::default()
        }
    }
}
