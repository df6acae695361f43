//! What ought to lie in the queues: the model.

use std::collections::BTreeMap;
use std::time::Duration;

use everpost::base::Timestamp;
use everpost::model::dead_letter::DeadLetterReason;
use everpost::model::lease::{Disposition, LockError, LockToken, SubQueue};

/// A queue and its rules.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) name: &'static str,
    pub(super) attempts_max: u32,
    pub(super) time_to_live: Duration,
    pub(super) keeps_expired: bool,
    pub(super) has_sessions: bool,
    pub(super) remembers_for: Option<Duration>,
    pub(super) forward_to: Option<&'static str>,
    pub(super) forward_dead_letters_to: Option<&'static str>,
}

const MINUTES_10: Duration = Duration::from_secs(600);
const PLAIN: Rules = Rules {
    name: "plain",
    attempts_max: 3,
    time_to_live: MINUTES_10,
    keeps_expired: true,
    has_sessions: false,
    remembers_for: None,
    forward_to: None,
    forward_dead_letters_to: None,
};

/// The target of a forwarding comes before its source.
pub(super) const QUEUES: [Rules; 5] = [
    PLAIN,
    Rules {
        name: "sessions",
        has_sessions: true,
        ..PLAIN
    },
    Rules {
        name: "morgue",
        attempts_max: 10,
        ..PLAIN
    },
    Rules {
        name: "remembering",
        keeps_expired: false,
        remembers_for: Some(Duration::from_secs(60)),
        forward_dead_letters_to: Some("morgue"),
        ..PLAIN
    },
    Rules {
        name: "first",
        time_to_live: Duration::from_secs(86_400),
        forward_to: Some("plain"),
        ..PLAIN
    },
];

/// How long receivers hold messages and sessions.
pub(super) const LOCK: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub(super) struct Expected {
    /// Of what was forwarded, as soon as it was seen.
    pub(super) number: Option<i64>,
    pub(super) session: Option<String>,
    pub(super) own_life: Option<Duration>,
    /// When it was or will be enqueued, or was dead-lettered.
    pub(super) place: Timestamp,
    pub(super) expires_at: Timestamp,
    pub(super) attempts: u32,
    pub(super) deferred: bool,
    pub(super) dead: Option<DeadLetterReason>,
    /// The newest lock, which may have lapsed.
    pub(super) lock: Option<(LockToken, Timestamp)>,
}

impl Expected {
    pub(super) fn new(
        rules: Rules,
        place: Timestamp,
        session: Option<String>,
        own_life: Option<Duration>,
    ) -> Self {
        let life = own_life.map_or(rules.time_to_live, |own| own.min(rules.time_to_live));
        Self {
            number: None,
            session,
            own_life,
            place,
            expires_at: place + life,
            attempts: 0,
            deferred: false,
            dead: None,
            lock: None,
        }
    }

    pub(super) fn is_held(&self, now: Timestamp) -> bool {
        self.lock.is_some_and(|(_, until)| now < until)
    }

    pub(super) fn is_in(&self, queue: SubQueue) -> bool {
        self.dead.is_some() == (queue == SubQueue::DeadLetter)
    }

    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        !self.deferred && !self.is_held(now) && self.place <= now
    }

    /// Whether it waits for its moment, and nothing has happened to it yet.
    pub(super) fn is_scheduled(&self, now: Timestamp) -> bool {
        self.dead.is_none() && self.lock.is_none() && !self.deferred && self.place > now
    }

    /// Why nobody may get it any more: it is ended at any moment, the next time that somebody looks at the latest.
    pub(super) fn ends_for(&self, rules: Rules, now: Timestamp) -> Vec<DeadLetterReason> {
        let mut reasons = Vec::new();
        if self.dead.is_some() || self.deferred || self.is_held(now) {
            return reasons;
        }
        if self.attempts >= rules.attempts_max {
            reasons.push(DeadLetterReason::MaxDeliveryAttemptsExceeded);
        }
        if now >= self.expires_at {
            reasons.push(DeadLetterReason::TimeToLiveExceeded);
        }
        reasons
    }

    pub(super) fn lock_for(&mut self, token: LockToken, until: Timestamp) {
        self.attempts += u32::from(self.dead.is_none());
        self.lock = Some((token, until));
    }

    fn unlock(&mut self, counts: bool) {
        self.lock = None;
        self.attempts -= u32::from(self.dead.is_none() && !counts);
    }
}

/// What lies in a queue, by subject.
pub(super) type Contents = BTreeMap<String, Expected>;

/// What becomes of the message that a token locks.
pub(super) fn settle(
    contents: &mut Contents,
    token: LockToken,
    disposition: &Disposition,
    now: Timestamp,
) -> Result<(), LockError> {
    let is_meant = |(_, each): &(&String, &mut Expected)| {
        each.lock.is_some_and(|(of, _)| of == token) && each.is_held(now)
    };
    let found = contents.iter_mut().find(is_meant);
    let Some((subject, message)) = found else {
        return Err(LockError::LockLost);
    };
    match disposition {
        Disposition::Complete => {
            let subject = subject.clone();
            contents.remove(&subject);
        }
        Disposition::Abandon => message.unlock(true),
        Disposition::Uncount => message.unlock(false),
        Disposition::Defer => {
            message.unlock(true);
            message.deferred = true;
        }
        Disposition::DeadLetter(_) if message.dead.is_some() => {
            return Err(LockError::IsDeadLetter);
        }
        Disposition::DeadLetter(_) => {
            message.unlock(true);
            message.deferred = false;
            message.dead = Some(DeadLetterReason::Application);
            message.place = now;
        }
        Disposition::Renew { lock_for, .. } => message.lock = Some((token, now + *lock_for)),
        Disposition::Release { .. } | Disposition::GiveUp(_) => panic!("no receiver says so"),
    }
    Ok(())
}

/// Sessions of a queue: who holds them, and their states.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    pub(super) locks: BTreeMap<String, (LockToken, Timestamp)>,
    pub(super) states: BTreeMap<String, Vec<u8>>,
}

impl Sessions {
    pub(super) fn is_held(&self, name: &str, now: Timestamp) -> bool {
        self.locks.get(name).is_some_and(|(_, until)| now < *until)
    }

    pub(super) fn is_held_by(&self, name: &str, token: LockToken, now: Timestamp) -> bool {
        self.is_held(name, now) && self.locks[name].0 == token
    }
}

/// The pending messages of a session that somebody has received.
pub(super) fn received_in<'a>(
    contents: &'a mut Contents,
    session: &'a str,
) -> impl Iterator<Item = &'a mut Expected> {
    contents.values_mut().filter(move |each| {
        each.session.as_deref() == Some(session) && each.dead.is_none() && each.lock.is_some()
    })
}

/// They go back to their places.
pub(super) fn give_back(contents: &mut Contents, session: &str, counts: bool) {
    for message in received_in(contents, session) {
        message.unlock(counts);
    }
}
