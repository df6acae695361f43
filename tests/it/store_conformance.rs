//! What every store must do, through its public books alone. Runs over the threaded one and the inline
//! one; another engine would only add its opener.

mod accounts;
mod catalog;
mod deliveries;
mod events;
mod messages;
mod pull_queue;
mod resubmissions;
mod sessions;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use everpost::base::{Clock, Entropy, Timestamp};
use everpost::model::access::AccessKeys;
use everpost::model::audit::Caller;
use everpost::model::dead_letter::DeadLetterReason;
use everpost::model::dead_letter_filter::DeadLetterFilter;
use everpost::model::delivery::{
    AttemptResult, Delivery, DeliveryAttempt, DeliveryId, DeliveryState, HttpResponse,
    LateResponse, Outcome, Settlement,
};
use everpost::model::event::{Attribute, Event, EventData, EventKey};
use everpost::model::lease::QueueRef;
use everpost::model::limits::REQUEST_ID_WINDOW;
use everpost::model::name::{SubscriptionName, TopicName};
use everpost::model::registry::{Registry, ResourceScope};
use everpost::model::rejection::{Rejection, RejectionId};
use everpost::model::subscription::{OnDelete, SubscriptionId, Validation};
use everpost::model::topic::TopicId;
use everpost::store::accounts::{Guessers, SessionRecord, UserId};
use everpost::store::views::{DeadLetterQuery, EventQuery, ReadBack, RejectionQuery};
use everpost::store::{
    AppendRequest, Appended, DataDir, DiscardRequest, Discarded, Due, Effects, LeaseRequest,
    Leased, NewEvent, RegistryChange, RequestMark, Settled, SettlementRecord, Store, StoreOptions,
};
use everpost::wire::resource;
use serde_json::json;

use accounts::*;
use catalog::*;
use deliveries::*;
use events::*;
use messages::*;
use pull_queue::*;
use resubmissions::*;
use sessions::*;

use crate::locks::by_hand;

/// A store with the topic `orders` and its subscriptions `billing` and `audit`.
struct Fixture {
    store: Store,
    topic: TopicId,
    billing: SubscriptionId,
    audit: SubscriptionId,
    _dir: Option<tempfile::TempDir>,
}

fn scope() -> ResourceScope {
    ResourceScope {
        subscription: "s".to_owned(),
        resource_group: "g".to_owned(),
    }
}

fn at(ms: i64) -> Timestamp {
    Timestamp::from_ms(ms)
}

async fn threaded() -> Fixture {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = opened(data_dir(&dir));
    fill(store, Some(dir)).await
}

fn data_dir(dir: &tempfile::TempDir) -> Arc<DataDir> {
    Arc::new(DataDir::open(&dir.path().join("data")).expect("a data directory"))
}

fn opened(data_dir: Arc<DataDir>) -> Store {
    let options = StoreOptions {
        clock: Clock::system(),
        entropy: Entropy::seeded(1),
        master_keys: None,
        scope: scope(),
        on_fatal: Box::new(|error| panic!("{error}")),
    };
    Store::open(data_dir, options, &|_| ()).expect("an open store")
}

async fn inline() -> Fixture {
    fill(
        Store::open_inline(scope()).expect("a store in memory"),
        None,
    )
    .await
}

