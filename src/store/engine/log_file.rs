//! Examines the write-ahead log file before SQLite opens it.
//!
//! SQLite recovers the log up to the first frame whose checksum is wrong, and silently ignores the rest. This is right
//! after a kill or a power loss: the ignored frames hold only changes that were not acknowledged, or locks, which
//! need no flush. It is wrong after damage to a frame, because acknowledged changes may be in the frames after it.
//! This module counts the frames from the first damaged one on that belong to the same log.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::store::engine::data_dir::sync_parent;
use crate::store::engine::db::{PAGE_BYTES, log_of};
use crate::store::error::StoreError;

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;

/// The first word of a log, without its lowest bit. The lowest bit is set if the checksums are computed over
/// big-endian words.
const MAGIC: u32 = 0x377f_0682;

/// The numbers of frames in a log that SQLite recovers, and that it ignores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LogFrames {
    /// Number of valid frames before the first damaged one.
    pub(super) sound: u64,
    /// Number of frames of the same log from the first damaged one on. `commits_left` is how many of these end a
    /// commit.
    pub(super) left: u64,
    pub(super) commits_left: u64,
    /// Is true if the header is damaged, so that SQLite recovers no frame of the log.
    pub(super) header_is_damaged: bool,
}

impl LogFrames {
    /// Reports whether acknowledged changes may be lost. After a kill, the ignored frames do not include the end of a
    /// commit.
    fn has_lost(&self) -> bool {
        self.commits_left > 0
    }
}

/// Examines the log of the database at `path`. If SQLite will ignore frames that may hold acknowledged changes, copies
/// the log to a file beside it and returns a description of the damage.
pub(in crate::store) fn examine(path: &Path) -> Result<Option<String>, StoreError> {
    let log = log_of(path);
    let failed = |error: io::Error| StoreError::Failed(format!("{}: {error}", log.display()));
    let read = match File::open(&log) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.and_then(|file| frames_of(BufReader::with_capacity(1 << 16, file))),
    };
    let frames = read.map_err(failed)?;
    if !frames.has_lost() {
        return Ok(None);
    }
    let kept = keep(&log).map_err(failed)?;
    Ok(Some(told(&log, frames, &kept)))
}

fn told(log: &Path, frames: LogFrames, kept: &Path) -> String {
    let LogFrames {
        sound,
        left,
        commits_left,
        header_is_damaged,
    } = frames;
    let place = if header_is_damaged {
        "its header is damaged".to_owned()
    } else {
        format!("its page {} is damaged", sound + 1)
    };
    format!(
        "{}: {place}, and {left} pages from there on, of up to {commits_left} commits, are not taken over: what was \
         acknowledged in them may be lost, unless the machine has lost power just before. Compare with what publishers have sent last; a copy of the log is in {}",
        log.display(),
        kept.display()
    )
}

/// Copies a damaged log to a new file beside it, because SQLite will overwrite the log. Returns the path of the copy.
fn keep(log: &Path) -> io::Result<PathBuf> {
    let mut number = 1;
    let kept = loop {
        let kept = log.with_extension(format!("damaged-log-{number}"));
        if !kept.exists() {
            break kept;
        }
        number += 1;
    };
    let unfinished = kept.with_extension("unfinished");
    fs::copy(log, &unfinished)?;
    File::open(&unfinished)?.sync_all()?;
    fs::rename(&unfinished, &kept)?;
    sync_parent(&kept)?;
    Ok(kept)
}

/// Counts the frames of a log.
fn frames_of(mut log: impl Read) -> io::Result<LogFrames> {
    let mut header = [0; HEADER_BYTES];
    if !read_whole(&mut log, &mut header)? {
        return Ok(LogFrames::default());
    }
    let magic = word(&header, 0);
    let is_big_endian = magic & 1 == 1;
    let mut sum = Sum {
        is_big_endian,
        words: (0, 0),
    };
    sum.add(&header[..24]);
    let is_header_sound =
        magic & !1 == MAGIC && sum.words == (word(&header, 24), word(&header, 28));
    let page_bytes = page_bytes(&header, is_header_sound);
    let mut salts: Option<[u8; 8]> = is_header_sound.then(|| salts_of(&header[16..24]));
    let mut frame = vec![0; FRAME_HEADER_BYTES + page_bytes];
    let mut found = LogFrames {
        header_is_damaged: !is_header_sound,
        ..LogFrames::default()
    };
    let mut is_sound = is_header_sound;
    while read_whole(&mut log, &mut frame)? {
        let (head, page) = frame.split_at(FRAME_HEADER_BYTES);
        let frame_salts = salts_of(&head[8..16]);
        let of = *salts.get_or_insert(frame_salts);
        sum.add(&head[..8]);
        sum.add(page);
        is_sound &= frame_salts == of && sum.words == (word(head, 16), word(head, 20));
        let is_commit = word(head, 4) != 0;
        if is_sound {
            found.sound += 1;
        } else if frame_salts == of {
            found.left += 1;
            found.commits_left += u64::from(is_commit);
        }
    }
    Ok(found)
}

