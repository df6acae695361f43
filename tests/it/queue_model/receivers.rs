//! What receivers do.

use everpost::base::Timestamp;
use everpost::broker::{MessagingError, ReceiveRequest};
use everpost::model::dead_letter::DeadLetterDetails;
use everpost::model::lease::{Disposition, LockChange, LockError, LockOf, QueueRef, SubQueue};
use everpost::model::session::{HeldSession, SessionError};
use everpost::store::{LockSelection, Locked};

use super::expected::{Expected, LOCK, QUEUES, settle};
use super::play::{Play, REMEMBERED, subject_of};

impl Play {
    pub(super) async fn receive(&mut self) {
        let at = *self.dice.pick(&[
            Self::place("plain"),
            Self::place("morgue"),
            Self::place("remembering"),
        ]);
        self.receive_from(at, SubQueue::Active, None).await;
    }

    pub(super) async fn receive_dead_letters(&mut self) {
        let at = *self
            .dice
            .pick(&[Self::place("plain"), Self::place("sessions")]);
        self.receive_from(at, SubQueue::DeadLetter, None).await;
    }

    /// Some receiver takes what is due. Returns how many it got.
    pub(super) async fn receive_from(
        &mut self,
        at: usize,
        queue: SubQueue,
        session: Option<HeldSession>,
    ) -> usize {
        self.check(at).await;
        let limit = usize::try_from(self.dice.within(1, 4)).expect("small");
        let now = self.now();
        let in_session = |each: &Expected| {
            session
                .as_ref()
                .is_none_or(|held| each.session.as_deref() == Some(held.name.as_str()))
        };
        let due = self.contents[at]
            .iter()
            .filter(|(_, each)| each.is_in(queue) && each.is_due(now) && in_session(each));
        let mut due: Vec<_> = due
            .map(|(subject, each)| (each.place, each.number, subject.clone()))
            .collect();
        due.sort();
        let (dying, good): (Vec<_>, Vec<_>) = due
            .into_iter()
            .map(|(.., subject)| subject)
            .partition(|subject| {
                !self.contents[at][subject]
                    .ends_for(QUEUES[at], now)
                    .is_empty()
            });
        let got = self
            .lock(at, queue, LockSelection::Due, limit, session.clone())
            .await;
        let got = match (got, &session) {
            (Ok(got), _) => got,
            (Err(MessagingError::Session(SessionError::LockLost)), Some(held)) => {
                assert!(
                    !self.sessions.is_held_by(&held.name, held.token, now),
                    "{held:?} was held"
                );
                return 0;
            }
            (Err(error), _) => panic!("{error}"),
        };
        if let Some(held) = &session {
            assert!(
                self.sessions.is_held_by(&held.name, held.token, now),
                "{held:?} was not held"
            );
        }
        let least = match dying.is_empty() {
            true => limit.min(good.len()),
            false => 1.min(good.len()),
        };
        let subjects: Vec<_> = got.iter().map(|each| subject_of(&each.event)).collect();
        assert!(
            subjects.len() >= least,
            "{subjects:?} of {good:?}, beside {dying:?}"
        );
        assert_eq!(subjects, good[..subjects.len()], "the oldest come first");
        let until = session.map_or(now + LOCK, |held| self.sessions.locks[&held.name].1);
        self.hand_out(at, queue, got, until)
    }

    pub(super) async fn lock(
        &mut self,
        at: usize,
        queue: SubQueue,
        which: LockSelection,
        limit: usize,
        session: Option<HeldSession>,
    ) -> Result<Vec<Locked>, MessagingError> {
        let subscription = self.queue(at).1.id;
        let request = ReceiveRequest {
            of: QueueRef {
                subscription,
                queue,
            },
            which,
            limit,
            lock: LOCK,
            session,
        };
        self.grid().broker.receive(&request).await
    }

