//! Rules of Service Bus topics: the message copies that their subscriptions get (rule S7).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::{Entropy, Timestamp};
use crate::broker::Broker;
use crate::broker::background::{MatchingRun, in_background};
use crate::broker::publish::messages::{NewMessage, ToMatch};
use crate::broker::publish::{PublishError, STEPS_AT_ONCE_MAX, empty};
use crate::model::event::Event;
use crate::model::limits::{RULE_COPIES_BYTES_MAX, RULE_COPIES_MAX, RULE_STEPS_MAX};
use crate::model::registry::TopicEntry;
use crate::model::rule::{ChangedCopy, Copies, RuleBook, Steps};
use crate::model::subscription::{EventSubscription, SubscriptionId};
use crate::store::{AppendRequest, EventProblem, MadeFrom, NewEvent};
use crate::wire::amqp::DecodeError;
use crate::wire::service_bus::copy::SentMessage;
use crate::wire::service_bus::message;

/// The events of a request, each with the subscriptions that get it. A message that an action changes is stored as a
/// separate event, exactly as receivers get it. A message for which a rule cannot be evaluated is also stored as a
/// separate event.
#[derive(Default)]
struct Matched {
    events: Vec<NewEvent>,
    made: MadeCopies,
}

/// Counts the copies in one store change, made of all messages of a request or a transaction.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::broker) struct MadeCopies {
    copies: usize,
    /// The size of copies that only one subscription gets, and of other data that shares their limit.
    bytes: usize,
}

impl MadeCopies {
    /// Returns a count that starts with other items in the same store change: `copies` items with `bytes` bytes.
    pub(in crate::broker) fn beside(copies: usize, bytes: usize) -> Self {
        Self { copies, bytes }
    }

    /// Returns whether the count exceeds the limits of one store change.
    pub(in crate::broker) fn is_too_much(self) -> bool {
        self.copies > RULE_COPIES_MAX || self.bytes > RULE_COPIES_BYTES_MAX
    }

    fn add(&mut self, copies: usize, bytes: usize) -> Result<(), PublishError> {
        self.copies += copies;
        self.bytes += bytes;
        if self.is_too_much() {
            return Err(PublishError::TooManyCopies);
        }
        Ok(())
    }
}

impl Matched {
    /// Adds the original and the copies of a message.
    fn add(
        &mut self,
        of: HeldMessage,
        takers: &Takers,
        entropy: &Entropy,
    ) -> Result<(), PublishError> {
        let HeldMessage {
            event,
            mut to,
            due_at,
            sent,
            copies,
            made_from,
        } = of;
        let before = self.events.len();
        for ChangedCopy { of, rule, changes } in &copies.changing {
            let new_id = || entropy.uuid().simple().to_string();
            let copied = sent.copy(changes, &rule.name, new_id);
            if let Err(DecodeError::HeadTooLarge(_)) = copied {
                self.push_problem(EventProblem::Oversized, &event, *of)?;
                continue;
            }
            let copy = copied.map_err(PublishError::Unreadable)?;
            self.push_copy(NewEvent {
                due_at,
                ..NewEvent::new(copy, vec![*of])
            })?;
        }
        let keeps = |of: &SubscriptionId| takers.get(of).copied().unwrap_or_default();
        for (of, problem) in copies.unevaluated.iter().filter(|(of, _)| keeps(of)) {
            self.push_problem(EventProblem::Unevaluated(problem.clone()), &event, *of)?;
        }
        to.extend(copies.unchanged);
        // The original is stored only if a subscription gets it unchanged, or if the message has no other copy.
        if !to.is_empty() || self.events.len() == before {
            self.push(NewEvent {
                due_at,
                ..NewEvent::new(event, to)
            })?;
        }
        if let MadeFrom::First { .. } = made_from {
            self.events[before].made_from = made_from;
            for copy in &mut self.events[before + 1..] {
                copy.made_from = MadeFrom::SameAsBefore;
            }
        }
        Ok(())
    }

