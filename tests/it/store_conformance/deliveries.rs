//! Deliveries from the first lease to their end, and what becomes of those of a deleted subscription.

use super::*;

const OF_DELETED: DiscardRequest = DiscardRequest::OfDeleted;

pub(super) async fn due_deliveries_are_leased_oldest_first(f: Fixture) {
    for (id, now) in [("b", 20), ("a", 10), ("c", 30), ("d", 40)] {
        f.publish(id, &[f.billing, f.audit], now).await;
    }
    let leased = f.lease(f.billing, 30, 2).await;
    let names = leased.events.iter().map(|each| each.event.id.as_str());
    let names: Vec<_> = names.collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(leased.next_due, Some(at(30)), "c is due as well");
    let rest = f.lease_but(f.billing, 30, 9, &ids(&leased)).await;
    assert_eq!(rest.deliveries.len(), 1, "c, since d lies ahead");
    assert_eq!(rest.next_due, Some(at(40)));
    assert_eq!(
        f.lease(f.audit, 30, 9).await.deliveries.len(),
        3,
        "each has its own queue"
    );
    let agenda = f
        .store
        .ledger
        .agenda(vec![
            QueueRef::pending(f.billing),
            QueueRef::dead_letters(f.billing),
        ])
        .await
        .expect("an agenda");
    let due = Due {
        queue: QueueRef::pending(f.billing),
        at: at(10),
    };
    assert_eq!(agenda, [due], "empty queues are left out");
}

pub(super) async fn settlements_end_or_move_a_delivery(f: Fixture) {
    for id in ["done", "later", "dead", "dropped"] {
        f.publish(id, &[f.billing], 0).await;
    }
    let [done, later, dead, dropped] = ids(&f.lease(f.billing, 0, 9).await)[..] else {
        panic!("four are due");
    };
    let reason = DeadLetterReason::UndeliverableDueToHttpBadRequest;
    f.settle(done, 1, Settlement::Complete, 1).await;
    f.settle(later, 1, Settlement::Retry { at: at(100) }, 1)
        .await;
    f.settle(dead, 1, Settlement::DeadLetter(reason), 1).await;
    f.settle(dropped, 1, Settlement::Drop(reason), 1).await;
    assert_eq!(f.state(done).await, DeliveryState::Delivered);
    assert_eq!(f.state(later).await, DeliveryState::Pending);
    assert_eq!(f.state(dead).await, DeliveryState::DeadLettered);
    assert_eq!(f.state(dropped).await, DeliveryState::Dropped);
    let leased = f.lease(f.billing, 99, 9).await;
    assert!(leased.deliveries.is_empty());
    assert_eq!(leased.next_due, Some(at(100)));
    let leased = f.lease(f.billing, 100, 9).await;
    assert_eq!((ids(&leased)[0], leased.deliveries[0].attempts), (later, 1));

    // What has ended stays as it is.
    f.settle(done, 2, Settlement::DeadLetter(reason), 2).await;
    let detail = f
        .store
        .views
        .delivery(done)
        .await
        .expect("an answer")
        .expect("it");
    assert_eq!(detail.row.state, DeliveryState::Delivered);
    assert_eq!(
        detail.attempts.len(),
        1,
        "a late settlement leaves no attempt behind"
    );
    let attempt = &detail.attempts[0];
    let response = attempt.result.response.as_ref().expect("a response");
    assert_eq!(response.body, b"no\0pe");
    assert_eq!(response.headers, [("x-a".to_owned(), "b".to_owned())]);
    assert_eq!(
        (attempt.started_at, attempt.duration.as_millis()),
        (at(1), 7)
    );
}

pub(super) async fn a_repeated_request_is_stored_once(f: Fixture) {
    let mark = |fingerprint: u8, since: i64| {
        Some(RequestMark {
            fingerprint: [fingerprint; 16],
            since: at(since),
        })
    };
    let send = async |now, request| {
        let accepted = AppendRequest {
            request,
            ..f.accepted("x", &[f.billing], now)
        };
        f.store
            .ledger
            .append(accepted, drop)
            .await
            .expect("an answer")
    };
    assert!(matches!(
        send(0, mark(1, -10)).await,
        Appended::Stored { .. }
    ));
    assert_eq!(send(5, mark(1, -5)).await, Appended::Repeated);
    assert!(
        matches!(send(5, mark(2, -5)).await, Appended::Stored { .. }),
        "another request"
    );
    assert!(
        matches!(send(50, mark(2, 6)).await, Appended::Stored { .. }),
        "too long ago"
    );
    assert_eq!(f.lease(f.billing, 50, 9).await.deliveries.len(), 3);
    // Two marks were of the first five milliseconds.
    let tidy_at = at(51) + REQUEST_ID_WINDOW;
    assert_eq!(
        f.store.ledger.tidy(tidy_at, 2).await,
        Ok(true),
        "two, and maybe more"
    );
    assert_eq!(f.store.ledger.tidy(tidy_at, 2).await, Ok(false));
}

