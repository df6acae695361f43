//! The transactions of a connection: what they are to do is kept until they are discharged.

use std::collections::BTreeMap;

use bytes::Bytes;
use uuid::Uuid;

use crate::api::amqp::limits::{
    MESSAGE_BYTES, TRANSACTION_BYTES, TRANSACTION_DEADLINE, TRANSACTION_MESSAGES_MAX,
    TRANSACTIONS_MAX,
};
use crate::api::amqp::nodes::{Transaction, TransactionSettlement};
use crate::api::amqp::session::nothing_left;
use crate::base::Timestamp;
use crate::base::budget::{MemoryAccount, NothingLeft, TakenBytes};
use crate::model::audit::Actor;
use crate::wire::amqp::condition::{
    AmqpError, RESOURCE_LIMIT_EXCEEDED, TRANSACTION_ROLLBACK, TRANSACTION_UNKNOWN,
};
use crate::wire::amqp::message::Message;
use crate::wire::amqp::outcome::Outcome;
use crate::wire::service_bus::entity::EntityAddress;

/// Those that are not discharged yet. What is left when the connection ends was never done.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    open: BTreeMap<u64, Open>,
    last: u64,
}

#[derive(Debug)]
struct Open {
    ends_at: Timestamp,
    changes: Transaction,
    messages: usize,
    /// The bytes that it counts for.
    taken: TakenBytes,
    /// Why it cannot be committed.
    failed: Option<AmqpError>,
}

impl Transactions {
    /// Begins one, which counts for `account`. Returns its id.
    pub(super) fn declare(
        &mut self,
        account: &MemoryAccount,
        now: Timestamp,
    ) -> Result<Bytes, AmqpError> {
        if self.open.len() >= TRANSACTIONS_MAX {
            let problem = format!("a connection has up to {TRANSACTIONS_MAX} transactions at once");
            return Err(AmqpError::new(RESOURCE_LIMIT_EXCEEDED, problem));
        }
        let room = account.take(TRANSACTION_BYTES);
        let taken = room.map_err(|NothingLeft| nothing_left("another transaction"))?;
        self.last += 1;
        let open = Open {
            ends_at: now + TRANSACTION_DEADLINE,
            changes: Transaction::default(),
            messages: 0,
            taken,
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
        let bytes = locks.iter().map(|(_, outcome)| outcome.bytes()).sum();
        self.note(id, locks.len(), bytes)?;
        let settles = locks
            .into_iter()
            .map(|(token, outcome)| TransactionSettlement {
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
    }

    /// Counts what is added. If that is too much, the transaction cannot be committed any more.
    fn note(&mut self, id: &Bytes, messages: usize, bytes: usize) -> Result<(), AmqpError> {
        let open = self.find(id)?;
        let is_full = open.messages + messages > TRANSACTION_MESSAGES_MAX;
        let bytes = bytes + messages * MESSAGE_BYTES;
        if !is_full && open.taken.add(bytes).is_ok() {
            open.messages += messages;
            return Ok(());
        }
        let error = if is_full {
            let problem = format!("a transaction has up to {TRANSACTION_MESSAGES_MAX} messages");
            AmqpError::new(RESOURCE_LIMIT_EXCEEDED, problem)
        } else {
            nothing_left("what waits for the end of this transaction")
        };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::budget::Budget;
    use crate::wire::amqp::value::Value;

    #[test]
    fn what_a_transaction_keeps_is_counted_and_given_back() {
        let budget = Budget::of(100_000);
        let account = budget.account([None, None], usize::MAX);
        let to = EntityAddress::of_parts(["jobs"]).expect("an address");
        let now = Timestamp::from_ms(0);
        let mut own = Transactions::default();
        let mut declare = || own.declare(&account, now).expect("a transaction");
        let (first, second, third) = (declare(), declare(), declare());
        assert_eq!(own.send(&first, &to, Vec::new(), 40_000), Ok(()));
        let full = own.send(&first, &to, Vec::new(), 40_000);
        let full = full.expect_err("more than half of all");
        assert_eq!(full.condition, RESOURCE_LIMIT_EXCEEDED);
        let set = vec![("text".to_owned(), Value::String("x".repeat(4_000)))];
        let locks = vec![(Uuid::nil(), Outcome::Abandon(set.into()))];
        assert_eq!(own.settle(&second, &to, &Actor::Appliance, locks), Ok(()));
        assert!(account.taken() > 44_000, "{}", account.taken());
        let rolled_back = own.discharge(&first).map(drop).expect_err("it has failed");
        assert_eq!(rolled_back.condition, TRANSACTION_ROLLBACK);
        assert!(account.taken() < 10_000, "{}", account.taken());
        own.tick(now + TRANSACTION_DEADLINE);
        assert_eq!(account.taken(), 0);
        let late = own.discharge(&third).map(drop).expect_err("it is over");
        assert_eq!(late.condition, TRANSACTION_UNKNOWN);
        let fourth = own.declare(&account, now).expect("a transaction");
        assert_eq!(own.send(&fourth, &to, Vec::new(), 7), Ok(()));
        drop(own);
        assert_eq!(account.taken(), 0);
    }
}
