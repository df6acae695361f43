//! The book of people: users who sign in to the admin pages, their sessions, the tokens of programs, and
//! who has failed to sign in.

mod login_failures;
mod second_factor;
mod sessions;
mod tokens;
mod users;

pub use second_factor::{NewSecondFactor, SecondFactor};
pub use sessions::{SessionRecord, SessionRow};
pub use tokens::{ApiToken, NewToken, TokenId};
pub use users::{AccountError, NewUser, PasswordLink, User, UserChange, UserId};

use crate::store::engine::db::Db;
use crate::store::engine::encryption::Encryption;

/// The book.
#[derive(Clone)]
pub struct Accounts {
    pub(super) db: Db,
    pub(super) encryption: Encryption,
}

/// What somebody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    /// The role that a word names.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == word)
    }

    /// The role that stands in the file. The schema admits no other word; the weakest one is the safe
    /// reading.
    fn stored(word: &str) -> Self {
        Self::parse(word).unwrap_or(Self::Viewer)
    }
}
