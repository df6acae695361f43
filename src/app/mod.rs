//! Configuration, command line, start and stop: everything that knows the whole.

pub mod bench;
pub mod boot;
mod claim;
pub mod cli;
mod components;
pub mod config;
mod configuration_files;
mod facts;
mod files;
mod forwarded;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod heads;
pub mod interrupt;
mod listen;
pub mod management_token;
mod mistakes;
mod open_files;
mod paced_body;
mod paced_stream;
mod provisioning;
pub mod receive;
mod running_settings;
mod telemetry;
mod tls;
mod unread;
mod yaml;
