//! The ends of every range: no panic and no overflow, whatever is asked, whenever.

use std::{mem, time::Duration};

use limiter_core::{
    Cost, Kind, ManualClock, MemoryLimiter, Policy, Quota, Timestamp,
    algorithm::{Algorithm, Counts, Entries, Single, Slots, Start, Tat, Window},
};

fn kinds() -> Vec<Kind> {
    let slots = [Slots::strict(1), Slots::strict(1_000), Slots::loose(1), Slots::loose(1_000)];
    let slots = slots.map(Result::unwrap);
    let mut kinds: Vec<_> = slots.iter().map(|slots| Kind::SubWindows(*slots)).collect();
    kinds.extend(slots.iter().map(|slots| Kind::SubWindows(slots.paced())));
    kinds.extend([
        Kind::Gcra,
        Kind::TokenBucket,
        Kind::LeakyBucket,
        Kind::LeakyQueue { depth: 0 },
        Kind::LeakyQueue { depth: u64::MAX },
        Kind::FixedWindow(Start::FirstUse),
        Kind::FixedWindow(Start::Aligned),
        Kind::SlidingCounter,
        Kind::SlidingLog,
    ]);
    kinds
}

/// Every kind with the shortest and the longest window, with one permit and with as many as can be
/// counted.
fn policies() -> Vec<Policy> {
    let mut policies = Vec::new();
    for kind in kinds() {
        for window in [Duration::from_millis(1), Quota::MAX_WINDOW] {
            for bits in [0, 10, 20, 40, 52, 63] {
                let quota = Quota::per(1 << bits, window).unwrap();
                policies.extend(Policy::new("test", kind, quota));
                let short_burst = quota.with_burst(1).unwrap();
                policies.extend(Policy::new("test", kind, short_burst));
            }
        }
    }
    assert!(policies.len() > 100, "only {} policies can be held", policies.len());
    policies
}

const TIMES: [u64; 9] = [
    u64::MAX,
    0,
    1,
    u64::MAX - 1,
    1 << 60,
    u64::MAX / 2,
    1_790_000_000_000_000_000,
    u64::MAX,
    999_999_999,
];

fn costs(policy: &Policy) -> [Cost; 4] {
    let limit = policy.limits().first().unwrap().quota().burst();
    [1, limit, limit.saturating_add(1), u64::MAX].map(|cost| Cost::new(cost).unwrap())
}

#[test]
fn limiters_hold_at_the_ends_of_every_range() {
    for policy in policies() {
        for start in [0, 1, u64::MAX] {
            let clock = ManualClock::new();
            clock.set(Timestamp::from_nanos(start));
            let limiter = MemoryLimiter::new(policy.clone()).unwrap().with_capacity(16).unwrap();
            let limiter = limiter.with_clock(clock.clone());
            let mut receipts = Vec::new();
            for now in TIMES {
                clock.set(Timestamp::from_nanos(now));
                for cost in costs(&policy) {
                    let decision = limiter.try_acquire("key", cost);
                    assert!(decision.remaining() <= decision.limit(), "{policy:?} at {now}");
                    if !decision.is_admitted() {
                        assert_ne!(decision.retry_after(), Some(Duration::ZERO), "{policy:?}");
                    }
                    let within = Duration::from_nanos(u64::MAX);
                    receipts.extend(limiter.reserve("key", cost, within).into_receipt());
                    receipts.extend(limiter.reserve(now, cost, Duration::MAX).into_receipt());
                }
                if let Some(receipt) = receipts.pop() {
                    limiter.refund(receipt);
                }
                let usage = limiter.peek("key");
                assert!(usage.remaining() <= usage.limit(), "{policy:?} at {now}");
            }
            limiter.reset("key");
            receipts.into_iter().for_each(|receipt| limiter.refund(receipt));
        }
    }
}

/// Without a limiter, times do not start near zero.
#[test]
fn algorithms_hold_at_the_ends_of_time() {
    for policy in policies() {
        let limit = &policy.limits()[0];
        let algorithm = Single::new(limit.kind(), limit.quota()).unwrap();
        let mut state = Default::default();
        for now in TIMES.map(Timestamp::from_nanos) {
            for cost in costs(&policy) {
                algorithm.advance(&mut state, now, now);
                let usage = algorithm.usage(&state, now);
                assert!(usage.remaining() <= usage.limit(), "{policy:?}");
                if algorithm.decide(&mut state, now, cost).is_admitted() {
                    assert!(cost.get() <= usage.remaining(), "{cost} by {policy:?}");
                }
                algorithm.owe(&mut state, now, cost);
                algorithm.adopt(&mut state, &algorithm, now);
            }
        }
    }
}

/// Every pair of quotas takes over from each other.
#[test]
fn policies_replace_each_other_at_the_ends_of_every_range() {
    let policies = policies();
    for old in &policies {
        let kind = |policy: &Policy| mem::discriminant(&policy.limits()[0].kind());
        for new in policies.iter().filter(|new| kind(new) == kind(old)) {
            let clock = ManualClock::new();
            let limiter = MemoryLimiter::new(old.clone()).unwrap().with_capacity(1).unwrap();
            let limiter = limiter.with_clock(clock.clone());
            let _ = limiter.try_acquire("key", costs(old)[1]);
            if limiter.replace(new.clone()).is_ok() {
                let usage = limiter.peek("key");
                assert!(usage.remaining() <= usage.limit(), "{old:?}, then {new:?}");
                let retry = limiter.try_acquire("key", Cost::ONE).retry_after();
                assert!(retry.is_some(), "{old:?}, then {new:?}");
            }
        }
    }
}

/// As the documentation of the module `algorithm` tells.
#[test]
fn states_have_their_sizes() {
    assert_eq!(size_of::<Tat>(), 8);
    assert_eq!(size_of::<Window>(), 8);
    assert_eq!(size_of::<Counts>(), 24);
    assert_eq!(size_of::<Entries>(), 48);
}
