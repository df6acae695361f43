//! How much of what publishers send is in memory and in work at once, and who may send more.

mod slots;

use std::error::Error;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::request::Parts;
use bytes::Bytes;
use http_body_util::LengthLimitError;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use crate::api::auth::address_of;
use crate::api::error::{ApiError, TOO_MUCH};
use crate::base::Timestamp;
use crate::base::budget::{Budget, MemoryGroups, PartOfGroup, TakenBytes};
use crate::model::topic::TopicId;
use slots::{RequestSlot, Slots};

/// Bytes of request bodies, and of the events in them until they are stored: 64 requests of the greatest size.
const BODIES_MAX: usize = 64 * 1_024 * 1_024;

/// How long a request waits for memory before its publisher is told to come back.
const MEMORY_WAIT: Duration = Duration::from_secs(1);

/// How often it checks for it.
const MEMORY_CHECK: Duration = Duration::from_millis(20);

/// For how long an overload shows in `/readyz`.
const OVERLOAD_SHOWN: Duration = Duration::from_secs(10);

/// Bits of an IPv6 address that name a client's network: one client has all the addresses of its own.
const CLIENT_PREFIX_BITS: u32 = 64;

/// Bytes for which memory is taken at once, as a body comes in: as many as are read at once, so that all that is read
/// has memory, and what is announced and not sent holds little.
const STEP: usize = 16 * 1_024;

/// Bounds the memory that request bodies take. What publishers send and what all others send have memory of their
/// own.
#[derive(Clone, Default)]
pub struct Intake {
    events: Room,
    others: Room,
    slots: Slots,
}

/// Memory for bodies: a topic (and with it its keys), or a client, may have more of it only while it has less than is
/// left, so that nobody can take it all.
#[derive(Clone)]
struct Room(Arc<Shared>);

struct Shared {
    budget: Budget,
    holders: MemoryGroups<Holder>,
    /// The last rejection that was due to all publishers together.
    overloaded_at: Mutex<Option<Timestamp>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Holder {
    Topic(TopicId),
    Client(IpAddr),
    ClientOfTopic(TopicId, IpAddr),
}

/// Who sends a request.
#[derive(Clone, Copy)]
pub(super) struct Publisher {
    /// `None` for what is no publishing.
    topic: Option<TopicId>,
    client: Option<IpAddr>,
}

impl Publisher {
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

    /// What the publishers of a topic share by their addresses.
    fn part(self) -> Option<Holder> {
        let (topic, client) = self.topic.zip(self.client)?;
        Some(Holder::ClientOfTopic(topic, client))
    }
}

/// The memory of one request, until it is dropped.
pub(super) struct Reservation {
    room: Room,
    taken: TakenBytes,
}

impl Intake {
    /// A body, not of a publish request, that fails when its client has no memory left for it.
    pub(super) fn held(&self, body: Body, client: Option<IpAddr>) -> Body {
        if body.is_end_stream() {
            return body;
        }
        let publisher = Publisher {
            topic: None,
            client: client.map(client_of),
        };
        Body::new(HeldBody {
            inner: body,
            reservation: self.others.nothing(publisher),
        })
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

    /// No memory yet, for the body of a request that can be taken as far as its topic is concerned.
    pub(super) fn reserve(&self, publisher: Publisher) -> Result<Reservation, ApiError> {
        match publisher
            .topic
            .is_some_and(|topic| self.slots.is_crowded(topic))
        {
            true => Err(too_many()),
            false => Ok(self.events.nothing(publisher)),
        }
    }

    fn note_overload(&self, now: Timestamp) {
        self.events.note_overload(now);
    }

    /// Whether requests were rejected a moment ago because of all publishers together.
    pub(super) fn is_overloaded(&self, now: Timestamp) -> bool {
        let overloaded_at = *self.events.0.overloaded_at.lock().unwrap();
        overloaded_at.is_some_and(|at| now.since(at) < OVERLOAD_SHOWN)
    }
}

impl Default for Room {
    fn default() -> Self {
        Self::of_at_most(BODIES_MAX)
    }
}

impl Room {
    fn of_at_most(bytes_max: usize) -> Self {
        Self(Arc::new(Shared {
            budget: Budget::of(bytes_max),
            holders: MemoryGroups::default(),
            overloaded_at: Mutex::default(),
        }))
    }

    fn nothing(&self, publisher: Publisher) -> Reservation {
        let of = |holder| self.0.holders.of(holder);
        let groups = publisher.holders().map(|holder| holder.map(of));
        let budget = &self.0.budget;
        let account = match publisher.part().map(of) {
            Some(group) => {
                let part = PartOfGroup { group, times: 1 };
                budget.account_within(groups, part, usize::MAX)
            }
            None => budget.account(groups, usize::MAX),
        };
        Reservation {
            room: self.clone(),
            taken: account.nothing(),
        }
    }

