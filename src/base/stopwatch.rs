//! How long something took, whatever the clock says meanwhile.

use std::time::{Duration, Instant};

/// A stretch of real time, for figures alone: nothing is decided by it, since simulations do not bend it.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// From now on.
    pub fn begin() -> Self {
        Self(Instant::now())
    }

    /// Up to now.
    pub fn took(self) -> Duration {
        self.0.elapsed()
    }
}
