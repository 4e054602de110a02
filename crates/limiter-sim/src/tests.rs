//! Whole runs: repeated, without violations, and with worlds that are wrong on purpose.

use crate::{Report, Settings, Wrong, run};

fn settings(seed: u64, wrong: Option<Wrong>) -> Settings {
    Settings { seed, wrong, processes: Some(3), faults_for: 5_000_000, ..Settings::default() }
}

/// Simulates less than the program does, because tests run without optimization.
fn simulate(seed: u64, wrong: Option<Wrong>) -> Report {
    run(&settings(seed, wrong))
}

#[test]
fn seeds_have_no_violation() {
    for seed in 100..105 {
        let report = simulate(seed, None);
        assert!(report.violations.is_empty(), "{report}");
    }
}

#[test]
fn a_seed_repeats_each_event() {
    let (once, again) = (simulate(1, None), simulate(1, None));
    assert_eq!(once.hash, again.hash);
    assert_eq!(once.faults, again.faults);
    assert_ne!(once.hash, simulate(2, None).hash);
}

#[test]
fn faults_happen_and_decisions_are_made() {
    let reports: Vec<_> = (1..=2).map(|seed| simulate(seed, None)).collect();
    let faults: u64 = reports.iter().flat_map(|report| report.faults.values()).sum();
    assert!(faults > 100, "{faults}");
    assert!(reports.iter().all(|report| report.decisions > 500));
}

/// Returns the message of the first violation of the first seed that has one.
fn found(wrong: Wrong, seeds: std::ops::RangeInclusive<u64>) -> String {
    let mut violations = seeds.flat_map(|seed| simulate(seed, Some(wrong)).violations);
    violations.next().unwrap_or_else(|| panic!("{wrong:?} was not found")).message
}

/// `cargo xtask simulate --wrong all` also finds the five that take more seeds: about leases, reservations and long waits.
#[test]
fn wrong_worlds_are_found() {
    let over = "permits were admitted in";
    for (wrong, message) in [
        (Wrong::ExecutesTwice, "after the faults had stopped"),
        (Wrong::RefundsTwice, over),
        (Wrong::DecidesWrongly, over),
        (Wrong::FailsAfterExecution, "the server has charged"),
        (Wrong::LosesKeys, over),
        (Wrong::SendsAgain, "the server has charged"),
        (Wrong::LosesWrites, over),
        (Wrong::ClockRunsFast, over),
        (Wrong::NeverReconnects, "after the faults had stopped"),
        (Wrong::ForgetsSleeps, "still under way"),
        (Wrong::RefundsWhatHasDrained, over),
        (Wrong::ForgivesOtherDebts, over),
        (Wrong::NamesNoWaits, "calls in"),
    ] {
        let seen = found(wrong, 1..=12);
        assert!(seen.contains(message), "{wrong:?}: {seen}");
    }
}