/// A clock that was years ahead planned two attempts; a third one waits as long as anything may.
pub(super) async fn what_a_wrong_clock_put_off_is_due_again(f: Fixture) {
    let (years, longest) = (94_608_000_000, 97_200_000);
    for id in ["far", "farther", "long"] {
        f.publish(id, &[f.billing], 0).await;
    }
    let put_off = ids(&f.lease(f.billing, 0, 9).await);
    for (id, until) in put_off.iter().zip([years, years + 1, longest + 5]) {
        let retry = Settlement::Retry { at: at(until) };
        f.settle(*id, 1, retry, 1).await;
    }
    for more in [true, true, false] {
        assert_eq!(f.store.ledger.tidy(at(5), 1).await, Ok(more));
    }
    let due = f.lease(f.billing, 5, 9).await;
    assert_eq!(ids(&due), put_off[..2]);
    assert_eq!(due.next_due, Some(at(longest + 5)));
}

pub(super) async fn a_split_delivery_keeps_its_place_and_its_attempts(f: Fixture) {
    for (id, now) in [("split", 0), ("stale", 0), ("newer", 5)] {
        f.publish(id, &[f.billing], now).await;
    }
    let leased = f.lease(f.billing, 9, 9).await;
    let [split, stale, newer] = leased.deliveries[..] else {
        panic!("three are due");
    };
    f.settle(stale.id, 1, Settlement::Retry { at: at(7) }, 6)
        .await;
    let halve = Settlement::Split { events_max: 1 };
    let records = [split, stale].map(|each| SettlementRecord::of(&each, halve));
    let settled = f.store.ledger.settle(records.to_vec(), at(8)).await;
    assert_eq!(settled, Ok(vec![Settled::Done, Settled::Stale]));
    let again = f.lease(f.billing, 9, 9).await.deliveries;
    assert_eq!(
        again[0],
        Delivery {
            batch_max: Some(1),
            ..split
        }
    );
    assert_eq!(again[1], newer);
    assert_eq!((again[2].attempts, again[2].batch_max), (1, None));
    let found = f.store.views.delivery(split.id).await.expect("an answer");
    assert!(found.expect("it").attempts.is_empty());
    // A failure of the smaller request does not make it larger again.
    f.settle(split.id, 1, Settlement::Retry { at: at(8) }, 8)
        .await;
    let again = f.lease(f.billing, 9, 9).await.deliveries;
    assert_eq!((again[2].attempts, again[2].batch_max), (1, Some(1)));
}

pub(super) async fn a_deleted_subscription_leaves_a_record(f: Fixture) {
    for id in ["a", "b", "c"] {
        f.publish(id, &[f.billing, f.audit], 0).await;
    }
    let delivery = ids(&f.lease(f.billing, 0, 1).await)[0];
    let delete = RegistryChange::DeleteSubscription {
        id: f.billing,
        pending: OnDelete::Discard,
    };
    let registry = changed(&f.store, delete).await;
    assert!(registry.subscription(f.billing).is_none());
    for dropped in [2, 1, 0] {
        let ended = Discarded {
            dropped,
            ..Discarded::default()
        };
        let discard = f.store.ledger.discard(OF_DELETED, 2, at(2));
        assert_eq!(discard.await, Ok(ended));
    }
    let found = f
        .store
        .views
        .delivery(delivery)
        .await
        .expect("an answer")
        .expect("its record");
    assert_eq!(found.row.state, DeliveryState::Dropped);
    assert_eq!(
        found.row.dead_letter_reason,
        Some(DeadLetterReason::SubscriptionDeleted)
    );
    assert_eq!(found.row.subscription, "billing", "it keeps its name");
    assert_eq!(
        f.lease(f.audit, 2, 9).await.deliveries.len(),
        3,
        "nobody else is touched"
    );
}

pub(super) async fn pending_deliveries_of_a_deleted_subscription_can_be_kept(f: Fixture) {
    for id in ["a", "b", "c"] {
        f.publish(id, &[f.billing, f.audit], 0).await;
    }
    for (id, pending) in [
        (f.billing, OnDelete::DeadLetter),
        (f.audit, OnDelete::Discard),
    ] {
        let delete = RegistryChange::DeleteSubscription { id, pending };
        changed(&f.store, delete).await;
    }
    let mut ended = Vec::new();
    for _ in 0..4 {
        let orphans = f.store.ledger.discard(OF_DELETED, 2, at(2)).await;
        let orphans = orphans.expect("an answer");
        ended.push((orphans.dropped, orphans.dead_lettered));
    }
    assert_eq!(ended, [(0, 2), (1, 1), (2, 0), (0, 0)]);
    let query = DeadLetterQuery {
        limit: 9,
        ..DeadLetterQuery::default()
    };
    let dead = f.store.views.dead_letters(query).await.expect("a page");
    assert_eq!(dead.rows.len(), 3);
    for row in dead.rows {
        assert_eq!(row.subscription, "billing");
        let reason = Some(DeadLetterReason::SubscriptionDeleted);
        assert_eq!(row.dead_letter_reason, reason);
    }
}

