//! Comparisons of the same load with leases and without: of one seed, or of many.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use limiter_sim::compare;

use super::{runs::for_each, seeds::Seeds};

/// Compares the load of one seed, and prints the comparison. Returns whether nothing is worse with leases.
pub(super) fn compare_one(seed: u64) -> bool {
    let comparison = compare(seed);
    print!("{comparison}");
    comparison.worse().is_empty()
}

/// Compares the loads of all seeds, and prints those that are worse. Returns whether none is worse with leases.
pub(super) fn compare_all(seeds: &Seeds) -> bool {
    let (compared, worse) = (AtomicU64::new(0), AtomicU64::new(0));
    for_each(seeds, |seed| {
        compared.fetch_add(1, Relaxed);
        let what = compare(seed).worse();
        if !what.is_empty() {
            worse.fetch_add(1, Relaxed);
            println!("seed {seed} is worse with leases: {}", what.join("; "));
        }
    });
    let (compared, worse) = (compared.into_inner(), worse.into_inner());
    println!("{compared} seeds compared, {worse} worse with leases");
    worse == 0
}
