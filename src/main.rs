//! The program: reads the command line and tells the shell how it went.

use std::process::ExitCode;

use everpost::app::cli::CommandLine;

/// Every event is a few dozen small allocations, freed by other threads than made them: the system's allocator
/// takes a tenth of the throughput.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Has memory take what is written to, and not 2 MiB wherever a byte is written, as the allocator asks for: buffers that are mostly
/// empty count for what they have of it.
fn refuse_huge_pages() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true); // without it more memory is used
}

fn main() -> ExitCode {
    refuse_huge_pages();
    CommandLine::of_process().run()
}
