//! Random quotas and random traffic, which shrink to the smallest that still fails.

use std::time::Duration;

use limiter_core::{
    Cost, Kind, Limit, Policy, Quota, Timestamp,
    algorithm::{Meter, Resolution},
};
use proptest::{collection::vec, prelude::*, strategy::Union};

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

/// The last moment of a schedule, after 20 years: a recovery more is still within the 27 years
/// that a limiter in memory can tell.
pub const END: Timestamp = Timestamp::from_nanos(20 * 365 * DAY);

/// One request, and how far the clock moves before it.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// In nanoseconds; backwards if it is negative.
    pub gap: i64,
    /// The permits asked for.
    pub cost: Cost,
}

/// A policy and the traffic that tries it.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The policy.
    pub policy: Policy,
    /// The requests, in order.
    pub steps: Vec<Step>,
}

impl Scenario {
    /// Returns the quota of the policy's limit with the shortest window.
    ///
    /// # Panics
    ///
    /// Never: a policy has at least one limit.
    #[must_use]
    pub fn quota(&self) -> Quota {
        *self.policy.limits().first().expect("a policy has a limit").quota()
    }

    /// Returns each request with the moment at which it comes. The clock starts an hour after its
    /// zero, and stays within 20 years.
    pub fn requests(&self) -> impl Iterator<Item = (Timestamp, Cost)> {
        let mut now = 3_600 * SECOND;
        self.steps.iter().map(move |step| {
            now = now.saturating_add_signed(step.gap).min(END.as_nanos());
            (Timestamp::from_nanos(now), step.cost)
        })
    }
}

/// Whether a schedule's clock may step back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// It stands still or goes forward.
    Forward,
    /// It also goes back.
    AnyWay,
}

/// Returns policies of GCRA that `resolution` can hold, with up to `most` requests each.
///
/// Rates are from one a week to 5,000,000 a second, gaps from none to years in whole ticks of the
/// resolution, costs from one to above the burst.
pub fn scenarios(
    resolution: Resolution,
    time: Time,
    most: usize,
) -> impl Strategy<Value = Scenario> {
    let policies = quotas(resolution)
        .prop_map(|quota| Policy::gcra("test", quota).expect("the quota can be held"));
    traffic(policies, resolution, time, most)
}

/// Returns `policies` with up to `most` requests each, whose moments aim at the edges of windows
/// and slots.
pub fn traffic(
    policies: impl Strategy<Value = Policy>,
    resolution: Resolution,
    time: Time,
    most: usize,
) -> impl Strategy<Value = Scenario> {
    policies.prop_flat_map(move |policy| {
        // Each request aims at one of the limits.
        let steps = policy.limits().iter().map(|limit| step(limit, resolution, time).boxed());
        let steps = Union::new(steps);
        vec(steps, 1..=most).prop_map(move |steps| Scenario { policy: policy.clone(), steps })
    })
}

/// Returns quotas of one permit a week to 5,000,000 a second that `resolution` can hold.
pub fn quotas(resolution: Resolution) -> impl Strategy<Value = Quota> {
    let window_ms = prop_oneof![
        Just(1),
        Just(1_000),
        Just(60_000),
        Just(86_400_000),
        Just(7 * 86_400_000),
        1..=1_000_u64,
        1..=366 * 86_400_000_u64,
    ];
    let magnitude = (any::<u64>(), 0..=63_u32).prop_map(|(bits, shift)| (bits >> shift).max(1));
    let burst = prop_oneof![Just(None), Just(Some(1)), magnitude.clone().prop_map(Some)];
    (window_ms, magnitude, burst).prop_filter_map(
        "a quota that can't be held",
        move |(window_ms, permits, burst)| {
            let week_ms = 7 * 86_400_000;
            let permits = permits.clamp((window_ms / week_ms).max(1), window_ms * 5_000);
            let quota = Quota::per(permits, Duration::from_millis(window_ms)).ok()?;
            let quota = match burst {
                Some(burst) => quota.with_burst(burst % (4 * permits) + 1).ok()?,
                None => quota,
            };
            Meter::new(&quota, resolution).is_ok().then_some(quota)
        },
    )
}

fn step(limit: &Limit, resolution: Resolution, time: Time) -> impl Strategy<Value = Step> + use<> {
    let quota = *limit.quota();
    let window = u64::try_from(quota.window().as_nanos()).expect("a window is within 366 days");
    let slots = match limit.kind() {
        Kind::SubWindows(slots) => u64::from(slots.number()),
        _ => 1,
    };
    let slot = (window / 1_000).div_ceil(slots) * 1_000;
    let interval = (window / quota.permits()).max(1);
    let edge = (prop_oneof![Just(slot), Just(window), Just(window + slot)], 0..=2_u64)
        .prop_map(|(edge, around)| edge + around - 1);
    let forward = prop_oneof![
        4 => Just(0),
        4 => 0..=interval.saturating_mul(2),
        2 => 0..=window,
        2 => edge,
        1 => 0..=slot,
        1 => 0..=interval.saturating_mul(quota.burst()).min(END.as_nanos()),
        1 => 0..=3 * 365 * DAY,
    ];
    let back = if time == Time::AnyWay { 1 } else { 0 };
    let gap = (forward, 0..4_u32).prop_map(move |(gap, coin)| {
        let tick = match resolution {
            Resolution::Micros => 1_000,
            _ => 1,
        };
        let gap = (gap - gap % tick).cast_signed();
        if coin < back { -gap } else { gap }
    });
    let burst = quota.burst();
    let cost = prop_oneof![
        6 => Just(1),
        4 => 1..=burst,
        1 => Just(burst),
        1 => burst..=burst.saturating_add(2),
        1 => Just(u64::MAX),
    ];
    (gap, cost).prop_map(|(gap, cost)| Step { gap, cost: Cost::new(cost).expect("not zero") })
}
