//! Links over which clients receive from an entity.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::api::amqp::container::{OutgoingLink, OutgoingMessage, ReceiverRequest};
use crate::api::amqp::sessions::HeldSessions;
use crate::base::seldom::SeldomLine;
use crate::base::stint::Stint;
use crate::broker::{MessageReceiver, MessagingError};
use crate::model::audit::Caller;
use crate::model::dead_letter::DeadLetterDetails;
use crate::model::lease::{Disposition, LockChange, LockError, LockToken};
use crate::model::limits::{
    LOCK_BYTES_MAX, RECEIVE_WAIT_MAX, RECEIVER_PROPERTY_BYTES_MAX, SESSION_WAIT,
};
use crate::model::session::{HeldSession, SessionError};
use crate::wire::amqp::AmqpError;
use crate::wire::amqp::outcome::{ReceiverOutcome, encoded_changes};

/// A link over which a client receives.
pub(super) struct ReceiverLink {
    receiver: MessageReceiver,
    /// The client, for the audit log.
    by: Caller,
    /// The sessions that the connection holds.
    sessions: Arc<HeldSessions>,
    /// The session as it was when it was locked; `sessions` has the current end of its lock.
    session: Option<HeldSession>,
    /// The client settles messages; otherwise they are removed once they are written.
    settles: bool,
    /// Nothing could be taken although something seemed to be there.
    in_vain: AtomicBool,
}

impl ReceiverLink {
    /// Opens a link. On an entity with sessions, waits until the session that the client wants is locked, and gives up
    /// when the wait is over or `gone` is cancelled.
    pub(super) async fn open(
        receiver: MessageReceiver,
        by: Caller,
        sessions: Arc<HeldSessions>,
        request: &ReceiverRequest,
        gone: &CancellationToken,
    ) -> Result<Self, MessagingError> {
        receiver.check_receivable()?;
        let wait = request.session_wait.unwrap_or(SESSION_WAIT);
        let give_up = tokio::time::timeout(wait.min(RECEIVE_WAIT_MAX), gone.cancelled());
        let wanted = request.session.as_ref();
        let accepted = receiver.accept_session(&by.actor, wanted, give_up.map(drop));
        let session = accepted.await?;
        if let Some(held) = &session {
            sessions.put(held.clone(), &request.link);
        }
        Ok(Self {
            receiver,
            by,
            sessions,
            session,
            settles: request.lock,
            in_vain: AtomicBool::new(false),
        })
    }

    /// Waits until the lock on the session has ended; for ever on a link without a session. A client that does not
    /// settle messages does not renew the session lock either, so the lock is renewed here for such a client.
    async fn session_ended(&self) {
        let Some(held) = &self.session else {
            return std::future::pending().await;
        };
        let receiver = &self.receiver;
        while let Some(until) = self.sessions.end_of(held) {
            let left = until.since(receiver.broker().clock().now());
            if left.is_zero() {
                return;
            }
            // For a client that does not settle, renews the lock when half of its duration is left, even if this
            // function is called again meanwhile.
            let half = receiver.lock_duration() / 2;
            tokio::time::sleep(if self.settles {
                left
            } else {
                left.saturating_sub(half)
            })
            .await;
            if !self.settles
                && renew_session(receiver, &self.sessions, &held.name)
                    .await
                    .is_err()
            {
                return;
            }
        }
    }
}

#[async_trait]
impl OutgoingLink for ReceiverLink {
    fn session(&self) -> Option<&HeldSession> {
        self.session.as_ref()
    }

    fn lock_duration(&self) -> Duration {
        self.receiver.lock_duration()
    }

    async fn ended(&self) -> AmqpError {
        self.session_ended().await;
        MessagingError::from(SessionError::LockLost).into()
    }

    async fn arrival(&self) -> Result<(), AmqpError> {
        let in_vain = self.in_vain.load(Ordering::Relaxed);
        let session = self.session.as_ref();
        let due = self.receiver.await_due(&self.by.actor, session, in_vain);
        Ok(due.await?)
    }

