//! Requests that failed in the store, in the log: while the disk is full or slow, all of them may.

use crate::base::seldom::SeldomLine;
use crate::broker::MessagingError;
use crate::store::StoreError;

/// Notes that a queue could not be served, if the store is to blame.
pub(super) fn note_unserved(error: &MessagingError) {
    static LINE: SeldomLine = SeldomLine::new();
    if let MessagingError::Store(error) = error
        && let Some(unlogged) = LINE.take_now()
    {
        tracing::warn!(
            %error,
            unlogged,
            "a queue could not be served; further cases within a minute are only counted"
        );
    }
}

/// Notes that the store could not do what a client asked for.
pub(super) fn note_defect(error: &StoreError) {
    static LINE: SeldomLine = SeldomLine::new();
    LINE.log(error, "the store met a defect");
}

/// Notes that somebody asked for what is damaged.
pub(super) fn note_unreadable(error: &StoreError) {
    static LINE: SeldomLine = SeldomLine::new();
    LINE.log(error, "stored data cannot be read");
}
