//! How far a replay job has come: a bar on a terminal, lines elsewhere.

use std::io::{self, IsTerminal};
use std::time::Duration;

use serde_json::Value;

use crate::app::cli::client::Client;
use crate::app::cli::output::{Output, print, text};

/// The pause between two looks at a bar, which is drawn over.
const TERMINAL_PAUSE: Duration = Duration::from_millis(200);

/// The pause between two lines that stay.
const PLAIN_PAUSE: Duration = Duration::from_secs(2);

/// Places of a bar.
const BAR: u64 = 30;

/// Watches a job until it is over or paused, and returns it as it is then. Who prints JSON sees the end
/// alone.
pub(in crate::app::cli) async fn follow(
    client: &Client,
    output: Output,
    job: i64,
) -> anyhow::Result<Value> {
    let is_terminal = io::stdout().is_terminal();
    let id = job.to_string();
    let mut shown = String::new();
    loop {
        let job = client.get(&["everpost", "replays", &id], &[]).await?;
        let goes_on = text(&job, "/state") == "Running";
        let line = line(&job);
        if !output.is_json() && line != shown {
            match is_terminal {
                true => print(&format!("\r{line}\u{1b}[K"))?,
                false => print(&format!("{line}\n"))?,
            }
        }
        shown = line;
        if !goes_on {
            if is_terminal && !output.is_json() {
                print("\n")?;
            }
            return Ok(job);
        }
        let pause = if is_terminal {
            TERMINAL_PAUSE
        } else {
            PLAIN_PAUSE
        };
        tokio::time::sleep(pause).await;
    }
}

/// `[###############···············]  50 %  5 of 10, 1 skipped, waits for orders/billing`
fn line(job: &Value) -> String {
    let (done, total) = (number(job, "/done"), number(job, "/total"));
    // What has vanished since the start is never done, so what is over may be less than all.
    let full = total.max(1);
    let places = usize::try_from((done * BAR / full).min(BAR)).unwrap_or_default();
    let rest = BAR as usize - places;
    let mut line = format!(
        "[{}{}] {:>3} %  {done} of {total}",
        "#".repeat(places),
        "·".repeat(rest),
        (done * 100 / full).min(100)
    );
    for (count, word) in [("/skipped", "skipped"), ("/failed", "failed")] {
        match number(job, count) {
            0 => {}
            count => line.push_str(&format!(", {count} {word}")),
        }
    }
    let waits_for = text(job, "/waitsFor");
    if !waits_for.is_empty() {
        line.push_str(&format!(", waits for {waits_for}"));
    }
    line
}

fn number(job: &Value, pointer: &str) -> u64 {
    job.pointer(pointer)
        .and_then(Value::as_u64)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_says_how_far_it_is() {
        let job = json!({"done": 5, "total": 10, "skipped": 1, "failed": 0, "waitsFor": "a/b"});
        let expected = "[###############···············]  50 %  5 of 10, 1 skipped, waits for a/b";
        assert_eq!(line(&job), expected);
        let job = json!({"done": 0, "total": 0});
        assert!(line(&job).ends_with("]   0 %  0 of 0"));
    }
}
