//! The queue of changes that wait for the writer.
//!
//! Settlements go first, so that the answers of receivers do not wait behind publish requests. In the second half of a
//! group settlements go last, so that neither kind of change starves the other. Appends and other changes alternate.
//! Appends take turns by topic, other changes by the party that they are for. A party with many changes therefore
//! delays only its own changes, both in this queue and when it waits for room in the queue.
//!
//! A change that stores or removes many rows is large. A large change begins a group of its own, so that no other
//! change waits for its commit. After a large change, the writer is reserved for changes that are not large, for as
//! long as the large change took, if there are any.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::base::Stopwatch;
use crate::base::places::{Places, TakenPlace};
use crate::base::turns::FairQueue;
use crate::model::subscription::SubscriptionId;
use crate::model::topic::TopicId;
use crate::store::engine::queue_topics::QueueTopics;
use crate::store::error::StoreError;

/// Maximum number of waiting changes, not counting settlements. Senders of further changes wait in turn until another
/// change leaves the queue. This is the only back pressure.
pub(super) const WAITING_MAX: usize = 4_096;

/// Time for which settlements wait for other changes to share a commit with. A publisher then does not have to wait for
/// a separate commit of settlements. No caller waits for a settlement.
const LINGER: Duration = Duration::from_millis(2);

/// Number of waiting settlements at which they are committed at once, without the wait of [`LINGER`].
const LINGERING_MAX: usize = 64;

/// Maximum number of rows of a change that is not large. No batch of a change that is made in batches has more rows.
const LARGE_ROWS: usize = 500;

/// The party that a change is for. The parties take turns, and the changes of each party stay in order. All queues and
/// subscriptions of a topic share one turn, no matter how many there are, and take turns within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::store) enum Whose {
    /// The appliance itself and its administrators.
    Appliance,
    /// Users who sign in to the admin pages.
    Accounts,
    Inspectors,
    /// Messages of all queues that are forwarded to another entity.
    Forwarder,
    Topic(TopicId),
    /// Receivers of a queue or a subscription.
    Queue(SubscriptionId),
    /// Receivers of all queues and subscriptions of a topic.
    QueuesOf(TopicId),
    /// Receivers that name locks without a queue, or whose queue was deleted.
    AnyQueue,
}

impl Whose {
    /// Returns the party for the receivers of a topic's queues and subscriptions, or for receivers of deleted queues
    /// if `topic` is `None`.
    pub(super) fn queues_of(topic: Option<TopicId>) -> Self {
        topic.map_or(Self::AnyQueue, Self::QueuesOf)
    }
}

/// The durability of a commit at the time when its callers get their results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    /// The commit survives a kill of the process. It is written to the log without a flush, and becomes durable with
    /// the next flush.
    Written,
    /// The commit also survives a power loss.
    Flushed,
}

/// The class of a change, which determines its place in the queue. `rows` is the approximate number of rows that the
/// change stores, changes or removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Lane {
    /// Settlements of the dispatcher. The dispatcher limits their number, so they never wait for room in the queue.
    Settlement,
    /// Events of a topic.
    Append {
        to: TopicId,
        rows: usize,
    },
    /// Locks and lock renewals of receivers. A power loss also ends the connections that hold the locks, so these
    /// changes need no flush: see [`Durability::Written`].
    Lock(Whose),
    Other {
        whose: Whose,
        rows: usize,
    },
}

impl Lane {
    /// Returns the lane of changes that are not large. Changes of many rows are made in batches.
    pub(in crate::store) const fn of(whose: Whose) -> Self {
        let rows = LARGE_ROWS;
        Self::Other { whose, rows }
    }

    /// Returns the party whose turn the changes of this lane wait for, `None` for settlements, which take no turns.
    fn whose(self) -> Option<Whose> {
        match self {
            Self::Settlement => None,
            Self::Append { to, .. } => Some(Whose::Topic(to)),
            Self::Lock(whose) | Self::Other { whose, .. } => Some(whose),
        }
    }
}

