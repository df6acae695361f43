//! Receivers: they agree, pull events, and drain dead-letter queues.

pub(crate) mod locks;
pub(crate) mod pull;
pub(crate) mod validate;
pub(crate) mod waiting;
