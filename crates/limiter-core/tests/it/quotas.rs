//! A quota of its own for each customer, in one limiter.

use std::time::Duration;

use limiter_core::{Cost, ManualClock, MemoryLimiter, Policy, Quota};

const HOUR: Duration = Duration::from_secs(3_600);

fn hourly(permits: u64) -> Policy {
    Policy::gcra("customer", Quota::per_hour(permits))
}

/// The 255th quota was an error: of 5,000 customers, with a handle for each request, 4,746 failed.
#[test]
fn five_thousand_customers_have_a_quota_each() {
    let clock = ManualClock::new();
    let limiter = MemoryLimiter::builder(hourly(1)).clock(clock.clone()).build().unwrap();
    for round in 0..3 {
        for customer in 0..5_000_u64 {
            let handle = limiter.with_policy(&hourly(1 + customer)).unwrap();
            let all = Cost::of(1 + customer);
            assert!(handle.check_n(customer, all).is_admitted(), "{customer} in round {round}");
            let handle = limiter.with_policy(&hourly(1 + customer)).unwrap();
            assert_eq!(handle.check(customer).retry_after(), Some(interval(1 + customer)));
        }
        // The time of a permit is rounded up.
        clock.advance(HOUR + Duration::from_micros(2));
    }
}

/// Returns the time between two permits, rounded up as the limiter does.
fn interval(permits: u64) -> Duration {
    let quarters = (4 * 3_600_000_000_000_u64).div_ceil(permits);
    Duration::from_nanos(quarters.div_ceil(4))
}

#[test]
fn a_handle_for_a_span_that_is_known_allocates_nothing() {
    let limiter = MemoryLimiter::new(hourly(1));
    let policy = hourly(2);
    let _ = limiter.with_policy(&policy).unwrap();
    let allocations = allocation_counter::measure(|| {
        let handle = limiter.with_policy(&policy).unwrap();
        assert!(handle.check("customer").is_admitted());
    });
    assert_eq!(allocations.count_total, 0);
}

/// A service that limits each connection has 10,000 of them.
#[test]
fn a_limiter_for_one_key_takes_less_than_a_kilobyte() {
    let allocations = allocation_counter::measure(|| {
        std::mem::forget(MemoryLimiter::builder(hourly(1)).capacity(1).build());
    });
    assert!(allocations.bytes_current < 1_024, "{} bytes", allocations.bytes_current);
}