/// Creates a queue and returns its two ends.
pub(super) fn queue<C>() -> (Sender<C>, Receiver<C>) {
    let shared = Arc::new(SharedQueue {
        waiting: Mutex::new(WaitingChanges {
            settlements: VecDeque::new(),
            appends: FairQueue::default(),
            others: FairQueue::default(),
            to_flush: 0,
            turn: WriterTurn::default(),
            sleeps: Sleeps::No,
            is_closed: false,
        }),
        arrived: Condvar::new(),
        room: Places::of(WAITING_MAX),
        topics: QueueTopics::default(),
        since: Stopwatch::begin(),
    });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

/// The sending end. Dropping it ends the writer after the last waiting change.
pub(super) struct Sender<C>(Arc<SharedQueue<C>>);

/// The receiving end, which belongs to the writer. Dropping it drops all waiting changes.
pub(super) struct Receiver<C>(Arc<SharedQueue<C>>);

struct SharedQueue<C> {
    waiting: Mutex<WaitingChanges<C>>,
    arrived: Condvar,
    /// Places for all waiting changes except settlements.
    room: Places<Whose>,
    topics: QueueTopics,
    since: Stopwatch,
}

struct WaitingChanges<C> {
    settlements: VecDeque<C>,
    appends: FairQueue<TopicId, WaitingChange<C>>,
    others: FairQueue<Whose, WaitingChange<C>>,
    /// Number of waiting changes in `appends` and `others` that need a flush.
    to_flush: usize,
    turn: WriterTurn,
    sleeps: Sleeps,
    is_closed: bool,
}

/// A waiting change with its place in the queue.
struct WaitingChange<C> {
    is_large: bool,
    durability: Durability,
    change: C,
    room: TakenPlace<Whose>,
}

/// The state that determines which change the writer takes next. Times are durations since the creation of the queue.
#[derive(Default)]
struct WriterTurn {
    /// Is true if the last change that was not large was an append.
    was_append: bool,
    /// Is true if the last large change was an append.
    was_large_append: bool,
    /// Start of the last group, if it began with a large change.
    large_since: Option<Duration>,
    /// Is true if an append or other change that is not large was taken after the last large change began.
    others_came: bool,
    /// Time until which the writer is reserved for changes that are not large.
    others_until: Duration,
}

impl<C> WaitingChanges<C> {
    /// Returns the first change of a group that begins now. Returns the remaining delay as an error if only large
    /// changes wait and the writer is still reserved for others.
    fn first(&mut self, now: Duration) -> Option<Result<TakenChange<C>, Duration>> {
        let after_large = self.turn.large_since.take();
        let left = self.turn.others_until.saturating_sub(now);
        let is_for_others = after_large.is_some() || !left.is_zero();
        let small = is_for_others.then(|| self.next(true)).flatten();
        let left = match after_large {
            None => left,
            // Reserves the writer for as long as the large change took, so that others have it for half of the time.
            Some(since) if std::mem::take(&mut self.turn.others_came) => now - since,
            Some(_) => Duration::ZERO,
        };
        self.turn.others_until = now + left;
        if let Some(small) = small {
            return Some(Ok(small));
        }
        let large = left.is_zero().then(|| self.pop(true)).flatten();
        let Some(large) = large else {
            let rests = self.has_others() && !left.is_zero();
            return self.next(true).map(Ok).or(rests.then_some(Err(left)));
        };
        self.turn.large_since = Some(now);
        Some(Ok(TakenChange::Other(large)))
    }

    /// Takes the next change that is not large, a settlement before or after appends and other changes.
    fn next(&mut self, settlements_first: bool) -> Option<TakenChange<C>> {
        let settlement = |it: &mut Self| it.settlements.pop_front().map(TakenChange::Settlement);
        if settlements_first {
            settlement(self).or_else(|| self.next_other())
        } else {
            self.next_other().or_else(|| settlement(self))
        }
    }

    /// Takes the next append or other change that is not large.
    fn next_other(&mut self) -> Option<TakenChange<C>> {
        let change = self.pop(false)?;
        self.turn.others_came = true;
        Some(TakenChange::Other(change))
    }

    /// Takes the next append or other change, in alternation. `is_large` selects large changes or changes that are not
    /// large.
    fn pop(&mut self, is_large: bool) -> Option<WaitingChange<C>> {
        let suits = |change: &WaitingChange<C>| change.is_large == is_large;
        let append = |it: &mut Self| Some((true, it.appends.pop_if(suits)?));
        let other = |it: &mut Self| Some((false, it.others.pop_if(suits)?));
        let was_append = if is_large {
            self.turn.was_large_append
        } else {
            self.turn.was_append
        };
        let next = if was_append {
            other(self).or_else(|| append(self))
        } else {
            append(self).or_else(|| other(self))
        };
        let (is_append, change) = next?;
        self.to_flush -= usize::from(change.durability == Durability::Flushed);
        if is_large {
            self.turn.was_large_append = is_append;
        } else {
            self.turn.was_append = is_append;
        }
        Some(change)
    }

    /// Reports whether a change waits that needs a flush.
    fn wants_flush(&self) -> bool {
        self.to_flush > 0 || !self.settlements.is_empty()
    }

    /// Reports whether a change waits that is not a settlement.
    fn has_others(&self) -> bool {
        !self.others.is_empty() || !self.appends.is_empty()
    }
}

/// A change that was taken from the queue.
enum TakenChange<C> {
    Settlement(C),
    Other(WaitingChange<C>),
}

impl<C> TakenChange<C> {
    fn durability(&self) -> Durability {
        match self {
            Self::Settlement(_) => Durability::Flushed,
            Self::Other(change) => change.durability,
        }
    }

    /// Returns the change and frees its place in the queue.
    fn into_change(self) -> C {
        match self {
            Self::Settlement(change) => change,
            Self::Other(WaitingChange { change, room, .. }) => {
                drop(room);
                change
            }
        }
    }
}

/// The state of the writer: awake, or asleep until certain changes arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sleeps {
    No,
    UntilAny,
    /// Asleep while settlements linger. Any other change wakes the writer at once, and so do [`LINGERING_MAX`]
    /// settlements.
    UntilOther,
}

