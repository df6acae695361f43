//! The program: reads the command line and tells the shell how it went.

use std::process::ExitCode;

use everpost::app::cli::CommandLine;

fn main() -> ExitCode {
    CommandLine::of_process().run()
}
