//! Long work on a thread that serves everybody, with turns for others in between.

/// Bytes after which others get their turn.
const BYTES_MAX: usize = 64 * 1_024;

/// Bytes that each piece counts for at least.
const PIECE_BYTES_MIN: usize = 512;

/// Bytes that were worked on since others had their turn.
#[derive(Debug, Default)]
pub struct Stint {
    bytes: usize,
}

impl Stint {
    /// Counts a piece of so many bytes that is done, and lets others have their turn after each 64 KiB.
    pub async fn did(&mut self, bytes: usize) {
        self.bytes += bytes.max(PIECE_BYTES_MIN);
        if self.bytes >= BYTES_MAX {
            self.bytes = 0;
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;

    use super::{BYTES_MAX, PIECE_BYTES_MIN, Stint};

    /// Returns how many turns it takes to do so many pieces of so many bytes.
    async fn turns_of(pieces: usize, bytes: usize) -> usize {
        let mut working = pin!(async {
            let mut stint = Stint::default();
            for _ in 0..pieces {
                stint.did(bytes).await;
            }
        });
        let mut turns = 0;
        let done = poll_fn(|context| {
            turns += 1;
            working.as_mut().poll(context)
        });
        done.await;
        turns
    }

    #[tokio::test]
    async fn others_get_their_turn_after_so_many_bytes() {
        assert_eq!(turns_of(3, BYTES_MAX / 4).await, 1);
        assert_eq!(turns_of(8, BYTES_MAX / 4).await, 3);
        assert_eq!(turns_of(BYTES_MAX / PIECE_BYTES_MIN, 1).await, 2);
    }
}
