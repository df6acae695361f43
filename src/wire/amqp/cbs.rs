//! Requests to `$cbs`: the tokens that authorize a connection (rule S10.3).

use crate::model::access::Secret;
use crate::wire::amqp::condition::{ARGUMENT_ERROR, AmqpError};
use crate::wire::amqp::message::{Message, MessageProperties};
use crate::wire::amqp::value::{Value, get};

/// The address of the node that takes tokens.
pub const NODE: &str = "$cbs";

/// The prefix of a shared access signature.
pub const SCHEME: &str = "SharedAccessSignature ";

const PUT_TOKEN: &str = "put-token";

/// A token that a peer shows.
#[derive(Clone, Debug)]
pub struct PutToken {
    pub kind: TokenKind,
    /// The URL that the token is meant for.
    pub audience: String,
    pub token: Secret,
}

/// The type of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenKind {
    SharedAccessSignature,
    /// Another type, by the name that the peer gave it.
    Other(String),
}

impl PutToken {
    /// Reads a request.
    pub fn parse(message: &Message) -> Result<Self, AmqpError> {
        let bad = |problem: String| AmqpError::new(ARGUMENT_ERROR, problem);
        let unreadable = |error| bad(format!("the request to {NODE} cannot be read: {error}"));
        let properties = message.application_properties().map_err(unreadable)?;
        let text = |name: &str| get(&properties, name).and_then(Value::as_text);
        let operation = text("operation").unwrap_or_default();
        if operation != PUT_TOKEN {
            return Err(bad(format!(
                "{operation:?} is no operation of {NODE}; expected {PUT_TOKEN}"
            )));
        }
        let kind = text("type").ok_or_else(|| bad("the request has no type".to_owned()))?;
        let audience = text("name").ok_or_else(|| bad("the request has no name".to_owned()))?;
        let body = message.body_value().map_err(unreadable)?;
        let token = body.as_ref().and_then(Value::as_text);
        let token =
            token.ok_or_else(|| bad("the body has to be the token, a string".to_owned()))?;
        // Python's client calls every token a JWT.
        let is_signature = kind.ends_with(":sastoken") || token.starts_with(SCHEME);
        Ok(Self {
            kind: if is_signature {
                TokenKind::SharedAccessSignature
            } else {
                TokenKind::Other(kind.to_owned())
            },
            audience: audience.to_owned(),
            token: Secret::new(token),
        })
    }
}

/// Returns the answer to a request. The correlation-id is `correlation`, the id of the request, in its own type.
pub fn reply(correlation: Option<Value>, status: u16, description: &str) -> Vec<u8> {
    let properties = MessageProperties {
        correlation_id: correlation,
        ..MessageProperties::default()
    };
    let status = vec![
        ("status-code".into(), Value::Int(i32::from(status))),
        ("status-description".into(), description.into()),
    ];
    Message::of(&properties, status, Value::Null).to_bytes()
}
