//! Where time and dice come from. Nothing else in the tree may read a clock or roll a die.

pub mod clock;
pub mod entropy;

pub use clock::{Clock, TimeScale, Timestamp};
pub use entropy::Entropy;