impl<C> Sender<C> {
    /// Adds a change, once there is room for it.
    pub(super) async fn send(&self, lane: Lane, change: C) -> Result<(), StoreError> {
        let room = match lane.whose() {
            None => None,
            Some(whose) => {
                let group = self.0.topics.group(whose);
                Some((group, self.0.room.take_in(group, whose).await))
            }
        };
        let mut waiting = self.0.lock();
        if waiting.is_closed {
            return Err(StoreError::Closed);
        }
        let sized = |rows: usize, change, room| WaitingChange {
            is_large: rows > LARGE_ROWS,
            durability: Durability::Flushed,
            change,
            room,
        };
        match (lane, room) {
            (Lane::Append { to, rows }, Some((_, room))) => {
                waiting.appends.push(to, sized(rows, change, room));
                waiting.to_flush += 1;
            }
            (Lane::Lock(whose), Some((group, room))) => {
                let change = WaitingChange {
                    durability: Durability::Written,
                    ..sized(LARGE_ROWS, change, room)
                };
                waiting.others.push_in(group, whose, change);
            }
            (Lane::Other { whose, rows }, Some((group, room))) => {
                let change = sized(rows, change, room);
                waiting.others.push_in(group, whose, change);
                waiting.to_flush += 1;
            }
            (Lane::Settlement, _) | (_, None) => waiting.settlements.push_back(change),
        }
        let wakes = match waiting.sleeps {
            Sleeps::No => false,
            Sleeps::UntilAny => true,
            Sleeps::UntilOther => {
                lane != Lane::Settlement || waiting.settlements.len() >= LINGERING_MAX
            }
        };
        if wakes {
            waiting.sleeps = Sleeps::No;
        }
        drop(waiting); // the writer wants it as soon as it wakes
        if wakes {
            self.0.arrived.notify_one();
        }
        Ok(())
    }

