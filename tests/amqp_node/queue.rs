//! One queue: messages by number, their locks, and sessions.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bytes::Bytes;
use everpost::base::{Entropy, Timestamp};
use everpost::wire::amqp::condition::{
    AmqpError, MESSAGE_LOCK_LOST, MESSAGE_NOT_FOUND, SESSION_LOCK_LOST,
};
use everpost::wire::amqp::message::{Handout, Message, annotation};
use everpost::wire::amqp::outcome::{Changes, Outcome};
use everpost::wire::amqp::value::Value;
use uuid::Uuid;

const DELIVERIES_MAX: u32 = 3;

pub(crate) struct Queue {
    messages: BTreeMap<i64, Stored>,
    sessions: HashMap<String, Session>,
    dead: Vec<Stored>,
    last_number: i64,
    lock_for: Duration,
}

#[derive(Default)]
pub(crate) struct Session {
    pub(crate) state: Option<Bytes>,
    pub(crate) locked_until: Option<Timestamp>,
}

pub(crate) struct Stored {
    message: Message,
    number: i64,
    enqueued_at: Timestamp,
    session: Option<String>,
    deliveries: u32,
    state: State,
    lock: Option<(Uuid, Timestamp)>,
    changes: Vec<(String, Option<Value>)>,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Active = 0,
    Deferred = 1,
    Scheduled = 2,
}

impl Queue {
    pub(crate) fn new(lock_for: Duration) -> Self {
        Self {
            messages: BTreeMap::new(),
            sessions: HashMap::new(),
            dead: Vec::new(),
            last_number: 0,
            lock_for,
        }
    }

    pub(crate) fn add(&mut self, message: Message, now: Timestamp) -> i64 {
        self.last_number += 1;
        let new_id = || Entropy::Os.uuid().simple().to_string();
        let message = message.with_id(new_id).expect("read before");
        let properties = message.properties().expect("read before");
        let scheduled = message.scheduled_enqueue_ms().expect("read before");
        let scheduled = scheduled.map(Timestamp::from_ms).filter(|at| *at > now);
        let stored = Stored {
            number: self.last_number,
            enqueued_at: scheduled.unwrap_or(now),
            session: properties.group_id,
            deliveries: 0,
            state: if scheduled.is_some() {
                State::Scheduled
            } else {
                State::Active
            },
            lock: None,
            changes: Vec::new(),
            message,
        };
        self.messages.insert(self.last_number, stored);
        self.last_number
    }

    /// Activates what is due, and takes expired locks away.
    pub(crate) fn sweep(&mut self, now: Timestamp) {
        let due = self.messages.values();
        let due = due.filter(|each| each.state == State::Scheduled && each.enqueued_at <= now);
        let due: Vec<i64> = due.map(|each| each.number).collect();
        for number in due {
            let mut stored = self.messages.remove(&number).expect("just seen");
            self.last_number += 1;
            stored.number = self.last_number;
            stored.state = State::Active;
            self.messages.insert(self.last_number, stored);
        }
        for session in self.sessions.values_mut() {
            session.locked_until = session.locked_until.filter(|until| *until > now);
        }
        let expired = self.messages.values().filter(|each| match &each.session {
            Some(id) if self.sessions.contains_key(id) => {
                each.lock.is_some() && self.sessions[id].locked_until.is_none()
            }
            _ => each.lock.is_some_and(|(_, until)| until <= now),
        });
        let expired: Vec<i64> = expired.map(|each| each.number).collect();
        for number in expired {
            self.count(number);
        }
    }

    /// A delivery failed.
    fn count(&mut self, number: i64) {
        let stored = self.messages.get_mut(&number).expect("it is there");
        stored.lock = None;
        stored.deliveries += 1;
    }

    /// Those that were delivered too often, or dead-lettered.
    pub(crate) fn take_dead(&mut self, counts: bool) -> Vec<Stored> {
        let exhausted = self.messages.values();
        let exhausted = exhausted.filter(|each| counts && each.deliveries >= DELIVERIES_MAX);
        let exhausted: Vec<i64> = exhausted.map(|each| each.number).collect();
        for number in exhausted {
            let mut stored = self.messages.remove(&number).expect("just seen");
            let text =
                format!("Message could not be consumed after {DELIVERIES_MAX} delivery attempts.");
            stored.set("DeadLetterReason", "MaxDeliveryCountExceeded".into());
            stored.set("DeadLetterErrorDescription", text.as_str().into());
            self.dead.push(stored);
        }
        std::mem::take(&mut self.dead)
    }

