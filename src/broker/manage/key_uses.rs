//! When access keys were last used. What is noted while requests are served is stored once a minute.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::model::access::{KeyName, KeyOwner, KeyRef};
use crate::store::StoreError;

/// Uses that are not stored yet: at most one for each key there is.
#[derive(Default)]
pub(in crate::broker) struct WaitingKeyUses(Mutex<HashMap<KeyRef, Timestamp>>);

impl WaitingKeyUses {
    fn note(&self, key: KeyRef, at: Timestamp) {
        self.0.lock().unwrap().insert(key, at);
    }

    fn get(&self, key: KeyRef) -> Option<Timestamp> {
        self.0.lock().unwrap().get(&key).copied()
    }

    /// Forgets a key that has another value now.
    pub(super) fn forget(&self, key: KeyRef) {
        self.0.lock().unwrap().remove(&key);
    }

    fn drain(&self) -> Vec<(KeyRef, Timestamp)> {
        self.0.lock().unwrap().drain().collect()
    }
}

impl Broker {
    /// Notes that somebody has used a key, or a token signed with it. Never waits.
    pub fn note_key_use(&self, key: KeyRef) {
        self.shared.key_uses.note(key, self.clock().now());
    }

    /// When both keys of a topic or of a namespace were last used; `None` for never.
    pub async fn key_uses(&self, owner: KeyOwner) -> Result<[Option<Timestamp>; 2], StoreError> {
        let stored = self.store().key_uses.of(owner).await?;
        let waiting = KeyName::ALL.map(|key| self.shared.key_uses.get(KeyRef { owner, key }));
        Ok([waiting[0].or(stored[0]), waiting[1].or(stored[1])])
    }

    /// Stores what has been noted.
    pub(in crate::broker) async fn store_key_uses(&self) -> Result<(), StoreError> {
        match self.shared.key_uses.drain() {
            uses if uses.is_empty() => Ok(()),
            uses => self.store().key_uses.keep(uses).await,
        }
    }
}