    fn push(&mut self, new: NewEvent) -> Result<(), PublishError> {
        self.made.add(new.targets.len().max(1), 0)?;
        self.events.push(new);
        Ok(())
    }

    /// Adds a copy for one subscription.
    fn push_copy(&mut self, copy: NewEvent) -> Result<(), PublishError> {
        self.made.add(0, copy.event.size())?;
        self.push(copy)
    }

    /// Adds the original for one subscription, in place of a copy that cannot be made.
    fn push_problem(
        &mut self,
        problem: EventProblem,
        event: &Event,
        of: SubscriptionId,
    ) -> Result<(), PublishError> {
        self.push_copy(NewEvent {
            problem: Some(problem),
            ..NewEvent::new(event.clone(), vec![of])
        })
    }
}

impl Broker {
    /// Evaluates the rules of all subscriptions of the topic for messages. Adds the copies to `made`, and fails if
    /// there are too many. Adds the steps to `run`, even on failure.
    pub(in crate::broker) async fn match_rules(
        &self,
        topic: &Arc<TopicEntry>,
        messages: Vec<impl ToMatch>,
        made: &mut MadeCopies,
        run: &mut MatchingRun,
    ) -> Result<AppendRequest, PublishError> {
        let now = self.clock().now();
        let takers = Arc::new(takers(topic, now));
        let sending = topic.topic.kind.sending();
        let remembers = sending.is_some_and(|sending| sending.detects_duplicates);
        let are_kept_together = remembers || messages.iter().any(|it| !it.is_due());
        let mut matched = Matched {
            made: *made,
            ..Matched::default()
        };
        for message in messages {
            let NewMessage {
                event,
                scheduled_at: due_at,
                ..
            } = message.into();
            let made_from = if are_kept_together {
                MadeFrom::First {
                    message_id: event.id.clone(),
                    is_scheduled: due_at.is_some(),
                }
            } else {
                MadeFrom::Itself
            };
            let (event, to) = self.targets(topic, event, now, run).await;
            let sent = SentMessage::of(&event, &topic.resource_id, now)
                .map_err(PublishError::Unreadable)?;
            let held_against = copies_by(&topic.rules, self.entropy(), sent, &takers, run);
            let (sent, copies) = held_against.await;
            let of = HeldMessage {
                event,
                to,
                due_at,
                sent,
                copies,
                made_from,
            };
            matched = add_copies(self.entropy(), of, &takers, matched, run).await?;
        }
        let Matched {
            mut events,
            made: now_made,
        } = matched;
        *made = now_made;
        let intake = self.intake(topic);
        for new in &mut events {
            // An action may have changed both in a copy.
            new.own_life = self.own_life(&new.event);
            if !intake.with_sessions.is_empty() {
                new.session = message::session(&new.event);
            }
        }
        Ok(AppendRequest {
            intake,
            events,
            ..empty(topic, now)
        })
    }
}

/// Evaluates the rules of a topic for a message. Returns the copies that the rules make. Long evaluations run in the
/// background.
async fn copies_by(
    rules: &RuleBook,
    entropy: &Entropy,
    sent: SentMessage,
    takers: &Arc<Takers>,
    run: &mut MatchingRun,
) -> (SentMessage, Copies) {
    let mut steps = Steps::of(STEPS_AT_ONCE_MAX);
    let takes = |of: SubscriptionId| takers.contains_key(&of);
    let copies = rules.copies(&sent, entropy, takes, &mut steps);
    run.add(STEPS_AT_ONCE_MAX - steps.left()).await;
    if !copies.is_cut {
        return (sent, copies);
    }
    let (rules, takers, entropy) = (rules.clone(), Arc::clone(takers), entropy.clone());
    let (sent, copies, taken) = in_background(run.place().await, move || {
        let takes = |of: SubscriptionId| takers.contains_key(&of);
        let mut steps = Steps::of_message();
        let copies = rules.copies(&sent, &entropy, takes, &mut steps);
        (sent, copies, RULE_STEPS_MAX - steps.left())
    })
    .await;
    run.add(taken).await;
    (sent, copies)
}

