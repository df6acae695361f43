//! Addresses of nodes (rule S10.2): of entities, of their sub-queues, and of what manages them.

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

impl Address {
    /// Returns the entity that it is, or is about.
    pub fn entity(&self) -> Option<&EntityAddress> {
        match self {
            Self::Coordinator | Self::Tokens => None,
            Self::Messages(entity) | Self::Management(entity) => Some(entity),
        }
    }

    /// Reads an address, absolute or relative; the words that are not names in any letter case. `None` if it
    /// names nothing.
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
