//! The log: text for people, JSON for machines, always on standard error.

use std::io::IsTerminal;

use anyhow::Context;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt;

use crate::app::config::{LogConfig, LogFormat};

/// Libraries that tell at `info` what we tell better, or nobody asks for.
const QUIET: &str = "refinery_core=warn,tower_sessions_core=error,tower_sessions=error";

/// Starts the log. May be called once per process.
pub(super) fn start(config: &LogConfig) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(format!("{QUIET},{}", config.level))
        .with_context(|| format!("log.level: {:?} is not a filter", config.level))?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    let started = match config.format {
        LogFormat::Text => log.with_target(false).finish().try_init(),
        LogFormat::Json => log.json().flatten_event(true).finish().try_init(),
    };
    started.context("the log could not be started")
}
