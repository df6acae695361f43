//! The transactions of a connection: what they are to do is kept until they are discharged.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use crate::api::amqp::container::{Transaction, TransactionSettlement};
use crate::api::amqp::event::{Delivery, LinkId};
use crate::api::amqp::limits::{
    MESSAGE_BYTES, TRANSACTION_BYTES, TRANSACTION_DEADLINE, TRANSACTION_MESSAGES_MAX,
    TRANSACTIONS_MAX,
};
use crate::api::amqp::session::nothing_left;
use crate::base::Timestamp;
use crate::base::budget::{MemoryAccount, NothingLeft, TakenBytes};
use crate::model::audit::Actor;
use crate::wire::amqp::condition::{AmqpError, RESOURCE_LIMIT_EXCEEDED, TRANSACTION_UNKNOWN};
use crate::wire::amqp::message::Message;
use crate::wire::amqp::outcome::Outcome;
use crate::wire::amqp::state::DeliveryState;
use crate::wire::service_bus::entity::EntityAddress;

/// Those that are not discharged yet. What is left when the connection ends was never done.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    open: BTreeMap<u64, Open>,
    last: u64,
    /// Each has a clone until nothing of it is left to do.
    held: Arc<()>,
}

#[derive(Debug)]
struct Open {
    /// The link that it was declared over, with which it ends.
    coordinator: LinkId,
    ends_at: Timestamp,
    ended: EndedTransaction,
    messages: usize,
}

/// A transaction that has ended.
#[derive(Debug)]
pub(super) struct EndedTransaction {
    /// All that it does if it is committed.
    pub(super) changes: Transaction,
    /// Says why it cannot be committed.
    pub(super) failed: Option<AmqpError>,
    /// Deliveries that the peer has not settled itself, and which wait for the end.
    pub(super) enlisted: Vec<Enlisted>,
    /// Places in the settlements of those which the peer has settled itself.
    settled: Vec<usize>,
    /// Held until what it does is stored, or given back.
    pub(super) held: HeldTransaction,
}

/// The room that a transaction takes among the others of its connection.
#[derive(Debug)]
pub(super) struct HeldTransaction {
    /// The bytes that it counts for.
    taken: TakenBytes,
    /// Counts it.
    _one: Arc<()>,
}

/// A delivery that waits for the end of a transaction.
#[derive(Clone, Debug)]
pub(super) struct Enlisted {
    pub(super) link: LinkId,
    pub(super) delivery: Delivery,
    pub(super) outcome: DeliveryState,
}

impl EndedTransaction {
    /// Returns what gives messages back which the peer has settled itself: nothing else of it can be settled again.
    pub(super) fn given_back(&self) -> Vec<TransactionSettlement> {
        let settles = self
            .settled
            .iter()
            .map(|place| &self.changes.settles[*place]);
        let given_back = settles.map(|each| TransactionSettlement {
            outcome: Outcome::Abandon(Arc::new([])),
            ..each.clone()
        });
        given_back.collect()
    }
}

/// What a peer decides about locks in a transaction.
pub(super) struct LocksOf<'a> {
    pub(super) entity: &'a EntityAddress,
    pub(super) by: &'a Actor,
    pub(super) locks: Vec<(Uuid, Outcome)>,
    /// The peer has settled them, and waits for no answer.
    pub(super) is_settled: bool,
}

