//! Variants of the world that have to be found.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use limiter_sim::{Fault, Settings, Wrong, run};

use super::{options::Options, runs::on_all_processors};

/// How many seeds a variant gets.
const MOST_SEEDS: u64 = 1_000;

/// Runs each variant until it is found. Returns whether all were.
pub(super) fn find(variants: &[Wrong], options: &Options) -> bool {
    let found_all = AtomicBool::new(true);
    on_all_processors(variants, |variant| {
        found_all.fetch_and(is_found(*variant, options), Relaxed);
    });
    found_all.into_inner()
}

/// Runs a variant until it is found. Returns whether it was, and prints by which seed, with the events of a given seed.
fn is_found(wrong: Wrong, options: &Options) -> bool {
    let (name, first) = (wrong.name(), options.seed.unwrap_or(1));
    let report = (first..first + MOST_SEEDS).find_map(|seed| {
        let mut settings = Settings { wrong: Some(wrong), ..options.settings(seed) };
        settings.without.extend(Fault::all().filter(|fault| fault.suspends_judgement()));
        let report = run(&settings);
        (!report.violations.is_empty()).then_some(report)
    });
    let Some(report) = report else {
        println!("{name}: NOT found within {MOST_SEEDS} seeds");
        return false;
    };
    let seeds = report.seed - first + 1;
    let message = report.violations.first().map_or("", |it| it.message.as_str());
    println!("{name}: found within {seeds} seeds: {message}");
    if options.seed.is_some() {
        print!("{report}");
    }
    true
}
