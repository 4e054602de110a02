//! Replaced policies, tiers and clocks in unkind orders.

use std::{
    pin::pin,
    task::{Context, Waker},
    time::Duration,
};

use limiter_core::{Cost, ManualClock, MemoryLimiter, Policy, Timestamp, UnkeyedLimiter};

fn parse(name: &str, text: &str) -> Policy {
    Policy::parse(name, text).unwrap()
}

fn limiter(policy: Policy) -> (MemoryLimiter<ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    let limiter = MemoryLimiter::new(policy).unwrap().with_capacity(8).unwrap();
    (limiter.with_clock(clock.clone()), clock)
}

fn cost(permits: u64) -> Cost {
    Cost::new(permits).unwrap()
}

const SECOND: Duration = Duration::from_secs(1);

/// A window that was promised for later was once pulled into the present, and the present one, which
/// was full, forgotten: by any replacement, even by the same policy.
#[test]
fn a_replaced_policy_leaves_promises_where_they_are() {
    for kind in [
        "fixed-window",
        "fixed-window aligned",
        "sliding-counter",
        "sliding-log",
        "sub-windows 6 slots",
        "gcra",
    ] {
        let policy = |permits: u64| parse("test", &format!("{permits}/min by {kind}"));
        let (limiter, clock) = limiter(policy(10));
        let mut admitted = 0;
        for round in 0..20 {
            while limiter.try_acquire("key", Cost::ONE).is_admitted() {
                admitted += 1;
            }
            let promised = limiter.reserve("key", cost(1 + round % 10), 3_600 * SECOND);
            if let Some(receipt) = promised.into_receipt() {
                limiter.refund(receipt.keep(round % 2));
            }
            clock.advance(Duration::from_millis(1));
            limiter.replace(policy(10 + round % 2)).unwrap();
        }
        assert!(admitted <= 12, "{admitted} admitted in 20 ms by 11/min by {kind}");
    }
}

/// A debt was scaled by the new quota and not lowered to what that can be owed until the key came
/// back, however much later.
#[test]
fn an_idle_key_recovers_by_the_new_quota() {
    let (limiter, clock) = limiter(parse("test", "1000/s"));
    for key in 0..16_u64 {
        assert!(limiter.try_acquire(key, cost(1_000)).is_admitted());
    }
    limiter.replace(parse("test", "1/s")).unwrap();
    clock.advance(10 * SECOND);
    assert!(limiter.try_acquire(0_u64, Cost::ONE).is_admitted());
    assert!(limiter.try_acquire("newcomer", Cost::ONE).is_admitted());
    assert!(limiter.try_acquire("another", Cost::ONE).is_admitted());
}

#[test]
fn a_policy_that_is_replaced_by_itself_changes_nothing() {
    let (limiter, clock) = limiter(parse("test", "10/min"));
    let receipt = limiter.reserve("key", cost(4), Duration::ZERO).into_receipt().unwrap();
    assert!(limiter.try_acquire("key", cost(6)).is_admitted());
    for _ in 0..100 {
        clock.advance(SECOND / 100);
        limiter.replace(parse("test", "10/min")).unwrap();
    }
    assert_eq!(limiter.peek("key").reset_after(), 59 * SECOND);
    limiter.refund(receipt);
    assert_eq!(limiter.peek("key").reset_after(), 36 * SECOND);
}

/// A charge was measured by the new quota as if it had been by that all along, and what had drained
/// of it by the old one was given back.
#[test]
fn a_receipt_from_before_another_quota_gives_back_nothing() {
    let (limiter, clock) = limiter(parse("test", "1000/s"));
    let receipt = limiter.reserve("key", cost(500), Duration::ZERO).into_receipt().unwrap();
    assert!(limiter.try_acquire("key", cost(500)).is_admitted());
    clock.advance(SECOND * 2 / 5);
    limiter.replace(parse("test", "1/s burst 1000")).unwrap();
    let remaining = limiter.peek("key").remaining();
    limiter.refund(receipt);
    assert_eq!(limiter.peek("key").remaining(), remaining);
}

