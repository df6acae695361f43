//! Addresses of nodes (rule S10.2): of entities, of their sub-queues, and of what manages them.

use std::fmt;

use crate::wire::amqp::{cbs, management};

const DEAD_LETTER: &str = "$DeadLetterQueue";
const SUBSCRIPTIONS: &str = "Subscriptions";
const TRANSFER: &str = "$Transfer";

/// What a link ends at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// What transactions are declared to. Links name it by its type and not by an address.
    Coordinator,
    /// Where tokens are shown.
    Tokens,
    Messages(EntityAddress),
    /// Requests about an entity.
    Management(EntityAddress),
}

/// An entity, or a sub-queue of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EntityAddress {
    /// `queue`, `topic` or `topic/Subscriptions/subscription`, in the letter case that the client used.
    pub path: String,
    pub sub_queue: SubQueue,
}

/// The relative address: what tokens for it name.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Coordinator => f.write_str("$coordinator"),
            Self::Tokens => f.write_str(cbs::NODE),
            Self::Messages(entity) => entity.fmt(f),
            Self::Management(entity) => write!(f, "{entity}/{}", management::NODE),
        }
    }
}

impl fmt::Display for EntityAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sub_queue {
            SubQueue::Active => f.write_str(&self.path),
            SubQueue::DeadLetter => write!(f, "{}/{DEAD_LETTER}", self.path),
            SubQueue::TransferDeadLetter => write!(f, "{}/{TRANSFER}/{DEAD_LETTER}", self.path),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SubQueue {
    Active,
    DeadLetter,
    TransferDeadLetter,
}

/// The topic, or queue, that the path of an entity names, and the subscription if it is that of one.
pub fn split(path: &str) -> (&str, Option<&str>) {
    let parts = path.rsplit_once('/').and_then(|(above, subscription)| {
        let (topic, word) = above.rsplit_once('/')?;
        word.eq_ignore_ascii_case(SUBSCRIPTIONS)
            .then_some((topic, Some(subscription)))
    });
    parts.unwrap_or((path, None))
}

impl Address {
    /// Reads an address, absolute or relative; the words that are not names in any letter case. `None` if it
    /// names nothing.
    pub fn parse(text: &str) -> Option<Self> {
        let path = match text.split_once("://") {
            Some((_scheme, rest)) => rest.split_once('/').map_or("", |(_host, path)| path),
            None => text,
        };
        let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let mut take = |word: &str| {
            let is_last = parts
                .last()
                .is_some_and(|last| last.eq_ignore_ascii_case(word));
            is_last.then(|| parts.pop()).is_some()
        };
        if take(cbs::NODE) {
            return Some(Self::Tokens);
        }
        let is_management = take(management::NODE);
        let sub_queue = match take(DEAD_LETTER) {
            true if take(TRANSFER) => SubQueue::TransferDeadLetter,
            true => SubQueue::DeadLetter,
            false => SubQueue::Active,
        };
        if parts.is_empty() {
            return None;
        }
        let path = parts.join("/");
        let entity = EntityAddress { path, sub_queue };
        Some(match is_management {
            true => Self::Management(entity),
            false => Self::Messages(entity),
        })
    }
}
