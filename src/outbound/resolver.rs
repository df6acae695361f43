//! Resolves host names for the HTTP client. Every address is checked, and one that may not be called fails
//! the whole name. The client connects only to these addresses, so a name cannot lead elsewhere between the
//! check and the connection.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::client::legacy::connect::dns::Name;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tower::Service;

use crate::base::{Clock, Timestamp};
use crate::outbound::egress::{EgressDenied, EgressPolicy};

#[cfg(test)]
mod tests;

/// How long a look-up may take (docs/security.md B2).
pub(super) const LOOKUP_DEADLINE: Duration = Duration::from_secs(5);

/// Look-ups at once: each one holds a thread for as long as the system's resolver takes.
const LOOKUPS_MAX: usize = 64;

/// Look-ups at once of names in one domain: whoever has a name server that does not answer has a domain.
const LOOKUPS_PER_DOMAIN_MAX: usize = LOOKUPS_MAX / 8;

/// How long a name waits for a place among these.
const PLACE_DEADLINE: Duration = Duration::from_secs(5);

/// Countries register domains below these, as in `co.uk`.
const SECOND_LEVELS: [&str; 10] = [
    "ac", "co", "com", "edu", "go", "gov", "ne", "net", "or", "org",
];

/// How long addresses are cached. The system's resolver does not return the record's own time to live.
const ADDRESSES_KEPT: Duration = Duration::from_secs(30);

/// How long a failure is cached: short, so that a repaired name is soon found.
const FAILURE_KEPT: Duration = Duration::from_secs(5);

/// Names in the cache.
const NAMES_KEPT_MAX: usize = 1_024;

/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 16;

/// Looks up the addresses of a name.
pub(super) type Lookup = Arc<dyn Fn(String) -> Pending + Send + Sync>;

type Pending = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// The system's resolver.
pub(super) fn system_lookup() -> Lookup {
    Arc::new(|name| {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|each| each.ip()).collect())
        })
    })
}

/// Why a name cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ResolveError {
    #[error(transparent)]
    Denied(#[from] EgressDenied),
    #[error("{0}")]
    Failed(String),
    /// It has not been looked up.
    #[error("too many other names are being looked up")]
    NoPlace,
}

type Resolved = Result<Vec<IpAddr>, ResolveError>;

/// The addresses that a look-up has found, if it has. It is under way as long as there is a sender.
type Found = watch::Receiver<Option<Resolved>>;

/// The resolver. Cheap to clone; clones share places and cache.
#[derive(Clone)]
pub(super) struct Guard(Arc<SharedResolver>);

struct SharedResolver {
    policy: EgressPolicy,
    clock: Clock,
    lookup: Lookup,
    places: Arc<Semaphore>,
    /// Places of each domain that has names under way.
    shares: Mutex<HashMap<String, Weak<Semaphore>>>,
    under_way: Mutex<HashMap<String, Found>>,
    known: Mutex<HashMap<String, KnownAddresses>>,
}

struct KnownAddresses {
    until: Timestamp,
    resolved: Resolved,
}

impl Guard {
    pub(super) fn new(policy: EgressPolicy, clock: Clock, lookup: Lookup) -> Self {
        Self(Arc::new(SharedResolver {
            policy,
            clock,
            lookup,
            places: Arc::new(Semaphore::new(LOOKUPS_MAX)),
            shares: Mutex::default(),
            under_way: Mutex::default(),
            known: Mutex::default(),
        }))
    }

    /// The addresses of `name`, all of which may be called.
    pub(super) async fn addresses(&self, name: &str) -> Resolved {
        if let Some(resolved) = self.recall(name) {
            return resolved;
        }
        let mut look_up = self.join(name);
        let found = look_up.wait_for(Option::is_some).await;
        let resolved = found.ok().and_then(|found| found.clone());
        resolved.unwrap_or_else(|| Err(unknown(name, &"its look-up ended without an answer")))
    }

    /// Removes `name` from the cache.
    pub(super) fn forget(&self, name: &str) {
        self.0.known.lock().unwrap().remove(name);
    }

    /// The look-up of `name`, of which there is one at a time, however many ask.
    fn join(&self, name: &str) -> Found {
        let mut under_way = self.0.under_way.lock().unwrap();
        if let Some(found) = under_way.get(name)
            && is_under_way(found)
        {
            return found.clone();
        }
        under_way.retain(|_, each| is_under_way(each));
        let (askers, found) = watch::channel(None);
        under_way.insert(name.to_owned(), found.clone());
        tokio::spawn(self.clone().look_up(name.to_owned(), askers));
        found
    }

