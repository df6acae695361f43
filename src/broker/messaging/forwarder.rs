//! Forwarder: moves messages and dead letters from queues and subscriptions to their forwarding targets (rule S4.2).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::broker::background::{MatchingFor, MatchingRun};
use crate::broker::publish::STEPS_OF_A_TURN_MAX;
use crate::broker::publish::messages::NewMessage;
use crate::broker::publish::rules::MadeCopies;
use crate::model::dead_letter::DeadLetterReason;
use crate::model::event::Event;
use crate::model::lease::{QueueRef, SubQueue};
use crate::model::limits::{
    CHANGE_DELIVERIES_MAX, FORWARD_COPIES_MAX, FORWARDED_AT_ONCE_MAX, HEAD_BYTES_MAX, HOPS_MAX,
    LOCK_BYTES_MAX,
};
use crate::model::name::TopicName;
use crate::model::queue::FORWARDS;
use crate::model::registry::TopicEntry;
use crate::model::subscription::EventSubscription;
use crate::model::topic::{EntityKind, TopicId};
use crate::store::{
    AppendRequest, ForwardMark, ForwardQuery, ForwardRequest, Forwardable, StoreError,
};
use crate::wire::service_bus::copy::with_properties;
use crate::wire::service_bus::message;

/// Pause of the forwarder if nothing wakes it earlier. Limits the delay after a scheduled message becomes due or a
/// definition changes.
const REST: Duration = Duration::from_secs(1);