async fn fill(store: Store, dir: Option<tempfile::TempDir>) -> Fixture {
    let topic = TopicName::parse("orders").expect("a name");
    let definition = resource::parse_topic(&json!({"location": "local"})).expect("a topic");
    let keys = AccessKeys::generate(&Entropy::seeded(1));
    let add = RegistryChange::AddTopic {
        namespace: None,
        name: topic.clone(),
        kind: definition,
        keys,
    };
    let registry = changed(&store, add).await;
    let entry = registry.topic(&topic).expect("the topic").clone();
    let context = resource::SubscriptionContext::of(&entry, at(0), false);
    let body = json!({"properties": {"destination": {"endpointType": "WebHook",
        "properties": {"endpointUrl": "http://localhost:9/hook"}}}});
    let definition = resource::parse_subscription(&body, &context).expect("a subscription");
    let mut registry = registry;
    for name in ["billing", "audit"] {
        let add = RegistryChange::AddSubscription {
            topic: entry.topic.id,
            name: SubscriptionName::parse(name).expect("a name"),
            definition: definition.clone(),
            validation: Validation::succeeded(None),
        };
        registry = changed(&store, add).await;
    }
    let id = |name: &str| {
        let entry = registry.topic(&topic).expect("the topic");
        let name = SubscriptionName::parse(name).expect("a name");
        entry.subscription(&name).expect("the subscription").id
    };
    Fixture {
        topic: entry.topic.id,
        billing: id("billing"),
        audit: id("audit"),
        store,
        _dir: dir,
    }
}

/// The catalog after a change.
async fn changed(store: &Store, change: RegistryChange) -> Registry {
    let before = store.ledger.catalog().await.expect("the catalog");
    let after = store
        .ledger
        .change_catalog(&before, change, Effects::default(), at(1));
    after.await.expect("changed")
}

fn event(id: &str) -> Event {
    Event {
        id: id.to_owned(),
        source: None,
        event_type: "Order.Paid".to_owned(),
        subject: Some("/orders/1".to_owned()),
        time: Some("2026-11-21T06:40:53Z".to_owned()),
        data_version: Some("1".to_owned()),
        attributes: Vec::new(),
        data: EventData::Json("{\"n\":  1.0}".to_owned()),
    }
}

impl Fixture {
    async fn publish(&self, id: &str, targets: &[SubscriptionId], now: i64) -> EventKey {
        let accepted = self.accepted(id, targets, now);
        match self
            .store
            .ledger
            .append(accepted, drop)
            .await
            .expect("stored")
        {
            Appended::Stored { events, .. } => events[0],
            Appended::Repeated => panic!("no request id, no repetition"),
        }
    }

    fn accepted(&self, id: &str, targets: &[SubscriptionId], now: i64) -> AppendRequest {
        let events = vec![NewEvent::new(event(id), targets.to_vec())];
        AppendRequest::new(self.topic, at(now), events)
    }

    async fn lease(&self, subscription: SubscriptionId, now: i64, limit: usize) -> Leased {
        self.lease_but(subscription, now, limit, &[]).await
    }

    async fn lease_but(
        &self,
        subscription: SubscriptionId,
        now: i64,
        limit: usize,
        held: &[DeliveryId],
    ) -> Leased {
        let held: HashSet<_> = held.iter().copied().collect();
        let request = LeaseRequest {
            subscription,
            now: at(now),
            limit,
            first: None,
            bytes_max: usize::MAX,
            held,
            bodies: true,
        };
        self.store.ledger.lease(request).await.expect("a lease")
    }

    async fn settle(&self, delivery: DeliveryId, attempt: u32, settlement: Settlement, now: i64) {
        let answer = AttemptResult {
            outcome: match settlement {
                Settlement::Complete => Outcome::Delivered,
                Settlement::Retry { .. }
                | Settlement::DeadLetter(_)
                | Settlement::Drop(_)
                | Settlement::Split { .. } => Outcome::Busy,
            },
            response: Some(HttpResponse {
                status: 503,
                headers: vec![("x-a".to_owned(), "b".to_owned())],
                body: b"no\0pe".to_vec(),
                is_cut: false,
            }),
            error: None,
            warning: Some("The header X-A was left out: it is odd.".to_owned()),
            retry_after: None,
            remote_address: Some("127.0.0.1:9".to_owned()),
            dead_letter: None,
        };
        let attempt = DeliveryAttempt {
            attempt,
            started_at: at(now),
            duration: Duration::from_millis(7),
            result: answer,
            late: None,
        };
        let settled = SettlementRecord {
            delivery,
            counted_for: None,
            attempts: attempt.attempt - 1,
            attempt: Some(Arc::new(attempt)),
            late: None,
            settlement: Some(settlement),
        };
        self.store
            .ledger
            .settle(vec![settled], at(now))
            .await
            .expect("settled");
    }

