//! Limits as text: what is read, how it prints, and what each error says.

use std::time::Duration;

use limiter_core::{Algorithm, ErrorKind, Policy, Quota, Slots};
use proptest::prelude::*;

use crate::pairs;

const ALGORITHMS: &str = "use gcra, token-bucket, leaky-bucket, leaky-queue depth N, fixed-window, \
                          aligned-window, sub-windows N slots [loose] [paced], sliding-counter or \
                          sliding-log";

#[test]
fn quotas_are_read_and_print_in_shortest_form() {
    let rows = [
        ("100/min", (100, 60_000, 100), "100/min"),
        ("100/min burst 20", (100, 60_000, 20), "100/min burst 20"),
        ("100/min burst 100", (100, 60_000, 100), "100/min"),
        ("100/min Burst 20", (100, 60_000, 20), "100/min burst 20"),
        ("5/s", (5, 1_000, 5), "5/s"),
        ("5/sec", (5, 1_000, 5), "5/s"),
        ("5/second", (5, 1_000, 5), "5/s"),
        ("5/10 seconds", (5, 10_000, 5), "5/10s"),
        ("5/10secs", (5, 10_000, 5), "5/10s"),
        ("5/60s", (5, 60_000, 5), "5/min"),
        ("5/90s", (5, 90_000, 5), "5/90s"),
        ("5/m", (5, 60_000, 5), "5/min"),
        ("5/minute", (5, 60_000, 5), "5/min"),
        ("5/2 mins", (5, 120_000, 5), "5/2min"),
        ("5/2minutes", (5, 120_000, 5), "5/2min"),
        ("5/60min", (5, 3_600_000, 5), "5/h"),
        ("5/hour", (5, 3_600_000, 5), "5/h"),
        ("5/2 hours", (5, 7_200_000, 5), "5/2h"),
        ("5/36h", (5, 36 * 3_600_000, 5), "5/36h"),
        ("5/day", (5, 86_400_000, 5), "5/d"),
        ("5/2days", (5, 2 * 86_400_000, 5), "5/2d"),
        ("5/24h", (5, 86_400_000, 5), "5/d"),
        ("3/2d", (3, 2 * 86_400_000, 3), "3/2d"),
        ("10/500ms", (10, 500, 10), "10/500ms"),
        ("10/ms", (10, 1, 10), "10/ms"),
        ("10/1000ms", (10, 1_000, 10), "10/s"),
        ("1_000/h", (1_000, 3_600_000, 1_000), "1000/h"),
        ("1_000_000/1_000s burst 1_0", (1_000_000, 1_000_000, 10), "1000000/1000s burst 10"),
        ("007/01s", (7, 1_000, 7), "7/s"),
        ("  10  /  5  s  burst   7  ", (10, 5_000, 7), "10/5s burst 7"),
        ("1/366d", (1, 366 * 86_400_000, 1), "1/366d"),
        ("5_000_000/s", (5_000_000, 1_000, 5_000_000), "5000000/s"),
    ];
    for (text, (permits, window, burst), printed) in rows {
        let quota = Quota::new(permits, Duration::from_millis(window)).unwrap().with_burst(burst);
        assert_eq!(text.parse::<Quota>().unwrap(), quota, "{text}");
        assert_eq!(quota.to_string(), printed);
    }
}

