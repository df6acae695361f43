//! Limits on the memory that is kept for connections, so that neither one connection nor many take that of others.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::Extensions;
use axum::http::request::Parts;

use crate::api::authority::Authority;
use crate::api::intake::client_of;
use crate::base::budget::{
    Budget, KEY_TIMES, MemoryAccount, MemoryGroups, NothingLeft, PartOfGroup, TakenBytes,
};
use crate::base::request_memory::RequestMemory;
use crate::broker::{MessageReceiver, MessagingError};
use crate::store::Locked;

/// Maximum number of bytes kept for all AMQP connections whose clients have shown no key and all HTTP connections.
/// 7,000 AMQP connections take this much, or 5,400 HTTP connections. It is less than the 128 MiB that an appliance can
/// spare.
const STRANGERS_BYTES_MAX: usize = 96 * 1_024 * 1_024;

/// Maximum number of bytes kept for all AMQP connections whose clients have shown a key. One key can take half of them
/// if there are no other clients, over any number of connections: enough for 5,000 to 6,000 links.
const CLIENTS_BYTES_MAX: usize = 96 * 1_024 * 1_024;

/// Size of the reserve beyond [`STRANGERS_BYTES_MAX`], and of that beyond [`CLIENTS_BYTES_MAX`]. The reserve is for
/// messages that are read for clients that keep little memory: enough for two messages of the usual largest size while
/// an HTTP answer is made from each.
const RESERVE_BYTES: usize = 8 * 1_024 * 1_024;

/// Number of bytes that are taken first for a message where memory is short. Most messages are no larger.
const SMALL_MESSAGE_BYTES: usize = 4 * 1_024;

/// Maximum number of bytes that a connection keeps, beyond those of its start, for a client that has shown no key:
/// enough for a token with the request that carries it, and for the two links to and from `$cbs`.
const STRANGER_BYTES_MAX: usize = 68 * 1_024;

/// Maximum number of bytes that an AMQP connection keeps for a client that has shown a key, if the share of the key
/// allows so many.
const CLIENT_BYTES_MAX: usize = 64 * 1_024 * 1_024;

/// The memory that all connections share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Budgets>);

#[derive(Debug)]
struct Budgets {
    strangers: Budget,
    clients: Budget,
    addresses: MemoryGroups<IpAddr>,
    /// By the holder of a key, and by the hash of the key if the holder has several.
    keys: MemoryGroups<String>,
}

/// Counts the memory that an HTTP answer takes while it is made from stored data, and the memory of the data that is
/// parsed from its request. Counts nothing for a request that did not come over a connection.
#[derive(Clone, Debug)]
pub(crate) struct AnswerMemory(Option<RequestMemory>);

impl AnswerMemory {
    /// Returns the counter for the answer to the request with these extensions.
    pub(crate) fn of(request: &Extensions) -> Self {
        Self(request.get().cloned())
    }

    /// Takes memory for an answer that is made from up to `bytes_max` bytes of stored data. Waits a limited time for
    /// the memory, so that many requests at the same time are served in turn.
    pub(crate) async fn reserve(&self, bytes_max: usize) -> Result<(), MessagingError> {
        let Some(request) = &self.0 else {
            return Ok(());
        };
        let reserved = request.reserve(bytes_max).await;
        reserved.map_err(|NothingLeft| MessagingError::NoMemory)
    }

    /// Takes memory for an answer with `wanted` messages or, where memory is short, with one message. Returns the
    /// number of messages that memory was taken for. `bytes_max` returns the maximum size of a number of messages in
    /// bytes.
    pub(crate) async fn reserve_for(
        &self,
        wanted: usize,
        bytes_max: impl Fn(usize) -> usize,
    ) -> Result<usize, MessagingError> {
        if self.reserve_now(bytes_max(wanted)) {
            return Ok(wanted);
        }
        self.reserve(bytes_max(1)).await?;
        Ok(1)
    }

    /// Locks up to `limit` messages that can be received now, and takes memory for them. Where memory is short, locks
    /// only one message and takes as much memory as that message needs: a client that receives small messages does not
    /// need memory for the largest message that is allowed.
    pub(crate) async fn receive(
        &self,
        receiver: &MessageReceiver,
        limit: usize,
    ) -> Result<Vec<Locked>, MessagingError> {
        let received = if self.reserve_now(receiver.locked_bytes_max(limit)) {
            receiver.receive(limit, None).await?
        } else {
            self.receive_one(receiver).await?
        };
        self.note_read(received.iter().map(Locked::bytes).sum());
        Ok(received)
    }

