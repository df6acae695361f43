//! Sign-ins with an identity provider that are in progress (docs/security.md B3).
//!
//! The values of a sign-in are in a signed cookie of the browser that began it, so that a sign-in cannot be completed
//! in another browser. Each sign-in can be completed only once.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::throttle::end_site;
use crate::base::Timestamp;
use crate::base::places::{Places, TakenPlace, WaitingMax};
use crate::base::seldom::SeldomLine;
use crate::outbound::identity_provider::SignInSecrets;

/// The time limit of a sign-in at the provider. A password may wait as long for its second factor.
pub const LIFE: Duration = Duration::from_secs(10 * 60);

/// The maximum number of ended sign-ins that are remembered because their cookies have not expired. Each of them had
/// a genuine code of the provider or cost a request to the provider.
const ENDED_MAX: usize = 10_000;

/// The minimum time between two audit entries about the rejection of one person.
const REJECTION_RECORDED_EVERY: Duration = Duration::from_secs(5 * 60);

/// The maximum number of recently rejected people that are remembered. Covers a large organization that is rejected
/// by mistake.
const REJECTED_MAX: usize = 1_000;

/// The maximum number of concurrent code exchanges. Limited because unauthenticated clients can request one.
const EXCHANGES_MAX: usize = 16;

/// The maximum number of code exchanges that wait, per network and in total.
const EXCHANGES_WAITING_MAX: WaitingMax = WaitingMax {
    by_key: 16,
    in_all: 256,
};

/// The permission to exchange one code, released when dropped.
pub type CodeExchange = TakenPlace<Option<IpNet>>;

/// The values by which a sign-in is recognised when the browser comes back from the provider.
#[derive(Serialize, Deserialize)]
pub struct SignIn {
    /// The `state` that the provider sends back with the code.
    pub state: String,
    /// The nonce that the provider's ID token has to hold.
    pub nonce: String,
    /// The PKCE code verifier, which only the browser that began the sign-in can show.
    pub verifier: String,
    /// The page to open after the sign-in.
    pub next: String,
    /// The start of the sign-in, in milliseconds.
    pub since_ms: i64,
    /// Is true if the provider must ask for the password even if the browser has a session there.
    pub again: bool,
}

/// The sign-ins that are in progress.
pub struct SignIns {
    key: hmac::Key,
    /// The `state` values of ended sign-ins, oldest first.
    ended: Mutex<VecDeque<String>>,
    exchanges: Places<Option<IpNet>>,
    /// Rejected people and the times of their rejections, oldest first.
    rejected: Mutex<VecDeque<(String, Timestamp)>>,
    failed: SeldomLine,
}

impl SignIns {
    /// Creates the signing key from `secret`. Sign-ins from before a restart must be started again.
    pub fn new(secret: &str) -> Self {
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()),
            ended: Mutex::default(),
            exchanges: Places::of(EXCHANGES_MAX),
            rejected: Mutex::default(),
            failed: SeldomLine::default(),
        }
    }

    /// Returns the signed cookie value for the browser that begins the sign-in.
    pub fn sign(&self, attempt: &SignIn) -> String {
        let text = serde_json::to_vec(attempt).expect("an attempt is JSON");
        let tag = hmac::sign(&self.key, &text);
        [&text, tag.as_ref()]
            .map(|part| URL_SAFE_NO_PAD.encode(part))
            .join(".")
    }

    /// Verifies a cookie and marks its sign-in as ended. Returns `None` if the sign-in does not belong to `state`,
    /// had already ended, or has expired.
    pub fn open(&self, cookie: &str, state: &str, now: Timestamp) -> Option<SignIn> {
        let (text, tag) = cookie.split_once('.')?;
        let text = URL_SAFE_NO_PAD.decode(text).ok()?;
        let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
        hmac::verify(&self.key, &text, &tag).ok()?;
        let attempt: SignIn = serde_json::from_slice(&text).ok()?;
        let age = now.since(Timestamp::from_ms(attempt.since_ms));
        let is_same = verify_slices_are_equal(attempt.state.as_bytes(), state.as_bytes()).is_ok();
        (is_same && age < LIFE && self.end(state)).then_some(attempt)
    }

    /// Waits for permission to exchange a code. Networks take turns. Returns `None` if too many exchanges are
    /// waiting.
    pub async fn exchange(&self, address: Option<IpAddr>) -> Option<CodeExchange> {
        let from = address.map(end_site);
        self.exchanges
            .take_within(EXCHANGES_WAITING_MAX, from)
            .await
    }

    /// Records a rejection. Returns whether it is the first one of `subject` within the last minutes. A page that
    /// stays open repeats its requests, and the repeated rejections do not belong in the audit log.
    pub fn is_first_rejection(&self, subject: &str, now: Timestamp) -> bool {
        let mut rejected = self.rejected.lock().unwrap();
        rejected.retain(|(_, at)| now.since(*at) < REJECTION_RECORDED_EVERY);
        let is_first = rejected.iter().all(|(each, _)| each != subject);
        if is_first {
            if rejected.len() >= REJECTED_MAX {
                rejected.pop_front();
            }
            rejected.push_back((subject.to_owned(), now));
        }
        is_first
    }

    /// Returns the number of failures that were not logged since the last logged one, or `None` if this failure must
    /// not be logged. Logging is limited because clients can return without a code at any rate.
    pub fn line_of_failure(&self, now: Timestamp) -> Option<u64> {
        self.failed.take(now)
    }

    /// Marks a sign-in as ended. Returns whether it had not ended before.
    fn end(&self, state: &str) -> bool {
        let mut ended = self.ended.lock().unwrap();
        if ended.iter().any(|each| each == state) {
            return false;
        }
        if ended.len() >= ENDED_MAX {
            ended.pop_front();
        }
        ended.push_back(state.to_owned());
        true
    }
}