#[test]
fn invalid_quotas_are_quoted_with_a_remedy() {
    let no_slash = "it has no \"/\"; write permits per time, as in 100/min";
    let digits = "use digits, as in 100 or 1_000";
    let no_time = "is not a time; use a whole number and one of ms, s, min, h or d, as in 90s or \
                   500ms";
    let too_fast = "the rate must be at most 5,000,000 permits a second";
    let window = "the window must be from 1ms to 366d";
    let unexpected = |word| format!("unexpected {word:?}; use burst, horizon or by");
    let second = |limit| {
        let remedy = "write one limit, and combine several with `Policy::all_of` or in a file";
        format!("{limit:?} is a second limit; {remedy}")
    };
    let rows = [
        ("", no_slash.into()),
        ("100", no_slash.into()),
        ("100 per minute", no_slash.into()),
        ("/", format!("the number of permits \"\" is not a whole number; {digits}")),
        ("/min", format!("the number of permits \"\" is not a whole number; {digits}")),
        ("-1/min", format!("the number of permits \"-1\" is not a whole number; {digits}")),
        ("+1/min", format!("the number of permits \"+1\" is not a whole number; {digits}")),
        ("1.5/min", format!("the number of permits \"1.5\" is not a whole number; {digits}")),
        ("_1/min", format!("the number of permits \"_1\" is not a whole number; {digits}")),
        ("1__0/min", format!("the number of permits \"1__0\" is not a whole number; {digits}")),
        ("1 0/min", format!("the number of permits \"1 0\" is not a whole number; {digits}")),
        (
            "\u{663}/min",
            format!("the number of permits \"\u{663}\" is not a whole number; {digits}"),
        ),
        ("0/min", "permits must be at least 1".into()),
        ("4294967295/s", too_fast.into()),
        ("18446744073709551616/s", too_fast.into()),
        ("100/", format!("\"\" {no_time}")),
        ("100/5", format!("\"5\" {no_time}")),
        ("100/fortnight", format!("\"fortnight\" {no_time}")),
        ("100/Min", format!("\"Min\" {no_time}")),
        ("100/5\u{b5}s", format!("\"5\u{b5}s\" {no_time}")),
        ("100/min.", format!("\"min.\" {no_time}")),
        ("5/1.5s", format!("\"1.5s\" {no_time}")),
        ("5/-1s", format!("\"-1s\" {no_time}")),
        ("5/1m30s", format!("\"1m30s\" {no_time}")),
        ("100/min, 5/s", second("5/s")),
        ("10/s 100/min", second("100/min")),
        ("10 / s burst 5 100/min", second("100/min")),
        ("10/1 s brust 20", unexpected("brust")),
        ("100/_5s", format!("the time \"_5\" is not a whole number; {digits}")),
        ("100/0s", window.into()),
        ("100/367d", window.into()),
        ("100/213503982335d", window.into()),
        ("1/18446744073709551616ms", window.into()),
        ("100/min burst20", unexpected("burst20")),
        ("5/s burst", "\"burst\" has no value; add one, or remove it".into()),
        ("100/min burst x", format!("the burst \"x\" is not a whole number; {digits}")),
        ("100/min burst 5 bye gcra", unexpected("bye")),
        ("100/min burst 5 burst 6", "\"burst\" is given twice; use it once".into()),
        ("100/min burst 0", "the burst must be at least 1".into()),
        (
            "1/d burst 1_831",
            "the burst must recover within 1,830 days; lower it or raise the rate".into(),
        ),
        ("5/s by gcra", "a quota has no horizon and no algorithm; leave them out".into()),
        ("5/s horizon 5s", "a quota has no horizon and no algorithm; leave them out".into()),
    ];
    for (text, fault) in rows {
        let error = text.parse::<Quota>().unwrap_err();
        assert_eq!(error.to_string(), format!("invalid quota {text:?}: {fault}"));
        assert_eq!(error.kind(), ErrorKind::InvalidQuota);
    }
}

#[test]
fn algorithms_are_read_and_print_alike() {
    let strict = Slots::strict;
    let loose = Slots::loose;
    let rows = [
        ("gcra", Algorithm::Gcra),
        ("leaky-queue depth 50", Algorithm::LeakyQueue { depth: 50 }),
        ("fixed-window", Algorithm::FixedWindow),
        ("aligned-window", Algorithm::AlignedWindow),
        ("sub-windows 60 slots", Algorithm::SubWindows(strict(60))),
        ("sub-windows 60 slots paced", Algorithm::SubWindows(strict(60).paced())),
        ("sub-windows 60 slots loose", Algorithm::SubWindows(loose(60))),
        ("sub-windows 60 slots loose paced", Algorithm::SubWindows(loose(60).paced())),
        ("sliding-counter", Algorithm::SlidingCounter),
        ("sliding-log", Algorithm::SlidingLog),
    ];
    for (text, algorithm) in rows {
        assert_eq!(text.parse::<Algorithm>().unwrap(), algorithm);
        assert_eq!(text.to_uppercase().parse::<Algorithm>().unwrap(), algorithm);
        assert_eq!(algorithm.to_string(), text);
    }
    let others = [
        ("token-bucket", Algorithm::Gcra),
        ("leaky-bucket", Algorithm::Gcra),
        ("  leaky-queue \t depth 1_000 ", Algorithm::LeakyQueue { depth: 1_000 }),
    ];
    for (text, algorithm) in others {
        assert_eq!(text.parse::<Algorithm>().unwrap(), algorithm);
    }
}

