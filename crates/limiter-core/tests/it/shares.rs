//! What one of several processes may give out by itself.

use std::{num::NonZeroU32, time::Duration};

use limiter_core::{
    Cost, Kind, Limit, ManualClock, MemoryLimiter, Policy, Quota,
    algorithm::{Slots, Start},
};
use limiter_test::policies::{any_policy, any_two_alike};
use proptest::prelude::*;

fn number(processes: u32) -> NonZeroU32 {
    NonZeroU32::new(processes).unwrap()
}

fn numbers() -> impl Strategy<Value = NonZeroU32> {
    let some = prop_oneof![4 => 1..=20_u32, 2 => 1..=10_000_u32, 1 => any::<u32>()];
    some.prop_filter_map("zero", NonZeroU32::new)
}

/// Rates that are fast, and yet can be held, with any burst.
fn fast() -> impl Strategy<Value = Policy> {
    let longest = 366 * 86_400_000_u64;
    let scale = prop_oneof![Just(1), 1..=1_000_u64, 1..=longest];
    let ticks = prop_oneof![1..=20_u64, 1..=2_000_u64];
    (ticks, scale, any::<u64>(), -1..=1_i64).prop_filter_map(
        "a rate that can't be held",
        move |(ticks, scale, burst, more)| {
            // So many ticks a permit.
            let permits = (16_000_000 * scale).checked_add_signed(more)?;
            let quota = Quota::per(permits, Duration::from_millis(ticks * scale)).ok()?;
            let quota = quota.with_burst(burst % permits + 1).ok()?;
            Policy::gcra("test", quota).ok()
        },
    )
}

/// Checks what is said of each limit, and that its quota and kind could have been built.
fn is_a_share(whole: &Limit, share: &Limit, processes: NonZeroU32) {
    let (old, new, number) = (whole.quota(), share.quota(), u64::from(processes.get()));
    assert_eq!(share.name(), whole.name());
    let built = Quota::per(new.permits(), new.window()).unwrap();
    let built = built.with_burst(new.burst()).unwrap();
    Policy::new("test", share.kind(), built).unwrap();

    let rate =
        |quota: &Quota, other: &Quota| u128::from(quota.permits()) * other.window().as_millis();
    let least = new.permits() == 1 && new.window() > Quota::MAX_WINDOW - old.window();
    assert!(rate(new, old) * u128::from(number) <= rate(old, new) || least, "{old} {new}");
    assert!(new.burst() <= (old.burst() / number).max(1), "{old} {new}");
    match (whole.kind(), share.kind()) {
        (Kind::LeakyQueue { depth: old }, Kind::LeakyQueue { depth: new }) => {
            assert_eq!(new, old / number);
        }
        (old, new) => assert_eq!(new, old),
    }
}

fn is_a_shared_policy(whole: &Policy, share: &Policy, processes: NonZeroU32) {
    assert_eq!(share.name(), whole.name());
    assert_eq!(share.limits().len(), whole.limits().len());
    for (whole, share) in whole.limits().iter().zip(share.limits()) {
        is_a_share(whole, share, processes);
    }
}

fn is_applied(policy: Policy) {
    let limiter = MemoryLimiter::new(policy).unwrap().with_capacity(1).unwrap();
    let limiter = limiter.with_clock(ManualClock::new());
    let remaining = limiter.peek("key").remaining();
    if let Ok(cost) = Cost::new(remaining) {
        assert!(limiter.try_acquire("key", cost).is_admitted());
    }
    assert!(!limiter.try_acquire("key", Cost::ONE).is_admitted());
}

proptest! {
    #[test]
    fn any_policy_is_shared_among_any_number(policy in any_policy(), processes in numbers()) {
        let share = policy.shared_among(processes);
        is_a_shared_policy(&policy, &share, processes);
        is_applied(share);
        prop_assert_eq!(policy.shared_among(number(1)), policy);
    }

    #[test]
    fn any_fast_rate_is_shared_among_any_number(policy in fast(), processes in numbers()) {
        let share = policy.shared_among(processes);
        is_a_shared_policy(&policy, &share, processes);
        is_applied(share);
        prop_assert_eq!(policy.shared_among(number(1)), policy);
    }

    #[test]
    fn tiers_are_shared_too((policy, tier) in any_two_alike(), processes in numbers()) {
        let policy = policy.with_tier(tier).unwrap();
        let share = policy.shared_among(processes);
        is_a_shared_policy(&policy, &share, processes);
        is_a_shared_policy(&policy.tiers()[0], &share.tiers()[0], processes);
        // One can take the other's place.
        prop_assert!(policy.replaced_by(share.clone()).is_ok());
        MemoryLimiter::new(share).unwrap().tier(policy.tiers()[0].name()).unwrap();
    }
}

