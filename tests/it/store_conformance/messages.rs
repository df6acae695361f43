//! What only queues of messages ask of the ledger: schedules, and properties that receivers set.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use everpost::base::{Entropy, Timestamp};
use everpost::model::dead_letter::{DeadLetterDetails, DeadLetterReason};
use everpost::model::delivery::{DeliveryId, DeliveryState, Settlement};
use everpost::model::lease::{
    Disposition, LockChange, LockError, LockOf, LockSeed, LockToken, QueueRef,
};
use everpost::model::limits::{CHANGE_DELIVERIES_MAX, DEAD_LETTER_BYTES_LET_IN};
use everpost::model::queue::MessageEntity;
use everpost::model::subscription::SubscriptionId;
use everpost::store::views::TotalsQuery;
use everpost::store::{
    AppendRequest, Appended, ForwardOrigin, ForwardQuery, ForwardRequest, FreeChange, FreeChanges,
    FreeSettled, HandedOver, LockChanges, LockRequest, LockSelection, NewEvent, PeekRequest,
    PromisedNumber, QueueRoom, ResubmitTarget, TransactionChanges, TransactionError,
};
use everpost::wire::amqp::Value;
use everpost::wire::amqp::message::encoded;

use super::{Fixture, at, data_dir, event, fill, ids, opened};

pub(super) async fn uses_are_kept(f: Fixture) {
    let (topic, queue) = (
        MessageEntity::Topic(f.topic),
        MessageEntity::Queue(f.billing),
    );
    for uses in [vec![(topic, at(5)), (queue, at(6))], vec![(queue, at(7))]] {
        f.store.ledger.keep_uses(uses).await.expect("stored");
    }
    let uses = f.store.ledger.uses().await.expect("uses");
    assert_eq!(uses, [(topic, at(5)), (queue, at(7))]);
}

/// A message to the queue `billing`.
fn message(
    f: &Fixture,
    id: &str,
    due_at: Option<Timestamp>,
    own_life: Option<Duration>,
) -> NewEvent {
    NewEvent {
        due_at,
        own_life,
        ..NewEvent::new(event(id), vec![f.billing])
    }
}

pub(super) async fn scheduled_deliveries_wait_and_can_be_cancelled(f: Fixture) {
    let accepted = AppendRequest {
        events: [
            ("now", None),
            ("later", Some(at(50))),
            ("never", Some(at(60))),
        ]
        .map(|(id, due_at)| message(&f, id, due_at, None))
        .into(),
        ..f.accepted("", &[], 10)
    };
    let stored = f.store.ledger.append(accepted, drop).await;
    let Ok(Appended::Stored { numbers, .. }) = stored else {
        panic!("stored: {stored:?}");
    };
    let [now, later, never] = numbers[..] else {
        panic!("three deliveries: {numbers:?}");
    };
    let [now, later, never] = [now, later, never].map(DeliveryId);
    assert_eq!(ids(&f.lease(f.billing, 49, 9).await), [now]);
    let cancel = async |id: DeliveryId, of, moment| {
        let request = FreeChanges {
            of: None,
            all_or_none: false,
            changes: vec![(id, FreeChange::Cancel(of))],
            audit: None,
            now: at(moment),
        };
        f.store
            .ledger
            .settle_free(request)
            .await
            .expect("an answer")[0]
    };
    assert_eq!(cancel(now, f.billing, 49).await, FreeSettled::Held);
    assert_eq!(cancel(later, f.audit, 49).await, FreeSettled::Held);
    assert_eq!(cancel(later, f.billing, 50).await, FreeSettled::Held);
    assert_eq!(
        cancel(never, f.billing, 59).await,
        FreeSettled::Done(f.billing)
    );
    let again = cancel(never, f.billing, 59).await;
    assert!(matches!(again, FreeSettled::In(_)), "{again:?}");
    assert_eq!(ids(&f.lease(f.billing, 99, 9).await), [now, later]);
}

