//! A namespace: topics of CloudEvents under one name, with keys and network rules in common.

use std::collections::BTreeMap;

use crate::base::Timestamp;
use crate::base::named::ids;
use crate::model::access::AccessKeys;
use crate::model::as_written::AsWritten;
use crate::model::limits::TOPICS_PER_UNIT_MAX;
use crate::model::name::NamespaceName;
use crate::model::topic::NetworkAccess;

ids! {
    /// The id of a namespace.
    NamespaceId,
}

/// A namespace as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    pub id: NamespaceId,
    pub name: NamespaceName,
    pub definition: NamespaceDefinition,
    /// The access keys for every topic of the namespace.
    pub keys: AccessKeys,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The settings of a namespace that the operator chooses (rule N1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceDefinition {
    /// Azure's region. It has no effect here, but every client sends and expects one.
    pub location: String,
    pub tags: BTreeMap<String, String>,
    /// Throughput units (`sku.capacity`), which limit only the number of topics here.
    pub capacity: u32,
    pub network_access: NetworkAccess,
    /// Properties that are stored and shown but have no effect here, as JSON by their names:
    /// `minimumTlsVersionAllowed`, `isZoneRedundant`, `identity`.
    pub inert: BTreeMap<String, String>,
    pub as_written: AsWritten,
}

impl Namespace {
    /// Returns the largest number of topics of the namespace.
    pub fn topics_max(&self) -> usize {
        TOPICS_PER_UNIT_MAX * self.definition.capacity as usize
    }
}
