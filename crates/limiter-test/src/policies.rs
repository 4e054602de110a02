//! Random policies of every kind, as a limiter in memory can hold them.

use std::time::Duration;

use limiter_core::{
    Kind, Policy, Quota,
    algorithm::{Resolution::Nanos, Slots, Start},
};
use proptest::prelude::*;

use crate::schedule::quotas;

/// Returns policies of one limit, of any kind.
pub fn any_single() -> impl Strategy<Value = Policy> {
    let by_rate = (rate_kinds(), quotas(Nanos));
    let by_window = (window_kinds(), windows());
    prop_oneof![by_rate, by_window]
        .prop_filter_map("a quota that can't be held", |(kind, quota)| {
            Policy::new("test", kind, quota).ok()
        })
}

/// Returns policies of one limit of a kind with windows.
pub fn any_window() -> impl Strategy<Value = Policy> {
    (window_kinds(), windows()).prop_filter_map("a window that can't be cut", |(kind, quota)| {
        Policy::new("test", kind, quota).ok()
    })
}

/// Returns policies of two or three limits, of any kinds.
pub fn any_several() -> impl Strategy<Value = Policy> {
    let kinds = prop_oneof![rate_kinds(), window_kinds()];
    let limit = (kinds, 1..=10_u64, 1..=50_u64);
    proptest::collection::vec(limit, 2..=3).prop_filter_map("limits at odds", |limits| {
        let (mut permits, mut window_ms) = (0, 0);
        let mut policies = Vec::new();
        for (index, (kind, more_permits, more_ms)) in limits.into_iter().enumerate() {
            permits += more_permits;
            window_ms += more_ms * 10;
            let quota = Quota::per(permits, Duration::from_millis(window_ms)).ok()?;
            policies.push(Policy::new(&format!("limit {index}"), kind, quota).ok()?);
        }
        Policy::several("test", policies).ok()
    })
}

/// Returns policies of any kind, of one limit or several.
pub fn any_policy() -> impl Strategy<Value = Policy> {
    prop_oneof![3 => any_single(), 1 => any_several()]
}

/// Returns two policies of the same kinds, with other quotas.
pub fn any_two_alike() -> impl Strategy<Value = (Policy, Policy)> {
    let by_rate = (rate_kinds(), quotas(Nanos), quotas(Nanos));
    let by_window = (window_kinds(), windows(), windows());
    let single = prop_oneof![by_rate, by_window].prop_filter_map("unfit", |(kind, one, other)| {
        Some((Policy::new("test", kind, one).ok()?, Policy::new("other", kind, other).ok()?))
    });
    let several = any_several().prop_filter_map("unfit", |one| {
        // The same limits, twice as much in thrice the time.
        let limits = one.limits().iter().map(|limit| {
            let quota = limit.quota();
            let quota = Quota::per(quota.permits() * 2, quota.window() * 3)?;
            Policy::new(limit.name(), limit.kind(), quota)
        });
        let limits = limits.collect::<Result<Vec<_>, _>>().ok()?;
        let other = Policy::several("other", limits).ok()?;
        Some((one, other))
    });
    let two = prop_oneof![4 => single, 1 => several];
    (two, any::<bool>())
        .prop_map(|((one, other), swap)| if swap { (other, one) } else { (one, other) })
}

fn rate_kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Gcra),
        Just(Kind::TokenBucket),
        Just(Kind::LeakyBucket),
        (0..=10_u64).prop_map(|depth| Kind::LeakyQueue { depth }),
    ]
}

fn window_kinds() -> impl Strategy<Value = Kind> {
    let slots = (prop_oneof![1..=12_u32, Just(60), Just(1_000)], any::<bool>(), any::<bool>());
    let slots = slots.prop_map(|(number, loose, paced)| {
        let slots = if loose { Slots::loose(number) } else { Slots::strict(number) };
        let slots = slots.expect("the number is in range");
        if paced { slots.paced() } else { slots }
    });
    prop_oneof![
        Just(Kind::FixedWindow(Start::FirstUse)),
        Just(Kind::FixedWindow(Start::Aligned)),
        slots.prop_map(Kind::SubWindows),
        Just(Kind::SlidingCounter),
        Just(Kind::SlidingLog),
    ]
}

/// Returns quotas of a few permits, so that windows are filled, and now and then of many.
fn windows() -> impl Strategy<Value = Quota> {
    let window_ms = prop_oneof![
        Just(1),
        Just(1_000),
        Just(60_000),
        Just(366 * 86_400_000),
        1..=1_000_u64,
        1..=86_400_000_u64,
    ];
    let permits = prop_oneof![4 => 1..=15_u64, 1 => 16..=5_000_u64];
    (window_ms, permits).prop_map(|(window_ms, permits)| {
        Quota::per(permits, Duration::from_millis(window_ms)).expect("the quota is valid")
    })
}
