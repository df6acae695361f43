//! How far the deliveries have come, as the receivers see it.

use std::convert::Infallible;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::Duration;

use crate::app::cli::demo::role::Role;
use crate::app::cli::demo::stage::{Actor, Stage};
use crate::app::cli::output::print;
use crate::app::receive::ReceivedRequest;
use crate::base::Timestamp;
use crate::model::response_script::ScriptedResponse;
use crate::wire::received::RequestKind;

/// The pause between two looks at a terminal's line, which is written over.
const TERMINAL_PAUSE: Duration = Duration::from_millis(100);

/// The pause between two lines that stay.
const PLAIN_PAUSE: Duration = Duration::from_secs(1);

/// Shows how far it has come.
pub(super) struct Progress<'a> {
    stage: &'a Stage,
    started_at: Timestamp,
    is_terminal: bool,
}

impl<'a> Progress<'a> {
    pub(super) fn new(stage: &'a Stage) -> Self {
        Self {
            stage,
            started_at: stage.clock.now(),
            is_terminal: io::stdout().is_terminal(),
        }
    }

    /// The time since publishing began.
    pub(super) fn passed(&self) -> Duration {
        self.stage.clock.now().since(self.started_at)
    }

    /// Shows it again and again.
    pub(super) async fn keep_showing(&self) -> io::Result<Infallible> {
        loop {
            tokio::time::sleep(match self.is_terminal {
                true => TERMINAL_PAUSE,
                false => PLAIN_PAUSE,
            })
            .await;
            let line = self.line();
            match self.is_terminal {
                true => print(&format!("\r{line}\u{1b}[K"))?,
                false => print(&format!("{line}\n"))?,
            }
        }
    }

    /// Shows how it ended, on a line that stays.
    pub(super) fn end(&self) -> io::Result<()> {
        let start = if self.is_terminal { "\r" } else { "" };
        print(&format!("{start}{}\n", self.line()))
    }

    /// `  2.1 s   263 attempts   billing accepted  63 of 100   refunds refused 10 of 10`
    fn line(&self) -> String {
        let passed = self.passed().as_secs_f64();
        format!("{passed:>5.1} s   {}", self.answers())
    }

    fn answers(&self) -> String {
        let mut attempts = 0;
        let mut parts = String::new();
        for Actor { role, receiver } in &self.stage.cast {
            let statuses = statuses(&receiver.requests());
            attempts += statuses.len();
            parts.push_str(&part(role, &statuses));
        }
        format!("{attempts:>3} attempts{parts}")
    }
}

/// The statuses that deliveries were answered with.
fn statuses(requests: &[Arc<ReceivedRequest>]) -> Vec<String> {
    let status = |request: &Arc<ReceivedRequest>| match (&request.kind, request.answer) {
        (RequestKind::Delivery, ScriptedResponse::Status(status)) => Some(status.to_string()),
        (RequestKind::Delivery, ScriptedResponse::Timeout | ScriptedResponse::Close)
        | (RequestKind::Validation { .. } | RequestKind::AbuseProtection { .. }, _) => None,
    };
    requests.iter().filter_map(status).collect()
}

fn part(role: &Role, statuses: &[String]) -> String {
    let is_last = |status: &&String| *status == role.last_answer();
    let ended = statuses.iter().filter(is_last).count();
    let (all, width) = (role.deliveries, role.deliveries.to_string().len());
    format!("   {} {} {ended:>width$} of {all}", role.name, role.verb)
}
