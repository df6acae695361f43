//! Bytes to model and back, pure.

pub mod filter;
