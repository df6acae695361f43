//! Connections of AMQP 1.0 clients, as Azure Service Bus serves them (rule S10).
//!
//! [`serve`] moves the bytes of one connection. `connection`, `session` and `link` are its state, without waiting
//! and without a clock: bytes and answers in, bytes and events out. Each link has a task, which speaks to the
//! broker through [`Container`] and answers when something is durable. What a connection may take is in `limits`;
//! everything past it ends the link, the session or the connection that asks for it, and no other.

mod claims;
mod connection;
mod container;
mod entities;
mod error;
mod event;
mod frames;
mod limits;
mod link;
mod management;
mod order;
mod receipt;
mod receiver;
mod replies;
mod sender;
mod serve;
mod session;
mod sessions;
mod settled_locks;
mod task_set;
mod tasks;
#[cfg(test)]
mod tests;
mod transactions;
mod websocket;
mod websocket_stream;

pub use container::{
    Container, IncomingLink, KnownEntity, OutgoingLink, OutgoingMessage, ReceiverRequest, Storing,
    Transaction, TransactionSend, TransactionSettlement,
};
pub(super) use entities::EntityContainer;
pub use limits::CLOSE_DEADLINE;
pub use serve::{ConnectionMemory, SharedServer, serve};
pub(super) use websocket::enter as enter_websocket;
pub use websocket::{ServedConnection, router};
