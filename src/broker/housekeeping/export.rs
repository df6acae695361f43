//! Export: dead letters are uploaded to the storage of their subscription, blob by blob.
//!
//! A blob is created in the store, uploaded, and marked as stored. Each step is durable before the next one.
//! After a crash between two steps, the same blob is uploaded again. Unreachable storage has its own retry
//! schedule and delays no other subscription.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::broker::Broker;
use crate::broker::dispatch::deliver::unless_it_panics;
use crate::model::blob_storage::BlobStorage;
use crate::model::export::{Outage, WhenUnavailable};
use crate::model::limits::BLOBS_AT_ONCE_MAX;
use crate::model::registry::TopicEntry;
use crate::model::subscription::{DeadLetterDestination, EventSubscription};
use crate::outbound::Blob;
use crate::store::{BlobEnd, BlobRequest, DiscardRequest, ExportStatus, PendingBlob, StoreError};
use crate::wire::blob_created::BlobCreated;
use crate::wire::dead_letter::RecordOf;
use crate::wire::dead_letter_blob;

/// Pause after a round without work.
const ROUND_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of dead letters dropped in one transaction.
const BATCH: usize = 500;

/// An event subscription that exports its dead letters.
#[derive(Clone)]
struct Exporter {
    topic: Arc<TopicEntry>,
    subscription: Arc<EventSubscription>,
    storage: BlobStorage,
    container: String,
}

impl Broker {
    /// Exports until the broker stops.
    pub async fn export(self) {
        while !self.is_stopping() {
            match self.export_round().await {
                Ok(0) => {}
                Ok(_) => continue,
                // A blob that was uploaded but could not be marked as stored, e.g. on a full disk, is uploaded again.
                Err(error) => tracing::warn!(%error, "the export failed and will be retried"),
            }
            tokio::select! {
                () = tokio::time::sleep(ROUND_INTERVAL) => {}
                () = self.stopping() => {}
            }
        }
    }

    /// Exports at most one blob per subscription. Returns the number of exported blobs. Simulations call this
    /// directly.
    pub async fn export_round(&self) -> Result<usize, StoreError> {
        let _one_at_a_time = self.shared.exporting.lock().await;
        let exporters = self.exporters();
        let ids = || exporters.iter().map(|each| each.subscription.id);
        let ledger = &self.store().ledger;
        ledger.release_blobs(ids().collect()).await?;
        let mut due = Vec::new();
        for status in ledger.export_statuses(ids().collect()).await? {
            let exporter = exporters
                .iter()
                .find(|each| each.subscription.id == status.subscription)
                .expect("only exporters were asked for");
            self.give_up_exports(&status).await?;
            if self.is_export_due(exporter, &status) {
                due.push((exporter.clone(), status));
            }
        }
        let mark_stored = self.export_all(due).await;
        let statuses = ledger.export_statuses(ids().collect()).await?;
        let outages = statuses
            .into_iter()
            .filter_map(|each| Some((each.subscription, each.outage?)));
        *self.shared.outages.lock().unwrap() = outages.collect();
        mark_stored
    }

    /// Returns the subscriptions that export their dead letters.
    fn exporters(&self) -> Vec<Exporter> {
        let has_directory = self.outbound().export_dir().is_some();
        let registry = self.registry();
        let exporter = |(topic, subscription): (&Arc<TopicEntry>, &Arc<EventSubscription>)| {
            let DeadLetterDestination::StorageBlob {
                container, storage, ..
            } = &subscription.definition.dead_letter
            else {
                return None;
            };
            let is_there = has_directory || *storage != BlobStorage::Directory;
            is_there.then(|| Exporter {
                topic: Arc::clone(topic),
                subscription: Arc::clone(subscription),
                storage: storage.clone(),
                container: container.clone(),
            })
        };
        registry.subscriptions().filter_map(exporter).collect()
    }

    fn is_export_due(&self, exporter: &Exporter, status: &ExportStatus) -> bool {
        let now = self.clock().now();
        if let Some(outage) = &status.outage
            && !outage.is_due(exporter.subscription.updated_at, now)
        {
            return false;
        }
        let delay = self.time_scale().shrink(self.options().exports.delay);
        let is_ripe = status.oldest.is_some_and(|oldest| oldest + delay <= now);
        status.is_pending || is_ripe
    }

    /// Drops dead letters that have waited too long for storage, if the settings say so.
    async fn give_up_exports(&self, status: &ExportStatus) -> Result<(), StoreError> {
        let now = self.clock().now();
        let outage = status.outage.as_ref();
        let before = match self.options().exports.when_unavailable {
            WhenUnavailable::Keep => None,
            WhenUnavailable::Drop => {
                outage.and_then(|outage| outage.given_up_before(now, self.time_scale()))
            }
        };
        let Some(before) = before else {
            return Ok(());
        };
        loop {
            let of = status.subscription;
            let old = DiscardRequest::DeadLetters { of, before };
            let discarded = self.store().ledger.discard(old, BATCH, now).await?;
            let dropped = discarded.count();
            self.meters().exports_given_up(dropped);
            if dropped > 0 {
                tracing::warn!(
                    dropped,
                    "dead letters were dropped: their storage was unreachable for too long"
                );
            }
            if dropped < BATCH {
                return Ok(());
            }
        }
    }

