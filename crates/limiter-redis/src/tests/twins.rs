//! Law 8: each script and its twin of `limiter-twins` give the same reply, and leave the same values with the same
//! expiries: checks by `gcra.lua`, `window.lua`, `counter.lua` and `log.lua`, and what these leave undecided, several
//! limits, reservations and peeks by `policy.lua`, leases by `lease.lua`, then `refund.lua` and `reset.lua`, and requests in flight by `enter.lua`, `renew.lua` and `leave.lua`.
//!
//! Up to five policies with other quotas take turns on the keys of two subjects, over a clock that also steps back.

mod choice;
mod in_flight;
mod planted;
mod rig;
mod traffic;

use std::{cell::Cell, ops::RangeInclusive, time::Duration};

use limiter_core::{Algorithm, Cost, Policy, Quota, Slots};
use limiter_test::properties;
use proptest::{collection::vec, prelude::*, sample::select, test_runner::TestRunner};

use self::traffic::Pair;
use super::store::Store;

/// When schedules begin, in microseconds of Unix time.
const START: i64 = 1_702_080_000_000_000;

/// How many calls there are in a case at most.
const CALLS: usize = 300;

/// A step of the clock in thousandths of a window for each permit, a cost, and what is called.
type Step = (i64, u64, u64);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let gap = prop_oneof![
        4 => Just(0_i64),
        8 => 0..=1_500_i64,
        4 => 0..=20_000_i64,
        1 => 0..=2_000_000_i64,
        1 => -3_000_000..=0_i64,
    ];
    let cost = prop_oneof![8 => Just(1_u64), 4 => 2..=6_u64, 1 => 1..=3_000_u64];
    vec((gap, cost, any::<u64>()), 1..CALLS)
}

/// Returns one to five policies with the families of the first.
fn turns(policies: impl Strategy<Value = Policy> + Clone) -> impl Strategy<Value = Vec<Policy>> {
    let all = prop_oneof![vec(policies.clone(), 1..=1), vec(policies, 2..=5),];
    all.prop_filter("other families", |all| {
        all.iter().all(|policy| policy.families() == all[0].families())
    })
}

/// Runs random schedules of policies that take turns.
fn agree(name: &str, policies: impl Strategy<Value = Policy> + Clone) {
    let store = Store::new();
    let calls = Cell::new(0);
    let result = TestRunner::new(properties::config(file!(), 64)).run(
        &(turns(policies), steps()),
        |(policies, steps)| {
            let mut pair = Pair::new(&policies);
            run(&mut pair, &policies[0], &steps);
            calls.set(calls.get() + pair.compare(&store)?);
            Ok(())
        },
    );
    println!("{name}: {} calls", calls.get());
    result.unwrap();
}

/// Makes the calls of a schedule.
fn run(pair: &mut Pair, policy: &Policy, steps: &[Step]) {
    let (quota, mut now) = (*policy.limits()[0].quota(), START);
    let permit = quota.window().as_micros() / u128::from(quota.permits()).clamp(1, 1_000);
    for (gap, cost, choice) in steps {
        let step = i64::try_from(permit.max(1)).unwrap().saturating_mul(*gap) / 1_000;
        now = (now + step).clamp(START - 1_000_000_000_000, START + 900_000_000_000_000);
        pair.random(now, Cost::new(*cost).unwrap(), *choice);
    }
}

fn quota(permits: u64, window_ms: u64) -> Option<Quota> {
    Quota::new(permits, Duration::from_millis(window_ms)).ok()
}

fn rates() -> impl Strategy<Value = Quota> + Clone {
    let window_ms = prop_oneof![
        Just(1_000_u64),
        Just(60_000),
        Just(3_600_000),
        Just(86_400_000),
        1..=5_000_u64,
        1..=366 * 86_400_000_u64,
    ];
    let permits = prop_oneof![4 => 1..=120_u64, 1 => 1..=100_000_u64, 1 => 1..=4_000_000_u64];
    let burst = prop_oneof![2 => Just(None), 3 => (1..=30_u64).prop_map(Some)];
    (window_ms, permits, burst).prop_filter_map(
        "a quota that can't be",
        |(window, permits, burst)| {
            let quota = quota(permits, window)?;
            burst.map_or(Some(quota), |burst| quota.try_with_burst(burst).ok())
        },
    )
}

fn windows() -> impl Strategy<Value = Quota> + Clone {
    let window_ms = prop_oneof![Just(1_u64), Just(1_000), 1..=1_000_u64, 1..=366 * 86_400_000_u64];
    let permits = prop_oneof![4 => 1..=15_u64, 1 => 16..=5_000_u64, 1 => 1..=50_000_000_u64];
    (window_ms, permits)
        .prop_filter_map("a quota that can't be", |(window, permits)| quota(permits, window))
}

/// Returns policies, some of them with a horizon of their own.
fn policies(
    algorithms: impl Strategy<Value = Algorithm> + Clone,
    quotas: impl Strategy<Value = Quota> + Clone,
) -> impl Strategy<Value = Policy> + Clone {
    let horizon = prop_oneof![3 => Just(None), 1 => (0..=100_000_u64).prop_map(Some)];
    (algorithms, quotas, horizon).prop_filter_map("not served", |(algorithm, quota, horizon)| {
        let policy = Policy::new("test", algorithm, quota).ok()?;
        let horizon = horizon.map(Duration::from_millis);
        Some(horizon.and_then(|it| policy.clone().with_horizon(it).ok()).unwrap_or(policy))
    })
}

