//! Publishing: matches events with subscriptions, stores them, and wakes the dispatcher.

pub(super) mod messages;
pub(super) mod notices;
pub(super) mod rejections;
pub(super) mod rules;
pub(super) mod send;
pub(super) mod system;

use std::sync::Arc;

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::broker::background::{MatchingFor, MatchingRun};
use crate::broker::manage::{subscription_target, target};
use crate::broker::publish::messages::{NewMessage, TakenIn, ToMatch};
use crate::broker::publish::rules::MadeCopies;
use crate::model::audit::{AuditAction, Caller};
use crate::model::event::{Event, EventKey};
use crate::model::limits::{
    MESSAGE_BYTES_MAX, RULE_COPIES_BYTES_MAX, RULE_COPIES_MAX, RULE_STEPS_MAX,
};
use crate::model::name::TopicName;
use crate::model::registry::TopicEntry;
use crate::model::subscription::{EventSubscription, SubscriptionId};
use crate::model::topic::{TopicId, TopicKind};
use crate::store::{AppendRequest, Appended, HandedOver, NewEvent, RequestMark, StoreError};
use crate::wire::amqp::DecodeError;

/// The number of filter or rule steps for one event above which evaluation moves to the background. Takes about a
/// tenth of a millisecond.
pub(super) const STEPS_AT_ONCE_MAX: usize = 20_000;

/// The number of steps after which the thread yields to other tasks. Takes about half a millisecond.
pub(super) const STEPS_IN_A_ROW_MAX: usize = 100_000;

/// The number of filter steps after which background evaluation yields, and the number of steps in one turn of the
/// forwarder. Equals the limit for rules, and takes a few milliseconds.
pub(super) const STEPS_OF_A_TURN_MAX: usize = RULE_STEPS_MAX;

/// Stored events, as reported to the dispatcher and the receivers of the subscriptions.
pub(super) struct Arrival {
    topic: TopicId,
    /// A subscription is listed once for each event that it gets.
    targets: Vec<SubscriptionId>,
    events: usize,
    /// Events that match no subscription.
    unmatched: usize,
}

impl Arrival {
    /// Returns the arrival of the events of a request, to report after they are stored.
    pub(super) fn of(request: &AppendRequest) -> Self {
        let events = &request.events;
        Self {
            topic: request.topic,
            targets: events
                .iter()
                .flat_map(|new| &new.targets)
                .copied()
                .collect(),
            events: events.len(),
            unmatched: request.unmatched(),
        }
    }

    /// Replaces the targets by the subscriptions for which deliveries were actually stored.
    fn with_targets(self, targets: Vec<SubscriptionId>) -> Self {
        Self { targets, ..self }
    }

    /// Returns the arrival of deliveries that were created later than their events.
    pub(super) fn later(topic: TopicId, targets: Vec<SubscriptionId>) -> Self {
        Self {
            topic,
            targets,
            events: 0,
            unmatched: 0,
        }
    }
}

