//! Waiters that are polled long after they were due.

use std::time::Duration;

use limiter_core::{Clock, Cost, Policy, Quota, Slots, Timestamp};

use crate::policy;

use super::{Crowd, cost, evenly, keyed, ms, single};

/// A third of a thousand leave, and every timer is late by up to 4 ms. Once, each permit after a leaver
/// was charged for the moment of a poll.
#[test]
fn no_permit_is_lost_to_late_timers_when_waiters_leave() {
    let (limiter, clock) = single(evenly(1_000));
    let mut crowd = Crowd::new(&clock);
    crowd.join_for(&limiter, 1_000);
    let mut step = 0;
    while crowd.tasks.iter().any(|task| task.acquire.is_some()) {
        clock.advance(Duration::from_micros(3_700));
        crowd.leave((997 - step * 3) % 1_000);
        step = (step + 1) % 333;
        crowd.settle();
    }
    // The first was admitted at 0, and each of the others a millisecond after the one before.
    let last = u32::try_from(crowd.admitted.len() - 1).unwrap();
    let took = clock.now().saturating_since(Timestamp::ZERO);
    assert!(took < ms(1) * last + ms(4), "{last} took {took:?}");
}

/// It was charged when it was polled, if it fitted then.
#[test]
fn a_waiter_for_a_paced_slot_of_a_fresh_key_is_charged_when_it_was_due() {
    // Slots of a second with room for one and for two in turn.
    let quota = Quota::new(3, ms(2_000)).unwrap();
    let policy = Policy::sub_windows("paced", quota, Slots::strict(2).paced());
    let (limiter, clock) = keyed(policy);
    let mut crowd = Crowd::new(&clock);
    crowd.join(limiter.acquire("key", cost(2), None));
    assert_eq!(limiter.check("key").retry_after(), Some(ms(2_000)));
    clock.advance(ms(2_500));
    crowd.settle();
    assert_eq!(crowd.admitted, [(0, ms(2_500))]);
    // It counts from 1 s on, for 3 s.
    assert_eq!(limiter.peek("key").reset_after(), ms(1_500));
    assert!(limiter.check("key").is_admitted());
}

/// After a refund, the moments behind the first waiter can't be read from the key's own state: when the
/// waiters are polled, another key may have its place.
#[test]
fn waiters_keep_their_moments_when_their_keys_place_is_lost() {
    let (limiter, clock) = single(policy("10/10s by sliding-log"));
    let at = |seconds: u64| clock.set(Timestamp::from_nanos(seconds * 1_000_000_000));
    assert!(limiter.check_n("key", cost(8)).is_admitted());
    at(4);
    assert!(limiter.check("key").is_admitted());
    at(5);
    let receipt = limiter.reserve("key", Cost::ONE, ms(0)).into_receipt().unwrap();
    at(6);
    let mut crowd = Crowd::new(&clock);
    for permits in [8, 1, 1] {
        crowd.join(limiter.acquire("key", cost(permits), None));
    }
    // They were due at 10 s, 14 s and 15 s, and are at 10 s, 10 s and 14 s.
    assert_eq!(limiter.refund(receipt), 1);
    at(16);
    for key in 0..15_u64 {
        assert!(limiter.check(key).is_admitted());
    }
    assert_eq!(limiter.peek("key").reset_after(), ms(8_000));
    crowd.settle();
    assert_eq!(crowd.order(), [0, 1, 2]);
}

/// The wait at the present was once added to a moment long ago, again and again until the present.
#[test]
fn a_waiter_that_is_years_late_in_a_full_table_is_settled_at_once() {
    for policy in ["1/s", "1/s by fixed-window", "1/s by sliding-log"] {
        let (limiter, clock) = single(crate::policy(policy));
        assert!(limiter.check("late").is_admitted());
        let mut crowd = Crowd::new(&clock);
        crowd.join(limiter.acquire("late", Cost::ONE, None));
        clock.advance(Duration::from_secs(30 * 365 * 86_400));
        for key in 0..64_u64 {
            let _ = limiter.check(key);
        }
        crowd.run();
        assert_eq!(crowd.admitted.len(), 1);
    }
}

/// The second was charged for 5 s, because the time had come before anyone saw that this is past its deadline.
#[test]
fn a_waiter_that_is_late_is_not_charged_for_a_moment_after_its_deadline() {
    for seconds in [4, 5] {
        let (limiter, clock) = keyed(evenly(1));
        assert!(limiter.check("key").is_admitted());
        let mut crowd = Crowd::new(&clock);
        crowd.join(limiter.acquire("key", Cost::ONE, None));
        crowd.join(limiter.acquire("key", Cost::ONE, Some(ms(seconds * 1_000))));
        crowd.join(limiter.acquire("key", Cost::ONE, Some(ms(6_000))));
        // The first one is due after 4 s, the second after 5 s, and the third behind those that are admitted.
        assert_eq!(limiter.charge("key", cost(3)).permits(), 3);
        clock.advance(ms(10_000));
        crowd.settle();
        assert_eq!(crowd.order(), if seconds == 5 { [0, 1, 2].as_slice() } else { &[0, 2] });
    }
}

/// It was admitted if it fitted then.
#[test]
fn a_waiter_that_is_first_polled_after_its_deadline_is_refused() {
    for (within, is_admitted) in [(9_999, false), (10_000, true), (0, true)] {
        let (limiter, clock) = keyed(evenly(1));
        let late = limiter.acquire("key", Cost::ONE, Some(ms(within)));
        clock.advance(ms(10_000));
        let mut crowd = Crowd::new(&clock);
        crowd.join(late);
        assert_eq!(crowd.admitted.len(), usize::from(is_admitted), "within {within} ms");
        assert_eq!(limiter.check("key").is_admitted(), !is_admitted);
    }
}
