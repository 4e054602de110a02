//! Waits that are refused.

use std::time::Duration;

use limiter_core::{Cost, Policy, Quota};

use super::{Crowd, cost, evenly, every_kind, keyed, ms, unkeyed};

const NANO: Duration = Duration::from_nanos(1);

#[test]
fn a_wait_past_the_deadline_is_refused_at_once_and_one_up_to_it_is_admitted() {
    let (limiter, clock) = keyed(evenly(10));
    let mut crowd = Crowd::new(&clock);
    crowd.join(limiter.acquire_within("key", Cost::ONE, Duration::ZERO));
    let late = crowd.join(limiter.acquire_within("key", Cost::ONE, ms(100) - NANO));
    assert_eq!(crowd.refused, [(late, ms(0))]);
    let just = crowd.join(limiter.acquire_within("key", Cost::ONE, ms(100)));
    crowd.run();
    assert_eq!(crowd.admitted[1..], [(just, ms(100))]);
}

#[test]
fn the_queue_counts_for_the_deadline() {
    for policy in every_kind() {
        let (limiter, clock) = keyed(policy.clone());
        let mut crowd = Crowd::new(&clock);
        for index in 0..25 {
            crowd.join(limiter.acquire("key", cost(1 + index % 3)));
        }
        let wait = limiter.try_acquire("key", Cost::ONE).retry_after().unwrap();
        let refused = crowd.join(limiter.acquire_within("key", Cost::ONE, wait - NANO));
        assert_eq!(crowd.refused, [(refused, ms(0))], "{policy:?}");
        let just = crowd.join(limiter.acquire_within("key", Cost::ONE, wait));
        assert!(crowd.refused.len() == 1, "{policy:?}");
        crowd.run();
        assert_eq!(crowd.admitted.last(), Some(&(just, wait)), "{policy:?}");
    }
}

#[test]
fn a_deadline_counts_from_the_call_and_not_from_the_first_poll() {
    let (limiter, clock) = unkeyed(evenly(10));
    let mut crowd = Crowd::new(&clock);
    crowd.join(limiter.acquire(Cost::ONE));
    let acquire = limiter.acquire_within(Cost::ONE, ms(100));
    clock.advance(ms(50));
    assert!(limiter.try_acquire(Cost::ONE).retry_after() == Some(ms(50)));
    let just = crowd.join(acquire);
    crowd.run();
    assert_eq!(crowd.admitted[1..], [(just, ms(100))]);
}

#[test]
fn a_cost_that_never_fits_is_refused_at_once() {
    let never = cost(7);
    for policy in every_kind() {
        let (keyed, clock) = keyed(policy.clone());
        let (unkeyed, _) = unkeyed(policy.clone());
        for waiting in 0..2 {
            let mut crowd = Crowd::new(&clock);
            if waiting > 0 {
                for _ in 0..10 {
                    crowd.join(keyed.acquire("key", cost(3)));
                    crowd.join(unkeyed.acquire(cost(3)));
                }
            }
            let calls = [
                keyed.acquire("key", never),
                keyed.acquire_within("key", never, ms(1_000_000)),
                unkeyed.acquire(never),
                unkeyed.acquire_within(never, ms(1_000_000)),
            ];
            let calls = calls.map(|call| crowd.join(call));
            let refused: Vec<_> = crowd.refused.iter().map(|(index, _)| *index).collect();
            assert_eq!(refused, calls, "{policy:?}");
            assert_eq!(keyed.try_acquire("key", never).retry_after(), None, "{policy:?}");
            assert!(!keyed.acquire_blocking("key", never, None).decision().is_admitted());
        }
    }
}