/// The reason why events were not accepted. No event was stored, except that
/// after [`StoreError::Closed`] the events may have been stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    #[error("the appliance is stopping")]
    Stopping,
    #[error("the disk is almost full")]
    DiskLow,
    #[error("the topic {0} is built in, and nobody but the appliance publishes to it")]
    BuiltIn(TopicName),
    #[error("the status of {0} does not allow sending to it")]
    SendDisabled(TopicName),
    #[error(
        "{0} is full: its messages would have more than {megabytes} MiB; receive some, or raise maxSizeInMegabytes", megabytes = .1 / (1_024 * 1_024)
    )]
    QuotaExceeded(TopicName, u64),
    #[error(
        "the rules of the topic's subscriptions make more than {RULE_COPIES_MAX} copies of what is sent at once, or \
         more than {} MiB; send fewer messages at once", RULE_COPIES_BYTES_MAX / (1_024 * 1_024)
    )]
    TooManyCopies,
    #[error("a message that is sent to a topic with rules cannot be read: {0}")]
    Unreadable(DecodeError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Broker {
    /// Accepts the events of one request for `topic`, all or none. They are on disk when this function returns, with
    /// a delivery for every matching subscription. A repeated request stores nothing and returns no keys.
    pub async fn publish(
        &self,
        topic: &Arc<TopicEntry>,
        events: Vec<Event>,
        request: Option<RequestMark>,
    ) -> Result<Vec<EventKey>, PublishError> {
        self.may_publish(topic, &events)?;
        let accepted = self.matched(topic, events, None).await?;
        let accepted = AppendRequest {
            request,
            ..accepted
        };
        Ok(self.append(topic, accepted).await?)
    }

    /// Accepts manually entered events like [`Broker::publish`], and records them in the audit log.
    pub async fn publish_by_hand(
        &self,
        by: &Caller,
        topic: &Arc<TopicEntry>,
        events: Vec<Event>,
    ) -> Result<Vec<EventKey>, PublishError> {
        self.may_publish(topic, &events)?;
        let published = AuditAction::PublishEvents {
            events: count(&events),
        };
        let audit = by.did(published, target(topic));
        let accepted = self.matched(topic, events, None).await?;
        let accepted = AppendRequest {
            audit: Some(audit),
            ..accepted
        };
        Ok(self.append(topic, accepted).await?)
    }

    /// Accepts the events of a dead-letter file like [`Broker::publish`], and records the import in the audit log. If
    /// `subscription` is given, only that subscription gets the events, whatever its filter.
    pub async fn import(
        &self,
        by: &Caller,
        topic: &Arc<TopicEntry>,
        subscription: Option<&EventSubscription>,
        events: Vec<Event>,
        request: Option<RequestMark>,
    ) -> Result<Vec<EventKey>, PublishError> {
        self.may_publish(topic, &events)?;
        let target = subscription.map_or_else(
            || target(topic),
            |subscription| subscription_target(topic, subscription),
        );
        let imported = AuditAction::ImportDeadLetters {
            events: count(&events),
        };
        let audit = Some(by.did(imported, target));
        let only = subscription.map(|subscription| subscription.id);
        let accepted = self.matched(topic, events, only).await?;
        let accepted = AppendRequest {
            request,
            audit,
            ..accepted
        };
        Ok(self.append(topic, accepted).await?)
    }

    fn may_publish<'a>(
        &self,
        topic: &TopicEntry,
        events: impl IntoIterator<Item = &'a Event>,
    ) -> Result<(), PublishError> {
        if self.is_stopping() {
            return Err(PublishError::Stopping);
        }
        if topic.topic.kind.is_built_in() {
            return Err(PublishError::BuiltIn(topic.topic.name.clone()));
        }
        self.lets_send(topic, events)
    }

    /// Checks that the disk and the entity have room, and that the status of the queue or topic permits sending.
    pub(super) fn lets_send<'a>(
        &self,
        topic: &TopicEntry,
        events: impl IntoIterator<Item = &'a Event>,
    ) -> Result<(), PublishError> {
        if self.disk_is_low() {
            return Err(PublishError::DiskLow);
        }
        if !topic.lets_send() {
            return Err(PublishError::SendDisabled(topic.topic.name.clone()));
        }
        self.has_room(topic, events)
    }

    /// Checks that the queue or topic has room for these messages. Messages that are being stored are not yet
    /// counted, so concurrent senders can exceed the limit slightly.
    fn has_room<'a>(
        &self,
        topic: &TopicEntry,
        events: impl IntoIterator<Item = &'a Event>,
    ) -> Result<(), PublishError> {
        let Some(most) = topic.bytes_max() else {
            return Ok(());
        };
        let new = events.into_iter().map(|each| u64::from(each.data_bytes()));
        if new.sum::<u64>() <= self.room(topic) {
            Ok(())
        } else {
            Err(PublishError::QuotaExceeded(topic.topic.name.clone(), most))
        }
    }

    /// Returns the number of bytes by which a queue or topic may grow.
    pub(super) fn room(&self, topic: &TopicEntry) -> u64 {
        let most = topic.bytes_max().unwrap_or(u64::MAX);
        most.saturating_sub(self.queue_bytes(&topic.measured))
    }

    /// Returns the maximum size in bytes of a message, or of a batch of messages, to a queue or topic.
    pub fn message_bytes_max(&self, topic: &TopicEntry) -> u64 {
        let options = self.options();
        let (tier, appliance_max) = (options.service_bus_tier, options.message_bytes_max);
        topic.upkeep().map_or(MESSAGE_BYTES_MAX, |upkeep| {
            upkeep.message_bytes_max(tier, appliance_max)
        })
    }

    /// Returns the total size in bytes of the messages in these queues and message subscriptions, including dead
    /// letters.
    pub fn queue_bytes(&self, queues: &[SubscriptionId]) -> u64 {
        self.store().ledger.queue_bytes(queues)
    }

    /// Matches events with the subscriptions of `topic`. If `only` is given, that subscription gets all events.
    pub(super) async fn matched(
        &self,
        topic: &Arc<TopicEntry>,
        events: Vec<Event>,
        only: Option<SubscriptionId>,
    ) -> Result<AppendRequest, PublishError> {
        let mut alone = MadeCopies::default();
        self.matched_beside(topic, events, only, &mut alone).await
    }

    /// Matches messages that are stored in the same change as the copies in `made`.
    pub(super) async fn matched_beside(
        &self,
        topic: &Arc<TopicEntry>,
        messages: Vec<impl ToMatch>,
        only: Option<SubscriptionId>,
        made: &mut MadeCopies,
    ) -> Result<AppendRequest, PublishError> {
        match (&topic.topic.kind, only) {
            (TopicKind::ServiceBus(_), None) => {
                let mut run = MatchingRun::of(MatchingFor::Topic(topic.topic.id));
                let matched = self.match_rules(topic, messages, made, &mut run);
                let mut request = matched.await?;
                if request.deferrable() > self.shared.change_deliveries_max {
                    request.defer_deliveries();
                }
                Ok(request)
            }
            (TopicKind::ServiceBus(_), Some(_))
            | (
                TopicKind::Custom(_)
                | TopicKind::Namespace { .. }
                | TopicKind::Queue(_)
                | TopicKind::System(_),
                _,
            ) => Ok(self.match_filters(topic, messages, only).await),
        }
    }

    /// Matches events with filters. If this makes too many deliveries to event subscriptions for one change, those
    /// deliveries are created later. All deliveries are created at once if some of the events are scheduled or if a
    /// queue has requirements on its messages.
    pub(super) async fn match_filters(
        &self,
        topic: &Arc<TopicEntry>,
        messages: Vec<impl ToMatch>,
        only: Option<SubscriptionId>,
    ) -> AppendRequest {
        let mut request = AppendRequest {
            intake: self.intake(topic),
            ..empty(topic, self.clock().now())
        };
        let (have_sessions, are_messages) = (
            !request.intake.with_sessions.is_empty(),
            !request.measured.is_empty(),
        );
        let are_due = messages.iter().all(ToMatch::is_due);
        request.events.reserve_exact(messages.len());
        let mut deliveries = 0;
        let mut run = MatchingRun::of(MatchingFor::Topic(topic.topic.id));
        for message in messages {
            let NewMessage {
                event,
                scheduled_at,
                time_to_live,
                session,
            } = message.into();
            let at = request.received_at;
            let (event, to) = match only {
                None => self.targets(topic, event, at, &mut run).await,
                Some(only) => (event, vec![only]),
            };
            deliveries += match topic.own {
                None => to.len(),
                Some(_) => to.len().saturating_sub(1), // its own subscription gets all
            };
            let own_life = time_to_live.filter(|_| are_messages);
            request.push(NewEvent {
                due_at: scheduled_at,
                own_life: own_life.map(|life| self.time_scale().shrink(life)),
                session: session.filter(|_| have_sessions),
                ..NewEvent::new(event, to)
            });
            if are_due && deliveries > self.shared.change_deliveries_max {
                request.defer_deliveries();
            }
        }
        request
    }

    /// Stores the events, and reports them to the dispatcher and receivers, even if the caller stops waiting.
    pub(super) async fn append(
        &self,
        topic: &Arc<TopicEntry>,
        accepted: AppendRequest,
    ) -> Result<Vec<EventKey>, StoreError> {
        match self.store_accepted(topic, accepted).await? {
            Appended::Repeated => Ok(Vec::new()),
            Appended::Stored { events, .. } => Ok(events),
        }
    }

    async fn store_accepted(
        &self,
        topic: &Arc<TopicEntry>,
        accepted: AppendRequest,
    ) -> Result<Appended, StoreError> {
        let (accepted, then) = self.ready(topic, accepted);
        self.store().ledger.append(accepted, then).await
    }

    /// Returns the request to store, and the function to call after it is stored.
    pub(super) fn ready(
        &self,
        topic: &Arc<TopicEntry>,
        mut accepted: AppendRequest,
    ) -> (AppendRequest, impl FnOnce(Vec<HandedOver>) + Send + use<>) {
        let later = if accepted.unmatched() < accepted.events.len() {
            self.defer(accepted.topic, accepted.fan_out.is_some())
        } else {
            None
        };
        if later.is_some() {
            accepted.defer_deliveries();
        }
        let goes_on = accepted.is_transfer();
        let (arrival, taken) = (Arrival::of(&accepted), TakenIn::of(&accepted));
        let (broker, topic) = (self.clone(), Arc::clone(topic));
        let then = move |handed_over: Vec<HandedOver>| {
            let arrival = match taken {
                None => arrival,
                Some(taken) => broker.taken_in(&topic, &taken, arrival, &handed_over),
            };
            broker.announce(&topic, &arrival);
            broker.hand_over(handed_over);
            if goes_on {
                broker.shared.forward_wake.notify_one();
            }
            drop(later);
        };
        (accepted, then)
    }

    /// Wakes the dispatcher and the receivers for the subscriptions of stored events.
    pub(super) fn arrived(&self, topic: &TopicEntry, arrival: Arrival) {
        self.announce(topic, &arrival);
        let mut targets = arrival.targets;
        targets.sort_unstable();
        targets.dedup();
        self.note_due(&targets, self.clock().now());
    }

    /// Counts stored events, and wakes receivers of pull subscriptions.
    fn announce(&self, topic: &TopicEntry, arrival: &Arrival) {
        let targets = &arrival.targets;
        self.meters().matched(topic, targets, arrival.unmatched);
        self.note_sent(topic);
        self.announce_arrivals(targets);
        for queue in &topic.ruled_queues {
            self.note_forwarding(queue);
        }
    }
}

fn count(events: &[Event]) -> u64 {
    u64::try_from(events.len()).unwrap_or(u64::MAX)
}

/// Returns a store request without events.
fn empty(topic: &TopicEntry, now: Timestamp) -> AppendRequest {
    AppendRequest {
        measured: Arc::clone(&topic.measured),
        ..AppendRequest::new(topic.topic.id, now, Vec::new())
    }
}

/// Returns the store request for a single event, matched with the filters of the topic.
pub(super) fn matched_alone(topic: &TopicEntry, event: Event, now: Timestamp) -> AppendRequest {
    let targets = topic.fan_out(&event, now);
    AppendRequest {
        events: vec![NewEvent::new(event, targets)],
        ..empty(topic, now)
    }
}