    fn bytes_max(&self, limit: usize) -> usize {
        self.receiver.locked_bytes_max(limit).min(LOCK_BYTES_MAX)
    }

    async fn take(&self, limit: usize) -> Result<Vec<OutgoingMessage>, AmqpError> {
        let (receiver, session) = (&self.receiver, self.session.as_ref());
        let received = receiver.receive(limit, session).await?;
        self.in_vain.store(received.is_empty(), Ordering::Relaxed);
        let mut stint = Stint::default();
        let mut taken = Vec::with_capacity(received.len());
        for each in &received {
            let message = receiver.encode(each, self.settles);
            stint.did(message.len()).await;
            taken.push(OutgoingMessage {
                token: uuid_of(each.token),
                message,
            });
        }
        Ok(taken)
    }

    async fn renew(&self, locks: Vec<Uuid>) {
        if self.session.is_some() {
            return; // their lock is the session's
        }
        let tokens = locks.into_iter().map(lock_of).collect();
        if let Err(error) = self.receiver.renew_locks(&self.by, tokens).await {
            tracing::debug!(%error, "the lock of a message could not be renewed");
        }
    }

    async fn settle(&self, locks: Vec<(Uuid, ReceiverOutcome)>) -> Vec<Result<(), AmqpError>> {
        settle(&self.receiver, &self.by, locks).await
    }

    async fn close(&self, in_order: bool) {
        static LINE: SeldomLine = SeldomLine::new();
        let Some(held) = &self.session else {
            return;
        };
        self.sessions.remove(held);
        let closed = self.receiver.close_session(held.clone(), !in_order).await;
        if let Err(MessagingError::Store(error)) = closed
            && let Some(unlogged) = LINE.take_now()
        {
            tracing::warn!(
                %error,
                unlogged,
                "a session could not be given back; its lock has to expire; further ones within a minute are only counted"
            );
        }
    }
}

/// Settles the messages with these locks by their outcomes. Returns the result for each lock, in the order of `locks`.
pub(super) async fn settle(
    receiver: &MessageReceiver,
    by: &Caller,
    locks: Vec<(Uuid, ReceiverOutcome)>,
) -> Vec<Result<(), AmqpError>> {
    let (mut changes, mut rejected) = (Vec::with_capacity(locks.len()), Vec::new());
    let mut decisions = LockDecisions::default();
    for (place, (token, outcome)) in locks.into_iter().enumerate() {
        match decisions.change(receiver, token, &outcome) {
            Ok(change) => changes.push(change),
            Err(error) => rejected.push((place, error)),
        }
    }
    let settled = receiver.settle(by, changes).await.into_iter();
    let mut results: Vec<Result<(), AmqpError>> = settled.map(|each| Ok(each?)).collect();
    for (place, error) in rejected {
        results.insert(place, Err(error.into()));
    }
    results
}

/// Returns for each lock whether it is still held (`Ok`) or not (an error), in the order of `tokens`.
pub(super) async fn check_locks(
    receiver: &MessageReceiver,
    tokens: Vec<Uuid>,
) -> Vec<Result<(), AmqpError>> {
    let count = tokens.len();
    let locks = tokens.into_iter().map(lock_of).collect();
    match receiver.check_locks(locks).await {
        Ok(checked) => checked.into_iter().map(|each| Ok(each?)).collect(),
        Err(error) => vec![Err(MessagingError::from(error).into()); count],
    }
}

/// Converts outcomes to changes of locks. An outcome that consecutive locks share is converted only once, however many
/// locks there are.
#[derive(Default)]
pub(super) struct LockDecisions {
    last: Option<(ReceiverOutcome, Result<LockDecision, MessagingError>)>,
}

#[derive(Clone)]
struct LockDecision {
    disposition: Disposition,
    properties: Arc<[u8]>,
}

