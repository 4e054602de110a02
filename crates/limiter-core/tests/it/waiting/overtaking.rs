//! No request overtakes the waiters.

use limiter_core::Cost;

use super::{Crowd, keyed, ms};

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
    crowd.join_for(&limiter, 3);
    clock.set(limiter_core::Timestamp::ZERO);
    assert_eq!(limiter.check_n("key", Cost::ONE).retry_after(), Some(ms(300)));
    crowd.run();
    assert_eq!(crowd.admitted[1..], [(1, ms(100)), (2, ms(200))]);
}