/// Maximum number of sources that one turn of a queue or topic checks. Checking costs time even if a source is empty.
const LOOKS_OF_A_TURN_MAX: usize = 32;

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

    /// Forwards until no more messages can be forwarded. Simulations call this directly.
    pub async fn forward_all(&self) -> Result<(), StoreError> {
        let mut turns = ForwardTurns::default();
        while !self.is_stopping() && self.forward_some(&mut turns).await? {}
        Ok(())
    }

    /// Gives each queue and topic one turn, so that a long queue or a topic with many subscriptions does not delay the
    /// others. Returns whether more messages may be left to forward.
    async fn forward_some(&self, turns: &mut ForwardTurns) -> Result<bool, StoreError> {
        let registry = self.registry();
        let mut done = Ok(false);
        for topic in registry.topics() {
            let turn = self.forward_of_topic(topic, turns).await;
            // An error in one queue or topic must not stop the others.
            done = turn.and_then(|more| Ok(done? || more));
        }
        done
    }

    /// Forwards some messages of a queue, or of the subscriptions of a topic in rotation. Returns whether more messages
    /// may be left to forward.
    async fn forward_of_topic(
        &self,
        topic: &TopicEntry,
        turns: &mut ForwardTurns,
    ) -> Result<bool, StoreError> {
        let mut sources = forwarding_sources(topic);
        sources.extend(self.transfer_source(topic));
        if sources.is_empty() {
            return Ok(false); // as with every topic of events
        }
        let turn = turns.0.entry(topic.topic.id).or_insert(ForwardTurn {
            next: 0,
            left: sources.len(),
        });
        let (mut size, mut done) = (Size::none(), Ok(()));
        for _ in 0..sources.len().min(LOOKS_OF_A_TURN_MAX) {
            if size.is_enough() {
                break;
            }
            let source = &sources[turn.next % sources.len()];
            turn.next = (turn.next + 1) % sources.len();
            match self.forward(topic, source, &mut size).await {
                Ok(true) => turn.left = sources.len(),
                Ok(false) => turn.left = turn.left.saturating_sub(1),
                Err(error) => {
                    turn.left = turn.left.saturating_sub(1);
                    done = Err(error);
                }
            }
        }
        done.map(|()| turn.left > 0)
    }

    /// Forwards messages from one source up to the remaining limits of the turn. Returns whether more messages may be
    /// left to forward.
    async fn forward(
        &self,
        topic: &TopicEntry,
        source: &ForwardSource<'_>,
        size: &mut Size,
    ) -> Result<bool, StoreError> {
        let (registry, now) = (self.registry(), self.clock().now());
        let ForwardSource { queue, from, to } = *source;
        let query = ForwardQuery {
            from,
            name: topic.queue_address(queue),
            limit: FORWARDED_AT_ONCE_MAX - size.messages,
            bytes_max: LOCK_BYTES_MAX,
            now,
        };
        let limit = query.limit;
        let due = self.store().ledger.forwardable(query).await?;
        if due.is_empty() {
            return Ok(false); // as nearly always, and nothing is written
        }
        let mut more = due.len() == limit;
        let is_for_messages = |to: &&Arc<TopicEntry>| to.topic.kind.takes_messages();
        let first_copies = first_copies_max(topic);
        let (mut moves, mut announce) = (Vec::new(), Vec::new());
        for mut message in due {
            if size.is_enough() {
                more = true; // the rest has its turn next
                break;
            }
            tokio::task::yield_now().await; // to read and change a message keeps the thread busy
            let found = match to {
                Some(name) => registry.topic(name),
                None => message.transfer_to.and_then(|id| registry.topic_by_id(id)),
            };
            let target = found.filter(is_for_messages);
            if message.hops == 0 && message.transfer_to.is_none() {
                message.copies = first_copies.of(message.copies);
            }
            size.messages += 1;
            let delivery = message.delivery;
            let moved = self.onward(message, target, &mut size.matching).await;
            let (onward, then) = match moved {
                Ok((to, request)) => {
                    size.add(&request);
                    let (request, then) = self.ready(to, request);
                    (Ok(request), Some(then))
                }
                Err(reason) => (Err(reason), None),
            };
            moves.push((delivery, onward));
            announce.push(then);
        }
        let request = ForwardRequest { from, moves, now };
        let ended = self.store().ledger.forward(request, announce).await?;
        if from.subscription != queue.id {
            self.announce_dead_letters(from.subscription, &ended);
        } else if from.queue == SubQueue::Active {
            self.on_settled(topic, queue, &ended);
        }
        Ok(more)
    }

    /// Returns the transfer queue of a queue if it is not empty.
    fn transfer_source<'a>(&self, topic: &'a TopicEntry) -> Option<ForwardSource<'a>> {
        let queue = topic.own.as_deref()?;
        let from = QueueRef::pending(queue.id.transfers());
        let is_used = self.queue_bytes(&[from.subscription]) > 0;
        is_used.then_some(ForwardSource {
            queue,
            from,
            to: None,
        })
    }

    /// Returns the target of a message and the request to store the message there, or the reason why the message cannot
    /// be forwarded.
    async fn onward<'a>(
        &self,
        message: Forwardable,
        to: Option<&'a Arc<TopicEntry>>,
        run: &mut MatchingRun,
    ) -> Result<(&'a Arc<TopicEntry>, AppendRequest), DeadLetterReason> {
        if message.hops >= HOPS_MAX {
            return Err(DeadLetterReason::MaxTransferHopCountExceeded);
        }
        let target = to.ok_or(DeadLetterReason::ForwardTargetMissing)?;
        if !target.lets_send() {
            return Err(DeadLetterReason::ForwardTargetDisabled);
        }
        let event = message.event.ok_or(DeadLetterReason::EventUnreadable)?;
        let mut mark = message.mark;
        let (event, now) = (told(event, target, &mut mark), self.clock().now());
        // Allows for growth of the header and properties on the way: a message gets an id, and rules set properties.
        if u64::from(event.data_bytes()) > self.message_bytes_max(target) + HEAD_BYTES_MAX as u64 {
            return Err(DeadLetterReason::MessageSizeExceeded);
        }
        if u64::from(event.data_bytes()) + u64::from(mark.bytes()) > self.room(target) {
            return Err(DeadLetterReason::ForwardTargetFull);
        }
        // Keeps a scheduled time set by a rule action; a time set by the sender has already passed.
        let later = scheduled_at(&event).filter(|at| *at > now);
        let messages = vec![NewMessage::from(event).scheduled(later)];
        let request = match &target.own {
            Some(queue) => {
                let only = Some(queue.id);
                self.match_filters(target, messages, only).await
            }
            None => {
                let mut alone = MadeCopies::default();
                let matched = self.match_rules(target, messages, &mut alone, run);
                matched
                    .await
                    .map_err(|_| DeadLetterReason::EventUnreadable)?
            }
        };
        mark.copies = copies_after(message.copies, &request)?;
        let forwarded = Some(Box::new(mark));
        Ok((
            target,
            AppendRequest {
                forwarded,
                ..request
            },
        ))
    }

    /// Wakes the forwarder after an arrival, if the queue or subscription forwards its messages.
    pub(in crate::broker) fn note_forwarding(&self, queue: &EventSubscription) {
        let pulled = queue.definition.destination.pull_queue();
        if pulled.is_some_and(|pulled| pulled.receiving.forward()) {
            self.shared.forward_wake.notify_one();
        }
    }
}

