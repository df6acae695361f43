//! Time and randomness, bytes that are kept for clients, streams that are watched, turns of those who wait and of those who work,
//! the forms in which people read figures and unknown text, hashes, the newest lines of the log and those that others can cause at
//! will, and files that others may have put there. Nothing else reads a clock or makes random numbers.

pub mod budget;
pub mod clock;
pub mod entropy;
mod hash;
pub mod hidden;
pub mod human;
mod live;
pub mod log_tail;
pub mod named;
pub mod places;
pub mod regular_file;
pub mod request_memory;
pub mod seldom;
pub mod stint;
pub mod stopwatch;
pub mod turns;
pub mod watched_stream;
pub mod zone;

pub use clock::{Clock, TimeScale, Timestamp, WallClock};
pub use entropy::Entropy;
pub use hash::{Sha256, sha256, sha256_hex, sha256_of};
pub use hidden::{problem_of_look, steers, visible, visible_json};
pub use live::Live;
pub use log_tail::LogTail;
pub use stopwatch::Stopwatch;
