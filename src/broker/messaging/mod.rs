//! Messaging entities of Service Bus: queues, topics and subscriptions, with the verbs that their clients have.
//!
//! Every door finds an entity by its address ([`Broker::resolve`](crate::broker::Broker::resolve)), asks it for what
//! sends or receives, and says a [`MessagingError`] in its own protocol. Nothing here knows one.

mod arrivals;
mod dead_letters;
mod entity;
mod error;
mod forwarder;
mod locks;
mod message;
mod pull;
mod receive;
mod receiver;
mod rules;
mod sender;
mod sessions;
mod transaction;

pub(super) use arrivals::Arrivals;
pub use dead_letters::PurgeResult;
pub use entity::MessagingEntity;
#[cfg(test)]
pub(crate) use error::samples;
pub use error::{MessagingError, NotAllowed};
pub use message::MessageView;
pub use receive::ReceiveRequest;
pub use receiver::MessageReceiver;
pub use sender::MessageSender;
pub use transaction::MessagingTransaction;
