//! How far something is: a bar on a terminal, a line from time to time elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::app::cli::output::{note, printable};
use crate::base::Stopwatch;

/// The pause between two lines that stay.
const LINE_PAUSE: Duration = Duration::from_secs(2);

/// Shown on standard error, and gone when it is dropped.
pub(super) struct ShownProgress {
    bar: ProgressBar,
    /// The last line, where there is no terminal.
    line: Option<(Stopwatch, String)>,
}

impl ShownProgress {
    /// Without a total, only what is done is counted.
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

    /// Shows how much is done, and what else there is to say.
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
