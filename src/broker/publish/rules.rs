//! What subscriptions of Service Bus topics get of messages, by their rules (rule S7).

use std::collections::BTreeMap;

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::broker::publish::messages::targets;
use crate::broker::publish::{EVALUATED_AT_ONCE_MAX, PublishError, empty};
use crate::model::event::Event;
use crate::model::limits::{RULE_COPIES_BYTES_MAX, RULE_COPIES_MAX};
use crate::model::registry::TopicEntry;
use crate::model::subscription::{EventSubscription, SubscriptionId};
use crate::store::AppendRequest;
use crate::wire::service_bus::copy::SentMessage;

/// The events of a request, with who gets each. What an action changes is an event of its own, so what is stored is
/// what receivers get; and so is what no rule can be evaluated for.
#[derive(Default)]
struct Matched {
    events: Vec<(Event, Vec<SubscriptionId>)>,
    /// By their places among the events, as the next two.
    scheduled: BTreeMap<usize, Timestamp>,
    unevaluated: BTreeMap<usize, String>,
    /// See [`AppendRequest::sent`].
    sent: BTreeMap<usize, (String, bool)>,
    copies: usize,
    /// Of copies for one subscription.
    bytes: usize,
}

impl Matched {
    fn push(
        &mut self,
        event: Event,
        targets: Vec<SubscriptionId>,
        due_at: Option<Timestamp>,
    ) -> Result<(), PublishError> {
        let scheduled = due_at.map(|at| (self.events.len(), at));
        self.scheduled.extend(scheduled);
        self.copies += targets.len().max(1);
        self.events.push((event, targets));
        match self.copies <= RULE_COPIES_MAX && self.bytes <= RULE_COPIES_BYTES_MAX {
            true => Ok(()),
            false => Err(PublishError::TooManyCopies),
        }
    }

    /// A copy for one subscription.
    fn push_copy(
        &mut self,
        event: Event,
        of: SubscriptionId,
        due_at: Option<Timestamp>,
    ) -> Result<(), PublishError> {
        self.bytes += event.size();
        self.push(event, vec![of], due_at)
    }
}

impl Broker {
    /// Holds messages, some of which are scheduled, against the rules of all subscriptions of the topic.
    pub(in crate::broker) async fn match_rules(
        &self,
        topic: &TopicEntry,
        events: Vec<Event>,
        scheduled: &BTreeMap<usize, Timestamp>,
    ) -> Result<AppendRequest, PublishError> {
        let now = self.clock().now();
        let takers = takers(topic, now);
        let sending = topic.topic.kind.sending();
        let remembers = sending.is_some_and(|sending| sending.detects_duplicates);
        let cost = topic.rules.all().count() + topic.subscriptions.size();
        let (mut matched, mut evaluated) = (Matched::default(), 0);
        for (place, event) in events.into_iter().enumerate() {
            let due_at = scheduled.get(&place).copied();
            if remembers || !scheduled.is_empty() {
                let sent = (event.id.clone(), due_at.is_some());
                matched.sent.insert(matched.events.len(), sent);
            }
            self.match_message(topic, event, due_at, &takers, &mut matched)?;
            evaluated += cost;
            if evaluated >= EVALUATED_AT_ONCE_MAX {
                tokio::task::yield_now().await;
                evaluated = 0;
            }
        }
        let Matched {
            events,
            scheduled,
            unevaluated,
            sent,
            ..
        } = matched;
        let each = events.iter().map(|(event, _)| event);
        let intake = self.intake(topic, each, unevaluated);
        Ok(AppendRequest {
            scheduled,
            sent,
            intake,
            events,
            ..empty(topic, now)
        })
    }

    fn match_message(
        &self,
        topic: &TopicEntry,
        event: Event,
        due_at: Option<Timestamp>,
        takers: &BTreeMap<SubscriptionId, bool>,
        matched: &mut Matched,
    ) -> Result<(), PublishError> {
        let (now, before) = (self.clock().now(), matched.events.len());
        let sent = SentMessage::of(&event, &topic.resource_id, now);
        let sent = sent.map_err(PublishError::Unreadable)?;
        let mut copies = topic.rules.copies(&sent, self.entropy());
        let changing = copies.changing.iter();
        for (of, rule) in changing.filter(|(of, _)| takers.contains_key(of)) {
            match rule.changes(&sent, self.entropy()) {
                Ok(changes) => {
                    let new_id = || self.entropy().uuid().simple().to_string();
                    let copy = sent.copy(&changes, &rule.name, new_id);
                    let copy = copy.map_err(PublishError::Unreadable)?;
                    matched.push_copy(copy, *of, due_at)?;
                }
                Err(problem) => {
                    copies.unevaluated.entry(*of).or_insert(problem);
                }
            }
        }
        let keeps = |of: &SubscriptionId| takers.get(of).copied().unwrap_or_default();
        for (of, problem) in copies.unevaluated.iter().filter(|(of, _)| keeps(of)) {
            let place = matched.events.len();
            matched.unevaluated.insert(place, problem.clone());
            matched.push_copy(event.clone(), *of, None)?;
        }
        let mut to = targets(topic, &event, now);
        let unchanged = copies.unchanged.iter();
        to.extend(unchanged.filter(|of| takers.contains_key(*of)));
        // What nobody gets as it was sent has become something else, or nobody gets it at all.
        if !to.is_empty() || matched.events.len() == before {
            matched.push(event, to, due_at)?;
        }
        Ok(())
    }
}

/// The subscriptions that take messages now, and whether they keep those as dead letters that a rule cannot be evaluated
/// for.
fn takers(topic: &TopicEntry, now: Timestamp) -> BTreeMap<SubscriptionId, bool> {
    let taking = topic.message_subscriptions();
    let taking = taking.filter(|each| each.takes_events(now));
    let keeps = |each: &EventSubscription| {
        let pulled = each.definition.destination.pull_queue();
        pulled.is_some_and(|pulled| pulled.keeps_unevaluated)
    };
    taking.map(|each| (each.id, keeps(each))).collect()
}
