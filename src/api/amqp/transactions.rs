//! The transactions of a connection. The operations of a transaction are kept until it is discharged.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::api::amqp::container::{Transaction, TransactionSettlement};
use crate::api::amqp::event::{DeliveredMessage, LinkId};
use crate::api::amqp::limits::{
    TRANSACTION_BYTES, TRANSACTION_DEADLINE, TRANSACTION_MESSAGES_MAX, TRANSACTIONS_MAX,
};
use crate::api::amqp::session::nothing_left;
use crate::api::amqp::tasks::Command;
use crate::base::Timestamp;
use crate::base::budget::{MemoryAccount, NothingLeft, TakenBytes};
use crate::model::limits::SENT_MESSAGE_BYTES;
use crate::wire::amqp::condition::{AmqpError, RESOURCE_LIMIT_EXCEEDED, TRANSACTION_UNKNOWN};
use crate::wire::amqp::outcome::ReceiverOutcome;
use crate::wire::amqp::state::DeliveryState;

/// The transactions that are not discharged yet. Transactions that are still open when the connection ends have no
/// effect.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    open: BTreeMap<u64, OpenTransaction>,
    last: u64,
    /// Reference count of transactions: each holds a clone until its changes are stored or given back.
    held: Arc<()>,
}

#[derive(Debug)]
struct OpenTransaction {
    /// The link over which the transaction was declared. The transaction ends with this link.
    coordinator: LinkId,
    ends_at: Timestamp,
    ended: EndedTransaction,
    messages: usize,
    /// The number of parts that are still being prepared.
    parts: usize,
    /// The discharge that waits for the open parts.
    discharge: Option<Discharge>,
}

/// A request of a client to end a transaction.
#[derive(Debug)]
pub(super) struct Discharge {
    pub(super) transaction: Bytes,
    /// Set if the transaction is to be rolled back.
    pub(super) fail: bool,
    /// The link and the delivery of the discharge.
    pub(super) link: LinkId,
    pub(super) delivery: u32,
}

/// A part of a transaction that is being prepared. The discharge waits until all parts are dropped.
#[derive(Debug)]
pub(super) struct OpenPart {
    pub(super) transaction: Bytes,
    commands: mpsc::UnboundedSender<Box<Command>>,
}

impl Drop for OpenPart {
    fn drop(&mut self) {
        let ended = Command::PartEnded(std::mem::take(&mut self.transaction));
        // A send error means that the connection is gone and needs no command.
        let _ = self.commands.send(Box::new(ended));
    }
}

/// A transaction that has ended.
#[derive(Debug)]
pub(super) struct EndedTransaction {
    /// The changes that a commit applies.
    pub(super) changes: Transaction,
    /// The reason why the transaction cannot be committed.
    pub(super) failed: Option<AmqpError>,
    /// Deliveries that the peer has not settled yet, which wait for the end of the transaction.
    pub(super) enlisted: Vec<Enlisted>,
    /// Held until the changes are stored or given back.
    pub(super) held: HeldTransaction,
}

/// The resources that a transaction takes from the limits of its connection.
#[derive(Debug)]
pub(super) struct HeldTransaction {
    /// The memory of the transaction and of the task that ends it.
    pub(super) taken: TakenBytes,
    /// Counts the transaction against the limit of the connection.
    pub(super) one: Arc<()>,
}

/// A delivery that waits for the end of a transaction.
#[derive(Clone, Debug)]
pub(super) struct Enlisted {
    pub(super) link: LinkId,
    pub(super) delivery: DeliveredMessage,
    pub(super) outcome: DeliveryState,
}

impl EndedTransaction {
    /// Returns settlements that abandon the messages which the peer has settled itself, since it cannot settle them
    /// again.
    pub(super) fn given_back(&self) -> Vec<TransactionSettlement> {
        let settles = self.changes.settles.iter();
        let given_back = settles
            .filter(|each| each.is_settled)
            .map(|each| TransactionSettlement {
                outcome: ReceiverOutcome::Abandon(Arc::new([])),
                ..each.clone()
            });
        given_back.collect()
    }
}

