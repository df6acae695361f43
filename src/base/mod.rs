//! Where time and dice come from, and what no text may hide. Nothing else in the tree may read a clock
//! or roll a die.

pub mod clock;
pub mod entropy;
pub mod hidden;
pub mod lap;

pub use clock::{Clock, TimeScale, Timestamp};
pub use entropy::Entropy;
pub use hidden::is_hidden;
pub use lap::Lap;
