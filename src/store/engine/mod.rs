//! What only SQLite has: connections, the writer and the readers, pages, the write-ahead log, migrations,
//! integrity checks, the encryption of secrets and the data directory.

mod answers;
mod checkpoints;
pub(super) mod data_dir;
pub(super) mod db;
pub(super) mod encryption;
pub(super) mod fatal;
pub(super) mod inline;
pub(super) mod integrity;
pub(super) mod master_key;
pub(super) mod migrate;
pub(super) mod online_copy;
pub(super) mod queue;
pub(super) mod salvage;
pub(super) mod upkeep;
pub(super) mod write_times;
