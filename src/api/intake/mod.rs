//! Limits for request bodies in memory and for publish requests in progress, shared between topics and clients.

mod slots;

use std::error::Error;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::request::Parts;
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt, stream};
use http_body_util::{BodyExt, LengthLimitError, StreamBody};
use hyper::body::{Body as HttpBody, Frame};

use crate::api::auth::address_of;
use crate::api::error::ApiError;
use crate::base::budget::{Budget, MemoryGroups, NothingLeft, PartOfGroup, TakenBytes};
use crate::base::request_memory::{RequestMemory, TooMuch};
use crate::base::{Stopwatch, Timestamp};
use crate::model::topic::TopicId;
use slots::{RequestSlot, Slots};

/// Bytes of the bodies of publish requests, and of their events until they are stored: 43 requests of the maximum size.
const EVENTS_BYTES_MAX: usize = 64 * 1_024 * 1_024;

/// Bytes of bodies of other requests that have shown a key, a token or a session.
const OTHERS_BYTES_MAX: usize = 56 * 1_024 * 1_024;

/// Bytes of bodies of requests without credentials, such as the sign-in form. Requests with a key never
/// use this memory.
const STRANGERS_BYTES_MAX: usize = 8 * 1_024 * 1_024;

/// How long a request waits for memory before its client is told to come back.
const MEMORY_WAIT: Duration = Duration::from_secs(1);

/// Time that a body may initially take to begin or continue before it counts as late. When other requests need memory,
/// late bodies are ended first.
const PATIENCE: Duration = Duration::from_secs(1);

/// Maximum time that a body may take to continue after it has arrived faster than [`BODY_RATE_MIN`].
const PATIENCE_MAX: Duration = Duration::from_secs(3);

/// Minimum rate of a body in bytes per second. This rate bounds the total time of a body: two minutes for the largest
/// publish request.
pub const BODY_RATE_MIN: u32 = 8 * 1_024;

/// Pause between two attempts of a waiting request to take memory.
const MEMORY_CHECK: Duration = Duration::from_millis(20);

/// Time for which `/readyz` reports an overload.
const OVERLOAD_SHOWN: Duration = Duration::from_secs(10);

/// Prefix length of a client's network in IPv6: all addresses with one prefix count as one client.
const CLIENT_PREFIX_BITS: u32 = 64;

/// Bytes of memory that are taken in one step while a body arrives. A step is as large as one read, so that all bytes
/// read have memory and a body that is announced but not sent holds little.
const STEP: usize = 16 * 1_024;

/// Minimum size of a piece of a body; smaller pieces are joined. Each piece keeps the buffer it was read in alive,
/// including the chunk length before the piece, and a client may send one byte at a time.
const JOINED_BYTES: usize = 2 * 1_024;

/// Bounds the memory of request bodies. Publish requests, other requests with credentials and requests without
/// credentials have separate memory.
#[derive(Clone)]
pub struct BodyMemory {
    events: BodyRoom,
    others: BodyRoom,
    strangers: BodyRoom,
    slots: Slots,
}

impl Default for BodyMemory {
    fn default() -> Self {
        Self {
            events: BodyRoom::of_at_most(EVENTS_BYTES_MAX),
            others: BodyRoom::of_at_most(OTHERS_BYTES_MAX),
            strangers: BodyRoom::of_at_most(STRANGERS_BYTES_MAX),
            slots: Slots::default(),
        }
    }
}

/// Memory for request bodies, shared by topics and clients. A topic (with all its keys) or a client may take more only
/// while it holds less than is left. When no memory is left, the largest body of the holder with the most memory is
/// ended, so that no holder can take all memory.
#[derive(Clone)]
struct BodyRoom(Arc<SharedMemory>);

