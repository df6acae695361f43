//! `everpost completion` and `everpost man`: what shells and `man` know about the command line.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::app::cli::CommandLine;
use crate::app::cli::output::print_exactly;

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
        Ok(print_exactly(&String::from_utf8_lossy(&script))?)
    }
}

impl ManArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let mut command = CommandLine::command().disable_help_subcommand(true);
        command.build();
        match self.dir {
            Some(dir) => write_pages(command, &dir)
                .with_context(|| format!("cannot write to {}", dir.display())),
            None => Ok(page(command).render(&mut io::stdout().lock())?),
        }
    }
}

/// The page of a command, with what all of them have at head and foot.
fn page(command: Command) -> Man {
    let source = concat!("Everpost ", env!("CARGO_PKG_VERSION"));
    Man::new(command).source(source).manual("Everpost")
}

fn write_pages(command: Command, dir: &Path) -> io::Result<()> {
    for command in command.get_subcommands().filter(|each| !each.is_hide_set()) {
        write_pages(command.clone(), dir)?;
    }
    page(command).generate_to(dir).map(drop)
}