    async fn receive_one(&self, receiver: &MessageReceiver) -> Result<Vec<Locked>, MessagingError> {
        let mut bytes = SMALL_MESSAGE_BYTES;
        loop {
            self.reserve(bytes).await?;
            let received = receiver.receive_first(bytes).await;
            let Err(MessagingError::NoMemoryFor(needed)) = received else {
                return received;
            };
            bytes = needed;
        }
    }

    /// Takes memory for an answer that is made from up to `bytes_max` bytes of stored data, without waiting. Returns
    /// whether it was taken.
    fn reserve_now(&self, bytes_max: usize) -> bool {
        let request = self.0.as_ref();
        request.is_none_or(|request| request.reserve_now(bytes_max).is_ok())
    }

    /// Adjusts the memory that is taken for the answer to the number of bytes that were read from the store.
    pub(crate) fn note_read(&self, bytes: usize) {
        if let Some(request) = &self.0 {
            request.note_read(bytes);
        }
    }

    /// Takes memory for `bytes` of data that is parsed from the request, in place of the memory that was held before.
    /// Waits a limited time for it, as [`AnswerMemory::reserve`] does.
    pub(crate) async fn hold(&self, bytes: usize) -> Result<(), MessagingError> {
        let Some(request) = &self.0 else {
            return Ok(());
        };
        let held = request.hold(bytes).await;
        held.map_err(|NothingLeft| MessagingError::NoMemory)
    }

    /// Counts `bytes` that are in memory already, in place of those that were held before, even if the limit is
    /// exceeded.
    pub(crate) fn hold_anyway(&self, bytes: usize) {
        if let Some(request) = &self.0 {
            request.answer_anyway(bytes);
        }
    }
}

impl<S: Sync> FromRequestParts<S> for AnswerMemory {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.extensions))
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self(Arc::new(Budgets {
            strangers: Budget::with_reserve(STRANGERS_BYTES_MAX, RESERVE_BYTES),
            clients: Budget::with_reserve(CLIENTS_BYTES_MAX, RESERVE_BYTES),
            addresses: MemoryGroups::default(),
            keys: MemoryGroups::default(),
        }))
    }
}

impl Memory {
    /// Takes the `bytes` that a new connection needs from its start. `client` is `None` if the client shares its
    /// address with others, as the clients behind a reverse proxy do.
    pub fn enter(&self, client: Option<IpAddr>, bytes: usize) -> Result<TakenBytes, NothingLeft> {
        let group = client.map(|client| self.0.addresses.of(client_of(client)));
        let bytes_max = bytes + STRANGER_BYTES_MAX;
        let strangers = &self.0.strangers;
        let account = strangers.closable_account([group, None], bytes_max);
        account.take(bytes)
    }

    /// Returns the account of an HTTP connection and of the requests over it. `client` is `None` if the client shares
    /// its address with others, as the clients behind a reverse proxy do.
    pub fn connection(&self, client: Option<IpAddr>) -> MemoryAccount {
        let group = client.map(|client| self.0.addresses.of(client_of(client)));
        let strangers = &self.0.strangers;
        strangers.closable_account([group, None], usize::MAX)
    }

    /// Returns the account of a request that a proxy passes on for a client. It can be asked to close only until the
    /// client shows a key, and it closes without its connection, which other clients use, too.
    pub fn requests(&self, client: IpAddr) -> MemoryAccount {
        let group = self.0.addresses.of(client_of(client));
        let strangers = &self.0.strangers;
        let account = strangers.closable_account([Some(group), None], usize::MAX);
        account.stay_once_known();
        account
    }

    /// Returns the account of an AMQP connection whose client has shown a key.
    pub(in crate::api) fn client(&self, by: &Authority) -> MemoryAccount {
        let Budgets { clients, keys, .. } = &*self.0;
        let groups = [Some(keys.of(by.holder())), None];
        let account = match by.key_of_holder() {
            None => clients.closable_account(groups, CLIENT_BYTES_MAX),
            Some(key) => {
                let part = PartOfGroup {
                    group: keys.of(key.to_owned()),
                    times: KEY_TIMES,
                };
                clients.closable_account_within(groups, part, CLIENT_BYTES_MAX)
            }
        };
        account.note_known();
        account
    }

