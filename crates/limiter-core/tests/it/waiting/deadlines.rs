//! Waits that are refused.

use std::{
    task::{Context, Waker},
    time::Duration,
};

use limiter_core::{Cost, Policy, Quota};

use super::{Crowd, cost, evenly, every_kind, keyed, ms, single};

const NANO: Duration = Duration::from_nanos(1);

#[test]
fn a_wait_past_the_deadline_is_refused_at_once_and_one_up_to_it_is_admitted() {
    let (limiter, clock) = keyed(evenly(10));
    let mut crowd = Crowd::new(&clock);
    crowd.join(limiter.acquire("key", Cost::ONE, Some(Duration::ZERO)));
    let late = crowd.join(limiter.acquire("key", Cost::ONE, Some(ms(100) - NANO)));
    assert_eq!(crowd.refused, [(late, ms(0))]);
    let just = crowd.join(limiter.acquire("key", Cost::ONE, Some(ms(100))));
    crowd.run();
    assert_eq!(crowd.admitted[1..], [(just, ms(100))]);
}

#[test]
fn the_queue_counts_for_the_deadline() {
    for policy in every_kind() {
        let (limiter, clock) = keyed(policy.clone());
        let mut crowd = Crowd::new(&clock);
        for index in 0..25 {
            crowd.join(limiter.acquire("key", cost(1 + index % 3), None));
        }
        let wait = limiter.check_n("key", Cost::ONE).retry_after().unwrap();
        let refused = crowd.join(limiter.acquire("key", Cost::ONE, Some(wait - NANO)));
        assert_eq!(crowd.refused, [(refused, ms(0))], "{policy:?}");
        let just = crowd.join(limiter.acquire("key", Cost::ONE, Some(wait)));
        assert!(crowd.refused.len() == 1, "{policy:?}");
        crowd.run();
        assert_eq!(crowd.admitted.last(), Some(&(just, wait)), "{policy:?}");
    }
}

#[test]
fn a_deadline_counts_from_the_call_and_not_from_the_first_poll() {
    let (limiter, clock) = single(evenly(10));
    let mut crowd = Crowd::new(&clock);
    crowd.join(limiter.acquire("key", Cost::ONE, None));
    let acquire = limiter.acquire("key", Cost::ONE, Some(ms(100)));
    clock.advance(ms(50));
    assert!(limiter.check_n("key", Cost::ONE).retry_after() == Some(ms(50)));
    let just = crowd.join(acquire);
    crowd.run();
    assert_eq!(crowd.admitted[1..], [(just, ms(100))]);
}

#[test]
fn a_cost_that_never_fits_is_refused_at_once() {
    let never = cost(7);
    for policy in every_kind() {
        let (keyed, clock) = keyed(policy.clone());
        for waiting in 0..2 {
            let mut crowd = Crowd::new(&clock);
            if waiting > 0 {
                for _ in 0..10 {
                    crowd.join(keyed.acquire("key", cost(3), None));
                }
            }
            let calls = [
                keyed.acquire("key", never, None),
                keyed.acquire("key", never, Some(ms(1_000_000))),
            ];
            let calls = calls.map(|call| crowd.join(call));
            let refused: Vec<_> = crowd.refused.iter().map(|(index, _)| *index).collect();
            assert_eq!(refused, calls, "{policy:?}");
            assert_eq!(keyed.check_n("key", never).retry_after(), None, "{policy:?}");
            assert!(!keyed.acquire_blocking("key", never, None).is_admitted());
        }
    }
}

#[test]
fn a_leaky_queue_refuses_when_it_is_full() {
    let outflow = Quota::per_second(10).with_burst(2);
    let policy = Policy::leaky_queue("test", 3, outflow);
    let (limiter, clock) = keyed(policy);
    let mut crowd = Crowd::new(&clock);
    for _ in 0..7 {
        crowd.join(limiter.acquire("key", Cost::ONE, None));
    }
    assert_eq!(crowd.refused, [(5, ms(0)), (6, ms(0))]);
    assert!(!limiter.acquire_blocking("key", Cost::ONE, None).is_admitted());
    // A waiter that is admitted makes room for one more, and so does one that leaves.
    crowd.run_until(ms(100));
    let (one, other) =
        (limiter.acquire("key", Cost::ONE, None), limiter.acquire("key", Cost::ONE, None));
    let (one, other) = (crowd.join(one), crowd.join(other));
    assert_eq!(crowd.refused[2..], [(other, ms(100))]);
    crowd.leave(4);
    let another = crowd.join(limiter.acquire("key", Cost::ONE, None));
    crowd.run();
    let expected = [(2, ms(100)), (3, ms(200)), (one, ms(300)), (another, ms(400))];
    assert_eq!(crowd.admitted[2..], expected);
}

/// The second once waited for ever behind a first that was created and never polled again, and so
/// did a thread behind it.
#[test]
fn a_first_waiter_that_is_never_polled_holds_up_nobody() {
    let (limiter, clock) = keyed(evenly(10));
    assert!(limiter.check("key").is_admitted());
    let mut crowd = Crowd::new(&clock);
    let mut never_polled_again = limiter.acquire("key", Cost::ONE, None);
    let waker = Waker::noop();
    assert!(never_polled_again.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    let second = crowd.join(limiter.acquire("key", Cost::ONE, None));
    let third = crowd.join(limiter.acquire("key", Cost::ONE, None));
    crowd.run();
    assert_eq!(crowd.admitted, [(second, ms(200)), (third, ms(300))]);
}

/// Permits that were taken while no one waited, but a waiter had not polled yet, were once not
/// foreseen.
#[test]
fn what_is_taken_while_all_have_had_their_turns_counts_for_the_deadline() {
    let policy = Policy::fixed_window("test", Quota::per_second(3));
    let (limiter, clock) = keyed(policy);
    let mut crowd = Crowd::new(&clock);
    crowd.join(limiter.acquire("key", cost(3), None));
    let [first, _] = [(); 2].map(|()| crowd.join(limiter.acquire("key", Cost::ONE, None)));
    assert!(!limiter.check_n("key", Cost::ONE).is_admitted());
    clock.advance(ms(1_000));
    // Both have had their turns, and one has polled.
    crowd.poll(first);
    assert!(limiter.check_n("key", Cost::ONE).is_admitted());
    crowd.join(limiter.acquire("key", Cost::ONE, None));
    assert_eq!(limiter.check_n("key", cost(3)).retry_after(), Some(ms(2_000)));
}
