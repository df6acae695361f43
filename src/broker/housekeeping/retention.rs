//! Retention: delivered events go once they are old, or early where room is short, in small bites that
//! leave the store to everybody else in between; then the file gets smaller.

use std::time::Duration;

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::model::event::EventKey;
use crate::model::retention::{Pressure, RetentionRules, Room};
use crate::store::{PruneBatch, Pruned, Sizes, StoreError};

/// Pause between two looks.
const ROUND_INTERVAL: Duration = Duration::from_secs(10);

/// What one change deletes: a few milliseconds of the writer's time.
const BATCH: PruneBatch = PruneBatch {
    events: 500,
    rows: 600,
    bytes: 1_024 * 1_024,
};

/// How soon events that were kept are looked at again, such as those with dead letters.
const LOOK_AGAIN: Duration = Duration::from_secs(15 * 60);

/// Bytes of events that go in one round because of the disk, which shows the effect only at its end.
const DISK_ROUND_BYTES: u64 = 64 * 1_024 * 1_024;

/// Pages given back in one change.
const SHRINK_PAGES: u64 = 64;

/// The file keeps an eighth of its size free, and this many pages, for what comes next: giving back what is
/// needed again a minute later would cost twice.
const SPARE_PAGES: u64 = 512;

/// Events that a preview looks at in one question, and in all.
const PREVIEW_BATCH: PruneBatch = PruneBatch {
    events: 2_000,
    rows: u64::MAX,
    bytes: u64::MAX,
};
const PREVIEW_BATCHES_MAX: usize = 100;

/// Where retention stands from round to round.
#[derive(Debug)]
pub(in crate::broker) struct RetentionCursor {
    /// The last event that has been looked at; whatever is left up to there was kept.
    at: EventKey,
    /// When it begins at the oldest event again.
    again_at: Timestamp,
    /// There was pressure, and nothing that could go.
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

/// How large the store is, and what retention has made of it.
#[derive(Clone, Copy, Debug)]
pub struct StorageStatus {
    pub sizes: Sizes,
    pub pressure: Option<Pressure>,
    /// The oldest event and when it was published.
    pub oldest: Option<(EventKey, Timestamp)>,
    /// What has gone since the start of the process.
    pub pruned: Pruned,
}

/// The same, and what would go by some rules.
#[derive(Clone, Copy, Debug)]
pub struct StorageReport {
    pub status: StorageStatus,
    pub rules: RetentionRules,
    pub preview: Preview,
}

/// What would go now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preview {
    pub events: u64,
    pub deliveries: u64,
    /// Bytes of the events' data.
    pub bytes: u64,
    /// Whether there is more, since a preview does not count for ever.
    pub is_partial: bool,
}

impl Broker {
    /// Keeps the store within its bounds until the broker stops.
    pub async fn run_retention(self) {
        loop {
            if let Err(error) = self.retain().await {
                tracing::warn!(%error, "retention will be tried again");
            }
            tokio::select! {
                () = tokio::time::sleep(ROUND_INTERVAL) => {}
                () = self.stopping() => return,
            }
        }
    }

    /// One round. Simulations, which bring their own time, make it by themselves.
    pub async fn retain(&self) -> Result<(), StoreError> {
        self.meters().kept(self.store().upkeep.take_longest());
        self.shared.workload.sample();
        let mut retention_cursor = self.shared.retention_cursor.lock().await;
        let now = self.clock().now();
        if now >= retention_cursor.again_at {
            retention_cursor.at = EventKey(0);
            retention_cursor.again_at = now + LOOK_AGAIN;
        }
        let pressure = self.measure().await?;
        retention_cursor.is_stuck &= pressure.is_some();
        self.prune(&mut retention_cursor, pressure).await?;
        self.shrink(pressure).await
    }

    /// Measures the store, and whether what has been delivered must go early.
    async fn measure(&self) -> Result<Option<Pressure>, StoreError> {
        let sizes = self.store().upkeep.sizes().await?;
        self.meters().measured(&sizes);
        let room = Room {
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
                    "delivered events go early"
                );
            }
            _ => {}
        }
        Ok(*pressure)
    }

    /// Deletes what may go, bite by bite, oldest first, until all that is left must stay or, under
    /// pressure, until there is none.
    async fn prune(
        &self,
        retention_cursor: &mut RetentionCursor,
        pressure: Option<Pressure>,
    ) -> Result<(), StoreError> {
        let mut for_the_disk = 0;
        while !self.is_stopping() && for_the_disk < DISK_ROUND_BYTES {
            let started_at = self.clock().now();
            let cutoff = self.options().retention.cutoff(started_at, pressure);
            let upkeep = &self.store().upkeep;
            let found = upkeep
                .find_prunable(retention_cursor.at, cutoff, BATCH)
                .await?;
            if !found.events.is_empty() {
                let pruned = upkeep.prune(found.events, cutoff).await?;
                self.meters().pruned(pruned);
            }
            match found.last_seen {
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
                Some(Pressure::Disk) => for_the_disk += found.bytes,
                None => {}
            }
            self.rest_since(started_at).await;
        }
        Ok(())
    }

    /// Gives back to the file system what the file has too much of.
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
            let spare = match too_large || pressure == Some(Pressure::Disk) {
                true => 0,
                false => spare,
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
        match shrunk {
            true => upkeep.cut_log().await,
            false => Ok(()),
        }
    }

    /// Leaves the store to others for as long as it has just been used.
    async fn rest_since(&self, started_at: Timestamp) {
        let used = self.clock().now().since(started_at);
        if used > Duration::ZERO {
            tokio::time::sleep(used).await;
        }
    }

    /// How large the store is. However much there is, it takes a moment.
    pub async fn storage_status(&self) -> Result<StorageStatus, StoreError> {
        let sizes = self.store().upkeep.sizes().await?;
        let pressure = *self.shared.pressure.lock().unwrap();
        Ok(StorageStatus {
            sizes,
            pressure,
            oldest: self.store().upkeep.oldest().await?,
            pruned: self.meters().pruned_so_far(),
        })
    }

    /// How large the store is, and what these rules would delete now.
    pub async fn storage(&self, rules: RetentionRules) -> Result<StorageReport, StoreError> {
        Ok(StorageReport {
            status: self.storage_status().await?,
            rules,
            preview: self.preview(&rules).await?,
        })
    }

    async fn preview(&self, rules: &RetentionRules) -> Result<Preview, StoreError> {
        let cutoff = rules.cutoff(self.clock().now(), None);
        let (mut preview, mut at) = (Preview::default(), EventKey(0));
        for _ in 0..PREVIEW_BATCHES_MAX {
            let upkeep = &self.store().upkeep;
            let found = upkeep.find_prunable(at, cutoff, PREVIEW_BATCH).await?;
            preview.events += found.events.len() as u64;
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

/// Everything that could go has gone, and room is short still.
fn warn_if_stuck(retention_cursor: &mut RetentionCursor, pressure: Option<Pressure>) {
    if let Some(pressure) = pressure
        && !retention_cursor.is_stuck
    {
        tracing::warn!(
            pressure = pressure.name(),
            "what was delivered has gone, and room is short still: the rest waits for its delivery, or is \
             a dead letter"
        );
        retention_cursor.is_stuck = true;
    }
}
