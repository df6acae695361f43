//! The log: text for people, JSON for machines, always on standard error. Its newest lines are kept for the
//! admin pages as well.

use std::io::{self, IsTerminal};
use std::str::FromStr;

use anyhow::Context;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, filter, fmt, reload};

use crate::app::config::LogFormat;
use crate::base::{LogTail, visible, visible_json};

/// Log levels of libraries whose `info` lines are of no use or repeat the server's own log lines. Peers can make h2 and
/// hyper log as often as they like.
const QUIET: &str =
    "refinery_core=warn,tower_sessions_core=error,tower_sessions=error,h2=error,hyper=error";

/// The log of this process. Clones share it; the default is none.
#[derive(Clone, Debug, Default)]
pub struct ProcessLog {
    /// Its newest lines.
    pub tail: LogTail,
    filter: Option<reload::Handle<filter::Targets, Registry>>,
}

impl ProcessLog {
    /// Changes the log level.
    pub(super) fn set_level(&self, level: &str) -> anyhow::Result<()> {
        match &self.filter {
            Some(handle) => Ok(handle.reload(filter(level)?)?),
            None => Ok(()),
        }
    }
}

fn filter(level: &str) -> anyhow::Result<filter::Targets> {
    filter::Targets::from_str(&format!("{QUIET},{level}"))
        .with_context(|| format!("log.level: {level:?} is not a filter"))
}

/// Starts the log. May be called once per process.
pub(super) fn start(format: LogFormat, level: &str) -> anyhow::Result<ProcessLog> {
    let (filter, handle) = reload::Layer::new(filter(level)?);
    let is_terminal = io::stderr().is_terminal();
    // Only the log itself writes colors: escape characters in logged texts are escaped.
    let shown: fn(&str) -> String = if is_terminal {
        |line| visible(line, &['\n', '\t', '\u{1b}'])
    } else {
        |line| visible(line, &['\n', '\t'])
    };
    let written = match format {
        LogFormat::Text => fmt::layer()
            .with_ansi(is_terminal)
            .with_target(false)
            .with_writer(move || VisibleLines(shown, io::stderr()))
            .boxed(),
        LogFormat::Json => fmt::layer()
            .json()
            .flatten_event(true)
            .with_writer(|| VisibleLines(visible_json, io::stderr()))
            .boxed(),
    };
    let tail = LogTail::default();
    let kept = tail.clone();
    let kept = fmt::layer()
        .with_ansi(false)
        .with_target(false)
        .with_writer(move || {
            VisibleLines(|line| visible(line, &['\n', '\t']), LogLines(kept.clone()))
        });
    let registry = tracing_subscriber::registry().with(filter);
    let started = registry.with(written).with(kept).try_init();
    started.context("the log could not be started")?;
    Ok(ProcessLog {
        tail,
        filter: Some(handle),
    })
}

/// Writes lines with control and hidden characters escaped, since lines may contain text from clients.
struct VisibleLines<W>(fn(&str) -> String, W);

impl<W: io::Write> io::Write for VisibleLines<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let Self(shown, to) = self;
        to.write_all(shown(&String::from_utf8_lossy(line)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.1.flush()
    }
}

/// Keeps each write as one line: the log writes each event with one call.
struct LogLines(LogTail);

impl io::Write for LogLines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(&String::from_utf8_lossy(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn nothing_steers_in_the_log() {
        let line = "{\"error\":\"\u{202e}x\u{9b}2J\u{1b}[1m\u{e0041}\"}\n";
        let written = |shown: fn(&str) -> String| {
            let mut to = VisibleLines(shown, Vec::new());
            to.write_all(line.as_bytes()).expect("in memory");
            String::from_utf8(to.1).expect("UTF-8")
        };
        let text = written(|line| visible(line, &['\n', '\t']));
        assert_eq!(
            text,
            "{\"error\":\"\\u{202e}x\\u{9b}2J\\u{1b}[1m\\u{e0041}\"}\n"
        );
        let json = written(visible_json);
        assert_eq!(
            json,
            "{\"error\":\"\\u202ex\\u009b2J\\u001b[1m\\udb40\\udc41\"}\n"
        );
    }
}
