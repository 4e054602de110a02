//! Whole runs: repeated, without violations, and with worlds that are wrong on purpose.

use crate::{Report, Settings, Wrong, run};

fn simulate(seed: u64, wrong: Option<Wrong>) -> Report {
    run(&Settings { seed, wrong, ..Settings::default() })
}

/// Seeds that once failed, each because of the fault named.
const MENDED: [(u64, &str); 2] = [
    (5, "the auditor took an expired key for a change"),
    (44, "a waiter whose clock is fast is early by the difference"),
];

#[test]
fn seeds_that_once_failed_have_no_violation() {
    for (seed, fault) in MENDED {
        let report = simulate(seed, None);
        assert!(report.violations.is_empty(), "{fault}: {report}");
    }
}

#[test]
fn a_seed_repeats_each_event() {
    for seed in 1..=2 {
        let (once, again) = (simulate(seed, None), simulate(seed, None));
        assert_eq!(once.hash, again.hash);
        assert_eq!(once.faults, again.faults);
        assert_ne!(once.hash, simulate(seed + 10, None).hash);
    }
}

#[test]
fn faults_happen_and_decisions_are_made() {
    let reports: Vec<_> = (1..=3).map(|seed| simulate(seed, None)).collect();
    let faults: u64 = reports.iter().flat_map(|report| report.faults.values()).sum();
    assert!(faults > 100, "{faults}");
    assert!(reports.iter().all(|report| report.decisions > 1_000));
}

/// Returns the message of the first violation of the first seed that has one.
fn found(wrong: Wrong, seeds: std::ops::RangeInclusive<u64>) -> String {
    let mut violations = seeds.flat_map(|seed| simulate(seed, Some(wrong)).violations);
    violations.next().unwrap_or_else(|| panic!("{wrong:?} was not found")).message
}

#[test]
fn wrong_worlds_are_found() {
    let over = "permits were admitted in";
    for (wrong, seeds, message) in [
        (Wrong::ExecutesTwice, 1..=1, "after the faults had stopped"),
        (Wrong::RefundsTwice, 1..=1, over),
        (Wrong::DecidesWrongly, 1..=1, over),
        (Wrong::FailsAfterExecution, 1..=1, "the server has charged"),
        (Wrong::LosesKeys, 1..=1, over),
        (Wrong::ChargesLeasesForTheirStart, 1..=8, over),
        (Wrong::SendsAgain, 1..=1, "the server has charged"),
    ] {
        let seen = found(wrong, seeds);
        assert!(seen.contains(message), "{wrong:?}: {seen}");
    }
}
