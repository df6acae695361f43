//! Configuration, command line, start and stop: everything that knows the whole.

pub mod config;
pub mod receive;