    pub(super) fn hand_out(
        &mut self,
        at: usize,
        queue: SubQueue,
        got: Vec<Locked>,
        until: Timestamp,
    ) -> usize {
        let count = got.len();
        for each in got {
            let subject = subject_of(&each.event);
            self.note(format!("{} {queue:?} hands out {subject}", QUEUES[at].name));
            let message = self.contents[at].get_mut(&subject).expect("it lies there");
            assert_eq!(
                each.delivery.attempts, message.attempts,
                "deliveries of {subject}"
            );
            assert_eq!(each.until, until, "lock of {subject}");
            message.lock_for(each.token, until);
            self.tokens.push((at, queue, each.token));
        }
        count
    }

    pub(super) async fn receive_deferred(&mut self) {
        let at = self.dice.index(3);
        self.check(at).await;
        let now = self.now();
        let numbers: Vec<_> = self.contents[at]
            .values()
            .filter_map(|each| each.number)
            .collect();
        if numbers.is_empty() {
            return;
        }
        let wanted = *self.dice.pick(&numbers);
        let session = match QUEUES[at].has_sessions {
            false => None,
            true if self.held.is_empty() => return,
            true => Some(self.dice.pick(&self.held).clone()),
        };
        let (locks, name) = (
            &self.sessions,
            session.as_ref().map(|held| held.name.as_str()),
        );
        let is_lost = session
            .as_ref()
            .is_some_and(|held| !locks.is_held_by(&held.name, held.token, now));
        let wished = self.contents[at].iter().filter(|(_, each)| {
            let is_there = each.number == Some(wanted) && each.deferred && each.dead.is_none();
            is_there && !each.is_held(now) && (name.is_none() || each.session.as_deref() == name)
        });
        let wished: Vec<_> = wished.map(|(subject, _)| subject.clone()).collect();
        let which = LockSelection::Deferred(vec![wanted]);
        let got = self
            .lock(at, SubQueue::Active, which, 1, session.clone())
            .await;
        let Ok(got) = got else {
            assert!(is_lost, "{got:?}");
            return;
        };
        assert!(!is_lost, "{session:?} is lost");
        let subjects: Vec<_> = got.iter().map(|each| subject_of(&each.event)).collect();
        assert_eq!(subjects, wished, "the deferred message {wanted:?}");
        let until = session.map_or(now + LOCK, |held| self.sessions.locks[&held.name].1);
        self.hand_out(at, SubQueue::Active, got, until);
    }

    pub(super) async fn settle(&mut self) {
        if self.tokens.is_empty() {
            return self.receive().await;
        }
        let newest = self.tokens.len().saturating_sub(REMEMBERED);
        let (at, queue, token) = *self.dice.pick(&self.tokens[newest..]);
        let disposition = match self.dice.weighted(&[30, 25, 10, 10, 15, 10]) {
            0 => Disposition::Complete,
            1 => Disposition::Abandon,
            2 => Disposition::Uncount,
            3 if queue == SubQueue::Active => Disposition::Defer,
            4 => Disposition::DeadLetter(DeadLetterDetails::default().into()),
            5 if !QUEUES[at].has_sessions => Disposition::Renew {
                lock_for: LOCK,
                within: None,
            },
            _ => Disposition::Abandon,
        };
        let now = self.now();
        let expected = settle(&mut self.contents[at], token, &disposition, now);
        let subscription = self.queue(at).1.id;
        let change = LockChange {
            token,
            of: LockOf::any_of(QueueRef {
                subscription,
                queue,
            }),
            disposition: disposition.clone(),
            properties: [].into(),
        };
        let settled = self.grid().broker.settle_locks(vec![change], None).await;
        let settled: Result<(), LockError> = settled.expect("an answer").remove(0).map(drop);
        self.note(format!(
            "{disposition:?} of {token} in {} comes to {settled:?}",
            QUEUES[at].name
        ));
        assert_eq!(settled, expected, "{disposition:?}");
    }
}
