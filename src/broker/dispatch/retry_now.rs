//! Retrying a pending delivery now.

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::model::audit::{AuditAction, AuditEntry, Caller, Target, TargetKind};
use crate::model::delivery::{DeliveryId, DeliveryState};
use crate::model::destination::DeliveryMode;
use crate::model::probation::Admission;
use crate::model::subscription::SubscriptionId;
use crate::store::{FreeChange, FreeChanges, FreeSettled, StoreError};

/// Why a delivery is not retried now. It stays as it is.
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

/// Why the deliveries of an event subscription are not attempted although they are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The state of the event subscription, or `Pulled` where receivers come for its events.
    pub state: &'static str,
    /// When it ends, if that is known.
    pub until: Option<Timestamp>,
}

impl Broker {
    /// What holds the deliveries of an event subscription back; `None` where nothing does.
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

    /// Makes a pending delivery due now. Returns what holds it back nevertheless: a paused subscription, or a
    /// receiver on probation. The attempt counts like any other.
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

    /// Makes one attempt for a subscription now: on probation its probe, whose outcome decides whether the
    /// others go on, else that of the delivery which falls due first. It counts like any. Returns the delivery
    /// that was made due; `None` if there was nothing to deliver.
    pub async fn retry_subscription_now(
        &self,
        by: &Caller,
        subscription: SubscriptionId,
    ) -> Result<Option<DeliveryId>, StoreError> {
        let registry = self.registry();
        let Some((topic, found)) = registry.subscription(subscription) else {
            return Ok(None);
        };
        let target = Target::subscription(&topic.topic.name, &found.name);
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

    async fn make_due(&self, id: DeliveryId, audit: AuditEntry) -> Result<FreeSettled, StoreError> {
        let now = self.clock().now();
        let request = FreeChanges {
            changes: vec![(id, FreeChange::RetryNow)],
            audit: Some(audit),
            now,
        };
        let settled = self.store().ledger.settle_free(request).await?;
        let settled = settled.into_iter().next().unwrap_or(FreeSettled::Missing);
        if let FreeSettled::Done(subscription) = settled {
            self.set_free(subscription, now);
        }
        Ok(settled)
    }
}
