//! Locks against a naive reference: random turns of several receivers, lapses, crashes and late comers.
//!
//! All along the store shows exactly what the reference says: nobody holds what another holds, a stale
//! token changes nothing, and every turn is on record.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use everpost::base::{Clock, Entropy, Timestamp};
use everpost::model::access::AccessKeys;
use everpost::model::audit::{AuditAction, AuditEntry, AuditTarget, Caller};
use everpost::model::dead_letter::{DeadLetterDetails, DeadLetterReason};
use everpost::model::delivery::{DeliveryId, DeliveryState, Outcome, Settlement};
use everpost::model::event::{Event, EventData};
use everpost::model::lease::{
    Disposition, LockChange, LockError, LockOf, LockSeed, LockToken, QueueRef, SubQueue,
};
use everpost::model::name::{SubscriptionName, TopicName};
use everpost::model::registry::ResourceScope;
use everpost::model::subscription::{SubscriptionId, Validation};
use everpost::model::topic::TopicId;
use everpost::store::{
    AppendRequest, CandidateQuery, DataDir, Effects, LockChanges, LockRequest, LockSelection,
    LockSettled, NewEvent, PeekRequest, QueueRoom, RegistryChange, ResubmitOutcome,
    ResubmitRequest, ResubmitTarget, ResubmittedDelivery, Store, StoreOptions,
};
use everpost::wire::resource;
use serde_json::json;

/// The entry about what somebody did; it makes no difference here.
pub(crate) fn by_hand() -> AuditEntry {
    let by = Caller::command_line(Timestamp::from_ms(0));
    by.did(AuditAction::RetryNow, AuditTarget::appliance())
}

/// One step. Indices count modulo what there is at that moment.
#[derive(Clone, Debug)]
enum Step {
    Publish,
    Pass(u64),
    Lock(SubQueue, usize, u64),
    LockDeferred(SubQueue, usize, u64),
    Renew(usize, u64),
    Settle(usize, Disposition),
    /// Handed out to nobody: given up for its age.
    GiveUp(usize),
    Resubmit(usize),
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    let queue = prop_oneof![Just(SubQueue::Active), Just(SubQueue::DeadLetter)];
    let seconds = 1_u64..60;
    prop_oneof![
        3 => Just(Step::Publish),
        4 => seconds.clone().prop_map(Step::Pass),
        6 => (queue.clone(), 1_usize..4, seconds.clone())
            .prop_map(|(queue, count, length)| Step::Lock(queue, count, length)),
        2 => (queue, any::<usize>(), seconds.clone())
            .prop_map(|(queue, which, length)| Step::LockDeferred(queue, which, length)),
        2 => (any::<usize>(), seconds).prop_map(|(token, length)| Step::Renew(token, length)),
        8 => (any::<usize>(), disposition()).prop_map(|(token, how)| Step::Settle(token, how)),
        1 => any::<usize>().prop_map(Step::GiveUp),
        1 => any::<usize>().prop_map(Step::Resubmit),
        1 => Just(Step::Crash),
    ]
}

fn disposition() -> impl Strategy<Value = Disposition> {
    prop_oneof![
        2 => Just(Disposition::Complete),
        3 => Just(Disposition::Abandon),
        1 => Just(Disposition::Uncount),
        1 => (0_u64..200_000, 0_u64..400_000, 1_u32..9).prop_map(|(after, lifetime, attempts_max)| {
            Disposition::Release {
                after: Duration::from_millis(after),
                lifetime: Duration::from_millis(lifetime),
                attempts_max,
            }
        }),
        1 => Just(Disposition::Defer),
        3 => Just(Disposition::DeadLetter(Arc::new(DeadLetterDetails::cut("Odd", None)))),
    ]
}

/// Steps between two comparisons of every row, which take longer than the steps themselves.
const COMPARE_EVERY: usize = 16;

const START: Timestamp = Timestamp::from_ms(1_000_000);

/// A delivery as the reference knows it.
#[derive(Clone, Debug)]
struct Row {
    state: DeliveryState,
    attempts: u32,
    due_at: Timestamp,
    queued_at: Timestamp,
    deferred: bool,
    /// Token and end of the newest lock, which may have lapsed.
    lock: Option<(LockToken, Timestamp)>,
    recorded: Vec<Outcome>,
}

