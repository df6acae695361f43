//! Everpost: a self-hosted event delivery appliance.
//!
//! Floors, from the ground up. A module imports floors below its own, never above, never beside it;
//! the test `tidy` enforces it.

/// 7. Configuration, command line, start and stop.
pub mod app;
/// 1. Where time and dice come from.
pub mod base;
/// 2. Nouns and rules, pure.
pub mod model;
/// 4. The world outside.
pub mod outbound;
/// 3. Bytes to model and back, pure.
pub mod wire;
