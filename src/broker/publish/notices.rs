//! Notices: events of the appliance for the subscribers of `everpost-system`.
//!
//! The notice that a subscription was disabled or that its validation failed is stored in the transaction of the
//! change. Notices of finished replay jobs and of new dead letters are known only inside a transaction. The
//! transaction stores a mark, from which the notice is made later. Many dead letters thus cause only a few notices.
//! Probations and disk pressure are known only in memory. Their notices wait in memory until they are stored or the
//! process ends.

use std::sync::{Arc, Mutex};

use crate::base::seldom::SeldomLine;
use crate::base::{Entropy, Timestamp};
use crate::broker::Broker;
use crate::broker::dispatch::health::HealthChange;
use crate::broker::publish::{Arrival, matched_alone};
use crate::model::event::Event;
use crate::model::limits::{NOTICE_WINDOW, NOTICES_AT_ONCE_MAX, NOTICES_WAITING_MAX};
use crate::model::notice::{DisabledBy, DiskPressure, Notice, Subscribed};
use crate::model::registry::{Registry, TopicEntry};
use crate::model::retention::Pressure;
use crate::model::subscription::{
    Disabled, EventSubscription, SubscriptionDefinition, SubscriptionId, Validation,
    ValidationState,
};
use crate::model::system_topic::SystemTopic;
use crate::store::{AppendRequest, RegistryChange, StoreError};
use crate::wire::notice::to_event;

/// Notices that are not stored yet.
#[derive(Default)]
pub(in crate::broker) struct WaitingNotices {
    events: Mutex<Vec<Event>>,
    dropped: SeldomLine,
}

/// Turns notices into events that are ready to be stored.
#[derive(Clone)]
pub(in crate::broker) struct NoticePublisher {
    topic: Arc<TopicEntry>,
    entropy: Entropy,
    now: Timestamp,
}

impl NoticePublisher {
    fn event(&self, notice: &Notice) -> Event {
        let at = match notice {
            Notice::DeadLettersAdded(added) => added.last_at,
            Notice::ProbationBegun { .. }
            | Notice::ProbationEnded { .. }
            | Notice::SubscriptionDisabled { .. }
            | Notice::ValidationFailed { .. }
            | Notice::DiskPressureBegun(_)
            | Notice::DiskPressureEnded(_)
            | Notice::ReplayFinished(_) => self.now,
        };
        to_event(notice, self.entropy.uuid(), at)
    }

    pub(in crate::broker) fn accepted(&self, notice: &Notice) -> AppendRequest {
        matched_alone(&self.topic, self.event(notice), self.now)
    }
}

impl Broker {
    /// Returns the notice publisher, or `None` if the topic of notices has no subscriptions.
    pub(in crate::broker) fn notice_publisher(&self) -> Option<NoticePublisher> {
        let registry = self.registry();
        let topic = registry.topic_by_id(SystemTopic::Everpost.id())?;
        (!topic.subscriptions.is_empty()).then(|| NoticePublisher {
            topic: Arc::clone(topic),
            entropy: self.entropy().clone(),
            now: self.clock().now(),
        })
    }

    /// Returns the request to store the notice of a registry change, if there is one.
    pub(in crate::broker) fn notice_of_change(
        &self,
        change: &RegistryChange,
    ) -> Option<AppendRequest> {
        let notice_publisher = self.notice_publisher()?;
        let notice = notice_of(&self.registry(), change)?;
        Some(notice_publisher.accepted(&notice))
    }

    /// Counts a notice that was stored with a change, and wakes its subscribers.
    pub(in crate::broker) fn on_notice_stored(&self, notice: Arrival) {
        if let Some(topic) = self.registry().topic_by_id(notice.topic) {
            self.meters().published_of_ours(topic, notice.events);
            self.arrived(topic, notice);
        }
    }

    /// Queues a notice for the next [`Broker::publish_notices`].
    pub(in crate::broker) fn note(&self, notice: &Notice) {
        let Some(notice_publisher) = self.notice_publisher() else {
            return;
        };
        let mut waiting = self.shared.notices.events.lock().unwrap();
        if waiting.len() < NOTICES_WAITING_MAX {
            waiting.push(notice_publisher.event(notice));
        } else if let Some(unlogged) = self.shared.notices.dropped.take(notice_publisher.now) {
            tracing::warn!(
                notice = notice.event_type(),
                unlogged,
                "too many notices are queued, so this one is dropped; further ones within a minute are only counted"
            );
        }
    }

    /// Queues the notice that a probation began or ended.
    pub(in crate::broker) fn note_probation(&self, id: SubscriptionId, change: HealthChange) {
        let registry = self.registry();
        let found = registry.subscription(id);
        let Some(of) = found.and_then(|(topic, each)| subscribed(topic, each)) else {
            return;
        };
        match (change.before.probation, change.after.probation) {
            (None, Some(begun)) => self.note(&Notice::ProbationBegun {
                of,
                cause: begun.cause,
                until: begun.until,
            }),
            (Some(before), None) => self.note(&Notice::ProbationEnded {
                of,
                since: before.since,
            }),
            (Some(_), Some(_)) | (None, None) => {}
        }
    }

