//! What queues with sessions, and those that detect duplicates, ask of the ledger.

use std::collections::HashSet;
use std::time::Duration;

use everpost::base::Entropy;
use everpost::model::dead_letter::DeadLetterReason;
use everpost::model::delivery::DeliveryId;
use everpost::model::lease::{
    Disposition, LockChange, LockEnd, LockError, LockOf, LockSeed, LockToken, QueueRef,
};
use everpost::model::limits::{CHANGE_DELIVERIES_MAX, SESSION_STATE_BYTES_MAX};
use everpost::model::session::{
    HeldSession, SessionAnswer, SessionChange, SessionError, SessionSelection,
};
use everpost::model::subscription::{OnDelete, SubscriptionId};
use everpost::store::views::TotalsQuery;
use everpost::store::{
    AppendRequest, Appended, DiscardRequest, EventProblem, LockChanges, LockRequest, LockSelection,
    NewEvent, QueueIntake, QueueRoom, RegistryChange, SessionQuery, SessionRequest, SessionWait,
};

use super::{Fixture, at, changed, event};

/// The queue `billing`, whose messages have sessions.
struct Queue {
    f: Fixture,
    entropy: Entropy,
}

/// A message that was received: its id, how often before, and its lock.
type Received = (String, u32, LockToken);

/// The requirements of a queue with sessions.
fn requiring_sessions(of: SubscriptionId) -> QueueIntake {
    QueueIntake {
        with_sessions: vec![of],
        ..QueueIntake::default()
    }
}

impl Queue {
    fn of(f: Fixture) -> Self {
        let entropy = Entropy::seeded(1);
        Self { f, entropy }
    }

    /// Sends a message of this id, which is due later if it is scheduled.
    async fn send(&self, id: &str, session: Option<&str>, now: i64, scheduled: Option<i64>) {
        let message = NewEvent {
            due_at: scheduled.map(at),
            session: session.map(str::to_owned),
            ..NewEvent::new(event(id), vec![self.f.billing])
        };
        let accepted = AppendRequest {
            intake: requiring_sessions(self.f.billing),
            events: vec![message],
            ..self.f.accepted(id, &[], now)
        };
        let stored = self.f.store.ledger.append(accepted, drop).await;
        assert!(matches!(stored, Ok(Appended::Stored { .. })), "{stored:?}");
    }

    async fn accept(
        &self,
        which: Option<&str>,
        now: i64,
        until: i64,
    ) -> Result<HeldSession, SessionError> {
        let request = SessionRequest {
            of: self.f.billing,
            which: match which {
                None => SessionSelection::Next,
                Some(name) => SessionSelection::Named(name.to_owned()),
            },
            token: LockToken::generate(&self.entropy),
            now: at(now),
            until: at(until),
        };
        let accepted = self.f.store.ledger.accept_session(request).await;
        accepted.expect("an answer")
    }

    async fn next(&self, now: i64, until: i64) -> Result<String, SessionError> {
        Ok(self.accept(None, now, until).await?.name)
    }

    /// `None` if the session is not held.
    async fn take(&self, held: &HeldSession, count: usize, now: i64) -> Option<Vec<Received>> {
        self.take_these(held, LockSelection::Due, count, now).await
    }

    async fn take_these(
        &self,
        held: &HeldSession,
        which: LockSelection,
        count: usize,
        now: i64,
    ) -> Option<Vec<Received>> {
        let fresh = std::iter::repeat_with(|| LockSeed::generate(&self.entropy));
        let request = LockRequest {
            of: QueueRef::pending(self.f.billing),
            which,
            now: at(now),
            until: at(now),
            seeds: fresh.take(count).collect(),
            bytes_max: usize::MAX,
            session: Some(held.clone()),
        };
        let taken = self.f.store.ledger.lock(request).await.expect("an answer");
        let received = taken.locked.into_iter().map(|each| {
            assert_eq!(each.until, held.until, "all locks end together");
            (
                each.event.event.id.clone(),
                each.delivery.attempts,
                each.token,
            )
        });
        (!taken.session_is_lost).then(|| received.collect())
    }

    async fn change(
        &self,
        held: &HeldSession,
        change: SessionChange,
        now: i64,
    ) -> Result<SessionAnswer, SessionError> {
        self.change_within(held, change, u64::MAX, now).await
    }