/// The queue `billing` with its transfer queue, and the event subscription `audit`.
pub(super) async fn dead_letters_go_with_a_deleted_queue_and_those_of_events_stay(f: Fixture) {
    let (transfers, both) = (f.billing.transfers(), [f.billing, f.audit]);
    for (id, targets) in [
        ("a", both.to_vec()),
        ("b", both.to_vec()),
        ("c", both.to_vec()),
        ("t", vec![transfers]),
    ] {
        let request = AppendRequest {
            measured: [transfers, f.billing].into(),
            ..f.accepted(id, &targets, 0)
        };
        f.store.ledger.append(request, drop).await.expect("stored");
    }
    let end = Settlement::DeadLetter(DeadLetterReason::Manual);
    let mut dead = Vec::new();
    for of in [f.billing, f.audit, transfers] {
        for id in ids(&f.lease(of, 0, 2).await) {
            f.settle(id, 1, end, 1).await;
            dead.push((of, id));
        }
    }
    for id in both {
        let pending = OnDelete::Discard;
        changed(&f.store, RegistryChange::DeleteSubscription { id, pending }).await;
    }
    let listed = async || {
        let query = DeadLetterQuery {
            limit: 9,
            ..DeadLetterQuery::default()
        };
        let dead = f.store.views.dead_letters(query).await.expect("a page");
        let names = dead.rows.into_iter().map(|row| row.subscription);
        names.collect::<Vec<_>>()
    };
    assert_eq!(listed().await, ["audit", "audit"], "at once");
    let mut ended = Vec::new();
    for _ in 0..4 {
        let discarded = f.store.ledger.discard(OF_DELETED, 2, at(2)).await;
        let discarded = discarded.expect("an answer");
        ended.push((discarded.dropped, discarded.removed, discarded.count()));
    }
    assert_eq!(ended, [(2, 0, 2), (0, 2, 2), (0, 1, 1), (0, 0, 0)]);
    assert_eq!(listed().await, ["audit", "audit"]);
    for (of, id) in dead {
        let state = f.state(id).await;
        assert_eq!(state == DeliveryState::Removed, of != f.audit, "{state:?}");
    }
    assert_eq!(f.store.ledger.queue_bytes(&[transfers, f.billing]), 0);
}

pub(super) async fn a_late_answer_completes_what_still_waits(f: Fixture) {
    for id in ["waits", "again", "dead", "late failure"] {
        f.publish(id, &[f.billing], 0).await;
    }
    let [waits, again, dead, failed] = ids(&f.lease(f.billing, 0, 9).await)[..] else {
        panic!("four are due");
    };
    let retry = Settlement::Retry { at: at(100) };
    let reason = DeadLetterReason::MaxDeliveryAttemptsExceeded;
    for id in [waits, again, failed] {
        f.settle(id, 1, retry, 1).await;
    }
    f.settle(again, 2, retry, 2).await;
    f.settle(dead, 1, Settlement::DeadLetter(reason), 1).await;
    let success = LateResponse {
        outcome: Outcome::Delivered,
        status: Some(200),
        after: Duration::from_secs(45),
    };
    let without_http = LateResponse {
        outcome: Outcome::Busy,
        status: None,
        ..success
    };
    let record = |delivery, late, completes: bool| SettlementRecord {
        delivery,
        counted_for: None,
        attempts: 1,
        attempt: None,
        late: Some(late),
        settlement: completes.then_some(Settlement::Complete),
    };
    let all = vec![
        record(waits, success, true),
        record(again, success, true),
        record(dead, success, true),
        record(failed, without_http, false),
    ];
    let settled = f.store.ledger.settle(all, at(50)).await;
    let expected = [Settled::Done, Settled::Stale, Settled::Stale, Settled::Done];
    assert_eq!(settled, Ok(expected.to_vec()));
    for (id, state, late) in [
        (waits, DeliveryState::Delivered, success),
        (again, DeliveryState::Pending, success),
        (dead, DeliveryState::DeadLettered, success),
        (failed, DeliveryState::Pending, without_http),
    ] {
        let found = f.store.views.delivery(id).await.expect("an answer");
        let found = found.expect("it");
        assert_eq!(found.row.state, state, "{id}");
        assert_eq!(found.attempts[0].late, Some(late), "{id}");
        assert_eq!(
            found.attempts.last().map(|last| last.late.is_some()),
            Some(id != again)
        );
    }
}