struct SharedMemory {
    budget: Budget,
    holders: MemoryGroups<Holder>,
    /// Time of the last rejection that was caused by the load of all publishers together.
    overloaded_at: Mutex<Option<Timestamp>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Holder {
    Topic(TopicId),
    Client(IpAddr),
    ClientOfTopic(TopicId, IpAddr),
}

/// The sender of a request.
#[derive(Clone, Copy)]
pub(super) struct BodySender {
    /// The topic of a publish request; `None` for other requests.
    topic: Option<TopicId>,
    client: Option<IpAddr>,
}

impl BodySender {
    /// The publisher of this request to `topic`.
    pub(super) fn of(topic: TopicId, parts: &Parts) -> Self {
        let client = address_of(&parts.extensions).map(client_of);
        let topic = Some(topic);
        Self { topic, client }
    }

    fn holders(self) -> [Option<Holder>; 2] {
        [
            self.topic.map(Holder::Topic),
            self.client.map(Holder::Client),
        ]
    }

    /// Returns the holder for this client alone among the publishers of its topic.
    fn part(self) -> Option<Holder> {
        let (topic, client) = self.topic.zip(self.client)?;
        Some(Holder::ClientOfTopic(topic, client))
    }
}

/// The memory reserved for one request; released on drop.
pub(super) struct Reservation {
    room: BodyRoom,
    taken: TakenBytes,
    /// Bytes of the body received so far.
    read: usize,
    /// Time that the next bytes may take before the body counts as late. Received bytes add to this time, up to
    /// [`PATIENCE_MAX`], and waiting reduces it.
    patience: Duration,
}

impl BodyMemory {
    /// Wraps the body of a request that is not a publish request. The returned body fails when no memory is left for it
    /// or when other requests need its memory.
    pub(super) fn held(
        &self,
        body: Body,
        client: Option<IpAddr>,
        request: Option<&RequestMemory>,
    ) -> Body {
        if body.is_end_stream() {
            return body;
        }
        let publisher = BodySender {
            topic: None,
            client: client.map(client_of),
        };
        let reservation = self.others.nothing(publisher);
        let account = reservation.taken.account();
        match request {
            Some(request) => request.note_body(account),
            None => account.note_known(), // it comes over no connection
        }
        let announced = body.size_hint().upper().map(usize::try_from);
        let held = HeldBody {
            publisher,
            reservation,
            strangers: Some(self.strangers.clone()),
            most: announced.and_then(Result::ok).unwrap_or(usize::MAX),
            joined: BytesMut::new(),
            rest: Some(body),
        };
        held.into_body()
    }

    /// Waits a moment for a slot for a request to `topic`.
    pub(super) async fn slot(
        &self,
        topic: TopicId,
        now: Timestamp,
    ) -> Result<RequestSlot, ApiError> {
        self.slots.take(topic).await.map_err(|none| {
            if none.is_overload {
                self.note_overload(now);
            }
            too_many()
        })
    }

    /// Returns an empty reservation for the body of a publish request, or an error if the request would probably get
    /// no slot for its topic.
    pub(super) fn reserve(&self, publisher: BodySender) -> Result<Reservation, ApiError> {
        let topic = publisher.topic;
        if topic.is_some_and(|topic| self.slots.is_crowded(topic)) {
            return Err(too_many());
        }
        Ok(self.events.nothing(publisher))
    }

    fn note_overload(&self, now: Timestamp) {
        self.events.note_overload(now);
    }

    /// Reports whether requests were rejected a moment ago because of the load of all publishers together.
    pub(super) fn is_overloaded(&self, now: Timestamp) -> bool {
        let overloaded_at = *self.events.0.overloaded_at.lock().unwrap();
        overloaded_at.is_some_and(|at| now.since(at) < OVERLOAD_SHOWN)
    }
}

impl BodyRoom {
    fn of_at_most(bytes_max: usize) -> Self {
        Self(Arc::new(SharedMemory {
            budget: Budget::of_passing(bytes_max),
            holders: MemoryGroups::default(),
            overloaded_at: Mutex::default(),
        }))
    }