pub(super) async fn scheduled_deliveries_are_cancelled_all_or_none(f: Fixture) {
    let accepted = AppendRequest {
        events: [("a", Some(at(50))), ("b", Some(at(60))), ("due", None)]
            .map(|(id, due_at)| message(&f, id, due_at, None))
            .into(),
        ..f.accepted("", &[], 10)
    };
    let stored = f.store.ledger.append(accepted, drop).await;
    let Ok(Appended::Stored { numbers, .. }) = stored else {
        panic!("stored: {stored:?}");
    };
    let cancel = async |ids: &[i64]| {
        let cancel = |id: &i64| (DeliveryId(*id), FreeChange::Cancel(f.billing));
        let request = FreeChanges {
            of: None,
            changes: ids.iter().map(cancel).collect(),
            all_or_none: true,
            audit: None,
            now: at(40),
        };
        let settled = f.store.ledger.settle_free(request).await;
        settled.expect("an answer")
    };
    let [a, b, due] = numbers[..] else {
        panic!("three deliveries: {numbers:?}");
    };
    assert_eq!(cancel(&[a, due, b]).await, [FreeSettled::Held]);
    assert_eq!(cancel(&[a, b, 99]).await, [FreeSettled::Missing]);
    let [first, last] = [a, due].map(DeliveryId);
    assert_eq!(ids(&f.lease(f.billing, 50, 9).await), [last, first]);
    assert_eq!(cancel(&[a, b]).await, [FreeSettled::Done(f.billing); 2]);
    assert_eq!(ids(&f.lease(f.billing, 99, 9).await), [last]);
}

pub(super) async fn messages_that_have_outlived_their_own_time_are_found(f: Fixture) {
    let life = Some(Duration::from_millis(20));
    let accepted = AppendRequest {
        events: vec![
            message(&f, "short", None, life),
            message(&f, "long", None, None),
            message(&f, "scheduled", Some(at(50)), life),
            message(&f, "deferred", None, life),
            message(&f, "locked", None, life),
        ],
        measured: [f.billing].into(),
        ..f.accepted("", &[], 10)
    };
    f.store.ledger.append(accepted, drop).await.expect("stored");
    let entropy = Entropy::seeded(1);
    let of = QueueRef::pending(f.billing);
    let seeds = std::iter::repeat_with(|| LockSeed::generate(&entropy));
    let request = LockRequest {
        of,
        which: LockSelection::Due,
        now: at(11),
        until: at(40),
        seeds: seeds.take(4).collect(),
        bytes_max: usize::MAX,
        session: None,
    };
    let locked = f.store.ledger.lock(request).await.expect("locks").locked;
    assert_eq!(locked.len(), 4);
    let dispositions = [
        Disposition::Abandon,
        Disposition::Abandon,
        Disposition::Defer,
    ];
    let changes = locked
        .iter()
        .zip(dispositions)
        .map(|(each, disposition)| LockChange {
            token: each.token,
            of: LockOf::any_of(of),
            disposition,
            properties: [].into(),
        });
    let changes = LockChanges {
        changes: changes.collect(),
        dropping: HashSet::new(),
        room: QueueRoom::default(),
        audit: None,
        now: at(12),
    };
    let answer = f.store.ledger.settle_locks(changes).await;
    let settled = answer.expect("settled").settled;
    assert!(settled.iter().all(Result::is_ok), "{settled:?}");
    for (moment, expected) in [
        (29, &[][..]),
        (30, &[1][..]),
        (40, &[1, 5][..]), // its lock has lapsed
        (69, &[1, 5][..]),
        (70, &[1, 5, 3][..]),
    ] {
        let outlived = f
            .store
            .ledger
            .outlived(at(moment), 9)
            .await
            .expect("an answer");
        let expected: Vec<_> = expected
            .iter()
            .map(|id| (DeliveryId(*id), f.billing))
            .collect();
        assert_eq!(outlived, expected, "at {moment}");
    }
    let outlived = f.store.ledger.outlived(at(99), 1).await.expect("an answer");
    assert_eq!(outlived.len(), 1);
}

