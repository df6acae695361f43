//! What holders of sessions do.

use std::future::ready;

use everpost::broker::MessagingError;
use everpost::model::audit::Actor;
use everpost::model::lease::SubQueue;
use everpost::model::session::{
    HeldSession, SessionAnswer, SessionChange, SessionError, SessionSelection,
};

use super::expected::{LOCK, QUEUES, give_back, received_in};
use super::play::{Play, REMEMBERED, SESSIONS};

impl Play {
    pub(super) async fn accept_session(&mut self) {
        let at = Self::place("sessions");
        let (now, (_, queue)) = (self.now(), self.queue(at));
        let which = match self.dice.percent(50) {
            true => SessionSelection::Next,
            false => SessionSelection::Named((*self.dice.pick(&SESSIONS)).to_owned()),
        };
        let accepted = self
            .grid()
            .broker
            .accept_session(&Actor::Appliance, &queue, &which, ready(()))
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

    pub(super) async fn use_session(&mut self) {
        let at = Self::place("sessions");
        if self.held.is_empty() {
            return self.accept_session().await;
        }
        let held = self.dice.pick(&self.held).clone();
        let (now, name) = (self.now(), held.name.clone());
        let is_held = self.sessions.is_held_by(&name, held.token, now);
        let lost = || MessagingError::from(SessionError::LockLost);
        let change = match self.dice.weighted(&[40, 15, 10, 10, 5, 10, 5]) {
            0 => {
                self.receive_from(at, SubQueue::Active, Some(held)).await;
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
            // An empty state is none.
            SessionChange::SetState(state) => match state.filter(|state| !state.is_empty()) {
                Some(state) => drop(self.sessions.states.insert(name, state)),
                None => drop(self.sessions.states.remove(&name)),
            },
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
}
