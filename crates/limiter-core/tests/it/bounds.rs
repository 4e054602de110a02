//! The published bounds: no traffic exceeds them, and some traffic reaches them.

use std::time::Duration;

use limiter_core::{Algorithm, Policy, Quota};
use limiter_test::{
    bounds::{
        adversary::{Effort, Means, attack},
        cases, drained, published,
    },
    policies::sub_windows,
};
use proptest::{prelude::*, sample::select};

#[test]
fn each_bound_is_reached_exactly() {
    let effort = Effort { climbs: 200, seed: 1, means: Means::Refund };
    for (name, policy) in cases::policies() {
        for limit in policy.limits() {
            let attack = attack(&policy, limit, limit.quota().window(), effort);
            let bound = published(limit);
            assert_eq!(attack.most, bound, "{bound} for {name}: {attack:?}");
        }
    }
}

/// The permit that starts a window lies a whole window before the next one can start.
#[test]
fn a_window_of_one_permit_from_its_use_on_never_admits_two() {
    let quota = Quota::per_second(1);
    let policy = Policy::fixed_window("one", quota);
    let effort = Effort { climbs: 1_000, seed: 1, means: Means::Refund };
    assert_eq!(attack(&policy, &policy.limits()[0], quota.window(), effort).most, 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn no_traffic_exceeds_the_bound(policy in policies(algorithms()), seed in any::<u64>()) {
        let limit = &policy.limits()[0];
        for means in [Means::Refund, Means::StepBack] {
            let effort = Effort { climbs: 60, seed, means };
            let attack = attack(&policy, limit, limit.quota().window(), effort);
            let bound = published(limit);
            prop_assert!(attack.most <= bound, "{bound} for {limit:?}: {attack:?}");
        }
    }

    #[test]
    fn a_debt_that_drains_holds_its_bound_in_windows_of_any_length(
        policy in policies(debts()),
        window in 1..5_000_000_000_u64,
        seed in any::<u64>(),
    ) {
        let (limit, window) = (&policy.limits()[0], Duration::from_nanos(window));
        let effort = Effort { climbs: 60, seed, means: Means::Reserve };
        let attack = attack(&policy, limit, window, effort);
        let bound = drained(limit.quota(), window);
        prop_assert!(attack.most <= bound, "{bound} in {window:?} for {limit:?}: {attack:?}");
    }

    #[test]
    fn no_traffic_exceeds_the_bounds_of_several_limits(
        (short, long) in (algorithms(), algorithms()),
        (permits, more) in (1..5_u64, 1..5_u64),
        seed in any::<u64>(),
    ) {
        let quota = |permits, millis| Quota::new(permits, Duration::from_millis(millis)).unwrap();
        let short = Policy::new("short", short, quota(permits, 1_000)).unwrap();
        let long = Policy::new("long", long, quota(permits + more, 3_000)).unwrap();
        // No two of them may be paced.
        let both = Policy::all_of("both", [short, long]);
        prop_assume!(both.is_ok());
        let both = both.unwrap();
        for limit in both.limits() {
            let effort = Effort { climbs: 30, seed, means: Means::Reserve };
            let attack = attack(&both, limit, limit.quota().window(), effort);
            let bound = published(limit);
            prop_assert!(attack.most <= bound, "{bound} for {limit:?}: {attack:?}");
        }
    }
}

/// Policies of few permits, so that an adversary finds what there is.
fn policies(algorithms: impl Strategy<Value = Algorithm>) -> impl Strategy<Value = Policy> {
    let windows = prop_oneof![Just(1_000), Just(7), Just(60_000), 1..2_000_u64];
    let bursts = prop_oneof![Just(None), (1..12_u64).prop_map(Some)];
    let quotas = (1..=20_u64, windows, bursts);
    (algorithms, quotas).prop_filter_map(
        "cut too finely",
        |(algorithm, (permits, window, burst))| {
            let quota = Quota::new(permits, Duration::from_millis(window)).unwrap();
            let is_rate = matches!(algorithm, Algorithm::Gcra | Algorithm::LeakyQueue { .. });
            let quota = match burst {
                Some(burst) if is_rate => quota.with_burst(burst),
                _ => quota,
            };
            Policy::new("any", algorithm, quota).ok()
        },
    )
}

fn algorithms() -> impl Strategy<Value = Algorithm> {
    let windows = Algorithm::one_of_each().filter(|it| !it.is_continuous());
    prop_oneof![
        1 => debts(),
        1 => sub_windows(1..12_u32),
        4 => select(windows.collect::<Vec<_>>()),
    ]
}

fn debts() -> impl Strategy<Value = Algorithm> {
    let queue = (0..5_u64).prop_map(|depth| Algorithm::LeakyQueue { depth });
    prop_oneof![Just(Algorithm::Gcra), queue]
}