    /// Returns the topics of queues and subscriptions, by which receivers take turns.
    pub(super) fn topics(&self) -> &QueueTopics {
        &self.0.topics
    }

    /// Returns the number of waiting changes.
    pub(super) fn len(&self) -> usize {
        let waiting = self.0.lock();
        waiting.settlements.len() + waiting.appends.len() + waiting.others.len()
    }
}

impl<C> Drop for Sender<C> {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.arrived.notify_one();
    }
}

impl<C> Receiver<C> {
    /// Waits for the first change of a group. Returns `None` after the last change, when the queue is closed. If only
    /// settlements wait, first waits up to [`LINGER`] for other changes. The group needs no flush if only locks and
    /// lock renewals wait.
    pub(super) fn wait(&self) -> Option<(C, Durability)> {
        let mut waiting = self.0.lock();
        let mut lingers_since = None;
        loop {
            let settlements = waiting.settlements.len();
            let is_alone = !waiting.has_others() && settlements < LINGERING_MAX;
            if is_alone && settlements == 0 {
                if waiting.is_closed {
                    return None;
                }
                waiting.sleeps = Sleeps::UntilAny;
                waiting = self.0.arrived.wait(waiting).unwrap();
                continue;
            }
            let since: Stopwatch = *lingers_since.get_or_insert_with(Stopwatch::begin);
            let left = LINGER.saturating_sub(since.took());
            if !is_alone || waiting.is_closed || left.is_zero() {
                let first = match waiting.first(self.0.since.took()) {
                    Some(Err(rest)) if !waiting.is_closed => {
                        waiting.sleeps = Sleeps::UntilAny;
                        (waiting, _) = self.0.arrived.wait_timeout(waiting, rest).unwrap();
                        continue;
                    }
                    Some(Err(rest)) => waiting.first(self.0.since.took() + rest),
                    first => first,
                };
                waiting.sleeps = Sleeps::No;
                let wants_flush = waiting.wants_flush();
                drop(waiting);
                let first_taken = first.and_then(Result::ok)?;
                let durability = if wants_flush {
                    Durability::Flushed
                } else {
                    first_taken.durability()
                };
                return Some((first_taken.into_change(), durability));
            }
            waiting.sleeps = Sleeps::UntilOther;
            (waiting, _) = self.0.arrived.wait_timeout(waiting, left).unwrap();
        }
    }

    /// Takes the next change for the current group, which has the given durability. Returns `None` if the group is only
    /// written and any waiting change needs a flush.
    pub(super) fn next(&self, settlements_first: bool, durability: Durability) -> Option<C> {
        let mut waiting = self.0.lock();
        if durability == Durability::Written && waiting.wants_flush() {
            return None;
        }
        let next = waiting.next(settlements_first);
        drop(waiting);
        next.map(TakenChange::into_change)
    }
}

impl<C> Drop for Receiver<C> {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        waiting.is_closed = true;
        let left = (
            std::mem::take(&mut waiting.settlements),
            std::mem::take(&mut waiting.appends),
            std::mem::take(&mut waiting.others),
        );
        drop(waiting); // a change may hold the last handle, which closes the queue itself
        drop(left); // and whoever waits for room gets it, to hear that
    }
}

impl<C> SharedQueue<C> {
    fn lock(&self) -> MutexGuard<'_, WaitingChanges<C>> {
        self.waiting.lock().unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::engine::queue_topics::catalog;

    const OTHER: Lane = Lane::of(Whose::Appliance);

