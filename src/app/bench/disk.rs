//! Measures how long a durable write takes on the disk of a folder: the figures of two runs can be compared only if
//! that time is the same.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use crate::base::Stopwatch;

const WRITES: usize = 200;

/// A page of most file systems.
const BYTES: usize = 4_096;

/// The median time of an append of 4 KiB with a flush of the disk.
pub fn flush_time(folder: &Path) -> io::Result<Duration> {
    let mut file = tempfile::tempfile_in(folder)?;
    let mut times = Vec::with_capacity(WRITES);
    for _ in 0..WRITES {
        let write = Stopwatch::begin();
        file.write_all(&[0; BYTES])?;
        file.sync_data()?;
        times.push(write.took());
    }
    times.sort_unstable();
    Ok(times[WRITES / 2])
}
