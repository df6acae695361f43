//! Retries of pending deliveries on request, without waiting for their next attempt.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::model::audit::{AuditAction, AuditEntry, AuditTarget, Caller, TargetKind};
use crate::model::delivery::{DeliveryAttempt, DeliveryId, DeliveryState};
use crate::model::destination::DeliveryMode;
use crate::model::probation::Admission;
use crate::model::subscription::SubscriptionId;
use crate::store::views::{DeliveryDetail, DeliveryRow};
use crate::store::{FreeChange, FreeChanges, FreeSettled, StoreError};

/// The longest wait for the result of an attempt. Most endpoints answer sooner.
const RESULT_WAIT: Duration = Duration::from_secs(3);

/// The pause between two queries for the result of an attempt. Without it, a busy appliance would query at every
/// commit.
const RESULT_PAUSE: Duration = Duration::from_millis(20);

/// The number of newest attempts of a subscription among which the attempt of its probe is searched.
const NEWEST: usize = 5;

/// The reason why a delivery is not retried now. The delivery stays unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RetryNowError {
    #[error("there is no delivery {0}")]
    NotFound(DeliveryId),
    #[error("delivery {0} is {state}, and only a pending one is tried again", state = .1.name())]
    NotPending(DeliveryId, DeliveryState),
    #[error("delivery {0} is locked or deferred by a receiver")]
    Held(DeliveryId),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The reason why due deliveries of an event subscription are not attempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The state of the event subscription, or `Pulled` if receivers pull its events.
    pub state: &'static str,
    /// The end of the hold, if it is known.
    pub until: Option<Timestamp>,
}

impl Broker {
    /// Returns the expiry of a pending delivery that expires by the time of its next attempt, which is then not made.
    pub fn expires_first(&self, row: &DeliveryRow) -> Option<Timestamp> {
        let registry = self.registry();
        let (topic, subscription) = registry.subscription(row.subscription_id)?;
        let policy = topic.retry_policy(subscription);
        let expires_at = policy.expires_at(row.published_at, self.time_scale());
        let is_pending = row.state == DeliveryState::Pending;
        (is_pending && row.next_attempt_at? >= expires_at).then_some(expires_at)
    }

    /// Returns the reason why the deliveries of an event subscription are held back; `None` if they are not.
    pub fn hold(&self, id: SubscriptionId) -> Option<Hold> {
        let registry = self.registry();
        let (_, subscription) = registry.subscription(id)?;
        let (health, now) = (self.health_of(id), self.clock().now());
        let state = subscription.standing(&health, now).name();
        if !subscription.may_deliver() {
            return Some(Hold { state, until: None });
        }
        if subscription.definition.destination.delivery_mode() == DeliveryMode::Queue {
            let state = "Pulled";
            return Some(Hold { state, until: None });
        }
        match health.admission(self.options().probation.mode, now) {
            Admission::Hold { until } => Some(Hold { state, until }),
            Admission::Free | Admission::Probe | Admission::Skip { .. } => None,
        }
    }

    /// Makes a pending delivery due now. Returns the reason if it is still held back, such as a paused subscription or
    /// a receiver on probation. The attempt counts like any other.
    pub async fn retry_now(
        &self,
        by: &Caller,
        id: DeliveryId,
    ) -> Result<Option<Hold>, RetryNowError> {
        let audit = by.did(AuditAction::RetryNow, TargetKind::Delivery.named(id));
        match self.make_due(id, audit).await? {
            FreeSettled::Done(subscription) => Ok(self.hold(subscription)),
            FreeSettled::Held => Err(RetryNowError::Held(id)),
            FreeSettled::In(state) => Err(RetryNowError::NotPending(id, state)),
            FreeSettled::Missing => Err(RetryNowError::NotFound(id)),
        }
    }

    /// Makes the pending delivery of a subscription that falls due first due now. On probation, the attempt is the
    /// probe, whose outcome decides whether other deliveries go on. The attempt counts like any other. Returns the
    /// delivery; `None` if there was nothing to deliver.
    pub async fn retry_subscription_now(
        &self,
        by: &Caller,
        subscription: SubscriptionId,
    ) -> Result<Option<DeliveryId>, StoreError> {
        let registry = self.registry();
        let Some((topic, found)) = registry.subscription(subscription) else {
            return Ok(None);
        };
        let target = AuditTarget::subscription(&topic.topic.name, &found.name);
        let audit = by.did(AuditAction::RetryNow, target);
        let Some(first) = self.store().views.first_pending(subscription).await? else {
            return Ok(None);
        };
        let is_due = matches!(self.make_due(first, audit).await?, FreeSettled::Done(_));
        if is_due {
            self.health().probe_at(subscription, self.clock().now());
            self.note_change(subscription);
        }
        Ok(Some(first).filter(|_| is_due))
    }

    /// Waits for the result of an attempt that started at `since` or later, and returns the attempt. It is an attempt
    /// of the delivery or, if the endpoint is on probation, of another delivery of the subscription that is sent as the
    /// probe. `None` if the result takes too long.
    pub async fn attempt_since(
        &self,
        of: SubscriptionId,
        delivery: DeliveryId,
        since: Timestamp,
    ) -> Result<Option<(DeliveryAttempt, DeliveryRow)>, StoreError> {
        let mut changes = self.store().views.changes();
        let look = async {
            loop {
                if let Some(made) = self.made_since(of, delivery, since).await? {
                    return Ok(Some(made));
                }
                if changes.changed().await.is_err() {
                    return Ok(None);
                }
                sleep(RESULT_PAUSE).await;
            }
        };
        timeout(RESULT_WAIT, look).await.unwrap_or(Ok(None))
    }

    async fn made_since(
        &self,
        of: SubscriptionId,
        delivery: DeliveryId,
        since: Timestamp,
    ) -> Result<Option<(DeliveryAttempt, DeliveryRow)>, StoreError> {
        let views = &self.store().views;
        let is_new = |attempt: &DeliveryAttempt| attempt.started_at >= since;
        if let Some(DeliveryDetail { row, attempts, .. }) = views.delivery(delivery).await?
            && let Some(newest) = attempts.into_iter().next_back().filter(is_new)
        {
            return Ok(Some((newest, row)));
        }
        if self.health_of(of).probation.is_none() {
            return Ok(None);
        }
        let newest = views.recent_attempts(of, NEWEST).await?;
        let Some(probe) = newest.into_iter().find(|each| is_new(&each.attempt)) else {
            return Ok(None);
        };
        let detail = views.delivery(probe.delivery).await?;
        Ok(detail.map(|detail| (probe.attempt, detail.row)))
    }

    async fn make_due(&self, id: DeliveryId, audit: AuditEntry) -> Result<FreeSettled, StoreError> {
        let now = self.clock().now();
        let request = FreeChanges {
            of: None,
            changes: vec![(id, FreeChange::RetryNow)],
            all_or_none: false,
            audit: Some(audit),
            now,
        };
        let settled = self.store().ledger.settle_free(request).await?;
        let only = settled.into_iter().next().unwrap_or(FreeSettled::Missing);
        if let FreeSettled::Done(subscription) = only {
            self.set_free(subscription, now);
        }
        Ok(only)
    }
}