    /// The same where the queue may grow by so many bytes.
    async fn change_within(
        &self,
        held: &HeldSession,
        change: SessionChange,
        room: u64,
        now: i64,
    ) -> Result<SessionAnswer, SessionError> {
        let ledger = &self.f.store.ledger;
        let changed = ledger.change_session(held.clone(), change, room, at(now));
        changed.await.expect("an answer")
    }

    async fn settle(
        &self,
        token: LockToken,
        disposition: Disposition,
        now: i64,
    ) -> Result<LockEnd, LockError> {
        let change = LockChange {
            token,
            of: LockOf::default(),
            disposition,
            properties: [].into(),
        };
        let changes = LockChanges {
            changes: vec![change],
            dropping: HashSet::new(),
            room: QueueRoom::default(),
            audit: None,
            now: at(now),
        };
        let settled = self.f.store.ledger.settle_locks(changes).await;
        settled
            .expect("an answer")
            .settled
            .remove(0)
            .map(|settled| settled.end)
    }

    async fn sessions(&self, state_set_since: Option<i64>) -> Vec<String> {
        let query = SessionQuery {
            of: self.f.billing,
            state_set_since: state_set_since.map(at),
            skip: 0,
            limit: 9,
        };
        self.f.store.ledger.sessions(query).await.expect("names")
    }
}

fn counts(received: &[Received]) -> Vec<(&str, u32)> {
    let each = received.iter();
    each.map(|(id, count, _)| (id.as_str(), *count)).collect()
}

pub(super) async fn sessions_have_one_holder_and_keep_their_order(f: Fixture) {
    let queue = Queue::of(f);
    for (id, session, now) in [("a1", "a", 10), ("b1", "b", 11), ("a2", "a", 12)] {
        queue.send(id, Some(session), now, None).await;
    }
    assert_eq!(queue.sessions(None).await, ["a", "b"]);
    let a = queue.accept(None, 20, 60).await.expect("the oldest one");
    assert_eq!(a.name, "a");
    assert_eq!(queue.next(21, 70).await, Ok("b".to_owned()));
    assert_eq!(queue.next(22, 70).await, Err(SessionError::NoneFree));
    let named = queue.accept(Some("a"), 23, 70).await;
    assert_eq!(named, Err(SessionError::Held));
    let first = queue.take(&a, 1, 24).await.expect("it is held");
    assert_eq!(counts(&first), [("a1", 0)]);
    let second = queue.take(&a, 9, 25).await.expect("it is held");
    assert_eq!(counts(&second), [("a2", 0)]);

    // The lock lapses, and with it those of both messages.
    assert_eq!(queue.take(&a, 9, 60).await, None);
    let lost = queue.settle(first[0].2, Disposition::Complete, 60).await;
    assert_eq!(lost, Err(LockError::LockLost));
    let a = queue.accept(None, 61, 100).await.expect("it is free");
    assert_eq!(a.name, "a");
    let again = queue.take(&a, 9, 62).await.expect("it is held");
    assert_eq!(counts(&again), [("a1", 1), ("a2", 1)]);

    // Renewed, it holds its messages for longer.
    let until = at(200);
    let renewed = queue.change(&a, SessionChange::Renew { until }, 90).await;
    assert_eq!(renewed, Ok(SessionAnswer::Done));
    for (_, _, token) in again {
        let done = queue.settle(token, Disposition::Complete, 150).await;
        assert!(done.is_ok(), "{done:?}");
    }
    let a = HeldSession { until, ..a };
    assert_eq!(queue.take(&a, 9, 199).await, Some(vec![]));
    assert_eq!(queue.take(&a, 9, 200).await, None);
    assert_eq!(queue.sessions(None).await, ["b"]);
}

pub(super) async fn a_holder_has_as_many_messages_as_one_change_renews(f: Fixture) {
    let queue = Queue::of(f);
    let (of, count) = (queue.f.billing, CHANGE_DELIVERIES_MAX + 5);
    let message = NewEvent {
        session: Some("a".to_owned()),
        ..NewEvent::new(event("x"), vec![of])
    };
    let accepted = AppendRequest {
        intake: requiring_sessions(of),
        events: vec![message; count],
        ..queue.f.accepted("", &[], 10)
    };
    let stored = queue.f.store.ledger.append(accepted, drop).await;
    assert!(matches!(stored, Ok(Appended::Stored { .. })), "{stored:?}");
    let held = queue.accept(None, 20, 60).await.expect("it is free");
    let received = queue.take(&held, count, 21).await.expect("it is held");
    assert_eq!(received.len(), CHANGE_DELIVERIES_MAX);
    assert_eq!(queue.take(&held, count, 22).await, Some(vec![]));
    let done = queue.settle(received[0].2, Disposition::Complete, 23).await;
    assert!(done.is_ok(), "{done:?}");
    let more = queue.take(&held, count, 24).await.expect("it is held");
    assert_eq!(more.len(), 1);
}

