//! Message sessions of queues: accepting, renewing, reading and releasing them (rule S6).

use crate::base::Timestamp;
use crate::broker::Broker;
use crate::broker::messaging::arrivals::AwaitedArrival;
use crate::broker::messaging::{MessageReceiver, MessagingError, NotAllowed};
use crate::model::audit::Actor;
use crate::model::lease::{LockToken, QueueRef};
use crate::model::session::{
    HeldSession, SessionAnswer, SessionChange, SessionError, SessionSelection,
};
use crate::model::subscription::{EventSubscription, SubscriptionId};
use crate::store::{SessionQuery, SessionRequest, SessionWait, StoreError};

impl Broker {
    /// Locks a session of a queue. If none is free, waits for one until `give_up` completes. The future must not be
    /// dropped, because the session could stay locked without a holder.
    pub async fn accept_session(
        &self,
        by: &Actor,
        queue: &EventSubscription,
        which: &SessionSelection,
        give_up: impl Future<Output = ()>,
    ) -> Result<HeldSession, MessagingError> {
        if !which.can_have_messages() {
            return Err(NotAllowed::SessionIdTooLong.into());
        }
        let none_free = Err(SessionError::NoneFree);
        let first = self.try_session(queue, which).await?;
        if first != none_free {
            return Ok(first?);
        }
        let waiter = self.wait_at(AwaitedArrival::Session(SessionWait::Next(queue.id)), by)?;
        tokio::pin!(give_up);
        let mut in_vain = false;
        loop {
            tokio::select! {
                due = self.due(&waiter, in_vain) => due?,
                () = &mut give_up => return Err(SessionError::NoneFree.into()),
                () = self.stopping() => return Err(SessionError::NoneFree.into()),
            }
            let accepted = self.try_session(queue, which).await?;
            if accepted != none_free {
                return Ok(accepted?);
            }
            in_vain = true;
        }
    }

    async fn try_session(
        &self,
        queue: &EventSubscription,
        which: &SessionSelection,
    ) -> Result<Result<HeldSession, SessionError>, MessagingError> {
        let (registry, now) = (self.registry(), self.clock().now());
        let found = registry.subscription(queue.id);
        let (_, queue) = found.ok_or(MessagingError::EntityDeleted)?;
        self.note_use(queue);
        if *which == SessionSelection::Next && !queue.may_deliver() {
            return Ok(Err(SessionError::NoneFree));
        }
        let request = SessionRequest {
            of: queue.id,
            which: which.clone(),
            token: LockToken::generate(self.entropy()),
            now,
            until: now + self.lock_duration(queue)?,
        };
        Ok(self.store().ledger.accept_session(request).await?)
    }

    /// Holds a session for another lock duration. Returns the lock as it is then.
    pub async fn renew_session(
        &self,
        queue: &EventSubscription,
        held: HeldSession,
    ) -> Result<HeldSession, MessagingError> {
        let until = self.clock().now() + self.lock_duration(queue)?;
        let renew = SessionChange::Renew { until };
        self.change_session(held.clone(), renew).await?;
        Ok(HeldSession { until, ..held })
    }

    /// Applies a change that the holder of a session requests.
    pub async fn change_session(
        &self,
        held: HeldSession,
        change: SessionChange,
    ) -> Result<SessionAnswer, MessagingError> {
        let is_end = matches!(change, SessionChange::Release | SessionChange::Abandon);
        let (of, now) = (QueueRef::pending(held.of), self.clock().now());
        self.note_use_of(held.of);
        let room = self.room_of(held.of);
        let ledger = &self.store().ledger;
        let changed = ledger.change_session(held, change, room, now).await?;
        if is_end {
            self.shared.arrivals.announce_all(of);
        }
        Ok(changed?)
    }

    /// Returns the bytes that a queue may grow by.
    pub(super) fn room_of(&self, of: SubscriptionId) -> u64 {
        let registry = self.registry();
        let found = registry.subscription(of.owner());
        found.map_or(0, |(topic, _)| self.room(topic))
    }

    /// Returns the names of up to `limit` sessions of a queue, after skipping `skip`. With `state_set_since`, lists
    /// the sessions whose state was set since that time. Otherwise lists the sessions that have messages or a state.
    pub async fn sessions(
        &self,
        of: SubscriptionId,
        state_set_since: Option<Timestamp>,
        skip: usize,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        let query = SessionQuery {
            of,
            state_set_since,
            skip,
            limit,
        };
        self.store().ledger.sessions(query).await
    }

    /// Wakes the holder of a session that waits for a message in the session.
    pub(in crate::broker) fn announce_message(&self, of: SubscriptionId, session: &str) {
        let awaited = SessionWait::In(of, session.to_owned());
        self.shared
            .arrivals
            .announce(&AwaitedArrival::Session(awaited), 1);
    }
}

impl MessageReceiver {
    /// Locks the wanted session. If none is free, waits for one until `give_up` completes. Returns `None` if no
    /// session is wanted and the queue has no sessions. The future must not be dropped, because the session could
    /// stay locked without a holder.
    pub async fn accept_session(
        &self,
        by: &Actor,
        wanted: Option<&SessionSelection>,
        give_up: impl Future<Output = ()>,
    ) -> Result<Option<HeldSession>, MessagingError> {
        match (wanted, self.has_sessions()) {
            (None, false) => Ok(None),
            (None, true) => Err(NotAllowed::ReceiveWithoutSession.into()),
            (Some(_), false) => Err(NotAllowed::ReceiveInSession.into()),
            (Some(which), true) => {
                let (broker, queue) = (self.broker(), &self.subscription);
                let accepted = broker.accept_session(by, queue, which, give_up).await;
                accepted.map(Some).map_err(|error| self.with_address(error))
            }
        }
    }

    /// Holds a session for another lock duration. Returns the lock as it is then.
    pub async fn renew_session(&self, held: HeldSession) -> Result<HeldSession, MessagingError> {
        let broker = self.broker();
        broker.renew_session(&self.subscription, held).await
    }

    /// Returns the stored state of a session.
    pub async fn session_state(
        &self,
        held: HeldSession,
    ) -> Result<Option<Vec<u8>>, MessagingError> {
        let read = self.broker().change_session(held, SessionChange::ReadState);
        match read.await? {
            SessionAnswer::State(state) => Ok(state),
            SessionAnswer::Done => Ok(None),
        }
    }

    /// Stores the state of a session. `None` removes the state.
    pub async fn set_session_state(
        &self,
        held: HeldSession,
        state: Option<Vec<u8>>,
    ) -> Result<(), MessagingError> {
        let set = SessionChange::SetState(state);
        self.broker().change_session(held, set).await.map(drop)
    }

    /// Releases a session. If `is_abandoned`, the deliveries of its locked messages count as failed attempts.
    pub async fn close_session(
        &self,
        held: HeldSession,
        is_abandoned: bool,
    ) -> Result<(), MessagingError> {
        let end = if is_abandoned {
            SessionChange::Abandon
        } else {
            SessionChange::Release
        };
        self.broker().change_session(held, end).await.map(drop)
    }

    /// Returns the names of up to `top` sessions after the first `skip`; see [`Broker::sessions`].
    pub async fn sessions(
        &self,
        state_set_since: Option<Timestamp>,
        skip: usize,
        top: usize,
    ) -> Result<Vec<String>, StoreError> {
        let (broker, of) = (self.broker(), self.subscription.id);
        broker.sessions(of, state_set_since, skip, top).await
    }
}
