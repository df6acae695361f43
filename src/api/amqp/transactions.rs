//! The transactions of a connection: what they are to do is kept until they are discharged.

use std::collections::BTreeMap;

use bytes::Bytes;
use uuid::Uuid;

use crate::api::amqp::limits::{
    TRANSACTION_BYTES_MAX, TRANSACTION_DEADLINE, TRANSACTION_MESSAGES_MAX, TRANSACTIONS_MAX,
};
use crate::api::amqp::nodes::Transaction;
use crate::base::Timestamp;
use crate::wire::amqp::address::EntityAddress;
use crate::wire::amqp::condition::{
    AmqpError, RESOURCE_LIMIT_EXCEEDED, TRANSACTION_ROLLBACK, TRANSACTION_UNKNOWN,
};
use crate::wire::amqp::message::Message;
use crate::wire::amqp::outcome::Outcome;

/// Those that are not discharged yet. What is left when the connection ends was never done.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    open: BTreeMap<u64, Open>,
    last: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Open {
    ends_at: Timestamp,
    changes: Transaction,
    messages: usize,
    bytes: usize,
    /// Why it cannot be committed.
    failed: Option<AmqpError>,
}

impl Transactions {
    /// Begins one. Returns its id.
    pub(super) fn declare(&mut self, now: Timestamp) -> Result<Bytes, AmqpError> {
        if self.open.len() >= TRANSACTIONS_MAX {
            let problem = format!("a connection has up to {TRANSACTIONS_MAX} transactions at once");
            return Err(AmqpError::new(RESOURCE_LIMIT_EXCEEDED, problem));
        }
        self.last += 1;
        let open = Open {
            ends_at: now + TRANSACTION_DEADLINE,
            changes: Transaction::default(),
            messages: 0,
            bytes: 0,
            failed: None,
        };
        self.open.insert(self.last, open);
        Ok(Bytes::copy_from_slice(&self.last.to_be_bytes()))
    }

    /// Adds messages of so many bytes.
    pub(super) fn send(
        &mut self,
        id: &Bytes,
        (to, messages): (&EntityAddress, Vec<Message>),
        bytes: usize,
    ) -> Result<(), AmqpError> {
        self.note(id, messages.len(), bytes)?;
        self.find(id)?.changes.sends.push((to.clone(), messages));
        Ok(())
    }

    /// Adds the settlement of locks.
    pub(super) fn settle(
        &mut self,
        id: &Bytes,
        of: &EntityAddress,
        locks: Vec<(Uuid, Outcome)>,
    ) -> Result<(), AmqpError> {
        self.note(id, locks.len(), 0)?;
        let locks = locks.into_iter();
        let locks = locks.map(|(token, outcome)| (of.clone(), token, outcome));
        self.find(id)?.changes.settles.extend(locks);
        Ok(())
    }

    /// Ends one. Returns what it does, if it can.
    pub(super) fn discharge(&mut self, id: &Bytes) -> Result<Transaction, AmqpError> {
        let open = number(id).and_then(|id| self.open.remove(&id));
        let open = open.ok_or_else(unknown)?;
        self.bytes -= open.bytes;
        match open.failed {
            None => Ok(open.changes),
            Some(AmqpError { description, .. }) => {
                Err(AmqpError::new(TRANSACTION_ROLLBACK, description))
            }
        }
    }

    /// Forgets those that have taken too long.
    pub(super) fn tick(&mut self, now: Timestamp) {
        self.open.retain(|_, open| now < open.ends_at);
        self.bytes = self.open.values().map(|open| open.bytes).sum();
    }

    /// Counts what is added. If that is too much, the transaction cannot be committed any more.
    fn note(&mut self, id: &Bytes, messages: usize, bytes: usize) -> Result<(), AmqpError> {
        let all_bytes = self.bytes + bytes;
        let open = self.find(id)?;
        let problem = if open.messages + messages > TRANSACTION_MESSAGES_MAX {
            format!("a transaction has up to {TRANSACTION_MESSAGES_MAX} messages")
        } else if all_bytes > TRANSACTION_BYTES_MAX {
            format!(
                "the transactions of a connection send up to {TRANSACTION_BYTES_MAX} bytes at once"
            )
        } else {
            open.messages += messages;
            open.bytes += bytes;
            self.bytes = all_bytes;
            return Ok(());
        };
        let error = AmqpError::new(RESOURCE_LIMIT_EXCEEDED, problem);
        open.failed = Some(error.clone());
        Err(error)
    }

    fn find(&mut self, id: &Bytes) -> Result<&mut Open, AmqpError> {
        let found = number(id).and_then(|id| self.open.get_mut(&id));
        found.ok_or_else(unknown)
    }
}

fn number(id: &Bytes) -> Option<u64> {
    Some(u64::from_be_bytes(id.as_ref().try_into().ok()?))
}

fn unknown() -> AmqpError {
    let seconds = TRANSACTION_DEADLINE.as_secs();
    let problem = format!(
        "there is no such transaction: it was discharged, or has taken more than {seconds} s"
    );
    AmqpError::new(TRANSACTION_UNKNOWN, problem)
}
