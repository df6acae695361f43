//! The message sessions that a connection holds.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::base::Timestamp;
use crate::broker::MessagingError;
use crate::model::session::{HeldSession, SessionError};
use crate::model::subscription::SubscriptionId;

/// Those that its links hold. A client names a session in its requests, and may do so as long as it is here.
#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<(SubscriptionId, String), HeldSession>>);

impl Sessions {
    /// Adds a session, or the lock on it as it is now.
    pub(super) fn put(&self, held: HeldSession) {
        let key = (held.of, held.name.clone());
        self.0.lock().unwrap().insert(key, held);
    }

    fn find(&self, of: SubscriptionId, name: &str) -> Option<HeldSession> {
        let sessions = self.0.lock().unwrap();
        sessions.get(&(of, name.to_owned())).cloned()
    }

    /// Returns a session that the connection holds.
    pub(super) fn held(
        &self,
        of: SubscriptionId,
        name: &str,
    ) -> Result<HeldSession, MessagingError> {
        let held = self.find(of, name);
        held.ok_or_else(|| SessionError::LockLost.into())
    }

    /// When the lock on a session ends as far as it is held.
    pub(super) fn end_of(&self, held: &HeldSession) -> Option<Timestamp> {
        let found = self.find(held.of, &held.name);
        let found = found.filter(|found| found.token == held.token);
        found.map(|found| found.until)
    }

    /// Forgets a session, unless it is held anew.
    pub(super) fn remove(&self, held: &HeldSession) {
        let mut sessions = self.0.lock().unwrap();
        let key = (held.of, held.name.clone());
        if sessions
            .get(&key)
            .is_some_and(|found| found.token == held.token)
        {
            sessions.remove(&key);
        }
    }
}
