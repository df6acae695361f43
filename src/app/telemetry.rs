//! The log: text for people, JSON for machines, always on standard error. Its newest lines are kept for the
//! admin pages as well.

use std::io::{self, IsTerminal};
use std::str::FromStr;

use anyhow::Context;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, filter, fmt, reload};

use crate::app::config::LogFormat;
use crate::base::LogTail;

/// Libraries that log at `info` what nobody needs, what is logged here in better words, or (h2, hyper) what peers make
/// them say as often as they like.
const QUIET: &str =
    "refinery_core=warn,tower_sessions_core=error,tower_sessions=error,h2=error,hyper=error";

/// The log of this process. Clones share it; the default is none.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Its newest lines.
    pub tail: LogTail,
    filter: Option<reload::Handle<filter::Targets, Registry>>,
}

impl Log {
    /// Logs more or less from now on.
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
pub(super) fn start(format: LogFormat, level: &str) -> anyhow::Result<Log> {
    let (filter, handle) = reload::Layer::new(filter(level)?);
    let log = || {
        fmt::layer()
            .with_ansi(std::io::stderr().is_terminal())
            .with_writer(std::io::stderr)
    };
    let written = match format {
        LogFormat::Text => log().with_target(false).boxed(),
        LogFormat::Json => log().json().flatten_event(true).boxed(),
    };
    let tail = LogTail::default();
    let kept = tail.clone();
    let kept = fmt::layer()
        .with_ansi(false)
        .with_target(false)
        .with_writer(move || Lines(kept.clone()));
    let registry = tracing_subscriber::registry().with(filter);
    let started = registry.with(written).with(kept).try_init();
    started.context("the log could not be started")?;
    Ok(Log {
        tail,
        filter: Some(handle),
    })
}

/// Takes what is written as one line; the log writes each event at once.
struct Lines(LogTail);

impl io::Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(&String::from_utf8_lossy(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
