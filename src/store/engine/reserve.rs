//! Disk space that is reserved for the tasks that free disk space: checkpoints and retention.
//!
//! The reserve is a file. It is deleted when the disk is full, so that the log can be written back and old events can
//! be deleted. Publish requests are rejected while the file is missing. It is created again as soon as twice its size
//! is free.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FallocateFlags, fallocate};

use crate::store::engine::data_dir::free_bytes;

/// Maximum size of the reserve: more than the log holds between two checkpoints, including a batch of retention.
const BYTES: u64 = 16 * 1_024 * 1_024;

/// Divisor of the disk size that limits the reserve on a small disk.
const SHARE_OF_DISK: u64 = 32;

/// The name of the reserve file in the data directory.
const FILE: &str = "reserve";

/// The reserved disk space.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    is_released: AtomicBool,
}

impl Reserve {
    /// Returns the reserve in the directory of the database. The file may exist from an earlier start.
    pub(super) fn beside(database: &Path) -> Self {
        Self {
            path: database.with_file_name(FILE),
            is_released: AtomicBool::new(false),
        }
    }

    /// Deletes the reserve file because the disk is full.
    pub(super) fn release(&self) {
        self.is_released.store(true, Ordering::Relaxed);
        // Logs only if this call has deleted the file: an earlier call may have deleted it.
        if fs::remove_file(&self.path).is_ok() {
            tracing::warn!("the disk is full; the reserve for checkpoints and retention is in use");
        }
    }

    /// Creates the reserve file if it is missing and enough disk space is free. Returns whether the file exists.
    pub(super) fn hold(&self) -> bool {
        let is_there = self.path.exists();
        let is_held = is_there || self.make().unwrap_or(false);
        if is_held {
            self.is_released.store(false, Ordering::Relaxed);
        }
        is_held
    }

    /// Reports whether the reserve was released and has not been created again since.
    pub(super) fn is_released(&self) -> bool {
        self.is_released.load(Ordering::Relaxed)
    }

    fn make(&self) -> io::Result<bool> {
        let dir = self.path.parent().unwrap_or(Path::new("."));
        let disk = rustix::fs::statvfs(dir)?;
        let bytes = bytes_of(disk.f_blocks.saturating_mul(disk.f_frsize));
        if free_bytes(dir)? < 2 * bytes {
            return Ok(false);
        }
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&self.path)?;
        // Allocates blocks: a sparse file would reserve nothing.
        let made = fallocate(&file, FallocateFlags::empty(), 0, bytes);
        if made.is_err() {
            let _ = fs::remove_file(&self.path); // a file system that cannot do it has no reserve
        }
        Ok(made.is_ok())
    }
}

fn bytes_of(disk_bytes: u64) -> u64 {
    BYTES.min(disk_bytes / SHARE_OF_DISK)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn it_has_blocks_of_its_own_until_it_is_given_up() {
        let dir = tempfile::tempdir().expect("a directory");
        let reserve = Reserve::beside(&dir.path().join("everpost.db"));
        if !reserve.hold() {
            println!("skipped: this file system cannot hold room back");
            return;
        }
        let file = fs::metadata(dir.path().join(FILE)).expect("a file");
        assert!(file.blocks() * 512 >= file.len() && file.len() > 0);
        assert!(reserve.hold() && !reserve.is_released());
        reserve.release();
        assert!(reserve.is_released() && !dir.path().join(FILE).exists());
        assert!(reserve.hold() && !reserve.is_released());
    }

    #[test]
    fn a_small_disk_gives_a_part() {
        assert_eq!(bytes_of(1 << 40), BYTES);
        assert_eq!(bytes_of(24 << 20), (24 << 20) / SHARE_OF_DISK);
    }
}