    fn nothing(&self, publisher: BodySender) -> Reservation {
        let of = |holder| self.0.holders.of(holder);
        let groups = publisher.holders().map(|holder| holder.map(of));
        let budget = &self.0.budget;
        let account = match publisher.part().map(of) {
            Some(group) => {
                let part = PartOfGroup { group, times: 1 };
                budget.closable_account_within(groups, part, usize::MAX)
            }
            None => budget.closable_account(groups, usize::MAX),
        };
        Reservation {
            room: self.clone(),
            taken: account.nothing(),
            read: 0,
            patience: PATIENCE,
        }
    }

    fn note_overload(&self, now: Timestamp) {
        *self.0.overloaded_at.lock().unwrap() = Some(now);
    }
}

impl Reservation {
    /// Waits up to [`MEMORY_WAIT`] for memory for the first `read` bytes of a body and the next [`STEP`] bytes, within
    /// the body's maximum of `most` bytes.
    pub(super) async fn cover(
        &mut self,
        read: usize,
        most: usize,
        now: Timestamp,
    ) -> Result<(), ApiError> {
        let waited = self.wait_for(read, most).await;
        waited.map_err(|NothingLeft| {
            let (budget, account) = (&self.room.0.budget, self.taken.account());
            let is_own = account.own() > budget.bytes_max() / 4;
            let missing = wanted(read, most) - self.taken.bytes();
            if !is_own && !account.has_to_close() && budget.left() < missing {
                self.room.note_overload(now);
            }
            too_many()
        })
    }

    async fn wait_for(&mut self, read: usize, most: usize) -> Result<(), NothingLeft> {
        let come = u32::try_from(read.saturating_sub(self.read)).unwrap_or(u32::MAX);
        let earned = Duration::from_secs(1) * come / BODY_RATE_MIN;
        self.patience = PATIENCE_MAX.min(self.patience + earned);
        self.read = self.read.max(read);
        let held = self.taken.bytes();
        if read <= held && held > 0 {
            return Ok(());
        }
        let mut waited = Duration::ZERO;
        while !self.take(wanted(read, most)) {
            if waited >= MEMORY_WAIT || self.taken.account().has_to_close() {
                return Err(NothingLeft);
            }
            tokio::time::sleep(MEMORY_CHECK).await;
            waited += MEMORY_CHECK;
        }
        Ok(())
    }

    /// Waits for the next part of a body, and stops when other requests need the memory of the body. Late bodies are
    /// ended before others.
    async fn unless_needed<T>(
        &mut self,
        coming: impl Future<Output = T>,
    ) -> Result<T, NothingLeft> {
        let account = self.taken.account();
        if account.has_to_close() {
            return Err(NothingLeft);
        }
        let mut coming = pin!(coming);
        if let Some(come) = coming.as_mut().now_or_never() {
            return Ok(come);
        }
        // Boxed, so that the futures of requests whose bodies have already arrived stay small.
        let (stopwatch, patience) = (Stopwatch::begin(), self.patience);
        let late = async {
            tokio::time::sleep(patience).await;
            account.note_late(true);
            std::future::pending::<()>().await;
        };
        let waiting = Box::pin(async {
            tokio::select! {
                come = account.asked_to_close().run_until_cancelled(coming) => come,
                () = late => None,
            }
        });
        let come = waiting.await;
        account.note_late(false);
        self.patience = self.patience.saturating_sub(stopwatch.took());
        come.ok_or(NothingLeft)
    }

    /// Waits for the next part of the body of a publish request, and fails when other requests need its memory.
    pub(super) async fn coming<T>(
        &mut self,
        coming: impl Future<Output = T>,
    ) -> Result<T, ApiError> {
        let come = self.unless_needed(coming).await;
        come.map_err(|NothingLeft| too_many())
    }

    /// Notes that the whole body has arrived. From now on the request keeps its memory, even if other requests need it.
    pub(super) fn stay(&self) {
        self.taken.account().stay();
    }

