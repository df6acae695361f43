//! Retention: prunes delivered events once they are old, or earlier if space is low. Works in small batches, with
//! pauses for other writes. Then shrinks the database file.

use std::time::Duration;

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::model::event::EventKey;
use crate::model::limits::DELETED_KEPT;
use crate::model::retention::{DiskRoom, Pressure, RetentionRules};
use crate::store::{
    DeletedKind, ForgetRequest, PruneBatch, PruneRequest, PrunedRows, Sizes, StoreError,
};

/// Pause between two rounds.
const ROUND_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum amount that one transaction prunes. Keeps the writer busy for only a few milliseconds.
const BATCH: PruneBatch = PruneBatch {
    events: 500,
    rows: 600,
    bytes: 1_024 * 1_024,
};

/// Maximum number of rows of deleted topics, subscriptions and namespaces that one step reads or deletes.
const FORGOTTEN_AT_ONCE: usize = 200;

/// Interval after which events that could not be pruned, such as those with dead letters, and the rows of deleted
/// entities are checked again.
const LOOK_AGAIN: Duration = Duration::from_secs(15 * 60);

/// Maximum number of event bytes that one round prunes under disk pressure. Limits the round, because only shrinking
/// the file afterwards frees disk space.
const DISK_ROUND_BYTES: u64 = 64 * 1_024 * 1_024;

/// Maximum number of pages returned to the file system in one transaction.
const SHRINK_PAGES: u64 = 64;

/// Number of free pages that the file keeps, in addition to an eighth of its size. Avoids returning pages that are
/// needed again soon.
const SPARE_PAGES: u64 = 512;

/// Maximum number of events that one query of a preview reads; a preview runs at most `PREVIEW_BATCHES_MAX` queries.
const PREVIEW_BATCH: PruneBatch = PruneBatch {
    events: 2_000,
    rows: u64::MAX,
    bytes: u64::MAX,
};
const PREVIEW_BATCHES_MAX: usize = 100;

/// Progress of retention through the stored events.
#[derive(Debug)]
pub(in crate::broker) struct RetentionCursor {
    /// Last event that was checked. Events that remain before this position could not be pruned.
    at: EventKey,
    /// When to start again from the oldest event.
    again_at: Timestamp,
    /// Is true if the store was under pressure and no more events could be pruned.
    is_stuck: bool,
}

impl RetentionCursor {
    pub(in crate::broker) fn new() -> Self {
        Self {
            at: EventKey(0),
            again_at: Timestamp::default(),
            is_stuck: false,
        }
    }
}

/// The size of the store, and what retention has pruned.
#[derive(Clone, Copy, Debug)]
pub struct StorageStatus {
    pub sizes: Sizes,
    pub pressure: Option<Pressure>,
    /// The oldest event and when it was published.
    pub oldest: Option<(EventKey, Timestamp)>,
    /// Rows pruned since the start of the process.
    pub pruned: PrunedRows,
}

/// Storage status, and a preview of what the given retention rules would prune.
#[derive(Clone, Copy, Debug)]
pub struct StorageReport {
    pub status: StorageStatus,
    pub rules: RetentionRules,
    pub preview: PruningPreview,
}

/// The amount that would be pruned now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruningPreview {
    pub events: u64,
    pub deliveries: u64,
    /// Bytes of the events' data.
    pub bytes: u64,
    /// Is true if the preview stopped counting at its limit, so that more would be pruned.
    pub is_partial: bool,
}

impl Broker {
    /// Runs retention until the broker stops.
    pub async fn run_retention(self) {
        loop {
            if let Err(error) = self.retain().await {
                tracing::warn!(%error, "retention failed and will be retried");
            }
            tokio::select! {
                () = tokio::time::sleep(ROUND_INTERVAL) => {}
                () = self.stopping() => return,
            }
        }
    }

    /// Runs one round of retention. Simulations call this directly.
    pub async fn retain(&self) -> Result<(), StoreError> {
        self.meters().kept(self.store().upkeep.take_longest());
        self.shared.workload.sample();
        let mut retention_cursor = self.shared.retention_cursor.lock().await;
        let now = self.clock().now();
        let looks_again = now >= retention_cursor.again_at;
        if looks_again {
            retention_cursor.at = EventKey(0);
            retention_cursor.again_at = now + LOOK_AGAIN;
        }
        let pressure = self.measure().await?;
        retention_cursor.is_stuck &= pressure.is_some();
        self.prune(&mut retention_cursor, pressure).await?;
        if looks_again {
            self.forget_deleted().await?;
        }
        self.shrink(pressure).await
    }

    /// Deletes in small steps the rows of deleted event subscriptions, topics and namespaces that nothing refers to any
    /// more.
    async fn forget_deleted(&self) -> Result<(), StoreError> {
        let now = self.clock().now();
        for kind in DeletedKind::ALL {
            let mut next = Some(0);
            while let Some(after) = next
                && !self.is_stopping()
            {
                let started_at = self.clock().now();
                let request = ForgetRequest {
                    kind,
                    after,
                    deleted_before: now - DELETED_KEPT,
                    pruned_before: self.options().retention.cutoff(now, None).delivered,
                    limit: FORGOTTEN_AT_ONCE,
                };
                next = self.store().ledger.forget_deleted(request).await?;
                self.rest_since(started_at).await;
            }
        }
        Ok(())
    }

