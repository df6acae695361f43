//! Termini of links: sources and targets, with the fields that clients of Service Bus set.

use crate::model::session::SessionSelection;
use crate::wire::amqp::descriptor::described;
use crate::wire::amqp::fields::UnreadFields;
use crate::wire::amqp::state::{DeliveryState, Modified};
use crate::wire::amqp::value::{FromValue, Map, Value, get};

const SOURCE: u64 = 0x28;
const TARGET: u64 = 0x29;
const COORDINATOR: u64 = 0x30;

/// The filter under which a client asks for a session.
const SESSION_FILTER: &str = "com.microsoft:session-filter";
/// The descriptor of the session filter, for peers that use one.
const SESSION_FILTER_CODE: u64 = 0x0000_0013_7000_000C;

/// The filter of JMS' selectors, and its descriptor.
const SELECTOR_FILTER: &str = "apache.org:selector-filter:string";
const SELECTOR_FILTER_CODE: u64 = 0x0000_468C_0000_0004;

/// The prefix of the names of Service Bus' filters.
const SERVICE_BUS_FILTERS: &str = "com.microsoft:";

/// The distribution mode that leaves messages at the source.
const COPY: &str = "copy";

/// The source of a link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkSource {
    /// The address as the client wrote it, which is how it is echoed.
    pub address: Option<String>,
    pub dynamic: bool,
    /// The session filter, or nothing. Other filters have no effect, so they are not echoed.
    pub filter: Map,
    /// The problem with an option that the client requests and the server does not offer. Ignoring the option would
    /// let the client receive, or lose, messages that it did not ask for.
    pub not_offered: Option<String>,
    /// The outcome of messages that are not settled when the link ends.
    pub default_outcome: Option<Box<DeliveryState>>,
}

/// The target of a link.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkTarget {
    Node {
        address: Option<String>,
        /// The client asks for a node that is made for it.
        dynamic: bool,
    },
    /// The coordinator of transactions.
    Coordinator,
}

impl LinkSource {
    /// Returns the session that the client requests, if there is a session filter whose value is a text or null.
    pub fn session(&self) -> Option<SessionSelection> {
        let mut value = get(&self.filter, SESSION_FILTER)?;
        if let Value::Described(described) = value {
            value = &described.1;
        }
        if *value == Value::Null {
            return Some(SessionSelection::Next);
        }
        let name = value.as_text()?;
        Some(SessionSelection::Named(name.to_owned()))
    }

    /// Returns the source with `session` as the value of its session filter.
    pub fn with_session(&self, session: &str) -> Self {
        let is_described = matches!(get(&self.filter, SESSION_FILTER), Some(Value::Described(_)));
        let mut filter = self.filter.clone();
        filter.retain(|(key, _)| key.as_text() != Some(SESSION_FILTER));
        let value = if is_described {
            Value::described(SESSION_FILTER_CODE, session.into())
        } else {
            session.into()
        };
        filter.push((Value::symbol(SESSION_FILTER), value));
        Self {
            filter,
            ..self.clone()
        }
    }
}

impl FromValue for LinkSource {
    const KIND: &'static str = "a source";

    fn from_value(value: Value) -> Option<Self> {
        let (descriptor, content) = described(value)?;
        if descriptor != SOURCE {
            return None;
        }
        let mut fields = UnreadFields::of("a source", content).ok()?;
        let address = fields.optional("address").ok()?;
        fields.skip(); // durable
        fields.skip(); // expiry-policy
        fields.skip(); // timeout
        let dynamic = fields.or("dynamic", false).ok()?;
        fields.skip(); // dynamic-node-properties
        let mode: Option<String> = fields.optional("distribution-mode").ok()?;
        let filter = fields.or("filter", Map::new()).ok()?;
        let default_outcome: Option<DeliveryState> = fields.optional("default-outcome").ok()?;
        let copies = mode.as_deref() == Some(COPY);
        let not_offered = if copies {
            let problem = "browsing with the distribution mode copy is not offered; peek instead";
            Some(problem.to_owned())
        } else {
            filter.iter().find_map(rejected_filter)
        };
        Some(Self {
            address,
            dynamic,
            filter: session_filter(&filter),
            not_offered,
            default_outcome: default_outcome.and_then(bare).map(Box::new),
        })
    }
}

