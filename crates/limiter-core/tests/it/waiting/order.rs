//! First come, first served, at the rate of the quota.

use limiter_core::{Cost, Policy, Quota, Timestamp};

use super::{Crowd, evenly, keyed, ms};

/// A thousand wait at a hundred a second, of which a burst is admitted at once. Each is woken once to
/// set its timer, and once by it.
#[test]
fn a_thousand_are_admitted_in_order_and_evenly() {
    const TASKS: usize = 1_000;
    for burst in [1, 100] {
        let quota = Quota::per_second(100).with_burst(burst as u64);
        let (limiter, clock) = keyed(Policy::gcra("test", quota));
        let mut crowd = Crowd::new(&clock);
        for _ in 0..TASKS {
            crowd.join(limiter.acquire("key", Cost::ONE, None));
        }
        assert_eq!(crowd.admitted.len(), burst);
        crowd.run();
        let turn = |index: usize| (index + 1).saturating_sub(burst);
        let turn = |index| (index, ms(10) * u32::try_from(turn(index)).unwrap());
        assert_eq!(crowd.admitted, (0..TASKS).map(turn).collect::<Vec<_>>());
        for index in 0..TASKS {
            assert!(crowd.wakes(index) <= 2, "task {index} was woken {} times", crowd.wakes(index));
        }
    }
}

#[test]
fn keys_wait_apart() {
    let (limiter, clock) = keyed(evenly(100));
    let mut crowd = Crowd::new(&clock);
    for index in 0..300_u64 {
        crowd.join(limiter.acquire(index % 3, Cost::ONE, None));
    }
    crowd.run();
    let together = (0..300).map(|index| (index, ms(10) * u32::try_from(index / 3).unwrap()));
    crowd.admitted.sort_unstable();
    assert_eq!(crowd.admitted, together.collect::<Vec<_>>());
}

#[test]
fn handles_wait_in_one_queue() {
    let (limiter, clock) = keyed(evenly(10));
    // Of one span, which is a tenth of a second.
    let twice = Quota::per_second(20).with_burst(2);
    let twice = limiter.with_policy(&Policy::gcra("twice", twice)).unwrap();
    let mut crowd = Crowd::new(&clock);
    for index in 0..6 {
        let limiter = if index % 2 == 0 { &limiter } else { &twice };
        crowd.join(limiter.acquire("key", Cost::ONE, None));
    }
    crowd.run();
    // Each permit of the first takes all that there is, each one of the other a half.
    let times = [0, 50, 150, 200, 300, 350].map(ms);
    assert_eq!(crowd.admitted, (0..6).zip(times).collect::<Vec<_>>());
}

#[test]
fn who_is_polled_without_being_woken_keeps_its_place() {
    let (limiter, clock) = keyed(evenly(10));
    let mut crowd = Crowd::new(&clock);
    crowd.join_for(&limiter, 4);
    for step in 1..=35 {
        (0..4).rev().for_each(|index| crowd.poll(index));
        crowd.run_until(ms(10) * step);
    }
    let expected = [(0, ms(0)), (1, ms(100)), (2, ms(200)), (3, ms(300))];
    assert_eq!(crowd.admitted, expected);
}

#[test]
fn other_keys_are_not_held_up() {
    let (limiter, clock) = keyed(evenly(10));
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
    let (limiter, clock) = keyed(evenly(10));
    clock.advance(ms(3_600_000));
    let mut crowd = Crowd::new(&clock);
    crowd.join_for(&limiter, 3);
    clock.set(Timestamp::ZERO);
    assert_eq!(limiter.check_n("key", Cost::ONE).retry_after(), Some(ms(300)));
    crowd.run();
    assert_eq!(crowd.admitted[1..], [(1, ms(100)), (2, ms(200))]);
}
