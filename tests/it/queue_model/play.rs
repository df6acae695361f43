//! What senders and receivers do, held against the model.

use std::collections::BTreeMap;
use std::future::ready;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use everpost::broker::{NewMessage, Queue, ReceiveError, ReceiveRequest};

use everpost::base::Timestamp;
use everpost::model::dead_letter::{DeadLetterDetails, DeadLetterReason};
use everpost::model::delivery::DeliveryId;
use everpost::model::event::StoredEvent;
use everpost::model::lease::{
    Disposition, LockChange, LockError, LockOf, LockToken, QueueRef, SubQueue,
};
use everpost::model::name::TopicName;
use everpost::model::session::{
    HeldSession, SessionAnswer, SessionChange, SessionError, SessionSelection,
};
use everpost::store::{LockSelection, Locked, Peeked};
use everpost::wire::amqp::message::{Message, Properties};
use everpost::wire::service_bus::message::to_event;
use serde_json::{Value, json};

use super::expected::{Contents, Expected, LOCK, QUEUES, Sessions, give_back, received_in, settle};
use crate::grid::Grid;
use crate::sim::dice::Dice;

const SESSIONS: [&str; 3] = ["a", "b", "c"];

/// More than lie in any queue of a play.
const ALL: usize = 250;

/// From so many messages in a queue on nobody sends to it.
const CROWDED: usize = 60;

/// Tokens and sessions that are tried again, although they may be worth nothing.
const REMEMBERED: usize = 12;

pub(super) struct Play {
    seed: u64,
    dice: Dice,
    grid: Option<Grid>,
    sent: u64,
    contents: [Contents; QUEUES.len()],
    sessions: Sessions,
    /// Until when the queue that detects duplicates remembers an id.
    remembered: BTreeMap<String, Timestamp>,
    tokens: Vec<(usize, SubQueue, LockToken)>,
    held: Vec<HeldSession>,
    story: Vec<String>,
}

impl Drop for Play {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}:\n{}", self.seed, self.story.join("\n"));
        }
    }
}

impl Play {
    pub(super) async fn new(seed: u64) -> Self {
        let grid = Grid::new().await;
        for rules in QUEUES {
            let window = rules
                .remembers_for
                .map(|window| format!("PT{}S", window.as_secs()));
            let properties = json!({
                "lockDuration": format!("PT{}S", LOCK.as_secs()),
                "maxDeliveryCount": rules.attempts_max,
                "defaultMessageTimeToLive": format!("PT{}S", rules.time_to_live.as_secs()),
                "deadLetteringOnMessageExpiration": rules.keeps_expired,
                "requiresSession": rules.has_sessions,
                "requiresDuplicateDetection": window.is_some(),
                "duplicateDetectionHistoryTimeWindow": window.as_deref().unwrap_or("PT10M"),
                "forwardTo": rules.forward_to,
                "forwardDeadLetteredMessagesTo": rules.forward_dead_letters_to,
            });
            let body = json!({ "properties": properties });
            let path = format!("/queues/{}", rules.name);
            let made = grid.manage(Method::PUT, &path, body).await;
            assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
        }
        Self {
            seed,
            dice: Dice::new(seed),
            grid: Some(grid),
            sent: 0,
            contents: Default::default(),
            sessions: Sessions::default(),
            remembered: BTreeMap::new(),
            tokens: Vec::new(),
            held: Vec::new(),
            story: Vec::new(),
        }
    }

    pub(super) async fn steps(mut self, steps: u64) {
        for _ in 0..steps {
            self.step().await;
            let any = self.dice.index(QUEUES.len());
            self.check(any).await;
        }
        self.drain().await;
        self.grid.take().expect("a grid").leave();
    }