/// Keys that share the overflow are rewritten too.
#[test]
fn a_replaced_policy_finds_every_debt() {
    let (limiter, _) = limiter(parse("test", "2/min by fixed-window"));
    for key in 0..40_u64 {
        let _ = limiter.try_acquire(key, cost(2));
    }
    limiter.replace(parse("test", "300/min by fixed-window")).unwrap();
    for key in 0..40_u64 {
        let remaining = limiter.peek(key).remaining();
        assert!(remaining <= 298, "key {key} has {remaining}");
    }
}

/// The others were once owed at the moment for which the permits were promised.
#[test]
fn what_one_tier_promises_does_not_hold_another() {
    let policy = parse("free", "1/h").with_tier(parse("premium", "100/s")).unwrap();
    let (free, _) = limiter(policy);
    for _ in 0..3 {
        assert!(free.reserve("key", Cost::ONE, 36_000 * SECOND).delay().is_some());
    }
    assert!(free.tier("premium").unwrap().try_acquire("key", Cost::ONE).is_admitted());
}

/// A wait behind one who waits by another tier was foreseen by the own tier alone.
#[test]
fn a_wait_behind_another_tier_is_foreseen() {
    for quotas in [("2/4s", "200/4s"), ("1/h", "100/h"), ("1/3s", "100/s")] {
        let policy = parse("free", quotas.0).with_tier(parse("premium", quotas.1)).unwrap();
        let (free, clock) = limiter(policy);
        let premium = free.tier("premium").unwrap();
        while free.try_acquire("key", Cost::ONE).is_admitted() {}
        let mut waiting = pin!(free.acquire("key", Cost::ONE));
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());

        let due = clock.next_wake().unwrap().saturating_since(Timestamp::ZERO);
        let wait = premium.try_acquire("key", Cost::ONE).retry_after();
        assert!(wait >= Some(due), "{wait:?}, behind one who is due in {due:?}");
        let refused = premium.acquire_blocking("key", Cost::ONE, Some(due / 2));
        assert!(!refused.decision().is_admitted());
        clock.advance(wait.unwrap());
        assert!(waiting.as_mut().poll(&mut context).is_ready());
        assert!(premium.try_acquire("key", Cost::ONE).is_admitted(), "{quotas:?}");
    }
}

/// The other way round: the one who waits has the larger quota.
#[test]
fn a_wait_behind_a_larger_tier_is_foreseen_by_that_tier() {
    let policy = parse("free", "1/h").with_tier(parse("premium", "10/s burst 1")).unwrap();
    let (free, clock) = limiter(policy);
    let premium = free.tier("premium").unwrap();
    assert!(premium.try_acquire("key", Cost::ONE).is_admitted());
    let mut context = Context::from_waker(Waker::noop());
    let mut waiting: Vec<_> = (0..5).map(|_| Box::pin(premium.acquire("key", Cost::ONE))).collect();
    for waiting in &mut waiting {
        assert!(waiting.as_mut().poll(&mut context).is_pending());
    }
    let wait = premium.try_acquire("key", Cost::ONE).retry_after();
    assert_eq!(wait, Some(6 * SECOND / 10));
    let last = premium.acquire_within("key", Cost::ONE, 6 * SECOND / 10);
    assert!(Box::pin(last).as_mut().poll(&mut context).is_pending());
    // What they will take is owed by the other tier too.
    let wait = free.try_acquire("key", Cost::ONE).retry_after();
    assert!(wait >= Some(3_600 * SECOND), "{wait:?}");
    clock.advance(SECOND);
}

