//! Runs of many seeds, on all processors. Each run is one thread.

use std::{
    num::NonZeroUsize,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use limiter_sim::{run, shortest};

use super::{options::Options, print_shortest, total::Total};

/// How often the progress is printed.
const PROGRESS: Duration = Duration::from_secs(10);

/// Of how many failing seeds the shortest run is searched.
const SHORTENED: usize = 3;

/// Runs all seeds. Returns whether there was no violation.
pub(super) fn run_all(seeds: &[u64], options: &Options) -> bool {
    let progress = Mutex::new((Total::default(), Instant::now()));
    on_all_processors(seeds, |&seed| {
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

/// Does the work of each item, with a thread for each processor.
pub(super) fn on_all_processors<T: Sync>(items: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    thread::scope(|scope| {
        for _ in 0..threads.min(items.len()) {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Relaxed)) {
                    work(item);
                }
            });
        }
    });
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
