//! Load on an appliance: publishers and a receiver that accounts for every event.
//!
//! ```text
//! plan.rs       what is asked for
//! publisher.rs  connections that publish          → records.rs
//! receiver.rs   the endpoint of all deliveries    → records.rs
//! records.rs    which event was accepted and which delivered, and how long that took
//! figures.rs    what is made of it: rates, percentiles, losses
//! plot.rs       the same as a picture
//! instance.rs   a process of this binary over an empty data directory
//! disk.rs       what a flush of that directory's disk takes
//! ```

pub mod disk;
pub mod figures;
pub mod instance;
mod plan;
pub mod plot;
pub mod publisher;
pub mod receiver;
pub mod records;

pub use self::plan::{BenchPlan, EVENTS_MAX};
