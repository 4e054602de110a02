//! Keys that share a debt, because the table has no place for each of them.

use std::time::Duration;

use limiter_core::{Cost, ManualClock, MemoryLimiter, Policy};

type Limiter = MemoryLimiter<ManualClock>;

const HOUR: Duration = Duration::from_secs(3_600);

/// The algorithms, and whether GCRA's states are wide.
const ALGORITHMS: [(&str, bool); 7] = [
    ("gcra", false),
    ("gcra", true),
    ("fixed-window", false),
    ("aligned-window", false),
    ("sliding-counter", false),
    ("sub-windows 4 slots", false),
    ("sliding-log", false),
];

fn with(limiter: &Limiter, quota: &str, algorithm: &str) -> Limiter {
    limiter.with_policy(&policy(quota, algorithm)).unwrap()
}

fn policy(quota: &str, algorithm: &str) -> Policy {
    Policy::parse("test", &format!("{quota} by {algorithm}")).unwrap()
}

/// Returns a limiter whose slots are all taken for days, so that every other key shares.
fn full(algorithm: &str, wide: bool) -> (Limiter, ManualClock) {
    let clock = ManualClock::new();
    clock.advance(24 * HOUR);
    let builder = MemoryLimiter::builder(policy("1/9d", algorithm)).capacity(1);
    let builder = if wide { builder.wide_states() } else { builder };
    let limiter = builder.clock(clock.clone()).build().unwrap();
    let slots = if algorithm == "gcra" && !wide { 8 } else { 16 };
    for key in 0..slots {
        assert!(!limiter.check(key).usage().is_shared(), "{algorithm}: slot {key}");
    }
    (limiter, clock)
}

/// What keys shared in the locked table drained at the pace of whichever quota had charged last: of
/// a key of 1/h, 180,001 permits were admitted within an hour.
#[test]
fn a_fast_quota_forgives_no_debt_of_a_slow_one() {
    for (algorithm, wide) in ALGORITHMS {
        let (limiter, clock) = full(algorithm, wide);
        let slow = with(&limiter, "1/h", algorithm);
        let fast = with(&limiter, "1000/s", algorithm);
        let mut admitted = 0;
        for _ in 0..100 {
            let decision = slow.check("slow");
            assert!(decision.usage().is_shared());
            admitted += u32::from(decision.is_admitted());
            let _ = fast.check("fast");
            clock.advance(Duration::from_millis(20));
        }
        assert_eq!(admitted, 1, "of 1/h within 2 s by {algorithm}, wide: {wide}");
    }
}

/// A key that shared with a slower quota got back its own permits at that quota's pace: of 1000/h,
/// one in six minutes.
#[test]
fn sharing_costs_a_key_at_most_the_recovery_of_the_slower_quota() {
    for wide in [false, true] {
        let (limiter, clock) = full("gcra", wide);
        let (free, premium) = (with(&limiter, "10/h", "gcra"), with(&limiter, "1000/h", "gcra"));
        assert!(free.check_n("free", Cost::of(10)).is_admitted());
        // The whole debt lasts an hour, which is premium's whole burst.
        let wait = premium.check("premium").retry_after();
        assert_eq!(wait, Some(HOUR / 1_000));
        let mut admitted = 0;
        for _ in 0..2_000 {
            clock.advance(HOUR / 1_000);
            admitted += u32::from(premium.check("premium").is_admitted());
        }
        assert_eq!(admitted, 2_000, "premium at its own pace, wide: {wide}");
    }
}

/// A peek said that 99 permits remained, and a check of 50 was refused; logs were refused for longer
/// than they said.
#[test]
fn what_a_key_that_shares_is_told_is_exact() {
    for (algorithm, wide) in ALGORITHMS {
        for (first, second) in [("10/h", "100/s"), ("100/s", "10/h"), ("10/min", "10/min")] {
            let (limiter, clock) = full(algorithm, wide);
            let first = with(&limiter, first, algorithm);
            let second = with(&limiter, second, algorithm);
            assert!(first.check_n("first", Cost::of(3)).is_admitted());
            clock.advance(Duration::from_millis(700));
            let _ = first.check_n("other", Cost::of(2));
            let usage = second.peek("second");
            let case = format!("{algorithm}, wide: {wide}, {usage:?}");
            assert!(usage.is_shared(), "{case}");
            assert!(!second.check_n("second", Cost::of(usage.remaining() + 1)).is_admitted());
            let all = second.check_n("second", Cost::of(10));
            let Some(wait) = all.retry_after().filter(|wait| !wait.is_zero()) else {
                assert!(all.is_admitted() && usage.remaining() >= 10, "{case}");
                continue;
            };
            clock.advance(wait - Duration::from_nanos(1));
            assert!(!second.check_n("second", Cost::of(10)).is_admitted(), "{case}");
            clock.advance(Duration::from_nanos(1));
            assert!(second.check_n("second", Cost::of(10)).is_admitted(), "{case}");
        }
    }
}

/// Of 100,000 fresh keys, 29 to 44 were refused for other keys' debts.
#[test]
fn a_table_shares_hardly_before_it_is_full() {
    let limiter = MemoryLimiter::new(policy("1/h", "gcra"));
    let refused = (0..100_000_u64).filter(|key| !limiter.check(*key).is_admitted()).count();
    assert!(refused <= 3, "{refused} fresh keys were refused");
}
