//! Configuration, command line, start and stop: everything that knows the whole.

pub mod receive;
