//! The program: reads the command line and tells the shell how it went.

use std::process::ExitCode;

use clap::Parser;
use everpost::app::cli::CommandLine;

fn main() -> ExitCode {
    CommandLine::parse().run()
}
