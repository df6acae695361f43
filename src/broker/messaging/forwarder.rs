//! The forwarder: moves messages and dead letters of queues and subscriptions to the queues and topics that they go on to
//! (rule S4.2).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::broker::publish::rules::MadeCopies;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::event::Event;
use crate::model::lease::{QueueRef, SubQueue};
use crate::model::limits::{
    CHANGE_DELIVERIES_MAX, FORWARDED_AT_ONCE_MAX, HOPS_MAX, LOCK_BYTES_MAX,
};
use crate::model::name::TopicName;
use crate::model::queue::FORWARDS;
use crate::model::registry::TopicEntry;
use crate::model::subscription::EventSubscription;
use crate::model::topic::EntityKind;
use crate::store::{
    AppendRequest, ForwardMark, ForwardQuery, ForwardRequest, Forwardable, StoreError,
};
use crate::wire::service_bus::copy::with_properties;
use crate::wire::service_bus::message;

/// How long the forwarder rests if nothing wakes it: scheduled messages fall due, and definitions change.
const REST: Duration = Duration::from_secs(1);

impl Broker {
    /// Forwards until the broker stops.
    pub async fn run_forwarder(self) {
        loop {
            if let Err(error) = self.forward_all().await {
                tracing::warn!(%error, "messages could not be forwarded; that will be tried again");
            }
            tokio::select! {
                () = self.shared.forward_wake.notified() => {}
                () = tokio::time::sleep(REST) => {}
                () = self.stopping() => return,
            }
        }
    }

    /// Forwards until nothing is left to go on. Simulations call it themselves.
    pub async fn forward_all(&self) -> Result<(), StoreError> {
        while !self.is_stopping() && self.forward_some().await? {}
        Ok(())
    }

    /// A batch of each queue in turn, so that a long one does not hold up the others. Returns whether there may be more.
    async fn forward_some(&self) -> Result<bool, StoreError> {
        let registry = self.registry();
        let mut done = Ok(false);
        let mut queues = Vec::new();
        for topic in registry.topics() {
            queues.extend(topic.ruled_queues.iter().map(|queue| (topic, queue)));
        }
        for (topic, queue) in queues {
            let Some(pulled) = queue.definition.destination.pull_queue() else {
                continue;
            };
            let rules = &pulled.receiving;
            for (from, _) in FORWARDS {
                if let Some(to) = rules.forward_target(from) {
                    let from = QueueRef {
                        subscription: queue.id,
                        queue: from,
                    };
                    let looked_at = self.forward(topic, queue, from, to.name()).await;
                    // The trouble of one must not stop the others.
                    done = looked_at.and_then(|count| Ok(done? || count == FORWARDED_AT_ONCE_MAX));
                }
            }
        }
        done
    }

    /// Forwards some messages. Returns how many were looked at.
    async fn forward(
        &self,
        topic: &TopicEntry,
        queue: &EventSubscription,
        from: QueueRef,
        to: &TopicName,
    ) -> Result<usize, StoreError> {
        let (registry, now) = (self.registry(), self.clock().now());
        let query = ForwardQuery {
            from,
            name: topic.queue_address(queue),
            limit: FORWARDED_AT_ONCE_MAX,
            bytes_max: LOCK_BYTES_MAX,
            now,
        };
        let due = self.store().ledger.forwardable(query).await?;
        if due.is_empty() {
            return Ok(0); // as nearly always, and nothing is written
        }
        let is_for_messages = |to: &&Arc<TopicEntry>| to.topic.kind.takes_messages();
        let to = registry.topic(to).filter(is_for_messages);
        let (mut moves, mut announce) = (Vec::new(), Vec::new());
        let (looked_at, mut size) = (due.len(), Size::default());
        for message in due {
            if size.is_enough() {
                break; // the rest has its turn next
            }
            tokio::task::yield_now().await; // to read and change a message keeps the thread busy
            let delivery = message.delivery;
            let onward = self.onward(message, to).await.map(|(to, request)| {
                size.add(&request);
                self.ready(to, request)
            });
            let (onward, then) = match onward {
                Ok((request, then)) => (Ok(request), Some(then)),
                Err(reason) => (Err(reason), None),
            };
            moves.push((delivery, onward));
            announce.push(then);
        }
        let request = ForwardRequest { from, moves, now };
        let ended = self.store().ledger.forward(request, announce).await?;
        if from.queue == SubQueue::Active {
            self.on_settled(topic, queue, &ended);
        }
        Ok(looked_at)
    }

