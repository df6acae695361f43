//! Passwords: which ones are accepted, and how they are stored (argon2id, docs/security.md B3).

use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use ipnet::IpNet;

use crate::base::Entropy;
use crate::base::places::{Places, TakenPlace, WaitingMax};
use crate::broker::background::in_background;
use crate::model::audit::Actor;

/// The minimum number of characters in a password (docs/security.md B3).
pub const CHARACTERS_MIN: usize = 8;

/// The maximum number of characters in a password. Bounds the hashing cost of one request.
pub const CHARACTERS_MAX: usize = 128;

/// The recommended number of characters, shown on the page (docs/security.md B3).
pub const CHARACTERS_RECOMMENDED: usize = 15;

/// The memory of one hash, in KiB. With two passes and one lane, this is the first choice of OWASP.
const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;
const LANES: u32 = 1;

/// The number of bytes in a salt, as recommended by RFC 9106.
const SALT_BYTES: usize = 16;

/// The maximum number of concurrent hashes. Bounds their memory, and leaves one core free on a small machine.
const HASHES_MAX: usize = 2;

/// The maximum number of concurrent hashes for unknown clients. Keeps one place free for known users.
const HASHES_OF_STRANGERS_MAX: usize = 1;

/// The maximum number of passwords of known users that wait to be hashed, per user and in total.
const WAITING_MAX: WaitingMax = WaitingMax {
    by_key: 16,
    in_all: 256,
};

/// The maximum number of passwords of unknown clients that wait to be hashed, per network and in total. The queue
/// drains within seconds.
const STRANGERS_WAITING_MAX: WaitingMax = WaitingMax {
    by_key: 16,
    in_all: 64,
};

/// The hash to verify against if the user does not exist, so that the response takes as long.
pub(super) const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA\
     $AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Too many passwords are waiting to be hashed, so the request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many people are signing in")]
pub struct Crowded;

/// Limits concurrent password hashing. Known users wait for at most one unknown client, however many are waiting.
/// Cheap to clone.
#[derive(Clone)]
pub(super) struct HashPlaces {
    /// Places keyed by known user. The one unknown client that is admitted takes turns with the known users.
    places: Places<Option<Actor>>,
    strangers: Places<Option<IpNet>>,
}

/// The permission to hash one password.
pub(super) struct HashPlace {
    _place: TakenPlace<Option<Actor>>,
    /// Released after `_place`, so that the next unknown client queues behind the known users.
    _of_strangers: Option<TakenPlace<Option<IpNet>>>,
}

impl Default for HashPlaces {
    fn default() -> Self {
        Self {
            places: Places::of(HASHES_MAX),
            strangers: Places::of(HASHES_OF_STRANGERS_MAX),
        }
    }
}

impl HashPlaces {
    /// Waits for a place for a known user.
    pub(super) async fn known(&self, who: Actor) -> Result<HashPlace, Crowded> {
        let place = self.places.take_within(WAITING_MAX, Some(who)).await;
        Ok(HashPlace {
            _place: place.ok_or(Crowded)?,
            _of_strangers: None,
        })
    }

    /// Waits for a place for an unknown client in the network `from`.
    pub(super) async fn stranger(&self, from: Option<IpNet>) -> Result<HashPlace, Crowded> {
        let turn = self.strangers.take_within(STRANGERS_WAITING_MAX, from);
        let of_strangers = turn.await.ok_or(Crowded)?;
        Ok(HashPlace {
            _place: self.places.take(None).await,
            _of_strangers: Some(of_strangers),
        })
    }
}

/// Returns the reason why `password` is not accepted for the user `name`, or `None` if it is accepted.
pub(super) fn problem(password: &str, name: &str) -> Option<String> {
    let characters = password.chars().count();
    if !(CHARACTERS_MIN..=CHARACTERS_MAX).contains(&characters) {
        return Some(format!(
            "it has {characters} characters; it must have {CHARACTERS_MIN} to {CHARACTERS_MAX}"
        ));
    }
    let first_guesses = [name, "everpost", "password", "12345678", "123456789"];
    first_guesses
        .iter()
        .any(|guess| guess.eq_ignore_ascii_case(password))
        .then(|| "this password is too common".to_owned())
}

/// Hashes `password`. Returns the PHC string.
pub(super) async fn hash(place: HashPlace, password: String) -> String {
    // The salt comes from the operating system, even in a simulation.
    let mut salt = [0; SALT_BYTES];
    Entropy::Os.fill(&mut salt);
    let hash = move || {
        let hash = argon2().hash_password_with_salt(password.as_bytes(), &salt);
        hash.expect("salt and parameters are in bounds").to_string()
    };
    in_background(place, hash).await
}

/// Returns whether `password` matches the PHC string `hash`.
pub(super) async fn is_right(place: HashPlace, password: String, hash: String) -> bool {
    // Stored passwords are never longer than the maximum, so a longer one is wrong without hashing it.
    if password.chars().count() > CHARACTERS_MAX {
        return false;
    }
    in_background(place, move || {
        argon2()
            .verify_password(password.as_bytes(), hash.as_str())
            .is_ok()
    })
    .await
}

