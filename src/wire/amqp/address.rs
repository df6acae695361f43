//! Addresses of AMQP nodes (rule S10.2): of entities, of their sub-queues, and of their management nodes.

use std::fmt;

use crate::wire::amqp::{cbs, management};
use crate::wire::service_bus::entity::EntityAddress;

/// A node of the appliance at which a link ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// The coordinator, to which transactions are declared. Links name it by its type and not by an address.
    Coordinator,
    /// The node `$cbs`, to which clients send their tokens.
    Tokens,
    Messages(EntityAddress),
    /// The management node of an entity, which answers requests about it.
    Management(EntityAddress),
}

/// Writes the relative address, which tokens for the node name.
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

impl Address {
    /// Returns the entity at this address, or the entity that the management node at this address manages.
    pub fn entity(&self) -> Option<&EntityAddress> {
        match self {
            Self::Coordinator | Self::Tokens => None,
            Self::Messages(entity) | Self::Management(entity) => Some(entity),
        }
    }

    /// Reads an absolute or relative address. Fixed words such as `$cbs` may be in any letter case. Returns `None` if
    /// the address names no node.
    pub fn parse(text: &str) -> Option<Self> {
        let path = match text.split_once("://") {
            Some((_scheme, rest)) => rest.split_once('/').map_or("", |(_host, path)| path),
            None => text,
        };
        let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let last = parts.last().copied().unwrap_or_default();
        if last.eq_ignore_ascii_case(cbs::NODE) {
            return Some(Self::Tokens);
        }
        let is_management = last.eq_ignore_ascii_case(management::NODE);
        if is_management {
            parts.pop();
        }
        let entity = EntityAddress::of_parts(parts)?;
        Some(if is_management {
            Self::Management(entity)
        } else {
            Self::Messages(entity)
        })
    }
}