    fn note_overload(&self, now: Timestamp) {
        *self.0.overloaded_at.lock().unwrap() = Some(now);
    }
}

impl Reservation {
    /// Waits a moment for memory for the first `read` bytes of a body, and for some of those that follow, of `most`.
    pub(super) async fn cover(
        &mut self,
        read: usize,
        most: usize,
        now: Timestamp,
    ) -> Result<(), ApiError> {
        let held = self.taken.bytes();
        if read <= held && held > 0 {
            return Ok(());
        }
        let wanted = (read + STEP).min(most.max(read));
        let mut waited = Duration::ZERO;
        while !self.take(wanted) {
            if waited >= MEMORY_WAIT {
                let budget = &self.room.0.budget;
                let is_own = self.taken.account().own() > budget.bytes_max() / 4;
                if !is_own && budget.left() < wanted - held {
                    self.room.note_overload(now);
                }
                return Err(too_many());
            }
            tokio::time::sleep(MEMORY_CHECK).await;
            waited += MEMORY_CHECK;
        }
        Ok(())
    }

    /// Takes memory until there is some for `bytes` in all, or says that there is none.
    fn take(&mut self, bytes: usize) -> bool {
        let most = self.room.0.budget.bytes_max() / 2; // a single body always fits
        let more = bytes.min(most).saturating_sub(self.taken.bytes());
        self.taken.add(more).is_ok()
    }
}

/// See [`Intake::held`].
struct HeldBody {
    inner: Body,
    reservation: Reservation,
}

/// Why a body is not read: its client, or all together, send more than there is memory for.
#[derive(Debug, thiserror::Error)]
#[error("{TOO_MUCH}")]
struct TooMuch;

/// Why there is no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoBody {
    TooLarge,
    /// There is no memory for it now; the same request may succeed later.
    NoMemory,
    /// It ended before it was whole, or came too slowly.
    Broken,
}

/// Reads a body of at most so many bytes.
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

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        let bytes = frame
            .as_ref()
            .and_then(|frame| frame.as_ref().ok()?.data_ref());
        let needed = self.reservation.taken.bytes() + bytes.map_or(0, Bytes::len);
        Poll::Ready(match self.reservation.take(needed) {
            true => frame,
            false => Some(Err(axum::Error::new(TooMuch))),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// What publishers hear who send faster than events can be taken and stored.
fn too_many() -> ApiError {
    ApiError::unavailable(
        "More is being published than can be stored right now; try again in a moment.",
    )
}

/// Who is behind an address.
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
    use super::*;

    fn topic(id: i64) -> Publisher {
        Publisher {
            topic: Some(TopicId(id)),
            client: None,
        }
    }

    fn client(id: i64, address: &str) -> Publisher {
        Publisher {
            client: Some(address.parse().expect("an address")),
            ..topic(id)
        }
    }

    impl Room {
        fn take(&self, publisher: Publisher, bytes: usize) -> Option<Reservation> {
            let mut reservation = self.nothing(publisher);
            reservation.take(bytes).then_some(reservation)
        }
    }

    #[test]
    fn nobody_takes_all_the_room() {
        let room = Room::of_at_most(64);
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
        let room = Room::of_at_most(64);
        let many = (0..99).map_while(|id| room.take(client(id, "192.0.2.7"), 1));
        assert_eq!(many.collect::<Vec<_>>().len(), 32);
    }

    #[test]
    fn a_body_larger_than_the_room_has_it_alone() {
        let room = Room::of_at_most(64);
        let all = room.take(topic(1), 1_000);
        assert!(all.is_some());
        assert!(room.take(topic(2), 1_000).is_some());
        assert!(room.take(topic(1), 1).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_taken_as_a_body_comes_in() {
        let room = Room::of_at_most(10 * STEP);
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

    #[tokio::test]
    async fn what_is_no_publishing_is_bounded_for_each_client() {
        let intake = Intake::default();
        let from = |address: &str| address.parse().ok();
        let chunk = Bytes::from(vec![b' '; BODIES_MAX / 8]);
        let read = async |address: &str| {
            let body = intake.held(Body::from(chunk.clone()), from(address));
            let mut body = Box::pin(body);
            let frame = std::future::poll_fn(|cx| HttpBody::poll_frame(body.as_mut(), cx));
            let is_read = matches!(frame.await, Some(Ok(_)));
            is_read.then_some(body)
        };
        let mut held = Vec::new();
        while let Some(body) = read("192.0.2.1").await {
            held.push(body);
        }
        assert_eq!(held.len(), 4, "half of the memory");
        assert!(read("192.0.2.2").await.is_some());
        held.clear();
        assert!(read("192.0.2.1").await.is_some());
    }

    #[tokio::test]
    async fn it_is_told_why_there_is_no_body() {
        let read = |body: Body, most: usize| async move { read_body(body, most).await.err() };
        let held = |room: usize| {
            let room = Room::of_at_most(room);
            let mut others = room.nothing(topic(1));
            others.taken.add_anyway(30);
            let body = HeldBody {
                inner: Body::from(vec![b' '; 20]),
                reservation: room.nothing(topic(2)),
            };
            (Body::new(body), others)
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

    #[test]
    fn a_client_is_an_address_or_a_network() {
        let client = |text: &str| client_of(text.parse().expect("an address")).to_string();
        assert_eq!(client("192.0.2.7"), "192.0.2.7");
        assert_eq!(client("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(client("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    }
}
