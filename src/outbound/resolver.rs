//! Resolves host names for the HTTP client. Every address is checked, and one that may not be called fails
//! the whole name. The client connects only to these addresses, so a name cannot lead elsewhere between the
//! check and the connection.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::client::legacy::connect::dns::Name;
use tokio::sync::Semaphore;
use tower::Service;

use crate::base::{Clock, Timestamp};
use crate::outbound::egress::{Denied, EgressPolicy};

#[cfg(test)]
mod tests;

/// How long a look-up may take (docs/security.md B2).
pub(super) const LOOKUP_DEADLINE: Duration = Duration::from_secs(5);

/// Look-ups at once: each one holds a thread for as long as the system's resolver takes.
const LOOKUPS_MAX: usize = 32;

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
    Denied(#[from] Denied),
    #[error("{0}")]
    Failed(String),
}

type Resolved = Result<Vec<IpAddr>, ResolveError>;

/// The resolver. Cheap to clone; clones share permits and cache.
#[derive(Clone)]
pub(super) struct Guard(Arc<Shared>);

struct Shared {
    policy: EgressPolicy,
    clock: Clock,
    lookup: Lookup,
    permits: Arc<Semaphore>,
    known: Mutex<HashMap<String, Known>>,
}

struct Known {
    until: Timestamp,
    resolved: Resolved,
}

impl Guard {
    pub(super) fn new(policy: EgressPolicy, clock: Clock, lookup: Lookup) -> Self {
        Self(Arc::new(Shared {
            policy,
            clock,
            lookup,
            permits: Arc::new(Semaphore::new(LOOKUPS_MAX)),
            known: Mutex::default(),
        }))
    }

    /// The addresses of `name`, all of which may be called.
    pub(super) async fn addresses(&self, name: &str) -> Resolved {
        if let Some(resolved) = self.recall(name) {
            return resolved;
        }
        let resolved = match tokio::time::timeout(LOOKUP_DEADLINE, self.look_up(name)).await {
            Ok(resolved) => resolved,
            Err(_) => Err(ResolveError::Failed(format!(
                "the look-up of {name} took longer than {} s",
                LOOKUP_DEADLINE.as_secs()
            ))),
        };
        self.remember(name, &resolved);
        resolved
    }

    /// Removes `name` from the cache.
    pub(super) fn forget(&self, name: &str) {
        self.0.known.lock().unwrap().remove(name);
    }

    /// The look-up goes on when the caller gives up: the system's resolver cannot be stopped, and its permit
    /// must not be passed on before its thread is free.
    async fn look_up(&self, name: &str) -> Resolved {
        let permits = Arc::clone(&self.0.permits);
        let permit = permits.acquire_owned().await.expect("it is never closed");
        if let Some(resolved) = self.recall(name) {
            return resolved;
        }
        let requested = (self.0.lookup)(name.to_owned());
        let response = tokio::spawn(async move {
            let response = requested.await;
            drop(permit);
            response
        });
        let addresses = match response.await {
            Ok(response) => response.map_err(|error| unknown(name, &error)),
            Err(error) => Err(unknown(name, &error)),
        };
        self.evaluate(name, addresses?)
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
            Known {
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

fn unknown(name: &str, error: &dyn std::fmt::Display) -> ResolveError {
    ResolveError::Failed(format!("{name} cannot be resolved: {error}"))
}