pub(super) async fn a_holder_gives_its_messages_back(f: Fixture) {
    let queue = Queue::of(f);
    queue.send("c1", Some("c"), 10, None).await;
    queue.send("c2", Some("c"), 10, None).await;
    // Left in order, they were not received; left otherwise, they were, in vain.
    for (end, count) in [
        (SessionChange::Release, 0),
        (SessionChange::Abandon, 0),
        (SessionChange::Release, 1),
    ] {
        let held = queue.accept(Some("c"), 20, 60).await.expect("it is free");
        let received = queue.take(&held, 1, 21).await.expect("it is held");
        assert_eq!(counts(&received), [("c1", count)]);
        let ended = queue.change(&held, end.clone(), 22).await;
        assert_eq!(ended, Ok(SessionAnswer::Done));
        let again = queue.change(&held, end, 22).await;
        assert_eq!(again, Err(SessionError::LockLost));
        let lost = queue.settle(received[0].2, Disposition::Complete, 22).await;
        assert_eq!(lost, Err(LockError::LockLost));
    }
    // What was deferred comes by its number, to the holder alone.
    let held = queue.accept(None, 30, 60).await.expect("it is free");
    let received = queue.take(&held, 1, 31).await.expect("it is held");
    let deferred = queue.settle(received[0].2, Disposition::Defer, 32).await;
    assert!(deferred.is_ok(), "{deferred:?}");
    let left = queue.take(&held, 9, 33).await.expect("it is held");
    assert_eq!(counts(&left), [("c2", 0)]);
    let other = queue.accept(Some("d"), 34, 90).await.expect("a new one");
    let first = || LockSelection::Deferred(vec![1]);
    let astray = queue.take_these(&other, first(), 1, 35).await;
    assert_eq!(astray, Some(vec![]));
    let found = queue.take_these(&held, first(), 1, 36).await;
    assert_eq!(counts(&found.expect("it is held")), [("c1", 2)]);
}

pub(super) async fn sessions_keep_a_state(f: Fixture) {
    let queue = Queue::of(f);
    queue.send("s1", Some("s"), 10, None).await;
    let held = queue.accept(None, 20, 60).await.expect("it is free");
    let read = async |held: &HeldSession, now| {
        let state = queue.change(held, SessionChange::ReadState, now).await;
        match state.expect("it is held") {
            SessionAnswer::State(state) => state,
            SessionAnswer::Done => panic!("a state"),
        }
    };
    let set = SessionChange::SetState;
    assert_eq!(read(&held, 21).await, None);
    let large = set(Some(vec![7; SESSION_STATE_BYTES_MAX + 1]));
    let too_large = queue.change(&held, large, 22).await;
    assert_eq!(too_large, Err(SessionError::StateTooLarge));
    let kept = queue.change(&held, set(Some(b"half".to_vec())), 23).await;
    assert_eq!(kept, Ok(SessionAnswer::Done));
    let received = queue.take(&held, 9, 24).await.expect("it is held");
    let done = queue.settle(received[0].2, Disposition::Complete, 25).await;
    assert!(done.is_ok(), "{done:?}");
    let released = queue.change(&held, SessionChange::Release, 26).await;
    assert_eq!(released, Ok(SessionAnswer::Done));

    // It outlives the messages, until it is set to nothing.
    assert_eq!(queue.next(27, 60).await, Err(SessionError::NoneFree));
    assert_eq!(queue.sessions(None).await, ["s"]);
    assert_eq!(queue.sessions(Some(22)).await, ["s"]);
    assert_eq!(queue.sessions(Some(23)).await, Vec::<String>::new());
    queue.f.store.ledger.tidy(at(28), 9).await.expect("tidied");
    let held = queue.accept(Some("s"), 29, 60).await.expect("it is free");
    assert_eq!(read(&held, 30).await, Some(b"half".to_vec()));
    let unset = queue.change(&held, set(None), 31).await;
    assert_eq!(unset, Ok(SessionAnswer::Done));
    assert_eq!(
        queue.change(&held, set(None), 60).await,
        Err(SessionError::LockLost)
    );
    assert_eq!(queue.sessions(None).await, Vec::<String>::new());
}

