//! Requests to the `$management` node of an entity, and their replies (rule S10.8).

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use crate::base::Timestamp;
use crate::model::lease::NEVER;
use crate::model::limits::RULES_LISTED_MAX;
use crate::model::rule::Rule;
use crate::model::shared_access::Right;
use crate::wire::amqp::condition::{
    ARGUMENT_ERROR, AUTH_FAILED, AmqpError, ENTITY_ALREADY_EXISTS, MESSAGE_LOCK_LOST,
    MESSAGE_NOT_FOUND, MESSAGE_SIZE_EXCEEDED, NOT_ALLOWED, NOT_FOUND, NOT_IMPLEMENTED,
    RESOURCE_LIMIT_EXCEEDED, SERVER_BUSY, SESSION_CANNOT_BE_LOCKED, SESSION_LOCK_LOST, TIMEOUT,
    UNAUTHORIZED_ACCESS,
};
use crate::wire::amqp::message::{Message, MessageProperties};
use crate::wire::amqp::outcome::{Changes, DeadLettering, ReceiverOutcome, changes};
use crate::wire::amqp::rule;
use crate::wire::amqp::value::{ElementType, FromValue, Map, Value, get};

/// The last part of the address of a management node.
pub const NODE: &str = "$management";

const PREFIX: &str = "com.microsoft:";

/// The largest number of lock tokens, sequence numbers or messages of one request.
const ITEMS_MAX: usize = 4_500;

/// An operation that a management request asks of an entity.
#[derive(Clone, Debug, PartialEq)]
pub enum EntityOperation {
    RenewLocks(Vec<Uuid>),
    Peek {
        from: i64,
        count: usize,
        session: NamedSession,
        /// Is true if the answer leaves out the bodies of the messages.
        omit_body: bool,
    },
    /// Receives deferred messages by their sequence numbers.
    ReceiveNumbers {
        numbers: Vec<i64>,
        /// Is true if the messages are locked, and false if they are removed.
        lock: bool,
        session: NamedSession,
    },
    Settle {
        tokens: Vec<Uuid>,
        outcome: ReceiverOutcome,
    },
    /// Deletes the oldest messages that are not locked.
    DeleteBatch {
        count: usize,
        enqueued_before: Timestamp,
        session: NamedSession,
    },
    Schedule(Vec<Message>),
    CancelScheduled(Vec<i64>),
    RenewSession(String),
    SessionState(String),
    SetSessionState {
        session: String,
        state: Option<Bytes>,
    },
    /// Lists the sessions whose state was set since `state_set_since`, or without this moment the sessions that have
    /// messages or a state.
    Sessions {
        state_set_since: Option<Timestamp>,
        skip: usize,
        top: usize,
    },
    AddRule(Box<Rule>),
    RemoveRule(String),
    Rules {
        skip: usize,
        top: usize,
    },
}

/// Names the session that a request is about, if it is about one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedSession {
    pub id: Option<String>,
    /// The link that holds the session. It identifies the session if there is no id.
    pub link: Option<String>,
}

impl EntityOperation {
    /// Reports whether the operation waits for the end of the transaction in which it was requested. All other
    /// operations are done at once.
    pub fn takes_part(&self) -> bool {
        match self {
            Self::Settle { .. }
            | Self::DeleteBatch { .. }
            | Self::Schedule(_)
            | Self::CancelScheduled(_)
            | Self::SetSessionState { .. } => true,
            Self::RenewLocks(_)
            | Self::Peek { .. }
            | Self::ReceiveNumbers { .. }
            | Self::RenewSession(_)
            | Self::SessionState(_)
            | Self::Sessions { .. }
            | Self::AddRule(_)
            | Self::RemoveRule(_)
            | Self::Rules { .. } => false,
        }
    }

    /// Returns the right that the operation requires.
    pub fn right(&self) -> Right {
        match self {
            Self::RenewLocks(_)
            | Self::Peek { .. }
            | Self::ReceiveNumbers { .. }
            | Self::Settle { .. }
            | Self::DeleteBatch { .. }
            | Self::RenewSession(_)
            | Self::SessionState(_)
            | Self::SetSessionState { .. }
            | Self::Sessions { .. }
            | Self::AddRule(_)
            | Self::RemoveRule(_)
            | Self::Rules { .. } => Right::Listen,
            Self::Schedule(_) | Self::CancelScheduled(_) => Right::Send,
        }
    }
}

