//! What is changed while someone waits.

use limiter_core::{Acquire, Cost, ManualClock, Policy, Quota, Timestamp};

use super::{Crowd, cost, evenly, every_kind, keyed, ms, unkeyed};

#[test]
fn a_refund_lets_the_first_go_earlier() {
    let (limiter, clock) = keyed(evenly(10));
    let taken = limiter.reserve("key", Cost::ONE, ms(0)).into_receipt().unwrap();
    let mut crowd = Crowd::new(&clock);
    for _ in 0..2 {
        crowd.join(limiter.acquire("key", Cost::ONE));
    }
    crowd.run_until(ms(20));
    assert_eq!(limiter.try_acquire("key", Cost::ONE).retry_after(), Some(ms(280)));
    limiter.refund(taken);
    assert_eq!(limiter.try_acquire("key", Cost::ONE).retry_after(), Some(ms(200)));
    crowd.run();
    assert_eq!(crowd.admitted, [(0, ms(20)), (1, ms(120))]);
}

#[test]
fn a_refund_that_is_not_enough_lets_the_first_go_as_early_as_it_fits() {
    let policy = Policy::gcra("test", Quota::per_second(10).unwrap()).unwrap();
    let (limiter, clock) = unkeyed(policy);
    let taken = limiter.reserve(cost(10), ms(0)).into_receipt().unwrap();
    let mut crowd = Crowd::new(&clock);
    crowd.join(limiter.acquire(cost(10)));
    crowd.settle();
    assert_eq!(limiter.try_acquire(Cost::ONE).retry_after(), Some(ms(1_100)));
    limiter.refund(taken.keep(6));
    assert_eq!(limiter.try_acquire(Cost::ONE).retry_after(), Some(ms(700)));
    crowd.run();
    assert_eq!(crowd.admitted, [(0, ms(600))]);
}

#[test]
fn a_reset_lets_all_go_who_fit() {
    for policy in every_kind() {
        let (limiter, clock) = keyed(policy.clone());
        let mut crowd = Crowd::new(&clock);
        while crowd.admitted.len() == crowd.tasks.len() {
            crowd.join(limiter.acquire("key", Cost::ONE));
        }
        let admitted = crowd.admitted.len();
        for _ in 0..10 {
            crowd.join(limiter.acquire("key", Cost::ONE));
        }
        limiter.reset("other");
        crowd.settle();
        assert_eq!(crowd.admitted.len(), admitted, "{policy:?}");
        limiter.reset("key");
        crowd.settle();
        assert_eq!(crowd.admitted.len(), 2 * admitted, "{policy:?}");
        crowd.run();
        assert_eq!(crowd.order(), (0..admitted + 11).collect::<Vec<_>>(), "{policy:?}");
    }
}

#[test]
fn a_reset_of_a_limiter_without_keys_lets_the_first_go() {
    let (limiter, clock) = unkeyed(evenly(10));
    let mut crowd = Crowd::new(&clock);
    for _ in 0..3 {
        crowd.join(limiter.acquire(Cost::ONE));
    }
    limiter.reset();
    crowd.run();
    assert_eq!(crowd.admitted, [(0, ms(0)), (1, ms(0)), (2, ms(100))]);
}

/// Returns when three were admitted that waited by one a second, where the log's quota was
/// replaced at 500 ms.
fn replaced(
    acquire: impl Fn() -> Acquire<ManualClock>,
    clock: &ManualClock,
    replace: impl FnOnce(),
) -> Vec<u128> {
    let mut crowd = Crowd::new(clock);
    for _ in 0..3 {
        crowd.join(acquire());
    }
    crowd.run_until(ms(500));
    replace();
    crowd.run();
    crowd.admitted.iter().map(|(_, at)| at.as_millis()).collect()
}

fn log(permits: u64, seconds: u64) -> Policy {
    Policy::sliding_log("log", Quota::per(permits, ms(1_000 * seconds)).unwrap()).unwrap()
}

#[test]
fn a_faster_quota_lets_the_first_go_earlier() {
    let (limiter, clock) = keyed(log(1, 1));
    let times = replaced(
        || limiter.acquire("key", Cost::ONE),
        &clock,
        || limiter.replace(log(2, 1)).unwrap(),
    );
    assert_eq!(times, [0, 500, 1_000]);
}

#[test]
fn a_slower_quota_makes_the_first_wait_longer() {
    let (limiter, clock) = keyed(log(1, 1));
    let times = replaced(
        || limiter.acquire("key", Cost::ONE),
        &clock,
        || limiter.replace(log(1, 10)).unwrap(),
    );
    assert_eq!(times, [0, 10_000, 20_000]);
    let (limiter, clock) = unkeyed(log(1, 1));
    let times =
        replaced(|| limiter.acquire(Cost::ONE), &clock, || limiter.replace(log(1, 10)).unwrap());
    assert_eq!(times, [0, 10_000, 20_000]);
}

#[test]
fn a_quota_that_a_cost_no_longer_fits_refuses_who_waits_for_it() {
    let (limiter, clock) = keyed(log(3, 1));
    let mut crowd = Crowd::new(&clock);
    crowd.join(limiter.acquire("key", cost(3)));
    let large = crowd.join(limiter.acquire("key", cost(3)));
    let small = crowd.join(limiter.acquire("key", Cost::ONE));
    limiter.replace(log(2, 1)).unwrap();
    crowd.run();
    assert_eq!(crowd.refused, [(large, ms(0))]);
    assert_eq!(crowd.admitted[1..], [(small, ms(1_000))]);
}

#[test]
fn a_quota_that_makes_a_wait_too_long_refuses_at_once() {
    let (limiter, clock) = keyed(log(1, 1));
    let mut crowd = Crowd::new(&clock);
    crowd.join(limiter.acquire("key", Cost::ONE));
    let brief = crowd.join(limiter.acquire_within("key", Cost::ONE, ms(5_000)));
    let patient = crowd.join(limiter.acquire("key", Cost::ONE));
    limiter.replace(log(1, 10)).unwrap();
    crowd.run();
    assert_eq!(crowd.refused, [(brief, ms(0))]);
    assert_eq!(crowd.admitted[1..], [(patient, ms(10_000))]);
}

#[test]
fn all_keys_learn_of_another_quota() {
    let (limiter, clock) = keyed(log(1, 1_000));
    let mut crowd = Crowd::new(&clock);
    for key in 0..80_u64 {
        crowd.join(limiter.acquire(key % 40, Cost::ONE));
    }
    limiter.replace(log(2, 1_000)).unwrap();
    crowd.settle();
    assert_eq!(crowd.admitted.len(), 80);
}

/// At the end of time a wait was once a busy loop.
#[test]
fn who_waits_at_the_end_of_time_waits_quietly() {
    let clock = ManualClock::new();
    for start in [0, u64::MAX] {
        clock.set(Timestamp::from_nanos(start));
        for policy in every_kind() {
            let (limiter, _) = keyed(policy);
            let limiter = limiter.with_clock(clock.clone());
            clock.set(Timestamp::MAX);
            let mut crowd = Crowd::new(&clock);
            for _ in 0..20 {
                crowd.join(limiter.acquire("key", Cost::ONE));
            }
            crowd.settle();
            assert_eq!(clock.next_wake(), None);
        }
    }
}