impl LockDecisions {
    /// Returns the change that an outcome makes to a lock.
    pub(super) fn change(
        &mut self,
        receiver: &MessageReceiver,
        token: Uuid,
        outcome: &ReceiverOutcome,
    ) -> Result<LockChange, MessagingError> {
        let decision = self.decide(outcome)?;
        Ok(LockChange {
            properties: decision.properties,
            ..receiver.change(lock_of(token), decision.disposition)
        })
    }

    fn decide(&mut self, outcome: &ReceiverOutcome) -> Result<LockDecision, MessagingError> {
        let known = self.last.take().filter(|(last, _)| last.is_shared(outcome));
        let (_, decision) = self
            .last
            .insert(known.unwrap_or_else(|| (outcome.clone(), LockDecision::of(outcome))));
        decision.clone()
    }
}

impl LockDecision {
    fn of(outcome: &ReceiverOutcome) -> Result<Self, MessagingError> {
        let (disposition, properties) = disposition(outcome)?;
        if properties.len() > RECEIVER_PROPERTY_BYTES_MAX {
            return Err(LockError::TooManyProperties.into());
        }
        Ok(Self {
            disposition,
            properties: properties.into(),
        })
    }
}

/// Returns the disposition of a message that has this outcome, and the encoded properties that the outcome sets.
fn disposition(outcome: &ReceiverOutcome) -> Result<(Disposition, Vec<u8>), MessagingError> {
    Ok(match outcome {
        ReceiverOutcome::Complete => (Disposition::Complete, Vec::new()),
        ReceiverOutcome::Release => (Disposition::Uncount, Vec::new()),
        ReceiverOutcome::Abandon(set) => (Disposition::Abandon, encoded_changes(set)?),
        ReceiverOutcome::Defer(set) => (Disposition::Defer, encoded_changes(set)?),
        ReceiverOutcome::DeadLetter(dead) => {
            let set = encoded_changes(&dead.properties)?;
            let details = DeadLetterDetails {
                reason: dead.reason.clone(),
                description: dead.description.clone(),
                properties: Vec::new(),
            };
            let dead_letter = Disposition::DeadLetter(Arc::new(details.checked()?));
            (dead_letter, set)
        }
    })
}

/// Renews the lock on a session that a connection holds, and stores the renewed lock in `sessions`.
pub(super) async fn renew_session(
    receiver: &MessageReceiver,
    sessions: &HeldSessions,
    name: &str,
) -> Result<HeldSession, MessagingError> {
    let held = sessions.held(receiver.subscription.id, name)?;
    let renewed = receiver.renew_session(held).await?;
    sessions.renew(renewed.clone());
    Ok(renewed)
}

pub(super) fn uuid_of(token: LockToken) -> Uuid {
    Uuid::from_bytes(*token.as_bytes())
}

pub(super) fn lock_of(token: Uuid) -> LockToken {
    LockToken::from_bytes(*token.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::amqp::value::Value;

    fn abandoning(bytes: usize) -> ReceiverOutcome {
        ReceiverOutcome::Abandon([("note".to_owned(), Value::String("x".repeat(bytes)))].into())
    }

    #[test]
    fn a_decision_about_many_locks_is_kept_once_and_bounded() {
        let mut decisions = LockDecisions::default();
        let outcome = abandoning(60_000);
        let mut decide = |outcome: &ReceiverOutcome| decisions.decide(outcome);
        let first = decide(&outcome).expect("a decision");
        let second = decide(&outcome.clone()).expect("a decision");
        assert!(Arc::ptr_eq(&first.properties, &second.properties));
        let other = decide(&abandoning(10)).expect("a decision");
        assert_eq!(other.disposition, Disposition::Abandon);
        assert!(other.properties.len() < 100);
        let too_many = decide(&abandoning(RECEIVER_PROPERTY_BYTES_MAX)).map(drop);
        assert_eq!(too_many, Err(LockError::TooManyProperties.into()));
    }
}