impl SignIn {
    /// Returns the values for a request to the provider. `pkce` is the code challenge or, with the code, the verifier.
    pub fn secrets<'a>(&'a self, pkce: &'a str) -> SignInSecrets<'a> {
        SignInSecrets {
            state: &self.state,
            nonce: &self.nonce,
            pkce,
            again_since: self.again.then(|| Timestamp::from_ms(self.since_ms)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn networks_take_turns_with_their_codes() {
        let sign_ins = SignIns::new("secret");
        let address = |text: &str| text.parse::<IpAddr>().ok();
        let (one, other) = (address("192.0.2.1"), address("198.51.100.1"));
        let mut held = Vec::new();
        for _ in 0..EXCHANGES_MAX {
            held.push(sign_ins.exchange(one).await.expect("a place"));
        }
        let own = (0..EXCHANGES_WAITING_MAX.by_key).map(|_| Box::pin(sign_ins.exchange(one)));
        let mut waiting: Vec<_> = own.collect();
        for each in &mut waiting {
            assert!(poll!(each).is_pending());
        }
        let neighbour = address("192.0.2.200");
        let more = sign_ins.exchange(neighbour).await;
        assert!(more.is_none(), "of the same network");
        let mut honest = Box::pin(sign_ins.exchange(other));
        assert!(poll!(&mut honest).is_pending());
        held.truncate(EXCHANGES_MAX - 2);
        assert!(poll!(&mut honest).is_ready(), "behind one of the others");
        let crowd = (0..=u8::MAX).map(|number| {
            let from = IpAddr::from([10, 0, number, 1]);
            Box::pin(sign_ins.exchange(Some(from)))
        });
        let mut crowd: Vec<_> = crowd.collect();
        for each in &mut crowd {
            drop(poll!(each));
        }
        let last = poll!(Box::pin(sign_ins.exchange(address("203.0.113.1"))));
        assert!(matches!(last, Poll::Ready(None)), "too many networks");
    }

    #[test]
    fn a_sign_in_ends_once_in_the_browser_that_began_it() {
        let attempt = |state: &str| SignIn {
            state: state.to_owned(),
            nonce: "n".to_owned(),
            verifier: "v".to_owned(),
            next: "/admin".to_owned(),
            since_ms: 1_000,
            again: false,
        };
        let attempts = SignIns::new("secret");
        let at = |s: i64| Timestamp::from_ms(1_000 + s * 1_000);
        let opens = |cookie: &str, state, s| attempts.open(cookie, state, at(s)).is_some();
        let cookie = attempts.sign(&attempt("a"));
        assert!(!opens(&cookie, "b", 1), "of another sign-in");
        assert!(!opens(&cookie, "", 1));
        assert!(!opens(&cookie, "a", 600), "expired");
        assert!(!opens("", "a", 1), "no cookie");
        let forged = SignIns::new("guess").sign(&attempt("a"));
        assert!(!opens(&forged, "a", 1), "forged");
        assert!(opens(&cookie, "a", 599));
        assert!(!opens(&cookie, "a", 599), "replayed");
        assert!(opens(&attempts.sign(&attempt("b")), "b", 0), "another one");
    }
}
