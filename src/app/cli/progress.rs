//! The progress of a command: a bar on a terminal, or a line from time to time without a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::app::cli::output::{note, printable};
use crate::base::Stopwatch;

/// The minimum time between two progress lines without a terminal.
const LINE_PAUSE: Duration = Duration::from_secs(2);

/// A progress display on standard error. Dropping the value clears the bar.
pub(super) struct ShownProgress {
    bar: ProgressBar,
    /// The last progress line and the time since its output, if there is no terminal.
    line: Option<(Stopwatch, String)>,
}

impl ShownProgress {
    /// Creates a progress display. If `total` is `None`, the display shows only the amount done.
    pub(super) fn new(total: Option<u64>) -> Self {
        let (bar, template) = match total {
            Some(total) => (
                ProgressBar::new(total),
                "[{bar:30}] {percent:>3} %  {pos} of {len}{msg}",
            ),
            None => (ProgressBar::new_spinner(), "{spinner} {pos}{msg}"),
        };
        let style = ProgressStyle::with_template(template).expect("the template is valid");
        Self {
            bar: bar.with_style(style.progress_chars("##·")),
            line: None,
        }
    }

    /// Shows the amount done, followed by the text `more`.
    pub(super) fn set(&mut self, done: u64, more: &str) {
        if !self.bar.is_hidden() {
            self.bar.set_position(done);
            self.bar.set_message(printable(more));
            return;
        }
        let line = match self.bar.length() {
            Some(total) => format!("{done} of {total}{more}"),
            None => format!("{done}{more}"),
        };
        let is_due = match &self.line {
            Some((since, last)) => since.took() >= LINE_PAUSE && *last != line,
            None => true,
        };
        if is_due {
            note(&line);
            self.line = Some((Stopwatch::begin(), line));
        }
    }
}

impl Drop for ShownProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