/// Returns the page size from the header, or [`PAGE_BYTES`] if the header is damaged.
fn page_bytes(header: &[u8; HEADER_BYTES], is_sound: bool) -> usize {
    let named = word(header, 8);
    let is_known = is_sound && (512..=65_536).contains(&named);
    (if is_known { named } else { PAGE_BYTES }) as usize
}

fn salts_of(bytes: &[u8]) -> [u8; 8] {
    bytes.try_into().expect("two words")
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Fills the buffer. Returns `false` if the file ends before the buffer is full.
fn read_whole(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(buffer) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}

/// The cumulative checksum of a log, which is continued from frame to frame (fileformat2.html, 4.2).
struct Sum {
    is_big_endian: bool,
    words: (u32, u32),
}

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        let read = if self.is_big_endian {
            u32::from_be_bytes
        } else {
            u32::from_le_bytes
        };
        let (mut one, mut other) = self.words;
        for pair in bytes.as_chunks::<8>().0 {
            let first = read([pair[0], pair[1], pair[2], pair[3]]);
            let second = read([pair[4], pair[5], pair[6], pair[7]]);
            one = one.wrapping_add(first).wrapping_add(other);
            other = other.wrapping_add(second).wrapping_add(one);
        }
        self.words = (one, other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::engine::db::open_writer;

    const FRAME: usize = FRAME_HEADER_BYTES + PAGE_BYTES as usize;

    /// The log of a database with some commits, as a kill leaves it.
    fn log() -> Vec<u8> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("everpost.db");
        let writer = open_writer(&path).expect("a database");
        let set = writer.pragma_update(None, "wal_autocheckpoint", 0);
        set.expect("no checkpoints");
        writer.execute_batch("CREATE TABLE t (x)").expect("a table");
        for number in 0..10 {
            let insert = "INSERT INTO t VALUES (?1)";
            writer.execute(insert, [number]).expect("a row");
        }
        fs::read(log_of(&path)).expect("a log")
    }

    fn count(log: &[u8]) -> LogFrames {
        frames_of(log).expect("it can be read")
    }

    #[test]
    fn a_log_as_it_was_written_is_taken_whole() {
        let log = log();
        let all = ((log.len() - HEADER_BYTES) / FRAME) as u64;
        let whole = LogFrames {
            sound: all,
            ..LogFrames::default()
        };
        assert_eq!(count(&log), whole);
        // A kill in the middle of a frame.
        let cut = count(&log[..log.len() - 100]);
        assert_eq!((cut.sound, cut.has_lost()), (all - 1, false));
        assert!(!count(&[]).has_lost() && !count(&log[..20]).has_lost());
    }

    #[test]
    fn any_flipped_bit_is_noticed_with_what_is_behind() {
        let sound = log();
        let all = (sound.len() - HEADER_BYTES) / FRAME;
        for at in (0..HEADER_BYTES + 3 * FRAME)
            .step_by(37)
            .chain(0..FRAME_HEADER_BYTES)
        {
            let mut damaged = sound.clone();
            damaged[HEADER_BYTES + FRAME + at] ^= 0x10;
            let found = count(&damaged);
            assert!(found.has_lost(), "byte {at}: {found:?}");
            assert!(found.sound < all as u64, "byte {at}");
        }
        for at in 0..HEADER_BYTES {
            let mut damaged = sound.clone();
            damaged[at] ^= 1;
            let found = count(&damaged);
            assert!(
                found.has_lost() && found.header_is_damaged,
                "byte {at}: {found:?}"
            );
        }
    }

    /// When a log starts over, the frames of the one before stay behind the new ones.
    #[test]
    fn frames_of_an_older_log_are_not_missed() {
        let mut older = log();
        let last = older.len() - FRAME;
        older[last + 8] ^= 0xff; // its salts
        older[last + 16] ^= 0xff; // its checksum
        assert!(!count(&older).has_lost());
    }

    #[test]
    fn a_damaged_log_is_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("everpost.db");
        assert_eq!(examine(&path), Ok(None));
        let mut damaged = log();
        damaged[HEADER_BYTES + 100] ^= 1;
        fs::write(log_of(&path), &damaged).expect("a log");
        let said = examine(&path).expect("a look").expect("a warning");
        assert!(said.contains("its page 1 is damaged"), "{said}");
        let kept = dir.path().join("everpost.damaged-log-1");
        assert_eq!(fs::read(kept).expect("a copy"), damaged);
    }
}
