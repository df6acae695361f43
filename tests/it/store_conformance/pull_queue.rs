//! What a page shows of a queue that receivers take from.

use std::collections::HashSet;
use std::time::Duration;

use everpost::base::Entropy;
use everpost::model::delivery::DeliveryId;
use everpost::model::event::EventKey;
use everpost::model::lease::{Disposition, LockChange, LockOf, LockSeed, QueueRef};
use everpost::store::views::{DeliveryRow, PullQueueState};
use everpost::store::{LockChanges, LockRequest, LockSelection, QueueRoom};

use super::{Fixture, at};

pub(super) async fn a_queue_shows_what_waits_and_what_is_held(f: Fixture) {
    let mut keys = Vec::new();
    for (id, now) in [("a", 10), ("b", 20), ("c", 30)] {
        keys.push(f.publish(id, &[f.billing], now).await);
    }
    let [a, b, c] = keys[..] else { panic!("three") };
    let entropy = Entropy::seeded(1);
    let request = LockRequest {
        of: QueueRef::pending(f.billing),
        which: LockSelection::Due,
        now: at(100),
        until: at(200),
        seeds: [(); 2].map(|()| LockSeed::generate(&entropy)).into(),
        bytes_max: usize::MAX,
        session: None,
    };
    let locked = f.store.ledger.lock(request).await.expect("locks").locked;
    let state = |waiting, locked, released| PullQueueState {
        waiting,
        locked,
        released,
        oldest_at: Some(at(10)),
        is_partial: false,
    };
    let held = state(1, 2, 0);
    assert_eq!(look(&f, 150, 9).await, (held.clone(), vec![a, b], vec![c]));
    assert_eq!(look(&f, 150, 1).await, (held, vec![a], vec![c]));

    let release = LockChange {
        token: locked[0].token,
        of: LockOf::default(),
        disposition: Disposition::Release {
            after: Duration::from_millis(140),
            lifetime: Duration::from_secs(60),
            attempts_max: 10,
        },
        properties: [].into(),
    };
    let changes = LockChanges {
        changes: vec![release],
        dropping: HashSet::new(),
        room: QueueRoom::default(),
        audit: None,
        now: at(160),
    };
    let settled = f.store.ledger.settle_locks(changes).await;
    let first = settled.expect("an answer").settled.remove(0);
    let settled = first.expect("it was held");
    assert_eq!(settled.lock.delivery, DeliveryId(1));
    let released = state(1, 1, 1);
    assert_eq!(look(&f, 170, 9).await, (released, vec![b], vec![c]));
    // The other lock has lapsed.
    let lapsed = state(2, 0, 1);
    assert_eq!(look(&f, 250, 9).await, (lapsed, vec![], vec![c, b]));

    let nothing = f.store.views.pull_queue(f.audit, at(150), 9).await;
    let nothing = nothing.expect("a queue");
    assert_eq!(nothing.state, PullQueueState::default());
    assert!(nothing.locked.is_empty() && nothing.next.is_empty());
}

pub(super) async fn what_has_lapsed_is_due_although_the_clock_was_put_back(f: Fixture) {
    f.publish("a", &[f.billing], 100).await;
    let entropy = Entropy::seeded(1);
    let lock = async |now, until| {
        let request = LockRequest {
            of: QueueRef::pending(f.billing),
            which: LockSelection::Due,
            now: at(now),
            until: at(until),
            seeds: vec![LockSeed::generate(&entropy)],
            bytes_max: usize::MAX,
            session: None,
        };
        let locked = f.store.ledger.lock(request).await.expect("an answer");
        assert_eq!(locked.locked.len(), 1, "at {now}");
        locked.locked[0].token
    };
    let token = lock(100, 200).await;
    let renewal = LockChange {
        token,
        of: LockOf::default(),
        disposition: Disposition::Renew {
            lock_for: Duration::from_millis(10),
            within: None,
        },
        properties: [].into(),
    };
    let changes = LockChanges {
        changes: vec![renewal],
        dropping: HashSet::new(),
        room: QueueRoom::default(),
        audit: None,
        now: at(20),
    };
    let renewed = f.store.ledger.settle_locks(changes).await;
    assert!(renewed.expect("an answer").settled[0].is_ok());
    lock(40, 50).await;
}

/// The state at `now`, and the events that are held and that come next.
async fn look(
    f: &Fixture,
    now: i64,
    limit: usize,
) -> (PullQueueState, Vec<EventKey>, Vec<EventKey>) {
    let queue = f.store.views.pull_queue(f.billing, at(now), limit).await;
    let queue = queue.expect("a queue");
    let events = |rows: Vec<DeliveryRow>| rows.iter().map(|row| row.event).collect();
    (queue.state, events(queue.locked), events(queue.next))
}
