//! What subscriptions of Service Bus topics get of messages, by their rules (rule S7).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::base::{Entropy, Timestamp};
use crate::broker::Broker;
use crate::broker::background::{MATCHING, in_background};
use crate::broker::publish::{PublishError, STEPS_AT_ONCE_MAX, STEPS_IN_A_ROW_MAX, empty};
use crate::model::event::Event;
use crate::model::limits::{RULE_COPIES_BYTES_MAX, RULE_COPIES_MAX};
use crate::model::registry::TopicEntry;
use crate::model::rule::{ChangedCopy, Copies, RuleBook, Steps};
use crate::model::subscription::{EventSubscription, SubscriptionId};
use crate::model::topic::TopicId;
use crate::store::AppendRequest;
use crate::wire::amqp::DecodeError;
use crate::wire::service_bus::copy::SentMessage;

/// The events of a request, with who gets each. What an action changes is an event of its own, so what is stored is
/// what receivers get; and so is what no rule can be evaluated for.
#[derive(Default)]
struct Matched {
    events: Vec<(Event, Vec<SubscriptionId>)>,
    /// By their places among the events, as the next three.
    scheduled: BTreeMap<usize, Timestamp>,
    unevaluated: BTreeMap<usize, String>,
    oversized: BTreeSet<usize>,
    /// See [`AppendRequest::sent`].
    sent: BTreeMap<usize, (String, bool)>,
    made: MadeCopies,
}

/// Counts the copies that one change of the store has so far: those of all messages of a request or a transaction.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::broker) struct MadeCopies {
    copies: usize,
    /// Bytes of copies for one subscription, and of what else takes their room.
    bytes: usize,
}

impl MadeCopies {
    /// Has so much room taken by something else that is stored in the same change.
    pub(in crate::broker) fn beside(copies: usize, bytes: usize) -> Self {
        Self { copies, bytes }
    }

    /// Says whether it is more than one change may have.
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
    /// Adds what becomes of a message.
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
        } = of;
        let before = self.events.len();
        for ChangedCopy { of, rule, changes } in &copies.changing {
            let new_id = || entropy.uuid().simple().to_string();
            let copy = sent.copy(changes, &rule.name, new_id);
            if let Err(DecodeError::HeadTooLarge(_)) = copy {
                self.oversized.insert(self.events.len());
                self.push_copy(event.clone(), *of, None)?;
                continue;
            }
            let copy = copy.map_err(PublishError::Unreadable)?;
            self.push_copy(copy, *of, due_at)?;
        }
        let keeps = |of: &SubscriptionId| takers.get(of).copied().unwrap_or_default();
        for (of, problem) in copies.unevaluated.iter().filter(|(of, _)| keeps(of)) {
            let place = self.events.len();
            self.unevaluated.insert(place, problem.clone());
            self.push_copy(event.clone(), *of, None)?;
        }
        to.extend(copies.unchanged);
        // What nobody gets as it was sent has become something else, or nobody gets it at all.
        if !to.is_empty() || self.events.len() == before {
            self.push(event, to, due_at)?;
        }
        Ok(())
    }

    fn push(
        &mut self,
        event: Event,
        targets: Vec<SubscriptionId>,
        due_at: Option<Timestamp>,
    ) -> Result<(), PublishError> {
        self.made.add(targets.len().max(1), 0)?;
        let scheduled = due_at.map(|at| (self.events.len(), at));
        self.scheduled.extend(scheduled);
        self.events.push((event, targets));
        Ok(())
    }

    /// A copy for one subscription.
    fn push_copy(
        &mut self,
        event: Event,
        of: SubscriptionId,
        due_at: Option<Timestamp>,
    ) -> Result<(), PublishError> {
        self.made.add(0, event.size())?;
        self.push(event, vec![of], due_at)
    }
}

