//! The rights of a client on one connection, by the tokens that it has shown.

use std::collections::HashMap;

use crate::api::amqp::limits::CLAIMS_MAX;
use crate::api::authority::Authority;
use crate::base::Timestamp;
use crate::wire::service_bus::resource::covering;

/// The authorities of a connection by the paths of their resources. A lookup reads only the path and those above it,
/// however many authorities there are.
#[derive(Clone, Debug, Default)]
pub(super) struct ClaimSet {
    by_path: HashMap<String, ShownClaim>,
    /// The number of claims that were shown.
    shown: u64,
    /// When the first of them expires.
    first_expiry: Option<Timestamp>,
    /// True if one that allowed more than the others do has gone since they were last looked at.
    has_lost: bool,
}

#[derive(Clone, Debug)]
struct ShownClaim {
    authority: Authority,
    /// Its place among those that were shown.
    place: u64,
}

impl ClaimSet {
    /// Adds an authority, in place of the one of the same resource. Where there are too many, the oldest one goes.
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

    /// Returns the first authority for what lies at `path` that `suits`.
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

    /// Keeps those that `keep` says.
    pub(super) fn retain(&mut self, keep: impl Fn(&Authority) -> bool) {
        self.by_path.retain(|_, claim| keep(&claim.authority));
        self.has_lost = false;
        self.note_expiry();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_path.is_empty()
    }

    /// Returns from when on what they have opened has to be looked at, after which [`ClaimSet::retain`] is called: when the
    /// first of them expires, or at once where one has gone.
    pub(super) fn look_at(&self) -> Option<Timestamp> {
        if self.has_lost {
            return Some(Timestamp::default());
        }
        self.first_expiry
    }

    /// Bytes that they take.
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
