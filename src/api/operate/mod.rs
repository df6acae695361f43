//! The requests of operators: events, dead letters, replay jobs, backups, health.

pub(crate) mod audit;
pub(crate) mod backups;
pub(crate) mod counts;
pub(crate) mod dead_letters;
pub(crate) mod deliveries;
pub(crate) mod development;
pub(crate) mod diagnostics;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod health;
pub(crate) mod import;
pub(crate) mod records;
pub(crate) mod rejections;
pub(crate) mod replays;
pub(crate) mod resubmit;
pub(crate) mod storage;