impl Broker {
    /// Holds messages, some of which are scheduled, against the rules of all subscriptions of the topic. What they are
    /// copied to is added to what was `made`, and is not too much with that.
    pub(in crate::broker) async fn match_rules(
        &self,
        topic: &Arc<TopicEntry>,
        events: Vec<Event>,
        scheduled: &BTreeMap<usize, Timestamp>,
        made: &mut MadeCopies,
    ) -> Result<AppendRequest, PublishError> {
        let now = self.clock().now();
        let takers = Arc::new(takers(topic, now));
        let sending = topic.topic.kind.sending();
        let remembers = sending.is_some_and(|sending| sending.detects_duplicates);
        let mut matched = Matched {
            made: *made,
            ..Matched::default()
        };
        let mut evaluated = 0;
        for (place, event) in events.into_iter().enumerate() {
            let due_at = scheduled.get(&place).copied();
            if remembers || !scheduled.is_empty() {
                let sent = (event.id.clone(), due_at.is_some());
                matched.sent.insert(matched.events.len(), sent);
            }
            let to = self.targets(topic, event, now).await;
            let sent = SentMessage::of(&to.event, &topic.resource_id, now);
            let sent = sent.map_err(PublishError::Unreadable)?;
            let rules = (topic.topic.id, &topic.rules);
            let held_against = copies_by(rules, self.entropy(), sent, &takers);
            let (sent, copies, steps) = held_against.await;
            evaluated += steps + to.steps;
            let of = HeldMessage {
                event: to.event,
                to: to.found,
                due_at,
                sent,
                copies,
            };
            let added = add_copies(topic.topic.id, self.entropy(), of, &takers, matched);
            let (with_copies, steps) = added.await?;
            matched = with_copies;
            evaluated += steps;
            if evaluated >= STEPS_IN_A_ROW_MAX {
                tokio::task::yield_now().await;
                evaluated = 0;
            }
        }
        let Matched {
            events,
            scheduled,
            unevaluated,
            oversized,
            sent,
            made: now_made,
        } = matched;
        *made = now_made;
        let each = events.iter().map(|(event, _)| event);
        let intake = self.intake(topic, each, unevaluated, oversized);
        Ok(AppendRequest {
            scheduled,
            sent,
            intake,
            events,
            ..empty(topic, now)
        })
    }
}

/// Holds a message against the rules of a topic. Returns what these make of it, and the steps that were taken here. What would
/// keep the thread busy is done in the background.
async fn copies_by(
    (topic, rules): (TopicId, &RuleBook),
    entropy: &Entropy,
    sent: SentMessage,
    takers: &Arc<Takers>,
) -> (SentMessage, Copies, usize) {
    let mut steps = Steps::of(STEPS_AT_ONCE_MAX);
    let takes = |of: SubscriptionId| takers.contains_key(&of);
    let copies = rules.copies(&sent, entropy, takes, &mut steps);
    let taken = STEPS_AT_ONCE_MAX - steps.left();
    if !copies.is_cut {
        return (sent, copies, taken);
    }
    let (rules, takers, entropy) = (rules.clone(), Arc::clone(takers), entropy.clone());
    let place = MATCHING.take(Some(topic)).await;
    let (sent, copies) = in_background(place, move || {
        let takes = |of: SubscriptionId| takers.contains_key(&of);
        let copies = rules.copies(&sent, &entropy, takes, &mut Steps::of_message());
        (sent, copies)
    })
    .await;
    (sent, copies, taken)
}

/// A message that was held against filters and rules.
struct HeldMessage {
    event: Event,
    /// Who gets it by a filter.
    to: Vec<SubscriptionId>,
    /// When it is scheduled.
    due_at: Option<Timestamp>,
    sent: SentMessage,
    copies: Copies,
}

