//! The AMQP type `error`: error conditions, and the conversion of errors from and to AMQP values.

use std::borrow::Cow;

use crate::wire::amqp::descriptor::described;
use crate::wire::amqp::fields::UnreadFields;
use crate::wire::amqp::value::{FromValue, Map, Value};

const DESCRIPTOR: u64 = 0x1d;

pub const CONNECTION_FORCED: &str = "amqp:connection:forced";
pub const DECODE_ERROR: &str = "amqp:decode-error";
pub const FRAMING_ERROR: &str = "amqp:connection:framing-error";
pub const HANDLE_IN_USE: &str = "amqp:session:handle-in-use";
pub const ILLEGAL_STATE: &str = "amqp:illegal-state";
pub const INVALID_FIELD: &str = "amqp:invalid-field";
pub const LINK_STOLEN: &str = "amqp:link:stolen";
pub const MESSAGE_SIZE_EXCEEDED: &str = "amqp:link:message-size-exceeded";
pub const NOT_ALLOWED: &str = "amqp:not-allowed";
pub const NOT_FOUND: &str = "amqp:not-found";
pub const NOT_IMPLEMENTED: &str = "amqp:not-implemented";
pub const RESOURCE_LIMIT_EXCEEDED: &str = "amqp:resource-limit-exceeded";
pub const TRANSACTION_ROLLBACK: &str = "amqp:transaction:rollback";
pub const TRANSACTION_UNKNOWN: &str = "amqp:transaction:unknown-id";
pub const TRANSFER_LIMIT_EXCEEDED: &str = "amqp:link:transfer-limit-exceeded";
pub const UNATTACHED_HANDLE: &str = "amqp:session:unattached-handle";
pub const UNAUTHORIZED_ACCESS: &str = "amqp:unauthorized-access";

pub const ARGUMENT_ERROR: &str = "com.microsoft:argument-error";
pub const AUTH_FAILED: &str = "com.microsoft:auth-failed";
pub const DEAD_LETTER: &str = "com.microsoft:dead-letter";
pub const ENTITY_ALREADY_EXISTS: &str = "com.microsoft:entity-already-exists";
pub const ENTITY_DISABLED: &str = "com.microsoft:entity-disabled";
pub const MESSAGE_LOCK_LOST: &str = "com.microsoft:message-lock-lost";
pub const MESSAGE_NOT_FOUND: &str = "com.microsoft:message-not-found";
pub const SERVER_BUSY: &str = "com.microsoft:server-busy";
pub const SESSION_CANNOT_BE_LOCKED: &str = "com.microsoft:session-cannot-be-locked";
pub const SESSION_LOCK_LOST: &str = "com.microsoft:session-lock-lost";
pub const TIMEOUT: &str = "com.microsoft:timeout";

/// An AMQP error: a condition for programs, a description for people, and additional information.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{condition}: {description}")]
pub struct AmqpError {
    pub condition: Cow<'static, str>,
    pub description: String,
    pub info: Map,
}

impl AmqpError {
    /// Creates an error of this program, without additional information.
    pub fn new(condition: &'static str, description: impl Into<String>) -> Self {
        Self {
            condition: Cow::Borrowed(condition),
            description: description.into(),
            info: Map::new(),
        }
    }
}

impl FromValue for AmqpError {
    const KIND: &'static str = "an error";

    fn from_value(value: Value) -> Option<Self> {
        let (_, content) = described(value)?;
        let mut fields = UnreadFields::of("an error", content).ok()?;
        Some(Self {
            condition: Cow::Owned(fields.or("condition", String::new()).ok()?),
            description: fields.or("description", String::new()).ok()?,
            info: fields.or("info", Map::new()).ok()?,
        })
    }
}

impl From<&AmqpError> for Value {
    fn from(error: &AmqpError) -> Self {
        // Encodes all three fields, even if they are empty: the Python client relies on them.
        let fields = vec![
            Value::symbol(&error.condition),
            error.description.as_str().into(),
            Value::Map(error.info.clone()),
        ];
        Value::composite(DESCRIPTOR, fields)
    }
}
