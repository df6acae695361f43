//! Measurements of the built binary on this machine: `cargo bench --bench measure -- NAME`.
//!
//! They print figures and never fail for a slow machine. What they claim is a ratio of two sides that took turns
//! in one run; absolute figures move with the machine.

mod appliance;
mod browser;
mod isolation;
mod load;
mod pages;
mod retention;
mod sink;

use std::process::ExitCode;

const MEASUREMENTS: &str = "\
  isolation: one webhook of a hundred hangs; what becomes of the other 99
  retention: delivered events are deleted while others come
  pages:     the admin pages over a million events and 50,000 dead letters";

fn main() -> ExitCode {
    // Cargo adds `--bench` by itself.
    let wanted = std::env::args().skip(1).find(|word| word != "--bench");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    match (wanted.as_deref(), runtime) {
        (Some("isolation"), Ok(runtime)) => runtime.block_on(isolation::measure()),
        (Some("pages"), Ok(runtime)) => runtime.block_on(pages::measure()),
        (Some("retention"), Ok(runtime)) => runtime.block_on(retention::measure()),
        (_, Ok(_)) => {
            println!("name one of the measurements:\n{MEASUREMENTS}");
            return ExitCode::from(2);
        }
        (_, Err(error)) => {
            eprintln!("no runtime: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// The middle one of an odd number of values, the higher of the two middle ones otherwise.
fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
