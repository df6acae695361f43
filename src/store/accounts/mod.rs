//! Accounts: users who sign in to the admin pages, their sessions, API tokens, and failed logins.

mod external;
mod login_failures;
mod second_factor;
mod sessions;
mod tokens;
mod users;

pub use login_failures::Guessers;
use schemars::JsonSchema;
pub use second_factor::{NewSecondFactor, SecondFactor};
use serde::{Deserialize, Serialize};
pub use sessions::{ListedSession, SessionRecord};
pub use tokens::{ApiToken, NewToken, TokenId};
pub use users::{AccountError, NewPassword, NewUser, PasswordLink, User, UserChange, UserId};

use crate::store::engine::db::Db;
use crate::store::engine::encryption::Encryption;

/// The accounts of an appliance.
#[derive(Clone)]
pub struct Accounts {
    pub(super) db: Db,
    pub(super) encryption: Encryption,
}

/// The permissions of a user or an API token.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Role {
    /// Sees everything but secrets and the data of events.
    Viewer,
    /// Also sees data, resubmits, pauses and publishes.
    Operator,
    /// Everything.
    Admin,
}

impl Role {
    /// All roles, the weakest first.
    pub const ALL: [Role; 3] = [Self::Viewer, Self::Operator, Self::Admin];

    /// The name, as it is stored and shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    /// Reports whether the role may see the data of events and the responses of receivers.
    pub fn sees_data(self) -> bool {
        self >= Self::Operator
    }

    /// Returns the role with the name `word`.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == word)
    }

    /// Returns the role for the name in a row. An unknown name, which the schema does not allow, gives the weakest
    /// role.
    fn stored(word: &str) -> Self {
        Self::parse(word).unwrap_or(Self::Viewer)
    }
}
