//! Where a link ends: sources and targets with what clients of Service Bus put into them.

use crate::wire::amqp::fields::Fields;
use crate::wire::amqp::value::{FromValue, Map, Value, get};

const SOURCE: u64 = 0x28;
const TARGET: u64 = 0x29;
const COORDINATOR: u64 = 0x30;

/// The filter under which a client asks for a session.
const SESSION_FILTER: &str = "com.microsoft:session-filter";

/// Where messages come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Source {
    /// As the client wrote it, which is how it is echoed.
    pub address: Option<String>,
    pub dynamic: bool,
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
    /// Whether a session is asked for.
    pub fn wants_session(&self) -> bool {
        get(&self.filter, SESSION_FILTER).is_some()
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
            filter,
        })
    }
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