    fn taken<C>(receiver: &Receiver<C>) -> Option<C> {
        receiver.wait().map(|(first, _)| first)
    }

    fn next<C>(receiver: &Receiver<C>, settlements_first: bool) -> Option<C> {
        receiver.next(settlements_first, Durability::Flushed)
    }

    #[tokio::test]
    async fn locks_need_no_flush_unless_they_wait_with_something_that_does() {
        use Durability::{Flushed, Written};
        let lock = Lane::Lock(Whose::Queue(SubscriptionId(1)));
        let (sender, receiver) = filled(&[(lock, 1), (lock, 2)]).await;
        assert_eq!(receiver.wait(), Some((1, Written)));
        assert_eq!(receiver.next(true, Written), Some(2));
        sender.send(lock, 3).await.expect("room");
        for lane in [Lane::Settlement, OTHER, append(1, 1)] {
            sender.send(lane, 4).await.expect("room");
            assert_eq!(
                receiver.next(true, Written),
                None,
                "{lane:?} has a group of its own"
            );
            let mut group = vec![receiver.wait().expect("a change")];
            group.extend(next(&receiver, true).map(|change| (change, Flushed)));
            group.sort_unstable_by_key(|(change, _)| *change);
            assert_eq!(group, [(3, Flushed), (4, Flushed)], "{lane:?}");
            sender.send(lock, 3).await.expect("room");
        }
        assert_eq!(receiver.wait(), Some((3, Written)));
    }

    #[tokio::test]
    async fn each_lane_keeps_its_order_and_is_taken_when_the_other_is_empty() {
        let (sender, receiver) = queue();
        for (lane, change) in [
            (OTHER, 1),
            (Lane::Settlement, 2),
            (OTHER, 3),
            (Lane::Settlement, 4),
        ] {
            sender.send(lane, change).await.expect("room");
        }
        assert_eq!(sender.len(), 4);
        assert_eq!(taken(&receiver), Some(2));
        assert_eq!(next(&receiver, false), Some(1));
        assert_eq!(next(&receiver, true), Some(4));
        assert_eq!(next(&receiver, true), Some(3));
        assert_eq!(next(&receiver, false), None);
        drop(sender);
        assert_eq!(taken(&receiver), None);
    }

    /// Changes of this lane, in the order in which they are given.
    async fn filled(changes: &[(Lane, u32)]) -> (Sender<u32>, Receiver<u32>) {
        let (sender, receiver) = of_receivers();
        for (lane, change) in changes {
            sender.send(*lane, *change).await.expect("room");
        }
        (sender, receiver)
    }

    fn append(topic: i64, rows: usize) -> Lane {
        let to = TopicId(topic);
        Lane::Append { to, rows }
    }

    #[tokio::test]
    async fn topics_take_turns_with_each_other_and_with_all_else() {
        let (one, two) = (append(1, 2), append(2, 2));
        let changes = [
            (one, 1),
            (one, 2),
            (one, 3),
            (two, 4),
            (OTHER, 5),
            (OTHER, 6),
        ];
        let (_sender, receiver) = filled(&changes).await;
        let mut group = vec![taken(&receiver).expect("a change")];
        group.extend(std::iter::from_fn(|| next(&receiver, true)));
        assert_eq!(group, [1, 5, 4, 6, 2, 3]);
    }

    /// The first change of a group at this second, or how many the large ones have to wait.
    fn first(receiver: &Receiver<u32>, second: u64) -> Option<Result<u32, u64>> {
        let first = receiver.0.lock().first(Duration::from_secs(second))?;
        Some(match first {
            Ok(taken) => Ok(taken.into_change()),
            Err(left) => Err(left.as_secs()),
        })
    }

