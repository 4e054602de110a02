//! Whole runs with requests in flight: without violations, repeated, and with worlds that are wrong on purpose.

use crate::{Report, Settings, Wrong, run};

/// Simulates less than the program does, because tests run without optimization.
fn simulate(seed: u64, wrong: Option<Wrong>) -> Report {
    let (processes, faults_for) = (Some(3), 8_000_000);
    let without = wrong.map_or_else(Vec::new, Wrong::best_without);
    let in_flight = true;
    run(&Settings { seed, wrong, processes, faults_for, without, in_flight, ..Settings::default() })
}

#[test]
fn requests_in_flight_have_no_violation_and_do_all_that_is_checked() {
    let mut counts = [0; 8];
    for seed in 1..=16 {
        let report = simulate(seed, None);
        assert!(report.violations.is_empty(), "{report}");
        let it = report.in_flight;
        let of_run = [
            it.admitted,
            it.refused,
            it.renewed,
            it.restored,
            it.lost,
            it.over,
            it.reset,
            it.local,
        ];
        counts.iter_mut().zip(of_run).for_each(|(all, more)| *all += more);
    }
    assert!(counts.iter().all(|count| *count > 5), "{counts:?}");
}

#[test]
fn a_seed_with_requests_in_flight_repeats_each_event() {
    let (once, again) = (simulate(1, None), simulate(1, None));
    assert_eq!((once.hash, once.in_flight), (again.hash, again.in_flight));
    assert_ne!(once.hash, simulate(2, None).hash);
}

#[test]
fn wrong_worlds_with_requests_in_flight_are_found_by_their_bound() {
    for wrong in [
        Wrong::RenewsWithoutRoom,
        Wrong::PermitsByClientClocks,
        Wrong::DeadlinesFromReplies,
        Wrong::IgnoresDeadlines,
        Wrong::LeavesEarly,
        Wrong::RenewalsForgetExpiry,
    ] {
        let is_found = |seed| {
            let found = simulate(seed, Some(wrong)).violations;
            found.iter().any(|it| it.message.contains("requests are in flight that entered under"))
        };
        // One of them takes 113.
        assert!((1..=300).any(is_found), "{wrong:?}");
    }
}

#[test]
fn wrong_worlds_with_resets_and_shares_are_found_by_their_own_checks() {
    for (wrong, message) in [
        (Wrong::IgnoresResets, "a key was reset, and "),
        (Wrong::ForgetsShares, " requests in flight of a key, but its share is "),
    ] {
        let is_found = |seed| {
            let found = simulate(seed, Some(wrong)).violations;
            found.iter().any(|it| it.message.contains(message))
        };
        assert!((1..=20).any(is_found), "{wrong:?}");
    }
}