    /// Returns the bytes kept for AMQP connections without a key and all HTTP connections, and those kept for AMQP
    /// connections with a key.
    pub fn taken(&self) -> (usize, usize) {
        (self.0.strangers.taken(), self.0.clients.taken())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::budget::PresentedKey;
    use crate::base::request_memory::MEMORY_WAIT;

    #[tokio::test(start_paused = true)]
    async fn an_answer_counts_before_it_is_read_and_until_it_is_gone() {
        let budget = Budget::of(1_000);
        let account = budget.account([None, None], usize::MAX);
        let request = RequestMemory::take(&account, 10).expect("room");
        let memory = AnswerMemory(Some(request.clone()));
        assert_eq!(memory.reserve(100).await, Ok(()));
        assert_eq!(
            budget.taken(),
            310,
            "what is read, what is made of it, and the body"
        );
        memory.note_read(20);
        assert_eq!(budget.taken(), 70);
        assert_eq!(request.answer(25), Ok(()));
        assert_eq!(budget.taken(), 35, "the body alone is left");
        assert_eq!(request.answer(1_000), Err(NothingLeft));
        assert_eq!(budget.taken(), 10);
        drop((request, memory));
        assert_eq!(budget.taken(), 0);
    }

    #[test]
    fn a_connection_of_a_proxy_is_known_once_a_request_over_it_has_shown_a_key() {
        let memory = Memory::default();
        let connection = memory.connection(None);
        let request = |client: [u8; 4]| {
            let account = memory.requests(client.into());
            RequestMemory::take_over(Some(connection.clone()), &account, 10).expect("room")
        };
        let (first, second) = (request([192, 0, 2, 1]), request([198, 51, 100, 1]));
        assert!(!connection.is_known());
        second.note_key(|| PresentedKey::alone("queue".to_owned()));
        assert!(connection.is_known() && second.account().is_known());
        assert!(!first.account().is_known());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_waits_for_room_and_not_for_ever() {
        let budget = Budget::of(1_000);
        let other = budget.account([None, None], usize::MAX);
        let others = other.take(450).expect("room");
        let account = budget.account([None, None], usize::MAX);
        let request = RequestMemory::take(&account, 0).expect("room");
        let memory = AnswerMemory(Some(request));
        let (reserved, ()) = tokio::join!(memory.reserve(200), async {
            tokio::time::sleep(MEMORY_WAIT / 2).await;
            drop(others);
        });
        assert_eq!(reserved, Ok(()));
        memory.note_read(0);
        let _others = other.take(450).expect("room");
        let reserved = memory.reserve(200).await;
        assert_eq!(reserved, Err(MessagingError::NoMemory));
        assert_eq!(budget.taken(), 450, "nothing is left of it");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_keeps_little_is_let_in_where_others_have_everything() {
        let budget = Budget::with_reserve(1_000, 600);
        let mut others = budget.account([None, None], usize::MAX).nothing();
        others.add_anyway(1_000);
        let asking = || {
            let account = budget.account([None, None], usize::MAX);
            AnswerMemory(Some(RequestMemory::take(&account, 0).expect("nothing")))
        };
        let (first, second) = (asking(), asking());
        assert_eq!(first.reserve(200).await, Ok(()));
        let reserved = second.reserve(200).await;
        assert_eq!(
            reserved,
            Err(MessagingError::NoMemory),
            "the reserve is in use"
        );
        first.note_read(1);
        assert_eq!(second.reserve(190).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_for_one_message_where_there_is_no_room_for_all() {
        let account = Budget::of(2_000).account([None, None], usize::MAX);
        let memory = AnswerMemory(Some(RequestMemory::take(&account, 0).expect("nothing")));
        let bytes_max = |limit: usize| limit * 100;
        for (wanted, expected) in [(3, 3), (7, 1), (1, 1)] {
            assert_eq!(memory.reserve_for(wanted, bytes_max).await, Ok(expected));
            memory.note_read(0);
        }
    }
}
