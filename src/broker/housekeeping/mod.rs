//! The janitor: deletes what is not needed any more, a little at a time. It decides nothing about deliveries.

pub(super) mod alerts;
pub(super) mod backup;
pub(super) mod export;
pub(super) mod idle;
pub(super) mod retention;

use std::time::Duration;

use crate::broker::Broker;
use crate::model::limits::REJECTION_LIFE;
use crate::model::login_failures::{KNOWN_NETWORK_LIFE, LOGIN_FAILURES_LIFE};
use crate::store::StoreError;

/// Pause between two rounds. Handshakes and messages must expire within a second of their time, and rejections are
/// limited per second.
const ROUND_INTERVAL: Duration = Duration::from_secs(1);

/// Rounds between two sweeps of the store, which need not be as punctual.
const ROUNDS_PER_SWEEP: u32 = 60;

/// Rows that one change deletes.
const BATCH: usize = 500;

impl Broker {
    /// Runs until the broker stops.
    pub async fn run_janitor(self) {
        for round in 0_u32.. {
            self.check_disk();
            self.check_clock();
            self.expire_handshakes().await;
            self.store_rejections().await;
            self.publish_notices().await;
            if let Err(error) = self.delete_idle().await {
                tracing::warn!(%error, "what is idle could not be deleted; that will be tried again");
            }
            if let Err(error) = self.end_expired().await {
                tracing::warn!(%error, "expired messages could not be ended; that will be tried again");
            }
            if round.is_multiple_of(ROUNDS_PER_SWEEP)
                && let Err(error) = self.sweep().await
            {
                tracing::warn!(%error, "housekeeping failed and will be retried");
            }
            tokio::select! {
                () = tokio::time::sleep(ROUND_INTERVAL) => {}
                () = self.stopping() => break,
            }
        }
        self.store_rejections().await;
        if let Err(error) = self.store_key_uses().await {
            tracing::warn!(%error, "the last uses of access keys could not be stored");
        }
        if let Err(error) = self.store_uses().await {
            tracing::warn!(%error, "the last uses of queues could not be stored");
        }
    }

    /// One sweep of the store. Simulations call it themselves.
    pub async fn sweep(&self) -> Result<(), StoreError> {
        let now = self.clock().now();
        self.store_key_uses().await?;
        self.store_uses().await?;
        self.note_deleted(); // some may have come in the moment of the deletion
        self.end_expired().await?;
        self.end_exhausted().await?;
        self.store().accounts.delete_expired_sessions(now).await?;
        self.store()
            .accounts
            .delete_login_failures(now - LOGIN_FAILURES_LIFE)
            .await?;
        self.store()
            .accounts
            .delete_known_networks(now - KNOWN_NETWORK_LIFE)
            .await?;
        self.store().rejections.forget(now - REJECTION_LIFE).await?;
        while self.store().ledger.tidy(now, BATCH).await? {}
        Ok(())
    }
}