    async fn state(&self, delivery: DeliveryId) -> DeliveryState {
        let found = self
            .store
            .views
            .delivery(delivery)
            .await
            .expect("an answer");
        found.expect("the delivery").row.state
    }
}

fn ids(leased: &Leased) -> Vec<DeliveryId> {
    leased
        .deliveries
        .iter()
        .map(|delivery| delivery.id)
        .collect()
}

async fn events_come_back_as_they_were(f: Fixture) {
    let mut full = event("full");
    full.source = Some("urn:elsewhere".to_owned());
    full.attributes = vec![Attribute {
        name: "ext".to_owned(),
        value: "5".to_owned(),
    }];
    let mut bare = event("bare");
    bare.data = EventData::Absent;
    bare.subject = None;
    let mut binary = event("binary");
    binary.data = EventData::Binary(vec![0, 1, 2].into());
    let events = vec![full, bare, binary];
    let new = |event: &Event| NewEvent::new(event.clone(), vec![f.billing]);
    let accepted = AppendRequest::new(f.topic, at(5), events.iter().map(new).collect());
    let Appended::Stored { events: keys, .. } =
        f.store.ledger.append(accepted, drop).await.expect("ok")
    else {
        panic!("it was stored");
    };
    assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{keys:?}");
    for (key, event) in keys.iter().zip(&events) {
        let found = f
            .store
            .views
            .event(*key)
            .await
            .expect("an answer")
            .expect("the event");
        assert_eq!(&found.stored.event, event);
        assert_eq!((found.stored.received_at, found.matched), (at(5), 1));
    }
    let leased = f.lease(f.billing, 5, 10).await;
    let given: Vec<_> = leased.events.iter().map(|stored| &stored.event).collect();
    assert_eq!(given, events.iter().collect::<Vec<_>>());
}

async fn pages_cover_everything_once(f: Fixture) {
    for number in 0..25 {
        let targets = if number % 5 == 0 {
            &[][..]
        } else {
            &[f.billing][..]
        };
        f.publish(&format!("e{number}"), targets, number).await;
    }
    let mut seen = Vec::new();
    let mut before = None;
    loop {
        let query = EventQuery {
            before,
            limit: 10,
            ..EventQuery::default()
        };
        let page = f.store.views.events(query).await.expect("a page");
        seen.extend(page.rows.iter().map(|row| row.id.clone()));
        before = page.next_before;
        if before.is_none() {
            break;
        }
    }
    let expected: Vec<_> = (0..25).rev().map(|number| format!("e{number}")).collect();
    assert_eq!(seen, expected);

    let reason = DeadLetterReason::TimeToLiveExceeded;
    for id in ids(&f.lease(f.billing, 99, 12).await) {
        f.settle(id, 1, Settlement::DeadLetter(reason), 99).await;
    }
    let query = DeadLetterQuery {
        filter: DeadLetterFilter {
            subscription: Some(f.billing),
            ..DeadLetterFilter::default()
        },
        before: None,
        limit: 10,
    };
    let first = f
        .store
        .views
        .dead_letters(query.clone())
        .await
        .expect("a page");
    let before = first.next_before;
    let second = f
        .store
        .views
        .dead_letters(DeadLetterQuery { before, ..query })
        .await
        .expect("a page");
    assert_eq!(
        (first.rows.len(), second.rows.len(), second.next_before),
        (10, 2, None)
    );
    let depths = f
        .store
        .views
        .depths(vec![f.billing, f.audit])
        .await
        .expect("figures");
    assert_eq!((depths[0].pending, depths[0].dead_letters), (8, 12));
    assert_eq!((depths[1].pending, depths[1].dead_letters), (0, 0));
}

