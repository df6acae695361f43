//! Configuration, command line, start and stop: everything that knows the whole.

pub mod cli;
pub mod config;
pub mod interrupt;
pub mod management_token;
pub mod receive;
