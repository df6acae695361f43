//! Questions at the terminal before something that cannot be undone.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::bail;

/// A command that is not to be run like this: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Misuse(pub(super) String);

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