impl Row {
    fn queue(&self) -> Option<SubQueue> {
        match self.state {
            DeliveryState::Pending => Some(SubQueue::Active),
            DeliveryState::DeadLettered => Some(SubQueue::DeadLetter),
            DeliveryState::Delivered
            | DeliveryState::Dropped
            | DeliveryState::Resubmitted
            | DeliveryState::Removed => None,
        }
    }

    fn is_locked(&self, now: Timestamp) -> bool {
        self.lock.is_some_and(|(_, until)| now < until)
    }

    fn take(&mut self, token: LockToken, until: Timestamp) {
        if self.state == DeliveryState::Pending {
            self.attempts += 1;
        }
        self.lock = Some((token, until));
        if !self.deferred {
            self.due_at = until;
        }
    }

    /// Gives a lapsed lock back.
    fn lapse(&mut self) {
        self.lock = None;
        if self.state == DeliveryState::Pending {
            self.recorded.push(Outcome::LockLost);
        }
        if !self.deferred {
            self.due_at = self.queued_at;
        }
    }

    fn end(&mut self, state: DeliveryState, now: Timestamp) {
        self.state = state;
        self.deferred = false;
        (self.queued_at, self.due_at) = (now, now);
    }
}

/// The store under test beside its reference.
struct Trial {
    home: Home,
    store: Store,
    topic: TopicId,
    subscription: SubscriptionId,
    entropy: Entropy,
    now: Timestamp,
    rows: HashMap<DeliveryId, Row>,
    /// All that were ever given out, and one that never was.
    tokens: Vec<LockToken>,
}

enum Home {
    Memory,
    Disk(Arc<DataDir>),
}

fn scope() -> ResourceScope {
    ResourceScope {
        subscription: "s".to_owned(),
        resource_group: "g".to_owned(),
    }
}

fn open(data_dir: &Arc<DataDir>) -> Store {
    let options = StoreOptions {
        clock: Clock::system(),
        entropy: Entropy::seeded(1),
        master_keys: None,
        scope: scope(),
        on_fatal: Box::new(|error| panic!("{error}")),
    };
    Store::open(Arc::clone(data_dir), options, &|_| ()).expect("an open store")
}

impl Trial {
    async fn new(home: Home) -> Self {
        let store = match &home {
            Home::Memory => Store::open_inline(scope()).expect("a store in memory"),
            Home::Disk(dir) => open(dir),
        };
        let name = TopicName::parse("orders").expect("a name");
        let definition = resource::parse_topic(&json!({"location": "local"})).expect("a topic");
        let add = RegistryChange::AddTopic {
            namespace: None,
            name: name.clone(),
            kind: definition,
            keys: AccessKeys::generate(&Entropy::seeded(1)),
        };
        let registry = store
            .ledger
            .change_catalog(
                &store.ledger.catalog().await.expect("a catalog"),
                add,
                Effects::default(),
                START,
            )
            .await
            .expect("a topic");
        let entry = registry.topic(&name).expect("the topic").clone();
        let context = resource::SubscriptionContext {
            event_retention: None,
            input_schema: entry.topic.kind.input_schema(),
            now: START,
            require_https: false,
            replaces: None,
        };
        let body = json!({"properties": {"destination": {"endpointType": "WebHook",
            "properties": {"endpointUrl": "http://localhost:9/hook"}}}});
        let add = RegistryChange::AddSubscription {
            topic: entry.topic.id,
            name: SubscriptionName::parse("billing").expect("a name"),
            definition: resource::parse_subscription(&body, &context).expect("a subscription"),
            validation: Validation::succeeded(None),
        };
        let registry = store
            .ledger
            .change_catalog(
                &store.ledger.catalog().await.expect("a catalog"),
                add,
                Effects::default(),
                START,
            )
            .await
            .expect("a subscription");
        let (_, subscription) = registry.subscriptions().next().expect("the subscription");
        let entropy = Entropy::seeded(7);
        Self {
            topic: entry.topic.id,
            subscription: subscription.id,
            tokens: vec![LockToken::generate(&entropy)],
            home,
            store,
            entropy,
            now: START,
            rows: HashMap::new(),
        }
    }

