//! Bytes to model and back, pure: what publishers send, what webhooks receive, what proves a right.

pub mod filter;
mod moment;
pub mod sas;
