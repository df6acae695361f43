//! Questions at the terminal before something that cannot be undone.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::bail;
use clap::Args;

/// A command that is not to be run like this: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Misuse(pub(super) String);

/// The answer to the question of a command that deletes, given beforehand.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct Deletion {
    /// Do not ask for confirmation
    #[arg(long)]
    pub(super) yes: bool,
}

impl Deletion {
    /// Asks whether it is meant, unless that was said. `what` is what is deleted, in a sentence.
    pub(super) fn ask(self, what: &str) -> anyhow::Result<()> {
        if self.yes {
            Ok(())
        } else {
            confirm(what, "nothing was deleted")
        }
    }
}

/// Returns after a yes. Without a terminal there is nobody to ask, and `undone` says that nothing happened.
pub(super) fn confirm(what: &str, undone: &str) -> anyhow::Result<()> {
    if !io::stdin().is_terminal() {
        bail!(Misuse(format!(
            "{what} Without a terminal this needs --yes; {undone}"
        )));
    }
    write!(io::stderr(), "{what} Continue? [y/N] ")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => bail!("{undone}"),
    }
}