/// The answer of an entity to a management request.
#[derive(Clone, Debug, PartialEq)]
pub enum ManagementReply {
    Done,
    /// The moments at which the locks end, in the order of the lock tokens in the request.
    LocksRenewed(Vec<Timestamp>),
    Peeked(Vec<Bytes>),
    Received(Vec<(Uuid, Bytes)>),
    /// The number of deleted messages.
    Deleted(usize),
    /// The sequence numbers of the messages, in the order of the messages in the request.
    Scheduled(Vec<i64>),
    /// The moment at which the lock of the session ends.
    SessionRenewed(Timestamp),
    SessionState(Option<Bytes>),
    Sessions {
        /// The value of `skip` for the next request.
        skip: usize,
        names: Vec<String>,
    },
    Rules(Vec<Rule>),
}

/// Returns the name of the operation that a request asks for, without reading the rest of the request.
pub fn operation_name(message: &Message) -> Option<String> {
    let properties = message.application_properties().ok()?;
    let name = get(&properties, "operation")?.as_text()?;
    Some(name.strip_prefix(PREFIX).unwrap_or(name).to_owned())
}

impl EntityOperation {
    /// Reads a request.
    pub fn parse(message: &Message) -> Result<Self, AmqpError> {
        let unreadable = |error| bad(format!("the request cannot be read: {error}"));
        let operation =
            operation_name(message).ok_or_else(|| bad("the request names no operation"))?;
        let body = match message.body_value().map_err(unreadable)? {
            Some(Value::Map(map)) => map,
            Some(_) | None => Map::new(),
        };
        let properties = message.application_properties().map_err(unreadable)?;
        let link = get(&properties, "associated-link-name").and_then(Value::as_text);
        let arguments = Arguments {
            body,
            link: link.map(str::to_owned),
        };
        arguments.operation(&operation)
    }
}

/// The arguments of a request.
struct Arguments {
    body: Map,
    /// The value of `associated-link-name`: the link that the request is made for.
    link: Option<String>,
}

impl Arguments {
    fn operation(&self, name: &str) -> Result<EntityOperation, AmqpError> {
        Ok(match name {
            "renew-lock" => EntityOperation::RenewLocks(self.tokens()?),
            "peek-message" => EntityOperation::Peek {
                from: self.required("from-sequence-number")?,
                count: self.count("message-count")?,
                session: self.session()?,
                omit_body: self.optional("omit-message-body")?.unwrap_or(false),
            },
            "receive-by-sequence-number" => EntityOperation::ReceiveNumbers {
                numbers: self.list("sequence-numbers")?,
                lock: self.required::<u32>("receiver-settle-mode")? != 0,
                session: self.session()?,
            },
            "update-disposition" => EntityOperation::Settle {
                tokens: self.distinct_tokens()?,
                outcome: self.outcome()?,
            },
            "batch-delete-messages" => EntityOperation::DeleteBatch {
                count: self.count("message-count")?,
                enqueued_before: self
                    .moment("enqueued-time-utc")?
                    .ok_or_else(|| bad("enqueued-time-utc is missing"))?,
                session: self.session()?,
            },
            "schedule-message" => EntityOperation::Schedule(self.messages()?),
            "cancel-scheduled-message" => {
                EntityOperation::CancelScheduled(self.list("sequence-numbers")?)
            }
            "renew-session-lock" => EntityOperation::RenewSession(self.required("session-id")?),
            "get-session-state" => EntityOperation::SessionState(self.required("session-id")?),
            "set-session-state" => EntityOperation::SetSessionState {
                session: self.required("session-id")?,
                state: self.optional("session-state")?,
            },
            "get-message-sessions" => EntityOperation::Sessions {
                state_set_since: self.moment("last-updated-time")?,
                skip: self.count("skip")?,
                top: self.count("top")?,
            },
            "add-rule" => {
                let name: String = self.required("rule-name")?;
                let description: Map = self.required("rule-description")?;
                EntityOperation::AddRule(Box::new(rule::parse(&name, &description)?))
            }
            "remove-rule" => EntityOperation::RemoveRule(self.required("rule-name")?),
            "enumerate-rules" => EntityOperation::Rules {
                skip: self.count("skip")?,
                top: self.count("top")?.min(RULES_LISTED_MAX),
            },
            unknown => {
                let problem = format!("{PREFIX}{unknown} is no operation of {NODE}");
                return Err(AmqpError::new(NOT_IMPLEMENTED, problem));
            }
        })
    }

