//! Validation of endpoints: life cycle of the validation handshake (rule 5, section A).
//!
//! A handshake starts with a validation code and ends in the state `Succeeded` or `Failed`. A handshake makes up to
//! three requests. A receiver that responds without confirming can still confirm by opening the validation URL within
//! ten minutes. The outcome of a handshake is stored only if its code is still the current one, so that a concurrent
//! change takes precedence.

use std::sync::Arc;

use crate::broker::Broker;
use crate::model::access::Secret;
use crate::model::destination::DeliveryMode;
use crate::model::limits::{
    HANDSHAKE_PAUSE, HANDSHAKE_PUT_WAIT, HANDSHAKE_TRIES, HANDSHAKE_WINDOW,
};
use crate::model::registry::TopicEntry;
use crate::model::subscription::{EventSubscription, SubscriptionId, Validation, ValidationState};
use crate::outbound::{HandshakeRequest, HandshakeResult};
use crate::store::{RegistryChange, StoreError};

/// Error for a validation URL whose code is wrong, used or expired.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownCode {
    #[error("this validation link is not valid any more; validate the event subscription again")]
    NotOpen,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Broker {
    /// Confirms the handshake with this code, opened as a validation URL or as the callback of a CloudEvents handshake.
    /// The callback may set an allowed rate in requests per minute.
    pub async fn confirm_validation(
        &self,
        code: &str,
        allowed_rate: Option<u32>,
    ) -> Result<(), UnknownCode> {
        let _one_at_a_time = self.shared.managing.lock().await;
        let registry = self.registry();
        let now = self.clock().now();
        let open = registry.subscriptions().map(|(_, each)| each).find(|each| {
            let admitted = each
                .validation
                .code
                .as_ref()
                .is_some_and(|open| open.admits(code));
            admitted && each.validation.expires_at.is_none_or(|at| now < at)
        });
        let id = open.ok_or(UnknownCode::NotOpen)?.id;
        let validation = Validation::succeeded(allowed_rate);
        self.save(RegistryChange::ChangeValidation { id, validation }, None)
            .await?;
        self.resume_deliveries(id, now);
        Ok(())
    }

    /// Returns the state of a new handshake, which replaces any earlier one.
    pub(super) fn new_handshake(&self, state: ValidationState, current: &Validation) -> Validation {
        let window = self.time_scale().shrink(HANDSHAKE_WINDOW);
        Validation {
            state: if current.validated_once {
                state
            } else {
                ValidationState::Creating
            },
            validated_once: current.validated_once,
            code: Some(Secret::new(self.entropy().secret())),
            expires_at: Some(self.clock().now() + window),
            failure: None,
            allowed_rate: None,
        }
    }

    /// Runs the handshake and waits up to `HANDSHAKE_PUT_WAIT` for its outcome. Starts deliveries immediately if no
    /// handshake is needed.
    pub(super) async fn settle_validation(&self, subscription: &EventSubscription) {
        if subscription.has_agreed() {
            match subscription.definition.destination.delivery_mode() {
                DeliveryMode::Push => self.note_change(subscription.id),
                DeliveryMode::Queue => self.set_free(subscription.id, self.clock().now()),
            }
            return;
        }
        let handshake = self.spawn_handshake(subscription.id);
        // A timeout is not a failure: the handshake continues, and the response shows the state reached so far.
        let _ = tokio::time::timeout(HANDSHAKE_PUT_WAIT, handshake).await;
    }

    /// Restarts the handshakes that a stop or a crash interrupted.
    pub(in crate::broker) fn resume_handshakes(&self) {
        for (_, subscription) in self.registry().subscriptions() {
            match subscription.validation.state {
                ValidationState::Creating | ValidationState::Updating => {
                    self.spawn_handshake(subscription.id);
                }
                ValidationState::AwaitingManualAction
                | ValidationState::Succeeded
                | ValidationState::Failed => {}
            }
        }
    }

    fn spawn_handshake(&self, id: SubscriptionId) -> tokio::task::JoinHandle<()> {
        let broker = self.clone();
        self.shared.handshakes.spawn(async move {
            tokio::select! {
                () = broker.shake_hands(id) => {}
                () = broker.stopping() => {}
            }
        })
    }

    async fn shake_hands(&self, id: SubscriptionId) {
        let registry = self.registry();
        let Some((topic, subscription)) = registry.subscription(id) else {
            return;
        };
        let Some(code) = subscription.validation.code.clone() else {
            return;
        };
        for tries_left in (0..HANDSHAKE_TRIES).rev() {
            let reason = match self.ask(topic, subscription, &code).await {
                HandshakeResult::Agreed { allowed_rate } => {
                    let agreed = Validation::succeeded(allowed_rate);
                    return self.note_handshake(id, &code, agreed).await;
                }
                HandshakeResult::AwaitingManualAction { reason } => {
                    let mut waiting = subscription.validation.clone();
                    waiting.state = ValidationState::AwaitingManualAction;
                    waiting.failure = Some(reason);
                    return self.note_handshake(id, &code, waiting).await;
                }
                HandshakeResult::Rejected { reason } if tries_left > 0 => reason,
                HandshakeResult::Rejected { reason } | HandshakeResult::Denied { reason } => {
                    let failed = failed(&subscription.validation, reason);
                    return self.note_handshake(id, &code, failed).await;
                }
            };
            let mut goes_on = subscription.validation.clone();
            goes_on.failure = Some(format!("{reason}; tries left: {tries_left}"));
            self.note_handshake(id, &code, goes_on).await;
            tokio::time::sleep(self.time_scale().shrink(HANDSHAKE_PAUSE)).await;
        }
    }

    async fn ask(
        &self,
        topic: &TopicEntry,
        subscription: &EventSubscription,
        code: &Secret,
    ) -> HandshakeResult {
        let options = self.options();
        let base = &options.public_url;
        let request = HandshakeRequest {
            subscription,
            topic_resource_id: &topic.resource_id,
            code: code.reveal(),
            validation_url: &format!("{base}/validate?code={}", code.reveal()),
            event_id: self.entropy().uuid(),
            now: self.clock().now(),
            deadline: options.response_deadline,
        };
        self.outbound().shake(request).await
    }

    /// Stores the outcome of the handshake with this code, or of one of its attempts. Stores nothing if another
    /// handshake has started or the validation URL was opened meanwhile.
    async fn note_handshake(&self, id: SubscriptionId, code: &Secret, validation: Validation) {
        let _one_at_a_time = self.shared.managing.lock().await;
        let registry = self.registry();
        let current = registry
            .subscription(id)
            .and_then(|(_, each)| each.validation.code.as_ref());
        if current != Some(code) {
            return;
        }
        let state = validation.state;
        match self
            .save(RegistryChange::ChangeValidation { id, validation }, None)
            .await
        {
            Ok(_) if state == ValidationState::Succeeded => {
                self.resume_deliveries(id, self.clock().now());
            }
            Ok(_) => {}
            Err(error) => tracing::error!(%error, "the outcome of a handshake could not be stored"),
        }
    }

    /// Fails the handshakes whose validation URL was not opened in time.
    pub(in crate::broker) async fn expire_handshakes(&self) {
        let now = self.clock().now();
        let registry = self.registry();
        for (_, subscription) in registry.subscriptions() {
            let validation = &subscription.validation;
            let waiting = validation.state == ValidationState::AwaitingManualAction;
            if !waiting || validation.expires_at.is_some_and(|at| now < at) {
                continue;
            }
            let Some(code) = &validation.code else {
                continue;
            };
            let said = validation.failure.clone().unwrap_or_default();
            let reason = format!("{said}; nobody opened the validation URL in time");
            self.note_handshake(subscription.id, code, failed(validation, reason))
                .await;
        }
    }

    /// Notifies the endpoint of a deleted subscription. Sends one request and ignores the response. Namespaces have no
    /// such notification.
    pub(super) fn notify_deleted(
        &self,
        topic: &Arc<TopicEntry>,
        subscription: &Arc<EventSubscription>,
    ) {
        if !subscription.has_agreed() || topic.namespace.is_some() {
            return;
        }
        let (broker, topic) = (self.clone(), Arc::clone(topic));
        let subscription = Arc::clone(subscription);
        self.shared.handshakes.spawn(async move {
            let request = HandshakeRequest {
                subscription: &subscription,
                topic_resource_id: &topic.resource_id,
                code: "",
                validation_url: "",
                event_id: broker.entropy().uuid(),
                now: broker.clock().now(),
                deadline: broker.options().response_deadline,
            };
            broker.outbound().notify_deletion(request).await;
        });
    }
}

fn failed(validation: &Validation, reason: String) -> Validation {
    Validation {
        state: ValidationState::Failed,
        code: None,
        expires_at: None,
        failure: Some(reason),
        ..validation.clone()
    }
}
