//! Runs simulations of many seeds, and prints what they found: see `cargo xtask simulate`.

mod find;
mod options;
mod runs;
mod seeds;
mod total;

use std::process::ExitCode;

use anyhow::Result;
use limiter_sim::{Report, run, shortest};

use self::options::{Options, What};

fn main() -> Result<ExitCode> {
    let options = Options::read(std::env::args().skip(1))?;
    let is_right = match options.what() {
        What::Variants(variants) => find::find(&variants, &options),
        What::Seed(seed) => run_one(seed, &options),
        What::Seeds(seeds) => runs::run_all(&seeds, &options),
    };
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs one seed. Returns whether there was no violation.
fn run_one(seed: u64, options: &Options) -> bool {
    let settings = options.settings(seed);
    let report = run(&settings);
    print(&report);
    if let Some(shortest) = shortest(&settings) {
        print_shortest(seed, &shortest);
    }
    report.violations.is_empty()
}

/// Prints how to repeat the shortest run of a seed that fails, and what it shows.
fn print_shortest(seed: u64, shortest: &limiter_sim::Shortest) {
    println!("seed {seed} fails; shortest: {}", shortest.options());
    print(&shortest.report);
}

fn print(report: &Report) {
    print!("{report}");
    for (fault, count) in &report.faults {
        println!("{count:>9}  {fault}");
    }
}
