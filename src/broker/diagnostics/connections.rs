//! The limit on simultaneous client connections.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Slots for connections. Clones share them.
#[derive(Clone, Debug)]
pub struct Connections {
    places: Arc<Semaphore>,
    most: usize,
}

/// A slot for one connection, until it is dropped.
#[derive(Debug)]
pub struct ConnectionSlot {
    _permit: OwnedSemaphorePermit,
}

impl Default for Connections {
    /// Creates a limit without any slots.
    fn default() -> Self {
        Self::of_at_most(0)
    }
}

impl Connections {
    /// Creates a limit of `most` slots.
    pub fn of_at_most(most: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new(most)),
            most,
        }
    }

    /// Waits until a slot is free, and takes it.
    pub async fn enter(&self) -> ConnectionSlot {
        let permit = Arc::clone(&self.places).acquire_owned().await;
        ConnectionSlot {
            _permit: permit.expect("it is never closed"),
        }
    }

    /// Returns the number of slots in use.
    pub fn open(&self) -> usize {
        self.most.saturating_sub(self.places.available_permits())
    }

    /// Returns the number of all slots, free or in use.
    pub fn most(&self) -> usize {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_place_is_taken_until_it_is_dropped() {
        let connections = Connections::of_at_most(2);
        let first = connections.clone().enter().await;
        let _second = connections.enter().await;
        assert_eq!((connections.open(), connections.most()), (2, 2));
        drop(first);
        assert_eq!(connections.open(), 1);
    }
}
