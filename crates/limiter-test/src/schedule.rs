//! Random quotas and random traffic, which shrink to the smallest case that still fails.

use std::time::Duration;

use limiter_core::{Algorithm, Cost, Limit, Policy, Quota, Timestamp};
use proptest::{collection::vec, prelude::*, strategy::Union};

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

/// The last moment of a schedule, after 20 years.
pub const END: Timestamp = Timestamp::from_nanos(20 * 365 * DAY);

/// The smallest step of a limiter's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tick {
    /// A nanosecond, as in memory.
    Nano,
    /// A microsecond, as in Redis.
    Micro,
}

/// One request, and how far the clock moves before it.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// In nanoseconds; negative for a step back.
    pub gap: i64,
    /// The permits asked for.
    pub cost: Cost,
    /// Which of the scenario's policies is asked, modulo their number.
    pub turn: usize,
}

/// Policies that take turns on one key, and the traffic that tries them.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The policy that the limiter is built with.
    pub policy: Policy,
    /// Policies of the same families that take turns with it.
    pub others: Vec<Policy>,
    /// The requests, in order.
    pub steps: Vec<Step>,
}

/// One request of a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// When it is sent.
    pub now: Timestamp,
    /// The policy that it is sent under.
    pub policy: &'a Policy,
    /// The permits asked for.
    pub cost: Cost,
}

impl Scenario {
    /// Returns the quota of the first policy's first limit.
    ///
    /// # Panics
    ///
    /// Never: a policy has at least one limit.
    #[must_use]
    pub fn quota(&self) -> Quota {
        *self.policy.limits().first().expect("a policy has a limit").quota()
    }

    /// Returns all policies, the first one included.
    pub fn policies(&self) -> impl Iterator<Item = &Policy> + Clone {
        std::iter::once(&self.policy).chain(&self.others)
    }

    /// Returns whether several policies take turns.
    #[must_use]
    pub fn is_mixed(&self) -> bool {
        !self.others.is_empty()
    }

    /// Returns the requests. The clock starts an hour after its zero, and stays within 20 years.
    pub fn requests(&self) -> impl Iterator<Item = Request<'_>> {
        let mut now = 3_600 * SECOND;
        let turns = self.others.len() + 1;
        self.steps.iter().map(move |step| {
            now = now.saturating_add_signed(step.gap).min(END.as_nanos());
            let policy = match step.turn % turns {
                0 => &self.policy,
                turn => self.others.get(turn - 1).unwrap_or(&self.policy),
            };
            Request { now: Timestamp::from_nanos(now), policy, cost: step.cost }
        })
    }
}

/// Whether a schedule's clock may step back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// It stays or moves forward.
    Forward,
    /// It also steps back.
    AnyWay,
}

/// Returns policies of GCRA with up to `most` requests each.
///
/// Rates are from one a week to 5,000,000 a second, gaps from none to years in whole ticks, costs
/// from one to above the burst.
pub fn scenarios(tick: Tick, time: Time, most: usize) -> impl Strategy<Value = Scenario> {
    let policies = quotas().prop_filter_map("a quota that can't be served", |quota| {
        Policy::new("test", Algorithm::Gcra, quota).ok()
    });
    traffic(policies, tick, time, most)
}

/// Returns `policies` with up to `most` requests each, whose moments aim at the edges of windows
/// and slots.
pub fn traffic(
    policies: impl Strategy<Value = Policy>,
    tick: Tick,
    time: Time,
    most: usize,
) -> impl Strategy<Value = Scenario> {
    mixed(policies.prop_map(|policy| vec![policy]), tick, time, most)
}

/// Returns groups of `policies` that take turns in up to `most` requests.
pub fn mixed(
    policies: impl Strategy<Value = Vec<Policy>>,
    tick: Tick,
    time: Time,
    most: usize,
) -> impl Strategy<Value = Scenario> {
    policies.prop_flat_map(move |mut policies| {
        // Each request aims at one of the limits.
        let limits = policies.iter().flat_map(Policy::limits);
        let steps = Union::new(limits.map(|limit| step(limit, tick, time).boxed()));
        let policy = policies.remove(0);
        vec(steps, 1..=most).prop_map(move |steps| Scenario {
            policy: policy.clone(),
            others: policies.clone(),
            steps,
        })
    })
}

/// Returns quotas of one permit a week to 5,000,000 a second.
pub fn quotas() -> impl Strategy<Value = Quota> {
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
    let quota = (window_ms, magnitude, burst);
    quota.prop_filter_map("an invalid quota", |(window_ms, permits, burst)| {
        let week_ms = 7 * 86_400_000;
        let permits = permits.clamp((window_ms / week_ms).max(1), window_ms * 5_000);
        let quota = Quota::new(permits, Duration::from_millis(window_ms)).ok()?;
        match burst {
            Some(burst) => quota.try_with_burst(burst % (4 * permits) + 1).ok(),
            None => Some(quota),
        }
    })
}

/// Returns the length of a limit's slots in nanoseconds: the window if it has none.
#[must_use]
pub fn slot_of(limit: &Limit) -> u64 {
    let micros = limit.quota().window().as_micros();
    let slots = match limit.algorithm() {
        Algorithm::SubWindows(slots) => u128::from(slots.number()),
        _ => 1,
    };
    u64::try_from(micros.div_ceil(slots) * 1_000).expect("a window is within 366 days")
}

pub(crate) fn step(limit: &Limit, tick: Tick, time: Time) -> impl Strategy<Value = Step> + use<> {
    let quota = *limit.quota();
    let window = u64::try_from(quota.window().as_nanos()).expect("a window is within 366 days");
    let slot = slot_of(limit);
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
        let tick = if tick == Tick::Micro { 1_000 } else { 1 };
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
    (gap, cost, any::<usize>()).prop_map(|(gap, cost, turn)| Step {
        gap,
        cost: Cost::of(cost),
        turn,
    })
}
