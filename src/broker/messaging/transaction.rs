//! Transactions: sending, scheduling and cancelling messages, settling locks and setting session states, all or
//! nothing (rule S6).

use std::sync::Arc;

use crate::broker::Broker;
use crate::broker::messaging::{MessageReceiver, MessageSender, MessagingError};
use crate::broker::publish::messages::AcceptedMessages;
use crate::broker::publish::rules::MadeCopies;
use crate::model::audit::{AuditEntry, AuditTarget, Caller};
use crate::model::delivery::DeliveryId;
use crate::model::lease::LockChange;
use crate::model::limits::RULE_COPIES_MAX;
use crate::model::registry::TopicEntry;
use crate::model::session::HeldSession;
use crate::model::subscription::SubscriptionId;
use crate::store::{LockChanges, PromisedNumber, SessionStateChange, TransactionChanges};
use crate::wire::amqp::message::Message;

/// The sends, cancellations, settlements and session states of a transaction, which take effect together.
#[derive(Default)]
pub struct MessagingTransaction {
    sends: Vec<KeptSend>,
    cancels: Vec<KeptCancel>,
    changes: Vec<LockChange>,
    states: Vec<(HeldSession, Option<Vec<u8>>)>,
    audits: Vec<AuditEntry>,
}

/// Messages to one entity, kept until the transaction is committed.
struct KeptSend {
    accepted: AcceptedMessages,
    /// The sequence numbers that were promised for scheduled messages.
    promised: Vec<PromisedNumber>,
}

/// Scheduled messages of one entity to cancel. `scheduled` lists each copy of a message with the subscription of the
/// copy.
struct KeptCancel {
    of: Arc<TopicEntry>,
    scheduled: Vec<(DeliveryId, SubscriptionId)>,
}

impl MessagingTransaction {
    /// Adds messages to send, with the sequence numbers that were promised for scheduled messages, if any.
    pub async fn send(
        &mut self,
        sender: &MessageSender,
        messages: Vec<Message>,
        promised: Vec<PromisedNumber>,
    ) -> Result<(), MessagingError> {
        let accepted = sender.accept(messages).await?;
        self.sends.push(KeptSend { accepted, promised });
        Ok(())
    }

    /// Adds scheduled messages to cancel, by their sequence numbers.
    pub async fn cancel(
        &mut self,
        sender: &MessageSender,
        numbers: Vec<i64>,
    ) -> Result<(), MessagingError> {
        let (of, scheduled) = sender.find_scheduled(numbers).await?;
        self.cancels.push(KeptCancel { of, scheduled });
        self.made().map(drop)
    }

    /// Counts the cancelled copies, the lock changes, and the bytes of messages and session states in the transaction.
    /// Copies that rules make of messages are not included. Fails if the count exceeds the limits of one store change.
    fn made(&self) -> Result<MadeCopies, MessagingError> {
        let cancelled = self.cancels.iter().map(|kept| kept.scheduled.len());
        let messages = self.sends.iter().flat_map(|kept| &kept.accepted.messages);
        let sent = messages.map(|each| each.event.size());
        let states = self.states.iter().filter_map(|(_, state)| state.as_ref());
        let bytes = sent.sum::<usize>() + states.map(Vec::len).sum::<usize>();
        let changed = cancelled.sum::<usize>() + self.changes.len();
        let made = MadeCopies::beside(changed, bytes);
        if made.is_too_much() {
            return Err(MessagingError::TransactionTooLarge);
        }
        Ok(made)
    }

    /// Adds a session state to store.
    pub fn set_state(&mut self, held: HeldSession, state: Option<Vec<u8>>) {
        self.states.push((held, state));
    }

    /// Adds the settlement of a lock.
    pub fn settle(&mut self, by: &Caller, receiver: &MessageReceiver, change: LockChange) {
        self.audits.extend(receiver.audit(by, [&change]));
        self.changes.push(change);
    }

    /// Merges `audits` into one entry. The target of the merged entry is the queue, or the appliance if the targets
    /// differ. Returns `None` if `audits` is empty.
    fn audit(mut audits: Vec<AuditEntry>) -> Option<AuditEntry> {
        let last = audits.pop()?;
        if audits.iter().all(|each| each.target == last.target) {
            return Some(last);
        }
        let target = AuditTarget::appliance();
        Some(AuditEntry { target, ..last })
    }
}

impl Broker {
    /// Commits a transaction, all or nothing. The committed transaction is on disk when this function returns.
    pub async fn commit(&self, transaction: MessagingTransaction) -> Result<(), MessagingError> {
        let mut made = transaction.made()?;
        let MessagingTransaction {
            sends,
            cancels,
            changes,
            states,
            audits,
        } = transaction;
        let cancelled = cancels.iter().map(|kept| kept.scheduled.len());
        let (mut appends, mut copies) = (Vec::with_capacity(sends.len()), cancelled.sum::<usize>());
        for KeptSend { accepted, promised } in sends {
            let at = Arc::clone(&accepted.at);
            let mut request = self.request_of(accepted, &mut made).await?;
            request.promise(promised);
            let targets = request.events.iter().map(|new| new.targets.len());
            copies += targets.sum::<usize>();
            if copies > RULE_COPIES_MAX {
                return Err(MessagingError::TransactionTooLarge);
            }
            appends.push(self.ready(&at, request));
        }
        let locks = LockChanges {
            dropping: self.dropping(&changes),
            room: self.room_for(&changes, states.iter().map(|(held, _)| held.of)),
            changes,
            audit: MessagingTransaction::audit(audits),
            now: self.clock().now(),
        };
        let kept = states
            .into_iter()
            .map(|(held, state)| SessionStateChange { held, state });
        let of_cancelled = cancels.iter().flat_map(|each| &each.scheduled);
        let changes = TransactionChanges {
            locks,
            cancels: of_cancelled.copied().collect(),
            states: kept.collect(),
        };
        let settled = self.store().ledger.commit(appends, changes).await?;
        for KeptCancel { of, scheduled } in cancels {
            let whose = scheduled.into_iter().map(|(_, subscription)| subscription);
            self.on_cancelled(&of, whose);
        }
        self.on_locks_settled(&settled).await?;
        Ok(())
    }
}
