//! Waiters that give up.

use limiter_core::{Clock, Cost};

use super::{Crowd, cost, evenly, every_kind, keyed, ms, single};

#[test]
fn permits_of_a_granted_waiter_that_leaves_are_returned() {
    for policy in every_kind() {
        let name = format!("{policy:?}");
        let (limiter, clock) = keyed(policy.clone());
        let mut crowd = Crowd::new(&clock);
        while crowd.admitted.len() == crowd.tasks.len() {
            crowd.join(limiter.acquire("key", Cost::ONE, None));
        }
        let first = crowd.tasks.len() - 1;
        let due = limiter.check("key").retry_after().unwrap();
        // Both are charged when the second is due; it does not poll.
        let granted = crowd.join(limiter.acquire("key", Cost::ONE, None));
        clock.advance(due);
        crowd.poll(first);
        assert!(crowd.wakes(granted) > 0, "{name}");
        let remaining = limiter.peek("key").remaining();
        crowd.leave(granted);
        assert_eq!(limiter.peek("key").remaining(), remaining + 1, "{name}");
    }
}

#[test]
fn permits_that_are_returned_admit_the_next_at_once() {
    let (limiter, clock) = single(evenly(10));
    let mut crowd = Crowd::new(&clock);
    let [_, first, second] = [(); 3].map(|()| crowd.join(limiter.acquire("key", Cost::ONE, None)));
    let third = crowd.join(limiter.acquire("key", Cost::ONE, None));
    // Another waiter that arrives late reads that the first one is due, and waits behind it.
    clock.advance(ms(100));
    assert!(!limiter.check_n("key", Cost::ONE).is_admitted());
    crowd.leave(first);
    crowd.settle();
    assert_eq!(crowd.admitted[1..], [(second, ms(100))]);
    crowd.run();
    assert_eq!(crowd.admitted[2..], [(third, ms(200))]);
}

#[test]
fn an_acquire_that_was_never_polled_takes_nothing() {
    let (limiter, clock) = keyed(evenly(10));
    drop(limiter.acquire("key", Cost::ONE, None));
    let later = limiter.acquire("key", Cost::ONE, None);
    assert!(limiter.check_n("key", Cost::ONE).is_admitted());
    clock.advance(ms(100));
    assert!(limiter.check_n("key", Cost::ONE).is_admitted());
    drop(later);
    assert_eq!(limiter.peek("key").remaining(), 0);
}

#[test]
fn those_who_all_leave_take_nothing() {
    for policy in every_kind() {
        let (limiter, clock) = keyed(policy.clone());
        let mut crowd = Crowd::new(&clock);
        while crowd.admitted.len() == crowd.tasks.len() {
            crowd.join(limiter.acquire("key", Cost::ONE, None));
        }
        let alone = limiter.peek("key");
        for _ in 0..10 {
            crowd.join(limiter.acquire("key", cost(2), None));
        }
        (0..crowd.tasks.len()).for_each(|index| crowd.leave(index));
        assert_eq!(limiter.peek("key"), alone, "{policy:?}");
        assert_eq!(clock.next_wake(), None, "a timer is left: {policy:?}");
        let wait = limiter.check_n("key", Cost::ONE).retry_after().unwrap();
        clock.set(clock.now().saturating_add(wait));
        assert!(limiter.check_n("key", Cost::ONE).is_admitted(), "{policy:?}");
    }
}

#[test]
fn who_waits_may_outlive_the_limiter() {
    let (limiter, clock) = keyed(evenly(10));
    let mut crowd = Crowd::new(&clock);
    crowd.join_for(&limiter, 3);
    drop(limiter);
    crowd.run();
    assert_eq!(crowd.order(), [0, 1, 2]);
}

/// There was no bound: each waiter took memory.
#[test]
fn only_so_many_wait_and_each_makes_room_when_it_ends() {
    let (limiter, clock) = crate::limiter_of(evenly(10), |builder| builder.max_waiting(3));
    let mut crowd = Crowd::new(&clock);
    crowd.join_for(&limiter, 5);
    // The first took a permit without a wait, and the last found three waiters.
    assert_eq!((crowd.order(), &crowd.refused), (vec![0], &vec![(4, ms(0))]));
    assert!(!limiter.acquire_blocking("key", Cost::ONE, None).is_admitted());
    crowd.leave(3);
    crowd.join(limiter.acquire("key", Cost::ONE, None));
    crowd.run();
    assert_eq!(crowd.order(), [0, 1, 2, 5]);
    // Those that were served have left.
    crowd.join_for(&limiter, 3);
    assert_eq!(crowd.refused.len(), 1);
    crowd.run();
}