#[test]
fn shares_are_rounded_down() {
    let rows = [
        ("100/min", 3, "33/min"),
        ("100/min", 100, "1/min"),
        ("100/min", 101, "1/2min"),
        ("100/min burst 250", 4, "25/min burst 62"),
        ("100/min burst 1", 4, "25/min burst 1"),
        ("2/d", 7, "1/4d"),
        ("1/d", 1_000, "1/366d"),
        ("1/100d", 1_000, "1/300d"),
        ("7/min by leaky-queue depth 9", 3, "2/min by leaky-queue depth 3"),
        ("7/min by leaky-queue depth 2", 3, "2/min by leaky-queue depth 0"),
        ("7/10ms by sub-windows 10000 slots paced", 8, "1/20ms by sub-windows 10000 slots paced"),
        ("5/min by fixed-window aligned", 12, "1/3min by fixed-window aligned"),
        // 2.5 ns a permit; a seventh of that is 17.5 ns, and whole sixteenths are 281.
        ("400_000_000/s burst 70", 7, "16_000_000/281ms burst 10"),
        // Rounded down by half, it takes twice as long to recover.
        ("3/d burst 5490", 2, "1/d burst 1830"),
    ];
    for (whole, processes, share) in rows {
        let [whole, share] = [whole, share].map(|text| Policy::parse("test", text).unwrap());
        assert_eq!(whole.shared_among(number(processes)), share);
    }
}

#[test]
fn the_extremes_are_shared() {
    let quotas = [
        Quota::per(1, Quota::MAX_WINDOW).and_then(|quota| quota.with_burst(5)),
        Quota::per(1, Duration::from_millis(1)),
        Quota::per_second(16_000_000_000),
        Quota::per(u64::MAX, Quota::MAX_WINDOW),
        Quota::per(Quota::MAX_WINDOW.as_secs() * 16_000_000_000, Quota::MAX_WINDOW),
    ];
    let slots = Slots::strict(10_000).unwrap();
    let kinds = [
        Kind::Gcra,
        Kind::LeakyQueue { depth: u64::MAX },
        Kind::FixedWindow(Start::FirstUse),
        Kind::FixedWindow(Start::Aligned),
        Kind::SubWindows(slots),
        Kind::SubWindows(slots.paced()),
        Kind::SlidingCounter,
        Kind::SlidingLog,
    ];
    let mut shared = 0;
    for (quota, kind) in quotas.into_iter().flat_map(|quota| {
        let quota = quota.unwrap();
        kinds.map(move |kind| (quota, kind))
    }) {
        let Ok(policy) = Policy::new("test", kind, quota) else { continue };
        for processes in [1, 2, 3, 7, 1_000, u32::MAX - 1, u32::MAX] {
            let share = policy.shared_among(number(processes));
            is_a_shared_policy(&policy, &share, number(processes));
            MemoryLimiter::new(share).unwrap();
        }
        shared += 1;
    }
    assert!(shared > 20, "{shared} policies can be built");
}

/// A fallback's decisions are told as if they were the store's.
#[test]
fn a_limit_keeps_its_index_when_its_window_becomes_the_longer_one() {
    let limits = [("burst", "1/s"), ("minute", "1000/min")];
    let limits = limits.map(|(name, text)| Policy::parse(name, text).unwrap());
    let policy = Policy::several("test", limits).unwrap();
    let share = policy.shared_among(number(100));
    let windows: Vec<_> = share.limits().iter().map(|limit| limit.quota().window()).collect();
    assert_eq!(windows, [Duration::from_secs(100), Duration::from_secs(60)]);

    let limiter = MemoryLimiter::new(share).unwrap().with_clock(ManualClock::new());
    assert!(limiter.try_acquire("key", Cost::ONE).is_admitted());
    let refusal = limiter.try_acquire("key", Cost::ONE);
    assert_eq!(policy.limits()[refusal.limit_index()].name(), "burst");
}