fn gcra() -> impl Strategy<Value = Policy> + Clone {
    let algorithms = prop_oneof![
        3 => Just(Algorithm::Gcra),
        1 => (0..=10_u64).prop_map(|depth| Algorithm::LeakyQueue { depth }),
    ];
    policies(algorithms, rates())
}

/// Returns policies of several limits.
fn several<S: Strategy<Value = Policy>>(
    any: impl Fn() -> S,
    count: RangeInclusive<usize>,
) -> impl Strategy<Value = Policy> {
    vec(any(), count).prop_filter_map("limits at odds", |limits| {
        let limits = limits.iter().enumerate().map(|(index, policy)| {
            let limit = &policy.limits()[0];
            Policy::new(&format!("limit {index}"), limit.algorithm(), *limit.quota()).unwrap()
        });
        Policy::all_of("test", limits).ok()
    })
}

fn sub_windows() -> impl Strategy<Value = Algorithm> + Clone {
    let number = prop_oneof![1..=12_u32, Just(60), Just(1_000)];
    (number, any::<bool>(), any::<bool>()).prop_map(|(number, loose, paced)| {
        let slots = if loose && number > 1 { Slots::loose(number) } else { Slots::strict(number) };
        Algorithm::SubWindows(if paced { slots.paced() } else { slots })
    })
}

#[test]
fn gcra_and_its_twin_agree() {
    agree("gcra", gcra());
}

#[test]
fn the_fixed_window_and_its_twin_agree() {
    agree("fixed window", policies(Just(Algorithm::FixedWindow), windows()));
}

#[test]
fn the_aligned_window_and_its_twin_agree() {
    agree("aligned window", policies(Just(Algorithm::AlignedWindow), windows()));
}

#[test]
fn the_sliding_counter_and_its_twin_agree() {
    agree("sliding counter", policies(Just(Algorithm::SlidingCounter), windows()));
}

#[test]
fn sub_windows_and_their_twin_agree() {
    agree("sub-windows", policies(sub_windows(), windows()));
}

#[test]
fn the_log_and_its_twin_agree() {
    agree("log", policies(Just(Algorithm::SlidingLog), windows()));
}

/// Quotas of which permits are leased, by leases of several lengths.
fn leased_quotas() -> impl Strategy<Value = Quota> + Clone {
    let burst = prop_oneof![Just(None), (20..=5_000_u64).prop_map(Some)];
    (500..=3_000_u64, 100..=2_000_u64, burst).prop_filter_map(
        "a quota that can't be",
        |(window, permits, burst)| {
            let quota = quota(permits, window)?;
            burst.map_or(Some(quota), |burst| quota.try_with_burst(burst).ok())
        },
    )
}

#[test]
fn leases_and_their_twins_agree() {
    agree("leases by gcra", policies(Just(Algorithm::Gcra), leased_quotas()));
    let algorithms =
        vec![Algorithm::FixedWindow, Algorithm::AlignedWindow, Algorithm::SlidingCounter];
    agree("leases by windows", policies(select(algorithms), leased_quotas()));
}

#[test]
fn leases_that_begin_later_and_their_twins_agree() {
    for algorithm in [Algorithm::Gcra, Algorithm::SlidingCounter] {
        let store = Store::new();
        let (calls, ahead) = (Cell::new(0), Cell::new(0));
        let gaps = vec((0..=20_000_i64, 1..=3_u64, any::<u64>()), 1..=CALLS);
        let cases = (turns(policies(Just(algorithm), leased_quotas())), gaps);
        let result =
            TestRunner::new(properties::config(file!(), 64)).run(&cases, |(policies, steps)| {
                let (mut pair, mut now) = (Pair::new(&policies), START);
                for (gap, cost, choice) in steps {
                    now += gap;
                    pair.lease(now, Cost::new(cost).unwrap(), choice);
                }
                ahead.set(ahead.get() + pair.ahead);
                calls.set(calls.get() + pair.compare(&store)?);
                Ok(())
            });
        println!("{algorithm:?}: {} calls, {} leases that begin later", calls.get(), ahead.get());
        result.unwrap();
        assert!(ahead.get() > 0);
    }
}

#[test]
fn several_limits_and_their_twins_agree() {
    let of_windows: Vec<_> = Algorithm::one_of_each().filter(|it| !it.is_continuous()).collect();
    let any = || {
        prop_oneof![
            3 => gcra(),
            3 => policies(select(of_windows.clone()), windows()),
            1 => policies(sub_windows(), windows()),
        ]
    };
    let several = several(any, 2..=5);
    let store = Store::new();
    let calls = Cell::new(0);
    let cases = (several, vec(1..=20_u64, 5), steps());
    let result =
        TestRunner::new(properties::config(file!(), 64)).run(&cases, |(policy, factors, steps)| {
            // A second policy with other permits, and the same windows.
            let factor = |limit: &limiter_core::Limit| {
                let place = policy.limits().iter().position(|other| other == limit).unwrap();
                let (quota, factor) = (limit.quota(), factors[place]);
                let quota = Quota::new(quota.permits().saturating_mul(factor), quota.window());
                Ok((limit.algorithm(), quota.unwrap_or(*limit.quota())))
            };
            let other = policy.with_quotas(factor).unwrap_or_else(|_| policy.clone());
            let mut pair = Pair::new(&[policy.clone(), other]);
            run(&mut pair, &policy, &steps);
            calls.set(calls.get() + pair.compare(&store)?);
            Ok(())
        });
    println!("several: {} calls", calls.get());
    result.unwrap();
}