    async fn step(&mut self) {
        match self.dice.weighted(&[22, 20, 26, 5, 5, 8, 8, 3, 9, 4, 2]) {
            0 => self.send().await,
            1 => self.receive().await,
            2 => self.settle().await,
            3 => self.receive_deferred().await,
            4 => self.receive_dead_letters().await,
            5 => self.accept_session().await,
            6 => self.use_session().await,
            7 => self.cancel().await,
            8 => self.pass(),
            9 => self.forward().await,
            _ => self.restart().await,
        }
    }

    fn note(&mut self, line: String) {
        self.story.push(line);
    }

    fn grid(&self) -> &Grid {
        self.grid.as_ref().expect("a grid")
    }

    fn now(&self) -> Timestamp {
        self.grid().clock.now()
    }

    fn queue(&self, at: usize) -> Queue {
        let name = TopicName::custom(QUEUES[at].name).expect("a name");
        self.grid().broker.queue(&name).expect("the queue")
    }

    fn place(name: &str) -> usize {
        let place = QUEUES.iter().position(|rules| rules.name == name);
        place.expect("a queue")
    }

    async fn send(&mut self) {
        let at = self.dice.index(QUEUES.len());
        if self.contents[at].len() > CROWDED {
            return self.pass();
        }
        let count = self.dice.within(1, 3);
        let is_full = self.dice.percent(5);
        let (mut messages, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..count {
            self.sent += 1;
            let subject = format!("m{}", self.sent);
            let (message, one) = self.throw_message(at, &subject);
            messages.push(message);
            expected.push((subject, one));
        }
        self.grid().set_disk_full(is_full);
        let (topic, _) = self.queue(at);
        let sent = self.grid().broker.send_messages(&topic, messages).await;
        self.grid().set_disk_full(false);
        let subjects: Vec<_> = expected
            .iter()
            .map(|(subject, _)| subject.as_str())
            .collect();
        let name = QUEUES[at].name;
        self.note(format!(
            "{name} gets {subjects:?}, full: {is_full}, {sent:?}"
        ));
        match sent {
            Ok(_) => {
                for (subject, (id, one)) in expected {
                    self.arrive(at, subject, &id, one);
                }
            }
            Err(error) => assert!(is_full, "{error}"),
        }
    }

    fn throw_message(&mut self, at: usize, subject: &str) -> (NewMessage, (String, Expected)) {
        let (rules, now, dice) = (QUEUES[at], self.now(), &self.dice);
        let session = dice.maybe(95, || (*dice.pick(&SESSIONS)).to_owned());
        let session = session.filter(|_| rules.has_sessions);
        let may_expire = rules.forward_to.is_none();
        let own_life = dice.maybe(20, || Duration::from_secs(dice.within(5, 90)));
        let own_life = own_life.filter(|_| may_expire);
        let id = match rules.remembers_for {
            Some(_) => format!("id{}", dice.within(0, 9)),
            None => subject.to_owned(),
        };
        let properties = Properties {
            message_id: Some(id.as_str().into()),
            subject: Some(subject.to_owned()),
            group_id: session.clone(),
            ..Properties::default()
        };
        let message = Message::of(&properties, Vec::new(), "body".into());
        let message = match own_life {
            Some(life) => message.with_ttl(life),
            None => message,
        };
        let scheduled_at = dice.maybe(15, || now + Duration::from_secs(dice.within(1, 60)));
        let new = NewMessage {
            event: to_event(message, || panic!("it has an id")).expect("an event"),
            scheduled_at,
        };
        let place = scheduled_at.unwrap_or(now);
        (new, (id, Expected::new(rules, place, session, own_life)))
    }

    fn arrive(&mut self, at: usize, subject: String, id: &str, mut message: Expected) {
        let (rules, now) = (QUEUES[at], self.now());
        if let Some(window) = rules.remembers_for {
            if self.remembered.get(id).is_some_and(|until| now < *until) {
                return;
            }
            self.remembered.insert(id.to_owned(), now + window);
        }
        if rules.has_sessions && message.session.is_none() {
            message.dead = Some(DeadLetterReason::SessionIdMissing);
            message.place = now;
        }
        self.contents[at].insert(subject, message);
    }

    async fn receive(&mut self) {
        let at = *self.dice.pick(&[
            Self::place("plain"),
            Self::place("morgue"),
            Self::place("remembering"),
        ]);
        self.receive_from(at, SubQueue::Pending, None).await;
    }

    async fn receive_dead_letters(&mut self) {
        let at = *self
            .dice
            .pick(&[Self::place("plain"), Self::place("sessions")]);
        self.receive_from(at, SubQueue::DeadLetters, None).await;
    }

    /// Some receiver takes what is due. Returns how many it got.
    async fn receive_from(
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
            .map(|(subject, each)| (each.due_at(), each.number, subject.clone()))
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
            (Err(ReceiveError::Session(SessionError::LockLost)), Some(held)) => {
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

    async fn lock(
        &mut self,
        at: usize,
        queue: SubQueue,
        which: LockSelection,
        limit: usize,
        session: Option<HeldSession>,
    ) -> Result<Vec<Locked>, ReceiveError> {
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

    fn hand_out(
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

    async fn receive_deferred(&mut self) {
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
            .lock(at, SubQueue::Pending, which, 1, session.clone())
            .await;
        let Ok(got) = got else {
            assert!(is_lost, "{got:?}");
            return;
        };
        assert!(!is_lost, "{session:?} is lost");
        let subjects: Vec<_> = got.iter().map(|each| subject_of(&each.event)).collect();
        assert_eq!(subjects, wished, "the deferred message {wanted:?}");
        let until = session.map_or(now + LOCK, |held| self.sessions.locks[&held.name].1);
        self.hand_out(at, SubQueue::Pending, got, until);
    }

    async fn settle(&mut self) {
        if self.tokens.is_empty() {
            return self.receive().await;
        }
        let newest = self.tokens.len().saturating_sub(REMEMBERED);
        let (at, queue, token) = *self.dice.pick(&self.tokens[newest..]);
        let disposition = match self.dice.weighted(&[30, 25, 10, 10, 15, 10]) {
            0 => Disposition::Complete,
            1 => Disposition::Abandon,
            2 => Disposition::Uncount,
            3 if queue == SubQueue::Pending => Disposition::Defer,
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
            properties: Vec::new(),
        };
        let settled = self.grid().broker.settle_locks(vec![change], None).await;
        let settled: Result<(), LockError> = settled.expect("an answer").remove(0).map(drop);
        self.note(format!(
            "{disposition:?} of {token} in {} comes to {settled:?}",
            QUEUES[at].name
        ));
        assert_eq!(settled, expected, "{disposition:?}");
    }

    async fn accept_session(&mut self) {
        let at = Self::place("sessions");
        let (now, (_, queue)) = (self.now(), self.queue(at));
        let which = match self.dice.percent(50) {
            true => SessionSelection::Next,
            false => SessionSelection::Named((*self.dice.pick(&SESSIONS)).to_owned()),
        };
        let accepted = self
            .grid()
            .broker
            .accept_session(&queue, &which, ready(()))
            .await;
        self.note(format!("{which:?}: {accepted:?}"));
        let free = |name: &str, dying_too: bool| {
            !self.sessions.is_held(name, now)
                && self.contents[at].values().any(|each| {
                    let is_dying = !each.ends_for(QUEUES[at], now).is_empty();
                    let is_there = each.dead.is_none() && each.session.as_deref() == Some(name);
                    is_there && each.is_due(now) && (dying_too || !is_dying)
                })
        };
        match (&which, &accepted) {
            (SessionSelection::Named(name), Ok(held)) => {
                assert!(
                    held.name == *name && !self.sessions.is_held(name, now),
                    "{held:?}"
                );
            }
            (SessionSelection::Named(name), Err(error)) => {
                assert_eq!(*error, SessionError::Held.into());
                assert!(self.sessions.is_held(name, now), "{name} is free");
            }
            (SessionSelection::Next, Ok(held)) => assert!(free(&held.name, true), "{held:?}"),
            (SessionSelection::Next, Err(error)) => {
                assert_eq!(*error, SessionError::NoneFree.into());
                assert!(
                    !SESSIONS.iter().any(|name| free(name, false)),
                    "a session is free"
                );
            }
        }
        let Ok(held) = accepted else { return };
        assert_eq!(held.until, now + LOCK);
        give_back(&mut self.contents[at], &held.name, true);
        self.sessions
            .locks
            .insert(held.name.clone(), (held.token, held.until));
        self.held.push(held);
        let forgotten = self.held.len().saturating_sub(REMEMBERED);
        self.held.drain(..forgotten);
    }

    async fn use_session(&mut self) {
        let at = Self::place("sessions");
        if self.held.is_empty() {
            return self.accept_session().await;
        }
        let held = self.dice.pick(&self.held).clone();
        let (now, name) = (self.now(), held.name.clone());
        let is_held = self.sessions.is_held_by(&name, held.token, now);
        let lost = || ReceiveError::from(SessionError::LockLost);
        let change = match self.dice.weighted(&[40, 15, 10, 10, 5, 10, 5]) {
            0 => {
                self.receive_from(at, SubQueue::Pending, Some(held)).await;
                return;
            }
            1 => {
                let renewed = self
                    .grid()
                    .broker
                    .renew_session(&self.queue(at).1, held.clone())
                    .await;
                let expected = HeldSession {
                    until: now + LOCK,
                    ..held.clone()
                };
                assert_eq!(renewed, is_held.then_some(expected).ok_or_else(lost));
                if is_held {
                    self.sessions
                        .locks
                        .insert(name.clone(), (held.token, now + LOCK));
                    for message in received_in(&mut self.contents[at], &name) {
                        message.lock = message.lock.map(|(token, _)| (token, now + LOCK));
                    }
                }
                return;
            }
            2 => SessionChange::ReadState,
            3 => SessionChange::SetState(Some(vec![7; self.dice.index(9)])),
            4 => SessionChange::SetState(None),
            5 => SessionChange::Release,
            _ => SessionChange::Abandon,
        };
        let answer = self
            .grid()
            .broker
            .change_session(held.clone(), change.clone())
            .await;
        self.note(format!("{change:?} of {held:?}: {answer:?}"));
        let expected = match change {
            SessionChange::ReadState => {
                SessionAnswer::State(self.sessions.states.get(&name).cloned())
            }
            SessionChange::SetState(_)
            | SessionChange::Release
            | SessionChange::Abandon
            | SessionChange::Renew { .. } => SessionAnswer::Done,
        };
        assert_eq!(answer, is_held.then_some(expected).ok_or_else(lost));
        if !is_held {
            return;
        }
        match change {
            SessionChange::SetState(Some(state)) => drop(self.sessions.states.insert(name, state)),
            SessionChange::SetState(None) => drop(self.sessions.states.remove(&name)),
            SessionChange::Release | SessionChange::Abandon => {
                give_back(
                    &mut self.contents[at],
                    &name,
                    change == SessionChange::Abandon,
                );
                self.sessions.locks.remove(&name);
            }
            SessionChange::ReadState | SessionChange::Renew { .. } => {}
        }
    }

    async fn cancel(&mut self) {
        let at = self.dice.index(QUEUES.len());
        self.check(at).await;
        let now = self.now();
        let known = self.contents[at].iter();
        let known: Vec<_> = known
            .filter_map(|(subject, each)| Some((each.number?, subject.clone())))
            .collect();
        if known.is_empty() {
            return;
        }
        let (number, subject) = self.dice.pick(&known).clone();
        let (topic, queue) = self.queue(at);
        let cancelled = self
            .grid()
            .broker
            .cancel_scheduled(&topic, &queue, vec![number])
            .await;
        self.note(format!("{subject} is cancelled: {cancelled:?}"));
        let is_scheduled = self.contents[at][&subject].is_scheduled(now);
        assert_eq!(cancelled.expect("an answer"), is_scheduled, "{subject}");
        if is_scheduled {
            self.contents[at].remove(&subject);
        }
    }

    fn pass(&mut self) {
        let seconds = self.dice.within(1, 25);
        self.note(format!("{seconds} s pass"));
        self.grid().pass(Duration::from_secs(seconds));
    }

    async fn forward(&mut self) {
        self.check_all().await;
        self.note("messages are forwarded".to_owned());
        let forwarded = self.grid().broker.forward_all().await;
        forwarded.expect("forwarded");
        let now = self.now();
        for (from, rules) in QUEUES.iter().enumerate() {
            for (to, queue) in [
                (rules.forward_to, SubQueue::Pending),
                (rules.forward_dead_letters_to, SubQueue::DeadLetters),
            ] {
                let Some(to) = to.map(Self::place) else {
                    continue;
                };
                let goes_on = |each: &Expected| each.is_in(queue) && each.is_due(now);
                let mut stays = Contents::new();
                for (subject, each) in std::mem::take(&mut self.contents[from]) {
                    if goes_on(&each) {
                        let arrived = Expected::new(QUEUES[to], now, each.session, each.own_life);
                        self.contents[to].insert(subject, arrived);
                    } else {
                        stays.insert(subject, each);
                    }
                }
                self.contents[from] = stays;
            }
        }
    }

    async fn restart(&mut self) {
        self.note("a crash".to_owned());
        let grid = self.grid.take().expect("a grid");
        self.grid = Some(grid.restarted().await);
    }

    /// Receivers who are well take everything.
    async fn drain(&mut self) {
        self.note("the end".to_owned());
        self.grid().pass(LOCK + Duration::from_secs(60));
        self.check_all().await;
        self.forward().await;
        self.check_all().await;
        for (at, rules) in QUEUES.iter().enumerate() {
            let is_free = rules.forward_to.is_none() && !rules.has_sessions;
            while is_free && self.receive_from(at, SubQueue::Pending, None).await > 0 {}
        }
        self.check_all().await;
        for (contents, rules) in self.contents.iter().zip(QUEUES) {
            let now = self.now();
            let left = contents.values().filter(|each| {
                each.dead.is_none() && !each.deferred && !each.is_held(now) && !rules.has_sessions
            });
            assert_eq!(left.count(), 0, "{} is not empty", rules.name);
        }
    }

    async fn check_all(&mut self) {
        for at in 0..QUEUES.len() {
            self.check(at).await;
        }
    }

    /// What lies in a queue is what ought to.
    async fn check(&mut self, at: usize) {
        let (rules, now) = (QUEUES[at], self.now());
        let pending = self.peek(at, SubQueue::Pending).await;
        let mut dead = self.peek(at, SubQueue::DeadLetters).await;
        let mut expected = std::mem::take(&mut self.contents[at]);
        let numbers: Vec<_> = pending.iter().map(|each| each.delivery.id).collect();
        assert!(numbers.is_sorted(), "{numbers:?}");
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
            learn(&mut message, each.delivery.id, &subject);
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
            learn(&mut message, each.delivery.id, &subject);
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

    async fn check_counts(&self, at: usize) {
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

    async fn peek(&self, at: usize, queue: SubQueue) -> Vec<Peeked> {
        let subscription = self.queue(at).1.id;
        let of = QueueRef {
            subscription,
            queue,
        };
        let peeked = self.grid().broker.peek(of, None, DeliveryId(0), ALL).await;
        peeked.expect("an answer")
    }
}

fn learn(message: &mut Expected, number: DeliveryId, subject: &str) {
    let known = *message.number.get_or_insert(number);
    assert_eq!(known, number, "the number of {subject}");
}

fn subject_of(event: &StoredEvent) -> String {
    event.event.subject.clone().expect("a subject")
}