fn argon2() -> Argon2<'static> {
    let params =
        Params::new(MEMORY_KIB, PASSES, LANES, None).expect("the parameters are in bounds");
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use futures_util::poll;

    use super::*;

    fn ann() -> Actor {
        Actor::User("ann".to_owned())
    }

    fn network(number: usize) -> Option<IpNet> {
        let text = format!("10.0.{number}.0/24");
        Some(text.parse().expect("a network"))
    }

    impl HashPlaces {
        /// A stranger who has a place, and as many who wait for it as may, each of a network of their own.
        pub(in crate::broker::people) async fn crowd(&self) -> impl Sized {
            let held = self.stranger(network(0)).await.expect("a place");
            let waiting = (1..=STRANGERS_WAITING_MAX.in_all).map(|number| {
                let places = self.clone();
                Box::pin(async move { places.stranger(network(number)).await })
            });
            let mut waiting: Vec<_> = waiting.collect();
            for each in &mut waiting {
                assert!(poll!(each).is_pending());
            }
            (held, waiting)
        }
    }

    #[tokio::test]
    async fn strangers_leave_a_place_for_those_who_are_known_and_no_more_wait_than_may() {
        let places = HashPlaces::default();
        let crowd = places.crowd().await;
        assert_eq!(places.stranger(None).await.err(), Some(Crowded));
        let Poll::Ready(known) = poll!(Box::pin(places.known(ann()))) else {
            panic!("a place that no stranger has");
        };
        let mut next = Box::pin(places.known(ann()));
        assert!(poll!(&mut next).is_pending(), "two are hashed at once");
        drop(known);
        assert!(poll!(&mut next).is_ready());
        drop(crowd);
        assert!(places.stranger(None).await.is_ok(), "nobody waits any more");
        assert_eq!((places.places.free(), places.strangers.free()), (2, 1));
    }

    #[tokio::test]
    async fn those_who_are_known_take_turns_with_one_stranger() {
        let places = HashPlaces::default();
        let held = (places.known(ann()).await, places.known(ann()).await);
        let own = (0..WAITING_MAX.by_key).map(|_| Box::pin(places.known(ann())));
        let mut own: Vec<_> = own.collect();
        for each in &mut own {
            assert!(poll!(each).is_pending());
        }
        assert_eq!(places.known(ann()).await.err(), Some(Crowded));
        let mut strangers = [1, 2].map(|number| Box::pin(places.stranger(network(number))));
        for each in &mut strangers {
            assert!(poll!(each).is_pending());
        }
        let mut bob = Box::pin(places.known(Actor::User("bob".to_owned())));
        assert!(poll!(&mut bob).is_pending());
        drop(held);
        let Poll::Ready(anns) = poll!(&mut own[0]) else {
            panic!("the first that waits");
        };
        let Poll::Ready(stranger) = poll!(&mut strangers[0]) else {
            panic!("the one whose turn it is");
        };
        drop(anns);
        let Poll::Ready(_bobs) = poll!(&mut bob) else {
            panic!("behind one of each");
        };
        drop(stranger);
        assert!(poll!(&mut strangers[1]).is_pending());
        assert!(poll!(&mut own[1]).is_ready(), "before the next stranger");
    }

    #[tokio::test]
    async fn networks_of_strangers_take_turns() {
        let places = HashPlaces::default();
        let held = places.stranger(network(1)).await;
        let mut waiting = [1, 1, 2].map(|number| Box::pin(places.stranger(network(number))));
        for each in &mut waiting {
            assert!(poll!(each).is_pending(), "one place is for others");
        }
        drop(held);
        assert!(poll!(&mut waiting[0]).is_ready());
        assert!(poll!(&mut waiting[1]).is_pending());
        assert!(poll!(&mut waiting[2]).is_ready(), "the other network");
    }

    #[tokio::test]
    async fn a_password_belongs_to_its_hash_alone() {
        let places = HashPlaces::default();
        let place = async || places.known(ann()).await.expect("a place");
        let phc = hash(place().await, "correct horse battery".to_owned()).await;
        assert!(phc.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{phc}");
        for (password, stored, expected) in [
            ("correct horse battery", &*phc, true),
            ("Correct horse battery", &phc, false),
            (&"x".repeat(CHARACTERS_MAX + 1), &phc, false),
            ("anything", NOBODY, false),
            ("anything", "no PHC string", false),
        ] {
            let right = is_right(place().await, password.to_owned(), stored.to_owned());
            assert_eq!(right.await, expected, "{password}: {stored}");
        }
    }

    #[test]
    fn nobody_is_a_hash_with_our_parameters() {
        let parsed = argon2::PasswordHash::new(NOBODY).expect("a PHC string");
        let params = Params::try_from(&parsed).expect("parameters");
        assert_eq!(params.m_cost(), MEMORY_KIB);
        assert_eq!(params.t_cost(), PASSES);
    }

    #[test]
    fn passwords_are_judged_by_length_and_obviousness() {
        for (password, taken) in [
            ("1234567", false),
            ("12345678", false),
            ("EverPost", false),
            ("margaret", false),
            ("margaret1", true),
            ("größer als", true),
            (&"x".repeat(128), true),
            (&"x".repeat(129), false),
        ] {
            assert_eq!(problem(password, "margaret").is_none(), taken, "{password}");
        }
    }
}
