//! Outcomes with which receivers settle messages, read from the delivery states in dispositions (rule S10.7).

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

/// Application properties to set on a message. Clones share one allocation, since one disposition can settle thousands
/// of messages.
pub type Changes = Arc<[(String, Value)]>;

/// Why a receiver dead-letters a message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeadLettering {
    pub reason: Option<String>,
    pub description: Option<String>,
    pub properties: Changes,
}

impl ReceiverOutcome {
    /// Returns the outcome that `state` stands for, or `None` for a state that settles no message by itself: received,
    /// declared and transactional.
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

    /// Returns whether two outcomes are clones of one, or equal without any data of their own. Data is compared by its
    /// allocation, not by its content.
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

    /// Returns the size in memory, in bytes, of the properties that the outcome sets. In a stored message they take
    /// fewer bytes.
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

    /// Returns the delivery state that confirms the outcome to the receiver: the same outcome, and never with an error,
    /// which would mean that the settlement has failed.
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
    /// Reads the error of the outcome `rejected`. Without the property `DeadLetterReason`, an error condition other
    /// than `com.microsoft:dead-letter`, which the application has defined itself, becomes the reason.
    fn of(error: Option<&AmqpError>) -> Self {
        let Some(error) = error else {
            return Self::default();
        };
        let mut properties = named_values(&error.info);
        let mut take = |name: &str| {
            let place = properties.iter().position(|(key, _)| key == name)?;
            // A value that is not text stays in the application properties.
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

/// Returns the application properties to set that a map holds, whose keys may be strings or symbols.
pub fn changes(map: &Map) -> Changes {
    named_values(map).into()
}

/// Encodes application properties as an AMQP map; returns no bytes if there are none to set. Writes each value in the
/// form that the clients of all languages can read, and rejects a value that some client could not read in the message.
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

/// Returns the entries of a map whose keys are strings or symbols, with the keys as text.
pub fn named_values(map: &Map) -> Vec<(String, Value)> {
    let named = map.iter();
    named
        .filter_map(|(key, value)| Some((key.as_text()?.to_owned(), value.clone())))
        .collect()
}