    /// What a message becomes where it goes, or why it cannot go on.
    async fn onward<'a>(
        &self,
        message: Forwardable,
        to: Option<&'a Arc<TopicEntry>>,
    ) -> Result<(&'a Arc<TopicEntry>, AppendRequest), DeadLetterReason> {
        if message.hops >= HOPS_MAX {
            return Err(DeadLetterReason::MaxTransferHopCountExceeded);
        }
        let to = to.ok_or(DeadLetterReason::ForwardTargetMissing)?;
        if !to.lets_send() {
            return Err(DeadLetterReason::ForwardTargetDisabled);
        }
        let event = message.event.ok_or(DeadLetterReason::EventUnreadable)?;
        let mut mark = message.mark;
        let (event, now) = (told(event, to, &mut mark), self.clock().now());
        if u64::from(event.data_bytes()) + u64::from(mark.bytes()) > self.room(to) {
            return Err(DeadLetterReason::ForwardTargetFull);
        }
        // What an action of a rule has set for its copy; what a sender has set is over.
        let scheduled_at = scheduled_at(&event).filter(|at| *at > now);
        let scheduled: BTreeMap<_, _> = scheduled_at.map(|at| (0, at)).into_iter().collect();
        let request = match &to.own {
            Some(queue) => {
                let only = Some(queue.id);
                self.match_filters(to, vec![event], only, scheduled).await
            }
            None => {
                let mut alone = MadeCopies::default();
                let matched = self.match_rules(to, vec![event], &scheduled, &mut alone);
                matched
                    .await
                    .map_err(|_| DeadLetterReason::EventUnreadable)?
            }
        };
        let forwarded = Some(Box::new(mark));
        Ok((
            to,
            AppendRequest {
                forwarded,
                ..request
            },
        ))
    }

    /// Lets the forwarder look, since something has arrived that may have to go on.
    pub(in crate::broker) fn note_forwarding(&self, queue: &EventSubscription) {
        let pulled = queue.definition.destination.pull_queue();
        if pulled.is_some_and(|pulled| pulled.receiving.forward()) {
            self.shared.forward_wake.notify_one();
        }
    }
}

/// The message as the rules of a topic see it: with the properties that receivers have set.
fn told(event: Event, to: &TopicEntry, mark: &mut ForwardMark) -> Event {
    let has_rules = to.topic.kind.entity() == EntityKind::ServiceBusTopic;
    let set = mark.properties.as_deref().filter(|_| has_rules);
    match set.and_then(|set| with_properties(&event, set)) {
        Some(told) => {
            mark.properties = None;
            told
        }
        None => event,
    }
}

fn scheduled_at(event: &Event) -> Option<Timestamp> {
    let at = message::of_event(event)?.scheduled_enqueue_ms().ok()??;
    Some(Timestamp::from_ms(at))
}

/// What one change has so far.
#[derive(Default)]
struct Size {
    copies: usize,
    bytes: usize,
}

impl Size {
    fn add(&mut self, request: &AppendRequest) {
        for (event, targets) in &request.events {
            self.copies += targets.len().max(1);
            self.bytes += event.size();
        }
    }

    fn is_enough(&self) -> bool {
        self.copies >= CHANGE_DELIVERIES_MAX || self.bytes >= LOCK_BYTES_MAX
    }
}
