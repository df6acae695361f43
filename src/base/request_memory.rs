//! The memory that a request over HTTP and its answer count for.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::base::budget::{MemoryAccount, NothingLeft, PresentedKey, TakenBytes};

/// Copies of what is read of the store for an answer while it is made: that itself, the message or the values that are made of
/// it, and the body.
const COPIES_WHILE_MADE: usize = 3;

/// How long a request waits for memory for its answer before its client is told to come back.
pub const MEMORY_WAIT: Duration = Duration::from_secs(5);

/// How long of that it waits for memory that others need for a moment only. After that, those who keep most are asked to close.
const MOMENT: Duration = Duration::from_secs(1);

/// How often it is looked whether there is memory.
pub const MEMORY_CHECK: Duration = Duration::from_millis(5);

/// The bytes that a request over HTTP counts for, and its answer. Whatever goes on for it holds a clone, so that it counts also
/// after its client has hung up.
#[derive(Clone, Debug)]
pub struct RequestMemory(Arc<KeptForRequest>);

#[derive(Debug)]
struct KeptForRequest {
    /// The request itself.
    own: TakenBytes,
    /// The answer, also while it is made; before that, what is made of the request.
    answer: Mutex<TakenBytes>,
    /// The account of its body while that comes in.
    body: OnceLock<MemoryAccount>,
    /// The account of its connection, if the request has another one.
    connection: Option<MemoryAccount>,
}

/// Why a body is not read: there is no memory for it, or others need what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too much is being sent at once")]
pub struct TooMuch;

impl TooMuch {
    /// Returns whether what the framework says of a body ends with it.
    pub fn is_told_by(text: &str) -> bool {
        text.ends_with(Self.to_string().as_str())
    }
}

impl RequestMemory {
    /// Takes so many bytes of `account`, that of the connection.
    pub fn take(account: &MemoryAccount, bytes: usize) -> Result<Self, NothingLeft> {
        Self::take_over(None, account, bytes)
    }

    /// Takes so many bytes of `account` for a request. Its `connection` has another account if a proxy passes it on.
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

    /// The account that it counts for: that of its connection, unless a proxy passes it on.
    pub fn account(&self) -> &MemoryAccount {
        self.0.own.account()
    }

    /// Notes that its body counts for this account.
    pub fn note_body(&self, account: &MemoryAccount) {
        self.0.body.get_or_init(|| account.clone());
    }

    /// Notes that who sends the request has shown this key, token or session, which is valid. From then on its connection closes
    /// after those of strangers. A connection of a proxy does not count for the key: others use it, too.
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

    /// Has the answer count for so many bytes, in place of what was counted for it before; for none if there are not so many.
    pub fn answer(&self, bytes: usize) -> Result<(), NothingLeft> {
        let mut answer = self.0.answer.lock().unwrap();
        let taken = answer.resize(bytes);
        if taken.is_err() {
            answer.resize_anyway(0);
        }
        taken
    }

    /// Has the answer count for bytes that are there already.
    pub fn answer_anyway(&self, bytes: usize) {
        self.0.answer.lock().unwrap().resize_anyway(bytes);
    }

    /// Takes memory for an answer for which up to so many bytes are read, if there is so much now. Only strangers are asked to close
    /// for it.
    pub fn reserve_now(&self, bytes_max: usize) -> Result<(), NothingLeft> {
        let bytes = bytes_max.saturating_mul(COPIES_WHILE_MADE);
        if !self.0.own.account().has_room(bytes) {
            return Err(NothingLeft);
        }
        self.answer(bytes)
    }

    /// Takes memory for an answer, or a piece of one, for which up to so many bytes are read. Waits for it for a while, so that
    /// many who ask at once get their turns.
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

    /// Says how many bytes were read.
    pub fn note_read(&self, bytes: usize) {
        self.answer_anyway(bytes.saturating_mul(COPIES_WHILE_MADE));
    }

    /// Takes so many bytes for what is made of the request, in place of those of the answer, which is not there yet. Waits as long
    /// for them.
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
