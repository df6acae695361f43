//! Where time and dice come from, what no text may hide, what secrets are known by, and the newest lines of the
//! log. Nothing else in the tree may read a clock or roll a die.

pub mod clock;
pub mod entropy;
mod hash;
pub mod hidden;
pub mod log_tail;
pub mod stopwatch;

pub use clock::{Clock, TimeScale, Timestamp};
pub use entropy::Entropy;
pub use hash::sha256_hex;
pub use hidden::is_hidden;
pub use log_tail::LogTail;
pub use stopwatch::Stopwatch;