    /// Increases the reservation to `bytes` in all. Returns `false` if there is not enough memory.
    fn take(&mut self, bytes: usize) -> bool {
        let most = self.room.0.budget.bytes_max() / 2; // a single body always fits
        let more = bytes.min(most).saturating_sub(self.taken.bytes());
        self.taken.add(more).is_ok()
    }
}

/// Returns the bytes of memory to reserve once `read` bytes of a body of at most `most` bytes have been read.
fn wanted(read: usize, most: usize) -> usize {
    read.saturating_add(STEP).min(most.max(read))
}

/// A body that takes memory as it is read; see [`BodyMemory::held`].
struct HeldBody {
    publisher: BodySender,
    reservation: Reservation,
    /// The memory for requests without credentials; `None` once the body is first polled. By then a client with a key
    /// has presented it.
    strangers: Option<BodyRoom>,
    /// Maximum size of the body as announced, in bytes; `usize::MAX` if none is announced.
    most: usize,
    /// Short pieces that are passed on together.
    joined: BytesMut,
    /// The rest of the body that has not been received; `None` once the body has ended.
    rest: Option<Body>,
}

impl HeldBody {
    fn into_body(self) -> Body {
        let pieces = stream::unfold(Some(self), |held| async move { held?.next().await });
        Body::new(StreamBody::new(pieces))
    }

    /// Returns the next piece and the rest of the body. After an error there is no rest.
    async fn next(mut self) -> Option<(Result<Frame<Bytes>, axum::Error>, Option<Self>)> {
        match self.next_piece().await.transpose()? {
            Ok(piece) => Some((Ok(piece), Some(self))),
            Err(error) => Some((Err(error), None)),
        }
    }

    async fn next_piece(&mut self) -> Result<Option<Frame<Bytes>>, axum::Error> {
        let too_much = |NothingLeft| axum::Error::new(TooMuch);
        if let Some(strangers) = self.strangers.take() {
            if !self.reservation.taken.account().is_known() {
                self.reservation = strangers.nothing(self.publisher);
            }
            let begun = self.reservation.wait_for(0, self.most).await;
            begun.map_err(too_much)?;
        }
        while let Some(rest) = &mut self.rest {
            let come = self.reservation.unless_needed(rest.frame()).await;
            let piece = come.map_err(too_much)?.transpose()?;
            let is_last = piece.is_none();
            // Trailers are dropped, because no handler reads them.
            let data = piece
                .and_then(|piece| piece.into_data().ok())
                .unwrap_or_default();
            let read = self.reservation.read + data.len();
            let covered = self.reservation.wait_for(read, self.most).await;
            covered.map_err(too_much)?;
            if is_last {
                self.rest = None;
            }
            if let Some(piece) = self.join(data, is_last) {
                return Ok(Some(Frame::data(piece)));
            }
        }
        Ok(None)
    }

    /// Adds `data` to the joined pieces. Returns the bytes to pass on, if they are enough.
    fn join(&mut self, data: Bytes, is_last: bool) -> Option<Bytes> {
        if self.joined.is_empty() && data.len() >= JOINED_BYTES {
            return Some(data);
        }
        self.joined.extend_from_slice(&data);
        let is_enough = is_last || self.joined.len() >= JOINED_BYTES;
        let passed_on = is_enough.then(|| std::mem::take(&mut self.joined).freeze());
        passed_on.filter(|bytes| !bytes.is_empty())
    }
}

/// The reason why a body could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoBody {
    TooLarge,
    /// No memory is left for the body now; the same request may succeed later.
    NoMemory,
    /// The body ended early or arrived too slowly.
    Broken,
}

/// Reads a body of at most `bytes_max` bytes.
pub(super) async fn read_body(body: Body, bytes_max: usize) -> Result<Bytes, NoBody> {
    let read = to_bytes(body, bytes_max).await;
    read.map_err(|error| {
        let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
        while let Some(each) = cause {
            if each.is::<LengthLimitError>() {
                return NoBody::TooLarge;
            }
            if each.is::<TooMuch>() {
                return NoBody::NoMemory;
            }
            cause = each.source();
        }
        NoBody::Broken
    })
}

