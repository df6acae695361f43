//! Who has changed what: one entry per change, without secrets.

use crate::base::Timestamp;

/// Somebody who acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// Signed in to the admin pages.
    User(String),
    /// A program with a token of its own.
    ApiToken(String),
    /// The holder of the one management token.
    ManagementToken,
    /// Somebody at the machine, by the command line.
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

/// A changed property. Values are JSON; `null` if there was none, or is none any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Names with dots in between; empty for the whole resource.
    pub property: String,
    pub before: String,
    pub after: String,
}

/// A change that somebody made.
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
    /// The name of the user or the API token, if the path has only its id.
    pub name: Option<String>,
    pub changes: Vec<Change>,
}

/// The id of an entry; ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AuditId(pub i64);

/// An entry as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    pub id: AuditId,
    pub entry: AuditEntry,
}
