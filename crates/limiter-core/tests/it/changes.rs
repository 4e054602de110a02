//! Policies that take turns on one key, and clocks that step, in unkind orders.

use std::time::Duration;

use limiter_core::{Algorithm, Clock, Cost, MemoryLimiter, Policy, Quota, Timestamp};
use limiter_test::subject::{Bare, Subject};

use crate::{Memory, algorithms, limiter, limiter_of, wall_clock::WallClock};

const SECOND: Duration = Duration::from_secs(1);

fn parse(name: &str, text: &str) -> Policy {
    Policy::parse(name, text).unwrap()
}

fn with(limiter: &Memory, name: &str, text: &str) -> Memory {
    limiter.with_policy(&parse(name, text)).unwrap()
}

fn seconds(seconds: u64) -> Timestamp {
    Timestamp::from_nanos(seconds * 1_000_000_000)
}

/// A tier has a name of its own, and the limit that has the limiter's name had another state under it.
#[test]
fn a_tier_shares_the_limit_that_has_the_limiters_name() {
    let limits = |name: &str, day: &str| {
        Policy::all_of(name, [parse("api", day), parse("second", "1000/s")]).unwrap()
    };
    let free = MemoryLimiter::new(limits("api", "10/day"));
    let premium = free.with_policy(&limits("premium", "100/day")).unwrap();
    assert!(free.check_n("key", Cost::of(5)).is_admitted());
    let usage = premium.peek("key");
    assert_eq!((usage.remaining(), usage.limit_index()), (50, 0));
}

/// A token bucket's states are GCRA's, and could not be used by it.
#[test]
fn a_token_bucket_and_gcra_take_turns() {
    let (bucket, _) = limiter("10/min by token-bucket");
    assert!(bucket.check_n("key", Cost::of(10)).is_admitted());
    for policy in ["20/min", "20/min by leaky-bucket", "20/min by leaky-queue depth 20"] {
        assert_eq!(with(&bucket, "test", policy).peek("key").remaining(), 0, "{policy}");
    }
    // Another horizon is another state.
    assert_eq!(with(&bucket, "test", "20/min by leaky-queue depth 3").peek("key").remaining(), 20);
    let log = parse("test", "10/min by sliding-log");
    assert!(bucket.with_policy(&log).is_err());
}

fn both(name: &str, limits: [(&str, &str); 2]) -> Policy {
    Policy::all_of(name, limits.map(|(name, text)| parse(name, text))).unwrap()
}

/// Limits were sorted by window, and a state belonged to a place: with 100/s as 1000/2h, the two limits
/// changed places, and 100 more permits were admitted at once.
#[test]
fn a_limit_keeps_its_debt_whichever_window_is_shorter() {
    let policy = both("test", [("x", "100/s"), ("y", "100/h")]);
    let (limiter, clock) = limiter_of(policy, |builder| builder);
    assert!(limiter.check_n("key", Cost::of(100)).is_admitted());
    clock.advance(SECOND);
    let slower = both("test", [("x", "1000/2h"), ("y", "100/h")]);
    let reloaded = limiter.with_policy(&slower).unwrap();
    let refusal = reloaded.check_n("key", Cost::of(90));
    assert!(!refusal.is_admitted());
    assert_eq!(reloaded.policy().limits()[refusal.limit_index()].name(), "y");
}