    async fn take(&mut self, step: Step) {
        // No two moments are the same, so the order of what is due is no accident.
        self.now = self.now + Duration::from_millis(1);
        if let Step::Lock(queue, ..) | Step::LockDeferred(queue, ..) = &step {
            let (queue, now) = (*queue, self.now);
            let lapsed = |row: &&mut Row| {
                row.queue() == Some(queue) && row.lock.is_some() && !row.is_locked(now)
            };
            self.rows.values_mut().filter(lapsed).for_each(Row::lapse);
        }
        match step {
            Step::Publish => self.publish().await,
            Step::Pass(seconds) => self.now = self.now + Duration::from_secs(seconds),
            Step::Lock(queue, count, seconds) => {
                let mut due: Vec<_> = self
                    .in_queue(queue)
                    .filter(|(_, row)| row.due_at <= self.now)
                    .map(|(id, row)| (row.due_at, id.0))
                    .collect();
                due.sort_unstable();
                let due = due.iter().map(|(_, id)| DeliveryId(*id));
                let expected = due.take(count).collect();
                self.lock(queue, LockSelection::Due, count, seconds, expected)
                    .await;
            }
            Step::LockDeferred(queue, which, seconds) => {
                let mut ids: Vec<_> = self.rows.keys().copied().collect();
                ids.sort_unstable();
                let Some(id) = ids.get(which % ids.len().max(1)).copied() else {
                    return;
                };
                let row = &self.rows[&id];
                let may = row.queue() == Some(queue) && row.deferred && !row.is_locked(self.now);
                let expected = if may { vec![id] } else { Vec::new() };
                let which = LockSelection::Deferred(vec![id.0]);
                self.lock(queue, which, 1, seconds, expected).await;
            }
            Step::Renew(token, seconds) => self.renew(self.token(token), seconds).await,
            Step::Settle(token, how) => self.settle(self.token(token), how).await,
            Step::GiveUp(token) => self.give_up(self.token(token)).await,
            Step::Resubmit(which) => self.resubmit(which).await,
            Step::Crash => self.crash(),
        }
    }

    fn token(&self, index: usize) -> LockToken {
        // The newest ones more often than the stale ones.
        let age = index % self.tokens.len().min(1 + index % 7);
        self.tokens[self.tokens.len() - 1 - age]
    }

    fn in_queue(&self, queue: SubQueue) -> impl Iterator<Item = (&DeliveryId, &Row)> {
        self.rows
            .iter()
            .filter(move |(_, row)| row.queue() == Some(queue))
    }

    fn holder(&mut self, token: LockToken) -> Option<&mut Row> {
        let now = self.now;
        let holds = |row: &&mut Row| {
            row.lock
                .is_some_and(|(held, until)| held == token && now < until)
        };
        self.rows.values_mut().find(holds)
    }

    async fn publish(&mut self) {
        let event = Event {
            id: "1".to_owned(),
            source: None,
            event_type: "T".to_owned(),
            subject: None,
            time: None,
            data_version: None,
            attributes: Vec::new(),
            data: EventData::Absent,
        };
        let events = vec![NewEvent::new(event, vec![self.subscription])];
        let accepted = AppendRequest::new(self.topic, self.now, events);
        self.store
            .ledger
            .append(accepted, drop)
            .await
            .expect("stored");
        self.add();
    }

    fn add(&mut self) {
        let id = i64::try_from(self.rows.len() + 1).expect("few");
        let row = Row {
            state: DeliveryState::Pending,
            attempts: 0,
            due_at: self.now,
            queued_at: self.now,
            deferred: false,
            lock: None,
            recorded: Vec::new(),
        };
        self.rows.insert(DeliveryId(id), row);
    }

    async fn lock(
        &mut self,
        queue: SubQueue,
        which: LockSelection,
        count: usize,
        seconds: u64,
        expected: Vec<DeliveryId>,
    ) {
        let until = self.now + Duration::from_secs(seconds);
        let fresh = std::iter::repeat_with(|| LockSeed::generate(&self.entropy));
        let request = LockRequest {
            of: QueueRef {
                subscription: self.subscription,
                queue,
            },
            which,
            now: self.now,
            until,
            seeds: fresh.take(count).collect(),
            bytes_max: usize::MAX,
            session: None,
        };
        let taken = self.store.ledger.lock(request).await.expect("locks");
        let locked = taken.locked;
        let found: Vec<_> = locked.iter().map(|each| each.delivery.id).collect();
        assert_eq!(found, expected);
        for each in locked {
            let row = self.rows.get_mut(&each.delivery.id).expect("a row");
            assert!(
                !row.is_locked(self.now),
                "two locks on {}",
                each.delivery.id
            );
            assert_eq!(each.delivery.attempts, row.attempts);
            assert_eq!(each.dead_letter.is_some(), queue == SubQueue::DeadLetter);
            row.take(each.token, until);
            self.tokens.push(each.token);
        }
    }

