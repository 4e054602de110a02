//! Invalid values are refused where they are constructed, and the error quotes them.

use std::{
    panic::{catch_unwind, set_hook, take_hook},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use limiter_core::{Algorithm, Cost, Error, ErrorKind, Limit, MemoryLimiter, Policy, Quota, Slots};

use crate::pairs;

fn assert_refused<T: std::fmt::Debug>(result: Result<T, Error>, kind: ErrorKind, message: &str) {
    let error = result.unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (kind, message));
}

#[test]
fn invalid_quotas_are_refused() {
    let second = Duration::from_secs(1);
    let window = "the window must be from 1ms to 366d";
    let fractions = "the window must be a whole number of milliseconds";
    let rate = "the rate must be at most 5,000,000 permits a second";
    let rows = [
        (0, second, "0 per 1s", "permits must be at least 1"),
        (10, Duration::ZERO, "10 per 0ns", window),
        (10, Duration::from_micros(1_500), "10 per 1.5ms", fractions),
        (10, Duration::from_nanos(1), "10 per 1ns", fractions),
        (10, Duration::from_secs(367 * 86_400), "10 per 31708800s", window),
        (10, Duration::MAX, "10 per 18446744073709551615.999999999s", window),
        (5_000_001, second, "5000001 per 1s", rate),
        (5_001, Duration::from_millis(1), "5001 per 1ms", rate),
        (u64::MAX, Quota::MAX_WINDOW, "18446744073709551615 per 31622400s", rate),
    ];
    for (permits, window, given, fault) in rows {
        let message = format!("invalid quota \"{given}\": {fault}");
        assert_refused(Quota::new(permits, window), ErrorKind::InvalidQuota, &message);
    }
}

#[test]
fn invalid_bursts_are_refused() {
    let slow = "the burst must recover within 1,830 days; lower it or raise the rate";
    let rows = [
        (Quota::per_second(5), 0, "5/s burst 0", "the burst must be at least 1"),
        (Quota::per_day(1), 1_831, "1/d burst 1831", slow),
        (Quota::per_second(1), u64::MAX, "1/s burst 18446744073709551615", slow),
    ];
    for (quota, burst, given, fault) in rows {
        let message = format!("invalid quota \"{given}\": {fault}");
        assert_refused(quota.try_with_burst(burst), ErrorKind::InvalidQuota, &message);
        let panicked = catch_unwind(|| quota.with_burst(burst)).unwrap_err();
        assert_eq!(panicked.downcast_ref::<String>().unwrap(), fault);
    }
}

#[test]
fn extreme_quotas_are_served() {
    for text in [
        "1/366d burst 5",
        "5000/ms",
        "4999999/s",
        "5000000/s",
        // All at once, a permit would have to be counted too finely for Redis.
        "158112000000000/366d burst 1000",
        "1/d by leaky-queue depth 1830",
        "5000000/s by fixed-window",
        "158112000000000/366d by fixed-window",
        "50000000/min by sliding-counter",
        "1000000/s by sliding-log",
        "5/ms by sub-windows 7 slots",
        "5/ms by sub-windows 1000 slots",
        "5/10s by sub-windows 10000 slots",
    ] {
        drop(MemoryLimiter::new(Policy::parse("api", text).unwrap()));
    }
}

#[test]
fn invalid_names_are_refused() {
    let quota = Quota::per_second(1);
    let long = "x".repeat(65);
    let longer = "x".repeat(100_000);
    let quoted = format!("{}...", "x".repeat(80));
    let rows = [
        ("", "", "use at least one character"),
        (&long, &long, "use at most 64 bytes"),
        (&longer, &quoted, "use at most 64 bytes"),
        ("a\nb", "a\\nb", "use printable ASCII only"),
        ("größe", "größe", "use printable ASCII only"),
    ];
    for (name, quoted, remedy) in rows {
        let policy = Policy::new(name, Algorithm::Gcra, quota);
        let message = format!("invalid policy name \"{quoted}\": {remedy}");
        assert_refused(policy, ErrorKind::InvalidName, &message);
        let policy = Policy::all_of(name, [Policy::gcra("a", quota)]);
        assert_refused(policy, ErrorKind::InvalidName, &message);
    }
    for name in ["default", "a b", "quoted \" and \\", "~"] {
        assert_eq!(Policy::gcra(name, quota).name(), name);
    }
}

