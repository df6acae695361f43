//! The order of operations on one connection: a request takes effect after all settlements that the peer sent before
//! it.

use std::convert::Infallible;

use tokio::sync::mpsc;

/// The order of settlements and requests.
#[derive(Debug)]
pub(super) struct FrameOrder {
    held: mpsc::Sender<Infallible>,
    /// Closes once all turns have been dropped.
    done: mpsc::Receiver<Infallible>,
}

/// A guard that a settlement holds until it is done.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    _held: mpsc::Sender<Infallible>,
}

/// Lets a request wait for all earlier settlements.
#[derive(Debug)]
pub(super) struct Behind {
    before: mpsc::Receiver<Infallible>,
    /// The turn of the request itself, so that later requests wait for the same settlements.
    turn: Turn,
}

impl FrameOrder {
    pub(super) fn new() -> Self {
        let (held, done) = mpsc::channel(1);
        Self { held, done }
    }

    /// Returns the turn of a settlement that begins now.
    pub(super) fn turn(&self) -> Turn {
        Turn {
            _held: self.held.clone(),
        }
    }

    /// Returns a handle that waits for all turns that began before.
    pub(super) fn behind(&mut self) -> Behind {
        let before = std::mem::replace(self, Self::new());
        Behind {
            before: before.done,
            turn: self.turn(),
        }
    }
}

impl Behind {
    /// Waits until all earlier turns have ended.
    pub(super) async fn wait(mut self) {
        // No value is ever sent. The channel closes when all turns are dropped.
        let _: Option<Infallible> = self.before.recv().await;
        drop(self.turn);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn requests_wait_for_what_was_settled_before_them_and_for_nothing_else() {
        let mut order = FrameOrder::new();
        assert!(order.behind().wait().now_or_never().is_some());
        let first = order.turn();
        let mut behind_first = Box::pin(order.behind().wait());
        let later = order.turn();
        assert!((&mut behind_first).now_or_never().is_none());
        // A request over another link waits for both.
        let mut behind_both = Box::pin(order.behind().wait());
        drop(later);
        assert!((&mut behind_both).now_or_never().is_none());
        drop(first);
        assert!((&mut behind_first).now_or_never().is_some());
        assert!(behind_both.now_or_never().is_some());
        assert!(order.behind().wait().now_or_never().is_some());
    }
}
