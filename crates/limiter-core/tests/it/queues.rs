//! How many permits a queue holds, and how far a charge may overshoot, where the time of a permit is no
//! whole number of nanoseconds.

use std::time::Duration;

use limiter_core::{Algorithm, Clock, Cost, Policy, Quota, Timestamp};

use crate::limiter_of;

const HOUR: Duration = Duration::from_secs(3_600);

/// The depth was rounded to nanoseconds and each permit to a quarter of one, so the last place was lost: 3/s
/// with depth 10 held 9, and 7/s with depth 1 none.
#[test]
fn a_queue_holds_as_many_as_it_is_deep() {
    for (quota, depth) in [
        (Quota::per_second(3), 10),
        (Quota::per_second(7), 1),
        (Quota::per_minute(70), 70),
        (Quota::per_second(4_999_999), 100),
        (Quota::per_second(10), 10),
    ] {
        for burst in [1, 3] {
            let queue = Algorithm::LeakyQueue { depth };
            let quota = quota.with_burst(burst);
            let (limiter, _) = limiter_of(Policy::new("queue", queue, quota).unwrap(), |builder| {
                builder.capacity(8)
            });
            let held = (0..burst + depth + 2)
                .filter(|_| limiter.reserve("key", Cost::ONE, HOUR).is_admitted())
                .count();
            assert_eq!(u64::try_from(held).unwrap(), burst + depth, "{quota} depth {depth}");
        }
    }
}

/// Without a horizon of its own, a quota promises as many permits as its burst.
#[test]
fn as_many_are_promised_as_a_burst_has() {
    let (limiter, _) =
        limiter_of(Policy::gcra("test", Quota::per_hour(70)), |builder| builder.capacity(8));
    let held = (0..200).filter(|_| limiter.reserve("key", Cost::ONE, 2 * HOUR).is_admitted());
    assert_eq!(held.count(), 140);
}

/// Of each charge in any case, one permit was not counted, so that the key recovered earlier each time: in 23
/// hours 24,000 permits were used of 23,002.
#[test]
fn a_burst_that_is_charged_in_any_case_is_charged_whole() {
    let (limiter, clock) =
        limiter_of(Policy::gcra("test", Quota::per_hour(1_001)), |builder| builder.capacity(8));
    let start = clock.now();
    let mut used = 0;
    while clock.now() < start.saturating_add(23 * HOUR) {
        let decision = limiter.check("key");
        if decision.is_admitted() {
            used += 1 + 1_001;
            let charged = limiter.charge("key", Cost::of(1_001)).into_receipt().unwrap();
            assert_eq!(charged.permits(), 1_001, "after {used}");
        } else {
            clock.advance(decision.retry_after().unwrap());
        }
    }
    assert!(clock.now() > Timestamp::ZERO);
}
