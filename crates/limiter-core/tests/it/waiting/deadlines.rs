//! Waits that are refused.

use std::{
    task::{Context, Waker},
    time::Duration,
};

use limiter_core::{Cost, Policy, Quota};

use super::{Crowd, evenly, keyed, ms, single};

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
fn a_leaky_queue_refuses_when_it_is_full() {
    let outflow = Quota::per_second(10).with_burst(2);
    let policy = Policy::leaky_queue("test", 3, outflow);
    let (limiter, clock) = keyed(policy);
    let mut crowd = Crowd::new(&clock);
    crowd.join_for(&limiter, 7);
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
