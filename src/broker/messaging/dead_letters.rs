//! Dead letters that are removed from their queues for good.

use crate::broker::Broker;
use crate::broker::manage::{subscription_target, target};
use crate::model::audit::{AuditAction, AuditEntry, Caller, Target, TargetKind};
use crate::model::dead_letter_filter::DeadLetterFilter;
use crate::model::delivery::DeliveryId;
use crate::store::views::DeadLetterQuery;
use crate::store::{FreeChange, FreeChanges, FreeSettled, StoreError};

/// Dead letters that one change removes: more would block the writer for too long.
const REMOVE_BATCH_MAX: usize = 250;

/// The result of a purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purged {
    pub removed: usize,
    /// Receivers hold these, so they stay.
    pub held: usize,
    /// Where the next search goes on; `None` when it has come to the end.
    pub next_before: Option<DeliveryId>,
}

impl Broker {
    /// Removes dead letters from their queues for good, unless they are locked. Returns how many. Each batch
    /// is a transaction with an audit entry of its own, which counts what that batch removed; one that removes
    /// nothing has no entry.
    pub async fn purge_dead_letters(
        &self,
        by: &Caller,
        query: DeadLetterQuery,
    ) -> Result<Purged, StoreError> {
        let target = self.target_of(&query.filter);
        let entry = by.did(AuditAction::PurgeDeadLetters { dead_letters: 0 }, target);
        let found = self.store().views.dead_letter_numbers(query).await?;
        let mut removed = 0;
        for batch in found.rows.chunks(REMOVE_BATCH_MAX) {
            removed += self.remove_dead_letters(batch, entry.clone()).await?;
        }
        Ok(Purged {
            removed,
            held: found.rows.len() - removed,
            next_before: found.next_before,
        })
    }

    /// Removes one dead letter from its queue for good. `false` if it is none any more, or locked.
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

    /// Returns the object that a filter of dead letters is about, for the audit log.
    fn target_of(&self, filter: &DeadLetterFilter) -> Target {
        let registry = self.registry();
        let topic = filter.topic.and_then(|id| registry.topic_by_id(id));
        match filter.subscription.and_then(|id| registry.subscription(id)) {
            Some((topic, each)) => subscription_target(topic, each),
            None => topic.map_or_else(Target::appliance, |topic| target(topic)),
        }
    }
}
