//! Credentials that were rejected, in the log.

use std::net::IpAddr;

use crate::base::Timestamp;
use crate::base::seldom::SeldomLine;

/// Rejected credentials.
#[derive(Default)]
pub struct Denials(SeldomLine);

impl Denials {
    /// Notes that `client` showed nothing that opens what it asked for: a path, an entity, or a reason in words.
    pub(super) fn note(&self, client: Option<IpAddr>, what: &str, now: Timestamp) {
        let Some(unlogged) = self.0.take(now) else {
            return;
        };
        let address = client.map(|client| client.to_string()).unwrap_or_default();
        tracing::warn!(
            client = address,
            what,
            unlogged,
            "credentials were rejected, or missing; further ones within a minute are only counted"
        );
    }
}