impl Transactions {
    /// Begins a transaction and accounts for its memory in `account`. Returns its id.
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
        let open = OpenTransaction {
            coordinator,
            ends_at: now + TRANSACTION_DEADLINE,
            ended: EndedTransaction {
                changes: Transaction::default(),
                failed: None,
                enlisted: Vec::new(),
                held: HeldTransaction {
                    taken,
                    one: Arc::clone(&self.held),
                },
            },
            messages: 0,
            parts: 0,
            discharge: None,
        };
        self.open.insert(self.last, open);
        Ok(Bytes::copy_from_slice(&self.last.to_be_bytes()))
    }

    /// Registers a part of a transaction that is about to be prepared.
    pub(super) fn begin_part(
        &mut self,
        id: &Bytes,
        commands: &mpsc::UnboundedSender<Box<Command>>,
    ) -> Result<OpenPart, AmqpError> {
        self.find(id)?.parts += 1;
        Ok(OpenPart {
            transaction: id.clone(),
            commands: commands.clone(),
        })
    }

    /// Ends a part that was prepared. Returns the discharge that was waiting, if this was the last open part.
    pub(super) fn end_part(&mut self, id: &Bytes) -> Option<Discharge> {
        let open = self.find(id).ok()?;
        open.parts -= 1;
        open.discharge.take_if(|_| open.parts == 0)
    }

    /// Postpones a discharge while parts are still being prepared. Otherwise returns it.
    pub(super) fn postpone(&mut self, discharge: Discharge) -> Option<Discharge> {
        match self.find(&discharge.transaction) {
            Ok(open) if open.parts > 0 && open.discharge.is_none() => {
                open.discharge = Some(discharge);
                None
            }
            Ok(_) | Err(_) => Some(discharge),
        }
    }

    /// Adds changes, and accounts for `bytes` and the number of their messages.
    pub(super) fn add(
        &mut self,
        id: &Bytes,
        changes: Transaction,
        bytes: usize,
    ) -> Result<(), AmqpError> {
        self.note(id, changes.count(), bytes)?;
        self.find(id)?.ended.changes.add(changes);
        Ok(())
    }

    /// Removes the settlements of locks that are no longer held.
    pub(super) fn withdraw(&mut self, id: &Bytes, lost: &HashSet<Uuid>) -> Result<(), AmqpError> {
        let settles = &mut self.find(id)?.ended.changes.settles;
        settles.retain(|each| !lost.contains(&each.token));
        Ok(())
    }

    /// Adds deliveries that wait for the end of the transaction.
    pub(super) fn enlist(&mut self, id: &Bytes, deliveries: impl Iterator<Item = Enlisted>) {
        if let Ok(open) = self.find(id) {
            open.ended.enlisted.extend(deliveries);
        }
    }

    /// Ends a transaction, and returns it to be committed or rolled back.
    pub(super) fn discharge(&mut self, id: &Bytes) -> Result<EndedTransaction, AmqpError> {
        let open = number(id).and_then(|id| self.open.remove(&id));
        Ok(open.ok_or_else(unknown)?.ended)
    }

    /// Ends the transactions that have exceeded their deadline. The caller rolls them back.
    pub(super) fn tick(&mut self, now: Timestamp) -> Vec<EndedTransaction> {
        self.end_those(|open| now >= open.ends_at && open.discharge.is_none())
    }

    /// Ends the transactions that were declared over a link that is gone. They are rolled back (AMQP 1.0, 4.1).
    pub(super) fn end_of(&mut self, coordinator: LinkId) -> Vec<EndedTransaction> {
        self.end_those(|open| open.coordinator == coordinator)
    }

    fn end_those(&mut self, is_over: impl Fn(&OpenTransaction) -> bool) -> Vec<EndedTransaction> {
        let over = self.open.extract_if(.., |_, open| is_over(open));
        over.map(|(_, open)| open.ended).collect()
    }

    /// Accounts for added messages and bytes. If a limit is exceeded, the transaction can no longer be committed.
    fn note(&mut self, id: &Bytes, messages: usize, bytes: usize) -> Result<(), AmqpError> {
        let open = self.find(id)?;
        let is_full = open.messages + messages > TRANSACTION_MESSAGES_MAX;
        let bytes = bytes + messages * SENT_MESSAGE_BYTES;
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

    fn find(&mut self, id: &Bytes) -> Result<&mut OpenTransaction, AmqpError> {
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
    use crate::api::amqp::container::{KnownEntity, TransactionSend};
    use crate::base::budget::Budget;
    use crate::model::audit::Actor;
    use crate::wire::amqp::value::Value;
    use crate::wire::service_bus::entity::EntityAddress;

    fn jobs() -> EntityAddress {
        EntityAddress::of_parts(["jobs"]).expect("an address")
    }

    fn sending() -> Transaction {
        let send = TransactionSend {
            to: KnownEntity {
                address: jobs(),
                id: 1,
            },
            transfer_to: None,
            messages: Vec::new(),
            promised: Vec::new(),
        };
        Transaction {
            sends: vec![send],
            ..Transaction::default()
        }
    }

    #[test]
    fn a_discharge_waits_for_what_is_looked_at() {
        let account = Budget::of(100_000).account([None, None], usize::MAX);
        let (commands, mut queue) = mpsc::unbounded_channel();
        let now = Timestamp::from_ms(0);
        let mut own = Transactions::default();
        let id = own.declare(1, &account, now).expect("a transaction");
        let parts = [(); 2].map(|()| own.begin_part(&id, &commands).expect("a part"));
        let discharge = || Discharge {
            transaction: id.clone(),
            fail: false,
            link: 1,
            delivery: 7,
        };
        assert!(own.postpone(discharge()).is_none());
        let mut ended = parts.into_iter().map(|part| {
            drop(part);
            let command = queue.try_recv().expect("a command");
            let Command::PartEnded(of) = *command else {
                panic!("the end of a part");
            };
            own.end_part(&of).map(|discharge| discharge.delivery)
        });
        assert_eq!(ended.next(), Some(None));
        assert_eq!(ended.next(), Some(Some(7)));
        drop(ended);
        assert!(own.postpone(discharge()).is_some());
        let other = Bytes::from_static(b"x");
        assert!(own.begin_part(&other, &commands).is_err());
    }

    #[test]
    fn what_a_transaction_keeps_is_counted_and_given_back() {
        let budget = Budget::of(100_000);
        let account = budget.account([None, None], usize::MAX);
        let now = Timestamp::from_ms(0);
        let mut own = Transactions::default();
        let mut declare = || own.declare(1, &account, now).expect("a transaction");
        let (first, second, third) = (declare(), declare(), declare());
        assert_eq!(own.add(&first, sending(), 40_000), Ok(()));
        let full = own.add(&first, sending(), 40_000);
        let full = full.expect_err("more than half of all");
        assert_eq!(full.condition, RESOURCE_LIMIT_EXCEEDED);
        let set = vec![("text".to_owned(), Value::String("x".repeat(4_000)))];
        let outcome = ReceiverOutcome::Abandon(set.into());
        let bytes = outcome.bytes();
        let settlement = TransactionSettlement {
            of: jobs(),
            token: Uuid::nil(),
            outcome,
            by: Actor::Appliance,
            is_settled: true,
        };
        let settling = Transaction {
            settles: vec![settlement],
            ..Transaction::default()
        };
        assert_eq!(own.add(&second, settling, bytes), Ok(()));
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
        assert_eq!(own.add(&fourth, sending(), 7), Ok(()));
        // One ends with the link that it was declared over.
        assert_eq!(own.end_of(1).len(), 0);
        assert_eq!(own.end_of(4).len(), 1);
        let fifth = own.declare(5, &account, now).expect("a transaction");
        assert_eq!(own.add(&fifth, sending(), 7), Ok(()));
        drop(own);
        assert_eq!(account.taken(), 0);
    }
}
