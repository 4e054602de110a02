//! Random policies of every algorithm.

use std::{ops::RangeInclusive, time::Duration};

use limiter_core::{Algorithm, Policy, Quota, Slots};
use proptest::{collection::vec, option, prelude::*};

use crate::schedule::quotas;

/// Returns policies of one limit, of any algorithm.
pub fn any_single() -> impl Strategy<Value = Policy> {
    groups_of_singles(1..=1).prop_map(|mut group| group.remove(0))
}

/// Returns policies of one limit of an algorithm with windows.
pub fn any_window() -> impl Strategy<Value = Policy> {
    (window_algorithms(), windows(), horizons())
        .prop_filter_map("a window that can't be cut", |(algorithm, quota, horizon)| {
            policy("test", algorithm, quota, horizon)
        })
}

/// Returns policies of two or three limits, of any algorithms.
pub fn any_several() -> impl Strategy<Value = Policy> {
    let algorithms = prop_oneof![rate_algorithms(), window_algorithms()];
    let limit = (algorithms, 1..=10_u64, 1..=50_u64);
    vec(limit, 2..=3).prop_filter_map("limits at odds", |limits| {
        let (mut permits, mut window_ms) = (0, 0);
        let mut policies = Vec::new();
        for (index, (algorithm, more_permits, more_ms)) in limits.into_iter().enumerate() {
            permits += more_permits;
            window_ms += more_ms * 10;
            let quota = Quota::new(permits, Duration::from_millis(window_ms)).ok()?;
            policies.push(Policy::new(&format!("limit {index}"), algorithm, quota).ok()?);
        }
        Policy::all_of("test", policies).ok()
    })
}

/// Returns policies of any algorithm, of one limit or several.
pub fn any_policy() -> impl Strategy<Value = Policy> {
    prop_oneof![3 => any_single(), 1 => any_several()]
}

/// Returns one to three policies of the same families, with other quotas, horizons, depths and
/// slots.
pub fn any_alike() -> impl Strategy<Value = Vec<Policy>> {
    prop_oneof![4 => groups_of_singles(1..=3), 1 => any_several_alike()]
}

/// Returns one to three policies of one limit each, of the same family.
pub fn any_singles_alike() -> impl Strategy<Value = Vec<Policy>> {
    groups_of_singles(1..=3)
}

/// Returns policies of one family. In most groups they share their states: the quotas have other permits within the same
/// window, and other bursts in proportion.
fn groups_of_singles(number: RangeInclusive<usize>) -> impl Strategy<Value = Vec<Policy>> {
    let rates = Just((rate_algorithms().boxed(), quotas().boxed()));
    let windows = window_families().prop_map(|family| (family, windows().boxed()));
    let families = prop_oneof![3 => rates, 4 => windows];
    let limits = families.prop_flat_map(move |(family, quotas)| {
        let limit = (family, quotas, horizons()).boxed();
        let apart = vec(limit.clone(), number.clone());
        let factors = vec(1..=5_u64, number.clone());
        let alike = (limit, factors).prop_map(|((algorithm, quota, horizon), factors)| {
            let scaled = factors.into_iter().map(|factor| {
                let scaled = Quota::new(quota.permits() * factor, quota.window());
                let scaled = scaled.and_then(|it| it.try_with_burst(quota.burst() * factor));
                (algorithm, scaled.unwrap_or(quota), horizon)
            });
            scaled.collect()
        });
        prop_oneof![3 => apart, 4 => alike]
    });
    limits.prop_filter_map("an algorithm that can't serve the quota", |limits: Vec<_>| {
        let policies = limits.into_iter().zip(["test", "second", "third"]);
        let policy = |((algorithm, quota, horizon), name)| policy(name, algorithm, quota, horizon);
        policies.map(policy).collect()
    })
}

/// Returns one to three policies of several limits: other permits in up to three times the time, so that
/// another limit can have the shortest window.
pub fn any_several_alike() -> impl Strategy<Value = Vec<Policy>> {
    (any_several(), 1..=3_usize).prop_filter_map("limits at odds", |(first, number)| {
        let scaled = |factor: u32| {
            let limits = first.limits().iter().enumerate().map(|(index, limit)| {
                let factor = if index == 0 { factor } else { factor - 1 };
                let quota = limit.quota();
                let permits = quota.permits() * (2 * u64::from(factor) + 1) / 2;
                let quota = Quota::new(permits, quota.window() * (factor + 1))?;
                Policy::new(limit.name(), limit.algorithm(), quota)
            });
            Policy::all_of("other", limits.collect::<Result<Vec<_>, _>>().ok()?).ok()
        };
        let others = (1..u32::try_from(number).ok()?).map(scaled);
        let mut group = vec![first.clone()];
        group.extend(others.collect::<Option<Vec<_>>>()?);
        Some(group)
    })
}

fn policy(
    name: &str,
    algorithm: Algorithm,
    quota: Quota,
    horizon: Option<Duration>,
) -> Option<Policy> {
    let policy = Policy::new(name, algorithm, quota).ok()?;
    match (horizon, algorithm) {
        (None, _) | (_, Algorithm::LeakyQueue { .. }) => Some(policy),
        (Some(horizon), _) => policy.with_horizon(horizon).ok(),
    }
}

fn horizons() -> impl Strategy<Value = Option<Duration>> {
    let millis = prop_oneof![Just(0), Just(1), 0..=5_000_u64, 0..=86_400_000_u64];
    option::of(millis.prop_map(Duration::from_millis))
}

fn rate_algorithms() -> impl Strategy<Value = Algorithm> {
    let queue = (0..=10_u64).prop_map(|depth| Algorithm::LeakyQueue { depth });
    prop_oneof![3 => Just(Algorithm::Gcra), 1 => queue]
}

fn window_algorithms() -> impl Strategy<Value = Algorithm> {
    window_families().prop_flat_map(|family| family)
}

/// Returns the algorithms of each family with windows.
fn window_families() -> impl Strategy<Value = BoxedStrategy<Algorithm>> {
    let slots = sub_windows(prop_oneof![1..=12_u32, Just(60), Just(1_000)]).boxed();
    prop_oneof![
        Just(Just(Algorithm::FixedWindow).boxed()),
        Just(Just(Algorithm::AlignedWindow).boxed()),
        Just(Just(Algorithm::SlidingCounter).boxed()),
        Just(Just(Algorithm::SlidingLog).boxed()),
        Just(slots),
    ]
}

/// Returns sub-windows of all kinds, with so many slots.
pub fn sub_windows(slots: impl Strategy<Value = u32>) -> impl Strategy<Value = Algorithm> {
    (slots, any::<bool>(), any::<bool>()).prop_map(|(number, loose, paced)| {
        let slots = if loose && number > 1 { Slots::loose(number) } else { Slots::strict(number) };
        Algorithm::SubWindows(if paced { slots.paced() } else { slots })
    })
}

/// Returns quotas of a few permits, so that windows are filled, and now and then of many.
fn windows() -> impl Strategy<Value = Quota> {
    let window_ms = prop_oneof![
        2 => Just(1),
        4 => Just(1_000),
        1 => Just(60_000),
        1 => Just(366 * 86_400_000),
        4 => 1..=1_000_u64,
        2 => 1_000..=5_000_u64,
        1 => 1..=86_400_000_u64,
    ];
    let permits = prop_oneof![4 => 1..=15_u64, 1 => 16..=5_000_u64];
    (window_ms, permits).prop_map(|(window_ms, permits)| {
        Quota::new(permits, Duration::from_millis(window_ms)).expect("the quota is valid")
    })
}
