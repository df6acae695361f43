//! What must become of a delivery that receivers come for, written down a second time: locks, their ends,
//! and what is recorded of them.

use std::time::Duration;

use everpost::base::Timestamp;
use everpost::model::dead_letter::DeadLetterReason;
use everpost::model::delivery::{DeliveryState, Outcome};
use everpost::store::views::DeliveryDetail;

use super::ledger::Ledger;
use super::spec::{Spec, seconds};
use super::watch;

/// For how long after the receiving a lock can be renewed.
const RENEWABLE: Duration = seconds(3_600);

/// A pulled delivery.
#[derive(Debug)]
pub(super) struct Pulled {
    published_at: Timestamp,
    /// Receivers that had it, the present one included.
    pub(super) count: u32,
    /// What must be recorded of those whose turn is over.
    over: Vec<Turn>,
    /// The newest lock; also one that has lapsed without anybody noticing.
    pub(super) lock: Option<Held>,
    /// When it can be taken next.
    pub(super) due_at: Timestamp,
    end: Option<End>,
    /// A full disk came between: what is stored is believed.
    pub(super) is_uncertain: bool,
}

/// A lock in the hands of a receiver.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) token: String,
    from: Timestamp,
    pub(super) until: Timestamp,
}

type Turn = (Timestamp, Timestamp, Outcome);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End {
    state: DeliveryState,
    at: Timestamp,
    reason: Option<DeadLetterReason>,
}

impl Pulled {
    fn new(published_at: Timestamp) -> Self {
        Self {
            published_at,
            count: 0,
            over: Vec::new(),
            lock: None,
            due_at: published_at,
            end: None,
            is_uncertain: false,
        }
    }

    pub(super) fn can_be_taken(&self, now: Timestamp) -> bool {
        self.end.is_none() && self.due_at <= now
    }

    /// Whether it may be handed out no more.
    pub(super) fn is_outlived(&self, spec: &Spec, now: Timestamp) -> bool {
        self.count >= spec.attempts_max || now.since(self.published_at) >= spec.time_to_live()
    }

    /// Whether the token opens it.
    pub(super) fn is_held_by(&self, token: &str, now: Timestamp) -> bool {
        let lock = self.lock.as_ref();
        self.end.is_none() && lock.is_some_and(|lock| lock.token == token && lock.until > now)
    }

    pub(super) fn is_renewable(&self, now: Timestamp) -> bool {
        let lock = self.lock.as_ref();
        lock.is_some_and(|lock| now.since(lock.from) < RENEWABLE)
    }

    pub(super) fn take(&mut self, token: String, lock_s: u64, now: Timestamp) {
        self.note_lapse();
        self.count += 1;
        self.due_at = now + seconds(lock_s);
        self.hold(token, lock_s, now);
    }

    /// Somebody has got it, whatever became of it before.
    pub(super) fn hold(&mut self, token: String, lock_s: u64, now: Timestamp) {
        self.lock = Some(Held {
            token,
            from: now,
            until: now + seconds(lock_s),
        });
    }

    pub(super) fn renew(&mut self, lock_s: u64, now: Timestamp) {
        self.due_at = now + seconds(lock_s);
        if let Some(lock) = &mut self.lock {
            lock.until = self.due_at;
        }
    }

    pub(super) fn release(&mut self, delay_s: u64, spec: &Spec, now: Timestamp) {
        self.end_turn(Outcome::Released, now);
        if self.count >= spec.attempts_max {
            self.dead_letter(DeadLetterReason::MaxDeliveryAttemptsExceeded, spec, now);
            return;
        }
        let end_of_life = self.published_at + spec.time_to_live();
        self.due_at = (now + seconds(delay_s)).min(end_of_life).max(now);
    }

    pub(super) fn acknowledge(&mut self, now: Timestamp) {
        self.end_turn(Outcome::Delivered, now);
        self.end = Some(End {
            state: DeliveryState::Delivered,
            at: now,
            reason: None,
        });
    }

    pub(super) fn reject(&mut self, spec: &Spec, now: Timestamp) {
        self.end_turn(Outcome::Rejected, now);
        self.dead_letter(DeadLetterReason::Application, spec, now);
    }

    fn dead_letter(&mut self, reason: DeadLetterReason, spec: &Spec, now: Timestamp) {
        self.end = Some(End {
            state: match spec.keeps_dead {
                true => DeliveryState::DeadLettered,
                false => DeliveryState::Dropped,
            },
            at: now,
            reason: Some(reason),
        });
    }

    fn end_turn(&mut self, outcome: Outcome, now: Timestamp) {
        if let Some(lock) = self.lock.take() {
            let ended = lock.from + now.since(lock.from);
            self.over.push((lock.from, ended, outcome));
        }
    }

