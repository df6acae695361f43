//! A load test of an appliance, with publishers and a receiver that accounts for every event.
//!
//! ```text
//! plan.rs       the load and the receiver's behaviour
//! publisher.rs  connections that publish          → records.rs
//! receiver.rs   the endpoint of all deliveries    → records.rs
//! records.rs    which event was accepted and which delivered, and how long that took
//! figures.rs    the figures of the records: rates, percentiles, losses
//! plot.rs       the figures as a picture
//! instance.rs   a server process of this binary with an empty data directory
//! disk.rs       the time of a flush on the data directory's disk
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
