//! How much of what publishers send is in memory and in work at once, and who may send more.

mod slots;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::http::request::Parts;

use crate::api::error::ApiError;
use crate::base::Timestamp;
use crate::model::topic::TopicId;
use slots::{Slot, Slots};

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

/// Bounds the memory that request bodies take, and shares it: a topic (and with it its keys), or a client, may
/// have more of it only while it has less than is left, so that nobody can take it all.
#[derive(Clone)]
pub struct Intake {
    held: Arc<Mutex<Held>>,
    bytes_max: usize,
    slots: Slots,
}

#[derive(Default)]
struct Held {
    bytes: usize,
    /// It holds nothing of those who have no request.
    by_holder: HashMap<Holder, usize>,
    /// The last rejection that was due to all publishers together.
    overloaded_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Holder {
    Topic(TopicId),
    Client(IpAddr),
}

/// Who sends a request.
#[derive(Clone, Copy)]
pub(super) struct Publisher {
    topic: TopicId,
    client: Option<IpAddr>,
}

impl Publisher {
    /// The publisher of this request to `topic`.
    pub(super) fn of(topic: TopicId, parts: &Parts) -> Self {
        let connected = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let client = connected.map(|ConnectInfo(address)| client_of(address.ip()));
        Self { topic, client }
    }

    fn holders(self) -> impl Iterator<Item = Holder> {
        let client = self.client.map(Holder::Client);
        [Holder::Topic(self.topic)].into_iter().chain(client)
    }
}

/// The memory of one request, until it is dropped.
pub(super) struct Reservation {
    intake: Intake,
    publisher: Publisher,
    bytes: usize,
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
            slots: Slots::default(),
        }
    }

    /// Waits a moment for a slot for a request to `topic`.
    pub(super) async fn slot(&self, topic: TopicId, now: Timestamp) -> Result<Slot, ApiError> {
        self.slots.take(topic).await.map_err(|none| {
            if none.is_overload {
                self.note_overload(now);
            }
            too_many()
        })
    }

    /// Waits a moment for memory for a body of `bytes`, before it is read.
    pub(super) async fn reserve(
        &self,
        publisher: Publisher,
        bytes: usize,
        now: Timestamp,
    ) -> Result<Reservation, ApiError> {
        if self.slots.is_crowded(publisher.topic) {
            return Err(too_many());
        }
        let mut waited = Duration::ZERO;
        loop {
            if let Some(reservation) = self.take(publisher, bytes) {
                return Ok(reservation);
            }
            if waited >= MEMORY_WAIT {
                if self.left() < bytes {
                    self.note_overload(now);
                }
                return Err(too_many());
            }
            tokio::time::sleep(MEMORY_CHECK).await;
            waited += MEMORY_CHECK;
        }
    }

    fn left(&self) -> usize {
        self.bytes_max - self.held.lock().unwrap().bytes
    }

    fn take(&self, publisher: Publisher, bytes: usize) -> Option<Reservation> {
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
        Some(Reservation {
            intake,
            publisher,
            bytes,
        })
    }

    fn note_overload(&self, now: Timestamp) {
        self.held.lock().unwrap().overloaded_at = Some(now);
    }

    /// Whether requests were rejected a moment ago because of all publishers together.
    pub(super) fn is_overloaded(&self, now: Timestamp) -> bool {
        let overloaded_at = self.held.lock().unwrap().overloaded_at;
        overloaded_at.is_some_and(|at| now.since(at) < OVERLOAD_SHOWN)
    }
}

impl Drop for Reservation {
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
            topic: TopicId(id),
            client: None,
        }
    }

    fn client(id: i64, address: &str) -> Publisher {
        Publisher {
            client: Some(address.parse().expect("an address")),
            ..topic(id)
        }
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
