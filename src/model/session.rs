//! Message sessions of queues (rule S6). A session consists of the messages with one session id. Only one receiver at a
//! time gets them, in order.

use crate::base::Timestamp;
use crate::model::lease::LockToken;
use crate::model::limits::{SESSION_ID_MAX, SESSION_STATE_BYTES_MAX};
use crate::model::subscription::SubscriptionId;

/// Which session of a queue a receiver wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionSelection {
    /// The next available session: among the sessions that have messages and no holder, the one whose first message has
    /// been due the longest.
    Next,
    Named(String),
}

impl SessionSelection {
    /// Returns whether the selection can match a session with messages: a session id must not be too long.
    pub fn can_have_messages(&self) -> bool {
        match self {
            Self::Next => true,
            Self::Named(id) => is_session_id(id),
        }
    }
}

/// Returns whether a text is short enough for a session id.
pub fn is_session_id(text: &str) -> bool {
    text.chars().count() <= SESSION_ID_MAX
}

/// A session that a receiver has locked. The receiver also holds the locks on all messages that it has received from
/// the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldSession {
    pub of: SubscriptionId,
    /// The session id of its messages.
    pub name: String,
    /// The token of the lock on the session.
    pub token: LockToken,
    pub until: Timestamp,
}

/// An operation of the holder of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionChange {
    /// Renews the locks on the session and its messages until the given time.
    Renew {
        until: Timestamp,
    },
    ReadState,
    /// Sets the session state; `None` clears it.
    SetState(Option<Vec<u8>>),
    /// Releases the session. Its locked messages are returned as if they had not been received.
    Release,
    /// Releases the session because its holder is gone. The deliveries of its locked messages count as failed attempts.
    Abandon,
}

/// The answer to an operation of the holder of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionAnswer {
    Done,
    State(Option<Vec<u8>>),
}

/// Why a session cannot be held or used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    #[error("another receiver holds the session")]
    Held,
    #[error("no session has messages that nobody holds")]
    NoneFree,
    #[error("the lock on the session has expired, or was given back")]
    LockLost,
    #[error("the state of a session has up to {SESSION_STATE_BYTES_MAX} bytes")]
    StateTooLarge,
    #[error(
        "the queue is full: its messages and the states of its sessions would have more bytes than its \
         maxSizeInMegabytes; set states to null, receive some messages, or raise it"
    )]
    QuotaExceeded,
}