#[test]
fn a_leaky_queue_refuses_when_it_is_full() {
    let outflow = Quota::per_second(10).unwrap().with_burst(2).unwrap();
    let policy = Policy::leaky_queue("test", 3, outflow).unwrap();
    let (limiter, clock) = keyed(policy.clone());
    let mut crowd = Crowd::new(&clock);
    for _ in 0..7 {
        crowd.join(limiter.acquire("key", Cost::ONE));
    }
    assert_eq!(crowd.refused, [(5, ms(0)), (6, ms(0))]);
    assert!(!limiter.acquire_blocking("key", Cost::ONE, None).decision().is_admitted());
    // One who goes makes room for one more, and so does one who leaves.
    crowd.run_until(ms(100));
    let (one, other) = (limiter.acquire("key", Cost::ONE), limiter.acquire("key", Cost::ONE));
    let (one, other) = (crowd.join(one), crowd.join(other));
    assert_eq!(crowd.refused[2..], [(other, ms(100))]);
    crowd.leave(4);
    let another = crowd.join(limiter.acquire("key", Cost::ONE));
    crowd.run();
    let expected = [(2, ms(100)), (3, ms(200)), (one, ms(300)), (another, ms(400))];
    assert_eq!(crowd.admitted[2..], expected);

    let (limiter, clock) = unkeyed(policy);
    let mut crowd = Crowd::new(&clock);
    for _ in 0..7 {
        crowd.join(limiter.acquire(Cost::ONE));
    }
    assert_eq!(crowd.refused, [(5, ms(0)), (6, ms(0))]);
}

/// What was foreseen when the first was still in time was once told to those who came when it was
/// late.
#[test]
fn a_late_first_waiter_delays_those_who_come_later() {
    let (limiter, clock) = keyed(evenly(10));
    let mut crowd = Crowd::new(&clock);
    for _ in 0..3 {
        crowd.join(limiter.acquire("key", Cost::ONE));
    }
    assert_eq!(limiter.try_acquire("key", Cost::ONE).retry_after(), Some(ms(300)));
    // The first goes at 1 s, and the second 100 ms later.
    clock.advance(ms(1_000));
    assert_eq!(limiter.try_acquire("key", Cost::ONE).retry_after(), Some(ms(200)));
    let refused = crowd.join(limiter.acquire_within("key", Cost::ONE, ms(200) - NANO));
    assert_eq!(crowd.refused, [(refused, ms(1_000))]);
    let just = crowd.join(limiter.acquire_within("key", Cost::ONE, ms(200)));
    crowd.run();
    assert_eq!(crowd.admitted[1..], [(1, ms(1_000)), (2, ms(1_100)), (just, ms(1_200))]);
}

/// As before, where the first has had its turn late, and no one asked meanwhile.
#[test]
fn a_first_waiter_that_was_late_delays_those_who_come_later() {
    let (limiter, clock) = keyed(evenly(10));
    let mut crowd = Crowd::new(&clock);
    for _ in 0..3 {
        crowd.join(limiter.acquire("key", Cost::ONE));
    }
    assert_eq!(limiter.try_acquire("key", Cost::ONE).retry_after(), Some(ms(300)));
    clock.advance(ms(150));
    crowd.settle();
    assert_eq!(limiter.try_acquire("key", Cost::ONE).retry_after(), Some(ms(200)));
}

/// Permits that were taken while no one waited, but someone had not looked yet, were once not
/// foreseen.
#[test]
fn what_is_taken_while_all_have_had_their_turns_counts_for_the_deadline() {
    let policy = Policy::fixed_window("test", Quota::per_second(3).unwrap()).unwrap();
    let (limiter, clock) = keyed(policy);
    let mut crowd = Crowd::new(&clock);
    crowd.join(limiter.acquire("key", cost(3)));
    let [first, _] = [(); 2].map(|()| crowd.join(limiter.acquire("key", Cost::ONE)));
    assert!(!limiter.try_acquire("key", Cost::ONE).is_admitted());
    clock.advance(ms(1_000));
    // Both have had their turns, and one has looked.
    crowd.poll(first);
    assert!(limiter.try_acquire("key", Cost::ONE).is_admitted());
    crowd.join(limiter.acquire("key", Cost::ONE));
    assert_eq!(limiter.try_acquire("key", cost(3)).retry_after(), Some(ms(2_000)));
}