#[test]
fn a_cost_of_zero_is_refused() {
    let message = "invalid cost 0: it must be at least 1";
    assert_refused(Cost::new(0), ErrorKind::InvalidCost, message);
    assert!(catch_unwind(|| Cost::of(0)).is_err());
}

/// Without a backtrace, the place in a panic's message is all that finds the constant.
#[test]
fn a_panic_names_the_place_of_the_invalid_constant() {
    let constants: [fn(); 8] = [
        || _ = Quota::per_minute(0),
        || _ = Quota::per_second(5).with_burst(0),
        || _ = Cost::of(0),
        || _ = Slots::strict(0),
        || _ = Slots::loose(1),
        || _ = Policy::gcra("", Quota::per_second(5)),
        || _ = Policy::leaky_bucket("api", 0, Quota::per_second(5)),
        || _ = Policy::sliding_log("", Quota::per_second(5)),
    ];
    let (test, before) = (thread::current().id(), take_hook());
    let files = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&files);
    set_hook(Box::new(move |panic| {
        if thread::current().id() == test {
            seen.lock().unwrap().push(panic.location().unwrap().file().to_owned());
        } else {
            before(panic);
        }
    }));
    for constant in constants {
        catch_unwind(constant).unwrap_err();
    }
    // A copy, because the hook locks the list when the assertion fails.
    let files = files.lock().unwrap().clone();
    assert_eq!(files, [file!(); 8]);
}

/// Which quotas each algorithm refuses, for every store alike.
#[test]
fn quotas_that_an_algorithm_cannot_serve_are_refused() {
    let slots = |number| Algorithm::SubWindows(Slots::strict(number));
    let bursty = Quota::per_minute(60).with_burst(5);
    let own_burst = |family| format!("{family} has no burst of its own; leave the burst out");
    let rows = [
        (
            Algorithm::SlidingCounter,
            Quota::per_day(50_000_001),
            "a sliding counter counts at most 50,000,000 permits; use sub-windows".into(),
        ),
        (
            Algorithm::LeakyQueue { depth: 1_831 },
            Quota::per_day(1),
            "a depth of 1831 takes longer than 1,830 days; lower it".into(),
        ),
    ];
    let windows = Algorithm::one_of_each().filter(|it| !it.is_continuous());
    let windows = windows.map(|it| (it, bursty, own_burst(it.family())));
    for (algorithm, quota, fault) in windows.chain(rows) {
        let message = format!("invalid quota \"{quota}\": {fault}");
        let policy = Policy::new("api", algorithm, quota);
        assert_refused(policy, ErrorKind::InvalidQuota, &message);
    }
    for (algorithm, quota) in [
        (Algorithm::SlidingLog, Quota::per_day(1_000_001)),
        (slots(10_000), Quota::new(10, Duration::from_millis(3)).unwrap()),
        (slots(1_002), Quota::new(5, Duration::from_millis(1)).unwrap()),
    ] {
        let error = Policy::new("api", algorithm, quota).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidQuota, "{error}");
        assert!(error.to_string().starts_with(&format!("invalid quota \"{quota}\": ")), "{error}");
    }
}

/// Returns a policy of limits that are given by their names and quotas.
fn several(limits: &str) -> Result<Policy, Error> {
    let limits = limits.split(", ").filter_map(|limit| limit.split_once(' '));
    Policy::all_of("api", limits.map(|(name, text)| Policy::parse(name, text).unwrap()))
}