    #[tokio::test]
    async fn what_is_large_has_a_group_of_its_own_and_leaves_others_half_of_the_time() {
        let (large, small) = (append(1, LARGE_ROWS + 1), append(2, LARGE_ROWS));
        let changes = [
            (small, 1),
            (large, 2),
            (large, 3),
            (append(1, 1), 4),
            (small, 5),
        ];
        let (sender, receiver) = filled(&changes).await;
        assert_eq!(first(&receiver, 10), Some(Ok(2)));
        // It took five seconds, and so the next five are for the others.
        assert_eq!(first(&receiver, 15), Some(Ok(1)));
        assert_eq!(next(&receiver, true), Some(5));
        assert_eq!(
            next(&receiver, true),
            None,
            "nobody waits for what is large"
        );
        assert_eq!(first(&receiver, 16), Some(Err(4)));
        sender.send(Lane::Settlement, 6).await.expect("room");
        sender.send(small, 7).await.expect("room");
        assert_eq!(first(&receiver, 17), Some(Ok(6)));
        assert_eq!(next(&receiver, true), Some(7));
        assert_eq!(first(&receiver, 20), Some(Ok(3)));
        assert_eq!(
            first(&receiver, 23),
            Some(Ok(4)),
            "behind it, as its topic has sent it"
        );
        for change in [8, 9, 10] {
            sender.send(large, change).await.expect("room");
        }
        assert_eq!(first(&receiver, 24), Some(Err(2)));
        assert_eq!(first(&receiver, 26), Some(Ok(8)));
        assert_eq!(first(&receiver, 40), Some(Ok(9)), "where nobody else waits");
        assert_eq!(first(&receiver, 50), Some(Ok(10)));
        assert_eq!(first(&receiver, 60), None);
    }

    #[tokio::test]
    async fn what_removes_much_is_large_as_well() {
        let large = Lane::Other {
            whose: Whose::Queue(SubscriptionId(1)),
            rows: LARGE_ROWS + 1,
        };
        let changes = [
            (large, 1),
            (large, 2),
            (QUIET, 3),
            (append(1, LARGE_ROWS + 1), 4),
        ];
        let (_sender, receiver) = filled(&changes).await;
        assert_eq!(first(&receiver, 10), Some(Ok(4)));
        assert_eq!(first(&receiver, 12), Some(Ok(3)));
        assert_eq!(
            next(&receiver, true),
            None,
            "nobody waits for what is large"
        );
        assert_eq!(first(&receiver, 13), Some(Err(1)));
        assert_eq!(first(&receiver, 14), Some(Ok(1)));
        assert_eq!(first(&receiver, 20), Some(Ok(2)), "where nobody else waits");
        assert_eq!(first(&receiver, 30), None);
    }

    #[tokio::test]
    async fn a_settlement_does_not_wait_for_room() {
        let (sender, receiver) = queue();
        for change in 0..WAITING_MAX {
            sender.send(OTHER, change).await.expect("room");
        }
        sender
            .send(Lane::Settlement, 7)
            .await
            .expect("no need of room");
        let waits = sender.send(OTHER, 8);
        let mut waits = Box::pin(waits);
        assert!(futures_util::poll!(&mut waits).is_pending());
        assert_eq!(next(&receiver, false), Some(0));
        waits.await.expect("room");
    }

    const BUSY: Lane = Lane::of(Whose::Queue(SubscriptionId(1)));
    const QUIET: Lane = Lane::of(Whose::Queue(SubscriptionId(2)));

    /// Subscriptions of one topic.
    const MANY: std::ops::Range<i64> = 100..400;

    /// Makes a queue that knows what is received from.
    fn of_receivers<C>() -> (Sender<C>, Receiver<C>) {
        let (sender, receiver) = queue();
        let topics = [(1, 1..2), (2, 2..3), (3, MANY)];
        sender.topics().set(&catalog(topics));
        (sender, receiver)
    }