pub(super) async fn states_of_sessions_count_as_bytes_of_their_queue(f: Fixture) {
    let queue = Queue::of(f);
    let held = queue.accept(Some("s"), 10, 60).await.expect("a new one");
    let set = async |state: &[u8], room| {
        let state = SessionChange::SetState(Some(state.to_vec()));
        queue.change_within(&held, state, room, 20).await.map(drop)
    };
    let bytes = async |expected: u64| {
        let ledger = &queue.f.store.ledger;
        assert_eq!(ledger.queue_bytes(&[queue.f.billing]), expected);
        let query = TotalsQuery {
            subscriptions: vec![queue.f.billing],
            recount: true,
        };
        assert_eq!(
            ledger.totals(query).await.expect("counts")[0].bytes,
            expected
        );
    };
    assert_eq!(set(b"half", 4).await, Err(SessionError::QuotaExceeded));
    bytes(0).await;
    assert_eq!(set(b"half", 5).await, Ok(()), "its name counts, too");
    bytes(5).await;
    assert_eq!(set(b"whole", 0).await, Err(SessionError::QuotaExceeded));
    assert_eq!(set(b"full", 0).await, Ok(()), "no more than before");
    assert_eq!(set(b"", 0).await, Ok(()));
    bytes(0).await;
    let read = queue.change(&held, SessionChange::ReadState, 21).await;
    assert_eq!(read, Ok(SessionAnswer::State(None)), "an empty one is none");
    assert_eq!(queue.sessions(None).await, Vec::<String>::new());

    assert_eq!(set(b"half", 5).await, Ok(()));
    let delete = RegistryChange::DeleteSubscription {
        id: queue.f.billing,
        pending: OnDelete::Discard,
    };
    changed(&queue.f.store, delete).await;
    queue.f.store.ledger.tidy(at(70), 9).await.expect("tidied");
    bytes(0).await;
}

pub(super) async fn states_of_sessions_go_with_their_deleted_queue(f: Fixture) {
    let queue = Queue::of(f);
    for name in ["a", "b", "c"] {
        let held = queue.accept(Some(name), 10, 60).await.expect("a new one");
        let set = SessionChange::SetState(Some(b"half".to_vec()));
        assert_eq!(queue.change(&held, set, 20).await, Ok(SessionAnswer::Done));
    }
    let delete = RegistryChange::DeleteSubscription {
        id: queue.f.billing,
        pending: OnDelete::Discard,
    };
    changed(&queue.f.store, delete).await;
    let ledger = &queue.f.store.ledger;
    // Until 60 somebody holds them.
    for (now, deleted, bytes) in [(59, 0, 15), (60, 2, 5), (60, 1, 0), (60, 0, 0)] {
        let ended = ledger.discard(DiscardRequest::OfDeleted, 2, at(now)).await;
        assert_eq!(ended.expect("an answer").sessions, deleted, "{now}");
        assert_eq!(ledger.queue_bytes(&[queue.f.billing]), bytes, "{now}");
    }
}

/// A clock that was years ahead has planned the end of the lock.
pub(super) async fn a_session_that_a_wrong_clock_locked_is_free(f: Fixture) {
    let queue = Queue::of(f);
    let year = 31_536_000_000;
    queue.send("s1", Some("s"), 10, None).await;
    let held = queue.accept(None, 20, year).await.expect("it is free");
    assert_eq!(queue.take(&held, 9, 21).await.expect("it is held").len(), 1);
    queue.send("t1", Some("t"), 30, None).await;
    let fair = queue.accept(None, 40, 90).await.expect("it is free");
    assert_eq!(fair.name, "t");
    while queue.f.store.ledger.tidy(at(50), 9).await.expect("tidied") {}
    let again = queue.accept(None, 50, 90).await.expect("it is free");
    assert_eq!(again.name, "s");
    let found = queue.take(&again, 9, 51).await.expect("it is held");
    assert_eq!(counts(&found), [("s1", 1)]);
}

