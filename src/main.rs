//! The program: reads the command line and tells the shell how it went.

use std::process::ExitCode;

use everpost::app::cli::CommandLine;

/// Every event is a few dozen small allocations, freed by other threads than made them: the system's allocator
/// takes a tenth of the throughput.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Turns off transparent huge pages, which the allocator asks for: with them, a byte that is written to an empty buffer may take 2 MiB.
fn disable_huge_pages() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true); // if that fails, more memory is used
}

fn main() -> ExitCode {
    disable_huge_pages();
    CommandLine::of_process().run()
}