    async fn renew(&mut self, token: LockToken, seconds: u64) {
        let (now, until) = (self.now, self.now + Duration::from_secs(seconds));
        let renew = Disposition::Renew {
            lock_for: until.since(now),
            within: None,
        };
        let renewed = self.change(token, LockOf::default(), renew).await;
        let expected = match self.holder(token) {
            None => Err(LockError::LockLost),
            Some(row) => {
                row.lock = Some((token, until));
                if !row.deferred {
                    row.due_at = until;
                }
                Ok(())
            }
        };
        assert_eq!(renewed.map(|_| ()), expected);
    }

    async fn change(
        &self,
        token: LockToken,
        of: LockOf,
        disposition: Disposition,
    ) -> Result<LockSettled, LockError> {
        let change = LockChange {
            token,
            of,
            disposition,
            properties: [].into(),
        };
        let request = LockChanges {
            changes: vec![change],
            dropping: HashSet::new(),
            room: QueueRoom::default(),
            audit: None,
            now: self.now,
        };
        let settled = self.store.ledger.settle_locks(request).await;
        settled.expect("an answer").settled.remove(0)
    }

    async fn settle(&mut self, token: LockToken, how: Disposition) {
        let now = self.now;
        let queue = self.holder(token).and_then(|row| row.queue());
        // A lock of the other queue is lost there.
        let other = match queue {
            Some(SubQueue::Active) => QueueRef::dead_letters(self.subscription),
            Some(SubQueue::DeadLetter) | None => QueueRef::pending(self.subscription),
        };
        let astray = self.change(token, LockOf::any_of(other), how.clone());
        assert_eq!(astray.await, Err(LockError::LockLost));
        let settled = self.change(token, LockOf::default(), how.clone()).await;
        let Some(row) = self.holder(token) else {
            assert_eq!(settled, Err(LockError::LockLost));
            return;
        };
        let outcome = match (&how, row.state) {
            (Disposition::Complete, _) => Some(Outcome::Delivered),
            (Disposition::Abandon | Disposition::Release { .. }, _) => Some(Outcome::Released),
            (Disposition::Uncount, _) => None,
            (Disposition::Defer, _) => Some(Outcome::Deferred),
            (Disposition::DeadLetter(_), DeliveryState::Pending) => Some(Outcome::Rejected),
            (Disposition::DeadLetter(_), _) => {
                assert_eq!(settled, Err(LockError::IsDeadLetter));
                return;
            }
            (Disposition::GiveUp(_) | Disposition::Renew { .. }, _) => unreachable!("{how:?}"),
        };
        assert_eq!(
            settled.expect("it is held").lock.of.queue,
            queue.expect("a queue")
        );
        row.lock = None;
        if row.state == DeliveryState::Pending {
            row.recorded.extend(outcome);
            row.attempts -= u32::from(outcome.is_none());
        }
        match (how, row.state) {
            (Disposition::Complete, DeliveryState::Pending) => {
                row.end(DeliveryState::Delivered, now);
            }
            (Disposition::Complete, _) => row.state = DeliveryState::Removed,
            (Disposition::DeadLetter(_), _) => row.end(DeliveryState::DeadLettered, now),
            (Disposition::Defer, _) => row.deferred = true,
            (Disposition::Abandon | Disposition::Uncount, _) => row.due_at = row.queued_at,
            (Disposition::Release { attempts_max, .. }, DeliveryState::Pending)
                if row.attempts >= attempts_max =>
            {
                row.end(DeliveryState::DeadLettered, now);
            }
            (
                Disposition::Release {
                    after, lifetime, ..
                },
                _,
            ) => {
                row.due_at = (now + after).min(row.queued_at + lifetime).max(now);
            }
            (Disposition::GiveUp(_) | Disposition::Renew { .. }, _) => {}
        }
        if row.deferred {
            row.due_at = everpost::model::lease::NEVER;
        }
    }

    async fn give_up(&mut self, token: LockToken) {
        let now = self.now;
        let reason = DeadLetterReason::TimeToLiveExceeded;
        let give_up = Disposition::GiveUp(Settlement::DeadLetter(reason));
        let settled = self.change(token, LockOf::default(), give_up).await;
        let settled = settled.map(|_| ());
        let expected = match self.holder(token) {
            None => Err(LockError::LockLost),
            Some(row) if row.state == DeliveryState::DeadLettered => Err(LockError::IsDeadLetter),
            Some(row) => {
                row.attempts -= 1;
                row.lock = None;
                row.end(DeliveryState::DeadLettered, now);
                Ok(())
            }
        };
        assert_eq!(settled, expected);
    }

