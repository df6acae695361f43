//! Measures how long a connection takes.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Measures the first connection of a client, TLS included. Clones share the result.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectWatch(Arc<OnceLock<Duration>>);

impl ConnectWatch {
    /// `None` while there is no connection.
    pub(super) fn took(&self) -> Option<Duration> {
        self.0.get().copied()
    }

    /// A connection is there. Of several, the first one counts: the request waited for it.
    pub(super) fn connected(&self, took: Duration) {
        let _ = self.0.set(took);
    }
}