pub(super) async fn properties_that_receivers_set_add_up(f: Fixture) {
    f.publish("a", &[f.billing], 10).await;
    let of = QueueRef::pending(f.billing);
    let entropy = Entropy::seeded(1);
    let set = async |properties: Vec<(Value, Value)>, now| {
        let request = LockRequest {
            of,
            which: LockSelection::Due,
            now: at(now),
            until: at(now + 5),
            seeds: vec![LockSeed::generate(&entropy)],
            bytes_max: usize::MAX,
            session: None,
        };
        let batch = f.store.ledger.lock(request).await.expect("a lock");
        let change = LockChange {
            token: batch.locked[0].token,
            of: LockOf::any_of(of),
            disposition: Disposition::Abandon,
            properties: encoded(properties).into(),
        };
        let changes = LockChanges {
            changes: vec![change],
            dropping: HashSet::new(),
            room: QueueRoom::default(),
            audit: None,
            now: at(now + 1),
        };
        let settled = f.store.ledger.settle_locks(changes).await;
        settled.expect("an answer").settled.remove(0).map(drop)
    };
    let entry = |name: &str, value: Value| (Value::from(name), value);
    assert_eq!(
        set(vec![entry("a", Value::Int(1)), entry("b", "x".into())], 20).await,
        Ok(())
    );
    assert_eq!(set(vec![entry("a", Value::Int(2))], 30).await, Ok(()));
    let too_many = set(vec![entry("c", "x".repeat(70_000).into())], 40).await;
    assert_eq!(too_many, Err(LockError::TooManyProperties));
    let request = PeekRequest {
        of,
        from: 0,
        limit: 9,
        bytes_max: usize::MAX,
        session: None,
    };
    let peeked = f.store.ledger.peek(request).await.expect("an answer");
    let expected = encoded(vec![entry("b", "x".into()), entry("a", Value::Int(2))]);
    assert_eq!(peeked[0].properties.as_ref(), Some(&expected));
}

/// Locks messages of a queue for 5 ms, as many as wanted.
async fn locked(f: &Fixture, of: QueueRef, count: usize, now: i64) -> Vec<LockToken> {
    let entropy = Entropy::seeded(now.unsigned_abs());
    let seeds = std::iter::repeat_with(|| LockSeed::generate(&entropy));
    let request = LockRequest {
        of,
        which: LockSelection::Due,
        now: at(now),
        until: at(now + 5),
        seeds: seeds.take(count).collect(),
        bytes_max: usize::MAX,
        session: None,
    };
    let batch = f.store.ledger.lock(request).await.expect("locks");
    let tokens: Vec<_> = batch.locked.iter().map(|each| each.token).collect();
    assert_eq!(tokens.len(), count);
    tokens
}

/// The same change of several locks, in whose queue there is so much room.
fn changes(
    tokens: &[LockToken],
    of: QueueRef,
    (disposition, properties): (Disposition, &[u8]),
    room: u64,
    now: i64,
) -> LockChanges {
    let change = |token: &LockToken| LockChange {
        token: *token,
        of: LockOf::any_of(of),
        disposition: disposition.clone(),
        properties: properties.into(),
    };
    LockChanges {
        changes: tokens.iter().map(change).collect(),
        dropping: HashSet::new(),
        room: [(of.subscription, room)].into_iter().collect(),
        audit: None,
        now: at(now),
    }
}

pub(super) async fn a_deferred_message_is_locked_once_however_often_it_is_named(f: Fixture) {
    let of = QueueRef::pending(f.billing);
    for id in ["a", "b"] {
        f.publish(id, &[f.billing], 10).await;
    }
    let tokens = locked(&f, of, 2, 20).await;
    let defer = changes(&tokens, of, (Disposition::Defer, &[]), 0, 21);
    let deferred = f.store.ledger.settle_locks(defer).await.expect("settled");
    assert!(deferred.settled.iter().all(Result::is_ok));
    let entropy = Entropy::seeded(1);
    let request = LockRequest {
        of,
        which: LockSelection::Deferred(vec![2, 1, 2, 1]),
        now: at(30),
        until: at(40),
        seeds: std::iter::repeat_with(|| LockSeed::generate(&entropy))
            .take(4)
            .collect(),
        bytes_max: usize::MAX,
        session: None,
    };
    let batch = f.store.ledger.lock(request).await.expect("locks");
    let numbers: Vec<_> = batch
        .locked
        .iter()
        .map(|each| each.delivery.number)
        .collect();
    assert_eq!(numbers, [2, 1]);
}

