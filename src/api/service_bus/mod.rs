//! Azure Service Bus over HTTP: what its clients send to and receive from, and what manages that.

pub(in crate::api) mod access;
pub(in crate::api) mod administration;
mod refusal;
pub(in crate::api) mod runtime;
