//! Runs of many seeds, on all processors. Each run is one thread.

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use limiter_sim::{Settings, run, shortest};

use super::{
    options::Options,
    print_shortest,
    seeds::Seeds,
    total::{Kind, Total},
};

/// How often the progress is printed.
const PROGRESS: Duration = Duration::from_secs(10);

/// One of so many seeds is run once more with requests in flight.
const WITH_IN_FLIGHT: u64 = 4;

/// Of how many failing seeds the shortest run is searched.
const SHORTENED: usize = 3;

/// What all threads have found together.
struct Progress {
    total: Total,
    by_kind: BTreeMap<Kind, Total>,
    printed: Instant,
}

/// Runs all seeds. Returns whether there was no violation.
pub(super) fn run_all(seeds: &Seeds, options: &Options) -> bool {
    let (begin, threads) = (Instant::now(), processors());
    let (total, by_kind) = (Total::default(), BTreeMap::new());
    let progress = Mutex::new(Progress { total, by_kind, printed: begin });
    let add = |settings: &Settings| {
        let report = &run(settings);
        seeds.add_faults(report.faults.values().sum());
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = Kind::of(settings);
        progress.total.add(report, settings);
        progress.by_kind.entry(kind).or_default().add(report, settings);
        if let Some(violation) = report.violations.first() {
            let with = kind.suffix();
            let (seed, time, message) = (report.seed, violation.time, &violation.message);
            println!("seed {seed}{with} fails at {time} us: {message}");
        }
        if progress.printed.elapsed() > PROGRESS {
            progress.printed = Instant::now();
            eprintln!("seed {}: {}", report.seed, progress.total.line(begin.elapsed(), threads));
        }
    };
    for_each(seeds, |seed| {
        let settings = options.settings(seed);
        add(&settings);
        if !settings.in_flight && seed % WITH_IN_FLIGHT == 2 {
            add(&Settings { in_flight: true, ..settings });
        }
    });
    let progress = progress.into_inner().unwrap_or_else(PoisonError::into_inner);
    let Progress { total, by_kind, .. } = progress;
    println!("{}", total.line(begin.elapsed(), threads));
    if options.sections {
        by_kind.iter().for_each(|(kind, total)| print!("\n{}", total.section(*kind)));
    } else {
        total.print_faults();
    }
    total.print_failed();
    for settings in total.failed.iter().take(SHORTENED) {
        if let Some(shortest) = shortest(settings) {
            print_shortest(settings.seed, &shortest);
        }
    }
    total.failed.is_empty()
}

/// Takes each seed on one of all processors.
fn for_each(seeds: &Seeds, work: impl Fn(u64) + Sync) {
    thread::scope(|scope| {
        for _ in 0..processors() {
            scope.spawn(|| {
                while let Some(seed) = seeds.next() {
                    let _named = NamesPanic(seed);
                    work(seed);
                }
            });
        }
    });
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
