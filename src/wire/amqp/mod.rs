//! AMQP 1.0 as Azure Service Bus speaks it (rule S10): types, frames, performatives, messages, and the requests
//! that clients send to `$cbs` and `$management`.
//!
//! The codec is our own, for what peers are like. It decodes within bounds of depth and count, since anybody who
//! reaches the port can send frames. It reads what real clients write, such as maps whose keys are strings where
//! the standard asks for symbols. And it keeps the sections of a message as the bytes that came, because what is
//! stored has to leave as it was sent.

pub mod address;
pub mod batch;
pub mod cbs;
pub mod condition;
mod decimal;
mod decode;
mod descriptor;
mod encode;
mod fields;
pub mod frame;
pub mod management;
pub mod message;
pub mod outcome;
pub mod performative;
pub mod property;
pub mod rule;
pub mod sasl;
mod sent;
pub mod state;
pub mod terminus;
#[cfg(test)]
mod tests;
pub mod transaction;
pub mod value;

pub use condition::AmqpError;
pub use decode::{DecodeError, Decoder};
pub use value::Value;