/// States of other limits were used by position.
#[test]
fn several_limits_take_turns_with_limits_of_the_same_names() {
    let limiter = MemoryLimiter::new(both("test", [("x", "100/s"), ("y", "100/h")]));
    let swapped = both("swapped", [("y", "50/h"), ("x", "200/s")]);
    assert!(limiter.with_policy(&swapped).is_ok());
    let renamed = both("renamed", [("x", "100/s"), ("z", "100/h")]);
    assert_eq!(
        limiter.with_policy(&renamed).unwrap_err().to_string(),
        r#"invalid policy "renamed": it limits by gcra ("x") and gcra ("z"), and the states of "test" are by gcra ("x") and gcra ("y"); use the same algorithms, and the same names for several limits"#
    );
    let other = both("other", [("x", "100/s"), ("y", "100/h by sliding-log")]);
    let message = limiter.with_policy(&other).unwrap_err().to_string();
    assert!(message.contains(r#"it limits by gcra ("x") and sliding-log ("y"), and"#), "{message}");
    // The name of a single limit is that of its policy, such as a tier's.
    let single = MemoryLimiter::new(parse("free", "10/h"));
    assert!(single.with_policy(&parse("premium", "100/h")).is_ok());
    let only = Policy::all_of("several", [parse("only", "100/h")]).unwrap();
    assert!(single.with_policy(&only).is_ok());
    assert!(single.with_policy(&swapped).is_err());
}

/// Windows were once aligned to the moment at which the limiter was made, and drifted from the wall
/// clock: made at 100 s and asked at 30 s, 1/min waited 20 s instead of 30.
#[test]
fn aligned_windows_end_by_the_clock_wherever_it_started() {
    let (limiter, clock) = limiter("1/min by aligned-window");
    clock.set(seconds(100));
    for (now, left) in [(30, 30), (100, 20), (1_700_000_017, 23)] {
        clock.set(seconds(now));
        limiter.reset("key");
        assert!(limiter.check("key").is_admitted());
        assert_eq!(limiter.check("key").retry_after(), Some(left * SECOND), "at {now} s");
    }
}

#[test]
fn aligned_windows_alone_follow_unix_time() {
    let clock = WallClock::new(1_700_000_007 * SECOND);
    for (text, left) in [("1/min by aligned-window", 33), ("1/min by fixed-window", 60)] {
        let limiter = MemoryLimiter::builder(parse("test", text)).clock(clock.clone());
        let limiter = limiter.build().unwrap();
        assert!(limiter.check("key").is_admitted());
        let wait = limiter.check("key").retry_after().unwrap();
        assert_eq!(wait.as_secs() % 60, left % 60, "{text}: {wait:?}");
    }
}

/// A step back over the edge of a window gave a third limit to aligned windows and to a single loose
/// slot, and another one to windows that the first use opens, at 5,000,000/s by one nanosecond.
#[test]
fn a_step_back_over_an_edge_gives_nothing() {
    let slots = ["sub-windows 2 slots loose", "sub-windows 1 slots paced"].map(str::to_owned);
    for algorithm in Algorithm::one_of_each().map(|it| it.to_string()).chain(slots) {
        for permits in [3, 1_000_000, 5_000_000] {
            let text = format!("{permits}/s by {algorithm}");
            let Ok(policy) = Policy::parse("test", &text) else { continue };
            let mut limiter = Bare::new(policy);
            let edge = 5_000_000_000;
            let mut admitted = 0;
            // Within a second that ends a bit after the edge, whatever the clock says.
            for now in [edge - 999_820_000, edge - 1, edge, edge + 1, edge - 1, edge, edge + 2] {
                let now = Timestamp::from_nanos(now);
                for cost in [permits, permits / 2, 1] {
                    let decision = limiter.decide(now, "key", Cost::of(cost));
                    admitted += if decision.is_admitted() { cost } else { 0 };
                }
            }
            assert!(admitted <= 2 * permits, "{admitted} admitted by {text}");
        }
    }
}

/// A refusal forgot the window that had just ended, and a step back into it was given a new one.
#[test]
fn a_refusal_forgets_no_window_that_the_clock_steps_back_into() {
    // A log forgets what has ended.
    let is_log = |it: &Algorithm| matches!(it, Algorithm::SubWindows(_) | Algorithm::SlidingLog);
    for algorithm in Algorithm::one_of_each().filter(|it| !is_log(it)) {
        let (limiter, clock) = limiter(&format!("1/s by {algorithm}"));
        let edge = 5_000_000_000;
        let admits = |now: u64, cost| {
            clock.set(Timestamp::from_nanos(now));
            limiter.check_n("key", Cost::of(cost)).is_admitted()
        };
        assert!(admits(edge - 1_000_000_000, 1), "{algorithm}");
        assert!(!admits(edge, 2), "{algorithm}");
        assert!(!admits(edge - 1, 1), "{algorithm}");
    }
}

/// Times later than 109 years were read as one moment. A clock that was set to Unix time after the limiter was made locked
/// keys for good, and one that showed its zero for a moment cost decades.
#[test]
fn a_clock_may_start_anywhere_and_step_by_decades() {
    const HOUR: Duration = Duration::from_secs(3_600);
    const DECADES: u64 = 60 * 365 * 86_400;
    let both = Cost::of(2);
    let loose = "sub-windows 2 slots loose".to_owned();
    for algorithm in Algorithm::one_of_each().map(|it| it.to_string()).chain([loose]) {
        for (start, then) in [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2), (8, 9), (9, 8)] {
            let case = format!("{algorithm}, {start} to {then}");
            let (limiter, clock) = limiter(&format!("2/h by {algorithm}"));
            // Back at the start, too.
            let moments = [start, then, start].map(|it| seconds(it * DECADES));
            for (visit, moment) in moments.into_iter().enumerate() {
                let is_later = visit == 0 || moment > clock.now();
                clock.set(moment);
                // A step ahead recovers the key; a step back costs it one recovery.
                assert_eq!(limiter.peek("key").remaining(), if is_later { 2 } else { 0 }, "{case}");
                for _ in 0..3 {
                    let wait = limiter.check_n("key", both).retry_after().unwrap();
                    assert!(wait <= 2 * HOUR, "{case}: {wait:?}");
                    clock.advance(wait);
                    assert!(wait.is_zero() || limiter.check_n("key", both).is_admitted(), "{case}");
                    assert!(!limiter.check("key").is_admitted(), "{case}");
                }
            }
        }
    }
}

/// An impossible debt was replaced by a full one of the quota that asked: one with a smaller burst
/// gave the larger one a new allowance.
#[test]
fn a_step_back_gives_no_quota_what_another_one_took() {
    for algorithm in algorithms() {
        let (large, clock) = limiter(&format!("1000/s by {algorithm}"));
        let small = with(&large, "small", &format!("2/s by {algorithm}"));
        clock.set(seconds(86_400));
        assert!(large.check_n("key", Cost::of(1_000)).is_admitted());
        clock.set(seconds(10));
        assert!(!small.check("key").is_admitted());
        assert_eq!(large.peek("key").remaining(), 0, "{algorithm}");
    }
}

/// `retry_after` at 8,000,000/s was 999.84 ms, because windows were counted in rounded units.
#[test]
fn waits_are_exact_at_the_highest_rates() {
    assert!(Policy::parse("test", "8_000_000/s by fixed-window").is_err());
    let (limiter, clock) = limiter("4_999_999/s by fixed-window");
    clock.set(Timestamp::from_nanos(1_234_567_891));
    assert!(limiter.check_n("key", Cost::of(4_999_999)).is_admitted());
    assert_eq!(limiter.check("key").retry_after(), Some(SECOND));
    clock.set(Timestamp::from_nanos(2_234_567_890));
    assert!(!limiter.check("key").is_admitted());
    clock.set(Timestamp::from_nanos(2_234_567_891));
    assert!(limiter.check_n("key", Cost::of(4_999_999)).is_admitted());
}

/// Each charge over another quota's debt was dated at the beginning of its tick, so that two fast
/// quotas in turn gained up to a tick each time: a third more than either of them admits.
#[test]
fn fast_quotas_in_turn_gain_nothing_by_rounding() {
    let quota = |permits| Policy::gcra("test", Quota::per_second(permits).with_burst(2));
    let policies = [quota(4_999_999), quota(4_999_983)];
    for gap in 1..400_u64 {
        let mut limiter = Bare::new(policies[0].clone());
        let (mut now, mut admitted, start) = (3_600_000_000_007 + gap, 0, 3_600_000_000_007 + gap);
        for round in 0..2_000 {
            let mut wait = Duration::ZERO;
            let policy = &policies[round % 2];
            limiter.switch(policy);
            for _ in 0..2 {
                now += u64::try_from(wait.as_nanos()).unwrap();
                let decision = limiter.decide(Timestamp::from_nanos(now), "key", Cost::ONE);
                admitted += u64::from(decision.is_admitted());
                wait = decision.retry_after().unwrap();
            }
            now += gap;
        }
        let bound = 2 + (now - start + 128) * 5 / 1_000;
        assert!(admitted <= bound, "{admitted} admitted within {} ns, gap {gap}", now - start);
    }
}

/// A refund forgot the window that had just opened, and with it that another one was full before the edge:
/// 15 of 5 within two nanoseconds.
#[test]
fn steps_of_a_nanosecond_around_an_edge_give_nothing() {
    const EDGE: u64 = 5_000_000_000;
    let moments = [EDGE - 1, EDGE, EDGE + 1].map(Timestamp::from_nanos);
    let choices = 4 * moments.len();
    for algorithm in ["fixed-window", "aligned-window", "sub-windows 2 slots loose"] {
        let policy = parse("test", &format!("5/s by {algorithm}"));
        for schedule in 0..choices.pow(5) {
            let mut limiter = Bare::new(policy.clone());
            let mut receipts = Vec::new();
            let mut kept = 0;
            for step in 0..5 {
                let choice = schedule / choices.pow(step) % choices;
                let now = moments[choice % 3];
                if choice / 3 == 3 {
                    kept -= receipts.pop().map_or(0, |receipt| limiter.refund(now, receipt));
                    continue;
                }
                let (cost, within) = [(5, 0), (1, 0), (5, 2)][choice / 3];
                let within = Duration::from_nanos(within);
                let reservation = limiter.reserve(now, "key", Cost::of(cost), within);
                kept += if reservation.is_admitted() { cost } else { 0 };
                receipts.extend(reservation.into_receipt());
            }
            assert!(kept <= 10, "{kept} by {algorithm}, schedule {schedule}");
        }
    }
}

/// Their default horizons were 70 s and 60 s, so a peek by one replaced a state that the other had left, and a reservation was
/// forgotten.
#[test]
fn sub_windows_that_share_a_state_agree_on_which_are_possible() {
    let (loose, clock) = limiter("7/70s by sub-windows 7 slots loose");
    let strict = with(&loose, "test", "6/60s by sub-windows 6 slots");
    assert_eq!(loose.policy().identities(), strict.policy().identities());
    let other = loose.reserve("other", Cost::ONE, Duration::ZERO).into_receipt().unwrap();
    assert!(loose.check_n("key", Cost::of(7)).is_admitted());
    let reserved = loose.reserve("key", Cost::of(7), 70 * SECOND);
    assert_eq!(reserved.delay(), Some(70 * SECOND));
    strict.peek("key");
    assert_eq!(loose.refund(other), 1);
    clock.advance(80 * SECOND);
    // All are reserved for 70 s.
    assert_eq!(loose.check("key").retry_after(), Some(60 * SECOND));
}