pub(super) async fn additions_of_receivers_count_for_the_size_of_their_queue(f: Fixture) {
    let own = u64::from(event("a").data_bytes());
    let publish = AppendRequest {
        measured: [f.billing].into(),
        ..f.accepted("a", &[f.billing], 10)
    };
    f.store.ledger.append(publish, drop).await.expect("stored");
    let bytes = async |of, expected: u64| {
        assert_eq!(f.store.ledger.queue_bytes(&[of]), expected);
        let query = TotalsQuery {
            subscriptions: vec![of],
            recount: true,
        };
        let counted = f.store.ledger.totals(query).await.expect("counts");
        assert_eq!(counted[0].bytes, expected);
    };
    let settle = async |of, disposition, properties: &[u8], room, now| {
        let tokens = locked(&f, of, 1, now).await;
        let changes = changes(&tokens, of, (disposition, properties), room, now + 1);
        let settled = f.store.ledger.settle_locks(changes).await;
        settled.expect("an answer").settled.remove(0).map(drop)
    };
    let queue = QueueRef::pending(f.billing);
    let note = encoded(vec![("a".into(), Value::Int(1))]);
    let noted = note.len() as u64;
    let full = Err(LockError::QuotaExceeded);
    let abandon = || Disposition::Abandon;
    bytes(f.billing, own).await;
    assert_eq!(settle(queue, abandon(), &note, noted - 1, 20).await, full);
    bytes(f.billing, own).await;
    assert_eq!(settle(queue, abandon(), &note, noted, 30).await, Ok(()));
    bytes(f.billing, own + noted).await;
    let again = settle(queue, abandon(), &note, 0, 40).await;
    assert_eq!(again, Ok(()), "no more than before");
    bytes(f.billing, own + noted).await;

    let told = DEAD_LETTER_BYTES_LET_IN as u64 + 10;
    let dead_letter = || {
        let details = DeadLetterDetails {
            reason: Some("x".repeat(DEAD_LETTER_BYTES_LET_IN)),
            description: Some("y".repeat(10)),
            properties: Vec::new(),
        };
        Disposition::DeadLetter(Arc::new(details))
    };
    assert_eq!(settle(queue, dead_letter(), &[], 9, 50).await, full);
    bytes(f.billing, own + noted).await;
    assert_eq!(settle(queue, dead_letter(), &[], 10, 60).await, Ok(()));
    bytes(f.billing, own + noted + told).await;
    let afresh = ResubmitTarget::Subscription { edited: None };
    let resubmitted = f.again(DeliveryId(1), afresh, 70).await;
    assert!(resubmitted.is_some());
    bytes(f.billing, own).await;

    assert_eq!(settle(queue, abandon(), &note, noted, 80).await, Ok(()));
    let query = ForwardQuery {
        from: queue,
        name: "billing".to_owned(),
        limit: 1,
        bytes_max: usize::MAX,
        now: at(90),
    };
    let due = f.store.ledger.forwardable(query).await.expect("an answer");
    let moves = due.into_iter().map(|each| {
        let onward = AppendRequest {
            events: vec![NewEvent::new(each.event.expect("readable"), vec![f.audit])],
            forwarded: Some(Box::new(each.mark)),
            measured: [f.audit].into(),
            ..f.accepted("", &[], 90)
        };
        (each.delivery, Ok(onward))
    });
    let request = ForwardRequest {
        from: queue,
        moves: moves.collect(),
        now: at(90),
    };
    let forwarded = f.store.ledger.forward(request, vec![Some(drop)]).await;
    assert_eq!(forwarded.expect("an answer"), [Settlement::Complete]);
    bytes(f.billing, 0).await;
    bytes(f.audit, own + noted).await;
    let elsewhere = QueueRef::pending(f.audit);
    let ended = settle(elsewhere, dead_letter(), &note, 10, 100).await;
    assert_eq!(ended, Ok(()));
    bytes(f.audit, own + noted + told).await;
    let dead = QueueRef::dead_letters(f.audit);
    let completed = settle(dead, Disposition::Complete, &[], 0, 110).await;
    assert_eq!(completed, Ok(()));
    bytes(f.audit, 0).await;
}

