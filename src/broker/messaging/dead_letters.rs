//! Permanent removal of dead letters from their queues.

use crate::broker::Broker;
use crate::broker::manage::{subscription_target, target};
use crate::model::audit::{AuditAction, AuditEntry, AuditTarget, Caller, TargetKind};
use crate::model::dead_letter_filter::DeadLetterFilter;
use crate::model::delivery::DeliveryId;
use crate::store::views::DeadLetterQuery;
use crate::store::{FreeChange, FreeChanges, FreeSettled, StoreError};

/// Maximum number of dead letters removed in one transaction. Larger batches would block the writer for too long.
const REMOVE_BATCH_MAX: usize = 250;

/// The result of a purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PurgeResult {
    pub removed: usize,
    /// Number of dead letters that were found but not removed, e.g. because receivers have locked them.
    pub held: usize,
    /// Position at which the next search continues; `None` at the end.
    pub next_before: Option<DeliveryId>,
}

impl Broker {
    /// Removes dead letters permanently from their queues, except locked ones. Returns the counts and the position for
    /// the next search. Each batch is a transaction with its own audit entry, which contains the number of dead letters
    /// removed in the batch. A batch that removes nothing has no audit entry.
    pub async fn purge_dead_letters(
        &self,
        by: &Caller,
        query: DeadLetterQuery,
    ) -> Result<PurgeResult, StoreError> {
        let target = self.target_of(&query.filter);
        let entry = by.did(AuditAction::PurgeDeadLetters { dead_letters: 0 }, target);
        let found = self.store().views.dead_letter_numbers(query).await?;
        let mut removed = 0;
        for batch in found.rows.chunks(REMOVE_BATCH_MAX) {
            removed += self.remove_dead_letters(batch, entry.clone()).await?;
        }
        Ok(PurgeResult {
            removed,
            held: found.rows.len() - removed,
            next_before: found.next_before,
        })
    }

    /// Removes one dead letter permanently from its queue. Returns `false` if the dead letter no longer exists or is
    /// locked.
    pub async fn delete_dead_letter(
        &self,
        by: &Caller,
        id: DeliveryId,
    ) -> Result<bool, StoreError> {
        let purged = AuditAction::PurgeDeadLetters { dead_letters: 0 };
        let entry = by.did(purged, TargetKind::DeadLetter.named(id));
        Ok(self.remove_dead_letters(&[id], entry).await? > 0)
    }

    async fn remove_dead_letters(
        &self,
        ids: &[DeliveryId],
        entry: AuditEntry,
    ) -> Result<usize, StoreError> {
        let request = FreeChanges {
            of: None,
            changes: ids.iter().map(|id| (*id, FreeChange::Remove)).collect(),
            all_or_none: false,
            audit: Some(entry),
            now: self.clock().now(),
        };
        let settled = self.store().ledger.settle_free(request).await?;
        let is_done = |settled: &&FreeSettled| matches!(settled, FreeSettled::Done(_));
        Ok(settled.iter().filter(is_done).count())
    }

    /// Returns the audit target for a dead-letter filter: a subscription, queue or topic, or the whole appliance.
    fn target_of(&self, filter: &DeadLetterFilter) -> AuditTarget {
        let registry = self.registry();
        let topic = filter.topic.and_then(|id| registry.topic_by_id(id));
        match filter.subscription.and_then(|id| registry.subscription(id)) {
            Some((topic, each)) => subscription_target(topic, each),
            None => topic.map_or_else(AuditTarget::appliance, |topic| target(topic)),
        }
    }
}