    /// A receiver who came for others has given it back.
    fn give_back(&mut self) {
        let lapsed_at = self.lock.as_ref().map_or(self.due_at, |lock| lock.until);
        self.note_lapse();
        self.due_at = self.published_at.min(lapsed_at);
    }

    fn note_lapse(&mut self) {
        if let Some(lock) = self.lock.take() {
            // Renewed under a clock that was put back, it ends before it began.
            let ended = lock.from.max(lock.until);
            self.over.push((lock.from, ended, Outcome::LockLost));
        }
    }

    /// Takes for true what is stored.
    fn believe(&mut self, delivery: &DeliveryDetail) {
        let row = &delivery.row;
        self.count = row.attempts;
        self.over = turns(delivery);
        self.due_at = row.next_attempt_at.unwrap_or(self.due_at);
        let known = self.lock.take();
        let known = known.filter(|lock| Some(lock.until) == row.locked_until);
        let lock = row.locked_until.zip(row.last_attempt_at);
        // Nobody has heard of a lock that the store made before it failed.
        let unknown = lock.map(|(until, from)| Held {
            token: String::new(),
            from,
            until,
        });
        self.lock = known.or(unknown);
        self.end = end_of(delivery);
        self.is_uncertain = false;
    }
}

/// How a delivery ended, if it did. What was resubmitted was a dead letter before.
fn end_of(delivery: &DeliveryDetail) -> Option<End> {
    let row = &delivery.row;
    let state = match row.state == DeliveryState::Resubmitted {
        true => DeliveryState::DeadLettered,
        false => row.state,
    };
    row.ended_at.map(|at| End {
        state,
        at,
        reason: row.dead_letter_reason,
    })
}

/// What is recorded of a delivery.
fn turns(delivery: &DeliveryDetail) -> Vec<Turn> {
    let attempts = delivery.attempts.iter();
    let turn = |attempt: &everpost::model::delivery::DeliveryAttempt| {
        (
            attempt.started_at,
            attempt.ended_at(),
            attempt.result.outcome,
        )
    };
    attempts.map(turn).collect()
}

/// Holds a pulled delivery against what receivers did with it.
pub(super) fn check(
    ledger: &mut Ledger,
    event: usize,
    sub: usize,
    delivery: &DeliveryDetail,
) -> Result<(), String> {
    let (row, now) = (&delivery.row, ledger.now);
    let all = &mut ledger.events[event]
        .pairs
        .get_mut(&sub)
        .expect("a pair")
        .pulled;
    let fresh = || Pulled::new(row.published_at);
    let pulled = all.entry(row.id.0).or_insert_with(fresh);
    if pulled.is_uncertain {
        pulled.believe(delivery);
        return Ok(());
    }
    let has_lapsed = pulled.lock.as_ref().is_some_and(|lock| lock.until <= now);
    if has_lapsed && row.locked_until.is_none() && row.state == DeliveryState::Pending {
        pulled.give_back();
    }
    let (due_at, ended) = (pulled.due_at, pulled.end);
    if row.state != DeliveryState::Pending && ended.is_none() {
        if !watch::gave_up(ledger, sub, delivery, due_at) {
            return Err(format!("nobody ended it, but it is {row:?}"));
        }
        end_unattended(ledger, event, sub, delivery);
    }
    let pulled = &ledger.events[event].pairs[&sub].pulled[&row.id.0];
    let found = end_of(delivery);
    let locked_until = pulled.lock.as_ref().map(|lock| lock.until);
    let is_due_right = row.next_attempt_at.is_none_or(|next| next == pulled.due_at);
    let is_right = found == pulled.end
        && row.attempts == pulled.count
        && row.locked_until == locked_until
        && is_due_right
        && turns(delivery) == pulled.over;
    match is_right {
        true => Ok(()),
        false => Err(format!("it must be {pulled:?}, but it is {delivery:?}")),
    }
}

/// It was given up, or its subscription was deleted: a lock that had lapsed is noticed at last.
fn end_unattended(ledger: &mut Ledger, event: usize, sub: usize, delivery: &DeliveryDetail) {
    let row = &delivery.row;
    let pair = ledger.events[event].pairs.get_mut(&sub).expect("a pair");
    let pulled = pair.pulled.get_mut(&row.id.0).expect("it was seen");
    let at = row.ended_at.expect("it has ended");
    if let Some(lock) = &mut pulled.lock {
        // That of a deleted subscription ends with it.
        lock.until = lock.until.min(lock.from + at.since(lock.from));
    }
    pulled.note_lapse();
    pulled.end = end_of(delivery);
}