    fn session(&self) -> Result<NamedSession, AmqpError> {
        Ok(NamedSession {
            id: self.optional("session-id")?,
            link: self.link.clone(),
        })
    }

    fn outcome(&self) -> Result<ReceiverOutcome, AmqpError> {
        let status: String = self.required("disposition-status")?;
        let changes = self.changes()?;
        Ok(match status.as_str() {
            "completed" => ReceiverOutcome::Complete,
            "abandoned" => ReceiverOutcome::Abandon(changes),
            "defered" => ReceiverOutcome::Defer(changes),
            "suspended" => ReceiverOutcome::DeadLetter(Arc::new(DeadLettering {
                reason: self.optional("deadletter-reason")?,
                description: self.optional("deadletter-description")?,
                properties: changes,
            })),
            unknown => {
                return Err(bad(format!(
                    "{unknown:?} is no disposition-status; expected completed, abandoned, defered \
                     or suspended"
                )));
            }
        })
    }

    fn changes(&self) -> Result<Changes, AmqpError> {
        let map: Option<Map> = self.optional("properties-to-modify")?;
        Ok(changes(&map.unwrap_or_default()))
    }

    fn messages(&self) -> Result<Vec<Message>, AmqpError> {
        let given: Vec<Map> = self.list("messages")?;
        let messages = given.iter().map(|each| {
            let Some(Value::Binary(message)) = get(each, "message") else {
                return Err(bad("each of the messages needs a message, which is binary"));
            };
            let parsed = Message::sent(message);
            parsed.map_err(|error| bad(format!("one of the messages cannot be read: {error}")))
        });
        messages.collect()
    }

    fn tokens(&self) -> Result<Vec<Uuid>, AmqpError> {
        self.list("lock-tokens")
    }

    /// Returns each lock token once, since a settled message cannot be settled again.
    fn distinct_tokens(&self) -> Result<Vec<Uuid>, AmqpError> {
        let (mut tokens, mut named) = (self.tokens()?, HashSet::new());
        tokens.retain(|token| named.insert(*token));
        Ok(tokens)
    }

    /// Returns a number that is never negative; 0 if it is missing.
    fn count(&self, name: &str) -> Result<usize, AmqpError> {
        let count: Option<u32> = self.optional(name)?;
        Ok(count.unwrap_or(0) as usize)
    }

    /// Returns a moment. Returns `None` if it is missing or later than `NEVER`.
    fn moment(&self, name: &str) -> Result<Option<Timestamp>, AmqpError> {
        match get(&self.body, name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Timestamp(ms)) => {
                let at = Timestamp::from_ms(*ms);
                Ok((at <= NEVER).then_some(at))
            }
            Some(_) => Err(bad(format!("{name} must be a timestamp"))),
        }
    }

    fn list<T: FromValue>(&self, name: &str) -> Result<Vec<T>, AmqpError> {
        let values: Vec<Value> = self.required(name)?;
        if values.len() > ITEMS_MAX {
            return Err(bad(format!(
                "{name} has {} items; at most {ITEMS_MAX}",
                values.len()
            )));
        }
        let wrong = || bad(format!("{name} must hold {} each", T::KIND));
        let read = values
            .into_iter()
            .map(|each| T::from_value(each).ok_or_else(wrong));
        read.collect()
    }

    fn required<T: FromValue>(&self, name: &str) -> Result<T, AmqpError> {
        self.optional(name)?
            .ok_or_else(|| bad(format!("the request needs {name}")))
    }

    fn optional<T: FromValue>(&self, name: &str) -> Result<Option<T>, AmqpError> {
        match get(&self.body, name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => T::from_value(value.clone())
                .map(Some)
                .ok_or_else(|| bad(format!("{name} must be {}", T::KIND))),
        }
    }
}

