//! Resubmission of dead letters: a single dead letter, a selection, or the batch of a replay job.
//!
//! This module decides about the deliveries as they were read. The store then applies the decisions in one
//! transaction, and skips deliveries that have changed meanwhile. A resubmission to a URL is one request, and its
//! response decides the result.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use tokio::task::JoinSet;

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::broker::background::{MatchingFor, MatchingRun};
use crate::broker::manage::target;
use crate::broker::publish::messages::session_at;
use crate::model::audit::{AuditAction, AuditEntry, AuditTarget, Caller, TargetKind};
use crate::model::batch::BatchPolicy;
use crate::model::credentials::Credentials;
use crate::model::delivery::{AttemptResult, DeliveryAttempt, DeliveryId, DeliveryState, Outcome};
use crate::model::destination::{EndpointUrl, WebHook};
use crate::model::event::{Event, EventData, StoredEvent};
use crate::model::lease::is_held;
use crate::model::registry::{Registry, TopicEntry};
use crate::model::replay::{NotResubmitted, ReplayTarget, check_loop_guard};
use crate::model::subscription::{EventSubscription, SubscriptionId};
use crate::model::topic::EntityKind;
use crate::model::topic::InputSchema;
use crate::outbound::DeliveryRequest;
use crate::store::{
    self, CandidateQuery, MessageFacts, ResubmitCandidate, ResubmitOutcome, ResubmitTarget,
    Resubmitted, ResubmittedDelivery, StoreError,
};
use crate::wire::service_bus::{message, readable};
use crate::wire::{self, BadInput};

/// Dead letters to resubmit.
#[derive(Clone, Debug)]
pub struct DeadLetterResubmission {
    /// The dead letters to resubmit: at most [`crate::model::limits::REPLAY_BATCH_MAX`], or at most
    /// [`crate::model::limits::REPLAY_REQUESTS_MAX`] if the target is a URL.
    pub deliveries: Vec<DeliveryId>,
    pub target: ReplayTarget,
    /// The replacement of the event. Allowed only for a single dead letter.
    pub edit: Option<EventEdit>,
}

/// A replacement of an event, as JSON text.
#[derive(Clone, Debug)]
pub enum EventEdit {
    /// A whole event in the input schema of its topic. For a message, the text is the new body and need not be JSON.
    Event(String),
    /// The new data of the event. With a custom input schema, where all of the event is data, the new event. For a
    /// message, the new body: a JSON string becomes plain text unless the content type of the message is JSON.
    Data(String),
}

