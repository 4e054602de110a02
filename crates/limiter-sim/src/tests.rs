//! Whole runs: repeated, without violations, and with worlds that are wrong on purpose.

mod algorithms;
mod in_flight;

use crate::{Fault, Report, Settings, Wrong, run, vocabulary::subject, world::World};

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

/// Returns the worlds of the first seeds, before anything happens in them.
fn worlds() -> impl Iterator<Item = World> {
    let settings = |seed| Settings { seed, ..Settings::default() };
    (1..=40).map(move |seed| World::new(&settings(seed)).unwrap())
}

#[test]
fn there_are_clusters_of_which_each_node_has_keys() {
    let mut nodes: Vec<usize> = worlds().map(|world| world.network.nodes()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    assert_eq!(nodes, [1, 2, 3]);
    let has_keys_on_two_nodes = |world: World| {
        world.network.with_records(|records, _| {
            let nodes = [0, 1].map(|key| records.auditor.node(subject(0, key)));
            nodes[0] != nodes[1]
        })
    };
    assert!(worlds().any(has_keys_on_two_nodes));
}

#[test]
fn there_are_policies_of_several_limits_and_work_that_is_charged_afterwards() {
    let has_several = |world: &World| {
        let fleet = &world.processes.fleet;
        (0..fleet.limiters())
            .any(|limiter| fleet.tiers(limiter).iter().all(|it| it.limits().len() > 1))
    };
    let several = worlds().filter(has_several).count();
    assert!((5..35).contains(&several), "{several}");
    let charges = worlds().filter(|world| world.processes.fleet.charges).count();
    assert!((5..35).contains(&charges), "{charges}");
}

#[test]
fn quotas_and_settings_change() {
    let mut changes: Vec<Fault> =
        [15, 21].into_iter().flat_map(|seed| simulate(seed, None).faults.into_keys()).collect();
    changes.sort_unstable();
    for fault in [Fault::TierChanged, Fault::QuotaReloaded, Fault::SettingsChanged] {
        assert!(changes.binary_search(&fault).is_ok(), "{fault}");
    }
}

/// `cargo xtask simulate --wrong all` finds the others, too, which take more seeds: those about leases, reservations, debts of
/// other quotas and long waits.
#[test]
fn wrong_worlds_are_found() {
    for wrong in [
        Wrong::ExecutesTwice,
        Wrong::RefundsTwice,
        Wrong::DecidesWrongly,
        Wrong::FailsAfterExecution,
        Wrong::LosesKeys,
        Wrong::SendsAgain,
        Wrong::LosesWrites,
        Wrong::ClockRunsFast,
        Wrong::NeverReconnects,
        Wrong::ForgetsSleeps,
        Wrong::RefundsWhatHasDrained,
        Wrong::NamesNoWaits,
    ] {
        let is_found = |seed| !simulate(seed, Some(wrong)).violations.is_empty();
        assert!((1..=12).any(is_found), "{wrong:?}");
    }
}