pub(super) async fn sessions_wait_for_their_first_message(f: Fixture) {
    let queue = Queue::of(f);
    let due = async |place: SessionWait| {
        let due = queue.f.store.ledger.session_due(place).await;
        due.expect("an answer")
    };
    let next = || SessionWait::Next(queue.f.billing);
    assert_eq!(due(next()).await, None);
    queue.send("w1", Some("w"), 10, Some(50)).await;
    assert_eq!(due(next()).await, Some(at(50)));
    let own = SessionWait::In(queue.f.billing, "w".to_owned());
    assert_eq!(due(own).await, Some(at(50)));
    assert_eq!(queue.next(49, 90).await, Err(SessionError::NoneFree));
    let held = queue.accept(None, 50, 90).await.expect("it is due");
    assert_eq!(due(next()).await, Some(at(90)));
    let received = queue.take(&held, 9, 51).await.expect("it is held");
    let done = queue.settle(received[0].2, Disposition::Complete, 52).await;
    assert!(done.is_ok(), "{done:?}");
    // Nobody is served by a session whose messages are gone.
    assert_eq!(queue.next(90, 99).await, Err(SessionError::NoneFree));
    assert_eq!(due(next()).await, None);
}

pub(super) async fn a_message_without_its_session_is_a_dead_letter(f: Fixture) {
    let queue = Queue::of(f);
    queue.send("x", None, 10, None).await;
    let shown = queue.f.store.views.delivery(DeliveryId(1)).await;
    let shown = shown.expect("an answer").expect("the delivery");
    let reason = Some(DeadLetterReason::SessionIdMissing);
    assert_eq!(
        (shown.row.attempts, shown.row.dead_letter_reason),
        (0, reason)
    );
    assert_eq!(queue.next(20, 60).await, Err(SessionError::NoneFree));
}

pub(super) async fn a_message_that_no_rule_can_be_evaluated_for_is_a_dead_letter(f: Fixture) {
    let problem = "The rule r: a number was divided by zero.";
    let message = NewEvent {
        problem: Some(EventProblem::Unevaluated(problem.to_owned())),
        ..NewEvent::new(event("x"), vec![f.billing])
    };
    let accepted = AppendRequest {
        events: vec![message],
        ..f.accepted("x", &[], 10)
    };
    let stored = f.store.ledger.append(accepted, drop).await;
    assert!(matches!(stored, Ok(Appended::Stored { .. })), "{stored:?}");
    let request = LockRequest {
        of: QueueRef::dead_letters(f.billing),
        which: LockSelection::Due,
        now: at(20),
        until: at(60),
        seeds: vec![LockSeed::generate(&Entropy::seeded(1))],
        bytes_max: usize::MAX,
        session: None,
    };
    let taken = f.store.ledger.lock(request).await.expect("an answer");
    let dead = taken.locked[0].dead_letter.as_ref().expect("a dead letter");
    assert_eq!(dead.reason, DeadLetterReason::FilterEvaluationFailed);
    assert_eq!(dead.details.description.as_deref(), Some(problem));
    assert_eq!(dead.details.reason, None);
}

pub(super) async fn a_remembered_message_is_dropped(f: Fixture) {
    let send = async |id: &str, now: i64| {
        let intake = QueueIntake {
            remembers_for: Some(Duration::from_millis(100)),
            ..QueueIntake::default()
        };
        let accepted = AppendRequest {
            intake,
            ..f.accepted(id, &[f.billing], now)
        };
        let stored = f.store.ledger.append(accepted, drop).await;
        let Ok(Appended::Stored { events, numbers }) = stored else {
            panic!("stored: {stored:?}");
        };
        let [number] = numbers[..] else {
            panic!("a number for each message: {numbers:?}");
        };
        assert_eq!(events.is_empty(), number == 0, "{number} for {events:?}");
        events.len()
    };
    assert_eq!(send("a", 10).await, 1);
    assert_eq!(send("a", 20).await, 0);
    assert_eq!(send("b", 30).await, 1);
    f.store.ledger.tidy(at(109), 9).await.expect("tidied");
    assert_eq!(send("a", 109).await, 0, "since the first one");
    assert_eq!(send("a", 110).await, 1, "not for ever");
    f.store.ledger.tidy(at(130), 9).await.expect("tidied");
    assert_eq!(send("a", 209).await, 0);
    assert_eq!(send("b", 209).await, 1);
}