    async fn resubmit(&mut self, which: usize) {
        let id = DeliveryId(i64::try_from(which % (self.rows.len() + 1)).expect("few"));
        let query = CandidateQuery::Ids(vec![id]);
        let found = self.store.ledger.candidates(query).await;
        let mut found = found.expect("an answer").candidates;
        found.retain(|each| each.state == DeliveryState::DeadLettered);
        let again = |of| ResubmittedDelivery {
            of,
            to: ResubmitTarget::Subscription { edited: None },
        };
        let request = ResubmitRequest {
            resubmissions: found.into_iter().map(again).collect(),
            step: None,
            audit: Some(by_hand()),
            now: self.now,
        };
        let done = self.store.ledger.resubmit(request).await;
        let mut outcomes = done
            .expect("an answer")
            .expect("no job")
            .outcomes
            .into_iter();
        let is_done = |each: &ResubmitOutcome| matches!(each, ResubmitOutcome::Resubmitted(_));
        let resubmitted = outcomes.find(is_done);
        let now = self.now;
        let may = |row: &&mut Row| row.state == DeliveryState::DeadLettered && !row.is_locked(now);
        let row = self.rows.get_mut(&id).filter(may);
        assert_eq!(resubmitted.is_some(), row.is_some(), "{resubmitted:?}");
        if let Some(row) = row {
            row.state = DeliveryState::Resubmitted;
            row.lock = None;
            self.add();
        }
    }

    fn crash(&mut self) {
        if let Home::Disk(dir) = &self.home {
            self.store = open(dir);
        }
    }

    /// Whoever looks at a queue sees all that is in it, locked or not, in the order of the numbers.
    async fn compare_peeked(&self) {
        for queue in [SubQueue::Active, SubQueue::DeadLetter] {
            let rows = self.rows.iter();
            let rows = rows.filter(|(_, row)| row.queue() == Some(queue));
            let mut expected: Vec<_> = rows.map(|(id, row)| (*id, row.deferred)).collect();
            expected.sort_unstable();
            let from = expected
                .get(expected.len() / 2)
                .map_or(DeliveryId(0), |(id, _)| *id);
            expected.retain(|(id, _)| *id >= from);
            let request = PeekRequest {
                of: QueueRef {
                    subscription: self.subscription,
                    queue,
                },
                from: from.0,
                limit: expected.len() + 1,
                bytes_max: usize::MAX,
                session: None,
            };
            let peeked = self.store.ledger.peek(request).await.expect("an answer");
            let peeked = peeked.iter().map(|each| (each.delivery.id, each.deferred));
            assert_eq!(peeked.collect::<Vec<_>>(), expected);
        }
    }

    async fn compare(&self) {
        self.compare_peeked().await;
        for (id, row) in &self.rows {
            let shown = self.store.views.delivery(*id).await.expect("an answer");
            let shown = shown.expect("the delivery");
            let recorded: Vec<_> = shown
                .attempts
                .iter()
                .map(|each| each.result.outcome)
                .collect();
            assert_eq!(
                (
                    shown.row.state,
                    shown.row.attempts,
                    shown.row.deferred,
                    shown.row.locked_until,
                    recorded
                ),
                (
                    row.state,
                    row.attempts,
                    row.deferred,
                    row.lock.map(|(_, until)| until),
                    row.recorded.clone()
                ),
                "delivery {id}"
            );
            if row.recorded.is_empty() {
                continue;
            }
            assert_eq!(shown.row.last_outcome, row.recorded.last().copied());
        }
    }
}

fn run(home: Home, steps: Vec<Step>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(async move {
        let mut trial = Trial::new(home).await;
        for (number, step) in steps.into_iter().enumerate() {
            trial.take(step).await;
            if number.is_multiple_of(COMPARE_EVERY) {
                trial.compare().await;
            }
        }
        trial.compare().await;
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn locks_are_exclusive_and_stale_tokens_change_nothing(
        steps in prop::collection::vec(step(), 200..260)
    ) {
        run(Home::Memory, steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2, max_shrink_iters: 20, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn locks_outlive_a_crash(steps in prop::collection::vec(step(), 200..220)) {
let dir = tempfile::tempdir().expect("a temporary directory");
        let data_dir = DataDir::open(dir.path()).expect("a data directory");
        run(Home::Disk(Arc::new(data_dir)), steps);
    }
}