    /// Exports up to `BLOBS_AT_ONCE_MAX` blobs concurrently, so that slow storage does not delay other exports.
    async fn export_all(&self, due: Vec<(Exporter, ExportStatus)>) -> Result<usize, StoreError> {
        let (mut pending, mut running) = (due.into_iter(), JoinSet::new());
        let (mut mark_stored, mut trouble) = (0, None);
        loop {
            while running.len() < BLOBS_AT_ONCE_MAX
                && let Some((exporter, status)) = pending.next()
            {
                let broker = self.clone();
                running.spawn(async move { broker.export_one(&exporter, status).await });
            }
            let Some(ended) = running.join_next().await else {
                return trouble.map_or(Ok(mark_stored), Err);
            };
            match ended {
                Ok(Ok(was_stored)) => mark_stored += usize::from(was_stored),
                Ok(Err(error)) => trouble = Some(error),
                Err(error) => tracing::error!(%error, "an export panicked"),
            }
        }
    }

    /// Exports one blob. Returns whether the blob was stored. Publishes the blob-created event before the blob is
    /// marked as stored, so that a crash repeats the event instead of losing it.
    async fn export_one(
        &self,
        exporter: &Exporter,
        status: ExportStatus,
    ) -> Result<bool, StoreError> {
        let request = BlobRequest {
            subscription: exporter.subscription.id,
            name: exporter.subscription.name.clone(),
            topic: exporter.topic.topic.name.clone(),
            topic_resource_id: exporter.topic.resource_id.clone(),
            now: self.clock().now(),
        };
        let Some(blob) = self.store().ledger.begin_blob(request).await? else {
            return Ok(false); // its dead letters have been taken out of the queue meanwhile
        };
        if blob.dead_letters.is_empty() && blob.unreadable == 0 {
            self.end_blob(&blob, BlobEnd::Released).await?;
            return Ok(false);
        }
        if !blob.dead_letters.is_empty() {
            let put = unless_it_panics(self.put(exporter, &blob)).await;
            match put.unwrap_or_else(|reason| Err(self.export_defect(exporter, &reason))) {
                Ok(created) => self.publish_blob_created(&created).await?,
                Err(error) => {
                    let outage = self.outage_after(exporter, status.outage, error);
                    self.end_blob(&blob, BlobEnd::Failed(outage)).await?;
                    return Ok(false);
                }
            }
        }
        let stored: Vec<_> = blob.dead_letters.iter().map(|each| each.delivery).collect();
        let count = stored.len();
        self.end_blob(&blob, BlobEnd::Stored(stored)).await?;
        self.meters().exported(count);
        tracing::debug!(blob = blob.name, count, "dead letters were exported");
        Ok(true)
    }

    async fn end_blob(&self, blob: &PendingBlob, end: BlobEnd) -> Result<(), StoreError> {
        let now = self.clock().now();
        self.store().ledger.end_blob(blob.id, end, now).await
    }

    async fn put(&self, exporter: &Exporter, blob: &PendingBlob) -> Result<BlobCreated, String> {
        let record = RecordOf {
            is_in_namespace: exporter.topic.namespace.is_some(),
            topic_resource_id: &exporter.topic.resource_id,
            definition: Some(&exporter.subscription.definition),
        };
        let records: Vec<_> = blob
            .dead_letters
            .iter()
            .map(|each| record.write(&each.event, &each.facts))
            .collect();
        let blob = Blob {
            storage: &exporter.storage,
            container: &exporter.container,
            name: &blob.name,
            bytes: dead_letter_blob::text(&records),
        };
        let mut created = BlobCreated {
            container: blob.container.to_owned(),
            path: blob.name.to_owned(),
            url: String::new(),
            content_type: dead_letter_blob::CONTENT_TYPE.to_owned(),
            content_length: blob.bytes.len() as u64,
            e_tag: String::new(),
        };
        let mark_stored = self.outbound().put_blob(blob).await?;
        (created.url, created.e_tag) = (mark_stored.url, mark_stored.e_tag);
        Ok(created)
    }

    /// Logs a panic during an upload and returns the error text. The upload is then retried with the same delay as
    /// a failed upload.
    fn export_defect(&self, exporter: &Exporter, reason: &str) -> String {
        let subscription = &exporter.subscription.name;
        tracing::error!(reason, subscription.name = %subscription, "an export panicked");
        self.meters().panicked();
        "not stored because of a bug in Everpost, which its log tells".to_owned()
    }

    /// Returns the outage state of the storage after another failed upload.
    fn outage_after(&self, exporter: &Exporter, before: Option<Outage>, error: String) -> Outage {
        let now = self.clock().now();
        let outage = Outage::after(before, error, now, self.time_scale());
        tracing::warn!(
            topic.name = %exporter.topic.topic.name,
            subscription.name = %exporter.subscription.name,
            failures = outage.failures,
            error = outage.error,
            "dead letters wait, because their storage is unreachable"
        );
        self.meters().export_failed();
        outage
    }
}
