//! The newest lines of the log, so that they can be looked at where nobody reads standard error. Whoever
//! writes the log leaves secrets out of it; nothing is scrubbed here.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Lines that are kept: enough to see what led to something, and less than a mebibyte.
pub const LOG_LINES_KEPT: usize = 400;

/// Bytes of a line that are kept.
const LINE_BYTES_MAX: usize = 2_048;

/// The lines. Cheap to clone; clones share them.
#[derive(Clone, Debug, Default)]
pub struct LogTail(Arc<Mutex<VecDeque<String>>>);

impl LogTail {
    /// Adds one line, in place of the oldest where there are as many as are kept.
    pub fn push(&self, line: &str) {
        let bare_line = line.trim_end_matches(['\r', '\n']);
        let kept = &bare_line[..bare_line.floor_char_boundary(LINE_BYTES_MAX)];
        let mut lines = self.0.lock().unwrap();
        if lines.len() == LOG_LINES_KEPT {
            lines.pop_front();
        }
        lines.push_back(kept.to_owned());
    }

    /// All that is kept, the oldest first.
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_are_kept_each_within_bounds() {
        let tail = LogTail::default();
        for number in 0..=LOG_LINES_KEPT {
            tail.push(&format!("{number}\r\n"));
        }
        let lines = tail.lines();
        assert_eq!(lines.len(), LOG_LINES_KEPT);
        assert_eq!((lines[0].as_str(), lines[1].as_str()), ("1", "2"));
        tail.push(&"ä".repeat(LINE_BYTES_MAX));
        let last = tail.lines().pop().expect("a line");
        assert_eq!(last.len(), LINE_BYTES_MAX);
    }
}