/// A message after evaluation of filters and rules.
struct HeldMessage {
    event: Event,
    /// The subscriptions whose filters match the message.
    to: Vec<SubscriptionId>,
    /// The scheduled enqueue time.
    due_at: Option<Timestamp>,
    sent: SentMessage,
    copies: Copies,
    /// See [`NewEvent::made_from`], for the first event.
    made_from: MadeFrom,
}

/// Adds the original and the copies of a message to `matched`. Long work runs in the background.
async fn add_copies(
    entropy: &Entropy,
    of: HeldMessage,
    takers: &Arc<Takers>,
    mut matched: Matched,
    run: &mut MatchingRun,
) -> Result<Matched, PublishError> {
    let steps = of.sent.copy_steps() * of.copies.changing.len();
    run.add(steps).await;
    if steps <= STEPS_AT_ONCE_MAX {
        matched.add(of, takers, entropy)?;
        return Ok(matched);
    }
    let (takers, entropy) = (Arc::clone(takers), entropy.clone());
    in_background(run.place().await, move || {
        let added = matched.add(of, &takers, &entropy);
        added.map(|()| matched)
    })
    .await
}

/// The result of [`takers`].
type Takers = BTreeMap<SubscriptionId, bool>;

/// Returns the subscriptions that accept messages now. The value is true if the subscription dead-letters messages
/// for which a rule cannot be evaluated.
fn takers(topic: &TopicEntry, now: Timestamp) -> Takers {
    let taking = topic
        .message_subscriptions()
        .filter(|each| each.takes_events(now));
    let keeps = |each: &EventSubscription| {
        let pulled = each.definition.destination.pull_queue();
        pulled.is_some_and(|pulled| pulled.keeps_unevaluated)
    };
    taking.map(|each| (each.id, keeps(each))).collect()
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt;

    use super::*;
    use crate::broker::background::MatchingFor;
    use crate::model::name::RuleName;
    use crate::model::rule::{Changes, Parameters, PropertyValue, Rule, RuleFilter, SqlFilter};
    use crate::model::topic::TopicId;
    use crate::wire::amqp::message::{Message, MessageProperties};
    use crate::wire::service_bus::message::to_event;

    /// A message with a thousand properties, of which actions make so many copies.
    fn with_copies(count: usize) -> HeldMessage {
        let own = (0..1_000).map(|n| (format!("p{n}").as_str().into(), "x".into()));
        let message = Message::of(&MessageProperties::default(), own.collect(), "body".into());
        let event = to_event(message, || "m".to_owned()).expect("an event");
        let changes = Changes {
            user: vec![("p1".to_owned(), Some(PropertyValue::long(1)))],
            ..Changes::default()
        };
        let copy = || ChangedCopy {
            of: SubscriptionId(1),
            rule: Arc::new(Rule::default_rule()),
            changes: changes.clone(),
        };
        let copies = Copies {
            changing: std::iter::repeat_with(copy).take(count).collect(),
            ..Copies::default()
        };
        HeldMessage {
            sent: SentMessage::of(&event, "/t", Timestamp::from_ms(1)).expect("a message"),
            event,
            to: Vec::new(),
            due_at: None,
            copies,
            made_from: MadeFrom::default(),
        }
    }

    /// Adds a message with so many copies to what was made. Returns how many of them were made, if it is not too much.
    fn add_to(made: &mut MadeCopies, count: usize) -> (usize, Result<(), PublishError>) {
        let mut matched = Matched {
            made: *made,
            ..Matched::default()
        };
        let added = matched.add(with_copies(count), &Takers::new(), &Entropy::seeded(1));
        *made = matched.made;
        (matched.events.len(), added)
    }

    #[test]
    fn what_is_stored_together_shares_one_bound_and_no_more_is_made() {
        let too_many = Err(PublishError::TooManyCopies);
        let mut made = MadeCopies::beside(RULE_COPIES_MAX - 5, 0);
        assert_eq!(add_to(&mut made, 2), (2, Ok(())));
        assert_eq!(add_to(&mut made, 2), (2, Ok(())));
        assert_eq!(add_to(&mut made, 9), (1, too_many.clone()));
        let size = {
            let mut made = MadeCopies::default();
            assert_eq!(add_to(&mut made, 1), (1, Ok(())));
            made.bytes
        };
        let mut made = MadeCopies::beside(0, RULE_COPIES_BYTES_MAX - 3 * size);
        assert_eq!(add_to(&mut made, 2), (2, Ok(())));
        assert_eq!(add_to(&mut made, 9), (1, too_many));
    }

    fn new_run() -> MatchingRun {
        MatchingRun::of(MatchingFor::Topic(TopicId(1)))
    }

    #[tokio::test]
    async fn many_copies_are_made_in_the_background_and_all_are_counted() {
        let (entropy, takers) = (Entropy::seeded(1), Arc::default());
        for (count, are_at_once) in [(2, true), (20, false)] {
            let mut run = new_run();
            let added = {
                let (of, none) = (with_copies(count), Matched::default());
                let mut adding = pin!(add_copies(&entropy, of, &takers, none, &mut run));
                let first = adding.as_mut().now_or_never();
                assert_eq!(first.is_some(), are_at_once, "{count}");
                match first {
                    Some(added) => added,
                    None => adding.await,
                }
            };
            assert_eq!(added.expect("copies").events.len(), count);
            assert!(run.steps() >= 1_000 * count, "{}", run.steps());
        }
    }

    /// Holds a message against so many rules, each of which takes a step for nearly each of its 30,000 characters. Returns
    /// what they make of it, whether that was there at once, and how many steps were taken.
    async fn held_against(count: usize) -> (Copies, bool, usize) {
        let filter = SqlFilter::parse("a LIKE '%y%x'", Parameters::new()).expect("a filter");
        let mut book = RuleBook::default();
        for number in 0..count {
            let rule = Rule {
                name: RuleName::parse(&format!("r{number}")).expect("a name"),
                filter: RuleFilter::Sql(filter.clone()),
                ..Rule::default_rule()
            };
            book.put(SubscriptionId(1), rule);
        }
        let long = "y".repeat(30_000);
        let own = vec![("a".into(), long.as_str().into())];
        let message = Message::of(&MessageProperties::default(), own, "body".into());
        let event = to_event(message, || "m".to_owned()).expect("an event");
        let sent = SentMessage::of(&event, "/t", Timestamp::from_ms(1)).expect("a message");
        let takers = Arc::new(Takers::from([(SubscriptionId(1), true)]));
        let entropy = Entropy::seeded(1);
        let mut run = new_run();
        let (copies, is_at_once) = {
            let mut making = pin!(copies_by(&book, &entropy, sent, &takers, &mut run));
            match making.as_mut().now_or_never() {
                Some((_, copies)) => (copies, true),
                None => (making.await.1, false),
            }
        };
        (copies, is_at_once, run.steps())
    }

    #[tokio::test]
    async fn costly_rules_are_left_to_other_threads_and_end_at_their_bound() {
        let (copies, is_at_once, taken) = held_against(0).await;
        assert!(is_at_once && taken == 0 && copies.unevaluated.is_empty());
        let (copies, is_at_once, taken) = held_against(3).await;
        assert!(!is_at_once && taken > 2 * 30_000, "{taken}");
        assert!(copies.unevaluated.is_empty(), "{copies:?}");
        let (copies, is_at_once, taken) = held_against(500).await;
        assert!(!is_at_once && taken >= RULE_STEPS_MAX, "{taken}");
        let problem = &copies.unevaluated[&SubscriptionId(1)];
        assert!(problem.contains("1000000 steps"), "{problem}");
    }
}
