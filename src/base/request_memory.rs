//! Accounting of the memory of an HTTP request and its response.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::base::budget::{MemoryAccount, NothingLeft, PresentedKey, TakenBytes};

/// Number of copies of the stored data in memory while a response is made: the stored bytes, the message or values
/// made from them, and the response body.
const COPIES_WHILE_MADE: usize = 3;

/// Maximum time that a request waits for memory for its response. After this time, the client is told to try again.
pub const MEMORY_WAIT: Duration = Duration::from_secs(5);

/// First part of [`MEMORY_WAIT`], in which a request waits for other accounts to return memory that they use only
/// briefly. After this time, the accounts that keep the most memory are asked to close.
const MOMENT: Duration = Duration::from_secs(1);

/// Interval between checks for free memory.
pub const MEMORY_CHECK: Duration = Duration::from_millis(5);

/// The bytes that are counted for an HTTP request and its response. Every task that works for the request holds a
/// clone, so that the bytes still count after the client has disconnected.
#[derive(Clone, Debug)]
pub struct RequestMemory(Arc<KeptForRequest>);

#[derive(Debug)]
struct KeptForRequest {
    /// Bytes of the request itself.
    own: TakenBytes,
    /// Bytes of the response, including a response that is still being made. Before the response is begun, bytes of the
    /// data made from the request.
    answer: Mutex<TakenBytes>,
    /// The account in which the bytes of the request body are counted while the body arrives.
    body: OnceLock<MemoryAccount>,
    /// The account of the connection, if the request is counted in a different account.
    connection: Option<MemoryAccount>,
}

/// An error for a body that is not read, because there is no memory for it or other accounts need the memory that it
/// holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too much is being sent at once")]
pub struct TooMuch;

impl TooMuch {
    /// Reports whether `text`, the framework's error text about a body, ends with the text of this error.
    pub fn is_told_by(text: &str) -> bool {
        text.ends_with(Self.to_string().as_str())
    }
}

impl RequestMemory {
    /// Takes `bytes` for a request from `account`, the account of its connection.
    pub fn take(account: &MemoryAccount, bytes: usize) -> Result<Self, NothingLeft> {
        Self::take_over(None, account, bytes)
    }

    /// Takes `bytes` for a request from `account`. `connection` is the account of the connection if a proxy forwards
    /// the request.
    pub fn take_over(
        connection: Option<MemoryAccount>,
        account: &MemoryAccount,
        bytes: usize,
    ) -> Result<Self, NothingLeft> {
        let own = account.take(bytes)?;
        Ok(Self(Arc::new(KeptForRequest {
            own,
            answer: Mutex::new(account.nothing()),
            body: OnceLock::new(),
            connection,
        })))
    }

    /// Returns the account in which the request is counted. It is the account of the connection, unless a proxy
    /// forwards the request.
    pub fn account(&self) -> &MemoryAccount {
        self.0.own.account()
    }

    /// Records the account in which the bytes of the request body are counted. Keeps the account of an earlier call.
    pub fn note_body(&self, account: &MemoryAccount) {
        self.0.body.get_or_init(|| account.clone());
    }

    /// Records that the client has shown this valid key, token or session. When memory is short, connections of clients
    /// that have shown none are then asked to close before the connection of this client. A connection of a proxy is
    /// not counted for the key, because other clients use the connection, too.
    pub fn note_key(&self, key: impl FnOnce() -> PresentedKey) {
        let KeptForRequest {
            own,
            body,
            connection,
            ..
        } = &*self.0;
        if let Some(connection) = connection {
            connection.note_known();
        }
        match body.get() {
            None => own.account().note_key(key),
            Some(of_body) => {
                let shown = key();
                own.account().note_key(|| shown.clone());
                of_body.note_key(|| shown);
            }
        }
    }

    /// Sets the number of bytes counted for the response. Sets the number to 0 and fails if there is not enough memory.
    pub fn answer(&self, bytes: usize) -> Result<(), NothingLeft> {
        let mut answer = self.0.answer.lock().unwrap();
        let taken = answer.resize(bytes);
        if taken.is_err() {
            answer.resize_anyway(0);
        }
        taken
    }

    /// Sets the number of bytes counted for the response. The number may exceed the budget, because the bytes are
    /// already in memory.
    pub fn answer_anyway(&self, bytes: usize) {
        self.0.answer.lock().unwrap().resize_anyway(bytes);
    }

    /// Takes memory for a response for which up to `bytes_max` bytes are read. Fails if the memory is not available
    /// now. To free memory, asks only connections whose clients have shown no key or token to close.
    pub fn reserve_now(&self, bytes_max: usize) -> Result<(), NothingLeft> {
        let bytes = bytes_max.saturating_mul(COPIES_WHILE_MADE);
        if !self.0.own.account().has_room(bytes) {
            return Err(NothingLeft);
        }
        self.answer(bytes)
    }

    /// Takes memory for a response, or a piece of a response, for which up to `bytes_max` bytes are read. Waits for the
    /// memory for up to [`MEMORY_WAIT`], so that many concurrent requests get their turns.
    pub async fn reserve(&self, bytes_max: usize) -> Result<(), NothingLeft> {
        let bytes = bytes_max.saturating_mul(COPIES_WHILE_MADE);
        let KeptForRequest { own, answer, .. } = &*self.0;
        let more = bytes.saturating_sub(answer.lock().unwrap().bytes());
        let others_moment = async {
            while !own.account().has_room_for_a_moment(more) {
                tokio::time::sleep(MEMORY_CHECK).await;
            }
        };
        let _ = tokio::time::timeout(MOMENT, others_moment).await;
        let add = || answer.lock().unwrap().add_for_a_moment(more);
        let added = async {
            while add().is_err() {
                tokio::time::sleep(MEMORY_CHECK).await;
            }
        };
        let waited = tokio::time::timeout(MEMORY_WAIT - MOMENT, added).await;
        waited.map_err(|_| NothingLeft)
    }

    /// Adjusts the memory of the response to the number of bytes that were read.
    pub fn note_read(&self, bytes: usize) {
        self.answer_anyway(bytes.saturating_mul(COPIES_WHILE_MADE));
    }

    /// Takes `bytes` for data made from the request. Counts them as bytes of the response, which does not exist yet.
    /// Waits for the memory for up to [`MEMORY_WAIT`].
    pub async fn hold(&self, bytes: usize) -> Result<(), NothingLeft> {
        let held = async {
            while !self.0.own.account().has_room(bytes) || self.answer(bytes).is_err() {
                tokio::time::sleep(MEMORY_CHECK).await;
            }
        };
        let waited = tokio::time::timeout(MEMORY_WAIT, held).await;
        waited.map_err(|_| NothingLeft)
    }
}