impl ManagementReply {
    /// Returns the status code and the body of the reply.
    fn content(&self) -> (u16, Map) {
        let entry = |name: &str, value| vec![(Value::from(name), value)];
        let moments = |moments: &[Timestamp]| {
            let values = moments.iter().map(|at| Value::Timestamp(at.as_ms()));
            Value::array(ElementType::TIMESTAMP, values.collect())
        };
        let found = |any: bool| if any { 200 } else { 204 };
        let message = |message: &Bytes| (Value::from("message"), Value::Binary(message.clone()));
        match self {
            Self::Done => (200, Map::new()),
            Self::LocksRenewed(ends) => (200, entry("expirations", moments(ends))),
            Self::Peeked(messages) => {
                let list = messages.iter().map(|each| Value::Map(vec![message(each)]));
                let list = Value::List(list.collect());
                (found(!messages.is_empty()), entry("messages", list))
            }
            Self::Received(messages) => {
                let list = messages.iter().map(|(token, each)| {
                    let token = ("lock-token".into(), Value::Uuid(*token));
                    Value::Map(vec![token, message(each)])
                });
                (200, entry("messages", Value::List(list.collect())))
            }
            Self::Deleted(messages) => {
                let count = i32::try_from(*messages).unwrap_or(i32::MAX);
                (found(*messages > 0), entry("message-count", count.into()))
            }
            Self::Scheduled(numbers) => {
                let values = numbers.iter().map(|number| Value::Long(*number));
                let list = Value::array(ElementType::LONG, values.collect());
                (200, entry("sequence-numbers", list))
            }
            Self::SessionRenewed(end) => (200, entry("expiration", Value::Timestamp(end.as_ms()))),
            Self::SessionState(state) => (200, entry("session-state", state.clone().into())),
            Self::Sessions { skip, names } => {
                let has_sessions = !names.is_empty();
                let names: Vec<_> = names.iter().map(|name| name.as_str().into()).collect();
                // azure-servicebus for Python cannot read an empty array.
                let list = if names.is_empty() {
                    Value::List(names)
                } else {
                    Value::array(ElementType::STRING, names)
                };
                let skip = i32::try_from(*skip).unwrap_or(i32::MAX);
                let body = vec![("skip".into(), skip.into()), ("sessions-ids".into(), list)];
                (found(has_sessions), body)
            }
            Self::Rules(rules) => {
                let list = rules.iter().map(|each| {
                    let description = ("rule-description".into(), rule::described(each));
                    Value::Map(vec![description])
                });
                let list = Value::List(list.collect());
                (found(!rules.is_empty()), entry("rules", list))
            }
        }
    }
}

/// Returns the reply to a request. The correlation-id is `correlation`, the id of the request, in its own type.
pub fn reply(correlation: Option<Value>, answer: &Result<ManagementReply, AmqpError>) -> Vec<u8> {
    let properties = MessageProperties {
        correlation_id: correlation,
        ..MessageProperties::default()
    };
    let (status, description, body) = match answer {
        Ok(reply) => {
            let (status, body) = reply.content();
            (status, "", body)
        }
        Err(error) => (status_of(error), error.description.as_str(), Map::new()),
    };
    let mut status = vec![
        ("statusCode".into(), Value::Int(i32::from(status))),
        ("statusDescription".into(), description.into()),
    ];
    if let Err(error) = answer {
        status.push(("errorCondition".into(), Value::symbol(&error.condition)));
    }
    Message::of(&properties, status, Value::Map(body)).to_bytes()
}

/// Returns the status code for an error.
pub fn status_of(error: &AmqpError) -> u16 {
    match error.condition.as_ref() {
        ARGUMENT_ERROR | MESSAGE_SIZE_EXCEEDED | NOT_ALLOWED => 400,
        AUTH_FAILED | UNAUTHORIZED_ACCESS => 401,
        RESOURCE_LIMIT_EXCEEDED => 403,
        NOT_FOUND | MESSAGE_NOT_FOUND => 404,
        TIMEOUT => 408,
        ENTITY_ALREADY_EXISTS => 409,
        MESSAGE_LOCK_LOST | SESSION_LOCK_LOST | SESSION_CANNOT_BE_LOCKED => 410,
        NOT_IMPLEMENTED => 501,
        SERVER_BUSY => 503,
        _ => 500,
    }
}

fn bad(problem: impl Into<String>) -> AmqpError {
    AmqpError::new(ARGUMENT_ERROR, problem)
}
