//! Measures real time.

use std::time::{Duration, Instant};

/// Measures real time, to show it or to bound work: nothing that can be seen of an event is decided by it, since
/// simulations cannot control it.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    pub fn begin() -> Self {
        Self(Instant::now())
    }

    /// The time since the start.
    pub fn took(self) -> Duration {
        self.0.elapsed()
    }
}
