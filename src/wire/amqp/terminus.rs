//! Where a link ends: sources and targets with what clients of Service Bus put into them.

use crate::model::session::SessionSelection;
use crate::wire::amqp::fields::Fields;
use crate::wire::amqp::value::{FromValue, Map, Value, get};

const SOURCE: u64 = 0x28;
const TARGET: u64 = 0x29;
const COORDINATOR: u64 = 0x30;

/// The filter under which a client asks for a session.
const SESSION_FILTER: &str = "com.microsoft:session-filter";
/// Its descriptor, for peers that want one.
const SESSION_FILTER_CODE: u64 = 0x0000_0013_7000_000C;

/// Where messages come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Source {
    /// As the client wrote it, which is how it is echoed.
    pub address: Option<String>,
    pub dynamic: bool,
    /// The one filter that is known here, or none: others are not in effect, so they are not echoed.
    pub filter: Map,
}

/// Where messages go.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    Node {
        address: Option<String>,
    },
    /// Of transactions.
    Coordinator,
}

impl Source {
    /// The session that is asked for, if the filter is there and its value a text or null.
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

    /// The same with the session that was found in the filter.
    pub fn with_session(&self, session: &str) -> Self {
        let is_described = matches!(get(&self.filter, SESSION_FILTER), Some(Value::Described(_)));
        let mut filter = self.filter.clone();
        filter.retain(|(key, _)| key.as_text() != Some(SESSION_FILTER));
        let value = match is_described {
            true => Value::described(SESSION_FILTER_CODE, session.into()),
            false => session.into(),
        };
        filter.push((Value::symbol(SESSION_FILTER), value));
        Self {
            filter,
            ..self.clone()
        }
    }
}

impl FromValue for Source {
    const KIND: &'static str = "a source";

    fn from_value(value: Value) -> Option<Self> {
        let Value::Described(described) = value else {
            return None;
        };
        let (descriptor, content) = *described;
        if u64::from_value(descriptor)? != SOURCE {
            return None;
        }
        let mut fields = Fields::of("a source", content).ok()?;
        let address = fields.optional("address").ok()?;
        fields.skip(); // durable
        fields.skip(); // expiry-policy
        fields.skip(); // timeout
        let dynamic = fields.or("dynamic", false).ok()?;
        fields.skip(); // dynamic-node-properties
        fields.skip(); // distribution-mode
        let filter = fields.or("filter", Map::new()).ok()?;
        Some(Self {
            address,
            dynamic,
            filter: session_filter(&filter),
        })
    }
}

/// The session filter among others, if its value is a text or null.
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
    let session = session.clone();
    let value = if is_described {
        Value::described(SESSION_FILTER_CODE, session)
    } else {
        session
    };
    vec![(Value::symbol(SESSION_FILTER), value)]
}

impl FromValue for Target {
    const KIND: &'static str = "a target";

    fn from_value(value: Value) -> Option<Self> {
        let Value::Described(described) = value else {
            return None;
        };
        let (descriptor, content) = *described;
        match u64::from_value(descriptor)? {
            COORDINATOR => Some(Self::Coordinator),
            TARGET => {
                let mut fields = Fields::of("a target", content).ok()?;
                let address = fields.optional("address").ok()?;
                Some(Self::Node { address })
            }
            _ => None,
        }
    }
}

impl From<&Source> for Value {
    fn from(source: &Source) -> Self {
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
        ];
        Value::composite(SOURCE, fields)
    }
}

impl From<&Target> for Value {
    fn from(target: &Target) -> Self {
        match target {
            Target::Node { address } => Value::composite(TARGET, vec![address.as_deref().into()]),
            Target::Coordinator => Value::composite(COORDINATOR, Vec::new()),
        }
    }
}
