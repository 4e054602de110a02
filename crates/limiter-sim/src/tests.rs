//! Whole runs: repeated, without violations, and with worlds that are wrong on purpose.

use std::{
    collections::{BTreeSet, HashSet},
    mem::{Discriminant, discriminant},
};

use limiter_core::{Algorithm, Limit, Slots};

use crate::{
    Fault, Report, Settings, Wrong, fleet::Fleet, random::Random, run, vocabulary::KEYS,
    world::World,
};

/// Simulates less than the program does, because tests run without optimization.
fn simulate(seed: u64, wrong: Option<Wrong>) -> Report {
    let suspends = |fault: &Fault| wrong.is_some() && fault.suspends_judgement();
    let without = Fault::all().filter(suspends).collect();
    let (processes, faults_for) = (Some(3), 5_000_000);
    run(&Settings { seed, wrong, processes, faults_for, without })
}

#[test]
fn seeds_have_no_violation_and_most_permits_are_checked() {
    let (mut faults, mut admitted, mut counted) = (BTreeSet::new(), 0, 0);
    for seed in 100..105 {
        let report = simulate(seed, None);
        assert!(report.violations.is_empty(), "{report}");
        (admitted, counted) = (admitted + report.permits.0, counted + report.permits.1);
        faults.extend(report.faults.into_keys());
    }
    assert!(admitted > 10_000 && counted > admitted / 2, "{counted} of {admitted}");
    assert!(faults.len() > 15, "{faults:?}");
}

#[test]
fn a_seed_repeats_each_event() {
    let (once, again) = (simulate(1, None), simulate(1, None));
    assert_eq!((once.hash, once.faults), (again.hash, again.faults));
    assert_ne!(once.hash, simulate(2, None).hash);
}

/// `cargo xtask simulate --wrong all` finds the others, too, which take more seeds.
#[test]
fn wrong_worlds_are_found() {
    for name in ["refunds-what-has-drained", "sends-again", "forgets-sleeps"] {
        let wrong = Wrong::all().find(|wrong| wrong.name() == name);
        assert!(wrong.is_some(), "{name}");
        assert!((1..=20).any(|seed| !simulate(seed, wrong).violations.is_empty()), "{name}");
    }
}

#[test]
fn there_are_clusters_of_which_each_node_has_keys_and_slots_move() {
    let (mut sizes, mut has_two) = (BTreeSet::new(), false);
    for seed in 1..=20 {
        let world = World::new(&Settings { seed, ..Settings::default() }).unwrap();
        let stored: Vec<_> = world
            .network
            .with_record(|record, _| record.stored().map(|(key, _)| key.clone()).collect());
        let nodes = world.network.with_servers(|servers| {
            stored.iter().map(|key| servers.node_of(key)).collect::<BTreeSet<_>>()
        });
        sizes.insert(world.network.nodes());
        has_two |= nodes.len() > 1;
        assert!(stored.len() >= KEYS.len());
    }
    assert!(has_two);
    assert_eq!(sizes, BTreeSet::from([1, 2, 3]));
    let moves = |seed| simulate(seed, None).faults.contains_key(&Fault::SlotMoved);
    assert!((1..=20).any(moves));
}

/// A variant, and whether its slots are loose and whether they are paced.
type Form = (Discriminant<Algorithm>, Option<(bool, bool)>);

fn form(algorithm: Algorithm) -> Form {
    let slots = match algorithm {
        Algorithm::SubWindows(slots) => Some((slots.is_loose(), slots.is_paced())),
        _ => None,
    };
    (discriminant(&algorithm), slots)
}

#[test]
fn fleets_have_each_algorithm_alone_and_as_one_of_several_limits() {
    let (mut alone, mut several) = (HashSet::new(), HashSet::new());
    for seed in 1..=200 {
        let fleet = Fleet::new(&mut Random::new(seed), 3).unwrap();
        for policy in (0..fleet.limiters()).flat_map(|limiter| fleet.tiers(limiter)) {
            let drawn = if policy.limits().len() == 1 { &mut alone } else { &mut several };
            drawn.extend(policy.limits().iter().map(Limit::algorithm).map(form));
        }
    }
    let (strict, loose) = (Slots::strict(2), Slots::loose(2));
    let forms = [strict.paced(), loose, loose.paced()].map(Algorithm::SubWindows);
    for algorithm in Algorithm::one_of_each().chain(forms) {
        assert!(alone.contains(&form(algorithm)), "{algorithm} is never drawn alone");
        assert!(several.contains(&form(algorithm)), "{algorithm} is never one of several limits");
    }
}
