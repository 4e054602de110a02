//! Keys with one caller: no wait is found wrong when servers lose their scripts, and a wrong one is found.

use std::sync::atomic::Ordering::Relaxed;

use crate::{
    Settings, Violation, Wrong, alone,
    server::Server,
    vocabulary::{Micros, SETTLES_IN},
    world::World,
};

/// How often scripts are flushed.
const EVERY: Micros = 5_000;

/// Checks keys with one caller each, while the servers lose their scripts again and again or never. Returns what is found.
fn violations(seed: u64, wrong: Option<Wrong>, loses_scripts: bool) -> Vec<Violation> {
    let settings = Settings { seed, wrong, processes: Some(1), ..Settings::default() };
    let mut world = World::new(&settings).unwrap();
    world.is_over.store(true, Relaxed);
    world.executor.run_until(SETTLES_IN);
    let until = alone::start(&world.processes, &world.executor, &mut world.random);
    for time in (SETTLES_IN..until).step_by(usize::try_from(EVERY).unwrap()) {
        world.executor.run_until(time);
        if loses_scripts {
            world.network.with_servers(|server: &mut Server| server.flush_scripts(time));
        }
    }
    world.executor.clear();
    world.network.with_records(|records, _| std::mem::take(&mut records.violations))
}

fn is_early(violation: &Violation) -> bool {
    violation.message.ends_with("before their wait was over")
}

#[test]
fn a_second_call_for_a_lost_script_may_be_executed_after_the_wait() {
    for seed in 1..=12 {
        let violations = violations(seed, None, true);
        assert!(violations.is_empty(), "seed {seed}: {violations:?}");
    }
}

#[test]
fn waits_that_are_too_long_are_found() {
    let is_found = |seed| violations(seed, Some(Wrong::NamesLongWaits), false).iter().any(is_early);
    assert!((1..=12).any(is_found));
}
