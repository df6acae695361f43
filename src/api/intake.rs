//! How much of what publishers send is in memory at once, and who may send more.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::http::request::Parts;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::api::error::ApiError;
use crate::base::{Stopwatch, Timestamp};
use crate::model::topic::TopicId;

/// Bytes of request bodies, and of the events in them until they are stored: 64 requests of the greatest size.
const BODIES_MAX: usize = 64 * 1_024 * 1_024;

/// How long a request waits for room before its publisher is told to come back.
const ROOM_WAIT: Duration = Duration::from_secs(1);

/// How often it looks for it.
const ROOM_LOOK: Duration = Duration::from_millis(20);

/// Requests whose events are read and stored at once: a few more than one event subscription may have in flight, so
/// that deliveries keep up however many publish. With 64 of them 900 connections left a fifth of the deliveries.
const SEATS: usize = 36;

/// How long a request waits for its seat before its publisher is told to come back.
const SEAT_WAIT: Duration = Duration::from_millis(200);

/// For how long a refusal shows in `/readyz`.
const REFUSAL_SHOWN: Duration = Duration::from_secs(10);

/// Bits of an IPv6 address that name a client's network: one client has all the addresses of its own.
const CLIENT_PREFIX_BITS: u32 = 64;

/// Bounds the memory that request bodies take, and shares it: a topic (and with it its keys), or a client, may
/// have more of it only while it has less than is left, so that nobody can take it all.
#[derive(Clone)]
pub struct Intake {
    held: Arc<Mutex<Held>>,
    bytes_max: usize,
    seats: Arc<Semaphore>,
    /// Requests that wait for a seat.
    standing: Arc<AtomicUsize>,
    /// How long the last one has waited for its seat, in milliseconds.
    last_wait_ms: Arc<AtomicU64>,
}

#[derive(Default)]
struct Held {
    bytes: usize,
    /// It holds nothing of those who have no request.
    by_holder: HashMap<Holder, usize>,
    /// The last refusal that was due to everybody together.
    refused_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Holder {
    Topic(TopicId),
    Client(IpAddr),
}

/// Who sends a request.
#[derive(Clone, Copy)]
pub(super) struct Publisher([Option<Holder>; 2]);

impl Publisher {
    /// The publisher of this request to `topic`.
    pub(super) fn of(topic: TopicId, parts: &Parts) -> Self {
        let connected = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let client = connected.map(|ConnectInfo(address)| Holder::Client(client_of(address.ip())));
        Self([Some(Holder::Topic(topic)), client])
    }

    fn holders(self) -> impl Iterator<Item = Holder> {
        self.0.into_iter().flatten()
    }
}

/// The memory of one request, until it is dropped.
pub(super) struct Room {
    intake: Intake,
    publisher: Publisher,
    bytes: usize,
}

/// A request that waits for a seat, until it is dropped.
struct Standing<'a>(&'a AtomicUsize);