#[test]
fn several_limits_differ_in_name_and_in_quota_or_algorithm() {
    for (limits, number) in [
        ("a 100/s burst 5, b 50/min", 2),
        ("a 10/s, b 10/s by sliding-log", 2),
        // The second never refuses.
        ("a 10/s burst 1, b 40000/h", 2),
        ("a 10/s, b 20/s", 2),
        ("a 10/s", 1),
        ("a 10/s by sub-windows 5 slots paced, b 10/min by sub-windows 6 slots", 2),
        ("a 1/s, b 2/s, c 3/s, d 4/s, e 5/s, f 6/s, g 7/s, h 8/s", 8),
    ] {
        assert_eq!(several(limits).unwrap().limits().len(), number, "{limits}");
    }
    // As many entries as several logs of one key may have.
    for log in ["1001/s by sliding-log", "5/10s by sub-windows 1001 slots"] {
        let error = several(&format!("a {log}, b 10/h")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidQuota, "{error}");
    }
    for (limits, fault) in pairs(INVALID_LISTS) {
        let is_name = fault.starts_with("two limits");
        let kind = if is_name { ErrorKind::InvalidName } else { ErrorKind::InvalidSetting };
        assert_refused(several(limits), kind, &format!("invalid policy \"api\": {fault}"));
    }
}

/// Limits, and below them the error.
const INVALID_LISTS: &str = r#"
none
    it has 0 limits; use 1 to 8
a 1/s, b 2/s, c 3/s, d 4/s, e 5/s, f 6/s, g 7/s, h 8/s, i 9/s
    it has 9 limits; use 1 to 8
a 5/s, a 9/min
    two limits are named "a"; rename one
a 5/s, b 5/s
    "a" and "b" are the same limit (5/s); leave one out
a 5/s, b 5/s by token-bucket
    "a" and "b" are the same limit (5/s); leave one out
a 6/s by sub-windows 6 slots paced, b 60/min by sub-windows 6 slots paced
    "a" and "b" are paced; their slots might never agree; pace one
"#;

#[test]
fn a_policy_of_policies_has_all_their_limits() {
    let [a, b, c] = [("a", "5/s"), ("b", "9/min"), ("c", "50/h")]
        .map(|(name, text)| Policy::parse(name, text).unwrap());
    let outer = Policy::all_of("outer", [c, Policy::all_of("inner", [a, b]).unwrap()]).unwrap();
    let names: Vec<_> = outer.limits().iter().map(Limit::name).collect();
    assert_eq!(names, ["a", "b", "c"]);
}

#[test]
fn a_horizon_is_whole_milliseconds_up_to_the_longest_recovery() {
    let policy = Policy::gcra("api", Quota::per_second(1));
    let rows = [
        (Quota::MAX_RECOVERY + Duration::from_millis(1), "use at most 1,830 days"),
        (Duration::MAX, "use at most 1,830 days"),
        (Duration::from_micros(1), "use a whole number of milliseconds"),
    ];
    for (horizon, remedy) in rows {
        let message = format!("invalid horizon \"{horizon:?}\" for \"api\": {remedy}");
        assert_refused(policy.clone().with_horizon(horizon), ErrorKind::InvalidSetting, &message);
    }
    let longest = policy.with_horizon(Quota::MAX_RECOVERY).unwrap();
    assert_eq!(longest.limits()[0].horizon(), Quota::MAX_RECOVERY);
}

/// A single loose slot was an aligned window by another name, and needed rules of its own where the clock
/// steps back.
#[test]
fn a_single_loose_slot_is_refused() {
    let fault = "a single loose slot is an aligned window; use";
    let error = Slots::try_loose(1).unwrap_err();
    assert_eq!(error.to_string(), format!("invalid slots \"1 loose\": {fault} that, or 2 slots"));
    for text in ["sub-windows 1 slots loose", "sub-windows 1 slots loose paced"] {
        let error = text.parse::<Algorithm>().unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("invalid algorithm {text:?}: {fault} aligned-window")
        );
    }
}
