//! Decisions of receivers about messages, as dispositions state them (rule S10.7).

use std::sync::Arc;

use crate::wire::amqp::condition::{AmqpError, DEAD_LETTER};
use crate::wire::amqp::decode::DecodeError;
use crate::wire::amqp::message::encoded;
use crate::wire::amqp::sent;
use crate::wire::amqp::state::{DeliveryState, Modified};
use crate::wire::amqp::value::{Map, Value};

const REASON: &str = "DeadLetterReason";
const DESCRIPTION: &str = "DeadLetterErrorDescription";

/// A receiver's decision about a message.
#[derive(Clone, Debug, PartialEq)]
pub enum ReceiverOutcome {
    Complete,
    /// The message goes back to its place, and the delivery counts.
    Abandon(Changes),
    /// The message can only be received by its sequence number from now on.
    Defer(Changes),
    DeadLetter(Arc<DeadLettering>),
    /// The message goes back to its place, and the delivery does not count.
    Release,
}

/// Application properties to set. Clones share them, since one disposition can be about thousands of messages.
pub type Changes = Arc<[(String, Value)]>;

/// Why a receiver dead-letters a message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeadLettering {
    pub reason: Option<String>,
    pub description: Option<String>,
    pub properties: Changes,
}

impl ReceiverOutcome {
    /// The outcome that `state` asks for; `None` for a state that ends nothing.
    pub fn of(state: &DeliveryState) -> Option<Self> {
        Some(match state {
            DeliveryState::Received
            | DeliveryState::Declared(_)
            | DeliveryState::Transactional(_) => return None,
            DeliveryState::Accepted => Self::Complete,
            DeliveryState::Released => Self::Release,
            DeliveryState::Rejected(error) => {
                Self::DeadLetter(Arc::new(DeadLettering::of(error.as_ref())))
            }
            DeliveryState::Modified(modified) => {
                let changes = changes(&modified.annotations);
                match modified.undeliverable_here {
                    Some(true) => Self::Defer(changes),
                    Some(false) | None => Self::Abandon(changes),
                }
            }
        })
    }

    /// Returns whether it is the decision that `other` was cloned from, or as good as that.
    pub fn is_shared(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Complete, Self::Complete) | (Self::Release, Self::Release) => true,
            (Self::Abandon(one), Self::Abandon(other)) | (Self::Defer(one), Self::Defer(other)) => {
                Arc::ptr_eq(one, other)
            }
            (Self::DeadLetter(one), Self::DeadLetter(other)) => Arc::ptr_eq(one, other),
            (
                Self::Complete
                | Self::Release
                | Self::Abandon(_)
                | Self::Defer(_)
                | Self::DeadLetter(_),
                _,
            ) => false,
        }
    }

    /// Bytes that the properties which it sets take in memory, which is more than they take with a stored message.
    pub fn bytes(&self) -> usize {
        let set = match self {
            Self::Complete | Self::Release => return 0,
            Self::Abandon(set) | Self::Defer(set) => set,
            Self::DeadLetter(dead) => &dead.properties,
        };
        let each = set.iter();
        each.map(|(name, value)| size_of::<String>() + name.len() + value.bytes())
            .sum()
    }

    /// How it is confirmed: the same outcome, and never an error, which would mean that it failed.
    pub fn confirmation(&self) -> DeliveryState {
        match self {
            Self::Complete => DeliveryState::Accepted,
            Self::Release => DeliveryState::Released,
            Self::DeadLetter(_) => DeliveryState::Rejected(None),
            Self::Abandon(_) => DeliveryState::Modified(Modified::default()),
            Self::Defer(_) => DeliveryState::Modified(Modified {
                undeliverable_here: Some(true),
                ..Modified::default()
            }),
        }
    }
}

impl DeadLettering {
    /// Reads the error of a rejection. A condition that the application defined itself becomes the reason.
    fn of(error: Option<&AmqpError>) -> Self {
        let Some(error) = error else {
            return Self::default();
        };
        let mut properties = named_values(&error.info);
        let mut take = |name: &str| {
            let place = properties.iter().position(|(key, _)| key == name)?;
            // What is no text stays a property of the application.
            let text = properties[place].1.as_text()?.to_owned();
            properties.remove(place);
            Some(text)
        };
        let (reason, description) = (take(REASON), take(DESCRIPTION));
        let is_own = error.condition != DEAD_LETTER && !error.condition.is_empty();
        let own = |text: &str| is_own.then(|| text.to_owned());
        Self {
            reason: reason.or_else(|| own(&error.condition)),
            description: description.or_else(|| own(&error.description)),
            properties: properties.into(),
        }
    }
}

/// The changes in a map, whose keys may be strings or symbols.
pub fn changes(map: &Map) -> Changes {
    named_values(map).into()
}

/// Returns changes as an encoded map, or nothing if there are none. Their values are in the form that all clients read;
/// rejects those that some client could not read in the message.
pub fn encoded_changes(changes: &[(String, Value)]) -> Result<Vec<u8>, DecodeError> {
    if changes.is_empty() {
        return Ok(Vec::new());
    }
    let entries = changes.iter().filter_map(|(name, value)| {
        let value = sent::property(name, value.clone()).transpose()?;
        Some(value.map(|value| (Value::from(name.as_str()), value)))
    });
    entries.collect::<Result<Map, DecodeError>>().map(encoded)
}

/// The values in a map that have names, each with its name.
pub fn named_values(map: &Map) -> Vec<(String, Value)> {
    let named = map.iter();
    named
        .filter_map(|(key, value)| Some((key.as_text()?.to_owned(), value.clone())))
        .collect()
}
