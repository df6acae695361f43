//! The locks that a connection has settled most recently. A client that has detached a link gets no more answers to the
//! settlements on that link, and repeats them by `$management`. The client for Python does this.

use std::collections::{HashSet, VecDeque};
use std::mem::{Discriminant, discriminant};
use std::sync::Mutex;

use uuid::Uuid;

use crate::api::amqp::limits::SETTLED_LOCKS_MAX;
use crate::base::budget::{MemoryAccount, TakenBytes};
use crate::wire::amqp::outcome::ReceiverOutcome;

/// Tokens of settled locks, each with the kind of its outcome. Reasons and properties are not compared, since clients
/// encode them differently in requests.
pub(super) struct SettledLocks(Mutex<LastSettled>);

/// The token of a lock and the kind of outcome that the client asked for.
pub(super) type SettledLock = (Uuid, Discriminant<ReceiverOutcome>);

struct LastSettled {
    locks: VecDeque<SettledLock>,
    /// The memory that the locks are accounted for.
    memory: TakenBytes,
}

impl SettledLocks {
    pub(super) fn new(account: &MemoryAccount) -> Self {
        Self(Mutex::new(LastSettled {
            locks: VecDeque::new(),
            memory: account.nothing(),
        }))
    }

    /// Adds settled locks, and removes the oldest ones beyond `SETTLED_LOCKS_MAX`.
    pub(super) fn add(&self, settled: impl IntoIterator<Item = SettledLock>) {
        let mut last = self.0.lock().unwrap();
        for lock in settled {
            if last.locks.len() == SETTLED_LOCKS_MAX {
                last.locks.pop_front();
            }
            last.locks.push_back(lock);
        }
        let bytes = last.locks.capacity() * size_of::<SettledLock>();
        last.memory.resize_anyway(bytes);
    }

    /// Removes the tokens whose locks were already settled with this kind of outcome.
    pub(super) fn take_out(&self, tokens: &mut Vec<Uuid>, outcome: &ReceiverOutcome) {
        let last = self.0.lock().unwrap();
        let asked = discriminant(outcome);
        let same = last.locks.iter().filter(|(_, settled)| *settled == asked);
        let done: HashSet<Uuid> = same.map(|(token, _)| *token).collect();
        tokens.retain(|token| !done.contains(token));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::budget::Budget;

    #[test]
    fn the_last_locks_are_kept_and_counted() {
        let account = Budget::of(1 << 20).account([None, None], usize::MAX);
        let settled = SettledLocks::new(&account);
        let left = |tokens: [u128; 2], outcome: &ReceiverOutcome| {
            let mut tokens = Vec::from(tokens.map(Uuid::from_u128));
            settled.take_out(&mut tokens, outcome);
            tokens.iter().map(Uuid::as_u128).collect::<Vec<_>>()
        };
        let completed = |token| {
            (
                Uuid::from_u128(token),
                discriminant(&ReceiverOutcome::Complete),
            )
        };
        let most = SETTLED_LOCKS_MAX as u128;
        settled.add((0..most).map(completed));
        assert_eq!(left([0, most], &ReceiverOutcome::Complete), [most]);
        assert_eq!(left([0, 1], &ReceiverOutcome::Release), [0, 1]);
        let counted = account.taken();
        settled.add((most..2 * most).map(completed));
        assert_eq!(
            left([most - 1, most], &ReceiverOutcome::Complete),
            [most - 1]
        );
        assert_eq!(account.taken(), counted, "the memory does not grow");
        drop(settled);
        assert_eq!(account.taken(), 0);
    }
}