    /// Queues the notices of a change in disk pressure.
    pub(in crate::broker) fn note_pressure(
        &self,
        before: Option<Pressure>,
        after: Option<Pressure>,
    ) {
        if before == after {
            return;
        }
        if let Some(before) = before {
            self.note(&Notice::DiskPressureEnded(DiskPressure::Early(before)));
        }
        if let Some(after) = after {
            self.note(&Notice::DiskPressureBegun(DiskPressure::Early(after)));
        }
    }

    /// Publishes queued notices and the notices of stored marks. Simulations call this function themselves.
    pub async fn publish_notices(&self) {
        if let Err(error) = self.publish_waiting().await {
            tracing::warn!(%error, "notices could not be published and will be retried");
        }
    }

    async fn publish_waiting(&self) -> Result<(), StoreError> {
        let waiting = &self.shared.notices.events;
        let Some(notice_publisher) = self.notice_publisher() else {
            waiting.lock().unwrap().clear();
            return Ok(());
        };
        let events = std::mem::take(&mut *waiting.lock().unwrap());
        if !events.is_empty() {
            let on_notices_stored = self.publish_system(SystemTopic::Everpost, events.clone());
            if let Err(error) = on_notices_stored.await {
                waiting.lock().unwrap().splice(..0, events);
                return Err(error);
            }
        }
        self.publish_owed(&notice_publisher).await
    }

    /// Publishes the notices for the marks that transactions have stored.
    async fn publish_owed(&self, publisher: &NoticePublisher) -> Result<(), StoreError> {
        let ledger = &self.store().ledger;
        loop {
            let quiet = self.time_scale().shrink(NOTICE_WINDOW);
            let owed = ledger
                .owed_notices(publisher.now, quiet, NOTICES_AT_ONCE_MAX)
                .await?;
            if owed.is_empty() {
                return Ok(()); // as nearly always
            }
            let found = owed.len();
            let events = owed.iter().map(|each| publisher.event(&each.notice));
            let events: Vec<Event> = events.collect();
            let matched = self.match_filters(&publisher.topic, events, None);
            let mut request = matched.await;
            request.notified = owed.into_iter().map(|each| each.mark).collect();
            let published = self.append(&publisher.topic, request).await?.len();
            self.meters().published_of_ours(&publisher.topic, published);
            if found < NOTICES_AT_ONCE_MAX {
                return Ok(());
            }
        }
    }
}

/// Returns the names of a subscription for a notice. Returns `None` for a subscription of a built-in topic, because
/// such subscriptions have no notices.
fn subscribed(topic: &TopicEntry, subscription: &EventSubscription) -> Option<Subscribed> {
    (!topic.topic.kind.is_built_in()).then(|| Subscribed {
        topic: topic.topic.name.clone(),
        name: subscription.name.clone(),
    })
}

/// Returns the notice of a change to this registry, if there is one.
fn notice_of(registry: &Registry, change: &RegistryChange) -> Option<Notice> {
    let (id, definition, validation) = match change {
        RegistryChange::ChangeSubscription {
            id,
            definition,
            validation,
        } => (*id, Some(definition), validation),
        RegistryChange::ChangeValidation { id, validation } => (*id, None, validation),
        RegistryChange::Namespace(_)
        | RegistryChange::AccessRule(_)
        | RegistryChange::AddTopic { .. }
        | RegistryChange::AddQueue { .. }
        | RegistryChange::ChangeQueue { .. }
        | RegistryChange::ChangeTopic { .. }
        | RegistryChange::ChangeKeys { .. }
        | RegistryChange::DeleteTopic { .. }
        | RegistryChange::AddSubscription { .. }
        | RegistryChange::DeleteSubscription { .. }
        | RegistryChange::AddServiceBusSubscription { .. }
        | RegistryChange::PutRule { .. }
        | RegistryChange::DeleteRule { .. } => return None,
    };
    let (topic, current) = registry.subscription(id)?;
    let of = subscribed(topic, current)?;
    if let Some(by) = definition.and_then(|changed| newly_disabled(&current.definition, changed)) {
        return Some(Notice::SubscriptionDisabled { of, by });
    }
    has_newly_failed(&current.validation, validation).then(|| Notice::ValidationFailed {
        of,
        reason: validation.failure.clone().unwrap_or_default(),
    })
}

fn newly_disabled(
    current: &SubscriptionDefinition,
    changed: &SubscriptionDefinition,
) -> Option<DisabledBy> {
    match (current.disabled, changed.disabled) {
        (None, Some(Disabled::ByOperator)) => Some(DisabledBy::Operator),
        (None, Some(Disabled::Gone { .. })) => Some(DisabledBy::Gone),
        (None, None) | (Some(_), _) => None,
    }
}

fn has_newly_failed(current: &Validation, changed: &Validation) -> bool {
    changed.state == ValidationState::Failed && current.state != ValidationState::Failed
}
