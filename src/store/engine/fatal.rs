//! Errors after which the process must end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::store::error::StoreError;

/// Called once, when the database can no longer be trusted or written: the process must end.
pub type OnFatal = Box<dyn Fn(&StoreError) + Send + Sync>;

/// Calls [`OnFatal`] once, at the first error after which the file cannot be written or trusted.
pub(super) struct FatalHandler {
    on_fatal: OnFatal,
    was_called: AtomicBool,
}

impl FatalHandler {
    pub(super) fn new(on_fatal: OnFatal) -> Self {
        Self {
            on_fatal,
            was_called: AtomicBool::new(false),
        }
    }

    pub(super) fn handle(&self, error: &StoreError) {
        if error.is_fatal() && !self.was_called.swap(true, Ordering::Relaxed) {
            (self.on_fatal)(error);
        }
    }
}

/// Reports a panic in a change, or in what follows from it, which ends the writer or those who wait for it.
pub(super) struct ReportPanic(pub(super) Arc<FatalHandler>);

impl Drop for ReportPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.handle(&StoreError::Failed(
                "a change of the database panicked".to_owned(),
            ));
        }
    }
}