async fn rejections_are_kept_in_number_and_age(f: Fixture) {
    let rejection = |now: i64| Rejection {
        topic: f.topic,
        received_at: at(now),
        status: 413,
        code: "RequestEntityTooLarge".to_owned(),
        reason: format!("too large since {now}"),
        content_type: (now > 10).then(|| "text/plain".to_owned()),
        bytes: 3_000_000_000,
        body_start: b"[\0\xff".to_vec(),
    };
    let keep = async |moments: &[i64], most| {
        let all = moments.iter().map(|now| rejection(*now)).collect();
        f.store.rejections.keep(all, most).await.expect("kept");
    };
    keep(&[10, 20], 3).await;
    keep(&[30, 40], 3).await;
    let list = async |query: RejectionQuery| {
        let page = f.store.views.rejections(query).await.expect("a page");
        let ids: Vec<_> = page.rows.iter().map(|row| row.id.0).collect();
        (ids, page.next_before)
    };
    let all = || RejectionQuery {
        limit: 10,
        ..RejectionQuery::default()
    };
    assert_eq!(list(all()).await, (vec![4, 3, 2], None), "the newest three");
    let two = |before| RejectionQuery {
        limit: 2,
        before,
        ..RejectionQuery::default()
    };
    let first = list(two(None)).await;
    assert_eq!(first, (vec![4, 3], Some(RejectionId(3))));
    assert_eq!(list(two(Some(RejectionId(3)))).await.0, [2]);
    let of = |topic| RejectionQuery {
        topic: Some(topic),
        ..all()
    };
    assert_eq!(list(of(f.topic)).await.0, [4, 3, 2]);
    assert_eq!(list(of(TopicId(99))).await.0, [0; 0]);
    for (reason, found) in [
        ("TOO", &[4, 3, 2][..]),
        ("since 30", &[3]),
        ("requestentitytoolarge", &[4, 3, 2]),
        ("RequestEntity", &[]),
        ("%", &[]),
    ] {
        let reason = Some(reason.to_owned());
        let query = RejectionQuery { reason, ..all() };
        assert_eq!(list(query).await.0, found);
    }
    assert_eq!(f.store.views.count_rejections(at(30)).await, Ok(2));

    let found = f.store.views.rejection(RejectionId(2)).await;
    let found = found.expect("an answer").expect("the rejection");
    assert_eq!(found.rejection, rejection(20));
    assert_eq!(found.topic, "orders");
    assert_eq!(f.store.views.rejection(RejectionId(1)).await, Ok(None));
    assert_eq!(f.store.rejections.forget(at(40)).await, Ok(2));
    assert_eq!(list(all()).await.0, [4]);
    keep(&[50], 3).await;
    assert_eq!(list(all()).await.0, [5, 4], "numbers are never used again");
}

async fn events_of_one_topic_are_read_back_in_bites(f: Fixture) {
    let advance = |before, limit, bytes_max| ReadBack {
        topic: f.topic,
        before,
        limit,
        bytes_max,
    };
    let read = async |advance| {
        let page = f.store.views.read_back(advance).await.expect("a batch");
        let keys: Vec<_> = page.rows.iter().map(|stored| stored.key.0).collect();
        (keys, page.next_before.map(|key| key.0))
    };
    assert_eq!(read(advance(None, 9, usize::MAX)).await, (vec![], None));
    for number in 0..5 {
        f.publish(&number.to_string(), &[], number).await;
    }
    assert_eq!(
        read(advance(None, 9, usize::MAX)).await,
        (vec![5, 4, 3, 2, 1], None)
    );
    assert_eq!(
        read(advance(None, 2, usize::MAX)).await,
        (vec![5, 4], Some(4))
    );
    let rest = advance(Some(EventKey(4)), 9, usize::MAX);
    assert_eq!(read(rest).await, (vec![3, 2, 1], None));
    assert_eq!(read(advance(None, 9, 1)).await, (vec![5], Some(5)), "bytes");
    let elsewhere = ReadBack {
        topic: TopicId(99),
        ..advance(None, 9, usize::MAX)
    };
    assert_eq!(read(elsewhere).await, (vec![], None));
    // One batch passes a bounded number of events of other topics.
    let events = vec![NewEvent::new(event("other"), Vec::new()); 10_000];
    let accepted = AppendRequest::new(TopicId(99), at(9), events);
    f.store.ledger.append(accepted, drop).await.expect("stored");
    assert_eq!(
        read(advance(None, 9, usize::MAX)).await,
        (vec![], Some(6)),
        "short, and yet not the last"
    );
    let rest = advance(Some(EventKey(6)), 9, usize::MAX);
    assert_eq!(read(rest).await, (vec![5, 4, 3, 2, 1], None));
}