/// Returns the error for publishers that send faster than events can be stored.
fn too_many() -> ApiError {
    ApiError::unavailable(
        "More is being published than can be stored right now; try again in a moment.",
    )
}

/// Returns the client of an address: the IPv4 address itself, or the network of an IPv6 address.
pub fn client_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let network = !0 << (Ipv6Addr::BITS - CLIENT_PREFIX_BITS);
            Ipv6Addr::from_bits(address.to_bits() & network).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::StreamExt;

    use super::*;
    use crate::base::budget::PresentedKey;

    fn topic(id: i64) -> BodySender {
        BodySender {
            topic: Some(TopicId(id)),
            client: None,
        }
    }

    fn client(id: i64, address: &str) -> BodySender {
        BodySender {
            client: Some(address.parse().expect("an address")),
            ..topic(id)
        }
    }

    impl BodyRoom {
        fn take(&self, publisher: BodySender, bytes: usize) -> Option<Reservation> {
            let mut reservation = self.nothing(publisher);
            reservation.take(bytes).then_some(reservation)
        }
    }

    #[test]
    fn nobody_takes_all_the_room() {
        let room = BodyRoom::of_at_most(64);
        let mut rooms: Vec<_> = (0..99).map_while(|_| room.take(topic(1), 1)).collect();
        assert_eq!(rooms.len(), 32, "half, beside nobody");
        let others: Vec<_> = (0..99).map_while(|_| room.take(topic(2), 1)).collect();
        assert_eq!(others.len(), 16, "half of what is left");
        rooms.pop();
        assert!(room.take(topic(1), 1).is_none(), "it has more than is left");
        rooms.clear();
        assert!(room.take(topic(1), 16).is_some());
        drop(others);
        assert_eq!(room.0.budget.taken(), 0);
    }

    #[test]
    fn one_client_does_not_take_it_through_many_topics() {
        let room = BodyRoom::of_at_most(64);
        let many = (0..99).map_while(|id| room.take(client(id, "192.0.2.7"), 1));
        assert_eq!(many.collect::<Vec<_>>().len(), 32);
    }

    #[test]
    fn a_body_larger_than_the_room_has_it_alone() {
        let room = BodyRoom::of_at_most(64);
        let all = room.take(topic(1), 1_000);
        assert!(all.is_some());
        assert!(room.take(topic(2), 1_000).is_some());
        assert!(room.take(topic(1), 1).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_taken_as_a_body_comes_in() {
        let room = BodyRoom::of_at_most(10 * STEP);
        let now = Timestamp::from_ms(1);
        let mut body = room.nothing(topic(1));
        for (read, most, expected) in [
            (0, 100, 100),
            (100, 100, 100),
            (101, 4 * STEP, 101 + STEP),
            (102, 4 * STEP, 101 + STEP),
            (4 * STEP, 4 * STEP, 4 * STEP),
        ] {
            assert!(body.cover(read, most, now).await.is_ok());
            assert_eq!(body.taken.bytes(), expected, "{read} of {most}");
        }
        let mut second = room.nothing(topic(1));
        assert!(second.cover(0, 4 * STEP, now).await.is_ok());
        assert!(second.cover(STEP + 1, 4 * STEP, now).await.is_err());
        drop(body);
        assert!(second.cover(STEP + 1, 4 * STEP, now).await.is_ok());
    }

    /// A body of which nothing comes after its first bytes, of a request that has shown this key of a queue, if any.
    fn unfinished(intake: &BodyMemory, address: [u8; 4], key: Option<&str>, bytes: usize) -> Body {
        let first = stream::iter([Ok::<_, Infallible>(Bytes::from(vec![b' '; bytes]))]);
        let body = Body::from_stream(first.chain(stream::pending()));
        let account = Budget::of(0).account([None, None], 0);
        let request = RequestMemory::take(&account, 0).expect("nothing");
        let held = intake.held(body, Some(address.into()), Some(&request));
        if let Some(key) = key {
            request.note_key(|| PresentedKey {
                holder: "queue".to_owned(),
                key: Some(key.to_owned()),
            });
        }
        held
    }

    async fn begins(body: &mut Body) -> bool {
        matches!(body.frame().await, Some(Ok(_)))
    }

    /// Sends such bodies as long as there is memory for them, from one address after the other.
    async fn from_many(intake: &BodyMemory, key: Option<&str>, bytes: usize) -> Vec<Body> {
        let mut held = Vec::new();
        for number in 1..=16 {
            loop {
                let mut body = unfinished(intake, [192, 0, 2, number], key, bytes);
                if !begins(&mut body).await {
                    break;
                }
                held.push(body);
            }
        }
        held
    }

    /// Reads on in bodies, as those do who wait for them. Returns what tells how many of them have failed.
    fn read_on(bodies: Vec<Body>) -> impl Fn() -> usize {
        let failed = Arc::new(AtomicUsize::new(0));
        for body in bodies {
            let failed_so_far = Arc::clone(&failed);
            tokio::spawn(async move {
                let read = read_body(body, usize::MAX).await;
                assert_eq!(read.err(), Some(NoBody::NoMemory));
                failed_so_far.fetch_add(1, Ordering::Relaxed);
            });
        }
        move || failed.load(Ordering::Relaxed)
    }

    #[tokio::test(start_paused = true)]
    async fn what_strangers_send_leaves_others_what_they_need() {
        let intake = BodyMemory::default();
        let held = from_many(&intake, None, STEP / 2).await;
        let taken = intake.strangers.0.budget.taken();
        assert!(taken > STRANGERS_BYTES_MAX - 2 * STEP, "{taken}");
        assert_eq!(intake.others.0.budget.taken(), 0);
        let mut known = unfinished(&intake, [192, 0, 2, 1], Some("key"), 1_000_000);
        assert!(begins(&mut known).await);
        let failed = read_on(held);
        let mut stranger = unfinished(&intake, [203, 0, 113, 1], None, JOINED_BYTES);
        assert!(begins(&mut stranger).await);
        assert!(failed() > 0, "the largest makes room");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_most_of_what_a_key_may_send_makes_room() {
        let intake = BodyMemory::default();
        let held = from_many(&intake, Some("many"), 1_000_000).await;
        assert!((20..35).contains(&held.len()), "{}", held.len());
        let from_elsewhere = |key| unfinished(&intake, [203, 0, 113, 1], Some(key), 250_000);
        let mut other = from_elsewhere("other");
        assert!(begins(&mut other).await, "it is left to other keys");
        let failed = read_on(held);
        let mut same = from_elsewhere("many");
        assert!(begins(&mut same).await);
        assert!(failed() > 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_makes_room_for_others_of_its_topic() {
        let room = BodyRoom::of_at_most(64);
        let mut silent = Vec::new();
        for number in 1..=16 {
            let publisher = client(1, &format!("192.0.2.{number}"));
            silent.extend(std::iter::from_fn(|| room.take(publisher, 1)));
        }
        assert_eq!(silent.len(), 32, "half, which the topic has");
        let mut other = room.nothing(client(1, "203.0.113.1"));
        let now = Timestamp::from_ms(1);
        assert!(other.cover(0, 1, now).await.is_err(), "they stay");
        for mut reservation in silent {
            tokio::spawn(async move {
                let ended = reservation.coming(std::future::pending::<()>()).await;
                assert!(ended.is_err());
            });
        }
        assert!(other.cover(0, 1, now).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_stop_coming_end_for_one_that_comes_though_all_are_small() {
        let room = BodyRoom::of_at_most(64);
        let ended = Arc::new(AtomicUsize::new(0));
        for number in 1..=32 {
            let publisher = client(1, &format!("192.0.2.{number}"));
            let mut body = room.take(publisher, 1).expect("room");
            if number % 2 == 0 {
                body.taken.account().note_known(); // a key makes no difference
            }
            let ended = Arc::clone(&ended);
            tokio::spawn(async move {
                assert!(body.coming(std::future::pending::<()>()).await.is_err());
                ended.fetch_add(1, Ordering::Relaxed);
            });
        }
        tokio::time::sleep(PATIENCE * 2).await;
        let mut other = room.nothing(client(1, "203.0.113.1"));
        let begun = tokio::time::Instant::now();
        assert!(other.cover(8, 8, Timestamp::from_ms(1)).await.is_ok());
        assert!(
            begun.elapsed() < MEMORY_CHECK,
            "it does not wait for their end"
        );
        tokio::time::sleep(MEMORY_CHECK).await;
        assert_eq!(
            ended.load(Ordering::Relaxed),
            16,
            "twice as much, of its topic's share"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_publishing_is_bounded_for_each_client() {
        let intake = BodyMemory::default();
        let from = |address: &str| address.parse().ok();
        let chunk = Bytes::from(vec![b' '; OTHERS_BYTES_MAX / 8]);
        let read = async |address: &str| {
            let mut body = intake.held(Body::from(chunk.clone()), from(address), None);
            begins(&mut body).await.then_some(body)
        };
        let mut held = Vec::new();
        while let Some(body) = read("192.0.2.1").await {
            held.push(body);
        }
        assert_eq!(held.len(), 4, "half of the memory");
        assert!(read("192.0.2.2").await.is_some());
        let (later, ()) = tokio::join!(read("192.0.2.1"), async {
            tokio::time::sleep(MEMORY_WAIT / 2).await;
            held.clear();
        });
        assert!(later.is_some(), "it waits a moment");
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_told_why_there_is_no_body() {
        let read = |body: Body, most: usize| async move { read_body(body, most).await.err() };
        let held = |room: usize| {
            let room = BodyRoom::of_at_most(room);
            let mut others = room.nothing(topic(1));
            others.taken.add_anyway(30);
            let body = HeldBody {
                publisher: topic(2),
                reservation: room.nothing(topic(2)),
                strangers: None,
                most: 20,
                joined: BytesMut::new(),
                rest: Some(Body::from(vec![b' '; 20])),
            };
            (body.into_body(), others)
        };
        let (body, _others) = held(100);
        assert_eq!(read(body, 20).await, None);
        let (body, _others) = held(100);
        assert_eq!(read(body, 19).await, Some(NoBody::TooLarge));
        let (body, _others) = held(49);
        assert_eq!(read(body, 20).await, Some(NoBody::NoMemory));
        let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let ends = futures_util::stream::iter([Err::<Bytes, _>(reset)]);
        let broken = Body::from_stream(ends);
        assert_eq!(read(broken, 20).await, Some(NoBody::Broken));
    }

    #[tokio::test]
    async fn short_pieces_of_a_body_are_joined() {
        let sizes = [
            1,
            1,
            JOINED_BYTES - 3,
            1,
            0,
            5,
            JOINED_BYTES,
            JOINED_BYTES,
            7,
            8,
        ];
        let pieces = sizes.map(|size| Ok::<_, Infallible>(Bytes::from(vec![b' '; size])));
        let body = Body::from_stream(futures_util::stream::iter(pieces));
        let mut held = BodyMemory::default().held(body, None, None);
        let mut passed_on = Vec::new();
        while let Some(piece) = held.frame().await {
            let data = piece.expect("a piece").into_data();
            passed_on.push(data.expect("data").len());
        }
        let expected = [JOINED_BYTES, JOINED_BYTES + 5, JOINED_BYTES, 15];
        assert_eq!(passed_on, expected);
    }

    #[test]
    fn a_client_is_an_address_or_a_network() {
        let client = |text: &str| client_of(text.parse().expect("an address")).to_string();
        assert_eq!(client("192.0.2.7"), "192.0.2.7");
        assert_eq!(client("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(client("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    }
}
