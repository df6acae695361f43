//! What senders and receivers do, held against the model.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use everpost::base::Timestamp;
use everpost::broker::{NewMessage, Queue};
use everpost::model::dead_letter::DeadLetterReason;
use everpost::model::event::StoredEvent;
use everpost::model::lease::{LockToken, SubQueue};
use everpost::model::name::TopicName;
use everpost::model::session::HeldSession;
use everpost::wire::amqp::message::{Message, MessageProperties};
use everpost::wire::service_bus::message::to_event;
use serde_json::json;

use super::expected::{Contents, Expected, LOCK, QUEUES, Sessions, received_in};
use crate::grid::Grid;
use crate::sim::dice::Dice;

pub(super) const SESSIONS: [&str; 3] = ["a", "b", "c"];

/// From so many messages in a queue on nobody sends to it.
const CROWDED: usize = 60;

/// Tokens and sessions that are tried again, although they may be worth nothing.
pub(super) const REMEMBERED: usize = 12;

pub(super) struct Play {
    pub(super) seed: u64,
    pub(super) dice: Dice,
    pub(super) grid: Option<Grid>,
    pub(super) sent: u64,
    pub(super) contents: [Contents; QUEUES.len()],
    /// How many messages were ever in each queue.
    pub(super) arrived: [i64; QUEUES.len()],
    pub(super) sessions: Sessions,
    /// Until when the queue that detects duplicates remembers an id.
    pub(super) remembered: BTreeMap<String, Timestamp>,
    pub(super) tokens: Vec<(usize, SubQueue, LockToken)>,
    pub(super) held: Vec<HeldSession>,
    pub(super) story: Vec<String>,
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
            arrived: Default::default(),
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

    pub(super) fn note(&mut self, line: String) {
        self.story.push(line);
    }

    pub(super) fn grid(&self) -> &Grid {
        self.grid.as_ref().expect("a grid")
    }

    pub(super) fn now(&self) -> Timestamp {
        self.grid().clock.now()
    }

    pub(super) fn queue(&self, at: usize) -> Queue {
        let name = TopicName::custom(QUEUES[at].name).expect("a name");
        self.grid().broker.queue(&name).expect("the queue")
    }

    pub(super) fn place(name: &str) -> usize {
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
        let properties = MessageProperties {
            message_id: Some(id.as_str().into()),
            subject: Some(subject.to_owned()),
            group_id: session.clone(),
            ..MessageProperties::default()
        };
        let message = Message::of(&properties, Vec::new(), "body".into());
        let message = match own_life {
            Some(life) => message.with_ttl(life),
            None => message,
        };
        let scheduled_at = dice.maybe(15, || now + Duration::from_secs(dice.within(1, 60)));
        let event = to_event(message, || panic!("it has an id")).expect("an event");
        let new = NewMessage::from(event).scheduled(scheduled_at);
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
        self.arrived[at] += 1;
        message.number = Some(self.arrived[at]);
        self.contents[at].insert(subject, message);
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
        let (topic, _) = self.queue(at);
        let cancelled = self
            .grid()
            .broker
            .cancel_scheduled(&topic, vec![number])
            .await;
        self.note(format!("{subject} is cancelled: {cancelled:?}"));
        let is_scheduled = self.contents[at][&subject].is_scheduled(now);
        assert_eq!(cancelled.expect("an answer"), is_scheduled, "{subject}");
        if is_scheduled {
            self.contents[at].remove(&subject);
        }
    }

    pub(super) fn pass(&mut self) {
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
                (rules.forward_to, SubQueue::Active),
                (rules.forward_dead_letters_to, SubQueue::DeadLetter),
            ] {
                let Some(to) = to.map(Self::place) else {
                    continue;
                };
                let goes_on = |each: &Expected| each.is_in(queue) && each.is_due(now);
                let mut stays = Contents::new();
                for (subject, each) in std::mem::take(&mut self.contents[from]) {
                    if goes_on(&each) {
                        let arrived = Expected::new(QUEUES[to], now, each.session, each.own_life);
                        self.arrived[to] += 1;
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
        // The connections that held sessions are gone.
        let (now, at) = (self.now(), Self::place("sessions"));
        for (name, (_, until)) in &mut self.sessions.locks {
            *until = (*until).min(now);
            for message in received_in(&mut self.contents[at], name) {
                message.lock = message.lock.map(|(token, end)| (token, end.min(now)));
            }
        }
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
            while is_free && self.receive_from(at, SubQueue::Active, None).await > 0 {}
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
}

pub(super) fn subject_of(event: &StoredEvent) -> String {
    event.event.subject.clone().expect("a subject")
}
