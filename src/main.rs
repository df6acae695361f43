//! The program: reads the command line and tells the shell how it went.

use std::process::ExitCode;

use everpost::app::cli::CommandLine;

/// Every event is a few dozen small allocations, freed by other threads than made them: the system's allocator
/// takes a tenth of the throughput.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    CommandLine::of_process().run()
}