impl Transactions {
    /// Begins one, which counts for `account`. Returns its id.
    pub(super) fn declare(
        &mut self,
        coordinator: LinkId,
        account: &MemoryAccount,
        now: Timestamp,
    ) -> Result<Bytes, AmqpError> {
        if Arc::strong_count(&self.held) > TRANSACTIONS_MAX {
            let problem = format!("a connection has up to {TRANSACTIONS_MAX} transactions at once");
            return Err(AmqpError::new(RESOURCE_LIMIT_EXCEEDED, problem));
        }
        let room = account.take(TRANSACTION_BYTES);
        let taken = room.map_err(|NothingLeft| nothing_left("another transaction"))?;
        self.last += 1;
        let open = Open {
            coordinator,
            ends_at: now + TRANSACTION_DEADLINE,
            ended: EndedTransaction {
                changes: Transaction::default(),
                failed: None,
                enlisted: Vec::new(),
                settled: Vec::new(),
                held: HeldTransaction {
                    taken,
                    _one: Arc::clone(&self.held),
                },
            },
            messages: 0,
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
        let sends = &mut self.find(id)?.ended.changes.sends;
        sends.push((to.clone(), messages));
        Ok(())
    }

    /// Adds the settlement of locks.
    pub(super) fn settle(&mut self, id: &Bytes, of: LocksOf<'_>) -> Result<(), AmqpError> {
        let bytes = of.locks.iter().map(|(_, outcome)| outcome.bytes()).sum();
        self.note(id, of.locks.len(), bytes)?;
        let ended = &mut self.find(id)?.ended;
        let first = ended.changes.settles.len();
        let settles = of.locks.into_iter();
        ended
            .changes
            .settles
            .extend(settles.map(|(token, outcome)| TransactionSettlement {
                of: of.entity.clone(),
                token,
                outcome,
                by: of.by.clone(),
            }));
        if of.is_settled {
            ended.settled.extend(first..ended.changes.settles.len());
        }
        Ok(())
    }

    /// Notes deliveries that wait for the end.
    pub(super) fn enlist(&mut self, id: &Bytes, deliveries: impl Iterator<Item = Enlisted>) {
        if let Ok(open) = self.find(id) {
            open.ended.enlisted.extend(deliveries);
        }
    }

    /// Ends one.
    pub(super) fn discharge(&mut self, id: &Bytes) -> Result<EndedTransaction, AmqpError> {
        let open = number(id).and_then(|id| self.open.remove(&id));
        Ok(open.ok_or_else(unknown)?.ended)
    }

    /// Ends those that have taken too long. They are rolled back.
    pub(super) fn tick(&mut self, now: Timestamp) -> Vec<EndedTransaction> {
        self.end_those(|open| now >= open.ends_at)
    }

    /// Ends those that were declared over a link that is gone. They are rolled back (AMQP 1.0, 4.1).
    pub(super) fn end_of(&mut self, coordinator: LinkId) -> Vec<EndedTransaction> {
        self.end_those(|open| open.coordinator == coordinator)
    }

    fn end_those(&mut self, is_over: impl Fn(&Open) -> bool) -> Vec<EndedTransaction> {
        let over = self.open.extract_if(.., |_, open| is_over(open));
        over.map(|(_, open)| open.ended).collect()
    }

    /// Counts what is added. If that is too much, the transaction cannot be committed any more.
    fn note(&mut self, id: &Bytes, messages: usize, bytes: usize) -> Result<(), AmqpError> {
        let open = self.find(id)?;
        let is_full = open.messages + messages > TRANSACTION_MESSAGES_MAX;
        let bytes = bytes + messages * MESSAGE_BYTES;
        if !is_full && open.ended.held.taken.add(bytes).is_ok() {
            open.messages += messages;
            return Ok(());
        }
        let error = if is_full {
            let problem = format!("a transaction has up to {TRANSACTION_MESSAGES_MAX} messages");
            AmqpError::new(RESOURCE_LIMIT_EXCEEDED, problem)
        } else {
            nothing_left("what waits for the end of this transaction")
        };
        open.ended.failed = Some(error.clone());
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
        let mut declare = || own.declare(1, &account, now).expect("a transaction");
        let (first, second, third) = (declare(), declare(), declare());
        assert_eq!(own.send(&first, &to, Vec::new(), 40_000), Ok(()));
        let full = own.send(&first, &to, Vec::new(), 40_000);
        let full = full.expect_err("more than half of all");
        assert_eq!(full.condition, RESOURCE_LIMIT_EXCEEDED);
        let set = vec![("text".to_owned(), Value::String("x".repeat(4_000)))];
        let locks = LocksOf {
            entity: &to,
            by: &Actor::Appliance,
            locks: vec![(Uuid::nil(), Outcome::Abandon(set.into()))],
            is_settled: true,
        };
        assert_eq!(own.settle(&second, locks), Ok(()));
        assert!(account.taken() > 44_000, "{}", account.taken());
        let ended = own.discharge(&first).expect("it was there");
        assert!(ended.failed.is_some());
        assert!(
            account.taken() > 44_000,
            "until what it does is stored: {}",
            account.taken()
        );
        drop(ended);
        assert!(account.taken() < 10_000, "{}", account.taken());
        assert_eq!(own.tick(now).len(), 0);
        let late = own.tick(now + TRANSACTION_DEADLINE);
        let given_back: usize = late.iter().map(|each| each.given_back().len()).sum();
        assert_eq!((late.len(), given_back), (2, 1));
        drop(late);
        assert_eq!(account.taken(), 0);
        let late = own.discharge(&third).map(drop).expect_err("it is over");
        assert_eq!(late.condition, TRANSACTION_UNKNOWN);
        let fourth = own.declare(4, &account, now).expect("a transaction");
        assert_eq!(own.send(&fourth, &to, Vec::new(), 7), Ok(()));
        // One ends with the link that it was declared over.
        assert_eq!(own.end_of(1).len(), 0);
        assert_eq!(own.end_of(4).len(), 1);
        let fifth = own.declare(5, &account, now).expect("a transaction");
        assert_eq!(own.send(&fifth, &to, Vec::new(), 7), Ok(()));
        drop(own);
        assert_eq!(account.taken(), 0);
    }
}