#[test]
fn aligned_windows_are_aligned_whatever_has_been_changed() {
    let clock = ManualClock::new();
    let now = 1_700_000_017;
    clock.set(Timestamp::ZERO.saturating_add(now * SECOND));
    let left = Some(SECOND * (60 - now % 60));
    let aligned = |name| parse(name, "1/min by fixed-window aligned");
    let policies = [
        aligned("test"),
        aligned("test").with_tier(aligned("tier")).unwrap(),
        Policy::several("test", [aligned("minute"), parse("hour", "1000/h")]).unwrap(),
    ];
    for policy in policies {
        let limiter = MemoryLimiter::new(policy.clone()).unwrap().with_capacity(5).unwrap();
        let limiter = limiter.with_clock(clock.clone()).with_capacity(9).unwrap();
        let unkeyed = UnkeyedLimiter::new(policy.clone()).unwrap().with_clock(clock.clone());
        let other = parse("test", "2/min by fixed-window aligned");
        for change in [None, Some(policy.clone()), Some(other)] {
            if let Some(change) = change {
                let _ = limiter.replace(change.clone());
                let _ = unkeyed.replace(change);
            }
            while limiter.try_acquire("key", Cost::ONE).is_admitted() {}
            while unkeyed.try_acquire(Cost::ONE).is_admitted() {}
            assert_eq!(limiter.try_acquire("key", Cost::ONE).retry_after(), left, "{policy:?}");
            assert_eq!(unkeyed.try_acquire(Cost::ONE).retry_after(), left, "{policy:?}");
            if let Ok(tier) = limiter.tier("tier") {
                assert_eq!(tier.try_acquire("key", Cost::ONE).retry_after(), left);
            }
        }
    }
}

/// Time stood still for a limiter whose clock was set back before it was made.
#[test]
fn a_clock_may_be_set_back_before_the_limiter_was_made() {
    let clock = ManualClock::new();
    clock.set(Timestamp::ZERO.saturating_add(3_600 * SECOND));
    let limiter = MemoryLimiter::new(parse("test", "1/s")).unwrap().with_clock(clock.clone());
    assert!(limiter.try_acquire("key", Cost::ONE).is_admitted());
    clock.set(Timestamp::ZERO);
    assert_eq!(limiter.try_acquire("key", Cost::ONE).retry_after(), Some(SECOND));
    clock.advance(SECOND);
    assert!(limiter.try_acquire("key", Cost::ONE).is_admitted());
}

/// A clock that shows its zero for a moment must not cost the decades that states have room for.
#[test]
fn a_clock_may_be_set_back_by_decades_for_a_moment() {
    let clock = ManualClock::new();
    let now = Timestamp::ZERO.saturating_add(1_790_000_000 * SECOND);
    clock.set(now);
    let limiter = MemoryLimiter::new(parse("test", "1/s")).unwrap().with_clock(clock.clone());
    assert!(limiter.try_acquire("key", Cost::ONE).is_admitted());
    clock.set(Timestamp::ZERO);
    let _ = limiter.try_acquire("key", Cost::ONE);
    clock.set(now);
    for _ in 0..3 {
        clock.advance(SECOND);
        assert!(limiter.try_acquire("key", Cost::ONE).is_admitted());
        assert!(!limiter.try_acquire("key", Cost::ONE).is_admitted());
    }
}

/// What a step back has lowered was given back once more.
#[test]
fn a_receipt_from_before_a_step_back_gives_back_nothing() {
    let (limiter, clock) = limiter(parse("test", "1/s burst 10"));
    clock.set(Timestamp::ZERO.saturating_add(100 * SECOND));
    let receipt = limiter.reserve("key", cost(5), Duration::ZERO).into_receipt().unwrap();
    clock.set(Timestamp::ZERO);
    assert!(!limiter.try_acquire("key", Cost::ONE).is_admitted());
    clock.set(Timestamp::ZERO.saturating_add(99 * SECOND));
    assert!(limiter.try_acquire("key", cost(10)).is_admitted());
    limiter.refund(receipt);
    assert_eq!(limiter.peek("key").remaining(), 0);
}

#[test]
fn a_receipt_of_another_limiter_gives_back_nothing() {
    let (one, _) = limiter(parse("test", "1/min"));
    let receipt = one.reserve("key", Cost::ONE, Duration::ZERO).into_receipt().unwrap();
    let unkeyed = UnkeyedLimiter::new(parse("test", "1/min")).unwrap();
    let other = UnkeyedLimiter::new(parse("test", "1/min")).unwrap();
    let foreign = unkeyed.reserve(Cost::ONE, Duration::ZERO).into_receipt().unwrap();
    assert!(other.try_acquire(Cost::ONE).is_admitted());
    other.refund(foreign);
    other.refund(receipt);
    assert!(!other.try_acquire(Cost::ONE).is_admitted());
}
