//! The memory that is counted for an HTTP request and its response.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::base::budget::{MemoryAccount, NothingLeft, PresentedKey, TakenBytes};

/// Number of copies of the stored data in memory while a response is made: the stored bytes, the message or values
/// made from them, and the response body.
const COPIES_WHILE_MADE: usize = 3;

/// Maximum time for which a request waits for memory for its response. After that its client is told to try again.
pub const MEMORY_WAIT: Duration = Duration::from_secs(5);

/// Part of [`MEMORY_WAIT`] in which a request waits for memory that others use only briefly. After that, the accounts
/// that keep most are asked to close.
const MOMENT: Duration = Duration::from_secs(1);

/// Interval between checks for free memory.
pub const MEMORY_CHECK: Duration = Duration::from_millis(5);

/// The bytes that are counted for an HTTP request and its response. Every task that works for the request holds a
/// clone, so that the bytes still count after the client has disconnected.
#[derive(Clone, Debug)]
pub struct RequestMemory(Arc<KeptForRequest>);

#[derive(Debug)]
struct KeptForRequest {
    /// The request itself.
    own: TakenBytes,
    /// Bytes of the response, also while it is made; before that, bytes of the data made from the request.
    answer: Mutex<TakenBytes>,
    /// The account that the request body counts for while it arrives.
    body: OnceLock<MemoryAccount>,
    /// The account of the connection, if the request counts for a different account.
    connection: Option<MemoryAccount>,
}

/// Why a body is not read: there is no memory for it, or others need what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too much is being sent at once")]
pub struct TooMuch;

impl TooMuch {
    /// Returns whether the framework's error text about a body ends with this error.
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

    /// Returns the account that the request counts for: that of its connection, unless a proxy forwards the request.
    pub fn account(&self) -> &MemoryAccount {
        self.0.own.account()
    }

    /// Notes that the request body counts for this account.
    pub fn note_body(&self, account: &MemoryAccount) {
        self.0.body.get_or_init(|| account.clone());
    }

    /// Notes that the client has shown this valid key, token or session. From then on its connection closes after those
    /// of clients that have shown none. A connection of a proxy does not count for the key, because other clients use
    /// it, too.
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

    /// Sets the bytes that the response counts for. Sets them to 0 and fails if there is not enough memory.
    pub fn answer(&self, bytes: usize) -> Result<(), NothingLeft> {
        let mut answer = self.0.answer.lock().unwrap();
        let taken = answer.resize(bytes);
        if taken.is_err() {
            answer.resize_anyway(0);
        }
        taken
    }

    /// Sets the bytes that the response counts for, even if that exceeds the budget, since they are already in memory.
    pub fn answer_anyway(&self, bytes: usize) {
        self.0.answer.lock().unwrap().resize_anyway(bytes);
    }

    /// Takes memory for a response for which up to `bytes_max` bytes are read, if it is available now. Only connections
    /// whose clients have shown no key or token are asked to close for it.
    pub fn reserve_now(&self, bytes_max: usize) -> Result<(), NothingLeft> {
        let bytes = bytes_max.saturating_mul(COPIES_WHILE_MADE);
        if !self.0.own.account().has_room(bytes) {
            return Err(NothingLeft);
        }
        self.answer(bytes)
    }

    /// Takes memory for a response, or a piece of one, for which up to `bytes_max` bytes are read. Waits for it for up
    /// to [`MEMORY_WAIT`], so that many concurrent requests get their turns.
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

    /// Takes `bytes` for data made from the request, in place of those of the response, which does not exist yet. Waits
    /// for up to [`MEMORY_WAIT`].
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