/// State of the next turn, per queue and topic.
#[derive(Default)]
struct ForwardTurns(HashMap<TopicId, ForwardTurn>);

/// Position at which a queue or topic continues in its next turn.
struct ForwardTurn {
    /// Index of the next source.
    next: usize,
    /// Number of sources that must still be found empty before the queue or topic is done.
    left: usize,
}

/// Source of forwarding: the active or dead-letter part of a queue or subscription, or a transfer queue.
#[derive(Clone, Copy)]
struct ForwardSource<'a> {
    queue: &'a EventSubscription,
    from: QueueRef,
    /// Forwarding target; `None` for a transfer queue, in which each message has its own target.
    to: Option<&'a TopicName>,
}

fn forwarding_sources(topic: &TopicEntry) -> Vec<ForwardSource<'_>> {
    let each = topic.ruled_queues.iter().flat_map(|queue| {
        FORWARDS.into_iter().filter_map(move |(part, _)| {
            let pulled = queue.definition.destination.pull_queue()?;
            let to = pulled.receiving.forward_target(part)?.name();
            let from = QueueRef {
                subscription: queue.id,
                queue: part,
            };
            Some(ForwardSource {
                queue,
                from,
                to: Some(to),
            })
        })
    });
    each.collect()
}

/// Upper limit for the copies of a message that are forwarded from the entity it was sent to.
#[derive(Clone, Copy, Default)]
struct FirstCopies {
    /// Number of queues or subscriptions that forward.
    queues: u32,
    /// Number of rules with actions in these queues or subscriptions. Each such rule makes a separate copy, which only
    /// its subscription gets.
    actions: u32,
}

impl FirstCopies {
    /// Returns the maximum number of forwarded copies of a message that matched `matched` subscriptions.
    fn of(self, matched: u32) -> u32 {
        matched.min(self.queues) + self.actions
    }
}

fn first_copies_max(topic: &TopicEntry) -> FirstCopies {
    let mut max = FirstCopies::default();
    for queue in &topic.ruled_queues {
        let pulled = queue.definition.destination.pull_queue();
        if pulled.is_some_and(|pulled| pulled.receiving.forward()) {
            max.queues += 1;
            for rule in topic.rules.of(queue.id) {
                max.actions += u32::from(rule.action.is_some());
            }
        }
    }
    max
}

/// Returns the possible number of copies of a message after `request`, or an error above `FORWARD_COPIES_MAX`.
fn copies_after(copies: u32, request: &AppendRequest) -> Result<u32, DeadLetterReason> {
    let made = request.events.iter().map(|new| new.targets.len().max(1));
    let made = u32::try_from(made.sum::<usize>()).unwrap_or(u32::MAX);
    let after = copies.saturating_mul(made);
    if after > FORWARD_COPIES_MAX {
        return Err(DeadLetterReason::MaxTransferHopCountExceeded);
    }
    Ok(after)
}

/// Returns the message as evaluated by the rules of a topic, with the properties that receivers have set.
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

/// Amount of work done so far in one turn.
struct Size {
    messages: usize,
    copies: usize,
    bytes: usize,
    /// Number of rule evaluation steps, including those for messages that cannot be forwarded.
    matching: MatchingRun,
}

impl Size {
    fn none() -> Self {
        Self {
            messages: 0,
            copies: 0,
            bytes: 0,
            matching: MatchingRun::of(MatchingFor::Forwarder),
        }
    }

    fn add(&mut self, request: &AppendRequest) {
        for new in &request.events {
            self.copies += new.targets.len().max(1);
            self.bytes += new.event.size();
        }
    }

    fn is_enough(&self) -> bool {
        self.messages >= FORWARDED_AT_ONCE_MAX
            || self.copies >= CHANGE_DELIVERIES_MAX
            || self.bytes >= LOCK_BYTES_MAX
            || self.matching.steps() >= STEPS_OF_A_TURN_MAX
    }
}
