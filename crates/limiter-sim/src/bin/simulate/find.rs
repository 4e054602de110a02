//! Variants of the world that have to be found.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread,
};

use limiter_sim::{Settings, run};

use super::{
    options::{Options, Variant},
    runs::processors,
};

/// How many seeds a variant gets.
const MOST_SEEDS: u64 = 1_000;

/// Runs each variant until it is found, on all processors. Returns whether all were.
pub(super) fn find(variants: &[Variant], options: &Options) -> bool {
    let (next, found_all) = (AtomicUsize::new(0), AtomicBool::new(true));
    thread::scope(|scope| {
        for _ in 0..processors().min(variants.len()) {
            scope.spawn(|| {
                while let Some(variant) = variants.get(next.fetch_add(1, Relaxed)) {
                    if !is_found(variant, options.seed.is_some()) {
                        found_all.store(false, Relaxed);
                    }
                }
            });
        }
    });
    found_all.into_inner()
}

/// Runs a variant until it is found. Returns whether it was, and prints by which seed and with which events if asked.
fn is_found(Variant { name, settings }: &Variant, with_events: bool) -> bool {
    let first = settings.seed;
    let mut seeds = first..first + MOST_SEEDS;
    let report = seeds.find_map(|seed| {
        let report = run(&Settings { seed, ..settings.clone() });
        (!report.violations.is_empty()).then_some(report)
    });
    let Some(report) = report else {
        println!("{name}: NOT found within {MOST_SEEDS} seeds");
        return false;
    };
    let seeds = report.seed - first + 1;
    let message = report.violations.first().map_or("", |it| it.message.as_str());
    println!("{name}: found within {seeds} seeds: {message}");
    if with_events {
        print!("{report}");
    }
    true
}