    #[tokio::test]
    async fn a_topic_has_one_turn_however_many_subscriptions_are_received_from() {
        let of_many = MANY.map(|id| Lane::of(Whose::Queue(SubscriptionId(id))));
        let mut changes: Vec<_> = of_many.zip(0..).collect();
        changes.push((changes[0].0, 300));
        changes.extend([(QUIET, 1_000), (OTHER, 1_001), (QUIET, 1_002)]);
        let (_sender, receiver) = filled(&changes).await;
        let mut order = vec![taken(&receiver).expect("a change")];
        order.extend(std::iter::from_fn(|| next(&receiver, true)));
        assert_eq!(order[..5], [0, 1_000, 1_001, 1, 1_002]);
        order.retain(|change| *change < 1_000);
        assert!(order.is_sorted() && order.len() == 301, "and takes turns");
    }

    #[tokio::test]
    async fn a_topic_shares_the_room_however_many_subscriptions_are_received_from() {
        let (sender, receiver) = of_receivers();
        for change in 0..WAITING_MAX {
            sender.send(OTHER, change).await.expect("room");
        }
        let of_many = MANY.map(|id| Lane::of(Whose::Queue(SubscriptionId(id))));
        let late = of_many.map(|lane| Box::pin(sender.send(lane, WAITING_MAX)));
        let mut late: Vec<_> = late.collect();
        late.push(Box::pin(sender.send(QUIET, WAITING_MAX)));
        for each in &mut late {
            assert!(futures_util::poll!(each).is_pending());
        }
        assert!(next(&receiver, true).is_some() && next(&receiver, true).is_some());
        let quiet = late.last_mut().expect("the last one");
        assert!(futures_util::poll!(quiet).is_ready());
    }

    #[tokio::test]
    async fn nobody_waits_behind_all_that_another_has_asked_for() {
        let mut changes: Vec<_> = (0..1_000_u32).map(|change| (BUSY, change)).collect();
        changes.extend([(QUIET, 1_000), (OTHER, 1_001)]);
        let (_sender, receiver) = filled(&changes).await;
        let mut order = vec![taken(&receiver).expect("a change")];
        order.extend(std::iter::from_fn(|| next(&receiver, true)));
        assert_eq!(order[..4], [0, 1_000, 1_001, 1]);
        order.retain(|change| *change < 1_000);
        assert!(order.is_sorted() && order.len() == 1_000);
    }

    #[tokio::test]
    async fn whoever_fills_the_room_shares_what_becomes_free() {
        let (sender, receiver) = of_receivers();
        for change in 0..WAITING_MAX {
            sender.send(BUSY, change).await.expect("room");
        }
        let late = (0..1_000).map(|change| Box::pin(sender.send(BUSY, WAITING_MAX + change)));
        let mut late: Vec<_> = late.collect();
        for each in &mut late {
            assert!(futures_util::poll!(each).is_pending());
        }
        let mut quiet = Box::pin(sender.send(QUIET, 0));
        assert!(futures_util::poll!(&mut quiet).is_pending());
        assert_eq!(
            (next(&receiver, true), next(&receiver, true)),
            (Some(0), Some(1))
        );
        assert!(futures_util::poll!(&mut quiet).is_ready());
        // The one whose turn it was before, and then the other.
        assert_eq!(
            (next(&receiver, true), next(&receiver, true)),
            (Some(2), Some(0))
        );
        drop(receiver);
        for each in late {
            assert_eq!(each.await, Err(StoreError::Closed));
        }
    }

    #[tokio::test]
    async fn what_waits_is_dropped_with_the_writer() {
        let (sender, receiver) = queue();
        let change = Arc::new(());
        let sent = sender.send(OTHER, Arc::clone(&change)).await;
        sent.expect("room");
        drop(receiver);
        assert_eq!(Arc::strong_count(&change), 1);
        for lane in [Lane::Settlement, OTHER] {
            let late = sender.send(lane, Arc::clone(&change)).await;
            assert_eq!(late, Err(StoreError::Closed));
        }
    }
}
