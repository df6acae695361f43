//! `everpost completion` and `everpost man`: what shells and `man` know about the command line.

use std::io;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::app::cli::CommandLine;
use crate::app::cli::output::print;

#[derive(Args, Debug)]
pub(super) struct CompletionArgs {
    shell: Shell,
}

#[derive(Args, Debug)]
pub(super) struct ManArgs {
    /// Directory for the pages of all commands [default: the main page goes to standard output]
    dir: Option<PathBuf>,
}

impl CompletionArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let mut script = Vec::new();
        let mut command = CommandLine::command();
        clap_complete::generate(self.shell, &mut command, "everpost", &mut script);
        Ok(print(&String::from_utf8_lossy(&script))?)
    }
}

impl ManArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let command = CommandLine::command();
        match self.dir {
            Some(dir) => clap_mangen::generate_to(command, &dir)
                .with_context(|| format!("cannot write to {}", dir.display())),
            None => {
                let page = clap_mangen::Man::new(command);
                Ok(page.render(&mut io::stdout().lock())?)
            }
        }
    }
}
