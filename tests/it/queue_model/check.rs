//! Whether what lies in the queues is what ought to.

use std::collections::BTreeSet;

use axum::http::Method;
use everpost::model::dead_letter::DeadLetterReason;
use everpost::model::lease::{QueueRef, SubQueue};
use everpost::store::Peeked;
use serde_json::Value;

use super::expected::{Contents, Expected, QUEUES};
use super::play::{Play, subject_of};

/// More than lie in any queue of a play.
const ALL: usize = 250;

impl Play {
    pub(super) async fn check_all(&mut self) {
        for at in 0..QUEUES.len() {
            self.check(at).await;
        }
    }

    /// What lies in a queue is what ought to.
    pub(super) async fn check(&mut self, at: usize) {
        let (rules, now) = (QUEUES[at], self.now());
        let pending = self.peek(at, SubQueue::Active).await;
        let mut dead = self.peek(at, SubQueue::DeadLetter).await;
        let mut expected = std::mem::take(&mut self.contents[at]);
        let numbers: Vec<_> = pending.iter().map(|each| each.delivery.number).collect();
        assert!(numbers.is_sorted(), "{numbers:?}");
        let numbers = pending.iter().chain(&dead).map(|each| each.delivery.number);
        let numbers: Vec<_> = numbers.collect();
        let given = 1..=self.arrived[at];
        assert!(
            numbers.iter().all(|number| given.contains(number)),
            "{numbers:?}"
        );
        assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), numbers.len());
        let mut lies = Contents::new();
        for each in pending {
            let subject = subject_of(&each.event);
            let message = expected.remove(&subject);
            let mut message = message.unwrap_or_else(|| panic!("{subject} is in {}", rules.name));
            assert_eq!(message.dead, None, "{subject} is in {}", rules.name);
            assert_eq!(
                each.delivery.attempts, message.attempts,
                "deliveries of {subject}"
            );
            assert_eq!(each.deferred, message.deferred, "{subject}");
            let until = message
                .lock
                .filter(|(_, until)| now < *until)
                .map(|(_, until)| until);
            assert_eq!(
                each.locked_until.filter(|until| now < *until),
                until,
                "{subject}"
            );
            learn(&mut message, each.delivery.number, &subject);
            lies.insert(subject, message);
        }
        dead.sort_by_key(|each| each.delivery.id);
        for each in dead {
            let subject = subject_of(&each.event);
            let message = expected.remove(&subject);
            let mut message =
                message.unwrap_or_else(|| panic!("{subject} is dead in {}", rules.name));
            let found = each.dead_letter.expect("a dead letter");
            let mut reasons = message.ends_for(rules, now);
            reasons.extend(message.dead);
            assert!(
                reasons.contains(&found.reason),
                "{subject}: {found:?} for {reasons:?}"
            );
            if message.dead.is_none() {
                (message.dead, message.place, message.lock) = (Some(found.reason), found.at, None);
            }
            learn(&mut message, each.delivery.number, &subject);
            lies.insert(subject, message);
        }
        for (subject, message) in expected {
            let is_expired = message
                .ends_for(rules, now)
                .contains(&DeadLetterReason::TimeToLiveExceeded);
            assert!(
                is_expired && !rules.keeps_expired,
                "{subject} is lost: {message:?}"
            );
        }
        self.contents[at] = lies;
        self.check_counts(at).await;
    }

    pub(super) async fn check_counts(&self, at: usize) {
        let path = format!("/queues/{}", QUEUES[at].name);
        let shown = self
            .grid()
            .manage(Method::GET, &path, Value::Null)
            .await
            .json();
        let counts = &shown["properties"]["countDetails"];
        let dead = self.contents[at]
            .values()
            .filter(|each| each.dead.is_some())
            .count();
        assert_eq!(
            counts["deadLetterMessageCount"], dead,
            "{}",
            QUEUES[at].name
        );
        assert_eq!(
            shown["properties"]["messageCount"],
            self.contents[at].len(),
            "{}",
            QUEUES[at].name
        );
    }

    pub(super) async fn peek(&self, at: usize, queue: SubQueue) -> Vec<Peeked> {
        let subscription = self.queue(at).1.id;
        let of = QueueRef {
            subscription,
            queue,
        };
        let peeked = self.grid().broker.peek(of, None, 0, ALL).await;
        peeked.expect("an answer")
    }
}

fn learn(message: &mut Expected, number: i64, subject: &str) {
    let known = *message.number.get_or_insert(number);
    assert_eq!(known, number, "the number of {subject}");
}