macro_rules! conformance {
    ($($check:ident)*) => {
        mod on_threads {
            $(#[tokio::test] async fn $check() { super::$check(super::threaded().await).await; })*
        }
        mod in_line {
            $(#[tokio::test] async fn $check() { super::$check(super::inline().await).await; })*
        }
    };
}

conformance! {
    the_catalog_after_a_change_is_what_is_stored
    a_change_touches_nothing_else
    events_come_back_as_they_were
    due_deliveries_are_leased_oldest_first
    settlements_end_or_move_a_delivery
    a_split_delivery_keeps_its_place_and_its_attempts
    what_a_wrong_clock_put_off_is_due_again
    what_has_lapsed_is_due_although_the_clock_was_put_back
    a_repeated_request_is_stored_once
    a_dead_letter_is_resubmitted_once
    an_edited_event_stands_beside_the_original
    bytes_of_messages_are_counted_as_long_as_they_are_there
    a_bite_and_its_cursor_are_one_change
    a_filter_means_what_it_says
    a_source_is_gone_through_in_stretches
    commands_end_what_they_end
    a_deleted_subscription_leaves_a_record
    pending_deliveries_of_a_deleted_subscription_can_be_kept
    dead_letters_go_with_a_deleted_queue_and_those_of_events_stay
    a_late_answer_completes_what_still_waits
    pages_cover_everything_once
    the_first_user_claims_and_sessions_end
    failures_to_sign_in_are_counted_bounded_and_forgotten
    rejections_are_kept_in_number_and_age
    events_of_one_topic_are_read_back_in_bites
    events_are_found_by_what_is_known_of_them
    a_search_of_events_says_how_far_it_came
    a_search_in_data_ends_after_so_many_bytes
    a_queue_shows_what_waits_and_what_is_held
    scheduled_deliveries_wait_and_can_be_cancelled
    scheduled_deliveries_are_cancelled_all_or_none
    messages_that_have_outlived_their_own_time_are_found
    uses_are_kept
    a_deferred_message_is_locked_once_however_often_it_is_named
    properties_that_receivers_set_add_up
    additions_of_receivers_count_for_the_size_of_their_queue
    a_change_settles_messages_with_so_many_properties
    a_change_locks_and_settles_so_many_messages
    a_message_is_forwarded_as_often_as_it_may_be
    a_number_that_another_queue_has_promised_is_not_given_again
    sessions_have_one_holder_and_keep_their_order
    a_holder_gives_its_messages_back
    a_holder_has_as_many_messages_as_one_change_renews
    sessions_keep_a_state
    states_of_sessions_count_as_bytes_of_their_queue
    states_of_sessions_go_with_their_deleted_queue
    a_session_that_a_wrong_clock_locked_is_free
    sessions_wait_for_their_first_message
    a_message_without_its_session_is_a_dead_letter
    a_message_that_no_rule_can_be_evaluated_for_is_a_dead_letter
    a_remembered_message_is_dropped
}