/// Returns an outcome without its error or annotations, so that a link uses little memory for it; `None` for a delivery
/// state that is not an outcome (AMQP 1.0, 3.4).
fn bare(state: DeliveryState) -> Option<DeliveryState> {
    Some(match state {
        DeliveryState::Rejected(_) => DeliveryState::Rejected(None),
        DeliveryState::Modified(modified) => DeliveryState::Modified(Modified {
            annotations: Map::new(),
            ..modified
        }),
        DeliveryState::Accepted | DeliveryState::Released => state,
        DeliveryState::Received | DeliveryState::Declared(_) | DeliveryState::Transactional(_) => {
            return None;
        }
    })
}

/// Returns the problem with an unsupported filter, which must not be ignored: the client would get messages that it
/// excludes.
fn rejected_filter((key, value): &(Value, Value)) -> Option<String> {
    let key_text = key.as_text().unwrap_or_default();
    let (code, descriptor) = if let Value::Described(described) = value {
        let descriptor = &described.0;
        let code = descriptor
            .as_integer()
            .and_then(|code| u64::try_from(code).ok());
        (code, descriptor.as_text().unwrap_or_default())
    } else {
        (None, "")
    };
    if code == Some(SELECTOR_FILTER_CODE) || descriptor == SELECTOR_FILTER {
        return Some(format!(
            "invalid filter type: selectors ({key_text}) are not offered; use a rule of a subscription"
        ));
    }
    let is_unknown = |name: &str| name.starts_with(SERVICE_BUS_FILTERS) && name != SESSION_FILTER;
    [key_text, descriptor]
        .into_iter()
        .find(|name| is_unknown(name))
        .map(|name| format!("invalid filter type: {name} is not offered"))
}

/// Returns a map with only the session filter, if its value is a text or null; otherwise an empty map.
fn session_filter(filter: &Map) -> Map {
    let Some(value) = get(filter, SESSION_FILTER) else {
        return Map::new();
    };
    let (session, is_described) = if let Value::Described(described) = value {
        (&described.1, true)
    } else {
        (value, false)
    };
    if session.as_text().is_none() && *session != Value::Null {
        return Map::new();
    }
    let value = if is_described {
        Value::described(SESSION_FILTER_CODE, session.clone())
    } else {
        session.clone()
    };
    vec![(Value::symbol(SESSION_FILTER), value)]
}

impl FromValue for LinkTarget {
    const KIND: &'static str = "a target";

    fn from_value(value: Value) -> Option<Self> {
        let (descriptor, content) = described(value)?;
        match descriptor {
            COORDINATOR => Some(Self::Coordinator),
            TARGET => {
                let mut fields = UnreadFields::of("a target", content).ok()?;
                let address = fields.optional("address").ok()?;
                fields.skip(); // durable
                fields.skip(); // expiry-policy
                fields.skip(); // timeout
                let dynamic = fields.or("dynamic", false).ok()?;
                Some(Self::Node { address, dynamic })
            }
            _ => None,
        }
    }
}

impl From<&LinkSource> for Value {
    fn from(source: &LinkSource) -> Self {
        let filter = (!source.filter.is_empty()).then(|| source.filter.clone());
        let fields = vec![
            source.address.as_deref().into(),
            Value::Null, // durable
            Value::Null, // expiry-policy
            Value::Null, // timeout
            source.dynamic.then_some(true).into(),
            Value::Null, // dynamic-node-properties
            Value::Null, // distribution-mode
            filter.into(),
            source.default_outcome.as_deref().into(),
        ];
        Value::composite(SOURCE, fields)
    }
}

impl From<&LinkTarget> for Value {
    fn from(target: &LinkTarget) -> Self {
        match target {
            LinkTarget::Node { address, dynamic } => {
                let fields = vec![
                    address.as_deref().into(),
                    Value::Null, // durable
                    Value::Null, // expiry-policy
                    Value::Null, // timeout
                    dynamic.then_some(true).into(),
                ];
                Value::composite(TARGET, fields)
            }
            LinkTarget::Coordinator => Value::composite(COORDINATOR, Vec::new()),
        }
    }
}
