//! Memory that is kept for connections, so that neither many of them nor one takes that of others.

use std::net::IpAddr;
use std::sync::Arc;

use crate::api::authority::Authority;
use crate::api::intake::client_of;
use crate::base::budget::{Budget, MemoryAccount, MemoryGroups, NothingLeft, TakenBytes};

/// Bytes that are kept for connections whose client has shown no key, and for those of HTTP: more than 10,000 of them
/// have, and less than the 128 MiB that an appliance can spare.
const STRANGERS_BYTES_MAX: usize = 96 * 1_024 * 1_024;

/// Bytes that are kept for connections of AMQP whose client has shown a key. One key has no more, over any number of
/// connections.
const CLIENTS_BYTES_MAX: usize = 96 * 1_024 * 1_024;

/// Bytes that a connection keeps for a client that has shown no key: a token with its request, and two links for it.
const STRANGER_BYTES_MAX: usize = 64 * 1_024;

/// Bytes that a connection keeps for a client that has shown a key: 5,000 links, and messages that go over them.
const CLIENT_BYTES_MAX: usize = 64 * 1_024 * 1_024;

/// The memory that all connections share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Budgets>);

#[derive(Debug)]
struct Budgets {
    strangers: Budget,
    clients: Budget,
    addresses: MemoryGroups<IpAddr>,
    /// By the hash of a key.
    keys: MemoryGroups<String>,
}

/// The bytes that a request over HTTP counts for. Whatever goes on for it holds a clone, so that it counts also after its
/// client has hung up.
#[derive(Clone, Debug)]
pub struct RequestMemory(Arc<TakenBytes>);

impl RequestMemory {
    /// Takes so many bytes of `account`.
    pub fn take(account: &MemoryAccount, bytes: usize) -> Result<Self, NothingLeft> {
        account.take(bytes).map(|taken| Self(Arc::new(taken)))
    }

    /// Takes so many bytes for the answer.
    pub fn answer(&self, bytes: usize) -> Result<TakenBytes, NothingLeft> {
        self.0.account().take(bytes)
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self(Arc::new(Budgets {
            strangers: Budget::of(STRANGERS_BYTES_MAX),
            clients: Budget::of(CLIENTS_BYTES_MAX),
            addresses: MemoryGroups::default(),
            keys: MemoryGroups::default(),
        }))
    }
}

impl Memory {
    /// Takes what a new connection has from its beginning on. A client that is `None` shares its address with others, as
    /// those behind a reverse proxy do.
    pub fn enter(&self, client: Option<IpAddr>, bytes: usize) -> Result<TakenBytes, NothingLeft> {
        let group = client.map(|client| self.0.addresses.of(client_of(client)));
        let bytes_max = bytes + STRANGER_BYTES_MAX;
        let strangers = &self.0.strangers;
        let account = strangers.closable_account([group, None], bytes_max);
        account.take(bytes)
    }

    /// Returns the account of a connection of HTTP and of the requests over it. A client that is `None` shares its address
    /// with others.
    pub fn connection(&self, client: Option<IpAddr>) -> MemoryAccount {
        let group = client.map(|client| self.0.addresses.of(client_of(client)));
        self.0.strangers.closable_account([group, None], usize::MAX)
    }

    /// Returns the account of a request that a proxy passes on for a client.
    pub fn requests(&self, client: IpAddr) -> MemoryAccount {
        let group = self.0.addresses.of(client_of(client));
        self.0.strangers.account([Some(group), None], usize::MAX)
    }

    /// The account of a connection whose client has shown a key.
    pub(in crate::api) fn client(&self, by: &Authority) -> MemoryAccount {
        let group = self.0.keys.of(by.key().to_owned());
        let clients = &self.0.clients;
        clients.closable_account([Some(group), None], CLIENT_BYTES_MAX)
    }

    /// Bytes that are kept for clients without a key, and for those with one.
    pub fn taken(&self) -> (usize, usize) {
        (self.0.strangers.taken(), self.0.clients.taken())
    }
}
