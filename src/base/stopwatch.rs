//! Measures real time.

use std::time::{Duration, Instant};

/// Measures real time, only to show it: nothing is decided by it, since simulations cannot control it.
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
