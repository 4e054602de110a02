//! What is changed while someone waits.

use limiter_core::{Cost, ManualClock, MemoryLimiter, Policy, Quota, Timestamp};

use super::{Crowd, evenly, every_kind, keyed, ms, single};

#[test]
fn a_charge_refuses_a_waiter_that_is_due_after_its_deadline_by_then() {
    let (limiter, clock) = keyed(evenly(10));
    assert!(limiter.check("key").is_admitted());
    let mut crowd = Crowd::new(&clock);
    crowd.join(limiter.acquire("key", Cost::ONE, Some(ms(100))));
    crowd.settle();
    assert_eq!(limiter.charge("key", Cost::ONE).permits(), 1);
    crowd.run();
    assert_eq!((crowd.admitted.len(), crowd.refused), (0, vec![(0, ms(0))]));
    assert_eq!(limiter.check("key").retry_after(), Some(ms(200)));
}

/// A reload swaps the handle; waiters keep the policy that they asked under.
#[test]
fn waiters_keep_the_policy_that_they_asked_under() {
    let (limiter, clock) = keyed(log(2, 1));
    let slower = limiter.with_policy(&log(1, 1)).unwrap();
    let mut crowd = Crowd::new(&clock);
    crowd.join_for(&limiter, 4);
    crowd.join(slower.acquire("key", Cost::ONE, None));
    crowd.run();
    let times: Vec<_> = crowd.admitted.iter().map(|(_, at)| at.as_millis()).collect();
    assert_eq!(times, [0, 0, 1_000, 1_000, 2_000]);
}

fn log(permits: u64, seconds: u64) -> Policy {
    Policy::sliding_log("log", Quota::new(permits, ms(1_000 * seconds)).unwrap())
}

/// At the end of time a wait was once a busy loop.
#[test]
fn who_waits_at_the_end_of_time_waits_quietly() {
    let clock = ManualClock::new();
    for start in [0, u64::MAX] {
        clock.set(Timestamp::from_nanos(start));
        for policy in every_kind() {
            let limiter = MemoryLimiter::builder(policy).capacity(64).clock(clock.clone());
            let limiter = limiter.build().unwrap();
            clock.set(Timestamp::MAX);
            let mut crowd = Crowd::new(&clock);
            crowd.join_for(&limiter, 20);
            crowd.settle();
            assert_eq!(clock.next_wake(), None);
        }
    }
}

/// A check behind a waiter finds that the waiter's key has a slot again. The waiter was moved to now, and
/// slept until the moment at which it had expected a slot.
#[test]
fn a_waiter_that_a_check_moves_to_now_is_woken() {
    let (limiter, clock) = single(Policy::gcra("test", Quota::per_hour(1)));
    for key in 0..8 {
        assert!(limiter.check(key).is_admitted());
    }
    let mut crowd = Crowd::new(&clock);
    crowd.join(limiter.acquire("key", Cost::ONE, None));
    crowd.settle();
    assert_eq!((crowd.wakes(0), crowd.admitted.len()), (0, 0), "all slots are taken");
    for key in 0..8 {
        limiter.reset(key);
    }
    assert!(!limiter.check("key").is_admitted());
    crowd.settle();
    assert_eq!(crowd.order(), [0]);
}
