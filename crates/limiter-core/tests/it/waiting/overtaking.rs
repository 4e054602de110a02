//! No request overtakes the waiters.

use std::time::Duration;

use limiter_core::{Cost, Policy, Quota};

use super::{Crowd, cost, every_kind, keyed, ms, now};

#[test]
fn nothing_overtakes_and_the_reported_wait_is_exact() {
    for policy in every_kind() {
        for permits in [1, 3] {
            let name = format!("{permits} of {policy:?}");
            let (limiter, clock) = keyed(policy.clone());
            let mut crowd = Crowd::new(&clock);
            for index in 0..20 {
                crowd.join(limiter.acquire("key", cost(1 + index % 2), None));
            }
            crowd.run_until(ms(100));
            let permits = cost(permits);
            let refusal = limiter.check_n("key", permits);
            assert!(!refusal.is_admitted(), "{name}");
            let reserved = limiter.reserve("key", permits, Duration::MAX);
            assert_eq!(reserved.delay(), None, "{name}");
            assert_eq!(reserved.decision(), refusal, "{name}");
            assert!(limiter.acquire_blocking("key", permits, Some(ms(1))).delay().is_none());

            let due = now(&clock) + refusal.retry_after().unwrap();
            crowd.run_until(due - Duration::from_nanos(1));
            let early = limiter.check_n("key", permits);
            assert_eq!(early.retry_after(), Some(Duration::from_nanos(1)), "{name}");
            crowd.run_until(due);
            assert!(crowd.admitted.len() == 20, "{name}");
            assert!(limiter.check_n("key", permits).is_admitted(), "{name}");
        }
    }
}

#[test]
fn a_reported_wait_holds_while_others_join_and_leave() {
    for policy in every_kind() {
        let (limiter, clock) = keyed(policy.clone());
        let mut crowd = Crowd::new(&clock);
        for index in 0..15 {
            crowd.join(limiter.acquire("key", cost(1 + index % 2), None));
            // A request in between affects no waiter.
            let _ = limiter.check_n("key", cost(2));
        }
        let before = limiter.check_n("key", Cost::ONE).retry_after();
        for _ in 0..5 {
            let joined = crowd.join(limiter.acquire("key", cost(2), None));
            assert!(limiter.check_n("key", Cost::ONE).retry_after() >= before);
            crowd.leave(joined);
            assert_eq!(limiter.check_n("key", Cost::ONE).retry_after(), before, "{policy:?}");
        }
        crowd.run();
        assert!(Some(now(&clock)) <= before, "{policy:?}");
    }
}

#[test]
fn who_waits_waits_behind_what_was_reserved() {
    let policy = Policy::gcra("test", Quota::per_second(10).with_burst(1));
    let (limiter, clock) = keyed(policy);
    for delay in [0, 100, 200] {
        assert_eq!(limiter.reserve("key", Cost::ONE, ms(200)).delay(), Some(ms(delay)));
    }
    let mut crowd = Crowd::new(&clock);
    crowd.join(limiter.acquire("key", Cost::ONE, None));
    crowd.run();
    assert_eq!(crowd.admitted, [(0, ms(300))]);
}

#[test]
fn other_keys_are_not_held_up() {
    let (limiter, clock) = keyed(super::evenly(10));
    let mut crowd = Crowd::new(&clock);
    for _ in 0..5 {
        crowd.join(limiter.acquire("busy", Cost::ONE, None));
    }
    // Enough keys that some are in the same places as the busy one.
    for key in 0..40_u64 {
        assert!(limiter.check_n(key, Cost::ONE).is_admitted(), "{key}");
    }
}

/// A clock that stepped back once held the waiters until it had caught up.
#[test]
fn a_clock_that_steps_back_costs_those_who_wait_one_recovery_at_most() {
    let (limiter, clock) = keyed(super::evenly(10));
    clock.advance(ms(3_600_000));
    let mut crowd = Crowd::new(&clock);
    for _ in 0..3 {
        crowd.join(limiter.acquire("key", Cost::ONE, None));
    }
    clock.set(limiter_core::Timestamp::ZERO);
    assert_eq!(limiter.check_n("key", Cost::ONE).retry_after(), Some(ms(300)));
    crowd.run();
    assert_eq!(crowd.admitted[1..], [(1, ms(100)), (2, ms(200))]);
}
