//! The transactions of a connection: what they are to do is kept until they are discharged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use uuid::Uuid;

use crate::api::amqp::limits::{
    TRANSACTION_BYTES_MAX, TRANSACTION_DEADLINE, TRANSACTION_MESSAGES_MAX, TRANSACTIONS_MAX,
};
use crate::api::amqp::nodes::{Settlement, Transaction};
use crate::base::Timestamp;
use crate::model::audit::Actor;
use crate::wire::amqp::condition::{
    AmqpError, RESOURCE_LIMIT_EXCEEDED, TRANSACTION_ROLLBACK, TRANSACTION_UNKNOWN,
};
use crate::wire::amqp::message::Message;
use crate::wire::amqp::outcome::Outcome;
use crate::wire::service_bus::entity::EntityAddress;

/// Those that are not discharged yet. What is left when the connection ends was never done.
#[derive(Debug)]
pub(super) struct Transactions {
    open: BTreeMap<u64, Open>,
    last: u64,
    /// What all connections keep, these among them.
    all_bytes: Arc<AtomicUsize>,
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
    /// None yet.
    pub(super) fn new(all_bytes: Arc<AtomicUsize>) -> Self {
        Self {
            open: BTreeMap::new(),
            last: 0,
            all_bytes,
        }
    }

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
        to: &EntityAddress,
        messages: Vec<Message>,
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
        by: &Actor,
        locks: Vec<(Uuid, Outcome)>,
    ) -> Result<(), AmqpError> {
        self.note(id, locks.len(), 0)?;
        let settles = locks.into_iter().map(|(token, outcome)| Settlement {
            of: of.clone(),
            token,
            outcome,
            by: by.clone(),
        });
        self.find(id)?.changes.settles.extend(settles);
        Ok(())
    }

    /// Ends one. Returns what it does, if it can.
    pub(super) fn discharge(&mut self, id: &Bytes) -> Result<Transaction, AmqpError> {
        let open = number(id).and_then(|id| self.open.remove(&id));
        let open = open.ok_or_else(unknown)?;
        self.free(open.bytes);
        match open.failed {
            None => Ok(open.changes),
            Some(AmqpError { description, .. }) => {
                Err(AmqpError::new(TRANSACTION_ROLLBACK, description))
            }
        }
    }

    /// Forgets those that have taken too long.
    pub(super) fn tick(&mut self, now: Timestamp) {
        let before = self.bytes();
        self.open.retain(|_, open| now < open.ends_at);
        self.free(before - self.bytes());
    }

    fn bytes(&self) -> usize {
        self.open.values().map(|open| open.bytes).sum()
    }

    fn free(&self, bytes: usize) {
        self.all_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Takes so many bytes of what all connections may keep. Returns whether this one may have them.
    fn take(&self, bytes: usize) -> bool {
        let own = self.bytes() + bytes;
        let take = |all: usize| {
            let left = TRANSACTION_BYTES_MAX.checked_sub(all + bytes)?;
            (bytes == 0 || own <= left).then_some(all + bytes)
        };
        let order = Ordering::Relaxed;
        self.all_bytes.fetch_update(order, order, take).is_ok()
    }

    /// Counts what is added. If that is too much, the transaction cannot be committed any more.
    fn note(&mut self, id: &Bytes, messages: usize, bytes: usize) -> Result<(), AmqpError> {
        let is_full = self.find(id)?.messages + messages > TRANSACTION_MESSAGES_MAX;
        let has_room = !is_full && self.take(bytes);
        let open = self.find(id)?;
        if has_room {
            open.messages += messages;
            open.bytes += bytes;
            return Ok(());
        }
        let problem = match is_full {
            true => format!("a transaction has up to {TRANSACTION_MESSAGES_MAX} messages"),
            false => "too many messages wait for the end of their transactions".to_owned(),
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

impl Drop for Transactions {
    fn drop(&mut self) {
        self.free(self.bytes());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_keeps_a_share_and_gives_it_back() {
        let all = Arc::new(AtomicUsize::new(0));
        let to = EntityAddress::of_parts(["jobs"]).expect("an address");
        let begin = || {
            let mut own = Transactions::new(Arc::clone(&all));
            let id = own.declare(Timestamp::from_ms(0)).expect("a transaction");
            (own, id)
        };
        let (mut one, first) = begin();
        let half = TRANSACTION_BYTES_MAX / 2;
        assert_eq!(one.send(&first, &to, Vec::new(), half), Ok(()));
        assert!(one.send(&first, &to, Vec::new(), 1).is_err(), "half of all");
        let (mut other, second) = begin();
        assert_eq!(other.send(&second, &to, Vec::new(), half / 2), Ok(()));
        let rolled_back = one.discharge(&first).map(drop).expect_err("it has failed");
        assert_eq!(rolled_back.condition, TRANSACTION_ROLLBACK);
        assert_eq!(all.load(Ordering::Relaxed), half / 2);
        other.tick(Timestamp::from_ms(0) + TRANSACTION_DEADLINE);
        assert_eq!(all.load(Ordering::Relaxed), 0);
        let late = other.discharge(&second).map(drop).expect_err("it is over");
        assert_eq!(late.condition, TRANSACTION_UNKNOWN);
        let (mut gone, third) = begin();
        assert_eq!(gone.send(&third, &to, Vec::new(), 7), Ok(()));
        drop(gone);
        assert_eq!(all.load(Ordering::Relaxed), 0);
    }
}
