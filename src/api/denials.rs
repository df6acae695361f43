//! Credentials that were rejected, in the log: one line a minute, so that nobody fills it.

use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use crate::base::Timestamp;

/// Between two lines.
const LINE_PAUSE: Duration = Duration::from_secs(60);

/// What was rejected lately.
#[derive(Default)]
pub struct Denials(Mutex<Noted>);

#[derive(Default)]
struct Noted {
    logged_at: Option<Timestamp>,
    /// How many came since then.
    unlogged: u64,
}

impl Denials {
    /// Notes that `client` showed nothing that opens what it asked for: a path, an entity, or a reason in words.
    pub(super) fn note(&self, client: Option<IpAddr>, what: &str, now: Timestamp) {
        let Some(unlogged) = self.take_line(now) else {
            return;
        };
        let client = client.map(|client| client.to_string()).unwrap_or_default();
        tracing::warn!(
            client,
            what,
            unlogged,
            "credentials were rejected, or missing; what follows within a minute is only counted"
        );
    }

    /// The number of those that were not logged before, if this one is to be.
    fn take_line(&self, now: Timestamp) -> Option<u64> {
        let mut noted = self.0.lock().unwrap();
        if noted.logged_at.is_some_and(|at| now.since(at) < LINE_PAUSE) {
            noted.unlogged += 1;
            return None;
        }
        noted.logged_at = Some(now);
        Some(std::mem::take(&mut noted.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_a_minute_is_logged() {
        let (denials, start) = (Denials::default(), Timestamp::from_ms(0));
        let line = |after_s| denials.take_line(start + Duration::from_secs(after_s));
        let lines = [0, 1, 59, 60, 61, 200].map(line);
        assert_eq!(lines, [Some(0), None, None, Some(2), None, Some(1)]);
    }
}