    pub(crate) fn bury(&mut self, dead: Vec<Stored>) {
        for stored in dead {
            self.messages.insert(stored.number, stored);
        }
    }

    pub(crate) fn has_available(&self, session: Option<&str>) -> bool {
        self.messages
            .values()
            .any(|each| each.is_available(session))
    }

    pub(crate) fn take(
        &mut self,
        limit: usize,
        session: Option<&str>,
        lock: bool,
        now: Timestamp,
    ) -> Vec<(Uuid, Vec<u8>)> {
        let available = self.messages.values();
        let available = available.filter(|each| each.is_available(session));
        let numbers: Vec<i64> = available.map(|each| each.number).take(limit).collect();
        let taken = numbers
            .into_iter()
            .map(|number| self.hand_out(number, lock, now));
        taken.collect()
    }

    fn hand_out(&mut self, number: i64, lock: bool, now: Timestamp) -> (Uuid, Vec<u8>) {
        let token = Entropy::Os.uuid();
        let until = now + self.lock_for;
        let stored = self.messages.get_mut(&number).expect("it is there");
        stored.lock = Some((token, until));
        let encoded = stored.encoded();
        if !lock {
            self.messages.remove(&number);
        }
        (token, encoded)
    }

    pub(crate) fn peek(&self, from: i64, count: usize, session: Option<&str>) -> Vec<Bytes> {
        let found = self.messages.range(from..).map(|(_, each)| each);
        let found = found.filter(|each| session.is_none() || each.session.as_deref() == session);
        found
            .take(count)
            .map(|each| each.encoded().into())
            .collect()
    }

    pub(crate) fn receive_deferred(
        &mut self,
        numbers: &[i64],
        lock: bool,
        now: Timestamp,
    ) -> Result<Vec<(Uuid, Bytes)>, AmqpError> {
        let is_deferred = |number: &i64| {
            let found = self.messages.get(number);
            found.is_some_and(|each| each.state == State::Deferred && each.lock.is_none())
        };
        if !numbers.iter().all(is_deferred) {
            let problem = "one of the messages is not deferred";
            return Err(AmqpError::new(MESSAGE_NOT_FOUND, problem));
        }
        let taken = numbers.iter().map(|number| {
            let (token, message) = self.hand_out(*number, lock, now);
            (token, message.into())
        });
        Ok(taken.collect())
    }

    fn locked(&mut self, token: Uuid) -> Result<&mut Stored, AmqpError> {
        let mut all = self.messages.values_mut();
        let found = all.find(|each| each.lock.is_some_and(|(each, _)| each == token));
        found.ok_or_else(|| AmqpError::new(MESSAGE_LOCK_LOST, "The lock supplied is invalid."))
    }

    pub(crate) fn renew(&mut self, token: Uuid, now: Timestamp) -> Result<Timestamp, AmqpError> {
        let until = now + self.lock_for;
        self.locked(token)?.lock = Some((token, until));
        Ok(until)
    }

    pub(crate) fn settle(&mut self, token: Uuid, outcome: &Outcome) -> Result<(), AmqpError> {
        let stored = self.locked(token)?;
        let number = stored.number;
        match outcome {
            Outcome::Complete => drop(self.messages.remove(&number)),
            Outcome::Release => stored.lock = None,
            Outcome::Abandon(changes) => {
                stored.change(changes);
                self.count(number);
            }
            Outcome::Defer(changes) => {
                stored.change(changes);
                stored.state = State::Deferred;
                stored.lock = None;
            }
            Outcome::DeadLetter(details) => {
                let mut stored = self.messages.remove(&number).expect("just seen");
                stored.change(&details.properties);
                stored.lock = None;
                for (name, text) in [
                    ("DeadLetterReason", &details.reason),
                    ("DeadLetterErrorDescription", &details.description),
                ] {
                    if let Some(text) = text {
                        stored.set(name, text.as_str().into());
                    }
                }
                self.dead.push(stored);
            }
        }
        Ok(())
    }