#[test]
fn invalid_algorithms_are_quoted_with_a_remedy() {
    let range = "the number of slots must be from 1 to 10000";
    let rows = [
        (
            "leaky-queue depth deep",
            "the depth \"deep\" is not a whole number; use digits, as in 100 or 1_000",
        ),
        ("sub-windows 0 slots", range),
        ("sub-windows 10001 slots", range),
        ("sub-windows 4294967297 slots loose", range),
    ];
    let unknown = [
        "",
        "slidinglog",
        "tok\u{e9}n bucket",
        "gcra paced",
        "leaky-queue",
        "leaky-queue 50",
        "leaky-queue depth 5 6",
        "fixed-window aligned",
        "sub-windows",
        "sub-windows 60",
        "sub-windows 60 slots paced loose",
    ];
    let unknown = unknown.map(|text| (text, format!("unknown algorithm {text:?}; {ALGORITHMS}")));
    let rows = rows.map(|(text, fault)| (text, fault.to_owned()));
    for (text, fault) in rows.into_iter().chain(unknown) {
        let error = text.parse::<Algorithm>().unwrap_err();
        assert_eq!(error.to_string(), format!("invalid algorithm {text:?}: {fault}"));
        assert_eq!(error.kind(), ErrorKind::InvalidSetting);
    }
}

#[test]
fn limits_are_read_and_print_in_shortest_form() {
    let rows = [
        ("100/min", "100/min"),
        ("100/min by gcra", "100/min"),
        ("5/s by GCRA", "5/s"),
        ("5/s BY Sliding-Log", "5/s by sliding-log"),
        ("100/min burst 20 by token-bucket", "100/min burst 20"),
        ("100/min burst 20 by leaky-bucket", "100/min burst 20"),
        ("100/min\tby\tsliding-log", "100/min by sliding-log"),
        ("60/60s by sub-windows 60 slots paced", "60/min by sub-windows 60 slots paced"),
        ("5/s by leaky-queue depth 50", "5/s by leaky-queue depth 50"),
        ("5/s horizon 90s", "5/s horizon 90s"),
        ("5/s horizon 0s", "5/s horizon 0d"),
        ("5/s horizon 1 minute", "5/s horizon 1min"),
        ("1/d horizon 1_830 days", "1/d horizon 1830d"),
        ("100/min burst 20 horizon 300s by token-bucket", "100/min burst 20 horizon 5min"),
        ("100/min by sliding-log horizon 5min", "100/min horizon 5min by sliding-log"),
    ];
    for (text, printed) in rows {
        let policy = Policy::parse("api", text).unwrap();
        assert_eq!((policy.limits().len(), policy.limits()[0].name()), (1, "api"));
        assert_eq!(policy.limits()[0].to_string(), printed);
        assert_eq!(Policy::parse("api", printed).unwrap(), policy);
    }
    let horizon = |text| Policy::parse("api", text).unwrap().limits()[0].horizon();
    assert_eq!(horizon("5/s horizon 90s"), Duration::from_secs(90));
    assert_eq!(horizon("5/s"), Duration::from_secs(60));
}

#[test]
fn invalid_limits_are_refused_by_the_part_that_is_wrong() {
    for (text, message) in pairs(INVALID_LIMITS) {
        let error = Policy::parse("api", text).unwrap_err();
        let is_setting = message.starts_with("invalid horizon");
        let kind = if is_setting { ErrorKind::InvalidSetting } else { ErrorKind::InvalidQuota };
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, message));
    }
    assert_eq!(Policy::parse("", "1/s").unwrap_err().kind(), ErrorKind::InvalidName);
}

/// A limit, and below it the error.
const INVALID_LIMITS: &str = r#"
100/fortnight by gcra
    invalid limit "100/fortnight by gcra": "fortnight" is not a time; use a whole number and one of ms, s, min, h or d, as in 90s or 500ms
by gcra
    invalid limit "by gcra": it has no "/"; write permits per time, as in 100/min
5/s by
    invalid limit "5/s by": "by" has no value; add one, or remove it
5/s burst by gcra
    invalid limit "5/s burst by gcra": "burst" has no value; add one, or remove it
5/s horizon
    invalid limit "5/s horizon": "horizon" has no value; add one, or remove it
5/s horizon 1.5s
    invalid limit "5/s horizon 1.5s": "1.5s" is not a time; use a whole number and one of ms, s, min, h or d, as in 90s or 500ms
5/s horizon 90s more
    invalid limit "5/s horizon 90s more": unexpected "more"; use burst, horizon or by
5/s horizon 1831d
    invalid horizon "1831d" for "api": use at most 1,830 days
5/s horizon 5s by leaky-queue depth 5
    invalid horizon "5s" for "api": the depth of a leaky queue is its horizon; set the depth
100/min by gcra by gcra
    invalid limit "100/min by gcra by gcra": "by" is given twice; use it once
