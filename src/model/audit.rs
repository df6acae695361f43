//! Who has changed what: one entry for each change that somebody made, without secrets.

use crate::base::Timestamp;

/// Somebody who acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// Signed in to the admin pages.
    User(String),
    /// A program with a token of its own.
    ApiToken(String),
    /// Whoever holds the one management token.
    ManagementToken,
    /// Somebody at the machine, in the database itself.
    CommandLine,
}

impl Actor {
    /// The word for the kind, as it is stored and shown.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::User(_) => "User",
            Self::ApiToken(_) => "ApiToken",
            Self::ManagementToken => "ManagementToken",
            Self::CommandLine => "CommandLine",
        }
    }

    /// The name; empty where the kind has none.
    pub fn name(&self) -> &str {
        match self {
            Self::User(name) | Self::ApiToken(name) => name,
            Self::ManagementToken | Self::CommandLine => "",
        }
    }

    /// The actor of that kind and name.
    pub fn of(kind: &str, name: String) -> Self {
        match kind {
            "User" => Self::User(name),
            "ApiToken" => Self::ApiToken(name),
            "ManagementToken" => Self::ManagementToken,
            _ => Self::CommandLine,
        }
    }

    /// In a few words for people.
    pub fn words(&self) -> String {
        match self {
            Self::User(name) => name.clone(),
            Self::ApiToken(name) => format!("token {name}"),
            Self::ManagementToken => "management token".to_owned(),
            Self::CommandLine => "command line".to_owned(),
        }
    }
}

/// A property that is another one now. Values are JSON; `null` for what there was not, or is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Names with dots in between; empty for the thing as a whole.
    pub property: String,
    pub before: String,
    pub after: String,
}

/// Something that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    pub at: Timestamp,
    pub actor: Actor,
    /// The address of the client.
    pub address: Option<String>,
    /// The method of the request.
    pub method: String,
    /// Its path, without the query.
    pub path: String,
    /// What the user or the API token is called that the path may name by a number.
    pub name: Option<String>,
    pub changes: Vec<Change>,
}

/// The number of an entry; they ascend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditId(pub i64);

/// An entry as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    pub id: AuditId,
    pub entry: AuditEntry,
}