    pub(crate) fn cancel(&mut self, numbers: &[i64]) -> Result<(), AmqpError> {
        for number in numbers {
            let found = self.messages.get(number);
            if found.is_none_or(|each| each.state != State::Scheduled) {
                let problem = "one of the messages is not scheduled";
                return Err(AmqpError::new(MESSAGE_NOT_FOUND, problem));
            }
        }
        self.messages.retain(|number, _| !numbers.contains(number));
        Ok(())
    }

    pub(crate) fn delete(&mut self, count: usize, before: Option<Timestamp>) -> usize {
        let found = self.messages.values();
        let found = found.filter(|each| {
            each.lock.is_none() && before.is_none_or(|before| each.enqueued_at < before)
        });
        let found: Vec<i64> = found.map(|each| each.number).take(count).collect();
        self.messages.retain(|number, _| !found.contains(number));
        found.len()
    }

    pub(crate) fn session(&mut self, id: &str) -> &mut Session {
        self.sessions.entry(id.to_owned()).or_default()
    }

    pub(crate) fn sessions(&self) -> impl Iterator<Item = String> {
        let mut ids: Vec<String> = self
            .messages
            .values()
            .filter_map(|each| each.session.clone())
            .collect();
        ids.sort();
        ids.dedup();
        ids.into_iter()
    }

    pub(crate) fn free_session(&self) -> Option<String> {
        let available = self.messages.values();
        let mut ids = available.filter_map(|each| each.session.clone());
        ids.find(|id| {
            let session = self.sessions.get(id);
            session.is_none_or(|session| session.locked_until.is_none())
        })
    }

    pub(crate) fn lock_session(&mut self, id: &str, now: Timestamp) -> bool {
        let until = now + self.lock_for;
        let session = self.session(id);
        if session.locked_until.is_some() {
            return false;
        }
        session.locked_until = Some(until);
        true
    }

    pub(crate) fn renew_session(
        &mut self,
        id: &str,
        now: Timestamp,
    ) -> Result<Timestamp, AmqpError> {
        let until = now + self.lock_for;
        let session = self.session(id);
        if session.locked_until.is_none() {
            return Err(AmqpError::new(
                SESSION_LOCK_LOST,
                "The session lock has expired.",
            ));
        }
        session.locked_until = Some(until);
        Ok(until)
    }

    /// Frees the messages of a session that was closed.
    pub(crate) fn release_session(&mut self, id: &str) {
        let of = self.messages.values_mut();
        for stored in of.filter(|each| each.session.as_deref() == Some(id)) {
            stored.lock = None;
        }
    }
}

impl Stored {
    fn is_available(&self, session: Option<&str>) -> bool {
        self.state == State::Active
            && self.lock.is_none()
            && (session.is_none() || self.session.as_deref() == session)
    }

    fn change(&mut self, changes: &Changes) {
        for (name, value) in changes {
            self.set(name, value.clone());
        }
    }

    fn set(&mut self, name: &str, value: Value) {
        self.changes.retain(|(each, _)| each != name);
        self.changes.push((name.to_owned(), Some(value)));
    }

    fn encoded(&self) -> Vec<u8> {
        let moment = |at: Timestamp| Value::Timestamp(at.as_ms());
        let mut annotations = vec![
            (annotation::SEQUENCE_NUMBER, Value::Long(self.number)),
            (
                annotation::ENQUEUED_SEQUENCE_NUMBER,
                Value::Long(self.number),
            ),
            (annotation::ENQUEUED_TIME, moment(self.enqueued_at)),
            (annotation::MESSAGE_STATE, Value::Int(self.state as i32)),
        ];
        if let Some((_, until)) = self.lock {
            annotations.push((annotation::LOCKED_UNTIL, moment(until)));
        }
        let handout = Handout {
            delivery_count: self.deliveries,
            annotations,
            properties: self.changes.clone(),
        };
        self.message.hand_out(&handout).expect("read before")
    }
}