/// Adds what becomes of a message. What would keep the thread busy is done in the background. Returns the steps that were
/// taken here.
async fn add_copies(
    topic: TopicId,
    entropy: &Entropy,
    of: HeldMessage,
    takers: &Arc<Takers>,
    mut matched: Matched,
) -> Result<(Matched, usize), PublishError> {
    let steps = of.sent.copy_steps() * of.copies.changing.len();
    if steps <= STEPS_AT_ONCE_MAX {
        matched.add(of, takers, entropy)?;
        return Ok((matched, steps));
    }
    let (takers, entropy) = (Arc::clone(takers), entropy.clone());
    let place = MATCHING.take(Some(topic)).await;
    in_background(place, move || {
        let added = matched.add(of, &takers, &entropy);
        added.map(|()| (matched, 0))
    })
    .await
}

/// See [`takers`].
type Takers = BTreeMap<SubscriptionId, bool>;

/// The subscriptions that take messages now, and whether they keep those as dead letters that a rule cannot be evaluated
/// for.
fn takers(topic: &TopicEntry, now: Timestamp) -> Takers {
    let taking = topic.message_subscriptions();
    let taking = taking.filter(|each| each.takes_events(now));
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
    use crate::model::name::RuleName;
    use crate::model::rule::{Changes, Parameters, PropertyValue, Rule, RuleFilter, SqlFilter};
    use crate::wire::amqp::message::{Message, Properties};
    use crate::wire::service_bus::message::to_event;

    /// A message with a thousand properties, of which actions make so many copies.
    fn with_copies(count: usize) -> HeldMessage {
        let own = (0..1_000).map(|n| (format!("p{n}").as_str().into(), "x".into()));
        let message = Message::of(&Properties::default(), own.collect(), "body".into());
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

    #[tokio::test]
    async fn many_copies_are_made_in_the_background_and_a_few_are_counted() {
        let (entropy, takers) = (Entropy::seeded(1), Arc::default());
        let add = async |count| {
            let (topic, matched) = (TopicId(1), Matched::default());
            let added = add_copies(topic, &entropy, with_copies(count), &takers, matched).await;
            let (matched, steps) = added.expect("copies");
            assert_eq!(matched.events.len(), count);
            steps
        };
        let few = add(2).await;
        assert!((2_000..=STEPS_AT_ONCE_MAX).contains(&few), "{few}");
        assert_eq!(add(20).await, 0, "none of them here");
    }

    /// Holds a message against so many rules, each of which takes a step for nearly each of its 30,000 characters. Returns
    /// what they make of it, whether that was there at once, and how many steps were taken here.
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
        let message = Message::of(&Properties::default(), own, "body".into());
        let event = to_event(message, || "m".to_owned()).expect("an event");
        let sent = SentMessage::of(&event, "/t", Timestamp::from_ms(1)).expect("a message");
        let takers = Arc::new(Takers::from([(SubscriptionId(1), true)]));
        let entropy = Entropy::seeded(1);
        let mut made = pin!(copies_by((TopicId(1), &book), &entropy, sent, &takers));
        match made.as_mut().now_or_never() {
            Some((_, copies, taken)) => (copies, true, taken),
            None => {
                let (_, copies, taken) = made.await;
                (copies, false, taken)
            }
        }
    }

    #[tokio::test]
    async fn costly_rules_are_left_to_other_threads_and_end_at_their_bound() {
        let (copies, is_at_once, taken) = held_against(0).await;
        assert!(is_at_once && taken == 0 && copies.unevaluated.is_empty());
        let (copies, is_at_once, taken) = held_against(3).await;
        assert!(!is_at_once && taken <= STEPS_AT_ONCE_MAX, "{taken}");
        assert!(copies.unevaluated.is_empty(), "{copies:?}");
        let (copies, is_at_once, taken) = held_against(500).await;
        assert!(!is_at_once && taken <= STEPS_AT_ONCE_MAX, "{taken}");
        let problem = &copies.unevaluated[&SubscriptionId(1)];
        assert!(problem.contains("1000000 steps"), "{problem}");
    }
}