impl<'a> Standing<'a> {
    fn of(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Default for Intake {
    fn default() -> Self {
        Self::of_at_most(BODIES_MAX)
    }
}

impl Intake {
    /// With room for so many bytes.
    fn of_at_most(bytes_max: usize) -> Self {
        Self {
            held: Arc::default(),
            bytes_max,
            seats: Arc::new(Semaphore::new(SEATS)),
            standing: Arc::default(),
            last_wait_ms: Arc::default(),
        }
    }

    /// Waits a moment for a seat; `None` if there is none.
    pub(super) async fn seat(&self) -> Option<SemaphorePermit<'_>> {
        if let Ok(seat) = self.seats.try_acquire() {
            return Some(seat); // as nearly always
        }
        let stopwatch = Stopwatch::begin();
        let standing = Standing::of(&self.standing);
        let seat = tokio::time::timeout(SEAT_WAIT, self.seats.acquire()).await;
        drop(standing);
        let waited = u64::try_from(stopwatch.took().as_millis()).unwrap_or(u64::MAX);
        self.last_wait_ms.store(waited, Ordering::Relaxed);
        seat.ok()?.ok()
    }

    /// Whether a request would wait in vain for a seat, as far as the last one tells.
    pub(super) fn is_crowded(&self) -> bool {
        let last_wait = Duration::from_millis(self.last_wait_ms.load(Ordering::Relaxed));
        last_wait >= SEAT_WAIT && self.standing.load(Ordering::Relaxed) >= SEATS
    }

    /// Waits a moment for room for a body of `bytes`.
    pub(super) async fn room_for(
        &self,
        publisher: Publisher,
        bytes: usize,
        now: Timestamp,
    ) -> Result<Room, ApiError> {
        let mut waited = Duration::ZERO;
        loop {
            if let Some(room) = self.take(publisher, bytes) {
                return Ok(room);
            }
            if waited >= ROOM_WAIT {
                if self.left() < bytes {
                    self.note_refusal(now);
                }
                return Err(ApiError::unavailable(
                    "More is being published than can be taken in right now; try again in a moment.",
                ));
            }
            tokio::time::sleep(ROOM_LOOK).await;
            waited += ROOM_LOOK;
        }
    }

    fn left(&self) -> usize {
        self.bytes_max - self.held.lock().unwrap().bytes
    }

    fn take(&self, publisher: Publisher, bytes: usize) -> Option<Room> {
        let bytes = bytes.min(self.bytes_max / 2); // a single one always fits
        let mut held = self.held.lock().unwrap();
        let left = self.bytes_max - held.bytes;
        let of = |holder| held.by_holder.get(&holder).copied().unwrap_or(0);
        if bytes > left || publisher.holders().any(|holder| of(holder) + bytes > left) {
            return None;
        }
        held.bytes += bytes;
        for holder in publisher.holders() {
            *held.by_holder.entry(holder).or_default() += bytes;
        }
        let intake = self.clone();
        Some(Room {
            intake,
            publisher,
            bytes,
        })
    }

    /// Publishers were refused whoever they are.
    pub(super) fn note_refusal(&self, now: Timestamp) {
        self.held.lock().unwrap().refused_at = Some(now);
    }

    /// Whether publishers were refused a moment ago whoever they are.
    pub(super) fn is_refusing(&self, now: Timestamp) -> bool {
        let refused_at = self.held.lock().unwrap().refused_at;
        refused_at.is_some_and(|at| now.since(at) < REFUSAL_SHOWN)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut held = self.intake.held.lock().unwrap();
        held.bytes -= self.bytes;
        for holder in self.publisher.holders() {
            match held.by_holder.get_mut(&holder) {
                Some(bytes) if *bytes > self.bytes => *bytes -= self.bytes,
                _ => {
                    held.by_holder.remove(&holder);
                }
            }
        }
    }
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
        Publisher([Some(Holder::Topic(TopicId(id))), None])
    }

    fn client(id: i64, address: &str) -> Publisher {
        let client = Holder::Client(address.parse().expect("an address"));
        Publisher([Some(Holder::Topic(TopicId(id))), Some(client)])
    }

    #[test]
    fn nobody_takes_all_the_room() {
        let intake = Intake::of_at_most(64);
        let mut rooms: Vec<_> = (0..99).map_while(|_| intake.take(topic(1), 1)).collect();
        assert_eq!(rooms.len(), 32, "half, beside nobody");
        let others: Vec<_> = (0..99).map_while(|_| intake.take(topic(2), 1)).collect();
        assert_eq!(others.len(), 16, "half of what is left");
        rooms.pop();
        assert!(
            intake.take(topic(1), 1).is_none(),
            "it has more than is left"
        );
        rooms.clear();
        assert!(intake.take(topic(1), 16).is_some());
        drop(others);
        let held = intake.held.lock().unwrap();
        assert_eq!((held.bytes, held.by_holder.len()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_seat_is_told_soon() {
        let intake = Intake::default();
        let mut seats = Vec::new();
        for _ in 0..SEATS {
            seats.push(intake.seat().await.expect("a seat"));
        }
        assert!(intake.seat().await.is_none());
        assert!(!intake.is_crowded(), "nobody stands");
        drop(seats);
        assert!(intake.seat().await.is_some());
    }

    #[test]
    fn one_client_does_not_take_it_through_many_topics() {
        let intake = Intake::of_at_most(64);
        let many = (0..99).map_while(|id| intake.take(client(id, "192.0.2.7"), 1));
        assert_eq!(many.collect::<Vec<_>>().len(), 32);
    }

    #[test]
    fn a_body_larger_than_the_room_has_it_alone() {
        let intake = Intake::of_at_most(64);
        let all = intake.take(topic(1), 1_000);
        assert!(all.is_some());
        assert!(intake.take(topic(2), 1_000).is_some());
        assert!(intake.take(topic(1), 1).is_none());
    }

    #[test]
    fn a_client_is_an_address_or_a_network() {
        let client = |text: &str| client_of(text.parse().expect("an address")).to_string();
        assert_eq!(client("192.0.2.7"), "192.0.2.7");
        assert_eq!(client("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(client("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    }
}
