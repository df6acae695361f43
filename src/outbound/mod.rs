//! The world outside: one HTTP request at a time, and only to where the egress policy lets it.

mod address;
pub mod egress;
pub mod exchange;
mod resolver;
