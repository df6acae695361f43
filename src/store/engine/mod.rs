//! The parts of the store that depend on SQLite: connections, the writer and the readers, pages, the write-ahead log,
//! migrations, integrity checks, the encryption of secrets and the data directory.

mod answers;
mod checkpoints;
pub(super) mod checksum;
pub(super) mod data_dir;
pub(super) mod db;
pub(super) mod encryption;
pub(super) mod fatal;
mod indexes;
pub(super) mod inline;
pub(super) mod integrity;
pub(super) mod log_file;
pub(super) mod master_key;
pub(super) mod migrate;
pub(super) mod new_data_dir;
pub(super) mod online_copy;
pub(super) mod place;
pub(super) mod queue;
mod queue_topics;
pub(super) mod read_again;
pub(super) mod repair;
mod reserve;
pub(super) mod salvage;
pub(super) mod upkeep;
pub(super) mod write_times;
