//! Time and randomness, the forms in which people read figures and strange text, fingerprints of secrets, and
//! the newest lines of the log. Nothing else in the tree may read a clock or make random numbers.

pub mod clock;
pub mod entropy;
mod hash;
pub mod hidden;
pub mod human;
pub mod lap;
pub mod log_tail;

pub use clock::{Clock, TimeScale, Timestamp};
pub use entropy::Entropy;
pub use hash::sha256_hex;
pub use hidden::{is_hidden, visible};
pub use lap::Lap;
pub use log_tail::LogTail;
