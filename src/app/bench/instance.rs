//! A server process of this binary with an empty data directory.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, fs, io};

use anyhow::{Context, bail};
use tempfile::TempDir;
use url::Url;

use crate::app::boot::SERVER_URL_FILE;

/// Much longer than a start takes.
const START_DEADLINE: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_millis(20);

/// Clock ticks per second of CPU time in `/proc` on Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// A server process. Dropping it kills the process and deletes its data directory.
pub struct Instance {
    process: Child,
    folder: TempDir,
}

/// The CPU time and the memory that a process has used so far.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    pub cpu_seconds: f64,
    /// The peak resident memory.
    pub memory_peak_bytes: u64,
}

impl Instance {
    /// Starts the server with a new data directory in `parent` and waits until it listens.
    pub async fn start(parent: &Path) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("everpost-bench-")
            .tempdir_in(parent);
        let folder =
            folder.with_context(|| format!("no folder can be made in {}", parent.display()))?;
        let program = env::current_exe().context("this program is not found")?;
        let mut command = Command::new(program);
        // Settings in the environment are for a permanent appliance, so the benchmark ignores them.
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("EVERPOST_") {
                command.env_remove(name);
            }
        }
        let process = command
            .args(["serve", "--listen", "127.0.0.1:0", "--log-level", "error"])
            .args(["--egress-allow", "127.0.0.0/8", "--data-dir"])
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        let mut instance = Self {
            process: process.context("the server does not start")?,
            folder,
        };
        let started = tokio::time::timeout(START_DEADLINE, instance.listening()).await;
        started.context("the server does not listen in time")??;
        Ok(instance)
    }

    async fn listening(&mut self) -> anyhow::Result<()> {
        let file = self.folder.path().join(SERVER_URL_FILE);
        while !fs::read_to_string(&file).is_ok_and(|url| url.ends_with('\n')) {
            if let Some(status) = self.process.try_wait()? {
                bail!("the server ended with {status}");
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    pub fn data_dir(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the URL that the server listens on.
    pub fn url(&self) -> anyhow::Result<Url> {
        let url = fs::read_to_string(self.folder.path().join(SERVER_URL_FILE))?;
        Url::parse(url.trim_end()).context("the server's own URL")
    }

    /// Returns the usage so far, or `None` on a system without `/proc`.
    pub fn usage(&self) -> Option<Usage> {
        let read = |name| fs::read_to_string(format!("/proc/{}/{name}", self.process.id()));
        usage(&read("stat").ok()?, &read("status").ok()?)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // A process that cannot be killed has already ended.
        let _: io::Result<()> = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Usage {
    /// Returns the CPU time since `earlier`, and the peak memory since the process started.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            cpu_seconds: self.cpu_seconds - earlier.cpu_seconds,
            ..self
        }
    }
}

/// Parses the contents of `/proc/PID/stat` and `/proc/PID/status`, see proc(5).
fn usage(stat: &str, status: &str) -> Option<Usage> {
    // The second field of `stat` is the process name in parentheses and may contain any character. User and system
    // time are the 14th and the 15th field.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = |at| fields.split_whitespace().nth(at)?.parse::<f64>().ok();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = peak.split_whitespace().next()?.parse().ok()?;
    Some(Usage {
        cpu_seconds: (ticks(11)? + ticks(12)?) / TICKS_PER_SECOND,
        memory_peak_bytes: kilobytes * 1_024,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_read_behind_any_name() {
        let stat = "7 (ever) post) S 1 7 7 0 -1 4194560 9 0 0 0 250 50 0 0 20 0 4 0 1 2 3";
        let found = usage(stat, "Name:\teverpost\nVmHWM:\t  2048 kB\n").expect("read");
        assert!((found.cpu_seconds - 3.0).abs() < 1e-9);
        assert_eq!(found.memory_peak_bytes, 2 * 1_024 * 1_024);
    }
}