/// Who is told of the deliveries of an append.
type Notified = fn(Vec<HandedOver>);

pub(super) async fn a_change_settles_messages_with_so_many_properties(f: Fixture) {
    let count = 150;
    let publish = AppendRequest {
        events: vec![NewEvent::new(event("a"), vec![f.billing]); count],
        measured: [f.billing].into(),
        ..f.accepted("", &[], 10)
    };
    f.store.ledger.append(publish, drop).await.expect("stored");
    let queue = QueueRef::pending(f.billing);
    let note = encoded(vec![("note".into(), "x".repeat(60_000).into())]);
    for (now, disposition, properties) in [
        (20, Disposition::Abandon, &note[..]),
        (30, Disposition::Complete, &[][..]),
    ] {
        let tokens = locked(&f, queue, count, now).await;
        let change = (disposition, properties);
        let mut request = changes(&tokens, queue, change, u64::MAX, now + 1);
        let together = TransactionChanges {
            locks: request.clone(),
            cancels: Vec::new(),
            states: Vec::new(),
        };
        let nothing = Vec::<(AppendRequest, Notified)>::new();
        let whole = f.store.ledger.commit(nothing, together).await;
        assert!(
            matches!(whole, Err(TransactionError::TooLarge)),
            "{whole:?}"
        );
        let mut pieces = Vec::new();
        while !request.changes.is_empty() {
            let done = f.store.ledger.settle_locks(request).await.expect("settled");
            assert!(done.settled.iter().all(Result::is_ok));
            pieces.push(done.settled.len());
            request = done.rest;
        }
        assert_eq!(pieces, [70, 70, 10], "4 MiB each, and the last one beyond");
    }
    assert_eq!(f.store.ledger.queue_bytes(&[f.billing]), 0);
}

pub(super) async fn a_change_locks_and_settles_so_many_messages(f: Fixture) {
    let expected = [CHANGE_DELIVERIES_MAX, CHANGE_DELIVERIES_MAX, 50];
    let count: usize = expected.iter().sum();
    let publish = AppendRequest {
        events: vec![NewEvent::new(event("a"), vec![f.billing]); count],
        ..f.accepted("", &[], 10)
    };
    f.store.ledger.append(publish, drop).await.expect("stored");
    let queue = QueueRef::pending(f.billing);
    let entropy = Entropy::seeded(1);
    let (mut tokens, mut pieces) = (Vec::new(), Vec::new());
    for _ in expected {
        let fresh = std::iter::repeat_with(|| LockSeed::generate(&entropy));
        let request = LockRequest {
            of: queue,
            which: LockSelection::Due,
            now: at(20),
            until: at(90),
            seeds: fresh.take(count).collect(),
            bytes_max: usize::MAX,
            session: None,
        };
        let batch = f.store.ledger.lock(request).await.expect("locks");
        pieces.push(batch.locked.len());
        tokens.extend(batch.locked.iter().map(|each| each.token));
    }
    assert_eq!(pieces, expected);
    let mut request = changes(&tokens, queue, (Disposition::Uncount, &[]), 0, 30);
    pieces.clear();
    while !request.changes.is_empty() {
        let done = f.store.ledger.settle_locks(request).await.expect("settled");
        assert!(done.settled.iter().all(Result::is_ok));
        pieces.push(done.settled.len());
        request = done.rest;
    }
    assert_eq!(pieces, expected);
}

