//! Runs of many seeds, on all processors. Each run is one thread.

use std::{
    num::NonZeroUsize,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use limiter_sim::{run, shortest};

use super::{options::Options, print_shortest, seeds::Seeds, total::Total};

/// How often the progress is printed.
const PROGRESS: Duration = Duration::from_secs(10);

/// Of how many failing seeds the shortest run is searched.
const SHORTENED: usize = 3;

/// Runs all seeds. Returns whether there was no violation.
pub(super) fn run_all(seeds: &Seeds, options: &Options) -> bool {
    let progress = Mutex::new((Total::default(), Instant::now()));
    let run_one = |seed: u64| {
        let _named = NamesPanic(seed);
        let report = run(&options.settings(seed));
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        let (total, printed) = &mut *progress;
        total.add(&report);
        if let Some(violation) = report.violations.first() {
            let (time, message) = (violation.time, &violation.message);
            println!("seed {seed} fails at {time} us: {message}");
        }
        if printed.elapsed() > PROGRESS {
            *printed = Instant::now();
            eprintln!("seed {seed}: {}", total.line());
        }
    };
    thread::scope(|scope| {
        for _ in 0..processors() {
            scope.spawn(|| std::iter::from_fn(|| seeds.next()).for_each(run_one));
        }
    });
    let (total, _) = progress.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("{}", total.line());
    println!("\n{}", total.table());
    if !total.failed.is_empty() {
        println!("seeds with violations: {:?}", total.failed);
    }
    for seed in total.failed.iter().take(SHORTENED) {
        if let Some(shortest) = shortest(&options.settings(*seed)) {
            print_shortest(*seed, &shortest);
        }
    }
    total.failed.is_empty()
}

/// Returns how many threads run at a time.
pub(super) fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Names the seed of a run that panics.
struct NamesPanic(u64);

impl Drop for NamesPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("seed {} panicked", self.0);
        }
    }
}
