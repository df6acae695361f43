//! The janitor: what has outlived its use goes, a little at a time. It decides nothing about deliveries.

pub(super) mod export;
pub(super) mod retention;

use std::time::Duration;

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::model::guessing::FAILURES_FORGOTTEN_AFTER;
use crate::model::limits::{
    BLOB_NAMES_KEPT, DAYS_KEPT, HOURS_KEPT, MINUTES_KEPT, REJECTION_LIFE, REQUEST_ID_WINDOW,
};
use crate::store::{Granularity, StoreError};

/// Pause between two rounds. Handshakes end within a second of their window, and refusals are counted
/// by the second.
const ROUND_INTERVAL: Duration = Duration::from_secs(1);

/// Rounds between two sweeps of the store, which need not be so punctual.
const ROUNDS_PER_SWEEP: u32 = 60;

/// Rows that one bite deletes.
const BITE: usize = 500;

impl Broker {
    /// Goes round until the broker stops.
    pub async fn run_janitor(self) {
        for round in 0_u32.. {
            self.look_at_disk();
            self.expire_handshakes().await;
            self.keep_rejections().await;
            self.tell().await;
            if round.is_multiple_of(ROUNDS_PER_SWEEP)
                && let Err(error) = self.sweep().await
            {
                tracing::warn!(%error, "housekeeping will be tried again");
            }
            tokio::select! {
                () = tokio::time::sleep(ROUND_INTERVAL) => {}
                () = self.stopping() => break,
            }
        }
        self.keep_rejections().await;
    }

    /// One sweep of the store. Simulations, which bring their own time, sweep by themselves.
    pub async fn sweep(&self) -> Result<(), StoreError> {
        let now = self.clock().now();
        self.end_pending_of_deleted().await?;
        self.give_up_outlived().await?;
        self.store().notices.forget(now).await?;
        self.store().accounts.forget_sessions(now).await?;
        self.store()
            .accounts
            .forget_guessers(now - FAILURES_FORGOTTEN_AFTER)
            .await?;
        self.store().rejections.forget(now - REJECTION_LIFE).await?;
        while self
            .store()
            .upkeep
            .forget_requests(now - REQUEST_ID_WINDOW, BITE)
            .await?
            == BITE
        {}
        self.store()
            .exports
            .forget(now - BLOB_NAMES_KEPT, BITE)
            .await?;
        self.fold_counters(now).await
    }

    /// Old counters become coarser, and go in the end.
    async fn fold_counters(&self, now: Timestamp) -> Result<(), StoreError> {
        let upkeep = &self.store().upkeep;
        while upkeep
            .fold_rollups(Granularity::Hour, now - MINUTES_KEPT)
            .await?
        {}
        while upkeep
            .fold_rollups(Granularity::Day, now - HOURS_KEPT)
            .await?
        {}
        while upkeep.forget_rollups(now - DAYS_KEPT, BITE).await? == BITE {}
        Ok(())
    }
}