    /// Measures the store, and decides whether delivered events must be pruned early.
    async fn measure(&self) -> Result<Option<Pressure>, StoreError> {
        let sizes = self.store().upkeep.sizes().await?;
        self.meters().measured(&sizes);
        let room = DiskRoom {
            used_bytes: sizes.used(),
            disk_free_bytes: sizes.disk_free,
            disk_free_min: self.options().free_bytes_min,
        };
        let mut pressure = self.shared.pressure.lock().unwrap();
        let before = *pressure;
        *pressure = self.options().retention.pressure(&room, before);
        self.note_pressure(before, *pressure);
        match *pressure {
            Some(begun) if before.is_none() => {
                let used_bytes = room.used_bytes;
                tracing::info!(
                    pressure = begun.name(),
                    used_bytes,
                    "delivered events are pruned early"
                );
            }
            _ => {}
        }
        Ok(*pressure)
    }

    /// Prunes batch by batch, oldest first, until nothing is left to prune or, under pressure, until the
    /// pressure has ended.
    async fn prune(
        &self,
        retention_cursor: &mut RetentionCursor,
        pressure: Option<Pressure>,
    ) -> Result<(), StoreError> {
        let mut for_the_disk = 0;
        while !self.is_stopping() && for_the_disk < DISK_ROUND_BYTES {
            let started_at = self.clock().now();
            let cutoff = self.options().retention.cutoff(started_at, pressure);
            let request = PruneRequest {
                after: retention_cursor.at,
                cutoff,
                batch: BATCH,
                dry_run: false,
            };
            let pruned = self.store().ledger.prune(request).await?;
            self.meters().pruned(pruned);
            match pruned.last_seen {
                Some((event, published_at)) if published_at <= cutoff.delivered => {
                    retention_cursor.at = event;
                }
                _ => {
                    warn_if_stuck(retention_cursor, pressure);
                    return Ok(());
                }
            }
            match pressure {
                Some(Pressure::Size) if self.measure().await? != pressure => return Ok(()),
                Some(Pressure::Size) => {}
                Some(Pressure::Disk) => for_the_disk += pruned.bytes,
                None => {}
            }
            self.rest_since(started_at).await;
        }
        Ok(())
    }

    /// Returns excess free pages to the file system.
    async fn shrink(&self, pressure: Option<Pressure>) -> Result<(), StoreError> {
        let upkeep = &self.store().upkeep;
        let mut shrunk = false;
        loop {
            let started_at = self.clock().now();
            let sizes = upkeep.sizes().await?;
            let spare = sizes.file / 8 + SPARE_PAGES * sizes.page;
            let too_large = self
                .options()
                .retention
                .bytes_max
                .is_some_and(|most| sizes.file > most);
            let spare = if too_large || pressure == Some(Pressure::Disk) {
                0
            } else {
                spare
            };
            let excess = sizes.free.saturating_sub(spare) / sizes.page;
            if excess == 0 || self.is_stopping() {
                break;
            }
            upkeep.shrink(excess.min(SHRINK_PAGES)).await?;
            if upkeep.sizes().await?.file == sizes.file {
                break; // a store in memory, which does not get smaller
            }
            shrunk = true;
            self.rest_since(started_at).await;
        }
        if shrunk {
            upkeep.cut_log().await?;
        }
        Ok(())
    }

    /// Sleeps for the time elapsed since `started_at`, so that other tasks can use the store.
    async fn rest_since(&self, started_at: Timestamp) {
        let used = self.clock().now().since(started_at);
        if used > Duration::ZERO {
            tokio::time::sleep(used).await;
        }
    }

    /// Returns the size of the store. Takes the same short time for any amount of data.
    pub async fn storage_status(&self) -> Result<StorageStatus, StoreError> {
        let sizes = self.store().upkeep.sizes().await?;
        let pressure = *self.shared.pressure.lock().unwrap();
        Ok(StorageStatus {
            sizes,
            pressure,
            oldest: self.oldest_event().await?,
            pruned: self.meters().pruned_so_far(),
        })
    }

    /// Returns the size of the store, and a preview of what the given rules would prune now.
    pub async fn storage(&self, rules: RetentionRules) -> Result<StorageReport, StoreError> {
        Ok(StorageReport {
            status: self.storage_status().await?,
            rules,
            preview: self.preview(&rules).await?,
        })
    }

    async fn oldest_event(&self) -> Result<Option<(EventKey, Timestamp)>, StoreError> {
        let request = PruneRequest {
            after: EventKey(0),
            cutoff: self.options().retention.cutoff(Timestamp::default(), None),
            batch: PruneBatch {
                events: 1,
                ..PREVIEW_BATCH
            },
            dry_run: true,
        };
        Ok(self.store().ledger.prune(request).await?.last_seen)
    }

    async fn preview(&self, rules: &RetentionRules) -> Result<PruningPreview, StoreError> {
        let cutoff = rules.cutoff(self.clock().now(), None);
        let (mut preview, mut at) = (PruningPreview::default(), EventKey(0));
        for _ in 0..PREVIEW_BATCHES_MAX {
            let request = PruneRequest {
                after: at,
                cutoff,
                batch: PREVIEW_BATCH,
                dry_run: true,
            };
            let found = self.store().ledger.prune(request).await?;
            preview.events += found.events;
            preview.deliveries += found.deliveries;
            preview.bytes += found.bytes;
            match found.last_seen {
                Some((event, published_at)) if published_at <= cutoff.delivered => at = event,
                _ => return Ok(preview),
            }
        }
        preview.is_partial = true;
        Ok(preview)
    }
}

/// Warns that everything was pruned that could be, and room is still short.
fn warn_if_stuck(retention_cursor: &mut RetentionCursor, pressure: Option<Pressure>) {
    if let Some(pressure) = pressure
        && !retention_cursor.is_stuck
    {
        tracing::warn!(
            pressure = pressure.name(),
            "all delivered events are pruned, and space is still short: the rest is pending or dead letters"
        );
        retention_cursor.is_stuck = true;
    }
}
