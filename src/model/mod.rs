//! The nouns and the rules: pure, no I/O, no `async`, no clock, no serialisation.

pub mod access;
pub mod batch;
pub mod credentials;
pub mod dead_letter;
pub mod dead_letter_filter;
pub mod delivery;
pub mod destination;
pub mod event;
pub mod explanation;
pub mod filter;
pub mod filter_trial;
pub mod lease;
pub mod limits;
pub mod name;
pub mod namespace;
pub mod pace;
pub mod probation;
pub mod registry;
pub mod rejection;
pub mod replay;
pub mod retention;
pub mod retry;
pub mod signing;
pub mod subscription;
pub mod system_topic;
pub mod topic;
