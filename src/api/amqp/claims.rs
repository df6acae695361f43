//! The rights that a client has on one connection through the tokens that it has presented.

use std::collections::HashMap;

use crate::api::amqp::limits::CLAIMS_MAX;
use crate::api::authority::Authority;
use crate::base::Timestamp;
use crate::wire::service_bus::resource::covering;

/// The authorities of a connection, by resource path. A lookup reads the entries of the path and its parent paths only,
/// so its cost does not depend on the number of authorities.
#[derive(Clone, Debug, Default)]
pub(super) struct ClaimSet {
    by_path: HashMap<String, ShownClaim>,
    /// The number of claims ever added.
    shown: u64,
    /// The earliest expiry of the claims.
    first_expiry: Option<Timestamp>,
    /// True if a claim was evicted, or replaced by one that allows less, since the last [`ClaimSet::retain`].
    has_lost: bool,
}

#[derive(Clone, Debug)]
struct ShownClaim {
    authority: Authority,
    /// The sequence number of the claim; the lowest one is the oldest.
    place: u64,
}

impl ClaimSet {
    /// Adds an authority and replaces the one for its resource. Evicts the oldest authority once there are
    /// `CLAIMS_MAX`.
    pub(super) fn add(&mut self, authority: Authority) {
        let path = authority.path();
        if self.by_path.len() >= CLAIMS_MAX && !self.by_path.contains_key(&path) {
            let oldest = self.by_path.iter().min_by_key(|(_, claim)| claim.place);
            let oldest_path = oldest.map(|(path, _)| path.clone());
            let gone = oldest_path.and_then(|path| self.by_path.remove(&path));
            self.has_lost |= gone.is_some();
        }
        self.shown += 1;
        let place = self.shown;
        let replaced = self.by_path.get(&path);
        self.has_lost |= replaced.is_some_and(|it| !authority.allows_all_of(&it.authority));
        self.by_path.insert(path, ShownClaim { authority, place });
        self.note_expiry();
    }

    /// Returns the first authority that covers `path` and satisfies `suits`.
    pub(super) fn find(
        &self,
        path: &str,
        suits: impl Fn(&Authority) -> bool,
    ) -> Option<&Authority> {
        let claims = covering(path).filter_map(|path| self.by_path.get(&path));
        claims
            .map(|claim| &claim.authority)
            .find(|each| suits(each))
    }

    /// Keeps the authorities for which `keep` returns true.
    pub(super) fn retain(&mut self, keep: impl Fn(&Authority) -> bool) {
        self.by_path.retain(|_, claim| keep(&claim.authority));
        self.has_lost = false;
        self.note_expiry();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_path.is_empty()
    }

    /// Returns the time from which links have to be checked against the claims again: the earliest expiry, or at once
    /// if rights were lost. The caller then calls [`ClaimSet::retain`].
    pub(super) fn look_at(&self) -> Option<Timestamp> {
        if self.has_lost {
            return Some(Timestamp::default());
        }
        self.first_expiry
    }

    /// Returns the size of the claims in bytes.
    pub(super) fn bytes(&self) -> usize {
        let each = self.by_path.iter();
        each.map(|(path, claim)| path.len() + claim.authority.bytes())
            .sum()
    }

    fn note_expiry(&mut self) {
        let claims = self.by_path.values();
        self.first_expiry = claims
            .filter_map(|claim| claim.authority.expires_at())
            .min();
    }
}
