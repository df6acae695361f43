//! The message sessions that a connection holds.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::base::Timestamp;
use crate::broker::MessagingError;
use crate::model::session::{HeldSession, SessionError};
use crate::model::subscription::SubscriptionId;
use crate::wire::amqp::management::NamedSession;

/// The sessions that the links of a connection hold. A request of a client names a session by its id or by the link
/// that holds it, which is valid as long as the session is in this map.
#[derive(Default)]
pub(super) struct HeldSessions(Mutex<HashMap<(SubscriptionId, String), OfLink>>);

/// A session, and the name of the link that holds it.
struct OfLink {
    held: HeldSession,
    link: String,
}

impl HeldSessions {
    /// Adds the session that a link holds.
    pub(super) fn put(&self, held: HeldSession, link: &str) {
        let key = (held.of, held.name.clone());
        let of_link = OfLink {
            held,
            link: link.to_owned(),
        };
        self.0.lock().unwrap().insert(key, of_link);
    }

    /// Replaces the stored state of a held session after its lock was renewed.
    pub(super) fn renew(&self, renewed: HeldSession) {
        let key = (renewed.of, renewed.name.clone());
        if let Some(found) = self.0.lock().unwrap().get_mut(&key) {
            found.held = renewed;
        }
    }

    fn find(&self, of: SubscriptionId, name: &str) -> Option<HeldSession> {
        let sessions = self.0.lock().unwrap();
        let found = sessions.get(&(of, name.to_owned()));
        found.map(|found| found.held.clone())
    }

    /// Returns the id of the session that a request names, either directly or by the link that holds the session.
    pub(super) fn named(&self, of: SubscriptionId, session: NamedSession) -> Option<String> {
        session.id.or_else(|| {
            let link = session.link?;
            let sessions = self.0.lock().unwrap();
            let mut names = sessions.iter();
            let found = names.find(|((queue, _), found)| *queue == of && found.link == link);
            found.map(|((_, name), _)| name.clone())
        })
    }

    /// Returns a session that the connection holds, or an error if its lock is lost.
    pub(super) fn held(
        &self,
        of: SubscriptionId,
        name: &str,
    ) -> Result<HeldSession, MessagingError> {
        let held = self.find(of, name);
        held.ok_or_else(|| SessionError::LockLost.into())
    }

    /// Returns when the lock on a session ends, or `None` if the connection does not hold it under this lock token.
    pub(super) fn end_of(&self, held: &HeldSession) -> Option<Timestamp> {
        self.find(held.of, &held.name)
            .filter(|found| found.token == held.token)
            .map(|found| found.until)
    }

    /// Removes a session, unless the connection has since locked it again with another lock token.
    pub(super) fn remove(&self, held: &HeldSession) {
        let mut sessions = self.0.lock().unwrap();
        let key = (held.of, held.name.clone());
        if sessions
            .get(&key)
            .is_some_and(|found| found.held.token == held.token)
        {
            sessions.remove(&key);
        }
    }
}
