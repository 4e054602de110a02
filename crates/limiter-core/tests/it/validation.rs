//! Bad values are refused when a thing is built, in words that quote them.

use std::time::Duration;

use limiter_core::{Cost, Error, ErrorKind, Policy, Quota, algorithm::Gcra};

fn assert_refused<T: std::fmt::Debug>(result: Result<T, Error>, kind: ErrorKind, message: &str) {
    let error = result.unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (kind, message));
}

#[test]
fn bad_quotas_are_refused() {
    let second = Duration::from_secs(1);
    let rows = [
        (Quota::per_minute(0), "a quota of 0 permits per 60s: allow at least 1"),
        (Quota::per(0, second), "a quota of 0 permits per 1s: allow at least 1"),
        (Quota::per(10, Duration::ZERO), "a window of 0ns: use at least 1ms"),
        (Quota::per(10, Duration::from_micros(1_500)), "a window of 1.5ms: use whole milliseconds"),
        (Quota::per(10, Duration::from_nanos(1)), "a window of 1ns: use whole milliseconds"),
        (
            Quota::per(10, Duration::from_secs(367 * 86_400)),
            "a window of 31708800s: use at most 366 days",
        ),
        (
            Quota::per(10, Duration::MAX),
            "a window of 18446744073709551615.999999999s: use at most 366 days",
        ),
        (
            Quota::per_second(5).and_then(|quota| quota.with_burst(0)),
            "a burst of 0 for a quota of 5/s: use at least 1",
        ),
        (
            Quota::per_day(1).and_then(|quota| quota.with_burst(1_831)),
            "a burst of 1831 for a quota of 1/d: it would take longer than 1830 days to recover",
        ),
        (
            Quota::per_second(1).and_then(|quota| quota.with_burst(u64::MAX)),
            "a burst of 18446744073709551615 for a quota of 1/s: it would take longer than 1830 days to recover",
        ),
    ];
    for (result, message) in rows {
        assert_refused(result, ErrorKind::InvalidQuota, message);
    }
}

#[test]
fn extreme_quotas_are_held() {
    let longest = Quota::per(1, Quota::MAX_WINDOW).and_then(|quota| quota.with_burst(5));
    let shortest = Quota::per(5_000, Duration::from_millis(1));
    let uneven = Quota::per_second(4_999_999);
    let fast_and_even = Quota::per_second(400_000_000);
    for quota in [longest, shortest, uneven, fast_and_even] {
        Gcra::new(&quota.unwrap()).unwrap();
    }
}

#[test]
fn a_rate_that_would_be_rounded_is_refused() {
    for permits in [333_333_333, u64::MAX] {
        let error = Gcra::new(&Quota::per_second(permits).unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidQuota);
        let quoted =
            format!("a quota of {permits}/s: its rate can't be held within 0.1 % in nanoseconds");
        assert!(error.to_string().starts_with(&quoted), "{error}");
    }
}

#[test]
fn bad_policy_names_are_refused() {
    let quota = Quota::per_second(1).unwrap();
    let long = "x".repeat(65);
    let rows = [
        ("", "the policy name \"\": it is empty".to_owned()),
        (long.as_str(), format!("the policy name \"{long}\": it is longer than 64 bytes")),
        (
            "a\nb",
            "the policy name \"a\\nb\": only printable ASCII can stand in a header field"
                .to_owned(),
        ),
        (
            "größe",
            "the policy name \"größe\": only printable ASCII can stand in a header field"
                .to_owned(),
        ),
    ];
    for (name, message) in rows {
        assert_refused(Policy::gcra(name, quota), ErrorKind::InvalidName, &message);
    }
    for name in ["default", "a b", "quoted \" and \\", "~"] {
        assert_eq!(Policy::gcra(name, quota).unwrap().name(), name);
    }
}

#[test]
fn a_cost_of_zero_is_refused() {
    assert_refused(Cost::new(0), ErrorKind::InvalidCost, "a cost of 0 permits: use at least 1");
}