pub(super) async fn a_message_is_forwarded_as_often_as_it_may_be(f: Fixture) {
    let first = f.publish("a", &[f.billing], 10).await;
    let forward = async |from, onward: Result<SubscriptionId, DeadLetterReason>, now| {
        let query = ForwardQuery {
            from: QueueRef::pending(from),
            name: "billing".to_owned(),
            limit: 9,
            bytes_max: usize::MAX,
            now: at(now),
        };
        let due = f.store.ledger.forwardable(query.clone()).await;
        let moves = due.expect("an answer").into_iter().map(|each| {
            let onward = onward.map(|to| AppendRequest {
                events: vec![NewEvent::new(each.event.expect("readable"), vec![to])],
                forwarded: Some(Box::new(each.mark)),
                ..f.accepted("", &[], now)
            });
            (each.delivery, onward)
        });
        let request = ForwardRequest {
            from: query.from,
            moves: moves.collect(),
            now: at(now),
        };
        let none = std::iter::repeat_with(|| Some(drop)).take(request.moves.len());
        let forwarded = f.store.ledger.forward(request, none.collect()).await;
        forwarded.expect("an answer")
    };
    let (mut from, mut to) = (f.billing, f.audit);
    for hop in 0..4 {
        let due = ids(&f.lease(from, 29, 9).await);
        assert_eq!(
            forward(from, Ok(to), 20 + hop).await,
            [Settlement::Complete]
        );
        assert_eq!(forward(from, Ok(to), 20 + hop).await, []);
        assert_eq!(f.state(due[0]).await, DeliveryState::Delivered);
        (from, to) = (to, from);
    }
    let reason = DeadLetterReason::MaxTransferHopCountExceeded;
    assert_eq!(
        forward(from, Err(reason), 30).await,
        [Settlement::DeadLetter(reason)]
    );
    let request = PeekRequest {
        of: QueueRef::dead_letters(from),
        from: 0,
        limit: 9,
        bytes_max: usize::MAX,
        session: None,
    };
    let peeked = f.store.ledger.peek(request).await.expect("an answer");
    assert_eq!(peeked[0].event.event.id, "a");
    assert_ne!(peeked[0].event.key, first);
    let origin = ForwardOrigin {
        first_number: Some(1),
        dead_letter_source: None,
    };
    assert_eq!(peeked[0].origin, origin);
}

/// Sends a message to the queue `billing`. Returns its number.
async fn numbered(f: &Fixture, id: &str, promised: Vec<PromisedNumber>) -> Vec<i64> {
    let mut accepted = AppendRequest {
        measured: [f.billing].into(),
        ..f.accepted(id, &[f.billing], 10)
    };
    accepted.promise(promised);
    let stored = f.store.ledger.append(accepted, drop).await;
    let Ok(Appended::Stored { numbers, .. }) = stored else {
        panic!("stored: {stored:?}");
    };
    numbers
}

pub(super) async fn a_number_that_another_queue_has_promised_is_not_given_again(f: Fixture) {
    let promised = f
        .store
        .ledger
        .promise_numbers(f.topic, Some(f.audit), 3)
        .await;
    let last = promised.expect("three numbers").split_off(2);
    assert_eq!(numbered(&f, "a", last).await, [3]);
    for number in 4..8 {
        assert_eq!(numbered(&f, "b", Vec::new()).await, [number]);
    }
}

#[tokio::test]
async fn a_number_that_nobody_has_counted_is_not_given_again() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let f = fill(opened(data_dir(&dir)), None).await;
    assert_eq!(numbered(&f, "a", Vec::new()).await, [1]);
    let rows = rusqlite::Connection::open(dir.path().join("data").join("everpost.db"));
    let rows = rows.expect("a connection");
    let changed = rows.execute("UPDATE delivery SET number = 2", []);
    assert_eq!(changed, Ok(1));
    for number in 3..6 {
        assert_eq!(numbered(&f, "b", Vec::new()).await, [number]);
    }
}
