//! Whole runs with services: without violations, repeated, and with worlds that are wrong on purpose.

use crate::{
    Report, Settings, Wrong,
    random::Random,
    run,
    service_plan::{ALL, Outcome, Plan, TENANT, USER},
};

/// Simulates less than the program does, because tests run without optimization.
fn simulate(seed: u64, wrong: Option<Wrong>) -> Report {
    let (processes, faults_for) = (Some(3), 5_000_000);
    let without = wrong.map_or_else(Vec::new, Wrong::best_without);
    let services = true;
    run(&Settings { seed, wrong, processes, faults_for, without, services, ..Settings::default() })
}

#[test]
fn services_have_no_violation_and_do_all_that_is_checked() {
    let (mut counts, mut in_flight) = ([0; 11], [0; 5]);
    // In the last one, clients use up their own keys.
    for seed in (1..=16).chain([51]) {
        let report = simulate(seed, None);
        assert!(report.violations.is_empty(), "{report}");
        let it = report.services;
        let of_run = [
            it.admitted,
            it.left,
            it.left_over_limit,
            it.waited,
            it.left_waiting,
            it.given_back,
            it.strikes,
            it.cleared,
            it.blocks,
            it.refused_blocked,
            it.balanced,
        ];
        counts.iter_mut().zip(of_run).for_each(|(all, more)| *all += more);
        let it = report.in_flight;
        let of_run = [it.admitted, it.refused, it.renewed, it.lost, it.restored];
        in_flight.iter_mut().zip(of_run).for_each(|(all, more)| *all += more);
    }
    assert!(counts.iter().all(|count| *count > 5), "{counts:?}");
    let [admitted, refused, renewed, ..] = in_flight;
    assert!(admitted.min(refused).min(renewed) > 5, "{in_flight:?}");
}

#[test]
fn a_seed_with_services_repeats_each_event() {
    let (once, again) = (simulate(1, None), simulate(1, None));
    assert_eq!((once.hash, once.services), (again.hash, again.services));
    assert_ne!(once.hash, simulate(2, None).hash);
}

/// Requests wait for a slot, and the block is over before that begins. So the key is struck and blocked again.
#[test]
fn a_request_may_wait_for_longer_than_a_block() {
    let services = true;
    let report = run(&Settings { seed: 5276, faults_for: 0, services, ..Settings::default() });
    assert!(report.violations.is_empty(), "{report}");
    assert!(report.services.blocks > 1 && report.services.waited > 0, "{report}");
}

#[test]
fn seeds_differ_in_stores_outcomes_and_blocks() {
    let plans: Vec<Plan> =
        (1..=60).map(|seed| Plan::new(&mut Random::new(seed), None).unwrap()).collect();
    for stores in [1, 2, 4] {
        assert!(plans.iter().any(|plan| plan.in_first_store == stores), "{stores}");
    }
    let outcomes =
        [Outcome::Ignored, Outcome::GivenBack, Outcome::GivenBackInPart, Outcome::ChargedAfter];
    for outcome in outcomes {
        assert!(plans.iter().any(|plan| plan.outcome == outcome), "{outcome:?}");
    }
    for by_refusals in [true, false] {
        let blocks = |plan: &Plan| plan.block.is_some_and(|it| it.by_refusals == by_refusals);
        assert!(plans.iter().any(blocks), "{by_refusals}");
    }
    assert!(plans.iter().any(|plan| plan.block.is_none()));
    for doubles in [true, false] {
        let blocks = |plan: &Plan| plan.block.is_some_and(|it| it.doubling.is_some() == doubles);
        assert!(plans.iter().any(blocks), "{doubles}");
    }
    for clears in [true, false] {
        let blocks = |plan: &Plan| plan.block.is_some_and(|it| it.clears_on_success == clears);
        assert!(plans.iter().any(blocks), "{clears}");
    }
    for rule in [USER, TENANT, ALL] {
        assert!(plans.iter().any(|plan| plan.waiting(rule).is_some()), "{rule}");
    }
}

#[test]
fn wrong_worlds_with_services_are_found() {
    for (wrong, seeds) in [
        (Wrong::ShadowsFirst, 12),
        (Wrong::ForgetsRefunds, 60),
        (Wrong::StrikesWhileBlocked, 12),
        (Wrong::OwnKeyLast, 20),
        (Wrong::ChargesBeforeWaiting, 12),
        (Wrong::ForgetsLevels, 12),
        (Wrong::KeepsLevels, 12),
        (Wrong::LiftsBlocks, 12),
        (Wrong::KeepsStrikes, 12),
        (Wrong::KeepsPermits, 12),
        (Wrong::WorksAfterResponse, 12),
    ] {
        let is_found = |seed| !simulate(seed, Some(wrong)).violations.is_empty();
        assert!((1..=seeds).any(is_found), "{wrong:?}");
    }
}