    /// Goes on when the askers give up, or were told that it takes too long: the system's resolver cannot be stopped,
    /// and its places must not be passed on before its thread is free.
    async fn look_up(self, name: String, askers: watch::Sender<Option<Resolved>>) {
        let places = tokio::time::timeout(PLACE_DEADLINE, self.places(&name));
        let Ok(_places) = places.await else {
            askers.send_replace(Some(Err(ResolveError::NoPlace)));
            return;
        };
        let tell = |resolved: Resolved| {
            self.remember(&name, &resolved);
            askers.send_replace(Some(resolved));
        };
        let mut requested = (self.0.lookup)(name.clone());
        let response = match tokio::time::timeout(LOOKUP_DEADLINE, &mut requested).await {
            Ok(response) => response,
            Err(_) => {
                tell(Err(ResolveError::Failed(format!(
                    "the look-up of {name} took longer than {} s",
                    LOOKUP_DEADLINE.as_secs()
                ))));
                requested.await
            }
        };
        tell(match response {
            Ok(addresses) => self.evaluate(&name, addresses),
            Err(error) => Err(unknown(&name, &error)),
        });
    }

    /// Waits for a place of the name's domain, and then for one of all.
    async fn places(&self, name: &str) -> [OwnedSemaphorePermit; 2] {
        let never_closed = "it is never closed";
        let share = self.share(domain(name)).acquire_owned().await;
        let place = Arc::clone(&self.0.places).acquire_owned().await;
        [share.expect(never_closed), place.expect(never_closed)]
    }

    fn share(&self, domain: &str) -> Arc<Semaphore> {
        let mut shares = self.0.shares.lock().unwrap();
        if let Some(share) = shares.get(domain).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, each| each.strong_count() > 0);
        let share = Arc::new(Semaphore::new(LOOKUPS_PER_DOMAIN_MAX));
        shares.insert(domain.to_owned(), Arc::downgrade(&share));
        share
    }

    fn evaluate(&self, name: &str, mut addresses: Vec<IpAddr>) -> Resolved {
        if addresses.is_empty() {
            return Err(unknown(name, &"it has no address"));
        }
        for address in &addresses {
            self.0.policy.check_address(*address)?;
        }
        addresses.truncate(ADDRESSES_MAX);
        Ok(addresses)
    }

    fn recall(&self, name: &str) -> Option<Resolved> {
        let now = self.0.clock.now();
        let known = self.0.known.lock().unwrap();
        let found = known.get(name)?;
        (now < found.until).then(|| found.resolved.clone())
    }

    fn remember(&self, name: &str, resolved: &Resolved) {
        let now = self.0.clock.now();
        let kept = match resolved {
            Ok(_) => ADDRESSES_KEPT,
            Err(_) => FAILURE_KEPT,
        };
        let mut known = self.0.known.lock().unwrap();
        if known.len() >= NAMES_KEPT_MAX {
            known.retain(|_, each| now < each.until);
        }
        if known.len() >= NAMES_KEPT_MAX {
            known.clear();
        }
        known.insert(
            name.to_owned(),
            KnownAddresses {
                until: now + kept,
                resolved: resolved.clone(),
            },
        );
    }
}

impl Service<Name> for Guard {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = ResolveError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ResolveError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ResolveError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let guard = self.clone();
        Box::pin(async move {
            let addresses = guard.addresses(name.as_str()).await?;
            // The client replaces the zero by the URL's port.
            let dialled = addresses.into_iter().map(|each| SocketAddr::new(each, 0));
            Ok(dialled.collect::<Vec<_>>().into_iter())
        })
    }
}

fn is_under_way(found: &Found) -> bool {
    found.has_changed().is_ok()
}

/// The part of a name that has an owner: two labels, or three below what countries share.
fn domain(name: &str) -> &str {
    let whole = name.trim_end_matches('.');
    let mut labels = whole.rsplit('.');
    let is_shared = labels.next().is_some_and(|last| last.len() == 2)
        && labels
            .next()
            .is_some_and(|label| SECOND_LEVELS.contains(&label));
    let before = whole.rmatch_indices('.').nth(1 + usize::from(is_shared));
    before.map_or(whole, |(dot, _)| &whole[dot + 1..])
}

fn unknown(name: &str, error: &dyn std::fmt::Display) -> ResolveError {
    ResolveError::Failed(format!("{name} cannot be resolved: {error}"))
}