100/min burst 20 by sliding-log
    invalid quota "100/min burst 20": sliding-log has no burst of its own; leave the burst out
100/min gcra
    invalid limit "100/min gcra": unexpected "gcra"; use burst, horizon or by
5/s by leaky-queue depth 18446744073709551616
    invalid quota "5/s": a depth of 18446744073709551615 takes longer than 1,830 days; lower it
"#;

/// A message quotes at most 80 characters of a text, however long the text is.
#[test]
fn long_texts_are_quoted_in_part() {
    let long = "x".repeat(100_000);
    let texts = [
        long.clone(),
        format!("{long}/s"),
        format!("5/{long}"),
        format!("5/s {long}"),
        format!("5/1{long}.s"),
        format!("5/s burst {long}"),
        format!("5/s horizon {long}"),
        format!("5/s horizon 1.{long}"),
        format!("5/s by {long}"),
        format!("5/s by gcra {long}"),
        format!("5/s by leaky-queue depth {long}"),
        format!("5/s by by {long}"),
        "9".repeat(100_000),
    ];
    for text in texts {
        let error = Policy::parse("api", &text).unwrap_err().to_string();
        assert!(error.len() < 400, "{error}");
        let error = text.parse::<Quota>().unwrap_err().to_string();
        assert!(error.len() < 400, "{error}");
    }
    let error = Policy::parse(&long, "5/s").unwrap_err().to_string();
    assert!(error.len() < 400, "{error}");
}

proptest! {
    #[test]
    fn every_quota_reads_back(quota in quotas()) {
        prop_assert_eq!(quota.to_string().parse::<Quota>().unwrap(), quota);
    }

    #[test]
    fn every_algorithm_reads_back(algorithm in algorithms()) {
        prop_assert_eq!(algorithm.to_string().parse::<Algorithm>().unwrap(), algorithm);
    }

    #[test]
    fn every_limit_reads_back(
        quota in quotas(),
        algorithm in algorithms(),
        horizon in proptest::option::of(0..=1_830 * 86_400_000_u64),
    ) {
        // Most algorithms serve a quota only without a burst of its own.
        let even = Quota::new(quota.permits(), quota.window()).unwrap();
        for quota in [quota, even] {
            let Ok(policy) = Policy::new("api", algorithm, quota) else { continue };
            let policy = match horizon.map(|h| policy.clone().with_horizon(Duration::from_millis(h))) {
                Some(Ok(policy)) => policy,
                _ => policy,
            };
            let text = policy.limits()[0].to_string();
            prop_assert_eq!(Policy::parse("api", &text).unwrap(), policy);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[0-9_/a-z ]{0,30}|[0-9]{1,3}/(s|min) (burst|horizon|by)? ?\\PC{0,10}|\\PC{0,30}") {
        if let Ok(policy) = Policy::parse("api", &text) {
            let printed = policy.limits()[0].to_string();
            prop_assert_eq!(Policy::parse("api", &printed).unwrap(), policy);
        }
    }
}

fn quotas() -> impl Strategy<Value = Quota> {
    let millis = prop_oneof![1..=366_u64, 1..=366 * 86_400_000_u64];
    let unit = prop_oneof![Just(1), Just(1_000), Just(60_000), Just(3_600_000), Just(86_400_000)];
    let magnitude = (any::<u64>(), 24..64_u32).prop_map(|(bits, shift)| (bits >> shift).max(1));
    let burst = proptest::option::of(magnitude.clone());
    (magnitude, millis, unit, burst).prop_filter_map(
        "a quota out of range",
        |(permits, number, unit, burst)| {
            let quota = Quota::new(permits, Duration::from_millis(number * unit)).ok()?;
            burst.map_or(Some(quota), |burst| quota.try_with_burst(burst).ok())
        },
    )
}

fn algorithms() -> impl Strategy<Value = Algorithm> {
    let slots =
        (1..=Slots::MAX, any::<bool>(), any::<bool>()).prop_map(|(number, loose, paced)| {
            let make = if loose && number > 1 { Slots::loose } else { Slots::strict };
            let slots = make(number);
            Algorithm::SubWindows(if paced { slots.paced() } else { slots })
        });
    prop_oneof![
        Just(Algorithm::Gcra),
        (any::<u64>(), 0..64_u32)
            .prop_map(|(bits, shift)| Algorithm::LeakyQueue { depth: bits >> shift }),
        Just(Algorithm::FixedWindow),
        Just(Algorithm::AlignedWindow),
        slots,
        Just(Algorithm::SlidingCounter),
        Just(Algorithm::SlidingLog),
    ]
}
