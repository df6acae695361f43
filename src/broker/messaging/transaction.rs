//! Transactions: messages that are sent, and locks that are settled, all of them or none (rule S6).

use std::sync::Arc;

use crate::broker::messaging::{MessageReceiver, MessageSender, MessagingError};
use crate::broker::{Broker, NewMessage};
use crate::model::audit::{AuditEntry, Caller, Target};
use crate::model::lease::LockChange;
use crate::model::limits::RULE_COPIES_MAX;
use crate::model::registry::TopicEntry;
use crate::store::LockChanges;
use crate::wire::amqp::message::Message;

/// What is done together.
#[derive(Default)]
pub struct MessagingTransaction {
    sends: Vec<(Arc<TopicEntry>, Vec<NewMessage>)>,
    changes: Vec<LockChange>,
    audits: Vec<AuditEntry>,
}

impl MessagingTransaction {
    /// Adds messages to send.
    pub fn send(
        &mut self,
        sender: &MessageSender,
        messages: Vec<Message>,
    ) -> Result<(), MessagingError> {
        self.sends.push(sender.accept(messages)?);
        Ok(())
    }

    /// Adds what becomes of a lock.
    pub fn settle(&mut self, by: &Caller, receiver: &MessageReceiver, change: LockChange) {
        self.audits.extend(receiver.audit(by, [&change]));
        self.changes.push(change);
    }

    /// Returns one entry for all of them: about the queue, or about the appliance if they are about several.
    fn audit(mut audits: Vec<AuditEntry>) -> Option<AuditEntry> {
        let last = audits.pop()?;
        if audits.iter().all(|each| each.target == last.target) {
            return Some(last);
        }
        let target = Target::appliance();
        Some(AuditEntry { target, ..last })
    }
}

impl Broker {
    /// Does all of a transaction or nothing. When this returns, it is on disk.
    pub async fn commit(&self, transaction: MessagingTransaction) -> Result<(), MessagingError> {
        let MessagingTransaction {
            sends,
            changes,
            audits,
        } = transaction;
        let (mut appends, mut copies) = (Vec::with_capacity(sends.len()), 0);
        for (topic, messages) in sends {
            let accepted = self.accepted(&topic, messages).await?;
            let targets = accepted.events.iter().map(|(_, to)| to.len());
            copies += targets.sum::<usize>();
            appends.push(self.ready(&topic, accepted));
        }
        if copies > RULE_COPIES_MAX {
            return Err(MessagingError::TransactionTooLarge);
        }
        let changes = LockChanges {
            dropping: self.dropping(&changes),
            changes,
            audit: MessagingTransaction::audit(audits),
            now: self.clock().now(),
        };
        let settled = self.store().ledger.commit(appends, changes).await?;
        self.on_locks_settled(&settled).await?;
        Ok(())
    }
}