/// The reason why a dead letter was not resubmitted. The dead letter is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResubmitError {
    #[error("there is no delivery {0}")]
    NotFound(DeliveryId),
    #[error("delivery {0} is {state}, and only a dead-lettered one can be resubmitted", state = .1.name())]
    NotDeadLettered(DeliveryId, DeliveryState),
    #[error("delivery {0} is locked until {1}")]
    Locked(DeliveryId, Timestamp),
    #[error("delivery {0} is not resubmitted: {explanation}", explanation = .1.explanation())]
    Rejected(DeliveryId, NotResubmitted),
    #[error("delivery {0} is not resubmitted: {1}")]
    EndpointFailed(DeliveryId, String),
    #[error(transparent)]
    InvalidEvent(#[from] BadInput),
    #[error("the appliance is stopping")]
    Stopping,
    #[error("the disk is almost full")]
    DiskLow,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The decision about a candidate.
pub(super) type Decided = Result<ResubmittedDelivery, (ResubmitCandidate, NotResubmitted)>;

/// A pending request to a URL.
struct UrlRequest {
    of: ResubmitCandidate,
    topic: Arc<TopicEntry>,
    /// The original subscription of the delivery, with the URL as its webhook.
    subscription: EventSubscription,
    url: EndpointUrl,
    event: StoredEvent,
    edited: Option<Event>,
}

enum ResubmitStep {
    Store(Box<ResubmitTarget>),
    Request(Box<UrlRequest>),
}

impl Broker {
    /// Resubmits a dead letter to its original subscription. Returns the new delivery.
    pub async fn resubmit(&self, by: &Caller, id: DeliveryId) -> Result<DeliveryId, ResubmitError> {
        let request = DeadLetterResubmission {
            deliveries: vec![id],
            target: ReplayTarget::Subscription,
            edit: None,
        };
        let mut done = self.resubmit_all(by, request).await?;
        let (_, resubmitted) = done.pop().expect("one result for each");
        let fresh = resubmitted?.delivery;
        Ok(fresh.expect("its own subscription gets a delivery"))
    }

    /// Resubmits dead letters, ignoring repeated ids. Returns one result for each id, in the order of the request.
    pub async fn resubmit_all(
        &self,
        by: &Caller,
        request: DeadLetterResubmission,
    ) -> Result<Vec<(DeliveryId, Result<Resubmitted, ResubmitError>)>, ResubmitError> {
        if self.is_stopping() {
            return Err(ResubmitError::Stopping);
        }
        if self.disk_is_low() {
            return Err(ResubmitError::DiskLow);
        }
        let mut ids = request.deliveries.clone();
        let mut seen = HashSet::new();
        ids.retain(|id| seen.insert(*id));
        let query = CandidateQuery::Ids(ids.clone());
        let found = self.store().ledger.candidates(query).await?;
        let (dead, others): (Vec<_>, Vec<_>) = found
            .candidates
            .into_iter()
            .partition(|each| each.state == DeliveryState::DeadLettered);
        let mut results: HashMap<_, _> = others
            .iter()
            .map(|each| {
                let error = ResubmitError::NotDeadLettered(each.delivery, each.state);
                (each.delivery, Err(error))
            })
            .collect();
        let is_readable = |each: &ResubmitCandidate| each.event.is_some() || request.edit.is_some();
        let (dead, damaged): (Vec<_>, Vec<_>) = dead.into_iter().partition(is_readable);
        results.extend(damaged.iter().map(|each| {
            // A new delivery of an unreadable event would be dead-lettered again for the same reason.
            let error = ResubmitError::Rejected(each.delivery, NotResubmitted::EventUnreadable);
            (each.delivery, Err(error))
        }));
        let edited = match (&request.edit, dead.first()) {
            (Some(edit), Some(of)) => Some(self.edited(edit, of)?),
            _ => None,
        };
        let decided = self.decide_all(dead, &request.target, edited).await;
        let audit = self.audit_resubmission(by, &request);
        results.extend(self.carry_out(decided, audit).await?);
        Ok(ids
            .into_iter()
            .map(|id| {
                let result = results.remove(&id);
                (id, result.unwrap_or(Err(ResubmitError::NotFound(id))))
            })
            .collect())
    }

    fn audit_resubmission(&self, by: &Caller, request: &DeadLetterResubmission) -> AuditEntry {
        let to = match &request.target {
            ReplayTarget::Subscription => None,
            ReplayTarget::Topic(None) => Some("its own topic".to_owned()),
            ReplayTarget::Topic(Some(id)) => {
                let registry = self.registry();
                let topic = registry.topic_by_id(*id);
                topic.map(|entry| target(entry).to_string())
            }
            ReplayTarget::Url(url) => Some(url.base().to_owned()),
        };
        let action = AuditAction::Resubmit {
            dead_letters: 0, // the store knows
            to,
            edited: request.edit.is_some(),
        };
        let target = match request.deliveries.as_slice() {
            [id] => TargetKind::DeadLetter.named(*id),
            _ => AuditTarget::appliance(),
        };
        by.did(action, target)
    }

    /// Stores the decisions in changes of bounded size. Each change has its own audit entry with its number of dead
    /// letters.
    async fn carry_out(
        &self,
        decided: Vec<Decided>,
        audit: AuditEntry,
    ) -> Result<Vec<(DeliveryId, Result<Resubmitted, ResubmitError>)>, StoreError> {
        let mut results = Vec::new();
        let mut resubmissions = Vec::new();
        for each in decided {
            match each {
                Ok(resubmission) => resubmissions.push(resubmission),
                Err((of, rejection)) => {
                    let error = match (rejection, of.locked_until) {
                        (NotResubmitted::Locked, Some(until)) => {
                            ResubmitError::Locked(of.delivery, until)
                        }
                        _ => ResubmitError::Rejected(of.delivery, rejection),
                    };
                    results.push((of.delivery, Err(error)));
                }
            }
        }
        let now = self.clock().now();
        while !resubmissions.is_empty() {
            let deliveries = resubmissions.iter().map(deliveries_of);
            let rest = resubmissions.split_off(self.resubmitted_at_once(deliveries));
            let ids: Vec<_> = resubmissions.iter().map(|each| each.of.delivery).collect();
            let request = store::ResubmitRequest {
                resubmissions: std::mem::replace(&mut resubmissions, rest),
                step: None,
                audit: Some(audit.clone()),
                now,
            };
            let done = self.store().ledger.resubmit(request).await?;
            let outcomes = done.map(|done| done.outcomes).unwrap_or_default();
            for (id, outcome) in ids.into_iter().zip(outcomes) {
                results.push((id, self.on_outcome(id, outcome, now)));
            }
        }
        Ok(results)
    }

    fn on_outcome(
        &self,
        id: DeliveryId,
        outcome: ResubmitOutcome,
        now: Timestamp,
    ) -> Result<Resubmitted, ResubmitError> {
        match outcome {
            ResubmitOutcome::Resubmitted(done) => {
                self.follow_up(std::slice::from_ref(&done), now);
                Ok(done)
            }
            ResubmitOutcome::Rejected(error) => Err(ResubmitError::EndpointFailed(id, error)),
            ResubmitOutcome::Stale => {
                Err(ResubmitError::Rejected(id, NotResubmitted::NotDeadLettered))
            }
        }
    }

    /// Returns the number of resubmissions that fit into one change, at least one. `deliveries` has the number of
    /// deliveries that each resubmission makes.
    pub(super) fn resubmitted_at_once(&self, deliveries: impl Iterator<Item = usize>) -> usize {
        let most = self.shared.change_deliveries_max;
        let sums = deliveries.scan(0, |sum, each| {
            *sum += each;
            Some(*sum)
        });
        sums.take_while(|sum| *sum <= most).count().max(1)
    }

    /// Counts resubmissions, and wakes the dispatcher and the receivers. Returns the subscriptions that have new
    /// deliveries.
    pub(super) fn follow_up(&self, done: &[Resubmitted], now: Timestamp) -> Vec<SubscriptionId> {
        let registry = self.registry();
        self.meters().resubmitted(done.len());
        for each in done {
            if let Some(topic) = each.topic.and_then(|id| registry.topic_by_id(id)) {
                self.meters().matched(topic, &each.subscriptions, 0);
            }
        }
        let targets = done.iter().flat_map(|each| &each.subscriptions);
        let mut targets: Vec<_> = targets.copied().collect();
        self.announce_arrivals(&targets);
        targets.sort_unstable();
        targets.dedup();
        self.note_due(&targets, now);
        targets
    }

    /// Returns the event of a candidate with the edit applied.
    fn edited(&self, edit: &EventEdit, of: &ResubmitCandidate) -> Result<Event, ResubmitError> {
        let registry = self.registry();
        let deleted = || ResubmitError::Rejected(of.delivery, NotResubmitted::TopicDeleted);
        let entry = registry.topic_by_id(of.topic).ok_or_else(deleted)?;
        let schema = entry.topic.kind.input_schema();
        let unreadable = || ResubmitError::Rejected(of.delivery, NotResubmitted::EventUnreadable);
        let original = of.event.as_ref().ok_or_else(unreadable)?;
        let message = match edit {
            EventEdit::Event(body) => message::with_text(&original.event, body),
            EventEdit::Data(data) => readable::with_data(&original.event, data),
        };
        if let Some(message) = message {
            return Ok(message);
        }
        match (edit, schema) {
            (
                EventEdit::Data(data),
                InputSchema::EventGridSchema | InputSchema::CloudEventSchemaV1_0,
            ) => Ok(Event {
                data: EventData::Json(data.clone()),
                ..original.event.clone()
            }),
            (EventEdit::Event(event), _)
            | (EventEdit::Data(event), InputSchema::CustomEventSchema(_)) => {
                Ok(self.decode_one(entry, event)?)
            }
        }
    }

    /// Decodes one event in the input schema of its topic.
    fn decode_one(&self, entry: &TopicEntry, event: &str) -> Result<Event, BadInput> {
        let schema = entry.topic.kind.input_schema();
        let (kind, body) = match schema {
            InputSchema::CloudEventSchemaV1_0 => ("application/cloudevents+json", event.to_owned()),
            InputSchema::EventGridSchema | InputSchema::CustomEventSchema(_) => {
                ("application/json", format!("[{event}]"))
            }
        };
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
        let (topic, now) = (&entry.resource_id, self.clock().now());
        let bytes = body.as_bytes();
        let mut events = wire::decode(schema, topic, &headers, bytes, now, self.entropy())?;
        Ok(events.pop().expect("one event goes in, so one comes out"))
    }

    /// Decides about each candidate, and makes the requests to a URL concurrently.
    pub(super) async fn decide_all(
        &self,
        candidates: Vec<ResubmitCandidate>,
        target: &ReplayTarget,
        edited: Option<Event>,
    ) -> Vec<Decided> {
        let (registry, now) = (self.registry(), self.clock().now());
        let mut decided = Vec::with_capacity(candidates.len());
        let mut asking = JoinSet::new();
        for of in candidates {
            let step = self.decide(&registry, &of, target, edited.clone(), now);
            match step.await {
                Err(rejection) => decided.push(Err((of, rejection))),
                Ok(ResubmitStep::Store(to)) => {
                    decided.push(Ok(ResubmittedDelivery { of, to: *to }));
                }
                Ok(ResubmitStep::Request(request)) => {
                    let broker = self.clone();
                    asking.spawn(async move { broker.send_to_url(*request).await });
                }
            }
        }
        while let Some(asked) = asking.join_next().await {
            decided.push(Ok(asked.expect("a request does not panic")));
        }
        decided
    }

    async fn decide(
        &self,
        registry: &Registry,
        of: &ResubmitCandidate,
        target: &ReplayTarget,
        edited: Option<Event>,
        now: Timestamp,
    ) -> Result<ResubmitStep, NotResubmitted> {
        if of.locked_until.is_some_and(|until| is_held(until, now)) {
            return Err(NotResubmitted::Locked);
        }
        check_loop_guard(of.generation, self.options().resubmissions_max)?;
        let event = || {
            of.event
                .as_deref()
                .cloned()
                .ok_or(NotResubmitted::EventUnreadable)
        };
        match target {
            ReplayTarget::Subscription => {
                let own = registry.subscription(of.subscription);
                let (_, own) = own.ok_or(NotResubmitted::SubscriptionDeleted)?;
                if of.session.is_none() && own.has_sessions() {
                    return Err(NotResubmitted::SessionIdMissing);
                }
                Ok(ResubmitStep::Store(Box::new(
                    ResubmitTarget::Subscription { edited },
                )))
            }
            ReplayTarget::Topic(other) => {
                let topic = |id| {
                    let found = registry.topic_by_id(id);
                    found.ok_or(NotResubmitted::TopicDeleted)
                };
                let (own, to) = (topic(of.topic)?, topic(other.unwrap_or(of.topic))?);
                let event = match edited {
                    Some(edited) => edited,
                    None => event()?.event,
                };
                self.publish_anew(own, to, event, now).await
            }
            ReplayTarget::Url(url) => {
                let own = registry.subscription(of.subscription);
                let (topic, own) = own.ok_or(NotResubmitted::SubscriptionDeleted)?;
                let mut event = event()?;
                if let Some(edited) = &edited {
                    event.event = edited.clone();
                }
                Ok(ResubmitStep::Request(Box::new(UrlRequest {
                    of: of.clone(),
                    topic: Arc::clone(topic),
                    subscription: with_webhook(own, url),
                    url: url.clone(),
                    event,
                    edited,
                })))
            }
        }
    }

    async fn publish_anew(
        &self,
        own: &TopicEntry,
        to: &Arc<TopicEntry>,
        event: Event,
        now: Timestamp,
    ) -> Result<ResubmitStep, NotResubmitted> {
        if to.topic.kind.is_built_in() {
            return Err(NotResubmitted::BuiltInTopic);
        }
        if own.topic.kind.input_schema() != to.topic.kind.input_schema() {
            return Err(NotResubmitted::OtherSchema);
        }
        if to.topic.kind.entity() == EntityKind::ServiceBusTopic {
            return Err(NotResubmitted::ServiceBusTopic);
        }
        let mut run = MatchingRun::of(MatchingFor::Topic(to.topic.id));
        let (event, targets) = self.targets(to, event, now, &mut run).await;
        if targets.is_empty() {
            return Err(NotResubmitted::Unmatched);
        }
        let queue = to.own.as_ref().filter(|queue| targets.contains(&queue.id));
        let queue = match queue.map(|queue| (queue.id, session_at(queue, &event))) {
            Some((_, Some(None))) => return Err(NotResubmitted::SessionIdMissing),
            found => found.map(|(queue, session)| {
                let facts = MessageFacts {
                    session: session.flatten(),
                    bytes: Some(event.data_bytes()),
                    own_life: self.own_life(&event),
                };
                (queue, facts)
            }),
        };
        Ok(ResubmitStep::Store(Box::new(ResubmitTarget::Topic {
            topic: to.topic.id,
            event,
            targets,
            queue,
        })))
    }

    /// Sends one request to a URL. A response after the deadline is ignored, since it would have no effect.
    async fn send_to_url(&self, request: UrlRequest) -> ResubmittedDelivery {
        let started_at = self.clock().now();
        let delivery_request = DeliveryRequest {
            subscription: &request.subscription,
            topic_resource_id: &request.topic.resource_id,
            events: &[&request.event],
            delivery_count: request.of.attempts,
            deadline: self.options().response_deadline,
        };
        let sent = self.outbound().deliver(delivery_request, None).await;
        let result = sent.map_or_else(not_sent, |sent| sent.result);
        let is_delivered = result.outcome == Outcome::Delivered;
        let error = endpoint_error(&result);
        let attempt = Arc::new(DeliveryAttempt {
            attempt: request.of.attempts + 1,
            started_at,
            duration: self.clock().now().since(started_at),
            result,
            late: None,
        });
        let to = if is_delivered {
            ResubmitTarget::Url {
                url: request.url,
                attempt,
                edited: request.edited,
            }
        } else {
            ResubmitTarget::Rejected { attempt, error }
        };
        ResubmittedDelivery { of: request.of, to }
    }
}

/// Returns the number of deliveries that a resubmission makes.
pub(super) fn deliveries_of(resubmission: &ResubmittedDelivery) -> usize {
    match &resubmission.to {
        ResubmitTarget::Topic { targets, .. } => targets.len(),
        ResubmitTarget::Subscription { .. } => 1,
        ResubmitTarget::Url { .. } | ResubmitTarget::Rejected { .. } => 0,
    }
}

/// Returns the subscription with another webhook. Omits its custom headers and credentials, which are secrets of the
/// original receiver.
fn with_webhook(own: &EventSubscription, url: &EndpointUrl) -> EventSubscription {
    let pace = *own.definition.destination.pace();
    let mut subscription = own.clone();
    subscription.definition.destination = WebHook {
        endpoint_url: url.clone(),
        batch: BatchPolicy::default(),
        pace,
        attribute_mappings: Vec::new(),
        credentials: Credentials::default(),
        skip_validation: true,
    }
    .into();
    subscription
}

/// Returns the dead letters that were resubmitted.
pub(super) fn resubmitted(outcomes: Vec<ResubmitOutcome>) -> Vec<Resubmitted> {
    let done = outcomes.into_iter().filter_map(|outcome| match outcome {
        ResubmitOutcome::Resubmitted(done) => Some(done),
        ResubmitOutcome::Rejected(_) | ResubmitOutcome::Stale => None,
    });
    done.collect()
}

/// Returns the result of a request that was not sent because too many host names are being looked up. The error is
/// returned to the caller, who can try again.
fn not_sent() -> AttemptResult {
    AttemptResult {
        error: Some("too many host names are being looked up".to_owned()),
        ..AttemptResult::of(Outcome::ResolutionError)
    }
}

/// Returns the reason why an endpoint did not accept the event.
fn endpoint_error(result: &AttemptResult) -> String {
    match (result.status(), &result.error) {
        (Some(status), _) => format!("the URL answered {status}"),
        (None, Some(error)) => format!("the URL could not be called: {error}"),
        (None, None) => format!("the URL could not be called: {}", result.outcome.name()),
    }
}
