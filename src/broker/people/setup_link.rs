//! The link that is printed at the first run, and lets whoever holds it make the first account.

use std::time::Duration;

use crate::base::{Clock, Entropy, Timestamp};
use crate::model::access::Secret;

/// How long the link works.
const LINK_LIFE: Duration = Duration::from_secs(30 * 60);

/// The way in while nobody has an account.
#[derive(Clone)]
pub struct SetupLink {
    token: Secret,
    expires_at: Timestamp,
    clock: Clock,
}

impl SetupLink {
    /// A new link, valid for half an hour. It opens nothing once somebody has an account.
    pub fn new(entropy: &Entropy, clock: &Clock) -> Self {
        Self {
            token: Secret::new(entropy.secret()),
            expires_at: clock.now() + LINK_LIFE,
            clock: clock.clone(),
        }
    }

    /// The path and query to put behind the URL of the appliance: `/admin/setup?token=…`. A secret.
    pub fn path(&self) -> String {
        format!("/admin/setup?token={}", self.token.reveal())
    }

    /// Returns whether `token` is that of the link, and the link has not expired.
    pub fn admits(&self, token: &str) -> bool {
        self.token.admits(token) && self.clock.now() < self.expires_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_admits_its_own_token_for_half_an_hour() {
        let clock = Clock::simulated(Timestamp::from_ms(1_000));
        let entropy = Entropy::seeded(1);
        let link = SetupLink::new(&entropy, &clock);
        let path = link.path();
        let token = path.strip_prefix("/admin/setup?token=").expect("the path");
        assert_eq!(token.len(), 43, "256 bits in base64");
        assert!(link.admits(token));
        assert!(!link.admits(""));
        assert!(!link.admits(&token[1..]));
        assert!(!SetupLink::new(&entropy, &clock).admits(token));
        clock.advance(LINK_LIFE - Duration::from_millis(1));
        assert!(link.admits(token));
        clock.advance(Duration::from_millis(1));
        assert!(!link.admits(token));
    }
}
