//! Retrying a pending delivery now.

use crate::broker::Broker;
use crate::model::delivery::{DeliveryId, DeliveryState};
use crate::store::{RetriedNow, StoreError};

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

impl Broker {
    /// Makes a pending delivery due now. It still waits while its subscription is paused, or its receiver is
    /// on probation or has no free slot. The attempt counts like any other.
    pub async fn retry_now(&self, id: DeliveryId) -> Result<(), RetryNowError> {
        let now = self.clock().now();
        match self.store().deliveries.retry_now(id, now).await? {
            RetriedNow::Due(subscription) => {
                self.set_free(subscription, now);
                Ok(())
            }
            RetriedNow::Held => Err(RetryNowError::Held(id)),
            RetriedNow::Ended(state) => Err(RetryNowError::NotPending(id, state)),
            RetriedNow::Missing => Err(RetryNowError::NotFound(id)),
        }
    }
}
